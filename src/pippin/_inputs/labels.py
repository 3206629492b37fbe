"""The door for what belongs to rows: true classes, groups, and the names of the columns."""

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._inputs.index import same_index
from pippin._inputs.rows import Rows, as_rows
from pippin._runtime.arrays import Classes, Codes, read_only
from pippin._runtime.errors import InputError


class Labelled(NamedTuple):
    """Rows, the true class of each by number, and the names of the classes."""

    rows: Rows
    labels: Codes
    classes: Classes


def as_labelled(probs: Any, labels: ArrayLike, classes: Classes | None = None, from_logits: bool = False) -> Labelled:
    """What every way of calibrating takes first, checked together."""
    rows = as_rows(probs, from_logits)
    same_index("probs", rows.index, labels=labels)
    names = as_classes(classes, rows)
    return Labelled(rows, as_labels(labels, rows.n, names), names)


def as_labels(labels: ArrayLike, n: int, classes: Classes) -> Codes:
    """Labels as class indices: given as indices, or as names of `classes`.

    Raises:
        InputError: another number of labels than rows, or a label that is no class.
    """
    try:
        array = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"Expected {n} labels, one per row, got {type(labels).__name__}", "pass whole numbers or class names"
        ) from error
    if array.ndim != 1 or array.size != n:
        raise InputError(
            f"Expected {n} labels, one per row, got shape {array.shape}",
            "pass labels in row order",
            "store one label per row, in row order",
        )
    if array.dtype.kind == "O" and all(isinstance(k, Integral) and not isinstance(k, bool) for k in array.tolist()):
        array = array.astype(np.int64)
    if array.dtype.kind in "OUST" or (array.dtype.kind in "iu" and _are_numbered(classes)):
        return _looked_up(array.tolist(), classes)
    if array.dtype.kind not in "iu":
        raise InputError(f"Expected labels that are whole numbers or class names, got {array.dtype}", "convert them")
    indices = np.ascontiguousarray(array, dtype=np.int64)
    unsigned = indices.view(np.uint64)  # there the negative ones are large
    if n and unsigned[unsigned.argmax()] >= len(classes):
        row = int(((array < 0) | (array >= len(classes))).argmax())
        raise InputError(
            f"Row {row} has the label {array[row]}, expected 0 to {len(classes) - 1}",
            "labels are column numbers counted from 0",
        )
    return read_only(indices)


def _looked_up(given: list[Any], classes: Classes) -> Codes:
    index: dict[Any, int] = {name: i for i, name in enumerate(classes)}
    codes = [index.get(label, -1) if isinstance(label, str | int) else -1 for label in given]
    if -1 in codes:
        row = codes.index(-1)
        raise InputError(
            f"Row {row} has the label {given[row]!r}, which is not one of the {len(classes)} classes "
            f"({shortened(classes)})",
            "correct the label or pass classes= with all names",
            "correct the label or name all classes in the file",
        )
    return read_only(np.array(codes, dtype=np.int64))


def as_groups(groups: ArrayLike, n: int) -> NDArray[np.generic]:
    """The group of every row, whole numbers or text.

    Raises:
        InputError: another number of groups than rows, a row without one, or something else than numbers or names.
    """
    try:  # in a list NumPy would turn what is missing beside text into the text "nan"
        array: NDArray[Any] = np.array(groups, dtype=object) if isinstance(groups, list | tuple) else np.asarray(groups)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"Expected {n} groups, one per row, got {type(groups).__name__}", "pass whole numbers or text"
        ) from error
    if array.shape != (n,):
        raise InputError(
            f"Expected {n} groups, one per row, got shape {array.shape}",
            "pass groups in row order",
            "store one group per row, in row order",
        )
    if array.dtype.kind in "iubU":
        return array
    given, got = array.tolist(), str(array.dtype)
    if array.dtype.kind in "Of":
        row = next((row for row, name in enumerate(given) if _is_missing(name)), None)
        if row is not None:
            raise InputError(
                f"Row {row} has no group ({given[row]}), expected a whole number or text",
                "give what is missing a name of its own, or leave the row out",
            )
    if array.dtype.kind == "O":
        if any(all(isinstance(name, kind) for name in given) for kind in (str, Integral | np.bool_)):
            array = np.array(given)
        got = " and ".join(sorted({type(name).__name__ for name in given}))
    if array.dtype.kind not in "iubU":
        raise InputError(f"Expected groups that are all whole numbers or all text, got {got}", "convert them")
    return array


class Groups(NamedTuple):
    """The group of every row by number, and their names in the order of the numbers."""

    codes: Codes
    names: tuple[str | int, ...]


def as_numbered_groups(groups: ArrayLike, n: int) -> Groups:
    """Groups numbered in the order of their names."""
    names, codes = np.unique(as_groups(groups, n), return_inverse=True)
    return Groups(codes, tuple(names.tolist()))


def as_classes(classes: Classes | None, rows: Rows) -> Classes:
    """Class names: those given, else a data frame's columns, else 0 … K − 1.

    Raises:
        InputError: another number of names than columns, another order than the data
            frame's, a repeated name, or names that are neither all str nor all int.
    """
    if classes is None:
        if rows.names is None or rows.names == tuple(range(rows.n_classes)):
            return range(rows.n_classes)
        return _unique(rows.names)
    if isinstance(classes, str) or not hasattr(classes, "__iter__"):
        raise InputError(f"Expected a list of class names, got {classes!r}", "pass for example ['crop', 'weed']")
    names = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
    strings = all(isinstance(c, str) for c in names)
    if not strings and not all(isinstance(c, Integral) and not isinstance(c, bool) for c in names):
        odd = next(c for c in names if not isinstance(c, str))
        raise InputError(f"Expected class names that are all text or all whole numbers, got {odd!r}", "convert them")
    agree(names, rows)
    return _unique(names)


def agree(classes: Classes, rows: Rows) -> None:
    """Raises an InputError where the rows' columns are not these classes in this order."""
    if len(classes) != rows.n_classes:
        raise InputError(
            f"Expected {len(classes)} columns, one per class ({shortened(classes)}), got {rows.n_classes}",
            "pass the same classes in the same order",
        )
    if rows.names is not None and (isinstance(rows.names[0], int) or not isinstance(classes, range)):
        for column, (name, wanted) in enumerate(zip(rows.names, classes, strict=True)):
            if str(name) != str(wanted):
                raise InputError(
                    f"Column {column} is {name!r}, expected {wanted!r}",
                    "select the columns in the order of the classes, frame[list(classes)]",
                    "put the columns in the order in which the predictor was calibrated",
                )


def check_names(classes: Classes, row: Any) -> None:
    """One row of a data frame brings the names of its columns, which must be the classes in their order."""
    names = getattr(row, "index", None)
    if names is not None and not callable(names) and not isinstance(classes, range):
        agree(classes, Rows(np.empty((1, len(names))), names=tuple(names)))


def shortened(names: Classes) -> str:
    """The first few names.

    >>> shortened(range(6))
    '0, 1, 2, 3, …'
    """
    return ", ".join(str(name) for name in names[:4]) + (", …" if len(names) > 4 else "")


def _unique(names: Any) -> Classes:
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise InputError(f"The class name {name!r} occurs twice", "give every class its own name")
        seen.add(name)
    return tuple(names)


def _are_numbered(classes: Classes) -> bool:
    return not isinstance(classes, range) and isinstance(classes[0], int)


def _is_missing(value: object) -> bool:
    """None, NaN, and what pandas has for them."""
    nan = isinstance(value, Real) and value != value
    return nan or value is None or type(value).__name__ in ("NAType", "NaTType")
