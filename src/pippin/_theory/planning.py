"""How many calibration examples are enough: the exact law of coverage, before any data are there.

Given the calibration set, the coverage on new objects is Beta(k, n + 1 − k) distributed,
k = ⌈(n + 1)(1 − α)⌉, if the scores have no ties (with ties it is at least that large).
That law knows neither the classifier nor the score, so n can be planned.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_facts
from pippin._theory.laws import beta_binomial, beta_cdf, beta_quantile
from pippin._theory.level import as_alpha, exact_alpha, quantile_rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_EXAMPLES = 10**9
MOST_TEST_ROWS = 10**7
ROUNDING = 1e-12  # of a probability
FINEST = Fraction(1, 2000)  # the smallest distance from 1 − alpha that `examples_for` plans for


@dataclass(frozen=True)
class Plan:
    """What n calibration examples give, over repeated calibrations.

    With too few examples for a finite threshold, k is n + 1 and coverage is 1.

    Attributes:
        alpha: the share of errors allowed.
        n: how many calibration examples.
        delta: how often coverage may lie outside of `low` to `high`.
        k: which of the n scores in increasing order is the threshold.
        mean: the mean coverage, k/(n + 1).
        standard_deviation: how much coverage varies from one calibration to the next.
        low: coverage is above it but for a share delta/2 of calibrations.
        high: coverage is below it but for a share delta/2.
        test: how many test rows were asked about, if any.
        test_standard_deviation: how much the share covered of so many rows varies, which is more.
        test_low: as `low`, for the share covered of so many rows.
        test_high: as `high`, for the same.
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

    def _repr_html_(self) -> str:
        told = f"{self.n:,} calibration examples at alpha={self.alpha:g}: coverage {self.low:.3f} to {self.high:.3f}"
        often = f"in {100 * (1 - self.delta):g} % of calibrations"
        facts: dict[str, Any] = {
            "calibration examples": self.n,
            "threshold": f"the {self.k:,}-th smallest score" if self.finite else "infinite: too few examples",
            "mean coverage": self.mean,
            "its standard deviation": self.standard_deviation,
            f"coverage {often}": f"{self.low:.4f} to {self.high:.4f}",
        }
        if self.test is not None:
            facts |= {
                f"measured on {self.test:,} rows, {often}": f"{self.test_low:.4f} to {self.test_high:.4f}",
                "its standard deviation there": self.test_standard_deviation,
            }
        return html_facts(f"{told} {often}.", facts)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The law of coverage over calibrations, shaded from `low` to `high`; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.planning import plot_plan

        return plot_plan(self, ax)

    @property
    def finite(self) -> bool:
        """Whether the threshold is finite; if not, every set holds all classes."""
        return self.k <= self.n

    def below(self, by: float = 0.0) -> float:
        """The probability that coverage is less than 1 − alpha − by.

        Args:
            by: a distance; 0.01 is one percentage point.

        >>> import pippin
        >>> round(pippin.plan(0.1, 2000).below(0.01), 4)
        0.0699
        """
        return _stray(self.k, self.n + 1 - self.k, _level(self.alpha, -_distance(by, Fraction(0))), 1.0)

    def within(self, distance: float) -> float:
        """The probability that coverage is at most this far from 1 − alpha.

        Args:
            distance: how far; 0.01 is one percentage point.

        >>> import pippin
        >>> round(pippin.plan(0.1, 2000).within(0.01), 4)
        0.8646
        """
        d = _distance(distance, Fraction(0))
        return 1 - _stray(self.k, self.n + 1 - self.k, _level(self.alpha, -d), _level(self.alpha, d))


def plan(alpha: float = 0.1, n: int = 2000, *, delta: float = 0.05, test: int | None = None) -> Plan:
    """What coverage to expect from n calibration examples, and from `test` rows that measure it.

    Args:
        alpha: the share of errors allowed.
        n: the calibration examples; for a guarantee per class or group, those in it.
        delta: how often coverage may lie outside `low` to `high`.
        test: the rows that measure coverage, if they are to be planned too.

    >>> import pippin
    >>> found = pippin.plan(alpha=0.1, n=2000)
    >>> f"{found.mean:.4f} ± {found.standard_deviation:.4f}, mostly {found.low:.3f} to {found.high:.3f}"
    '0.9000 ± 0.0067, mostly 0.887 to 0.913'
    """
    count = _count(n, "calibration examples", 0, MOST_EXAMPLES)
    m = None if test is None else _count(test, "test rows", 1, MOST_TEST_ROWS)
    outside = float(_share(delta, "delta"))
    k = quantile_rank(count, alpha)
    a, b = k, count + 1 - k
    mean = a / (a + b)
    spread = math.sqrt(mean * (1 - mean) / (a + b + 1))
    low, high = (beta_quantile(share, a, b) for share in (outside / 2, 1 - outside / 2)) if b else (1.0, 1.0)
    known = (as_alpha(alpha), count, outside, k, mean, spread, low, high)
    if m is None:
        return Plan(*known)
    if not b:
        return Plan(*known, m, 0.0, 1.0, 1.0)
    law = beta_binomial(m, a, b)
    least = int(np.argmax(np.cumsum(law) > outside / 2))
    most = m - int(np.argmax(np.cumsum(law[::-1]) > outside / 2))
    on_test = math.sqrt(mean * (1 - mean) * (a + b + m) / (m * (a + b + 1)))
    return Plan(*known, m, on_test, least / m, most / m)


