"""Work on many photographs in several processes, in order, with little of it under way at any time."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Generic, TypeVar

from pippin._runtime.errors import InputError

Tool = TypeVar("Tool")
Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 2  # photographs under way for each process

_tool: Any = None  # in a worker process: what its work is done with
_open = ExitStack()


class Workers(Generic[Tool]):
    """Processes that each open one tool and then call work(tool, item); a single one is this process.

    They are started anew, not forked, and end by themselves when this process is killed.
    """

    def __init__(self, n: int, tool: Callable[[], AbstractContextManager[Tool]]) -> None:
        self.n, self.tool = n, tool
        self._peaks: dict[int, float] = {}
        self._stack = ExitStack()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers[Tool]":
        if self.n > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.n, context, _begin, (self.tool,))
        else:
            self._here = self._stack.enter_context(self.tool())
        return self

    def __exit__(self, *reason: object) -> None:
        self._stack.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    @property
    def megabytes(self) -> float:
        """The most memory that was held, all processes together."""
        return peak_megabytes() + sum(self._peaks.values())

    def map(self, work: Callable[[Tool, Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results, in the order of the items."""
        if self._pool is None:
            yield from (work(self._here, item) for item in items)
            return
        under_way: deque[Future[tuple[int, float, Result]]] = deque()
        try:
            for item in items:
                under_way.append(self._pool.submit(_call, work, item))
                if len(under_way) >= AHEAD * self.n:
                    yield self._result(under_way.popleft())
            while under_way:
                yield self._result(under_way.popleft())
        except BrokenProcessPool as error:
            raise InputError(
                "A worker process was stopped from outside, perhaps for want of memory",
                "run the same command again, with fewer --workers; what is finished is kept",
            ) from error
        finally:
            for future in under_way:
                future.cancel()

    def _result(self, future: Future[tuple[int, float, Result]]) -> Result:
        process, peak, result = future.result()
        self._peaks[process] = peak
        return result


def peak_megabytes() -> float:
    """The most memory this process ever held, 0 where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = (line.split() for line in status.read_text().splitlines())
        return next((int(line[1]) / 1024 for line in lines if line and line[0] == "VmHWM:"), 0.0)
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _begin(tool: Callable[[], AbstractContextManager[Any]]) -> None:
    """Prepares a worker process: an interruption is its parent's business, and so is its end."""
    global _tool
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _tool = _open.enter_context(tool())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _call(work: Callable[[Any, Item], Result], item: Item) -> tuple[int, float, Result]:
    return os.getpid(), peak_megabytes(), work(_tool, item)
