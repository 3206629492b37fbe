"""Where compiled loops are kept: files that are looked at before they are believed.

numba trusts what it finds, and numbers the files of a loop's signatures by an index that two processes may write at the
same time, so that one would find the other's code. Here every signature has a file of its own, which says whose it is.
It begins with the stamp of the sources and a checksum of what follows. What bears another stamp is out of date; what is
damaged is told once and written anew; where nothing can be written, loops are compiled in memory.
"""

import hashlib
import pickle
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile
from numba.core.serialize import dumps

from pippin._runtime.warn import warn

_told: set[str] = set()


class DamagedError(Exception):
    """A file does not hold what was written."""


class CheckedFiles(IndexDataCacheFile):
    """A file for each signature of one loop; a key is the signature, the processor, and hashes of bytecode."""

    def __init__(self, folder: str, base: str, stamp: str) -> None:
        super().__init__(folder, base, stamp)  # type: ignore[no-untyped-call]  # numba has no types
        self._base = Path(folder) / base

    def load(self, key: Any) -> Any:
        """What was kept for a key; None, if it is not there, or was made from other sources."""
        path = self._path(key)
        try:
            stamp, _, rest = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        if stamp != self._source_stamp.encode():
            return None
        digest, content = rest[:32], rest[32:]
        if hashlib.sha256(content).digest() != digest:
            raise DamagedError(f"{path} is damaged")
        own, data = pickle.loads(content)  # noqa: S301 - just what was written here
        return data if own == key else None

    def save(self, key: Any, data: Any) -> None:
        """Keeps it, in place of what was there from other sources."""
        content: bytes = dumps((key, data))  # type: ignore[no-untyped-call]  # numba has no types
        with self._open_for_write(str(self._path(key))) as stream:
            stream.write(self._source_stamp.encode() + b"\n" + hashlib.sha256(content).digest() + content)

    def _path(self, key: Any) -> Path:
        signature, processor, _ = key
        digest = hashlib.sha256(f"{signature} {processor}".encode()).hexdigest()[:16]
        return self._base.with_name(f"{self._base.name}.{digest}.nbc")


class SafeCache:
    """numba's cache of one loop; where it fails, the loop is compiled, and kept if that is possible."""

    def __init__(self, kept: Any, stamp: str) -> None:
        kept._cache_file = CheckedFiles(kept._cache_path, f"{kept._impl.filename_base}.pippin", stamp)
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled loop; None, if it is not there or cannot be used."""
        try:
            return self._kept.load_overload(signature, context)
        except Exception as error:  # whatever a damaged file makes its readers raise
            self._tell(f"cannot be used ({error}): they are compiled again, and written anew")
            return None

    def save_overload(self, signature: Any, made: Any) -> None:
        """Keeps a loop, if that is possible."""
        try:
            self._kept.save_overload(signature, made)
        except Exception as error:
            self._tell(f"cannot be written ({error}): they are compiled in every process")

    def _tell(self, what: str) -> None:
        kind = what.partition(" (")[0]
        if kind not in _told:
            _told.add(kind)
            warn(f"The compiled loops in {self._kept.cache_path} {what}.")
