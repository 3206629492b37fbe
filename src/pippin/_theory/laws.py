"""The exact laws of coverage: Beta over calibrations, beta-binomial on a finite test set.

Both are sums of positive terms, each made from the one before, so nothing cancels.
"""

import math

import numpy as np
from numpy.typing import NDArray


def beta_cdf(x: float, a: int, b: int) -> float:
    """P(Beta(a, b) ≤ x) for whole a, b ≥ 1: the chance of at least a successes in a + b − 1 trials.

    >>> round(beta_cdf(0.5, 2, 1), 12)
    0.25
    """
    if not 1e-300 < x < 1:
        return float(x >= 1)
    return _upper_tail(a, a + b - 1, x) if a >= (a + b) * x else 1 - _upper_tail(b, a + b - 1, 1 - x)


def beta_quantile(share: float, a: int, b: int) -> float:
    """Where `beta_cdf` reaches `share`, found by halving.

    >>> round(beta_quantile(0.25, 2, 1), 12)
    0.5
    """
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if beta_cdf(middle, a, b) < share else (low, middle)
    return high


def share_interval(found: int, n: int, outside: float = 0.05) -> tuple[float, float]:
    """The interval of Clopper and Pearson (1934) for the probability behind `found` of n: it holds it 95 % of the time.

    >>> low, high = share_interval(81, 90)
    >>> f"{low:.4f} to {high:.4f}"
    '0.8186 to 0.9532'
    """
    low = beta_quantile(outside / 2, found, n - found + 1) if found else 0.0
    return low, beta_quantile(1 - outside / 2, found + 1, n - found) if found < n else 1.0


def beta_binomial(m: int, a: int, b: int) -> NDArray[np.float64]:
    """The chance of 0 … m successes when their rate is Beta(a, b).

    >>> beta_binomial(3, 1, 1)
    array([0.25, 0.25, 0.25, 0.25])
    """
    i = np.arange(m, dtype=np.float64)
    ratio = (m - i) * (i + a) / ((i + 1) * (m - i - 1 + b))  # of the chance of i + 1 to that of i
    start = m * a // (a + b)
    chances: NDArray[np.float64] = np.concatenate(
        [np.cumprod(1 / ratio[:start][::-1])[::-1], [1.0], np.cumprod(ratio[start:])]
    )
    chances /= chances.sum()
    return chances


def _upper_tail(k: int, n: int, x: float) -> float:
    """P(Bin(n, x) ≥ k) for k ≥ (n + 1)x.

    From k on the logarithm of the ratio of neighbours falls by at least 4/(n + 1) a step,
    so what comes 5·√(n + 1) steps later is below e^−50 of the first.
    """
    i = np.arange(k, min(n, k + math.ceil(5 * math.sqrt(n + 1))), dtype=np.float64)
    return _binomial(k, n, x) * (1 + float(np.cumprod((n - i) / (i + 1) * (x / (1 - x))).sum()))


def _binomial(k: int, n: int, x: float) -> float:
    """P(Bin(n, x) = k) for k ≥ 1 by Loader's saddle-point form, which keeps its digits for large n.

    Loader: Fast and accurate computation of binomial probabilities (2000).
    """
    if k == n:
        return math.exp(n * math.log(x))
    log = _stirling(n) - _stirling(k) - _stirling(n - k) - _deviance(k, n * x) - _deviance(n - k, n * (1 - x))
    return math.exp(log) * math.sqrt(n / (2 * math.pi * k * (n - k)))


def _stirling(n: int) -> float:
    """ln n! minus Stirling's formula."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * n**2)) / n**2) / n**2) / n


def _deviance(found: int, expected: float) -> float:
    """found·ln(found/expected) − found + expected."""
    excess = (found - expected) / expected
    return expected * ((1 + excess) * math.log1p(excess) - excess)
