"""Metrics of prediction sets: functions of the sets, and of the labels where needed, that return a number."""

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.evaluation import evaluate
from pippin._conformal.sets import PredictionSets
from pippin._runtime.errors import InputError

__all__ = ["coverage", "covgap", "efficiency", "empty_rate", "informativeness", "mean_size"]
__all__ += ["singleton_accuracy", "singleton_rate", "sscv"]


def coverage(sets: PredictionSets, labels: ArrayLike) -> float:
    """Return the share of sets that contain the true class.

    Args:
        sets: prediction sets.
        labels: true class of each row, as index or name.
    """
    return _mean(sets.contains(labels))


def mean_size(sets: PredictionSets) -> float:
    """Return the mean number of classes in a set, the paper's efficiency; smaller is better.

    Args:
        sets: prediction sets.
    """
    return _mean(sets.sizes)


def singleton_rate(sets: PredictionSets) -> float:
    """Return the share of sets with exactly one class (oneC), the paper's informativeness; larger is better.

    Args:
        sets: prediction sets.
    """
    return _mean(sets.sizes == 1)


def empty_rate(sets: PredictionSets) -> float:
    """Return the share of sets without any class.

    Args:
        sets: prediction sets.
    """
    return _mean(sets.sizes == 0)


def singleton_accuracy(sets: PredictionSets, labels: ArrayLike) -> float:
    """Return the share of sets with exactly one class that contain the true class; NaN without such sets.

    Args:
        sets: prediction sets.
        labels: true class of each row, as index or name.
    """
    covered = sets.contains(labels)[sets.sizes == 1]
    return float(covered.mean()) if len(covered) else float("nan")


def covgap(sets: PredictionSets, labels: ArrayLike, alpha: float) -> float:
    """Return the mean over classes of `|coverage − (1 − alpha)|` (Ding et al. 2023).

    Args:
        sets: prediction sets.
        labels: true class of each row, as index or name.
        alpha: significance level (miscoverage).
    """
    value = evaluate(sets, labels, alpha=alpha).covgap
    assert value is not None
    return value


def sscv(sets: PredictionSets, labels: ArrayLike, alpha: float) -> float:
    """Return the size-stratified coverage violation (Angelopoulos et al. 2021).

    This is the largest `|coverage − (1 − alpha)|` over the sets with 0 to 1, 2 to 3, 4 to 10, 11 to 100, and more
    than 100 classes.

    Args:
        sets: prediction sets.
        labels: true class of each row, as index or name.
        alpha: significance level (miscoverage).
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
