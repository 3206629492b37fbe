"""Worker processes: results in order, few items in progress, and one error message for a killed worker."""

import os

import pytest

from pippin.images import batch
from pippin.images.batch import Workers
from pippin.images.we3ds import find_download


def double(read, item):
    return 2 * item


def die(read, item):
    os._exit(1)


@pytest.mark.parametrize("n", [1, 2])
def test_few_items_are_in_progress(n, photographs):
    """Results are in order, and at most AHEAD items per process are taken in advance."""
    taken = []

    def items():
        for i in range(40):
            taken.append(i)
            yield i

    with Workers(n, find_download(photographs[0]).open) as crew:
        for i, result in enumerate(crew.map(double, items())):
            assert result == 2 * i
            assert len(taken) - i <= batch.AHEAD * n
        assert crew.megabytes > 10


def test_a_killed_worker_is_one_error_message(photographs):
    with (
        Workers(2, find_download(photographs[0]).open) as crew,
        pytest.raises(ValueError, match="run the same command"),
    ):
        list(crew.map(die, range(5)))
