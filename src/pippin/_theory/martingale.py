"""Test martingales: bets on conformal p-values, bets on the miss rate, and a histogram of scores for p-values.

A bettor starts with a capital of 1. For each p-value p, its betting function f with ∫f = 1 multiplies the capital by
f(p). While p-values are independent and uniform, the capital is a test martingale. By Ville's inequality, it ever
reaches 1/δ with a probability of at most δ. Most functions here are compiled in `_engine/numba_engine/martingale.py`.
"""

import math
import sys

import numpy as np

from pippin._runtime.arrays import Codes, Vector

RATES = (1e-4, 1e-3, 1e-2, 1e-1)  # jump rates of the Simple Jumper bettors
BETTORS = len(RATES) + 1  # number of bettors: the Simple Jumpers and the plug-in bettor
LOG, PAID, SUM = 0, 1, 2  # columns of a bettor's state: log capital, factor f(p) of the last bet, detector statistic
PIECES = 10  # number of bins of the histogram of p-values on which the plug-in bettor bets
MEMORY = 1000  # number of rows after which the weight of a p-value in this histogram has fallen to 1/e
SWITCHING = 1e-3  # probability per row that the plug-in bettor switches between betting and not betting
SLOPES = (-1.0, -0.25, 0.25, 1.0)  # slopes ε of the bets 1 + ε(p − ½) that estimate the change point
# Mean number of rows (CUSUM_TIMES) until the CUSUM statistic reaches each of CUSUM_LIMITS without a change, simulated
# with 25 million uniform p-values.
CUSUM_TIMES = (1, 50, 130, 340, 840, 1900, 4800, 10_800, 28_000, 60_000)
CUSUM_LIMITS = (1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100)
EVER, SHIRYAEV_ROBERTS, CUSUM = 0, 1, 2  # codes of the monitored statistic: the martingale, or a change detector
STAKES = tuple(2.0**-j for j in range(1, 11))  # shares c of the capital at stake in the bets on the miss rate
BISECTIONS = 60  # number of bisection steps in `risk_lower_bound`, enough for the precision of a float
LARGEST_LOG = math.log(sys.float_info.max)

# Histogram of scores in logarithmic bins, for conformal p-values in constant memory. The bin of a score depends on that
# score alone, so exchangeable scores have exchangeable bins. Scores in one bin count as tied, and ties are broken at
# random, so smoothed p-values are exactly uniform.
DIGITS = 10  # number of leading binary digits of a score that, with its sign and exponent, determine its bin
SMALLEST, LARGEST = -40, 24  # exponents of 2: smaller absolute scores are in the bin of 0, larger ones in the outermost
HALF = (LARGEST - SMALLEST + 1 << DIGITS) + 1  # number of bins for positive scores, equal to that for negative ones
BINS = 2 * HALF + 1


def bettors() -> Vector:
    """Return the initial states of all bettors, one per row.

    The columns are the log capital, the factor f(p) of the last bet, the statistic of a change detector, and the shares
    of the three parts of the capital (see `bet`).
    """
    return np.tile([0.0, 1.0, 0.0, 1 / 3, 1 / 3, 1 / 3], (BETTORS, 1))


