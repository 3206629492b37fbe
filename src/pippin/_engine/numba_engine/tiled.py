"""Tiled loop: sets and label scores of many rows at a time, for few classes.

A tile is the transpose of some rows: it has a line per class and a column per row, so that SIMD operations process
several rows at once. Its entries are integer keys: the bit pattern of the float32 probability in the high bits, and 255
minus the class index in the low bits. So comparing two integers ranks classes by probability, and ties by class index.
A sorting network (Batcher's odd-even merge sort) sorts all columns, then the score formula is evaluated rank by rank.

Keys of float64 probabilities are rounded to float32. Columns in which two rounded probabilities are equal are sorted
again.
"""

from typing import Any

import numpy as np

from pippin._engine.numba_engine.compilation import entry_point, inlined_part, part
from pippin._engine.numba_engine.row_checks import is_suspect_sum
from pippin._engine.numba_engine.rowwise import Numbers, compiled_formula
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE

WIDTH = 256  # number of rows in a tile
_PADDING = 8  # unused columns: if a line's length were a power of two, lines would compete for the same cache sets
_CACHE_LINE = 8  # number of 64-bit integers in a cache line
_AT_ONCE = 8  # number of rows that are transposed at once, in registers
_LAST = 0xFF  # the low bits of a key are _LAST minus the class index, so that of ties the first class ranks first


def network(n_classes: int) -> Indices:
    """Return the comparators of Batcher's odd-even merge sort (Knuth, TAOCP 5.2.2, algorithm M)."""
    pairs, top = [], 1
    while 2 * top < n_classes:
        top *= 2
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            pairs += [(i, i + d) for i in range(n_classes - d) if i & p == r]
            if q == p:
                break
            q, r, d = q // 2, p, q - p
        p //= 2
    return np.array(pairs, np.int32)


@inlined_part
def _key(pattern: Any, k: int) -> Any:
    return (np.int64(pattern) << 32) | (_LAST - k)


@part
def _load(bits: Any, keys: Codes, totals: Any, signs: Codes) -> int:
    """Write keys (probability bits and class index) to the columns of a tile; return the number of suspect rows.

    Suspect rows have negative or NaN entries, or a sum other than 1.
    """
    (rows, n_classes), suspects, negative = bits.shape, 0, np.int64(0)
    whole = rows - rows % _AT_ONCE
    for first in range(0, whole, _AT_ONCE):  # transpose _AT_ONCE rows in registers
        for k in range(n_classes):
            for i in range(_AT_ONCE):
                keys[k, first + i] = _key(bits[first + i, k], k)
    for i in range(whole, rows):
        for k in range(n_classes):
            keys[k, i] = _key(bits[i, k], k)
    for i in range(WIDTH):
        totals[i], signs[i] = 0, 0
    for k in range(n_classes):
        for i in range(WIDTH):
            totals[i] += np.int32(keys[k, i] >> 32).view(np.float32)
            signs[i] |= keys[k, i]
    for i in range(rows):
        suspects += (signs[i] < 0) | is_suspect_sum(totals[i])
        negative |= signs[i]
    if negative < 0:
        for k in range(n_classes):
            for i in range(WIDTH):
                keys[k, i] &= np.int64(0x7FFFFFFFFFFFFFFF)  # clear the sign of -0.0
    return suspects


@part
def _sort(keys: Codes, pairs: Indices) -> None:
    """Sort the keys of every column in descending order, with the comparators `pairs` of the sorting network."""
    for pair in range(pairs.shape[0]):
        a, b = pairs[pair, 0], pairs[pair, 1]
        for i in range(WIDTH):
            first, second = keys[a, i], keys[b, i]
            keys[a, i] = max(first, second)
            keys[b, i] = min(first, second)


@inlined_part
def _class_of(key: int) -> int:
    return _LAST - (key & _LAST)


@part
def _resolve_ties(block: Floats, begin: int, rows: int, keys: Codes, tied: Any) -> None:
    """Sort the columns that have equal float32 probabilities again by their float64 probabilities."""
    n_classes = block.shape[1]
    for i in range(WIDTH):
        tied[i] = 0
    for rank in range(1, n_classes):
        for i in range(WIDTH):
            tied[i] |= (keys[rank - 1, i] ^ keys[rank, i]) >> 32 == 0
    for i in range(rows):
        for place in range(1, n_classes if tied[i] else 1):
            key, hole = keys[place, i], place
            p = block[begin + i, _class_of(key)]
            while hole > 0 and block[begin + i, _class_of(keys[hole - 1, i])] < p:
                keys[hole, i] = keys[hole - 1, i]
                hole -= 1
            keys[hole, i] = key


