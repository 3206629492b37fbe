"""The door: whatever the caller has becomes checked rows, labels and class names.

Everything behind the door may rely on it. Rows are read in blocks, so that half floats,
logits or another memory order cost one block of memory, not a copy of the matrix; what
is already contiguous float32 or float64 is not copied at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Classes = Sequence[str | int]

T = TypeVar("T", bound=np.generic)

NATIVE = (np.dtype(np.float32), np.dtype(np.float64))
SUM_TOLERANCE = 1e-3  # how far a row's sum may be from 1


@dataclass(frozen=True)
class Rows:
    """Probabilities, or logits to be turned into them, one object per row."""

    array: NDArray[Any]
    logits: bool
    names: tuple[str | int, ...] | None
    index: Any = None

    @property
    def n(self) -> int:
        return len(self.array)

    @property
    def n_classes(self) -> int:
        return int(self.array.shape[1])

    def take(self, indices: NDArray[np.intp]) -> "Rows":
        """Some of the rows, without names for their columns."""
        return Rows(self.array[indices], self.logits, None)

    def block(self, start: int, stop: int) -> Floats:
        """Rows start to stop, contiguous, as float32 or float64; logits as probabilities."""
        part = self.array[start:stop]
        if self.logits:
            return read_only(softmax(part, start))
        if part.dtype in NATIVE and part.flags.c_contiguous and part.flags.aligned:
            part.setflags(write=False)  # a slice is a view already
            return part
        exact = np.float32 if part.dtype in (np.float16, np.float32) else np.float64
        return read_only(np.require(part, exact, ["C", "A"]))

    def check(self, start: int, stop: int) -> None:
        """Raises a ValueError that names the first row of the block that is no distribution."""
        if not self.logits:
            _check_probabilities(self.block(start, stop), start, self.names)


def as_rows(probs: Any, from_logits: bool = False) -> Rows:
    """The rows of any array of shape (n, K): NumPy, pandas, polars, torch on the CPU, lists.

    Raises:
        ValueError: not a matrix of numbers, no rows, or fewer than two classes.
    """
    if isinstance(probs, Rows):
        return probs
    array = as_array(probs)
    if array.ndim != 2:
        hint = "reshape one object to (1, K), or use predict_one" if array.ndim == 1 else "one row per object"
        raise ValueError(f"Expected probabilities of shape (n, K), got shape {array.shape}: {hint}.")
    n, n_classes = array.shape
    if n == 0:
        raise ValueError(f"Expected at least one row of probabilities, got shape {array.shape}.")
    if n_classes < 2:
        raise ValueError(
            f"Expected at least two classes, got {n_classes} column(s): "
            "for a binary classifier pass both columns, [1 - p, p]."
        )
    if array is probs:  # a plain array has no names
        return Rows(array, from_logits, None)
    return Rows(array, from_logits, _column_names(probs), row_index(probs))


def as_array(values: Any) -> NDArray[Any]:
    """A NumPy array of numbers, without a copy where the source allows it."""
    if type(values) is np.ndarray and values.dtype in NATIVE:
        return values
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise ValueError("Expected probabilities without a mask, got masked entries: fill them or leave the rows out.")
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
        where = getattr(getattr(values, "device", None), "type", "cpu")
        hint = "move it with .cpu()" if where != "cpu" else "pass one row of numbers per object, all of one length"
        raise ValueError(f"Expected a matrix of numbers, got {type(values).__name__}: {hint}.") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(f"Expected a matrix of numbers, got {array.dtype}: convert it to floats.")
    return array


def as_labels(labels: ArrayLike, n: int, classes: Classes) -> NDArray[np.int64]:
    """Labels as class indices: given as indices, or as names of `classes`.

    Raises:
        ValueError: another number of labels than rows, or a label that is no class.
    """
    try:
        array = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Expected {n} labels, one per row, got {type(labels).__name__}: pass whole numbers or class names."
        ) from error
    if array.ndim != 1 or array.size != n:
        raise ValueError(f"Expected {n} labels, one per row, got shape {array.shape}: pass labels in row order.")
    if array.dtype.kind == "O" and all(isinstance(k, Integral) and not isinstance(k, bool) for k in array.tolist()):
        array = array.astype(np.int64)
    if array.dtype.kind in "OUST" or (array.dtype.kind in "iu" and _are_numbered(classes)):
        given = array.tolist()
        index: dict[Any, int] = {name: i for i, name in enumerate(classes)}
        found = [index.get(label, -1) if isinstance(label, str | int) else -1 for label in given]
        if -1 in found:
            row = found.index(-1)
            raise ValueError(
                f"Row {row} has the label {given[row]!r}, which is not one of the {len(classes)} classes "
                f"({_shortened(classes)}): correct the label or pass classes= with all names."
            )
        return read_only(np.array(found, dtype=np.int64))
    if array.dtype.kind not in "iu":
        raise ValueError(f"Expected labels that are whole numbers or class names, got {array.dtype}: convert them.")
    indices = np.ascontiguousarray(array, dtype=np.int64)
    unsigned = indices.view(np.uint64)  # there the negative ones are large
    if n and unsigned[unsigned.argmax()] >= len(classes):
        row = int(((array < 0) | (array >= len(classes))).argmax())
        raise ValueError(
            f"Row {row} has the label {array[row]}, expected 0 to {len(classes) - 1}: "
            "labels are column numbers counted from 0."
        )
    return read_only(indices)


def as_groups(groups: ArrayLike, n: int) -> NDArray[np.generic]:
    """The group of every row, whole numbers or text.

    Raises:
        ValueError: another number of groups than rows, a row without one, or something else than numbers or names.
    """
    try:  # in a list NumPy would turn what is missing beside text into the text "nan"
        array: NDArray[Any] = np.array(groups, dtype=object) if isinstance(groups, list | tuple) else np.asarray(groups)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Expected {n} groups, one per row, got {type(groups).__name__}: pass whole numbers or text."
        ) from error
    if array.shape != (n,):
        raise ValueError(f"Expected {n} groups, one per row, got shape {array.shape}: pass groups in row order.")
    if array.dtype.kind in "iubU":
        return array
    given, got = array.tolist(), str(array.dtype)
    if array.dtype.kind in "Of":
        row = next((row for row, name in enumerate(given) if _is_missing(name)), None)
        if row is not None:
            raise ValueError(
                f"Row {row} has no group ({given[row]}), expected a whole number or text: give what is missing a "
                "name of its own, or leave the row out."
            )
    if array.dtype.kind == "O":
        if any(all(isinstance(name, kind) for name in given) for kind in (str, Integral | np.bool_)):
            array = np.array(given)
        got = " and ".join(sorted({type(name).__name__ for name in given}))
    if array.dtype.kind not in "iubU":
        raise ValueError(f"Expected groups that are all whole numbers or all text, got {got}: convert them.")
    return array


def as_classes(classes: Classes | None, rows: Rows) -> Classes:
    """Class names: those given, else a data frame's columns, else 0 … K − 1.

    Raises:
        ValueError: another number of names than columns, another order than the data
            frame's, a repeated name, or names that are neither all str nor all int.
    """
    if classes is None:
        if rows.names is None or rows.names == tuple(range(rows.n_classes)):
            return range(rows.n_classes)
        return _unique(rows.names)
    if isinstance(classes, str) or not hasattr(classes, "__iter__"):
        raise ValueError(f"Expected a list of class names, got {classes!r}: pass for example ['crop', 'weed'].")
    names = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
    strings = all(isinstance(c, str) for c in names)
    if not strings and not all(isinstance(c, Integral) and not isinstance(c, bool) for c in names):
        odd = next(c for c in names if not isinstance(c, str))
        raise ValueError(f"Expected class names that are all text or all whole numbers, got {odd!r}: convert them.")
    agree(names, rows)
    return _unique(names)


def agree(classes: Classes, rows: Rows) -> None:
    """Raises a ValueError where the rows' columns are not these classes in this order."""
    if len(classes) != rows.n_classes:
        raise ValueError(
            f"Expected {len(classes)} columns, one per class ({_shortened(classes)}), got {rows.n_classes}: "
            "pass the same classes in the same order."
        )
    if rows.names is not None and (isinstance(rows.names[0], int) or not isinstance(classes, range)):
        for column, (name, wanted) in enumerate(zip(rows.names, classes, strict=True)):
            if str(name) != str(wanted):
                raise ValueError(
                    f"Column {column} is {name!r}, expected {wanted!r}: "
                    "select the columns in the order of the classes, frame[list(classes)]."
                )


