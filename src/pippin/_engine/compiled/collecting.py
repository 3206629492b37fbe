"""No garbage is collected while a loop is compiled.

A compiler makes millions of small objects that refer to each other, and most of them stay until it is done: to look
through them again and again was an eighth of its time.
"""

import gc
from typing import Any

import numba.core.event as events


class Pause(events.Listener):
    """Pauses the collector from the beginning to the end of a compilation; numba has only one at a time."""

    def __init__(self) -> None:
        self._depth, self._was_on = 0, False

    def on_start(self, event: Any) -> None:
        """A loop of ours is compiled, or what it calls."""
        if self._depth == 0:
            if not event.data["dispatcher"].py_func.__module__.startswith("pippin."):
                return
            self._was_on = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """The end of the outermost ends the pause."""
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0 and self._was_on:
            gc.enable()


def pause_while_compiling() -> None:
    """From now on."""
    register: Any = events.register
    register("numba:compile", Pause())
