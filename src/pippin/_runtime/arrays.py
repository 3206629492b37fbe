"""Array types that all packages share."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]  # probabilities as given
Vector = NDArray[np.float64]  # scores, p-values, weights, of any number of axes
Codes = NDArray[np.int64]  # classes or groups by number, one per row; counts
Indices = NDArray[np.int32]  # classes, rows or ranks by number, many of them
Flags = NDArray[np.bool_]
Classes = Sequence[str | int]  # names of the columns; a range where they have none
Seed = int | np.random.Generator | None

T = TypeVar("T", bound=np.generic)

NATIVE = (np.dtype(np.float32), np.dtype(np.float64))


def read_only(array: NDArray[T]) -> NDArray[T]:
    """Return a read-only view, or the array itself if it is read-only."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.setflags(write=False)  # faster than to write the flag
    return view


def named(codes: NDArray[np.integer[Any]], classes: Classes) -> NDArray[Any]:
    """Return the names of classes, or their numbers if they have no names.

    >>> named(np.array([1, 0]), ("crop", "weed"))
    array(['weed', 'crop'], dtype='<U4')
    """
    return codes if isinstance(classes, range) else np.array(classes)[codes]
