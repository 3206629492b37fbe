"""One split of an experiment, counted.

A score's thresholds lie close together, so its sets are known but for the few places
(class and row) whose scores lie between the lowest and the highest threshold. Given the
split, the threshold is an order statistic, and the sets are their known sizes plus the
places that have entered.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.plain import Vector
from pippin._theory.formula import OWN, OWN_U, PENALTY, PENALTY_U, Coefficients, score_at

Counts = tuple[Any, Any, Any, Any, Any]  # threshold; test rows covered; sum of sizes; singletons; empty sets


class Scored(NamedTuple):
    """Some classes with what the formula needs of each, and their scores, if these take no u.

    `adaptive` says that the score is u·p + M + g and nothing else, as in APS and RAPS.
    """

    c: Coefficients
    p: Vector
    mass: Vector
    scores: Vector
    adaptive: bool


class Known(NamedTuple):
    """What all splits share.

    The label of every row (`label`, its rows in `label_row`); the lowest threshold that
    is prepared for (`low`); the size that every set has at all thresholds (`sizes[0]`),
    and the places above it (`place`, in `place_row`), with what each makes of its set
    (`kind`): 0 a singleton, 1 a pair, 2 a larger set. If the score takes no u, labels
    and places are sorted by score, and `sizes[j]` are the sizes after the first
    `j * step` places; else the places are sorted by kind.
    """

    label: Scored
    label_row: NDArray[np.int32]
    low: float
    sizes: NDArray[np.int32]
    step: int
    place: Scored
    place_row: NDArray[np.int32]
    kind: NDArray[np.int8]


def is_adaptive(c: Coefficients) -> bool:
    """Whether u·p + M + g is the whole formula."""
    if not np.isnan(c.price) or c.constant != 0:
        return False
    return bool((c.table[:, OWN] == 0).all() and (c.table[:, OWN_U] == 1).all() and (c.table[:, PENALTY_U] == 0).all())


def count_splits(
    known: Known, k: int, randomized: bool, calibrations: NDArray[np.bool_], u: Vector, counts: Vector
) -> None:
    """Fills `counts`, one row per split, from (splits, n) arrays of who calibrates and of u."""
    tests = ~calibrations
    if randomized:
        level, some = 0, slice(None)
        counts[:, 0], counts[:, 1], enters = _count_randomized(known, k, calibrations, u)
    else:
        counts[:, 0], counts[:, 1], stop = _count_fixed(known, k, calibrations)
        level = int(stop.min()) // known.step
        some = slice(level * known.step, int(stop.max()))
        enters = np.arange(some.start, some.stop) < stop[:, None]
    enters &= tests.take(known.place_row[some], axis=1)
    kind, sizes = known.kind[some], known.sizes[level]
    empty, single, total = _sums(tests, sizes == 0, sizes == 1, sizes)
    firsts, seconds, entered = _sums(enters, kind == 0, kind == 1, kind >= 0)
    counts[:, 2], counts[:, 3], counts[:, 4] = total + entered, single + firsts - seconds, empty - firsts


def _count_fixed(known: Known, k: int, calibrations: NDArray[np.bool_]) -> tuple[Any, Any, Any]:
    """For a score without u: thresholds, test rows covered, and how many of the sorted places have entered."""
    scores = known.label.scores
    first = int(np.searchsorted(scores, known.low))  # practically all thresholds lie above
    n_calibration = np.count_nonzero(calibrations[0])
    while True:
        passed = np.cumsum(calibrations.take(known.label_row[first:], axis=1), axis=1, dtype=np.int64)
        passed += n_calibration - passed[:, -1:]
        if first == 0 or (passed[:, 0] < k).all():
            break
        first = 0
    threshold = scores[first + (passed < k).sum(axis=1)]
    end = np.searchsorted(scores, threshold, side="right")
    covered = end - passed[np.arange(len(end)), end - first - 1]
    return threshold, covered, np.searchsorted(known.place.scores, threshold, side="right")


def _count_randomized(
    known: Known, k: int, calibrations: NDArray[np.bool_], u: Vector
) -> tuple[Any, Any, NDArray[np.bool_]]:
    """For a score with u, which every split draws anew: thresholds, test rows covered, and which places enter."""
    thresholds, covered = np.empty(len(u)), np.empty(len(u))
    enters = np.empty((len(u), known.place_row.size), dtype=bool)
    place_row = known.place_row.astype(np.intp)
    for i, calibration in enumerate(calibrations):
        scores = _scores(known.label, u[i])
        tail = scores[calibration & (scores >= known.low)]  # the threshold is practically never below
        index = k - 1 - np.count_nonzero(calibration) + tail.size
        if index < 0:
            index, tail = k - 1, scores[calibration]
        thresholds[i] = np.partition(tail, index)[index]
        covered[i] = np.count_nonzero((scores <= thresholds[i]) & ~calibration)
        np.less_equal(_scores(known.place, u[i].take(place_row)), thresholds[i], out=enters[i])
    return thresholds, covered, enters


def _scores(scored: Scored, u: Vector) -> Vector:
    found: Vector
    if scored.adaptive:
        found = u * scored.p + scored.mass + scored.c.table[:, PENALTY]
    else:
        found = score_at(scored.c, slice(None), scored.p, scored.mass, u)
    return found


def _sums(chosen: NDArray[np.bool_], *columns: NDArray[Any]) -> NDArray[np.float64]:
    """The sum of every column over the chosen entries of each split; of whole numbers, so it is exact."""
    table = np.stack(columns).astype(np.float64)
    return np.stack([table @ of_split for of_split in chosen], axis=1)
