"""DATA files in: probabilities (or logits), labels, class names, groups and ids, checked once.

DATA is one of

- `.npz` with `probs` or `logits`, `labels`, and optionally `classes`, `groups`, `ids`;
- `.csv`, `.csv.gz` or `.parquet` with one column per class, headed by its name, a column `label`, and
  optionally a column `group`; a `Layout` says where columns are called otherwise;
- `.npy` with the probabilities alone; the labels in a second `.npy` file;
- `-`, any of these from standard input.

A label is a class name or a column number counted from 0, as `pippin._validation.labels` tells
them apart. Rows are counted from 0 too.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Classes, Codes
from pippin._runtime.errors import InputError
from pippin._runtime.visible import visible
from pippin._validation.labels import ColumnNumbers, Labelled, Reading, are_ids, as_classes, as_groups, as_labels
from pippin._validation.rows import Rows, as_rows
from pippin.tables.formats import STDIN, read_arrays, read_column, whole_if_all
from pippin.tables.layout import Layout, no_class, normalized, strangers

__all__ = ["Data", "read_data"]

EXAMPLE = "the embedded example"
BLOCK = 4096  # rows checked at once


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """What a DATA file holds: checked probabilities (or logits), and labels as they were written.

    Attributes:
        path: the file; None for the embedded example.
        checksum: the SHA-256 of its content.
        probs: (n, K) probabilities or logits.
        from_logits: which of the two.
        labels: the true classes as they were written; None, if there are none.
        classes: the names of the columns, if they have some.
        groups: the group of each row, if there are groups.
        labels_are: whether labels are "names" or "indices", if that was told.
        ids: what the ids are called, and one per row.
        first: rows of the file that come before these.
        checked: whether the rows are known to be distributions.
    """

    path: Path | None
    checksum: str
    probs: NDArray[Any]
    from_logits: bool
    labels: "NDArray[Any] | ColumnNumbers | None"
    classes: tuple[str, ...] | None
    groups: NDArray[Any] | None
    labels_are: Reading | None = None
    ids: tuple[str, NDArray[Any]] | None = None  # what they are called, and one per row
    first: int = 0  # rows of the file that come before these
    checked: bool = True

    @property
    def name(self) -> str:
        """The file, as messages call it."""
        return EXAMPLE if self.path is None else "standard input" if self.path == STDIN else visible(self.path)

    @property
    def title(self) -> str:
        """What the data are called: a file's name without the way there and without its ending."""
        if self.path is None or self.path == STDIN:
            return self.name
        return visible(Path(self.path.name.removesuffix(".gz")).stem)

    @property
    def rows(self) -> Rows:
        """The probabilities with their class names; they were checked when the file was read."""
        return Rows(self.probs, self.from_logits, self.classes, checked=self.checked)

    @property
    def labelled(self) -> Labelled:
        """The rows with their true classes and names."""
        return Labelled(self.rows, self.truth(), as_classes(None, self.rows))

    def truth(self, classes: Classes | None = None) -> Codes:
        """The labels as column numbers.

        Args:
            classes: the names in which labels are looked up, where the file names none.

        Raises:
            InputError: the file has no labels, or one of them is no class.
        """
        if self.labels is None:
            raise InputError(
                f"{self.name} has no labels",
                "add an array labels (.npz) or a column label (.csv, .parquet), or pass --labels labels.npy",
            )
        if isinstance(self.labels, ColumnNumbers):
            return self.labels.codes
        if self.labels.dtype.kind == "O" and None in (values := self.labels.tolist()):
            missing = InputError("has no label, expected its true class", "add it", row=self.first + values.index(None))
            raise missing.in_file(self.name)
        known = self.classes or classes or range(self.probs.shape[1])
        names = known if isinstance(known, range) else tuple(map(str, known))
        with naming(self.name, self.first):
            return as_labels(self.labels, len(self.probs), names, self.labels_are)

    def __repr__(self) -> str:
        return f"Data({self.name}: {self.probs.shape[0]:,} rows, {self.probs.shape[1]:,} classes)"


