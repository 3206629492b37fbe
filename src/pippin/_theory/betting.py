"""Bets against "nothing has changed": capital that cannot be expected to grow while p-values are uniform.

A bettor turns the next p-value into a factor f(p) with ∫f = 1. While p-values are independent and
uniform, the capital is a martingale that starts at 1, so by Ville's inequality
P(it ever reaches 1/δ) ≤ δ. The same functions are compiled for use.
"""

import math

import numpy as np

from pippin._runtime.arrays import Codes, Vector

RATES = (1e-4, 1e-3, 1e-2, 1e-1)  # how often each jumper changes what it bets on
BETTORS = len(RATES) + 1  # the jumpers, and one who bets on the density of the p-values before
LOG, PAID, SUM = 0, 1, 2  # columns of a bettor: its capital's logarithm, what the last row paid, its detector's sum
PIECES = 10  # of the density
MEMORY = 1000  # rows that the density remembers
WAKING = 1e-3  # how often the one who bets on it changes its mind whether to
SLOPES = (-1.0, -0.25, 0.25, 1.0)  # of the bets that look for the beginning of a change
CUSUM_TIMES = (1, 50, 130, 340, 840, 1900, 4800, 10_800, 28_000, 60_000)  # simulated: 25 million uniform p-values
CUSUM_LIMITS = (1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100)
EVER, SHIRYAEV_ROBERTS, CUSUM = 0, 1, 2  # what the bettors' factors are gathered into


def bettors() -> Vector:
    """Each bettor before its first bet: its capital's logarithm, what it was paid, a sum, the shares of a jumper."""
    return np.tile([0.0, 1.0, 0.0, 1 / 3, 1 / 3, 1 / 3], (BETTORS, 1))


def bet(held: Vector, density: Vector, p: float) -> None:
    """Multiplies each bettor's capital by what the p-value pays.

    A jumper of rate J holds its capital in three parts, ε = −1, 0, 1. Before each bet a share J of it is
    divided anew among the three; then part ε is multiplied by 1 + ε(p − ½). So small p-values, large ones,
    and changes between the two all pay. Logarithms and shares neither overflow nor vanish. Vovk, Petej,
    Nouretdinov, Ahlberg, Carlsson, Gammerman (2021), Retrain or not retrain.

    The last one bets on the density that p-values had (a plug-in martingale: Fedorova, Gammerman, Nouretdinov,
    Vovk 2012), whatever its shape: f(p) = m(n_b + 1)/(n + m) in piece b of m, from counts that fade. It jumps too,
    between betting so and not at all.

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
    idle, bold = (1 - WAKING) * last[3] + WAKING / 2, (1 - WAKING) * (1 - last[3]) + WAKING / 2
    bold *= PIECES * (density[piece] + 1) / (density.sum() + PIECES)
    last[PAID], last[3] = idle + bold, idle / (idle + bold)
    density *= 1 - 1 / MEMORY
    density[piece] += 1
    for i in range(BETTORS):
        held[i, LOG] += math.log(held[i, PAID])


def log_capital(held: Vector) -> float:
    """The logarithm of the mean capital of the bettors and of one who does not bet."""
    top = 0.0
    for i in range(BETTORS):
        top = max(top, held[i, LOG])
    total = math.exp(-top)
    for i in range(BETTORS):
        total += math.exp(held[i, LOG] - top)
    return top + math.log(total / (1 + BETTORS))


def gather(held: Vector, detector: int) -> float:
    """The logarithm of the mean over the bettors of what each has gained since any row before, after one more row.

    Shiryaev–Roberts: S ← (1 + S)·f, the sum over all beginnings; CUSUM: S ← max(1, S)·f, the largest of
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
    """What the mean sum must reach for an alarm, so that so many rows pass on average between two false ones.

    The sum of Shiryaev–Roberts less the number of rows is a martingale while nothing has changed, so the mean time to
    reach N is at least N. That of CUSUM is never larger, and in fact far smaller. Since p-values are then uniform,
    whatever the data are, its mean times were simulated once for all; beyond the table they grow like the limit.

    >>> limit_of(SHIRYAEV_ROBERTS, 1000.0), limit_of(CUSUM, 840.0), limit_of(CUSUM, 600_000.0)
    (1000.0, 3.0, 1000.0)
    """
    if detector == SHIRYAEV_ROBERTS:
        return mean_time
    if mean_time > CUSUM_TIMES[-1]:
        return mean_time * CUSUM_LIMITS[-1] / CUSUM_TIMES[-1]
    return float(np.interp(mean_time, CUSUM_TIMES, CUSUM_LIMITS))


def follow(rises: Vector, since: Codes, p: float, rows: int) -> None:
    """Looks for the beginning of a change: where the bet of a constant slope ε has gained most since.

    rise ← max(0, rise + log(1 + ε(p − ½))), and a rise of 0 begins anew after this row, the `rows`-th.

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
