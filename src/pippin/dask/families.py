"""Families of scores that were registered here go along with the work: a worker need not know their module."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from threading import Lock
from typing import Any

import cloudpickle

from pippin._runtime.errors import InputError
from pippin._theory.formula import FAMILIES, OURS
from pippin._theory.spelling import register

_lock = Lock()
_known = b""  # what was registered last on behalf of somebody who asked


def knowing(work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, which first registers what is registered here where it runs."""
    own = {name: family for name, family in FAMILIES.items() if name not in OURS}
    if not own:
        return work
    modules = {getattr(family.coefficients, "__module__", None) for family in own.values()} - {None, "__main__"}
    with ExitStack() as stack:
        for module in (sys.modules[name] for name in modules if name in sys.modules):
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        packed = cloudpickle.dumps(own)
    return partial(_knowing, packed, work)


def _knowing(packed: bytes, work: Callable[..., Any], *given: Any) -> Any:
    global _known
    with _lock:
        if packed != _known:
            try:
                own = cloudpickle.loads(packed)
            except ImportError as error:
                raise InputError(
                    f"A worker cannot import what a score of yours needs ({error})", "install it on the workers too"
                ) from error
            for name, family in own.items():
                register(name, family)
            _known = packed
    return work(*given)
