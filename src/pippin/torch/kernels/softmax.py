# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""The softmax of a row in two numbers, its largest logit and the inverse of its sum; one read of everything.

    p = 2^((x − top)·log₂e)·scale

`prob` is that formula, and every kernel has its probabilities from it and from two numbers that one kernel found, here
(or, of rows of few classes, `held.py`): the same bits everywhere, whatever else a kernel does. Given probabilities,
x is p and the scale is 1. In a row with NaN the scale is NaN, and so is every probability.

On the way `_measure` keeps the largest value of every group of neighbours, so that nobody has to read everything again.
"""

from typing import NamedTuple

import torch

from pippin.torch.kernels.language import constexpr, jit, launch, power_of_2, tl

WIDE, DEEP = 1024, 8
NEAR = 9e-4  # how far a row's sum may be from 1 without a second look


class Measured(NamedTuple):
    """Rows, and what one read of them found: four `numbers` of each, the top, the scale, a cut, and the sum.

    The cut is that of `tops.py`; only probabilities have a sum, NaN where one is negative. `groups` (n, ⌈K/group⌉)
    are the largest values of every so many neighbours.
    """

    x: torch.Tensor
    numbers: torch.Tensor
    groups: torch.Tensor
    group: int
    softmax: bool


@jit
def prob(x, top, scale, SOFTMAX: constexpr):
    if SOFTMAX:
        return tl.exp2((x - top) * 1.4426950408889634) * scale
    return x * scale + 0.0  # −0 counts as 0


@jit
def is_odd(scale, total, SOFTMAX: constexpr, NEAR: constexpr):
    """Whether a row may be no distribution."""
    if SOFTMAX:
        return scale != scale
    return (tl.abs(total - 1.0) <= NEAR) == 0


@jit
def _measure(
    x, numbers, groups, n, n_groups,
    K: constexpr, DEEP: constexpr, WIDE: constexpr, GROUP: constexpr, SOFTMAX: constexpr,
):  # fmt: skip
    """The numbers of one row, in one read of it: a running top of each column, to which its sum is held."""
    row = tl.program_id(0).to(tl.int64)
    kind = numbers.dtype.element_ty
    within = tl.arange(0, DEEP)[:, None] * WIDE + tl.arange(0, WIDE)[None, :]
    each: constexpr = WIDE // GROUP
    place = tl.arange(0, DEEP)[:, None] * each + tl.arange(0, each)[None, :]
    best = tl.full((WIDE,), -float("inf"), kind)
    total = tl.zeros((WIDE,), kind)
    least = tl.zeros((WIDE,), kind)
    for first in range(0, K, DEEP * WIDE):
        index = first + within
        value = tl.load(x + row * K + index, mask=index < K, other=-float("inf")).to(kind)
        largest = tl.max(tl.reshape(value, (DEEP, each, GROUP)), axis=2)
        at = first // GROUP + place
        tl.store(groups + row * n_groups + at, largest, mask=at < n_groups)
        higher = tl.maximum(best, tl.max(value, axis=0))
        if SOFTMAX:
            base = tl.where(higher == -float("inf"), 0.0, higher)
            total = total * prob(best, base, 1.0, True) + tl.sum(prob(value, base[None, :], 1.0, True), axis=0)
        else:
            total += tl.sum(tl.where(index < K, value, 0.0), axis=0)
            least = tl.minimum(least, tl.min(tl.where(index < K, value, 0.0), axis=0))
        best = higher
    top = tl.max(best, axis=0)
    if SOFTMAX:
        scale = 1.0 / tl.sum(total * prob(best, tl.where(top == -float("inf"), 0.0, top), 1.0, True), axis=0)
    else:
        whole = tl.sum(total, axis=0)
        scale = tl.where(whole == whole, 1.0, float("nan"))
        tl.store(numbers + 3 * n + row, tl.where(tl.min(least, axis=0) < 0, float("nan"), whole))
    tl.store(numbers + row, top)
    tl.store(numbers + n + row, scale)


@jit
def _write(
    x, numbers, rows, out, n, K: constexpr, BLOCK: constexpr, BLOCKS: constexpr, SOFTMAX: constexpr, ALL: constexpr
):  # fmt: skip
    """A block of one row's probabilities."""
    place = (tl.program_id(0) // BLOCKS).to(tl.int64)
    row = place
    if ALL == 0:
        row = tl.load(rows + place)
    index = tl.program_id(0) % BLOCKS * BLOCK + tl.arange(0, BLOCK)
    top, scale = tl.load(numbers + row), tl.load(numbers + n + row)
    value = tl.load(x + row * K + index, mask=index < K, other=0.0).to(out.dtype.element_ty)
    tl.store(out + place * K + index, prob(value, top, scale, SOFTMAX), mask=index < K)


def measure(x: torch.Tensor, softmax: bool) -> Measured:
    """One read of (n, K) logits, or probabilities, of any float type and many classes."""
    n, n_classes = x.shape
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    group = min(WIDE, max(128, power_of_2(n_classes) // 1024))
    numbers, groups = (
        torch.empty(shape, dtype=kind, device=x.device) for shape in ((4, n), (n, -(-n_classes // group)))
    )
    launch(
        _measure, n, (x, numbers, groups), (n, groups.shape[1]), (n_classes, DEEP, WIDE, group, softmax), 4
    )  # fmt: skip
    return Measured(x, numbers, groups, group, softmax)


def written(measured: Measured, rows: torch.Tensor | None = None) -> torch.Tensor:
    """The probabilities of all rows, or of some: what every kernel makes of them, to the last bit."""
    x, numbers = measured[:2]
    n, n_classes = x.shape
    many = n if rows is None else rows.shape[0]
    out = torch.empty((many, n_classes), dtype=numbers.dtype, device=x.device)
    block = min(4096, power_of_2(n_classes))
    blocks = -(-n_classes // block)
    launch(
        _write, many * blocks, (x, numbers, numbers if rows is None else rows, out), (n,),
        (n_classes, block, blocks, measured.softmax, rows is None), max(1, min(4, block // 1024)),
    )  # fmt: skip
    return out
