"""The formula on whole blocks, every class ranked."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pippin._engine.protocol import Bounds, Places
from pippin._runtime.arrays import Codes, Floats, Indices, T, Vector
from pippin._theory.formula import ABOVE, Coefficients, score_at


def ranked_order(block: Floats) -> NDArray[np.intp]:
    """Class indices of each row, most probable first, equal ones by index."""
    return np.argsort(-block, axis=1, kind="stable")


def class_scores(block: Floats, c: Coefficients, u: Vector) -> Vector:
    """The score of every class, in the columns' own order."""
    order, p, mass = _ranked(block, c)
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, _by_rank(c, p, mass, u), axis=1)
    return scores


def label_places(block: Floats, labels: Codes, c: Coefficients, u: Vector) -> tuple[Places, Vector, int]:
    """The place of one class per row, and its score."""
    order, p, mass = _ranked(block, c)
    row = np.arange(len(block), dtype=np.int32)
    rank = (order == labels[:, None]).argmax(axis=1).astype(np.int32)
    places = Places(row, rank, p[row, rank], mass[row, rank])
    return places, at_places(places, c)(u), 0


def label_scores(block: Floats, labels: Codes, c: Coefficients, u: Vector, scores: Vector) -> int:
    """Fills in the score of one class per row."""
    scores[:] = label_places(block, labels, c, u)[1]
    return 0


def at_places(places: Places, c: Coefficients) -> Callable[[Vector], Vector]:
    """The scores of some places as a function of u, one number per row."""
    here = c._replace(table=c.table[places.rank])

    def scores(u: Vector) -> Vector:
        with np.errstate(divide="ignore", over="ignore"):
            made: Vector = score_at(here, slice(None), places.p, places.mass, u[places.row])
        return made

    return scores


def members(block: Floats, c: Coefficients, bounds: Bounds, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """Fills in how many classes each row's set has; returns all members row after row, best first."""
    order, p, mass = _ranked(block, c)
    inside = _by_rank(c, p, mass, u) <= _by_order(bounds.scores, bounds.group, order)
    if bounds.ranks is not None:
        inside &= np.arange(p.shape[1]) < _by_order(bounds.ranks, bounds.group, order)
    sizes[:] = inside.sum(axis=1)
    return order[inside].astype(np.int32), 0


def _by_order(limits: NDArray[T], group: Codes | None, order: NDArray[np.intp]) -> NDArray[T]:
    """Each row's own limits, in the order of its classes."""
    own = limits[np.zeros(len(order), dtype=np.intp) if group is None else group]
    return np.take_along_axis(own, order, axis=1) if own.shape[1] > 1 else own


def band(block: Floats, c: Coefficients, low: float, high: float) -> tuple[Codes, Places]:
    """Sizes that every threshold from `low` to `high` reaches, and the places that some reach.

    For every u in [0, 1]: a place's score grows with u.
    """
    _, p, mass = _ranked(block, c)
    ones = np.ones(len(block))
    always = _by_rank(c, p, mass, ones) <= low
    row, rank = np.nonzero(~always & (_by_rank(c, p, mass, 0 * ones) <= high))
    return always.sum(axis=1), Places(row.astype(np.int32), rank.astype(np.int32), p[row, rank], mass[row, rank])


def _by_rank(c: Coefficients, p: Vector, mass: Vector, u: Vector) -> Vector:
    with np.errstate(divide="ignore", over="ignore"):
        scores: Vector = score_at(c, np.arange(p.shape[1]), p, mass, u[:, None])
    return scores


def _ranked(block: Floats, c: Coefficients) -> tuple[NDArray[np.intp], Vector, Vector]:
    """The order of each row's classes, and p and M by rank."""
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
    """SOCOP's τ, reached by walking m = 2, 3, … as long as the ratio falls."""
    with np.errstate(divide="ignore", over="ignore"):
        ratio = (np.arange(1, below.shape[1] + 1) + price) / np.cumsum(below, axis=1)
    falls = np.zeros(ratio.shape, dtype=bool)
    falls[:, :-1] = ratio[:, 1:] < ratio[:, :-1]
    tau: Vector = ratio[np.arange(len(ratio)), (~falls).argmax(axis=1)]
    return tau
