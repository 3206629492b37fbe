"""One row after another: the loops of `unranked.py`, `ranked.py` and `priced.py`, each with its own steps for one row.

A step that finds a label's place is place_in_row(row, label, seen, c, room) -> (rank, M); one that finds a set is
set_size(row, seen, c, u, threshold, first_band, room) -> (size, how many classes the first band held, 0 if none was
opened), and the row's ranking in `room` begins with its members then. `unranked.py` finds sets in a loop of its own.
"""

from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from pippin._engine.compiled.build import NONE, compiled_score_at, inlined
from pippin._engine.compiled.growing import Onwards, grown
from pippin._engine.compiled.handfuls import HANDFUL
from pippin._engine.compiled.sorting import Ranking
from pippin._engine.compiled.walk import (
    FIRST_BAND,
    Look,
    Row,
    adapted,
    is_broken,
    is_doubtful,
    look,
    n_classes_of,
    room_for,
)
from pippin._engine.protocol import Scored
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import Coefficients, Parts


@inlined
def look_at_all(row: Row, c: Coefficients) -> Look:
    """The look at a row of scores that depend on more than a class's own probability."""
    return look(row)


@inlined
def fill_places(
    look_at: Any, place_in_row: Any, flat: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored, room: Ranking
) -> int:
    """Fills in the place and the score of one class per row; returns how many rows are suspect."""
    c, n_classes, suspects = Coefficients(*parts), n_classes_of(room), NONE
    ranks, p, masses, scores = out
    for i in range(labels.size):
        ranks[i], p[i], masses[i] = 0, 1.0, 0.0
        row = Row(flat, i * n_classes, n_classes)
        seen = look_at(row, c)
        suspects += is_doubtful(seen.total) | is_broken(seen)
        if is_broken(seen):
            continue
        rank, mass = place_in_row(row, labels[i], seen, c, room)
        ranks[i], p[i], masses[i] = rank, flat[np.uint64(row.start + labels[i])], mass
        scores[i] = compiled_score_at(c, rank, p[i], mass, u[i])
    return suspects


@inlined
def fill_members(
    set_size: Any,
    flat: Floats,
    parts: Parts,
    threshold: float,
    u: Vector,
    sizes: Codes,
    room: Ranking,
    onwards: Onwards,
) -> tuple[int, int, int]:
    """Fills in sizes, and members into an array, from a row on; returns the row where that ends, the members, and how
    many rows are suspect."""
    (begin, found), c, n_classes, first_band = onwards, Coefficients(*parts), n_classes_of(room), FIRST_BAND
    used, suspects = NONE, NONE
    for i in range(begin, sizes.size):
        if used + n_classes > found.size:
            return i, used, suspects
        row = Row(flat, i * n_classes, n_classes)
        seen = look(row)
        suspects += is_doubtful(seen.total) | is_broken(seen)
        if is_broken(seen):
            continue
        size, opened = set_size(row, seen, c, u[i], threshold, flat.dtype.type(first_band), room)
        first_band = adapted(first_band, size, opened)
        for j in range(size):
            found[np.uint64(used + j)] = room.classes[np.uint64(j)]
        sizes[i] = size
        used += size
    return sizes.size, used, suspects


def label_places(loops: ModuleType, block: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored) -> int:
    """As in `protocol.py`, by the loops of one of these modules."""
    suspects: int = loops.fill_places(block.reshape(-1), labels, parts, u, out, room_for(block.dtype, block.shape[1]))
    return suspects


def members(
    loops: ModuleType, block: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes
) -> tuple[Indices, int]:
    """As in `protocol.py`, by the loops of one of these modules."""
    (n, n_classes), flat = block.shape, block.reshape(-1)
    room = room_for(flat.dtype, n_classes)
    return grown(partial(loops.fill_members, flat, parts, threshold, u, sizes, room), n, n_classes + HANDFUL)
