"""Bets that misses are more frequent than some rate: a lower bound on it that holds at all times at once.

A bettor who stakes a share c multiplies its capital by 1 − c + c·x/m, x = 1 for a miss and 0 for a hit. While
the chance of a miss, given all before, is at most m, that is at most 1 in the mean, so by Ville's inequality
P(the mean capital over several c ever reaches 1/δ) ≤ δ. Waudby-Smith and Ramdas (2024), Estimating means of
bounded random variables by betting.
"""

import math

SHARES = tuple(2.0**-j for j in range(1, 11))  # of the capital that is staked
ROUNDS = 60  # of bisection: as exact as a float


def log_capital(missed: int, hit: int, rate: float) -> float:
    """The logarithm of the mean capital after so many misses and hits, against this rate.

    >>> round(log_capital(30, 70, 0.1), 3), log_capital(10, 90, 0.1) < 0
    (13.053, True)
    """
    logs = [missed * math.log1p(c / rate - c) + hit * math.log1p(-c) for c in SHARES]
    top = max(logs)
    return top + math.log(sum([math.exp(one - top) for one in logs]) / len(SHARES))


def lowest_rate(missed: int, hit: int, delta: float) -> float:
    """The largest rate that the capital has refuted: it falls as the rate rises.

    >>> round(lowest_rate(30, 70, 0.05), 3), lowest_rate(0, 100, 0.05)
    (0.172, 0.0)
    """
    low, high = 0.0, 1.0
    for _ in range(ROUNDS if missed else 0):
        middle = (low + high) / 2
        refuted = log_capital(missed, hit, middle) >= -math.log(delta)
        low, high = (middle, high) if refuted else (low, middle)
    return low
