"""The formula in NumPy: whole blocks, every class, no early stop.

Small data use it, because compiling would cost more than it saves. The loops of
`kernels.py` give the same bits; this is what they are tested against.
"""

import numpy as np
from numpy.typing import NDArray

from pippin.ranking import Floats, ranked_order
from pippin.scores import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients

Vector = NDArray[np.float64]


def scores_by_rank(ranked: Vector, c: Coefficients, u: Vector) -> Vector:
    """s(1) … s(K) of each row, from its probabilities in decreasing order."""
    if not np.isnan(c.price):
        return _singleton_optimised(ranked, c.price)
    own, above, penalty = c.table[:, OWN], c.table[:, ABOVE], c.table[:, PENALTY]
    u = u[:, None]
    mass_above = np.zeros_like(ranked)
    np.cumsum(above[:-1] * ranked[:, :-1], axis=1, out=mass_above[:, 1:])
    s = c.constant + (own + u * c.table[:, OWN_U]) * ranked
    s += mass_above
    s += penalty + u * c.table[:, PENALTY_U]
    s[:, 0] += c.second * ranked[:, 1]
    return s


def class_scores(block: Floats, c: Coefficients, u: Vector) -> Vector:
    """The score of every class, in the columns' own order."""
    order, by_rank = _ranked(block, c, u)
    scores = np.empty_like(by_rank)
    np.put_along_axis(scores, order, by_rank, axis=1)
    return scores


def label_scores(block: Floats, labels: NDArray[np.int64], c: Coefficients, u: Vector) -> Vector:
    """The score of one class per row."""
    order, by_rank = _ranked(block, c, u)
    rank = (order == labels[:, None]).argmax(axis=1)
    scores: Vector = by_rank[np.arange(len(rank)), rank]
    return scores


def members(block: Floats, c: Coefficients, threshold: float, u: Vector) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """How many classes each row's set has, and all members row after row, best first."""
    order, by_rank = _ranked(block, c, u)
    inside = by_rank <= threshold
    return inside.sum(axis=1), order[inside].astype(np.int32)


def _ranked(block: Floats, c: Coefficients, u: Vector) -> tuple[NDArray[np.intp], Vector]:
    order = ranked_order(block)
    ranked = np.take_along_axis(block, order, axis=1).astype(np.float64)
    return order, scores_by_rank(ranked, c, u)


def _singleton_optimised(ranked: Vector, price: float) -> Vector:
    """max(1/p[r], τ) below rank 1; τ is reached by walking m = 2, 3, … while the ratio falls."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = 1.0 / (ranked + 0.0)  # a probability of -0.0 counts as 0
        below = ranked[:, 1:]
        ratio = (np.arange(1, below.shape[1] + 1) + price) / np.cumsum(below, axis=1)
    falls = np.zeros(ratio.shape, dtype=bool)
    falls[:, :-1] = ratio[:, 1:] < ratio[:, :-1]
    tau = ratio[np.arange(len(ratio)), (~falls).argmax(axis=1)]
    s: Vector = np.maximum(inverse, tau[:, None])
    s[:, 0] = inverse[:, 0]
    return s
