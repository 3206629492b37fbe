"""Linear scores that look at all better classes, one row at a time, ranked only as far as needed: compiled.

The true label's score needs only the classes above it; a set needs only the classes in
it and one more: `walk.py` finds these. Sums run in rank order in float64, as in the plain
engine: the same bits. SOCOP has loops of its own in `priced.py`, so that nobody compiles both for one of them.
"""

from typing import Any

import numpy as np

from pippin._engine.compiled import lanes, rowwise
from pippin._engine.compiled.build import BEST, NEXT, NONE, compiled_score_at, inlined, loop, part
from pippin._engine.compiled.sorting import Ranking, sort_down
from pippin._engine.compiled.walk import (
    Look,
    Row,
    collect_above,
    first_of,
    rank_more,
)
from pippin._theory.formula import ABOVE, Coefficients


@inlined
def place_in_row(row: Row, label: int, seen: Look, c: Coefficients, room: Ranking) -> tuple[int, float]:
    """The label's rank and M."""
    own = row.flat[np.uint64(row.start + label)]
    rank = NONE if own == seen.top and seen.second < seen.top else collect_above(row, label, room)
    if rank == 0:
        return NONE, c.second * np.float64(seen.second)
    rank = rank if rank < row.size else row.size - 1  # unless rows change, there are fewer
    sort_down(room, rank, NONE)
    mass = 0.0
    for j in range(rank):
        mass += c.table[j, ABOVE] * room.values[j]
    return rank, mass


fill_places = loop(
    lambda flat, labels, parts, u, out, room: rowwise.fill_places(
        rowwise.look_at_all, place_in_row, flat, labels, parts, u, out, room
    )
)


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
    if not compiled_score_at(c, BEST, top, c.second * second, u) <= threshold:
        return NONE, NONE
    if second < top and not compiled_score_at(c, NEXT, second, c.table[0, ABOVE] * top, u) <= threshold:
        room.classes[0] = first_of(row, seen.top)
        return NONE + 1, NONE
    return _walk(row, seen, c, u, threshold, first_band, room)


fill_members = loop(
    lambda flat, parts, threshold, u, sizes, room, onwards: rowwise.fill_members(
        set_size, flat, parts, threshold, u, sizes, room, onwards
    )
)
