"""Whether a share is what was asked for, in a sentence."""

from math import ceil, sqrt
from typing import NamedTuple

SURE = 4  # standard errors


class Measured(NamedTuple):
    """A share of n objects, the level that was asked for, and how many rows calibrated, where that was told."""

    share: float
    n: int
    alpha: float | None
    n_calibration: int | None


def verdict(measured: Measured, told: str, above: str) -> str:
    """What was measured, held against 1 − alpha; without a level there is nothing to hold it against.

    The standard error is that of so many rows, and of so many calibration rows where their number is known.

    Args:
        told: the share in words.
        above: what it may be that makes it larger than was asked.

    >>> verdict(Measured(0.99, 1000, 0.1, None), "covers 99.0 %", "luck does that")
    'covers 99.0 % where 90 % were asked: 9 standard errors above; luck does that'
    """
    share, n, alpha, n_calibration = measured
    if alpha is None:
        return f"{told}; pass alpha to judge that"
    asked = 1 - alpha
    off = (share - asked) / sqrt(asked * alpha * (1 / n + (1 / n_calibration if n_calibration else 0)))
    told = f"{told} where {100 * asked:g} % were asked"
    if off < -SURE:
        return (
            f"{told}: {-off:.0f} standard errors below, so these rows are not like those that calibrated: drift, "
            "other data, or other labels"
        )
    if off > SURE:
        return f"{told}: {off:.0f} standard errors above; {above}"
    return f"{told}, as promised: within {max(1, ceil(abs(off)))} standard error{'s' if abs(off) > 1 else ''}"
