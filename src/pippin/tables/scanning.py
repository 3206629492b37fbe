"""Tables larger than memory: rows in batches, checked as they are read."""

import glob
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.disk import concatenate_on_disk, file_checksum
from pippin._runtime.errors import InputError
from pippin._validation.batched import Batch, no_rows
from pippin._validation.labels import ColumnNumbers, Reading, as_classes, as_labels, two_meanings
from pippin._validation.rows import Rows, as_rows, shortened
from pippin.tables.columns import Layout, TableColumns, find_columns, normalized
from pippin.tables.formats import csv_content, opened, parquet_content, parsed, scan_csv, whole_if_all
from pippin.tables.reading import Data, check_rows, checked_groups, naming

if TYPE_CHECKING:
    import polars

BATCH = 1 << 17  # rows
HELD = 1 << 28  # bytes of probabilities that are gathered in memory
TABLES = (".parquet", ".csv", ".csv.gz")
ENDINGS = ".parquet, .csv or .csv.gz"


def scan(
    paths: "str | PathLike[str] | Sequence[str | PathLike[str]]",
    *,
    label: str | None = None,
    id: str | None = None,
    classes: Sequence[str] | None = None,
    prefix: str | None = None,
    logits: bool = False,
    normalize: bool = False,
    labels_are: Reading | None = None,
) -> "Scan":
    """Scan tables in batches; `calibrate`, `predict` and `evaluate` take the result instead of arrays.

    Args:
        paths: a file, a folder, a pattern such as `"folder/*.parquet"`, or several; .parquet, .csv or .csv.gz.
        label: the column of true classes, if it is not called label.
        id: a column that names the rows.
        classes: the columns of probabilities; by default all that are not label, group or id.
        prefix: a prefix of the columns of probabilities that is not part of the classes' names.
        logits: if True, take a softmax of the columns first.
        normalize: if True, divide each row by its sum first.
        labels_are: "names" or "indices", where whole numbers could be both.

    >>> import pathlib, pippin, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("north.csv", "south.csv"):
    ...         _ = pathlib.Path(folder, name).write_text("crop,weed,label" + "\\n0.9,0.1,crop" * 20)
    ...     pippin.calibrate(pippin.scan(folder), score="ip")
    ConformalPredictor(ip, alpha=0.1, threshold=0.1, 40 calibration examples, 2 classes)
    """
    several = [paths] if isinstance(paths, str | PathLike) else list(paths)
    layout = Layout(label, id, None if classes is None else tuple(classes), prefix, logits, normalize, labels_are)
    return scan_tables([Path(path) for path in several], layout)


def scan_tables(paths: Sequence[Path], layout: Layout) -> "Scan":
    """Scan tables with this layout; see `scan`."""
    if not paths:
        raise InputError("Expected a table, got none", "name a file, a folder or a pattern")
    return Scan(tuple(paths), _described(expand(paths), layout), layout)


def is_scanned(paths: Iterable[Path]) -> bool:
    """Return True for tables, folders and patterns; False for arrays and standard input."""
    several = list(paths)
    return len(several) > 1 or any(path.is_dir() or ending(path) or _is_pattern(path) for path in several)


def ending(path: Path) -> str | None:
    """Return the ending of a table's name; None for other files.

    >>> ending(Path("data.CSV.gz")), ending(Path("data.npz"))
    ('.csv.gz', None)
    """
    return next((known for known in TABLES if path.name.lower().endswith(known)), None)