def bet(state: Vector, density: Vector, p: float) -> None:
    """Update the state of each bettor with a p-value: multiply its capital by its betting function f(p).

    The Simple Jumper of rate J divides its capital into parts for ε = −1, 0, 1. Before each bet a share J of each part
    is redistributed equally; then part ε is multiplied by 1 + ε(p − ½). So it gains from small p-values, from large
    ones, and from changes between the two. Storing log capital and shares avoids overflow and underflow. Vovk, Petej,
    Nouretdinov, Ahlberg, Carlsson, Gammerman (2021), Retrain or not retrain.

    The plug-in bettor (Fedorova, Gammerman, Nouretdinov, Vovk 2012) uses the histogram of earlier p-values with
    exponential forgetting: f(p) = m(n_b + 1)/(n + m) in bin b of m bins, with n_b of n earlier p-values. A
    fixed-share mixture switches between this bet and no bet.

    >>> state, density = bettors(), np.zeros(PIECES)
    >>> for p in (0.01,) * 20:
    ...     bet(state, density, p)
    >>> f"{math.exp(log_capital(state)):.4g}"
    '1.065e+12'
    """
    for i in range(BETTORS - 1):
        jumper, rate = state[i], RATES[i]
        low = ((1 - rate) * jumper[3] + rate / 3) * (1.5 - p)
        none = (1 - rate) * jumper[4] + rate / 3
        high = ((1 - rate) * jumper[5] + rate / 3) * (0.5 + p)
        total = low + none + high
        jumper[PAID] = total
        jumper[3], jumper[4], jumper[5] = low / total, none / total, high / total
    piece, plug_in = min(int(p * PIECES), PIECES - 1), state[BETTORS - 1]
    idle, bold = (1 - SWITCHING) * plug_in[3] + SWITCHING / 2, (1 - SWITCHING) * (1 - plug_in[3]) + SWITCHING / 2
    bold *= PIECES * (density[piece] + 1) / (density.sum() + PIECES)
    plug_in[PAID], plug_in[3] = idle + bold, idle / (idle + bold)
    density *= 1 - 1 / MEMORY
    density[piece] += 1
    for i in range(BETTORS):
        state[i, LOG] += math.log(state[i, PAID])


def log_capital(state: Vector) -> float:
    """Return the log of the mean capital of all bettors and a constant capital of 1 (no bet)."""
    top = 0.0
    for i in range(BETTORS):
        top = max(top, state[i, LOG])
    total = math.exp(-top)
    for i in range(BETTORS):
        total += math.exp(state[i, LOG] - top)
    return top + math.log(total / (1 + BETTORS))


def gather(state: Vector, detector: int) -> float:
    """Update each bettor's change-detection statistic S with its last betting factor f; return the log of their mean.

    Shiryaev–Roberts: S ← (1 + S)·f, a sum over all possible change points. CUSUM: S ← max(1, S)·f, the
    maximum over them. Page (1954); Shiryaev (1963); Roberts (1966); for conformal bets Volkhonskiy and others (2017).

    >>> state = bettors()
    >>> state[:, PAID] = 1.5
    >>> math.exp(gather(state, SHIRYAEV_ROBERTS)), math.exp(gather(state, SHIRYAEV_ROBERTS))
    (1.5, 3.75)
    """
    total = 0.0
    for i in range(BETTORS):
        before = 1 + state[i, SUM] if detector == SHIRYAEV_ROBERTS else max(1.0, state[i, SUM])
        state[i, SUM] = before * state[i, PAID]
        total += state[i, SUM]
    return math.log(total / BETTORS)


def alarm_limit(detector: int, mean_time: float) -> float:
    """Return the alarm limit of a detector for a mean number of rows between false alarms.

    Under exchangeability, the Shiryaev–Roberts statistic minus the number of rows is a martingale. So its mean time to
    reach N is at least N, and the limit is `mean_time`. The CUSUM statistic is never larger than the Shiryaev–Roberts
    statistic, and reaches N far later. The limit of CUSUM is interpolated in a table of simulated mean times, or
    extrapolated in proportion to the mean time.

    >>> alarm_limit(SHIRYAEV_ROBERTS, 1000.0), alarm_limit(CUSUM, 840.0), alarm_limit(CUSUM, 600_000.0)
    (1000.0, 3.0, 1000.0)
    """
    if detector == SHIRYAEV_ROBERTS:
        return mean_time
    if mean_time > CUSUM_TIMES[-1]:
        return mean_time * CUSUM_LIMITS[-1] / CUSUM_TIMES[-1]
    return float(np.interp(mean_time, CUSUM_TIMES, CUSUM_LIMITS))


