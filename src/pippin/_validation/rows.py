"""Validation of probabilities: conversion of arrays and data frames to `Rows`, which are checked once.

Rows are read in blocks, so that the conversion of half floats, logits or another memory order needs memory for one
block. Contiguous float32 and float64 are not copied.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import NATIVE, Classes, Floats, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._validation.frames import Names, as_frame, column_names, row_index, row_names

SUM_TOLERANCE = 1e-3  # largest difference between the sum of a row and 1
BFLOAT16_TOLERANCE = 2.0**-7  # this difference for rows of bfloat16 numbers: their machine epsilon
BLOCK = 1 << 20  # number of probabilities that are checked at once
# Methods that convert sparse matrices, and frames of other libraries.
CONVERSIONS = ("toarray", "to_numpy", "to_pandas", "toPandas")
ENOUGH = 5  # rows from which on an error names columns that hold no probabilities

SELECT = "select the columns of the classes, frame[list(classes)]"
NORMALIZE = "divide each row by its sum, probs / probs.sum(axis=1, keepdims=True)"
NORMALIZE_IN_FILES = "if every column is a class, add --normalize to divide each row by its sum"
BOTH, STORE_BOTH = "[1 - p, p]", "for two classes store both columns, 1 - p and p"


@dataclass(frozen=True)
class Rows:
    """Probabilities or logits, one object per row.

    Attributes:
        array: (n, K) numbers; for the input of a stack of M models, (n, M, K) probabilities.
        logits: True if the numbers are logits.
        names: the column names of a data frame, or None.
        index: the row index of a pandas frame or an xarray DataArray, or None.
        checked: True if all rows are known to be probability distributions.
        library: "pandas" or "polars" if the rows came from such a data frame, or None.
        order: the position of each column in the data frame, if `select_columns` changed the order of the columns.
    """

    array: NDArray[Any]
    logits: bool = False
    names: Names | None = None
    index: Any = None
    checked: bool = False
    library: str | None = None
    order: NDArray[np.intp] | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.array)

    @property
    def n_classes(self) -> int:
        """Number of columns."""
        return int(self.array.shape[-1])

    @property
    def models(self) -> "tuple[Rows, ...]":
        """Rows of each model of a stack; of a single model, only these rows."""
        if self.array.ndim == 2:
            return (self,)
        return tuple(replace(self, array=self.array[:, m]) for m in range(self.array.shape[1]))

    def take(self, indices: NDArray[np.intp]) -> "Rows":
        """Return the rows at these indices, without column names and index."""
        return Rows(self.array[indices], self.logits, checked=self.checked)

    def block(self, start: int, stop: int) -> Floats:
        """Return the probabilities of rows start to stop, contiguous, as float32 or float64; for logits the softmax."""
        part = self.array[start:stop]
        if self.logits:
            return read_only(softmax(part, start))
        if part.dtype in NATIVE and part.flags.c_contiguous and part.flags.aligned:
            part.setflags(write=False)  # only of this view: a slice is no copy
            return part
        exact = np.float32 if part.dtype in (np.float16, np.float32) else np.float64
        return read_only(np.require(part, exact, ["C", "A"]))

    def check(self, start: int, stop: int) -> None:
        """Raise an InputError for the first row from start to stop that is not a probability distribution."""
        if self.logits or self.checked:
            return
        fault = find_fault(self.block(start, stop), self.names)
        if fault is not None:
            raise fault.later(start)

    def verified(self) -> "Rows":
        """Check all rows, and return them with `checked` set, so that they are not checked again."""
        # For logits, the softmax in `block` checks the rows.
        check, step = self.block if self.logits else self.check, max(1, BLOCK // self.n_classes)
        for start in range(0, self.n, step):
            check(start, min(start + step, self.n))
        return replace(self, checked=True)


def as_rows(probs: Any, from_logits: bool = False) -> Rows:
    """Convert an array or a data frame of shape (n, K) to `Rows`, with its column names and its row index.

    NumPy arrays, lists, tensors on the CPU, frames of pandas and polars, tables with an Arrow C stream and data of
    xarray are accepted. bfloat16 numbers are converted to float32, which is exact.

    Raises:
        InputError: the argument is not a matrix of numbers, has no rows, or fewer than two classes.
    """
    if isinstance(probs, Rows):
        return probs
    frame = probs if type(probs) is np.ndarray else as_frame(probs)
    array = as_array(frame)
    if array.ndim != 2:
        what = f"Expected probabilities of shape (n, K), got shape {array.shape}"
        if array.ndim == 1 and _are_of_one_class(array):
            raise InputError(what, f"for a binary classifier pass both columns, numpy.column_stack({BOTH})", STORE_BOTH)
        if array.ndim == 1:
            remedy = "reshape one object to (1, K), or use predict_one"
            raise InputError(what, remedy, "store one object as shape (1, K)")
        stack = ", or for several models a stack or sharpen='split'" if array.ndim == 3 else ""
        raise InputError(what, f"one row per object{stack}", "one row per object")
    n, n_classes = array.shape
    if n == 0:
        raise InputError(f"Expected at least one row of probabilities, got shape {array.shape}")
    if n_classes < 2:
        remedy = f"for a binary classifier pass both columns, {BOTH}"
        raise InputError(f"Expected at least two classes, got {n_classes} column(s)", remedy, STORE_BOTH)
    if array is probs:  # a NumPy array, which has neither column names nor an index
        return Rows(array, from_logits)
    module = type(probs).__module__.partition(".")[0]
    library, names = module if module in ("pandas", "polars") else None, column_names(frame)
    if from_logits and names and (whole := suspect_columns(array[:BLOCK], True)):
        what = f"Expected one column of logits per class, got the {quoted([names[k] for k in whole])} of whole numbers"
        raise InputError(what, SELECT)
    return Rows(array, from_logits, names, row_index(frame), library=library)


def as_array(values: Any) -> NDArray[Any]:
    """Convert values to a NumPy array of numbers, without a copy where possible."""
    if type(values) is np.ndarray and values.dtype in NATIVE:
        return values
    refuse_mask(values, "probabilities")
    values = as_frame(values)
    try:
        if hasattr(values, "detach"):
            values = values.detach()
            if str(values.dtype) == "torch.bfloat16":
                values = values.float()
        if not hasattr(values, "__array__") and hasattr(values, "__dlpack__"):
            values = np.from_dlpack(values)
        array = np.asarray(values)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError, BufferError, OverflowError, MemoryError) as error:
        _refuse_text(values)
        raise InputError(f"Expected a matrix of numbers, got {type(values).__name__}", _conversion(values)) from error
    if array.dtype.name == "bfloat16":  # a type of ml_dtypes, which JAX and TensorFlow use
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        _refuse_text(values)
        raise InputError(f"Expected a matrix of numbers, got {array.dtype}", "convert it to floats")
    return array


def _conversion(values: Any) -> str:
    """Return the remedy for values that NumPy cannot convert to numbers."""
    if getattr(getattr(values, "device", None), "type", "cpu") != "cpu":
        return "move it with .cpu(), or calibrate with pippin.torch"
    if type(values).__module__.partition(".")[0] not in ("pandas", "polars"):
        method = next((name for name in CONVERSIONS if hasattr(type(values), name)), None)
        if method is not None:
            return f"convert it with .{method}()"
    return "pass one row of numbers per object, all of one length"


def refuse_mask(values: Any, what: str) -> None:
    """Raise an InputError if an array has masked entries."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise InputError(f"Expected {what} without a mask, got masked entries", "fill them or leave the rows out")


