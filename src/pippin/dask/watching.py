"""What Dask computes, with a bar that tells how far it is, where a cluster does it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import dask
from dask.base import get_scheduler
from distributed import Client, as_completed, futures_of

from pippin._runtime.progress import progress_bar

AHEAD = 2  # pieces of work for every thread of the cluster: one is done, one waits


def cluster() -> Client | None:
    """Who asks the cluster that computes what Dask computes now; None, where this process does."""
    owner = getattr(get_scheduler(), "__self__", None)
    return owner if isinstance(owner, Client) else None


def persisted(tasks: Sequence[Any], rows: Sequence[int | None]) -> Sequence[Any]:
    """Tasks whose results stay where they were made; each is of so many rows, if that is known."""
    found: Sequence[Any] = dask.persist(*tasks)
    if cluster() is not None:
        _watch([futures_of(one)[0] for one in found], rows, "rows", release=False)
    return found


def computed(total: Any, leaves: Sequence[Any], rows: Sequence[int | None], what: str) -> Any:
    """The result of one task, which follows from those of the leaves."""
    client = cluster()
    if client is None:
        return dask.compute(total)[0]
    whole, *parts = client.compute([total, *leaves])
    _watch(parts, rows, what, release=True)
    return whole.result()


def in_order(work: Callable[..., Any], shared: Any, pieces: Iterable[Any]) -> Iterator[Any]:
    """`work(shared, piece)` of every piece, done by the cluster; few are begun before those ahead have come.

    What is shared is sent once, by a task, so that a lost worker does not lose it.
    """
    client = cluster()
    assert client is not None
    held = client.submit(_itself, shared, pure=False)
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


def _itself(one: Any) -> Any:
    return one


def _watch(futures: list[Any], rows: Sequence[int | None], what: str, *, release: bool) -> None:
    """Waits for all, or for the first that fails, which whoever asks for it is told."""
    known = None not in rows
    sizes = {future.key: (size or 0) if known else 1 for future, size in zip(futures, rows, strict=True)}
    told = what if known else what.replace("rows", "partitions")
    waiting = as_completed(futures)
    if release:
        futures.clear()  # an answer that was added up may go
    with progress_bar(told, sum(sizes.values()), rate=True) as advance:
        for future in waiting:
            if future.status != "finished":
                return
            advance(sizes[future.key])
