"""The formula in compiled loops that read a row once and stop early.

The true label's score needs only the classes above it; a set needs only the classes in
it and one more. So no row is sorted whole: classes are ranked in bands of falling
probability (at most 32 can exceed 1/32), and a band is opened only when the walk down
the ranks gets there. Sums run in rank order in float64, as in `plain.py`: the same bits.

Each loop is serial and releases the GIL; `scoring.py` gives blocks of rows to threads.
Importing this module imports numba, so it is imported where it is used.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from pippin import counting
from pippin.plain import Indices, Places, Vector
from pippin.ranking import SUM_TOLERANCE, Floats, ranked_order
from pippin.scores import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients, score_at

F = TypeVar("F", bound=Callable[..., Any])

CHUNK = 64  # entries compared at once before any is looked at
FIRST_BAND = 1 / 32
DOUBTFUL = SUM_TOLERANCE / 2  # a row whose sum is farther off is checked again in float64


def compiled(function: F, **options: Any) -> F:
    """Compiles at the first call and keeps the result on disk, where a folder can be written."""
    try:
        return cast(F, numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function))
    except RuntimeError:  # numba found no writable folder for its cache
        return cast(F, numba.njit(nogil=True, error_model="numpy", **options)(function))


def summing(function: F) -> F:
    """Compiles a plain sum that may be reordered; no score is ever computed in it."""
    return compiled(function, fastmath={"reassoc"})


@summing
def _total(row: Floats) -> Any:
    total = row[0] - row[0]
    for k in range(row.size):
        total += row[k]
    return total


@compiled
def _is_broken(row: Floats) -> bool:
    """Whether an entry is negative or NaN."""
    good = True
    for k in range(row.size):
        good &= row[k] >= 0
    return not good


@compiled
def _is_doubtful(row: Floats) -> bool:
    """Whether the sum is far enough from 1 to be looked at again."""
    return not abs(_total(row) - 1.0) <= DOUBTFUL


@compiled
def _any_at_least(chunk: Floats, low: Any) -> bool:
    found = False
    for k in range(chunk.size):
        found |= chunk[k] >= low
    return found


@compiled
def _collect_above(row: Floats, label: int, values: Floats, classes: Indices) -> int:
    """Collects the classes that rank above the label (ties by index); returns how many."""
    own = row[label]
    count = 0
    for start in range(0, row.size, CHUNK):
        chunk = row[start : start + CHUNK]
        if _any_at_least(chunk, own):
            for k in range(chunk.size):
                if chunk[k] > own or (chunk[k] == own and start + k < label):
                    values[count] = chunk[k]
                    classes[count] = start + k
                    count += 1
    return count


@compiled
def _largest_but(row: Floats, label: int) -> Any:
    """The largest probability of the other classes."""
    largest = row[1] if label == 0 else row[0]
    for start in range(0, row.size, CHUNK):
        chunk = row[start : start + CHUNK]
        if _any_at_least(chunk, largest):
            for k in range(chunk.size):
                if chunk[k] > largest and start + k != label:
                    largest = chunk[k]
    return largest


@compiled
def _sort_down(values: Floats, classes: Indices) -> None:
    """Shell sort by falling value, equal values by rising class."""
    gap = 1
    while gap < values.size // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, values.size):
            value, k = values[i], classes[i]
            j = i
            while j >= gap and (values[j - gap] < value or (values[j - gap] == value and classes[j - gap] > k)):
                values[j], classes[j] = values[j - gap], classes[j - gap]
                j -= gap
            values[j], classes[j] = value, k
        gap //= 3


@compiled
def _largest_below(row: Floats, high: Any) -> Any:
    """The largest probability under `high`; −1 if there is none."""
    largest = row.dtype.type(-1)
    for start in range(0, row.size, CHUNK):
        chunk = row[start : start + CHUNK]
        found = False
        for k in range(chunk.size):
            found |= (chunk[k] > largest) & (chunk[k] < high)
        if found:
            for k in range(chunk.size):
                if largest < chunk[k] < high:
                    largest = chunk[k]
    return largest


@compiled
def _collect(row: Floats, low: Any, high: Any, end: int, values: Floats, classes: Indices) -> int:
    """Appends the classes with low <= p < high at `end`; returns the new end."""
    for start in range(0, row.size, CHUNK):
        chunk = row[start : start + CHUNK]
        if _any_at_least(chunk, low):
            for k in range(chunk.size):
                if low <= chunk[k] < high:
                    values[end] = chunk[k]
                    classes[end] = start + k
                    end += 1
    return end


@compiled
def _rank_more(row: Floats, known: int, values: Floats, classes: Indices) -> int:
    """Ranks the next band of classes after the first `known`; returns how many are known then.

    The first band holds all that reach 1/32 (or every class, if there are few); a later
    one all that reach half of the largest probability not yet known.
    """
    real = row.dtype.type
    high = real(np.inf)
    end = known
    if known > 0:
        high = values[known - 1]
    else:
        low = real(FIRST_BAND) if row.size > CHUNK else real(0)
        end = _collect(row, low, high, 0, values, classes)
    if end == known:
        end = _collect(row, _largest_below(row, high) * real(0.5), high, known, values, classes)
    _sort_down(values[known:end], classes[known:end])
    return end


_score_at = compiled(score_at)
register_jitable(score_at)
register_jitable(counting._counts)
count_fixed = compiled(counting.count_fixed)
count_randomized = compiled(counting.count_randomized)


@compiled
def _lowest_price(
    row: Floats, price: float, enough: float, known: int, values: Floats, classes: Indices
) -> tuple[float, int]:
    """SOCOP's τ, or some ratio on the way to it that is at most `enough`; and how many ranks are known."""
    mass, tau = 0.0, np.inf
    for m in range(1, row.size):
        if m == known:
            known = _rank_more(row, known, values, classes)
        mass += values[m]
        ratio = (m + price) / mass
        if not ratio < tau:
            break
        tau = ratio
        if tau <= enough:
            break
    return tau, known


