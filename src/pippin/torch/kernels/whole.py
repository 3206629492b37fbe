# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""Rows that their few best classes do not settle, ranked whole: a row of few classes is sorted by one program.

How many such rows there are is known to the device alone, so nobody waits for it: a fixed number of programs look
through the marks of all rows. Each has a scratch of its own for the sorted row.
"""

import math

import torch

from pippin.torch.kernels.filled import Found, Limits, Placed
from pippin.torch.kernels.formula import linear
from pippin.torch.kernels.held import few_classes, held, tile
from pippin.torch.kernels.language import constexpr, jit, launch, power_of_2, tl
from pippin.torch.kernels.ranked import linear_block, lowest_price, mass_above, price_block

PROGRAMS = 1056  # eight for each multiprocessor of a large GPU
BLOCK = 128  # ranks that are added at once
HELD = 512  # classes by each warp
MARKS = 32  # that are looked through at once


@jit
def _next(marks, least, first, row, n, MARKS: constexpr):
    """The next row behind `row` with a mark of at most `least`, from `first` on in steps of all programs; or > n."""
    found = tl.full((), 2147483647, tl.int64)
    going = first < n
    while going:
        at = first + tl.arange(0, MARKS)
        there = (at > row) & (at < n)
        marked = there & (tl.load(marks + at, mask=there, other=0) <= least)
        found = tl.min(tl.where(marked, at, 2147483647), axis=0).to(tl.int64)
        first += tl.num_programs(0) * MARKS
        going = (found == 2147483647) & (first < n)
    return found


@jit
def _sort(
    x, row, ranked, order, K: constexpr, DEEP: constexpr, WIDE: constexpr, EACH: constexpr, SOFTMAX: constexpr
):  # fmt: skip
    """Writes the probabilities of one row in float64, largest first, and their classes; equal ones by class."""
    index, p, _, _, _ = held(x, row, K, DEEP, WIDE, EACH, SOFTMAX)
    key = (p.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (0x7FFFFFFF - index).to(tl.int64)
    span: constexpr = DEEP * WIDE * EACH
    key = tl.sort(tl.reshape(tl.where(p >= 0, key, -1), (span,), can_reorder=True), descending=True)
    index = tl.arange(0, span)
    tl.debug_barrier()
    tl.store(ranked + index, (key >> 32).to(tl.int32).to(tl.float32, bitcast=True).to(tl.float64))
    tl.store(order + index, (0x7FFFFFFF - (key & 0x7FFFFFFF)).to(tl.float64))
    tl.debug_barrier()


@jit
def _sets(
    x, table, formula, draws, highest, limits, rank_limits, group, sizes, members, mask, scratch, n, width,
    K: constexpr, DEEP: constexpr, WIDE: constexpr, EACH: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
    DRAWN: constexpr, GROUPED: constexpr, BY_CLASS: constexpr, BY_RANK: constexpr, MASK: constexpr,
    BLOCK: constexpr, MARKS: constexpr,
):  # fmt: skip
    span: constexpr = DEEP * WIDE * EACH
    ranked = scratch + tl.program_id(0) * (2 * span)
    order = ranked + span
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    row = _next(sizes, -1, tl.program_id(0) * MARKS, -1, n, MARKS)
    while row < n:
        _sort(x, row, ranked, order, K, DEEP, WIDE, EACH, SOFTMAX)
        u = tl.full((), 0.0, tl.float64)
        if DRAWN:
            u = tl.load(draws + row)
        g = tl.full((), 0, tl.int64)
        if GROUPED:
            g = tl.load(group + row)
        limit = tl.load(highest + g)
        mass = tl.full((), 0.0, tl.float64)
        if LINEAR == 0:
            mass = lowest_price(ranked, price, K)
        size = tl.full((), 0, tl.int32)
        first = tl.full((), 0, tl.int32)
        many = tl.full((), BLOCK, tl.int32)
        going = tl.full((), 1, tl.int1)
        while (first < K) & going:
            rank = first + tl.arange(0, BLOCK)
            if LINEAR:
                score, many, mass = linear_block(ranked, table, first, constant, second, mass, u, K, BLOCK)
            else:
                score = price_block(ranked, first, mass, K, BLOCK)
            real = (rank < K) & (rank < first + many)
            within = real & (score <= limit)
            member = within
            k = tl.load(order + rank, mask=real, other=0.0).to(tl.int32)
            if BY_CLASS:
                member = member & (score <= tl.load(limits + g * K + k, mask=within, other=0.0))
                if BY_RANK:
                    member = member & (rank < tl.load(rank_limits + g * K + k, mask=within, other=0))
            position = size + tl.cumsum(member.to(tl.int32), axis=0) - 1
            tl.store(members + row * width + position, k.to(tl.int64), mask=member & (position < width))
            if MASK:
                tl.store(mask + row * K + k, tl.full((BLOCK,), 1, tl.int8), mask=member)
            size += tl.sum(member.to(tl.int32), axis=0)
            going = tl.sum(within.to(tl.int32), axis=0) == many
            first += many
        tl.store(sizes + row, size.to(tl.int64))
        row = _next(sizes, -1, row // MARKS * MARKS, row, n, MARKS)


@jit
def _labels(
    x, table, formula, draws, ranks, scores, scratch, n, weighty,
    K: constexpr, DEEP: constexpr, WIDE: constexpr, EACH: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
    DRAWN: constexpr, BLOCK: constexpr, MARKS: constexpr,
):  # fmt: skip
    span: constexpr = DEEP * WIDE * EACH
    ranked = scratch + tl.program_id(0) * (2 * span)
    order = ranked + span
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    row = _next(ranks, -2, tl.program_id(0) * MARKS, -1, n, MARKS)
    while row < n:
        last = -2 - tl.load(ranks + row)
        _sort(x, row, ranked, order, K, DEEP, WIDE, EACH, SOFTMAX)
        own = tl.load(ranked + last)
        mass = tl.full((), 0.0, tl.float64)
        if LINEAR:
            mass = mass_above(ranked, table, tl.minimum(last, weighty), BLOCK)
            u = tl.full((), 0.0, tl.float64)
            if DRAWN:
                u = tl.load(draws + row)
            if last == 0:
                mass = second * tl.load(ranked + 1)
            score = linear(table, last, constant, own, mass, u)
        else:
            score = 1.0 / own
            if last > 0:
                score = tl.maximum(score, lowest_price(ranked, price, K))
        tl.store(scores + row, score)
        tl.store(ranks + row, last)
        row = _next(ranks, -2, row // MARKS * MARKS, row, n, MARKS)


def _scratch(x: torch.Tensor) -> tuple[int, tuple[int, int, int], int, torch.Tensor]:
    """How many programs, how each holds a row, by how many warps, and where it sorts."""
    n, n_classes = x.shape
    warps = max(1, min(8, power_of_2(n_classes) // HELD))
    shape, programs = tile(x, warps), min(-(-n // MARKS), PROGRAMS)
    return programs, shape, warps, torch.empty((programs, 2, math.prod(shape)), dtype=torch.float64, device=x.device)


def can_sort(x: torch.Tensor) -> bool:
    """Whether a row can be sorted by one program: few classes, in float32."""
    return few_classes(x) and x.dtype != torch.float64


def whole_sets(
    x: torch.Tensor, softmax: bool, table: torch.Tensor, formula: torch.Tensor, u: torch.Tensor, limits: Limits,
    found: Found, linear: bool,
) -> None:  # fmt: skip
    """Fills in the sets of the rows that are marked."""
    n, n_classes = x.shape
    programs, shape, warps, scratch = _scratch(x)
    launch(
        _sets, programs,
        (x, table, formula, u, limits.highest, limits.scores, limits.ranks, limits.group, found.sizes, found.classes,
         found.mask.view(torch.int8), scratch),
        (n, found.classes.shape[1]),
        (n_classes, *shape, softmax, linear, u.shape[0] > 0, limits.grouped, limits.by_class, limits.by_rank,
         found.mask.shape[0] > 0, BLOCK, MARKS),
        warps,
    )  # fmt: skip


def whole_labels(
    x: torch.Tensor, softmax: bool, table: torch.Tensor, formula: torch.Tensor, u: torch.Tensor, placed: Placed,
    linear: bool, weighty: int,
) -> None:  # fmt: skip
    """Fills in the scores of the labels that are marked, and their ranks."""
    n, n_classes = x.shape
    programs, shape, warps, scratch = _scratch(x)
    launch(
        _labels, programs, (x, table, formula, u, placed.ranks, placed.scores, scratch), (n, weighty),
        (n_classes, *shape, softmax, linear, u.shape[0] > 0, BLOCK, MARKS), warps,
    )  # fmt: skip
