"""Simulation of a full disk by a limit on the size of files."""

import resource
from contextlib import contextmanager


@contextmanager
def files_of_at_most(size):
    """Limit the size of files that this process and its children write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
