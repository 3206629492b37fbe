"""A row's classes, best first, ranked only as far as somebody walks: compiled.

With many classes, they are ranked in bands of falling probability (at most 32 can exceed
1/32), and a band is opened only when the walk gets there. With few, `best_two` finds the
best two of a whole block at once, so that the processor compares several rows in one
step, and `next_best` what comes after them.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from pippin.plain import Indices
from pippin.ranking import SUM_TOLERANCE, Floats

F = TypeVar("F", bound=Callable[..., Any])

CHUNK = 64  # entries compared at once before any is looked at
FEW = 24  # classes up to which the next best one is found by looking at all
TILE = 2048  # rows whose best two classes are found together
FIRST_BAND = 1 / 32
DOUBTFUL = SUM_TOLERANCE / 2  # a row whose sum is farther off is checked again in float64


def compiled(function: F, **options: Any) -> F:
    """Compiles at the first call and keeps the result on disk, where a folder can be written.

    numba's cache looks at the function's own file only; ours depend on each other, so
    what is kept bears the stamp of all of them.
    """
    try:
        made = numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    except RuntimeError:  # numba found no writable folder for its cache
        made = numba.njit(nogil=True, error_model="numpy", **options)(function)
    kept: Any = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if hasattr(kept, "_source_stamp"):
        kept._source_stamp = _sources()
    return cast(F, made)


@lru_cache(maxsize=1)
def _sources() -> str:
    """A stamp of everything that the compiled loops are made from."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def summing(function: F) -> F:
    """Compiles a plain sum that may be reordered; no score is ever computed in it."""
    return compiled(function, fastmath={"reassoc"})


@summing
def total(row: Floats) -> Any:
    mass = row[0] - row[0]
    for k in range(row.size):
        mass += row[k]
    return mass


@compiled
def is_broken(row: Floats) -> bool:
    """Whether an entry is negative or NaN."""
    good = True
    for k in range(row.size):
        good &= row[k] >= 0
    return not good


@compiled
def is_doubtful(total: Any) -> bool:
    """Whether a row's sum is far enough from 1 to be looked at again."""
    return not abs(total - 1.0) <= DOUBTFUL


@compiled
def _any_at_least(chunk: Floats, low: Any) -> bool:
    found = False
    for k in range(chunk.size):
        found |= chunk[k] >= low
    return found


@compiled
def collect_above(row: Floats, label: int, values: Floats, classes: Indices) -> int:
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
def largest_but(row: Floats, label: int) -> Any:
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
def sort_down(values: Floats, classes: Indices) -> None:
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
def next_best(block: Floats, i: int, last: Any, after: int) -> tuple[Any, int]:
    """The class of row i that ranks just below class `after` with probability `last`, by looking at all."""
    best, found = block.dtype.type(-1), 0
    for k in range(block.shape[1]):
        p = block[i, k]
        if p > best and (p < last or (p == last and k > after)):
            best, found = p, k
    return best, found


@compiled
def rank_more(row: Floats, known: int, values: Floats, classes: Indices) -> int:
    """Ranks one or more classes after the first `known`; returns how many are known then.

    The first band holds all that reach 1/32 (or every class, if they are few); a later
    one all that reach half of the largest probability not yet known.
    """
    real = row.dtype.type
    high = real(np.inf)
    end = known
    if known > 0:
        high = values[known - 1]
    else:
        low = real(FIRST_BAND) if row.size > FEW else real(0)
        end = _collect(row, low, high, 0, values, classes)
    if end == known:
        end = _collect(row, _largest_below(row, high) * real(0.5), high, known, values, classes)
    sort_down(values[known:end], classes[known:end])
    return end


@compiled
def best_two(block: Floats) -> tuple[Floats, Indices, Floats, NDArray[np.bool_]]:
    """Of rows with few classes, all at once: the best two, (2, n), the sum, and whether an entry is broken."""
    n, n_classes = block.shape
    values = np.full((2, n), -1, block.dtype)
    classes = np.zeros((2, n), np.int32)
    totals = np.zeros(n, block.dtype)
    broken = np.zeros(n, np.bool_)
    column = np.empty(min(n, TILE), block.dtype)
    for begin in range(0, n, TILE):
        end = min(begin + TILE, n)
        first, second = values[0, begin:end], values[1, begin:end]
        first_class, second_class = classes[0, begin:end], classes[1, begin:end]
        for k in range(n_classes):
            for i in range(end - begin):
                column[i] = block[begin + i, k]
            _enter(
                np.int32(k),
                column[: end - begin],
                first,
                second,
                first_class,
                second_class,
                totals[begin:end],
                broken[begin:end],
            )
    return values, classes, totals, broken


@compiled
def _enter(
    k: Any,
    column: Floats,
    first: Floats,
    second: Floats,
    first_class: Indices,
    second_class: Indices,
    totals: Floats,
    broken: NDArray[np.bool_],
) -> None:
    """Holds one class of many rows against the best two so far."""
    for i in range(column.size):
        p = column[i]
        is_first, is_second = p > first[i], p > second[i]
        second[i] = first[i] if is_first else (p if is_second else second[i])
        second_class[i] = first_class[i] if is_first else (k if is_second else second_class[i])
        first[i] = p if is_first else first[i]
        first_class[i] = k if is_first else first_class[i]
        totals[i] += p
        broken[i] |= not p >= 0
