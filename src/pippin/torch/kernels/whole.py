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

By a flat score members are counted, and no row is sorted.
"""

import math

import torch

from pippin.torch.kernels.filled import LEFT, ROWS_FROM, Formula, Found, Left, Limits, Placed
from pippin.torch.kernels.formula import draw_of, flat_members, limit_of
from pippin.torch.kernels.held import few_classes, held, tile
from pippin.torch.kernels.language import MIXED, constexpr, jit, launch, power_of_2, tl
from pippin.torch.kernels.ranked import ranks_within, score_at

PROGRAMS = 1584  # 12 for each multiprocessor of a large GPU
BLOCK = 128  # ranks that are scored at once
SOME = 128  # classes that are sorted at once
HELD = 1024  # classes by each warp
REGISTERS = 168  # of a thread: so many that 12 rows are under way on each multiprocessor


@jit
def _bits(p):
    """Probabilities as whole numbers in the same order; −1 for what is none."""
    return tl.where(p >= 0, p.to(tl.int32, bitcast=True), -1)


@jit
def _second(N: constexpr, axis: constexpr):
    """Which of the numbers of a cube with N axes are the second ones along one of them, counted from the last."""
    return tl.reshape(tl.arange(0, 2), [1] * (N - 1 - axis) + [2] + [1] * axis) == 1


@jit
def _falling(x, N: constexpr):
    """2^N whole numbers, largest first: the steps of `tl.sort`, with minimum and maximum where one holds both numbers.

    That makes a third fewer instructions, which each multiprocessor has to fetch for a few rows.
    """
    x = tl.reshape(x, [2] * N)
    for stage in tl.static_range(1, N + 1):
        for step in tl.static_range(stage):
            other = x ^ tl.xor_sum(x, N - stage + step, True)
            smaller = _second(N, stage - 1 - step)
            if stage < N:
                smaller = smaller != _second(N, stage)
            x = tl.where(smaller, tl.minimum(x, other), tl.maximum(x, other))
    return tl.reshape(x, (1 << N,))


@jit
def _sort(bits, ranked, SPAN: constexpr):
    """Writes probabilities, largest first; NaN for what is none."""
    bits = tl.reshape(bits, (SPAN,), can_reorder=True) if MIXED else tl.reshape(bits, (SPAN,))
    bits = _falling(bits, SPAN.bit_length() - 1)
    tl.debug_barrier()  # all have read what was there before
    tl.store(ranked + tl.arange(0, SPAN), bits.to(tl.float32, bitcast=True))
    tl.debug_barrier()


@jit
def _count(chosen):
    return tl.sum(tl.sum(tl.sum(chosen.to(tl.int32), axis=2), axis=1), axis=0)


@jit
def _last(equal, index, many, K: constexpr):
    """The class up to which so many are equal: any behind them all, if there are no more."""
    low, high = tl.full((), -1, tl.int32), tl.full((), K - 1, tl.int32)
    if _count(equal) <= many:
        low = high - 1
    while high - low > 1:
        middle = low + (high - low) // 2
        enough = _count(equal & (index <= middle)) >= many
        low, high = tl.where(enough, low, middle), tl.where(enough, middle, high)
    return high


@jit
def _best(bits, index, low, cut, room, K: constexpr, SOME: constexpr):
    """The keys of the best classes, sorted, how many these are, and the bits of all others.

    SOME at most, and half as many where there are. At most SOME are above the cut. Where these are too few, another one
    is looked for: `low` is a cut with too many above it, or below all, `high` one with few enough. If many are equal
    to that, the first of them are taken.
    """
    high, count = cut, _count(bits > cut)
    while (count < SOME // 2) & (high - low > 1):
        middle = low + (high - low) // 2
        above = _count(bits > middle)
        few = above <= SOME
        low, high = tl.where(few, low, middle), tl.where(few, middle, high)
        count = tl.where(few, above, count)
    chosen = bits > high
    if (count < SOME // 2) & (high >= 0):
        equal = bits == high
        chosen = chosen | (equal & (index <= _last(equal, index, SOME - count, K)))
        count = _count(chosen)
    here = chosen.to(tl.int32)
    beside = tl.sum(here, axis=2)
    each = tl.sum(beside, axis=1)
    place = (tl.cumsum(each, axis=0) - each)[:, None] + tl.cumsum(beside, axis=1) - beside
    key = (bits.to(tl.int64) << 12) | (4095 - index)
    tl.debug_barrier()  # all have read what was there before
    tl.store(room + place[:, :, None] + tl.cumsum(here, axis=2) - 1, key, mask=chosen)
    tl.debug_barrier()
    slot = tl.arange(0, SOME)
    best = tl.sort(tl.load(room + slot, mask=slot < count, other=-1), descending=True)
    return best, count, tl.where(chosen, -1, bits)


@jit
def _above(ranked, size, p, index, K: constexpr):
    """Which classes of a sorted row are its first `size`: all that are as probable, or those up to the last one."""
    least = tl.load(ranked + tl.maximum(size, 1) - 1).to(tl.float32)
    following = tl.load(ranked + size).to(tl.float32)
    final = tl.full((), K, tl.int32)
    if following == least:
        final = _last(p == least, index, size - _count(p > least), K)
    return ((p > least) | ((p == least) & (index <= final))) & (size > 0)


@jit
def _sets(
    x, table, formula, draws, highest, limits, rank_limits, group, sizes, members, mask, left, rooms, scratch,
    width, turn,
    K: constexpr, DEEP: constexpr, WIDE: constexpr, EACH: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
    FLAT: constexpr, DRAWN: constexpr, GROUPED: constexpr, BY_CLASS: constexpr, BY_RANK: constexpr, MASK: constexpr,
    BLOCK: constexpr, SOME: constexpr, ROWS_FROM: constexpr,
):  # fmt: skip
    """The sets of the listed rows: how many ranks are within the highest limit, and then which classes these are."""
    span: constexpr = DEEP * WIDE * EACH
    room = rooms + tl.program_id(0) * SOME
    scores = scratch + tl.program_id(0) * (2 * span)
    ranked = scores + span
    slot = tl.arange(0, SOME)
    many_left, i = tl.load(left + turn), tl.program_id(0)
    if i == 0:
        tl.store(left + 1 - turn, 0)
    while i < many_left:
        row = tl.load(left + ROWS_FROM + i).to(tl.int64)
        index, p, _, _, _ = held(x, row, K, DEEP, WIDE, EACH, SOFTMAX)
        bits = _bits(p)
        low, cut = tl.full((), -1, tl.int32), tl.max(tl.max(tl.max(bits, axis=2), axis=1), axis=0)
        u = draw_of(draws, row, DRAWN)
        g, limit = limit_of(highest, group, row, GROUPED)
        listed = tl.full((), 0, tl.int32)
        first = tl.full((), 0, tl.int32)
        if FLAT:
            inside = flat_members(p, table, formula, cut.to(tl.float32, bitcast=True), limit)
            size = _count(inside)
            low = tl.min(tl.min(tl.min(tl.where(bits < 0, 2147483647, bits), axis=2), axis=1), axis=0) - 1
        else:
            _sort(bits, ranked, span)
            size = ranks_within(ranked, K, table, formula, u, limit, scores, BLOCK, LINEAR, BY_CLASS)
            if MASK & (BY_CLASS == 0):
                inside = index < K
                if size < K:
                    inside = _above(ranked, size, p, index, K)
        if MASK & (BY_CLASS == 0):
            tl.store(mask + row * K + index, inside.to(tl.int8), mask=index < K)
        tl.debug_barrier()
        needed = size
        if BY_CLASS == 0:
            needed = tl.minimum(size, width)
        while first < needed:
            if FLAT == 0:
                behind = tl.load(ranked + first + SOME, mask=first + SOME < K, other=-1.0).to(tl.float32)
                cut = tl.where(behind >= 0, behind.to(tl.int32, bitcast=True), -1)
            best, count, bits = _best(bits, index, low, cut, room, K, SOME)
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
        _sort(_bits(p), ranked, span)
        u = draw_of(draws, row, DRAWN)
        tl.store(scores + row, score_at(ranked, last, table, formula, u, weighty, K, BLOCK, LINEAR))
        tl.store(ranks + row, last)
        i += tl.num_programs(0)


def _shape(x: torch.Tensor) -> tuple[int, tuple[int, int, int], int]:
    """How many programs, how each holds a row, and by how many warps."""
    n, n_classes = x.shape
    warps = max(1, power_of_2(n_classes) // HELD)
    return min(n, PROGRAMS), tile(n_classes, x.element_size(), warps), warps


def can_rank(x: torch.Tensor) -> bool:
    """Whether one program can rank a row: few classes, in float32."""
    return few_classes(x) and x.dtype != torch.float64


def whole_sets(
    x: torch.Tensor, softmax: bool, formula: Formula, limits: Limits, found: Found, left: Left
) -> None:  # fmt: skip
    """Fills in the sets of the rows that are listed."""
    programs, shape, warps = _shape(x)
    rooms = x.new_empty((programs, SOME), dtype=torch.int64)
    scratch = x.new_empty(programs * 2 * math.prod(shape), dtype=torch.float64)
    launch(
        _sets, programs,
        (x, *formula[:3], limits.highest, limits.scores, limits.ranks, limits.group, found.sizes, found.classes,
         found.bytes, left.numbers, rooms, scratch),
        (found.classes.shape[1], left.turn),
        (x.shape[1], *shape, softmax, formula.linear, formula.flat and not limits.by_class, formula.drawn,
         limits.grouped, limits.by_class, limits.by_rank, found.inside is not None, BLOCK, SOME, ROWS_FROM),
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
