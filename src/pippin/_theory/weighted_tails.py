"""Weighted conformal p-values, correctly rounded, and weighted thresholds: the largest scores with p above alpha.

For n calibration scores in increasing order with the weights w_1 … w_n, and a new object of weight w, the p-value of
a score that exceeds b of the n scores is

    p = (T_b + w)/(T_0 + w),   T_b = w_{b+1} + … + w_n

The result is the double nearest to this quotient, on every machine. So it never increases with b, and equal weights
give the p-values without weights. The quotient is computed with pairs of doubles, and with integers where the error
bound of the pairs does not determine the nearest double.

In clustered rows, such as the windows of photographs, each row of a unit (photograph) of m rows has the weight 1/m, and
a new object has weight 1. If J calibration units and a new unit are exchangeable, a random row of the new unit has
p > α for its true class with probability at least 1 − α (proof in docs/guarantees.md).
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Codes, Flags, Vector, read_only

_SLACK = 2.0**-98  # bound on the relative rounding error of a quotient of pairs of doubles
_TINY = 2.0**-900  # smaller quotients are computed with integers, since the second double of a pair may underflow


@dataclass(frozen=True, eq=False)
class Tails:
    """Tail sums of weights: T_b is the total weight of the calibration scores above the b smallest ones, b = 0 … n.

    T_b is exactly `exact[b] * unit`, an integer times a fraction. For speed, `first[b] + second[b]` approximates
    T_b·2**scale by a pair of doubles.
    """

    exact: list[int]
    unit: Fraction
    first: Vector
    second: Vector
    scale: int

    def p(self, below: NDArray[np.integer], weights: Vector) -> Vector:
        """Compute p-values of scores that exceed `below` calibration scores, for new objects with these weights.

        >>> tails(np.array([0.1, 0.1, 0.2])).p(np.array([0, 1, 3]), np.array([0.1]))
        array([1. , 0.8, 0.2])
        """
        low, high = self._bounds(below, weights)
        return self._corrected(low, low != high, below, weights)

    def reach(self, weights: Vector, alpha: float) -> Codes:
        """Return for each new object the largest number b of calibration scores that a score with p > alpha exceeds.

        b depends on the weight of the object. A score that exceeds at most b calibration scores has a p-value above
        alpha, and one that exceeds more has not.
        """
        low = np.zeros(len(weights), dtype=np.int64)  # b = 0 is always allowed, since then p is 1
        high = np.full(len(weights), len(self.exact))
        while (high - low > 1).any():
            middle = (low + high) // 2
            least, most = self._bounds(middle, weights)
            above = self._corrected(least, (least > alpha) != (most > alpha), middle, weights) > alpha
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return low

    def _bounds(self, below: NDArray[np.integer], weights: Vector) -> tuple[Vector, Vector]:
        """Return a lower and an upper bound of each correctly rounded p-value; they are equal in nearly all cases."""
        with np.errstate(all="ignore"):
            shifted = np.ldexp(weights, self.scale)
            tail, tail_rest = _sum(self.first[below], shifted)
            total, total_rest = _sum(self.first[0], shifted)
            near = tail / total
            product, product_rest = _product(near, total)
            rest = (tail - product) - product_rest + (tail_rest + self.second[below])
            rest = (rest - near * (total_rest + self.second[0])) / total
            unknown = ~np.isfinite(rest) | ((near < _TINY) & ((tail > 0) | (weights > 0)))
            slack = near * _SLACK
        low, high = near + (rest - slack), near + (rest + slack)
        return np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)

    def _corrected(self, values: Vector, unsure: Flags, below: NDArray[np.integer], weights: Vector) -> Vector:
        """Recompute in integer arithmetic the p-values that are flagged as `unsure`; return all p-values."""
        places = np.nonzero(unsure)
        counts, of_rows = (np.broadcast_to(array, values.shape)[places].tolist() for array in (below, weights))
        values[places] = list(map(self._rounded, counts, of_rows))
        return values

    def _rounded(self, below: int, weight: float) -> float:
        top, bottom = (Fraction(weight) / self.unit).as_integer_ratio()
        tail, total = (t * bottom + top for t in (self.exact[below], self.exact[0]))
        return tail / total  # Python rounds the quotient of two integers correctly


def tails(weights: Vector) -> Tails:
    """Compute the tail sums T_b = w_{b+1} + … + w_n, b = 0 … n, where w_i is the weight of the i-th smallest score.

    Weights must be finite, at least 0, and not all 0.
    """
    mantissa, exponent = np.frexp(weights)
    lowest = int(exponent[weights > 0].min())
    shifts = np.where(weights > 0, exponent - lowest, 0).tolist()
    whole = [m << s for m, s in zip((mantissa * 2.0**53).astype(np.int64).tolist(), shifts, strict=True)]
    exact = list(accumulate(reversed(whole), initial=0))[::-1]
    bits = exact[0].bit_length()
    spare = [max(t.bit_length() - 106, 0) for t in exact]  # number of bits beyond the 106 of two doubles
    top = [t >> s for t, s in zip(exact, spare, strict=True)]
    large = list(map(float, top))
    small = [float(t - int(f)) for t, f in zip(top, large, strict=True)]
    first, second = (read_only(np.ldexp(part, np.array(spare) - bits)) for part in (large, small))
    return Tails(exact, Fraction(2) ** (lowest - 53), first, second, 53 - lowest - bits)


def _sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded sum a + b and its rounding error (Knuth's two-sum algorithm)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded product a·b and its rounding error (Dekker's algorithm)."""
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Any) -> tuple[Any, Any]:
    wide = a * 134217729.0  # 2**27 + 1 splits a double into halves of 26 bits (Veltkamp)
    upper = wide - (wide - a)
    return upper, a - upper


def unit_p_values(units: Codes) -> Vector:
    """Compute p-values for clustered rows: entry b is the p-value of a score that exceeds b of n calibration scores.

    `units` holds the number of the cluster ("unit") of each score, in ascending order of the scores. A score has the
    weight 1/m if its cluster has m rows, so that all clusters have equal weight.

    >>> unit_p_values(np.array([0, 1, 1, 2]))  # units of one, two and one rows
    array([1.   , 0.75 , 0.625, 0.5  , 0.25 ])
    """
    sizes = np.bincount(units)
    whole = lcm(*np.unique(sizes[sizes > 0]).tolist())
    parts = [whole // size for size in sizes[units].tolist()]
    total = whole * (len(sizes) + 1)
    tails = list(accumulate(reversed(parts), initial=whole))[::-1]
    return read_only(np.array([tail / total for tail in tails]))  # Python rounds quotients of integers correctly
