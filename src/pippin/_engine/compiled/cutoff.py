"""The limit that a probability must reach, for scores that look at no class but the best one (IP, margin): compiled.

Whether class k is in the set then depends on p^k and the largest probability p[1] alone:

    s = c + a·p^k + w·p[1] + g <= q   exactly if   p^k >= (c + g − q + w·p[1])/(−a)

up to rounding. So one comparison settles many classes at once, and only those that come
within rounding of the limit are asked for their score.
"""

from typing import NamedTuple

from pippin._engine.compiled.build import inlined
from pippin._theory.formula import ABOVE, OWN, PENALTY, Coefficients

ROUNDING = 1e-6  # more than any limit and score are off in float32, in units of the formula's largest term


class Cutoff(NamedTuple):
    """A class is in the set if its probability reaches base + weight·p[1], certainly if by more than the slack."""

    base: float
    weight: float
    slack: float


@inlined
def cutoff_of(c: Coefficients, threshold: float) -> Cutoff:
    scale = -1.0 / c.table[1, OWN]
    constant, weight = c.constant + c.table[1, PENALTY], c.table[0, ABOVE]
    slack = ROUNDING * scale * (1.0 + abs(constant) + abs(threshold) + weight)
    return Cutoff((constant - threshold) * scale, weight * scale, slack)
