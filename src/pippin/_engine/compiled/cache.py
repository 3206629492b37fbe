"""Where compiled loops are kept: files that are looked at before they are believed.

numba trusts what it finds. Here every file begins with the stamp of the sources, and with a
checksum of what follows. What bears another stamp is out of date; what is damaged is told once
and written anew; where nothing can be written, loops are compiled in memory.
"""

import hashlib
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile
from numba.core.serialize import dumps

from pippin._runtime.warn import warn

_told: set[str] = set()


class DamagedError(Exception):
    """A file does not hold what was written."""


class CheckedFile(IndexDataCacheFile):
    """The index of one loop's signatures, and a file for each."""

    def _read(self, path: str) -> Any:
        """What is kept there; None, if it was made from other sources."""
        stamp, _, rest = Path(path).read_bytes().partition(b"\n")
        if stamp != self._source_stamp.encode():
            return None
        digest, content = rest[:32], rest[32:]
        if hashlib.sha256(content).digest() != digest:
            raise DamagedError(f"{path} is damaged")
        return pickle.loads(content)  # noqa: S301 - just what was written here

    def _write(self, path: str, value: Any) -> None:
        content: bytes = dumps(value)  # type: ignore[no-untyped-call]  # numba has no types
        with self._open_for_write(path) as stream:
            stream.write(self._source_stamp.encode() + b"\n" + hashlib.sha256(content).digest() + content)

    def _load_index(self) -> dict[Any, str]:
        with suppress(FileNotFoundError):
            return self._read(self._index_path) or {}
        return {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, overloads)

    def _load_data(self, name: str) -> Any:
        found = self._read(f"{self._cache_path}/{name}")
        if found is None:
            raise FileNotFoundError(name)
        return found

    def _save_data(self, name: str, data: Any) -> None:
        self._write(f"{self._cache_path}/{name}", data)


class SafeCache:
    """numba's cache of one loop; where it fails, the loop is compiled, and kept if that is possible."""

    def __init__(self, kept: Any, stamp: str) -> None:
        checked: Any = CheckedFile
        kept._cache_file = checked(kept._cache_path, f"{kept._impl.filename_base}.pippin", stamp)
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled loop; None, if it is not there or cannot be used."""
        try:
            return self._kept.load_overload(signature, context)
        except Exception as error:  # whatever a damaged file makes its readers raise
            self._tell(f"cannot be used ({error}): they are compiled again, and written anew")
            with suppress(Exception):
                self._kept.flush()
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
