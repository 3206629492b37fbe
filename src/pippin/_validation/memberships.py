"""Memberships of rows in groups that may overlap, and numeric features in their place."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Codes, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._validation.frames import as_frame, column_names
from pippin._validation.labels import as_groups, as_numbered_groups
from pippin._validation.rows import as_array

AND, NONE = " & ", "none"  # text of a combination of groups: their names, or this for a row in no group
MATRIX = "pass a matrix of 0 and 1, with one row per object and one column per group"


class Memberships(NamedTuple):
    """Memberships in groups that may overlap, or numeric features.

    Attributes:
        names: the names of the groups or features.
        values: (n, groups) values, 1 for a member and 0 for others; any numbers for features.
    """

    names: tuple[str, ...]
    values: Vector

    @property
    def binary(self) -> bool:
        """True for memberships, False for numeric features."""
        return bool(((self.values == 0) | (self.values == 1)).all())

    def take(self, rows: Any) -> "Memberships":
        """Return the memberships of the rows with these indices."""
        return self._replace(values=self.values[rows])

    def distinct(self) -> "tuple[Memberships, Codes]":
        """Return the combinations of values that occur, in a fixed order, and the combination of each row."""
        values = self.values
        if values.shape[1] <= 52 and self.binary:
            keys = values @ 2.0 ** np.arange(values.shape[1])
            first, codes = np.unique(keys, return_index=True, return_inverse=True)[1:]
            return self._replace(values=values[first]), codes
        distinct, codes = np.unique(values, axis=0, return_inverse=True)
        return self._replace(values=distinct), codes.ravel()

    def combinations(self) -> tuple[str, ...]:
        """Name the combination of groups of each row.

        >>> Memberships(("wet", "sandy"), np.array([[1.0, 1.0], [0.0, 0.0]])).combinations()
        ('wet & sandy', 'none')
        """
        rows = (AND.join(name for name, one in zip(self.names, row, strict=True) if one) for row in self.values)
        return tuple(text or NONE for text in rows)


def groups_of_combination(text: str) -> list[str]:
    """Return the names of the groups in the name of a combination.

    >>> groups_of_combination("wet & sandy"), groups_of_combination("none")
    (['wet', 'sandy'], [])
    """
    return [part.strip() for part in text.split("&") if part.strip() not in ("", NONE)]


def as_memberships(groups: Any, n: int, names: tuple[str, ...] | None = None) -> Memberships:
    """Check memberships in overlapping groups, or numeric features, and return them with the names of the columns.

    Args:
        groups: a matrix or a data frame with a row per object and a column per group, or the combination of groups of
            each object as text, such as "wet & sandy".
        n: the number of objects.
        names: the names of the groups that were calibrated; None for calibration rows.

    Raises:
        InputError: the shape or a value is invalid, or a group is unknown.

    >>> as_memberships(["wet & sandy", "none", "sandy"], 3)
    Memberships(names=('sandy', 'wet'), values=array([[1., 1.],
           [0., 0.],
           [1., 0.]]))
    """
    if isinstance(groups, Memberships):
        return groups
    if hasattr(groups, "toarray"):
        raise InputError("Expected groups as a dense matrix, got a sparse one", "pass groups.toarray()")
    frame = as_frame(groups)
    listed = column_names(frame)
    shape = np.shape(frame)
    if len(shape) == 1:
        return _of_text(as_groups(groups, n), names)
    values = as_array(frame).astype(np.float64)
    if values.ndim != 2 or len(values) != n or not values.shape[1]:
        raise InputError(f"Expected groups of shape ({n}, number of groups), got {values.shape}", MATRIX)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0].tolist()
        what = f"has the value {values[row, column]} in column {column} of groups, expected a finite number"
        raise InputError(what, "fill it in, or leave the row out", row=row)
    own = tuple(map(str, range(values.shape[1]) if listed is None else listed))
    if names is not None and listed is not None and set(own) == set(names):
        values, own = values[:, [own.index(name) for name in names]], names
    if names is not None and (len(own) != len(names) or (listed is not None and own != names)):
        what = f"Expected the groups {', '.join(names)}, got {', '.join(own)}"
        raise InputError(what, "pass a column for each group of the calibration rows, in their order")
    if len(set(own)) < len(own) or any("&" in name or name == NONE for name in own):
        what = f"Expected different names of groups without '&', other than '{NONE}', got {', '.join(own)}"
        raise InputError(what, "rename the columns of groups")
    return Memberships(own if names is None else names, read_only(values))


class ReportedGroups(NamedTuple):
    """Number of each row's group, and the names of the groups; if these overlap, the number of their combination.

    `members` is then (combinations, groups) with 1 for the groups of each combination; else it is None.
    """

    codes: Codes
    names: tuple[str | int, ...]
    members: Vector | None


def _overlap(groups: Any) -> bool:
    """Return True for memberships in several groups, which may overlap."""
    shape: tuple[int, ...] = () if isinstance(groups, Memberships) else np.shape(groups)
    return isinstance(groups, Memberships) or (len(shape) == 2 and shape[1] > 1)


def group_of_each_row(groups: Any, n: int) -> NDArray[Any]:
    """Return the name of each row's group; if groups overlap, that of the combination, such as "wet & sandy"."""
    return np.array(as_memberships(groups, n).combinations()) if _overlap(groups) else as_groups(groups, n)


def as_reported_groups(groups: Any, n: int) -> ReportedGroups:
    """Number the groups of rows whose coverage is reported: one group per row, or a matrix of 0 and 1."""
    if not _overlap(groups):
        return ReportedGroups(*as_numbered_groups(groups, n), None)
    given = as_memberships(groups, n)
    if not given.binary:
        raise InputError("Expected groups of 0 and 1, got other numbers", MATRIX)
    combinations, codes = given.distinct()
    return ReportedGroups(codes, given.names, combinations.values)


def _of_text(groups: NDArray[Any], names: tuple[str, ...] | None) -> Memberships:
    """Read the combination of groups of each object from text, such as "wet & sandy"; a number names one group."""
    texts, codes = np.unique(groups.astype(str), return_inverse=True)
    parts = list(map(groups_of_combination, texts.tolist()))
    known = tuple(sorted({part for several in parts for part in several})) if names is None else names
    for text, several in zip(texts.tolist(), parts, strict=True):
        if unknown := [part for part in several if part not in known]:
            row = int((groups.astype(str) == text).argmax())
            what = f"is in the group {unknown[0]!r}, which has no calibration rows"
            raise InputError(what, f"use the groups {', '.join(known)}", row=row)
    if not known:
        raise InputError("Expected the names of overlapping groups, got none", MATRIX)
    values = np.array([[float(name in several) for name in known] for several in parts])
    return Memberships(known, read_only(values[codes]))
