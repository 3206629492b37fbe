"""Scores that look at no class but the best one (IP, margin), in rows that fit into the lanes: compiled.

One comparison with `cutoff.py` settles all classes of a row, and nothing is sorted but what is in a set. Rows
go through each step a tile at a time, so that a step is one short loop; of rows this short that is half of the time.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import NONE, compiled, compiled_score_at, doubled, inlined, part
from pippin._engine.compiled.cutoff import Cutoff, cutoff_of
from pippin._engine.compiled.lanes import LANES
from pippin._engine.compiled.walk import is_doubtful
from pippin._engine.protocol import Scored
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE, Coefficients, Parts

Lanes = NDArray[np.uint32]

TILE = 256  # rows whose sets are found before they are written


class Tile(NamedTuple):
    """Rows from `begin` on, in a flat array; of each its largest probability, and the lane of its best class."""

    flat: Floats
    begin: int
    n_classes: int
    best: Lanes
    top: Vector


def fits(shape: tuple[int, ...]) -> bool:
    """Whether these loops can do the work."""
    return shape[1] <= LANES <= shape[0] * shape[1]


@part
def _is_broken(flat: Floats) -> bool:
    """Whether an entry of any row is negative or NaN."""
    good = True
    for k in range(flat.size):
        good &= flat[k] >= 0
    return not good


@inlined
def _compare(flat: Floats, start: int, every: Any, cutoff: Cutoff, top: float) -> tuple[Any, Any]:
    """The lanes of a window that reach the limit, and those that may, too close to it to tell."""
    real, limit = flat.dtype.type, cutoff.base + cutoff.weight * top
    sure = lanes.at_least(flat, start, real(limit + cutoff.slack)) & every
    return sure, (lanes.at_least(flat, start, real(limit - cutoff.slack)) & every) ^ sure


@inlined
def _window(i: int, flat: Floats, n_classes: int) -> tuple[int, int, Any]:
    """Where the window of row i starts, the lane of its first class (0 but at the array's end), and all its lanes."""
    start = min(i * n_classes, flat.size - LANES)
    lane = i * n_classes - start
    return start, lane, np.uint32(((1 << n_classes) - 1) << lane)


@inlined
def _bit(lane: int) -> Any:
    return np.uint32(1) << np.uint32(lane)


@inlined
def _ranked_above(flat: Floats, start: int, lane: int, every: Any) -> Any:
    """The lanes of `every` that rank above one of them, ties by index."""
    p = flat[np.uint64(start + lane)]  # an index without a sign is not looked at for counting from the end
    tied_before = lanes.at_least(flat, start, p) & (_bit(lane) - np.uint32(1))
    return (lanes.above(flat, start, p) | tied_before) & every


@inlined
def _write(flat: Floats, start: int, lane: int, every: Any, best: Any, inside: Any, found: Indices, used: int) -> Any:
    """Writes the members of one set by rank, the best one first if it is known; returns their number."""
    size = lanes.count(inside | best)
    first = lanes.first(best if best != 0 else inside) - lane
    found[np.uint64(used)] = first if size > 0 else 0
    if size > 1:
        inside &= ~best
        while inside != 0:
            own = lanes.first(inside)
            found[np.uint64(used + lanes.count(_ranked_above(flat, start, own, every)))] = own - lane
            inside &= inside - np.uint32(1)
    return size


@part
def _find_best(tile: Tile, c: Coefficients, threshold: float) -> None:
    """Fills in the largest probability of every row, and the lane of its class; none, if its score is too large."""
    flat, best, top = tile.flat, tile.best, tile.top
    for i in range(best.size):
        start, _, every = _window(tile.begin + i, flat, tile.n_classes)
        largest = lanes.largest_of(flat, start, every)
        best[i] = _bit(lanes.first(lanes.at_least(flat, start, largest) & every))
        top[i] = largest
    outside = 0
    for i in range(best.size):
        outside += not compiled_score_at(c, 0, top[i], c.second * top[i], 0.0) <= threshold  # p[2] is at most p[1]
    for i in range(best.size if outside else 0):
        start, _, every = _window(tile.begin + i, flat, tile.n_classes)
        second = np.float64(lanes.largest_of(flat, start, every & ~best[i]))
        if not compiled_score_at(c, 0, top[i], c.second * second, 0.0) <= threshold:
            best[i] = 0


@part
def _write_sure(tile: Tile, cutoff: Cutoff, sizes: Codes, found: Indices, used: int) -> tuple[int, int, bool]:
    """Writes the sets of a tile; returns where they end, how many rows are suspect, and whether a class is unsure."""
    suspects, doubts, flat = 0, np.uint32(0), tile.flat
    for i in range(tile.best.size):
        start, lane, every = _window(tile.begin + i, flat, tile.n_classes)
        suspects += is_doubtful(lanes.sum_of(flat, start, every))
        inside, unsure = _compare(flat, start, every, cutoff, tile.top[i])
        doubts |= unsure
        size = _write(flat, start, lane, every, tile.best[i], inside, found, used)
        sizes[tile.begin + i] = size
        used += size
    return used, suspects, doubts != 0


@part
def _write_asked(
    tile: Tile, cutoff: Cutoff, c: Coefficients, threshold: float, sizes: Codes, found: Indices, used: int
) -> int:
    """The same, where the classes that are unsure are asked for their score; returns where the sets end."""
    flat = tile.flat
    for i in range(tile.best.size):
        start, lane, every = _window(tile.begin + i, flat, tile.n_classes)
        inside, unsure = _compare(flat, start, every, cutoff, tile.top[i])
        mass = c.table[0, ABOVE] * tile.top[i]
        while unsure != 0:
            own = lanes.first(unsure)
            if compiled_score_at(c, 1, np.float64(flat[start + own]), mass, 0.0) <= threshold:
                inside |= _bit(own)
            unsure &= unsure - np.uint32(1)
        size = _write(flat, start, lane, every, tile.best[i], inside, found, used)
        sizes[tile.begin + i] = size
        used += size
    return used


@compiled
def members(block: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """As in `protocol.py`, under one threshold; u is not looked at."""
    c = Coefficients(*parts)
    n, n_classes = block.shape
    flat = block.reshape(block.size)
    if _is_broken(flat):
        return np.empty(0, np.int32), 1
    cutoff = cutoff_of(c, threshold)
    bests, tops = np.zeros(TILE, np.uint32), np.zeros(TILE)
    found = np.zeros(3 * n + LANES * TILE, np.int32)
    used, suspects = NONE, NONE
    for begin in range(0, n, TILE):
        tile = Tile(flat, begin, n_classes, bests[: n - begin], tops[: n - begin])
        if used + LANES * TILE > found.size:
            found = doubled(found)
        if c.reach == 1:
            _find_best(tile, c, threshold)
        end, more, unsure = _write_sure(tile, cutoff, sizes, found, used)
        if unsure:
            end = _write_asked(tile, cutoff, c, threshold, sizes, found, used)
        used, suspects = end, suspects + more
    return found[:used], suspects


@compiled
def label_places(block: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored) -> int:
    """As in `protocol.py`; a rank is 0 or 1, and u is not looked at."""
    c = Coefficients(*parts)
    n, n_classes = block.shape
    ranks, p, masses, scores = out
    flat = block.reshape(block.size)
    broken = _is_broken(flat)
    top_weight, second_weight, best_counts = c.table[0, ABOVE], c.second, c.reach == 1 and not broken
    suspects = 0
    for i in range(n):
        start, lane, every = _window(i, flat, n_classes)
        own = lane + labels[i]
        suspects += is_doubtful(lanes.sum_of(flat, start, every))
        ranks[i], p[i], masses[i] = 0, flat[np.uint64(start + own)], 0.0
        if best_counts:
            below = _ranked_above(flat, start, own, every) != 0
            other = np.float64(lanes.largest_of(flat, start, every & ~_bit(own)))
            ranks[i], masses[i] = below, (top_weight if below else second_weight) * other
    for i in range(n):
        scores[i] = compiled_score_at(c, ranks[i], p[i], masses[i], 0.0)
    return suspects + broken
