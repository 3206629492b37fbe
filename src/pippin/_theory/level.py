"""The level in exact arithmetic: the one place where an alpha becomes a fraction, and a fraction a rank."""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from pippin._runtime.errors import InputError


def as_alpha(alpha: Any) -> float:
    """The level, checked to lie strictly between 0 and 1."""
    try:
        level = float(str(alpha)) if isinstance(alpha, np.floating) else float(alpha)  # half floats in their digits
    except (TypeError, ValueError, OverflowError):
        level = math.nan
    if not 0 < level < 1:
        raise InputError(
            f"Expected alpha, the share of errors allowed, strictly between 0 and 1, got {alpha!r}",
            "alpha=0.1 asks for 90 % coverage",
        )
    return level


def exact_alpha(alpha: Any) -> Fraction:
    """The level as the simplest fraction that rounds to it: 0.1 is exactly 1/10, and 1/3 a third.

    So a level means the same wherever it has been, in a file or in another precision than the
    caller's: a float stands for one fraction.

    >>> exact_alpha(0.3), exact_alpha(1 / 3)
    (Fraction(3, 10), Fraction(1, 3))
    """
    return simplest(as_alpha(alpha))


@lru_cache(maxsize=2048)
def simplest(number: float) -> Fraction:
    """The fraction of the smallest denominator that rounds to a positive number.

    >>> simplest(0.6666666666666666), simplest(0.125)
    (Fraction(2, 3), Fraction(1, 8))
    """
    below, above = math.nextafter(number, 0), math.nextafter(number, math.inf)
    low, high = ((Fraction(number) + Fraction(other)) / 2 for other in (below, above))
    return _simplest_between(low, high)


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Of all fractions strictly between two, the one of the smallest denominator (by continued fractions)."""
    whole = low.numerator // low.denominator
    if whole + 1 < high:
        return Fraction(whole + 1)
    low, high = low - whole, high - whole
    if low == 0:
        return whole + Fraction(1, high.denominator // high.numerator + 1)
    return whole + 1 / _simplest_between(1 / high, 1 / low)


def quantile_rank(n: int, alpha: Any) -> int:
    """k = ⌈(n + 1)(1 − α)⌉ in exact arithmetic; 0.1 means one tenth, not its nearest float.

    >>> quantile_rank(9, 0.1), quantile_rank(999, 0.3)
    (9, 700)
    """
    return rank_at(n, *exact_alpha(alpha).as_integer_ratio())


def rank_at(n: int, top: int, bottom: int) -> int:
    """The same, of a level that is a fraction already: top/bottom."""
    return -((n + 1) * (top - bottom) // bottom)


def examples_needed(alpha: Any) -> int:
    """The fewest calibration examples that give a finite threshold.

    >>> examples_needed(0.1)
    9
    """
    return math.ceil(1 / exact_alpha(alpha)) - 1


def confident_rank(n: int, alpha: Any, confidence: float) -> int:
    """Return the smallest k whose threshold covers 1 − α with probability `confidence` over calibration sets.

    The coverage of the k-th smallest of n continuous scores has the law Beta(k, n + 1 − k), and it reaches 1 − α
    exactly if fewer than k of n uniform numbers are below 1 − α. The result is n + 1 if no k does. Vovk (2012),
    Conditional validity of inductive conformal predictors.

    >>> confident_rank(1000, 0.1, 0.95), confident_rank(28, 0.1, 0.95), confident_rank(29, 0.1, 0.95)
    (916, 29, 29)
    """
    from scipy.stats import binom

    return int(binom.ppf(confidence, n, 1 - as_alpha(alpha))) + 1


def confident_examples(alpha: Any, confidence: float) -> int:
    """Return the fewest calibration examples for a finite threshold at this confidence: 1 − (1 − α)ⁿ ≥ confidence.

    >>> confident_examples(0.1, 0.95)
    29
    """
    return math.ceil(math.log1p(-confidence) / math.log1p(-as_alpha(alpha)))
