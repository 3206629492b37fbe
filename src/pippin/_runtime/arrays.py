"""Array types shared by all packages, and two helpers for arrays."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]  # probabilities in the precision of the input
Vector = NDArray[np.float64]  # float64 scores, p-values or weights, any shape
Codes = NDArray[np.int64]  # class or group index of each row; counts
Indices = NDArray[np.int32]  # long arrays of class, row or rank indices
Flags = NDArray[np.bool_]  # truth values
Classes = Sequence[str | int]  # class names in column order; a range for unnamed classes
Seed = int | np.random.Generator | None

T = TypeVar("T", bound=np.generic)

NATIVE = (np.dtype(np.float32), np.dtype(np.float64))


def read_only(array: NDArray[T]) -> NDArray[T]:
    """Return a read-only view, or the array itself if it is read-only."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.setflags(write=False)  # faster than `view.flags.writeable = False`
    return view


def named(codes: NDArray[np.integer[Any]], classes: Classes) -> NDArray[Any]:
    """Return class names for class indices, or the indices themselves if classes have no names.

    >>> named(np.array([1, 0]), ("crop", "weed"))
    array(['weed', 'crop'], dtype='<U4')
    """
    return codes if isinstance(classes, range) else np.array(classes)[codes]
