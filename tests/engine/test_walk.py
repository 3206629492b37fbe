"""Sorting and choosing in compiled loops, against NumPy."""

import numba
import numpy as np
import pytest

from pippin._engine.compiled import sorting, walk
from pippin._engine.compiled.sorting import MANY, SEVERAL, smallest

# Parts of loops have no door to Python of their own.
sort_down = numba.njit(lambda values, classes: sorting.sort_down(values, classes))
is_broken = numba.njit(lambda row: walk.is_broken(row))


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 2, SEVERAL, SEVERAL + 1, 16, 17, 40, MANY, MANY + 1, 3000])
@pytest.mark.parametrize("kind", ["spread", "tied", "equal", "tiny"])
def test_sorting_downwards_keeps_ties_in_order(n, kind, precision):
    """Few by insertion, several by counting, many by digits: all are what a stable sort gives."""
    rng = np.random.default_rng(n)
    values = {
        "spread": np.exp(rng.normal(-7, 4, n)),
        "tied": rng.integers(0, 9, n) / 8,
        "equal": np.full(n, 0.25),
        "tiny": rng.integers(0, 3, n) * np.finfo(precision).smallest_subnormal * rng.choice([-0.0, 1.0], n),
    }[kind].astype(precision)
    classes = np.arange(n, dtype=np.int32)
    wanted = np.argsort(-values, kind="stable")
    expected = values[wanted]
    sort_down(values, classes)
    assert np.array_equal(classes, wanted)
    assert np.array_equal(values, expected)


@pytest.mark.parametrize("order", ["random", "sorted", "pipe", "equal"])
def test_the_smallest_is_what_sorting_gives(order):
    """At every place, whatever the order."""
    values = np.random.default_rng(0).integers(0, 40, 301) / 8
    if order == "sorted":
        values.sort()
    elif order == "pipe":
        values = np.concatenate([np.sort(values)[::2], np.sort(values)[1::2][::-1]])
    elif order == "equal":
        values[:] = np.inf
    wanted = np.sort(values)
    assert [smallest(values.copy(), k) for k in range(301)] == wanted.tolist()


@pytest.mark.parametrize("wrong", [-1e-30, np.nan, -np.inf])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_a_row_with_an_entry_that_cannot_be_ranked_is_broken(wrong, precision):
    """Wherever it stands; zero of either sign and one are fine."""
    row = np.zeros(70, dtype=precision)
    row[5], row[6] = 1, -0.0
    assert not is_broken(row)
    for k in (0, 6, 63, 69):
        broken = row.copy()
        broken[k] = wrong
        assert is_broken(broken)
