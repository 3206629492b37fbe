"""A row's classes, best first, ranked only as far as somebody walks: compiled.

A row is part of a flat array, and is looked at in windows of lanes. With many classes, they are
ranked in bands of falling probability, and a band is opened only when the walk gets there.

Somebody may write to the rows meanwhile. Then what is found is of no use, but nothing beyond
an array is touched: every class of a row is collected at most once in a band, what does not fit any
more is left out, and what is left unwritten is an older class, since arrays of classes begin
with zeros.
"""

from typing import Any, NamedTuple

import numpy as np

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import NONE, inlined, making, part
from pippin._engine.compiled.handfuls import HANDFUL
from pippin._engine.compiled.lanes import LANES
from pippin._engine.compiled.sorting import Ranking, sort_down
from pippin._inputs.rows import SUM_TOLERANCE
from pippin._runtime.arrays import Floats, Indices

CHUNK = 64  # entries whose answers fit into one whole number
FEW = 16  # classes up to which all are ranked at once
FIRST_BAND = 1 / 32  # at most 32 classes reach it
MODEST = 32  # members of a set up to which bands adapt to it
LOWER, HIGHER = 0.8, 1.02  # of a band's end; at rest, one set in ten does not fit into its first band
DOUBTFUL = SUM_TOLERANCE / 2  # a row whose sum is farther off is checked again in float64

ONE, ALL_LANES = np.uint64(1), np.uint64((1 << CHUNK) - 1)


class Row(NamedTuple):
    """The entries flat[start : start + size]."""

    flat: Floats
    start: int
    size: int


class Look(NamedTuple):
    """What one pass tells of a row: its sum, whether an entry is negative, its largest and its second largest entry."""

    total: Any
    negative: Any
    top: Any
    second: Any


def room_for(kind: Any, n_classes: int) -> Ranking:
    """Room for rows of so many classes, in Python or in a loop that makes arrays."""
    room = n_classes + HANDFUL
    return Ranking(np.zeros(room, kind), np.zeros(room, np.int32), np.zeros(room, kind), np.zeros(room, np.int32))


make_room = making(room_for)


@inlined
def n_classes_of(room: Ranking) -> int:
    """How many classes it is the room for."""
    return room.values.size - HANDFUL


@part
def _look_at_few(row: Row) -> Look:
    """The same where the array has fewer entries than there are lanes."""
    real = row.flat.dtype.type
    total, negative, top, second = real(0), False, real(-1), real(-1)
    for k in range(row.start, row.start + row.size):
        p = row.flat[k]
        total, negative = total + p, negative | (p < 0)
        if p > second:
            second, top = (p, top) if p < top else (top, p)
    return Look(total, negative, top, second)


@inlined
def look(row: Row) -> Look:
    """The one pass over a row that is checked and scored."""
    if row.flat.size < LANES:
        return _look_at_few(row)
    total, negative, top, second = lanes.digest(row.flat, row.start, row.size)
    return Look(total, negative, top, second)


@inlined
def is_broken(seen: Look) -> Any:
    """Whether an entry is negative, infinite or NaN: such a row has no ranking."""
    return seen.negative | (not seen.total < np.inf)


@inlined
def is_doubtful(total: Any) -> bool:
    """Whether a row's sum is far enough from 1 to be looked at again."""
    return not abs(total - 1.0) <= DOUBTFUL


@inlined
def at_least(row: Row, here: int, limit: Any) -> Any:
    """Which of the next CHUNK entries of a row from `here` on are at least `limit`: one bit each."""
    flat, start, found = row.flat, row.start + here, np.uint64(0)
    size = row.size - here if row.size - here < CHUNK else CHUNK
    if flat.size < LANES:
        for k in range(size):
            found |= np.uint64(flat[start + k] >= limit) << np.uint64(k)
        return found
    if row.size >= CHUNK:  # the last windows end with the row
        back = CHUNK - size
        return lanes.four_at_least(flat, start - back, limit) >> np.uint64(back)
    place = NONE
    while place + LANES <= size:
        found |= lanes.at_least(flat, start + place, limit) << np.uint64(place)
        place += LANES
    if place < size:  # the last window ends with the row, or begins with the array
        back = LANES - size if LANES - size < start else start
        last = lanes.at_least(flat, start - back, limit)
        last = last >> np.uint64(back) if back >= 0 else last << np.uint64(-back)
        found |= last & ((ONE << np.uint64(size)) - ONE)
    return found