def _refuse_text(frame: Any) -> None:
    """Raise an InputError for the first column of a data frame that does not hold numbers."""
    for name in frame.columns if type(frame).__name__ == "DataFrame" else ():
        values = np.asarray(frame[name])
        try:
            values.astype(np.float64)
            good = values.dtype.kind in "fiubO"
        except (TypeError, ValueError):
            good = False
        if not good:
            entries = values.tolist()
            example = next((value for value in entries if isinstance(value, str)), entries[0])
            kind = "text" if isinstance(example, str) else type(example).__name__
            what = f"Column {name!r} holds {kind} such as {example!r}, expected the probabilities of a class"
            raise InputError(what, f"drop it, or {SELECT}")


def softmax(logits: NDArray[Any], first_row: int = 0) -> Vector:
    """Compute rows of probabilities in float64; a logit of −∞ is a probability of 0.

    >>> softmax(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    shifted = np.array(logits, dtype=np.float64, order="C")
    top = shifted.max(axis=1)
    if not np.isfinite(top).all():
        row = int((~np.isfinite(top)).argmax())
        what = f"has a largest logit of {top[row]}, expected finite logits (−inf for impossible classes)"
        raise InputError(what, "remove or repair that row", row=first_row + row)
    shifted -= top[:, None]
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted


def find_fault(block: Floats, names: Names | None = None) -> InputError | None:
    """Return the error of the first row of a block that is not a probability distribution; None if all rows are."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = block.sum(axis=1, dtype=np.float64)
        positive = (block >= 0).all(axis=1)
        good = (np.abs(sums - 1.0) <= SUM_TOLERANCE) & positive
    if good.all():
        return None
    good |= positive & explained_by_bfloat16(block, sums)
    if not good.all():
        good |= positive & explained_by_rounding(block, sums)
        if good.all():
            warn("Some rows sum to 1 only as far as their rounded decimals allow: they are taken as they are.")
    if good.all():
        return None
    many = len(block) >= ENOUGH and np.count_nonzero(good) < 0.9 * len(block)  # a column concerns many rows
    if many and (fault := _fault_of_columns(block, names)) is not None:
        return fault
    row = int((~good).argmax())
    what, remedy, in_files = _describe_fault(block[row], float(sums[row]), names, bool((block < 0).any()))
    return InputError(what, remedy, in_files, row)


