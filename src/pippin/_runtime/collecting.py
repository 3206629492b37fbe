"""The garbage collector, held back while nothing is thrown away."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collecting() -> Iterator[None]:
    """No garbage is collected meanwhile: most of what a compiler makes stays, and to look through it takes long."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
