"""Watching of a folder in which photographs arrive: which files are complete, and which have changed.

A file is processed when its size and modification time are equal in two scans. If it turns out to end too early, it is
processed again after each change, and finally when it has not changed for the settle time.
"""

import os
import struct
from collections.abc import Iterator
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

from pippin.images.training.folder import ENDINGS

UNREAD = {".gif", ".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".raf"}
PHOTOGRAPHS = ENDINGS | UNREAD  # endings of photographs; those of other formats are listed as skipped
DRAFTS = {".part", ".partial", ".tmp", ".temp", ".crdownload", ".filepart"}  # endings of files that are still written
RESCAN = 10.0  # seconds between two scans of a folder whose modification time does not change
RECENT = 2.0  # seconds after a change for which a folder is listed in every scan, since some file systems round times
RECHECKED = 256  # maximum number of processed files whose size and time are read again in one scan

JPEG, PNG, RIFF, BMP = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF", b"BM"
PNG_END = b"IEND\xae\x42\x60\x82"


class FileState(NamedTuple):
    """Size, modification time in nanoseconds and inode of a file, by which changes of its content are noticed."""

    size: int
    time: int
    inode: int


def is_whole(data: bytes) -> bool:
    """Return True if the content of an image file has the end that its format prescribes, False if unknown.

    JPEG ends with a marker and PNG with a chunk; WebP and BMP begin with their length. TIFF has no end.

    >>> is_whole(JPEG + b"pixels"), is_whole(JPEG + b"pixels" + bytes.fromhex("ffd9"))
    (False, True)
    """
    if data.startswith(JPEG):
        return data.rstrip(b"\0").endswith(b"\xff\xd9")
    if data.startswith(PNG):
        return PNG_END in data[-64:]
    if data.startswith(RIFF) and len(data) >= 8:
        return len(data) >= 8 + int(struct.unpack_from("<I", data, 4)[0])
    if data.startswith(BMP) and len(data) >= 6:
        return len(data) >= int(struct.unpack_from("<I", data, 2)[0]) > 0
    return False


def is_photograph(name: str) -> bool:
    """Return True for the file name of a photograph that is neither hidden nor still being written.

    >>> [is_photograph(name) for name in ("a.jpg", ".a.jpg", "a.jpg.part", "a.part.jpg", "notes.txt")]
    [True, False, False, False, False]
    """
    if name.startswith("."):
        return False
    endings = ["." + part for part in name.lower().split(".")[1:]]
    return (
        not name.startswith(".") and bool(endings) and endings[-1] in PHOTOGRAPHS and not DRAFTS.intersection(endings)
    )


class _Pending(NamedTuple):
    state: FileState
    since: float  # time of the scan that saw this state first
    offered: bool


class _Folder(NamedTuple):
    time: int  # modification time at the last scan
    changed: float  # time of the scan that saw this modification time first
    scanned: float


class Arrivals:
    """Photographs that arrive in a folder and its sub-folders.

    `due` lists the files to process now, and `done` marks a file as processed. A processed file whose size, time or
    inode changes is a new photograph.

    The cost of a scan without arrivals is bounded: a folder is listed again only after a change, and a scan reads the
    states of at most RECHECKED processed files.

    Args:
        folder: the folder.
        settle: seconds after which an unchanged file is final, although its end is missing or it cannot be decoded.
    """

    def __init__(self, folder: str | PathLike[str], settle: float) -> None:
        self._settle = settle
        self._folders: dict[str, _Folder | None] = {fspath(folder): None}
        self._pending: dict[str, _Pending] = {}
        self._done: dict[str, FileState] = {}
        self._recheck: Iterator[str] = iter(())

    def due(self, now: float) -> list[tuple[Path, bool]]:
        """Scan the folder at the time `now` (in seconds), and list the files to process, sorted by path.

        The second value of each pair is True if the file has been unchanged for the settle time. The caller tries to
        process each file. If this fails for a file with True, it reports the file and calls `done`; one with False may
        still be incomplete, and is listed again.
        """
        for folder in list(self._folders):
            self._scan(folder, now)
        files: list[tuple[Path, bool]] = []
        for path in sorted(self._pending):
            state, known = _state(path), self._pending[path]
            if state is None:
                del self._pending[path]
            elif state != known.state:
                self._pending[path] = _Pending(state, now, False)
            elif now - known.since >= self._settle:
                files.append((Path(path), True))
            elif not known.offered and now > known.since:
                self._pending[path] = known._replace(offered=True)
                files.append((Path(path), False))
        self._recheck_done(now)
        return files

    def done(self, path: Path) -> None:
        """Mark a file that `due` listed as processed, in the state in which it was listed."""
        if (pending := self._pending.pop(fspath(path), None)) is not None:
            self._done[fspath(path)] = pending.state

    def _scan(self, folder: str, now: float) -> None:
        """List a folder if it may have changed, and add its new photographs to the pending files."""
        last = self._folders[folder]
        try:
            time = os.stat(folder).st_mtime_ns
            if last is not None and last.time == time and now - last.changed > RECENT and now - last.scanned < RESCAN:
                return
            with os.scandir(folder) as scan:
                new = [entry for entry in scan if entry.path not in self._done and entry.path not in self._pending]
        except OSError:  # removed, or a network drive that is away for a moment
            return
        self._folders[folder] = _Folder(time, now if last is None or last.time != time else last.changed, now)
        for entry in new:
            if is_photograph(entry.name) and (state := _state(entry.path)) is not None:
                self._pending[entry.path] = _Pending(state, now, False)
            elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                self._folders.setdefault(entry.path, None)

    def _recheck_done(self, now: float) -> None:
        """Read the states of some processed files, and make those that have changed pending again."""
        paths = list(islice(self._recheck, RECHECKED))
        if len(paths) < RECHECKED:
            self._recheck = iter(list(self._done))
        for path in paths:
            state, known = _state(path), self._done.get(path)
            if state != known and self._done.pop(path, None) is not None and state is not None:
                self._pending[path] = _Pending(state, now, False)


def _state(path: str) -> FileState | None:
    """Return the state of a file; None if there is no such file, or the path is a folder or pipe."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    is_regular = (found.st_mode & 0o170000) == 0o100000
    return FileState(found.st_size, found.st_mtime_ns, found.st_ino) if is_regular else None
