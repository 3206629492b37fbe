"""Validation of probabilities: conversion of arrays and data frames to `Rows`, which are checked once.

Rows are read in blocks, so that the conversion of half floats, logits or another memory order needs memory for one
block. Contiguous float32 and float64 are not copied.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import NATIVE, Classes, Floats, Vector, read_only
from pippin._runtime.errors import InputError, warn

SUM_TOLERANCE = 1e-3  # largest difference of a row's sum from 1
BFLOAT16_TOLERANCE = 2.0**-7  # the same for a row of bfloat16 numbers: the machine epsilon of this type
BLOCK = 1 << 20  # probabilities that are checked at once

Names = tuple[str | int, ...]


@dataclass(frozen=True)
class Rows:
    """Probabilities or logits, one object per row.

    Attributes:
        array: (n, K) numbers.
        logits: True if the numbers are logits.
        names: the column names of a data frame, or None.
        index: the row index of a pandas frame, or None.
        checked: True if all rows are known to be probability distributions.
        library: "pandas" or "polars" if the rows came from such a data frame, or None.
    """

    array: NDArray[Any]
    logits: bool = False
    names: Names | None = None
    index: Any = None
    checked: bool = False
    library: str | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.array)

    @property
    def n_classes(self) -> int:
        """Number of columns."""
        return int(self.array.shape[1])

    def take(self, indices: NDArray[np.intp]) -> "Rows":
        """Return the rows at these indices, without column names and index."""
        return Rows(self.array[indices], self.logits, checked=self.checked)

    def block(self, start: int, stop: int) -> Floats:
        """Return the probabilities of rows start to stop, contiguous, as float32 or float64; of logits the softmax."""
        part = self.array[start:stop]
        if self.logits:
            return read_only(softmax(part, start))
        if part.dtype in NATIVE and part.flags.c_contiguous and part.flags.aligned:
            part.setflags(write=False)  # a slice is a view already
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
        check, step = self.block if self.logits else self.check, max(1, BLOCK // self.n_classes)  # softmax checks too
        for start in range(0, self.n, step):
            check(start, min(start + step, self.n))
        return replace(self, checked=True)


def as_rows(probs: Any, from_logits: bool = False) -> Rows:
    """Convert an array of shape (n, K) to `Rows`: from NumPy, pandas, polars, torch on the CPU, or lists.

    Raises:
        InputError: the argument is not a matrix of numbers, has no rows, or fewer than two classes.
    """
    if isinstance(probs, Rows):
        return probs
    array = as_array(probs)
    if array.ndim != 2:
        what = f"Expected probabilities of shape (n, K), got shape {array.shape}"
        if array.ndim == 1:
            remedy = "reshape one object to (1, K), or use predict_one"
            raise InputError(what, remedy, "store one object as shape (1, K)")
        raise InputError(what, "one row per object")
    n, n_classes = array.shape
    if n == 0:
        raise InputError(f"Expected at least one row of probabilities, got shape {array.shape}")
    if n_classes < 2:
        remedy = "for a binary classifier pass both columns, [1 - p, p]"
        raise InputError(f"Expected at least two classes, got {n_classes} column(s)", remedy)
    if array is probs:  # NumPy arrays have neither names nor an index
        return Rows(array, from_logits)
    module = type(probs).__module__.partition(".")[0]
    library = module if module in ("pandas", "polars") else None
    return Rows(array, from_logits, column_names(probs), row_index(probs), library=library)


def as_array(values: Any) -> NDArray[Any]:
    """Convert values to a NumPy array of numbers, without a copy where possible."""
    if type(values) is np.ndarray and values.dtype in NATIVE:
        return values
    refuse_mask(values, "probabilities")
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
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        _refuse_text(values)
        where = getattr(getattr(values, "device", None), "type", "cpu")
        hint = "pass one row of numbers per object, all of one length"
        if where != "cpu":
            hint = "move it with .cpu(), or calibrate with pippin.torch"
        raise InputError(f"Expected a matrix of numbers, got {type(values).__name__}", hint) from error
    if array.dtype.name == "bfloat16":  # a type of ml_dtypes, which JAX and TensorFlow use
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        _refuse_text(values)
        raise InputError(f"Expected a matrix of numbers, got {array.dtype}", "convert it to floats")
    return array


def refuse_mask(values: Any, what: str) -> None:
    """Raise an InputError if an array has masked entries."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise InputError(f"Expected {what} without a mask, got masked entries", "fill them or leave the rows out")


def _refuse_text(frame: Any) -> None:
    """Raise an InputError for the first column of a data frame that does not hold numbers."""
    for name in column_names(frame) or () if type(frame).__name__ == "DataFrame" else ():
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
            raise InputError(what, "drop it, or select the columns of the classes, frame[list(classes)]")


def row_index(frame: Any) -> Any:
    """Return the index of a pandas frame; None for anything else."""
    return frame.index if hasattr(frame, "iloc") else None


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
    row = int((~good).argmax())
    what, remedy, in_files = _describe_fault(block[row], float(sums[row]), names)
    return InputError(what, remedy, in_files, row)


