"""Batches of rows, to process tables that are larger than memory."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Classes, Codes
from pippin._runtime.errors import InputError
from pippin._runtime.progress import progress_bar
from pippin._validation.labels import ColumnNumbers, labels_of_rows
from pippin._validation.rows import Rows, select_columns


class Batch(NamedTuple):
    """Batch of rows, with the labels, groups and ids that the caller requested.

    Attributes:
        rows: the probabilities.
        labels: the index of the true class of each row; None if not requested.
        groups: the group of each row; None if not requested.
        ids: the id of each row, by the name of the id column; empty if not requested.
        first: the number of rows in all previous batches.
        naming: a context manager that adds the file name, and the row number in that file, to errors.
    """

    rows: Rows
    labels: Codes | None
    groups: NDArray[Any] | None
    ids: Mapping[str, NDArray[Any]]
    first: int
    naming: Callable[[], AbstractContextManager[None]] = nullcontext

    def cut(self, part: slice) -> "Batch":
        """Return the batch with the rows of `part`, a slice from the first row."""
        if part.stop >= self.rows.n:
            return self
        return self._replace(
            rows=replace(self.rows, array=self.rows.array[part]),
            labels=None if self.labels is None else self.labels[part],
            groups=None if self.groups is None else self.groups[part],
            ids={name: values[part] for name, values in self.ids.items()},
        )

    def select_columns(self, classes: Classes) -> "Batch":
        """Return the batch with the columns, and the class indices of the labels, in the order of `classes`."""
        with self.naming():
            rows = select_columns(classes, self.rows)
        if rows.order is None:
            return self
        labels = None if self.labels is None else labels_of_rows(ColumnNumbers(self.labels), rows, classes)
        return self._replace(rows=replace(rows, order=None), labels=labels)


class Batched(Protocol):
    """Interface of tables larger than memory, which `pippin.scan` returns."""

    @property
    def name(self) -> str: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> int | None: ...
    def batches(self, *needs: Any, start: int = 0) -> Iterator[Batch]: ...


def is_batched(given: Any) -> bool:
    """Return True for the result of `pippin.scan`, False for arrays.

    >>> is_batched([[0.5, 0.5]])
    False
    """
    return callable(getattr(given, "batches", None)) and hasattr(given, "classes")


def check_table_keywords(keywords: Mapping[str, Any], remedy: str) -> None:
    """Raise an InputError if one of these keywords is not None, since tables of `pippin.scan` do not take them."""
    for name, value in keywords.items():
        if value is not None:
            raise InputError(f"Expected tables without {name}=", remedy)


def needed(labels: Codes | None) -> Codes:
    """Return the labels of a batch, which are not None if they were requested (for type checkers)."""
    assert labels is not None
    return labels


def watched(source: Batched, *needs: str, start: int = 0) -> Iterator[Batch]:
    """Yield the batches of `source` from row `start`, with a progress bar; raise an InputError if there are no rows."""
    with progress_bar("rows", source.rows, done=start, rate=True) as advance:
        some = start > 0
        for batch in source.batches(*needs, start=start):
            some = True
            yield batch
            advance(batch.rows.n)
        if not some:
            raise no_rows(source.name)


def no_rows(name: str) -> InputError:
    """Return the InputError for a table without rows."""
    return InputError(f"{name} has no rows, expected at least one")


def labels_of(source: Batched, classes: Classes) -> ColumnNumbers:
    """Read the labels of all rows as indices of `classes`, in the form that `evaluate` accepts."""
    batches = (batch.select_columns(classes) for batch in watched(source, "labels"))
    return ColumnNumbers(np.concatenate([needed(batch.labels) for batch in batches]))
