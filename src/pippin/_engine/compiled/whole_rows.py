"""All classes of a row ranked, and scored: compiled.

The loops are made for float64 alone, which holds every float32: next to sorting a row, copying it is nothing.
"""

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled.build import BEST, compiled, compiled_score_at, making, part
from pippin._engine.compiled.in_order import lowest_price_in_order
from pippin._runtime.arrays import Floats, Indices, Vector, read_only
from pippin._theory.formula import ABOVE, Coefficients


@compiled
def _keys(bits: NDArray[np.uint32], keys: NDArray[np.uint64]) -> None:
    """Whole numbers whose order is the ranking: the probability's bits upside down, then the class."""
    for i in range(bits.shape[0]):
        for k in range(bits.shape[1]):
            falling = np.uint64(~(bits[i, k] & np.uint32(0x7FFFFFFF)))  # −0.0 is 0
            keys[i, k] = (falling << np.uint64(32)) | np.uint64(k)


def whole_order(block: Floats) -> NDArray[np.uint64]:
    """The classes of each row by falling probability in the low 32 bits; `rank_all` settles what is equal."""
    if block.dtype != np.float32:
        return np.argsort(-block, axis=1).astype(np.uint64)
    keys = np.empty(block.shape, np.uint64)
    _keys(block.view(np.uint32), keys)
    keys.sort(axis=1)
    return keys


def widened(block: Floats) -> Vector:
    """The block in float64."""
    return read_only(block.astype(np.float64, copy=False))


@making
def rank_all(row: Floats, order: NDArray[np.uint64], values: Floats, classes: Indices) -> None:
    """The whole ranking of a row; equal probabilities stand together in `order`, and go by class index."""
    settled = True
    for rank in range(row.size):
        classes[rank] = np.int32(order[rank] & np.uint64(0xFFFFFFFF))
        values[rank] = row[classes[rank]]
        settled &= rank == 0 or values[rank] != values[rank - 1] or classes[rank] > classes[rank - 1]
    first = row.size if settled else 0
    for rank in range(first + 1, row.size + 1):
        if rank == row.size or values[rank] != values[first]:
            classes[first:rank].sort()
            first = rank


@part
def scores_down(values: Floats, c: Coefficients, u: float, scores: Vector) -> None:
    """The scores of a row that is ranked whole, by rank."""
    mass = c.second * values[1]
    scores[0] = compiled_score_at(c, BEST, np.float64(values[0]), mass, u)
    mass = 0.0
    if not np.isnan(c.price):
        mass = lowest_price_in_order(values, c.price)
    for rank in range(1, values.size):
        mass += c.table[rank - 1, ABOVE] * values[rank - 1]
        scores[rank] = compiled_score_at(c, rank, np.float64(values[rank]), mass, u)


@compiled
def _class_scores(block: Floats, order: NDArray[np.uint64], c: Coefficients, u: Vector, scores: Vector) -> None:
    n, n_classes = block.shape
    values = np.empty(n_classes, block.dtype)
    classes = np.empty(n_classes, np.int32)
    down = np.empty(n_classes)
    for i in range(n):
        rank_all(block[i], order[i], values, classes)
        scores_down(values, c, u[i], down)
        for rank in range(n_classes):
            scores[i, classes[rank]] = down[rank]


def class_scores(block: Floats, c: Coefficients, u: Vector) -> Vector:
    """The score of every class, in the columns' own order."""
    scores = np.empty(block.shape)
    _class_scores(widened(block), whole_order(block), c, u, scores)
    return scores