def explained_by_bfloat16(block: Floats, sums: Vector) -> NDArray[np.bool_]:
    """Flag rows of bfloat16 numbers whose sum differs from 1 by at most 2⁻⁷, since these numbers have 8 binary digits.

    Such rows are valid as they are, also if they were converted to float32 or float64: a score is computed in the same
    way from calibration and test rows, so that exchangeable rows have exchangeable scores whatever their sums.

    >>> row = np.array([[0.33203125, 0.33203125, 0.33203125]])
    >>> explained_by_bfloat16(row, row.sum(axis=1))
    array([ True])
    """
    with np.errstate(invalid="ignore", over="ignore"):
        single = block.astype(np.float32)
        exact = (single == block) & (single.view(np.uint32) & np.uint32(0xFFFF) == 0)
        explained: NDArray[np.bool_] = exact.all(axis=1) & (np.abs(sums - 1.0) <= BFLOAT16_TOLERANCE)
        return explained


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


def _describe_fault(row: Floats, total: float, names: Names | None) -> tuple[str, str, str | None]:
    """Return the reason why a row is invalid, the remedy, and the remedy for users of files if it differs."""

    def at(column: int) -> str:
        return f"column {column}" + (f" ({names[column]!r})" if names else "")

    broken = ~np.isfinite(row)
    if broken.any():
        column = int(broken.argmax())
        return f"has {row[column]} in {at(column)}, expected probabilities", "remove or repair that row", None
    if abs(total - 1.0) > SUM_TOLERANCE and (row.min() < 0 or row.max() > 1.1):
        if abs(total - 100.0) <= 100 * SUM_TOLERANCE and row.min() >= 0:
            return "sums to 100, expected 1", "these look like percentages, divide them by 100", None
        if row.min() >= 0:
            remedy = "divide each row by its sum, or pass from_logits=True if they are logits"
            in_files = "add --normalize to divide each row by its sum, or --logits if they are logits"
            return f"sums to {total:.4g}, expected 1", remedy, in_files
        in_files = "add --logits, or save them as the array logits of an .npz file"
        return f"sums to {total:.4g}, expected 1: these look like logits", "pass from_logits=True", in_files
    if row.min() < 0:
        column = int((row < 0).argmax())
        return f"has {row[column]} in {at(column)}, expected no negative probability", "clip and normalize it", None
    remedy = "divide each row by its sum, probs / probs.sum(axis=1, keepdims=True)"
    in_files = "if every column is a class, add --normalize to divide each row by its sum"
    return f"sums to {total:.6g}, expected 1 within {SUM_TOLERANCE}", remedy, in_files


def column_names(probs: Any) -> Names | None:
    """Return the column names of a data frame, if they are all text or all whole numbers; None for anything else."""
    columns = getattr(probs, "columns", None)
    if columns is None or callable(columns):
        return None
    names = tuple(c.item() if isinstance(c, np.generic) else c for c in columns)
    alike = any(all(isinstance(c, kind) for c in names) for kind in (str, int))
    return names if alike else None


def agree(classes: Classes, rows: Rows) -> None:
    """Raise an InputError unless the columns of the rows are the given classes, in the same order."""
    if len(classes) != rows.n_classes:
        what = f"Expected {len(classes)} columns, one per class ({shortened(classes)}), got {rows.n_classes}"
        raise InputError(what, "pass the same classes in the same order")
    if rows.names is not None and (isinstance(rows.names[0], int) or not isinstance(classes, range)):
        for column, (name, wanted) in enumerate(zip(rows.names, classes, strict=True)):
            if str(name) != str(wanted):
                remedy = "select the columns in the order of the classes, frame[list(classes)]"
                in_files = "put the columns in the order in which the predictor was calibrated"
                raise InputError(f"Column {column} is {name!r}, expected {wanted!r}", remedy, in_files)


def check_names(classes: Classes, row: Any) -> None:
    """Raise an InputError if `row` is a row of a data frame whose columns are not the classes in their order."""
    names = getattr(row, "index", None)
    if names is not None and not callable(names) and not isinstance(classes, range):
        agree(classes, Rows(np.empty((1, len(names))), names=tuple(names)))


def as_one_row(row: Any, classes: Classes) -> NDArray[Any]:
    """Return the K probabilities of one object as a contiguous array, without a copy if `row` is one.

    Raises:
        InputError: the number of probabilities is not K, or the columns are other classes.
    """
    if type(row) is not np.ndarray or row.dtype not in NATIVE or not row.flags.carray:
        check_names(classes, row)
        row = np.require(as_array(row), np.float64, ["C", "A"])
    if row.shape != (len(classes),):
        raise InputError(f"Expected one row of {len(classes)} probabilities, got shape {row.shape}")
    return row  # type: ignore[no-any-return]  # an array at this point


def shortened(names: Classes) -> str:
    """Return the first four names, separated by commas.

    >>> shortened(range(6))
    '0, 1, 2, 3, …'
    """
    return ", ".join(str(name) for name in names[:4]) + (", …" if len(names) > 4 else "")
