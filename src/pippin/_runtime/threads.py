"""Thread pool shared by all computations; a forked child process starts its own."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from pippin._runtime.errors import InputError, collected_warnings, warn

NAME = "pippin-worker"

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def n_threads() -> int:
    """Return the value of `PIPPIN_NUM_THREADS`, or by default the number of cores available to this process."""
    value = os.environ.get("PIPPIN_NUM_THREADS")
    if value is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not value.strip().isdigit() or int(value) < 1:
        raise InputError(f"Expected PIPPIN_NUM_THREADS to be a whole number of at least 1, got {value!r}")
    return int(value)


def run(work: Callable[[int, int], None], pieces: Iterable[tuple[int, int]]) -> None:
    """Call work(start, stop) for every piece (start, stop) in parallel; raise the error of the first failed piece.

    Warnings of all pieces are emitted by the calling thread, each message once.

    A call from a worker thread runs its pieces one after another in that thread, since waiting for other workers could
    deadlock.
    """
    pieces = list(pieces)
    if len(pieces) == 1 or n_threads() == 1 or threading.current_thread().name.startswith(NAME):
        for start, stop in pieces:
            work(start, stop)
        return
    notes: list[str] = []

    def work_quietly(start: int, stop: int) -> None:
        with collected_warnings(notes):
            work(start, stop)

    futures = [_shared_pool().submit(work_quietly, start, stop) for start, stop in pieces]
    try:
        for future in futures:
            future.result()
    finally:
        for future in futures:
            future.cancel()
    for note in dict.fromkeys(notes):
        warn(note)


def _shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(n_threads(), thread_name_prefix=NAME)
        return _pool


def _reset_pool() -> None:
    """Discard the pool in a forked child process, where the parent's threads do not exist."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_pool)
