"""Scores that look at no class but the best one (IP, margin), in rows that fit into one chunk: compiled.

One comparison with `cutoff.py` settles all classes of a row, and nothing is sorted but what is in a set. Rows
go through each step a tile at a time, so that a step is one short loop; of rows this short that is half of the time.
The loops are made twice, for rows that fit into one window of lanes and for those that take several: a `Way` has the
steps in which they differ.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled import handfuls, lanes
from pippin._engine.compiled.build import BEST, NEXT, NONE, compiled, compiled_score_at, doubled, inlined, making, part
from pippin._engine.compiled.cutoff import Cutoff, cutoff_of
from pippin._engine.compiled.handfuls import HANDFUL
from pippin._engine.compiled.lanes import LANES
from pippin._engine.compiled.walk import CHUNK, ONE, Row, is_doubtful, write_pair
from pippin._engine.protocol import Scored
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE, Coefficients, Parts

TILE = 256  # rows whose sets are found before they are written
HANDFUL_BITS = np.uint64((1 << HANDFUL) - 1)


class Tile(NamedTuple):
    """Rows from `begin` on, in a flat array; of each its largest probability, and which of its classes are in its set.

    Those that reach `sure` are inside, and those that only reach `low` are to be asked.
    """

    flat: Floats
    inside: NDArray[np.uint64]
    top: Vector
    sure: Floats
    low: Floats
    begin: int
    n_classes: int


def fits(shape: tuple[int, ...]) -> bool:
    """Whether these loops can do the work."""
    return shape[1] <= CHUNK and shape[0] * shape[1] >= LANES


@part
def _is_broken(flat: Floats) -> bool:
    """Whether an entry of any row is negative or NaN."""
    good = True
    for k in range(flat.size):
        good &= flat[k] >= 0
    return not good


@inlined
def _row(tile: Tile, i: int) -> Row:
    return Row(tile.flat, (tile.begin + i) * tile.n_classes, tile.n_classes)


class Way(NamedTuple):
    """What is asked of a row.

    total(row) is its sum, top(row) its largest entry; around(row, k) its sum, its largest entry but that of class k,
    and whether that class ranks above k, ties by index; at_least(row, limit) the classes with p >= limit, one bit
    each.
    """

    total: Any
    top: Any
    around: Any
    at_least: Any


@inlined
def _window(row: Row) -> tuple[int, int, Any]:
    """Where the window of a row begins, the lane of its first class (0 but at the array's end), and all its lanes."""
    begin = min(row.start, row.flat.size - LANES)
    return begin, row.start - begin, np.uint32(((1 << row.size) - 1) << (row.start - begin))


@inlined
def _total_of_window(row: Row) -> Any:
    begin, _, every = _window(row)
    return lanes.sum_of(row.flat, begin, every)


@inlined
def _top_of_window(row: Row) -> Any:
    begin, _, every = _window(row)
    return lanes.largest_of(row.flat, begin, every)


@inlined
def _at_least_in_window(row: Row, limit: Any) -> Any:
    begin, lane, every = _window(row)
    return np.uint64((lanes.at_least(row.flat, begin, limit) & every) >> np.uint32(lane))


@inlined
def _above_in_window(row: Row, k: int) -> Any:
    begin, lane, every = _window(row)
    p = row.flat[np.uint64(row.start + k)]  # an index without a sign is not looked at for counting from the end
    tied_before = lanes.at_least(row.flat, begin, p) & ((np.uint32(1) << np.uint32(lane + k)) - np.uint32(1))
    return lanes.count(np.uint64((lanes.above(row.flat, begin, p) | tied_before) & every))


@inlined
def _around_in_window(row: Row, k: int) -> tuple[Any, Any, Any]:
    begin, lane, every = _window(row)
    others = every & ~(np.uint32(1) << np.uint32(lane + k))
    total, other = lanes.sum_of(row.flat, begin, every), lanes.largest_of(row.flat, begin, others)
    return total, other, _above_in_window(row, k) > 0


ONE_WINDOW = Way(_total_of_window, _top_of_window, _around_in_window, _at_least_in_window)


@inlined
def _total_of_several(row: Row) -> Any:
    return lanes.total_of(row.flat, row.start, row.size)


@inlined
def _top_of_several(row: Row) -> Any:
    return lanes.top_of(row.flat, row.start, row.size)


def _asking_several(lanes_where: Any) -> Any:
    @inlined
    def classes_where(row: Row, limit: Any) -> Any:
        found, last = np.uint64(0), row.size - LANES
        for place in range(0, last, LANES):
            found |= np.uint64(lanes_where(row.flat, row.start + place, limit)) << np.uint64(place)
        return found | (np.uint64(lanes_where(row.flat, row.start + last, limit)) << np.uint64(last))

    return classes_where


_at_least_in_several, _more_in_several = _asking_several(lanes.at_least), _asking_several(lanes.above)


@inlined
def _above_in_several(row: Row, k: int) -> Any:
    p = row.flat[np.uint64(row.start + k)]
    return lanes.count(_more_in_several(row, p) | (_at_least_in_several(row, p) & ((ONE << np.uint64(k)) - ONE)))


@inlined
def _around_in_several(row: Row, k: int) -> tuple[Any, Any, Any]:
    p = row.flat[np.uint64(row.start + k)]
    total, other = lanes.around(row.flat, row.start, row.size, k)
    below = other > p
    if other == p:
        below = _above_in_several(row, k) > 0
    return total, other, below


SEVERAL = Way(_total_of_several, _top_of_several, _around_in_several, _at_least_in_several)


@part
def _limit(tile: Tile, cutoff: Cutoff) -> None:
    """Fills in from which probability on a class is sure to be in each set, and from which on it is to be asked."""
    lanes.apart()
    real = tile.flat.dtype.type
    for i in range(TILE):
        limit = cutoff.base + cutoff.weight * tile.top[i]
        tile.sure[i], tile.low[i] = real(limit + cutoff.slack), real(limit - cutoff.slack)


@part
def _asked(row: Row, unsure: Any, c: Coefficients, threshold: float, top: float) -> Any:
    """Those of some classes, none of them the best one, whose score keeps to the threshold."""
    lanes.apart()
    inside, mass = np.uint64(0), c.table[0, ABOVE] * top
    while unsure != 0:
        k = lanes.first(unsure)
        if compiled_score_at(c, NEXT, np.float64(row.flat[row.start + k]), mass, 0.0) <= threshold:
            inside |= ONE << np.uint64(k)
        unsure &= unsure - ONE
    return inside


@part
def _write_many(row: Row, inside: Any, found: Indices, used: int) -> None:
    """Writes the members of a set of more than a handful by rank; behind them is written too, up to a row's size."""
    lanes.apart()
    for j in range(used, used + row.size):
        found[np.uint64(j)] = 0  # a rank may be left out, if somebody writes to the row meanwhile
    for begin in range(0, row.size, HANDFUL):
        if (inside >> np.uint64(begin)) & HANDFUL_BITS != 0:
            place = begin if begin + HANDFUL < row.size else row.size - HANDFUL
            handfuls.write_some(row.flat, row.start, place, row.size, found, used)


def _made_for(name: str, way: Way) -> tuple[Any, Any]:
    """The two loops, for rows that are looked at in one way.

    What one process compiles and another one loads is told apart by its name: so parts bear that of the way.
    """
    total, top_of, around, at_least = way

    def own(function: Any) -> Any:
        function.__qualname__ += f" of {name}"
        return function

    @part
    @own
    def find_tops(tile: Tile) -> None:
        """Fills in the largest probability of every row."""
        for i in range(tile.inside.size):
            tile.top[i] = top_of(_row(tile, i))

    @part
    @own
    def with_best(row: Row, inside: Any, c: Coefficients, threshold: float, top: float) -> Any:
        """The classes of a set and the best one, which is let in by a limit of its own."""
        lanes.apart()
        reached = at_least(row, row.flat.dtype.type(top))  # none, if somebody writes to the row meanwhile
        if reached != 0:
            second = np.float64(around(row, lanes.first(reached))[1])
            if compiled_score_at(c, BEST, top, c.second * second, 0.0) <= threshold:
                inside |= reached & ~(reached - ONE)
        return inside

    @inlined
    def settled(tile: Tile, i: int, c: Coefficients, threshold: float) -> Any:
        """The classes that are in a set; those too close to the limit to tell are asked for their score."""
        row = _row(tile, i)
        sure = at_least(row, tile.sure[i])
        unsure = at_least(row, tile.low[i]) ^ sure
        inside = sure | _asked(row, unsure, c, threshold, tile.top[i]) if unsure != 0 else sure
        if c.reach == 1 and tile.top[i] < tile.sure[i]:
            inside = with_best(row, inside, c, threshold, tile.top[i])
        return inside

    @inlined
    def write(row: Row, inside: Any, found: Indices, used: int) -> Any:
        """Writes the members of one set by rank; returns their number."""
        size = lanes.count(inside)
        found[np.uint64(used)] = lanes.first(inside) if size > 0 else NONE
        if size == 2:
            write_pair(row, lanes.first(inside), lanes.first(inside & (inside - ONE)), found, used)
        elif 1 < size <= HANDFUL:
            handfuls.write_few(row.flat, row.start, inside, found, used)
        elif size > 1:
            _write_many(row, inside, found, used)
        return size

    @part
    @own
    def write_sets(
        tile: Tile, c: Coefficients, threshold: float, sizes: Codes, found: Indices, used: int
    ) -> tuple[int, int]:
        """Writes the sets of a tile; returns where they end, and how many rows are suspect."""
        suspects = 0
        for i in range(tile.inside.size):
            suspects += is_doubtful(total(_row(tile, i)))
            tile.inside[i] = settled(tile, i, c, threshold)
        for i in range(tile.inside.size):
            size = write(_row(tile, i), tile.inside[i], found, used)
            sizes[tile.begin + i] = size
            used += size
        return used, suspects

    @making
    @own
    def members(block: Floats, parts: Parts, threshold: float, sizes: Codes) -> tuple[Indices, int]:
        """The members of all rows, and how many rows are suspect."""
        c = Coefficients(*parts)
        n, n_classes = block.shape
        flat = block.reshape(block.size)
        if _is_broken(flat):
            return np.empty(0, np.int32), 1
        cutoff, widest = cutoff_of(c, threshold), n_classes * TILE + CHUNK
        insides, tops = np.zeros(TILE, np.uint64), np.zeros(TILE)
        sure, low = np.empty(TILE, block.dtype), np.empty(TILE, block.dtype)
        found = np.empty(3 * n + widest, np.int32)
        used, suspects = NONE, NONE
        for begin in range(0, n, TILE):
            tile = Tile(flat, insides[: n - begin], tops, sure, low, begin, n_classes)
            if used + widest > found.size:
                found = doubled(found)
            if c.reach == 1:
                find_tops(tile)
            if c.reach == 1 or begin == 0:
                _limit(tile, cutoff)
            used, more = write_sets(tile, c, threshold, sizes, found, used)
            suspects += more
        return found[:used], suspects

    @part
    @own
    def label_places(block: Floats, labels: Codes, parts: Parts, out: Scored) -> int:
        """Fills in the place and the score of one class per row; returns how many rows are suspect."""
        c = Coefficients(*parts)
        n, n_classes = block.shape
        ranks, p, masses, scores = out
        flat = block.reshape(block.size)
        broken = _is_broken(flat)
        top_weight, second_weight, best_counts = c.table[0, ABOVE], c.second, c.reach == 1 and not broken
        suspects = 0
        for i in range(n):
            row, k = Row(flat, i * n_classes, n_classes), labels[i]
            ranks[i], p[i], masses[i] = 0, flat[np.uint64(row.start + k)], 0.0
            if best_counts:
                whole, other, below = around(row, k)
                ranks[i], masses[i] = below, (top_weight if below else second_weight) * np.float64(other)
                suspects += is_doubtful(whole)
            else:
                suspects += is_doubtful(total(row))
        for i in range(n):
            scores[i] = compiled_score_at(c, np.int64(ranks[i]), p[i], masses[i], 0.0)
        return suspects + broken

    return members, label_places


_members_of_one_window, _places_of_one_window = _made_for("one window", ONE_WINDOW)
_members_of_several, _places_of_several = _made_for("several", SEVERAL)

# What is kept on disk goes by name and line, which functions made by `_made_for` share: so each has a door of its own.
_members_in_one_window: Any = compiled(lambda *given: _members_of_one_window(*given))
_members_in_several: Any = compiled(lambda *given: _members_of_several(*given))
_label_places_in_one_window: Any = compiled(lambda *given: _places_of_one_window(*given))
_label_places_in_several: Any = compiled(lambda *given: _places_of_several(*given))


def members(block: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """As in `protocol.py`, under one threshold; u is not looked at."""
    find = _members_in_one_window if block.shape[1] <= LANES else _members_in_several
    found: tuple[Indices, int] = find(block, parts, threshold, sizes)
    return found


def label_places(block: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored) -> int:
    """As in `protocol.py`; a rank is 0 or 1, and u is not looked at."""
    fill = _label_places_in_one_window if block.shape[1] <= LANES else _label_places_in_several
    suspects: int = fill(block, labels, parts, out)
    return suspects