@part
def _values(block: Floats, begin: int, rows: int, keys: Codes, rank: int, single: Any, line: Vector) -> None:
    """Write the probability at a rank, for each row of the tile, to `line`; `single` views the keys as float32."""
    if block.itemsize == 4:
        for i in range(WIDTH):
            line[i] = single[rank, 2 * i + 1]
    else:
        for i in range(rows):
            line[i] = block[begin + i, _class_of(keys[rank, i])]


@part
def _lowest_ratios(
    block: Floats, begin: int, rows: int, keys: Codes, single: Any, mu: float, line: Vector, above: Vector, tau: Vector
) -> None:
    """Write SOCOP's τ = min_{m>=2} (m − 1 + μ)/(p[2] + … + p[m]) of each row, which is a column of the tile."""
    for i in range(WIDTH):
        above[i], tau[i] = 0.0, np.inf
    for m in range(1, block.shape[1]):
        _values(block, begin, rows, keys, m, single, line)
        falling = 0
        for i in range(WIDTH):
            mass = above[i] + line[i]
            ratio = (m + mu) / mass
            falls = ratio < tau[i]
            tau[i] = ratio if falls else tau[i]
            above[i] = mass if falls else np.nan  # NaN ends the search in this row: later ratios are not below tau
            falling += falls
        if falling == 0:
            break


@part
def _lowest_key(table: Vector, c: Numbers, threshold: float) -> int:
    """Return the lowest key (probability bits) of a class in the set, for scores that depend on this probability only.

    It is found by bisection.
    """
    low, high = np.int64(0), np.int64(0x7F800000)  # bit patterns of 0 and of infinity
    while low < high:
        middle = (low + high) >> 1
        p = np.float64(np.int32(middle).view(np.float32))
        if compiled_formula(table, c.constant, c.price, 0, p, 0.0, 0.0) <= threshold:
            high = middle
        else:
            low = middle + 1
    return int(low) << 32


@inlined_part
def _tile(n_classes: int) -> Codes:
    """Allocate a tile aligned to a cache line: SIMD operations that cross cache lines take 1.5 times as long."""
    size = n_classes * (WIDTH + _PADDING)
    buffer = np.zeros(size + _CACHE_LINE, np.int64)
    skipped = _CACHE_LINE - (np.int64(buffer.ctypes.data) >> 3) % _CACHE_LINE
    return buffer[skipped : skipped + size].reshape(n_classes, WIDTH + _PADDING)


@entry_point
def members(
    block: Floats,
    bits: Any,
    pairs: Indices,
    table: Vector,
    numbers: Any,
    threshold: float,
    u: Vector,
    sizes: Codes,
    found: Indices,
) -> tuple[int, int]:
    """Write sizes and classes, most probable first, of all sets; return the numbers of classes and of suspect rows.

    Suspect rows have negative or NaN entries, or a sum other than 1. `found` has n · K + 2 elements: one per class of
    each row, and two more, since two classes are written even for an empty set.
    """
    c, (n, n_classes), linear = Numbers(*numbers), block.shape, np.isnan(numbers[2])
    keys, used, suspects = _tile(n_classes), 0, 0
    single, tied, totals = keys.view(np.float32), np.zeros(WIDTH, np.int64), np.zeros(WIDTH, np.float32)
    line, mass, above, tile_u = np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH)
    counts = np.zeros(WIDTH, np.int64)
    by_key = c.reach == 0 and block.itemsize == 4  # a class is in the set if its key is at least `lowest`
    lowest = _lowest_key(table, c, threshold) if by_key else 0
    for begin in range(0, n, WIDTH):
        rows = min(WIDTH, n - begin)
        suspects += _load(bits[begin : begin + rows], keys, totals, tied)
        _sort(keys, pairs)
        if block.itemsize > 4:
            _resolve_ties(block, begin, rows, keys, tied)
        for i in range(rows):
            tile_u[i] = u[begin + i]
        _values(block, begin, rows, keys, 1, single, line)
        for i in range(WIDTH):
            mass[i], counts[i] = c.second * line[i], 0
        for rank in range(n_classes):
            if by_key:
                for i in range(WIDTH):
                    counts[i] += keys[rank, i] >= lowest
                continue
            if rank == 1 and not linear:
                _lowest_ratios(block, begin, rows, keys, single, c.price, line, above, mass)
            _values(block, begin, rows, keys, rank, single, line)
            inside, weight = 0, table[rank, ABOVE]
            for i in range(WIDTH):
                enters = compiled_formula(table, c.constant, c.price, rank, line[i], mass[i], tile_u[i]) <= threshold
                counts[i] += enters
                inside += enters
            if inside == 0:
                break
            if linear and (c.reach > 1 or rank == 0):  # else the term of the other classes does not change
                for i in range(WIDTH):
                    mass[i] = (mass[i] if rank > 0 else 0.0) + weight * line[i]
        for i in range(rows):
            size = counts[i]
            sizes[begin + i] = size
            found[used], found[used + 1] = _class_of(keys[0, i]), _class_of(keys[1, i])  # two, even if unused
            for rank in range(2, size):
                found[used + rank] = _class_of(keys[rank, i])
            used += size
    return used, suspects


