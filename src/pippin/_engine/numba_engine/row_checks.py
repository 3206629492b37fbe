"""Fast test of rows during ranking. Rows with negative or NaN entries, or a sum other than 1, count as suspect.

The caller validates the blocks of suspect rows again, more precisely.
"""

from typing import Any

import numpy as np

from pippin._engine.numba_engine.compilation import inlined_part, part, unordered_part
from pippin._runtime.arrays import Floats
from pippin._validation.rows import SUM_TOLERANCE

_DOUBTFUL = SUM_TOLERANCE / 2  # rows whose float32 sum differs from 1 by more are checked again in float64
_MOST_AT_ONCE, _ENTRIES_AT_ONCE = 64, 1 << 13  # largest number of rows, and of probabilities, scanned before ranking


@unordered_part
def _scan(block: Floats, bits: Any, i: int) -> tuple[Any, Any, Any]:
    """Return the sum of row i, added in any order, and the bit patterns of its maximum and minimum.

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
    """Return True if row i has an entry below zero; -0.0 does not count."""
    negative = False
    for k in range(block.shape[1]):
        negative |= block[i, k] < 0
    return negative


@part
def number_of(pattern: Any, block: Floats) -> Any:
    """Return the float with the bits `pattern`, in the block's type; 0 for a negative pattern, such as that of -0.0."""
    if block.itemsize == 4:
        return block.dtype.type(np.int32(max(pattern, 0)).view(np.float32))
    return block.dtype.type(np.int64(max(pattern, 0)).view(np.float64))


@part
def rows_at_once(n_classes: int) -> int:
    """Return the number of rows to scan before ranking them: as many as fit into the first-level cache."""
    return max(1, min(_MOST_AT_ONCE, _ENTRIES_AT_ONCE // n_classes))


@inlined_part
def scan_rows(block: Floats, bits: Any, first: int, last: int, tops: Floats) -> int:
    """Write the maximum of each row to `tops`, or −1 if the row cannot be ranked; return the number of suspect rows.

    Rows with a negative, infinite or NaN entry cannot be ranked. They are suspect, and so are rows with a sum other
    than 1. Several rows are scanned before any is ranked, since mispredicted branches during ranking would stall the
    scan.
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
    """Return True if a row with this sum must be validated: the sum differs from 1, or is NaN or infinite."""
    return not abs(total - 1.0) <= _DOUBTFUL


@part
def is_broken(total: Any, negative: bool) -> bool:
    """Return True if a row has a negative, infinite or NaN entry, so that it cannot be ranked."""
    return negative | (not total < np.inf)


@unordered_part
def check_row(row: Floats) -> tuple[bool, bool]:
    """Return two flags: True if the row must be validated, and True if it has negative, infinite or NaN entries."""
    total, negative = row.dtype.type(0), False
    for k in range(row.size):
        total += row[k]
        negative |= row[k] < 0
    broken = is_broken(total, negative)
    return broken | is_suspect_sum(total), broken
