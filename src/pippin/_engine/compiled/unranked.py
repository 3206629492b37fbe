"""Scores that look at no class but the best one (IP, margin): compiled.

One pass over a row tells whether it is a distribution, and its two largest probabilities; one comparison with
`cutoff.py` settles all of its classes, and nothing is sorted but what is in a set.
"""

from functools import partial
from typing import Any

import numpy as np

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import NONE, compiled_score_at, inlined, loop, part
from pippin._engine.compiled.cutoff import Cutoff, cutoff_of
from pippin._engine.compiled.growing import grown
from pippin._engine.compiled.sorting import sort_down
from pippin._engine.compiled.walk import (
    CHUNK,
    ONE,
    Look,
    Ranking,
    Row,
    above,
    at_least,
    collect,
    first_of,
    is_broken,
    is_doubtful,
    look,
    room_for,
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
def _write_few(row: Row, inside: Any, found: Indices, used: int) -> Any:
    """Writes the members of a row of at most CHUNK classes, each where the number of entries above it says."""
    size = lanes.count(inside)
    if size == 1:
        found[np.uint64(used)] = lanes.first(inside)
        return size
    while inside != 0:
        k = lanes.first(inside)
        p = row.flat[np.uint64(row.start + k)]
        before = above(row, NONE, p) | (at_least(row, NONE, p) & ((ONE << np.uint64(k)) - ONE))
        found[np.uint64(used + lanes.count(before))] = k
        inside &= inside - ONE
    return size


@inlined
def set_of_row(
    row: Row, seen: Look, c: Coefficients, cutoff: Cutoff, threshold: float, room: Ranking, found: Indices, used: int
) -> Any:
    """Writes the members of one set by rank, from `used` on; returns their number."""
    real, top = row.flat.dtype.type, np.float64(seen.top)
    limit = cutoff.base + cutoff.weight * top if c.reach == 1 else cutoff.base
    low, sure = real(limit - cutoff.slack), real(limit + cutoff.slack)
    if c.reach == 1:
        if not compiled_score_at(c, 0, top, c.second * np.float64(seen.second), 0.0) <= threshold:
            return NONE
        low = low if low <= seen.top else seen.top
    if row.size <= CHUNK:
        return _write_few(row, _settled(row, NONE, low, sure, seen, c, threshold), found, used)
    size = NONE
    for here in range(0, row.size, CHUNK):
        size = collect(row, here, _settled(row, here, low, sure, seen, c, threshold), size, room)
    sort_down(room.raw, room.raw_classes, size, room.values, room.classes, NONE)
    for j in range(size):
        found[np.uint64(used + j)] = room.classes[np.uint64(j)]
    return size


@inlined
def place_in_row(row: Row, label: int, seen: Look, c: Coefficients) -> tuple[int, float]:
    """The label's rank, as far as the score depends on it, and M."""
    own, top = row.flat[np.uint64(row.start + label)], seen.top
    if c.reach == 0:
        return 0, 0.0
    if own < top or (own == seen.second and first_of(row, top) != label):
        return 1, c.table[0, ABOVE] * np.float64(top)
    return 0, c.second * np.float64(seen.second)


@loop
def fill_members(
    flat: Floats, parts: Parts, threshold: float, sizes: Codes, room: Ranking, begin: int, found: Indices
) -> tuple[int, int, int]:
    """Fills in sizes and members from the row `begin` on; returns the row where the room ends, the members, and how
    many rows are suspect."""
    c = Coefficients(*parts)
    cutoff, n_classes = cutoff_of(c, threshold), room.values.size
    used, suspects = NONE, NONE
    for i in range(begin, sizes.size):
        if used + n_classes > found.size:
            return i, used, suspects
        row = Row(flat, i * n_classes, n_classes)
        seen = look(row)
        suspects += is_doubtful(seen.total) | is_broken(seen)
        size = NONE if is_broken(seen) else set_of_row(row, seen, c, cutoff, threshold, room, found, used)
        sizes[i] = size
        used += size
    return sizes.size, used, suspects


def members(block: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """As in `protocol.py`, under one threshold; u is not looked at."""
    (n, n_classes), flat = block.shape, block.reshape(-1)
    room = room_for(flat.dtype, n_classes)
    return grown(partial(fill_members, flat, parts, threshold, sizes, room), n, n_classes)


def label_places(block: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored) -> int:
    """As in `protocol.py`; a rank is 0 or 1, and u is not looked at."""
    return fill_places(block.reshape(-1), labels, parts, out)


@loop
def fill_places(flat: Floats, labels: Codes, parts: Parts, out: Scored) -> int:
    """Fills in the place and the score of one class per row; returns how many rows are suspect."""
    c, n_classes = Coefficients(*parts), parts[-1].shape[0]
    ranks, p, masses, scores = out
    suspects = NONE
    for i in range(labels.size):
        row = Row(flat, i * n_classes, n_classes)
        seen = look(row)
        suspects += is_doubtful(seen.total) | is_broken(seen)
        p[i] = flat[np.uint64(row.start + labels[i])]
        ranks[i], masses[i] = place_in_row(row, labels[i], seen, c)
        scores[i] = compiled_score_at(c, ranks[i], p[i], masses[i], 0.0)
    return suspects