def follow(rises: Vector, since: Codes, p: float, rows: int) -> None:
    """Update the statistics that estimate a change point with the p-value p of row number `rows`.

    A bet of slope ε multiplies its capital by 1 + ε(p − ½). `rises` holds the log of the capital for each of the
    `SLOPES`. When this log falls below 0, it is reset to 0, and `since` is set to the number of this row. The change
    point is estimated by the last reset of the slope with the largest log capital.

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


def bin_of(score: float) -> int:
    """Return the histogram bin of a score, 0 to BINS − 1, from its sign, exponent and first digits.

    A larger score never has a smaller bin.

    >>> bin_of(0.0) == HALF, bin_of(-math.inf), bin_of(math.inf) == BINS - 1
    (True, 0, True)
    >>> bin_of(0.5) < bin_of(0.501) < bin_of(0.502), bin_of(0.5) == bin_of(0.5001)
    (True, True)
    """
    if math.isinf(score):
        return BINS - 1 if score > 0 else 0
    mantissa, exponent = math.frexp(abs(score))
    if mantissa == 0.0 or exponent <= SMALLEST:
        return HALF
    place = HALF - 1
    if exponent < LARGEST:
        place = ((exponent - SMALLEST) << DIGITS) + int((mantissa - 0.5) * (2 << DIGITS))
    return HALF + place if score > 0 else HALF - place


def add_to_tree(tree: Codes, place: int, count: int) -> None:
    """Add `count` scores to the bin with number `place` in a histogram, stored as a Fenwick tree for prefix sums.

    The tree has BINS + 1 entries; entry 0 holds the number of all scores.
    """
    tree[0] += count
    i = place + 1
    while i <= BINS:
        tree[i] += count
        i += i & -i


def prefix_sum(tree: Codes, place: int) -> int:
    """Return the number of scores in the bins 0 to `place` of a histogram that is stored as a Fenwick tree.

    >>> tree = np.zeros(BINS + 1, dtype=np.int64)
    >>> for score in (0.2, 0.5, 0.9):
    ...     add_to_tree(tree, bin_of(score), 1)
    >>> int(prefix_sum(tree, bin_of(0.5))), int(tree[0])
    (2, 3)
    """
    i, total = place + 1, 0
    while i > 0:
        total += tree[i]
        i &= i - 1
    return total


def log_risk_capital(n_missed: int, n_covered: int, rate: float) -> float:
    """Return the log capital of bets that the miss rate exceeds `rate`; capital is averaged over several stakes c.

    Each row multiplies the capital by 1 − c + c·x/rate, where x is 1 for a miss (a label outside its set), else 0.
    While the conditional probability of a miss is at most `rate`, the capital is a supermartingale. Waudby-Smith and
    Ramdas (2024), Estimating means of bounded random variables by betting.

    >>> round(log_risk_capital(30, 70, 0.1), 3), log_risk_capital(10, 90, 0.1) < 0
    (13.053, True)
    """
    logs = [n_missed * math.log1p(c / rate - c) + n_covered * math.log1p(-c) for c in STAKES]
    top = max(logs)
    return top + math.log(sum([math.exp(log - top) for log in logs]) / len(STAKES))


def risk_lower_bound(n_missed: int, n_covered: int, delta: float) -> float:
    """Compute an anytime-valid lower confidence bound on the miss rate: the largest rate that bets refute.

    A rate is refuted if bets that the miss rate exceeds it (see `log_risk_capital`) reach a capital of 1/delta.

    >>> round(risk_lower_bound(30, 70, 0.05), 3), risk_lower_bound(0, 100, 0.05)
    (0.172, 0.0)
    """
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS if n_missed else 0):
        middle = (low + high) / 2
        refuted = log_risk_capital(n_missed, n_covered, middle) >= -math.log(delta)
        low, high = (middle, high) if refuted else (low, middle)
    return low


def exp_capital(log: float) -> float:
    """Convert a log capital to a capital; the result is at most the largest finite float.

    >>> exp_capital(0.0), math.isfinite(exp_capital(1e6))
    (1.0, True)
    """
    return math.exp(min(log, LARGEST_LOG))
