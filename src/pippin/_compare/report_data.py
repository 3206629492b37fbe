"""Data of a report: the comparison, its recommendation, and curves and evaluations of the first split."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pippin._compare.comparison import Comparison, compare_trial
from pippin._compare.decisions import DecisionComparison, evaluate_decisions
from pippin._compare.methods import Method
from pippin._compare.split_evaluation import calibrate_on_split, predict_rows, sets_of_split, sharpen_split
from pippin._compare.splits import RowNumbers, Split, Trial, draw_split
from pippin._compare.verdict import Verdict, judge
from pippin._conformal.coverage_by import tally
from pippin._conformal.evaluation import Evaluation, evaluate_counts
from pippin._decisions.utility import Utility
from pippin._engine import dispatch
from pippin._runtime.arrays import Codes, Vector
from pippin._theory.level import quantile_rank

STEPS = range(5, 501)  # values of alpha in thousandths
MOST_PLAIN = 4_000_000  # largest number of probabilities of test rows for the curve of a score with one threshold
MOST_SCORES = 300_000  # largest number of probabilities of test rows for the curve of any other method
DECIDED = 200  # largest number of splits on which decisions are compared


@dataclass(frozen=True, eq=False)
class LevelCurve:
    """Counts of covered labels, classes in the sets, singletons and empty sets of a method at each alpha in STEPS.

    They are counts over `n_test` test rows. `thresholds` is None for a method with several thresholds. If alpha is too
    small for the number of calibration rows, the threshold is infinite; for a score with one threshold, the largest
    calibration score is used instead.
    """

    method: Method
    n_test: int
    covered: Codes
    sizes: Codes
    singletons: Codes
    empty: Codes
    thresholds: Vector | None


class ExampleSet(NamedTuple):
    """Prediction set of a test row of the first split, as an example for readers.

    Attributes:
        method: the method, a score with one threshold.
        members: names of the classes in the set, and their probabilities, most probable first.
        truth: the name of the true class, which is in the set.
    """

    method: Method
    members: tuple[tuple[str | int, float], ...]
    truth: str | int


@dataclass(frozen=True, eq=False)
class Study:
    """Data of a report: a comparison, its recommendation, and curves over alpha and an evaluation per method.

    The curves (metrics as functions of alpha) and the evaluations are computed on the first split. `decisions` compares
    decision rules, if a utility is given. Everything but `comparison` leaves out methods with the same sets as an
    earlier one, see `Comparison.distinct`.
    """

    comparison: Comparison
    verdict: Verdict
    curves: tuple[LevelCurve, ...]
    evaluations: dict[str, Evaluation]
    decisions: DecisionComparison | None = None
    example: ExampleSet | None = None


def study(
    trial: Trial,
    methods: tuple[Method, ...],
    splits: int,
    checkpoint: str | None = None,
    utility: Utility | None = None,
) -> Study:
    """Compare the methods, recommend one, and evaluate each on the first split; with a utility, compare decisions too.

    If there are very many rows, curves, evaluations and decisions use a random sample of them (`Trial.sample`).
    """
    comparison = compare_trial(trial, methods, splits, checkpoint)
    distinct = comparison.distinct
    verdict = judge(trial, distinct)
    rows, methods = distinct.sample.require_trial(), distinct.scores
    curves = tuple(level_curve(rows, method) for method in methods)
    evaluations = {str(method): _evaluate(rows, method) for method in methods}
    plain = tuple(method for method in methods if method.plain)
    decided = None if utility is None else evaluate_decisions(rows, plain, utility, min(splits, DECIDED))
    example = _example_set(rows, verdict.take) if verdict.take.plain else None
    return Study(comparison, verdict, curves, evaluations, decided, example)


def _example_set(trial: Trial, method: Method) -> ExampleSet | None:
    """Return the prediction set of a test row to show as an example; None if no set contains the true class.

    It is the first set of two classes whose true class is not the most probable one. If there is none, it is another
    set that contains the true class.
    """
    split = draw_split(trial, 0)
    sets, test = sets_of_split(trial, method, split), split.test_rows
    two = sets.sizes == 2
    kinds = (two & (trial.ranks[test] > 0), two, sets.sizes > 0)
    chosen = next((found[0] for kind in kinds if len(found := np.flatnonzero(kind & sets.covered))), None)
    if chosen is None:
        return None
    row = trial.rows.block(test[chosen], test[chosen] + 1)[0]
    codes = np.argsort(-row, kind="stable")[: sets.sizes[chosen]].tolist()
    members = tuple((trial.classes[code], float(row[code])) for code in codes)
    return ExampleSet(method, members, trial.classes[trial.labels[test[chosen]]])


def _evaluate(trial: Trial, method: Method) -> Evaluation:
    """Evaluate the method on the first split."""
    split = draw_split(trial, 0)
    sets, test = sets_of_split(trial, method, split), split.test_rows
    labels, group = trial.labels[test], trial.group[test]
    counts = tally(sets.sizes, sets.covered, labels, group, trial.n_classes, trial.n_groups, trial.members)
    return evaluate_counts(counts, trial.classes, trial.group_names, trial.alpha)


def level_curve(trial: Trial, method: Method) -> LevelCurve:
    """Evaluate a method on the first split at every alpha of STEPS."""
    split, shown = draw_split(trial, 0), method
    if method.sharpened:
        trial, method, split = sharpen_split(trial, method, split)
    curve = (_plain_curve if method.plain else _curve)(trial, method, split)
    return replace(curve, method=shown)


def _sample(trial: Trial, n_test: int, most: int) -> RowNumbers:
    """Return the indices of all test rows, or of a random sample so small that it has at most `most` probabilities."""
    size = max(1, most // trial.n_classes)
    if n_test <= size:
        return np.arange(n_test)
    return np.sort(np.random.default_rng(trial.seed).choice(n_test, size, replace=False))


def _plain_curve(trial: Trial, method: Method, split: Split) -> LevelCurve:
    """Compute coverage and set sizes as functions of alpha for a score with one threshold, by counting scores."""
    test = split.test_rows[_sample(trial, trial.n_test, MOST_PLAIN)]
    labels = dispatch.label_scores(trial.ranked, trial.ranks, method.score, split.u)
    ks = np.array([quantile_rank(trial.n_calibration, step / 1000) for step in STEPS])
    thresholds = np.sort(labels[split.calibration])[np.minimum(ks, trial.n_calibration) - 1]
    by_rank = dispatch.class_scores(trial.ranked.take(test), method.score, split.u[test])
    scores = labels[test], by_rank[:, 0], by_rank[:, 1], by_rank
    counts = (np.searchsorted(np.sort(values, axis=None), thresholds, side="right") for values in scores)
    covered, reached, beyond, sizes = counts
    return LevelCurve(method, len(test), covered, sizes, reached - beyond, len(test) - reached, thresholds)


def _curve(trial: Trial, method: Method, split: Split) -> LevelCurve:
    """Compute the counts at each alpha by predicting the sets, for methods other than a score with one threshold."""
    calibrated = calibrate_on_split(trial, method, split)
    tested = _sample(trial, trial.n_test, MOST_SCORES)
    rows, u = split.test_rows[tested], calibrated.u[tested]
    counts, thresholds = np.empty((4, len(STEPS)), dtype=np.int64), np.empty(len(STEPS))
    for i, step in enumerate(STEPS):
        sets = predict_rows(trial, method, calibrated.at(step / 1000), rows, u)
        thresholds[i], sizes = sets.threshold, sets.sizes
        counts[:, i] = sets.covered.sum(), sizes.sum(), (sizes == 1).sum(), (sizes == 0).sum()
    covered, total, singletons, empty = counts
    one = None if np.isnan(thresholds).any() else thresholds
    return LevelCurve(method, len(rows), covered, total, singletons, empty, one)