def check_names(classes: Classes, row: Any) -> None:
    """One row of a data frame brings the names of its columns, which must be the classes in their order."""
    names = getattr(row, "index", None)
    if names is not None and not callable(names) and not isinstance(classes, range):
        agree(classes, Rows(np.empty((1, len(names))), False, tuple(names)))


def as_alpha(alpha: Any) -> float:
    """The level, checked to lie strictly between 0 and 1."""
    return float(exact_alpha(alpha))


def exact_alpha(alpha: Any) -> Fraction:
    """The level as the fraction that its decimal spelling names: 0.1 is exactly 1/10.

    >>> exact_alpha(0.3)
    Fraction(3, 10)
    """
    exact = _fraction(str(alpha))
    if exact is None:
        raise ValueError(
            f"Expected alpha, the share of errors allowed, strictly between 0 and 1, got {alpha!r}: "
            "alpha=0.1 asks for 90 % coverage."
        )
    return exact


@lru_cache(maxsize=64)
def _fraction(text: str) -> Fraction | None:
    """The number that the text spells, if it lies between 0 and 1."""
    try:
        exact = Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None
    return exact if 0 < exact < 1 else None


def uniforms(seed: "int | np.random.Generator | None", n: int) -> NDArray[np.float64]:
    """One u per object, from a seed or a generator; None draws fresh entropy."""
    return np.random.default_rng(seed).random(n)


