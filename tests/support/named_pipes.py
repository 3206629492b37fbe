"""Named pipes that no code may open, since a reader would block forever."""

import os
import threading
from contextlib import contextmanager


@contextmanager
def untouched_pipe(path):
    """Make a named pipe, and fail at the end if it was opened; readers get an end of file instead of blocking."""
    os.mkfifo(path)
    opened, finished = [], threading.Event()

    def wait_for_readers():
        while not finished.is_set():
            os.close(os.open(path, os.O_WRONLY))
            if not finished.is_set():
                opened.append(path)

    waiting = threading.Thread(target=wait_for_readers)
    waiting.start()
    try:
        yield path
    finally:
        finished.set()
        end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        waiting.join()
        os.close(end)
    assert opened == []
