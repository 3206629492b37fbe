"""DATA files in, prediction sets and tables out: the disk edge of the command line.

DATA is one of

- `.npz` with `probs` or `logits`, `labels`, and optionally `classes`, `groups`;
- `.csv` or `.parquet` with one column per class, headed by its name, a column `label`, and optionally
  a column `group`;
- `.npy` with the probabilities alone; the labels in a second `.npy` file.

A label is a class name or a column number counted from 0. Whole numbers are column
numbers, unless a class has a whole number for its name. Rows are counted from 0 too.
"""

import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pippin.files import write_whole
from pippin.ranking import Classes, Rows, as_classes, as_groups, as_labels, as_rows
from pippin.sets import PredictionSets

if TYPE_CHECKING:
    import polars

EXAMPLE = "the embedded example"
LABEL = "label"
GROUP, GROUPS = "group", "groups"
BLOCK = 4096  # rows checked at once

_WHOLE = re.compile(r"[+-]?[0-9]+")
_PLAIN_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # so that "01" is not 1, and all fit into 64 bits

# The door speaks to Python users; these are its remedies for someone who has files.
_REMEDIES = {
    "pass from_logits=True": "save them as the array logits of an .npz file",
    "correct the label or pass classes= with all names": "correct the label or name all classes in the file",
    "select the columns in the order of the classes, frame[list(classes)]": (
        "put the columns in the order in which the predictor was calibrated"
    ),
    "reshape one object to (1, K), or use predict_one": "store one object as shape (1, K)",
    "pass labels in row order": "store one label per row, in row order",
    "pass groups in row order": "store one group per row, in row order",
    "pass groups=, one per row": "add an array groups (.npz) or a column group (.csv, .parquet) to the data",
    'with unseen="marginal"': "with --unseen marginal",
}


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """What a DATA file holds: checked probabilities (or logits), and labels as they were written."""

    path: Path | None
    checksum: str
    probs: NDArray[Any]
    from_logits: bool
    labels: NDArray[Any] | None
    classes: tuple[str, ...] | None
    groups: NDArray[Any] | None

    @property
    def name(self) -> str:
        return EXAMPLE if self.path is None else str(self.path)

    @property
    def rows(self) -> Rows:
        """The probabilities with their class names, as the door makes them."""
        return Rows(self.probs, self.from_logits, self.classes)

    def truth(self, classes: Classes | None = None) -> NDArray[np.int64]:
        """The labels as column numbers; names are looked up in `classes` where the file names none.

        Raises:
            ValueError: the file has no labels, or one of them is no class.
        """
        if self.labels is None:
            raise ValueError(
                f"{self.name} has no labels: add an array labels (.npz) or a column label (.csv, .parquet), "
                "or pass --labels labels.npy."
            )
        if self.labels.dtype.kind == "O" and None in (values := self.labels.tolist()):
            raise ValueError(f"{self.name}: Row {values.index(None)} has no label, expected its true class: add it.")
        known = self.classes or classes or range(self.probs.shape[1])
        names = known if isinstance(known, range) else [str(name) for name in known]
        with naming(self.name):
            return as_labels(_spelled(self.labels, names), len(self.probs), names)

    def __repr__(self) -> str:
        return f"Data({self.name}: {self.probs.shape[0]:,} rows, {self.probs.shape[1]:,} classes)"


