# mypy: disable-error-code="untyped-decorator,no-untyped-def,import-not-found,import-untyped,assignment,misc"
"""The k-th smallest of n numbers, found by one program: a histogram of the range that is left, again and again.

The bits of a float64, its sign turned round, are a whole number that grows with it. Of 256 parts of a range of such
numbers the k-th smallest is in one; two or three rounds leave a single number, or several that are the same.
"""

import torch

from pippin.torch.kernels.language import constexpr, jit, on_device_of, tl

BLOCK = 8192


@jit
def key_of(value):
    """A whole number that grows with a float64; −0 is 0."""
    bits = (value + 0.0).to(tl.int64, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFFFFFFFFFF, bits)


@jit
def _select(values, found, n, k, BLOCK: constexpr):
    lane = tl.arange(0, BLOCK)
    least = tl.full((BLOCK,), 0x7FFFFFFFFFFFFFFF, tl.int64)
    most = -least
    first = tl.full((), 0, tl.int32)
    while first < n:
        real = first + lane < n
        key = key_of(tl.load(values + first + lane, mask=real, other=0.0))
        least = tl.minimum(least, tl.where(real, key, 0x7FFFFFFFFFFFFFFF))
        most = tl.maximum(most, tl.where(real, key, -0x7FFFFFFFFFFFFFFF))
        first += BLOCK
    low, high = tl.min(least, axis=0), tl.max(most, axis=0)
    wanted = k
    bins = tl.arange(0, 256)
    while low < high:
        # parts of 2^shift keys, of which at most 256 cover the range; halved before it could overflow
        half = (high >> 1) - (low >> 1) + 1
        shift = tl.full((), 0, tl.int32)
        while (half >> shift) >= 128:
            shift += 1
        counts = tl.zeros((256,), tl.int32)
        first = tl.full((), 0, tl.int32)
        while first < n:
            key = key_of(tl.load(values + first + lane, mask=first + lane < n, other=0.0))
            inside = (first + lane < n) & (key >= low) & (key <= high)
            part = tl.where(inside, (key - low) >> shift, 0).to(tl.int32)
            counts += tl.histogram(part, 256, mask=inside)
            first += BLOCK
        reached = tl.cumsum(counts, axis=0)
        part = tl.min(tl.where(reached >= wanted, bins, 255), axis=0)
        wanted -= tl.sum(tl.where(bins < part, counts, 0), axis=0)
        low += part.to(tl.int64) << shift
        high = tl.minimum(high, low + ((tl.full((), 1, tl.int64) << shift) - 1))
    bits = tl.where(low < 0, low ^ 0x7FFFFFFFFFFFFFFF, low)
    tl.store(found, bits.to(tl.float64, bitcast=True))


def smallest(values: torch.Tensor, k: int) -> torch.Tensor:
    """(1,): the k-th smallest of float64 numbers without NaN, k from 1."""
    found = torch.empty(1, dtype=torch.float64, device=values.device)
    with on_device_of(values):
        _select[(1,)](values, found, len(values), k, BLOCK, num_warps=32)
    return found
