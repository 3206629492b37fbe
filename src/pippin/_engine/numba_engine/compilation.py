"""Compilation options that all loops share, and the validity of the machine code on disk.

Only this module imports numba.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from pippin._runtime.disk import write_atomically

F = TypeVar("F", bound=Callable[..., Any])

_FOLDER = Path(__file__).parent
_OTHER_SOURCES = (
    "_engine/protocol.py",
    "_validation/rows.py",
    "_theory/formula.py",
    "_theory/martingale.py",
    "_theory/policy.py",
)

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def sources_digest() -> str:
    """Return the SHA-256 of all sources that loops are made from, and of the version of numba."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in (*sorted(_FOLDER.glob("*.py")), *(_FOLDER.parents[1] / name for name in _OTHER_SOURCES)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def remove_stale_machine_code() -> None:
    """Remove the machine code in this package if a source has changed since it was made.

    `__pycache__/sources.sha256` holds the digest of those sources. A folder that cannot be written is left unchanged,
    as is a cache that numba keeps elsewhere: there, only a change of a loop's own file renews its machine code.
    """
    cache = _FOLDER / "__pycache__"
    with suppress(OSError):
        stamp, digest = cache / "sources.sha256", sources_digest().encode()
        if not stamp.exists() or stamp.read_bytes() != digest:
            cache.mkdir(exist_ok=True)
            for path in (*cache.glob("*.nbi"), *cache.glob("*.nbc")):
                path.unlink(missing_ok=True)
            write_atomically(stamp, digest, lasting=False)


remove_stale_machine_code()


def entry_point(function: F) -> F:
    """Compile a loop that Python calls, at its first call, and keep the machine code on disk.

    numba compiles a loop again when its own file has changed; `remove_stale_machine_code` covers the other files that
    the loop is made from.
    """
    try:
        return cast(F, numba.njit(cache=True, **_OPTIONS)(function))
    except RuntimeError:  # numba found no writable folder for its cache
        return cast(F, numba.njit(**_OPTIONS)(function))


def part(function: F) -> F:
    """Compile a function that only compiled code calls."""
    return cast(F, numba.njit(forceinline=False, **_OPTIONS)(function))


def inlined_part(function: F) -> F:
    """Compile a function that only compiled code calls, and copy its machine code into its callers.

    Use it for functions that a loop calls for every row. numba removes their reference counts of arrays only if the
    function has a single return, and at most one branch of each `if` contains a loop.
    """
    return cast(F, numba.njit(forceinline=True, **_OPTIONS)(function))


def unordered_part(function: F) -> F:
    """Compile a function whose sums may be reordered (SIMD): for validation only, never for a score."""
    return cast(F, numba.njit(fastmath={"reassoc", "nsz"}, **_OPTIONS)(function))