def read_data(path: Path, labels_path: Path | None = None, layout: Layout = Layout()) -> Data:  # noqa: B008 - frozen
    """Reads and checks a DATA file.

    Args:
        path: an `.npz`, `.npy`, `.csv` or `.parquet` file, packed by gzip or not.
        labels_path: a file with the labels alone, where the first has none.
        layout: what its columns mean.

    Raises:
        InputError: the file is missing, damaged, of another kind, or no probabilities; it is named.
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
        probs = normalized_unless(from_logits, probs, path)
    if isinstance(classes, np.ndarray) and classes.dtype.kind in "iu":  # whole numbers by name, both of one type
        reading = reading or "names"
    names, groups = _checked(path, content, probs, from_logits)
    ids = None if content.get("ids") is None else (content.get("id") or "id", content["ids"])
    if ids is not None and ids[1].shape != (len(probs),):
        raise InputError(f"{path}: expected one id per row, got shape {ids[1].shape}", "store them in row order")
    return Data(path, checksum, probs, from_logits, labels, names, groups, reading, ids)


def normalized_unless(from_logits: bool, probs: NDArray[Any], path: Path, first: int = 0) -> NDArray[Any]:
    """Each row divided by its sum, of which there is no need for logits."""
    if from_logits:
        raise InputError("Expected --normalize with probabilities, got logits", "a softmax sums to 1 already")
    return normalized(probs, path, first)


def known(data: Data) -> Any:
    """The labels as `calibrate` takes them; which column each means was settled when they were read."""
    return ColumnNumbers(data.truth())


def read_weights(path: Path) -> NDArray[Any]:
    """One number per row from a .npy file."""
    return read_column(Path(path), "weights")


def read_features(data: Data) -> NDArray[Any]:
    """The array features of an .npz file, such as `train --features` writes.

    Raises:
        InputError: it has none.
    """
    if data.path is not None and data.path.suffix == ".npz":
        with np.load(data.path, allow_pickle=False) as kept:
            if "features" in kept.files:
                found: NDArray[Any] = kept["features"]
                return found
    raise InputError(
        f"Expected an .npz file with an array features, but {data.name} has none", "make it with train --features"
    )


def need_groups(data: Data, *who: str) -> None:
    """Raises a ValueError if someone needs groups and the data have none."""
    if who and data.groups is None:
        raise no_groups(data.name, who[0])


def no_groups(name: str, who: str) -> InputError:
    """Someone needs groups, and the data of this name have none."""
    return InputError(
        f"Expected groups for {who}, but {name} has none",
        "add an array groups (.npz) or a column group (.csv, .parquet) to the data",
    )


def example_data() -> Data:
    """The embedded example, as if it had been read from a file."""
    from pippin._validation.example import load_example

    example = load_example()
    content = (files("pippin._validation.example") / "seedlings.npz").read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    return Data(None, checksum, example.probs, False, example.labels, example.classes, None)


@contextmanager
def naming(name: object, first: int = 0) -> Iterator[None]:
    """Errors of the door inside name the file, and say what to do with a file; `first` rows of it come before."""
    try:
        yield
    except InputError as error:
        raise error.later(first).in_file(name) from error


def _checked(
    path: Path, content: dict[str, Any], probs: NDArray[Any], from_logits: bool
) -> tuple[tuple[str, ...] | None, NDArray[Any] | None]:
    """The class names and groups, after every row has passed the door."""
    classes, groups = content.get("classes"), content.get("groups")
    with naming(path):
        if probs.dtype.kind not in "fiub":
            raise InputError(f"Expected probabilities that are numbers, got {probs.dtype}", "convert them")
        rows = as_rows(probs, from_logits)
        names = None if classes is None else tuple(map(str, as_classes([str(name) for name in classes], rows)))
        groups = None if groups is None else checked_groups(groups, rows.n)
    check_rows(path, replace(rows, names=names), bool(content.get("table")))
    return names, groups


def check_rows(path: Path, rows: Rows, table: bool, first: int = 0) -> None:
    """Raises an InputError that names the first row that is no distribution, or of a table the columns to blame.

    So many rows of the file come before the `first`.
    """
    odd = strangers(rows.array, True) if rows.logits and table and first == 0 else []
    try:
        for start in range(0, rows.n, BLOCK):
            check = rows.block if rows.logits else rows.check
            check(start, min(start + BLOCK, rows.n))
    except InputError as error:
        odd = odd or (strangers(rows.array, False) if table and not rows.logits else [])
        if not odd:
            raise error.later(first).in_file(path) from error
    if odd and rows.names is not None:
        why = "of whole numbers beside logits" if rows.logits else "without which every row sums to 1"
        raise no_class(path, [str(rows.names[column]) for column in odd], why)


def checked_groups(groups: NDArray[Any], n: int) -> NDArray[Any] | None:
    """Groups as whole numbers, if all are, else as text; None where nearly every row has one of its own."""
    if groups.dtype.kind == "O" and None in (values := groups.tolist()):
        raise InputError("has no group, expected a name or a whole number", "add it", row=values.index(None))
    checked = as_groups(groups, n)
    return None if are_ids(np.unique(checked), n) else whole_if_all(checked)
