# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""Rows of few classes that their best ones do not settle, ranked whole by one program each.

How many such rows there are is known to the device alone, so nobody waits for it: `rows.py` lists them, and the
programs take one after the other; most find none and end at once.

What costs most is to sort. One warp does it faster than several, which would wait for each other at every step; and
probabilities alone have half the bits of those with their classes. So these are sorted, and scored by rank; and only of
the classes that are listed, or have limits of their own, the order is found, up to SOME at a time: a class is a key,
its probability's bits and behind them its place from the end, and the next are those above a cut: the probability
that is SOME ranks further, or, where many are equal to it, one that is found by halving.
"""

import math

import torch

from pippin.torch.kernels.filled import LEFT, Formula, Found, Limits, Placed
from pippin.torch.kernels.formula import draw_of, limit_of
from pippin.torch.kernels.held import few_classes, held, tile
from pippin.torch.kernels.language import MIXED, constexpr, jit, launch, power_of_2, tl
from pippin.torch.kernels.ranked import ranks_within, score_at

PROGRAMS = 2112  # 16 for each multiprocessor of a large GPU
BLOCK = 128  # ranks that are scored at once
SOME = 128  # classes that are sorted at once
HELD = 1024  # classes by each warp
REGISTERS = 128  # of a thread: so many that 16 rows are under way on each multiprocessor


@jit
def _sort(p, ranked, SPAN: constexpr):
    """Writes probabilities, largest first; NaN for what is none."""
    bits = tl.where(p >= 0, p.to(tl.int32, bitcast=True), -1)
    bits = tl.reshape(bits, (SPAN,), can_reorder=True) if MIXED else tl.reshape(bits, (SPAN,))
    bits = tl.sort(bits, descending=True)
    tl.debug_barrier()  # all have read what was there before
    tl.store(ranked + tl.arange(0, SPAN), bits.to(tl.float32, bitcast=True))
    tl.debug_barrier()


@jit
def _count(chosen):
    return tl.sum(tl.sum(chosen.to(tl.int32), axis=1), axis=0)


@jit
def _best(key, cut, room, SOME: constexpr):
    """The best of the keys, sorted, how many these are, and all others; SOME at most, and half as many where there are.

    At most SOME are above the cut. Where these are too few, as many are just there, another one is looked for: `low` is
    a cut with too many keys above it, `high` one with few enough.
    """
    low, high = tl.full((), -1, tl.int64), cut
    count = _count(key > high)
    while (count < SOME // 2) & (high - low > 1):
        middle = low + (high - low) // 2
        above = _count(key > middle)
        few = above <= SOME
        low, high = tl.where(few, low, middle), tl.where(few, middle, high)
        count = tl.where(few, above, count)
    chosen = (key > high).to(tl.int32)
    each = tl.sum(chosen, axis=1)
    place = (tl.cumsum(each, axis=0) - each)[:, None] + tl.cumsum(chosen, axis=1) - 1
    tl.debug_barrier()  # all have read what was there before
    tl.store(room + place, key, mask=chosen != 0)
    tl.debug_barrier()
    slot = tl.arange(0, SOME)
    best = tl.sort(tl.load(room + slot, mask=slot < count, other=-1), descending=True)
    return best, count, tl.where(key > high, -1, key)


@jit
def _last(equal, index, many, K: constexpr):
    """The class up to which so many are equal: any behind them all, if there are no more."""
    low, high = tl.full((), -1, tl.int32), tl.full((), K - 1, tl.int32)
    if tl.sum(tl.sum(tl.sum(equal.to(tl.int32), axis=2), axis=1), axis=0) == many:
        low = high - 1
    while high - low > 1:
        middle = low + (high - low) // 2
        enough = tl.sum(tl.sum(tl.sum((equal & (index <= middle)).to(tl.int32), axis=2), axis=1), axis=0) >= many
        low, high = tl.where(enough, low, middle), tl.where(enough, middle, high)
    return high


@jit
def _sets(
    x, table, formula, draws, highest, limits, rank_limits, group, sizes, members, mask, faults, left, rooms, scratch,
    width,
    K: constexpr, DEEP: constexpr, WIDE: constexpr, EACH: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
    DRAWN: constexpr, GROUPED: constexpr, BY_CLASS: constexpr, BY_RANK: constexpr, MASK: constexpr,
    BLOCK: constexpr, SOME: constexpr, LEFT: constexpr,
):  # fmt: skip
    """The sets of the listed rows: how many ranks are within the highest limit, and then which classes these are."""
    span: constexpr = DEEP * WIDE * EACH
    room = rooms + tl.program_id(0) * SOME
    scores = scratch + tl.program_id(0) * (2 * span)
    ranked = scores + span
    slot = tl.arange(0, SOME)
    many_left, i = tl.load(faults + LEFT), tl.program_id(0)
    while i < many_left:
        row = tl.load(left + i).to(tl.int64)
        index, p, _, _, _ = held(x, row, K, DEEP, WIDE, EACH, SOFTMAX)
        _sort(p, ranked, span)
        u = draw_of(draws, row, DRAWN)
        g, limit = limit_of(highest, group, row, GROUPED)
        size = ranks_within(ranked, K, table, formula, u, limit, scores, BLOCK, LINEAR, BY_CLASS)
        if MASK & (BY_CLASS == 0):
            inside = index < K
            if size < K:
                least = tl.load(ranked + tl.maximum(size, 1) - 1).to(tl.float32)
                above = tl.sum(tl.sum(tl.sum((p > least).to(tl.int32), axis=2), axis=1), axis=0)
                final = _last(p == least, index, size - above, K)
                inside = ((p > least) | ((p == least) & (index <= final))) & (size > 0)
            tl.store(mask + row * K + index, inside.to(tl.int8), mask=index < K)
        tl.debug_barrier()
        key = (p.to(tl.int32, bitcast=True).to(tl.int64) << 12) | (4095 - index).to(tl.int64)
        key = tl.reshape(tl.where(p >= 0, key, -1), (WIDE, DEEP * EACH))
        needed = size
        if BY_CLASS == 0:
            needed = tl.minimum(size, width)
        listed = tl.full((), 0, tl.int32)
        first = tl.full((), 0, tl.int32)
        while first < needed:
            behind = tl.load(ranked + first + SOME, mask=first + SOME < K, other=-1.0).to(tl.float32)
            cut = (behind.to(tl.int32, bitcast=True).to(tl.int64) << 12) | 4095
            best, count, key = _best(key, tl.where(behind >= 0, cut, -1), room, SOME)
            k, rank = 4095 - (best & 4095).to(tl.int32), first + slot
            member = (slot < count) & (rank < size)
            if BY_CLASS:
                score = tl.load(scores + rank, mask=member, other=0.0)
                member = member & (score <= tl.load(limits + g * K + k, mask=member, other=0.0))
                if BY_RANK:
                    member = member & (rank < tl.load(rank_limits + g * K + k, mask=member, other=0))
                if MASK:
                    tl.store(mask + row * K + k, tl.full((SOME,), 1, tl.int8), mask=member)
            position = listed + tl.cumsum(member.to(tl.int32), axis=0) - 1
            tl.store(members + row * width + position, k.to(tl.int64), mask=member & (position < width))
            listed += tl.sum(member.to(tl.int32), axis=0)
            first += count
        if BY_CLASS:
            size = listed
        tl.store(sizes + row, size.to(tl.int64))
        i += tl.num_programs(0)


@jit
def _labels(
    x, table, formula, draws, ranks, scores, faults, left, scratch, weighty,
    K: constexpr, DEEP: constexpr, WIDE: constexpr, EACH: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
    DRAWN: constexpr, BLOCK: constexpr, LEFT: constexpr,
):  # fmt: skip
    """The scores of the listed rows' labels, whose ranks are known."""
    span: constexpr = DEEP * WIDE * EACH
    ranked = scratch + tl.program_id(0) * span
    many_left, i = tl.load(faults + LEFT), tl.program_id(0)
    while i < many_left:
        row = tl.load(left + i).to(tl.int64)
        last = -2 - tl.load(ranks + row)
        _, p, _, _, _ = held(x, row, K, DEEP, WIDE, EACH, SOFTMAX)
        _sort(p, ranked, span)
        u = draw_of(draws, row, DRAWN)
        tl.store(scores + row, score_at(ranked, last, table, formula, u, weighty, K, BLOCK, LINEAR))
        tl.store(ranks + row, last)
        i += tl.num_programs(0)


