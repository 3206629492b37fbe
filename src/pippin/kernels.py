"""The formula in compiled loops that read a row once and stop early.

The true label's score needs only the classes above it; a set needs only the classes in
it and one more: `ranks.py` finds these. Sums run in rank order in float64, as in
`plain.py`: the same bits. Each loop is serial and releases the GIL; `scoring.py` gives
blocks of rows to threads. Importing this module imports numba, so it is imported where
it is used.
"""

import numpy as np
from numpy.typing import NDArray

from pippin import few, shallow
from pippin.formula import ABOVE, Coefficients
from pippin.plain import Indices, Places, Vector
from pippin.ranking import Floats
from pippin.ranks import (
    CHUNK,
    FEW,
    NONE,
    collect_above,
    compiled,
    compiled_score_at,
    doubled,
    is_broken,
    is_doubtful,
    largest_but,
    rank_more,
    sort_down,
    total,
)
from pippin.ranks import smallest as smallest


@compiled
def _lowest_price(
    row: Floats, price: float, enough: float, known: int, values: Floats, classes: Indices
) -> tuple[float, int]:
    """SOCOP's τ, or some ratio on the way to it that is at most `enough`; and how many ranks are known."""
    mass, tau = 0.0, np.inf
    for m in range(1, row.size):
        if m == known:
            known = rank_more(row, known, values, classes)
        mass += values[m]
        ratio = (m + price) / mass
        if not ratio < tau:
            break
        tau = ratio
        if tau <= enough:
            break
    return tau, known


@compiled
def _place_of_label(row: Floats, label: int, c: Coefficients, values: Floats, classes: Indices) -> tuple[int, float]:
    """The label's rank and M."""
    if c.reach == 0:
        return 0, 0.0
    if np.isnan(c.price):
        rank = collect_above(row, label, values, classes)
        if rank == 0:
            return 0, (c.second * largest_but(row, label) if c.second != 0.0 else 0.0)
        sort_down(values[:rank], classes[:rank])
        mass = 0.0
        for j in range(rank):
            mass += c.table[j, ABOVE] * values[j]
        return rank, mass
    known = rank_more(row, NONE, values, classes)
    if classes[0] == label:
        return 0, 0.0
    return 1, _lowest_price(row, c.price, 1.0 / (np.float64(row[label]) + 0.0), known, values, classes)[0]


@compiled
def next_mass(
    row: Floats, c: Coefficients, rank: int, mass: float, enough: float, known: int, values: Floats, classes: Indices
) -> tuple[float, int]:
    """M at `rank`, from M at the rank before it; and how many ranks are known then."""
    if rank == known:
        known = rank_more(row, known, values, classes)
    if rank == 0:
        if c.second == 0.0:
            return 0.0, known
        if known == 1:
            known = rank_more(row, known, values, classes)
        return c.second * values[1], known
    if not np.isnan(c.price):
        return _lowest_price(row, c.price, enough, known, values, classes) if rank == 1 else (mass, known)
    before = 0.0 if rank == 1 else mass
    return before + c.table[rank - 1, ABOVE] * values[rank - 1], known


@compiled
def _set_size_socop(row: Floats, c: Coefficients, u: float, threshold: float, values: Floats, classes: Indices) -> int:
    known, mass = NONE, 0.0
    for rank in range(row.size):
        mass, known = next_mass(row, c, rank, mass, threshold, known, values, classes)
        if not compiled_score_at(c, rank, np.float64(values[rank]), mass, u) <= threshold:
            return rank
    return row.size


@compiled
def _any_inside(chunk: Floats, c: Coefficients, u: float, threshold: float) -> bool:
    found = False
    for k in range(chunk.size):
        found |= compiled_score_at(c, 0, np.float64(chunk[k]), 0.0, u) <= threshold
    return found


@compiled
def _collect_inside(row: Floats, c: Coefficients, u: float, threshold: float, values: Floats, classes: Indices) -> int:
    """Of a score that needs no ranks: collects the members by class; returns how many there are."""
    size = 0
    for start in range(0, row.size, CHUNK):
        chunk = row[start : start + CHUNK]
        if _any_inside(chunk, c, u, threshold):
            for k in range(chunk.size):
                if compiled_score_at(c, 0, np.float64(chunk[k]), 0.0, u) <= threshold:
                    values[size], classes[size] = chunk[k], start + k
                    size += 1
    return size


