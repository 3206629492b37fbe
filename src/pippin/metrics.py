"""How good prediction sets are: functions of (sets, labels) that return numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin.ranking import as_labels
from pippin.sets import PredictionSets


def coverage(sets: PredictionSets, labels: ArrayLike) -> float:
    """The share of sets that contain the true label."""
    return _mean(sets.contains(labels))


def efficiency(sets: PredictionSets) -> float:
    """The mean set size; smaller is better."""
    return _mean(sets.sizes)


def informativeness(sets: PredictionSets) -> float:
    """The share of sets with exactly one class (oneC); larger is better."""
    return _mean(sets.sizes == 1)


def empty_rate(sets: PredictionSets) -> float:
    """The share of sets with no class at all."""
    return _mean(sets.sizes == 0)


def _mean(values: NDArray[Any]) -> float:
    if not len(values):
        raise ValueError("Expected at least one prediction set to measure, got none.")
    return float(values.mean())


@dataclass(frozen=True)
class Evaluation:
    """Every metric of some sets. The counts say how much a coverage rests on."""

    n: int
    coverage: float
    efficiency: float
    informativeness: float
    empty_rate: float
    size_counts: dict[int, int]
    size_coverage: dict[int, float]
    class_counts: dict[str | int, int]
    class_coverage: dict[str | int, float]

    def __str__(self) -> str:
        lines = [
            f"{self.n:,} objects",
            f"coverage         {self.coverage:.4f}   share of sets that contain the true class",
            f"efficiency       {self.efficiency:.4f}   mean set size",
            f"informativeness  {self.informativeness:.4f}   share of sets with one class",
            f"empty            {self.empty_rate:.4f}   share of sets with no class",
            "",
            "size    sets  coverage",
        ]
        lines += [f"{size:>4} {self.size_counts[size]:>7}  {value:.4f}" for size, value in self.size_coverage.items()]
        width = max([5, *(len(str(name)) for name in self.class_coverage)])
        lines += ["", f"{'class':<{width}}  objects  coverage"]
        lines += [
            f"{name!s:<{width}}  {self.class_counts[name]:>7}  {value:.4f}"
            for name, value in self.class_coverage.items()
        ]
        return "\n".join(lines)


def evaluate(sets: PredictionSets, labels: ArrayLike) -> Evaluation:
    """All metrics, with coverage per set size and per class (of those that occur).

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
    truth = as_labels(labels, len(sets), sets.classes)
    inside = sets.hold(truth)
    by_size = np.bincount(sets.sizes)
    covered_by_size = np.bincount(sets.sizes, weights=inside)
    by_class = np.bincount(truth, minlength=len(sets.classes))
    covered_by_class = np.bincount(truth, weights=inside, minlength=len(sets.classes))
    sizes, present = np.flatnonzero(by_size).tolist(), np.flatnonzero(by_class).tolist()
    return Evaluation(
        n=len(sets),
        coverage=float(inside.mean()),
        efficiency=efficiency(sets),
        informativeness=informativeness(sets),
        empty_rate=empty_rate(sets),
        size_counts={size: int(by_size[size]) for size in sizes},
        size_coverage={size: float(covered_by_size[size] / by_size[size]) for size in sizes},
        class_counts={sets.classes[k]: int(by_class[k]) for k in present},
        class_coverage={sets.classes[k]: float(covered_by_class[k] / by_class[k]) for k in present},
    )
