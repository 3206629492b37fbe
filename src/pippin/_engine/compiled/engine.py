"""The compiled loops: which of them serves a block of rows, and those that there is one of.

`shallow.py`, `few.py` and `many.py` have the same two loops, `label_places` and `members`,
for different scores and numbers of classes. Each loop is serial and releases the GIL;
`scoring.py` gives blocks of rows to threads. Importing this module imports numba, so it is
imported where it is used; a loop is compiled, or loaded from disk, when it is first called.
"""

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled import one_row, tiled, unranked
from pippin._engine.compiled.bounds import limits_of
from pippin._engine.compiled.one_row import lowest_price, next_mass, set_size
from pippin._engine.compiled.walk import NONE, compiled, compiled_score_at, doubled, is_broken, is_doubtful, total
from pippin._engine.compiled.walk import smallest as smallest
from pippin._engine.plain import Indices, Places, Vector
from pippin._inputs.rows import Floats
from pippin._theory.formula import ABOVE, Coefficients, Parts


def _loops(block: Floats, c: Coefficients) -> ModuleType:
    if unranked.fits(block.shape, c):
        return unranked
    return tiled if tiled.fits(block.shape, c) else one_row


def label_places(block: Floats, labels: NDArray[np.int64], c: Coefficients, u: Vector) -> tuple[Places, Vector, int]:
    """The place of one class per row, its score, and how many rows may be no distribution.

    A rank is exact only as far as the score depends on it: SOCOP's and the margin's may be 0 or 1, IP's 0.
    """
    n = len(block)
    places = Places(np.arange(n, dtype=np.int32), np.empty(n, dtype=np.int32), np.empty(n), np.empty(n))
    scores = np.empty(n)
    return places, scores, _loops(block, c).label_places(block, labels, c[:], u, *places[1:], scores)


def label_scores(block: Floats, labels: NDArray[np.int64], c: Coefficients, u: Vector, scores: Vector) -> int:
    """Fills the score of one class per row; returns how many rows may be no distribution."""
    n = len(block)
    places = np.empty(n, dtype=np.int32), np.empty(n), np.empty(n)
    suspects: int = _loops(block, c).label_places(block, labels, c[:], u, *places, scores)
    return suspects


def members(
    block: Floats, c: Coefficients, threshold: float, u: Vector, sizes: NDArray[np.int64]
) -> tuple[Indices, int]:
    """Fills `sizes`; returns the members of all rows, best first, and how many rows may be no distribution."""
    found: tuple[Indices, int] = _loops(block, c).members(block, c[:], threshold, u, sizes)
    return found


@compiled
def one_set(row: Floats, parts: Parts, threshold: float, u: float) -> tuple[Indices, bool]:
    """The members of one row's set, best first, and whether the row is suspect."""
    c = Coefficients(*parts)
    values = np.empty(row.size, row.dtype)
    classes = np.empty(row.size, np.int32)
    if is_broken(row):
        return classes[:0], True
    return classes[: set_size(row, c, limits_of(c, threshold), u, threshold, values, classes)], is_doubtful(total(row))


@compiled
def _band(
    block: Floats, c: Coefficients, low: float, high: float, sizes: NDArray[np.int64]
) -> tuple[Indices, Indices, Vector, Vector]:
    n, n_classes = block.shape
    values = np.empty(n_classes, block.dtype)
    classes = np.empty(n_classes, np.int32)
    rows = np.empty(2 * n + n_classes, np.int32)
    ranks = np.empty(rows.size, np.int32)
    p = np.empty(rows.size)
    masses = np.empty(rows.size)
    used = 0
    for i in range(n):
        row = block[i]
        known, mass = NONE, 0.0
        if used + n_classes > rows.size:
            rows, ranks, p, masses = doubled(rows), doubled(ranks), doubled(p), doubled(masses)
        for rank in range(n_classes):
            mass, known = next_mass(row, c, rank, mass, -np.inf, known, values, classes)
            own = np.float64(values[rank])
            if not compiled_score_at(c, rank, own, mass, 0.0) <= high:
                break
            if compiled_score_at(c, rank, own, mass, 1.0) <= low:
                sizes[i] = rank + 1
            else:
                rows[used], ranks[used], p[used], masses[used] = i, rank, own, mass
                used += 1
    return rows[:used].copy(), ranks[:used].copy(), p[:used].copy(), masses[:used].copy()


def band(block: Floats, c: Coefficients, low: float, high: float) -> tuple[NDArray[np.int64], Places]:
    """Sizes that every threshold from `low` to `high` reaches, and the places that some reach."""
    sizes = np.zeros(len(block), dtype=np.int64)
    return sizes, Places(*_band(block, c, low, high, sizes))


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


@compiled
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


@compiled
def scores_down(row: Floats, c: Coefficients, u: float, values: Floats, classes: Indices, scores: Vector) -> None:
    """The scores of a row that is ranked whole, by rank."""
    mass = c.second * values[1]
    scores[0] = compiled_score_at(c, 0, np.float64(values[0]), mass, u)
    mass = 0.0
    if not np.isnan(c.price):
        mass, _ = lowest_price(row, c.price, -np.inf, row.size, values, classes)
    for rank in range(1, row.size):
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
        scores_down(block[i], c, u[i], values, classes, down)
        for rank in range(n_classes):
            scores[i, classes[rank]] = down[rank]


def class_scores(block: Floats, c: Coefficients, u: Vector) -> Vector:
    """The score of every class, in the columns' own order."""
    scores = np.empty(block.shape)
    _class_scores(block, whole_order(block), c, u, scores)
    return scores
