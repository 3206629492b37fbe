# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""The best few of every row of many classes, and the rank of its label, from the groups that can have them.

Of the largest values of all groups a cut is found that some of them reach; only those groups are read again, and
what is above the cut is listed. 2^x need not grow with x in its last bits: the cut is raised by more than that, and a
label's rank is counted over all groups that come near it.
"""

from typing import NamedTuple

import torch

from pippin.torch.kernels.filled import Placed
from pippin.torch.kernels.language import constexpr, jit, launch, power_of_2, tl
from pippin.torch.kernels.softmax import NEAR, Measured, is_odd, prob

LISTED = 32  # values above the cut that have room, and groups
SOME = 16  # groups with a value above the cut
HALVINGS = 10


class Tops(NamedTuple):
    """The values above each row's cut (n, LISTED), their classes, and how many there are: some may have no room."""

    values: torch.Tensor
    classes: torch.Tensor
    counts: torch.Tensor


@jit
def halfway(low, high, SOFTMAX: constexpr):
    """Between two logits, or between two probabilities: these about halfway in their logarithm, by their bits."""
    if SOFTMAX:
        return low + (high - low) * 0.5
    bits = tl.int64 if low.dtype == tl.float64 else tl.int32
    below = low.to(bits, bitcast=True)
    return (below + (high.to(bits, bitcast=True) - below) // 2).to(low.dtype, bitcast=True)


@jit
def _list(
    x, numbers, groups, rows, chosen, values, classes, counts, n, n_groups,
    K: constexpr, GROUP: constexpr, GROUPS: constexpr, LISTED: constexpr, SOME: constexpr, HALVINGS: constexpr,
    SOFTMAX: constexpr, ALL: constexpr,
):  # fmt: skip
    """The best of one row: a cut from the groups' largest values, and only the groups that reach it."""
    place = tl.program_id(0).to(tl.int64)
    row = place
    if ALL == 0:
        row = tl.load(rows + place)
    start = place * LISTED
    kind = numbers.dtype.element_ty
    top, scale = tl.load(numbers + row), tl.load(numbers + n + row)
    group = tl.arange(0, GROUPS)
    best = tl.load(groups + row * n_groups + group, mask=group < n_groups, other=-float("inf"))
    nothing = -float("inf") if SOFTMAX else 0.0
    low, high = tl.min(tl.where(best <= nothing, top, best), axis=0), top
    for _ in range(HALVINGS):
        middle = halfway(low, high, SOFTMAX)
        enough = tl.sum((best >= middle).to(tl.int32), axis=0) >= SOME
        low, high = tl.where(enough, middle, low), tl.where(enough, high, middle)
    reach = best >= low
    found = tl.sum(reach.to(tl.int32), axis=0)
    position = tl.cumsum(reach.to(tl.int32), axis=0) - 1
    tl.store(chosen + start + position, group, mask=reach & (position < LISTED))
    tl.debug_barrier()
    slot = tl.arange(0, LISTED)
    group = tl.load(chosen + start + slot, mask=slot < found, other=0)
    index = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    real = (slot < found)[:, None] & (index < K)
    p = prob(tl.load(x + row * K + index, mask=real, other=0.0).to(kind), top, scale, SOFTMAX)
    cut = prob(low, top, scale, SOFTMAX)
    if SOFTMAX:
        cut = cut * 1.00006103515625
    high = real & (p >= cut) & (p > 0)
    where = tl.atomic_add(counts + place + tl.zeros_like(index), 1, mask=high, sem="relaxed")
    fits = high & (where < LISTED)
    tl.store(values + start + where, p, mask=fits)
    tl.store(classes + start + where, index, mask=fits)
    tl.store(numbers + 2 * n + row, cut)
    tl.atomic_add(counts + place, tl.where(found > LISTED, LISTED + 1, 0), sem="relaxed")


@jit
def _rank(
    x, numbers, groups, labels, ranks, scores, faults, n, n_groups,
    K: constexpr, GROUP: constexpr, AT_ONCE: constexpr, SOFTMAX: constexpr, NEAR: constexpr,
):  # fmt: skip
    """The rank of one row's label, and its probability: only groups that reach it are read."""
    row = tl.program_id(0).to(tl.int64)
    kind = numbers.dtype.element_ty
    top, scale = tl.load(numbers + row), tl.load(numbers + n + row)
    label = tl.load(labels + row)
    known = (label >= 0) & (label < K)
    value = tl.load(x + row * K + label, mask=known, other=0.0).to(kind)
    own = prob(value, top, scale, SOFTMAX)
    near = value
    if SOFTMAX:
        near = tl.where(own > 1e-30, value - 1e-3, -float("inf"))
    above = tl.zeros((AT_ONCE, GROUP), tl.int32)
    for first in range(0, K // GROUP + 1, AT_ONCE):
        group = first + tl.arange(0, AT_ONCE)
        reach = tl.load(groups + row * n_groups + group, mask=group < n_groups, other=-float("inf")) >= near
        if tl.max(reach.to(tl.int32), axis=0) > 0:
            index = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
            real = reach[:, None] & (index < K)
            p = prob(tl.load(x + row * K + index, mask=real, other=0.0).to(kind), top, scale, SOFTMAX)
            above += (real & ((p > own) | ((p == own) & (index < label)))).to(tl.int32)
    rank = tl.sum(tl.sum(above, axis=0), axis=0)
    tl.store(ranks + row, tl.where(known, rank, -1))
    tl.store(scores + row, own.to(tl.float64))
    whole = scale
    if SOFTMAX == 0:
        whole = tl.load(numbers + 3 * n + row)
    if is_odd(scale, whole, SOFTMAX, NEAR) | (known == 0):
        tl.atomic_add(faults, 1, sem="relaxed")


def list_tops(
    measured: Measured, rows: torch.Tensor | None = None, listed: int = LISTED, some: int = SOME
) -> Tops:  # fmt: skip
    """The best of all rows, or of some: `listed` at most, from `some` groups or a few more."""
    x, numbers, groups = measured[:3]
    n, n_classes = x.shape
    many = n if rows is None else rows.shape[0]
    values = torch.empty((many, listed), dtype=numbers.dtype, device=x.device)
    classes, chosen = (torch.empty((many, listed), dtype=torch.int32, device=x.device) for _ in range(2))
    counts = torch.zeros(many, dtype=torch.int32, device=x.device)
    launch(
        _list, many, (x, numbers, groups, groups if rows is None else rows, chosen, values, classes, counts),
        (n, groups.shape[1]),
        (n_classes, measured.group, power_of_2(groups.shape[1]), listed, some, HALVINGS, measured.softmax,
         rows is None),
        max(4, listed // 32),
    )  # fmt: skip
    return Tops(values, classes, counts)


def rank_labels(measured: Measured, placed: Placed) -> None:
    """Fills in the ranks of labels, and their probabilities in the place of scores."""
    x, numbers, groups = measured[:3]
    n, n_classes = x.shape
    launch(
        _rank, n, (x, numbers, groups, placed.labels, placed.ranks, placed.scores, placed.faults), (n, groups.shape[1]),
        (n_classes, measured.group, max(1, 4096 // measured.group), measured.softmax, NEAR), 4,
    )  # fmt: skip
