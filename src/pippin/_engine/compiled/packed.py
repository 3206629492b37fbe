"""One split of very many rows: bits of what is known whatever the threshold, and the few places near it: compiled."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import NONE, compiled_score_at, inlined, loop
from pippin._engine.compiled.in_order import mass_in_order, next_mass_in_order
from pippin._runtime.arrays import Codes, Flags, Floats, Indices, Vector
from pippin._theory.formula import Coefficients

STEPS = 1 << 16  # of u, at which a place is looked at before the splits
ASIDE = 2  # steps before and behind the one where a bound should be reached, which are looked at first
SURE, SINGLE, EMPTY, SIZE = range(4)  # planes of bits; from SIZE on, those of the size

LABEL = 3  # of the planes of places: singletons, pairs and larger sets that they make, and labels

Words = NDArray[np.uint64]
Limits = tuple[float, float]  # thresholds
FixedRoom = tuple[Vector, Indices, NDArray[np.uint8]]  # score, row and kind of places
Places = tuple[Any, Any, Any, Any, Words]  # row, rank, inside, outside and bits of planes


@loop
def pack(sizes: Codes, ranks: Codes, planes: Words) -> None:
    """Sets the bits of rows: whether their label is in, whether the set is single or empty, and its size."""
    for i in range(sizes.size):
        word, bit, size = i >> 6, np.uint64(i & 63), np.uint64(sizes[i])
        planes[SURE, word] |= np.uint64(ranks[i] < sizes[i]) << bit
        planes[SINGLE, word] |= np.uint64(sizes[i] == 1) << bit
        planes[EMPTY, word] |= np.uint64(sizes[i] == 0) << bit
        for plane in range(SIZE, planes.shape[0]):
            planes[plane, word] |= ((size >> np.uint64(plane - SIZE)) & np.uint64(1)) << bit


@loop
def count_bits(planes: Words, chosen: Words, sums: Codes) -> None:
    """How many of the chosen rows have their bit set, in every plane."""
    for plane in range(planes.shape[0]):
        count = 0
        for word in range(chosen.size):
            count += lanes.count(planes[plane, word] & chosen[word])
        sums[plane] = count


@loop
def near_fixed(
    block: Floats, ranks: Codes, c: Coefficients, limits: Limits, sizes: Codes, room: FixedRoom, begin: int
) -> tuple[int, int]:
    """Of a score without u: fills in the sizes that every threshold between two limits reaches, from a row on.

    `room` takes the places that only some reach: score, row, and kind, which is 0 for a class that makes a
    singleton, 1 for a pair, 2 for a larger set, and 4 more for the label. Returns the row where the room ends, and
    how many places there are.
    """
    low, high = limits
    scores, rows, kinds = room
    n_classes, used = block.shape[1], NONE
    for i in range(begin, ranks.size):
        if used + n_classes > scores.size:
            return i, used
        row, mass, size = block[i], 0.0, NONE
        for rank in range(n_classes):
            mass = next_mass_in_order(row, c, rank, mass)
            score = compiled_score_at(c, rank, np.float64(row[rank]), mass, 0.0)
            if not score <= high:
                break
            if score <= low:
                size = rank + 1
            else:
                scores[used], rows[used], kinds[used] = score, i, min(rank, 2) + 4 * (rank == ranks[i])
                used += 1
        sizes[i] = size
    return ranks.size, used


@inlined
def step_above(c: Coefficients, rank: int, p: float, mass: float, ends: tuple[float, float], bound: float) -> int:
    """The smallest j of 0 … STEPS at which the score at u = j/STEPS is above the bound; or STEPS.

    `ends` are the scores at u = 0 and 1. Between them runs a line, but for rounding, so it is known where to look.
    """
    first, last = ends
    if not first <= bound:
        return NONE
    inside, above = NONE, NONE + STEPS
    if bound < last:
        guess = int((bound - first) / (last - first) * STEPS)
        for middle in (guess - ASIDE, guess + ASIDE):
            if inside < middle < above:
                if compiled_score_at(c, rank, p, mass, middle / STEPS) <= bound:
                    inside = middle
                else:
                    above = middle
        while above - inside > 1:
            middle = (inside + above) >> 1
            if compiled_score_at(c, rank, p, mass, middle / STEPS) <= bound:
                inside = middle
            else:
                above = middle
    return above


@loop
def near_drawn(
    block: Floats, ranks: Codes, c: Coefficients, limits: Limits, sizes: Codes, room: Places, onwards: tuple[int, int]
) -> tuple[int, int]:
    """The same of a score with u, whose places are in at steps of u below `inside` for sure, and above `outside` not.

    `room` takes row, rank, inside, outside and the bits of planes of every place: where the row's number is, for the
    first of a row, and beyond all rows for the others. `onwards` are the row, and where the next of the others goes.
    """
    low, high = limits
    rows, places, inside, outside, planes = room
    n_classes, (begin, used) = block.shape[1], onwards
    for i in range(begin, ranks.size):
        if used + n_classes > rows.size:
            return i, used
        row, mass, size, at = block[i], 0.0, NONE, i
        for rank in range(n_classes):
            mass, p = next_mass_in_order(row, c, rank, mass), np.float64(row[rank])
            ends = compiled_score_at(c, rank, p, mass, 0.0), compiled_score_at(c, rank, p, mass, 1.0)
            if not ends[0] <= high:
                break
            if ends[1] <= low:
                size = rank + 1
                continue
            rows[at], places[at] = i, rank
            inside[at] = max(step_above(c, rank, p, mass, ends, low) - 1, 0)
            outside[at] = max(step_above(c, rank, p, mass, ends, high) - 1, 0)
            word, bit = at >> 6, np.uint64(at & 63)
            planes[min(rank, 2), word] |= np.uint64(1) << bit
            planes[LABEL, word] |= np.uint64(rank == ranks[i]) << bit
            used += at != i
            at = used
        sizes[i] = size
    return ranks.size, used


@loop
def count_entered(row: Indices, kind: Any, end: int, calibration: Flags, found: Codes) -> None:
    """Of the first places, those of test rows, by kind."""
    for i in range(end):
        found[kind[i]] += not calibration[row[i]]


@loop
def in_steps(u: Vector, steps: Any) -> None:
    """u in whole steps of 1/STEPS."""
    for i in range(u.size):
        steps[i] = np.int32(u[i] * STEPS)


@loop
def gather(row: Any, steps: Any, calibrates: Words, found: tuple[Any, Words]) -> None:
    """The steps of u, and the bits of who calibrates, of the rows of some places."""
    at, bits = found
    for word in range(row.size >> 6):
        here = np.uint64(0)
        for bit in range(64):
            i = np.uint64(64 * word + bit)
            k = np.uint64(row[i])
            at[i] = steps[k]
            here |= (calibrates[k >> np.uint64(6)] >> (k & np.uint64(63)) & np.uint64(1)) << np.uint64(bit)
        bits[word] = here


@loop
def sort_out(
    block: Floats,
    c: Coefficients,
    places: Places,
    drawn: tuple[Vector, Any, Words],
    found: Codes,
    near: tuple[Vector, Any],
) -> int:
    """Counts the places that are in for sure, by plane of `places`, and last the labels that calibrate.

    `drawn` are u of all rows, its steps for every place, and bits of who calibrates. What is neither in for sure nor
    out has its score in `near`, with its kind, 8 more if the row calibrates; returns how many. Of a row that
    calibrates only the label counts.
    """
    row, rank, inside, outside, planes = places
    u, steps, calibrates = drawn
    scores, kinds = near
    size = 0
    for word in range(planes.shape[1]):
        tests, enters = ~calibrates[word], lanes.below(steps, inside, 64 * word)
        label, some = planes[LABEL, word], planes[0, word] | planes[1, word] | planes[2, word]
        for plane in range(LABEL + 1):
            found[plane] += lanes.count(planes[plane, word] & enters & tests)
        found[LABEL + 1] += lanes.count(label & enters & ~tests)
        unsure = lanes.up_to(steps, outside, 64 * word) & ~enters & (label | (some & tests))
        while unsure != 0:
            bit = np.uint64(lanes.first(unsure))
            unsure &= unsure - np.uint64(1)
            i = np.uint64(word) << np.uint64(6) | bit
            own, here = block[row[i]], rank[i]
            scores[size] = compiled_score_at(c, here, np.float64(own[here]), mass_in_order(own, c, here), u[row[i]])
            kind = np.uint64(min(here, 2)) | (label >> bit & np.uint64(1)) << np.uint64(2)
            kinds[size] = kind | (~tests >> bit & np.uint64(1)) << np.uint64(3)
            size += 1
    return size
