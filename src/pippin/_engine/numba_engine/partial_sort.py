"""Partial sort of one row: its classes are sorted by descending probability, band by band, as far as needed.

A band contains the classes whose probabilities are between two limits. To find them, 64 classes at a time are compared
with a limit by SIMD instructions. The result is a 64-bit word, and the classes of its set bits are appended and sorted.
Ties are ranked in the order of the classes.
"""

from typing import Any

import numpy as np

from pippin._engine.numba_engine.compilation import inlined_part, part
from pippin._engine.numba_engine.row_checks import number_of
from pippin._runtime.arrays import Codes, Floats, Indices

WORD = 64
FIRST_BAND = 1 / 32  # smallest probability in the first band; at most 32 classes reach it
FEW = 8  # largest number of classes that insertion sort is used for
_RUN = 256  # largest number of classes that are sorted by counting, for each, the larger ones; more by radix sort
_LANES = 16  # arrays are padded to multiples of this length for SIMD
_DIGIT = 11  # bits per digit in radix sort
_MASK = (1 << _DIGIT) - 1
_MODEST = 32  # largest set size from which the limit of the first band is adapted for the next row
# After a row whose set exceeds the first band, the limit of the first band is multiplied by _LOWER, else by _HIGHER.
# These factors let about one set in ten exceed the band.
_LOWER, _HIGHER = 0.8, 1.02
_ONE = np.uint64(1)


def _bit_numbers() -> tuple[np.uint64, Any]:
    """Return a factor and a table that give the number of the only set bit of a word (de Bruijn).

    The table maps the top six bits of factor · 2ʲ to j.
    """
    factor = 0x03F79D71B4CB0A89
    numbers = np.zeros(WORD, np.uint8)
    for number in range(WORD):
        numbers[((factor << number) & (2**WORD - 1)) >> 58] = number
    numbers.flags.writeable = False
    return np.uint64(factor), numbers


_FACTOR, _NUMBERS = _bit_numbers()


@part
def sort_buffers(block: Floats) -> tuple[Indices, Floats, Indices, Codes]:
    """Allocate `order`, whose first half gets the ranked classes of a row, and the scratch arrays of `sort_many`."""
    n_classes = block.shape[1]
    values, counts = np.zeros(_RUN + _LANES, block.dtype), np.zeros(1 << _DIGIT, np.int32)
    return np.zeros(2 * n_classes + _LANES, np.int32), values, counts, np.zeros(2 * n_classes, np.int64)


@inlined_part
def _word_at_least(block: Floats, i: int, start: int, limit: Any) -> Any:
    """Return a 64-bit word whose bit j is set if class `start + j` has at least the probability `limit`."""
    # With unsigned indices, numba omits the check for negative values.
    word, row, first = np.uint64(0), np.uint64(i), np.uint64(start)
    for j in range(np.uint64(WORD)):
        word |= np.uint64(block[row, first + j] >= limit) << j
    return word


@inlined_part
def _at_least(block: Floats, i: int, start: int, limit: Any) -> Any:
    """Like `_word_at_least`, but also for the end of a row, where fewer than 64 classes are left."""
    n_classes = block.shape[1]
    if n_classes >= WORD:
        first = min(start, n_classes - WORD)  # shift the last word back, to end with the row
        return _word_at_least(block, i, first, limit) >> np.uint64(start - first)
    word = np.uint64(0)
    for j in range(n_classes):
        word |= np.uint64(block[i, j] >= limit) << np.uint64(j)
    return word


@inlined_part
def _append(word: Any, start: int, order: Indices, size: int, n_classes: int) -> int:
    """Append the classes of the set bits of a word to `order`; return the new size.

    The size never exceeds `n_classes`, even if another thread changes the row.
    """
    while word != 0 and size < n_classes:
        rest = word & (word - _ONE)
        order[size] = start + _NUMBERS[((word ^ rest) * _FACTOR) >> np.uint64(58)]
        size += 1
        word = rest
    return size


@inlined_part
def sort_few(block: Floats, i: int, order: Indices, begin: int, end: int) -> None:
    """Sort order[begin:end] by descending probability with insertion sort (stable).

    If there are more than FEW classes, do nothing.
    """
    for place in range(begin + 1, end if end - begin <= FEW else begin):
        k, hole = order[place], place
        p = block[i, k]
        while hole > begin and block[i, order[hole - 1]] < p:
            order[hole] = order[hole - 1]
            hole -= 1
        order[hole] = k


