"""A limit of the system's that meets every write as a full disk does."""

import resource
from contextlib import contextmanager


@contextmanager
def files_of_at_most(size):
    """In this process and those it starts, no file gets longer than that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
