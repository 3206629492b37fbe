"""Validation of labels, groups and class names."""

import re
from collections.abc import Collection, Set
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._runtime.arrays import Classes, Codes, read_only
from pippin._runtime.errors import InputError, warn
from pippin._validation.frames import as_frame
from pippin._validation.index import same_index
from pippin._validation.rows import Rows, as_rows, select_columns, shortened

Reading = Literal["names", "indices"]  # interpretation of labels that are whole numbers
WHOLE = re.compile(r"[+-]?[0-9]+")
WHOLE_FLOAT = re.compile(r"([+-]?[0-9]+)\.0+")  # as pandas writes whole numbers of a column with missing values
LARGEST_EXACT = 2.0**53  # below this bound, neighboring whole numbers are different floats
MOST_CLASSES = 2_000_000  # number of class names at which iteration stops, since a range may be endless
MOST_DIGITS = 18  # largest number of decimal digits with which every integer fits into 64 bits
AS_NAMES = "pass names as text, labels.astype(str), or the names of the columns, numpy.take(classes, labels)"


class ColumnNumbers(NamedTuple):
    """Labels that are known to be column numbers of the rows, so that they are not interpreted as names."""

    codes: Codes


class Labelled(NamedTuple):
    """Labeled rows: probabilities, index of the true class of each row, and names of the classes."""

    rows: Rows
    labels: Codes
    classes: Classes

    def take(self, numbers: NDArray[np.intp]) -> "Labelled":
        """Return the labeled rows with these indices."""
        return Labelled(self.rows.take(numbers), self.labels[numbers], self.classes)


def as_labelled(probs: Any, labels: ArrayLike, classes: Classes | None = None, from_logits: bool = False) -> Labelled:
    """Check probabilities, labels and class names against each other, and return the labeled rows."""
    rows, names = as_rows_and_classes(probs, classes, from_logits)
    if rows.index is not None:
        same_index("probs", rows.index, labels=labels)
    return Labelled(rows, labels_of_rows(labels, rows, names), names)


def rows_of_classes(classes: Classes, probs: Any, from_logits: bool, **others: Any) -> Rows:
    """Convert `probs` to rows, with columns in the order of `classes`; check the index of labels, groups or weights."""
    rows = select_columns(classes, as_rows(probs, from_logits))
    same_index("probs", rows.index, **others)
    return rows


def are_several(probs: Any) -> bool:
    """Return True for the probabilities of several models: a list or tuple of matrices, or an (M, n, K) array.

    >>> are_several([[[0.5, 0.5]], [[0.2, 0.8]]]), are_several([[0.5, 0.5], [0.2, 0.8]])
    (True, False)
    """
    shape = getattr(probs, "shape", None)
    if shape is None and isinstance(probs, list | tuple) and len(probs):
        first = probs[0]
        inner = getattr(first, "shape", None)
        return len(np.shape(first[:1]) if inner is None and isinstance(first, list | tuple) else inner or ()) == 2
    return shape is not None and len(shape) == 3


def rows_of_models(models: Any, classes: Classes | None, from_logits: bool) -> tuple[Rows, ...]:
    """Check the probabilities of the same objects by several models, and return the rows of each model.

    Named columns are put in the order of `classes`, or if `classes` is None, in the order of the first model's columns.
    """
    every: list[Rows] = []
    for m, part in enumerate(models):
        try:
            rows = as_rows(part, from_logits)
            wanted = (every[0].names or range(every[0].n_classes)) if classes is None and every else classes
            every.append(rows := rows if wanted is None else select_columns(wanted, rows))
        except InputError as error:
            raise error.at(f"Model {m}") from error
        if rows.n != every[0].n:
            got = f"{every[0].n} rows from model 0 and {rows.n} from model {m}"
            remedy = "let every model predict all of them"
            raise InputError(f"Expected the same objects from every model, got {got}", remedy)
        same_index("probs[0]", every[0].index, **{f"probs[{m}]": part})
    return tuple(every)


