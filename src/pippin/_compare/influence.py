"""How much each row sways a comparison: what an honest interval for the mean over splits is made of.

Over all splits, a metric's mean is swayed by a row in two ways: as a test row by what its own
set is (t), as a calibration row by how it moves the threshold (c). To first order its
variance over new data is Var(t + c)/n, whatever the split. One split instead deviates from the
mean by mean_test(t) + mean_cal(c), where a row is either; with r = calibration/test rows,

    Var(t + c)/n = Var(t)/n + r·Var(e) − 2·Cov(m, e),   m = mean_test(t),  e = metric − m.

t is known row by row from thresholds that all rows calibrate; m and e are seen in the splits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pippin._compare.methods import Method
from pippin._compare.outcomes import calibrated, rank_scores, sets_within
from pippin._compare.splits import Split, draw_splits
from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds
from pippin._engine.selecting import smallest
from pippin._runtime.arrays import Codes, Flags, Floats, Vector
from pippin._theory.level import quantile_rank

METRICS = ("coverage", "efficiency", "informativeness", "empty_rate")
MOST_SPLITS = 200  # whose variance is known to a tenth
CHUNK = 20  # splits that are drawn at once
DRAWS = 8  # of u, over which a randomised score's sets are averaged


class Influence(NamedTuple):
    """How rows sway one metric.

    Attributes:
        covariance: t's covariances between methods.
        tested: mean_test(t) of each method and split.
    """

    covariance: Floats
    tested: Floats

    def variance_over_rows(self, one: int, other: int, gaps: Vector, trial: Trial) -> float:
        """The variance over new rows of a mean over all splits; `gaps` is one method's metric minus the other's."""
        tested = self.tested[one] - self.tested[other]
        rest = gaps[: len(tested)] - tested
        together = np.cov(tested, rest)
        c, ratio = self.covariance, trial.n_calibration / trial.n_test
        own = (c[one, one] + c[other, other] - 2 * c[one, other]) / trial.n
        variance = own + ratio * together[1, 1] - 2 * together[0, 1]
        return max(float(variance), 0.0)


def influences(trial: Trial, methods: Sequence[Method], splits: int) -> dict[str, Influence]:
    """By metric; a threshold is no row's own, so there test rows contribute nothing."""
    kept = min(splits, MOST_SPLITS)
    rows = np.zeros((len(METRICS), len(methods), trial.n), dtype=np.float32)
    for number, method in enumerate(methods):
        if not method.sharpened:  # whose sharpener depends on rows in ways that nobody follows
            rows[:, number] = _row_metrics(trial, method)
    rows -= rows.mean(axis=2, keepdims=True, dtype=np.float64).astype(np.float32)  # sums of small numbers are exact
    tested = np.empty((len(METRICS), len(methods), kept))
    for start in range(0, kept, CHUNK):
        chosen = range(start, min(start + CHUNK, kept))
        tests = ~draw_splits(trial, chosen, False)[0]
        tested[..., start : chosen.stop] = rows @ tests.T.astype(np.float32) / trial.n_test
    covariances = [np.cov(of, ddof=0).reshape(len(methods), -1) for of in rows]
    none = Influence(np.zeros_like(covariances[0]), np.zeros_like(tested[0]))
    return {"threshold": none, **{name: Influence(*of) for name, *of in zip(METRICS, covariances, tested, strict=True)}}


def _row_metrics(trial: Trial, method: Method) -> Floats:
    """What each row's own set is, (metrics, n), when all rows calibrate; averages over u for a randomised score."""
    generator = np.random.default_rng([trial.seed, trial.n])
    draws = DRAWS if method.score.randomized else 1
    total = np.zeros((len(METRICS), trial.n), dtype=np.float32)
    for _ in range(draws):
        sizes, covered = _sets(trial, method, generator.random(trial.n))
        for row, values in zip(total, (covered, sizes, sizes == 1, sizes == 0), strict=True):
            row += values
    return np.divide(total, draws, out=total)


def _sets(trial: Trial, method: Method, u: Vector) -> tuple[Codes, Flags]:
    """The size of every row's set and whether it holds the label, when all rows calibrate."""
    if method.plain:
        scores = dispatch.label_scores(trial.ranked, trial.ranks, method.score, u)
        k = min(quantile_rank(trial.n, trial.alpha), trial.n)
        bounds = Bounds(np.array([[smallest(scores, k)]]))
        sizes, _ = dispatch.members(trial.ranked, method.score, bounds, u)
        return sizes, trial.ranks < sizes
    known = rank_scores(trial, method.score)
    everyone = Split(np.ones(trial.n, dtype=bool), u, lambda: np.random.default_rng(trial.seed))
    limits = calibrated(known, method, trial.alpha, everyone).limits(trial.alpha)
    found = sets_within(known, method, limits, np.arange(trial.n), u)
    return found.sizes, found.covered
