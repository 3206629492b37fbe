"""Readers of .npz, .npy, .csv and .parquet files.

They return arrays by name: `probs` or `logits`, `labels`, `classes`, `groups` and `ids`; `reading.py` checks their
values. An error of a parser becomes an InputError of one sentence that names the file.
"""

import hashlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Codes
from pippin._runtime.errors import InputError
from pippin._validation.labels import WHOLE, ColumnNumbers
from pippin.tables.columns import (
    SAMPLE,
    Layout,
    Sample,
    TableColumns,
    check_distinct_columns,
    find_columns,
    not_a_class,
)
from pippin.tables.limits import check_archive, check_parquet, check_text

if TYPE_CHECKING:
    import polars

PLAIN_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # whole numbers of at most 64 bits, without leading zeros
STDIN = Path("-")

BinaryStream = io.BufferedReader | io.BytesIO
T = TypeVar("T")


def read_arrays(path: Path, layout: Layout) -> tuple[dict[str, Any], str]:
    """Read the arrays of a file by name, and compute its SHA-256; the path `-` is standard input.

    Raises:
        InputError: the file is missing, damaged or in another format.
    """
    reader = next((_READERS[ending] for ending in _READERS if path.name.lower().endswith(ending)), None)
    if reader is None and path != STDIN:
        *most, last = _READERS
        raise InputError(f"Expected data that end in {', '.join(most)} or {last}, got {path}", "convert the file")
    with open_file(path) as stream:
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
        stream.seek(0)
        return (reader or _reader_by_content(stream))(stream, path, layout), checksum


def read_column(path: Path, what: str) -> NDArray[Any]:
    """Read the array of a `.npy` file; `what` describes its content in error messages."""
    if path.suffix.lower() != ".npy":
        raise InputError(f"Expected {what} in a file that ends in .npy, got {path}", "write it with numpy.save")
    with open_file(path) as stream:
        array: NDArray[Any] = _load_numpy(stream, path, named=False)
        return array


def read_member(path: Path, name: str) -> NDArray[Any] | None:
    """Read an array of an .npz file by name; return None if the file does not have it."""
    with open_file(path) as stream:
        loaded = _load_numpy(stream, path, named=True)
        return _read_member(loaded, name, path) if name in loaded.files else None


def _reader_by_content(stream: BinaryStream) -> Callable[..., dict[str, Any]]:
    """Choose the reader of data from standard input by their first bytes."""
    begin = stream.read(8)
    stream.seek(0)
    magic = {b"PAR1": _read_parquet, b"PK": _read_npz, b"\x93NUMPY": _read_npy}
    return next((reader for first, reader in magic.items() if begin.startswith(first)), _read_csv)


def _read_npz(stream: BinaryStream, path: Path, layout: Layout) -> dict[str, Any]:
    """Read the arrays `probs` or `logits`, `labels`, `classes`, `groups` and `ids` of an .npz file."""
    loaded = _load_numpy(stream, path, named=True)
    main = [name for name in ("probs", "logits") if name in loaded.files]
    if len(main) != 1:
        holds = "both probs and logits" if main else ", ".join(loaded.files) or "nothing"
        raise InputError(f"{path} holds {holds}, expected an array probs or an array logits", "save one of them")
    wanted = [*main, *(name for name in ("labels", "classes", "groups", "ids") if name in loaded.files)]
    content = {name: _read_member(loaded, name, path) for name in wanted}
    if "classes" in content and (content["classes"].ndim != 1 or content["classes"].dtype.kind not in "iuU"):
        raise InputError(f"{path}: expected classes to be one row of names or whole numbers", "save a list of text")
    return content | _classes_of(layout, path)


def _read_npy(stream: BinaryStream, path: Path, layout: Layout) -> dict[str, Any]:
    return {"probs": _load_numpy(stream, path, named=False), **_classes_of(layout, path)}


