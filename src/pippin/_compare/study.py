"""Everything that a report tells of one data set, in one call."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._compare.comparison import Comparison, compare_in
from pippin._compare.curves import LevelCurve, level_curve
from pippin._compare.methods import Candidate
from pippin._compare.outcomes import outcome, plain_outcome, score_objects
from pippin._compare.splits import draw_whole_split, make_trial
from pippin._compare.verdict import AlphaCurve, Verdict, alpha_curve, judge
from pippin._inputs.rows import Classes, Rows
from pippin._predictors.metrics import Evaluation, evaluation
from pippin._theory.scores import Score


@dataclass(frozen=True, eq=False)
class Study:
    """The comparison, its verdict, and the first split looked at closely: at every level, and in detail."""

    comparison: Comparison
    verdict: Verdict
    curves: tuple[AlphaCurve | LevelCurve, ...]
    evaluations: dict[str, Evaluation]


def study(
    rows: Rows,
    labels: NDArray[np.int64],
    classes: Classes,
    scores: Sequence[Candidate],
    alpha: float,
    splits: int,
    calibration_fraction: float,
    seed: int,
    checkpoint: str | None = None,
    groups: ArrayLike | None = None,
) -> Study:
    """Compares the scores, judges them, and evaluates each on the first split."""
    trial = make_trial(rows, labels, calibration_fraction, alpha, seed, classes, groups)
    comparison = compare_in(trial, scores, splits, checkpoint)
    split, objects = draw_whole_split(trial, 0), trial.objects
    test = ~split.calibration
    evaluations = {}
    for candidate, threshold in zip(comparison.scores, comparison.metric("threshold")[:, 0].tolist(), strict=True):
        if isinstance(candidate, Score):
            found = plain_outcome(objects, candidate, threshold, split)
        else:
            found = outcome(score_objects(objects, candidate.score), candidate, trial.alpha, split)
        evaluations[str(candidate)] = evaluation(
            found.sizes,
            found.covered,
            labels[test],
            classes,
            objects.group[test],
            objects.groups,
            trial.alpha,
        )
    curves = [
        alpha_curve(trial, candidate) if isinstance(candidate, Score) else level_curve(trial, candidate)
        for candidate in comparison.scores
    ]
    return Study(comparison, judge(trial, comparison), tuple(curves), evaluations)
