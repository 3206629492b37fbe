"""What the files of all predictors share: how it is written, and how it is checked when read."""

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pippin._inputs.rows import Classes, as_alpha

T = TypeVar("T", bound=np.signedinteger[Any])


class _Calibrated(Protocol):
    @property
    def alpha(self) -> float: ...
    @property
    def n_calibration(self) -> int: ...
    @property
    def classes(self) -> Classes: ...


def shared_content(predictor: _Calibrated) -> dict[str, Any]:
    """The level, the number of examples and the classes, as a file holds them."""
    classes = predictor.classes
    return {
        "alpha": predictor.alpha,
        "n_calibration": predictor.n_calibration,
        "n_classes": len(classes),
        "classes": None if isinstance(classes, range) else list(classes),
    }


def whole_numbers(values: Any, kind: type[T]) -> NDArray[T]:
    """Whole numbers from a file; anything else is refused, not rounded."""
    found = np.array(values)
    if found.dtype.kind != "i":
        raise ValueError(f"expected whole numbers, got {found.dtype}")
    return np.array(values, dtype=kind)


def rising(scores: NDArray[np.float64]) -> bool:
    """Whether scores from a file are one list in increasing order, none of them NaN.

    >>> rising(np.array([0.1, 0.1, np.inf])), rising(np.array([0.2, 0.1])), rising(np.array([np.nan]))
    (True, False, False)
    """
    return scores.ndim == 1 and not np.isnan(scores).any() and bool((scores[1:] >= scores[:-1]).all())


def check_limits(kept: Any, limits: Callable[[float], Any], alpha: float) -> None:
    """Raises a ValueError if the limits in a file are not those that its calibration scores give at its level.

    A level that was given as a fraction is rounded in the file; if it was 1/3, the float
    above the one in the file gives its limits.

    >>> check_limits(0.5, lambda alpha: 0.7, 0.1)
    Traceback (most recent call last):
    ValueError: its thresholds are not those of its calibration scores
    """
    if not any(np.array_equal(kept, limits(level)) for level in (alpha, math.nextafter(alpha, 1))):
        raise ValueError("its thresholds are not those of its calibration scores")


def checked_classes(alpha: Any, n_calibration: Any, n_classes: Any, classes: Any, **sound: bool) -> Classes:
    """The class names, if these four make sense, and all that the caller found `sound`.

    >>> checked_classes(0.1, 100, 2, ["crop", "weed"], threshold=True)
    ('crop', 'weed')
    >>> checked_classes(0.1, 100, 2, None, threshold=False)
    Traceback (most recent call last):
    ValueError: its threshold makes no sense
    """
    names: Classes = range(n_classes) if classes is None else tuple(classes)
    every = {
        "alpha": isinstance(alpha, float) and as_alpha(alpha) == alpha,
        "n_calibration": isinstance(n_calibration, int) and n_calibration > 0,
        "n_classes": isinstance(n_classes, int) and n_classes >= 2,
        "classes": classes is None or len(set(names)) == n_classes == len(names),
        **sound,
    }
    for part, good in every.items():
        if not good:
            raise ValueError(f"its {part} makes no sense")
    return names
