"""Counts of coverage and set sizes on many random splits of the same rows, which are scored only once.

Most classes are in the set of their row in every split, or in none. Only the others, the borderline classes, are
compared with the threshold of each split. Rows are sorted in descending order, so that the rank of a class is its
position, and M of the score formula (the term of the other classes) is a running sum. Results equal those of
`numpy_engine.py` to the last bit.
"""

from typing import Any

import numpy as np

from pippin._engine.numba_engine.compilation import entry_point, part
from pippin._engine.numba_engine.rowwise import compiled_formula, lowest_ratio
from pippin._engine.protocol import BorderlineArrays, BorderlineClasses
from pippin._runtime.arrays import Codes, Flags, Floats, Vector
from pippin._theory.formula import ABOVE, Coefficients


@part
def _score_at(c: Coefficients, rank: int, p: float, mass: float, u: float) -> Any:
    return compiled_formula(c.table, c.constant, c.price, rank, p, mass, u)


@part
def _next_mass(block: Floats, i: int, ranks: Codes, c: Coefficients, rank: int, mass: float) -> Any:
    """Return M at `rank`, given M at the rank before; M is the term of the score formula that depends on other classes.

    `i` is the row, and `ranks` is 0, …, K − 1.
    """
    if rank == 0:
        return c.second * block[i, 1]
    if not np.isnan(c.price):  # SOCOP has another formula: M is τ from rank 1 on
        return lowest_ratio(block, i, ranks, c.price, -np.inf, ranks.size, 1, 0.0, np.inf)[2] if rank == 1 else mass
    return (mass if rank > 1 else 0.0) + c.table[rank - 1, ABOVE] * block[i, rank - 1]


@entry_point
def borderline_classes(block: Floats, ranks: Codes, c: Coefficients, low: float, high: float) -> BorderlineArrays:
    """Return set sizes at the threshold `low`, and the classes that enter sets at thresholds between `low` and `high`.

    The result has the fields sizes, row, rank, is_label, p and mass of `BorderlineClasses`. A first pass counts the
    classes, a second one writes them.
    """
    n, n_classes = block.shape
    sizes, ends, used, all_ranks = np.zeros(n, np.int32), np.zeros(n, np.int32), 0, np.arange(n_classes)
    for i in range(n):
        mass = 0.0
        for rank in range(n_classes):
            mass = _next_mass(block, i, all_ranks, c, rank, mass)
            p = np.float64(block[i, rank])
            # A score is linear in u, so its extremes are at u = 0 and u = 1.
            first, last = _score_at(c, rank, p, mass, 0.0), _score_at(c, rank, p, mass, 1.0)
            if not min(first, last) <= high:
                break
            ends[i] = rank + 1
            if max(first, last) <= low:
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
def _score(border: BorderlineClasses, c: Coefficients, j: int, u: Vector) -> Any:
    return _score_at(c, border.rank[j], border.p[j], border.mass[j], u[border.row[j]])


@part
def _kth_smallest(values: Vector, k: int) -> Any:
    """Select the k-th smallest value, k from 0, by Hoare's quickselect.

    numba takes several seconds to compile np.partition.
    """
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
def _threshold(
    border: BorderlineClasses, c: Coefficients, k: int, calibration: Flags, u: Vector, scores: Vector
) -> Any:
    """Return the k-th smallest calibration score of a split; NaN if that is not the score of a borderline class."""
    below, unsure = 0, 0
    for i in range(calibration.size):
        below += calibration[i] & border.sure[i]
    for j in border.labels:
        scores[unsure] = _score(border, c, j, u)
        unsure += calibration[border.row[j]]
    if not below < k <= below + unsure:
        return np.nan
    return _kth_smallest(scores[:unsure], k - below - 1)


@part
def _entering(
    border: BorderlineClasses, c: Coefficients, calibration: Flags, u: Vector, threshold: float, stop: int, sure: bool
) -> tuple[int, int, int, int, int]:
    """Count the borderline classes before index `stop` that are in the sets of test rows at the threshold.

    Return five counts: labels, all classes, classes of rank 0, classes of rank 1, and the increase in singletons that
    contain the label. A class of rank 0 makes an empty set a singleton, one of rank 1 makes a singleton a larger set;
    the increase is the difference of both in rows whose label has rank 0. If `sure`, all classes before `stop` are in
    the sets.
    """
    labels, classes, firsts, seconds, correct = 0, 0, 0, 0, 0
    for j in range(stop):
        enters = not calibration[border.row[j]]
        if not sure:
            enters &= _score(border, c, j, u) <= threshold
        labels += enters & border.is_label[j]
        classes += enters
        first, second, top = enters & (border.rank[j] == 0), enters & (border.rank[j] == 1), border.top[border.row[j]]
        firsts += first
        seconds += second
        correct += (first & top) - (second & top)
    return labels, classes, firsts, seconds, correct


@entry_point
def count_splits(border: BorderlineClasses, c: Coefficients, k: int, chosen: Flags, u: Vector, counts: Vector) -> None:
    """Write the threshold of every split, and its counts of coverage, set sizes and singletons on the test rows.

    The columns of `counts` are the threshold, and the numbers of covered rows, of classes in all sets, of singletons,
    of empty sets, and of singletons that contain the label.
    """
    scores = np.empty(border.labels.size + 1)
    for s in range(chosen.shape[0]):
        calibration = chosen[s]
        threshold = _threshold(border, c, k, calibration, u[s], scores)
        covered, total, singletons, empty, correct = 0, 0, 0, 0, 0
        for i in range(calibration.size):
            test, size = not calibration[i], border.sizes[i]
            covered += test & border.sure[i]
            total += test * size
            singletons += test & (size == 1)
            empty += test & (size == 0)
            correct += test & (size == 1) & border.top[i]
        is_sorted = border.scores.size > 0
        stop = np.searchsorted(border.scores, threshold, side="right") if is_sorted else border.row.size
        entering = _entering(border, c, calibration, u[s], threshold, stop, is_sorted)
        labels, classes, firsts, seconds, correct_entering = entering
        counts[s, 0], counts[s, 1], counts[s, 2] = threshold, covered + labels, total + classes
        counts[s, 3], counts[s, 4] = singletons + firsts - seconds, empty - firsts
        counts[s, 5] = correct + correct_entering
