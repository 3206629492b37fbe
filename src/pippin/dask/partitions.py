"""Partitions of Dask collections, and computation of one task per partition, all at once or in order."""

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
from pippin.tables.scanning import Scan, count_rows

ROWS = 1 << 20  # maximum number of rows of a Parquet table per partition
AHEAD = 2  # number of tasks in progress per thread of the cluster

_lock = Lock()
_registered = b""  # pickled score families registered in this process by `_register_first`


class RowRange(NamedTuple):
    """Range of rows of scanned tables, which the worker reads.

    Attributes:
        scan: the scanned tables.
        start: the first row of the range.
        stop: the row after the range; None for all further rows.
        needs: columns to read in addition to the probabilities, "labels" or "groups".
    """

    scan: Scan
    start: int
    stop: int | None
    needs: tuple[str, ...]

    def batches(self, first: int) -> Iterator[Batch]:
        """Yield the rows of the range in batches; `first` is the number of rows in all previous partitions."""
        at = self.start
        for batch in self.scan.batches(*self.needs, start=at):
            part = slice(0, batch.rows.n if self.stop is None else min(batch.rows.n, self.stop - at))
            yield batch.cut(part)._replace(first=first + at - self.start)
            at += part.stop
            if at == self.stop:
                return


class Partition(NamedTuple):
    """Partition of probabilities, labels and groups, as delayed objects or a `RowRange`; `rows` is None if unknown."""

    probs: Any
    labels: Any = None
    groups: Any = None
    rows: int | None = None


