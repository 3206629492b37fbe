# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""Rows of few classes, each read once: the set of every row, or the score of its label.

A program holds a row (`held.py`) and walks its ranks until a score passes the limit, or the label is reached, or
STEPS are taken; then the row is marked, with a size of −1 or a rank of −2 − r, and listed for `whole.py`. Where a score
looks at a class beside the best one, some sets have all classes, which is known before the first step.
"""

from functools import lru_cache

import torch

from pippin.torch.kernels.filled import BESIDE, LEFT, ROWS_FROM, Formula, Found, Left, Limits, Placed
from pippin.torch.kernels.formula import draw_of, flat_members, limit_of, linear
from pippin.torch.kernels.held import bits_of, held, price_of, signed, start, take, tile, value_of
from pippin.torch.kernels.language import constexpr, jit, launch, power_of_2, tl
from pippin.torch.kernels.softmax import NEAR, is_odd, prob

STEPS = 24
REGISTERS = 72  # of a thread: with half of what it would take, nearly twice as many rows are under way


@jit
def _sets(
    x, table, formula, draws, highest, limits, rank_limits, group, sizes, members, mask, left, turn,
    K: constexpr, DEEP: constexpr, WIDE: constexpr, EACH: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
    BESIDE: constexpr, DRAWN: constexpr, GROUPED: constexpr, BY_CLASS: constexpr, BY_RANK: constexpr, MASK: constexpr,
    STEPS: constexpr, WIDTH: constexpr, LISTED: constexpr, ROWS_FROM: constexpr,
):  # fmt: skip
    """The set of one row, which one warp holds: nobody waits for others, and a short set ends a short walk."""
    row = tl.program_id(0).to(tl.int64)
    index, p, top, scale, _ = held(x, row, K, DEEP, WIDE, EACH, SOFTMAX)
    bits = bits_of(p)
    broken = scale != scale
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    u = draw_of(draws, row, DRAWN)
    g, limit = limit_of(highest, group, row, GROUPED)
    size = tl.full((), 0, tl.int32)
    rank = tl.full((), 0, tl.int32)
    mass = tl.full((), 0.0, tl.float64)
    known = tl.full((), 1, tl.int1)
    slot = tl.arange(0, LISTED)
    listed = tl.full((LISTED,), -1, tl.int32)
    inside = tl.zeros((WIDE, DEEP, EACH), tl.int1)
    if LINEAR == 0:
        enough = limit
        if BY_CLASS:
            enough = tl.full((), -1.0, tl.float64)
        mass, known = price_of(bits, price, enough, K, STEPS)
    if BESIDE & (K > STEPS):  # a class without probability is a member of a set that has all
        known = flat_members(0.0 * scale, table, formula, scale if SOFTMAX else top, limit) == 0
    going = known & (broken == 0)
    front, classes, behind, last, after = start(bits)
    least, final = signed(last - 1), tl.full((), -1, tl.int32)  # the last member
    while going & (rank < K) & (rank < STEPS):
        best, k, front, classes, behind, last, after = take(bits, front, classes, behind, last, after)
        wide = value_of(best)
        if LINEAR:
            before = mass
            if rank == 0:  # noqa: SIM102 - kernels have no "and"
                if second != 0.0:
                    other = tl.maximum(tl.max(front, axis=0), behind)
                    before = second * value_of(tl.where(after < 2147483647, best, other))
            score = linear(table, rank, constant, wide, before, u)
            mass += tl.load(table + rank * 5 + 2) * wide
        else:
            score = 1.0 / wide
            if rank > 0:
                score = tl.maximum(score, mass)
        going = (best >= 0) & (score <= limit)
        member = going
        if BY_CLASS:
            member = member & (score <= tl.load(limits + g * K + k, mask=going, other=0.0))
            if BY_RANK:
                member = member & (rank < tl.load(rank_limits + g * K + k, mask=going, other=0))
        listed = tl.where(member & (slot == size), k, listed)
        if MASK & BY_CLASS:
            inside = inside | (member & (index == k))
        size += member.to(tl.int32)
        least, final = tl.where(member, best, least), tl.where(member, k, final)
        rank += 1
    settled = (known & ((going == 0) | (rank == K))) | broken
    tl.store(sizes + row, tl.where(settled, size, -1).to(tl.int64))
    if settled == 0:
        tl.store(left + ROWS_FROM + tl.atomic_add(left + turn, 1, sem="relaxed"), row.to(tl.int32))
    tl.store(members + row * WIDTH + slot, listed.to(tl.int64), mask=slot < WIDTH)
    for first in range(LISTED, WIDTH, LISTED):
        tl.store(members + row * WIDTH + first + slot, tl.full((LISTED,), -1, tl.int64), mask=first + slot < WIDTH)
    if MASK:
        upto = tl.full((), K, tl.int32)
        if BY_CLASS == 0:  # of a row that is left all is written by whoever ranks it; else its members are added
            upto = tl.where(settled, K, 0)
            inside = (signed(bits) > least) | ((signed(bits) == least) & (index <= final))
        tl.store(mask + row * K + index, inside.to(tl.int8), mask=index < upto)


@jit
def _labels(
    x, labels, table, formula, draws, ranks, scores, faults, left, weighty,
    K: constexpr, DEEP: constexpr, WIDE: constexpr, EACH: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
    DRAWN: constexpr, STEPS: constexpr, NEAR: constexpr, LEFT: constexpr,
):  # fmt: skip
    """The score of one row's label: its rank is counted, and only what is above it is walked through."""
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    valid = (label >= 0) & (label < K)
    value = tl.load(x + row * K + label, mask=valid, other=0.0)
    index, p, top, scale, whole = held(x, row, K, DEEP, WIDE, EACH, SOFTMAX)
    bits = bits_of(p)
    broken = scale != scale
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    own = prob(value.to(scale.dtype), top, 1.0, SOFTMAX) * scale
    label = label.to(tl.int32)
    above = (p > own) | ((p == own) & (index < label))
    rank = tl.sum(tl.sum(tl.sum(above.to(tl.int32), axis=2), axis=1), axis=0)
    wide = own.to(tl.float64)
    mass = tl.full((), 0.0, tl.float64)
    known = tl.full((), 1, tl.int1)
    if LINEAR:
        needed = tl.minimum(rank, weighty)
        if rank == 0:  # noqa: SIM102 - kernels have no "and"
            if second != 0.0:
                mass = second * tl.max(tl.max(tl.max(tl.where(index == label, -1.0, p), axis=2), axis=1), axis=0)
        known = needed <= STEPS
        front, classes, behind, last, after = start(bits)
        j = tl.full((), 0, tl.int32)
        while known & (j < needed):
            best, _, front, classes, behind, last, after = take(bits, front, classes, behind, last, after)
            mass += tl.load(table + j * 5 + 2) * value_of(best)
            j += 1
        u = draw_of(draws, row, DRAWN)
        score = linear(table, tl.minimum(rank, K - 1), constant, wide, mass, u)
    else:
        score = 1.0 / wide
        if rank > 0:
            mass, known = price_of(bits, price, score, K, STEPS)
            score = tl.maximum(score, mass)
    tl.store(scores + row, tl.where(broken, float("nan"), score))
    settled = known | broken
    tl.store(ranks + row, tl.where(valid, tl.where(settled, rank, -2 - rank), -1))
    if valid & (settled == 0):
        tl.store(left + tl.atomic_add(faults + LEFT, 1, sem="relaxed"), row.to(tl.int32))
    if is_odd(scale, whole, SOFTMAX, NEAR) | (valid == 0):
        tl.atomic_add(faults, 1, sem="relaxed")


