"""Scores and conformal p-values of all classes, with every row ranked completely.

The loops are compiled for float64 only: converting float32 takes little time compared with sorting.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine.numba_engine.compilation import entry_point, part
from pippin._engine.numba_engine.rowwise import Numbers, compiled_formula, lowest_ratio
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE

_STEPS = 4  # number of scores that a search compares one by one before binary search


def order_of(block: Floats) -> NDArray[np.int64]:
    """Return the classes of each row in descending order of probability, ties in the order of the classes."""
    if block.dtype == np.float32:
        patterns = block.view(np.int32).astype(np.int64) & 0x7FFFFFFF  # clear the sign of -0.0, which counts as 0
        keys = (0x7FFFFFFF - patterns) << 32  # keys are integers, which NumPy sorts with SIMD
        keys |= np.arange(block.shape[1])
        keys.sort(axis=1)
        return keys & 0x7FFFFFFF
    order = np.argsort(-block, axis=1)  # uses SIMD, but is not stable, so rows with ties are sorted again
    ranked = np.take_along_axis(block, order, axis=1)
    tied = (ranked[:, 1:] == ranked[:, :-1]).any(axis=1)
    order[tied] = np.argsort(-block[tied], axis=1, kind="stable")
    return order


@part
def _scores_by_rank(block: Vector, i: int, order: Codes, table: Vector, c: Numbers, u: float, scores: Vector) -> None:
    """Write the score at every rank of row i; `order` holds its classes, most probable first."""
    mass = c.second * block[i, order[1]]
    for rank in range(order.size):
        scores[rank] = compiled_formula(table, c.constant, c.price, rank, block[i, order[rank]], mass, u)
        if np.isnan(c.price):
            mass = (0.0 if rank == 0 else mass) + table[rank, ABOVE] * block[i, order[rank]]
        elif rank == 0:
            mass = lowest_ratio(block, i, order, c.price, -np.inf, order.size, 1, 0.0, np.inf)[2]


@entry_point
def class_scores(block: Vector, orders: Codes, table: Vector, numbers: Any, u: Vector, scores: Vector) -> None:
    """Write the scores of all classes, in the order of the columns; `orders` ranks the classes of each row."""
    n_classes = block.shape[1]
    by_rank = np.empty(n_classes)
    for i in range(block.shape[0]):
        order = orders[i]
        _scores_by_rank(block, i, order, table, Numbers(*numbers), u[i], by_rank)
        for rank in range(n_classes):
            scores[i, order[rank]] = by_rank[rank]


@entry_point
def run_ends(scores: Vector, offsets: Codes) -> Codes:
    """Return for each sorted score the index after the last score that equals it in its category."""
    ends = np.empty(scores.size, np.int64)
    for category in range(offsets.size - 1):
        stop = offsets[category + 1]
        for i in range(stop - 1, offsets[category] - 1, -1):
            ends[i] = ends[i + 1] if i + 1 < stop and scores[i + 1] == scores[i] else i + 1
    return ends


@part
def _first_at_least(scores: Vector, low: int, stop: int, score: float) -> int:
    """Return the first index from `low` on whose score is at least `score`, or `stop` if there is none before.

    The search is linear at first, then binary.
    """
    near = min(low + _STEPS, stop)
    while low < near and scores[low] < score:
        low += 1
    left = stop - low if low == near else 0
    while left > 0:
        half = (left + 1) >> 1
        low += half * (scores[low + half - 1] < score)
        left -= half
    return low


@entry_point
def p_values(
    block: Vector,
    orders: Codes,
    table: Vector,
    numbers: Any,
    u: Vector,
    v: Vector,
    group: Codes,
    categories: Indices,
    offsets: Codes,
    calibration: Vector,
    ends: Codes,
    p: Vector,
) -> None:
    """Write the p-value of every class among the sorted calibration scores of its Mondrian category.

    `categories` and `offsets` are the fields `lookup` and `offsets` of `SortedScores`; `ends` is the result of
    `run_ends`. `v` holds the random number of each row for smoothed p-values, or a negative number for p-values that
    are not smoothed. Scores do not decrease with the rank, so while the category stays the same, the search continues
    from the last position.
    """
    n_classes = block.shape[1]
    by_rank = np.empty(n_classes)
    for i in range(block.shape[0]):
        order = orders[i]
        _scores_by_rank(block, i, order, table, Numbers(*numbers), u[i], by_rank)
        last, low = -1, 0
        for rank in range(n_classes):
            k, score = order[rank], by_rank[rank]
            category = categories[group[i], k]
            begin, stop = offsets[category], offsets[category + 1]
            low = _first_at_least(calibration, low if category == last else begin, stop, score)
            high = ends[low] if low < stop and calibration[low] == score else low
            larger, equal = stop - high, high - low
            if v[i] < 0:
                p[i, k] = (1 + larger + equal) / (stop - begin + 1)
            else:
                p[i, k] = (larger + v[i] * (1 + equal)) / (stop - begin + 1)
            last = category
