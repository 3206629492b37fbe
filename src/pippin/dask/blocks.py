"""What Dask holds of rows, as one delayed block per partition."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import dask
import dask.array
from dask.delayed import Delayed

from pippin._runtime.errors import InputError
from pippin._validation.batched import Batch
from pippin._validation.labels import ColumnNumbers
from pippin.dask.watching import computed
from pippin.tables.scanning import Scan
from pippin.tables.sources import counted

ROWS = 1 << 20  # of a table, that one task reads
Work = Callable[..., Any]  # of rows, labels, groups, and the number of rows before


class Block(NamedTuple):
    """A partition's rows and what stands beside them, each a task or data at hand; and how many rows, if known."""

    probs: Any
    labels: Any = None
    groups: Any = None
    rows: int | None = None


class Slice(NamedTuple):
    """Some rows of tables, which a task reads where it runs."""

    scan: Scan
    start: int
    stop: int | None
    needs: tuple[str, ...]

    def batches(self, first: int) -> Iterator[Batch]:
        """The rows, some at a time; so many come before in all."""
        at = self.start
        for batch in self.scan.batches(*self.needs, start=at):
            part = slice(0, batch.rows.n if self.stop is None else min(batch.rows.n, self.stop - at))
            yield batch.cut(part)._replace(first=first + at - self.start)
            at += part.stop
            if at == self.stop:
                return


def blocks_of(probs: Any, labels: Any = None, groups: Any = None) -> list[Block]:
    """The partitions of a Dask array, a Dask data frame, a list of delayed partitions, or tables.

    A data frame's labels and groups may be named, as columns of it.
    """
    if isinstance(probs, Scan):
        return _of_tables(probs, labels is not None, groups is not None)
    counts: list[int | None]
    if isinstance(probs, dask.array.Array):
        whole = probs.rechunk({1: -1})
        pieces = [row[0] for row in whole.to_delayed()]
        counts = [None if size != size else int(size) for size in whole.chunks[0]]
    elif hasattr(probs, "to_delayed"):
        named = [name for name in (labels, groups) if isinstance(name, str)]
        labels, groups = (probs[one] if isinstance(one, str) else one for one in (labels, groups))
        pieces = probs.drop(columns=named).to_delayed() if named else probs.to_delayed()
        counts = [None] * len(pieces)
    elif isinstance(probs, Sequence) and all(isinstance(piece, Delayed) for piece in probs):
        pieces, counts = list(probs), [None] * len(probs)
    else:
        raise InputError(
            "Expected a Dask array, a Dask data frame, delayed partitions or pippin.scan(...), got "
            f"{type(probs).__name__}",
            "use pippin.calibrate for what fits into memory",
        )
    beside = [_beside(one, len(pieces), what, probs) for one, what in ((labels, "labels"), (groups, "groups"))]
    return [Block(*one) for one in zip(pieces, *beside, counts, strict=True)]


def _beside(given: Any, n: int, what: str, probs: Any) -> list[Any]:
    if given is None:
        return [None] * n
    if isinstance(given, dask.array.Array):
        known = isinstance(probs, dask.array.Array) and given.shape[0] == given.shape[0]
        pieces = list((given.rechunk((probs.chunks[0],)) if known else given).to_delayed())
    else:
        pieces = list(given.to_delayed() if hasattr(given, "to_delayed") else given)
    if len(pieces) != n:
        raise InputError(f"Expected {what} in {n} partitions as the rows, got {len(pieces)}", "divide them alike")
    return pieces


def _of_tables(scan: Scan, labels: bool, groups: bool) -> list[Block]:
    """A task for every table, and for every million rows of a large one in Parquet."""
    needs = (*(("labels",) if labels else ()), *(("groups",) if groups else ()))
    settled = scan.settled() if labels else scan
    found = []
    for relative in settled.sources:
        source = relative._replace(path=relative.path.absolute())  # a worker's folder is another
        one = Scan((source.path,), (source,), settled.layout)
        starts = range(0, source.rows or 1, ROWS)
        for start in starts:
            stop = None if source.rows is None else min(start + ROWS, source.rows)
            found.append(Block(Slice(one, start, stop, needs), rows=None if stop is None else stop - start))
    return found


def each(block: Block, number: int, first: int, work: Work) -> list[Any]:
    """What `work` makes of a partition: of all its rows, or of each batch of a table. It runs as a task."""
    if not isinstance(block.probs, Slice):
        try:
            return [work(block.probs, block.labels, block.groups, first)]
        except InputError as error:
            raise error.at(f"Partition {number}") from error
    found: list[Any] = []
    for batch in block.probs.batches(first):
        with batch.naming():
            labels = None if batch.labels is None else ColumnNumbers(batch.labels)
            found.append(work(batch.rows, labels, batch.groups, batch.first))
    return found


def with_rows(scan: Scan) -> Scan:
    """Tables that all say how many rows they have: those of text are counted by the cluster."""
    tasks = [
        dask.delayed(counted)(source._replace(path=source.path.absolute()))
        for source in scan.sources
        if source.rows is None
    ]
    if not tasks:
        return scan
    known = iter(computed(dask.delayed(list)(tasks), tasks, [1] * len(tasks), "tables"))
    sources = tuple(
        next(known)._replace(path=source.path) if source.rows is None else source for source in scan.sources
    )
    return replace(scan, sources=sources)


def slices(scan: Scan, rows: int, needs: tuple[str, ...], start: int = 0) -> list[tuple[int, Slice]]:
    """The tables' rows from `start` on in slices of so many, each with how many rows come before."""
    every, found = scan.rows or 0, []
    for first in range(start, every, rows):
        stop = min(first + rows, every)
        some, begin = scan.some(first, stop)
        found.append((first, Slice(some, begin, begin + stop - first, needs)))
    return found


def length(block: Block) -> int:
    """How many rows a partition has. It runs as a task."""
    if not isinstance(block.probs, Slice):
        return len(block.probs)
    return sum(each(block, 0, 0, lambda rows, *_: rows.n))


def firsts(blocks: list[Block], exact: bool) -> list[int]:
    """How many rows come before each partition; where that is not `exact`, numbers in the same order."""
    if not exact and any(block.rows is None for block in blocks):
        return list(range(len(blocks)))
    tasks = [dask.delayed(length)(block) for block in blocks if block.rows is None]
    known = iter(computed(dask.delayed(list)(tasks), tasks, [1] * len(tasks), "partitions counted") if tasks else ())
    sizes = [next(known) if block.rows is None else block.rows for block in blocks]
    return list(accumulate(sizes, initial=0))[:-1]