def read_data(path: Path, labels_path: Path | None = None) -> Data:
    """Reads and checks a DATA file, and its labels from a file of their own where given.

    Raises:
        ValueError: the file is missing, damaged, of another kind, or no probabilities; it is named.
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"Expected data that end in {_listed(_READERS)}, got {path}: convert the file.")
    with _opened(path) as stream:
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
        stream.seek(0)
        content = reader(stream, path)
    labels = content.get("labels")
    if labels_path is not None:
        if labels is not None:
            raise ValueError(f"{path} has labels of its own, but {labels_path} was given too: pass one of them.")
        labels = _read_column(Path(labels_path), "labels")
    from_logits = "logits" in content
    probs = content["logits" if from_logits else "probs"]
    classes, groups = _checked(path, probs, from_logits, content.get("classes"), content.get(GROUPS))
    return Data(path, checksum, probs, from_logits, labels, classes, groups)


def need_groups(data: Data, *who: str) -> None:
    """Raises a ValueError if someone needs groups and the data have none."""
    if who and data.groups is None:
        raise ValueError(
            f"Expected groups for {who[0]}, but {data.name} has none: add an array groups (.npz) or a column group "
            "(.csv, .parquet) to the data."
        )


def example_data() -> Data:
    """The embedded example, as if it had been read from a file."""
    from pippin.example import load_example

    example = load_example()
    content = (files("pippin.example") / "seedlings.npz").read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    return Data(None, checksum, example.probs, False, example.labels, example.classes, None)


def write_sets(path: Path, sets: PredictionSets) -> None:
    """Writes one line per object: its row, the size of its set, and the labels, most probable first.

    By the ending: `.parquet` holds a list of labels; `.jsonl` one JSON object per line;
    `.csv` joins the labels by `|`, with a backslash before each `|` or backslash that
    belongs to a name.
    """
    labels = sets.labels()
    if Path(path).suffix.lower() == ".jsonl":
        lines = (_json_line(row, names) for row, names in enumerate(labels))
        _write(path, "".join(lines).encode("utf-8", "surrogatepass"))
        return
    import polars

    joined = Path(path).suffix.lower() == ".csv"
    kind = polars.Int64 if sets.classes and isinstance(sets.classes[0], int) else polars.String
    column = (
        polars.Series("labels", ["|".join(map(_escaped, names)) for names in labels], polars.String)
        if joined
        else polars.Series("labels", labels, polars.List(kind))
    )
    write_table(path, polars.DataFrame({"row": np.arange(len(sets)), "size": sets.sizes, "labels": column}))


def write_table(path: Path, table: "polars.DataFrame") -> None:
    """Writes a table as `.csv` or `.parquet`, whole or not at all."""
    buffer = io.BytesIO()
    if Path(path).suffix.lower() == ".csv":
        table.write_csv(buffer)
    else:
        table.write_parquet(buffer)
    _write(path, buffer.getvalue())


@contextmanager
def naming(name: object) -> Iterator[None]:
    """Errors of the door inside name the file, and say what to do with a file."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        for python, remedy in _REMEDIES.items():
            text = text.replace(python, remedy)
        raise ValueError(f"{name}: {text}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the disk inside name the file that was to be written, not its draft."""
    try:
        yield
    except OSError as error:
        raise OSError(f"Cannot write {path} ({error.strerror}): choose another place.") from error


def _checked(
    path: Path, probs: NDArray[Any], from_logits: bool, classes: Any, groups: Any
) -> tuple[tuple[str, ...] | None, NDArray[Any] | None]:
    """The class names and groups, after every row has passed the door."""
    with naming(path):
        if probs.dtype.kind not in "fiub":
            raise ValueError(f"Expected probabilities that are numbers, got {probs.dtype}: convert them.")
        rows = as_rows(probs, from_logits)
        names = None if classes is None else tuple(map(str, as_classes([str(name) for name in classes], rows)))
        groups = None if groups is None else _checked_groups(groups, rows.n)
        for start in range(0, rows.n, BLOCK):
            check = rows.block if from_logits else Rows(probs, False, names).check
            check(start, min(start + BLOCK, rows.n))
    return names, groups


def _read_npz(stream: io.BufferedReader, path: Path) -> dict[str, Any]:
    loaded = _loaded(stream, path)
    if isinstance(loaded, np.ndarray):
        raise ValueError(f"{path} holds one bare array, expected named arrays: rename the file to end in .npy.")
    found = [name for name in ("probs", "logits") if name in loaded.files]
    if len(found) != 1:
        holds = "both probs and logits" if found else ", ".join(loaded.files) or "nothing"
        raise ValueError(f"{path} holds {holds}, expected an array probs or an array logits: save one of them.")
    wanted = [*found, *(name for name in ("labels", "classes", "groups") if name in loaded.files)]
    content = {name: _member(loaded, name, path) for name in wanted}
    if "classes" in content and (content["classes"].ndim != 1 or content["classes"].dtype.kind not in "iuU"):
        raise ValueError(f"{path}: expected classes to be one row of names or whole numbers: save a list of text.")
    return content


def _read_npy(stream: io.BufferedReader, path: Path) -> dict[str, Any]:
    loaded = _loaded(stream, path)
    if not isinstance(loaded, np.ndarray):
        raise ValueError(f"{path} holds named arrays, expected one bare array: rename the file to end in .npz.")
    return {"probs": loaded}


def read_weights(path: Path) -> NDArray[Any]:
    """One number per row from a .npy file."""
    return _read_column(Path(path), "weights")


def _read_column(path: Path, what: str) -> NDArray[Any]:
    if path.suffix.lower() != ".npy":
        raise ValueError(f"Expected {what} in a file that ends in .npy, got {path}: write it with numpy.save.")
    with _opened(path) as stream:
        column: NDArray[Any] = _read_npy(stream, path)["probs"]
    return column


def _loaded(stream: io.BufferedReader, path: Path) -> Any:
    """What NumPy finds in the file; whatever a damaged one makes it raise becomes one sentence."""
    try:
        return np.load(stream, allow_pickle=False)
    except Exception as error:
        raise ValueError(
            f"{path} is damaged or no NumPy file of plain arrays: write it again with numpy.save or numpy.savez."
        ) from error


def _member(loaded: Any, name: str, path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = loaded[name]
        return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except Exception as error:
        if "allow_pickle" in str(error):
            raise ValueError(
                f"The array {name} of {path} holds Python objects, expected numbers or text: "
                "convert it with .astype(float) or .astype(str)."
            ) from error
        raise ValueError(f"The array {name} of {path} is damaged: write the file again.") from error


def _read_csv(stream: io.BufferedReader, path: Path) -> dict[str, Any]:
    """Everything as text first: what a column means does not depend on its first cells."""
    import polars

    frame = _parsed(
        lambda: polars.read_csv(stream.read(), has_header=False, infer_schema_length=0),
        f"{path} cannot be read as comma-separated values: write UTF-8 text with equally many cells in every line.",
    )
    frame = frame.with_columns(polars.all().str.strip_chars())
    header, body = frame.row(0), frame[1:]
    if None in header or "" in header:
        raise ValueError(f"{path} has a column without a name: head every column with its class, and one with label.")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise ValueError(f"{path} has two columns {twice!r}: give every class its own column.")
    body.columns = list(header)
    body = body.filter(~polars.all_horizontal(polars.all().is_null()))  # blank lines
    numbers = body.drop(LABEL, GROUP, strict=False).with_columns(polars.all().cast(polars.Float64, strict=False))
    for name in numbers.columns:
        wrong = numbers[name].is_null() & body[name].is_not_null()
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            raise ValueError(
                f"{path}: Row {row} has {body[name][row]!r} in column {name!r}, expected a number: mend it."
            )
    return _frame_content(numbers, body)


def _read_parquet(stream: io.BufferedReader, path: Path) -> dict[str, Any]:
    import polars

    frame = _parsed(lambda: polars.read_parquet(stream), f"{path} is damaged or no Parquet file: write it again.")
    numbers = frame.drop(LABEL, GROUP, strict=False)
    for name, what in ((LABEL, "class"), (GROUP, "group")):
        if name in frame.columns and frame[name].dtype.is_nested():
            raise ValueError(
                f"{path} has {frame[name].dtype} in column {name!r}, expected one {what} per row: convert it."
            )
    for name, kind in numbers.schema.items():
        if not kind.is_numeric():
            raise ValueError(
                f"{path} has {kind} in column {name!r}, expected numbers: keep only one column per class and {LABEL}."
            )
    exact = polars.Float32 if set(numbers.dtypes) == {polars.Float32} else polars.Float64
    return _frame_content(numbers.cast(exact), frame)


def _parsed(read: "Callable[[], polars.DataFrame]", sentence: str) -> "polars.DataFrame":
    import polars

    try:
        with _silence():
            return read()
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        raise ValueError(sentence) from error


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
    for column, name in ((LABEL, "labels"), (GROUP, GROUPS)):
        if column in frame.columns:
            values = frame[column]
            whole = values.dtype.is_integer() and not values.has_nulls()
            content[name] = values.to_numpy() if whole else np.array(values.to_list(), dtype=object)
    return content


def _checked_groups(groups: NDArray[Any], n: int) -> NDArray[Any]:
    """Groups as whole numbers, if all are, else as text."""
    if groups.dtype.kind == "O" and None in (values := groups.tolist()):
        raise ValueError(f"Row {values.index(None)} has no group, expected a name or a whole number: add it.")
    checked = as_groups(groups, n)
    whole = checked.dtype.kind == "U" and all(_PLAIN_WHOLE.fullmatch(name) for name in checked.tolist())
    return checked.astype(np.int64) if whole else checked


def _spelled(labels: NDArray[Any], names: Sequence[str | int]) -> NDArray[Any]:
    """Labels as the door wants them: column numbers as integers, names as text."""
    numbered = not isinstance(names, range) and any(_WHOLE.fullmatch(str(name)) for name in names)
    if numbered and labels.dtype.kind in "iu":
        return labels.astype(str)
    if labels.dtype.kind in "OU" and not numbered:
        values = labels.ravel().tolist()
        if values and all(isinstance(v, str) and _WHOLE.fullmatch(v) for v in values):
            return np.array([int(v) for v in values]).reshape(labels.shape)
    return labels


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    if path.is_dir():
        raise ValueError(f"{path} is a folder, expected a file: name a file in it.")
    if not path.exists():
        raise ValueError(f"There is no file {path}: check the path.")
    with open(path, "rb") as stream:
        if stream.seek(0, io.SEEK_END) == 0:
            raise ValueError(f"{path} is empty, expected rows of probabilities: write it again.")
        stream.seek(0)
        yield stream


def _write(path: Path, data: bytes) -> None:
    with writing(path):
        write_whole(path, data)


def _json_line(row: int, names: Sequence[str | int]) -> str:
    return json.dumps({"row": row, "size": len(names), "labels": names}, ensure_ascii=False) + "\n"


def _escaped(name: str | int) -> str:
    return str(name).replace("\\", "\\\\").replace("|", "\\|")


def _listed(endings: "dict[str, Any]") -> str:
    *most, last = endings
    return f"{', '.join(most)} or {last}"


_READERS: dict[str, Callable[[io.BufferedReader, Path], dict[str, Any]]] = {
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
}
