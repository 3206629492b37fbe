"""A row's classes, best first, ranked only as far as somebody walks: compiled.

With many classes, they are ranked in bands of falling probability (at most 32 can exceed
1/32), and a band is opened only when the walk gets there.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled import lanes
from pippin._engine.compiled.lanes import LANES
from pippin._engine.plain import Indices
from pippin._inputs.rows import SUM_TOLERANCE, Floats
from pippin._theory.formula import score_at

EVERY_LANE = (1 << LANES) - 1

F = TypeVar("F", bound=Callable[..., Any])

CHUNK = 64  # entries compared at once before any is looked at
FEW = 32  # classes up to which all are ranked at once
FIRST_BAND = 1 / 32
NONE = cast(int, np.int64(0))  # to start counting with: a bare 0 would have loops compiled twice, for it and for int64
SEVERAL = 12  # entries from which on sorting by counting pays
MANY = 300  # and by digits
DIGIT = 10  # bits
SAMPLE = 15  # values among which a pivot is chosen
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
    for path in sorted(Path(__file__).parents[2].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def inlined(function: F) -> F:
    """Compiles a step of a loop into whoever calls it."""
    return compiled(function, forceinline=True)


compiled_score_at = compiled(score_at)


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
def any_at_least(chunk: Floats, low: Any) -> bool:
    found = False
    for k in range(chunk.size):
        found |= chunk[k] >= low
    return found


@inlined
def window(row: Floats, start: int) -> tuple[int, Any]:
    """A window of LANES that holds the entries from `start` on, and their lanes; the row must have as many entries."""
    begin = min(start, row.size - LANES)
    return begin, (np.uint32(EVERY_LANE) << np.uint32(start - begin)) & np.uint32(EVERY_LANE)


@inlined
def append(row: Floats, begin: int, chosen: Any, end: int, values: Floats, classes: Indices) -> int:
    """Appends the entries of these lanes at `end`; returns the new end."""
    while chosen != 0:
        k = begin + lanes.first(chosen)
        values[np.uint64(end)], classes[np.uint64(end)] = row[np.uint64(k)], k
        end += 1
        chosen &= chosen - np.uint32(1)
    return end


@compiled
def collect_above(row: Floats, label: int, values: Floats, classes: Indices) -> int:
    """Collects the classes that rank above the label (ties by index); returns how many."""
    own, count = row[label], NONE
    if row.size < LANES:
        for k in range(row.size):
            if row[k] > own or (row[k] == own and k < label):
                values[count], classes[count] = row[k], k
                count += 1
        return count
    for start in range(0, row.size, CHUNK):
        if any_at_least(row[start : start + CHUNK], own):
            for here in range(start, min(start + CHUNK, row.size), LANES):
                begin, every = window(row, here)
                before = np.uint32((1 << min(max(label - begin, 0), LANES)) - 1)
                chosen = (lanes.above(row, begin, own) | (lanes.at_least(row, begin, own) & before)) & every
                count = append(row, begin, chosen, count, values, classes)
    return count


@compiled
def largest_below(row: Floats, high: Any) -> Any:
    """The largest probability under `high`; −1 if there is none."""
    largest = row.dtype.type(-1)
    if row.size < LANES:
        for k in range(row.size):
            largest = max(largest, row[k]) if row[k] < high else largest
        return largest
    for here in range(0, row.size, LANES):
        begin, every = window(row, here)
        largest = max(largest, lanes.largest_of(row, begin, every & ~lanes.at_least(row, begin, high)))
    return largest


@compiled
def best_class(row: Floats) -> int:
    """The most probable class; the first of equal ones."""
    top = largest_below(row, row.dtype.type(np.inf))
    for start in range(0, row.size, CHUNK):
        if any_at_least(row[start : start + CHUNK], top):
            for k in range(start, min(start + CHUNK, row.size)):
                if row[k] == top:
                    return k
    return 0


@compiled
def largest_but(row: Floats, label: int) -> Any:
    """The largest probability of the other classes."""
    high = row.dtype.type(np.inf)
    return max(largest_below(row[:label], high), largest_below(row[label + 1 :], high))


@compiled
def _sort_down_by_digits(values: Floats, classes: Indices) -> None:
    """Sorts many by DIGIT bits of the probabilities at a time, the lowest first; every step keeps ties in order."""
    n = values.size
    wide, keys, others = np.empty(n), np.empty(n, np.uint64), np.empty(n, np.uint64)
    other_classes = np.empty(n, np.int32)
    ends, mask = np.empty(1 << DIGIT, np.int64), np.uint64((1 << DIGIT) - 1)
    for i in range(n):
        wide[i] = np.float64(values[i]) + 0.0
    bits = wide.view(np.uint64)
    every, some = bits[0], bits[0]
    for i in range(n):
        keys[i] = ~bits[i]  # these rise as the probabilities fall
        every &= bits[i]
        some |= bits[i]
    here, shift = classes, np.uint64(0)
    while shift < 64 and (every ^ some) >> shift != 0:
        if ((every ^ some) >> shift) & np.uint64(1) == 0:
            shift += np.uint64(1)
            continue
        for j in range(ends.size):
            ends[j] = 0
        for i in range(n):
            ends[(keys[i] >> shift) & mask] += 1
        start = 0
        for j in range(ends.size):
            start += ends[j]
            ends[j] = start - ends[j]
        for i in range(n):
            digit = (keys[i] >> shift) & mask
            others[ends[digit]], other_classes[ends[digit]] = keys[i], here[i]
            ends[digit] += 1
        keys, others, here, other_classes = others, keys, other_classes, here
        shift += np.uint64(DIGIT)
    for i in range(n):
        bits[i] = ~keys[i]
        values[i], classes[i] = wide[i], here[i]


@compiled
def _sort_down_by_counting(values: Floats, classes: Indices) -> None:
    """Puts each entry where the number of entries before it says, LANES of them counted at once."""
    n = values.size
    old, old_classes = np.empty(n + LANES, values.dtype), classes.copy()
    for i in range(n + LANES):
        old[i] = values[i] if i < n else -1
    for i in range(n):
        p, here = old[i], i - i % LANES
        rank = lanes.count(
            lanes.above(old, here, p) | (lanes.at_least(old, here, p) & np.uint32((1 << (i - here)) - 1))
        )
        for begin in range(0, here, LANES):
            rank += lanes.count(lanes.at_least(old, begin, p))
        for begin in range(here + LANES, n, LANES):
            rank += lanes.count(lanes.above(old, begin, p))
        values[np.uint64(rank)], classes[np.uint64(rank)] = p, old_classes[i]


@compiled
def sort_down(values: Floats, classes: Indices) -> None:
    """Sorts by falling value, none negative; equal values keep their order, which is by rising class."""
    if values.size > MANY:
        _sort_down_by_digits(values, classes)
    elif values.size > SEVERAL:
        _sort_down_by_counting(values, classes)
    else:
        for i in range(1, values.size):
            p, k, j = values[i], classes[i], i
            while j > 0 and values[j - 1] < p:
                values[j], classes[j] = values[j - 1], classes[j - 1]
                j -= 1
            values[j], classes[j] = p, k


@compiled
def _collect(row: Floats, low: Any, high: Any, end: int, values: Floats, classes: Indices) -> int:
    """Appends the classes with low <= p < high at `end`; returns the new end."""
    if row.size < LANES:
        for k in range(row.size):
            if low <= row[k] < high:
                values[end], classes[end] = row[k], k
                end += 1
        return end
    for start in range(0, row.size, CHUNK):
        if any_at_least(row[start : start + CHUNK], low):
            for here in range(start, min(start + CHUNK, row.size), LANES):
                begin, every = window(row, here)
                chosen = lanes.at_least(row, begin, low) & ~lanes.at_least(row, begin, high) & every
                end = append(row, begin, chosen, end, values, classes)
    return end


@compiled
def rank_more(row: Floats, known: int, values: Floats, classes: Indices) -> int:
    """Ranks one or more classes after the first `known`; returns how many are known then.

    The first band holds all that reach 1/32 (or every class, if they are few); a later
    one all that reach half of m, the largest probability not yet known, or even 16·m²,
    since a walk that has come so far may go on for long.
    """
    real = row.dtype.type
    high = real(np.inf)
    end = known
    if known > 0:
        high = values[known - 1]
    else:
        low = real(FIRST_BAND) if row.size > FEW else real(0)
        end = _collect(row, low, high, known, values, classes)
    if end == known:
        largest = largest_below(row, high)
        end = _collect(row, largest * min(real(0.5), real(16) * largest), high, known, values, classes)
    sort_down(values[known:end], classes[known:end])
    return end


@compiled
def doubled(array: Any) -> Any:
    wider = np.empty(2 * array.size, array.dtype)
    for i in range(array.size):
        wider[i] = array[i]
    return wider


@compiled
def _pivot(values: NDArray[np.float64], low: int, high: int, index: int, draw: int) -> Any:
    """A value that lies about where `index` does in the order of values[low : high + 1]: out of a sample, if many."""
    n = high - low + 1
    step = n // SAMPLE
    if step < 8:
        return values[low + draw % n]
    sample = np.empty(SAMPLE)
    for i in range(SAMPLE):
        value, j = values[low + i * step + draw % step], i
        while j > 0 and sample[j - 1] > value:
            sample[j] = sample[j - 1]
            j -= 1
        sample[j] = value
    return sample[(index - low) * SAMPLE // n]


@compiled
def smallest(values: NDArray[np.float64], index: int) -> Any:
    """The value that sorting would put at `index`; reorders `values` (Hoare's quickselect)."""
    low, high, draw = 0, values.size - 1, 1
    while low < high:
        draw = (draw * 1103515245 + 12345) & 0x7FFFFFFF  # no order of the values makes all pivots bad
        pivot = _pivot(values, low, high, index, draw)
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if index <= j:
            high = j
        elif index >= i:
            low = i
        else:
            break
    return values[index]
