"""One split at many levels: what another alpha would make of a method."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pippin._compare.methods import Method
from pippin._compare.outcomes import calibrated, rank_scores, sets_within
from pippin._compare.sharpened_splits import sharpened_splits
from pippin._compare.splits import Split, draw_split
from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._runtime.arrays import Codes, Vector
from pippin._theory.level import quantile_rank

STEPS = range(5, 501)  # levels in thousandths
MOST_PLAIN = 4_000_000  # class scores sorted for the curve of a plain score
MOST_SCORES = 300_000  # class scores looked at for each level of any other


@dataclass(frozen=True, eq=False)
class LevelCurve:
    """Counts over `n_test` test rows at each of STEPS: labels covered, the sum of sizes, singletons, empty sets.

    `thresholds` is None for a method with several at each level. With too few rows for a level a
    plain score is shown at its largest calibration score; every set is full then.
    """

    method: Method
    n_test: int
    covered: Codes
    sizes: Codes
    singletons: Codes
    empty: Codes
    thresholds: Vector | None


def level_curve(trial: Trial, method: Method) -> LevelCurve:
    """The first split at every level, on its test rows, or on a sample of them, if there are many."""
    split, shown = draw_split(trial, 0), method
    if method.sharpened:
        trial, method, split = sharpened_splits(trial).divide(trial, method, split)
    curve = (_plain_curve if method.plain else _curve)(trial, method, split)
    return replace(curve, method=shown)


def _tested(trial: Trial, split: Split, most: int) -> NDArray[np.intp]:
    """The test rows, or as many of them, at random, as have so many classes in all."""
    test, room = np.flatnonzero(~split.calibration), max(1, most // trial.n_classes)
    if len(test) <= room:
        return test
    return np.sort(np.random.default_rng(trial.seed).choice(test, room, replace=False))


def _plain_curve(trial: Trial, method: Method, split: Split) -> LevelCurve:
    """From all classes' scores, sorted: a threshold is a place among them."""
    test = _tested(trial, split, MOST_PLAIN)
    labels = dispatch.label_scores(trial.ranked, trial.ranks, method.score, split.u)
    ranks = np.array([quantile_rank(trial.n_calibration, step / 1000) for step in STEPS])
    thresholds = np.sort(labels[split.calibration])[np.minimum(ranks, trial.n_calibration) - 1]
    by_rank = dispatch.class_scores(trial.ranked.take(test), method.score, split.u[test])
    covered, reached, beyond, sizes = (
        np.searchsorted(np.sort(values, axis=None), thresholds, side="right")
        for values in (labels[test], by_rank[:, 0], by_rank[:, 1], by_rank)
    )
    return LevelCurve(method, len(test), covered, sizes, reached - beyond, len(test) - reached, thresholds)


def _curve(trial: Trial, method: Method, split: Split) -> LevelCurve:
    test = _tested(trial, split, MOST_SCORES)
    scores = rank_scores(trial, method.score)
    counts, thresholds = np.empty((4, len(STEPS)), dtype=np.int64), np.empty(len(STEPS))
    found = calibrated(scores, method, trial.alpha, split)
    for i, step in enumerate(STEPS):  # what a level lacks shows in its sets
        here = sets_within(scores, method, found.limits(step / 1000), test, found.u)
        thresholds[i] = here.threshold
        counts[:, i] = here.covered.sum(), here.sizes.sum(), (here.sizes == 1).sum(), (here.sizes == 0).sum()
    covered, sizes, singletons, empty = counts
    one = None if np.isnan(thresholds).any() else thresholds
    return LevelCurve(method, len(test), covered, sizes, singletons, empty, one)
