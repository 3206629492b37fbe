"""M of any score, rank after rank, for loops that walk down whole rankings: compiled."""

from typing import Any

import numpy as np

from pippin._engine.compiled.build import part
from pippin._engine.compiled.priced import lowest_price
from pippin._engine.compiled.sorting import Ranking
from pippin._engine.compiled.walk import Row, rank_more
from pippin._theory.formula import ABOVE, Coefficients


@part
def next_mass(
    row: Row, c: Coefficients, rank: int, mass: float, enough: float, known: int, first_band: Any, room: Ranking
) -> tuple[float, int]:
    """M at `rank`, from M at the rank before it; and how many ranks are known then."""
    if rank == known:
        known = rank_more(row, known, first_band, room)
    if rank == 0:
        if c.second == 0.0:
            return 0.0, known
        if known == 1:
            known = rank_more(row, known, first_band, room)
        return c.second * room.values[1], known
    if not np.isnan(c.price):
        return lowest_price(row, c.price, enough, known, first_band, room) if rank == 1 else (mass, known)
    before = 0.0 if rank == 1 else mass
    return before + c.table[rank - 1, ABOVE] * room.values[rank - 1], known
