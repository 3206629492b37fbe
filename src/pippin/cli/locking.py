"""One run at a time in an output folder: a lock of the system's, which ends with the process however that ends."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pippin._runtime.errors import InputError

LOCK = ".pippin.lock"  # where a folder itself cannot be locked

_mine: set[tuple[int, int]] = set()  # folders that this process has locked: a command may call another


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Holds the folder; an InputError, if another process does."""
    found = os.stat(folder)
    place = (found.st_dev, found.st_ino)
    if place in _mine:
        yield
        return
    with ExitStack() as stack:
        try:
            _lock(folder, stack)
        except (BlockingIOError, PermissionError):
            raise InputError(
                f"Another run is writing into {folder} now", "wait until it has ended, or choose another output folder"
            ) from None
        _mine.add(place)
        stack.callback(_mine.remove, place)
        yield


if sys.platform == "win32":

    def _lock(folder: Path, stack: ExitStack) -> None:
        """Locks a file in the folder, which goes when the stack ends."""
        import msvcrt

        stack.callback((folder / LOCK).unlink, missing_ok=True)
        number = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
        stack.callback(os.close, number)
        msvcrt.locking(number, msvcrt.LK_NBLCK, 1)

else:

    def _lock(folder: Path, stack: ExitStack) -> None:
        """Locks the folder itself, until the stack ends; a disk without locks does without."""
        import fcntl

        number = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, number)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if isinstance(error, BlockingIOError):  # any other: a network's disk may know no locks of folders
                raise
