"""Histogram of scores in a fixed number of logarithmic bins, for conformal p-values in constant memory.

The bin of a score depends on that score alone, so exchangeable scores stay exchangeable. Scores in one bin count as
tied, and ties are broken at random, so smoothed p-values stay exactly uniform.
"""

import math

from pippin._runtime.arrays import Codes

DIGITS = 10  # binary digits of precision
SMALLEST, LARGEST = -40, 24  # exponents of two; scores beyond them share the outermost bins
HALF = (LARGEST - SMALLEST + 1 << DIGITS) + 1  # bins of the positive scores
BINS = 2 * HALF + 1


def bin_of(score: float) -> int:
    """Return the bin of a score, from 0 to BINS − 1, monotone in the score: its sign, exponent and first digits.

    >>> bin_of(0.0) == HALF, bin_of(-math.inf), bin_of(math.inf) == BINS - 1
    (True, 0, True)
    >>> bin_of(0.5) < bin_of(0.501) < bin_of(0.502), bin_of(0.5) == bin_of(0.5001)
    (True, True)
    """
    if math.isinf(score):
        return BINS - 1 if score > 0 else 0
    mantissa, exponent = math.frexp(abs(score))
    if mantissa == 0.0 or exponent <= SMALLEST:
        return HALF
    place = HALF - 1
    if exponent < LARGEST:
        place = ((exponent - SMALLEST) << DIGITS) + int((mantissa - 0.5) * (2 << DIGITS))
    return HALF + place if score > 0 else HALF - place


def add(tree: Codes, place: int, count: int) -> None:
    """Add `count` scores to a bin of a Fenwick tree of BINS + 1 sums; entry 0 holds the total."""
    tree[0] += count
    i = place + 1
    while i <= BINS:
        tree[i] += count
        i += i & -i


def up_to(tree: Codes, place: int) -> int:
    """Return the number of scores in a bin or below it.

    >>> import numpy as np
    >>> tree = np.zeros(BINS + 1, dtype=np.int64)
    >>> for score in (0.2, 0.5, 0.9):
    ...     add(tree, bin_of(score), 1)
    >>> int(up_to(tree, bin_of(0.5))), int(tree[0])
    (2, 3)
    """
    i, total = place + 1, 0
    while i > 0:
        total += tree[i]
        i &= i - 1
    return total
