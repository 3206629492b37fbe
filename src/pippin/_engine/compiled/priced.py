"""SOCOP, one row at a time, ranked only as far as needed: compiled.

Its rank 2 needs τ of the row, for which the classes are ranked as long as the ratio falls.
"""

from typing import Any

import numpy as np

from pippin._engine.compiled import lanes, rowwise
from pippin._engine.compiled.build import BEST, NEXT, NONE, compiled_score_at, inlined, loop, part
from pippin._engine.compiled.sorting import Ranking
from pippin._engine.compiled.walk import (
    FIRST_BAND,
    Look,
    Row,
    first_of,
    rank_more,
)
from pippin._theory.formula import Coefficients


@part
def lowest_price(
    row: Row, price: float, enough: float, known: int, first_band: Any, room: Ranking
) -> tuple[float, int]:
    """SOCOP's τ, or some ratio on the way to it that is at most `enough`; and how many ranks are known."""
    mass, tau = 0.0, np.inf
    for m in range(1, row.size):
        if m == known:
            known = rank_more(row, known, first_band, room)
        mass += room.values[m]
        ratio = (m + price) / mass
        if not ratio < tau:
            break
        tau = ratio
        if tau <= enough:
            break
    return tau, known


@inlined
def place_in_row(row: Row, label: int, seen: Look, c: Coefficients, room: Ranking) -> tuple[int, float]:
    """Whether the label is the best class (0) or not (1), and M."""
    own, first_band = row.flat[np.uint64(row.start + label)], row.flat.dtype.type(FIRST_BAND)
    if own == seen.top and (seen.second < seen.top or first_of(row, seen.top) == label):
        return NONE, 0.0
    known = rank_more(row, NONE, first_band, room)
    return NONE + 1, lowest_price(row, c.price, 1.0 / (np.float64(own) + 0.0), known, first_band, room)[0]


@inlined
def set_size(
    row: Row, seen: Look, c: Coefficients, u: float, threshold: float, first_band: Any, room: Ranking
) -> tuple[int, int]:
    """The size of a set, and how many classes the first band held, 0 if none was opened; as in `ranked.py`.

    One look tells of rank 2 the bound 1/p[2].
    """
    top, second = np.float64(seen.top), np.float64(seen.second)
    if not compiled_score_at(c, BEST, top, 0.0, u) <= threshold:
        return NONE, NONE
    if second < top and not compiled_score_at(c, NEXT, second, 0.0, u) <= threshold:
        room.classes[0] = first_of(row, seen.top)
        return NONE + 1, NONE
    return _walk(row, c, threshold, first_band, room)


@part
def _walk(row: Row, c: Coefficients, threshold: float, first_band: Any, room: Ranking) -> tuple[int, int]:
    lanes.apart()
    opened = rank_more(row, NONE, first_band, room)
    tau, known = lowest_price(row, c.price, threshold, opened, first_band, room)
    for rank in range(1, row.size):
        if rank == known:
            known = rank_more(row, known, first_band, room)
        if not compiled_score_at(c, rank, np.float64(room.values[rank]), tau, 0.0) <= threshold:
            return rank, opened
    return row.size, opened


fill_places = loop(
    lambda flat, labels, parts, u, out, room: rowwise.fill_places(
        rowwise.look_at_all, place_in_row, flat, labels, parts, u, out, room
    )
)
fill_members = loop(
    lambda flat, parts, threshold, u, sizes, room, onwards: rowwise.fill_members(
        set_size, flat, parts, threshold, u, sizes, room, onwards
    )
)
