# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""A row of up to MOST classes, read once and held by one program: its softmax, its set, the score of its label.

The sum of a softmax is made of whole numbers, 2^((x − top)·log₂e) in units of 2⁻²⁷ (2⁻⁴⁰ of float64), whose sum is
exact in any order: so every kernel finds the same probabilities, however its threads divide the row. The best class
is taken out again and again, until a score passes the limit or STEPS are taken; then the row's number is noted for
`whole.py`.
"""

import torch

from pippin.torch.kernels.filled import Found, Limits, Placed
from pippin.torch.kernels.formula import linear, note
from pippin.torch.kernels.language import constexpr, jit, on_device_of, tl
from pippin.torch.kernels.softmax import NEAR, Measured, is_odd, prob

MOST = 4096
STEPS = 32


@jit
def nan_or_larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@jit
def of_row(
    x, row, numbers, n, K: constexpr, DEEP: constexpr, WIDE: constexpr, SOFTMAX: constexpr
):  # fmt: skip
    """The classes of a row as a tile, and their probabilities, −1 where there are none; notes the row's numbers."""
    kind = numbers.dtype.element_ty
    index = tl.arange(0, DEEP)[:, None] * WIDE + tl.arange(0, WIDE)[None, :]
    value = tl.load(x + row * K + index, mask=index < K, other=-float("inf")).to(kind)
    top = tl.reduce(tl.reduce(value, 0, nan_or_larger), 0, nan_or_larger)
    if SOFTMAX:
        part = prob(value, top, 1.0, True)
        if kind == tl.float64:
            units = tl.sum((part * 1099511627776.0 + 0.5).to(tl.int64), axis=0)
            whole = tl.sum(units, axis=0).to(kind) * 9.094947017729282e-13
        else:
            units = tl.sum((part * 134217728.0 + 0.5).to(tl.int32), axis=0).to(tl.int64)
            whole = tl.sum(units, axis=0).to(kind) * 7.450580596923828e-09
        scale = tl.where((top == top) & (tl.abs(top) < float("inf")), 1.0 / whole, float("nan"))
        p = part * scale
    else:
        real = tl.where(index < K, value, 0.0)
        whole = tl.sum(tl.sum(real, axis=0), axis=0)
        whole = tl.where(tl.min(tl.min(real, axis=0), axis=0) < 0, float("nan"), whole)
        scale = tl.where(top == top, 1.0, float("nan")).to(kind)
        p = prob(value, top, scale, False)
    tl.store(numbers + row, top)
    tl.store(numbers + n + row, scale)
    return index, tl.where(index < K, p, -1.0), scale, whole


@jit
def best_of(p):
    return tl.max(tl.max(p, axis=0), axis=0)


@jit
def class_of(p, best, index):
    """The first class of that probability."""
    return tl.min(tl.min(tl.where(p == best, index, 2147483647), axis=0), axis=0)


@jit
def price_of(p, index, price, enough, K: constexpr, STEPS: constexpr):
    """SOCOP's τ of a row, reached by walking m = 2, 3, … as long as the ratio falls, and whether it is known.

    Once the ratio is at most `enough` the rest does not matter.
    """
    p = tl.where(index == class_of(p, best_of(p), index), -1.0, p)
    ratio = tl.full((), float("inf"), tl.float64)
    mass = tl.full((), 0.0, tl.float64)
    rank = tl.full((), 1, tl.int32)
    going = tl.full((), 1, tl.int1)
    while going & (rank < K) & (rank < STEPS):
        best = best_of(p)
        p = tl.where(index == class_of(p, best, index), -1.0, p)
        mass += best.to(tl.float64)
        following = (rank + price) / mass
        going = following < ratio
        ratio = tl.where(going, following, ratio)
        going = going & (ratio > enough)
        rank += 1
    return ratio, (going == 0) | (rank == K)