def _classes_of(layout: Layout, path: Path) -> dict[str, Any]:
    """Return the class names of a layout; raise an InputError if it names other columns, which arrays do not have."""
    chosen = {"label": layout.label, "id": layout.ids, "prefix": layout.prefix}
    chosen |= {"group": layout.group, "ignore": layout.ignore}
    if option := next((option for option, value in chosen.items() if value), None):
        raise InputError(f"Expected --{option} with a table, but the arrays of {path} have no named columns")
    return {} if layout.classes is None else {"classes": layout.classes}


def _load_numpy(stream: BinaryStream, path: Path, named: bool) -> Any:
    """Load an .npz file (with named arrays) if `named` is True, else the single array of a .npy file."""
    packed = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    try:
        loaded = np.load(stream, allow_pickle=False)
    except Exception as error:
        raise InputError(f"{path} is damaged or no NumPy file of plain arrays", "write it again") from error
    if isinstance(loaded, np.lib.npyio.NpzFile) and loaded.zip is not None:
        check_archive(loaded.zip, path, packed)
    if isinstance(loaded, np.ndarray) == named:
        kinds = ("one bare array", "named arrays", ".npy") if named else ("named arrays", "one bare array", ".npz")
        raise InputError(f"{path} holds {kinds[0]}, expected {kinds[1]}", f"rename the file to end in {kinds[2]}")
    return loaded


def _read_member(loaded: Any, name: str, path: Path) -> NDArray[Any]:
    """Read one array of an .npz file; bytes are decoded as UTF-8."""
    try:
        array: NDArray[Any] = loaded[name]
        return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except Exception as error:
        if "allow_pickle" in str(error):
            what = f"The array {name} of {path} holds Python objects, expected numbers or text"
            raise InputError(what, "convert it with .astype(float) or .astype(str)") from error
        raise InputError(f"The array {name} of {path} is damaged", "write the file again") from error


def _read_csv(stream: BinaryStream, path: Path, layout: Layout) -> dict[str, Any]:
    content = stream.read()
    check_text(content, path, whole=True)
    frame = call_polars(scan_csv(content, path).collect, path, is_parquet=False)
    return csv_content(frame, find_columns(frame.columns, layout, path, sample_of(frame)), path)


def _read_parquet(stream: BinaryStream, path: Path, layout: Layout) -> dict[str, Any]:
    import polars

    check_parquet(stream.getvalue() if isinstance(stream, io.BytesIO) else path, path)
    frame = call_polars(lambda: polars.read_parquet(stream), path, is_parquet=True)
    return parquet_content(frame, find_columns(frame.columns, layout, path, sample_of(frame)), path)


def sample_of(frame: "polars.DataFrame", values: Callable[[str], set[str]] | None = None) -> Sample:
    """Return the first rows of a table as numbers, to find its columns of probabilities.

    Args:
        frame: the table, or its first rows.
        values: function that returns the different values of a column in all rows; by default those in `frame`.
    """
    import polars

    head = frame.head(SAMPLE)
    texts = head.select(polars.selectors.string())
    numbers = head.select(polars.selectors.numeric()).cast(polars.Float64)
    columns = [*numbers.iter_columns(), *to_numbers(texts).iter_columns()]
    by_name = {column.name: column.to_numpy() for column in columns}
    return Sample(by_name, lambda name: texts_of(head[name]), values or (lambda name: texts_of(frame[name])))


def by_names(names: Any) -> Any:
    """Return a polars selector of columns by name, in which `*` and `^a$` are names and not patterns."""
    from polars import selectors

    return selectors.by_name(*dict.fromkeys(names))


def texts_of(values: "polars.Series") -> set[str]:
    """Return the different values of a column as text, without nulls."""
    return set(map(str, values.drop_nulls().unique().to_list()))


def to_numbers(texts: "polars.DataFrame") -> "polars.DataFrame":
    """Convert columns of text to floats; the decimal sign may be a comma; a cell that is no number becomes null."""
    import polars

    def convert(column: "polars.Series") -> "polars.Series":
        number = column.cast(polars.Float64, strict=False)
        if number.null_count() == column.null_count():
            return number
        pointed = (
            column.alias("cell")
            .str.replace(",", ".", literal=True)
            .cast(polars.Float64, strict=False)
            .alias(column.name)
        )
        return pointed if pointed.null_count() < number.null_count() else number

    return polars.DataFrame([convert(column) for column in texts.iter_columns()])


