"""Linear scores that look at all better classes, one row at a time, ranked only as far as needed: compiled.

The true label's score needs only the classes above it; a set needs only the classes in
it and one more: `walk.py` finds these. Sums run in rank order in float64, as in the plain
engine: the same bits. SOCOP has loops of its own in `priced.py`, so that nobody compiles both for one of them.
"""

from functools import partial
from typing import Any

import numpy as np

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import NONE, compiled_score_at, inlined, loop, part
from pippin._engine.compiled.growing import grown
from pippin._engine.compiled.sorting import sort_down
from pippin._engine.compiled.walk import (
    FIRST_BAND,
    Look,
    Ranking,
    Row,
    adapted,
    collect_above,
    first_of,
    is_broken,
    is_doubtful,
    look,
    rank_more,
    room_for,
)
from pippin._engine.protocol import Scored
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE, Coefficients, Parts


@inlined
def place_in_row(row: Row, label: int, seen: Look, c: Coefficients, room: Ranking) -> tuple[int, float]:
    """The label's rank and M."""
    own = row.flat[np.uint64(row.start + label)]
    rank = NONE if own == seen.top and seen.second < seen.top else collect_above(row, label, room)
    if rank == 0:
        return NONE, c.second * np.float64(seen.second)
    rank = rank if rank < row.size else row.size - 1  # unless rows change, there are fewer
    sort_down(room.raw, room.raw_classes, rank, room.values, room.classes, NONE)
    mass = 0.0
    for j in range(rank):
        mass += c.table[j, ABOVE] * room.values[j]
    return rank, mass


@part
def _walk(
    row: Row, seen: Look, c: Coefficients, u: float, threshold: float, first_band: Any, room: Ranking
) -> tuple[int, int]:
    """The size of a set of two classes or more, and how many the first band held; the ranking begins with them."""
    lanes.apart()
    known, mass = NONE, c.second * np.float64(seen.second)
    opened = NONE
    for rank in range(row.size):
        if rank == known:
            known = rank_more(row, known, first_band, room)
            opened = known if rank == 0 else opened
        p = np.float64(room.values[rank])
        if not compiled_score_at(c, rank, p, mass, u) <= threshold:
            return rank, opened
        mass = (0.0 if rank == 0 else mass) + c.table[rank, ABOVE] * p
    return row.size, opened


@inlined
def set_size(
    row: Row, seen: Look, c: Coefficients, u: float, threshold: float, first_band: Any, room: Ranking
) -> tuple[int, int]:
    """The size of a set, and how many classes the first band held, 0 if none was opened.

    The row's ranking begins with its members. One look tells the two best probabilities, so most sets of one class
    need no ranking.
    """
    top, second = np.float64(seen.top), np.float64(seen.second)
    if not compiled_score_at(c, 0, top, c.second * second, u) <= threshold:
        return NONE, NONE
    if second < top and not compiled_score_at(c, 1, second, c.table[0, ABOVE] * top, u) <= threshold:
        room.classes[0] = first_of(row, seen.top)
        return NONE + 1, NONE
    return _walk(row, seen, c, u, threshold, first_band, room)


def label_places(block: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored) -> int:
    """As in `protocol.py`."""
    return fill_places(block.reshape(-1), labels, parts, u, out, room_for(block.dtype, block.shape[1]))


@loop
def fill_places(flat: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored, room: Ranking) -> int:
    """Fills in the place and the score of one class per row; returns how many rows are suspect."""
    c, n_classes, suspects = Coefficients(*parts), room.values.size, NONE
    ranks, p, masses, scores = out
    for i in range(labels.size):
        ranks[i], p[i], masses[i] = 0, 1.0, 0.0
        row = Row(flat, i * n_classes, n_classes)
        seen = look(row)
        suspects += is_doubtful(seen.total) | is_broken(seen)
        if is_broken(seen):
            continue
        p[i] = flat[np.uint64(row.start + labels[i])]
        ranks[i], masses[i] = place_in_row(row, labels[i], seen, c, room)
        scores[i] = compiled_score_at(c, ranks[i], p[i], masses[i], u[i])
    return suspects


def members(block: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """As in `protocol.py`."""
    (n, n_classes), flat = block.shape, block.reshape(-1)
    room = room_for(flat.dtype, n_classes)
    return grown(partial(fill_members, flat, parts, threshold, u, sizes, room), n, n_classes)


@loop
def fill_members(
    flat: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes, room: Ranking, begin: int, found: Indices
) -> tuple[int, int, int]:
    """Fills in sizes and members from the row `begin` on; returns the row where the room ends, the members, and how
    many rows are suspect."""
    c, n_classes, first_band = Coefficients(*parts), room.values.size, FIRST_BAND
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
