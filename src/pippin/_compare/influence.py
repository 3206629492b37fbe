"""How much each row sways a comparison: what an honest interval for the mean over splits is made of.

Over all splits, a metric's mean is swayed by a row in two ways: as a test row by what its own
set is (t), as a calibration row by how it moves the threshold (c). To first order its
variance over new data is Var(t + c)/n, whatever the split. One split instead deviates from the
mean by mean_test(t) + mean_cal(c), where a row is either; with r = calibration/test rows,

    Var(t + c)/n = Var(t)/n + r·Var(e) − 2·Cov(m, e),   m = mean_test(t),  e = metric − m.

t is known row by row from thresholds that all rows calibrate; m and e are seen in the splits.
"""

from typing import NamedTuple

import numpy as np

from pippin._compare.methods import Method
from pippin._compare.outcomes import calibrated, rank_scores, sets_within
from pippin._compare.splits import Split, draw_splits
from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Codes, Flags, Vector
from pippin._theory.level import quantile_rank

MOST_SPLITS = 200  # whose variance is known to a tenth
CHUNK = 20  # splits that are drawn at once
DRAWS = 8  # of u, over which a randomised score's sets are averaged


class RowMetrics(NamedTuple):
    """What each row's set is under one method, calibrated on all rows: (n,) each."""

    coverage: Vector
    efficiency: Vector
    informativeness: Vector
    empty_rate: Vector


def row_metrics(trial: Trial, method: Method) -> RowMetrics:
    """The metrics of every row's own set; averages over u for a randomised score."""
    generator = np.random.default_rng([trial.seed, trial.n])
    found = []
    for _ in range(DRAWS if method.score.randomized else 1):
        u = generator.random(trial.n)
        sizes, covered = _sets(trial, method, u)
        found.append((covered, sizes, sizes == 1, sizes == 0))
    return RowMetrics(*(np.asarray(np.mean(kind, axis=0), dtype=np.float64) for kind in zip(*found, strict=True)))


def variance_of_mean(trial: Trial, rows: Vector, gaps: Vector) -> float:
    """The variance over new data of a mean over splits, whose row metrics are `rows` and values `gaps`."""
    splits = min(len(gaps), MOST_SPLITS)
    tested = np.concatenate(
        [_test_means(trial, rows, range(a, min(a + CHUNK, splits))) for a in range(0, splits, CHUNK)]
    )
    rest = gaps[:splits] - tested
    together = np.cov(tested, rest)
    ratio = trial.n_calibration / trial.n_test
    variance = rows.var() / trial.n + ratio * together[1, 1] - 2 * together[0, 1]
    return max(float(variance), 0.0) + float(gaps.var(ddof=1)) / len(gaps)


def _test_means(trial: Trial, rows: Vector, indices: range) -> Vector:
    calibrations, _ = draw_splits(trial, indices, False)
    means: Vector = (rows.sum() - calibrations @ rows) / trial.n_test
    return means


def _sets(trial: Trial, method: Method, u: Vector) -> tuple[Codes, Flags]:
    """The size of every row's set and whether it holds the label, when all rows calibrate."""
    if method.plain:
        scores = dispatch.label_scores(trial.ranked, trial.ranks, method.score, u)
        k = min(quantile_rank(trial.n, trial.alpha), trial.n)
        bounds = Bounds(np.partition(scores, k - 1)[k - 1 : k, None])
        sizes, _ = dispatch.members(trial.ranked, method.score, bounds, u)
        return sizes, trial.ranks < sizes
    known = rank_scores(trial, method.score)
    everyone = Split(np.ones(trial.n, dtype=bool), u, lambda: np.random.default_rng(trial.seed))
    limits = calibrated(known, method, trial.alpha, everyone).limits(trial.alpha)
    found = sets_within(known, method, limits, np.arange(trial.n), u)
    return found.sizes, found.covered