def as_whole_numbers(values: Any) -> Any:
    """Convert an array of text to integers if every value is a whole number without leading zeros.

    >>> as_whole_numbers(np.array(["10", "9"])), as_whole_numbers(np.array(["10", "09"]))
    (array([10,  9]), array(['10', '09'], dtype='<U2'))
    """
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "OU":
        return values
    whole = all(isinstance(value, str) and PLAIN_WHOLE.fullmatch(value) for value in set(values.tolist()))
    return values.astype(np.int64) if whole else values


def scan_csv(source: Path | bytes, path: Path) -> "polars.LazyFrame":
    """Return a lazy polars frame of a .csv file, compressed by gzip or not, with every cell as text.

    Column types are not inferred, since polars would infer them from the first rows only.

    Args:
        source: the path of the file, or its content.
        path: the name of the file in error messages.
    """
    import polars

    blank = check_text(source, path, whole=False)
    scan = partial(polars.scan_csv, source, has_header=False, infer_schema=False, glob=False, skip_lines=blank)
    cells, line = scan(), scan(truncate_ragged_lines=True).head(1)  # decimal commas make further lines longer
    first = call_polars(lambda: line.select(polars.all().str.strip_chars()).collect(), path, is_parquet=False)
    if first.is_empty():
        raise InputError(f"{path} has no header that can be read, perhaps of a stray quote", "write the table again")
    header = first.row(0)
    separator = separator_of(str(header[0])) if len(header) == 1 else ","
    if separator != ",":
        cells, line = scan(separator=separator), scan(separator=separator, truncate_ragged_lines=True).head(1)
        first = call_polars(lambda: line.select(polars.all().str.strip_chars()).collect(), path, is_parquet=False)
        header = first.row(0)
    header = tuple(name or "" for name in header)
    if "" in header[1:]:
        raise InputError(f"{path} has a column without a name", "name the column")
    check_distinct_columns(header, path)
    has_cells = ~polars.all_horizontal(polars.all().is_null())  # False for blank lines
    # Skip the header by row number, not by `slice(1)`: with `slice`, polars would return no rows, and no error, if a
    # quote in the second line is never closed.
    rows = cells.filter(has_cells).with_row_index("row").filter(polars.col("row") > 0)
    names = dict(zip(first.columns, header, strict=True))
    return rows.select(polars.col(cell).str.strip_chars().alias(name) for cell, name in names.items())


def separator_of(line: str) -> str:
    """Return the character that separates the cells of a .csv table: the most frequent candidate in its header.

    >>> separator_of("crop;weed;label"), separator_of("crop,weed"), separator_of("crop|weed, other|label")
    (';', ',', '|')
    """
    return max(",;\t|", key=line.count)


def csv_content(body: "polars.DataFrame", columns: TableColumns, path: Path, first: int = 0) -> dict[str, Any]:
    """Convert a frame of text to arrays by name; `first` is the number of its first row in the file, for errors."""
    texts = body[columns.classes]
    texts.columns = list(map(str, range(texts.width)))  # polars would take names such as * and ^a$ for patterns
    numbers = to_numbers(texts)
    for name, text, number in zip(columns.classes, texts, numbers, strict=True):
        wrong = number.is_null() & text.is_not_null()
        if wrong.all() and len(wrong) > 1:
            raise not_a_class(path, [name], f"with text such as {text[0]!r}", columns.label is not None)
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            what = f"has {text[row]!r} in column {name!r}, expected a number"
            raise InputError(what, "correct it", row=first + row).in_file(path)
    content = _frame_content(numbers, body, columns)
    return content | {"labels": as_whole_numbers(content.get("labels"))}


