"""Functions of the numba engine for blocks of rows; they choose between the tiled and the row-wise loop.

Loops are serial and release the GIL; `dispatch.py` distributes blocks of rows over threads. A loop is compiled, or
loaded from disk, at its first call. Arrays that a loop only reads are passed as read-only views: numba compiles a loop
once for each combination of argument types, and writeable and read-only arrays differ.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from pippin._engine.numba_engine import p_values as whole_rows
from pippin._engine.numba_engine import rowwise, tiled
from pippin._engine.numba_engine.compilation import entry_point
from pippin._engine.numba_engine.decisions import decision_scores as decision_scores
from pippin._engine.numba_engine.decisions import decisions as decisions
from pippin._engine.numba_engine.splits import borderline_classes as borderline_classes
from pippin._engine.numba_engine.splits import count_splits as count_splits
from pippin._engine.protocol import Bounds, Draws, FillP, SortedScores
from pippin._runtime.arrays import Codes, Floats, Indices, Vector, read_only
from pippin._theory.formula import Coefficients

INSPECTS = True
# Largest numbers of classes for which the tiled loop is faster than the row-wise loop: OWN_TILES for label scores of
# IP, LABEL_TILES for label scores of other scores, SET_TILES for sets.
OWN_TILES, LABEL_TILES, SET_TILES = 12, 24, 32
FIRST_GUESS = 4  # mean set size for which memory is allocated before the first sets are known

_INTEGERS: dict[int, Any] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}
_NO_RANK_LIMITS = read_only(np.zeros((0, 1), np.int32))
_NO_GROUPS = read_only(np.zeros(0, np.int64))
_NO_DRAW = read_only(np.zeros(1))


@lru_cache(maxsize=64)
def _network(n_classes: int) -> Indices:
    return read_only(tiled.network(n_classes))


def _bits(block: Floats) -> Any:
    return block.view(_INTEGERS[block.itemsize])


def _short_bits(block: Floats) -> Any:
    """Return the bit patterns of the probabilities, rounded to float32."""
    if block.itemsize == 4:
        return block.view(np.int32)
    with np.errstate(over="ignore"):
        return read_only(block.astype(np.float32)).view(np.int32)


def label_scores(block: Floats, labels: Codes, c: Coefficients, u: Vector, scores: Vector) -> int:
    """Implement `Engine.label_scores` with the tiled loop for few classes, else with the row-wise loop."""
    given = read_only(labels), c.table, c[:4], read_only(u), scores
    tiles = LABEL_TILES if c.reach > 0 else OWN_TILES  # scores with reach 0 (IP) depend on one probability only
    if block.shape[1] <= tiles and (c.reach > 1 or block.itemsize == 4):
        return tiled.label_scores(block, _short_bits(block), _network(block.shape[1]), *given)
    return rowwise.label_scores(block, _bits(block), *given)


def members(block: Floats, c: Coefficients, bounds: Bounds, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """Implement `Engine.members` with the tiled loop for few classes and one threshold, else with the row-wise loop."""
    (n, n_classes), u, numbers = block.shape, read_only(u), c[:4]
    if bounds.scores.size == 1 and bounds.ranks is None and n_classes <= SET_TILES:
        found, threshold, pairs = np.empty(n * n_classes + 2, np.int32), bounds.scores.item(), _network(n_classes)
        used, suspects = tiled.members(block, _short_bits(block), pairs, c.table, numbers, threshold, u, sizes, found)
        found.resize(used, refcheck=False)  # frees the unused memory without a copy
        return found, suspects
    ranks = _NO_RANK_LIMITS if bounds.ranks is None else read_only(bounds.ranks)
    group = _NO_GROUPS if bounds.group is None else read_only(bounds.group)
    limits, bits, pieces = read_only(bounds.scores), _bits(block), []
    done, suspects, guess = 0, 0, float(FIRST_GUESS)
    while done < n:
        found = np.empty(int(guess * (n - done)) + n_classes + 4, np.int32)
        done, used, more = rowwise.members(block, bits, c.table, numbers, limits, ranks, group, u, sizes, done, found)
        suspects += more
        pieces.append(found[:used].copy())
        guess = max(guess, 1.2 * sum(map(len, pieces)) / max(done, 1))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces), suspects


def class_scores(block: Floats, c: Coefficients, u: Vector) -> Vector:
    """Implement `Engine.class_scores` with the loop that sorts whole rows."""
    scores = np.empty(block.shape)
    whole_rows.class_scores(_wide(block), read_only(whole_rows.order_of(block)), c.table, c[:4], read_only(u), scores)
    return scores


def p_values(c: Coefficients, held: SortedScores) -> FillP:
    """Implement `Engine.p_values` with the loop that sorts whole rows."""
    cells, offsets, calibration = read_only(held.lookup), read_only(held.offsets), read_only(held.scores)
    ends = read_only(whole_rows.run_ends(calibration, offsets))

    def fill(block: Floats, group: Codes, draws: Draws, p: Vector) -> None:
        v = np.full(len(block), -1.0) if draws.v is None else draws.v
        given = c.table, c[:4], read_only(draws.u), read_only(v), read_only(group)
        orders, scores = read_only(whole_rows.order_of(block)), (calibration, ends)
        whole_rows.p_values(_wide(block), orders, *given, cells, offsets, *scores, p)

    return fill


def _wide(block: Floats) -> Vector:
    return read_only(block.astype(np.float64, copy=False))


@entry_point
def add_product(out: Floats, left: Floats, right: Floats) -> None:
    """Add the matrix product left · right to `out`, with terms added in the order of the inner index.

    So the result for a row does not depend on the other rows, to the last bit; BLAS does not guarantee this.
    """
    inner, width = right.shape
    fours = inner - inner % 4
    for i in range(left.shape[0]):
        for j in range(0, fours, 4):  # four terms per pass over the row of `out`
            a, b, c, d = left[i, j], left[i, j + 1], left[i, j + 2], left[i, j + 3]
            for k in range(width):
                total = out[i, k]
                total += a * right[j, k]
                total += b * right[j + 1, k]
                total += c * right[j + 2, k]
                total += d * right[j + 3, k]
                out[i, k] = total
        for j in range(fours, inner):
            a = left[i, j]
            for k in range(width):
                out[i, k] += a * right[j, k]


def one_set(c: Coefficients) -> Callable[[Floats, float, float], tuple[Indices, bool]]:
    """Return a function that computes the set of one row, and True if the row must be validated.

    Its arguments are the row, the random number u of a randomized score, and the threshold.
    """
    n_classes, table, numbers = len(c.table), c.table, c[:4]

    @lru_cache(maxsize=1)
    def limits_of(threshold: float) -> Vector:
        return read_only(np.array([[threshold]]))

    def find(row: Floats, u: float, threshold: float) -> tuple[Indices, bool]:
        limits = limits_of(threshold)
        block: Any = read_only(row[None])
        draws = _NO_DRAW if u == 0.0 else read_only(np.array([u]))
        found, sizes = np.empty(n_classes + 4, np.int32), np.empty(1, np.int64)
        given = block, _bits(block), table, numbers, limits, _NO_RANK_LIMITS, _NO_GROUPS, draws, sizes, 0, found
        _, used, suspects = rowwise.members(*given)
        return found[:used], suspects > 0

    return find


def one_score(c: Coefficients) -> Callable[[Floats, float, int], tuple[float, bool]]:
    """Return a function that computes the score of one class of one row, and True if the row must be validated.

    Its arguments are the row, the random number u of a randomized score, and the index of the class.
    """

    def find(row: Floats, u: float, label: int) -> tuple[float, bool]:
        scores, labels, draws = np.empty(1), read_only(np.array([label])), read_only(np.array([u]))
        block: Any = read_only(row[None])
        suspects = rowwise.label_scores(block, _bits(block), labels, c.table, c[:4], draws, scores)
        return scores.item(), bool(suspects)

    return find
