"""Progress bar, shown after a second and only on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds before the bar is shown


@contextmanager
def progress_bar(what: str, total: int | None, *, done: int = 0, rate: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances the bar by a number of items; `done` is the start, `rate` shows items a second."""
    if not sys.stderr.isatty():
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

    speed = (TextColumn("{task.fields[speed]}"),) if rate else ()
    columns: tuple[ProgressColumn, ...] = (TextColumn(what), BarColumn(), MofNCompleteColumn(), *speed)
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=total, completed=done, speed="")
    began, now = time.monotonic(), 0

    def advance(more: int) -> None:
        nonlocal now
        now += more
        spent = time.monotonic() - began
        bar.update(task, advance=more, speed=f"{now / max(spent, 1e-9):,.0f} a second")
        if not bar.live.is_started and spent > PATIENCE:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()
