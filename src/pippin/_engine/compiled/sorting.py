"""Few or many probabilities sorted downwards with their classes, and the k-th smallest of many scores: compiled."""

from typing import Any

import numpy as np

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import compiled, part
from pippin._engine.compiled.lanes import LANES
from pippin._runtime.arrays import Floats, Indices, Vector

SEVERAL = 12  # entries from which on sorting by counting pays
MANY = 300  # and by digits
DIGIT = 10  # bits
SAMPLE = 15  # values among which a pivot is chosen


@part
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


@part
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
        rank = min(rank, n - 1)  # a negative number, of rows that change meanwhile, counts the padding too
        values[np.uint64(rank)], classes[np.uint64(rank)] = p, old_classes[i]


@part
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


@part
def _pivot(values: Vector, low: int, high: int, index: int, draw: int) -> Any:
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
def smallest(values: Vector, index: int) -> Any:
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
