# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""Rows of many classes that their best ones do not settle, where the score is flat: members are counted, not ranked.

Only those that are listed have to be in order: `tops.py` looks for some more of the best, and of these few the places
are found by comparing each with all others.
"""

import torch

from pippin.torch.kernels.filled import Formula, Found, Limits
from pippin.torch.kernels.formula import flat_members, limit_of
from pippin.torch.kernels.language import constexpr, jit, launch, tl
from pippin.torch.kernels.softmax import Measured, prob
from pippin.torch.kernels.tops import list_tops

LISTED = 256  # values above a cut that have room
SOME = 72  # groups with a value above the cut
BLOCK = 8192  # classes that are looked at at once


@jit
def _count(
    x, numbers, rows, table, formula, highest, group, sizes, mask, n,
    K: constexpr, BLOCK: constexpr, SOFTMAX: constexpr, GROUPED: constexpr, MASK: constexpr,
):  # fmt: skip
    """The size of one row's set, and its members, if they are wanted; not where there is one at most."""
    row = tl.load(rows + tl.program_id(0))
    kind = numbers.dtype.element_ty
    top, scale = tl.load(numbers + row), tl.load(numbers + n + row)
    _, limit = limit_of(highest, group, row, GROUPED)
    size = tl.full((), 0, tl.int32)
    for first in range(0, K, BLOCK):
        k = first + tl.arange(0, BLOCK)
        p = prob(tl.load(x + row * K + k, mask=k < K, other=0.0).to(kind), top, scale, SOFTMAX)
        inside = (k < K) & flat_members(p, table, formula, prob(top, top, scale, SOFTMAX), limit)
        if MASK:
            tl.store(mask + row * K + k, inside.to(tl.int8), mask=k < K)
        size += tl.sum(inside.to(tl.int32), axis=0)
    tl.store(sizes + row, tl.where(size > 1, size, -1).to(tl.int64))


@jit
def _order(values, classes, counts, rows, sizes, members, width, LISTED: constexpr):
    """The first members of one row, in order; if those that are listed do not tell them, the row stays unsettled."""
    place = tl.program_id(0).to(tl.int64)
    row, count = tl.load(rows + place), tl.load(counts + place)
    size = tl.load(sizes + row)
    needed = tl.minimum(size, width)
    start, slot = place * LISTED, tl.arange(0, LISTED)
    listed = slot < count
    value = tl.load(values + start + slot, mask=listed, other=-1.0)
    k = tl.load(classes + start + slot, mask=listed, other=0)
    other, its = value[None, :], k[None, :]
    before = (other > value[:, None]) | ((other == value[:, None]) & (its < k[:, None]))
    rank = tl.sum((before & listed[None, :]).to(tl.int32), axis=1)
    if (count < needed) | (count > LISTED):
        tl.store(sizes + row, tl.full((), -1, tl.int64))
    else:
        tl.store(members + row * width + rank, k.to(tl.int64), mask=listed & (rank < needed))


def counted_sets(
    measured: Measured, rows: torch.Tensor, formula: Formula, limits: Limits, found: Found
) -> None:  # fmt: skip
    """Fills in the sets of some rows, whose limits are not by class; a few may stay unsettled."""
    (n, n_classes), many = measured.x.shape, rows.shape[0]
    launch(
        _count, many,
        (*measured[:2], rows, *formula[:2], limits.highest, limits.group, found.sizes, found.bytes), (n,),
        (n_classes, BLOCK, measured.softmax, limits.grouped, found.inside is not None), 8,
    )  # fmt: skip
    tops = list_tops(measured, rows, LISTED, min(SOME, 2 * measured.groups.shape[1] // 3))
    launch(
        _order, many, (*tops, rows, found.sizes, found.classes), (found.classes.shape[1],), (LISTED,), 8
    )  # fmt: skip
