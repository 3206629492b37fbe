"""Confidence intervals for differences between methods, and tests of coverage against its exact distribution.

An interval needs the variance, over new data, of a metric's mean over all splits. Each row influences this mean in two
ways: as a test row through its own set (influence t), and as a calibration row through the threshold (influence c). To
first order, the variance is Var(t + c)/n for n rows. Only t can be computed directly. On a single split, the metric
deviates from its mean by the mean of t over the test rows, m, plus the mean of c over the calibration rows. So

    Var(t + c)/n = Var(t)/n + r·Var(e) − 2·Cov(m, e),   e = metric − m,

where r is the ratio of calibration rows to test rows. t is computed for each row with thresholds calibrated on all
rows; m and e are computed for each split.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pippin._compare.methods import Method
from pippin._compare.split_evaluation import METRICS, calibrate_on_split, predict_rows
from pippin._compare.splits import Split, Trial, draw_split
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._runtime.arguments import checked
from pippin._runtime.arrays import Floats, Vector
from pippin._theory.level import as_alpha, quantile_rank
from pippin._theory.planning import coverage_tails, measured_deviation
from pippin._theory.scores import Score

if TYPE_CHECKING:
    from pippin._compare.comparison import Comparison

MEANS = METRICS[1:5]  # metrics that are means over the test rows
MOST_SPLITS = 200  # largest number of splits used to estimate a variance; its relative error is then about 10%
CHUNK = 20  # number of splits per matrix product, to limit memory
DRAWS = 8  # draws of the random numbers u over which the metrics of a randomized score are averaged
BLOCKS = 10  # number of consecutive pieces of the file; the coverage of each is tested
SUSPICIOUS = 0.001  # smallest p-value with which a test of coverage passes


class Influence(NamedTuple):
    """Influences t of rows on a metric: how a row's own set, if it is a test row, changes the mean over the splits.

    Attributes:
        covariance: covariance matrix of t between methods.
        tested: mean of t over the test rows, for each method and split.
    """

    covariance: Floats
    tested: Floats

    def variance_over_rows(self, one: int, other: int, gaps: Vector, trial: Trial) -> float:
        """Estimate the variance, over new rows, of the mean difference of the metric between two methods.

        The methods are given by the indices `one` and `other`; `gaps` is the difference on each split.
        """
        tested = self.tested[one] - self.tested[other]
        rest = gaps[: len(tested)] - tested
        together = np.cov(tested, rest)
        c, ratio = self.covariance, trial.n_calibration / trial.n_test
        of_tests = (c[one, one] + c[other, other] - 2 * c[one, other]) / trial.n
        variance = of_tests + ratio * together[1, 1] - 2 * together[0, 1]
        return max(float(variance), 0.0)


def influences(trial: Trial, methods: Sequence[Method], splits: int) -> dict[str, Influence]:
    """Compute the influence of each row, as a test row, on each metric.

    Test rows do not influence the metric "threshold"; its influence is 0.
    """
    used = min(splits, MOST_SPLITS)
    rows = np.zeros((len(MEANS), len(methods), trial.n), dtype=np.float32)
    for number, method in enumerate(methods):
        if not method.sharpened:  # the influence of a row through a sharpener (fitted recalibration) is unknown
            rows[:, number] = _row_metrics(trial, method)
    # Subtract the means, since centered numbers lose less precision in float32 sums.
    rows -= rows.mean(axis=2, keepdims=True, dtype=np.float64).astype(np.float32)
    tested = np.empty((*rows.shape[:2], used))
    for start in range(0, used, CHUNK):
        stop = min(start + CHUNK, used)
        test = np.stack([~draw_split(trial, index).calibration for index in range(start, stop)])
        tested[..., start:stop] = rows @ test.T.astype(np.float32) / trial.n_test
    covariances = [np.cov(metric, ddof=0).reshape(len(methods), -1) for metric in rows]
    none = Influence(np.zeros_like(covariances[0]), np.zeros_like(tested[0]))
    return dict(zip(("threshold", *MEANS), (none, *map(Influence, covariances, tested)), strict=True))


def _row_metrics(trial: Trial, method: Method) -> Floats:
    """Compute the metrics of each row's set, shape (metrics, n), with a threshold calibrated on all rows.

    For a randomized score, they are averaged over several draws of the random number u.
    """
    generator = np.random.default_rng([trial.seed, trial.n])
    state, rows = np.random.default_rng(trial.seed).bit_generator.state, np.arange(trial.n)
    repeats = DRAWS if method.score.randomized else 1
    total = np.zeros((len(MEANS), trial.n), dtype=np.float32)
    for _ in range(repeats):
        everything = Split(0, np.ones(trial.n, dtype=bool), generator.random(trial.n), state)
        thresholds = calibrate_on_split(trial, method, everything).at(trial.alpha)
        sets = predict_rows(trial, method, thresholds, rows, everything.u)
        for row, values in zip(total, (sets.covered, sets.sizes, sets.sizes == 1, sets.sizes == 0), strict=True):
            row += values
    return np.divide(total, repeats, out=total)


@dataclass(frozen=True)
class Difference:
    """Mean difference of a metric between two methods over the splits, with a confidence interval.

    Attributes:
        first: the first method.
        second: the second method.
        metric: the name of the metric.
        mean: the mean of first − second.
        low: the lower end of the interval.
        high: the upper end of the interval.
    """

    first: Method
    second: Method
    metric: str
    mean: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """True if the interval does not contain 0."""
        return self.low > 0 or self.high < 0


@checked
def differences(comparison: "Comparison", metric: str, *, level: float = 0.95) -> list[Difference]:
    """Compute the mean difference of a metric between all pairs of scores, with confidence intervals.

    An interval is for the mean difference over new data sets from the same distribution, with equally many
    calibration rows.

    Args:
        comparison: a result of `compare`.
        metric: "coverage", "mean_size", "singleton_rate", "empty_rate", "singleton_accuracy" or "threshold".
        level: the confidence level of the intervals.

    Returns:
        A Difference for each pair of scores, where `mean` is the mean of first − second over the splits, `low` and
        `high` are the ends of the interval, and `clear` is True if it does not contain 0.

    Raises:
        InputError: there is no such metric.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> comparison = pippin.compare(data.probs, data.labels, ("ip", "repip"), splits=50)
    >>> (gap,) = pippin.differences(comparison, "singleton_rate")
    >>> gap.mean < 0, gap.clear
    (True, True)
    """
    scores, level = (
        comparison.scores,
        as_alpha(level, "level, the confidence of the intervals,", "pass for example 0.95"),
    )
    return [difference(comparison, metric, a, b, level) for i, a in enumerate(scores) for b in scores[i + 1 :]]


def difference(comparison: "Comparison", metric: str, first: Method, second: Method, level: float = 0.95) -> Difference:
    """Compute the mean difference first − second of a metric over the splits, with a t confidence interval.

    The splits of one data set overlap, so their spread does not measure the variation over new data. The variance is a
    sum of two parts: the variance of the influence of rows on the metric (see the module docstring), and the variance
    of a mean over finitely many splits. It does not include the effect of a change of distribution, or of training the
    classifier again. For very many rows, the influence is estimated on a sample. The influence is unknown for a
    comparison without its rows, for a sharpened method, and for singleton_accuracy. Then the variance over splits is
    used, multiplied by the ratio of the larger to the smaller part of a split.
    """
    values, j = comparison.metric(metric), comparison.splits
    one, other = comparison.scores.index(first), comparison.scores.index(second)
    gaps = values[one] - values[other]
    mean = float(gaps.mean())
    if j < 2:
        return Difference(first, second, metric, mean, -math.inf, math.inf)
    sharpened = any(comparison.scores[number].sharpened for number in (one, other))
    if comparison.trial is None or sharpened or metric == "singleton_accuracy":
        ratio = comparison.n_test / comparison.n_calibration
        variance = float(gaps.var(ddof=1)) * (1 / j + max(ratio, 1 / ratio))
    else:
        sample = comparison.sample
        sample_gaps = sample.metric(metric)[one] - sample.metric(metric)[other]
        over_rows = sample.influences[metric].variance_over_rows(one, other, sample_gaps, sample.require_trial())
        variance = over_rows * sample.n / comparison.n + float(gaps.var(ddof=1)) / j
    from scipy.special import stdtrit

    half = float(stdtrit(j - 1, 0.5 + level / 2)) * math.sqrt(variance)
    return Difference(first, second, metric, mean, mean - half, mean + half)


@dataclass(frozen=True)
class CoverageCheck:
    """Result of a test of coverage: `good` is True if it passed, and `message` describes the result in a sentence."""

    good: bool
    message: str


def check_spread(comparison: "Comparison") -> CoverageCheck:
    """Test coverage over random splits against its exact distribution, the beta-binomial.

    Without tied scores, the number of covered test rows of a random split has exactly this distribution. A mean or
    standard deviation that differs by more than chance explains indicates ties or repeated rows.
    """
    m, n = comparison.n_test, comparison.n_calibration
    k = quantile_rank(n, comparison.alpha)
    if k > n:
        return CoverageCheck(True, "The threshold is infinite: every set contains all classes.")
    mean = k / (n + 1)
    spread = measured_deviation(m, k, n + 1 - k)
    coverage = comparison.metric("coverage")
    off = np.abs(coverage.mean(axis=1) - mean) / (spread / math.sqrt(comparison.splits))
    ratio = coverage.std(axis=1, ddof=1) / spread if comparison.splits > 1 else np.ones(len(coverage))
    significant = (off > 4.5) | (np.abs(ratio - 1) > 4.5 / math.sqrt(2 * comparison.splits))
    if not significant.any():
        return CoverageCheck(
            True,
            f"Coverage behaves as guaranteed: over the splits it averages {coverage.mean():.4f} with a spread of "
            f"{coverage.std(axis=1).mean():.4f}, where theory says {mean:.4f} and {spread:.4f}.",
        )
    worst = int(np.argmax(np.maximum(off, np.abs(ratio - 1) * math.sqrt(2 * comparison.splits))))
    return CoverageCheck(
        False,
        f"Coverage of {comparison.scores[worst]} is not distributed as in theory: over the splits it averages "
        f"{coverage[worst].mean():.4f} with a spread of {coverage[worst].std():.4f}, where theory says {mean:.4f} and "
        f"{spread:.4f}. The usual reasons are tied scores or repeated rows.",
    )


def check_order(trial: Trial, score: Score) -> CoverageCheck:
    """Test exchangeability in the order of the file: coverage of each tenth of the rows, calibrated on all others.

    Random splits cannot show drift, since they shuffle the rows. If the rows are exchangeable, the number of covered
    rows in each tenth has the beta-binomial distribution. A p-value below 0.001, after Bonferroni correction for the
    ten tests, indicates that the rows change along the file, for instance that they are sorted by class.
    """
    n = trial.n
    scores = dispatch.label_scores(trial.ranked, trial.ranks, score, draws(score, n, trial.seed))
    worst, message = 1.0, ""
    for piece in np.array_split(np.arange(n), min(BLOCKS, n // 2)):
        rest = np.delete(scores, piece)
        k = quantile_rank(len(rest), trial.alpha)
        if k > len(rest):
            return CoverageCheck(True, "There are too few rows to test coverage along the file.")
        covered = int(np.count_nonzero(scores[piece] <= dispatch.smallest(rest, k)))
        chance = min(1.0, BLOCKS * 2 * min(coverage_tails(covered, len(piece), k, len(rest) + 1 - k)))
        if chance < worst:
            worst = chance
            message = f"rows {piece[0]:,} to {piece[-1]:,} are covered {covered / len(piece):.3f} of the time"
    if worst >= SUSPICIOUS:
        return CoverageCheck(True, "Along the file, coverage is even: nothing speaks against exchangeable rows.")
    return CoverageCheck(
        False,
        f"The rows may not be exchangeable in the order of the file: {message} when the others calibrate. Rows sorted "
        "by class or drifting in time do that; the guarantee holds for new data only if these come like a random "
        "sample of the rows.",
    )
