"""One split at many levels: what another alpha would make of a method that is more than a score."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pippin._compare.methods import Method
from pippin._compare.outcomes import calibrated, score_objects, sets_within
from pippin._compare.splits import Trial, draw_whole_split

STEPS = range(5, 501)  # levels in thousandths
MOST_SCORES = 300_000  # class scores looked at for each level


@dataclass(frozen=True, eq=False)
class LevelCurve:
    """Counts over `n_test` test rows at each of STEPS: labels covered, the sum of sizes, singletons, empty sets.

    `thresholds` is None for a method with several at each level.
    """

    score: Method
    n_test: int
    covered: NDArray[np.int64]
    sizes: NDArray[np.int64]
    singletons: NDArray[np.int64]
    empty: NDArray[np.int64]
    thresholds: NDArray[np.float64] | None = None


def level_curve(trial: Trial, method: Method) -> LevelCurve:
    """The first split at every level, on its test rows, or on a sample of them, if there are many."""
    split = draw_whole_split(trial, 0)
    test = np.flatnonzero(~split.calibration)
    most = max(1, MOST_SCORES // trial.rows.n_classes)
    if len(test) > most:
        test = np.sort(np.random.default_rng(trial.seed).choice(test, most, replace=False))
    scored = score_objects(trial.objects, method.score)
    counts, thresholds = np.empty((4, len(STEPS)), dtype=np.int64), np.empty(len(STEPS))
    found = calibrated(scored, method, trial.alpha, split)
    for i, step in enumerate(STEPS):  # what a level lacks shows in its sets
        thresholds[i], sizes, covered, _ = sets_within(scored, method, found.limits(step / 1000), test, found.u)
        counts[:, i] = covered.sum(), sizes.sum(), (sizes == 1).sum(), (sizes == 0).sum()
    one = None if np.isnan(thresholds).any() else thresholds
    return LevelCurve(method, len(test), counts[0], counts[1], counts[2], counts[3], one)
