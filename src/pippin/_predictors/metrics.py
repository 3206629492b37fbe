"""How good prediction sets are: functions of (sets, labels) that return numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._inputs.index import same_index
from pippin._inputs.labels import as_labels, as_numbered_groups
from pippin._predictors.coverage_by import covgap, shares, sscv, tally
from pippin._predictors.sets import PredictionSets
from pippin._runtime.arrays import Classes, Codes, Flags
from pippin._runtime.errors import InputError
from pippin._theory.level import as_alpha


def coverage(sets: PredictionSets, labels: ArrayLike) -> float:
    """The share of sets that contain the true label.

    Args:
        sets: what `predict` returned.
        labels: the true classes, as indices or as names.
    """
    return _mean(sets.contains(labels))


def efficiency(sets: PredictionSets) -> float:
    """The mean set size; smaller is better.

    Args:
        sets: what `predict` returned.
    """
    return _mean(sets.sizes)


def informativeness(sets: PredictionSets) -> float:
    """The share of sets with exactly one class (oneC); larger is better.

    Args:
        sets: what `predict` returned.
    """
    return _mean(sets.sizes == 1)


def empty_rate(sets: PredictionSets) -> float:
    """The share of sets with no class at all.

    Args:
        sets: what `predict` returned.
    """
    return _mean(sets.sizes == 0)


def _mean(values: NDArray[Any]) -> float:
    if not len(values):
        raise InputError("Expected at least one prediction set to measure, got none")
    return float(values.mean())


@dataclass(frozen=True)
class Evaluation:
    """Every metric of some sets. The counts say how much a coverage rests on.

    With groups there is coverage per group. With the level alpha, `covgap` is the mean over
    classes of |coverage − (1 − alpha)|, and `sscv` the largest such gap over strata of set
    sizes: 0 to 1, 2 to 3, 4 to 10, 11 to 100, and more classes.
    """

    n: int
    coverage: float
    efficiency: float
    informativeness: float
    empty_rate: float
    size_counts: dict[int, int]
    size_coverage: dict[int, float]
    class_counts: dict[str | int, int]
    class_coverage: dict[str | int, float]
    group_counts: dict[str | int, int] = field(default_factory=dict)
    group_coverage: dict[str | int, float] = field(default_factory=dict)
    alpha: float | None = None
    covgap: float | None = None
    sscv: float | None = None

    @property
    def worst_class(self) -> str | int:
        """The class that is covered least."""
        return min(self.class_coverage, key=lambda name: self.class_coverage[name])

    @property
    def worst_group(self) -> str | int | None:
        """The group that is covered least, if there are groups."""
        return min(self.group_coverage, key=lambda name: self.group_coverage[name], default=None)

    def __str__(self) -> str:
        lines = [
            f"{self.n:,} objects",
            f"coverage         {self.coverage:.4f}   share of sets that contain the true class",
            f"efficiency       {self.efficiency:.4f}   mean set size",
            f"informativeness  {self.informativeness:.4f}   share of sets with one class",
            f"empty            {self.empty_rate:.4f}   share of sets with no class",
            *self._conditional(),
            "",
            "size    sets  coverage",
        ]
        lines += [f"{size:>4} {self.size_counts[size]:>7}  {value:.4f}" for size, value in self.size_coverage.items()]
        lines += _listed("class", self.class_counts, self.class_coverage)
        lines += _listed("group", self.group_counts, self.group_coverage) if self.group_coverage else []
        return "\n".join(lines)

    def _conditional(self) -> list[str]:
        """What a level makes worth knowing beyond the mean coverage."""
        if self.alpha is None:
            return []
        told = [f"worst class      {self.class_coverage[self.worst_class]:.4f}   coverage of {self.worst_class}"]
        if self.worst_group is not None:
            told.append(
                f"worst group      {self.group_coverage[self.worst_group]:.4f}   coverage of {self.worst_group}"
            )
        level = f"{1 - self.alpha:g}"
        return [
            *told,
            f"CovGap           {self.covgap:.4f}   mean distance of the classes' coverage from {level}",
            f"SSCV             {self.sscv:.4f}   largest distance from {level} over sizes 0–1, 2–3, 4–10, 11–100, more",
        ]


def _listed(kind: str, counts: dict[str | int, int], coverages: dict[str | int, float]) -> list[str]:
    width = max([5, *(len(str(name)) for name in coverages)])
    rows = [f"{name!s:<{width}}  {counts[name]:>7}  {value:.4f}" for name, value in coverages.items()]
    return ["", f"{kind:<{width}}  objects  coverage", *rows]


def evaluate(
    sets: PredictionSets, labels: ArrayLike, *, groups: ArrayLike | None = None, alpha: float | None = None
) -> Evaluation:
    """All metrics, with coverage per set size and per class (of those that occur).

    Args:
        sets: what `predict` returned.
        labels: the true classes, as indices or as names.
        groups: the group of each object, for coverage per group.
        alpha: the level, for how far the classes, and sets of like size, are from it.

    >>> import pippin
    >>> import numpy as np
    >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([1, 0, 1]), ("crop", "weed"))
    >>> print(pippin.evaluate(sets, ["crop", "weed"]))
    2 objects
    coverage         0.5000   share of sets that contain the true class
    efficiency       1.5000   mean set size
    informativeness  0.5000   share of sets with one class
    empty            0.0000   share of sets with no class
    <BLANKLINE>
    size    sets  coverage
       1       1  0.0000
       2       1  1.0000
    <BLANKLINE>
    class  objects  coverage
    crop         1  0.0000
    weed         1  1.0000
    """
    same_index("sets", sets.index, labels=labels, groups=groups)
    truth = as_labels(labels, len(sets), sets.classes)
    names: tuple[str | int, ...] | None = None
    group = np.zeros(len(sets), dtype=np.int64)
    if groups is not None:
        group, names = as_numbered_groups(groups, len(sets))
    level = None if alpha is None else as_alpha(alpha)
    return evaluation(sets.sizes, sets.hold(truth), truth, sets.classes, group, names, level)


def evaluation(
    sizes: Codes,
    inside: Flags,
    labels: Codes,
    classes: Classes,
    group: Codes,
    groups: Sequence[str | int] | None,
    alpha: float | None,
) -> Evaluation:
    """What `evaluate` says of sets of these sizes that do or do not hold the label."""
    coverage = _mean(inside)
    counted = tally(sizes, inside, labels, group, len(classes), 1 if groups is None else len(groups))
    by_size, covered_by_size = np.bincount(sizes), np.bincount(sizes, weights=inside)
    names = () if groups is None else groups
    return Evaluation(
        n=len(sizes),
        coverage=coverage,
        efficiency=_mean(sizes),
        informativeness=_mean(sizes == 1),
        empty_rate=_mean(sizes == 0),
        size_counts={size: int(by_size[size]) for size in np.flatnonzero(by_size).tolist()},
        size_coverage={k: float(covered_by_size[k] / by_size[k]) for k in np.flatnonzero(by_size).tolist()},
        class_counts=_named(counted.classes[0], classes, counted.classes[0]),
        class_coverage=_named(shares(counted.classes), classes, counted.classes[0]),
        group_counts=_named(counted.groups[0], names, counted.groups[0]),
        group_coverage=_named(shares(counted.groups), names, counted.groups[0]),
        alpha=alpha,
        covgap=None if alpha is None else covgap(counted.classes, alpha),
        sscv=None if alpha is None else sscv(counted.strata, alpha),
    )


def _named(values: NDArray[Any], names: Sequence[str | int], counts: Codes) -> dict[str | int, Any]:
    """The values of those that occur, by name."""
    return {name: value for name, value, n in zip(names, values.tolist(), counts.tolist(), strict=False) if n}
