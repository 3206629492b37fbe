"""Formula of all nonconformity scores, and the coefficients of each: a table with one row per rank.

Sort the probabilities of a row so that p[1] >= ... >= p[K]. A linear score (linear in the probabilities) of the class
at rank r is

    s(r) = c + (a_r + u·a'_r)·p[r] + M_r + (g_r + u·g'_r)
    M_1 = b·p[2],  M_r = Σ_{j<r} w_j·p[j]

where M_r sums weighted probabilities of the other classes, g_r is the penalty of rank r, and u is a random number,
uniform in (0, 1), for a randomized score. The coefficients b, c, a_r, a'_r, g_r, g'_r and w_j define the score. SOCOP
alone is not linear:

    s(r) = max(1/p[r], M_r),  M_1 = 0,  M_r = τ = min_{m>=2} (m − 1 + μ)/(p[2] + … + p[m])

`formula` computes s from p[r] and M_r, which the engines compute.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pippin._runtime.arrays import Vector

Value = float | int | bool | tuple[float, ...]
Column = float | Vector

OWN, OWN_U, ABOVE, PENALTY, PENALTY_U = range(5)


class Coefficients(NamedTuple):
    """Coefficients of the score of the class at rank r = 1 … K: c + (a_r + u·a'_r)·p[r] + M_r + (g_r + u·g'_r).

    p[r] is the r-th largest probability, and u the random number of a randomized score. M_r is the term of the other
    classes: M_1 = b·p[2] at rank 1, and M_r = Σ_{j<r} w_j·p[j] at later ranks.

    Attributes:
        constant: c, added to every score.
        second: b, the factor of the second largest probability in the score of the most probable class.
        price: μ of SOCOP, which has another formula (see the module docstring); NaN for all other scores.
        reach: number of classes, from the most probable one on, whose probabilities enter the scores of less probable
            classes: 0 for IP, 1 for the margin score, and K in general.
        table: one row per rank r with the columns a_r, a'_r, w_r, g_r and g'_r.
    """

    constant: float
    second: float
    price: float
    reach: int
    table: Vector


class Family(NamedTuple):
    """Family of scores: named parameters, and a function that computes the coefficients of a score from them.

    The score of the class at rank R is a sum of weighted probabilities of this class and of other classes, with
    penalties. Let p[1] ≥ … ≥ p[K] be the probabilities of an object, and u a random number, uniform in (0, 1). Then

    - at rank 1: constant + (own[1] + u·own_u[1])·p[1] + second·p[2] + penalty[1] + u·penalty_u[1],
    - at ranks R > 1: constant + (own[R] + u·own_u[R])·p[R] + Σ_{r<R} above[r]·p[r] + penalty[R] + u·penalty_u[R].

    Attributes:
        defaults: the parameters by name with their default values: numbers, truth values or tuples of numbers.
        coefficients: a function of the array of ranks 1 … K and of the parameters. It returns a dictionary of the
            coefficients above; those left out are 0. `constant` and `second` are numbers, the others are numbers or
            arrays with a number for each rank.

    >>> import pippin
    >>> def steep(ranks, power):
    ...     return {"constant": 1, "own": -1, "above": ranks**-power}
    >>> pippin.scores.Family({"power": 2.0}, steep).defaults
    {'power': 2.0}
    """

    defaults: Mapping[str, Value]
    coefficients: Callable[..., Mapping[str, Column]]


def formula(table: Any, constant: float, price: float, rank: Any, p: Any, mass: Any, u: Any) -> Any:
    """Compute the score of the class at `rank` (from 0) with the probability `p`.

    `mass` is the term M_r of the other classes' probabilities. `table`, `constant` and `price` are those of the
    score's `Coefficients`. Compiled code passes scalars, NumPy code arrays.
    """
    if np.isnan(price):
        own = table[rank, OWN] + u * table[rank, OWN_U]
        return (constant + own * p) + mass + (table[rank, PENALTY] + u * table[rank, PENALTY_U])
    return np.maximum(1.0 / (p + 0.0), mass)  # adding 0.0 turns -0.0 into 0.0, so that 1/p is +∞


def score_at(c: Coefficients, rank: Any, p: Any, mass: Any, u: Any) -> Any:
    """Compute the score of the class at `rank` (from 0) with the probability `p`, from the score's coefficients `c`."""
    return formula(c.table, c.constant, c.price, rank, p, mass, u)


COLUMNS = ("own", "own_u", "above", "penalty", "penalty_u")
NUMBERS = ("constant", "second", "price")


