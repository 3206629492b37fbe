"""Tables larger than memory, whose rows are read and checked in batches."""

import glob
import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arguments import checked, checked_methods, is_whole
from pippin._runtime.disk import concatenate_on_disk, file_checksum
from pippin._runtime.errors import InputError
from pippin._runtime.showing import visible
from pippin._validation.batched import Batch, no_rows
from pippin._validation.labels import ColumnNumbers, Reading, as_labels, as_rows_and_classes, two_meanings
from pippin._validation.rows import Rows, shortened
from pippin.tables.columns import SAMPLE, Layout, TableColumns, find_columns, normalize_rows
from pippin.tables.formats import (
    as_whole_numbers,
    by_names,
    call_polars,
    csv_content,
    open_file,
    parquet_content,
    sample_of,
    scan_csv,
    texts_of,
)
from pippin.tables.limits import beginning, check_parquet, check_text
from pippin.tables.reading import Data, check_groups, check_rows, naming

if TYPE_CHECKING:
    import polars

BATCH = 1 << 17  # number of rows that polars reads at a time
IN_MEMORY = 1 << 28  # maximum number of bytes of probabilities that `Scan.read_all` keeps in memory
TABLES = (".parquet", ".csv", ".csv.gz")
ENDINGS = ".parquet, .csv or .csv.gz"


@checked
def scan(
    paths: "str | PathLike[str] | Sequence[str | PathLike[str]]",
    *,
    label: str | None = None,
    id: str | Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    prefix: str | None = None,
    logits: bool = False,
    normalize: bool = False,
    labels_are: Reading | None = None,
    group: str | None = None,
    ignore: str | Sequence[str] | None = None,
) -> "Scan":
    """Describe tables to be read in batches; `calibrate`, `predict` and `evaluate` take the result instead of arrays.

    Args:
        paths: a file, a folder, a pattern such as `"folder/*.parquet"`, or a list of these. Files are .parquet, .csv or
            .csv.gz.
        label: the column of true classes; by default the column `label`.
        id: the column of row ids, or several.
        classes: the columns of probabilities. By default the longest run of neighboring columns that sum to 1 in the
            first rows; a warning names the columns that are ignored.
        prefix: prefix of the columns of probabilities; the rest of a column name is the class name.
        logits: whether these columns hold logits, of which a softmax is taken.
        normalize: whether each row is divided by its sum.
        labels_are: "names" or "indices", if labels and class names are whole numbers: whether a label is the name of a
            class or its column number. By default this is determined from all labels, and an InputError is raised if
            both are possible.
        group: the column of groups; by default the column `group`.
        ignore: a column to leave out, or several.

    Returns:
        A Scan, which reads rows on demand.

    Raises:
        InputError: a table is missing or damaged, or the tables have different classes.

    >>> import pathlib, pippin, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("north.csv", "south.csv"):
    ...         _ = pathlib.Path(folder, name).write_text("crop,weed,label" + "\\n0.9,0.1,crop" * 20)
    ...     pippin.calibrate(pippin.scan(folder), score="ip")
    ConformalPredictor(ip, alpha=0.1, threshold=0.1, 40 calibration examples, 2 classes)
    """
    if classes is not None and not len(classes):
        raise InputError("Expected names of columns as classes, got none", "leave classes= out for all columns")
    several = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if labels_are not in (None, "names", "indices"):
        raise InputError(f"Expected labels_are to be 'names' or 'indices', got {labels_are!r}", "leave it out")
    names = None if classes is None else tuple(classes)
    layout = Layout(label, _names(id), names, prefix, logits, normalize, labels_are, group, _names(ignore))
    return scan_tables([Path(path) for path in several], layout)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def _check_rows(*numbers: int) -> None:
    """Raise an InputError unless all numbers of rows are whole numbers of at least 0."""
    if wrong := [number for number in numbers if not is_whole(number, 0)]:
        raise InputError(f"Expected a number of rows, got {wrong[0]!r}", "count all rows from 0")


def scan_tables(paths: Sequence[Path], layout: Layout) -> "Scan":
    """Describe tables like `scan`, with the roles of the columns as a `Layout`."""
    if not paths:
        raise InputError("Expected a table, got none", "name a file, a folder or a pattern")
    return Scan(tuple(paths), _describe_tables(expand(paths), layout), layout)


