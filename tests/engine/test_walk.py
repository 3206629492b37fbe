"""Sorting and choosing in compiled loops, against NumPy."""

import numba
import numpy as np
import pytest

from pippin._engine.compiled import sorting, walk
from pippin._engine.compiled.handfuls import HANDFUL
from pippin._engine.compiled.sorting import MANY, smallest

# Parts of loops have no door to Python of their own.
sort_down = numba.njit(lambda ranking, size, at: sorting.sort_down(sorting.Ranking(*ranking), size, at))
look = numba.njit(lambda flat, start, size: walk.look(walk.Row(flat, start, size)))
is_broken = numba.njit(lambda row: walk.is_broken(walk.look(walk.Row(row, 0, row.size))))


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 2, HANDFUL - 1, HANDFUL, HANDFUL + 1, 2 * HANDFUL, 43, MANY, MANY + 1, 3000])
@pytest.mark.parametrize("kind", ["spread", "tied", "equal", "tiny"])
def test_sorting_downwards_keeps_ties_in_order(n, kind, precision):
    """Few by counting, many by digits: all are what a stable sort gives, and what stands before them stays."""
    rng = np.random.default_rng(n)
    values = {
        "spread": np.exp(rng.normal(-7, 4, n)),
        "tied": rng.integers(0, 9, n) / 8,
        "equal": np.full(n, 0.25),
        "tiny": rng.integers(0, 3, n) * np.finfo(precision).smallest_subnormal * rng.choice([-0.0, 1.0], n),
    }[kind].astype(precision)
    raw = np.concatenate([values, np.full(HANDFUL, 7, precision)])
    wanted, found, classes = (
        np.argsort(-values, kind="stable"),
        np.full(n + 3 + HANDFUL, 9, precision),
        np.full(n + 3 + HANDFUL, 9, np.int32),
    )
    sort_down((found, classes, raw, np.arange(n + HANDFUL, dtype=np.int32)), n, 3)
    assert np.array_equal(classes[: n + 3], [9, 9, 9, *wanted])
    assert np.array_equal(found[: n + 3], [9, 9, 9, *values[wanted]])


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


@pytest.mark.parametrize("wrong", [-1e-30, np.nan, -np.inf, np.inf])
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


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_one_look_tells_sum_and_extremes(precision):
    """Of a row anywhere in an array, which may be shorter than the lanes; of tied best ones, both are told.

    Whether an entry is negative is told too, wherever it stands, and nothing of those that stand around the row.
    """
    rng = np.random.default_rng(0)
    for n_entries, size in [
        (9, 4),
        (9, 9),
        (200, 2),
        (200, 15),
        (200, 16),
        (200, 17),
        (200, 50),
        (200, 64),
        (200, 200),
    ]:
        flat = (rng.integers(0, 40, n_entries) / 64).astype(precision)
        for start in {0, (n_entries - size) // 2, n_entries - size}:
            row = np.sort(flat[start : start + size])
            assert look(flat, start, size) == (row.sum(), False, row[-1], row[-2])
            for k in {0, size // 2, size - 1}:
                wrong = np.full(n_entries, -1, precision)
                wrong[start : start + size] = 0
                assert not look(wrong, start, size)[1]
                wrong[start + k] = -1e-30
                assert look(wrong, start, size)[1]
