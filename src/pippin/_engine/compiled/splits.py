"""`counting.py` in compiled loops, without a branch that depends on who calibrates."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled.walk import compiled, compiled_score_at, smallest
from pippin._engine.plain import Indices, Vector
from pippin._engine.plain_splits import Counts, Known, Scored
from pippin._theory.formula import PENALTY, Coefficients


@compiled
def _count_fixed(known: Known, calibration: NDArray[np.bool_], k: int) -> Counts:
    """As in `counting.py`, in one pass over the labels from the top, one over the places and one over the sizes."""
    scores, label_row, place_scores = known.label.scores, known.label_row, known.place.scores
    left, end = _how_many(calibration) - k + 1, scores.size
    while left > 0:
        end -= 1
        left -= calibration[label_row[end]]
    threshold, inside = scores[end], k
    end += 1
    while end < scores.size and scores[end] == threshold:
        inside += calibration[label_row[end]]
        end += 1
    stop = np.searchsorted(place_scores, threshold, side="right")
    level = stop // known.step
    firsts, seconds, others = 0, 0, 0
    for j in range(level * known.step, stop):
        enters = not calibration[known.place_row[j]]
        firsts += enters & (known.kind[j] == 0)
        seconds += enters & (known.kind[j] == 1)
        others += enters & (known.kind[j] == 2)
    return _with_sizes(threshold, end - inside, firsts, seconds, others, known.sizes[level], calibration)


@compiled
def _count_randomized(known: Known, calibration: NDArray[np.bool_], k: int, u: Vector) -> Counts:
    """As in `counting.py`."""
    n = calibration.size
    scores, tail = np.empty(n), np.empty(n)
    _fill(known.label, u, scores)
    before, size = 0, 0
    for i in range(n):
        tail[size] = scores[i]
        size += calibration[i] & (scores[i] >= known.low)
        before += calibration[i] & (scores[i] < known.low)
    if before >= k:
        before, size = 0, 0
        for i in range(n):
            tail[size] = scores[i]
            size += calibration[i]
    threshold = smallest(tail[:size], k - before - 1)
    covered = 0
    for i in range(n):
        covered += (scores[i] <= threshold) & (not calibration[i])
    pairs, larger = np.searchsorted(known.kind, 1), np.searchsorted(known.kind, 2)
    firsts = _entering(known, 0, pairs, calibration, u, threshold)
    seconds = _entering(known, pairs, larger, calibration, u, threshold)
    others = _entering(known, larger, known.kind.size, calibration, u, threshold)
    return _with_sizes(threshold, covered, firsts, seconds, others, known.sizes[0], calibration)


@compiled
def _fill(scored: Scored, u: Vector, scores: Vector) -> None:
    if scored.adaptive:
        penalty = scored.c.table[:, PENALTY]
        for i in range(scores.size):
            scores[i] = u[i] * scored.p[i] + scored.mass[i] + penalty[i]
    else:
        for i in range(scores.size):
            scores[i] = compiled_score_at(scored.c, i, scored.p[i], scored.mass[i], u[i])


@compiled
def _entering(known: Known, begin: Any, end: Any, calibration: NDArray[np.bool_], u: Vector, threshold: float) -> int:
    """How many of these places enter a set of the test rows."""
    place, place_row, count = known.place, known.place_row, 0
    if place.adaptive:
        penalty = place.c.table[:, PENALTY]
        for j in range(begin, end):
            i = place_row[j]
            score = u[i] * place.p[j] + place.mass[j] + penalty[j]
            count += (score <= threshold) & (not calibration[i])
    else:
        for j in range(begin, end):
            i = place_row[j]
            score = compiled_score_at(place.c, j, place.p[j], place.mass[j], u[i])
            count += (score <= threshold) & (not calibration[i])
    return count


@compiled
def _how_many(rows: NDArray[np.bool_]) -> int:
    count = 0
    for i in range(rows.size):
        count += rows[i]
    return count


@compiled
def _with_sizes(
    threshold: float,
    covered: int,
    firsts: int,
    seconds: int,
    others: int,
    sizes: Indices,
    calibration: NDArray[np.bool_],
) -> Counts:
    total, singletons, empty = 0, 0, 0
    for i in range(sizes.size):
        test = not calibration[i]
        total += sizes[i] * test
        singletons += (sizes[i] == 1) & test
        empty += (sizes[i] == 0) & test
    return threshold, covered, total + firsts + seconds + others, singletons + firsts - seconds, empty - firsts


@compiled
def count_splits(
    known: Known, k: int, randomized: bool, calibrations: NDArray[np.bool_], u: Vector, counts: Vector
) -> None:
    """Fills `counts`, one row per split, from (splits, n) arrays of who calibrates and of u."""
    for i in range(calibrations.shape[0]):
        if randomized:
            found = _count_randomized(known, calibrations[i], k, u[i])
        else:
            found = _count_fixed(known, calibrations[i], k)
        counts[i, 0], counts[i, 1], counts[i, 2], counts[i, 3], counts[i, 4] = found


@compiled
def place_scores(row: Indices, rank: Indices, p: Vector, mass: Vector, c: Coefficients, u: Vector) -> Vector:
    """`plain.at_places` without a row of coefficients for every place."""
    scores = np.empty(row.size)
    for j in range(row.size):
        scores[j] = compiled_score_at(c, rank[j], p[j], mass[j], u[row[j]])
    return scores
