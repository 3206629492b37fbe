"""Rows with few classes, many at a time: compiled.

A tile holds many rows as columns, one line of the tile per class, so that the processor
does the same step for several rows at once. A network of exchanges (Batcher's, which
does not look at what it sorts) ranks the classes of all rows, and the score's formula
goes down the ranks. For linear scores only. What goes along a line is a function of its own, which the compiler turns
into steps for several rows.
"""

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import compiled, compiled_score_at, doubled, inlined, part
from pippin._engine.compiled.lanes import LANES
from pippin._engine.compiled.turning import turn
from pippin._engine.compiled.walk import is_doubtful
from pippin._engine.protocol import Scored
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE, Coefficients, Parts

LINE = 1024  # bytes of a line at most: a tile of few classes fits into a processor's nearest cache
STEP = 64  # rows by which a tile is smaller where there are no more
FEW = 28  # classes up to which sorting all of them pays, for one label
MOST = {4: 64, 8: 48}  # and for a set, by the bytes of a probability

Bytes = NDArray[np.uint8]


@inlined
def _width(block: Floats) -> int:
    """How many rows are ranked together."""
    width: int = min(LINE // block.itemsize, -(-block.shape[0] // STEP) * STEP)
    return width


@part
def _load(block: Floats, begin: int, tile: Floats, totals: Floats) -> None:
    """Fills the tile with the rows from `begin` on, and the sum of each; lines behind the classes are of no use."""
    n_classes, rows = block.shape[1], min(tile.shape[1], block.shape[0] - begin)
    first = begin * n_classes
    inside = (block.size - first - LANES) // n_classes + 1  # rows whose first window ends within the array
    turned = (inside if inside < rows else rows) // LANES * LANES if inside > 0 else 0
    for i in range(0, turned, LANES):
        for k in range(0, n_classes, LANES):
            line = k if k == 0 or k + LANES < n_classes else n_classes - LANES
            turn(block, first + i * n_classes + line, n_classes, tile, line, i)
    for i in range(turned, rows):
        for k in range(n_classes):
            tile[k, i] = block[begin + i, k]
    for i in range(totals.size):
        totals[i] = tile[0, i]
    for k in range(1, n_classes):
        _add(tile, k, totals)


@part
def _add(tile: Floats, k: int, totals: Floats) -> None:
    """Adds class k to the sum of every row."""
    lanes.apart()
    for i in range(totals.size):
        totals[i] += tile[k, i]


@part
def _suspects(totals: Floats, lowest: Floats, rows: int) -> int:
    """How many rows may be no distribution; a NaN shows in the total."""
    suspects = 0
    for i in range(rows):
        suspects += is_doubtful(totals[i]) | (lowest[i] < 0)
    return suspects


@part
def _exchange(tile: Floats, a: int, b: int) -> None:
    """Puts the larger of two probabilities first, in every row."""
    lanes.apart()
    for i in range(tile.shape[1]):
        first, second = tile[a, i], tile[b, i]
        swap = second > first
        tile[a, i] = second if swap else first
        tile[b, i] = first if swap else second


@part
def _exchange_classes(tile: Floats, classes: Bytes, a: int, b: int) -> None:
    """The same with their classes: of equal probabilities the smaller class goes first."""
    lanes.apart()
    for i in range(tile.shape[1]):
        first, second = tile[a, i], tile[b, i]
        k, m = classes[a, i], classes[b, i]
        swap = (second > first) | ((second == first) & (m < k))
        tile[a, i] = second if swap else first
        tile[b, i] = first if swap else second
        classes[a, i] = m if swap else k
        classes[b, i] = k if swap else m


@part
def _sort(tile: Floats, n: int, classes: Bytes) -> None:
    """Sorts n lines of the tile downwards; with `classes`, if there are any (Knuth, 5.2.2, algorithm M)."""
    top = 1
    while 2 * top < n:
        top *= 2
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            for i in range(n - d):
                if i & p == r:
                    if classes.shape[0] == 0:
                        _exchange(tile, i, i + d)
                    else:
                        _exchange_classes(tile, classes, i, i + d)
            if q == p:
                break
            q, r, d = q // 2, p, q - p
        p //= 2


@part
def _enter(c: Coefficients, rank: int, line: Floats, mass: Vector, u: Vector, threshold: float, sizes: Codes) -> int:
    """Enters the class at `rank` into every set that holds it, and goes on to the next M; returns how many do."""
    lanes.apart()
    weight, inside = c.table[rank, ABOVE], 0
    for i in range(line.size):
        p = np.float64(line[i])
        enters = compiled_score_at(c, rank, p, mass[i], u[i]) <= threshold
        mass[i] = (mass[i] if rank > 0 else 0.0) + weight * p
        sizes[i] += enters
        inside += enters
    return inside


@compiled
def members(block: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """As in `protocol.py`."""
    c = Coefficients(*parts)
    (n, n_classes), width = block.shape, _width(block)
    tile, totals = np.zeros((max(n_classes, LANES), width), block.dtype), np.empty(width, block.dtype)
    classes = np.empty((n_classes, width), np.uint8)
    tile_sizes, mass, tile_u = np.empty(width, np.int64), np.empty(width), np.zeros(width)
    found = np.empty(3 * n + n_classes * width, np.int32)
    used, suspects = 0, 0
    for begin in range(0, n, width):
        rows = min(width, n - begin)
        _load(block, begin, tile, totals)
        for k in range(n_classes):
            for i in range(width):
                classes[k, i] = k
        _sort(tile, n_classes, classes)
        suspects += _suspects(totals, tile[n_classes - 1], rows)
        for i in range(width):
            mass[i] = c.second * tile[1, i]
            tile_sizes[i] = 0
        for i in range(rows):
            tile_u[i] = u[begin + i]
        for rank in range(n_classes):
            if _enter(c, rank, tile[rank], mass, tile_u, threshold, tile_sizes) == 0:
                break
        if used + n_classes * width > found.size:
            found = doubled(found)
        for i in range(rows):
            size = tile_sizes[i]
            sizes[begin + i] = size
            found[used], found[used + 1] = classes[0, i], classes[1, i]  # whatever the size: most have no more
            for j in range(2, size):
                found[used + j] = classes[j, i]
            used += size
    return found[:used].copy(), suspects


@part
def _count_above(k: int, line: Floats, own: Floats, labels: Indices, ranks: Indices) -> None:
    """Adds to the rank of every label that class k ranks above."""
    lanes.apart()
    for i in range(line.size):
        ranks[i] += (line[i] > own[i]) | ((line[i] == own[i]) & (k < labels[i]))


@part
def _add_above(rank: int, weight: float, line: Floats, ranks: Indices, mass: Vector) -> None:
    """Adds the class at `rank` to M of every label below it."""
    lanes.apart()
    for i in range(line.size):
        more = mass[i] + weight * line[i]
        mass[i] = more if rank < ranks[i] else mass[i]


@compiled
def label_places(block: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored) -> int:
    """As in `protocol.py`."""
    c = Coefficients(*parts)
    (n, n_classes), width = block.shape, _width(block)
    ranks, p, masses, scores = out
    tile, totals = np.zeros((max(n_classes, LANES), width), block.dtype), np.empty(width, block.dtype)
    no_classes = np.empty((0, width), np.uint8)
    own, mass = np.zeros(width, block.dtype), np.empty(width)
    tile_labels, tile_ranks = np.zeros(width, np.int32), np.empty(width, np.int32)
    suspects = 0
    for begin in range(0, n, width):
        rows = min(width, n - begin)
        _load(block, begin, tile, totals)
        for i in range(rows):
            tile_labels[i] = labels[begin + i]
            own[i] = tile[tile_labels[i], i]  # what was loaded, should the block have changed since
        for i in range(width):
            mass[i], tile_ranks[i] = 0.0, 0
        for k in range(n_classes):
            _count_above(k, tile[k], own, tile_labels, tile_ranks)
        _sort(tile, n_classes, no_classes)
        suspects += _suspects(totals, tile[n_classes - 1], rows)
        deepest = 0
        for i in range(rows):
            deepest = max(deepest, tile_ranks[i])
        for rank in range(deepest):
            _add_above(rank, c.table[rank, ABOVE], tile[rank], tile_ranks, mass)
        for i in range(rows):
            p[begin + i], ranks[begin + i] = own[i], tile_ranks[i]
            masses[begin + i] = mass[i] if tile_ranks[i] > 0 else c.second * tile[1, i]
    for i in range(n):
        scores[i] = compiled_score_at(c, ranks[i], p[i], masses[i], u[i])
    return suspects
