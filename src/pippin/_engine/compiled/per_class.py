"""Prediction sets whose threshold depends on the class and the object, in a compiled loop."""

import numpy as np

from pippin._engine.compiled.build import NONE, compiled, compiled_score_at, doubled
from pippin._engine.compiled.sorting import largest
from pippin._engine.compiled.stepping import next_mass
from pippin._engine.compiled.walk import FIRST_BAND, Row, is_broken, is_doubtful, look, make_room
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import Coefficients


@compiled
def members_within(
    block: Floats,
    c: Coefficients,
    limits: Vector,
    rank_limits: Indices,
    group: Codes,
    u: Vector,
    sizes: Codes,
) -> tuple[Indices, int]:
    """Fills `sizes`; returns the members of all rows, best first, and how many rows are suspect.

    Scores grow with the rank, so a row is walked until its score exceeds every limit.
    """
    n, n_classes = block.shape
    flat = block.reshape(block.size)
    room, first_band = make_room(flat.dtype, n_classes), flat.dtype.type(FIRST_BAND)
    found = np.empty(4 * n + n_classes, np.int32)
    by_class, ranked = limits.shape[1] > 1, rank_limits.shape[1] > 1
    used, suspects = 0, 0
    for i in range(n):
        row, own = Row(flat, i * n_classes, n_classes), limits[group[i]]
        seen = look(row)
        suspects += is_doubtful(seen.total) | is_broken(seen)
        if is_broken(seen):
            continue
        if used + n_classes > found.size:
            found = doubled(found)
        highest, known, mass = largest(own), NONE, 0.0
        for rank in range(n_classes):
            mass, known = next_mass(row, c, rank, mass, -np.inf, known, first_band, room)
            score = compiled_score_at(c, rank, np.float64(room.values[rank]), mass, u[i])
            if not score <= highest:
                break
            k = room.classes[rank]
            if score <= own[k if by_class else 0] and (not ranked or rank < rank_limits[group[i], k]):
                found[used] = k
                used += 1
                sizes[i] += 1
    return found[:used].copy(), suspects