def make_table(ranks: Vector, terms: Mapping[str, Column]) -> Coefficients:
    """Create `Coefficients` from the coefficients that a family of scores returns by name.

    Coefficients of a linear score that are missing are 0.
    """
    table = np.empty((ranks.size, len(COLUMNS)))
    for column, name in enumerate(COLUMNS):
        table[:, column] = terms.get(name, 0.0)
    table.flags.writeable = False
    constant, second = (float(terms.get(name, 0.0)) for name in ("constant", "second"))
    return Coefficients(constant, second, float(terms.get("price", math.nan)), reach_of(second, table), table)


def reach_of(second: float, table: Vector) -> int:
    """Return how many of the largest probabilities enter the scores of less probable classes: 0, 1 or K.

    For 1, the score of a less probable class depends only on its own probability and on the largest one.
    """
    alike = bool((table[1:] == table[1]).all()) and not table[1:, ABOVE].any() and table[1, OWN] < 0
    if not alike or table[:, (OWN_U, PENALTY_U)].any():
        return len(table)
    return int(second != 0.0 or bool((table[0] != table[1]).any()))


def first_fall(c: Coefficients) -> int | None:
    """Find the first rank at which a score can be smaller than at the rank before; None if it never decreases.

    The score must be linear in the probabilities.

    The difference s(r + 1) − s(r) of successive scores is linear in the probabilities p[r] and p[r + 1] and in the
    random number u. So it is smallest where each of them has its smallest or its largest possible value, and only these
    combinations are computed.

    >>> first_fall(make_table(np.array([1.0, 2.0, 3.0]), {"own": 1.0}))
    2
    """
    rank = np.arange(1, len(c.table))
    falls = np.zeros(len(rank), dtype=bool)
    for u in (0.0, 1.0):
        own = c.table[:, OWN] + u * c.table[:, OWN_U]
        step = np.diff(c.table[:, PENALTY] + u * c.table[:, PENALTY_U])
        above, second = c.table[:-1, ABOVE], np.where(rank == 1, c.second, 0.0)
        alone = (above - own[:-1]) / rank + step
        equal = (above + np.diff(own) - second) / (rank + 1) + step
        falls |= (step < 0) | (alone < 0) | (equal < 0)
    return int(rank[falls.argmax()]) + 1 if falls.any() else None


def _adaptive(r: Vector, randomized: bool, lam: float = 0.0, k_reg: int = 0) -> Mapping[str, Column]:
    penalty = lam * np.maximum(r - k_reg, 0.0)
    return {"own": float(not randomized), "own_u": float(randomized), "above": 1.0, "penalty": penalty}


def _penalized(r: Vector, beta: float, gamma: float = 0.0, k_reg: int = 0) -> Mapping[str, Column]:
    weights = 1.0 / r if beta == 1.0 else r**-beta
    return {"constant": 1.0, "own": -1.0, "above": weights, "penalty": gamma * np.maximum(r - k_reg, 0.0)}


def _sorted_adaptive(r: Vector, lam: float, randomized: bool) -> Mapping[str, Column]:
    first = (r == 1.0).astype(np.float64)
    return {
        "own": first * (not randomized),
        "own_u": first * randomized,
        "above": first,
        "penalty": lam * (r - 2.0 + float(not randomized)) * (1.0 - first),
        "penalty_u": lam * (1.0 - first) * randomized,
    }


def _custom(r: Vector, weights: tuple[float, ...], penalties: tuple[float, ...]) -> Mapping[str, Column]:
    above, penalty = (np.array(v)[np.minimum(r.astype(int) - 1, len(v) - 1)] for v in (weights, penalties))
    return {"constant": 1.0, "own": -1.0, "above": above, "penalty": penalty}


FAMILIES: dict[str, Family] = {
    "ip": Family({}, lambda r: {"constant": 1.0, "own": -1.0}),
    "margin": Family({}, lambda r: {"own": -1.0, "above": (r == 1.0).astype(float), "second": 1.0}),
    "aps": Family({"randomized": True}, _adaptive),
    "raps": Family({"lam": 0.02, "k_reg": 3, "randomized": True}, _adaptive),
    "pip": Family({"beta": 1.0}, _penalized),
    "repip": Family({"gamma": 0.02, "k_reg": 3, "beta": 1.0}, _penalized),
    "saps": Family({"lam": 0.1, "randomized": True}, _sorted_adaptive),
    "topk": Family({}, lambda r: {"penalty": r}),
    "socop": Family({"mu": 8.0}, lambda r, mu: {"price": mu}),
    "linear": Family({"weights": (), "penalties": (0.0,)}, _custom),
}
OURS = frozenset(FAMILIES)