def parquet_content(frame: "polars.DataFrame", columns: TableColumns, path: Path) -> dict[str, Any]:
    """Convert a frame from a Parquet file to arrays by name."""
    import polars

    numbers = frame[columns.classes]
    for role in columns.roles:
        for name in columns.of(role):
            if name in frame.columns and frame[name].dtype.is_nested():
                what = "class" if role == "labels" else role.removesuffix("s")
                found = f"{path} has {frame[name].dtype} in column {name!r}"
                raise InputError(f"{found}, expected one {what} per row", "convert it")
    for name, kind in numbers.schema.items():
        if not kind.is_numeric() and not (kind == polars.Null and frame.is_empty()):  # an empty table has no types
            raise not_a_class(path, [name], f"of {kind}", columns.label is not None)
    exact = polars.Float32 if set(numbers.dtypes) == {polars.Float32} else polars.Float64
    return _frame_content(numbers.cast(exact), frame, columns)


def _frame_content(numbers: "polars.DataFrame", frame: "polars.DataFrame", columns: TableColumns) -> dict[str, Any]:
    """Return arrays by name: the probabilities (`numbers`), and the label, group and id columns of `frame`.

    The ids are a dictionary of arrays by the name of their column.
    """
    probs = numbers.to_numpy(order="c")
    if len(columns.names) > probs.shape[1]:  # the probability of the second of two classes
        probs = np.concatenate([1 - probs, probs], axis=1)
    content: dict[str, Any] = {"probs": probs, "classes": columns.names}
    for role in columns.roles:
        arrays = {
            name: _to_array(frame[name].alias(role), role, columns)
            for name in columns.of(role)
            if name in frame.columns
        }
        if arrays:
            content[role] = arrays if role == "ids" else next(iter(arrays.values()))
    return content


def _to_array(values: "polars.Series", role: str, columns: TableColumns) -> Any:
    """Convert a column of labels, groups or ids to an array; labels that name columns become `ColumnNumbers`."""
    if role == "labels":
        codes = _named_classes(values, columns.names)
        if codes is None and columns.names != tuple(columns.classes) and len(columns.names) == len(columns.classes):
            codes = _named_classes(values, tuple(columns.classes))  # labels with the prefix of the columns
        if codes is not None:
            return ColumnNumbers(codes)
    whole = values.dtype.is_integer() and not values.has_nulls() and "128" not in str(values.dtype)
    return values.to_numpy() if whole else np.array(values.to_list(), dtype=object)


def _named_classes(labels: "polars.Series", names: tuple[str, ...]) -> Codes | None:
    """Convert labels that are class names to class indices.

    Return None if labels may be something else: one is no class name, or class names are whole numbers or not unique.
    """
    import polars

    if labels.dtype != polars.String or any(WHOLE.fullmatch(name) for name in names) or len(set(names)) < len(names):
        return None
    codes = labels.replace_strict(list(names), range(len(names)), default=None, return_dtype=polars.Int64)
    return None if codes.has_nulls() else codes.to_numpy()


def call_polars(read: Callable[[], T], path: Path, is_parquet: bool) -> T:
    """Call `read`, which reads a file by polars; turn an error into an InputError that names the file."""
    import polars

    try:
        return read()
    except polars.exceptions.ColumnNotFoundError as error:
        raise InputError(
            f"{path} no longer has the columns that it had when it was scanned", "scan it again"
        ) from error
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        if is_parquet:
            raise InputError(f"{path} is damaged or no Parquet file", "write it again") from error
        if isinstance(error, OSError):
            raise InputError(f"{path} is damaged or not compressed by gzip", "compress it again") from error
        remedy = "write UTF-8 text with equally many cells in every line"
        raise InputError(f"{path} cannot be read as comma-separated values", remedy) from error


@contextmanager
def open_file(path: Path) -> Iterator[BinaryStream]:
    """Open a file to read, or standard input for `-`; raise an InputError if it is missing, empty or not regular."""
    if path == STDIN:
        content = sys.stdin.buffer.read()
        if not content:
            raise InputError("Expected a table on standard input, got nothing", "pipe one into this command")
        yield io.BytesIO(content)
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


_READERS: dict[str, Callable[[BinaryStream, Path, Layout], dict[str, Any]]] = {
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
}
