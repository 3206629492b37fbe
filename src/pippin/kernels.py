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
from numpy.typing import NDArray

from pippin.ranking import SUM_TOLERANCE, Floats, ranked_order
from pippin.scores import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients

Vector = NDArray[np.float64]
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
def _collect_above(row: Floats, label: int, values: Floats, classes: NDArray[np.int32]) -> int:
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
def _sort_down(values: Floats, classes: NDArray[np.int32]) -> None:
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
def _collect(row: Floats, low: Any, high: Any, end: int, values: Floats, classes: NDArray[np.int32]) -> int:
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
def _rank_more(row: Floats, known: int, values: Floats, classes: NDArray[np.int32]) -> int:
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


@compiled
def _linear(c: Coefficients, u: float, rank: int, p: float, mass_above: float) -> float:
    """s(rank + 1), but for the term b·p[2] of rank 1."""
    s = c.constant + (c.table[rank, OWN] + u * c.table[rank, OWN_U]) * p
    s += mass_above
    s += c.table[rank, PENALTY] + u * c.table[rank, PENALTY_U]
    return s


@compiled
def _rank_matters(c: Coefficients) -> bool:
    """Whether more than a class's own probability enters its score; only IP's does not."""
    for r in range(c.table.shape[0]):
        if c.table[r, ABOVE] != 0.0:
            return True
        for column in (OWN, OWN_U, PENALTY, PENALTY_U):
            if c.table[r, column] != c.table[0, column]:
                return True
    return c.second != 0.0


@compiled
def _label_score(
    row: Floats, label: int, c: Coefficients, u: float, rank_matters: bool, values: Floats, classes: NDArray[np.int32]
) -> float:
    count = _collect_above(row, label, values, classes) if rank_matters else 0
    _sort_down(values[:count], classes[:count])
    mass = 0.0
    for j in range(count):
        mass += c.table[j, ABOVE] * values[j]
    s = _linear(c, u, count, np.float64(row[label]), mass)
    if count == 0 and c.second != 0.0:
        s += c.second * _largest_but(row, label)
    return s


@compiled
def _label_score_socop(row: Floats, label: int, price: float, values: Floats, classes: NDArray[np.int32]) -> float:
    own = np.float64(row[label])
    inverse = 1.0 / (own + 0.0)
    known = _rank_more(row, 0, values, classes)
    if classes[0] == label:
        return inverse
    mass, tau, m = 0.0, np.inf, 1
    while m < row.size:
        if m == known:
            known = _rank_more(row, known, values, classes)
        mass += values[m]
        ratio = (m + price) / mass
        if not ratio < tau:
            break
        tau = ratio
        if tau <= inverse:
            return inverse
        m += 1
    return tau


@compiled
def _set_size_socop(row: Floats, price: float, threshold: float, values: Floats, classes: NDArray[np.int32]) -> int:
    known = _rank_more(row, 0, values, classes)
    if not 1.0 / (np.float64(values[0]) + 0.0) <= threshold:
        return 0
    mass, tau, m = 0.0, np.inf, 1
    while m < row.size and not tau <= threshold:
        if m == known:
            known = _rank_more(row, known, values, classes)
        mass += values[m]
        ratio = (m + price) / mass
        if not ratio < tau:
            break
        tau = ratio
        m += 1
    if not tau <= threshold:
        return 1
    size = 1
    while size < row.size:
        if size == known:
            known = _rank_more(row, known, values, classes)
        if not 1.0 / (np.float64(values[size]) + 0.0) <= threshold:
            break
        size += 1
    return size


@compiled
def _set_size(
    row: Floats, c: Coefficients, u: float, threshold: float, values: Floats, classes: NDArray[np.int32]
) -> int:
    """Ranks as many classes as the set needs; classes[:size] are its members."""
    if not np.isnan(c.price):
        return _set_size_socop(row, c.price, threshold, values, classes)
    size, known, mass = 0, 0, 0.0
    while size < row.size:
        if size == known or (size == 0 and known == 1 and c.second != 0.0):
            known = _rank_more(row, known, values, classes)
            if known == 1 and c.second != 0.0:
                continue
        p = np.float64(values[size])
        s = _linear(c, u, size, p, mass)
        if size == 0 and c.second != 0.0:
            s += c.second * values[1]
        if not s <= threshold:
            break
        mass += c.table[size, ABOVE] * p
        size += 1
    return size


@compiled
def label_scores(block: Floats, labels: NDArray[np.int64], c: Coefficients, u: Vector, scores: Vector) -> int:
    """Fills `scores` with the score of one class per row.

    Returns how many rows may be no distribution; the score of a row with a negative or
    missing probability is left as it is.
    """
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
        if np.isnan(c.price):
            scores[i] = _label_score(row, labels[i], c, u[i], rank_matters, values, classes)
        else:
            scores[i] = _label_score_socop(row, labels[i], c.price, values, classes)
    return suspects


@compiled
def members(
    block: Floats, c: Coefficients, threshold: float, u: Vector, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int32], int]:
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
def one_set(row: Floats, c: Coefficients, threshold: float, u: float) -> tuple[NDArray[np.int32], bool]:
    """The members of one row's set, best first, and whether the row is suspect."""
    values = np.empty(row.size, row.dtype)
    classes = np.empty(row.size, np.int32)
    if _is_broken(row):
        return classes[:0], True
    return classes[: _set_size(row, c, u, threshold, values, classes)], _is_doubtful(row)


def class_scores(block: Floats, c: Coefficients, u: Vector) -> Vector:
    """The score of every class, in the columns' own order."""
    scores = np.empty(block.shape)
    if block.dtype == np.float32:
        # One sort of whole numbers: the probability's bits upside down, then the class.
        bits = (block + np.float32(0)).view(np.uint32)
        keys = (~bits).astype(np.uint64) << np.uint64(32)
        keys |= np.arange(block.shape[1], dtype=np.uint64)
        keys.sort(axis=1)
        order = (keys & np.uint64(0xFFFFFFFF)).astype(np.int32)
    else:
        order = ranked_order(block).astype(np.int32)
    _class_scores(block, order, c, u, scores)
    return scores


@compiled
def _class_scores(block: Floats, order: NDArray[np.int32], c: Coefficients, u: Vector, scores: Vector) -> None:
    for i in range(block.shape[0]):
        row, ranked = block[i], order[i]
        if np.isnan(c.price):
            mass = 0.0
            for r in range(row.size):
                p = np.float64(row[ranked[r]])
                s = _linear(c, u[i], r, p, mass)
                if r == 0:
                    s += c.second * row[ranked[1]]
                scores[i, ranked[r]] = s
                mass += c.table[r, ABOVE] * p
        else:
            mass, tau = 0.0, np.inf
            for m in range(1, row.size):
                mass += row[ranked[m]]
                ratio = (m + c.price) / mass
                if not ratio < tau:
                    break
                tau = ratio
            for r in range(row.size):
                inverse = 1.0 / (np.float64(row[ranked[r]]) + 0.0)
                scores[i, ranked[r]] = inverse if r == 0 else max(inverse, tau)
