"""Exact distribution of coverage, and the number of calibration examples for a required precision.

Given the calibration set, the coverage of new objects is Beta(k, n + 1 − k) with k = ⌈(n + 1)(1 − α)⌉, if the scores
have no ties; with ties it is at least as large. This does not depend on the classifier or the score, so n can be
planned before there are data.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pippin._runtime.arguments import checked, is_whole
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_facts
from pippin._theory.level import as_alpha, confident_rank, exact_alpha, quantile_rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_EXAMPLES = 10**9
MOST_TEST_ROWS = 10**7
ROUNDING = 1e-12  # tolerance for rounding errors when a probability is compared with delta
FINEST = Fraction(1, 2000)  # smallest distance of coverage from 1 − alpha that `examples_for` accepts


def beta_cdf(x: float, a: int, b: int) -> float:
    """Compute the distribution function of Beta(a, b) at x.

    >>> round(beta_cdf(0.5, 2, 1), 12)
    0.25
    """
    from scipy.special import betainc

    return float(betainc(a, b, x))


def beta_quantile(share: float, a: int, b: int) -> float:
    """Compute the quantile x of Beta(a, b) with P(Beta(a, b) ≤ x) = share, the inverse of `beta_cdf`.

    >>> round(beta_quantile(0.25, 2, 1), 12)
    0.5
    """
    from scipy.special import betaincinv

    return float(betaincinv(a, b, share))


def share_interval(successes: int, n: int, outside: float = 0.05) -> tuple[float, float]:
    """Compute the Clopper–Pearson interval of a probability from `successes` of n trials, at confidence 1 − `outside`.

    >>> low, high = share_interval(81, 90)
    >>> f"{low:.4f} to {high:.4f}"
    '0.8186 to 0.9532'
    """
    low = beta_quantile(outside / 2, successes, n - successes + 1) if successes else 0.0
    return low, beta_quantile(1 - outside / 2, successes + 1, n - successes) if successes < n else 1.0


def beta_binomial(m: int, a: int, b: int) -> Vector:
    """Compute the beta-binomial probabilities of 0 … m successes, with a success rate of distribution Beta(a, b).

    They are computed by a recursion from the mode, since the differences of log-gamma functions in SciPy lose digits.

    >>> beta_binomial(3, 1, 1)
    array([0.25, 0.25, 0.25, 0.25])
    """
    i = np.arange(m, dtype=np.float64)
    ratio = (m - i) * (i + a) / ((i + 1) * (m - i - 1 + b))  # P(i + 1 successes)/P(i successes)
    start = m * a // (a + b)
    chances: Vector = np.concatenate([np.cumprod(1 / ratio[:start][::-1])[::-1], [1.0], np.cumprod(ratio[start:])])
    chances /= chances.sum()
    return chances


def measured_deviation(m: int, a: int, b: int) -> float:
    """Compute the standard deviation of the share of m test rows that are covered, if coverage is Beta(a, b).

    >>> measured_deviation(1, 1, 1)
    0.5
    """
    mean = a / (a + b)
    return math.sqrt(mean * (1 - mean) * (a + b + m) / (m * (a + b + 1)))


def coverage_tails(covered: int, m: int, a: int, b: int) -> tuple[float, float]:
    """Compute P(at most `covered` of m test rows are covered), and P(at least `covered`), if coverage is Beta(a, b).

    >>> at_most, at_least = coverage_tails(0, 1, 9, 1)
    >>> round(at_most, 12), round(at_least, 12)
    (0.1, 1.0)
    """
    law = beta_binomial(m, a, b)
    return min(float(law[: covered + 1].sum()), 1.0), min(float(law[covered:].sum()), 1.0)


def binomial_tails(covered: int, m: int, share: float) -> tuple[float, float]:
    """Compute P(at most `covered` of m rows are covered) and P(at least `covered`).

    Rows are independent, and each is covered with probability `share`.

    >>> at_most, at_least = binomial_tails(19, 20, 0.999)
    >>> round(at_most, 4), round(at_least, 4)
    (0.0198, 0.9998)
    """
    at_most = beta_cdf(1 - share, m - covered, covered + 1) if covered < m else 1.0
    return at_most, beta_cdf(share, covered, m - covered + 1) if covered else 1.0


def coverage_interval(k: int, n: int, outside: float = 0.05) -> tuple[float, float]:
    """Compute the quantiles `outside`/2 and 1 − `outside`/2 of coverage, if the threshold is the k-th of n scores.

    For k = n + 1 the threshold is infinite and coverage is 1.

    >>> low, high = coverage_interval(1801, 2000)
    >>> f"{low:.4f} to {high:.4f}"
    '0.8865 to 0.9128'
    """
    if k > n:
        return 1.0, 1.0
    return beta_quantile(outside / 2, k, n + 1 - k), beta_quantile(1 - outside / 2, k, n + 1 - k)


@dataclass(frozen=True)
class Plan:
    """Distribution of coverage over repeated calibrations with n examples; `pippin.plan` returns it.

    Attributes:
        alpha: significance level (miscoverage).
        n: the number of calibration examples.
        delta: the probability that coverage lies outside of `low` to `high`.
        k: the rank of the threshold among the n scores in increasing order. If n is too small for a finite threshold,
            k is n + 1, and coverage is 1.
        mean: the mean coverage, k/(n + 1).
        standard_deviation: the standard deviation of coverage over calibrations.
        low: the quantile delta/2 of coverage.
        high: the quantile 1 − delta/2 of coverage.
        test: the number of test rows, or None.
        test_standard_deviation: the standard deviation of the coverage measured on the test rows, which is larger.
        test_low: the quantile delta/2 of the coverage measured on the test rows.
        test_high: the quantile 1 − delta/2 of the coverage measured on the test rows.
        confidence: the requested probability of coverage of at least 1 − alpha (PAC guarantee), or None.

    >>> import pippin
    >>> pippin.plan(0.1, 999).k
    900
    """

    alpha: float
    n: int
    delta: float
    k: int
    mean: float
    standard_deviation: float
    low: float
    high: float
    test: int | None = None
    test_standard_deviation: float | None = None
    test_low: float | None = None
    test_high: float | None = None
    confidence: float | None = None

    def _repr_html_(self) -> str:
        caption = f"{self.n:,} calibration examples at alpha={self.alpha:g}: coverage {self.low:.3f} to {self.high:.3f}"
        often = f"in {100 * (1 - self.delta):g}% of calibrations"
        facts: dict[str, Any] = {
            "calibration examples": self.n,
            **({} if self.confidence is None else {"confidence": self.confidence}),
            "threshold": f"the {self.k:,}-th smallest score" if self.finite else "infinite: too few examples",
            "mean coverage": self.mean,
            "its standard deviation": self.standard_deviation,
            f"coverage {often}": f"{self.low:.4f} to {self.high:.4f}",
        }
        if self.test is not None:
            facts[f"measured on {self.test:,} rows, {often}"] = f"{self.test_low:.4f} to {self.test_high:.4f}"
            facts["its standard deviation there"] = self.test_standard_deviation
        return html_facts(f"{caption} {often}.", facts)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the density of coverage over calibrations; the interval of coverage from `low` to `high` is shaded.

        Args:
            ax: Matplotlib axes to draw on; new axes by default.

        Returns:
            The Matplotlib axes.

        >>> import pippin
        >>> axes = pippin.plan(0.1, 2000).plot()
        """
        from pippin._plotting.calibration import plot_plan

        return plot_plan(self, ax)

    @property
    def finite(self) -> bool:
        """True if the threshold is finite; if not, every set holds all classes."""
        return self.k <= self.n

    def below(self, by: float = 0.0) -> float:
        """Compute the probability that coverage is less than 1 − alpha − by.

        Args:
            by: the distance below 1 − alpha; 0.01 is one percentage point.

        Returns:
            The probability over calibration sets.

        Raises:
            InputError: `by` is negative, or not less than 1.

        >>> import pippin
        >>> round(pippin.plan(0.1, 2000).below(0.01), 4)
        0.0699
        """
        return _stray(self.k, self.n + 1 - self.k, _level(self.alpha, -_distance(by, Fraction(0))), 1.0)

    def within(self, distance: float) -> float:
        """Compute the probability that coverage differs from 1 − alpha by at most `distance`.

        Args:
            distance: the distance; 0.01 is one percentage point.

        Returns:
            The probability over calibration sets.

        Raises:
            InputError: `distance` is negative, or not less than 1.

        >>> import pippin
        >>> round(pippin.plan(0.1, 2000).within(0.01), 4)
        0.8646
        """
        d = _distance(distance, Fraction(0))
        return 1 - _stray(self.k, self.n + 1 - self.k, _level(self.alpha, -d), _level(self.alpha, d))


