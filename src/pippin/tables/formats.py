"""What a file of each format holds, as arrays by name: `probs` or `logits`, `labels`, `classes`, `groups`.

Whatever a damaged file makes a parser raise becomes one sentence that names the file. What
the arrays mean, and whether they are probabilities at all, is `reading.py`'s to see.
"""

import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.errors import InputError

if TYPE_CHECKING:
    import polars

LABEL, GROUP = "label", "group"  # the columns that are no class


def read_arrays(path: Path) -> tuple[dict[str, Any], str]:
    """The arrays of a DATA file by name, and the file's SHA-256.

    Raises:
        ValueError: the file is missing, damaged or of another kind; it is named.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"Expected data that end in {_listed(_READERS)}, got {path}", "convert the file")
    with _opened(path) as stream:
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
        stream.seek(0)
        return reader(stream, path), checksum


def read_column(path: Path, what: str) -> NDArray[Any]:
    """The one array of a `.npy` file; errors call it `what`."""
    if path.suffix.lower() != ".npy":
        raise InputError(f"Expected {what} in a file that ends in .npy, got {path}", "write it with numpy.save")
    with _opened(path) as stream:
        return _bare(stream, path)


def _read_npz(stream: io.BufferedReader, path: Path) -> dict[str, Any]:
    loaded = _loaded(stream, path)
    if isinstance(loaded, np.ndarray):
        raise InputError(f"{path} holds one bare array, expected named arrays", "rename the file to end in .npy")
    found = [name for name in ("probs", "logits") if name in loaded.files]
    if len(found) != 1:
        holds = "both probs and logits" if found else ", ".join(loaded.files) or "nothing"
        raise InputError(f"{path} holds {holds}, expected an array probs or an array logits", "save one of them")
    wanted = [*found, *(name for name in ("labels", "classes", "groups") if name in loaded.files)]
    content = {name: _member(loaded, name, path) for name in wanted}
    if "classes" in content and (content["classes"].ndim != 1 or content["classes"].dtype.kind not in "iuU"):
        raise InputError(f"{path}: expected classes to be one row of names or whole numbers", "save a list of text")
    return content


def _read_npy(stream: io.BufferedReader, path: Path) -> dict[str, Any]:
    return {"probs": _bare(stream, path)}


def _bare(stream: io.BufferedReader, path: Path) -> NDArray[Any]:
    loaded = _loaded(stream, path)
    if not isinstance(loaded, np.ndarray):
        raise InputError(f"{path} holds named arrays, expected one bare array", "rename the file to end in .npz")
    return loaded


def _loaded(stream: io.BufferedReader, path: Path) -> Any:
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


def _read_csv(stream: io.BufferedReader, path: Path) -> dict[str, Any]:
    """Everything as text first: what a column means does not depend on its first cells."""
    import polars

    frame = _parsed(
        lambda: polars.read_csv(stream.read(), has_header=False, infer_schema_length=0),
        f"{path} cannot be read as comma-separated values",
        "write UTF-8 text with equally many cells in every line",
    )
    frame = frame.with_columns(polars.all().str.strip_chars())
    header, body = frame.row(0), frame[1:]
    if None in header or "" in header:
        raise InputError(f"{path} has a column without a name", "head every column with its class, and one with label")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"{path} has two columns {twice!r}", "give every class its own column")
    body.columns = list(header)
    body = body.filter(~polars.all_horizontal(polars.all().is_null()))  # blank lines
    numbers = body.drop(LABEL, GROUP, strict=False).with_columns(polars.all().cast(polars.Float64, strict=False))
    for name in numbers.columns:
        wrong = numbers[name].is_null() & body[name].is_not_null()
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            raise InputError(
                f"{path}: Row {row} has {body[name][row]!r} in column {name!r}, expected a number", "mend it"
            )
    return _frame_content(numbers, body)


def _read_parquet(stream: io.BufferedReader, path: Path) -> dict[str, Any]:
    import polars

    frame = _parsed(lambda: polars.read_parquet(stream), f"{path} is damaged or no Parquet file", "write it again")
    numbers = frame.drop(LABEL, GROUP, strict=False)
    for name, what in ((LABEL, "class"), (GROUP, "group")):
        if name in frame.columns and frame[name].dtype.is_nested():
            raise InputError(
                f"{path} has {frame[name].dtype} in column {name!r}, expected one {what} per row", "convert it"
            )
    for name, kind in numbers.schema.items():
        if not kind.is_numeric():
            raise InputError(
                f"{path} has {kind} in column {name!r}, expected numbers", f"keep only one column per class and {LABEL}"
            )
    exact = polars.Float32 if set(numbers.dtypes) == {polars.Float32} else polars.Float64
    return _frame_content(numbers.cast(exact), frame)


def _parsed(read: "Callable[[], polars.DataFrame]", what: str, remedy: str) -> "polars.DataFrame":
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


def _frame_content(numbers: "polars.DataFrame", frame: "polars.DataFrame") -> dict[str, Any]:
    content: dict[str, Any] = {"probs": numbers.to_numpy(order="c"), "classes": tuple(numbers.columns)}
    for column, name in ((LABEL, "labels"), (GROUP, "groups")):
        if column in frame.columns:
            values = frame[column]
            whole = values.dtype.is_integer() and not values.has_nulls()
            content[name] = values.to_numpy() if whole else np.array(values.to_list(), dtype=object)
    return content


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    if path.is_dir():
        raise InputError(f"{path} is a folder, expected a file", "name a file in it")
    if not path.exists():
        raise InputError(f"There is no file {path}", "check the path")
    with open(path, "rb") as stream:
        if stream.seek(0, io.SEEK_END) == 0:
            raise InputError(f"{path} is empty, expected rows of probabilities", "write it again")
        stream.seek(0)
        yield stream


def _listed(endings: "dict[str, Any]") -> str:
    *most, last = endings
    return f"{', '.join(most)} or {last}"


_READERS: dict[str, Callable[[io.BufferedReader, Path], dict[str, Any]]] = {
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
}
