"""Few or many probabilities sorted downwards with their classes, and the k-th smallest of many scores: compiled."""

from typing import Any, NamedTuple

import numpy as np

from pippin._engine.compiled import handfuls, lanes
from pippin._engine.compiled.build import NONE, compiled, making, part
from pippin._engine.compiled.handfuls import HANDFUL
from pippin._runtime.arrays import Floats, Indices, Vector

MANY = 400  # entries up to which they are sorted by counting; more are sorted by digits
DIGIT = 10  # bits
N_DIGITS = 1 << DIGIT
SAMPLE = 15  # values among which a pivot is chosen


class Ranking(NamedTuple):
    """Room for one row: its best classes and their probabilities, and what is collected before it is sorted.

    Each array has a handful more, since so many are sorted at once.
    """

    values: Floats
    classes: Indices
    raw: Floats
    raw_classes: Indices


@part
def _sort_by_counting(ranking: Ranking, size: int, at: int) -> None:
    """Sorts few: each goes where the number of entries before it says.

    A handful is counted at once. The last one reaches back over entries that went there before or, if all are fewer, on
    over padding, which goes behind them.
    """
    values, classes, raw, raw_classes = ranking
    for i in range(size, size + HANDFUL):
        raw[np.uint64(i)] = -1
    last = size - HANDFUL if size > HANDFUL else NONE
    for begin in range(0, size, HANDFUL):
        place = begin if begin < last else last
        handfuls.sort_some(raw, raw_classes, place, size, values, classes, at)


@making
def _sort_by_digits(ranking: Ranking, size: int, at: int) -> None:
    """Sorts many by DIGIT bits of the probabilities at a time, the lowest first; every step keeps ties in order."""
    lanes.apart()
    values, classes, raw, raw_classes = ranking
    room, mask = np.empty(4 * size + N_DIGITS, np.uint64), np.uint64(N_DIGITS - 1)
    keys, others, here, there, ends = NONE, size, 2 * size, 3 * size, 4 * size  # where each begins in the room
    every, some = ~np.uint64(0), np.uint64(0)
    for i in range(size):
        bits = lanes.bits_of(np.float64(raw[np.uint64(i)]) + 0.0)
        every, some = every & bits, some | bits
        room[np.uint64(keys + i)] = ~bits  # keys rise as the probabilities fall
        room[np.uint64(here + i)] = np.uint64(raw_classes[np.uint64(i)])
    shift = np.uint64(0)
    while shift < 64 and (every ^ some) >> shift != 0:
        if ((every ^ some) >> shift) & np.uint64(1) == 0:
            shift += np.uint64(1)
            continue
        for j in range(ends, ends + N_DIGITS):
            room[np.uint64(j)] = 0
        for i in range(keys, keys + size):
            room[np.uint64(ends) + ((room[np.uint64(i)] >> shift) & mask)] += np.uint64(1)
        start = np.uint64(0)
        for j in range(ends, ends + N_DIGITS):
            start += room[np.uint64(j)]
            room[np.uint64(j)] = start - room[np.uint64(j)]
        for i in range(size):
            key = room[np.uint64(keys + i)]
            digit = np.uint64(ends) + ((key >> shift) & mask)
            place = room[digit]
            room[np.uint64(others) + place], room[np.uint64(there) + place] = key, room[np.uint64(here + i)]
            room[digit] = place + np.uint64(1)
        keys, others, here, there = others, keys, there, here
        shift += np.uint64(DIGIT)
    for i in range(size):
        values[np.uint64(at + i)] = lanes.number_of(~room[np.uint64(keys + i)])
        classes[np.uint64(at + i)] = room[np.uint64(here + i)]


@part
def sort_down(ranking: Ranking, size: int, at: int) -> None:
    """Sorts the first `size` of what was collected by falling value, from `at` on.

    None is negative; equal ones keep their order, which is by rising class. HANDFUL entries behind what is sorted may
    be written to, in each array.
    """
    lanes.apart()
    if size > MANY:
        _sort_by_digits(ranking, size, at)
    elif size > 1:
        _sort_by_counting(ranking, size, at)
    elif size > 0:
        ranking.values[at], ranking.classes[at] = ranking.raw[0], ranking.raw_classes[0]


@part
def largest(values: Vector) -> float:
    """The largest of some values; `max` of NumPy takes numba a while to compile."""
    found = values[0]
    for value in values:
        found = value if value > found else found
    return float(found)


@part
def _pivot(values: Vector, low: int, high: int, index: int, draw: int, room: Vector) -> Any:
    """A value that lies about where `index` does in the order of values[low : high + 1]: out of a sample, if many."""
    n = high - low + 1
    step = n // SAMPLE
    if step < 8:
        return values[low + draw % n]
    for i in range(SAMPLE):
        value, j = values[low + i * step + draw % step], i
        while j > 0 and room[j - 1] > value:
            room[j] = room[j - 1]
            j -= 1
        room[j] = value
    return room[(index - low) * SAMPLE // n]


@compiled
def smallest(values: Vector, index: int) -> Any:
    """The value that sorting would put at `index`; reorders `values` (Hoare's quickselect)."""
    low, high, draw = 0, values.size - 1, 1
    room = np.empty(SAMPLE)
    while low < high:
        draw = (draw * 1103515245 + 12345) & 0x7FFFFFFF  # no order of the values makes all pivots bad
        pivot = _pivot(values, low, high, index, draw, room)
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