def ranked_order(block: Floats) -> NDArray[np.intp]:
    """Class indices of each row, most probable first, equal ones by index."""
    return np.argsort(-block, axis=1, kind="stable")


def softmax(logits: NDArray[Any], first_row: int = 0) -> NDArray[np.float64]:
    """Rows of probabilities in float64; a logit of −∞ is a probability of 0.

    >>> softmax(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    shifted = np.array(logits, dtype=np.float64, order="C")
    top = shifted.max(axis=1)
    if not np.isfinite(top).all():
        row = int((~np.isfinite(top)).argmax())
        raise ValueError(
            f"Row {first_row + row} has a largest logit of {top[row]}, expected finite logits (−inf for impossible "
            "classes): remove or repair that row."
        )
    shifted -= top[:, None]
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted


def read_only(array: NDArray[T]) -> NDArray[T]:
    """A view that cannot be written through; the owner's array stays as it is."""
    view = array.view()
    view.setflags(write=False)  # faster than to write the flag
    return view


def _check_probabilities(block: Floats, first_row: int, names: tuple[str | int, ...] | None) -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        sums = block.sum(axis=1, dtype=np.float64)
        good = (np.abs(sums - 1.0) <= SUM_TOLERANCE) & (block >= 0).all(axis=1)
    if good.all():
        return
    row = int((~good).argmax())
    raise ValueError(f"Row {first_row + row} {_what_is_wrong(block[row], float(sums[row]), names)}")


def _what_is_wrong(row: Floats, total: float, names: tuple[str | int, ...] | None) -> str:
    def at(column: int) -> str:
        return f"column {column}" + (f" ({names[column]!r})" if names else "")

    broken = ~np.isfinite(row)
    if broken.any():
        column = int(broken.argmax())
        return f"has {row[column]} in {at(column)}, expected probabilities: remove or repair that row."
    if abs(total - 1.0) > SUM_TOLERANCE and (row.min() < 0 or row.max() > 1.1):
        if abs(total - 100.0) <= 100 * SUM_TOLERANCE and row.min() >= 0:
            return "sums to 100, expected 1: these look like percentages, divide them by 100."
        return f"sums to {total:.4g}, expected 1: these look like logits: pass from_logits=True."
    if row.min() < 0:
        column = int((row < 0).argmax())
        return f"has {row[column]} in {at(column)}, expected no negative probability: clip and renormalise that row."
    return (
        f"sums to {total:.6g}, expected 1 within {SUM_TOLERANCE}: "
        "divide each row by its sum, probs / probs.sum(axis=1, keepdims=True)."
    )


def row_index(frame: Any) -> Any:
    """The index of a pandas frame; None for anything else."""
    return frame.index if hasattr(frame, "iloc") else None


def _column_names(probs: Any) -> tuple[str | int, ...] | None:
    columns = getattr(probs, "columns", None)
    if columns is None or callable(columns):
        return None
    names = tuple(c.item() if isinstance(c, np.generic) else c for c in columns)
    alike = any(all(isinstance(c, kind) for c in names) for kind in (str, int))
    return names if alike else None


def _unique(names: Any) -> Classes:
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"The class name {name!r} occurs twice: give every class its own name.")
        seen.add(name)
    return tuple(names)


def _are_numbered(classes: Classes) -> bool:
    return not isinstance(classes, range) and isinstance(classes[0], int)


def _is_missing(value: object) -> bool:
    """None, NaN, and what pandas has for them."""
    nan = isinstance(value, Real) and value != value
    return nan or value is None or type(value).__name__ in ("NAType", "NaTType")


def _shortened(classes: Classes) -> str:
    shown = ", ".join(str(c) for c in classes[:4])
    return shown + (", …" if len(classes) > 4 else "")
