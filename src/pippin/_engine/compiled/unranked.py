"""Scores that look at no class but the best one (IP, margin): compiled.

One pass over a row tells whether it is a distribution, and its two largest probabilities; one comparison with
`cutoff.py` settles all of its classes, and nothing is sorted but what is in a set, unless that is most of the row.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled import handfuls, lanes, rowwise
from pippin._engine.compiled.build import BEST, NEXT, NONE, compiled_score_at, inlined, loop, part
from pippin._engine.compiled.cutoff import Cutoff, cutoff_of
from pippin._engine.compiled.growing import Onwards, grown
from pippin._engine.compiled.handfuls import ARMFUL, HANDFUL
from pippin._engine.compiled.sorting import MANY, Ranking, sort_down
from pippin._engine.compiled.walk import (
    CHUNK,
    ONE,
    Look,
    Row,
    at_least,
    collect,
    first_of,
    is_broken,
    is_doubtful,
    look,
    n_classes_of,
    room_for,
    write_pair,
)
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE, Coefficients, Parts

LONG = 6 * CHUNK  # classes beyond which most words of a row hold nobody, and are passed by
WORDS = 64  # of sets that are found before they are written


class Room(NamedTuple):
    """Room for one row, and for some: their sets, a bit for each class, a row after another, and what limits each.

    From which probability on a class is to be asked, from which on it is in the set, and the largest one of the row.
    """

    ranking: Ranking
    inside: NDArray[np.uint64]
    low: Floats
    sure: Floats
    top: Floats


@inlined
def _look_as_needed(row: Row, c: Coefficients) -> Look:
    """What one pass tells of a row; not its best entries, if the score looks at none but a class's own."""
    if c.reach > 0 or row.flat.size < lanes.LANES:
        return look(row)
    total, negative = lanes.checked(row.flat, row.start, row.size)
    return Look(total, negative, row.flat.dtype.type(0), row.flat.dtype.type(0))


@part
def _is_inside(row: Row, k: int, top: Any, c: Coefficients, threshold: float) -> Any:
    """Whether a class that comes within rounding of the limit, or is the best one, is in the set."""
    p, mass = row.flat[row.start + k], c.table[0, ABOVE] * np.float64(top)
    if c.reach == 1 and p == top and k == first_of(row, top):
        return True
    return compiled_score_at(c, NEXT, np.float64(p), mass, 0.0) <= threshold


@inlined
def _settled(row: Row, here: int, low: Any, sure: Any, top: Any, c: Coefficients, threshold: float) -> Any:
    """Which of the next entries from `here` on are in the set; those that are unsure are asked."""
    inside = at_least(row, here, sure)
    unsure = at_least(row, here, low) & ~inside
    while unsure != 0:
        k = lanes.first(unsure)
        if _is_inside(row, here + k, top, c, threshold):
            inside |= ONE << np.uint64(k)
        unsure &= unsure - ONE
    return inside


@inlined
def _is_empty(seen: Look, c: Coefficients, threshold: float) -> Any:
    """Whether not even the best class is in the set; of a score that does not look at it nobody can tell."""
    p, mass = np.float64(seen.top), c.second * np.float64(seen.second)
    return c.reach == 1 and not compiled_score_at(c, BEST, p, mass, 0.0) <= threshold


@inlined
def _limits(row: Row, seen: Look, c: Coefficients, cutoff: Cutoff) -> tuple[Any, Any]:
    """From which probability on a class is to be asked, the best one always, and from which on it is in the set."""
    real = row.flat.dtype.type
    limit = cutoff.base + cutoff.weight * np.float64(seen.top) if c.reach == 1 else cutoff.base
    low, sure = real(limit - cutoff.slack), real(limit + cutoff.slack)
    return (low if c.reach == 0 or low <= seen.top else seen.top), sure


@part
def _limit(flat: Floats, first: int, last: int, c: Coefficients, cutoff: Cutoff, threshold: float, room: Room) -> int:
    """Fills in what limits some rows' sets, which nobody reaches in an empty one; returns how many are suspect."""
    n_classes, suspects, nobody = n_classes_of(room.ranking), NONE, flat.dtype.type(np.inf)
    for i in range(first, last):
        row, j = Row(flat, i * n_classes, n_classes), np.uint64(i - first)
        seen = _look_as_needed(row, c)
        empty = is_broken(seen) | _is_empty(seen, c, threshold)
        low, sure = _limits(row, seen, c, cutoff)
        suspects += is_doubtful(seen.total) | is_broken(seen)
        room.low[j], room.sure[j], room.top[j] = nobody if empty else low, nobody if empty else sure, seen.top
    return suspects


@part
def _find(flat: Floats, first: int, last: int, c: Coefficients, threshold: float, room: Room) -> None:
    """Fills in a bit for each class of some rows: whether it is in the set."""
    n_classes, at = n_classes_of(room.ranking), NONE
    for i in range(first, last):
        row, j = Row(flat, i * n_classes, n_classes), np.uint64(i - first)
        low, sure, top = room.low[j], room.sure[j], room.top[j]
        for here in range(0, n_classes, CHUNK):
            room.inside[np.uint64(at)] = _settled(row, here, low, sure, top, c, threshold)
            at += 1