@compiled
def _rank_matters(c: Coefficients) -> bool:
    """Whether more than a class's own probability enters its score; only IP's does not."""
    for r in range(c.table.shape[0]):
        if c.table[r, ABOVE] != 0.0:
            return True
        for column in (OWN, OWN_U, PENALTY, PENALTY_U):
            if c.table[r, column] != c.table[0, column]:
                return True
    return c.second != 0.0 or not np.isnan(c.price)


@compiled
def _place_of_label(row: Floats, label: int, c: Coefficients, values: Floats, classes: Indices) -> tuple[int, float]:
    """The label's rank and M."""
    if np.isnan(c.price):
        rank = _collect_above(row, label, values, classes)
        if rank == 0:
            return 0, (c.second * _largest_but(row, label) if c.second != 0.0 else 0.0)
        _sort_down(values[:rank], classes[:rank])
        mass = 0.0
        for j in range(rank):
            mass += c.table[j, ABOVE] * values[j]
        return rank, mass
    known = _rank_more(row, 0, values, classes)
    if classes[0] == label:
        return 0, 0.0
    return 1, _lowest_price(row, c.price, 1.0 / (np.float64(row[label]) + 0.0), known, values, classes)[0]


@compiled
def _next_mass(
    row: Floats, c: Coefficients, rank: int, mass: float, enough: float, known: int, values: Floats, classes: Indices
) -> tuple[float, int]:
    """M at `rank`, from M at the rank before it; and how many ranks are known then."""
    if rank == known:
        known = _rank_more(row, known, values, classes)
    if rank == 0:
        if c.second == 0.0:
            return 0.0, known
        if known == 1:
            known = _rank_more(row, known, values, classes)
        return c.second * values[1], known
    if not np.isnan(c.price):
        return _lowest_price(row, c.price, enough, known, values, classes) if rank == 1 else (mass, known)
    before = 0.0 if rank == 1 else mass
    return before + c.table[rank - 1, ABOVE] * values[rank - 1], known


@compiled
def _set_size(row: Floats, c: Coefficients, u: float, threshold: float, values: Floats, classes: Indices) -> int:
    """Ranks as many classes as the set needs; classes[:size] are its members."""
    known, mass = 0, 0.0
    for rank in range(row.size):
        mass, known = _next_mass(row, c, rank, mass, threshold, known, values, classes)
        if not _score_at(c, rank, np.float64(values[rank]), mass, u) <= threshold:
            return rank
    return row.size


@compiled
def _label_places(
    block: Floats, labels: NDArray[np.int64], c: Coefficients, ranks: Indices, p: Vector, masses: Vector
) -> int:
    n, n_classes = block.shape
    values = np.empty(n_classes, block.dtype)
    classes = np.empty(n_classes, np.int32)
    rank_matters = _rank_matters(c)
    suspects = 0
    for i in range(n):
        row = block[i]
        if _is_broken(row):
            suspects += 1
            continue
        suspects += _is_doubtful(row)
        p[i] = row[labels[i]]
        if rank_matters:
            ranks[i], masses[i] = _place_of_label(row, labels[i], c, values, classes)
    return suspects