def as_rows_of_stack(probs: Any, from_logits: bool = False) -> Rows:
    """Convert the input of a sharpener or a stack: a matrix like `as_rows`, or the matrices of M models.

    The matrices of M models become `Rows` with one array of probabilities, (n, M, K), which are checked.
    """
    if isinstance(probs, Rows) or not are_several(probs):
        return as_rows(probs, from_logits)
    every = rows_of_models(probs, None, from_logits)
    checked = []
    for m, rows in enumerate(every):
        try:
            checked.append(rows.verified().block(0, rows.n))
        except InputError as error:
            raise error.at(f"Model {m}") from error
    return replace(every[0], array=np.stack(checked, axis=1), logits=False, checked=True)


def as_labels(labels: ArrayLike | ColumnNumbers, n: int, classes: Classes, reading: Reading | None = None) -> Codes:
    """Convert labels, class indices or names of `classes`, to class indices.

    A label that is text is a class name. A whole number is a name if the class names are whole numbers. If class names
    are text such as "1", whole numbers can be names, if each is the name of a class, and column numbers, if each is
    below K. If both readings are possible and differ, an InputError is raised.

    Args:
        labels: one per row.
        n: the number of rows.
        classes: the names of the columns.
        reading: "names" or "indices" to fix the interpretation of whole numbers; None to infer it.

    Raises:
        InputError: the number of labels is not n, a label is not a class, or labels have two meanings.

    >>> as_labels([3, 1], 2, ("1", "2", "3"))
    array([2, 0])
    >>> as_labels([2, 1], 2, ("1", "2", "3"))
    Traceback (most recent call last):
    pippin._runtime.errors.InputError: Row 0 has the label 2, which is column 2 ('3') by number and column 1 ('2')
    by name: pass
    names as text, labels.astype(str), or the names of the columns, numpy.take(classes, labels).
    """
    if isinstance(labels, ColumnNumbers):
        return labels.codes
    array = _label_array(labels, n, classes)
    numeric = array.dtype.kind in "iu"
    if numeric and (reading == "indices" or (reading is None and isinstance(classes, range))):
        return _by_number(array, classes)
    if numeric and reading is None and isinstance(classes[0], str):
        return _by_either(array, classes)
    values = array.tolist()
    codes = _look_up(values, classes)
    if not numeric and (reading == "indices" or (reading is None and max(codes, default=-1) < 0)):
        numbers = _numbers(values, classes)
        if numbers is not None:
            return _by_number(numbers, classes)
    if -1 in codes:
        row = codes.index(-1)
        if _is_missing(values[row]):
            raise _no_label(row, values[row])
        what = f"has the label {values[row]!r}, which is not one of the {len(classes)} classes ({shortened(classes)})"
        remedy = "correct the label or pass classes= with all names"
        raise InputError(what, remedy, "correct the label or name all classes in the file", row)
    return read_only(np.array(codes, dtype=np.int64))


def _label_array(labels: ArrayLike, n: int, classes: Classes) -> NDArray[Any]:
    """Return labels as an array of whole numbers, also if they are floats, or of names.

    Raises:
        InputError: the number of labels is not n, a float is missing or not whole, or labels have another type.
    """
    array = as_whole(one_per_row(labels, n, "labels", "whole numbers or class names"))
    if array.dtype.kind == "f":
        if (missing := np.isnan(array)).any():
            row = int(missing.argmax())
            raise _no_label(row, array[row])
        row = int((~((array == np.floor(array)) & (np.abs(array) < LARGEST_EXACT))).argmax())
        what = f"has the label {array[row]}, expected a whole number or a class name"
        raise InputError(what, "pass the true class of each row", row=row)
    if array.dtype.kind not in "iuOUST":
        remedy = "pass labels.astype(int)" if array.dtype.kind == "b" else "convert them"
        raise InputError(f"Expected labels that are whole numbers or class names, got {array.dtype}", remedy)
    if array.dtype.kind not in "iu" and len(array) and isinstance(array[0], str) and WHOLE_FLOAT.fullmatch(array[0]):
        values = array.tolist()
        matches = [WHOLE_FLOAT.fullmatch(value) if isinstance(value, str) else None for value in values]
        if all(matches) and not set(values) & set(map(str, classes)):
            return as_whole(np.array([int(match[1]) for match in matches if match], dtype=object))
    return array


