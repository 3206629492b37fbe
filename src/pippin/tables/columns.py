"""Roles of the columns of a table: class probabilities, label, id and group."""

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.errors import InputError
from pippin._validation.labels import Reading
from pippin._validation.rows import quoted, shortened

LABEL, GROUP = "label", "group"  # default names of the columns of labels and groups


class Layout(NamedTuple):
    """Roles of columns that the user chose; `find_columns` derives all other roles from the column names.

    Attributes:
        label: the column of the true classes.
        id: the column of row ids, which are copied to the output.
        classes: the columns of probabilities.
        prefix: prefix of the columns of probabilities; the rest of a column name is the class name.
        logits: True if the columns of probabilities hold logits instead.
        normalize: True if each row is divided by its sum.
        labels_are: "names" or "indices": the meaning of labels that could be class names or class indices.
    """

    label: str | None = None
    id: str | None = None
    classes: tuple[str, ...] | None = None
    prefix: str | None = None
    logits: bool = False
    normalize: bool = False
    labels_are: Reading | None = None

    @property
    def names_classes(self) -> bool:
        """True if the user chose the columns of probabilities."""
        return self.classes is not None or self.prefix is not None


def command_line_options(layout: Layout) -> list[str]:
    """Return the command line options that choose the column roles of a layout.

    >>> command_line_options(Layout(id="photo", logits=True))
    ['--id', 'photo', '--logits']
    """
    words: list[str] = []
    for name, value in layout._asdict().items():
        if value is not None and value is not False:
            values = [] if value is True else [",".join(value) if isinstance(value, tuple) else value]
            words += [f"--{name.replace('_', '-')}", *values]
    return words


class TableColumns(NamedTuple):
    """Names of the columns of a table by role; `classes` are the columns of probabilities, `names` the class names."""

    classes: list[str]
    names: tuple[str, ...]
    label: str | None
    group: str | None
    id: str | None

    @property
    def optional(self) -> dict[str, str]:
        """Names of the label, group and id columns that exist, under the keys "labels", "groups" and "ids"."""
        roles = {"labels": self.label, "groups": self.group, "ids": self.id}
        return {role: column for role, column in roles.items() if column is not None}


def find_columns(header: Sequence[str], layout: Layout, where: object) -> TableColumns:
    """Find the columns of probabilities, labels, groups and ids of a table by their names and the layout.

    Raises:
        InputError: the table lacks a column that the layout names, or has no column with its prefix.

    >>> find_columns(["id", "p_crop", "p_weed", "label"], Layout(id="id", prefix="p_"), "data.csv")[:3]
    (['p_crop', 'p_weed'], ('crop', 'weed'), 'label')
    """
    options = {"--label": layout.label, "--id": layout.id}
    for option, name in (*options.items(), *(("--classes", name) for name in layout.classes or ())):
        if name is not None and name not in header:
            raise InputError(f"{where} has no column {name!r} for {option}, but {shortened(header)}", "check its name")
    chosen = layout.classes or ()
    label = layout.label or (LABEL if LABEL in header and LABEL not in chosen else None)
    group = GROUP if GROUP in header and GROUP not in (*options.values(), *chosen) else None
    prefix = layout.prefix or ""
    if layout.classes is not None:
        classes = list(layout.classes)
    else:
        others = (label, group, layout.id, prefix)
        classes = [name for name in header if name.startswith(prefix) and name not in others]
        if layout.prefix is not None and not classes:
            what = f"{where} has no column that begins with {prefix!r}, but {shortened(header)}"
            raise InputError(what, "check --prefix")
    return TableColumns(classes, tuple(name.removeprefix(prefix) for name in classes), label, group, layout.id)


def check_distinct_columns(header: Sequence[str], where: object) -> None:
    """Raise an InputError if two columns of a table have the same name."""
    if twice := [name for name, count in Counter(header).items() if count > 1]:
        raise InputError(f"{where} has two columns {twice[0]!r}", "give every class its own column")


def not_a_class(where: object, names: Sequence[str], why: str, has_label: bool) -> InputError:
    """Make the error for columns that were read as class probabilities but hold something else, such as row numbers.

    `has_label` is True if another column has the labels.

    >>> print(not_a_class("data.csv", ["patient id"], "without which every row sums to 1", True))
    data.csv: expected one column of probabilities per class, got the column 'patient id' without which every row sums
    to 1: name it with --id 'patient id', or name the classes with --classes or --prefix.
    """
    remedy = "name the classes with --classes or --prefix"
    if len(names) == 1:
        name = shlex.quote(names[0])
        roles = f"--id {name}" if has_label else f"--id {name} or --label {name}"
        remedy = f"name it with {roles}, or {remedy}"
    what = f"expected one column of probabilities per class, got the {quoted(names)} {why}"
    return InputError(f"{where}: {what}", remedy)


def normalize_rows(values: NDArray[Any], logits: bool, where: object, first: int = 0) -> NDArray[Any]:
    """Divide each row by its sum; for error messages, `first` is the number of the first row in its file."""
    if logits:
        raise InputError("Expected --normalize with probabilities, got logits", "a softmax sums to 1 already")
    sums = values.sum(axis=1, keepdims=True, dtype=np.float64)
    bad = ~(np.isfinite(sums[:, 0]) & (sums[:, 0] > 0)) | (values < 0).any(axis=1)
    if bad.any():
        row = int(bad.argmax())
        what = f"sums to {sums[row, 0]:.6g} or has negative entries, expected what --normalize can divide by its sum"
        raise InputError(what, "correct that row", row=first + row).in_file(where)
    return np.asarray(values / sums)
