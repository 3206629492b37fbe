"""p-values in a compiled loop that walks down each row's ranking.

Scores grow with the rank. Where one cell speaks for all classes of a row, the place among
its scores therefore only moves up: a step or two at most ranks, and a search where it
jumps. Where cells differ they are small, and each is searched.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled.build import compiled, part
from pippin._engine.compiled.walk import Row, is_broken, is_doubtful, look
from pippin._engine.compiled.whole_rows import rank_all, scores_down, whole_order, widened
from pippin._engine.protocol import Draws, FillP, Held
from pippin._runtime.arrays import Codes, Flags, Floats, Indices, Vector, read_only
from pippin._theory.formula import Coefficients

STEPS = 4  # taken one by one before the rest of the cell is halved


@compiled
def run_ends(scores: Vector, offsets: Codes) -> Codes:
    """Where the scores equal to each one end, within its cell."""
    ends = np.empty(scores.size, np.int64)
    for cell in range(offsets.size - 1):
        stop = offsets[cell + 1]
        for i in range(stop - 1, offsets[cell] - 1, -1):
            ends[i] = ends[i + 1] if i + 1 < stop and scores[i + 1] == scores[i] else i + 1
    return ends


@part
def _first_at_least(scores: Vector, low: int, stop: int, score: float) -> int:
    """The first place from `low` to `stop` whose score is not smaller: halved without a branch."""
    left = stop - low
    while left > 0:
        half = (left + 1) >> 1
        low += half * (scores[low + half - 1] < score)
        left -= half
    return low


@part
def _p(begin: int, low: int, high: int, stop: int, v: float) -> float:
    """The p-value of a score that is equal to those from `low` to `high` of its cell; v < 0 stands for none."""
    if v < 0:
        return (1 + (stop - low)) / (stop - begin + 1)
    return ((stop - high) + v * (1 + (high - low))) / (stop - begin + 1)


class Searched(NamedTuple):
    """`Held`, with where the scores equal to each one end, and which groups hold all classes against one cell."""

    of: Indices
    offsets: Codes
    scores: Vector
    ends: Codes
    alone: Flags


@compiled
def _fill(
    block: Vector, order: NDArray[np.uint64], c: Coefficients, group: Codes, draws: Any, held: Searched, p: Vector
) -> int:
    """Fills in the p-value of every class; returns how many rows are suspect. v = −1 asks for plain ones."""
    (n, n_classes), flat = block.shape, block.reshape(block.size)
    values = np.empty(n_classes, block.dtype)
    classes = np.empty(n_classes, np.int32)
    down = np.empty(n_classes)
    scores, ends, suspects = held.scores, held.ends, 0
    for i in range(n):
        seen = look(Row(flat, i * n_classes, n_classes))
        suspects += is_doubtful(seen.total) | is_broken(seen)
        if is_broken(seen):
            continue
        rank_all(block[i], order[i], values, classes)
        scores_down(values, c, draws.u[i], down)
        cells, v = held.of[group[i]], draws.v[i]
        begin, stop = held.offsets[cells[0]], held.offsets[cells[0] + 1]
        if held.alone[group[i]]:
            low = _first_at_least(scores, begin, stop, down[0])
            for rank in range(n_classes):
                near = min(low + STEPS, stop)
                while low < near and scores[low] < down[rank]:
                    low += 1
                if low == near:
                    low = _first_at_least(scores, low, stop, down[rank])
                high = ends[low] if low < stop and scores[low] == down[rank] else low
                p[i, classes[rank]] = _p(begin, low, high, stop, v)
        else:
            for rank in range(n_classes):
                p[i, classes[rank]] = down[rank]
            for k in range(n_classes):
                score = p[i, k]
                begin, stop = held.offsets[cells[k]], held.offsets[cells[k] + 1]
                low = _first_at_least(scores, begin, stop, score)
                high = ends[low] if low < stop and scores[low] == score else low
                p[i, k] = _p(begin, low, high, stop, v)
    return suspects


def p_values(c: Coefficients, held: Held) -> FillP:
    """A function that fills in the p-value of every class of a block, and returns how many rows are suspect."""
    of, offsets, scores = read_only(held.of), read_only(held.offsets), read_only(held.scores)  # as loops are made for
    ends, alone = run_ends(scores, offsets), (of == of[:, :1]).all(axis=1)
    searched = Searched(of, offsets, scores, ends, alone)

    def fill(block: Floats, group: Codes, draws: Draws, p: Vector) -> int:
        given = draws if draws.v is not None else Draws(draws.u, np.full(len(block), -1.0))
        return _fill(widened(block), whole_order(block), c, group, given, searched, p)

    return fill
