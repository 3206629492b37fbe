"""Partitions of rows that Dask holds, and tasks on them: run in order or all at once, with a progress bar."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Any, NamedTuple

import cloudpickle
import dask
import dask.array
from dask.base import get_scheduler
from dask.delayed import Delayed
from distributed import Client, as_completed

from pippin._runtime.errors import InputError
from pippin._runtime.progress import progress_bar
from pippin._theory.formula import FAMILIES, OURS
from pippin._theory.spelling import register
from pippin._validation.batched import Batch
from pippin._validation.labels import ColumnNumbers
from pippin.tables.scanning import Scan, counted

ROWS = 1 << 20  # rows of a Parquet table per task
AHEAD = 2  # tasks in progress per thread of the cluster

_lock = Lock()
_registered = b""  # the score families that another process registered here last


class RowRange(NamedTuple):
    """A range of rows of tables, read by the task that uses them."""

    scan: Scan
    start: int
    stop: int | None
    needs: tuple[str, ...]

    def batches(self, first: int) -> Iterator[Batch]:
        """Yield the rows in batches; `first` is the number of rows before them in all partitions."""
        at = self.start
        for batch in self.scan.batches(*self.needs, start=at):
            part = slice(0, batch.rows.n if self.stop is None else min(batch.rows.n, self.stop - at))
            yield batch.cut(part)._replace(first=first + at - self.start)
            at += part.stop
            if at == self.stop:
                return


class Partition(NamedTuple):
    """Rows, labels and groups, each a delayed object, an array or a `RowRange`; and the number of rows, if known."""

    probs: Any
    labels: Any = None
    groups: Any = None
    rows: int | None = None


def partitions_of(probs: Any, labels: Any = None, groups: Any = None) -> list[Partition]:
    """Return the partitions of a Dask array, a Dask data frame, a list of delayed partitions, or tables.

    Labels and groups of a data frame may be the names of its columns.
    """
    if isinstance(probs, Scan):
        return _of_tables(probs, labels is not None, groups is not None)
    counts: list[int | None]
    if isinstance(probs, dask.array.Array):
        whole = probs.rechunk({1: -1})
        pieces = [row[0] for row in whole.to_delayed()]
        counts = [None if size != size else int(size) for size in whole.chunks[0]]
    elif hasattr(probs, "to_delayed"):
        columns = [name for name in (labels, groups) if isinstance(name, str)]
        labels, groups = (probs[one] if isinstance(one, str) else one for one in (labels, groups))
        pieces = probs.drop(columns=columns).to_delayed() if columns else probs.to_delayed()
        counts = [None] * len(pieces)
    elif isinstance(probs, Sequence) and all(isinstance(piece, Delayed) for piece in probs):
        pieces, counts = list(probs), [None] * len(probs)
    else:
        what = (
            f"Expected a Dask array or data frame, delayed partitions or pippin.scan(...), got {type(probs).__name__}"
        )
        raise InputError(what, "use pippin.calibrate for what fits into memory")
    label_pieces, group_pieces = (
        _per_partition(one, len(pieces), what, probs) for one, what in ((labels, "labels"), (groups, "groups"))
    )
    return [Partition(*one) for one in zip(pieces, label_pieces, group_pieces, counts, strict=True)]


def _per_partition(values: Any, n: int, what: str, probs: Any) -> list[Any]:
    """Return the labels or groups of each partition."""
    if values is None:
        return [None] * n
    if isinstance(values, dask.array.Array):
        sized = isinstance(probs, dask.array.Array) and values.shape[0] == values.shape[0]
        pieces = list((values.rechunk((probs.chunks[0],)) if sized else values).to_delayed())
    else:
        pieces = list(values.to_delayed() if hasattr(values, "to_delayed") else values)
    if len(pieces) != n:
        raise InputError(f"Expected {what} in {n} partitions as the rows, got {len(pieces)}", "divide them alike")
    return pieces


def _of_tables(scan: Scan, labels: bool, groups: bool) -> list[Partition]:
    """Return a partition for every table, and for every `ROWS` rows of a large one in Parquet."""
    needs = (*(("labels",) if labels else ()), *(("groups",) if groups else ()))
    settled = scan.settled() if labels else scan
    found = []
    for table in settled.tables:
        path = table.path.absolute()  # workers have other working directories
        alone = Scan((path,), (table._replace(path=path),), settled.layout)
        for start in range(0, table.rows or 1, ROWS):
            stop = None if table.rows is None else min(start + ROWS, table.rows)
            rows = None if stop is None else stop - start
            found.append(Partition(RowRange(alone, start, stop, needs), rows=rows))
    return found


def row_ranges(scan: Scan, rows: int, needs: tuple[str, ...], start: int = 0) -> list[tuple[int, RowRange]]:
    """Divide the tables from row `start` on into ranges of `rows` rows; each with the number of rows before it."""
    total, found = scan.rows or 0, []
    for first in range(start, total, rows):
        stop = min(first + rows, total)
        some, begin = scan.some(first, stop)
        found.append((first, RowRange(some, begin, begin + stop - first, needs)))
    return found


def with_rows(scan: Scan) -> Scan:
    """Count the rows of text tables on the cluster."""
    uncounted = [table for table in scan.tables if table.rows is None]
    tasks = [dask.delayed(counted)(table._replace(path=table.path.absolute())) for table in uncounted]
    results = iter(gathered(tasks, [1] * len(tasks), "tables"))
    tables = (next(results)._replace(path=table.path) if table.rows is None else table for table in scan.tables)
    return replace(scan, tables=tuple(tables))


def map_batches(part: Partition, number: int, first: int, work: Callable[..., Any]) -> list[Any]:
    """Call `work` with all rows of a partition, or with each batch of a table; runs as a task.

    Args:
        part: the partition.
        number: its number, for errors.
        first: the number of rows before it.
        work: a function of rows, labels, groups, and the number of rows before these.
    """
    if not isinstance(part.probs, RowRange):
        try:
            return [work(part.probs, part.labels, part.groups, first)]
        except InputError as error:
            raise error.at(f"Partition {number}") from error
    results: list[Any] = []
    for batch in part.probs.batches(first):
        with batch.naming():
            labels = None if batch.labels is None else ColumnNumbers(batch.labels)
            results.append(work(batch.rows, labels, batch.groups, batch.first))
    return results


def _length(part: Partition) -> int:
    """Count the rows of a partition; runs as a task."""
    if not isinstance(part.probs, RowRange):
        return len(part.probs)
    return sum(map_batches(part, 0, 0, lambda rows, *_: rows.n))


def row_positions(parts: list[Partition], exact: bool) -> list[int]:
    """Return the number of rows before each partition; if not `exact`, perhaps numbers in the same order."""
    unsized = [part for part in parts if part.rows is None]
    if unsized and not exact:
        return list(range(len(parts)))
    tasks = [dask.delayed(_length)(part) for part in unsized]
    lengths = iter(gathered(tasks, [1] * len(tasks), "partitions counted"))
    sizes = [next(lengths) if part.rows is None else part.rows for part in parts]
    return list(accumulate(sizes, initial=0))[:-1]


def _cluster() -> Client | None:
    """Return the client of the cluster that Dask computes on; None where this process computes."""
    owner = getattr(get_scheduler(), "__self__", None)
    return owner if isinstance(owner, Client) else None


def gathered(tasks: Sequence[Any], rows: Sequence[int | None], what: str) -> list[Any]:
    """Compute tasks at once and return their results, with a progress bar where a cluster computes them.

    Results come from the workers directly.

    Args:
        tasks: the tasks.
        rows: the number of rows of each task, if known; otherwise the bar counts partitions.
        what: the unit of the progress bar.
    """
    client = _cluster()
    if client is None or not tasks:
        return list(dask.compute(*tasks))
    futures = client.compute(list(tasks))
    sized = None not in rows
    sizes = {future.key: (size or 0) if sized else 1 for future, size in zip(futures, rows, strict=True)}
    with progress_bar(what if sized else what.replace("rows", "partitions"), sum(sizes.values()), rate=True) as advance:
        for future in as_completed(futures):
            if future.status != "finished":
                break  # gathering raises its error
            advance(sizes[future.key])
    results: list[Any] = client.gather(futures, direct=True)
    return results


def in_order(work: Callable[..., Any], shared: Any, pieces: Iterable[Any]) -> Iterator[Any]:
    """Yield `work(shared, piece)` for every piece, computed by the cluster, `AHEAD` pieces per thread at a time.

    A task sends the shared object once, so that Dask recomputes it where a worker is lost.
    """
    client = _cluster()
    assert client is not None
    held = client.submit(_identity, shared, pure=False)
    begun: deque[Any] = deque()
    try:
        for piece in pieces:
            begun.append(client.submit(work, held, piece, pure=False))
            if len(begun) > AHEAD * max(1, sum(client.nthreads().values())):
                yield client.gather(begun.popleft(), direct=True)
        while begun:
            yield client.gather(begun.popleft(), direct=True)
    finally:
        if begun:
            client.cancel(list(begun))


def _identity(value: Any) -> Any:
    return value


def registering(work: Callable[..., Any]) -> Callable[..., Any]:
    """Make `work` register the score families of this process first, so that workers need not import their modules."""
    families = {name: family for name, family in FAMILIES.items() if name not in OURS}
    if not families:
        return work
    modules = {getattr(family.coefficients, "__module__", None) for family in families.values()} - {None, "__main__"}
    with ExitStack() as stack:
        for module in (sys.modules[name] for name in modules if name in sys.modules):
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        packed = cloudpickle.dumps(families)
    return partial(_registered_first, packed, work)


def _registered_first(packed: bytes, work: Callable[..., Any], *args: Any) -> Any:
    global _registered
    with _lock:
        if packed != _registered:
            try:
                families = cloudpickle.loads(packed)
            except ImportError as error:
                what = f"A worker cannot import what a score of yours needs ({error})"
                raise InputError(what, "install it on the workers too") from error
            for name, family in families.items():
                register(name, family)
            _registered = packed
    return work(*args)