@entry_point
def label_scores(
    block: Floats, bits: Any, pairs: Indices, labels: Codes, table: Vector, numbers: Any, u: Vector, scores: Vector
) -> int:
    """Write for each row the score of its class in `labels`; return the number of suspect rows.

    Suspect rows have negative or NaN entries, or a sum other than 1.
    """
    c, (n, n_classes), linear = Numbers(*numbers), block.shape, np.isnan(numbers[2])
    keys, suspects = _tile(n_classes), 0
    single, tied, totals = keys.view(np.float32), np.zeros(WIDTH, np.int64), np.zeros(WIDTH, np.float32)
    line, mass, above = np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH)
    wanted, places = np.zeros(WIDTH, np.int64), np.zeros(WIDTH, np.int64)
    best_weight = table[0, ABOVE]
    for begin in range(0, n, WIDTH):
        rows, deepest = min(WIDTH, n - begin), 0
        suspects += _load(bits[begin : begin + rows], keys, totals, tied)
        for i in range(rows):
            wanted[i] = labels[begin + i]
        if c.reach == 0:
            for i in range(rows):
                own = np.float64(block[begin + i, wanted[i]])
                scores[begin + i] = compiled_formula(table, c.constant, c.price, 0, own, 0.0, u[begin + i])
            continue
        for i in range(WIDTH):
            places[i], mass[i] = 0, 0.0
        if c.reach == 1:  # no ranking needed: the score depends on the largest other probability only
            for k in range(n_classes):
                for i in range(WIDTH):
                    places[i] = max(places[i], keys[k, i] if k != wanted[i] else 0)
            for i in range(rows):
                is_best, other = keys[wanted[i], i] > places[i], np.int32(places[i] >> 32).view(np.float32)
                places[i] = 0 if is_best else 1
                mass[i] = (c.second if is_best else best_weight) * np.float64(other)
        else:
            _sort(keys, pairs)
            if block.itemsize > 4:
                _resolve_ties(block, begin, rows, keys, tied)
            for rank in range(1, n_classes):
                for i in range(WIDTH):
                    places[i] += rank if _class_of(keys[rank, i]) == wanted[i] else 0
            for i in range(rows):
                deepest = max(deepest, places[i])
            _values(block, begin, rows, keys, 1, single, line)
            for i in range(WIDTH):
                mass[i] = c.second * line[i] if places[i] == 0 else 0.0
            for rank in range(deepest if linear else 0):
                _values(block, begin, rows, keys, rank, single, line)
                weight = table[rank, ABOVE]
                for i in range(WIDTH):
                    mass[i] = mass[i] + weight * line[i] if rank < places[i] else mass[i]
            if not linear:
                _lowest_ratios(block, begin, rows, keys, single, c.price, line, above, mass)
        for i in range(rows):
            row, rank = begin + i, places[i]
            own, above_it = np.float64(block[row, labels[row]]), mass[i] if linear or rank > 0 else 0.0
            scores[row] = compiled_formula(table, c.constant, c.price, rank, own, above_it, u[row])
    return suspects
