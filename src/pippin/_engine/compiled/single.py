"""One object's row: its set, and the score of one of its classes; compiled, for any score.

These loops are made for rows that can be written, as most can: to make a view of each would take a while.
"""

import numpy as np

from pippin._engine.compiled import priced, ranked, unranked
from pippin._engine.compiled.build import NONE, compiled, compiled_score_at
from pippin._engine.compiled.walk import FIRST_BAND, Row, is_broken, is_doubtful, look, make_room
from pippin._runtime.arrays import Floats, Indices
from pippin._theory.formula import Coefficients, Parts


@compiled
def one_set(row: Floats, parts: Parts, u: float, threshold: float) -> tuple[Indices, bool]:
    """The members of one row's set, best first, and whether the row is suspect."""
    c, whole = Coefficients(*parts), Row(row, NONE, row.size)
    seen, room = look(whole), make_room(row.dtype, row.size)
    if is_broken(seen):
        return room.classes[:0], True
    first_band = row.dtype.type(FIRST_BAND)
    if c.reach <= 1:
        size = unranked.one_set(whole, seen, c, threshold, room)
    elif np.isnan(c.price):
        size, _ = ranked.set_size(whole, seen, c, u, threshold, first_band, room)
    else:
        size, _ = priced.set_size(whole, seen, c, u, threshold, first_band, room)
    return room.classes[:size], is_doubtful(seen.total)


@compiled
def one_score(row: Floats, parts: Parts, u: float, label: int) -> tuple[float, bool]:
    """The score of one class of one row, and whether the row is suspect."""
    c, whole = Coefficients(*parts), Row(row, NONE, row.size)
    seen, room = look(whole), make_room(row.dtype, row.size)
    if is_broken(seen):
        return np.nan, True
    if c.reach <= 1:
        rank, mass = unranked.place_in_row(whole, label, seen, c, room)
    elif np.isnan(c.price):
        rank, mass = ranked.place_in_row(whole, label, seen, c, room)
    else:
        rank, mass = priced.place_in_row(whole, label, seen, c, room)
    return compiled_score_at(c, rank, np.float64(row[label]), mass, u), is_doubtful(seen.total)
