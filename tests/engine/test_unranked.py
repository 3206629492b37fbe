"""Scores that look at the best class alone, in windows of lanes: the bits of NumPy."""

import os
import subprocess
import sys

import numpy as np
import pytest

import pippin
from pippin._engine.compiled.lanes import LANES
from pippin._engine.compiled.unranked import LONG
from pippin._engine.compiled.walk import CHUNK
from pippin._theory.scores import coefficients
from support.engines import compiled, members, plain
from support.rows import KINDS, check_bad_row_is_named, made_rows

ROWS = 60
SHALLOW = {
    "ip": pippin.ip(),
    "margin": pippin.margin(),
    "first weighs": pippin.linear(weights=(0.5, 0.0), penalties=(0.0, 0.25)),
    "rest is dear": pippin.linear(weights=(0.0,), penalties=(0.0, 1.0)),
}


def forest(n, n_classes, seed):
    """Shares of a hundred votes: many rows come as close to a threshold as can be, on it."""
    rng = np.random.default_rng(seed)
    votes = np.array([rng.multinomial(100, share) for share in rng.dirichlet(np.full(n_classes, 0.4), n)])
    return votes / 100.0


def frozen(array):
    array.flags.writeable = False
    return array


def same_as_numpy(probs, labels, score):
    n, n_classes = probs.shape
    c, u = coefficients(score, n_classes), np.zeros(n)
    _, scores, suspects = compiled.label_places(probs, labels, c, u)
    _, wanted, _ = plain.label_places(probs, labels, c, u)
    assert suspects == 0
    assert np.array_equal(scores, wanted)
    near = np.quantile(wanted, 0.7, method="lower")
    for threshold in (near, np.nextafter(near, -9), np.nextafter(near, 9), near + 4e-7, wanted.max(), -np.inf, np.inf):
        sizes, found, suspects = members(compiled, probs, c, threshold, u)
        wanted_sizes, wanted_found, _ = members(plain, probs, c, threshold, u)
        assert suspects == 0
        assert np.array_equal(sizes, wanted_sizes)
        assert np.array_equal(found, wanted_found)


@pytest.mark.parametrize("name", SHALLOW)
@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [*KINDS, "forest"])
def test_every_number_of_classes_gives_the_bits_of_numpy(kind, precision, name):
    """Windows that end before, with and after a row, and rows of more than a chunk."""
    for n_classes in (
        *range(2, LANES + 2),
        20,
        2 * LANES - 1,
        2 * LANES,
        2 * LANES + 1,
        50,
        CHUNK - 1,
        CHUNK,
        CHUNK + 1,
        CHUNK + LANES,
        150,
        LONG + 6,
    ):
        n = ROWS + n_classes
        probs = forest(n, n_classes, n) if kind == "forest" else made_rows(kind, n, n_classes, n)
        labels = np.random.default_rng(1).integers(0, n_classes, n)
        same_as_numpy(frozen(probs.astype(precision)), frozen(labels), SHALLOW[name])


@pytest.mark.parametrize("name", SHALLOW)
def test_any_number_of_rows_gives_the_bits_of_numpy(name):
    """From one row on, which may have fewer entries than there are lanes."""
    for n_classes in (2, 3, 7, 12, LANES):
        for n in range(1, LANES + 2):
            probs = made_rows("tied", n, n_classes, n).astype(np.float32)
            same_as_numpy(frozen(probs), frozen(np.arange(n) % n_classes), SHALLOW[name])


def test_which_scores_are_shallow():
    """These, and no other score of the paper."""
    assert {name: coefficients(score, 12).reach for name, score in SHALLOW.items()} == {
        "ip": 0,
        "margin": 1,
        "first weighs": 1,
        "rest is dear": 1,
    }
    for spelling in ("aps", "aps(randomized=False)", "raps", "saps", "saps(randomized=False)", "pip", "repip", "topk"):
        assert coefficients(pippin.parse_score(spelling), 12).reach == 12


@pytest.mark.parametrize("name", SHALLOW)
@pytest.mark.parametrize("row", [0, ROWS - 1, ROWS, ROWS + 40])
@pytest.mark.parametrize("wrong", [np.nan, -0.25, 0.75, np.inf])
def test_a_bad_row_is_named_wherever_it_stands(name, row, wrong):
    """NaN, a negative entry whose row still sums to 1, a sum that is off, or infinity."""
    check_bad_row_is_named(SHALLOW[name], ROWS + 41, row, wrong)


IN_TURN = """
import sys
import numpy as np
import pippin
from pippin._engine.plain import engine as plain
from pippin._engine.compiled import engine as compiled
from pippin._engine.protocol import Bounds
from pippin._theory.scores import coefficients

for n_classes in map(int, sys.argv[1:]):
    probs = np.random.default_rng(n_classes).dirichlet(np.full(n_classes, 0.4), 99).astype(np.float32)
    probs.flags.writeable = False
    c, found = coefficients(pippin.ip(), n_classes), []
    for engine in (compiled, plain):
        sizes = np.zeros(len(probs), dtype=np.int64)
        members, _ = engine.members(probs, c, Bounds(np.full((1, 1), 0.95)), np.zeros(len(probs)), sizes)
        found.append((sizes.tolist(), members.tolist()))
    assert found[0] == found[1], n_classes
"""


def test_what_two_processes_compiled_is_told_apart_in_a_third(tmp_path):
    """Each compiles one of two loops that are made by the same function; the third has both from disk."""
    for sizes in (["20"], ["12"], ["12", "20"]):
        subprocess.run(
            [sys.executable, "-c", IN_TURN, *sizes], env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, check=True
        )


@pytest.mark.parametrize("name", ["ip", "margin"])
def test_a_zero_may_have_a_sign(name):
    """It is as large as one without: the class index says which of them goes first."""
    for n_classes in (5, 12, 20, CHUNK + 6, 2 * CHUNK):
        probs = made_rows("spread", ROWS, n_classes, n_classes).astype(np.float32)
        probs[:, 1::2] = np.where(np.arange(ROWS)[:, None] % 3 == 0, -0.0, 0.0)
        probs[:, 2] = -0.0
        probs /= probs.sum(axis=1, keepdims=True)
        assert np.signbit(probs).any()
        same_as_numpy(frozen(probs), frozen(np.arange(ROWS) % n_classes), SHALLOW[name])