def is_scanned(paths: Iterable[Path]) -> bool:
    """Return True for several paths, a folder, a pattern or a table; False for .npz, .npy and standard input."""
    several = list(paths)
    return len(several) > 1 or any(path.is_dir() or ending(path) or _is_pattern(path) for path in several)


def ending(path: Path) -> str | None:
    """Return .parquet, .csv or .csv.gz, whichever ends the name of a file; None for other files.

    >>> ending(Path("data.CSV.gz")), ending(Path("data.npz"))
    ('.csv.gz', None)
    """
    return next((known for known in TABLES if path.name.lower().endswith(known)), None)


def expand(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Replace folders and patterns by the tables that they contain or match, sorted by name.

    Raises:
        InputError: a folder or pattern has no tables, a file is no table, or a file occurs twice.
    """
    expanded: list[Path] = []
    for path in paths:
        if path.is_dir():
            files = [one for one in sorted(path.iterdir()) if one.is_file() and ending(one) and one.name[0] not in "._"]
            if not files:
                raise InputError(f"The folder {path} holds no {ENDINGS} file", "name a folder of tables")
        elif _is_pattern(path):
            files = [Path(one) for one in sorted(glob.glob(str(path), recursive=True)) if Path(one).is_file()]
            if not files:
                raise InputError(f"No file matches {path}", "check the pattern, and put it in quotes")
        else:
            files = [path]
        expanded += files
    for path in expanded:
        if ending(path) is None and path.exists():
            raise InputError(f"Expected several tables that end in {ENDINGS}, got {path}", "convert it")
    real = [path.resolve() for path in expanded]
    if twice := next((path for i, path in enumerate(expanded) if real[i] in real[:i]), None):
        raise InputError(f"{twice} is named twice", "name every table once")
    return tuple(expanded)


def _is_pattern(path: Path) -> bool:
    return any(mark in str(path) for mark in "*?[") and not path.exists()


class Table(NamedTuple):
    """File of a Scan: its path, columns by role, column types (`schema`), and number of rows if known.

    Columns of probabilities are in the class order of the first table of the scan.
    """

    path: Path
    columns: TableColumns
    schema: dict[str, Any]
    rows: int | None

    @property
    def is_parquet(self) -> bool:
        return ending(self.path) == ".parquet"

    def content(self, frame: "polars.DataFrame", first: int = 0) -> dict[str, Any]:
        """Convert a frame to arrays by name; `first` is the number of its first row in the table, for errors."""
        if self.is_parquet:
            return parquet_content(frame, self.columns, self.path)
        return csv_content(frame, self.columns, self.path, first)


def _describe_tables(paths: Iterable[Path], layout: Layout) -> tuple[Table, ...]:
    """Find the columns of every table by role, and check that all tables have the same classes, in any order."""
    tables: list[Table] = []
    for path in paths:
        if ending(path) == ".parquet":
            with open_file(path):  # raises an error for a missing or empty file
                check_parquet(path, path)
        head = _collect(_first_rows(path), path)
        sample = sample_of(head, partial(_different_values, path))
        columns = find_columns(head.columns, layout, path, sample if not tables else sample._replace(warns=False))
        if tables:
            columns = _as_in_first(columns, tables[0], path)
        table = Table(path, columns, dict(head.schema), None)
        table.content(head.head(0))  # raises an error if a column has an invalid type
        tables.append(count_rows(table) if table.is_parquet else table)
    return tuple(tables)


def _scan_table(path: Path) -> "polars.LazyFrame":
    """Return a lazy polars frame of a table; raise an InputError if the file is missing."""
    import polars

    with open_file(path):
        return polars.scan_parquet(path, glob=False) if ending(path) == ".parquet" else scan_csv(path, path)


def _first_rows(path: Path) -> "polars.LazyFrame":
    """Return a lazy frame of the first rows of a table; it is empty for a .csv file whose first line is very long."""
    rows = _scan_table(path)
    if ending(path) == ".parquet":
        return rows.head(SAMPLE)
    text = beginning(path)
    return scan_csv(text, path).head(SAMPLE) if text else rows.head(0)


def _different_values(path: Path, name: str) -> set[str]:
    return texts_of(_collect(_scan_table(path).select(by_names([name])).unique(), path)[name])


def _collect(table: "polars.LazyFrame", path: Path) -> "polars.DataFrame":
    return call_polars(table.collect, path, ending(path) == ".parquet")


def _as_in_first(columns: TableColumns, first: Table, path: Path) -> TableColumns:
    """Sort the columns of probabilities of a table into the class order of the first table.

    Raises:
        InputError: the table has other classes than the first table, or only one of them has labels or groups.
    """
    names = first.columns.names
    if len(columns.names) > len(columns.classes) and columns.names == names:
        return columns
    by_name = dict(zip(columns.names, columns.classes, strict=False))
    if missing := [name for name in names if name not in by_name]:
        what = f"{path} has no column for the class {missing[0]!r}, as {first.path} has"
        raise InputError(f"{what}, but {shortened(columns.names)}", "give every table the same classes")
    if extra := [name for name in by_name if name not in names]:
        remedy = f"leave it out, or name it with --id {shlex.quote(extra[0])}, or the classes with --classes"
        raise InputError(f"{path} has a column {extra[0]!r}, which {first.path} has not", remedy)
    for what in ("label", "group"):
        column, other = getattr(columns, what), getattr(first.columns, what)
        if (column is None) != (other is None):
            has, lacks = (path, first.path) if other is None else (first.path, path)
            raise InputError(f"{lacks} has no column {what}, as {has} has", "give every table the same columns")
    return columns._replace(classes=[by_name[name] for name in names], names=names)


def count_rows(table: Table) -> Table:
    """Return a table with its number of rows, counted if unknown."""
    import polars

    if table.rows is not None:
        return table
    return table._replace(rows=_collect(_scan_table(table.path).select(polars.len()), table.path).item())


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """Tables of probabilities that are read in batches, on demand; the result of `pippin.scan`.

    Attributes:
        paths: the files, folders and patterns that were passed to `scan`.
        tables: path, columns and number of rows of each file.
        layout: the options of `scan` that say which columns hold probabilities, labels and ids, and what they mean.
        id_types: the polars types of each id column in all files, for a scan of some of the files that `row_range`
            returned; otherwise None.
    """

    paths: tuple[Path, ...]
    tables: tuple[Table, ...]
    layout: Layout
    id_types: Mapping[str, frozenset[Any]] | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the first table."""
        names = self.tables[0].columns.names
        with naming(self.tables[0].path):
            return tuple(map(str, as_rows_and_classes(np.empty((1, len(names))), names)[1]))

    @property
    def name(self) -> str:
        """Description of the tables for messages: the first path, and the number of other paths."""
        more = len(self.paths) - 1
        return visible(self.paths[0]) + (f" and {more} more" if more else "")

    @property
    def rows(self) -> int | None:
        """Number of rows in all tables; None as long as a .csv table is not counted."""
        counts = [table.rows for table in self.tables]
        return None if None in counts else sum(filter(None, counts))

    @property
    def has_groups(self) -> bool:
        """True if the tables have a column of groups."""
        return self.tables[0].columns.group is not None

    @property
    def id_schema(self) -> dict[str, Any]:
        """Polars type of each id column that has one type in all tables."""
        return {name: next(iter(kinds)) for name, kinds in self._id_types.items() if len(kinds) == 1}

    @property
    def _id_types(self) -> Mapping[str, frozenset[Any]]:
        if self.id_types is not None:
            return self.id_types
        tables = [table for table in self.tables if table.rows != 0]
        return {name: frozenset(table.schema[name] for table in tables) for name in self.tables[0].columns.ids}

    def __repr__(self) -> str:
        n = len(self.tables)
        return f"Scan({self.name}: {n:,} table{'s' if n > 1 else ''}, {len(self.classes):,} classes)"

    def batches(self, *needs: str, start: int = 0) -> Iterator[Batch]:
        """Read the rows from `start` on, and yield them in batches.

        Args:
            needs: the columns to read in addition to the probabilities: "labels", "groups", "ids".
            start: the number of the first row to read, counted over all tables from 0.

        Yields:
            Batches of rows, with the requested columns.

        Raises:
            InputError: a table is damaged, or the labels of a batch are invalid.
        """
        _check_rows(start)
        if unknown := [need for need in needs if need not in ("labels", "groups", "ids")]:
            raise InputError(f"Expected the columns 'labels', 'groups' or 'ids', got {unknown[0]!r}", "leave it out")
        reading = self._label_reading() if "labels" in needs else None
        kind: str | None = None
        first = start
        for table, in_file, frame in self._frames(needs, start):
            data = replace(self._data(table, frame, in_file), labels_are=reading)
            labels = data.truth() if "labels" in needs else None
            if labels is not None and len(labels):
                kind = _check_label_kind(kind, data, int(labels[0]))
            context = partial(_errors_of_batch, data, not self.layout.names_classes, table.columns.label is not None)
            yield Batch(data.rows, labels, data.groups, data.ids, first, context)
            first += len(data.probs)

    def row_range(self, start: int, stop: int) -> "tuple[Scan, int]":
        """Return a scan of only those tables that contain rows from `start` to `stop`, for a worker of a cluster.

        The rows of all tables must be counted. Paths become absolute, since workers may run in another folder.

        Args:
            start: the number of the first row, counted over all tables from 0.
            stop: the number of the last row plus 1.

        Returns:
            A pair of the scan and the number of the first row within it.
        """
        _check_rows(start, stop)
        chosen: list[Table] = []
        before, first = 0, start
        for table in self.tables:
            rows = table.rows or 0
            if before < stop and start < before + rows:
                first = start - before if not chosen else first
                chosen.append(table._replace(path=table.path.absolute()))
            before += rows
        return Scan(self.paths, tuple(chosen), self.layout, self._id_types), first

    def with_label_reading(self) -> "Scan":
        """Determine from all labels whether they are class names or column numbers, and return a scan that stores this.

        Returns:
            A copy of the scan with the option `labels_are` in its layout.
        """
        return replace(self, layout=self.layout._replace(labels_are=self._label_reading()))

    def read_all(self) -> Data:
        """Read all rows into arrays; probabilities of more than 256 MiB are kept in a temporary file instead of memory.

        Returns:
            Probabilities, labels, groups and ids of all rows.

        Raises:
            InputError: there are no rows, or a row is invalid.
        """
        needs = self.tables[0].columns.roles
        batches: list[Batch] = []  # batches without their probabilities, which `checked_blocks` yields

        def checked_blocks() -> Iterator[NDArray[Any]]:
            for batch in self.batches(*needs):
                with batch.naming():
                    rows = batch.rows.verified()
                batches.append(batch._replace(rows=Rows(np.empty((0, rows.n_classes))), naming=nullcontext))
                yield rows.array

        probs = concatenate_on_disk(checked_blocks(), self._float_type, IN_MEMORY)
        if not len(probs):
            raise no_rows(self.name)
        groups = check_groups(_concatenate([b.groups for b in batches]), len(probs)) if "groups" in needs else None
        labels = ColumnNumbers(np.concatenate([b.labels for b in batches])) if "labels" in needs else None
        ids = {name: _concatenate([b.ids[name] for b in batches]) for name in self.tables[0].columns.ids}
        checksum = _checksum([table.path for table in self.tables])
        return Data(Path(self.name), checksum, probs, self.layout.logits, labels, self.classes, groups, None, ids)

    @property
    def _float_type(self) -> type[np.floating[Any]]:
        """Type of the probabilities of all tables: float32 if every table has float32 and rows are not normalized."""
        import polars

        tables = [table for table in self.tables if table.rows != 0]
        kinds = {table.schema[name] for table in tables for name in table.columns.classes}
        return np.float32 if kinds == {polars.Float32} and not self.layout.normalize else np.float64

    def _data(self, table: Table, frame: "polars.DataFrame", first: int) -> Data:
        """Convert a frame of a table to unchecked Data; `first` is the number of its first row in the file."""
        content, logits = table.content(frame, first), self.layout.logits
        probs, of_one_type = content["probs"], self.id_schema
        if self.layout.normalize:
            probs = normalize_rows(probs, logits, table.path, first)
        if logits and first == 0 and not self.layout.names_classes:
            check_rows(table.path, Rows(probs, True, table.columns.names), True, table.columns.label is not None)
        given = content.get("ids", {}).items()
        ids = {name: values if name in of_one_type else _as_text(values) for name, values in given}
        groups, labels = as_whole_numbers(content.get("groups")), content.get("labels")
        return Data(table.path, "", probs, logits, labels, self.classes, groups, None, ids, first, checked=False)

    def _label_reading(self) -> Reading | None:
        """Return the meaning of labels: the choice of the user, or that which the labels of all tables allow.

        Return None if class names cannot be taken for class indices, or if all labels could be both.
        """
        if self.layout.labels_are is not None or not two_meanings(self.classes):
            return self.layout.labels_are
        seen: dict[Any, None] = {}
        for table, in_file, frame in self._frames(("labels",), 0):
            labels = self._data(table, frame, in_file).labels
            if isinstance(labels, np.ndarray):
                if labels.dtype.kind not in "iu":
                    return "names"
                seen |= dict.fromkeys(labels.tolist())
        labels = np.array(list(seen))
        try:
            return "indices" if (as_labels(labels, len(labels), self.classes) == labels).all() else "names"
        except InputError:
            return None  # ambiguous: an error that names the row is raised when the labels are converted

    def _frames(self, needs: Iterable[str], start: int) -> "Iterator[tuple[Table, int, polars.DataFrame]]":
        """Yield frames of the rows from `start` on, each with its table and the number of its first row in it."""
        for table in self.tables:
            if start and start >= (n := count_rows(table).rows or 0):
                start -= n
                continue
            scanned = _scan_table(table.path)
            if not table.is_parquet:
                check_text(table.path, table.path, whole=True)
            wanted = [*table.columns.classes, *(name for need in needs for name in table.columns.of(need))]
            rows = scanned.select(by_names(wanted)).slice(start)
            read = partial(next, iter(rows.collect_batches(chunk_size=BATCH, maintain_order=True)), None)
            while (frame := call_polars(read, table.path, table.is_parquet)) is not None:
                yield table, start, frame
                start += len(frame)
            if table.is_parquet and start != table.rows:  # polars may end without an error where a file is damaged
                what = f"{table.path} has {start:,} rows that can be read, expected {table.rows:,}"
                raise InputError(what, "write it again, or scan it again if it was written since")
            start = 0


@contextmanager
def _errors_of_batch(data: Data, blame_columns: bool, has_label: bool) -> Iterator[None]:
    """Add file name and row number to an InputError raised in the `with` block.

    If columns were taken for probabilities by mistake, an error that names these columns is raised instead.
    """
    try:
        yield
    except InputError as error:
        assert data.path is not None
        check_rows(data.path, data.rows, blame_columns, has_label, data.first)
        raise error.later(data.first).in_file(data.path) from error


def _check_label_kind(before: str | None, data: Data, code: int) -> str | None:
    """Check that the first label of a batch is written like those before, as class name or as column number.

    Return "names" or "column numbers", which is passed as `before` with the next batch, or None if still unknown.

    Raises:
        InputError: the first label of `data`, which means class `code`, is written in another way.
    """
    kind: str | None = "names"
    if isinstance(data.labels, np.ndarray) and data.classes is not None:
        by_name, by_number = str(data.labels[0]) == data.classes[code], str(data.labels[0]) == str(code)
        kind = None if by_name and by_number else "names" if by_name else "column numbers"
    if before is not None and kind is not None and before != kind:
        what = f"has a label that is one of the {kind}, where those before are {before}"
        raise InputError(what, "write all labels in one way", row=data.first).in_file(data.name)
    return before or kind


def _checksum(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of a single file, or for several files the SHA-256 of their joined digests."""
    digests = [file_checksum(path) for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _concatenate(arrays: Sequence[Any]) -> Any:
    """Concatenate arrays; convert their values to text if some hold numbers and others text."""
    same_type = len({array.dtype.kind for array in arrays if len(array)}) == 1
    return np.concatenate(arrays if same_type else [_as_text(array) for array in arrays])


def _as_text(array: NDArray[Any]) -> NDArray[Any]:
    return np.array([None if value is None else str(value) for value in array.tolist()], dtype=object)
