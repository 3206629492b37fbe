"""How loops are compiled: once, kept on disk under a stamp of every source that they are made from.

Importing this module imports numba.
"""

import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.core.compiler_lock
import numpy as np

import pippin._engine.protocol
import pippin._inputs.rows
import pippin._theory.betting
import pippin._theory.bins
import pippin._theory.formula
import pippin._theory.policy
from pippin._engine.compiled.cache import SafeCache
from pippin._engine.compiled.linking import part_compiler
from pippin._runtime.collecting import no_collecting
from pippin._theory.formula import score_at

F = TypeVar("F", bound=Callable[..., Any])

if hasattr(os, "register_at_fork"):  # a child must not begin with a lock that a thread of its parent held
    _compiling = numba.core.compiler_lock.global_compiler_lock._lock
    os.register_at_fork(
        before=_compiling.acquire, after_in_parent=_compiling.release, after_in_child=_compiling.release
    )

EVERYWHERE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
NONE = cast(int, np.int64(0))  # to start counting with: a bare 0 would have loops compiled twice, for it and for int64
BEST, NEXT = NONE, cast(int, np.int64(1))  # the first two ranks, for the same reason


def compiled(function: F, **options: Any) -> F:
    """Compiles a loop at its first call and keeps the result on disk, where a folder can be written.

    numba's cache looks at the function's own file only; ours depend on each other, so
    what is kept bears the stamp of all of them.
    """
    options = {**EVERYWHERE, **options}
    try:
        made = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no writable folder for its cache
        made = numba.njit(**options)(function)
    if hasattr(made._cache, "_cache_file"):
        made._cache = SafeCache(made._cache, _sources())
    made.compile = no_collecting()(made.compile)
    return cast(F, made)


@lru_cache(maxsize=1)
def _sources() -> str:
    """A stamp of everything that the compiled loops are made from."""
    digest = hashlib.sha256(numba.__version__.encode())
    theory = (pippin._theory.formula, pippin._theory.policy, pippin._theory.betting, pippin._theory.bins)
    others = (*theory, pippin._inputs.rows, pippin._engine.protocol)
    for path in (*sorted(Path(__file__).parent.glob("*.py")), *(Path(str(module.__file__)) for module in others)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def loop(function: F) -> F:
    """Compiles a loop that works in the arrays it is given and makes none.

    It counts no references to them: that would be most of what a short row costs, and of what is compiled.
    """
    return compiled(function, _nrt=False)


def part(function: F, **options: Any) -> F:
    """Compiles a part of loops, which only they call, and which is kept only within them: it has no door for Python.

    It is not copied into its callers unless it says so itself: what numba is not told, it takes from the caller.
    """
    options = {**EVERYWHERE, "no_cpython_wrapper": True, "_nrt": False, "forceinline": False, **options}
    return cast(F, numba.njit(pipeline_class=part_compiler, **options)(function))


def making(function: F) -> F:
    """The same for a part that makes arrays of its own."""
    return part(function, _nrt=True)


def inlined(function: F) -> F:
    """Compiles a step of a loop into whoever calls it."""
    return part(function, forceinline=True)


compiled_score_at = part(score_at)


@making
def doubled(array: Any) -> Any:
    wider = np.zeros(2 * array.size, array.dtype)
    for i in range(array.size):
        wider[i] = array[i]
    return wider
