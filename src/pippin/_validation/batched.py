"""Rows that come in batches, because they do not fit all at once."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Codes
from pippin._runtime.errors import InputError
from pippin._runtime.progress import progress_bar
from pippin._validation.labels import ColumnNumbers
from pippin._validation.rows import Rows


class Batch(NamedTuple):
    """Some rows, with what stands beside them as far as it was asked for.

    Attributes:
        rows: the probabilities.
        labels: the true classes, by number.
        groups: the group of each row.
        ids: what the ids are called, and one per row.
        first: how many rows come before, in all batches.
        naming: a context in which errors name the batch's file, and the row as that file counts it.
    """

    rows: Rows
    labels: Codes | None
    groups: NDArray[Any] | None
    ids: tuple[str, NDArray[Any]] | None
    first: int
    naming: Callable[[], AbstractContextManager[None]] = nullcontext

    def cut(self, part: slice) -> "Batch":
        """Some of these rows, from the first on."""
        if part.stop >= self.rows.n:
            return self
        return self._replace(
            rows=replace(self.rows, array=self.rows.array[part]),
            labels=None if self.labels is None else self.labels[part],
            groups=None if self.groups is None else self.groups[part],
            ids=None if self.ids is None else (self.ids[0], self.ids[1][part]),
        )


class Batched(Protocol):
    """What `pippin.scan` returns."""

    @property
    def name(self) -> str: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> int | None: ...
    def batches(self, *needs: Any, start: int = 0) -> Iterator[Batch]: ...


def is_batched(given: Any) -> bool:
    """Whether it is what `pippin.scan` returns, and no array.

    >>> is_batched([[0.5, 0.5]])
    False
    """
    return callable(getattr(given, "batches", None)) and hasattr(given, "classes")


def needed(labels: Codes | None) -> Codes:
    """The labels, which were asked for."""
    assert labels is not None
    return labels


def watched(source: Batched, *needs: str, start: int = 0) -> Iterator[Batch]:
    """The batches, with a bar that tells how many rows a second, and what is left."""
    with progress_bar("rows", source.rows, done=start, rate=True) as advance:
        some = start > 0
        for batch in source.batches(*needs, start=start):
            some = True
            yield batch
            advance(batch.rows.n)
        if not some:
            raise no_rows(source.name)


def no_rows(name: str) -> InputError:
    """Data of this name are nothing but a header."""
    return InputError(f"{name} has no rows, expected one at least")


def labels_of(source: Batched) -> ColumnNumbers:
    """The true classes of all rows, as `evaluate` takes them."""
    return ColumnNumbers(np.concatenate([needed(batch.labels) for batch in watched(source, "labels")]))
