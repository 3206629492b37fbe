"""Who is covered: coverage by class, by group and by set size, counted and pooled."""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from pippin._runtime.arrays import Classes, Codes, Flags, Vector

STRATA = (0, 2, 4, 11, 101)  # the smallest size of each stratum, as in Angelopoulos et al. (2021)


@dataclass(frozen=True, eq=False)
class Tally:
    """Objects and those covered, each (2, how many).

    Attributes:
        classes: of every class.
        groups: of every group.
        strata: of every stratum of set sizes.
        sizes: of every size.
    """

    classes: Codes
    groups: Codes
    strata: Codes
    sizes: Codes

    def __add__(self, other: "Tally") -> "Tally":
        """Of two groups of objects that have the same classes and groups."""
        most = max(self.sizes.shape[1], other.sizes.shape[1])
        mine, others = (np.pad(one.sizes, ((0, 0), (0, most - one.sizes.shape[1]))) for one in (self, other))
        return Tally(
            self.classes + other.classes, self.groups + other.groups, self.strata + other.strata, mine + others
        )


def tally(sizes: Codes, covered: Flags, labels: Codes, groups: Codes, n_classes: int, n_groups: int) -> Tally:
    """Codes some objects by their labels and groups and by the sizes of their sets."""
    every = _by(sizes, covered, int(sizes.max(initial=0)) + 1)
    return counted(_by(labels, covered, n_classes), _by(groups, covered, n_groups), every)


def counted(classes: Codes, groups: Codes, sizes: Codes) -> Tally:
    """The tally of objects that are counted by class, by group and by the size of their sets.

    >>> counted(np.eye(2), np.eye(2), np.array([[1, 3, 5, 7, 0], [0, 2, 4, 6, 0]])).strata.tolist()
    [[4, 12, 0, 0, 0], [2, 10, 0, 0, 0]]
    """
    ends = (*STRATA[1:], None)
    strata = np.stack([sizes[:, start:end].sum(axis=1) for start, end in zip(STRATA, ends, strict=True)], axis=1)
    return Tally(classes, groups, strata, sizes[:, : int(np.flatnonzero(sizes[0]).max(initial=0)) + 1])


def pooled(tallies: Iterable[Tally]) -> Tally:
    """Several tallies as one."""
    return reduce(operator.add, tallies)


def shares(counts: Codes) -> Vector:
    """Coverage of each kind; NaN where there are no objects.

    >>> shares(np.array([[4, 0], [3, 0]]))
    array([0.75,  nan])
    """
    n, covered = counts
    found = np.full(len(n), np.nan)
    np.divide(covered, n, out=found, where=n > 0)
    return found


def covgap(classes: Codes, alpha: float) -> float:
    """The mean over classes of |coverage − (1 − α)|, be it too little or too much.

    Ding et al. (2023), Class-conditional conformal prediction with many classes.

    >>> round(covgap(np.array([[10, 10], [8, 10]]), 0.1), 3)
    0.1
    """
    return float(np.nanmean(np.abs(shares(classes) - (1 - alpha))))


def sscv(strata: Codes, alpha: float) -> float:
    """Size-stratified coverage violation: the largest |coverage − (1 − α)| over strata of set sizes.

    The strata are 0 to 1, 2 to 3, 4 to 10, 11 to 100 and more classes; those without a set
    are left out. Angelopoulos et al. (2021), Uncertainty sets for image classifiers.

    >>> round(sscv(np.array([[10, 10, 0, 0, 0], [8, 10, 0, 0, 0]]), 0.1), 3)
    0.1
    """
    return float(np.nanmax(np.abs(shares(strata) - (1 - alpha))))


def conditional_columns(
    candidates: Sequence[object], tallies: Sequence[Tally], classes: Classes, groups: Classes | None, alpha: float
) -> dict[str, Any]:
    """One row per candidate: its worst class, CovGap and SSCV, and its worst group."""
    worst = [_worst(found.classes, classes) for found in tallies]
    columns: dict[str, Any] = {
        "score": [str(candidate) for candidate in candidates],
        "worst_class": [name for name, _ in worst],
        "worst_class_coverage": [share for _, share in worst],
        "covgap": [covgap(found.classes, alpha) for found in tallies],
        "sscv": [sscv(found.strata, alpha) for found in tallies],
    }
    if groups is not None:
        lowest = [_worst(found.groups, groups) for found in tallies]
        columns |= {
            "worst_group": [name for name, _ in lowest],
            "worst_group_coverage": [share for _, share in lowest],
        }
    return columns


def coverage_columns(
    candidates: Sequence[object], counts: Sequence[Codes], rows: Codes, kind: str, names: Classes
) -> dict[str, Any]:
    """One row per candidate and class (or group) that occurs: how many rows it has, and its coverage."""
    present = np.flatnonzero(rows).tolist()
    return {
        "score": np.repeat([str(candidate) for candidate in candidates], len(present)),
        kind: [names[k] for k in present] * len(candidates),
        "n": np.tile(rows[present], len(candidates)),
        "coverage": np.concatenate([shares(found)[present] for found in counts]),
    }


def _by(kind: Codes, covered: Flags, n: int) -> Codes:
    return np.stack([np.bincount(kind, minlength=n), np.bincount(kind[covered], minlength=n)])


def _worst(counts: Codes, names: Classes) -> tuple[str | int, float]:
    found = shares(counts)
    k = int(np.nanargmin(found))
    return names[k], float(found[k])
