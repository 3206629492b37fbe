"""Reading and validation of data files: probabilities (or logits), labels, class names, groups and row ids.

A data file, DATA on the command line, is one of

- `.npz` with `probs` or `logits`, `labels`, and optionally `classes`, `groups`, `ids`;
- `.csv`, `.csv.gz` or `.parquet` with one column per class, headed by its name, a column `label`, and
  optionally a column `group`; a `Layout` names other columns;
- `.npy` with the probabilities alone; the labels in a second `.npy` file;
- `-`, any of these from standard input.

Labels are class names or column numbers; `pippin._validation.labels` decides which. Rows and columns are numbered
from 0.
"""

import csv
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Classes, Codes, Vector
from pippin._runtime.errors import InputError
from pippin._runtime.showing import visible
from pippin._validation.labels import (
    ColumnNumbers,
    Labelled,
    Reading,
    are_ids,
    as_groups,
    as_labels,
    as_rows_and_classes,
)
from pippin._validation.rows import Rows, as_rows, select_columns, shortened, suspect_columns
from pippin.tables.columns import Layout, check_distinct_columns, find_columns, normalize_rows, not_a_class
from pippin.tables.formats import STDIN, as_whole_numbers, read_arrays, read_column, read_member
from pippin.tables.limits import LONGEST_LINE

EXAMPLE = "the embedded example"


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """Content of a data file: probabilities (or logits), and labels, class names, groups and row ids if present.

    Attributes:
        path: the file; None for the embedded example.
        checksum: the SHA-256 of its content.
        probs: (n, K) probabilities or logits.
        from_logits: True for logits.
        labels: the true classes as in the file, by name or by index; None without labels.
        classes: the names of the classes; None if the file has none.
        groups: the group of each row; None without groups.
        labels_are: "names" or "indices": the meaning of labels; None if it is not known without reading them.
        ids: the id of each row, by the name of the id column; empty without ids.
        first: the number in the file of the first row of `probs`.
        checked: True if every row is known to be a probability distribution.
    """

    path: Path | None
    checksum: str
    probs: NDArray[Any]
    from_logits: bool
    labels: "NDArray[Any] | ColumnNumbers | None"
    classes: tuple[str, ...] | None
    groups: NDArray[Any] | None
    labels_are: Reading | None = None
    ids: dict[str, NDArray[Any]] = field(default_factory=dict)
    first: int = 0
    checked: bool = True

    @property
    def name(self) -> str:
        """Description of the file for messages."""
        return EXAMPLE if self.path is None else "standard input" if self.path == STDIN else visible(self.path)

    @property
    def title(self) -> str:
        """Name of the file without folder and ending, for the title of a report."""
        if self.path is None or self.path == STDIN:
            return self.name
        return visible(Path(self.path.name.removesuffix(".gz")).stem)

    @property
    def rows(self) -> Rows:
        """Probabilities and class names as `Rows`, whose values are checked when they are used."""
        return Rows(self.probs, self.from_logits, self.classes, checked=self.checked)

    @property
    def labelled(self) -> Labelled:
        """Probabilities, true classes as indices, and class names."""
        rows, classes = as_rows_and_classes(self.rows, None)
        return Labelled(rows, self.truth(), classes)

    def truth(self, classes: Classes | None = None) -> Codes:
        """Return the true class of each row as the index of its column.

        Args:
            classes: class names for a file without any.

        Raises:
            InputError: the file has no labels, or a label is missing or is no class.
        """
        if self.labels is None:
            remedy = "name the column with --label, add an array labels (.npz), or pass --labels labels.npy"
            raise InputError(f"{self.name} has no labels", remedy)
        if isinstance(self.labels, ColumnNumbers):
            return self.labels.codes
        with naming(self.name, self.first):
            if self.labels.dtype.kind == "O" and None in (values := self.labels.tolist()):
                raise InputError("has no label, expected its true class", "add it", row=values.index(None))
            names = self.classes or classes or range(self.probs.shape[1])
            spellings = names if isinstance(names, range) else tuple(map(str, names))
            return as_labels(self.labels, len(self.probs), spellings, self.labels_are)

    def __repr__(self) -> str:
        return f"Data({self.name}: {self.probs.shape[0]:,} rows, {self.probs.shape[1]:,} classes)"


