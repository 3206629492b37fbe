"""Certification of a selective classifier's error rate by exact binomial tests along a fixed sequence of thresholds.

A selective classifier accepts a row if its largest probability reaches a threshold, and abstains otherwise. Accepted
rows are also called "acted on".

For a threshold fixed in advance, the number of errors among the accepted rows is binomial. So P(Bin(acted, error) ≤
wrong) is a p-value of the hypothesis that the error rate exceeds `error`. The thresholds are tested in decreasing
order. Tests begin at five of them (`STARTS`), each at the significance level δ/5, where δ is the allowed probability of
a wrong result. If a threshold passes its test, it is certified, and the next one is tested at the same level (Wiens's
fallback procedure). So with probability at least 1 − δ, every certified threshold has an error rate of at most `error`.

Angelopoulos, Bates, Candès, Jordan, Lei (2021), Learn then test.
"""

import math
from bisect import bisect_left
from functools import lru_cache
from typing import Any

import numpy as np

from pippin._runtime.arrays import Codes, Vector

STEP = 0.02  # difference between successive thresholds on the largest probability, in log-odds
HIGHEST = 14.0  # first and highest of these thresholds, in log-odds
STARTS = (6.0, 4.0, 2.0, 0.0, -math.inf)  # the five thresholds at which tests begin (see above), in log-odds
FEWEST = 20  # `rows_needed` ignores thresholds that accept fewer rows, since their error rates are too uncertain
BETS = (0.98, 0.9, 0.75, 0.5, 0.2)  # shares of the largest bet that `mean_bound` mixes
MOST = 1 << 40  # number of rows above which `acted_needed` gives up


def sequence(n_classes: int) -> Vector:
    """Return the log-odds of the thresholds to test, in decreasing order.

    They go from `HIGHEST` down to the log-odds of 1/K, since the largest of K probabilities is at least 1/K. The last
    threshold is −∞, at which all rows are accepted.
    """
    lowest = -math.log(max(2, n_classes) - 1)
    steps = HIGHEST - STEP * np.arange(math.floor((HIGHEST - min(lowest, 0.0)) / STEP) + 1)
    return np.append(steps, -np.inf)


def tail(wrong: Any, acted: Any, error: float) -> Any:
    """Compute the p-value P(Bin(acted, error) ≤ wrong) of the hypothesis that the error rate exceeds `error`.

    `acted` is the number of accepted rows, and `wrong` the number of errors among them; both may be arrays.

    >>> float(tail(1, 3, 0.5).round(12))
    0.5
    """
    from scipy.special import betainc

    return np.where(wrong >= acted, 1.0, betainc(np.maximum(acted - wrong, 1), wrong + 1, 1 - error))


def certified(acted: Codes, wrong: Codes, log_odds: Vector, error: float, delta: float) -> int | None:
    """Test the thresholds in decreasing order; return the index of the last certified one, or None.

    `acted` and `wrong` hold, for each threshold, the number of accepted rows and the number of errors among them.
    """
    return max(all_certified(acted, wrong, log_odds, error, delta), default=None)


def all_certified(acted: Codes, wrong: Codes, log_odds: Vector, error: float, delta: float) -> list[int]:
    """Test the thresholds in decreasing order; return the indices of all certified ones, tested as in `certified`."""
    level, passed = 0.0, []
    starts = {int(np.argmin(np.abs(log_odds - start)) if np.isfinite(start) else len(log_odds) - 1) for start in STARTS}
    for i, p in enumerate(tail(wrong, acted, error).tolist()):
        level += delta / len(STARTS) if i in starts else 0.0
        if level and p <= level:
            passed.append(i)
        else:
            level = 0.0
    return passed


@lru_cache(1 << 14)  # cached, since repeated calibrations call it with equal arguments
def acted_needed(share: float, error: float, delta: float) -> int | None:
    """Compute how many accepted rows certify the error rate `error`, if a `share` of them is misclassified.

    The result is None if no number is enough.

    >>> acted_needed(0.0, 0.02, 0.05), acted_needed(0.01, 0.02, 0.05), acted_needed(0.03, 0.02, 0.05)
    (228, 1070, None)
    """
    if share >= error:
        return None

    def enough(n: int) -> bool:
        return bool(tail(math.ceil(share * n), n, error) <= delta / len(STARTS))

    high = 1
    while not enough(high):
        high *= 2
        if high > MOST:
            return None
    untried = range(high // 2 + 1, high)
    return untried.start + bisect_left(untried, True, key=enough)


def rows_needed(acted: Codes, wrong: Codes, n: int, error: float, delta: float) -> int | None:
    """Estimate how many calibration rows would be needed to certify a threshold; None if no number is enough.

    The estimate assumes, for each threshold, the error rate that was observed among the n calibration rows.
    """
    estimates = []
    for i in np.flatnonzero(acted >= FEWEST)[:: max(1, len(acted) // 50)].tolist():
        needed = acted_needed(wrong[i] / acted[i], error, delta)
        if needed is not None:
            estimates.append(math.ceil(needed * n / acted[i]))
    return min(estimates, default=None)


def mean_bound(values: Vector, counts: Codes, largest: float, delta: float) -> float:
    """Compute an upper confidence bound on the mean of independent draws of at most `largest`.

    `counts[j]` draws have the value `values[j]`. The bound is below the true mean with probability at most `delta`.

    Let x_i be the draws. If their mean is at least μ, then Π_i (1 + λ(μ − x_i)) has an expectation of at most 1 for
    every λ from 0 to 1/(largest − μ), and so does its average over several λ. By Markov's inequality, this average
    reaches 1/delta with probability at most `delta`. It increases with μ, and the bound is the smallest μ at which it
    reaches 1/delta.

    >>> round(mean_bound(np.array([0.0]), np.array([300]), 1.0, 0.05), 4)
    0.0127
    """
    bets, limit = np.array(BETS), np.log(len(BETS) / delta)
    low, high = float(values @ counts / counts.sum()), largest
    tolerance = 1e-6 * (high - low)
    while high - low > tolerance:
        mean = (low + high) / 2
        gains = np.log1p(bets[:, None] * (mean - values) / (largest - mean)) @ counts
        low, high = (low, mean) if np.logaddexp.reduce(gains) >= limit else (mean, high)
    return high