def label_places(block: Floats, labels: NDArray[np.int64], c: Coefficients) -> tuple[Places, int]:
    """The place of one class per row, and how many rows may be no distribution.

    A rank is exact only as far as the score depends on it: SOCOP's is 0 or 1, IP's 0.
    """
    n = len(block)
    row = np.arange(n, dtype=np.int32)
    places = Places(row, np.zeros(n, dtype=np.int32), np.ones(n), np.zeros(n))
    return places, _label_places(block, labels, c, places.rank, places.p, places.mass)


@compiled
def members(
    block: Floats, c: Coefficients, threshold: float, u: Vector, sizes: NDArray[np.int64]
) -> tuple[Indices, int]:
    """Fills `sizes`; returns the members of all rows, best first, and how many rows are suspect."""
    n, n_classes = block.shape
    values = np.empty(n_classes, block.dtype)
    classes = np.empty(n_classes, np.int32)
    found = np.empty(4 * n + n_classes, np.int32)
    used, suspects = 0, 0
    for i in range(n):
        row = block[i]
        if _is_broken(row):
            suspects += 1
            continue
        suspects += _is_doubtful(row)
        size = _set_size(row, c, u[i], threshold, values, classes)
        if used + size > found.size:
            wider = np.empty(2 * (used + size), np.int32)
            wider[:used] = found[:used]
            found = wider
        found[used : used + size] = classes[:size]
        sizes[i] = size
        used += size
    return found[:used].copy(), suspects


@compiled
def one_set(row: Floats, c: Coefficients, threshold: float, u: float) -> tuple[Indices, bool]:
    """The members of one row's set, best first, and whether the row is suspect."""
    values = np.empty(row.size, row.dtype)
    classes = np.empty(row.size, np.int32)
    if _is_broken(row):
        return classes[:0], True
    return classes[: _set_size(row, c, u, threshold, values, classes)], _is_doubtful(row)


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
        known, mass = 0, 0.0
        if used + n_classes > rows.size:
            rows, ranks, p, masses = _doubled(rows), _doubled(ranks), _doubled(p), _doubled(masses)
        for rank in range(n_classes):
            mass, known = _next_mass(row, c, rank, mass, -np.inf, known, values, classes)
            own = np.float64(values[rank])
            if not _score_at(c, rank, own, mass, 0.0) <= high:
                break
            if _score_at(c, rank, own, mass, 1.0) <= low:
                sizes[i] = rank + 1
            else:
                rows[used], ranks[used], p[used], masses[used] = i, rank, own, mass
                used += 1
    return rows[:used].copy(), ranks[:used].copy(), p[:used].copy(), masses[:used].copy()


@compiled
def _doubled(array: Any) -> Any:
    wider = np.empty(2 * array.size, array.dtype)
    wider[: array.size] = array
    return wider


def band(block: Floats, c: Coefficients, low: float, high: float) -> tuple[NDArray[np.int64], Places]:
    """Sizes that every threshold from `low` to `high` reaches, and the places that some reach."""
    sizes = np.zeros(len(block), dtype=np.int64)
    return sizes, Places(*_band(block, c, low, high, sizes))


@compiled
def _class_scores(block: Floats, order: Indices, c: Coefficients, u: Vector, scores: Vector) -> None:
    values = np.empty(block.shape[1], block.dtype)
    for i in range(block.shape[0]):
        row, classes = block[i], order[i]
        for rank in range(row.size):
            values[rank] = row[classes[rank]]
        known, mass = row.size, 0.0
        for rank in range(row.size):
            mass, known = _next_mass(row, c, rank, mass, -np.inf, known, values, classes)
            scores[i, classes[rank]] = _score_at(c, rank, np.float64(values[rank]), mass, u[i])


def class_scores(block: Floats, c: Coefficients, u: Vector) -> Vector:
    """The score of every class, in the columns' own order."""
    if block.dtype == np.float32:
        # One sort of whole numbers: the probability's bits upside down, then the class.
        bits = (block + np.float32(0)).view(np.uint32)
        keys = (~bits).astype(np.uint64) << np.uint64(32)
        keys |= np.arange(block.shape[1], dtype=np.uint64)
        keys.sort(axis=1)
        order = (keys & np.uint64(0xFFFFFFFF)).astype(np.int32)
    else:
        order = ranked_order(block).astype(np.int32)
    scores = np.empty(block.shape)
    _class_scores(block, order, c, u, scores)
    return scores
