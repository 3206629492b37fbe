"""Too few calibration examples, in words: for all objects together, and for single classes or groups."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Classes, Indices
from pippin._runtime.warn import warn
from pippin._theory.level import examples_needed, quantile_rank

MOST_NAMED = 5  # cells that a warning names


def too_few(n: int, alpha: float, what: str = "calibration examples", level: str = "alpha=") -> str | None:
    """What to warn of, if n examples cannot give a finite threshold.

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


def warn_of_few(n: int, alpha: float) -> None:
    """Warns if n calibration examples cannot give a finite threshold."""
    if note := too_few(n, alpha):
        warn(note)
    warn_of_level(alpha)


def warn_of_level(alpha: float) -> None:
    """Warns of a level that is likely meant the other way round."""
    if alpha > 0.5:
        warn(
            f"alpha is the share of errors: {alpha:g} asks for {100 * (1 - alpha):.3g} % coverage. "
            f"Did you mean {1 - alpha:.3g}?"
        )


def named(
    few: NDArray[np.intp],
    counts: NDArray[Any],
    of: Indices,
    classes: Classes | None,
    groups: Sequence[object] | None,
    clustered: bool = False,
) -> str:
    """The first cells among `few`, and how many examples each has.

    `of[g, k]` is the cell of class k in group g; classes are None where cells do not tell them
    apart, and groups likewise.

    >>> named(np.array([1]), np.array([9, 3]), np.array([[0, 1]], dtype=np.int32), ("crop", "weed"), None)
    'weed has 3'
    """
    told = []
    for cell in few[:MOST_NAMED].tolist():
        group, k = (int(found[0]) for found in np.nonzero(of == cell))
        parts = []
        if classes is not None and clustered:
            mates = np.flatnonzero(of[group] == cell).tolist()
            parts.append(f"the cluster of {', '.join(str(classes[mate]) for mate in mates)}")
        elif classes is not None:
            parts.append(f"class {classes[k]}" if isinstance(classes[k], int) else str(classes[k]))
        if groups is not None:
            parts.append(f"group {groups[group]}")
        told.append(f"{' in '.join(parts)} has {counts[cell]:.0f}")
    more = f", and {len(few) - MOST_NAMED:,} more" if len(few) > MOST_NAMED else ""
    return ", ".join(told) + more