def partitions_of(probs: Any, labels: Any = None, groups: Any = None) -> list[Partition]:
    """Return the partitions of a Dask array, a Dask data frame, a list of delayed partitions, or scanned tables.

    For a data frame, labels and groups may be column names.
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
        labels, groups = (probs[name] if isinstance(name, str) else name for name in (labels, groups))
        pieces = probs.drop(columns=columns).to_delayed() if columns else probs.to_delayed()
        counts = [None] * len(pieces)
    elif isinstance(probs, Sequence) and all(isinstance(piece, Delayed) for piece in probs):
        pieces, counts = list(probs), [None] * len(probs)
    else:
        what = "Expected a Dask array or data frame, delayed partitions or pippin.scan(...), got"
        raise InputError(f"{what} {type(probs).__name__}", "use pippin.calibrate for data in memory")
    given = ((labels, "labels"), (groups, "groups"))
    others = (_per_partition(values, len(pieces), what, probs) for values, what in given)
    return [Partition(*parts) for parts in zip(pieces, *others, counts, strict=True)]


def _per_partition(values: Any, n: int, what: str, probs: Any) -> list[Any]:
    """Return the labels or groups of each partition."""
    if values is None:
        return [None] * n
    if isinstance(values, dask.array.Array):
        sized = isinstance(probs, dask.array.Array) and values.shape[0] == values.shape[0]
        if sized and probs.shape[0] == probs.shape[0] and values.shape[:1] != probs.shape[:1]:
            n_values = f"{values.shape[0]:,}"
            raise InputError(f"Expected {probs.shape[0]:,} {what}, one per row, got {n_values}", "pass them all")
        pieces = list((values.rechunk((probs.chunks[0],)) if sized else values).to_delayed())
    else:
        pieces = list(values.to_delayed() if hasattr(values, "to_delayed") else values)
    if len(pieces) != n:
        raise InputError(f"Expected {what} in {n} partitions as the rows, got {len(pieces)}", "repartition them")
    return pieces


def _of_tables(scan: Scan, labels: bool, groups: bool) -> list[Partition]:
    """Return one partition per scanned table; Parquet tables are divided into partitions of at most `ROWS` rows."""
    needs = (*(("labels",) if labels else ()), *(("groups",) if groups else ()))
    settled = scan.with_label_reading() if labels else scan
    partitions = []
    for table in settled.tables:
        path = table.path.absolute()  # absolute, since workers have other working directories
        single = Scan((path,), (table._replace(path=path),), settled.layout)
        if table.rows is None:
            partitions.append(Partition(RowRange(single, 0, None, needs)))
        else:
            ranges = row_ranges(single, ROWS, needs)
            partitions += [Partition(each, rows=(each.stop or 0) - each.start) for _, each in ranges]
    return partitions


def row_ranges(scan: Scan, rows: int, needs: tuple[str, ...], start: int = 0) -> list[tuple[int, RowRange]]:
    """Divide scanned tables, from row `start` on, into ranges of `rows` rows; return pairs (first row, range)."""
    total, ranges = scan.rows or 0, []
    for first in range(start, total, rows):
        stop = min(first + rows, total)
        tables, begin = scan.row_range(first, stop)
        ranges.append((first, RowRange(tables, begin, begin + stop - first, needs)))
    return ranges


def with_rows(scan: Scan) -> Scan:
    """Return the scan with the numbers of rows of all tables; the rows of text files are counted on the cluster."""
    uncounted = [table for table in scan.tables if table.rows is None]
    tasks = [dask.delayed(count_rows)(table._replace(path=table.path.absolute())) for table in uncounted]
    results = iter(gathered(tasks, [1] * len(tasks), "tables"))
    tables = (next(results)._replace(path=table.path) if table.rows is None else table for table in scan.tables)
    return replace(scan, tables=tuple(tables))


def map_batches(part: Partition, number: int, first: int, work: Callable[..., Any]) -> list[Any]:
    """Call `work` on a partition, or on each batch of its `RowRange`, and return all results; workers run this.

    Args:
        part: the partition.
        number: index of the partition, for error messages.
        first: number of rows in all previous partitions.
        work: a function of probabilities, labels, groups, and the number of all previous rows.
    """
    if not isinstance(part.probs, RowRange):
        if not len(part.probs):
            return []
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
    """Count the rows of a partition; workers run this function."""
    if not isinstance(part.probs, RowRange):
        return len(part.probs)
    return sum(map_batches(part, 0, 0, lambda rows, *_: rows.n))


def row_positions(parts: list[Partition], exact: bool) -> list[int]:
    """Return the number of rows before each partition.

    If some lengths are unknown, count the rows if `exact` is True; else return the indices of the partitions instead.
    """
    unsized = [part for part in parts if part.rows is None]
    if unsized and not exact:
        return list(range(len(parts)))
    tasks = [dask.delayed(_length)(part) for part in unsized]
    lengths = iter(gathered(tasks, [1] * len(tasks), "partitions counted"))
    sizes = [next(lengths) if part.rows is None else part.rows for part in parts]
    return list(accumulate(sizes, initial=0))[:-1]


def _cluster() -> Client | None:
    """Return the client of the cluster that Dask uses; None if Dask computes in this process."""
    client = getattr(get_scheduler(), "__self__", None)
    return client if isinstance(client, Client) else None


def gathered(tasks: Sequence[Any], rows: Sequence[int | None], what: str) -> list[Any]:
    """Compute all tasks and return their results in order; on a cluster, show a progress bar.

    Args:
        tasks: the tasks.
        rows: number of rows of each task. If some are None, the progress bar counts partitions instead of rows.
        what: unit of the progress bar.
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
                break  # `client.gather` below raises the error of the task
            advance(sizes[future.key])
    return list(client.gather(futures, direct=True))


def in_order(work: Callable[..., Any], shared: Any, pieces: Iterable[Any]) -> Iterator[Any]:
    """Yield `work(shared, piece)` for all pieces in order; the cluster computes `AHEAD` pieces per thread in advance.

    `shared` is sent to the cluster once, as the result of a task, so that Dask recomputes it if a worker is lost.
    """
    client = _cluster()
    assert client is not None
    shared_future = client.submit(lambda value: value, shared, pure=False)
    in_progress: deque[Any] = deque()
    try:
        for piece in pieces:
            in_progress.append(client.submit(work, shared_future, piece, pure=False))
            if len(in_progress) > AHEAD * max(1, sum(client.nthreads().values())):
                yield client.gather(in_progress.popleft(), direct=True)
        while in_progress:
            yield client.gather(in_progress.popleft(), direct=True)
    finally:
        if in_progress:
            client.cancel(list(in_progress))


def registering(work: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `work` so that a worker first registers the user's score families, whose code is sent with the task."""
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
    return partial(_register_first, packed, work)


def _register_first(packed: bytes, work: Callable[..., Any], *args: Any) -> Any:
    global _registered
    with _lock:
        if packed != _registered:
            try:
                families = cloudpickle.loads(packed)
            except ImportError as error:
                what = f"A worker cannot import a module of a registered score ({error})"
                raise InputError(what, "install it on the workers too") from error
            for name, family in families.items():
                register(name, family)
            _registered = packed
    return work(*args)
