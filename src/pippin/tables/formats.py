"""What a file of each format holds, as arrays by name: `probs` or `logits`, `labels`, `classes`, `groups`, `ids`.

Whatever a damaged file makes a parser raise becomes one sentence that names the file. What
the arrays mean, and whether they are probabilities at all, is `reading.py`'s to see.
"""

import gzip
import hashlib
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Codes
from pippin._runtime.errors import InputError
from pippin._validation.labels import WHOLE, ColumnNumbers
from pippin.tables.layout import Columns, Layout, find_columns, no_class

if TYPE_CHECKING:
    import polars

Stream = io.BufferedReader | io.BytesIO
Reader = Callable[[Stream, Path, Layout], dict[str, Any]]
PLAIN_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # so that "01" is not 1, and all fit into 64 bits

STDIN = Path("-")
NO_PARQUET = "is damaged or no Parquet file"

T = TypeVar("T")


def read_arrays(path: Path, layout: Layout) -> tuple[dict[str, Any], str]:
    """The arrays of a DATA file by name, and the file's SHA-256; `-` is standard input.

    Raises:
        InputError: the file is missing, damaged or of another kind; it is named.
    """
    reader = _READERS.get("".join(path.suffixes[-2:]).lower()) or _READERS.get(path.suffix.lower())
    if reader is None and path != STDIN:
        raise InputError(f"Expected data that end in {_listed(_READERS)}, got {path}", "convert the file")
    with opened(path) as stream:
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
        stream.seek(0)
        return (reader or _sniffed(stream))(stream, path, layout), checksum


def read_column(path: Path, what: str) -> NDArray[Any]:
    """The one array of a `.npy` file; errors call it `what`."""
    if path.suffix.lower() != ".npy":
        raise InputError(f"Expected {what} in a file that ends in .npy, got {path}", "write it with numpy.save")
    with opened(path) as stream:
        return _bare(stream, path)


def _sniffed(stream: Stream) -> Reader:
    """The reader for what these bytes begin like."""
    begin = stream.read(8)
    stream.seek(0)
    known = {b"PAR1": _read_parquet, b"PK": _read_npz, b"\x93NUMPY": _read_npy, b"\x1f\x8b": _read_gzip}
    return next((reader for magic, reader in known.items() if begin.startswith(magic)), _read_csv)


def _read_npz(stream: Stream, path: Path, layout: Layout) -> dict[str, Any]:
    loaded = _loaded(stream, path)
    if isinstance(loaded, np.ndarray):
        raise InputError(f"{path} holds one bare array, expected named arrays", "rename the file to end in .npy")
    found = [name for name in ("probs", "logits") if name in loaded.files]
    if len(found) != 1:
        holds = "both probs and logits" if found else ", ".join(loaded.files) or "nothing"
        raise InputError(f"{path} holds {holds}, expected an array probs or an array logits", "save one of them")
    wanted = [*found, *(name for name in ("labels", "classes", "groups", "ids") if name in loaded.files)]
    content = {name: _member(loaded, name, path) for name in wanted}
    if "classes" in content and (content["classes"].ndim != 1 or content["classes"].dtype.kind not in "iuU"):
        raise InputError(f"{path}: expected classes to be one row of names or whole numbers", "save a list of text")
    return content | _said(path, layout)


def _read_npy(stream: Stream, path: Path, layout: Layout) -> dict[str, Any]:
    return {"probs": _bare(stream, path), **_said(path, layout)}


def _said(path: Path, layout: Layout) -> dict[str, Any]:
    """What the layout says of arrays, which have no named columns."""
    named = next((option for option in ("label", "id", "prefix") if getattr(layout, option) is not None), None)
    if named is not None:
        raise InputError(f"Expected --{named} with a table, but the arrays of {path} have no named columns")
    return {} if layout.classes is None else {"classes": layout.classes}


def _bare(stream: Stream, path: Path) -> NDArray[Any]:
    loaded = _loaded(stream, path)
    if not isinstance(loaded, np.ndarray):
        raise InputError(f"{path} holds named arrays, expected one bare array", "rename the file to end in .npz")
    return loaded


def _loaded(stream: Stream, path: Path) -> Any:
    """What NumPy finds in the file; whatever a damaged one makes it raise becomes one sentence."""
    try:
        return np.load(stream, allow_pickle=False)
    except Exception as error:
        raise InputError(
            f"{path} is damaged or no NumPy file of plain arrays", "write it again with numpy.save or numpy.savez"
        ) from error


def _member(loaded: Any, name: str, path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = loaded[name]
        return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except Exception as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"The array {name} of {path} holds Python objects, expected numbers or text",
                "convert it with .astype(float) or .astype(str)",
            ) from error
        raise InputError(f"The array {name} of {path} is damaged", "write the file again") from error


def _read_gzip(stream: Stream, path: Path, layout: Layout) -> dict[str, Any]:
    try:
        plain = gzip.decompress(stream.read())
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged or not compressed by gzip", "compress it again") from error
    return _read_csv(io.BytesIO(plain), path, layout)


def _read_csv(stream: Stream, path: Path, layout: Layout) -> dict[str, Any]:
    body = csv_body(stream.read(), path)
    content = csv_content(body, find_columns(body.columns, layout, path), path)
    return content | {"labels": whole_if_all(content.get("labels"))}


def whole_if_all(values: Any) -> Any:
    """Labels or groups of a table as whole numbers, if they are text that looks so in every row.

    >>> whole_if_all(np.array(["10", "9"])), whole_if_all(np.array(["10", "09"]))
    (array([10,  9]), array(['10', '09'], dtype='<U2'))
    """
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "OU":
        return values
    whole = all(isinstance(value, str) and PLAIN_WHOLE.fullmatch(value) for value in set(values.tolist()))
    return values.astype(np.int64) if whole else values


