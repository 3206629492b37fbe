"""Bets against "nothing has changed": capital that cannot be expected to grow while p-values are uniform.

A bettor turns the next p-value into a factor f(p) with ∫f = 1. While p-values are independent and
uniform, the capital is a martingale that starts at 1, so by Ville's inequality
P(it ever reaches 1/δ) ≤ δ. The same functions are compiled for use.
"""

import math

import numpy as np

from pippin._runtime.arrays import Codes, Vector

RATES = (1e-4, 1e-3, 1e-2, 1e-1)  # how often each jumper changes what it bets on
SLOPES = (-1.0, -0.25, 0.25, 1.0)  # of the bets that look for the beginning of a change


def jumpers() -> Vector:
    """A simple jumper of each rate before its first bet: the logarithm of its capital, and the shares of its parts."""
    return np.tile([0.0, 1 / 3, 1 / 3, 1 / 3], (len(RATES), 1))


def bet(capitals: Vector, p: float) -> None:
    """Multiplies each jumper's capital by what the p-value pays.

    A jumper of rate J holds its capital in three parts, ε = −1, 0, 1. Before each bet a share J of it is
    divided anew among the three; then part ε is multiplied by 1 + ε(p − ½). So small p-values, large ones,
    and changes between the two all pay. Logarithms and shares neither overflow nor vanish. Vovk, Petej,
    Nouretdinov, Ahlberg, Carlsson, Gammerman (2021), Retrain or not retrain.

    >>> capitals = jumpers()
    >>> for p in (0.01,) * 20:
    ...     bet(capitals, p)
    >>> round(math.exp(log_capital(capitals)), 1)
    625.7
    """
    for i in range(len(RATES)):
        one, rate = capitals[i], RATES[i]
        low = ((1 - rate) * one[1] + rate / 3) * (1.5 - p)
        none = (1 - rate) * one[2] + rate / 3
        high = ((1 - rate) * one[3] + rate / 3) * (0.5 + p)
        total = low + none + high
        one[0] += math.log(total)
        one[1], one[2], one[3] = low / total, none / total, high / total


def log_capital(capitals: Vector) -> float:
    """The logarithm of the mean capital of the jumpers and of one who does not bet (the composite jumper)."""
    top = 0.0
    for i in range(len(RATES)):
        top = max(top, capitals[i, 0])
    held = math.exp(-top)
    for i in range(len(RATES)):
        held += math.exp(capitals[i, 0] - top)
    return top + math.log(held / (1 + len(RATES)))


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
