"""Counts of covered objects by class, group and set size, and metrics of conditional coverage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pippin._runtime.arrays import Classes, Codes, Flags, Vector

STRATA = (0, 2, 4, 11, 101)  # smallest set size of each stratum (range of sizes), as in Angelopoulos et al. (2021)


def strata_names(n_classes: int | None = None) -> str:
    """Name the ranges of set sizes ("strata") that can occur with `n_classes` classes (None: any number).

    >>> strata_names(2), strata_names(12), strata_names()
    ('0–1 and 2', '0–1, 2–3, 4–10 and 11–12', '0–1, 2–3, 4–10, 11–100 and more')
    """
    most = STRATA[-1] if n_classes is None else n_classes
    ends = [min(following - 1, most) for following in (*STRATA[1:], most + 1)]
    ranges = [(start, end) for start, end in zip(STRATA, ends, strict=True) if start <= most]
    names = ["more" if a == STRATA[-1] else str(a) if a == b else f"{a}–{b}" for a, b in ranges]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of objects (row 0 of each array), and of objects covered by their sets (row 1), by class, group, size.

    Attributes:
        classes: (2, K) counts by class.
        groups: (2, groups) counts by group.
        strata: (2, 5) counts by range of set sizes, see `STRATA`.
        sizes: (2, largest size + 1) counts by set size.
    """

    classes: Codes
    groups: Codes
    strata: Codes
    sizes: Codes

    def __add__(self, other: "Tally") -> "Tally":
        """Add the counts of other objects; both must have the same classes and groups."""
        most = max(self.sizes.shape[1], other.sizes.shape[1])
        sizes, others = (np.pad(one.sizes, ((0, 0), (0, most - one.sizes.shape[1]))) for one in (self, other))
        strata = self.strata + other.strata
        return Tally(self.classes + other.classes, self.groups + other.groups, strata, sizes + others)


def tally(
    sizes: Codes,
    covered: Flags,
    labels: Codes,
    groups: Codes,
    n_classes: int,
    n_groups: int,
    members: Vector | None = None,
) -> Tally:
    """Count objects and covered objects by class, group and set size; `covered` is True if a set contains the label.

    If groups overlap, `groups` are the numbers of their combinations, and `members` is (combinations, groups) with 1
    for the groups of each combination.
    """
    by_size = _by(sizes, covered, int(sizes.max(initial=0)) + 1)
    ends = (*STRATA[1:], None)
    strata = np.stack([by_size[:, start:end].sum(axis=1) for start, end in zip(STRATA, ends, strict=True)], axis=1)
    by_group = _by(groups, covered, n_groups)
    if members is not None:
        by_group = by_group @ members.astype(np.int64)
    return Tally(_by(labels, covered, n_classes), by_group, strata, by_size)


def shares(counts: Codes) -> Vector:
    """Compute coverage from (2, n) counts: objects in row 0, covered objects in row 1; NaN without objects.

    >>> shares(np.array([[4, 0], [3, 0]]))
    array([0.75,  nan])
    """
    n, covered = counts
    coverage = np.full(len(n), np.nan)
    np.divide(covered, n, out=coverage, where=n > 0)
    return coverage


def covgap(classes: Codes, alpha: float | Vector) -> float:
    """Compute CovGap, the mean over classes of |coverage − (1 − α)|, from (2, K) counts of objects and covered objects.

    α is one level, or one per class.

    Ding et al. (2023), Class-conditional conformal prediction with many classes.

    >>> round(covgap(np.array([[10, 10], [8, 10]]), 0.1), 3)
    0.1
    """
    return float(np.nanmean(np.abs(shares(classes) - (1 - alpha))))


def sscv(strata: Codes, alpha: float) -> float:
    """Compute SSCV, the size-stratified coverage violation: the largest |coverage − (1 − α)| over strata of set sizes.

    The strata are 0 to 1, 2 to 3, 4 to 10, 11 to 100 and more classes; empty strata are ignored.
    Angelopoulos et al. (2021), Uncertainty sets for image classifiers.

    >>> round(sscv(np.array([[10, 10, 0, 0, 0], [8, 10, 0, 0, 0]]), 0.1), 3)
    0.1
    """
    return float(np.nanmax(np.abs(shares(strata) - (1 - alpha))))


def conditional_columns(
    candidates: Sequence[object], tallies: Sequence[Tally], classes: Classes, groups: Classes | None, alpha: float
) -> dict[str, Any]:
    """Return table columns with one row per candidate score: CovGap, SSCV, and the least covered class and group."""
    worst = [_worst(tally.classes, classes) for tally in tallies]
    columns: dict[str, Any] = {
        "score": [str(candidate) for candidate in candidates],
        "worst_class": [name for name, _ in worst],
        "worst_class_coverage": [share for _, share in worst],
        "covgap": [covgap(tally.classes, alpha) for tally in tallies],
        "sscv": [sscv(tally.strata, alpha) for tally in tallies],
    }
    if groups is not None:
        names, coverages = zip(*(_worst(tally.groups, groups) for tally in tallies), strict=True)
        columns |= {"worst_group": list(names), "worst_group_coverage": list(coverages)}
    return columns


def coverage_columns(
    candidates: Sequence[object], counts: Sequence[Codes], rows: Codes, kind: str, names: Classes
) -> dict[str, Any]:
    """Return table columns with one row per candidate score and class (or group): number of objects, and coverage."""
    present = np.flatnonzero(rows).tolist()
    return {
        "score": np.repeat([str(candidate) for candidate in candidates], len(present)),
        kind: [names[k] for k in present] * len(candidates),
        "n": np.tile(rows[present], len(candidates)),
        "coverage": np.concatenate([shares(of_candidate)[present] for of_candidate in counts]),
    }


def _by(codes: Codes, covered: Flags, n: int) -> Codes:
    """Count the objects and the covered objects of each class or group, numbered 0 to n − 1; shape (2, n)."""
    return np.stack([np.bincount(codes, minlength=n), np.bincount(codes[covered], minlength=n)])


def _worst(counts: Codes, names: Classes) -> tuple[str | int, float]:
    """Return the name and the coverage of the class or group with the lowest coverage."""
    coverage = shares(counts)
    k = int(np.nanargmin(coverage))
    return names[k], float(coverage[k])