def explained_by_bfloat16(block: Floats, sums: Vector) -> NDArray[np.bool_]:
    """Flag rows of bfloat16 numbers whose sum differs from 1 by at most 2⁻⁷, since these numbers have 8 binary digits.

    Such rows are valid without normalization, also after conversion to float32 or float64. Scores of calibration and
    test rows are computed in the same way, so exchangeable rows have exchangeable scores for any sums.

    >>> row = np.array([[0.33203125, 0.33203125, 0.33203125]])
    >>> explained_by_bfloat16(row, row.sum(axis=1))
    array([ True])
    """
    with np.errstate(invalid="ignore", over="ignore"):
        single = block.astype(np.float32)
        exact = (single == block) & (single.view(np.uint32) & np.uint32(0xFFFF) == 0)
        explained: NDArray[np.bool_] = exact.all(axis=1) & (np.abs(sums - 1.0) <= BFLOAT16_TOLERANCE)
        return explained


def _fault_of_columns(block: Floats, names: Names | None) -> InputError | None:
    """Return an error that names the columns without probabilities, if all rows are distributions without them."""
    columns, logits = suspect_columns(block, False), False
    if not columns and np.isfinite(block).all() and (block < 0).any():
        columns, logits = suspect_columns(block, True), True
    called = [k if names is None else names[k] for k in columns]
    if columns:
        why = "of whole numbers among logits" if logits else "without which every row sums to 1"
        remedy = f"pass numpy.delete(probs, {columns}, axis=1)" if names is None else SELECT
        kind = "logits" if logits else "probabilities"
        what = f"Expected one column of {kind} per class, got the {quoted(called)} {why}"
        return InputError(what, remedy, "name the columns of the classes, with --classes or --prefix")
    with np.errstate(invalid="ignore"):
        fractions = np.flatnonzero((block != np.round(block)).any(axis=0))
    if len(fractions) == 1 and ((block[:, fractions] >= 0) & (block[:, fractions] <= 1)).all():
        name = int(fractions[0]) if names is None else names[int(fractions[0])]
        what = f"Expected one column of probabilities per class, got only the {quoted([name])}"
        return InputError(what, f"for a binary classifier pass both columns, {BOTH}", STORE_BOTH)
    return None


