"""Progress bar for terminals, shown if a task takes longer than a second."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

DELAY = 1.0  # seconds before the bar is shown


@contextmanager
def progress_bar(what: str, total: int | None, *, done: int = 0, rate: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances the bar by a number of items.

    `done` is the number of items finished at the start. `rate` adds the number of items per second to the bar. Without
    a terminal on stderr, the function does nothing.
    """
    if not sys.stderr.isatty():
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

    speed = (TextColumn("{task.fields[speed]}"),) if rate else ()
    columns: tuple[ProgressColumn, ...] = (TextColumn(what), BarColumn(), MofNCompleteColumn(), *speed)
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=total, completed=done, speed="")
    start, finished = time.monotonic(), 0

    def advance(more: int) -> None:
        nonlocal finished
        finished += more
        elapsed = time.monotonic() - start
        bar.update(task, advance=more, speed=f"{finished / max(elapsed, 1e-9):,.0f} per second")
        if not bar.live.is_started and elapsed > DELAY:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()
