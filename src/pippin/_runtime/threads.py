"""A small pool of threads that survives forks and never grows past what was asked."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from pippin._runtime.errors import InputError

T = TypeVar("T")

NAME = "pippin-worker"

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def n_threads() -> int:
    """`PIPPIN_NUM_THREADS`, else the number of cores that this process may use."""
    asked = os.environ.get("PIPPIN_NUM_THREADS")
    if asked is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not asked.strip().isdigit() or int(asked) < 1:
        raise InputError(f"Expected PIPPIN_NUM_THREADS to be a whole number of at least 1, got {asked!r}")
    return int(asked)


def run(work: Callable[[int, int], None], pieces: Iterable[tuple[int, int]]) -> None:
    """Calls work(start, stop) for every piece; of several errors the first piece's is raised.

    A worker that calls it does the work itself: the others may all be waiting.
    """
    pieces = list(pieces)
    if len(pieces) == 1 or n_threads() == 1 or threading.current_thread().name.startswith(NAME):
        for start, stop in pieces:
            work(start, stop)
        return
    futures = [_shared_pool().submit(work, start, stop) for start, stop in pieces]
    try:
        for future in futures:
            future.result()
    finally:
        for future in futures:
            future.cancel()


def feed(
    make: Callable[[int, int], T],
    work: Callable[[int, int, T], None],
    pieces: Iterable[tuple[int, int]],
    alone: bool = False,
) -> None:
    """Calls work(start, stop, make(start, stop)) for every piece, making the next one meanwhile.

    For a `make` that holds the interpreter and a `work` that does not; if both hold it, threads
    only get in each other's way, and `alone` does without.
    """
    most = n_threads()
    if alone or most == 1 or threading.current_thread().name.startswith(NAME):
        for start, stop in pieces:
            work(start, stop, make(start, stop))
        return
    futures: deque[Future[None]] = deque()
    try:
        for start, stop in pieces:
            made = make(start, stop)
            if len(futures) == most:
                futures.popleft().result()
            futures.append(_shared_pool().submit(work, start, stop, made))
        for future in futures:
            future.result()
    finally:
        for future in futures:
            future.cancel()


def _shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(n_threads(), thread_name_prefix=NAME)
        return _pool


def _forget_pool() -> None:
    """A forked child has none of its parent's threads."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
