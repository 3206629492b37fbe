"""Decorators that compile functions with numba, and removal of outdated machine code from disk.

No other module imports numba.
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

# By default, numba also compiles wrappers for callers in C, which are never used, and in Python, which functions do not
# need if only compiled code calls them. Without wrappers, compilation takes a tenth less time.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_PART_OPTIONS = _OPTIONS | {"no_cpython_wrapper": True}


def sources_digest() -> str:
    """Return the SHA-256 of the version of numba and of all sources that compiled code depends on."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in (*sorted(_FOLDER.glob("*.py")), *(_FOLDER.parents[1] / name for name in _OTHER_SOURCES)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def remove_stale_machine_code() -> None:
    """Remove the machine code in this package if one of its sources has changed.

    numba itself only notices a change in the file of the compiled function. `__pycache__/sources.sha256` holds the
    digest of all sources. If the folder is not writable, or numba stores its cache elsewhere, nothing is removed.
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
    """Compile a function that Python calls, at its first call, and store the machine code on disk."""
    try:
        return cast(F, numba.njit(cache=True, **_OPTIONS)(function))
    except RuntimeError:  # numba has no writable folder for its cache
        return cast(F, numba.njit(**_OPTIONS)(function))


def part(function: F) -> F:
    """Compile a function that only compiled code calls."""
    return cast(F, numba.njit(forceinline=False, **_PART_OPTIONS)(function))


def inlined_part(function: F) -> F:
    """Compile a function that only compiled code calls, and inline it.

    Use it for functions that a loop calls for every row. numba omits reference counting of their arrays only if they
    have a single return, and at most one branch of each `if` contains a loop.
    """
    return cast(F, numba.njit(forceinline=True, **_PART_OPTIONS)(function))


def unordered_part(function: F) -> F:
    """Compile a function whose sums the compiler may reorder (SIMD).

    Do not use it for scores, which must be equal to NumPy's to the last bit.
    """
    return cast(F, numba.njit(fastmath={"reassoc", "nsz"}, **_PART_OPTIONS)(function))
