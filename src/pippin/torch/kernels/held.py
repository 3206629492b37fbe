# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""A row of up to MOST classes, read once and held by one program: its softmax, and its classes one after the other.

A row is a tile: each of WIDE threads holds DEEP times EACH neighbours. The sum of a softmax is that of
2^((x − top)·log₂e) of EACH neighbours, pair by pair, and then of these as whole numbers, in units of 2⁻²⁷ (2⁻⁴⁰ of
float64), whose sum is exact in any order: so every kernel finds the same probabilities, however its threads divide the
row.

Probabilities are ranked by their bits, as whole numbers. Every thread puts the best of what it holds to the front,
and the classes are taken from there, best first, as long as they are above all that is behind a front; then all
threads look again. Where equal probabilities hide one another, all of them are looked for one by one.
"""

import torch

from pippin.torch.kernels.language import constexpr, jit, power_of_2, tl
from pippin.torch.kernels.softmax import prob

MOST = 4096


@jit
def nan_or_larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@jit
def in_pairs(part, DEEP: constexpr, WIDE: constexpr, EACH: constexpr):
    """The sums of EACH neighbours of a tile, pair by pair: in one order, whatever each thread holds."""
    for _ in tl.static_range(3 if EACH == 8 else 2):
        one, other = tl.split(tl.reshape(part, (WIDE, DEEP, part.shape[2] // 2, 2)))
        part = one + other
    return tl.reshape(part, (WIDE, DEEP))


@jit
def held(x, row, K: constexpr, DEEP: constexpr, WIDE: constexpr, EACH: constexpr, SOFTMAX: constexpr):
    """The classes of a row as a tile, their probabilities, −1 where there are none, its top, scale and sum."""
    kind = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    deep = tl.arange(0, DEEP)[None, :, None] * (WIDE * EACH)
    index = deep + tl.arange(0, WIDE)[:, None, None] * EACH + tl.arange(0, EACH)[None, None, :]
    value = tl.load(x + row * K + index, mask=index < K, other=-float("inf")).to(kind)
    top = tl.reduce(tl.reduce(tl.reduce(value, 2, nan_or_larger), 1, nan_or_larger), 0, nan_or_larger)
    if SOFTMAX:
        part = prob(value, top, 1.0, True)
        if kind == tl.float64:
            units = (part * 1099511627776.0 + 0.5).to(tl.int64)
            whole = tl.sum(tl.sum(tl.sum(units, axis=2), axis=1), axis=0).to(kind) * 9.094947017729282e-13
        else:
            units = (in_pairs(part, DEEP, WIDE, EACH) * 134217728.0 + 0.5).to(tl.int32).to(tl.int64)
            whole = tl.sum(tl.sum(units, axis=1), axis=0).to(kind) * 7.450580596923828e-09
        scale = tl.where((top == top) & (tl.abs(top) < float("inf")), 1.0 / whole, float("nan"))
        p = part * scale
    else:
        real = tl.where(index < K, value, 0.0)
        whole = tl.sum(tl.sum(tl.sum(real, axis=2), axis=1), axis=0)
        whole = tl.where(tl.min(tl.min(tl.min(real, axis=2), axis=1), axis=0) < 0, float("nan"), whole)
        scale = tl.where(top == top, 1.0, float("nan")).to(kind)
        p = prob(value, top, scale, False)
    return index, tl.where(index < K, p, -1.0), top, scale, whole


@jit
def bits_of(p):
    """Numbers from 0 on as unsigned whole numbers in the same order; negative ones are larger than all."""
    return p.to(tl.uint64 if p.dtype == tl.float64 else tl.uint32, bitcast=True)


@jit
def signed(bits):
    """The same, negative ones smaller than all."""
    return bits.to(tl.int64 if bits.dtype == tl.uint64 else tl.int32, bitcast=True)


@jit
def value_of(best):
    """The number that has these bits, in float64."""
    return best.to(tl.float64 if best.dtype == tl.int64 else tl.float32, bitcast=True).to(tl.float64)


@jit
def largest(bits):
    return tl.max(tl.max(bits, axis=2), axis=1)


@jit
def classes_of(bits):
    """The first class of every thread of a tile, and how far from it all others are: the same for every thread."""
    wide: constexpr = bits.shape[0]
    deep: constexpr = bits.shape[1]
    each: constexpr = bits.shape[2]
    further = tl.arange(0, deep)[None, :, None] * (wide * each) + tl.arange(0, each)[None, None, :]
    return tl.arange(0, wide) * each, further


@jit
def fronts(bits, last):
    """Of every thread the best below `last`, −1 if there is none, and its class; and the best behind any front.

    Below are those whose difference wraps around, and the best of them is the largest then.
    """
    first, further = classes_of(bits)
    front = last + largest(bits - last)
    real = front < last
    where = tl.where(bits == front[:, None, None], further + 1048576, 0)
    where = tl.sum(tl.sum(where, axis=2), axis=1)
    behind = front + largest(bits - front[:, None, None])
    second = tl.where(behind < front, signed(behind), -1)
    second = tl.where(where >= 2097152, signed(front), second)
    second = tl.max(tl.where(real, second, -1), axis=0)
    return tl.where(real, signed(front), -1), tl.where(real, first + (where & 1048575), 2147483647), second


@jit
def start(bits):
    """Nothing in front, nothing behind it, all below the last one, and no class of the last one to go on from."""
    kind = tl.int64 if bits.dtype == tl.uint64 else tl.int32
    front = tl.full((bits.shape[0],), -1, kind)
    last = tl.full((), 1, bits.dtype) << (bits.dtype.primitive_bitwidth - 1)
    return front, front.to(tl.int32), tl.full((), -1, kind), last, tl.full((), 2147483647, tl.int32)


@jit
def next_equal(bits, last, after):
    """The first class behind `after` of just that probability; 2147483647, if there is none."""
    first, further = classes_of(bits)
    behind = (bits == last) & (further > (after - first)[:, None, None])
    found = tl.min(tl.min(tl.where(behind, further, 1073741824), axis=2), axis=1)
    return tl.min(tl.where(found < 1073741824, first + found, 2147483647), axis=0)


@jit
def take(bits, front, classes, second, last, after):
    """The bits of the next probability, −1 behind the last one, and its class; and what is left."""
    alone = tl.full((), 2147483647, tl.int32)
    best = tl.max(front, axis=0)
    if best <= second:
        if after < 2147483647:
            alone = next_equal(bits, last, after)
            best = signed(last)
        if alone == 2147483647:
            front, classes, second = fronts(bits, last)
            best = tl.max(front, axis=0)
            if (best == second) & (best >= 0):  # equal ones hide one another
                alone = next_equal(bits, best.to(last.dtype, bitcast=True), -1)
        after = alone
    k = tl.min(tl.where(front == best, classes, 2147483647), axis=0)
    front = tl.where(classes == k, -1, front)
    if alone < 2147483647:  # the next time others that equal it are looked for
        k = alone
        front, second = tl.zeros_like(front) - 1, tl.zeros_like(second) - 1
    return best, k, front, classes, second, best.to(last.dtype, bitcast=True), after


@jit
def price_of(bits, price, enough, K: constexpr, STEPS: constexpr):
    """SOCOP's τ of a row, reached by walking m = 2, 3, … as long as the ratio falls, and whether it is known.

    Once the ratio is at most `enough` the rest does not matter.
    """
    front, classes, second, last, after = start(bits)
    best, _, front, classes, second, last, after = take(bits, front, classes, second, last, after)
    ratio = tl.full((), float("inf"), tl.float64)
    mass = tl.full((), 0.0, tl.float64)
    rank = tl.full((), 1, tl.int32)
    going = best >= 0
    while going & (rank < K) & (rank < STEPS):
        best, _, front, classes, second, last, after = take(bits, front, classes, second, last, after)
        mass += value_of(best)
        following = (rank + price) / mass
        going = following < ratio
        ratio = tl.where(going, following, ratio)
        going = going & (ratio > enough)
        rank += 1
    return ratio, (going == 0) | (rank == K)


def few_classes(x: torch.Tensor) -> bool:
    """Whether one program can hold a row."""
    return x.shape[1] <= MOST


def tile(n_classes: int, size: int, warps: int) -> tuple[int, int, int]:
    """How a row of numbers of so many bytes is held by so many warps: DEEP, WIDE and EACH.

    >>> tile(1000, 4, 1), tile(12, 2, 1)
    ((8, 32, 4), (1, 32, 8))
    """
    wide, each = 32 * warps, 16 // size
    return max(1, power_of_2(n_classes) // (wide * each)), wide, each
