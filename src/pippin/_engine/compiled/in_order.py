"""Rows that are sorted downwards already, as those of a comparison are: nothing is ranked, and M is a sum: compiled.

The scores, and so the sets, are those of the other loops, to the last bit.
"""

import numpy as np

from pippin._engine.compiled.build import compiled_score_at, inlined, loop, part
from pippin._runtime.arrays import Codes, Flags, Floats, Vector
from pippin._theory.formula import ABOVE, Coefficients


@part
def lowest_price_in_order(row: Floats, price: float) -> float:
    """SOCOP's τ, as in `priced.py`."""
    mass, tau = 0.0, np.inf
    for m in range(1, row.size):
        mass += row[m]
        ratio = (m + price) / mass
        if not ratio < tau:
            break
        tau = ratio
    return tau


@inlined
def next_mass_in_order(row: Floats, c: Coefficients, rank: int, mass: float) -> float:
    """M at `rank`, from M at the rank before it."""
    if rank == 0:
        mass = c.second * row[1] if c.second != 0.0 else 0.0
    elif not np.isnan(c.price):
        mass = lowest_price_in_order(row, c.price) if rank == 1 else mass
    else:
        mass = (0.0 if rank == 1 else mass) + c.table[rank - 1, ABOVE] * row[rank - 1]
    return mass


@inlined
def mass_in_order(row: Floats, c: Coefficients, rank: int) -> float:
    """M at `rank`."""
    if rank == 0 or not np.isnan(c.price):
        return next_mass_in_order(row, c, min(rank, 1), 0.0)
    mass = 0.0
    for above in range(rank):
        mass += c.table[above, ABOVE] * row[above]
    return mass


@inlined
def size_in_order(row: Floats, c: Coefficients, u: float, threshold: float) -> int:
    """How many of the first classes have scores up to the threshold."""
    mass = 0.0
    for rank in range(row.size):
        mass = next_mass_in_order(row, c, rank, mass)
        if not compiled_score_at(c, rank, np.float64(row[rank]), mass, u) <= threshold:
            return rank
    return row.size


@loop
def label_scores(block: Floats, ranks: Codes, c: Coefficients, u: Vector, scores: Vector) -> None:
    """Fills in the score of one rank per row."""
    for i in range(ranks.size):
        row, rank = block[i], ranks[i]
        scores[i] = compiled_score_at(c, rank, np.float64(row[rank]), mass_in_order(row, c, rank), u[i])


@loop
def count_covered(
    block: Floats,
    codes: tuple[Codes, Codes, Codes],
    calibration: Flags,
    u: Vector,
    c: Coefficients,
    threshold: float,
    found: tuple[Codes, Codes, Codes],
) -> None:
    """Counts test rows, and those whose set holds the label, by class, by group and by size of the set.

    `codes` are the labels' ranks, the labels and the groups; `found` has a (2, how many) array for each kind.
    """
    ranks, labels, groups = codes
    by_class, by_group, by_size = found
    for i in range(ranks.size):
        if not calibration[i]:
            size = size_in_order(block[i], c, u[i], threshold)
            covered = ranks[i] < size
            by_class[0, labels[i]] += 1
            by_class[1, labels[i]] += covered
            by_group[0, groups[i]] += 1
            by_group[1, groups[i]] += covered
            by_size[0, size] += 1
            by_size[1, size] += covered
