"""Atomic writes of files and folders, checkpoints of splits, and memory-mapped arrays."""

import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError

DISK_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def write_atomically(path: "str | PathLike[str]", data: bytes, *, lasting: bool = True) -> None:
    """Write a file under a temporary name and rename it, so that no reader sees a partial file.

    With `lasting=False` the data are not flushed to the device: a killed process still leaves no partial file, but a
    power failure may leave an empty one.
    """
    target = Path(path)
    if not target.name:
        raise InputError(f"Expected the name of a file, got {os.fspath(path)!r}", "name one")
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


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically; bytes of path names that are not UTF-8 are escaped."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="backslashreplace"))


def to_bytes(save: Callable[[io.BytesIO], object]) -> bytes:
    """Return the bytes that `save` writes to a binary file.

    >>> to_bytes(lambda file: file.write(b"content"))
    b'content'
    """
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def file_checksum(path: Path) -> str:
    """Compute the SHA-256 of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def naming_target(path: Path) -> Iterator[None]:
    """Re-raise any OSError with a message that names the target path instead of the temporary one."""
    try:
        yield
    except OSError as error:
        remedy = "free some space, or choose another place" if error.errno in DISK_FULL else "choose another place"
        named = type(error)(f"Cannot write {path} ({error.strerror or error}): {remedy}.")
        named.errno = error.errno
        raise named from error


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, and rename it to `folder` when the `with` block succeeds, replacing an existing one."""
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


def read_regular_file(path: Path) -> bytes:
    """Read the bytes of a regular file; raise OSError for a pipe or device, from which reading could block."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.read_bytes()


class SplitCheckpoint:
    """Checkpoint of an experiment over many splits, stored as a NumPy file.

    `values` has one column per split. If the file exists, its `done` columns are copied into `values[:, :done]`. A file
    with another fingerprint raises an InputError and is not overwritten. With `path=None` nothing is read or written.
    """

    def __init__(self, path: str | None, fingerprint: str, values: Vector) -> None:
        self.path, self.fingerprint, self.values, self.done = path, fingerprint, values, 0
        if path is None or not Path(path).exists():
            return
        try:
            with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as file:
                stored_fingerprint, stored_values = str(file["fingerprint"]), file["values"]
            (rows, n_done, *others), same_type = stored_values.shape, stored_values.dtype == values.dtype
        except Exception as error:  # NumPy raises many exception types for damaged files
            raise InputError(f"{path} is not a checkpoint, or is damaged", "delete it to start again") from error
        if stored_fingerprint != fingerprint:
            what = f"{path} is the checkpoint of another run (other data, scores, alpha, fraction or seed)"
            raise InputError(what, "delete it or choose another output folder")
        if (rows, *others) != (len(values), *values.shape[2:]) or not same_type:
            raise InputError(f"{path} is not a checkpoint, or is damaged", "delete it to start again")
        self.done = min(n_done, values.shape[1])
        values[:, : self.done] = stored_values[:, : self.done]

    def save(self, done: int) -> None:
        """Write the first `done` columns of `values`."""
        self.done = done
        if self.path is not None:
            arrays: dict[str, Any] = {"fingerprint": np.array(self.fingerprint), "values": self.values[:, :done]}
            write_atomically(self.path, to_bytes(partial(np.savez, **arrays)))


def concatenate_on_disk(parts: Iterable[NDArray[Any]], kind: type[Any], most: int) -> NDArray[Any]:
    """Concatenate blocks of rows as numbers of type `kind`; results above `most` bytes are memory-mapped files.

    >>> import numpy as np
    >>> concatenate_on_disk(iter([np.eye(2), np.ones((1, 2))]), np.float32, 8).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    in_memory: list[NDArray[Any]] = []
    size, width = 0, 1
    with tempfile.TemporaryFile() as file:  # a memory map of it remains valid after this block
        for part in parts:
            rows = np.ascontiguousarray(part, dtype=kind)
            size, width = size + rows.nbytes, rows.shape[1]
            in_memory.append(rows)
            if size > most:
                for block in in_memory:
                    file.write(block.data)
                in_memory.clear()
        if size <= most:
            return np.concatenate([np.empty((0, width), dtype=kind), *in_memory])
        file.flush()
        return np.memmap(file, dtype=kind, mode="r", shape=(size // (width * np.dtype(kind).itemsize), width))


def allocate_like(array: NDArray[Any], shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Allocate an array where `array` is stored: in a memory-mapped temporary file, or else in memory."""
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    if base is None:
        return np.empty(shape, kind)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=kind, mode="w+", shape=shape)
