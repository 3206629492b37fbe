"""One split of very many rows: bits of what is known whatever the threshold, and the few places near it: compiled."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import compiled_score_at, loop
from pippin._engine.compiled.stepping import linear_mass
from pippin._runtime.arrays import Codes, Flags, Floats, Indices, Vector
from pippin._theory.formula import Coefficients

STEPS = 1 << 16  # of u, at which a place is looked at before the splits
SURE, SINGLE, EMPTY, SIZE = range(4)  # planes of bits; from SIZE on, those of the size

LABEL = 3  # of the planes of places: singletons, pairs and larger sets that they make, and labels

Words = NDArray[np.uint64]


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
def steps_of(rank: Indices, p: Vector, mass: Vector, c: Coefficients, bound: float, steps: Indices) -> None:
    """For every place the smallest j of 0 … STEPS at which its score at u = j/STEPS is above the bound; or STEPS."""
    for i in range(rank.size):
        inside, above = -1, STEPS
        while above - inside > 1:
            middle = (inside + above) >> 1
            if compiled_score_at(c, rank[i], p[i], mass[i], middle / STEPS) <= bound:
                inside = middle
            else:
                above = middle
        steps[i] = above


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
def sort_out(
    block: Floats,
    c: Coefficients,
    places: tuple[Any, Any, Words],
    u: Vector,
    drawn: tuple[Words, Words, Words],
    found: Codes,
    near: tuple[Vector, Any],
) -> int:
    """Counts the places that are in for sure, by plane of `places`, and last the labels that calibrate.

    `drawn` are bits of who calibrates, of who is in for sure, and of those that are not out for sure. What lies
    between has its score in `near`, with its kind, 8 more if the row calibrates; returns how many. Of a row that
    calibrates only the label counts.
    """
    row, rank, planes = places
    calibrates, inside, possible = drawn
    scores, kinds = near
    size = 0
    for word in range(inside.size):
        tests, enters = ~calibrates[word], inside[word]
        label, some = planes[LABEL, word], planes[0, word] | planes[1, word] | planes[2, word]
        for plane in range(LABEL + 1):
            found[plane] += lanes.count(planes[plane, word] & enters & tests)
        found[LABEL + 1] += lanes.count(label & enters & ~tests)
        unsure = possible[word] & ~enters & (label | (some & tests))
        while unsure != 0:
            bit = np.uint64(lanes.first(unsure))
            unsure &= unsure - np.uint64(1)
            i = np.uint64(word) << np.uint64(6) | bit
            own, here = block[row[i]], rank[i]
            scores[size] = compiled_score_at(c, here, np.float64(own[here]), linear_mass(own, c, here), u[row[i]])
            kind = np.uint64(min(here, 2)) | (label >> bit & np.uint64(1)) << np.uint64(2)
            kinds[size] = kind | (~tests >> bit & np.uint64(1)) << np.uint64(3)
            size += 1
    return size
