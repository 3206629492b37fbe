"""p-values in a compiled loop that walks down each row's ranking.

Scores grow with the rank. Where one cell speaks for all classes of a row, the place among
its scores therefore only moves up: a step or two at most ranks, and a search where it
jumps. Where cells differ they are small, and each is searched.
"""

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled.engine import rank_all, scores_down
from pippin._engine.compiled.walk import compiled, is_broken, is_doubtful, total
from pippin._engine.plain import Indices, Vector
from pippin._inputs.rows import Floats
from pippin._theory.formula import Coefficients

STEPS = 4  # taken one by one before the rest of the cell is halved


@compiled
def run_ends(scores: Vector, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the scores equal to each one end, within its cell."""
    ends = np.empty(scores.size, np.int64)
    for cell in range(offsets.size - 1):
        stop = offsets[cell + 1]
        for i in range(stop - 1, offsets[cell] - 1, -1):
            ends[i] = ends[i + 1] if i + 1 < stop and scores[i + 1] == scores[i] else i + 1
    return ends


@compiled
def _first_at_least(scores: Vector, low: int, stop: int, score: float) -> int:
    """The first place from `low` to `stop` whose score is not smaller: halved without a branch."""
    left = stop - low
    while left > 0:
        half = (left + 1) >> 1
        low += half * (scores[low + half - 1] < score)
        left -= half
    return low


@compiled
def _p(begin: int, low: int, high: int, stop: int, v: float) -> float:
    """The p-value of a score that is equal to those from `low` to `high` of its cell; v < 0 stands for none."""
    if v < 0:
        return (1 + (stop - low)) / (stop - begin + 1)
    return ((stop - high) + v * (1 + (high - low))) / (stop - begin + 1)


@compiled
def fill_p_values(
    block: Floats,
    order: NDArray[np.uint64],
    c: Coefficients,
    u: Vector,
    v: Vector,
    of: Indices,
    alone: NDArray[np.bool_],
    group: NDArray[np.int64],
    scores: Vector,
    offsets: NDArray[np.int64],
    ends: NDArray[np.int64],
    found: Vector,
) -> int:
    """Fills `found` with the p-value of every class; returns how many rows are suspect.

    `of`, `scores` and `offsets` are those of `Cells`, `ends` those of `run_ends`; `alone`
    says which rows of `of` hold one cell. v = −1 asks for p-values that are not smoothed.
    """
    n, n_classes = block.shape
    values = np.empty(n_classes, block.dtype)
    classes = np.empty(n_classes, np.int32)
    down = np.empty(n_classes)
    suspects = 0
    for i in range(n):
        if is_broken(block[i]):
            suspects += 1
            continue
        suspects += is_doubtful(total(block[i]))
        rank_all(block[i], order[i], values, classes)
        scores_down(block[i], c, u[i], values, classes, down)
        cells = of[group[i]]
        begin, stop = offsets[cells[0]], offsets[cells[0] + 1]
        if alone[group[i]]:
            low = _first_at_least(scores, begin, stop, down[0])
            for rank in range(n_classes):
                near = min(low + STEPS, stop)
                while low < near and scores[low] < down[rank]:
                    low += 1
                if low == near:
                    low = _first_at_least(scores, low, stop, down[rank])
                high = ends[low] if low < stop and scores[low] == down[rank] else low
                found[i, classes[rank]] = _p(begin, low, high, stop, v[i])
        else:
            for rank in range(n_classes):
                found[i, classes[rank]] = down[rank]
            for k in range(n_classes):
                score = found[i, k]
                begin, stop = offsets[cells[k]], offsets[cells[k] + 1]
                low = _first_at_least(scores, begin, stop, score)
                high = ends[low] if low < stop and scores[low] == score else low
                found[i, k] = _p(begin, low, high, stop, v[i])
    return suspects
