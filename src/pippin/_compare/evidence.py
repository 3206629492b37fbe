"""How sure a comparison is: intervals for differences, and whether coverage obeys its law."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pippin._compare.comparison import Comparison
from pippin._compare.methods import Method
from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._engine.selecting import smallest
from pippin._runtime.arrays import Vector
from pippin._theory.laws import beta_binomial
from pippin._theory.level import quantile_rank
from pippin._theory.scores import Score

BLOCKS = 10  # pieces of the file, in its own order, that are tested against the rest
SUSPICIOUS = 0.001  # a chance below which the law is doubted


@dataclass(frozen=True)
class Difference:
    """The mean of first − second over the splits, with an interval.

    Attributes:
        first: the one method.
        second: the other.
        metric: what they differ in.
        mean: the mean difference.
        low: the lower end of its interval.
        high: the upper end.
    """

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

    The truth that the interval is about is the mean difference over new rows of the same
    kind, for as many calibration rows; see docs/scores.md.

    Args:
        comparison: what `compare` returned.
        metric: "coverage", "efficiency", "informativeness", "empty_rate" or "threshold".
        level: how often such an interval is to hold the true difference.
    """
    scores = comparison.scores
    return [difference(comparison, metric, a, b, level) for i, a in enumerate(scores) for b in scores[i + 1 :]]


def difference(comparison: Comparison, metric: str, first: Method, second: Method, level: float = 0.95) -> Difference:
    """first − second over the splits, with a t interval.

    The splits of one data set overlap, so their spread alone says little about other rows.
    The variance is that of what each row contributes, as a test row and as a calibration row
    (`influence.py`), and of having drawn only so many splits. It says nothing of other data
    sets, nor of a classifier trained anew. Of very many rows, what each contributes is seen in a
    sample, and the variance is divided by as many as there are. Where it is not known what rows contribute, in a
    comparison read from a file or behind a sharpener, the variance over splits times the larger
    of the two parts' shares stands in, which is rougher, and mostly wider.
    """
    values, j = comparison.metric(metric), comparison.splits
    one, other = comparison.scores.index(first), comparison.scores.index(second)
    gaps = values[one] - values[other]
    mean = float(gaps.mean())
    if j < 2:
        return Difference(first, second, metric, mean, -math.inf, math.inf)
    if comparison.trial is None or any(comparison.scores[number].sharpened for number in (one, other)):
        ratio = comparison.n_test / comparison.n_calibration
        variance = float(gaps.var(ddof=1)) * (1 / j + max(ratio, 1 / ratio))
    else:
        near = comparison.closer
        seen = near.metric(metric)
        over_rows = near.influences[metric].variance_over_rows(one, other, seen[one] - seen[other], near.known_trial())
        variance = over_rows * near.n / comparison.n + float(gaps.var(ddof=1)) / j
    half = student_quantile(0.5 + level / 2, j - 1) * math.sqrt(variance)
    return Difference(first, second, metric, mean, mean - half, mean + half)


def student_quantile(p: float, freedom: int) -> float:
    """The quantile of Student's t law, p at least a half, by bisection of its finite series.

    >>> [round(student_quantile(0.975, freedom), 3) for freedom in (1, 2, 30)]
    [12.706, 4.303, 2.042]
    """
    low, high = 0.0, 1.0
    while _student_within(high, freedom) < 2 * p - 1:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_within(middle, freedom) < 2 * p - 1 else (low, middle)
    return (low + high) / 2


def _student_within(t: float, freedom: int) -> float:
    """P(|T| ≤ t), Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2
    steps = np.arange(1, (freedom - odd) // 2)
    factors = (2 * steps if odd else 2 * steps - 1) / (2 * steps + 1 if odd else 2 * steps)
    series = 1 + np.cumprod(factors * square).sum()
    if not odd:
        return float(sine * series)
    return float(2 / math.pi * (angle + (sine * math.cos(angle) * series if freedom > 1 else 0)))


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
    scores = dispatch.label_scores(trial.ranked, trial.ranks, score, draws(score, n, trial.seed))
    worst, message = 1.0, ""
    pieces = min(BLOCKS, n // 2)
    ends = np.cumsum([n // pieces + (piece < n % pieces) for piece in range(pieces)]).tolist()
    for start, stop in pairwise([0, *ends]):
        rest = np.concatenate([scores[:start], scores[stop:]])
        k = quantile_rank(len(rest), trial.alpha)
        if k > len(rest):
            return CoverageCheck(True, "Too few rows to look at coverage along the file.")
        covered = int(np.count_nonzero(scores[start:stop] <= smallest(rest, k)))
        chance = min(1.0, BLOCKS * _two_sided(covered, beta_binomial(stop - start, k, len(rest) + 1 - k)))
        if chance < worst:
            worst = chance
            message = f"rows {start:,} to {stop - 1:,} are covered {covered / (stop - start):.3f} of the time"
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
