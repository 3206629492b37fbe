"""Runs over many photographs: a journal of the results, from which an interrupted run resumes, and worker processes."""

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeVar

from pippin._runtime.disk import naming_target
from pippin._runtime.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 2  # number of items per process that are computed or queued at a time

_resource: Any = None  # in a worker process: the resource opened by `Workers`
_stack = ExitStack()  # in a worker process: keeps the resource open


class Journal:
    """File of JSON lines with the results of a run: a header that identifies the run, then an entry per finished item.

    `header` and `entries` are read from the file of an interrupted run; without one, they are None and empty. An
    incomplete last line is dropped. If a line is damaged, or `decode` raises an error for it, this line and all later
    ones are dropped.

    Args:
        path: the file.
        decode: converts an entry; raises a LookupError, TypeError or ValueError for an invalid one.

    Raises:
        InputError: the folder of the journal contains a link, through which files elsewhere could be written.
    """

    def __init__(self, path: Path, decode: Callable[[Any], Any]) -> None:
        self.path, self._end = path, 0
        if path.parent.is_dir():
            _refuse_links(path.parent)
        data = path.read_bytes() if path.is_file() else b""
        lines: list[Any] = []
        with suppress(LookupError, TypeError, ValueError, RecursionError):
            for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
                entry = json.loads(line)
                lines.append(decode(entry) if lines else entry)
                self._end += len(line)
        self.header, *self.entries = lines or [None]

    def check_folder(self) -> None:
        """Raise an InputError if the folder of a new journal contains other files."""
        if self.header is None and any(path != self.path for path in self.path.parent.iterdir()):
            sentence = f"Expected --out to be empty or of an earlier run, but {self.path.parent} has other files"
            raise InputError(sentence, "choose another folder")

    @contextmanager
    def open(self, header: Any) -> Iterator["Journal"]:
        """Open the journal to append entries; write `header` first if the file is new."""
        with open(self.path, "r+b" if self._end else "wb", buffering=0) as self._stream:
            self._stream.seek(self._end)
            self._stream.truncate()
            if not self._end:
                self.header = header
                self.append(header)
                os.fsync(self._stream.fileno())
            yield self

    def append(self, entry: Any) -> None:
        """Append an entry as a JSON line."""
        line = json.dumps(entry).encode() + b"\n"
        with naming_target(self.path):
            while line:
                line = line[self._stream.write(line) :]


def _refuse_links(folder: Path) -> None:
    """Raise an InputError if an entry of an output folder is a link."""
    if link := next((path for path in sorted(folder.iterdir()) if path.is_symlink()), None):
        raise InputError(f"Expected --out without links, but {link} is one", "remove it, or choose another folder")


class Workers:
    """Pool of n processes, which open a resource (such as a zip file) once and use it for many items.

    With n = 1 the current process does the work. The processes are spawned, not forked, and end when the current
    process is killed.
    """

    def __init__(self, n: int, open_resource: Callable[[], AbstractContextManager[Any]]) -> None:
        self.n, self.open_resource = n, open_resource
        self._peaks: dict[int, float] = {}
        self._stack = ExitStack()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers":
        if self.n > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.n, context, _begin, (self.open_resource,))
            self._stack.callback(self._pool.shutdown, cancel_futures=True)
        else:
            self._resource = self._stack.enter_context(self.open_resource())
        return self

    def __exit__(self, *reason: object) -> None:
        self._stack.close()

    @property
    def megabytes(self) -> float:
        """Peak memory in megabytes, summed over the current process and all worker processes."""
        return peak_megabytes() + sum(self._peaks.values())

    def map(self, work: Callable[[Any, Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield work(resource, item) for each item in order, with at most AHEAD items per process in progress."""
        if self._pool is None:
            yield from (work(self._resource, item) for item in items)
            return
        pending: deque[Future[tuple[int, float, Result]]] = deque()
        try:
            for item in items:
                pending.append(self._pool.submit(_call, work, item))
                if len(pending) >= AHEAD * self.n:
                    yield self._result(pending.popleft())
            while pending:
                yield self._result(pending.popleft())
        except BrokenProcessPool as error:
            sentence = "A worker process was killed, perhaps because memory was short"
            raise InputError(sentence, "run the same command again with fewer --workers, it resumes") from error
        finally:
            for future in pending:
                future.cancel()

    def _result(self, future: Future[tuple[int, float, Result]]) -> Result:
        process, peak, result = future.result()
        self._peaks[process] = peak
        return result


def peak_megabytes() -> float:
    """Return the peak memory of the current process in megabytes; 0 if the system does not report it."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = (line.split() for line in status.read_text().splitlines())
        return next((int(line[1]) / 1024 for line in lines if line and line[0] == "VmHWM:"), 0.0)
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _begin(open_resource: Callable[[], AbstractContextManager[Any]]) -> None:
    """Initialize a worker process: ignore interrupts, end with the parent process, and open the resource."""
    global _resource
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _resource = _stack.enter_context(open_resource())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _call(work: Callable[[Any, Item], Result], item: Item) -> tuple[int, float, Result]:
    return os.getpid(), peak_megabytes(), work(_resource, item)
