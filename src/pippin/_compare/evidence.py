"""How sure a comparison is: intervals for differences, and whether coverage obeys its law."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from pippin._compare.comparison import Comparison
from pippin._compare.methods import Method
from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._runtime.arrays import Vector
from pippin._theory.laws import beta_binomial
from pippin._theory.level import quantile_rank
from pippin._theory.scores import Score

BLOCKS = 10  # pieces of the file, in its own order, that are tested against the rest
SUSPICIOUS = 0.001  # a chance below which the law is doubted


@dataclass(frozen=True)
class Difference:
    """The mean of first − second over the splits, with an interval."""

    first: Method
    second: Method
    metric: str
    mean: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


def differences(comparison: Comparison, metric: str, *, level: float = 0.95) -> list[Difference]:
    """first − second of every pair of scores over the splits, with an interval.

    It is the corrected resampled t interval of Nadeau and Bengio (2003), which allows for
    the overlap of the splits; see docs/scores.md.

    Args:
        comparison: what `compare` returned.
        metric: "coverage", "efficiency", "informativeness", "empty_rate" or "threshold".
        level: how often such an interval is to hold the true difference.
    """
    scores = comparison.scores
    return [difference(comparison, metric, a, b, level) for i, a in enumerate(scores) for b in scores[i + 1 :]]


def difference(comparison: Comparison, metric: str, first: Method, second: Method, level: float = 0.95) -> Difference:
    """first − second over the splits, with the corrected resampled t interval of Nadeau and Bengio (2003).

    The splits of one data set overlap, so their spread understates the uncertainty. The
    correction adds the ratio of test to calibration rows to 1/splits in the variance of
    the mean. It is an approximation for new rows of the same kind and the same classifier;
    it says nothing of other data sets, nor of a classifier trained anew.

    Nadeau, Bengio: Inference for the generalization error. Machine Learning 52 (2003).
    """
    values, j = comparison.metric(metric), comparison.splits
    gaps = values[comparison.scores.index(first)] - values[comparison.scores.index(second)]
    mean = float(gaps.mean())
    if j < 2:
        return Difference(first, second, metric, mean, -math.inf, math.inf)
    inflated = 1 / j + comparison.n_test / comparison.n_calibration
    half = student_quantile(0.5 + level / 2, j - 1) * math.sqrt(inflated) * float(gaps.std(ddof=1))
    return Difference(first, second, metric, mean, mean - half, mean + half)


def student_quantile(p: float, freedom: int) -> float:
    """The quantile of Student's t law, by the series of Abramowitz and Stegun 26.7.5.

    >>> round(student_quantile(0.975, 30), 3)
    2.042
    """
    z, v = NormalDist().inv_cdf(p), freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4)
    )


@dataclass(frozen=True)
class CoverageCheck:
    """Whether coverage behaved as guaranteed; `message` says so in a sentence."""

    good: bool
    message: str


def check_spread(comparison: Comparison) -> CoverageCheck:
    """Coverage over random splits against its exact law, the beta-binomial.

    Given the rows, the splits are independent draws, and without ties the number of
    covered test rows follows the law exactly. So a mean or a spread that strays from it
    by more than chance points to ties or to repeated rows.
    """
    m, n = comparison.n_test, comparison.n_calibration
    k = quantile_rank(n, comparison.alpha)
    if k > n:
        return CoverageCheck(True, "The threshold is infinite: every set holds all classes.")
    mean = k / (n + 1)
    spread = math.sqrt(mean * (1 - mean) * (m + n + 1) / (m * (n + 2)))
    coverage = comparison.metric("coverage")
    off = np.abs(coverage.mean(axis=1) - mean) / (spread / math.sqrt(comparison.splits))
    ratio = coverage.std(axis=1, ddof=1) / spread if comparison.splits > 1 else np.ones(len(coverage))
    odd = (off > 4.5) | (np.abs(ratio - 1) > 4.5 / math.sqrt(2 * comparison.splits))
    if not odd.any():
        return CoverageCheck(
            True,
            f"Coverage behaves as guaranteed: over the splits it averages {coverage.mean():.4f} with a spread of "
            f"{coverage.std(axis=1).mean():.4f}, where theory says {mean:.4f} and {spread:.4f}.",
        )
    worst = int(np.argmax(np.maximum(off, np.abs(ratio - 1) * math.sqrt(2 * comparison.splits))))
    return CoverageCheck(
        False,
        f"Coverage of {comparison.scores[worst]} strays from its law (mean {coverage[worst].mean():.4f}, spread "
        f"{coverage[worst].std():.4f}; theory {mean:.4f} and {spread:.4f}): tied scores or repeated rows do that.",
    )


def check_order(trial: Trial, score: Score) -> CoverageCheck:
    """Coverage in the order of the file: each tenth of the rows against all others.

    Random splits are exchangeable whatever the rows are, so they cannot show drift. If
    the rows are exchangeable as they stand, the covered rows of a piece follow the
    beta-binomial law; a piece that does not (after correction for looking at ten) means
    that the rows change along the file: sorted by class, or drifting in time.
    """
    n = trial.n
    u = np.random.default_rng(trial.seed).random(n)
    scores = dispatch.label_scores(trial.ranked, trial.ranks, score, u)
    worst, message = 1.0, ""
    for piece in np.array_split(np.arange(n), min(BLOCKS, n // 2)):
        rest = np.delete(scores, piece)
        k = quantile_rank(len(rest), trial.alpha)
        if k > len(rest):
            return CoverageCheck(True, "Too few rows to look at coverage along the file.")
        covered = int((scores[piece] <= np.partition(rest, k - 1)[k - 1]).sum())
        chance = min(1.0, BLOCKS * _two_sided(covered, beta_binomial(len(piece), k, len(rest) + 1 - k)))
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


def _two_sided(found: int, law: Vector) -> float:
    return float(min(1.0, 2 * min(law[: found + 1].sum(), law[found:].sum())))
