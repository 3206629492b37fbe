"""Everything that a report tells of one data set, in one call."""

from dataclasses import dataclass

from pippin._compare.comparison import Comparison, compare_in
from pippin._compare.curves import LevelCurve, level_curve
from pippin._compare.deciding import DecisionComparison, decisions_in
from pippin._compare.method_splits import Outcomes
from pippin._compare.methods import Method
from pippin._compare.outcomes import plain_outcome
from pippin._compare.splits import draw_split
from pippin._compare.trial import Trial
from pippin._compare.verdict import Verdict, judge
from pippin._predictors.decisions.utility import Utility
from pippin._predictors.metrics import Evaluation, evaluation


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
    """Compares the methods, judges them, and evaluates each on the first split; with a utility, decisions too."""
    comparison = compare_in(trial, methods, splits, checkpoint)
    split = draw_split(trial, 0)
    test = ~split.calibration
    evaluations = {}
    for method, threshold in zip(methods, comparison.metric("threshold")[:, 0].tolist(), strict=True):
        found = (
            plain_outcome(trial, method.score, threshold, split)
            if method.plain
            else Outcomes(trial, [method]).of(method, split)
        )
        groups = trial.group[test], trial.group_names
        evaluations[str(method)] = evaluation(
            found.sizes, found.covered, trial.labels[test], trial.classes, *groups, trial.alpha
        )
    curves = tuple(level_curve(trial, method) for method in methods)
    plain = tuple(method for method in methods if method.plain)
    decided = None if utility is None else decisions_in(trial, plain, utility, min(splits, DECIDED))
    return Study(comparison, judge(trial, comparison), curves, evaluations, decided)