def _no_label(row: int, value: object) -> InputError:
    what = f"has no label ({value}), expected its true class"
    return InputError(what, "leave rows without a label out of all arguments", "add it", row)


def labels_of_rows(
    labels: ArrayLike | ColumnNumbers, rows: Rows, classes: Classes, reading: Reading | None = None
) -> Codes:
    """Convert labels to class indices like `as_labels`, if the columns of `rows` may have been put in another order.

    If they have, `ColumnNumbers` are indices of the original columns, and other labels must be names, since a whole
    number could mean a class or an original column.
    """
    if rows.order is None:
        return as_labels(labels, rows.n, classes, reading)
    if isinstance(labels, ColumnNumbers):
        return read_only(np.argsort(rows.order)[labels.codes])
    if isinstance(classes[0], int):  # numbers are names
        return as_labels(labels, rows.n, classes, reading)
    if _label_array(labels, rows.n, classes).dtype.kind in "iu":
        what = "Expected names as text, got whole numbers where the columns are in another order than the classes"
        raise InputError(what, AS_NAMES)
    return as_labels(labels, rows.n, classes, "names")


def two_meanings(classes: Classes) -> bool:
    """Return True if a whole number can be the name of one class and the column number of another.

    >>> two_meanings(("1", "2")), two_meanings(("0", "1")), two_meanings(("crop", "weed"))
    (True, False, False)
    """
    return any(isinstance(name, str) and WHOLE.fullmatch(name) and name != str(i) for i, name in enumerate(classes))


def labels_of_part(labels: ArrayLike | ColumnNumbers, rows: Rows, classes: Classes) -> Codes:
    """Convert the labels of one part of the rows; parts that are converted separately are interpreted in the same way.

    If whole numbers could be class names or column numbers, `labels_of_rows` decides by all labels, and could decide
    otherwise for another part. In this case only names as text are accepted here.
    """
    if isinstance(labels, ColumnNumbers) or not two_meanings(classes):
        return labels_of_rows(labels, rows, classes)
    if _label_array(labels, rows.n, classes).dtype.kind in "iu":
        called = shortened(classes)
        raise InputError(f"Expected names as text, got whole numbers where classes are called {called}", AS_NAMES)
    return labels_of_rows(labels, rows, classes, "names")


def as_whole(array: NDArray[Any]) -> NDArray[Any]:
    """Convert floats and objects to int64 if all are whole numbers of at most 64 bits; else return the array unchanged.

    >>> as_whole(np.array([6.0, 0.0])), as_whole(np.array([0.5]))
    (array([6, 0]), array([0.5]))
    """
    if array.dtype.kind == "f":
        whole = bool((np.abs(array) < LARGEST_EXACT).all()) and bool((array == np.floor(array)).all())
        return array.astype(np.int64) if whole else array
    if array.dtype.kind == "O" and all(map(_is_whole, array.tolist())):
        with suppress(OverflowError):
            return array.astype(np.int64)
    return array


