"""Scores that look at no class but the best one (IP, margin): compiled.

One pass over a row tells whether it is a distribution, and its two largest probabilities; one comparison with
`cutoff.py` settles all of its classes, and nothing is sorted but what is in a set, unless that is most of the row.
"""

from typing import Any

import numpy as np

from pippin._engine.compiled import handfuls, lanes, rowwise
from pippin._engine.compiled.build import NONE, compiled_score_at, inlined, loop, part
from pippin._engine.compiled.cutoff import Cutoff, cutoff_of
from pippin._engine.compiled.handfuls import ARMFUL, HANDFUL, LISTED
from pippin._engine.compiled.sorting import MANY, sort_down
from pippin._engine.compiled.walk import (
    CHUNK,
    ONE,
    Look,
    Ranking,
    Row,
    at_least,
    collect,
    first_of,
    is_broken,
    is_doubtful,
    look,
    n_classes_of,
)
from pippin._engine.protocol import Scored
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE, Coefficients, Parts

LONG = 6 * CHUNK  # classes beyond which most words of a row hold nobody, and are passed by


@part
def _is_inside(row: Row, k: int, seen: Look, c: Coefficients, threshold: float) -> Any:
    """Whether a class that comes within rounding of the limit, or is the best one, is in the set."""
    p, mass = row.flat[row.start + k], c.table[0, ABOVE] * np.float64(seen.top)
    if c.reach == 1 and p == seen.top and k == first_of(row, seen.top):
        return True
    return compiled_score_at(c, 1, np.float64(p), mass, 0.0) <= threshold


@inlined
def _settled(row: Row, here: int, low: Any, sure: Any, seen: Look, c: Coefficients, threshold: float) -> Any:
    """Which of the next entries from `here` on are in the set; those that are unsure are asked."""
    inside = at_least(row, here, sure)
    unsure = at_least(row, here, low) & ~inside
    while unsure != 0:
        k = lanes.first(unsure)
        if _is_inside(row, here + k, seen, c, threshold):
            inside |= ONE << np.uint64(k)
        unsure &= unsure - ONE
    return inside


@inlined
def _is_empty(seen: Look, c: Coefficients, threshold: float) -> Any:
    """Whether not even the best class is in the set; of a score that does not look at it nobody can tell."""
    p, mass = np.float64(seen.top), c.second * np.float64(seen.second)
    return c.reach == 1 and not compiled_score_at(c, 0, p, mass, 0.0) <= threshold


@inlined
def _limits(row: Row, seen: Look, c: Coefficients, cutoff: Cutoff) -> tuple[Any, Any]:
    """From which probability on a class is to be asked, the best one always, and from which on it is in the set."""
    real = row.flat.dtype.type
    limit = cutoff.base + cutoff.weight * np.float64(seen.top) if c.reach == 1 else cutoff.base
    low, sure = real(limit - cutoff.slack), real(limit + cutoff.slack)
    return (low if c.reach == 0 or low <= seen.top else seen.top), sure


@part
def _write_many(
    row: Row, limits: tuple[Any, Any], seen: Look, c: Coefficients, threshold: float, found: Indices, room: Ranking
) -> int:
    """Writes a set of any size to the beginning of `found`; returns its size."""
    lanes.apart()
    size, (low, sure) = NONE, limits
    for here in range(0, row.size, CHUNK):
        size = collect(row, here, _settled(row, here, low, sure, seen, c, threshold), size, room)
    sort_down(room.raw, room.raw_classes, size, room.values, room.classes, NONE)
    for j in range(size):
        found[np.uint64(j)] = room.classes[np.uint64(j)]
    return size


@part
def _write_row(row: Row, found: Indices, used: int) -> None:
    """Writes all classes of a row by rank."""
    lanes.apart()
    for begin in range(0, row.size, ARMFUL):
        place = begin if begin + ARMFUL < row.size else row.size - ARMFUL
        handfuls.write_more(row.flat, row.start, place, row.size, found, used)


@inlined
def write_set(
    row: Row, seen: Look, c: Coefficients, cutoff: Cutoff, threshold: float, found: Indices, used: int, room: Ranking
) -> int:
    """Writes the members of a set to found[used:] by rank; returns their number.

    In rows that are not long nothing depends on how many there are, up to a handful: a processor would guess wrong.
    What stands behind them, up to a row's size and HANDFUL more, is written to as well.
    """
    if _is_empty(seen, c, threshold):
        return NONE
    low, sure = _limits(row, seen, c, cutoff)
    size, many = NONE, row.size > LONG
    for here in range(0, row.size if not many else 0, CHUNK):
        inside = _settled(row, here, low, sure, seen, c, threshold)
        handfuls.list_few(inside, here, found, used + size)
        more = lanes.count(inside)
        many |= more > LISTED
        size += more
    if ARMFUL <= row.size <= MANY and 2 * size > row.size:
        _write_row(row, found, used)
    elif many or size > HANDFUL:
        return _write_many(row, (low, sure), seen, c, threshold, found[used:], room)
    elif size > 1:
        handfuls.sort_few(row.flat, row.start, found, used, size)
    return size


@inlined
def one_set(row: Row, seen: Look, c: Coefficients, threshold: float, room: Ranking) -> int:
    """The size of one row's set, whose members the room's classes begin with."""
    if _is_empty(seen, c, threshold):
        return NONE
    return _write_many(row, _limits(row, seen, c, cutoff_of(c, threshold)), seen, c, threshold, room.classes, room)


@inlined
def place_in_row(row: Row, label: int, seen: Look, c: Coefficients, room: Ranking) -> tuple[int, float]:
    """The label's rank, as far as the score depends on it, and M."""
    own, top = row.flat[np.uint64(row.start + label)], seen.top
    if c.reach == 0:
        return NONE, 0.0
    if own < top or (own == seen.second and first_of(row, top) != label):
        return NONE + 1, c.table[0, ABOVE] * np.float64(top)
    return NONE, c.second * np.float64(seen.second)


@loop
def fill_places(flat: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored, room: Ranking) -> int:
    """As in `rowwise.py`."""
    return rowwise.fill_places(place_in_row, flat, labels, parts, u, out, room)


@loop
def fill_members(
    flat: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes, room: Ranking, begin: int, found: Indices
) -> tuple[int, int, int]:
    """As in `rowwise.py`; u is not looked at."""
    c, n_classes = Coefficients(*parts), n_classes_of(room)
    cutoff, used, suspects = cutoff_of(c, threshold), NONE, NONE
    for i in range(begin, sizes.size):
        if used + n_classes + HANDFUL > found.size:
            return i, used, suspects
        row = Row(flat, i * n_classes, n_classes)
        seen = look(row)
        suspects += is_doubtful(seen.total) | is_broken(seen)
        if is_broken(seen):
            continue
        size = write_set(row, seen, c, cutoff, threshold, found, used, room)
        sizes[i] = size
        used += size
    return sizes.size, used, suspects