def examples_for(
    alpha: float = 0.1, *, within: float = 0.01, delta: float = 0.05, side: Literal["both", "below"] = "both"
) -> int:
    """The fewest calibration examples from which on coverage is close to 1 − alpha.

    Close means: with probability at least 1 − delta, coverage is within `within` of
    1 − alpha (side="both"), or not below 1 − alpha − within (side="below"). Because k
    jumps, a few more examples can be a little worse; so the number returned is the smallest
    n for which the statement, and a finite threshold, hold at n and at every larger n.

    Args:
        alpha: the share of errors allowed.
        within: how far coverage may be from 1 − alpha; 0.01 is one percentage point.
        delta: how often it may be farther.
        side: "both", or "below" if coverage above the level is welcome.

    >>> import pippin
    >>> pippin.examples_for(alpha=0.1, within=0.01), pippin.examples_for(alpha=0.1, within=0.01, side="below")
    (3450, 2520)
    """
    share, d = exact_alpha(alpha), _distance(within, FINEST)
    allowed = float(_share(delta, "delta"))
    if side not in ("both", "below"):
        raise InputError(f"Expected side to be 'both' or 'below', got {side!r}")
    low, high = _level(alpha, -d), 1.0 if side == "below" else _level(alpha, d)

    def good(first: int, last: int) -> bool:
        """Whether the statement holds for every N = n + 1 from first to last; for one N, exactly if it does."""
        (a, b), (a_most, b_most) = ((n - math.floor(n * share), math.floor(n * share)) for n in (first, last))
        return beta_cdf(low, a, b_most) + beta_cdf(1 - high, b, a_most) <= allowed + ROUNDING

    def begin(b: int) -> int:
        return math.ceil(b / share)

    # Of the N with the same b = ⌊Nα⌋, the first or the last is the worst: coverage is Beta(N − b, b), an
    # exponential family in N. So blocks are looked at from above, several at once where that is enough.
    b, step = math.floor(_safe_total(share, low, high, allowed) * share), 1
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
    bad, fine = begin(b), begin(b + 1)
    if not b or not good(fine - 1, fine - 1):
        return fine - 1
    while fine - bad > 1:
        middle = (bad + fine) // 2
        bad, fine = (bad, middle) if good(middle, middle) else (middle, fine)
    return fine - 1


def _safe_total(alpha: Fraction, low: float, high: float, allowed: float) -> int:
    """An N = n + 1 from which on coverage leaves [low, high] with a probability of at most `allowed`.

    Coverage is Beta(Np + e, Nα − e), p = 1 − α, with 0 ≤ e < 1. Two facts bound it.
    In e these laws are an exponential family, so the chance to stay within an interval
    rises and then falls: e = 0 or e = 1 is the worst. In N they are another, with density
    proportional to exp(−N·g(x)), g(x) = KL(p, x): so E g falls as N grows, and where g ≥ E g
    the density falls too. Hence, once g(low) and g(high) exceed E g, the chance to be
    outside falls for ever, and one N that is good enough settles all larger ones.
    """
    p, q = float(1 - alpha), float(alpha)
    least = min(_divergence(p, x) for x in (low, high))

    def settled(total: int) -> bool:
        if total * q <= 2 or any(_mean_divergence(total, p, q, e) > least for e in (0, 1)):
            return False
        a, b = total * (1 - alpha), total * alpha
        return all(
            beta_cdf(low, math.floor(a) + e, math.ceil(b) - e) + beta_cdf(1 - high, math.floor(b) - e, math.ceil(a) + e)
            <= allowed
            for e in (0, 1)
        )

    good = 4
    while not settled(good):
        good *= 2
    bad = good // 2
    while good - bad > 1:
        middle = (bad + good) // 2
        good, bad = (middle, bad) if settled(middle) else (good, middle)
    return good


def _divergence(p: float, x: float) -> float:
    return p * math.log(p / x) + (1 - p) * math.log((1 - p) / (1 - x)) if 0 < x < 1 else math.inf


def _mean_divergence(total: int, p: float, q: float, e: int) -> float:
    """At least E KL(p, X) for X of the law Beta(Np + e, Nq − e), by ψ(x) ≥ ln x − 1/(2x) − 1/(12x²)."""
    a, b = total * p + e, total * q - e
    gap = p * math.log(total * p / a) + q * math.log(total * q / b)
    return gap + sum(w * (1 / (2 * x) + 1 / (12 * x * x)) for w, x in ((p, a), (q, b))) - 1 / (2 * total)


def _stray(a: int, b: int, low: float, high: float) -> float:
    """The probability that Beta(a, b) leaves [low, high]; b = 0 stands for the constant 1."""
    return beta_cdf(low, a, b) + beta_cdf(1 - high, b, a) if b else float(high < 1)


def _level(alpha: float, shift: Fraction) -> float:
    return float(min(max(1 - exact_alpha(alpha) + shift, Fraction(0)), Fraction(1)))


def _share(value: Any, name: str) -> Fraction:
    try:
        exact = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if not 0 < exact < 1:
        raise InputError(f"Expected {name} strictly between 0 and 1, got {value!r}", f"{name}=0.05 speaks of 95 %")
    return exact


def _distance(value: Any, least: Fraction) -> Fraction:
    try:
        exact = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(-1)
    if not least <= exact < 1:
        raise InputError(
            f"Expected a distance from 1 − alpha of at least {float(least):g} and less than 1, got {value!r}",
            "0.01 is one percentage point",
        )
    return exact


def _count(value: Any, what: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise InputError(f"Expected {what} as a whole number from {least:,} to {most:,}, got {value!r}")
    return int(value)
