"""Random splits of sorted rows: classes that are in a set for some splits only, and counts on many splits.

Rows are sorted in descending order, so that the rank of a class is its position and the mass above it a running sum.
Results are equal to those of `numpy_engine.py` to the last bit.
"""

from typing import Any

import numpy as np

from pippin._engine.numba_engine.compilation import entry_point, part
from pippin._engine.numba_engine.rowwise import compiled_formula, lowest_ratio
from pippin._engine.protocol import NearPlaces, Places
from pippin._runtime.arrays import Codes, Flags, Floats, Vector
from pippin._theory.formula import ABOVE, Coefficients


@part
def _score_at(c: Coefficients, rank: int, p: float, mass: float, u: float) -> Any:
    return compiled_formula(c.table, c.constant, c.price, rank, p, mass, u)


@part
def _next_mass(block: Floats, i: int, ranks: Codes, c: Coefficients, rank: int, mass: float) -> Any:
    """Return M of the score formula for row i at `rank`, given M at the rank before; `ranks` is 0, …, K − 1."""
    if rank == 0:
        return c.second * block[i, 1]
    if not np.isnan(c.price):  # SOCOP
        return lowest_ratio(block, i, ranks, c.price, -np.inf, ranks.size, 1, 0.0, np.inf)[2] if rank == 1 else mass
    return (mass if rank > 1 else 0.0) + c.table[rank - 1, ABOVE] * block[i, rank - 1]


@entry_point
def near_places(block: Floats, ranks: Codes, c: Coefficients, low: float, high: float) -> Places:
    """Return set sizes at the threshold `low`, and the classes that may enter a set up to `high`; see `NearPlaces`.

    The first pass counts the classes, the second writes them.
    """
    n, n_classes = block.shape
    sizes, ends, used, all_ranks = np.zeros(n, np.int32), np.zeros(n, np.int32), 0, np.arange(n_classes)
    for i in range(n):
        mass = 0.0
        for rank in range(n_classes):
            mass = _next_mass(block, i, all_ranks, c, rank, mass)
            p = np.float64(block[i, rank])
            if not _score_at(c, rank, p, mass, 0.0) <= high:
                break
            ends[i] = rank + 1
            if _score_at(c, rank, p, mass, 1.0) <= low:
                sizes[i] = rank + 1
        used += ends[i] - sizes[i]
    row, rank_of, is_label = np.empty(used, np.int32), np.empty(used, np.int32), np.empty(used, np.bool_)
    ps, masses, j = np.empty(used), np.empty(used), 0
    for i in range(n):
        mass = 0.0
        for rank in range(ends[i] if ends[i] > sizes[i] else 0):
            mass = _next_mass(block, i, all_ranks, c, rank, mass)
            if rank >= sizes[i]:
                row[j], rank_of[j], is_label[j], ps[j], masses[j] = i, rank, rank == ranks[i], block[i, rank], mass
                j += 1
    return sizes, row, rank_of, is_label, ps, masses


@part
def _score(near: NearPlaces, c: Coefficients, j: int, u: Vector) -> Any:
    return _score_at(c, near.rank[j], near.p[j], near.mass[j], u[near.row[j]])


@part
def _kth_smallest(values: Vector, k: int) -> Any:
    """Select the k-th smallest value, k from 0, by Hoare's quickselect; np.partition compiles for several seconds."""
    left, right = 0, values.size - 1
    while left < right:
        pivot, i, j = values[k], left, right
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        left, right = i if j < k else left, j if k < i else right
    return values[k]


@part
def _threshold(near: NearPlaces, c: Coefficients, k: int, calibration: Flags, u: Vector, scores: Vector) -> Any:
    """Return the k-th smallest calibration score of a split, or NaN if no place of `NearPlaces` has this score."""
    below, unsure = 0, 0
    for i in range(calibration.size):
        below += calibration[i] & near.sure[i]
    for j in near.labels:
        scores[unsure] = _score(near, c, j, u)
        unsure += calibration[near.row[j]]
    if not below < k <= below + unsure:
        return np.nan
    return _kth_smallest(scores[:unsure], k - below - 1)


@part
def _entering(
    near: NearPlaces, c: Coefficients, calibration: Flags, u: Vector, threshold: float, stop: int, sure: bool
) -> tuple[int, int, int, int, int]:
    """Count the classes in sets of test rows, among the places of `NearPlaces` before index `stop`.

    Return the numbers of labels, of all classes, of classes of rank 0 and of rank 1, and the change of the number of
    singletons that contain the label: rank 0 minus rank 1, in rows whose label has rank 0. If `sure`, all places before
    `stop` are in the set of their row, and no score is computed.
    """
    labels, places, firsts, seconds, correct = 0, 0, 0, 0, 0
    for j in range(stop):
        enters = not calibration[near.row[j]]
        if not sure:
            enters &= _score(near, c, j, u) <= threshold
        labels += enters & near.is_label[j]
        places += enters
        first, second, top = enters & (near.rank[j] == 0), enters & (near.rank[j] == 1), near.top[near.row[j]]
        firsts += first
        seconds += second
        correct += (first & top) - (second & top)
    return labels, places, firsts, seconds, correct


@entry_point
def count_splits(near: NearPlaces, c: Coefficients, k: int, chosen: Flags, u: Vector, counts: Vector) -> None:
    """Write the threshold and the counts of every split; see `protocol.Engine.count_splits`."""
    scores = np.empty(near.labels.size + 1)
    for s in range(chosen.shape[0]):
        calibration = chosen[s]
        threshold = _threshold(near, c, k, calibration, u[s], scores)
        covered, total, singletons, empty, correct = 0, 0, 0, 0, 0
        for i in range(calibration.size):
            test, size = not calibration[i], near.sizes[i]
            covered += test & near.sure[i]
            total += test * size
            singletons += test & (size == 1)
            empty += test & (size == 0)
            correct += test & (size == 1) & near.top[i]
        is_sorted = near.scores.size > 0
        stop = np.searchsorted(near.scores, threshold, side="right") if is_sorted else near.row.size
        entering = _entering(near, c, calibration, u[s], threshold, stop, is_sorted)
        labels, places, firsts, seconds, correct_entering = entering
        counts[s, 0], counts[s, 1], counts[s, 2] = threshold, covered + labels, total + places
        counts[s, 3], counts[s, 4] = singletons + firsts - seconds, empty - firsts
        counts[s, 5] = correct + correct_entering
