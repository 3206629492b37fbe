"""Repeated random splits of sorted rows: the classes near the threshold, and counts on many splits."""

import numpy as np

from pippin._engine.numpy_engine.scores import sets_by_rank
from pippin._engine.protocol import NearPlaces
from pippin._runtime.arrays import Codes, Flags, Floats, Indices, Vector
from pippin._theory.formula import Coefficients, score_at


def near_places(
    block: Floats, ranks: Codes, c: Coefficients, low: float, high: float
) -> tuple[Indices, Indices, Indices, Flags, Vector, Vector]:
    """Set sizes at the threshold `low`, and the classes that enter between `low` and `high`: see `NearPlaces`."""
    at_low, at_high, p, mass = sets_by_rank(block, c, low, high)
    row, rank = (of.astype(np.int32) for of in np.nonzero(at_high & ~at_low))
    return at_low.sum(axis=1).astype(np.int32), row, rank, rank == ranks[row], p[row, rank], mass[row, rank]


def count_splits(near: NearPlaces, c: Coefficients, k: int, calibrations: Flags, u: Vector, counts: Vector) -> None:
    """Fill `counts`, one row per split: see `protocol.Engine.count_splits`."""
    here = c._replace(table=c.table[near.rank])
    for calibration, own_u, count in zip(calibrations, u, counts, strict=True):
        with np.errstate(divide="ignore", over="ignore"):
            scores = score_at(here, slice(None), near.p, near.mass, own_u[near.row])
        test = ~calibration
        unsure = scores[near.labels][calibration[near.row[near.labels]]]
        index = k - 1 - np.count_nonzero(near.sure & calibration)
        count[0] = np.partition(unsure, index)[index] if 0 <= index < len(unsure) else np.nan
        enters = (scores <= count[0]) & test[near.row]
        covered = np.count_nonzero(near.sure & test) + np.count_nonzero(enters & near.is_label)
        sizes = (near.sizes + np.bincount(near.row[enters], minlength=len(test)))[test]
        singletons, empty = sizes == 1, sizes == 0
        count[1:3] = covered, sizes.sum()
        count[3:] = [np.count_nonzero(some) for some in (singletons, empty, singletons & near.top[test])]
