"""Many splits of one score, counted.

A score's thresholds lie close together, so its sets are known but for the few places
(class and row) whose scores lie between the lowest and the highest threshold. Given the
split, the threshold is an order statistic, and the sets are their known sizes plus the
places that have entered.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine.protocol import ScoredPlaces, Shared
from pippin._runtime.arrays import Flags, Vector
from pippin._theory.formula import PENALTY, score_at


def deal(calibration: Flags, drawn: Vector, u: Vector) -> None:
    """Fills in u from the numbers drawn: the first ones go to who calibrates, the rest to the others."""
    n_calibration = np.count_nonzero(calibration)
    u[calibration], u[~calibration] = drawn[:n_calibration], drawn[n_calibration:]


def count_splits(shared: Shared, k: int, randomized: bool, calibrations: Flags, u: Vector, counts: Vector) -> None:
    """Fills `counts`, one row per split, from (splits, n) arrays of who calibrates and of u."""
    tests = ~calibrations
    if randomized:
        level, some = 0, slice(None)
        counts[:, 0], counts[:, 1], enters = _count_randomized(shared, k, calibrations, u)
    else:
        counts[:, 0], counts[:, 1], stop = _count_fixed(shared, k, calibrations)
        level = int(stop.min()) // shared.step
        some = slice(level * shared.step, int(stop.max()))
        enters = np.arange(some.start, some.stop) < stop[:, None]
    enters &= tests.take(shared.place_row[some], axis=1)
    kind, sizes = shared.kind[some], shared.sizes[level]
    empty, single, total = _sums(tests, sizes == 0, sizes == 1, sizes)
    firsts, seconds, entered = _sums(enters, kind == 0, kind == 1, kind >= 0)
    counts[:, 2], counts[:, 3], counts[:, 4] = total + entered, single + firsts - seconds, empty - firsts


def _count_fixed(shared: Shared, k: int, calibrations: Flags) -> tuple[Any, Any, Any]:
    """For a score without u: thresholds, test rows covered, and how many of the sorted places have entered."""
    scores = shared.label.scores
    first = int(np.searchsorted(scores, shared.low))  # practically all thresholds lie above
    n_calibration = np.count_nonzero(calibrations[0])
    while True:
        passed = np.cumsum(calibrations.take(shared.label_row[first:], axis=1), axis=1, dtype=np.int64)
        passed += n_calibration - passed[:, -1:]
        if first == 0 or (passed[:, 0] < k).all():
            break
        first = 0
    threshold = scores[first + (passed < k).sum(axis=1)]
    end = np.searchsorted(scores, threshold, side="right")
    covered = end - passed[np.arange(len(end)), end - first - 1]
    return threshold, covered, np.searchsorted(shared.place.scores, threshold, side="right")


def _count_randomized(shared: Shared, k: int, calibrations: Flags, u: Vector) -> tuple[Any, Any, Flags]:
    """For a score with u, which every split draws anew: thresholds, test rows covered, and which places enter."""
    thresholds, covered = np.empty(len(u)), np.empty(len(u))
    enters = np.empty((len(u), shared.place_row.size), dtype=bool)
    place_row, label_row = shared.place_row.astype(np.intp), shared.label_row.astype(np.intp)
    for i, calibration in enumerate(calibrations):
        scores, calibrates = _scores(shared.label, u[i].take(label_row)), calibration.take(label_row)
        before, known = np.count_nonzero(calibration & shared.sure), scores[calibrates]
        index = k - 1 - before
        prepared = np.count_nonzero(known < shared.low) <= index < known.size
        thresholds[i] = np.partition(known, index)[index] if prepared else np.nan
        covered[i] = np.count_nonzero(shared.sure) - before
        covered[i] += np.count_nonzero((scores <= thresholds[i]) & ~calibrates)
        np.less_equal(_scores(shared.place, u[i].take(place_row)), thresholds[i], out=enters[i])
    return thresholds, covered, enters


def _scores(scored: ScoredPlaces, u: Vector) -> Vector:
    found: Vector
    if scored.adaptive:
        found = u * scored.p + scored.mass + scored.c.table[:, PENALTY]
    else:
        found = score_at(scored.c, slice(None), scored.p, scored.mass, u)
    return found


def _sums(chosen: Flags, *columns: NDArray[Any]) -> Vector:
    """The sum of every column over the chosen entries of each split; of whole numbers, so it is exact."""
    table = np.stack(columns).astype(np.float64)
    return np.stack([table @ of_split for of_split in chosen], axis=1)
