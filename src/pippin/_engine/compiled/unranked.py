"""Scores that look at no class but the best one (IP, margin): compiled.

One pass over a row tells whether it is a distribution, and its two largest probabilities; one comparison with
`cutoff.py` settles all of its classes, and nothing is sorted but what is in a set.
"""

from typing import Any

import numpy as np

from pippin._engine.compiled import lanes, rowwise
from pippin._engine.compiled.build import NONE, compiled_score_at, inlined, loop, part
from pippin._engine.compiled.cutoff import cutoff_of
from pippin._engine.compiled.sorting import sort_down
from pippin._engine.compiled.walk import (
    CHUNK,
    ONE,
    Look,
    Ranking,
    Row,
    at_least,
    collect,
    first_of,
)
from pippin._engine.protocol import Scored
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE, Coefficients, Parts


@part
def _is_inside(row: Row, k: int, seen: Look, c: Coefficients, threshold: float) -> Any:
    """Whether a class that comes within rounding of the limit, or is the best one, is in the set."""
    p, mass = row.flat[row.start + k], c.table[0, ABOVE] * np.float64(seen.top)
    if c.reach == 1 and p == seen.top and k == first_of(row, seen.top):
        return True
    return compiled_score_at(c, 1, np.float64(p), mass, 0.0) <= threshold


@inlined
def _settled(row: Row, here: int, low: Any, sure: Any, seen: Look, c: Coefficients, threshold: float) -> Any:
    """Which of the next entries from `here` on are in the set; those that are unsure are asked."""
    inside = at_least(row, here, sure)
    unsure = at_least(row, here, low) & ~inside
    while unsure != 0:
        k = lanes.first(unsure)
        if _is_inside(row, here + k, seen, c, threshold):
            inside |= ONE << np.uint64(k)
        unsure &= unsure - ONE
    return inside


@inlined
def set_size(
    row: Row, seen: Look, c: Coefficients, u: float, threshold: float, first_band: Any, room: Ranking
) -> tuple[int, int]:
    """The size of a set, whose members are ranked then; no band is opened, and u is not looked at."""
    real, top, cutoff = row.flat.dtype.type, np.float64(seen.top), cutoff_of(c, threshold)
    limit = cutoff.base + cutoff.weight * top if c.reach == 1 else cutoff.base
    low, sure = real(limit - cutoff.slack), real(limit + cutoff.slack)
    if c.reach == 1:
        if not compiled_score_at(c, 0, top, c.second * np.float64(seen.second), 0.0) <= threshold:
            return NONE, NONE
        low = low if low <= seen.top else seen.top
    size = NONE
    for here in range(0, row.size, CHUNK):
        size = collect(row, here, _settled(row, here, low, sure, seen, c, threshold), size, room)
    sort_down(room.raw, room.raw_classes, size, room.values, room.classes, NONE)
    return size, NONE


@inlined
def place_in_row(row: Row, label: int, seen: Look, c: Coefficients, room: Ranking) -> tuple[int, float]:
    """The label's rank, as far as the score depends on it, and M."""
    own, top = row.flat[np.uint64(row.start + label)], seen.top
    if c.reach == 0:
        return NONE, 0.0
    if own < top or (own == seen.second and first_of(row, top) != label):
        return NONE + 1, c.table[0, ABOVE] * np.float64(top)
    return NONE, c.second * np.float64(seen.second)


@loop
def fill_places(flat: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored, room: Ranking) -> int:
    """As in `rowwise.py`."""
    return rowwise.fill_places(place_in_row, flat, labels, parts, u, out, room)


@loop
def fill_members(
    flat: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes, room: Ranking, begin: int, found: Indices
) -> tuple[int, int, int]:
    """As in `rowwise.py`."""
    return rowwise.fill_members(set_size, flat, parts, threshold, u, sizes, room, (begin, found))
