"""Atomic writes of files and folders, checkpoints, and arrays on disk."""

import errno
import io
import os
import secrets
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError

FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def write_whole(path: "str | PathLike[str]", data: bytes, *, lasting: bool = True) -> None:
    """Write the file under another name and rename it, so that it is never half-written.

    If not `lasting`, a power failure may leave an empty file, but a killed process does not.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    with naming_target(target):
        try:
            with open(draft, "wb") as stream:
                stream.write(data)
                stream.flush()
                if lasting:
                    os.fsync(stream.fileno())
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def naming_target(path: Path) -> Iterator[None]:
    """Raise errors of the disk as a sentence that names the target file, not its draft."""
    try:
        yield
    except OSError as error:
        remedy = "free some space, or choose another place" if error.errno in FULL else "choose another place"
        named = type(error)(f"Cannot write {path} ({error.strerror or error}): {remedy}.")
        named.errno = error.errno
        raise named from error


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder to fill, which then replaces the folder of that name as a whole."""
    draft, old = (folder.with_name(f".{folder.name}.{os.getpid()}-{kind}.tmp") for kind in ("new", "old"))
    try:
        with naming_target(folder):
            draft.mkdir(parents=True)
        yield draft
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    if folder.exists():
        os.replace(folder, old)
    os.replace(draft, folder)
    shutil.rmtree(old, ignore_errors=True)


def read_plain(path: Path) -> bytes:
    """Read a file's bytes; anything but a plain file is refused, since reading from a pipe without a writer blocks."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "no plain file", str(path))
    return path.read_bytes()


class SplitCheckpoint:
    """Finished splits on disk: `values[:, :done]` is filled from an earlier, stopped run.

    Without a path nothing is kept. A file of another experiment is refused, not overwritten.
    """

    def __init__(self, path: str | None, fingerprint: str, values: Vector) -> None:
        self.path, self.fingerprint, self.values = path, fingerprint, values
        self.done = 0
        if path is None or not Path(path).exists():
            return
        try:
            with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as kept:
                stored, earlier = str(kept["fingerprint"]), kept["values"]
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is no checkpoint, or is damaged", "delete it to start anew") from error
        if stored != fingerprint:
            what = f"{path} belongs to another run (other data, scores, alpha, fraction or seed)"
            raise InputError(what, "delete it or choose another output folder")
        self.done = min(earlier.shape[1], values.shape[1])
        values[:, : self.done] = earlier[:, : self.done]

    def keep(self, done: int) -> None:
        """Write the first `done` splits."""
        self.done = done
        if self.path is not None:
            buffer = io.BytesIO()
            np.savez(buffer, fingerprint=np.array(self.fingerprint), values=self.values[:, :done])
            write_whole(self.path, buffer.getvalue())


def joined_on_disk(parts: Iterable[NDArray[Any]], kind: type[Any], most: int) -> NDArray[Any]:
    """Concatenate rows as numbers of type `kind`; beyond `most` bytes in an anonymous file.

    >>> import numpy as np
    >>> joined_on_disk(iter([np.eye(2), np.ones((1, 2))]), np.float32, 8).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    held: list[NDArray[Any]] = []
    size, width = 0, 1
    with tempfile.TemporaryFile() as file:  # the map holds it open
        for part in parts:
            rows = np.ascontiguousarray(part, dtype=kind)
            size, width = size + rows.nbytes, rows.shape[1]
            held.append(rows)
            if size > most:
                for block in held:
                    file.write(block.data)
                held.clear()
        if size <= most:
            return np.concatenate([np.empty((0, width), dtype=kind), *held])
        file.flush()
        return np.memmap(file, dtype=kind, mode="r", shape=(size // (width * np.dtype(kind).itemsize), width))


def room_beside(array: NDArray[Any], shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Allocate an array: in an anonymous file if `array` is a memory map, else in memory."""
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    if base is None:
        return np.empty(shape, kind)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=kind, mode="w+", shape=shape)
