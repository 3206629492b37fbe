"""Validation of one row on the way: a quick test that flags every row that may be no distribution."""

from typing import Any

import numpy as np

from pippin._engine.numba_engine.compilation import inlined_part, part, unordered_part
from pippin._runtime.arrays import Floats
from pippin._validation.rows import SUM_TOLERANCE

_DOUBTFUL = SUM_TOLERANCE / 2  # a sum in float32 that is farther from 1 is checked again in float64

_MOST_AT_ONCE, _ENTRIES_AT_ONCE = 64, 1 << 13


@unordered_part
def _scan(block: Floats, bits: Any, i: int) -> tuple[Any, Any, Any]:
    """Return the sum of row i, in any order, and the bit patterns of its maximum and minimum.

    Non-negative floats are ordered like their bit patterns, and the compiler vectorizes reductions of integers. The
    patterns of negative entries, and of -0.0, are negative.
    """
    total, top, low = block.dtype.type(0), bits.dtype.type(-1), bits.dtype.type(0)
    for k in range(block.shape[1]):
        total += block[i, k]
        top = max(top, bits[i, k])
        low = min(low, bits[i, k])
    return total, top, low


@part
def _has_negative(block: Floats, i: int) -> bool:
    """Return True if row i has an entry below zero; -0.0 is not."""
    negative = False
    for k in range(block.shape[1]):
        negative |= block[i, k] < 0
    return negative


@part
def number_of(pattern: Any, block: Floats) -> Any:
    """Return the number of a bit pattern of the block's type; 0 for a negative one, as of -0.0."""
    if block.itemsize == 4:
        return block.dtype.type(np.int32(max(pattern, 0)).view(np.float32))
    return block.dtype.type(np.int64(max(pattern, 0)).view(np.float64))


@part
def rows_at_once(n_classes: int) -> int:
    """Return how many rows to scan before they are ranked: as many as the first cache holds."""
    return max(1, min(_MOST_AT_ONCE, _ENTRIES_AT_ONCE // n_classes))


@inlined_part
def scan_rows(block: Floats, bits: Any, first: int, last: int, tops: Floats) -> int:
    """Write the maximum of each of some rows, −1 of a broken one; return the number of suspect rows.

    Several rows are scanned before any is ranked: mispredicted branches of a ranking would discard the scan of the next
    row.
    """
    suspects = 0
    for i in range(first, last):
        total, pattern, low = _scan(block, bits, i)
        negative = False
        if low < 0:
            negative = _has_negative(block, i)
        broken = is_broken(total, negative)
        suspects += broken | is_suspect_sum(total)
        top = number_of(pattern, block)
        tops[i - first] = block.dtype.type(-1) if broken else top
    return suspects


@part
def is_suspect_sum(total: Any) -> bool:
    """Return True if a row of this sum must be checked again; NaN and infinity are."""
    return not abs(total - 1.0) <= _DOUBTFUL


@part
def is_broken(total: Any, negative: bool) -> bool:
    """Return True if a row has a negative, infinite or NaN entry, and so no ranking."""
    return negative | (not total < np.inf)


@unordered_part
def check_row(row: Floats) -> tuple[bool, bool]:
    """Return (suspect, broken): a row must be checked again; it has a negative, infinite or NaN entry."""
    total, negative = row.dtype.type(0), False
    for k in range(row.size):
        total += row[k]
        negative |= row[k] < 0
    broken = is_broken(total, negative)
    return broken | is_suspect_sum(total), broken