def csv_body(text: bytes, path: Path) -> "polars.DataFrame":
    """The rows below the header, everything as text: what a column means does not depend on its first cells."""
    import polars

    frame = parsed(
        lambda: polars.read_csv(text, has_header=False, infer_schema_length=0),
        f"{path} cannot be read as comma-separated values",
        "write UTF-8 text with equally many cells in every line",
    )
    frame = frame.with_columns(polars.all().str.strip_chars())
    header, body = frame.row(0), frame[1:]
    other = next((mark for mark in ";\t|" if len(header) == 1 and mark in str(header[0])), None)
    if other is not None:
        raise InputError(f"{path} has {other!r} between its cells, expected commas", "write it with commas")
    if None in header or "" in header:
        raise InputError(
            f"{path} has a column without a name", "head every column, or leave out a column that only counts the rows"
        )
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"{path} has two columns {twice!r}", "give every class its own column")
    body.columns = list(header)
    return body.filter(~polars.all_horizontal(polars.all().is_null()))  # blank lines


def csv_content(body: "polars.DataFrame", columns: Columns, path: Path, first: int = 0) -> dict[str, Any]:
    """What these rows hold, of which the first is so many below the top of the file."""
    import polars

    texts = body.select(columns.classes)
    numbers = texts.with_columns(polars.all().cast(polars.Float64, strict=False))
    for name in numbers.columns:
        wrong = numbers[name].is_null() & texts[name].is_not_null()
        if wrong.all() and len(wrong) > 1:
            raise no_class(path, [name], f"with text such as {texts[name][0]!r}")
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            raise InputError(
                f"has {texts[name][row]!r} in column {name!r}, expected a number", "mend it", row=first + row
            ).in_file(path)
    return _frame_content(numbers, body, columns)


def _read_parquet(stream: Stream, path: Path, layout: Layout) -> dict[str, Any]:
    import polars

    frame = parsed(lambda: polars.read_parquet(stream), f"{path} {NO_PARQUET}", "write it again")
    return parquet_content(frame, find_columns(frame.columns, layout, path), path)


def parquet_content(frame: "polars.DataFrame", columns: Columns, path: Path) -> dict[str, Any]:
    """What these rows hold."""
    import polars

    numbers = frame.select(columns.classes)
    for name, what in ((columns.label, "class"), (columns.group, "group"), (columns.id, "id")):
        if name is not None and frame[name].dtype.is_nested():
            raise InputError(
                f"{path} has {frame[name].dtype} in column {name!r}, expected one {what} per row", "convert it"
            )
    for name, kind in numbers.schema.items():
        if not kind.is_numeric():
            raise no_class(path, [name], f"of {kind}")
    exact = polars.Float32 if set(numbers.dtypes) == {polars.Float32} else polars.Float64
    return _frame_content(numbers.cast(exact), frame, columns)


def parsed(read: Callable[[], T], what: str, remedy: str) -> T:
    """What polars reads; whatever a damaged file makes it raise becomes one sentence."""
    import polars

    try:
        with _silence():
            return read()
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        raise InputError(what, remedy) from error


@contextmanager
def _silence() -> Iterator[None]:
    """Keeps compiled code from writing to standard error; some damaged files make polars panic there."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def _frame_content(numbers: "polars.DataFrame", frame: "polars.DataFrame", columns: Columns) -> dict[str, Any]:
    content: dict[str, Any] = {"probs": numbers.to_numpy(order="c"), "classes": columns.names}
    for column, name in ((columns.label, "labels"), (columns.group, "groups"), (columns.id, "ids")):
        if column is not None:
            values = frame[column]
            if name == "labels" and (codes := _known_names(values, columns.names)) is not None:
                content[name] = ColumnNumbers(codes)
                continue
            whole = values.dtype.is_integer() and not values.has_nulls() and "128" not in str(values.dtype)
            content[name] = values.to_numpy() if whole else np.array(values.to_list(), dtype=object)
    return content | {"table": not columns.chosen, "id": columns.id}


def _known_names(labels: "polars.Series", names: tuple[str, ...]) -> Codes | None:
    """The column of each label by its name; None, where one is no name, or a name may be a number."""
    import polars

    if labels.dtype != polars.String or any(WHOLE.fullmatch(name) for name in names) or len(set(names)) < len(names):
        return None
    found = labels.replace_strict(list(names), range(len(names)), default=None, return_dtype=polars.Int64)
    return None if found.has_nulls() else found.to_numpy()


@contextmanager
def opened(path: Path) -> Iterator[Stream]:
    if path == STDIN:
        given = sys.stdin.buffer.read()
        if not given:
            raise InputError("Expected a table on standard input, got nothing", "pipe one into this command")
        yield io.BytesIO(given)
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder, expected a file", "name a file in it")
    if not path.exists():
        raise InputError(f"There is no file {path}", "check the path")
    if not path.is_file():
        raise InputError(f"{path} is a pipe or a device, expected a file", "pipe it into this command and name -")
    with open(path, "rb") as stream:
        if stream.seek(0, io.SEEK_END) == 0:
            raise InputError(f"{path} is empty, expected rows of probabilities", "write it again")
        stream.seek(0)
        yield stream


def _listed(endings: "dict[str, Any]") -> str:
    *most, last = endings
    return f"{', '.join(most)} or {last}"


_READERS: dict[str, Reader] = {
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".csv.gz": _read_gzip,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
}
