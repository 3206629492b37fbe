"""A row's classes, best first, ranked only as far as somebody walks: compiled.

With many classes, they are ranked in bands of falling probability (at most 32 can exceed
1/32), and a band is opened only when the walk gets there.

Somebody may write to the rows meanwhile. Then what is found is of no use, but nothing beyond
an array is touched: a row that is read twice can seem to have more entries than it has, so
they are counted where they are written; and what is left unwritten is an older class, since
arrays of classes begin with zeros.
"""

from typing import Any

import numpy as np

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import NONE, inlined, part, summing
from pippin._engine.compiled.lanes import LANES
from pippin._engine.compiled.sorting import sort_down
from pippin._inputs.rows import SUM_TOLERANCE
from pippin._runtime.arrays import Floats, Indices

EVERY_LANE = (1 << LANES) - 1
CHUNK = 64  # entries compared at once before any is looked at
FEW = 32  # classes up to which all are ranked at once
FIRST_BAND = 1 / 32
DOUBTFUL = SUM_TOLERANCE / 2  # a row whose sum is farther off is checked again in float64


@summing
def total(row: Floats) -> Any:
    mass = row[0] - row[0]
    for k in range(row.size):
        mass += row[k]
    return mass


@part
def is_broken(row: Floats) -> bool:
    """Whether an entry is negative or NaN."""
    good = True
    for k in range(row.size):
        good &= row[k] >= 0
    return not good


@part
def is_doubtful(total: Any) -> bool:
    """Whether a row's sum is far enough from 1 to be looked at again."""
    return not abs(total - 1.0) <= DOUBTFUL


@part
def any_at_least(chunk: Floats, low: Any) -> bool:
    found = False
    for k in range(chunk.size):
        found |= chunk[k] >= low
    return found


@inlined
def window(row: Floats, start: int) -> tuple[int, Any]:
    """A window of LANES that holds the entries from `start` on, and their lanes; the row must have as many entries."""
    begin = min(start, row.size - LANES)
    return begin, (np.uint32(EVERY_LANE) << np.uint32(start - begin)) & np.uint32(EVERY_LANE)


@inlined
def append(row: Floats, begin: int, chosen: Any, end: int, values: Floats, classes: Indices) -> int:
    """Appends the entries of these lanes at `end`, as far as there is room; returns the new end."""
    while chosen != 0 and end < values.size:
        k = begin + lanes.first(chosen)
        values[np.uint64(end)], classes[np.uint64(end)] = row[np.uint64(k)], k
        end += 1
        chosen &= chosen - np.uint32(1)
    return end


@part
def collect_above(row: Floats, label: int, values: Floats, classes: Indices) -> int:
    """Collects the classes that rank above the label (ties by index); returns how many."""
    own, count = row[label], NONE
    if row.size < LANES:
        for k in range(row.size):
            if row[k] > own or (row[k] == own and k < label):
                values[count], classes[count] = row[k], k
                count += 1
        return count
    for start in range(0, row.size, CHUNK):
        if any_at_least(row[start : start + CHUNK], own):
            for here in range(start, min(start + CHUNK, row.size), LANES):
                begin, every = window(row, here)
                before = np.uint32((1 << min(max(label - begin, 0), LANES)) - 1)
                chosen = (lanes.above(row, begin, own) | (lanes.at_least(row, begin, own) & before)) & every
                count = append(row, begin, chosen, count, values, classes)
    return count


@part
def largest_below(row: Floats, high: Any) -> Any:
    """The largest probability under `high`; −1 if there is none."""
    largest = row.dtype.type(-1)
    if row.size < LANES:
        for k in range(row.size):
            largest = max(largest, row[k]) if row[k] < high else largest
        return largest
    for here in range(0, row.size, LANES):
        begin, every = window(row, here)
        largest = max(largest, lanes.largest_of(row, begin, every & ~lanes.at_least(row, begin, high)))
    return largest


@part
def best_class(row: Floats) -> int:
    """The most probable class; the first of equal ones."""
    top = largest_below(row, row.dtype.type(np.inf))
    for start in range(0, row.size, CHUNK):
        if any_at_least(row[start : start + CHUNK], top):
            for k in range(start, min(start + CHUNK, row.size)):
                if row[k] == top:
                    return k
    return 0


@part
def largest_but(row: Floats, label: int) -> Any:
    """The largest probability of the other classes."""
    high = row.dtype.type(np.inf)
    return max(largest_below(row[:label], high), largest_below(row[label + 1 :], high))


@part
def _collect(row: Floats, low: Any, high: Any, end: int, values: Floats, classes: Indices) -> int:
    """Appends the classes with low <= p < high at `end`; returns the new end."""
    if row.size < LANES:
        for k in range(row.size):
            if low <= row[k] < high and end < values.size:
                values[end], classes[end] = row[k], k
                end += 1
        return end
    for start in range(0, row.size, CHUNK):
        if any_at_least(row[start : start + CHUNK], low):
            for here in range(start, min(start + CHUNK, row.size), LANES):
                begin, every = window(row, here)
                chosen = lanes.at_least(row, begin, low) & ~lanes.at_least(row, begin, high) & every
                end = append(row, begin, chosen, end, values, classes)
    return end


@part
def rank_more(row: Floats, known: int, values: Floats, classes: Indices) -> int:
    """Ranks one or more classes after the first `known`; returns how many are known then.

    The first band holds all that reach 1/32 (or every class, if they are few); a later
    one all that reach half of m, the largest probability not yet known, or even 16·m²,
    since a walk that has come so far may go on for long.
    """
    real = row.dtype.type
    high = real(np.inf)
    end = known
    if known > 0:
        high = values[known - 1]
    else:
        low = real(FIRST_BAND) if row.size > FEW else real(0)
        end = _collect(row, low, high, known, values, classes)
    if end == known:
        largest = largest_below(row, high)
        end = _collect(row, largest * min(real(0.5), real(16) * largest), high, known, values, classes)
    sort_down(values[known:end], classes[known:end])
    return end
