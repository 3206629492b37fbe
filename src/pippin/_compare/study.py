"""Everything that a report tells of one data set, in one call."""

from dataclasses import dataclass
from functools import partial

from pippin._compare.comparison import Comparison, compare_in
from pippin._compare.curves import LevelCurve, level_curve
from pippin._compare.deciding import DecisionComparison, decisions_in
from pippin._compare.method_splits import Outcomes
from pippin._compare.methods import Method
from pippin._compare.outcomes import plain_outcome
from pippin._compare.splits import draw_split
from pippin._compare.trial import Trial
from pippin._compare.verdict import JUDGED, Verdict, judge
from pippin._predictors.decisions.utility import Utility
from pippin._predictors.metrics import Evaluation, evaluation
from pippin._runtime.progress import progress_bar


@dataclass(frozen=True, eq=False)
class Study:
    """The comparison, its verdict, and the first split looked at closely: at every level, and in detail."""

    comparison: Comparison
    verdict: Verdict
    curves: tuple[LevelCurve, ...]
    evaluations: dict[str, Evaluation]
    decisions: DecisionComparison | None = None


DECIDED = 200  # splits on which decisions are compared, at most


def study(
    trial: Trial,
    methods: tuple[Method, ...],
    splits: int,
    checkpoint: str | None = None,
    utility: Utility | None = None,
) -> Study:
    """Compares the methods, judges them, and evaluates each on the first split; with a utility, decisions too.

    All rows are compared. Of more than MOST_ROWS, what is told beyond that is seen in a sample: `Trial.closer`.
    """
    comparison = compare_in(trial, methods, splits, checkpoint)
    with progress_bar("report", 1 + 2 * len(methods) + (utility is not None) + JUDGED) as advance:
        near, rows = comparison.closer, trial.closer
        advance(1)
        evaluations, curves = {}, []
        for method, threshold in zip(methods, near.metric("threshold")[:, 0].tolist(), strict=True):
            evaluations[str(method)] = _evaluated(rows, method, threshold)
            advance(1)
            curves.append(level_curve(rows, method))
            advance(1)
        decided = None
        if utility is not None:
            plain = tuple(method for method in methods if method.plain)
            decided = decisions_in(rows, plain, utility, min(splits, DECIDED))
            advance(1)
        verdict = judge(trial, comparison, partial(advance, 1))
    return Study(comparison, verdict, tuple(curves), evaluations, decided)


def _evaluated(trial: Trial, method: Method, threshold: float) -> Evaluation:
    """The method on the first split; a plain score's threshold there is known."""
    split = draw_split(trial, 0)
    test = ~split.calibration
    if method.plain:
        found = plain_outcome(trial, method.score, threshold, split)
    else:
        found = Outcomes(trial, [method]).of(method, split)
    groups = trial.group[test], trial.group_names
    return evaluation(found.sizes, found.covered, trial.labels[test], trial.classes, *groups, trial.alpha)
