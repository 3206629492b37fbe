"""Data of a report: the comparison, its verdict, and the first split in detail."""

from dataclasses import dataclass, replace

import numpy as np

from pippin._compare.comparison import Comparison, compare_in
from pippin._compare.decisions import DecisionComparison, decisions_in
from pippin._compare.methods import Method
from pippin._compare.split_evaluation import calibrate_on_split, predict_rows, sets_of_split, sharpen_split
from pippin._compare.splits import RowNumbers, Split, Trial, draw_split
from pippin._compare.verdict import Verdict, judge
from pippin._conformal.evaluation import Evaluation, evaluate_covered
from pippin._decisions.utility import Utility
from pippin._engine import dispatch
from pippin._runtime.arrays import Codes, Vector
from pippin._theory.level import quantile_rank

STEPS = range(5, 501)  # levels in thousandths
MOST_PLAIN = 4_000_000  # class scores sorted for the curve of a plain score
MOST_SCORES = 300_000  # class scores compared at each level for any other method
DECIDED = 200  # splits on which decisions are compared, at most


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


@dataclass(frozen=True, eq=False)
class Study:
    """A comparison with its verdict, and the first split in detail: curves over levels and evaluations."""

    comparison: Comparison
    verdict: Verdict
    curves: tuple[LevelCurve, ...]
    evaluations: dict[str, Evaluation]
    decisions: DecisionComparison | None = None


def study(
    trial: Trial,
    methods: tuple[Method, ...],
    splits: int,
    checkpoint: str | None = None,
    utility: Utility | None = None,
) -> Study:
    """Compare the methods on all rows, judge them, and evaluate each on the first split; with a utility, decisions too.

    If there are more than MOST_ROWS rows, everything beyond the comparison rests on a sample: `Trial.closer`.
    """
    comparison = compare_in(trial, methods, splits, checkpoint)
    verdict = judge(trial, comparison)
    rows = comparison.closer.known_trial()
    curves = tuple(level_curve(rows, method) for method in methods)
    evaluations = {str(method): _evaluate(rows, method) for method in methods}
    plain = tuple(method for method in methods if method.plain)
    decided = None if utility is None else decisions_in(rows, plain, utility, min(splits, DECIDED))
    return Study(comparison, verdict, curves, evaluations, decided)


def _evaluate(trial: Trial, method: Method) -> Evaluation:
    """Evaluate the method on the first split."""
    split = draw_split(trial, 0)
    sets, test = sets_of_split(trial, method, split), split.test_rows
    groups = trial.group[test], trial.group_names
    return evaluate_covered(sets.sizes, sets.covered, trial.labels[test], trial.classes, *groups, trial.alpha)


def level_curve(trial: Trial, method: Method) -> LevelCurve:
    """Evaluate the first split at every level, on its test rows or on a sample of them."""
    split, shown = draw_split(trial, 0), method
    if method.sharpened:
        trial, method, split = sharpen_split(trial, method, split)
    curve = (_plain_curve if method.plain else _curve)(trial, method, split)
    return replace(curve, method=shown)


def _sample(trial: Trial, n_test: int, most: int) -> RowNumbers:
    """Choose all test rows, or a random sample with at most so many classes in all."""
    size = max(1, most // trial.n_classes)
    if n_test <= size:
        return np.arange(n_test)
    return np.sort(np.random.default_rng(trial.seed).choice(n_test, size, replace=False))


def _plain_curve(trial: Trial, method: Method, split: Split) -> LevelCurve:
    """Count by binary search in the sorted scores of all classes."""
    test = split.test_rows[_sample(trial, trial.n_test, MOST_PLAIN)]
    labels = dispatch.label_scores(trial.ranked, trial.ranks, method.score, split.u)
    ks = np.array([quantile_rank(trial.n_calibration, step / 1000) for step in STEPS])
    thresholds = np.sort(labels[split.calibration])[np.minimum(ks, trial.n_calibration) - 1]
    by_rank = dispatch.class_scores(trial.ranked.take(test), method.score, split.u[test])
    covered, reached, beyond, sizes = (
        np.searchsorted(np.sort(values, axis=None), thresholds, side="right")
        for values in (labels[test], by_rank[:, 0], by_rank[:, 1], by_rank)
    )
    return LevelCurve(method, len(test), covered, sizes, reached - beyond, len(test) - reached, thresholds)


def _curve(trial: Trial, method: Method, split: Split) -> LevelCurve:
    calibrated = calibrate_on_split(trial, method, split)
    tested = _sample(trial, trial.n_test, MOST_SCORES)
    rows, u = split.test_rows[tested], calibrated.u[tested]
    counts, thresholds = np.empty((4, len(STEPS)), dtype=np.int64), np.empty(len(STEPS))
    for i, step in enumerate(STEPS):  # too few rows for a level show in its sets
        sets = predict_rows(trial, method, calibrated.at(step / 1000), rows, u)
        thresholds[i], sizes = sets.threshold, sets.sizes
        counts[:, i] = sets.covered.sum(), sizes.sum(), (sizes == 1).sum(), (sizes == 0).sum()
    covered, total, singletons, empty = counts
    one = None if np.isnan(thresholds).any() else thresholds
    return LevelCurve(method, len(rows), covered, total, singletons, empty, one)
