"""The one formula of all scores, and what each of them puts into it: a table of coefficients over ranks.

Sort a row so that p[1] >= ... >= p[K]. A linear score of the class at rank r is

    s(r) = c + (a_r + u·a'_r)·p[r] + M_r + (g_r + u·g'_r)
    M_1 = b·p[2],  M_r = Σ_{j<r} w_j·p[j]

with u uniform in (0, 1) for a randomised score. SOCOP alone is not linear:

    s(r) = max(1/p[r], M_r),  M_1 = 0,  M_r = τ = min_{m>=2} (m − 1 + μ)/(p[2] + … + p[m])

`score_at` is the formula. `plain.py` and `kernels.py` find p[r] and M_r for it.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Value = float | int | bool | tuple[float, ...]
Vector = NDArray[np.float64]

OWN, OWN_U, ABOVE, PENALTY, PENALTY_U = range(5)


class Coefficients(NamedTuple):
    """The formula's numbers for K classes.

    `table[r - 1]` holds (a_r, a'_r, w_r, g_r, g'_r). `price` is SOCOP's μ, and NaN for
    every linear score. `reach` says how many of the best classes count beside a class's own
    probability: 0 for IP, 1 for the margin (whose best class looks at the second), else all.
    """

    constant: float
    second: float
    price: float
    reach: int
    table: Vector


Parts = tuple[float, float, float, int, Vector]  # Coefficients without their names, which compiled code reads faster


class Family(NamedTuple):
    """A named score before its parameters are filled in."""

    defaults: dict[str, Value]
    coefficients: Callable[..., Coefficients]


def score_at(c: Coefficients, rank: Any, p: Any, mass: Any, u: Any) -> Any:
    """s at `rank` (counted from 0): of numbers in compiled code, of whole arrays in NumPy."""
    if np.isnan(c.price):
        own = c.table[rank, OWN] + u * c.table[rank, OWN_U]
        return (c.constant + own * p) + mass + (c.table[rank, PENALTY] + u * c.table[rank, PENALTY_U])
    return np.maximum(1.0 / (p + 0.0), mass)  # a probability of -0.0 counts as 0


def _linear_table(
    ranks: Vector,
    *,
    constant: float = 0.0,
    own: float | Vector = 0.0,
    own_u: float | Vector = 0.0,
    above: float | Vector = 0.0,
    penalty: float | Vector = 0.0,
    penalty_u: float | Vector = 0.0,
    second: float = 0.0,
) -> Coefficients:
    table = np.empty((ranks.size, 5))
    for column, values in enumerate((own, own_u, above, penalty, penalty_u)):
        table[:, column] = values
    return Coefficients(constant, second, math.nan, _reach(second, table), table)


def _reach(second: float, table: Vector) -> int:
    alike = bool((table[1:] == table[1]).all()) and not table[1:, ABOVE].any() and table[1, OWN] < 0
    if not alike or table[:, (OWN_U, PENALTY_U)].any():
        return len(table)
    return int(second != 0.0 or bool((table[0] != table[1]).any()))


def _adaptive(r: Vector, randomized: bool, lam: float = 0.0, k_reg: int = 0) -> Coefficients:
    penalty = lam * np.maximum(r - k_reg, 0.0)
    return _linear_table(r, own=float(not randomized), own_u=float(randomized), above=1.0, penalty=penalty)


def _penalized(r: Vector, beta: float, gamma: float = 0.0, k_reg: int = 0) -> Coefficients:
    penalty = gamma * np.maximum(r - k_reg, 0.0)
    weights = 1.0 / r if beta == 1.0 else r**-beta
    return _linear_table(r, constant=1.0, own=-1.0, above=weights, penalty=penalty)


def _sorted_adaptive(r: Vector, lam: float, randomized: bool) -> Coefficients:
    first = (r == 1.0).astype(np.float64)
    below = lam * (r - 2.0 + float(not randomized)) * (1.0 - first)
    return _linear_table(
        r,
        own=first * (not randomized),
        own_u=first * randomized,
        above=first,
        penalty=below,
        penalty_u=lam * (1.0 - first) * randomized,
    )


def _custom(r: Vector, weights: tuple[float, ...], penalties: tuple[float, ...]) -> Coefficients:
    above, penalty = (np.array(v)[np.minimum(r.astype(int) - 1, len(v) - 1)] for v in (weights, penalties))
    return _linear_table(r, constant=1.0, own=-1.0, above=above, penalty=penalty)


FAMILIES: dict[str, Family] = {
    "ip": Family({}, lambda r: _linear_table(r, constant=1.0, own=-1.0)),
    "margin": Family({}, lambda r: _linear_table(r, own=-1.0, above=(r == 1.0).astype(float), second=1.0)),
    "aps": Family({"randomized": True}, _adaptive),
    "raps": Family({"lam": 0.02, "k_reg": 3, "randomized": True}, _adaptive),
    "pip": Family({"beta": 1.0}, _penalized),
    "repip": Family({"gamma": 0.02, "k_reg": 3, "beta": 1.0}, _penalized),
    "saps": Family({"lam": 0.1, "randomized": True}, _sorted_adaptive),
    "topk": Family({}, lambda r: _linear_table(r, penalty=r)),
    "socop": Family({"mu": 8.0}, lambda r, mu: _linear_table(r)._replace(price=mu)),
    "linear": Family({"weights": (), "penalties": (0.0,)}, _custom),
}
