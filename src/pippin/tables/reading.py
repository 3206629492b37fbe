"""DATA files in: probabilities (or logits), labels, class names and groups, checked once.

DATA is one of

- `.npz` with `probs` or `logits`, `labels`, and optionally `classes`, `groups`;
- `.csv` or `.parquet` with one column per class, headed by its name, a column `label`, and optionally
  a column `group`;
- `.npy` with the probabilities alone; the labels in a second `.npy` file.

A label is a class name or a column number counted from 0. Whole numbers are column
numbers, unless a class has a whole number for its name. Rows are counted from 0 too.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._inputs.labels import Labelled, as_classes, as_groups, as_labels
from pippin._inputs.rows import Rows, as_rows
from pippin._runtime.arrays import Classes, Codes
from pippin._runtime.errors import InputError
from pippin.tables.formats import read_arrays, read_column

EXAMPLE = "the embedded example"
BLOCK = 4096  # rows checked at once

_WHOLE = re.compile(r"[+-]?[0-9]+")
_PLAIN_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # so that "01" is not 1, and all fit into 64 bits


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
        """The probabilities with their class names; they were checked when the file was read."""
        return Rows(self.probs, self.from_logits, self.classes, checked=True)

    @property
    def labelled(self) -> Labelled:
        """The rows with their true classes and names."""
        return Labelled(self.rows, self.truth(), as_classes(None, self.rows))

    def truth(self, classes: Classes | None = None) -> Codes:
        """The labels as column numbers; names are looked up in `classes` where the file names none.

        Raises:
            ValueError: the file has no labels, or one of them is no class.
        """
        if self.labels is None:
            raise InputError(
                f"{self.name} has no labels",
                "add an array labels (.npz) or a column label (.csv, .parquet), or pass --labels labels.npy",
            )
        if self.labels.dtype.kind == "O" and None in (values := self.labels.tolist()):
            raise InputError(f"{self.name}: Row {values.index(None)} has no label, expected its true class", "add it")
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
    content, checksum = read_arrays(path)
    labels = content.get("labels")
    if labels_path is not None:
        if labels is not None:
            raise InputError(f"{path} has labels of its own, but {labels_path} was given too", "pass one of them")
        labels = read_column(Path(labels_path), "labels")
    from_logits = "logits" in content
    probs = content["logits" if from_logits else "probs"]
    classes, groups = _checked(path, probs, from_logits, content.get("classes"), content.get("groups"))
    return Data(path, checksum, probs, from_logits, labels, classes, groups)


def read_weights(path: Path) -> NDArray[Any]:
    """One number per row from a .npy file."""
    return read_column(Path(path), "weights")


def need_groups(data: Data, *who: str) -> None:
    """Raises a ValueError if someone needs groups and the data have none."""
    if who and data.groups is None:
        raise InputError(
            f"Expected groups for {who[0]}, but {data.name} has none",
            "add an array groups (.npz) or a column group (.csv, .parquet) to the data",
        )


def example_data() -> Data:
    """The embedded example, as if it had been read from a file."""
    from pippin._inputs.example import load_example

    example = load_example()
    content = (files("pippin._inputs.example") / "seedlings.npz").read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    return Data(None, checksum, example.probs, False, example.labels, example.classes, None)


@contextmanager
def naming(name: object) -> Iterator[None]:
    """Errors of the door inside name the file, and say what to do with a file."""
    try:
        yield
    except InputError as error:
        raise error.in_file(name) from error


def _checked(
    path: Path, probs: NDArray[Any], from_logits: bool, classes: Any, groups: Any
) -> tuple[tuple[str, ...] | None, NDArray[Any] | None]:
    """The class names and groups, after every row has passed the door."""
    with naming(path):
        if probs.dtype.kind not in "fiub":
            raise InputError(f"Expected probabilities that are numbers, got {probs.dtype}", "convert them")
        rows = as_rows(probs, from_logits)
        names = None if classes is None else tuple(map(str, as_classes([str(name) for name in classes], rows)))
        groups = None if groups is None else _checked_groups(groups, rows.n)
        for start in range(0, rows.n, BLOCK):
            check = rows.block if from_logits else Rows(probs, names=names).check
            check(start, min(start + BLOCK, rows.n))
    return names, groups


def _checked_groups(groups: NDArray[Any], n: int) -> NDArray[Any]:
    """Groups as whole numbers, if all are, else as text."""
    if groups.dtype.kind == "O" and None in (values := groups.tolist()):
        raise InputError(f"Row {values.index(None)} has no group, expected a name or a whole number", "add it")
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