def _shape(x: torch.Tensor) -> tuple[int, tuple[int, int, int], int]:
    """How many programs, how each holds a row, and by how many warps."""
    n, n_classes = x.shape
    warps = max(1, power_of_2(n_classes) // HELD)
    return min(n, PROGRAMS), tile(x, warps), warps


def can_rank(x: torch.Tensor) -> bool:
    """Whether one program can rank a row: few classes, in float32."""
    return few_classes(x) and x.dtype != torch.float64


def whole_sets(
    x: torch.Tensor, softmax: bool, formula: Formula, limits: Limits, found: Found
) -> None:  # fmt: skip
    """Fills in the sets of the rows that are listed."""
    programs, shape, warps = _shape(x)
    rooms = x.new_empty((programs, SOME), dtype=torch.int64)
    scratch = x.new_empty(programs * 2 * math.prod(shape), dtype=torch.float64)
    launch(
        _sets, programs,
        (x, *formula[:3], limits.highest, limits.scores, limits.ranks, limits.group, found.sizes, found.classes,
         found.bytes, found.faults, found.left, rooms, scratch),
        (found.classes.shape[1],),
        (x.shape[1], *shape, softmax, formula.linear, formula.drawn, limits.grouped, limits.by_class, limits.by_rank,
         found.inside is not None, BLOCK, SOME, LEFT),
        warps, registers=REGISTERS,
    )  # fmt: skip


def whole_labels(
    x: torch.Tensor, softmax: bool, formula: Formula, placed: Placed, weighty: int
) -> None:  # fmt: skip
    """Fills in the scores of the labels of the rows that are listed, and their ranks."""
    programs, shape, warps = _shape(x)
    scratch = x.new_empty(programs * math.prod(shape), dtype=torch.float32)
    launch(
        _labels, programs,
        (x, *formula[:3], placed.ranks, placed.scores, placed.faults, placed.left, scratch), (weighty,),
        (x.shape[1], *shape, softmax, formula.linear, formula.drawn, BLOCK, LEFT), warps,
    )  # fmt: skip
