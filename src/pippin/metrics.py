"""Metrics of prediction sets: functions of the sets, and of the labels where needed, that return a number."""

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.evaluation import evaluate
from pippin._conformal.sets import PredictionSets
from pippin._runtime.arguments import checked
from pippin._runtime.errors import InputError

__all__ = ["coverage", "covgap", "efficiency", "empty_rate", "informativeness", "mean_size"]
__all__ += ["singleton_accuracy", "singleton_rate", "sscv"]


@checked
def coverage(sets: PredictionSets, labels: ArrayLike) -> float:
    """Compute the share of sets that contain the true class.

    Args:
        sets: prediction sets.
        labels: true class of each row, as index or name.

    Returns:
        Coverage, from 0 to 1.

    >>> import pippin
    >>> sets = pippin.PredictionSets.from_labels([["crop"], ["crop", "weed"], []], classes=["crop", "weed"])
    >>> round(pippin.metrics.coverage(sets, ["crop", "weed", "weed"]), 3)
    0.667
    """
    return _mean(sets.contains(labels))


@checked
def mean_size(sets: PredictionSets) -> float:
    """Compute the mean number of classes in a set, also called efficiency; smaller is better.

    Args:
        sets: prediction sets.

    Returns:
        Mean size, from 0 to the number of classes.

    >>> import pippin
    >>> pippin.metrics.mean_size(pippin.PredictionSets.from_labels([["crop"], ["crop", "weed"], []], ["crop", "weed"]))
    1.0
    """
    return _mean(sets.sizes)


@checked
def singleton_rate(sets: PredictionSets) -> float:
    """Compute the share of sets with exactly one class, also called oneC or informativeness; larger is better.

    Args:
        sets: prediction sets.

    Returns:
        Share of singletons, from 0 to 1.

    >>> import pippin
    >>> pippin.metrics.singleton_rate(pippin.PredictionSets.from_labels([["crop"], ["crop", "weed"]], ["crop", "weed"]))
    0.5
    """
    return _mean(sets.sizes == 1)


@checked
def empty_rate(sets: PredictionSets) -> float:
    """Compute the share of sets without any class.

    Args:
        sets: prediction sets.

    Returns:
        Share of empty sets, from 0 to 1.

    >>> import pippin
    >>> pippin.metrics.empty_rate(pippin.PredictionSets.from_labels([["crop"], []], classes=["crop", "weed"]))
    0.5
    """
    return _mean(sets.sizes == 0)


@checked
def singleton_accuracy(sets: PredictionSets, labels: ArrayLike) -> float:
    """Compute the share of singletons that contain the true class.

    Args:
        sets: prediction sets.
        labels: true class of each row, as index or name.

    Returns:
        Accuracy of the singletons, from 0 to 1; NaN if no set has exactly one class.

    >>> import pippin
    >>> sets = pippin.PredictionSets.from_labels([["crop"], ["weed"], ["crop", "weed"]], classes=["crop", "weed"])
    >>> pippin.metrics.singleton_accuracy(sets, ["crop", "crop", "weed"])
    0.5
    """
    covered = sets.contains(labels)[sets.sizes == 1]
    return float(covered.mean()) if len(covered) else float("nan")


@checked
def covgap(sets: PredictionSets, labels: ArrayLike, alpha: float) -> float:
    """Compute the mean over classes of `|coverage − (1 − alpha)|` (CovGap).

    Reference: `Ding et al. (2023) <https://arxiv.org/abs/2306.09335>`__.

    Args:
        sets: prediction sets.
        labels: true class of each row, as index or name.
        alpha: significance level (miscoverage).

    Returns:
        Mean coverage gap of the classes that have rows, from 0 to 1.

    >>> import pippin
    >>> sets = pippin.PredictionSets.from_labels([["crop"], ["crop"], ["weed"]], classes=["crop", "weed"])
    >>> round(pippin.metrics.covgap(sets, ["crop", "weed", "weed"], alpha=0.1), 2)
    0.25
    """
    value = evaluate(sets, labels, alpha=alpha).covgap
    assert value is not None
    return value


@checked
def sscv(sets: PredictionSets, labels: ArrayLike, alpha: float) -> float:
    """Compute the size-stratified coverage violation (SSCV).

    This is the largest `|coverage − (1 − alpha)|` over the sets with 0 to 1, 2 to 3, 4 to 10, 11 to 100, and more
    than 100 classes.

    Reference: `Angelopoulos et al. (2021) <https://arxiv.org/abs/2009.14193>`__.

    Args:
        sets: prediction sets.
        labels: true class of each row, as index or name.
        alpha: significance level (miscoverage).

    Returns:
        Largest coverage gap of a size stratum that has sets, from 0 to 1.

    >>> import pippin
    >>> sets = pippin.PredictionSets.from_labels([["crop"], ["crop"], ["crop", "weed"]], classes=["crop", "weed"])
    >>> round(pippin.metrics.sscv(sets, ["crop", "weed", "weed"], alpha=0.1), 2)
    0.4
    """
    value = evaluate(sets, labels, alpha=alpha).sscv
    assert value is not None
    return value


def _mean(values: "np.ndarray[tuple[int], np.dtype[np.generic]]") -> float:
    if not len(values):
        raise InputError("Expected at least one prediction set, got none")
    return float(values.mean())


efficiency = mean_size
informativeness = singleton_rate
