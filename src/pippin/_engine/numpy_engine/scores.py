"""The formula on whole blocks: every class is ranked."""

import numpy as np
from numpy.typing import NDArray

from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Codes, Flags, Floats, Indices, T, Vector
from pippin._theory.formula import ABOVE, Coefficients, score_at


def ranked_order(block: Floats) -> NDArray[np.intp]:
    """Return the classes of each row by falling probability, ties by rising class."""
    return np.argsort(-block, axis=1, kind="stable")


def class_scores(block: Floats, c: Coefficients, u: Vector) -> Vector:
    """Return the score of every class, in the columns' own order."""
    order, p, mass = _ranked(block, c)
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, _by_rank(c, p, mass, u), axis=1)
    return scores


def label_scores(block: Floats, labels: Codes, c: Coefficients, u: Vector, scores: Vector) -> int:
    """Write the score of one class per row."""
    scores[:] = class_scores(block, c, u)[np.arange(len(block)), labels]
    return 0


def members(block: Floats, c: Coefficients, bounds: Bounds, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """Write the sizes of all sets; return their members, best first."""
    order, p, mass = _ranked(block, c)
    inside = _by_rank(c, p, mass, u) <= _by_order(bounds.scores, bounds.group, order)
    if bounds.ranks is not None:
        inside &= np.arange(p.shape[1]) < _by_order(bounds.ranks, bounds.group, order)
    sizes[:] = inside.sum(axis=1)
    return order[inside].astype(np.int32), 0


def _by_order(limits: NDArray[T], group: Codes | None, order: NDArray[np.intp]) -> NDArray[T]:
    """Return the limits of each row's group, in the order of its classes."""
    own = limits[np.zeros(len(order), dtype=np.intp) if group is None else group]
    return np.take_along_axis(own, order, axis=1) if own.shape[1] > 1 else own


def sets_by_rank(block: Floats, c: Coefficients, low: float, high: float) -> tuple[Flags, Flags, Vector, Vector]:
    """Return masks of the sets at `low` for every u and at `high` for some u, and p and M; all (n, K) by rank."""
    _, p, mass = _ranked(block, c)
    ones = np.ones(len(block))
    return _by_rank(c, p, mass, ones) <= low, _by_rank(c, p, mass, 0 * ones) <= high, p, mass


def _by_rank(c: Coefficients, p: Vector, mass: Vector, u: Vector) -> Vector:
    with np.errstate(divide="ignore", over="ignore"):
        scores: Vector = score_at(c, np.arange(p.shape[1]), p, mass, u[:, None])
    return scores


def _ranked(block: Floats, c: Coefficients) -> tuple[NDArray[np.intp], Vector, Vector]:
    """Return the order of each row's classes, and p and M by rank."""
    order = ranked_order(block)
    p = np.take_along_axis(block, order, axis=1).astype(np.float64)
    mass = np.empty_like(p)
    if np.isnan(c.price):
        mass[:, 0] = c.second * p[:, 1]
        np.cumsum(c.table[:-1, ABOVE] * p[:, :-1], axis=1, out=mass[:, 1:])
    else:
        mass[:, 0] = 0.0
        mass[:, 1:] = _lowest_price(p[:, 1:], c.price)[:, None]
    return order, p, mass


def _lowest_price(below: Vector, price: float) -> Vector:
    """Return SOCOP's τ, the ratio at the m from which on it no longer falls, m = 2, 3, …"""
    with np.errstate(divide="ignore", over="ignore"):
        ratio = (np.arange(1, below.shape[1] + 1) + price) / np.cumsum(below, axis=1)
    falls = np.zeros(ratio.shape, dtype=bool)
    falls[:, :-1] = ratio[:, 1:] < ratio[:, :-1]
    tau: Vector = ratio[np.arange(len(ratio)), (~falls).argmax(axis=1)]
    return tau
