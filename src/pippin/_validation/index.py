"""Row indices of pandas: labels, groups and weights must have the index of the probabilities."""

from typing import Any

import numpy as np

from pippin._runtime.errors import InputError
from pippin._validation.frames import row_index


def same_index(of: str, index: Any, **others: Any) -> None:
    """Raise an InputError if labels, groups or weights have an index that differs from that of the rows.

    Arguments are matched by position, so different indices, such as after sorting one argument, indicate rows that are
    matched wrongly. Arguments without an index are accepted, and so is the default index 0 … n − 1 (of
    `reset_index`, or a frame of an array), unless the other index has the same numbers in another order.

    Args:
        of: the name of the argument with the rows, for error messages.
        index: the index of the rows, or None.
        others: labels, groups or weights, by the names of the arguments.

    >>> import pandas as pd
    >>> probs = pd.DataFrame({"crop": [0.9, 0.2], "weed": [0.1, 0.8]}, index=["a.png", "b.png"])
    >>> same_index("probs", probs.index, labels=[0, 1], groups=pd.Series([7, 8]))
    >>> same_index("probs", probs.index, labels=pd.Series([1, 0], index=["b.png", "a.png"]))
    Traceback (most recent call last):
    pippin._runtime.errors.InputError: Expected labels with the index of probs, got row 0 as 'b.png' and not
    'a.png': align them,
    labels.loc[probs.index], or pass labels.to_numpy() if they are in row order.
    """
    if index is None:
        return
    for name, values in others.items():
        own = row_index(values)
        if own is None or len(own) != len(index) or index.equals(own):
            continue
        if (_is_default(index) or _is_default(own)) and set(index) != set(own):
            continue
        pairs = zip(own, index, strict=True)
        differing = next((pair for pair in enumerate(pairs) if repr(pair[1][0]) != repr(pair[1][1])), None)
        if differing is None:  # equal as text: times in different units or time zone types
            continue
        row, (got, wanted) = differing
        what = f"Expected {name} with the index of {of}, got row {row} as {got!r} and not {wanted!r}"
        remedy = f"align them, {name}.loc[{of}.index], or pass {name}.to_numpy() if they are in row order"
        raise InputError(what, remedy)


def _is_default(index: Any) -> bool:
    """Return True if the index is the default 0 … n − 1."""
    return index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index)))