def _is_whole(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return not isinstance(value, bool) and isinstance(value, Integral)


def _numbers(given: list[Any], classes: Classes) -> NDArray[np.int64] | None:
    """Convert labels such as "12", and whole numbers beyond 64 bits, to integers; None if a label is neither."""
    wide = all(isinstance(label, int) and not isinstance(label, bool) for label in given)
    if not given or not (wide or all(isinstance(label, str) and WHOLE.fullmatch(label) for label in given)):
        return None
    row = next((row for row, label in enumerate(given) if len(str(label).lstrip("+-0")) > MOST_DIGITS), None)
    if row is not None:
        raise _no_number(row, given[row], classes)
    return np.array([int(label) for label in given], dtype=np.int64)


def _no_number(row: int, label: object, classes: Classes) -> InputError:
    what = f"has the label {label}, expected 0 to {len(classes) - 1}"
    return InputError(what, "labels are column numbers counted from 0", row=row)


def _by_number(array: NDArray[Any], classes: Classes) -> Codes:
    indices = np.ascontiguousarray(array, dtype=np.int64)
    unsigned = indices.view(np.uint64)  # as unsigned numbers, negative ones are large
    if len(indices) and unsigned[unsigned.argmax()] >= len(classes):
        row = int(((array < 0) | (array >= len(classes))).argmax())
        raise _no_number(row, array[row], classes)
    return read_only(indices)


def _by_either(array: NDArray[Any], classes: Classes) -> Codes:
    """Convert whole numbers to class indices if class names are text: as names such as "1", or as column numbers.

    If both readings are possible, they must agree.
    """
    different, inverse = np.unique(array, return_inverse=True)
    named = np.array(_look_up(different.tolist(), classes))
    possible = bool(((different >= 0) & (different < len(classes))).all())
    apart = named != different
    if possible and (named >= 0).all() and apart.any():
        row = int(apart[inverse].argmax())
        number, name = int(array[row]), int(named[inverse[row]])
        meanings = f"column {number} ({classes[number]!r}) by number and column {name} ({classes[name]!r}) by name"
        in_files = "say which with --labels-are names or --labels-are indices"
        raise InputError(f"has the label {number}, which is {meanings}", AS_NAMES, in_files, row)
    return _by_number(array, classes) if (named < 0).any() else read_only(named[inverse])


def _look_up(labels: list[Any], classes: Classes) -> list[int]:
    """Return the position of each label among the class names; −1 if it is none of them."""
    index = {str(name): i for i, name in enumerate(classes)}
    named = (isinstance(label, str | int) and not isinstance(label, bool) for label in labels)
    return [index.get(str(label), -1) if name else -1 for label, name in zip(labels, named, strict=True)]


def one_per_row(values: Any, n: int, what: str, kinds: str) -> NDArray[Any]:
    """Convert labels or groups to an array with one value per row; a matrix with one column becomes a vector.

    Raises:
        InputError: the length differs, or the values are not an array.
    """
    if type(values) is not np.ndarray:
        values = as_frame(values)
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        row = int(np.ma.getmaskarray(values).ravel().argmax())
        raise InputError(f"Expected {what} without a mask, got row {row} masked", "leave those rows out everywhere")
    try:
        array: NDArray[Any] = np.asarray(values)
        if array.dtype.kind == "U" and isinstance(values, list | tuple):
            array = np.array(values, dtype=object)  # keeps missing values, which NumPy converted to "nan"
    except (TypeError, ValueError, RuntimeError, OverflowError, MemoryError) as error:
        raise InputError(f"Expected {n} {what}, one per row, got {type(values).__name__}", f"pass {kinds}") from error
    if array.shape == (n, 1):
        return array[:, 0]
    if array.shape != (n,):
        sentence = f"Expected {n} {what}, one per row, got shape {array.shape}"
        in_files = "store one per row, in row order"
        if array.shape[:1] == (n,) and _is_one_hot(array):
            # The columns of a frame may have another order than the classes, so the remedy for a frame gives class
            # names instead of column numbers.
            method = "idxmax" if hasattr(values, "iloc") else "argmax"
            is_method = method == "idxmax" or hasattr(values, method)
            remedy = f"pass {what}.{method}(axis=1)" if is_method else f"pass numpy.argmax({what}, axis=1)"
            raise InputError(sentence, remedy, in_files)
        remedy = f"pass numpy.ravel({what})" if array.shape == (1, n) else f"pass {what} in row order"
        raise InputError(sentence, remedy, in_files)
    return array


def _is_one_hot(array: NDArray[Any]) -> bool:
    """Return True for a matrix with a single 1 in each row and 0 elsewhere."""
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind not in "biuf":
        return False
    return bool(((array == 0) | (array == 1)).all()) and bool((array.sum(axis=1) == 1).all())


def as_groups(groups: ArrayLike, n: int, what: str = "groups") -> NDArray[np.generic]:
    """Return the group of every row, as whole numbers or text.

    Raises:
        InputError: the number of groups is not n, a group is missing, or groups are neither numbers nor text.
    """
    array = one_per_row(groups, n, what, "whole numbers or text")
    if array.dtype.kind in "iubU":
        return array
    given, got = array.tolist(), "bytes" if array.dtype.kind == "S" else str(array.dtype)
    if array.dtype.kind in "Of":
        row = next((row for row, name in enumerate(given) if _is_missing(name)), None)
        if row is not None:
            sentence = f"has no {what[:-1]} ({given[row]}), expected a whole number or text"
            raise InputError(sentence, "name the missing groups, or leave these rows out", row=row)
    if array.dtype.kind == "O":
        if any(all(isinstance(name, kind) for name in given) for kind in (str, Integral | np.bool_)):
            array = np.array(given)
        got = " and ".join(sorted({type(name).__name__ for name in given}))
    if array.dtype.kind not in "iubU":
        raise InputError(f"Expected {what} that are all whole numbers or all text, got {got}", "convert them")
    return array


class Groups(NamedTuple):
    """Groups by number: `codes` holds the number of each row's group, `names` the name of each group."""

    codes: Codes
    names: tuple[str | int, ...]


def as_numbered_groups(groups: ArrayLike, n: int, what: str = "groups") -> Groups:
    """Number the groups in the order of their sorted names; return the number of each row's group, and the names."""
    names, codes = np.unique(as_groups(groups, n, what), return_inverse=True)
    return Groups(codes, tuple(names.tolist()))


FEW_ROWS = 20  # with fewer rows, `ids_not_groups` accepts any number of groups


def ids_not_groups(names: Collection[Any], n: int) -> InputError | None:
    """Return an InputError if there are so many groups that they are probably ids: more than n/2; None otherwise.

    >>> print(ids_not_groups(range(900), 1000))
    900 groups of 1,000 rows, such as '0', are ids rather than groups: a group is what several rows share, such as a
    photograph or a field.
    """
    if n < FEW_ROWS or len(names) <= n / 2:
        return None
    what = f"{len(names):,} groups of {n:,} rows, such as {min(map(str, names))!r}, are ids rather than groups"
    return InputError(what, "a group is what several rows share, such as a photograph or a field")


def are_ids(names: Collection[Any], n: int) -> bool:
    """Warn and return True if `ids_not_groups` finds the groups to be ids; return False otherwise."""
    found = ids_not_groups(names, n)
    if found is not None:
        warn(f"{found} They are left out.")
    return found is not None


def as_rows_and_classes(probs: Any, classes: Classes | None, from_logits: bool = False) -> tuple[Rows, Classes]:
    """Return rows and their class names: `classes`, else the column names of a data frame, else 0 … K − 1.

    If `classes` and the column names are the same names, the columns are put in the order of `classes`.

    Raises:
        InputError: names disagree with the columns, are repeated, or are neither all text nor all whole numbers.
    """
    rows = as_rows(probs, from_logits)
    given = rows.names if classes is None else classes
    if given is None or (classes is None and given == tuple(range(rows.n_classes))):
        return rows, range(rows.n_classes)
    names = tuple(as_class_names(given))
    return select_columns(names, rows), names


def as_class_names(given: Any) -> Classes:
    """Return class names as a tuple or a range; raise an InputError unless they are distinct and of one type."""
    if isinstance(given, Set):
        raise InputError("Expected class names in the order of the columns, got a set, which has none", "pass a list")
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise InputError(f"Expected a list of class names, got {given!r}", "pass for example ['crop', 'weed']")
    if isinstance(given, range) and given[:MOST_CLASSES] == given:
        return given
    names = tuple(c.item() if isinstance(c, np.generic) else c for c in islice(given, MOST_CLASSES))
    strings = all(isinstance(c, str) for c in names)
    if not strings and not all(isinstance(c, Integral) and not isinstance(c, bool) for c in names):
        other = next(c for c in names if not isinstance(c, str))
        raise InputError(f"Expected class names that are all text or all whole numbers, got {other!r}", "convert them")
    if len(set(names)) < len(names):
        repeated = next(name for i, name in enumerate(names) if name in names[:i])
        raise InputError(f"The class name {repeated!r} occurs twice", "give every class its own name")
    return names


def _is_missing(value: object) -> bool:
    """Return True for None, NaN and the missing values of pandas."""
    nan = isinstance(value, Real) and value != value
    return nan or value is None or type(value).__name__ in ("NAType", "NaTType")