def read_data(path: Path, labels_path: Path | None = None, layout: Layout = Layout()) -> Data:  # noqa: B008 - frozen
    """Read a data file into memory, and check its values.

    Args:
        path: an `.npz`, `.npy`, `.csv` or `.parquet` file, compressed by gzip or not.
        labels_path: a .npy file with the labels, if `path` has none.
        layout: the roles of the columns of a table.

    Raises:
        InputError: the file is missing, damaged, in another format, or holds no probabilities.
    """
    path = Path(path)
    content, checksum = read_arrays(path, layout)
    labels, classes, reading = content.get("labels"), content.get("classes"), layout.labels_are
    if labels_path is not None:
        if labels is not None:
            raise InputError(f"{path} has labels of its own, but {labels_path} was given too", "pass one of them")
        labels = read_column(Path(labels_path), "labels")
    from_logits = "logits" in content or layout.logits
    probs = content["logits" if "logits" in content else "probs"]
    if layout.normalize:
        probs = normalize_rows(probs, from_logits, path)
    if isinstance(classes, np.ndarray) and classes.dtype.kind in "iu":
        reading = reading or "names"  # labels are names if class names are whole numbers
    names, groups = None, content.get("groups")
    with naming(path):
        if probs.dtype.kind not in "fiub":
            raise InputError(f"Expected probabilities that are numbers, got {probs.dtype}", "convert them")
        rows = as_rows(probs, from_logits)
        if classes is not None:
            names = tuple(map(str, as_rows_and_classes(rows, [str(name) for name in classes])[1]))
        if groups is not None:
            groups = check_groups(groups, rows.n)
    is_table = isinstance(classes, tuple) and layout.classes is None
    check_rows(path, replace(rows, names=names), is_table and not layout.names_classes, labels is not None)
    ids = content.get("ids", {})
    ids = ids if isinstance(ids, dict) else {"id": ids}
    for values in ids.values():
        if values.shape != (len(probs),):
            raise InputError(f"{path}: expected one id per row, got shape {values.shape}", "store them in row order")
    return Data(path, checksum, probs, from_logits, labels, names, groups, reading, ids)


def label_numbers(data: Data) -> Any:
    """Return the labels as checked class indices (`ColumnNumbers`), which `calibrate` does not interpret as names."""
    return ColumnNumbers(data.truth())


def read_features(data: Data) -> NDArray[Any]:
    """Read the array `features` of an .npz file, such as `pippin train --features` writes.

    Raises:
        InputError: the file has no such array.
    """
    if data.path is not None and data.path.suffix == ".npz":
        features = read_member(data.path, "features")
        if features is not None:
            return features
    what = f"Expected an .npz file with an array features, but {data.name} has none"
    raise InputError(what, "make it with train --features")


def need_groups(source: str, has_groups: bool, *users: str) -> None:
    """Raise an InputError if a method or option needs groups, but the data have none.

    Args:
        source: the name of the data.
        has_groups: True if the data have groups.
        users: the methods or options that need groups; may be empty.
    """
    if users and not has_groups:
        remedy = "add an array groups (.npz) or a column group (.csv, .parquet) to the data"
        raise InputError(f"Expected groups for {users[0]}, but {source} has none", remedy)


def example_data() -> Data:
    """Return the example data of the package, in the form in which data files are read."""
    from pippin._validation.example import load_example

    example = load_example()
    content = (files("pippin._validation.example") / "seedlings.npz").read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    return Data(None, checksum, example.probs, False, example.labels, example.classes, None)


@contextmanager
def naming(name: object, first: int = 0) -> Iterator[None]:
    """Add the file name, and `first` to the row number, to an InputError raised in the `with` block."""
    try:
        yield
    except InputError as error:
        raise error.later(first).in_file(name) from error


def check_rows(path: Path, rows: Rows, blame_columns: bool, has_label: bool, first: int = 0) -> None:
    """Raise an InputError for the first row that is no distribution, or for the columns that are the cause.

    Args:
        path: the file.
        rows: rows of the file.
        blame_columns: True to look for columns that were taken for probabilities by mistake, such as row numbers.
        has_label: True if another column of the file has the labels.
        first: the number in the file of the first of these rows.
    """
    suspects = suspect_columns(rows.array, True) if rows.logits and blame_columns and first == 0 else []
    try:
        rows.verified()
    except InputError as error:
        suspects = suspects or (suspect_columns(rows.array, False) if blame_columns and not rows.logits else [])
        if not suspects:
            raise error.later(first).in_file(path) from error
    if suspects and rows.names is not None:
        why = "of whole numbers among logits" if rows.logits else "without which every row sums to 1"
        raise not_a_class(path, [str(rows.names[column]) for column in suspects], why, has_label)


