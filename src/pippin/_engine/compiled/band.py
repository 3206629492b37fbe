"""Between two thresholds: the sets that both have, and what enters on the way: compiled."""

import numpy as np

from pippin._engine.compiled.build import NONE, compiled, compiled_score_at, doubled
from pippin._engine.compiled.stepping import next_mass
from pippin._engine.compiled.walk import FIRST_BAND, Row, make_room
from pippin._engine.protocol import Places
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import Coefficients


@compiled
def _band(
    block: Floats, c: Coefficients, low: float, high: float, sizes: Codes
) -> tuple[Indices, Indices, Vector, Vector]:
    n, n_classes = block.shape
    flat = block.reshape(block.size)
    room, first_band = make_room(flat.dtype, n_classes), flat.dtype.type(FIRST_BAND)
    rows = np.empty(2 * n + n_classes, np.int32)
    ranks = np.empty(rows.size, np.int32)
    p = np.empty(rows.size)
    masses = np.empty(rows.size)
    used = 0
    for i in range(n):
        row = Row(flat, i * n_classes, n_classes)
        known, mass = NONE, 0.0
        if used + n_classes > rows.size:
            rows, ranks, p, masses = doubled(rows), doubled(ranks), doubled(p), doubled(masses)
        for rank in range(n_classes):
            mass, known = next_mass(row, c, rank, mass, -np.inf, known, first_band, room)
            own = np.float64(room.values[rank])
            if not compiled_score_at(c, rank, own, mass, 0.0) <= high:
                break
            if compiled_score_at(c, rank, own, mass, 1.0) <= low:
                sizes[i] = rank + 1
            else:
                rows[used], ranks[used], p[used], masses[used] = i, rank, own, mass
                used += 1
    return rows[:used].copy(), ranks[:used].copy(), p[:used].copy(), masses[:used].copy()


def band(block: Floats, c: Coefficients, low: float, high: float) -> tuple[Codes, Places]:
    """Sizes that every threshold from `low` to `high` reaches, and the places that some reach."""
    sizes = np.zeros(len(block), dtype=np.int64)
    return sizes, Places(*_band(block, c, low, high, sizes))