@jit
def _probabilities(
    x, out, K: constexpr, DEEP: constexpr, WIDE: constexpr, EACH: constexpr, SOFTMAX: constexpr
):  # fmt: skip
    """What the others hold, written down."""
    row = tl.program_id(0).to(tl.int64)
    index, p, _, _, _ = held(x, row, K, DEEP, WIDE, EACH, SOFTMAX)
    tl.store(out + row * K + index, p, mask=index < K)


@lru_cache
def _held_by(n_classes: int, size: int) -> tuple[int, tuple[int, int, int]]:
    """By how many warps a row is held, and how."""
    warps = max(1, power_of_2(n_classes) // 1024)
    return warps, tile(n_classes, size, warps)


def _registers(x: torch.Tensor) -> int | None:
    return None if x.dtype == torch.float64 else REGISTERS


def sets_of_rows(
    x: torch.Tensor, softmax: bool, formula: Formula, limits: Limits, found: Found, left: Left
) -> None:  # fmt: skip
    """Fills in the sets of all rows that STEPS ranks settle; the others have no size, and are listed."""
    n, n_classes = x.shape
    warps, shape = _held_by(n_classes, x.element_size())
    width = found.classes.shape[1]
    launch(
        _sets, n,
        (x, *formula[:3], limits.highest, limits.scores, limits.ranks, limits.group, found.sizes, found.classes,
         found.bytes, left.numbers),
        (left.turn,),
        (n_classes, *shape, softmax, formula.linear, formula.kind == BESIDE, formula.drawn, limits.grouped,
         limits.by_class, limits.by_rank, found.inside is not None, STEPS, width, min(64, power_of_2(width)),
         ROWS_FROM),
        warps, registers=_registers(x),
    )  # fmt: skip


def labels_of_rows(
    x: torch.Tensor, softmax: bool, formula: Formula, placed: Placed, weighty: int
) -> None:  # fmt: skip
    """Fills in the places and scores of all labels; those that STEPS ranks do not settle are marked."""
    n, n_classes = x.shape
    warps, shape = _held_by(n_classes, x.element_size())
    launch(
        _labels, n,
        (x, placed.labels, *formula[:3], placed.ranks, placed.scores, placed.faults, placed.left),
        (weighty,),
        (n_classes, *shape, softmax, formula.linear, formula.drawn, STEPS, NEAR, LEFT), warps, registers=_registers(x),
    )  # fmt: skip


def probabilities_of_rows(x: torch.Tensor, softmax: bool) -> torch.Tensor:
    """The probabilities of all rows."""
    n, n_classes = x.shape
    warps, shape = _held_by(n_classes, x.element_size())
    out = torch.empty((n, n_classes), dtype=torch.promote_types(x.dtype, torch.float32), device=x.device)
    launch(_probabilities, n, (x, out), (), (n_classes, *shape, softmax), warps)
    return out
