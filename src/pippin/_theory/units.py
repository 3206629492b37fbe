"""Units of several rows, such as photographs with their windows: each unit counts once, whatever its size.

Of J units, unit j with m_j scores, each score weighs 1/m_j; a class whose score exceeds b of the n scores, in
increasing order, has

    p = (Σ_{scores that are not below} 1/m_j + 1)/(J + 1)

If the units and a new one are exchangeable, a row drawn at random from the new one has p > α for its true class with
probability at least 1 − α (docs/guarantees.md has the proof).
"""

from itertools import accumulate
from math import lcm

import numpy as np

from pippin._runtime.arrays import Codes, Vector, read_only


def unit_p_values(units: Codes) -> Vector:
    """p for b = 0 … n, from the unit of each score, the scores in increasing order; each p is rounded once.

    >>> unit_p_values(np.array([0, 1, 1, 2]))  # units of one, two and one rows
    array([1.   , 0.75 , 0.625, 0.5  , 0.25 ])
    """
    sizes = np.bincount(units)
    whole = lcm(*np.unique(sizes[sizes > 0]).tolist())
    parts = [whole // size for size in sizes[units].tolist()]
    total = whole * (len(sizes) + 1)
    tails = list(accumulate(reversed(parts), initial=whole))[::-1]
    return read_only(np.array([tail / total for tail in tails]))  # Python rounds the quotient of whole numbers once
