"""`counting.py` in compiled loops, without a branch that depends on who calibrates."""

import numpy as np
from numpy.typing import NDArray

from pippin.counting import Counts, Known
from pippin.plain import Indices, Vector
from pippin.ranks import compiled, compiled_score_at, smallest


@compiled
def _count_fixed(known: Known, calibration: NDArray[np.bool_], k: int) -> Counts:
    """As in `counting.py`, in one pass over the labels, one over the places and one over the sizes."""
    scores, label_row, place_scores = known.label.scores, known.label_row, known.place.scores
    seen, end = 0, 0
    while seen < k:
        seen += calibration[label_row[end]]
        end += 1
    threshold = scores[end - 1]
    while end < scores.size and scores[end] == threshold:
        seen += calibration[label_row[end]]
        end += 1
    stop = np.searchsorted(place_scores, threshold, side="right")
    level = stop // known.step
    firsts, seconds, others = 0, 0, 0
    for j in range(level * known.step, stop):
        enters = not calibration[known.place_row[j]]
        firsts += enters & (known.kind[j] == 0)
        seconds += enters & (known.kind[j] == 1)
        others += enters & (known.kind[j] == 2)
    return _with_sizes(threshold, end - seen, firsts, seconds, others, known.sizes[level], calibration)


@compiled
def _count_randomized(known: Known, calibration: NDArray[np.bool_], k: int, u: Vector) -> Counts:
    """As in `counting.py`."""
    label, place, n = known.label, known.place, calibration.size
    scores = np.empty(n)
    calibrating = np.empty(n)
    size = 0
    for i in range(n):
        scores[i] = compiled_score_at(label.c, i, label.p[i], label.mass[i], u[i])
        calibrating[size] = scores[i]
        size += calibration[i]
    threshold = smallest(calibrating[:size], k - 1)
    covered = 0
    for i in range(n):
        covered += (scores[i] <= threshold) & (not calibration[i])
    firsts, seconds, others = 0, 0, 0
    for j in range(known.place_row.size):
        i = known.place_row[j]
        enters = (not calibration[i]) & (compiled_score_at(place.c, j, place.p[j], place.mass[j], u[i]) <= threshold)
        firsts += enters & (known.kind[j] == 0)
        seconds += enters & (known.kind[j] == 1)
        others += enters & (known.kind[j] == 2)
    return _with_sizes(threshold, covered, firsts, seconds, others, known.sizes[0], calibration)


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