@jit
def _sets(
    x, numbers, table, formula, draws, highest, limits, rank_limits, group, sizes, members, mask, left, n_left, n,
    width,
    K: constexpr, DEEP: constexpr, WIDE: constexpr, STEPS: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
    GROUPED: constexpr, BY_CLASS: constexpr, BY_RANK: constexpr, MASK: constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    index, p, scale, _ = of_row(x, row, numbers, n, K, DEEP, WIDE, SOFTMAX)
    broken = scale != scale
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    u = tl.load(draws + row)
    g = tl.full((), 0, tl.int64)
    if GROUPED:
        g = tl.load(group + row)
    limit = tl.load(highest + g)
    size = tl.full((), 0, tl.int32)
    rank = tl.full((), 0, tl.int32)
    mass = tl.full((), 0.0, tl.float64)
    known = tl.full((), 1, tl.int1)
    if LINEAR == 0:
        enough = limit
        if BY_CLASS:
            enough = tl.full((), -1.0, tl.float64)
        mass, known = price_of(p, index, price, enough, K, STEPS)
    going = known & (broken == 0)
    while going & (rank < K) & (rank < STEPS):
        best = best_of(p)
        k = class_of(p, best, index)
        p = tl.where(index == k, -1.0, p)
        wide = best.to(tl.float64)
        if LINEAR:
            before = mass
            if rank == 0:  # noqa: SIM102 - kernels have no "and"
                if second != 0.0:
                    before = second * best_of(p).to(tl.float64)
            score = linear(table, rank, constant, wide, before, u)
            mass += tl.load(table + rank * 5 + 2) * wide
        else:
            score = 1.0 / wide
            if rank > 0:
                score = tl.maximum(score, mass)
        going = (score <= limit) & (best >= 0)
        if going:
            member = score <= limit
            if BY_CLASS:
                member = score <= tl.load(limits + g * K + k)
                if BY_RANK:
                    member = member & (rank < tl.load(rank_limits + g * K + k))
            if member:
                tl.store(members + row * width + size, k.to(tl.int64), mask=size < width)
                if MASK:
                    tl.store(mask + row * K + k, tl.full((), 1, tl.int8))
                size += 1
        rank += 1
    tl.store(sizes + row, size.to(tl.int64))
    if ((going & (rank < K)) | (known == 0)) & (broken == 0):
        note(left, n_left, row)


@jit
def _labels(
    x, labels, numbers, table, formula, draws, ranks, owns, scores, left, n_left, faults, n, weighty,
    K: constexpr, DEEP: constexpr, WIDE: constexpr, STEPS: constexpr, SOFTMAX: constexpr, LINEAR: constexpr,
    NEAR: constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    index, p, scale, whole = of_row(x, row, numbers, n, K, DEEP, WIDE, SOFTMAX)
    broken = scale != scale
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    label = tl.load(labels + row).to(tl.int32)
    valid = (label >= 0) & (label < K)
    own = tl.max(tl.max(tl.where(index == label, p, -1.0), axis=0), axis=0)
    above = (p > own) | ((p == own) & (index < label))
    last = tl.sum(tl.sum(above.to(tl.int32), axis=0), axis=0)
    wide = own.to(tl.float64)
    mass = tl.full((), 0.0, tl.float64)
    known = tl.full((), 1, tl.int1)
    if LINEAR:
        needed = tl.minimum(last, weighty)
        known = needed <= STEPS
        rank = tl.full((), 0, tl.int32)
        if last == 0:  # noqa: SIM102 - kernels have no "and"
            if second != 0.0:
                mass = second * best_of(tl.where(index == label, -1.0, p)).to(tl.float64)
        while known & (rank < needed):
            best = best_of(p)
            p = tl.where(index == class_of(p, best, index), -1.0, p)
            mass += tl.load(table + rank * 5 + 2) * best.to(tl.float64)
            rank += 1
        score = linear(table, tl.minimum(last, K - 1), constant, wide, mass, tl.load(draws + row))
    else:
        score = 1.0 / wide
        if last > 0:
            mass, known = price_of(p, index, price, score, K, STEPS)
            score = tl.maximum(score, mass)
    tl.store(scores + row, tl.where(broken, float("nan"), score))
    tl.store(ranks + row, tl.where(valid, last, -1))
    tl.store(owns + row, own)
    if is_odd(scale, whole, SOFTMAX, NEAR) | (valid == 0):
        tl.atomic_add(faults, 1, sem="relaxed")
    if (known == 0) & (broken == 0) & valid:
        note(left, n_left, row)


@jit
def _probabilities(
    x, numbers, out, n, K: constexpr, DEEP: constexpr, WIDE: constexpr, SOFTMAX: constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    index, p, _, _ = of_row(x, row, numbers, n, K, DEEP, WIDE, SOFTMAX)
    tl.store(out + row * K + index, p, mask=index < K)


def tile(n_classes: int) -> tuple[int, int, int]:
    """How a row is held: DEEP lines of WIDE classes, by so many warps.

    >>> tile(1000), tile(12)
    ((4, 256, 1), (1, 16, 1))
    """
    span = 1 << max(4, (n_classes - 1).bit_length())
    wide = min(span, max(256, span // 4))
    return span // wide, wide, max(1, span // 1024)


def few_classes(x: torch.Tensor) -> bool:
    """Whether one program can hold a row."""
    return x.shape[1] <= MOST


def sets_of_rows(
    measured: Measured, table: torch.Tensor, formula: torch.Tensor, u: torch.Tensor, limits: Limits, found: Found,
    linear: bool,
) -> None:  # fmt: skip
    """Fills in the sets of all rows that STEPS ranks settle, and the numbers of all."""
    n, n_classes = measured.x.shape
    deep, wide, warps = tile(n_classes)
    with on_device_of(measured.x):
        _sets[(n,)](
            measured.x, measured.numbers, table, formula, u, limits.highest, limits.scores, limits.ranks, limits.group,
            found.sizes, found.classes, found.mask.view(torch.int8), found.left, found.n_left, n,
            found.classes.shape[1], n_classes, deep, wide, STEPS, measured.softmax, linear, limits.grouped,
            limits.by_class, limits.by_rank, len(found.mask) > 0, num_warps=warps, enable_fp_fusion=False,
        )  # fmt: skip


def labels_of_rows(
    measured: Measured, table: torch.Tensor, formula: torch.Tensor, u: torch.Tensor, placed: Placed, linear: bool,
    weighty: int,
) -> None:  # fmt: skip
    """Fills in the places and scores of all labels that STEPS ranks settle, and the numbers of all rows."""
    n, n_classes = measured.x.shape
    deep, wide, warps = tile(n_classes)
    with on_device_of(measured.x):
        _labels[(n,)](
            measured.x, placed.labels, measured.numbers, table, formula, u, placed.ranks, placed.own, placed.scores,
            placed.left, placed.n_left, placed.faults, n, weighty, n_classes, deep, wide, STEPS, measured.softmax,
            linear, NEAR, num_warps=warps, enable_fp_fusion=False,
        )  # fmt: skip


def probabilities_of_rows(measured: Measured) -> torch.Tensor:
    """The probabilities of all rows; their numbers are filled in."""
    n, n_classes = measured.x.shape
    deep, wide, warps = tile(n_classes)
    out = torch.empty((n, n_classes), dtype=measured.numbers.dtype, device=measured.x.device)
    with on_device_of(measured.x):
        _probabilities[(n,)](
            measured.x, measured.numbers, out, n, n_classes, deep, wide, measured.softmax,
            num_warps=warps, enable_fp_fusion=False,
        )  # fmt: skip
    return out