def expand(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files of paths, folders and patterns; those of a folder or a pattern in the order of their names.

    Raises:
        InputError: there is none, one is no table, or one is named twice.
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
    """Columns of a table file, with the classes in the order of the first table's, their types, and its rows."""

    path: Path
    columns: TableColumns
    schema: dict[str, Any]
    rows: int | None

    @property
    def is_parquet(self) -> bool:
        return ending(self.path) == ".parquet"

    @property
    def id_type(self) -> Any:
        """The polars type of the ids; None without ids."""
        return self.schema.get(self.columns.id or "")

    def content(self, frame: "polars.DataFrame", first: int = 0) -> dict[str, Any]:
        """Convert some rows and columns to arrays by name; `first` is the number of rows before them."""
        if self.is_parquet:
            return parquet_content(frame, self.columns, self.path)
        return csv_content(frame, self.columns, self.path, first)


def _described(paths: Iterable[Path], layout: Layout) -> tuple[Table, ...]:
    """Find the columns of every table, which must have the classes of the first one, in any order."""
    tables: list[Table] = []
    for path in paths:
        head = _collected(_scanned(path).head(0), path)
        columns = find_columns(head.columns, layout, path)
        if tables:
            columns = _as_in_first(columns, tables[0], path)
        table = Table(path, columns, dict(head.schema), None)
        table.content(head)  # checks the types
        tables.append(counted(table) if table.is_parquet else table)
    return tuple(tables)


def _scanned(path: Path) -> "polars.LazyFrame":
    """Scan a table, which must still exist."""
    import polars

    with opened(path):
        return polars.scan_parquet(path, glob=False) if ending(path) == ".parquet" else scan_csv(path, path)


def _collected(table: "polars.LazyFrame", path: Path) -> "polars.DataFrame":
    return parsed(table.collect, path, ending(path) == ".parquet")


def _as_in_first(columns: TableColumns, first: Table, path: Path) -> TableColumns:
    """Put the classes in the order of the first table's.

    Raises:
        InputError: the table has a class more or less than the first one; it is named.
    """
    by_name, names = dict(zip(columns.names, columns.classes, strict=True)), first.columns.names
    if missing := [name for name in names if name not in by_name]:
        what = f"{path} has no column for the class {missing[0]!r}, as {first.path} has"
        raise InputError(f"{what}, but {shortened(columns.names)}", "give every table the same classes")
    if extra := [name for name in by_name if name not in names]:
        remedy = f"leave it out, or name it with --id {extra[0]} or --label {extra[0]}, or the classes with --classes"
        raise InputError(f"{path} has a column {extra[0]!r}, which {first.path} has not", remedy)
    for what in ("label", "group"):
        column, other = getattr(columns, what), getattr(first.columns, what)
        if (column is None) != (other is None):
            has, lacks = (path, first.path) if other is None else (first.path, path)
            raise InputError(f"{lacks} has no column {what}, as {has} has", "give every table the same columns")
    return columns._replace(classes=[by_name[name] for name in names], names=names)


def counted(table: Table) -> Table:
    """Count the rows of a table."""
    import polars

    if table.rows is not None:
        return table
    return table._replace(rows=_collected(_scanned(table.path).select(polars.len()), table.path).item())


@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """Tables with the roles of their columns; rows are read on demand.

    Attributes:
        paths: the files, folders and patterns.
        tables: the columns and rows of each file.
        layout: the roles of the columns.
        id_types: the polars types of the ids of all tables, where these are some of them.
    """

    paths: tuple[Path, ...]
    tables: tuple[Table, ...]
    layout: Layout
    id_types: frozenset[Any] | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the first table."""
        names = self.tables[0].columns.names
        with naming(self.tables[0].path):
            return tuple(map(str, as_classes(names, as_rows(np.empty((1, len(names)))))))

    @property
    def name(self) -> str:
        """The name of the tables in messages."""
        more = len(self.paths) - 1
        return str(self.paths[0]) + (f" and {more} more" if more else "")

    @property
    def rows(self) -> int | None:
        """The number of rows; None where a table of text was not counted."""
        counts = [table.rows for table in self.tables]
        return None if None in counts else sum(filter(None, counts))

    @property
    def has_groups(self) -> bool:
        """True if the tables have a column of groups."""
        return self.tables[0].columns.group is not None

    @property
    def id_type(self) -> Any:
        """The polars type of the ids, where it is the same in all tables; None otherwise."""
        return next(iter(self._id_types)) if len(self._id_types) == 1 else None

    @property
    def _id_types(self) -> frozenset[Any]:
        return frozenset(table.id_type for table in self.tables) if self.id_types is None else self.id_types

    def __repr__(self) -> str:
        n = len(self.tables)
        return f"Scan({self.name}: {n:,} table{'s' if n > 1 else ''}, {len(self.classes):,} classes)"

    def batches(self, *needs: str, start: int = 0) -> Iterator[Batch]:
        """Yield the rows from `start` on in batches, in order.

        Args:
            needs: the columns beside the probabilities: "labels", "groups", "ids".
            start: the number of rows that are left out.
        """
        reading = self._reading() if "labels" in needs else None
        kind: str | None = None
        first = start
        for table, in_file, frame in self._frames(needs, start):
            data = replace(self._data(table, frame, in_file), labels_are=reading)
            labels = data.truth() if "labels" in needs else None
            if labels is not None and len(labels):
                kind = _agreed(kind, _kind(data, labels[0]), data)
            context = partial(_naming_rows, data, not self.layout.names_classes)
            yield Batch(data.rows, labels, data.groups, data.ids, first, context)
            first += len(data.probs)

    def some(self, start: int, stop: int) -> "tuple[Scan, int]":
        """Return the tables that hold the rows from `start` to `stop`, and the number of their rows before `start`.

        All tables must be counted. The result holds no more than these rows need, for a process in another
        folder.

        Args:
            start: the first row.
            stop: the row behind the last.
        """
        chosen: list[Table] = []
        before, first = 0, start
        for table in self.tables:
            rows = table.rows or 0
            if before < stop and start < before + rows:
                first = start - before if not chosen else first
                chosen.append(table._replace(path=table.path.absolute()))
            before += rows
        return Scan(self.paths, tuple(chosen), self.layout, self._id_types), first

    def settled(self) -> "Scan":
        """Determine the meaning of whole numbers as labels from all tables, where they could be names or indices."""
        return replace(self, layout=self.layout._replace(labels_are=self._reading()))

    def gathered(self) -> Data:
        """Read all rows at once; more than `HELD` bytes of probabilities go to an unnamed file."""
        needs = self.tables[0].columns.optional
        batches: list[Batch] = []  # without their rows, which would stay in memory

        def checked() -> Iterator[NDArray[Any]]:
            for batch in self.batches(*needs):
                with batch.naming():
                    rows = batch.rows.verified()
                batches.append(batch._replace(rows=Rows(np.empty((0, rows.n_classes))), naming=nullcontext))
                yield rows.array

        probs = concatenate_on_disk(checked(), self._float_type, HELD)
        if not len(probs):
            raise no_rows(self.name)
        groups = checked_groups(_joined([b.groups for b in batches]), len(probs)) if "groups" in needs else None
        labels = ColumnNumbers(np.concatenate([b.labels for b in batches])) if "labels" in needs else None
        ids = (needs["ids"], _joined([b.ids[1] for b in batches if b.ids])) if "ids" in needs else None
        checksum = _checksum([table.path for table in self.tables])
        return Data(Path(self.name), checksum, probs, self.layout.logits, labels, self.classes, groups, None, ids)

    @property
    def _float_type(self) -> type[np.floating[Any]]:
        """Type of all probabilities: float32, if they are that in every table."""
        import polars

        kinds = {table.schema[name] for table in self.tables for name in table.columns.classes}
        return np.float32 if kinds == {polars.Float32} and not self.layout.normalize else np.float64

    def _data(self, table: Table, frame: "polars.DataFrame", first: int) -> Data:
        content, logits = table.content(frame, first), self.layout.logits
        probs, ids = content["probs"], content.get("ids")
        if self.layout.normalize:
            probs = normalized(probs, logits, table.path, first)
        if logits and first == 0 and not self.layout.names_classes:
            check_rows(table.path, Rows(probs, True, table.columns.names), True)
        if ids is not None:
            ids = (content["id"], ids if len(self._id_types) == 1 else _as_text(ids))
        groups, labels = whole_if_all(content.get("groups")), content.get("labels")
        return Data(table.path, "", probs, logits, labels, self.classes, groups, None, ids, first, checked=False)

    def _reading(self) -> Reading | None:
        """Determine what labels are, where a whole number can name one class and be the column number of another."""
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
            return None  # the first batch that is ambiguous by itself raises it, with its row

    def _frames(self, needs: Iterable[str], start: int) -> "Iterator[tuple[Table, int, polars.DataFrame]]":
        """Yield pieces of the tables after `start` rows, each with the number of rows before it in its table."""
        for table in self.tables:
            if start and start >= (n := counted(table).rows or 0):
                start -= n
                continue
            optional = table.columns.optional
            wanted = [*table.columns.classes, *(optional[need] for need in needs if need in optional)]
            rows = _scanned(table.path).select(*dict.fromkeys(wanted)).slice(start)
            read = partial(next, iter(rows.collect_batches(chunk_size=BATCH, maintain_order=True)), None)
            while (frame := parsed(read, table.path, table.is_parquet)) is not None:
                yield table, start, frame
                start += len(frame)
            start = 0


@contextmanager
def _naming_rows(data: Data, blame_columns: bool) -> Iterator[None]:
    """Make errors inside name the batch's file, its row there, or the column that is no class."""
    try:
        yield
    except InputError as error:
        assert data.path is not None
        check_rows(data.path, data.rows, blame_columns, data.first)
        raise error.later(data.first).in_file(data.path) from error


def _kind(data: Data, code: int) -> str | None:
    """Return the kind of labels of which the first is class `code`; None if it is its name and its number."""
    if isinstance(data.labels, ColumnNumbers) or data.labels is None or data.classes is None:
        return "names"
    by_name, by_number = str(data.labels[0]) == data.classes[code], str(data.labels[0]) == str(code)
    return None if by_name and by_number else "names" if by_name else "column numbers"


def _agreed(before: str | None, now: str | None, data: Data) -> str | None:
    """Check that labels are of one kind in all batches."""
    if before is not None and now is not None and before != now:
        what = f"has a label that is one of the {now}, where those before are {before}"
        raise InputError(what, "write all labels in one way", row=data.first).in_file(data.name)
    return before or now


def _checksum(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of a file; of several, the SHA-256 of theirs."""
    sums = [file_checksum(path) for path in paths]
    return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()


def _joined(several: Sequence[Any]) -> Any:
    """Join arrays; as text where their types differ."""
    alike = len({array.dtype.kind for array in several if len(array)}) == 1
    return np.concatenate(several if alike else [_as_text(array) for array in several])


def _as_text(array: NDArray[Any]) -> NDArray[Any]:
    return np.array([None if value is None else str(value) for value in array.tolist()], dtype=object)
