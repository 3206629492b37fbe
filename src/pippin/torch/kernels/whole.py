# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""Rows that their few best classes do not settle, ranked whole: a row of few classes is sorted by one program.

How many such rows there are is known to the device alone, so nobody waits for it: a fixed number of programs take
row after row from the list. Each has a scratch of its own for the sorted row.
"""

import torch

from pippin.torch.kernels.filled import Found, Limits, Placed
from pippin.torch.kernels.formula import linear
from pippin.torch.kernels.language import constexpr, jit, on_device_of, power_of_2, tl
from pippin.torch.kernels.ranked import lowest_price
from pippin.torch.kernels.rows import few_classes
from pippin.torch.kernels.softmax import Measured, prob
from pippin.torch.kernels.sums import steps

PROGRAMS = 1056  # eight for each multiprocessor of a large GPU
BLOCK = 64


@jit
def _sort(x, numbers, n, row, ranked, order, least, K: constexpr, SPAN: constexpr, SOFTMAX: constexpr):
    """Writes the probabilities of one row from `least` on, largest first, and their classes; equal ones by class."""
    index = tl.arange(0, SPAN)
    top, scale = tl.load(numbers + row), tl.load(numbers + n + row)
    p = prob(tl.load(x + row * K + index, mask=index < K, other=0.0).to(tl.float32), top, scale, SOFTMAX)
    key = (p.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (0x7FFFFFFF - index).to(tl.int64)
    key = tl.sort(tl.where((index < K) & (p >= least), key, -1), descending=True)
    tl.store(ranked + index, (key >> 32).to(tl.int32).to(tl.float32, bitcast=True))
    tl.store(order + index, 0x7FFFFFFF - (key & 0x7FFFFFFF).to(tl.int32))
    tl.debug_barrier()


@jit
def _sets(
    x, numbers, table, formula, draws, highest, limits, rank_limits, group, sizes, members, mask, left, n_left,
    values, orders, n, width,
    K: constexpr, SPAN: constexpr, BLOCK: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
    GROUPED: constexpr, BY_CLASS: constexpr, BY_RANK: constexpr, MASK: constexpr,
):  # fmt: skip
    ranked, order = values + tl.program_id(0) * SPAN, orders + tl.program_id(0) * SPAN
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    item, items = tl.program_id(0), tl.load(n_left)
    while item < items:
        row = tl.load(left + item).to(tl.int64)
        tl.debug_barrier()
        _sort(x, numbers, n, row, ranked, order, 0.0, K, SPAN, SOFTMAX)
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
        going = tl.full((), 1, tl.int1)
        while (first < K) & going:
            rank = first + tl.arange(0, BLOCK)
            real = rank < K
            p = tl.load(ranked + rank, mask=real, other=0.0).to(tl.float64)
            score = tl.full((BLOCK,), 0.0, tl.float64)
            if LINEAR:
                entry = table + rank * 5
                own = tl.load(entry, mask=real, other=0.0) + u * tl.load(entry + 1, mask=real, other=0.0)
                penalty = tl.load(entry + 3, mask=real, other=0.0) + u * tl.load(entry + 4, mask=real, other=0.0)
                term = tl.where(real, tl.load(entry + 2, mask=real, other=0.0) * p, 0.0)
                step, calm = steps(mass, term)
                before = mass + (tl.cumsum(step, axis=0) - step)
                if calm:
                    mass += tl.sum(step, axis=0)
                else:
                    for one in range(BLOCK):
                        now = mass
                        if first + one == 0:
                            now = second * tl.load(ranked + 1).to(tl.float64)
                        before = tl.where(rank == first + one, now, before)
                        mass += tl.sum(tl.where(rank == first + one, term, 0.0), axis=0)
                score = (constant + own * p) + before + penalty
            else:
                alone = 1.0 / (p + 0.0)
                score = tl.where(rank == 0, alone, tl.maximum(alone, mass))
            within = real & (score <= limit)
            member = within
            k = tl.load(order + rank, mask=real, other=0)
            if BY_CLASS:
                member = member & (score <= tl.load(limits + g * K + k, mask=within, other=0.0))
                if BY_RANK:
                    member = member & (rank < tl.load(rank_limits + g * K + k, mask=within, other=0))
            position = size + tl.cumsum(member.to(tl.int32), axis=0) - 1
            tl.store(members + row * width + position, k.to(tl.int64), mask=member & (position < width))
            if MASK:
                tl.store(mask + row * K + k, tl.full((BLOCK,), 1, tl.int8), mask=member)
            size += tl.sum(member.to(tl.int32), axis=0)
            going = tl.sum(within.to(tl.int32), axis=0) == BLOCK
            first += BLOCK
        tl.store(sizes + row, size.to(tl.int64))
        item += tl.num_programs(0)


@jit
def _labels(
    x, numbers, table, formula, draws, ranks, owns, scores, left, n_left, values, orders, n, weighty,
    K: constexpr, SPAN: constexpr, BLOCK: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
):  # fmt: skip
    ranked, order = values + tl.program_id(0) * SPAN, orders + tl.program_id(0) * SPAN
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    item, items = tl.program_id(0), tl.load(n_left)
    while item < items:
        row = tl.load(left + item).to(tl.int64)
        own, last = tl.load(owns + row), tl.load(ranks + row)
        tl.debug_barrier()
        _sort(x, numbers, n, row, ranked, order, own if LINEAR else 0.0, K, SPAN, SOFTMAX)
        mass = tl.full((), 0.0, tl.float64)
        if LINEAR:
            needed = tl.minimum(last, weighty)
            first = tl.full((), 0, tl.int32)
            while first < needed:
                rank = first + tl.arange(0, BLOCK)
                real = rank < needed
                p = tl.load(ranked + rank, mask=real, other=0.0).to(tl.float64)
                term = tl.where(real, tl.load(table + rank * 5 + 2, mask=real, other=0.0) * p, 0.0)
                step, calm = steps(mass, term)
                if calm:
                    mass += tl.sum(step, axis=0)
                else:
                    one = first
                    while (one < needed) & (one < first + BLOCK):
                        mass += tl.load(table + one * 5 + 2) * tl.load(ranked + one).to(tl.float64)
                        one += 1
                first += BLOCK
            if last == 0:
                mass = second * tl.load(ranked + 1).to(tl.float64)
            score = linear(table, last, constant, own.to(tl.float64), mass, tl.load(draws + row))
        else:
            score = 1.0 / own.to(tl.float64)
            if last > 0:
                score = tl.maximum(score, lowest_price(ranked, price, K))
        tl.store(scores + row, score)
        item += tl.num_programs(0)


def _scratch(measured: Measured) -> tuple[int, int, torch.Tensor, torch.Tensor]:
    n, n_classes = measured.x.shape
    span, programs = power_of_2(max(n_classes, BLOCK)), min(n, PROGRAMS)
    values = torch.empty((programs, span), dtype=torch.float32, device=measured.x.device)
    return programs, span, values, torch.empty_like(values, dtype=torch.int32)


def can_sort(measured: Measured) -> bool:
    """Whether a row can be sorted by one program: few classes, in float32."""
    return few_classes(measured.x) and measured.numbers.dtype == torch.float32


def whole_sets(
    measured: Measured, table: torch.Tensor, formula: torch.Tensor, u: torch.Tensor, limits: Limits, found: Found,
    linear: bool,
) -> None:  # fmt: skip
    """Fills in the sets of the rows that are left."""
    n, n_classes = measured.x.shape
    programs, span, values, orders = _scratch(measured)
    with on_device_of(measured.x):
        _sets[(programs,)](
            measured.x, measured.numbers, table, formula, u, limits.highest, limits.scores, limits.ranks, limits.group,
            found.sizes, found.classes, found.mask.view(torch.int8), found.left, found.n_left, values, orders, n,
            found.classes.shape[1], n_classes, span, BLOCK, measured.softmax, linear, limits.grouped,
            limits.by_class, limits.by_rank, len(found.mask) > 0,
            num_warps=max(1, min(8, span // 256)), enable_fp_fusion=False,
        )  # fmt: skip


def whole_labels(
    measured: Measured, table: torch.Tensor, formula: torch.Tensor, u: torch.Tensor, placed: Placed, linear: bool,
    weighty: int,
) -> None:  # fmt: skip
    """Fills in the scores of the labels of the rows that are left."""
    n, n_classes = measured.x.shape
    programs, span, values, orders = _scratch(measured)
    with on_device_of(measured.x):
        _labels[(programs,)](
            measured.x, measured.numbers, table, formula, u, placed.ranks, placed.own, placed.scores, placed.left,
            placed.n_left, values, orders, n, weighty, n_classes, span, BLOCK, measured.softmax, linear,
            num_warps=max(1, min(8, span // 256)), enable_fp_fusion=False,
        )  # fmt: skip
