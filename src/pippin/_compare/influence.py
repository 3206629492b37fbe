"""Influence of each row on a comparison, for an honest interval of the mean over splits.

A row influences the mean of a metric over all splits in two ways: as a test row by its own set (t), as a calibration
row by the threshold (c). To first order the variance over new data is Var(t + c)/n, whatever the split. One split
deviates from the mean by mean_test(t) + mean_cal(c), where a row is either; with r = calibration/test rows,

    Var(t + c)/n = Var(t)/n + r·Var(e) − 2·Cov(m, e),   m = mean_test(t),  e = metric − m.

t is known for each row from thresholds that all rows calibrate; m and e are observed in the splits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pippin._compare.methods import Method
from pippin._compare.split_evaluation import METRICS, calibrate_on_split, predict_rows
from pippin._compare.splits import Split, Trial, draw_split
from pippin._runtime.arrays import Floats, Vector

MEANS = METRICS[1:5]  # means over test rows
MOST_SPLITS = 200  # give a variance to within a tenth
CHUNK = 20  # splits in one matrix product
DRAWS = 8  # draws of u over which the sets of a randomized score are averaged


class Influence(NamedTuple):
    """Influence of the rows on one metric.

    Attributes:
        covariance: covariances of t between methods.
        tested: mean_test(t) of each method and split.
    """

    covariance: Floats
    tested: Floats

    def variance_over_rows(self, one: int, other: int, gaps: Vector, trial: Trial) -> float:
        """Variance over new rows of a mean over all splits; `gaps` is one method's metric minus the other's."""
        tested = self.tested[one] - self.tested[other]
        rest = gaps[: len(tested)] - tested
        together = np.cov(tested, rest)
        c, ratio = self.covariance, trial.n_calibration / trial.n_test
        own = (c[one, one] + c[other, other] - 2 * c[one, other]) / trial.n
        variance = own + ratio * together[1, 1] - 2 * together[0, 1]
        return max(float(variance), 0.0)


def influences(trial: Trial, methods: Sequence[Method], splits: int) -> dict[str, Influence]:
    """Return the influence on the threshold, where a test row has none, and on each metric that is a mean over rows."""
    used = min(splits, MOST_SPLITS)
    rows = np.zeros((len(MEANS), len(methods), trial.n), dtype=np.float32)
    for number, method in enumerate(methods):
        if not method.sharpened:  # the influence of a row through the sharpener is unknown
            rows[:, number] = _row_metrics(trial, method)
    rows -= rows.mean(axis=2, keepdims=True, dtype=np.float64).astype(np.float32)  # sums of small numbers are exact
    tested = np.empty((*rows.shape[:2], used))
    for start in range(0, used, CHUNK):
        stop = min(start + CHUNK, used)
        test = np.stack([~draw_split(trial, index).calibration for index in range(start, stop)])
        tested[..., start:stop] = rows @ test.T.astype(np.float32) / trial.n_test
    covariances = [np.cov(metric, ddof=0).reshape(len(methods), -1) for metric in rows]
    none = Influence(np.zeros_like(covariances[0]), np.zeros_like(tested[0]))
    return dict(zip(("threshold", *MEANS), (none, *map(Influence, covariances, tested)), strict=True))


def _row_metrics(trial: Trial, method: Method) -> Floats:
    """Metrics of each row's set, (metrics, n), when all rows calibrate; means over u for a randomized score."""
    generator = np.random.default_rng([trial.seed, trial.n])
    state, rows = np.random.default_rng(trial.seed).bit_generator.state, np.arange(trial.n)
    draws = DRAWS if method.score.randomized else 1
    total = np.zeros((len(MEANS), trial.n), dtype=np.float32)
    for _ in range(draws):
        everything = Split(0, np.ones(trial.n, dtype=bool), generator.random(trial.n), state)
        thresholds = calibrate_on_split(trial, method, everything).at(trial.alpha)
        found = predict_rows(trial, method, thresholds, rows, everything.u)
        for row, values in zip(total, (found.covered, found.sizes, found.sizes == 1, found.sizes == 0), strict=True):
            row += values
    return np.divide(total, draws, out=total)