@compiled
def _set_size(row: Floats, c: Coefficients, u: float, threshold: float, values: Floats, classes: Indices) -> int:
    """Ranks as many classes as the set needs; classes[:size] are its members."""
    if not np.isnan(c.price):
        return _set_size_socop(row, c, u, threshold, values, classes)
    if c.reach == 0:
        size = _collect_inside(row, c, u, threshold, values, classes)
        sort_down(values[:size], classes[:size])
        return size
    known = rank_more(row, NONE, values, classes)
    mass = 0.0
    if c.second != 0.0:
        known = rank_more(row, known, values, classes) if known == 1 else known
        mass = c.second * values[1]
    for rank in range(row.size):
        if rank == known:
            known = rank_more(row, known, values, classes)
        p = np.float64(values[rank])
        if not compiled_score_at(c, rank, p, mass, u) <= threshold:
            return rank
        mass = (0.0 if rank == 0 else mass) + c.table[rank, ABOVE] * p
    return row.size


@compiled
def _label_places(
    block: Floats,
    labels: NDArray[np.int64],
    c: Coefficients,
    u: Vector,
    ranks: Indices,
    p: Vector,
    masses: Vector,
    scores: Vector,
) -> int:
    n, n_classes = block.shape
    if shallow.fits(block, c):
        suspects = shallow.label_places(block, labels, c, ranks, p, masses)
    elif n_classes <= FEW and np.isnan(c.price):
        suspects = few.label_places(block, labels, c, ranks, p, masses)
    else:
        values = np.empty(n_classes, block.dtype)
        classes = np.empty(n_classes, np.int32)
        suspects = 0
        for i in range(n):
            ranks[i], p[i], masses[i] = 0, 1.0, 0.0
            if is_broken(block[i]):
                suspects += 1
                continue
            suspects += is_doubtful(total(block[i]))
            p[i] = block[i, labels[i]]
            ranks[i], masses[i] = _place_of_label(block[i], labels[i], c, values, classes)
    for i in range(n):
        scores[i] = compiled_score_at(c, ranks[i], p[i], masses[i], u[i])
    return suspects


def label_places(block: Floats, labels: NDArray[np.int64], c: Coefficients, u: Vector) -> tuple[Places, Vector, int]:
    """The place of one class per row, its score, and how many rows may be no distribution.

    A rank is exact only as far as the score depends on it: SOCOP's is 0 or 1, IP's 0.
    """
    n = len(block)
    places = Places(np.arange(n, dtype=np.int32), np.empty(n, dtype=np.int32), np.empty(n), np.empty(n))
    scores = np.empty(n)
    return places, scores, _label_places(block, labels, c, u, places.rank, places.p, places.mass, scores)


@compiled
def label_scores(
    block: Floats,
    labels: NDArray[np.int64],
    constant: float,
    second: float,
    price: float,
    reach: int,
    table: Vector,
    u: Vector,
    scores: Vector,
) -> int:
    """Fills the score of one class per row; returns how many rows may be no distribution.

    This and what follows take `Coefficients` part by part: a tuple of numbers and an array costs a call 1 µs.
    """
    c, n = Coefficients(constant, second, price, reach, table), scores.size
    return _label_places(block, labels, c, u, np.empty(n, np.int32), np.empty(n), np.empty(n), scores)


@compiled
def members(
    block: Floats,
    constant: float,
    second: float,
    price: float,
    reach: int,
    table: Vector,
    threshold: float,
    u: Vector,
    sizes: NDArray[np.int64],
) -> tuple[Indices, int]:
    """Fills `sizes`; returns the members of all rows, best first, and how many rows are suspect."""
    c = Coefficients(constant, second, price, reach, table)
    n, n_classes = block.shape
    if shallow.fits(block, c):
        return shallow.members(block, c, threshold, sizes)
    if n_classes <= FEW and np.isnan(c.price):
        return few.members(block, c, threshold, u, sizes)
    values = np.empty(n_classes, block.dtype)
    classes = np.empty(n_classes, np.int32)
    found = np.empty(4 * n + n_classes, np.int32)
    used, suspects = 0, 0
    for i in range(n):
        if is_broken(block[i]):
            suspects += 1
            continue
        suspects += is_doubtful(total(block[i]))
        if used + n_classes > found.size:
            found = doubled(found)
        size = _set_size(block[i], c, u[i], threshold, values, classes)
        for j in range(size):
            found[used + j] = classes[j]
        sizes[i] = size
        used += size
    return found[:used].copy(), suspects


@compiled
def one_set(
    row: Floats, constant: float, second: float, price: float, reach: int, table: Vector, threshold: float, u: float
) -> tuple[Indices, bool]:
    """The members of one row's set, best first, and whether the row is suspect."""
    c = Coefficients(constant, second, price, reach, table)
    values = np.empty(row.size, row.dtype)
    classes = np.empty(row.size, np.int32)
    if is_broken(row):
        return classes[:0], True
    return classes[: _set_size(row, c, u, threshold, values, classes)], is_doubtful(total(row))


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
        mass, _ = _lowest_price(row, c.price, -np.inf, row.size, values, classes)
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
