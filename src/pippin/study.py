"""Everything that a report tells of one data set, in one call."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pippin.calibration import calibrate
from pippin.experiment import Comparison, draw_split, make_trial, measure, split_generator
from pippin.metrics import Evaluation, evaluate
from pippin.ranking import Classes, Rows
from pippin.scores import Score
from pippin.verdict import AlphaCurve, Verdict, alpha_curve, judge


@dataclass(frozen=True, eq=False)
class Study:
    """The comparison, its verdict, and the first split looked at closely: at every level, and in detail."""

    comparison: Comparison
    verdict: Verdict
    curves: tuple[AlphaCurve, ...]
    evaluations: dict[str, Evaluation]


def study(
    rows: Rows,
    labels: NDArray[np.int64],
    classes: Classes,
    scores: Sequence[Score],
    alpha: float,
    splits: int,
    calibration_fraction: float,
    seed: int,
    checkpoint: str | None = None,
) -> Study:
    """Compares the scores, judges them, and evaluates each on the first split."""
    trial = make_trial(rows, labels, calibration_fraction, alpha, seed)
    values = measure(trial, scores, splits, checkpoint)
    comparison = Comparison(tuple(scores), trial.alpha, trial.seed, rows.n, trial.n_calibration, values)
    calibration, _ = draw_split(trial, 0)
    inner, outer = np.flatnonzero(calibration), np.flatnonzero(~calibration)
    names = np.array(classes, dtype=object)[labels]
    evaluations = {}
    for score in scores:
        generator = split_generator(trial.seed, 0)
        generator.choice(rows.n, trial.n_calibration, replace=False, shuffle=False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*too few.*")  # said once, by whoever shows the study
            predictor = calibrate(rows.take(inner), labels[inner], score, trial.alpha, seed=generator)
        sets = predictor.predict(rows.take(outer), generator)
        evaluations[str(score)] = evaluate(replace(sets, classes=classes), names[outer])
    return Study(comparison, judge(trial, comparison), tuple(alpha_curve(trial, s) for s in scores), evaluations)
