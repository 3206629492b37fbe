"""Worker processes: results in order, little under way at a time, and a death told in one sentence."""

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
def test_little_is_under_way_at_any_time(n, photographs):
    """Results come in order, and no more is taken from the items than the processes can use."""
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


def test_a_worker_that_dies_is_one_sentence(photographs):
    with (
        Workers(2, find_download(photographs[0]).open) as crew,
        pytest.raises(ValueError, match="run the same command"),
    ):
        list(crew.map(die, range(5)))
