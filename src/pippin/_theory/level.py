"""Significance level in exact arithmetic, ranks of quantiles, and warnings of too few calibration examples."""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Classes, Indices
from pippin._runtime.errors import InputError, warn

MOST = 2**62  # numbers of examples are cut here; larger ones would be no 64-bit integers
MOST_NAMED = 5  # maximum number of Mondrian categories that a warning names


def as_alpha(
    alpha: Any,
    name: str = "alpha, the share of errors allowed,",
    remedy: str | None = "alpha=0.1 asks for 90% coverage",
) -> float:
    """Convert a significance level or another share to a float; raise an InputError unless it is between 0 and 1."""
    try:
        # NumPy floats are converted through text, so that np.float16(0.1) becomes 0.1.
        level = float(str(alpha)) if isinstance(alpha, np.floating) else float(alpha)
    except (TypeError, ValueError, OverflowError):
        level = math.nan
    if not 0 < level < 1:
        raise InputError(f"Expected {name} strictly between 0 and 1, got {alpha!r}", remedy)
    return level


def exact_alpha(alpha: Any) -> Fraction:
    """Convert a significance level to the simplest fraction that rounds to it: 0.1 becomes exactly 1/10.

    The fraction does not change if the level is written to a file or converted to another precision.

    >>> exact_alpha(0.3), exact_alpha(1 / 3)
    (Fraction(3, 10), Fraction(1, 3))
    """
    return simplest(as_alpha(alpha))


@lru_cache(maxsize=2048)
def simplest(number: float) -> Fraction:
    """Find the fraction with the smallest denominator that rounds to the given positive float.

    >>> simplest(0.6666666666666666), simplest(0.125)
    (Fraction(2, 3), Fraction(1, 8))
    """
    below, above = math.nextafter(number, 0), math.nextafter(number, math.inf)
    low, high = ((Fraction(number) + Fraction(other)) / 2 for other in (below, above))
    return _simplest_between(low, high)


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Find the fraction with the smallest denominator strictly between two fractions, by continued fractions."""
    whole = low.numerator // low.denominator
    if whole + 1 < high:
        return Fraction(whole + 1)
    low, high = low - whole, high - whole
    if low == 0:
        return whole + Fraction(1, high.denominator // high.numerator + 1)
    return whole + 1 / _simplest_between(1 / high, 1 / low)


def quantile_rank(n: int, alpha: Any) -> int:
    """Compute the rank of the threshold among n scores, k = ⌈(n + 1)(1 − α)⌉, in integers: 0.1 counts as exactly 1/10.

    >>> quantile_rank(9, 0.1), quantile_rank(999, 0.3)
    (9, 700)
    """
    return rank_at(n, *exact_alpha(alpha).as_integer_ratio())


def rank_at(n: int, top: int, bottom: int) -> int:
    """Compute the rank of the threshold among n scores, ⌈(n + 1)(1 − α)⌉, for a level α = top/bottom."""
    return -((n + 1) * (top - bottom) // bottom)


def examples_needed(alpha: Any) -> int:
    """Compute the smallest number of calibration examples with a finite threshold at level alpha, or `MOST` if larger.

    >>> examples_needed(0.1)
    9
    """
    return min(math.ceil(1 / exact_alpha(alpha)) - 1, MOST)


def too_few(n: int, alpha: float, what: str = "calibration examples", level: str = "alpha=") -> str | None:
    """Return a warning if n calibration examples are too few for a finite threshold; None if they are enough.

    >>> print(too_few(9, 0.1))
    None
    >>> print(too_few(8, 0.1))
    8 calibration examples are too few for alpha=0.1: at least 9 are needed. The threshold is infinite and every set
    holds all classes.
    """
    if quantile_rank(n, alpha) <= n:
        return None
    return (
        f"{n} {what} are too few for {level}{float(alpha):g}: at least {examples_needed(alpha):,} are needed. "
        "The threshold is infinite and every set holds all classes."
    )


def warn_of_level(alpha: float) -> None:
    """Warn if alpha is above 0.5, which is probably a confidence level 1 − α."""
    if alpha > 0.5:
        asks = f"{alpha:g} asks for {100 * (1 - alpha):.3g}% coverage"
        warn(f"alpha is the share of errors: {asks}. Did you mean {1 - alpha:.3g}?")


def named(
    few: NDArray[Any],
    counts: NDArray[Any],
    lookup: Indices,
    classes: Classes | None,
    groups: Any,
    clustered: bool = False,
) -> str:
    """List Mondrian categories for a warning: the first few by name, each with its number of calibration examples.

    Args:
        few: the numbers of the categories to list.
        counts: the number of examples of every category.
        lookup: `lookup[g, k]` is the category of class k in group g.
        classes: names of the classes; None if the category does not depend on the class.
        groups: names of the groups; None if the category does not depend on the group.
        clustered: True if a category is a cluster of classes.

    >>> named(np.array([1]), np.array([9, 3]), np.array([[0, 1]], dtype=np.int32), ("crop", "weed"), None)
    'weed has 3'
    """
    names = (category_name(each, lookup, classes, groups, clustered) for each in few[:MOST_NAMED].tolist())
    described = [f"{name} has {n:.0f}" for name, n in zip(names, counts[few[:MOST_NAMED]], strict=True)]
    more = f", and {len(few) - MOST_NAMED:,} more" if len(few) > MOST_NAMED else ""
    return ", ".join(described) + more


def category_name(category: int, lookup: Indices, classes: Classes | None, groups: Any, clustered: bool = False) -> str:
    """Return the name of a Mondrian category, such as "maize in group north"; arguments are as for `named`.

    >>> category_name(1, np.array([[0, 1]], dtype=np.int32), (3, 4), None)
    'class 4'
    """
    group, k = (int(where[0]) for where in np.nonzero(lookup == category))
    parts = []
    if classes is not None and clustered:
        mates = np.flatnonzero(lookup[group] == category).tolist()
        parts.append(f"the cluster of {', '.join(str(classes[mate]) for mate in mates)}")
    elif classes is not None:
        parts.append(f"class {classes[k]}" if isinstance(classes[k], int) else str(classes[k]))
    if groups is not None:
        parts.append(f"group {groups[group]}")
    return " in ".join(parts)


def confident_rank(n: int, alpha: Any, confidence: float) -> int:
    """Compute the smallest rank k with coverage ≥ 1 − α for at least a share `confidence` of calibration sets.

    The threshold is the k-th smallest of n scores. Without ties, its coverage has the distribution Beta(k, n + 1 − k).
    The probability of a coverage of at least 1 − α is P(Bin(n, 1 − α) < k). If no k is enough, the result is n + 1.
    Vovk (2012), Conditional validity of inductive conformal predictors.

    >>> confident_rank(1000, 0.1, 0.95), confident_rank(28, 0.1, 0.95), confident_rank(29, 0.1, 0.95)
    (916, 29, 29)
    """
    from scipy.stats import binom

    return int(binom.ppf(confidence, n, 1 - as_alpha(alpha))) + 1


def confident_examples(alpha: Any, confidence: float) -> int:
    """Compute the smallest calibration size n with a finite threshold, 1 − (1 − α)ⁿ ≥ confidence, or `MOST` if larger.

    >>> confident_examples(0.1, 0.95)
    29
    """
    return math.ceil(min(math.log1p(-confidence) / math.log1p(-as_alpha(alpha)), MOST))