@inlined
def collect(row: Row, here: int, chosen: Any, size: int, room: Ranking) -> int:
    """Collects the entries from `here` on that are meant, after the first `size`; returns how many there are then."""
    while chosen != 0:
        k = here + lanes.first(chosen)
        room.raw[np.uint64(size)], room.raw_classes[np.uint64(size)] = row.flat[np.uint64(row.start + k)], k
        size += 1
        chosen &= chosen - ONE
    return size


@part
def collect_above(row: Row, label: int, room: Ranking) -> int:
    """Collects the classes that rank above the label (ties by index); returns how many."""
    lanes.apart()
    own, size = row.flat[np.uint64(row.start + label)], NONE
    more = lanes.next_above(own)
    for here in range(0, row.size, CHUNK):
        chosen = at_least(row, here, own)
        if chosen != 0:
            ahead = label - here if label > here else 0
            before = ALL_LANES if ahead >= CHUNK else (ONE << np.uint64(ahead)) - ONE
            size = collect(row, here, chosen & (before | at_least(row, here, more)), size, room)
    return size


@part
def largest_below(row: Row, high: Any) -> Any:
    """The largest probability under `high`; −1 if there is none."""
    lanes.apart()
    if row.flat.size >= LANES:
        return lanes.largest_below(row.flat, row.start, row.size, high)
    largest = row.flat.dtype.type(-1)
    for k in range(row.start, row.start + row.size):
        largest = row.flat[k] if largest < row.flat[k] < high else largest
    return largest


@inlined
def write_pair(row: Row, one: int, other: int, found: Indices, used: int) -> None:
    """Writes two classes to found[used:] by rank; where they are equal, `one` comes first."""
    swapped = row.flat[np.uint64(row.start + other)] > row.flat[np.uint64(row.start + one)]
    found[np.uint64(used)] = other if swapped else one
    found[np.uint64(used + 1)] = one if swapped else other


@part
def first_of(row: Row, top: Any) -> Any:
    """The first class that is at least as probable; 0 if there is none."""
    for here in range(0, row.size, CHUNK):
        chosen = at_least(row, here, top)
        if chosen != 0:
            return here + lanes.first(chosen)
    return NONE


@part
def _open_band(row: Row, low: Any, high: Any, known: int, room: Ranking) -> int:
    """Ranks the classes with low <= p < high after the first `known`; returns how many are known then."""
    lanes.apart()
    size = NONE
    for here in range(0, row.size, CHUNK):
        chosen = at_least(row, here, low)
        if chosen != 0:
            if known > 0:
                chosen &= ~at_least(row, here, high)
            size = collect(row, here, chosen, size, room)
    size = size if size < row.size - known else row.size - known  # unless rows change, no more are left
    sort_down(room, size, known)
    return known + size


@part
def rank_more(row: Row, known: int, first_band: Any, room: Ranking) -> int:
    """Ranks one or more classes after the first `known`; returns how many are known then.

    The first band holds all that reach `first_band` (or every class, if they are few); a later
    one all that reach half of m, the largest probability not yet known, or even 16·m²,
    since a walk that has come so far may go on for long.
    """
    lanes.apart()
    real = row.flat.dtype.type
    high, end = real(np.inf), known
    if known > 0:
        high = room.values[known - 1]
    else:
        end = _open_band(row, first_band if row.size > FEW else real(0), high, known, room)
    if end == known:
        largest = largest_below(row, high)
        share = real(16) * largest if real(16) * largest < real(0.5) else real(0.5)
        end = _open_band(row, largest * share, high, known, room)
    return end if end > known else known + 1


@inlined
def adapted(first_band: float, size: int, opened: int) -> float:
    """Where the first band of the next row ends: lower, if this set did not fit into its own, else a little higher.

    Only the clock can tell.
    """
    if opened == 0 or size > MODEST:
        return first_band
    if size >= opened:
        return first_band * LOWER
    return first_band * HIGHER if first_band * HIGHER < FIRST_BAND else FIRST_BAND