def check_groups(groups: NDArray[Any], n: int) -> NDArray[Any] | None:
    """Return groups as integers if all are whole numbers, else as text; None if nearly every row has its own group."""
    if groups.dtype.kind == "O" and None in (values := groups.tolist()):
        raise InputError("has no group, expected a name or a whole number", "add it", row=values.index(None))
    checked = as_groups(groups, n)
    return None if are_ids(np.unique(checked), n) else as_whole_numbers(checked)


LabelledRow = tuple[Vector, str | None, str | None]  # probabilities, label and group of a row


def follow_rows(lines: Iterable[str], where: object, layout: Layout, classes: Classes) -> Iterator[LabelledRow]:
    """Yield probabilities, label and group of each row of a .csv stream as soon as its line arrives; skip blank lines.

    Raises:
        InputError: the header is missing or has other classes, or a row has a wrong number of cells, a cell that is no
            number, or no label.

    >>> table = ["crop,weed,label", "0.25,0.75,weed"]
    >>> list(follow_rows(table, "stream.csv", Layout(), ("crop", "weed")))
    [(array([0.25, 0.75]), 'weed', None)]
    """
    table = _cells(lines, where)
    layout = layout if isinstance(classes, range) else layout._replace(known=tuple(map(str, classes)))
    header = next((names for cells in table if any(names := [name.strip() for name in cells])), [])
    if not header:
        raise InputError(f"{where} is empty, expected a table with a header", "write the names of the columns first")
    check_distinct_columns(header, where)
    columns = find_columns(header, layout, where)
    with naming(where):
        rows = select_columns(classes, Rows(np.empty((1, len(columns.names))), names=columns.names))
    in_order, known = columns.classes, {*map(str, classes)}
    if rows.order is not None:
        in_order = [columns.classes[k] for k in rows.order]
    for number, line in enumerate(table):
        if len(line) != len(header):
            raise InputError(f"{where}: Row {number} has {len(line)} cells, expected {len(header)}", "correct it")
        cells = dict(zip(header, map(str.strip, line), strict=True))
        label, group = (None if name is None else cells[name] for name in (columns.label, columns.group))
        if label == "":
            raise InputError(f"{where}: Row {number} has no label, expected its true class", "add it to every row")
        if rows.order is not None and label is not None and label not in known:
            what = f"has the label {label!r}, which is not one of the {len(classes)} classes ({shortened(classes)})"
            raise InputError(what, row=number, in_files="write the name of the class").in_file(where)
        yield _numbers(cells, in_order, f"{where}: Row {number}"), label, group


def _cells(lines: Iterable[str], where: object) -> Iterator[list[str]]:
    """Yield the cells of each line of a .csv stream, without a byte order mark; skip blank lines.

    Raises:
        InputError: a line is longer than `LONGEST_LINE`, or has a quote that is not closed.
    """

    def limited() -> Iterator[str]:
        for number, line in enumerate(lines):
            if len(line) >= LONGEST_LINE:
                what = f"{where} has a line of more than {LONGEST_LINE / 1e6:.0f} MB, number {number}"
                raise InputError(what, "write one line per row")
            yield line if number else line.removeprefix("\ufeff")

    table = csv.reader(limited())
    try:
        yield from filter(None, table)
    except (csv.Error, UnicodeDecodeError) as error:
        what = f"{where} cannot be read as comma-separated values in line {table.line_num:,} ({error})"
        raise InputError(what, "write UTF-8 text with one line per row, and close every quote") from error


def _numbers(cells: dict[str, str], names: Sequence[str], where: str) -> Vector:
    """Convert the cells of the columns `names` to numbers; `where` names the row in error messages."""
    row = np.empty(len(names))
    for k, name in enumerate(names):
        try:
            row[k] = _number(cells[name])
        except ValueError as error:
            what = f"{where} has {cells[name]!r} in column {name!r}, expected a number"
            raise InputError(what, "correct it") from error
    return row


def _number(text: str) -> float:
    """Convert text to a number as polars does, which takes no underscores and no digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)
