"""Row indices of pandas: those of probabilities, labels, groups and weights must agree."""

from numbers import Integral
from typing import Any

import numpy as np

from pippin._runtime.errors import InputError
from pippin._validation.rows import row_index


def same_index(of: str, index: Any, **others: Any) -> None:
    """Raise an InputError where labels, groups or weights have another pandas index than their rows.

    All are taken by position. An index that contradicts that, because the rows were
    shuffled or sorted since, would pair them wrongly and silently. What has no index fits any, and
    so does the default 0 … n − 1, which `reset_index` and a frame made of an array have;
    unless the other side has just these numbers in another order: then nobody can know.

    Args:
        of: the name of the argument that holds the rows.
        index: their index; None, if they have none.
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
        if differing is None:  # the same times in another unit, or by another library's time zone
            continue
        row, (got, wanted) = differing
        what = f"Expected {name} with the index of {of}, got row {row} as {got!r} and not {wanted!r}"
        remedy = f"align them, {name}.loc[{of}.index], or pass {name}.to_numpy() if they are in row order"
        raise InputError(what, remedy)


def place_of(key: Any, index: Any, n: int) -> Any:
    """Return the position of an object among n: its number, or a slice or flags where a label occurs several times.

    A label of the index, as in pandas; where it has no whole numbers for labels, or only counts
    the rows, a whole number is a position, negative ones from the end. A slice is one of positions.

    Raises:
        InputError: the index has no such label.
        TypeError: there is no index, and it is no number.

    >>> import pandas as pd
    >>> photos = pd.Index(["a.png", "b.png"])
    >>> place_of("b.png", photos, 2), place_of(-1, photos, 2), place_of(7, pd.Index([7, 3]), 2)
    (1, 1, 0)
    """
    number = isinstance(key, Integral) and not isinstance(key, bool)
    if isinstance(key, slice) or (index is None and number):
        return key if isinstance(key, slice) else range(n)[key]
    if index is None:
        what = f"Expected the number of an object or a slice, got {key!r}"
        raise TypeError(f"{what}: objects that come in a pandas frame have labels.")
    if number and (_is_default(index) or not index.inferred_type.startswith(("int", "mixed"))):
        return range(n)[key]
    try:
        return index.get_loc(key)
    except Exception as error:  # pandas raises several kinds for what is no label
        shown = ", ".join(map(repr, index[:4].tolist())) + (", …" if len(index) > 4 else "")
        raise InputError(f"Expected a label of the index ({shown}), got {key!r}", "check it, or slice") from error


def _is_default(index: Any) -> bool:
    """Return True if the index only counts the rows."""
    return index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index)))