@checked
def plan(
    alpha: float = 0.1,
    n: int = 2000,
    *,
    delta: float = 0.05,
    test: int | None = None,
    confidence: float | None = None,
) -> Plan:
    """Compute the distribution of coverage with n calibration examples, and as measured on `test` rows.

    Coverage given the calibration set is Beta(k, n + 1 − k): `Vovk (2012) <https://arxiv.org/abs/1209.2673>`__.

    Args:
        alpha: significance level (miscoverage).
        n: the number of calibration examples; for a guarantee per class or group, of that class or group.
        delta: the probability that coverage lies outside `low` to `high`.
        test: the number of test rows, to include the coverage measured on them.
        confidence: as in `pippin.calibrate`, the probability over calibration sets that coverage is at least 1 − alpha;
            by default coverage is at least 1 − alpha on average.

    Returns:
        The distribution, with its mean, standard deviation, and the interval `low` to `high`.

    Raises:
        InputError: `alpha`, `n`, `delta`, `test` or `confidence` is out of range.

    >>> import pippin
    >>> planned = pippin.plan(alpha=0.1, n=2000)
    >>> f"{planned.mean:.4f} ± {planned.standard_deviation:.4f}, mostly {planned.low:.3f} to {planned.high:.3f}"
    '0.9000 ± 0.0067, mostly 0.887 to 0.913'
    >>> sure = pippin.plan(alpha=0.1, n=2000, confidence=0.95)
    >>> sure.k, round(sure.mean, 3), round(1 - sure.below(), 4)
    (1823, 0.911, 0.9551)
    """
    count = _count(n, "calibration examples", 0, MOST_EXAMPLES)
    m = None if test is None else _count(test, "test rows", 1, MOST_TEST_ROWS)
    outside = as_alpha(delta, "delta", "delta=0.05 is for 95%")
    if confidence is None:
        k = quantile_rank(count, alpha)
    else:
        k = confident_rank(count, alpha, as_alpha(confidence, "a confidence", "0.95 for instance"))
    a, b = k, count + 1 - k
    mean = a / (a + b)
    spread = math.sqrt(mean * (1 - mean) / (a + b + 1))
    fields = (as_alpha(alpha), count, outside, k, mean, spread, *coverage_interval(k, count, outside))
    if m is None:
        return Plan(*fields, confidence=confidence)
    if not b:
        return Plan(*fields, m, 0.0, 1.0, 1.0, confidence)
    law = beta_binomial(m, a, b)
    least = int(np.argmax(np.cumsum(law) > outside / 2))
    most = m - int(np.argmax(np.cumsum(law[::-1]) > outside / 2))
    return Plan(*fields, m, measured_deviation(m, a, b), least / m, most / m, confidence)


