"""Conformal test martingales: bets against exchangeability, by betting functions of conformal p-values.

A betting function f with ∫f = 1 multiplies the capital by f(p). While p-values are independent and uniform, the capital
is a test martingale that starts at 1, so by Ville's inequality P(sup ≥ 1/δ) ≤ δ. The functions here are compiled in
`_engine/numba_engine/martingale.py`.
"""

import math

import numpy as np

from pippin._runtime.arrays import Codes, Vector

RATES = (1e-4, 1e-3, 1e-2, 1e-1)  # jump rates of the Simple Jumper bettors
BETTORS = len(RATES) + 1  # the Simple Jumpers and the plug-in bettor
LOG, PAID, SUM = 0, 1, 2  # columns of a bettor: log capital, factor of the last row, detector statistic
PIECES = 10  # bins of the plug-in density
MEMORY = 1000  # time constant, in rows, of the plug-in density
SWITCHING = 1e-3  # switching probability of the plug-in bettor between betting and not betting
SLOPES = (-1.0, -0.25, 0.25, 1.0)  # of the linear bets that estimate the change point
CUSUM_TIMES = (1, 50, 130, 340, 840, 1900, 4800, 10_800, 28_000, 60_000)  # simulated: 25 million uniform p-values
CUSUM_LIMITS = (1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100)
EVER, SHIRYAEV_ROBERTS, CUSUM = 0, 1, 2  # statistics: the martingale itself, or a detector


def bettors() -> Vector:
    """Return the initial state of all bettors: log capital, last factor, detector statistic, and a jumper's shares."""
    return np.tile([0.0, 1.0, 0.0, 1 / 3, 1 / 3, 1 / 3], (BETTORS, 1))


def bet(held: Vector, density: Vector, p: float) -> None:
    """Update the capital of each bettor by the factor f(p).

    The Simple Jumper of rate J divides its capital among ε = −1, 0, 1. Before each bet a share J of it is
    redistributed equally; then part ε is multiplied by 1 + ε(p − ½). So it gains from small p-values, from large
    ones, and from changes between the two. Log capital and shares avoid overflow and underflow. Vovk, Petej,
    Nouretdinov, Ahlberg, Carlsson, Gammerman (2021), Retrain or not retrain.

    The plug-in bettor (Fedorova, Gammerman, Nouretdinov, Vovk 2012) uses the histogram of earlier p-values with
    exponential forgetting: f(p) = m(n_b + 1)/(n + m) in bin b of m. It mixes by fixed share with not betting.

    >>> held, density = bettors(), np.zeros(PIECES)
    >>> for p in (0.01,) * 20:
    ...     bet(held, density, p)
    >>> f"{math.exp(log_capital(held)):.4g}"
    '1.065e+12'
    """
    for i in range(BETTORS - 1):
        one, rate = held[i], RATES[i]
        low = ((1 - rate) * one[3] + rate / 3) * (1.5 - p)
        none = (1 - rate) * one[4] + rate / 3
        high = ((1 - rate) * one[5] + rate / 3) * (0.5 + p)
        total = low + none + high
        one[PAID] = total
        one[3], one[4], one[5] = low / total, none / total, high / total
    piece, last = min(int(p * PIECES), PIECES - 1), held[BETTORS - 1]
    idle, bold = (1 - SWITCHING) * last[3] + SWITCHING / 2, (1 - SWITCHING) * (1 - last[3]) + SWITCHING / 2
    bold *= PIECES * (density[piece] + 1) / (density.sum() + PIECES)
    last[PAID], last[3] = idle + bold, idle / (idle + bold)
    density *= 1 - 1 / MEMORY
    density[piece] += 1
    for i in range(BETTORS):
        held[i, LOG] += math.log(held[i, PAID])


def log_capital(held: Vector) -> float:
    """Return the log of the mean capital over the bettors and the constant 1."""
    top = 0.0
    for i in range(BETTORS):
        top = max(top, held[i, LOG])
    total = math.exp(-top)
    for i in range(BETTORS):
        total += math.exp(held[i, LOG] - top)
    return top + math.log(total / (1 + BETTORS))


def gather(held: Vector, detector: int) -> float:
    """Update each bettor's detector statistic by its last factor f; return the log of their mean.

    Shiryaev–Roberts: S ← (1 + S)·f, a sum over all change points; CUSUM: S ← max(1, S)·f, the maximum over
    them. Page (1954); Shiryaev (1963); Roberts (1966); for conformal bets Volkhonskiy and others (2017).

    >>> held = bettors()
    >>> held[:, PAID] = 1.5
    >>> math.exp(gather(held, SHIRYAEV_ROBERTS)), math.exp(gather(held, SHIRYAEV_ROBERTS))
    (1.5, 3.75)
    """
    total = 0.0
    for i in range(BETTORS):
        before = 1 + held[i, SUM] if detector == SHIRYAEV_ROBERTS else max(1.0, held[i, SUM])
        held[i, SUM] = before * held[i, PAID]
        total += held[i, SUM]
    return math.log(total / BETTORS)


def limit_of(detector: int, mean_time: float) -> float:
    """Return the alarm limit of a detector for a mean number of rows between false alarms.

    Under exchangeability the Shiryaev–Roberts statistic less the number of rows is a martingale, so its mean time to
    reach N is at least N. CUSUM is never larger and reaches N far later. As p-values are uniform whatever the
    data, its mean times are simulated; beyond the table they grow in proportion to the limit.

    >>> limit_of(SHIRYAEV_ROBERTS, 1000.0), limit_of(CUSUM, 840.0), limit_of(CUSUM, 600_000.0)
    (1000.0, 3.0, 1000.0)
    """
    if detector == SHIRYAEV_ROBERTS:
        return mean_time
    if mean_time > CUSUM_TIMES[-1]:
        return mean_time * CUSUM_LIMITS[-1] / CUSUM_TIMES[-1]
    return float(np.interp(mean_time, CUSUM_TIMES, CUSUM_LIMITS))


def follow(rises: Vector, since: Codes, p: float, rows: int) -> None:
    """Update the change-point statistics: the log gain of a bet of constant slope ε since its last reset.

    rise ← max(0, rise + log(1 + ε(p − ½))); a rise of 0 is a reset at this row, number `rows`. The change point is the
    last reset of the largest rise.

    >>> rises, since = np.zeros(4), np.zeros(4, dtype=np.int64)
    >>> for row, p in enumerate((0.3, 0.8, 0.9, 0.01, 0.02, 0.01), start=1):
    ...     follow(rises, since, p, row)
    >>> int(since[rises.argmax()])
    3
    """
    for i in range(len(SLOPES)):
        rise = rises[i] + math.log(1 + SLOPES[i] * (p - 0.5))
        if rise <= 0:
            rise = 0.0
            since[i] = rows
        rises[i] = rise
