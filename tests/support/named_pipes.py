"""A named pipe that nobody may open: a reader would wait for ever."""

import os
import threading
from contextlib import contextmanager


@contextmanager
def untouched_pipe(path):
    """Makes the pipe; at the end nobody may have opened it. Who does is given an end of file, and so does not wait."""
    os.mkfifo(path)
    opened, over = [], threading.Event()

    def wait_for_readers():
        while not over.is_set():
            os.close(os.open(path, os.O_WRONLY))
            if not over.is_set():
                opened.append(path)

    waiting = threading.Thread(target=wait_for_readers)
    waiting.start()
    try:
        yield path
    finally:
        over.set()
        end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        waiting.join()
        os.close(end)
    assert opened == []
