"""The files that somebody means by a file, a folder, a pattern or several of them, and what their columns are."""

import glob
import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pippin._runtime.errors import InputError
from pippin._validation.labels import shortened
from pippin.tables.formats import NO_PARQUET, csv_body, opened, parsed
from pippin.tables.layout import Columns, Layout, find_columns, no_class

TABLES = (".parquet", ".csv", ".csv.gz")
BLOCK = 1 << 23  # bytes of text that are parsed at once


class Mark(NamedTuple):
    """A place in a table of text: how many rows come before it, and how many bytes."""

    row: int
    byte: int


class Source(NamedTuple):
    """A table: where it is, its columns in the order of the first table's, and its rows and their types, if it says.

    Of a table of text that was counted, `marks` say where it can be entered.
    """

    path: Path
    columns: Columns
    rows: int | None
    schema: tuple[tuple[str, Any], ...]
    marks: tuple[Mark, ...] = ()

    @property
    def is_parquet(self) -> bool:
        return ending(self.path) == ".parquet"


def ending(path: Path) -> str | None:
    """How a table's name ends; None, if it is no table.

    >>> ending(Path("data.CSV.gz")), ending(Path("data.npz"))
    ('.csv.gz', None)
    """
    return next((known for known in TABLES if path.name.lower().endswith(known)), None)


def is_scanned(paths: Iterable[Path]) -> bool:
    """Whether these are read in batches: tables, folders and patterns; arrays and standard input are not."""
    given = list(paths)
    return len(given) > 1 or any(path.is_dir() or ending(path) or _is_pattern(path) for path in given)


def expand(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The tables that are meant, those of a folder or a pattern in the order of their names.

    Raises:
        InputError: there is none, one is no table, or one is named twice.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = [one for one in sorted(path.iterdir()) if one.is_file() and not one.name.startswith((".", "_"))]
            tables = [one for one in inside if ending(one)]
            if not tables:
                raise InputError(f"The folder {path} holds no {_listed()} file", "name a folder of tables")
            found += tables
        elif _is_pattern(path):
            matched = [Path(one) for one in sorted(glob.glob(str(path), recursive=True)) if Path(one).is_file()]
            if not matched:
                raise InputError(f"No file matches {path}", "check the pattern, and put it in quotes")
            found += matched
        else:
            found.append(path)
    for path in found:
        if ending(path) is None and path.exists():
            raise InputError(f"Expected several tables that end in {_listed()}, got {path}", "convert it")
    real = [path.resolve() for path in found]
    if twice := next((path for i, path in enumerate(found) if real[i] in real[:i]), None):
        raise InputError(f"{twice} is named twice", "name every table once")
    return tuple(found)


def described(paths: Iterable[Path], layout: Layout) -> tuple[Source, ...]:
    """Every table with its columns; all must have the classes of the first one, in any order.

    Raises:
        InputError: a table has a class more or less than the first one; it is named.
    """
    found: list[Source] = []
    for path in paths:
        header, rows, schema = _parquet_head(path) if ending(path) == ".parquet" else _csv_head(path)
        columns = find_columns(header, layout, path)
        if found:
            columns = _as_in_first(columns, found[0], path)
        found.append(Source(path, columns, rows, schema))
    return tuple(found)


def csv_blocks(path: Path, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The text in blocks of whole lines, each below the header, and the byte of the text at which it begins.

    Args:
        path: the table.
        start: a byte at which a block began, if not the first.
    """
    with _text(path) as stream:
        header, line = b"", b"-"
        while line and (not header or header.count(b'"') % 2):  # a name may hold a line's end
            header += (line := stream.readline())
        at, rest, empty = max(start, len(header)), b"", True
        stream.seek(at)
        while text := stream.read(BLOCK):
            rest += text
            if cut := _last_line_end(rest):
                yield at, header + rest[:cut]
                at, rest, empty = at + cut, rest[cut:], False
        if rest or empty:
            yield at, header + rest


def counted(source: Source) -> Source:
    """A table that says how many rows it has, and where one of text can be entered."""
    if source.rows is not None:
        return source
    marks, rows = [], 0
    for byte, text in csv_blocks(source.path):
        marks.append(Mark(rows, byte))
        rows += len(csv_body(text, source.path))
    return source._replace(rows=rows, marks=tuple(marks))


def _last_line_end(text: bytes) -> int:
    """Where the last whole line ends, of which no cell is open; 0 if there is none."""
    end = text.rfind(b"\n") + 1
    while end and text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, text.rfind(b'"', 0, end)) + 1
    return end


@contextmanager
def _text(path: Path) -> Iterator[Any]:
    with opened(path) as stream:
        if ending(path) != ".csv.gz":
            yield stream
            return
        try:
            with gzip.GzipFile(fileobj=stream) as plain:
                yield plain
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path} is damaged or not compressed by gzip", "compress it again") from error


def _csv_head(path: Path) -> tuple[list[str], None, tuple[tuple[str, Any], ...]]:
    body = csv_body(next(csv_blocks(path))[1], path)
    return body.columns, None, ()


def _parquet_head(path: Path) -> tuple[list[str], int, tuple[tuple[str, Any], ...]]:
    import polars

    with opened(path):
        table = parsed(lambda: polars.scan_parquet(path, glob=False), f"{path} {NO_PARQUET}", "write it again")
        schema = parsed(table.collect_schema, f"{path} {NO_PARQUET}", "write it again")
        rows = parsed(lambda: table.select(polars.len()).collect().item(), f"{path} {NO_PARQUET}", "write it again")
    return list(schema), rows, tuple(schema.items())


def check_types(source: Source) -> None:
    """Raises an InputError if a class of a Parquet table is no number."""
    kinds = dict(source.schema)
    for name in source.columns.classes if kinds else ():
        if not kinds[name].is_numeric():
            raise no_class(source.path, [name], f"of {kinds[name]}")


def _as_in_first(columns: Columns, first: Source, path: Path) -> Columns:
    """The columns in the order of the first table's."""
    own, wanted = dict(zip(columns.names, columns.classes, strict=True)), first.columns.names
    if missing := [name for name in wanted if name not in own]:
        raise InputError(
            f"{path} has no column for the class {missing[0]!r}, as {first.path} has, but {shortened(columns.names)}",
            "give every table the same classes",
        )
    if extra := [name for name in own if name not in wanted]:
        raise InputError(
            f"{path} has a column {extra[0]!r}, which {first.path} has not",
            f"leave it out, or name it with --id {extra[0]} or --label {extra[0]}, or the classes with --classes",
        )
    for what in ("label", "group"):
        name, other = getattr(columns, what), getattr(first.columns, what)
        if (name is None) != (other is None):
            has, lacks = (path, first.path) if other is None else (first.path, path)
            raise InputError(f"{lacks} has no column {what}, as {has} has", "give every table the same columns")
    return columns._replace(classes=[own[name] for name in wanted], names=wanted)


def _is_pattern(path: Path) -> bool:
    return any(mark in str(path) for mark in "*?[") and not path.exists()


def _listed() -> str:
    return ".parquet, .csv or .csv.gz"