def suspect_columns(values: NDArray[Any], logits: bool) -> list[int]:
    """Find columns that probably hold no class probabilities, such as row numbers: all rows sum to 1 without them.

    Among logits, these are the columns of whole numbers that are not all equal, if at least two other columns hold
    fractions.

    >>> suspect_columns(np.array([[7, 0.25, 0.75], [8, 0.5, 0.5]]), False)
    [0]
    """
    if logits:
        whole = ((values == np.round(values)) & np.isfinite(values)).all(axis=0)
        suspects = whole & (values != values[:1]).any(axis=0)  # a constant column may be a class that is ruled out
        return np.flatnonzero(suspects).tolist() if whole.sum() <= len(whole) - 2 and len(values) > 1 else []
    outside = ~could_be_distributions(values)
    inside = values[:, ~outside]
    if inside.shape[1] < 2:
        return []
    if outside.any() and are_distributions(inside):
        return np.flatnonzero(outside).tolist()
    for column in range(inside.shape[1]):
        if inside.shape[1] > 2 and are_distributions(np.delete(inside, column, axis=1)):
            outside[np.flatnonzero(~outside)[column]] = True
            return np.flatnonzero(outside).tolist()
    return []


def could_be_distributions(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Flag the columns whose numbers are all between 0 and 1."""
    with np.errstate(invalid="ignore"):
        return np.asarray(((values >= 0) & (values <= 1 + SUM_TOLERANCE)).all(axis=0))


def are_distributions(values: NDArray[Any]) -> bool:
    """Return True if every row sums to 1, as far as its rounded decimals allow."""
    sums = values.sum(axis=1, dtype=np.float64)
    good = np.abs(sums - 1) <= SUM_TOLERANCE
    return bool(good.all()) or bool((good | explained_by_rounding(values, sums)).all())


def _are_of_one_class(values: NDArray[Any]) -> bool:
    """Return True if values seem to be probabilities of one class for several objects: they do not sum to 1."""
    return bool(((values >= 0) & (values <= 1)).all()) and abs(float(values.sum()) - 1) > SUM_TOLERANCE


def quoted(names: Sequence[object]) -> str:
    """Return "column" or "columns" and the first four names, in quotes unless they are numbers.

    >>> quoted(["a"]), quoted([3, 4])
    ("column 'a'", 'columns 3, 4')
    """
    more = ", …" if len(names) > 4 else ""
    return f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names[:4]))}{more}"


def explained_by_rounding(block: Floats, sums: Vector) -> NDArray[np.bool_]:
    """Flag rows whose sum may differ from 1 because their entries were rounded to some number of decimals.

    The difference may be half a unit of the last decimal per entry, but not more than 0.05.

    The number of decimals of a row, from two to six, is the largest among its entries.

    >>> thirds = np.array([[0.33, 0.33, 0.33]])
    >>> explained_by_rounding(thirds, thirds.sum(axis=1))
    array([ True])
    """
    explained = np.zeros(len(block), dtype=np.bool_)
    for decimals in range(2, 7):
        slack = min(0.05, 0.5 * 10.0**-decimals * block.shape[1])
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = block.astype(np.float64) * 10**decimals
            rounded = (np.abs(scaled - np.round(scaled)) <= 1e-7 * 10**decimals).all(axis=1)
            explained |= rounded & (np.abs(sums - 1.0) <= slack + 1e-9)
    return explained


def _describe_fault(row: Floats, total: float, names: Names | None, negative: bool) -> tuple[str, str, str | None]:
    """Return the reason why a row is invalid, the remedy, and the remedy for users of files if it differs.

    `negative` is True if some row has negative entries.
    """

    def at(column: int) -> str:
        return f"column {column}" + (f" ({names[column]!r})" if names else "")

    broken = ~np.isfinite(row)
    if broken.any():
        column = int(broken.argmax())
        return f"has {row[column]} in {at(column)}, expected probabilities", "remove or repair that row", None
    if abs(total - 1.0) > SUM_TOLERANCE and (row.min() < 0 or row.max() > 1.1):
        if abs(total - 100.0) <= 100 * SUM_TOLERANCE and row.min() >= 0:
            return "sums to 100, expected 1", "these look like percentages, divide them by 100", None
        if not negative:
            return f"sums to {total:.4g}, expected 1", NORMALIZE, NORMALIZE_IN_FILES
        in_files = "add --logits, or save them as the array logits of an .npz file"
        return f"sums to {total:.4g}, expected 1: these look like logits", "pass from_logits=True", in_files
    if row.min() < 0:
        column = int((row < 0).argmax())
        return f"has {row[column]} in {at(column)}, expected no negative probability", "clip and normalize it", None
    return f"sums to {total:.6g}, expected 1 within {SUM_TOLERANCE}", NORMALIZE, NORMALIZE_IN_FILES


def select_columns(classes: Classes, rows: Rows) -> Rows:
    """Return the rows with their columns in the order of the classes.

    Columns with names are selected by name. Other columns must already be in the order of the classes: columns without
    names, and columns named by text if the classes have only numbers.

    Raises:
        InputError: the number of columns differs, or a class has no column or several, or a column is no class.
    """
    order = None if rows.names is None else column_order(classes, rows.names)
    if order is not None:
        array, names = np.take(rows.array, order, axis=-1), tuple(classes)
        return replace(rows, array=array, names=names, order=order if rows.order is None else rows.order[order])
    if len(classes) != rows.n_classes:
        what = f"Expected {len(classes)} columns, one per class ({shortened(classes)}), got {rows.n_classes}"
        raise InputError(what, "pass the same classes in the same order")
    return rows


def column_order(wanted: Classes, names: Names, kind: str = "class") -> NDArray[np.intp] | None:
    """Return the position of each wanted name among the names of columns; None if they are in this order already.

    Args:
        wanted: names of classes or features; a range for classes without names, which have no order to compare with
            unless the columns are named by the same numbers.
        names: the names of the columns.
        kind: "class" or "feature", for error messages.

    Raises:
        InputError: a name is missing, occurs several times, or is not wanted.

    >>> column_order(("crop", "weed"), ("weed", "crop")), column_order(("crop", "weed"), ("crop", "weed"))
    (array([1, 0]), None)
    """
    if names == tuple(wanted):
        return None
    given, needed = list(map(str, names)), list(map(str, wanted))
    if given == needed:
        return None
    position, different = {name: column for column, name in enumerate(given)}, set(needed)
    missing = [name for name in wanted if str(name) not in position]
    extra = [name for name in names if str(name) not in different]
    if isinstance(wanted, range) and all(isinstance(name, str) for name in names) and (missing or extra):
        return None
    if missing:
        got = f"none called {missing[0]!r}" + (f" but {extra[0]!r}" if extra else "")
        what = f"Expected a column for each {kind} ({shortened(wanted)}), got {got}"
        remedy = f"rename the columns, or pass those of every {kind}"
        if names == tuple(range(len(names))):
            remedy = "name the columns, or pass frame.to_numpy() if they are in this order"
        raise InputError(what, remedy, "rename the columns")
    if extra:
        what = f"Expected no column but one for each {kind} ({shortened(wanted)}), got {extra[0]!r}"
        raise InputError(what, "leave it out", "leave it out, or name it with --id")
    if len(given) > len(needed):
        twice = next(name for column, name in enumerate(names) if position[str(name)] != column)
        raise InputError(f"Expected one column for each {kind}, got {twice!r} twice", "give every column its own name")
    return np.array([position[name] for name in needed])


def row_of_classes(classes: Classes, row: Any) -> NDArray[Any]:
    """Return the probabilities of one object as an array; entries with names are put in the order of the classes."""
    array, names = as_array(row), row_names(row)
    return array if names is None else select_columns(classes, Rows(array[None], names=names)).array[0]


def as_one_row(row: Any, classes: Classes) -> NDArray[Any]:
    """Return the K probabilities of one object as a contiguous array, without a copy if `row` is one.

    Raises:
        InputError: the number of probabilities is not K, or the columns are other classes.
    """
    if type(row) is not np.ndarray or row.dtype not in NATIVE or not row.flags.carray:
        row = np.require(row_of_classes(classes, row), np.float64, ["C", "A"])
    if row.shape != (len(classes),):
        raise InputError(f"Expected one row of {len(classes)} probabilities, got shape {row.shape}")
    return row  # type: ignore[no-any-return]  # an array at this point


def shortened(names: Classes) -> str:
    """Return the first four names, separated by commas.

    >>> shortened(range(6))
    '0, 1, 2, 3, …'
    """
    return ", ".join(str(name) for name in names[:4]) + (", …" if len(names) > 4 else "")
