"""Rows with few classes, many at a time: compiled.

A tile holds TILE rows as columns, one line of the tile per class, so that the processor
does the same step for several rows at once. A network of exchanges (Batcher's, which
does not look at what it sorts) ranks the classes of all rows, and the score's formula
goes down the ranks. For linear scores only. What goes along a line is a function of its own, which the compiler turns
into steps for several rows.
"""

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import compiled, compiled_score_at, doubled, part
from pippin._engine.compiled.walk import is_doubtful
from pippin._engine.protocol import Scored
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE, Coefficients, Parts

TILE = 128  # rows ranked together: few enough for a processor's nearest cache, with classes in bytes
FEW, MOST = 24, 56  # classes up to which sorting all of them pays, for one label and for a set

Bytes = NDArray[np.uint8]


@part
def _load(block: Floats, begin: int, tile: Floats, totals: Floats, lowest: Floats) -> int:
    """Fills the tile with the rows from `begin` on; returns how many of them may be no distribution."""
    rows = min(TILE, block.shape[0] - begin)
    for i in range(rows):
        for k in range(block.shape[1]):
            tile[k, i] = block[begin + i, k]
    for i in range(TILE):
        totals[i], lowest[i] = tile[0, i], tile[0, i]
    for k in range(1, block.shape[1]):
        _add(tile[k], totals, lowest)
    suspects = 0
    for i in range(rows):
        suspects += is_doubtful(totals[i]) | (lowest[i] < 0)
    return suspects


@part
def _add(line: Floats, totals: Floats, lowest: Floats) -> None:
    """A NaN shows in the total."""
    lanes.apart()
    for i in range(TILE):
        totals[i] += line[i]
        lowest[i] = min(lowest[i], line[i])


@part
def _exchange(a: Floats, b: Floats) -> None:
    """Puts the larger of two probabilities first, in every row."""
    lanes.apart()
    for i in range(TILE):
        first, second = a[i], b[i]
        swap = second > first
        a[i] = second if swap else first
        b[i] = first if swap else second


@part
def _exchange_classes(a: Floats, b: Floats, a_class: Bytes, b_class: Bytes) -> None:
    """The same with their classes: of equal probabilities the smaller class goes first."""
    lanes.apart()
    for i in range(TILE):
        first, second = a[i], b[i]
        k, m = a_class[i], b_class[i]
        swap = (second > first) | ((second == first) & (m < k))
        a[i] = second if swap else first
        b[i] = first if swap else second
        a_class[i] = m if swap else k
        b_class[i] = k if swap else m


@part
def _sort(tile: Floats, classes: Bytes) -> None:
    """Sorts every row of the tile downwards; with `classes`, if there are any (Knuth, 5.2.2, algorithm M)."""
    n = tile.shape[0]
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
                        _exchange(tile[i], tile[i + d])
                    else:
                        _exchange_classes(tile[i], tile[i + d], classes[i], classes[i + d])
            if q == p:
                break
            q, r, d = q // 2, p, q - p
        p //= 2


@part
def _enter(c: Coefficients, rank: int, line: Floats, mass: Vector, u: Vector, threshold: float, sizes: Codes) -> int:
    """Enters the class at `rank` into every set that holds it, and goes on to the next M; returns how many do."""
    lanes.apart()
    weight, inside = c.table[rank, ABOVE], 0
    for i in range(TILE):
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
    n, n_classes = block.shape
    tile = np.zeros((n_classes, TILE), block.dtype)
    totals, lowest = np.empty(TILE, block.dtype), np.empty(TILE, block.dtype)
    classes = np.empty((n_classes, TILE), np.uint8)
    tile_sizes, mass, tile_u = np.empty(TILE, np.int64), np.empty(TILE), np.zeros(TILE)
    found = np.empty(3 * n + n_classes * TILE, np.int32)
    used, suspects = 0, 0
    for begin in range(0, n, TILE):
        rows = min(TILE, n - begin)
        suspects += _load(block, begin, tile, totals, lowest)
        for k in range(n_classes):
            for i in range(TILE):
                classes[k, i] = k
        _sort(tile, classes)
        for i in range(TILE):
            mass[i] = c.second * tile[1, i]
            tile_sizes[i] = 0
        for i in range(rows):
            tile_u[i] = u[begin + i]
        for rank in range(n_classes):
            if _enter(c, rank, tile[rank], mass, tile_u, threshold, tile_sizes) == 0:
                break
        if used + n_classes * TILE > found.size:
            found = doubled(found)
        for i in range(rows):
            size = tile_sizes[i]
            sizes[begin + i] = size
            for j in range(size):
                found[used + j] = classes[j, i]
            used += size
    return found[:used].copy(), suspects


@part
def _count_above(k: int, line: Floats, own: Floats, labels: Indices, ranks: Indices) -> None:
    """Adds to the rank of every label that class k ranks above."""
    lanes.apart()
    for i in range(TILE):
        ranks[i] += (line[i] > own[i]) | ((line[i] == own[i]) & (k < labels[i]))


@part
def _add_above(rank: int, weight: float, line: Floats, ranks: Indices, mass: Vector) -> None:
    """Adds the class at `rank` to M of every label below it."""
    lanes.apart()
    for i in range(TILE):
        more = mass[i] + weight * line[i]
        mass[i] = more if rank < ranks[i] else mass[i]


@compiled
def label_places(block: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored) -> int:
    """As in `protocol.py`."""
    c = Coefficients(*parts)
    n, n_classes = block.shape
    ranks, p, masses, scores = out
    tile = np.zeros((n_classes, TILE), block.dtype)
    totals, lowest = np.empty(TILE, block.dtype), np.empty(TILE, block.dtype)
    no_classes = np.empty((0, TILE), np.uint8)
    own, mass = np.zeros(TILE, block.dtype), np.empty(TILE)
    tile_labels, tile_ranks = np.zeros(TILE, np.int32), np.empty(TILE, np.int32)
    suspects = 0
    for begin in range(0, n, TILE):
        rows = min(TILE, n - begin)
        suspects += _load(block, begin, tile, totals, lowest)
        for i in range(rows):
            tile_labels[i] = labels[begin + i]
            own[i] = tile[tile_labels[i], i]  # what was loaded, should the block have changed since
        for i in range(TILE):
            mass[i], tile_ranks[i] = 0.0, 0
        for k in range(n_classes):
            _count_above(k, tile[k], own, tile_labels, tile_ranks)
        _sort(tile, no_classes)
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