@checked
def examples_for(
    alpha: float = 0.1, *, within: float = 0.01, delta: float = 0.05, side: Literal["both", "below"] = "both"
) -> int:
    """Compute the smallest number of calibration examples with which coverage is close to 1 − alpha.

    Close means that, with probability at least 1 − delta, coverage differs from 1 − alpha by at most `within`
    (side="both"), or is at least 1 − alpha − within (side="below"). A few more examples can be slightly worse, since
    the rank of the threshold is an integer. So the result is the smallest n such that coverage is close, and the
    threshold finite, with n or any larger number of examples.

    Args:
        alpha: significance level (miscoverage).
        within: the largest distance from 1 − alpha; 0.01 is one percentage point.
        delta: the probability of a larger distance.
        side: "both", or "below" to limit only coverage below 1 − alpha.

    Returns:
        The number of calibration examples.

    Raises:
        InputError: `alpha`, `within`, `delta` or `side` is out of range.

    >>> import pippin
    >>> pippin.examples_for(alpha=0.1, within=0.01), pippin.examples_for(alpha=0.1, within=0.01, side="below")
    (3450, 2520)
    """
    d, (top, bottom) = _distance(within, FINEST), exact_alpha(alpha).as_integer_ratio()
    allowed = as_alpha(delta, "delta", "delta=0.05 is for 95%")
    if side not in ("both", "below"):
        raise InputError(f"Expected side to be 'both' or 'below', got {side!r}")
    low, high = _level(alpha, -d), 1.0 if side == "below" else _level(alpha, d)

    def good(first: int, last: int) -> bool:
        """Return True if coverage is provably close to 1 − alpha (as defined above) for all N = n + 1 in this range.

        The range is from `first` to `last`. For first = last the test is exact. Otherwise it is only sufficient: if the
        result is False, coverage may still be close.
        """
        (a, b), (a_most, b_most) = ((n - n * top // bottom, n * top // bottom) for n in (first, last))
        return b > 0 and beta_cdf(low, a, b_most) + beta_cdf(1 - high, b, a_most) <= allowed + ROUNDING

    def begin(b: int) -> int:
        """Return the smallest N = n + 1, for n calibration rows, with ⌊N·alpha⌋ = b; coverage is Beta(N − b, b)."""
        return -(-b * bottom // top)

    # Find the smallest N = n + 1 from which on coverage, Beta(N − b, b) with b = ⌊Nα⌋, is outside 1 − α ± d with a
    # probability of at most delta. The distribution is sub-Gaussian with variance proxy 1/(4(N + 1)) (Marchal, Arbel
    # 2017), and its mean exceeds 1 − α by less than 1/N. So the probability is at most 2·exp(−2N(d − 1/N)²), and at
    # most delta for N ≥ (ln(2/delta)/2 + 2d)/d². The search starts there and decreases b. Several b are skipped at once
    # if `good` proves the condition for all of their N. For a single b, checking its first and last N is enough, since
    # the distributions are an exponential family in N.
    b, step = math.ceil(((math.log(2) - math.log(allowed)) / 2 + 2 * d) / d**2) * top // bottom, 1
    while b:
        lowest = max(1, b - step + 1)
        if good(begin(lowest), begin(b + 1) - 1):
            b, step = lowest - 1, 2 * step
        elif step > 1:
            step //= 2
        elif good(begin(b), begin(b)) and good(begin(b + 1) - 1, begin(b + 1) - 1):
            b -= 1
        else:
            break
    totals = range(begin(b), begin(b + 1))
    if not good(totals[-1], totals[-1]):
        return totals[-1]
    return totals[bisect_left(totals, True, key=lambda total: good(total, total))] - 1


def _stray(a: int, b: int, low: float, high: float) -> float:
    """Compute the probability that a Beta(a, b) variable is outside [low, high]; for b = 0 the variable is always 1."""
    return beta_cdf(low, a, b) + beta_cdf(1 - high, b, a) if b else float(high < 1)


def _level(alpha: float, shift: Fraction) -> float:
    return float(min(max(1 - exact_alpha(alpha) + shift, Fraction(0)), Fraction(1)))


def _distance(value: Any, least: Fraction) -> Fraction:
    try:
        exact = Fraction(str(value))  # through text, so that 0.01 becomes exactly 1/100
    except (ValueError, ZeroDivisionError):
        exact = Fraction(-1)
    if not least <= exact < 1:
        what = f"Expected a distance from 1 − alpha of at least {float(least):g} and less than 1, got {value!r}"
        raise InputError(what, "0.01 is one percentage point")
    return exact


def _count(value: Any, what: str, least: int, most: int) -> int:
    if not is_whole(value, least, most):
        raise InputError(f"Expected {what} as a whole number from {least:,} to {most:,}, got {value!r}")
    return int(value)