@part
def sort_many(
    block: Floats, bits: Any, i: int, order: Indices, begin: int, end: int, values: Floats, counts: Indices, keys: Codes
) -> None:
    """Sort order[begin:end] by descending probability (stable). The second half of `order` is used as a buffer."""
    size, half = end - begin, order.size // 2
    if size <= _RUN:
        # The rank of a class is the number of larger probabilities, which are counted with SIMD.
        larger, padded = 0, (size + _LANES - 1) // _LANES * _LANES
        for j in range(padded):
            values[j], counts[j] = -1, 0
        for j in range(size):
            values[j], order[half + j] = block[i, order[begin + j]], order[begin + j]
        for a in range(0, size, 4):
            p, q, r, s = values[a], values[a + 1], values[a + 2], values[a + 3]
            for j in range(padded):
                v = values[j]
                counts[j] += np.int32(p > v) + np.int32(q > v) + np.int32(r > v) + np.int32(s > v)
        for j in range(size):
            larger += counts[j]
        if 2 * larger < size * (size - 1):  # there are ties, of which the first class ranks first
            for a in range(size):
                for j in range(a + 1, size):
                    counts[j] += values[a] == values[j]
        for j in range(size):
            order[begin + counts[j]] = order[half + j]
    if size > _RUN:
        # Radix sort, least significant digit first. Keys are a constant minus the bit pattern, for descending order.
        n_bits, largest = 8 * block.itemsize - 1, np.int64(np.iinfo(np.int64).max)
        source, target = 0, keys.size // 2
        for j in range(size):
            keys[j], order[half + j] = largest - max(int(bits[i, order[begin + j]]), 0), order[begin + j]
        place, other = half, begin
        for shift in range(0, n_bits, _DIGIT):
            for digit in range(1 << _DIGIT):
                counts[digit] = 0
            for j in range(size):
                counts[(keys[source + j] >> shift) & _MASK] += 1
            before = 0
            for digit in range(1 << _DIGIT):
                before += counts[digit]
                counts[digit] = before - counts[digit]
            for j in range(size):
                digit = (keys[source + j] >> shift) & _MASK
                keys[target + counts[digit]], order[other + counts[digit]] = keys[source + j], order[place + j]
                counts[digit] += 1
            source, target, place, other = target, source, other, place
        if place == half:
            for j in range(size):
                order[begin + j] = order[half + j]


@inlined_part
def collect_band(block: Floats, i: int, low: Any, high: Any, known: int, order: Indices) -> int:
    """Append the classes with low <= probability < high to `order`, which holds `known` classes; return the new number.

    If `known` is 0, `high` is ignored.
    """
    size = known
    for start in range(0, block.shape[1], WORD):
        word = _at_least(block, i, start, low)
        if known > 0 and word != 0:
            word &= ~_at_least(block, i, start, high)
        size = _append(word, start, order, size, block.shape[1])
    return size


@inlined_part
def collect_above(block: Floats, bits: Any, i: int, label: int, order: Indices) -> int:
    """Write the classes that rank before a label to `order`; return their number."""
    own, size = block[i, label], 0
    above = number_of(max(bits[i, label], 0) + 1, block)  # the next float above the label's probability
    for start in range(0, block.shape[1], WORD):
        word = _at_least(block, i, start, own if start + WORD <= label else above)
        if start <= label < start + WORD:
            word |= _at_least(block, i, start, own) & ((_ONE << np.uint64(label - start)) - _ONE)
        size = _append(word, start, order, size, block.shape[1])
    return min(size, int(block.shape[1]) - 1)


@inlined_part
def is_first(block: Floats, i: int, label: int) -> bool:
    """Return True if no class with a smaller index than the label has the same probability."""
    tied = False
    for k in range(label):
        tied |= block[i, k] == block[i, label]
    return not tied


@inlined_part
def second_largest(block: Floats, bits: Any, i: int, top: Any) -> Any:
    """Return the second largest probability of row i, whose largest is `top`."""
    none, ties = bits.dtype.type(-1), 0
    pattern = none
    for k in range(block.shape[1]):
        ties += block[i, k] >= top
        pattern = max(pattern, bits[i, k] if block[i, k] < top else none)
    below = number_of(pattern, block)
    return top if ties > 1 else below


@inlined_part
def largest_other(block: Floats, bits: Any, i: int, label: int) -> Any:
    """Return the largest probability of row i among the classes other than the label."""
    none = bits.dtype.type(-1)
    pattern = none
    for k in range(block.shape[1]):
        pattern = max(pattern, bits[i, k] if k != label else none)
    return number_of(pattern, block)


@part
def next_limit(block: Floats, bits: Any, i: int, low: Any) -> Any:
    """Return the lower limit of the next band of classes to rank, given the limit `low` of the last band.

    It is min(m/2, 16·m²), where m is the largest probability below `low`. The smaller m, the wider the band in
    proportion to m, since a set that reaches small probabilities may contain many more classes.
    """
    none, real = bits.dtype.type(-1), block.dtype.type
    pattern = none
    for k in range(block.shape[1]):
        pattern = max(pattern, bits[i, k] if block[i, k] < low else none)
    largest = number_of(pattern, block)
    return largest * min(real(0.5), real(16) * largest)


@part
def rank_more(
    block: Floats, bits: Any, i: int, low: Any, known: int, order: Indices, values: Floats, counts: Indices, keys: Codes
) -> tuple[int, Any]:
    """Rank the classes of the next band, whose probabilities are below `low`.

    Return the number of classes that are then ranked, and the lower limit of the band.
    """
    limit = next_limit(block, bits, i, low)
    size = collect_band(block, i, limit, low, known, order)
    sort_few(block, i, order, known, size)
    if size - known > FEW:
        sort_many(block, bits, i, order, known, size, values, counts, keys)
    return (size if size > known else block.shape[1]), limit


@part
def adapted(first_band: float, size: int, fits: bool) -> float:
    """Return the limit of the first band for the next row: lower if the set of this row exceeded it, else higher."""
    if size > _MODEST:
        return first_band
    return min(first_band * _HIGHER, FIRST_BAND) if fits else first_band * _LOWER
