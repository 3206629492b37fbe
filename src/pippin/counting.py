"""One split of an experiment, counted.

A score's thresholds lie close together, so its sets are known but for the few places
(class and row) whose scores lie between the lowest and the highest threshold. Given the
split, the threshold is an order statistic, and the sets are their known sizes plus the
places that have entered.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin.plain import Vector
from pippin.scores import Coefficients, score_at

Counts = tuple[Any, Any, Any, Any, Any]  # threshold; test rows covered; sum of sizes; singletons; empty sets


class Scored(NamedTuple):
    """Some classes with what the formula needs of each, and their scores, if these take no u."""

    c: Coefficients
    p: Vector
    mass: Vector
    scores: Vector


class Known(NamedTuple):
    """What all splits share.

    The label of every row (`label`, its rows in `label_row`); the size that every set
    has at all thresholds (`sizes[0]`), and the places above it (`place`, in `place_row`),
    with what each makes of its set (`kind`): 0 a singleton, 1 a pair, 2 a larger set.
    If the score takes no u, labels and places are sorted by score, and `sizes[j]` are
    the sizes after the first `j * step` places.
    """

    label: Scored
    label_row: NDArray[np.int32]
    sizes: NDArray[np.int32]
    step: int
    place: Scored
    place_row: NDArray[np.int32]
    kind: NDArray[np.int8]


def count_splits(
    known: Known, k: int, randomized: bool, calibrations: NDArray[np.bool_], u: Vector, counts: Vector
) -> None:
    """Fills `counts`, one row per split, from (splits, n) arrays of who calibrates and of u."""
    for i, calibration in enumerate(calibrations):
        counts[i] = count_randomized(known, calibration, k, u[i]) if randomized else count_fixed(known, calibration, k)


def count_fixed(known: Known, calibration: NDArray[np.bool_], k: int) -> Counts:
    """For a score without u: labels and places come sorted by score, a split only counts."""
    scores = known.label.scores
    calibrates = calibration[known.label_row]
    threshold = scores[np.flatnonzero(calibrates)[k - 1]]
    end = np.searchsorted(scores, threshold, side="right")
    covered = end - np.count_nonzero(calibrates[:end])
    stop = np.searchsorted(known.place.scores, threshold, side="right")
    level = stop // known.step
    late = slice(level * known.step, stop)
    entered = known.kind[late][~calibration[known.place_row[late]]]
    return _counts(threshold, covered, entered, known.sizes[level][~calibration])


def count_randomized(known: Known, calibration: NDArray[np.bool_], k: int, u: Vector) -> Counts:
    """For a score with u, which every split draws anew."""
    every = slice(None)
    label, place = known.label, known.place
    scores = score_at(label.c, every, label.p, label.mass, u)
    threshold = np.partition(scores[calibration], k - 1)[k - 1]
    covered = np.count_nonzero(scores[~calibration] <= threshold)
    enters = score_at(place.c, every, place.p, place.mass, u[known.place_row]) <= threshold
    entered = known.kind[enters & ~calibration[known.place_row]]
    return _counts(threshold, covered, entered, known.sizes[0][~calibration])


def _counts(threshold: Any, covered: Any, entered: NDArray[np.int8], sizes: NDArray[np.int32]) -> Counts:
    firsts, seconds = np.count_nonzero(entered == 0), np.count_nonzero(entered == 1)
    singletons = np.count_nonzero(sizes == 1) + firsts - seconds
    return threshold, covered, sizes.sum() + entered.size, singletons, np.count_nonzero(sizes == 0) - firsts
