"""The conformal quantile in exact arithmetic: the one place where a level becomes a rank."""

import math

from pippin._inputs.rows import exact_alpha


def quantile_rank(n: int, alpha: float) -> int:
    """k = ⌈(n + 1)(1 − α)⌉ in exact arithmetic; 0.1 means one tenth, not its nearest float.

    >>> quantile_rank(9, 0.1), quantile_rank(999, 0.3)
    (9, 700)
    """
    error = exact_alpha(alpha)
    return -((n + 1) * (error.numerator - error.denominator) // error.denominator)


def examples_needed(alpha: float) -> int:
    """The fewest calibration examples that give a finite threshold.

    >>> examples_needed(0.1)
    9
    """
    return math.ceil(1 / exact_alpha(alpha)) - 1