@part
def _write_many(row: Row, words: NDArray[np.uint64], at: int, found: Indices, used: int, room: Ranking) -> int:
    """Writes a set of any size to found[used:]; returns its size."""
    lanes.apart()
    size = NONE
    for here in range(0, row.size, CHUNK):
        size = collect(row, here, words[np.uint64(at)], size, room)
        at += 1
    sort_down(room, size, NONE)
    for j in range(size):
        found[np.uint64(used + j)] = room.classes[np.uint64(j)]
    return size


@part
def _write_row(row: Row, found: Indices, used: int) -> None:
    """Writes all classes of a row by rank."""
    lanes.apart()
    begin = NONE
    while row.size - begin > 2 * HANDFUL:
        place = begin if begin + ARMFUL < row.size else row.size - ARMFUL
        handfuls.write_more(row.flat, row.start, place, row.size, found, used)
        begin += ARMFUL
    while begin < row.size:
        place = begin if begin + HANDFUL < row.size else row.size - HANDFUL
        handfuls.write_some(row.flat, row.start, place, row.size, found, used)
        begin += HANDFUL


@inlined
def _write(row: Row, words: NDArray[np.uint64], at: int, found: Indices, used: int, room: Ranking) -> int:
    """Writes the members of a set to found[used:] by rank; returns their number.

    In rows that are not long nothing depends on how many there are, up to a handful: a processor would guess wrong.
    What stands behind them, up to a row's size and HANDFUL more, is written to as well.
    """
    if row.size > LONG:
        return _write_many(row, words, at, found, used, room)
    size = NONE
    for word in range(at, at + -(-row.size // CHUNK)):
        inside = words[np.uint64(word)]
        handfuls.list_few(inside, (word - at) * CHUNK, found, used + size)
        size += lanes.count(inside)
    if ARMFUL <= row.size <= MANY and 2 * size > row.size:
        _write_row(row, found, used)
    elif size > HANDFUL:
        return _write_many(row, words, at, found, used, room)
    elif size == 2:
        write_pair(row, found[np.uint64(used)], found[np.uint64(used + 1)], found, used)
    elif size > 1:
        handfuls.sort_few(row.flat, row.start, found, used, size)
    return size


@inlined
def one_set(row: Row, seen: Look, c: Coefficients, threshold: float, room: Ranking) -> int:
    """The size of one row's set, whose members the room's classes begin with."""
    if _is_empty(seen, c, threshold):
        return NONE
    size, (low, sure) = NONE, _limits(row, seen, c, cutoff_of(c, threshold))
    for here in range(0, row.size, CHUNK):
        size = collect(row, here, _settled(row, here, low, sure, seen.top, c, threshold), size, room)
    sort_down(room, size, NONE)
    return size


@inlined
def place_in_row(row: Row, label: int, seen: Look, c: Coefficients, room: Ranking) -> tuple[int, float]:
    """The label's rank, as far as the score depends on it, and M."""
    own, top = row.flat[np.uint64(row.start + label)], seen.top
    if c.reach == 0:
        return NONE, 0.0
    above, beside, below = c.table[0, ABOVE] * np.float64(top), c.second * np.float64(seen.second), own < top
    if (own == top) & (seen.second == top):  # few rows: nothing else depends on what a processor would have to guess
        below = first_of(row, top) != label
    return NONE + below, above if below else beside


fill_places = loop(
    lambda flat, labels, parts, u, out, room: rowwise.fill_places(
        _look_as_needed, place_in_row, flat, labels, parts, u, out, room
    )
)


@loop
def fill_members(
    flat: Floats, parts: Parts, threshold: float, sizes: Codes, room: Room, onwards: Onwards
) -> tuple[int, int, int]:
    """As in `rowwise.py`, but that several sets are found before they are written."""
    (begin, found), c, n_classes = onwards, Coefficients(*parts), n_classes_of(room.ranking)
    cutoff, used, suspects, several = cutoff_of(c, threshold), NONE, NONE, -(-n_classes // CHUNK)
    at_once = room.inside.size // several
    for first in range(begin, sizes.size, at_once):
        last = min(first + at_once, sizes.size)
        suspects += _limit(flat, first, last, c, cutoff, threshold, room)
        _find(flat, first, last, c, threshold, room)
        for i in range(first, last):
            if used + n_classes + HANDFUL > found.size:
                return i, used, suspects
            row = Row(flat, i * n_classes, n_classes)
            size = _write(row, room.inside, (i - first) * several, found, used, room.ranking)
            sizes[i] = size
            used += size
    return sizes.size, used, suspects


def members(block: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """As in `protocol.py`, under one threshold; u is not looked at."""
    (n, n_classes), flat = block.shape, block.reshape(-1)
    several = -(-n_classes // CHUNK)
    limits = (np.empty(WORDS, flat.dtype) for _ in range(3))
    room = Room(room_for(flat.dtype, n_classes), np.zeros(max(several, WORDS), np.uint64), *limits)
    return grown(partial(fill_members, flat, parts, threshold, sizes, room), n, n_classes + HANDFUL)
