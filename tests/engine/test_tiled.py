"""Rows with few classes, ranked many at a time: the bits of NumPy for every number of classes."""

import numpy as np
import pytest

import pippin
from pippin._engine.compiled.tiled import LINE, MOST
from pippin._theory.scores import coefficients
from support.engines import compiled, members, plain
from support.rows import KINDS, check_bad_row_is_named, made_rows
from support.scores import EVERY_SCORE

ROWS = LINE // 8  # of a tile in float64
KINDS_AND_ZEROS = (*KINDS, "negative zeros", "subnormal")


def rows_of(kind, n, n_classes, precision):
    """Rows that fill tiles and a part of one, with labels at any rank."""
    if kind == "negative zeros":
        probs = made_rows("zeros", n, n_classes, n)
        probs[:, ::2] = np.where(probs[:, ::2] == 0, -0.0, probs[:, ::2])
    elif kind == "subnormal":
        probs = made_rows("certain", n, n_classes, n) + np.random.default_rng(n).integers(0, 3, (n, n_classes)) * 1e-42
    else:
        probs = made_rows(kind, n, n_classes, n)
    probs = probs.astype(precision)
    labels = np.random.default_rng(1).integers(0, n_classes, n)
    probs.flags.writeable = labels.flags.writeable = False
    return probs, labels


def check_bits(probs, labels, c, thresholds):
    """Places, scores and sets under the quantiles of the scores, as in NumPy."""
    n = len(probs)
    u = np.random.default_rng(n).random(n)
    places, scores, suspects = compiled.label_places(probs, labels, c, u)
    wanted_places, wanted, _ = plain.label_places(probs, labels, c, u)
    assert suspects == 0
    assert np.array_equal(scores, wanted)
    assert np.array_equal(places.p, wanted_places.p)
    alone = np.empty(n)
    assert compiled.label_scores(probs, labels, c, u, alone) == 0
    assert np.array_equal(alone, wanted)
    for threshold in (np.median(wanted), wanted.max(), *thresholds):
        sizes, found, suspects = members(compiled, probs, c, threshold, u)
        wanted_sizes, wanted_found, _ = members(plain, probs, c, threshold, u)
        assert suspects == 0
        assert np.array_equal(sizes, wanted_sizes)
        assert np.array_equal(found, wanted_found)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS_AND_ZEROS)
def test_every_number_of_few_classes_gives_the_bits_of_numpy(kind, precision):
    """Two classes to one more than are few; more rows than a tile holds; sets, places and scores."""
    itemsize = np.dtype(precision).itemsize
    for n_classes in range(2, MOST[itemsize] + 2):
        probs, labels = rows_of(kind, LINE // itemsize + 3 * n_classes, n_classes, precision)
        score = EVERY_SCORE[n_classes % len(EVERY_SCORE)]
        for c in (coefficients(score, n_classes), coefficients(pippin.pip(), n_classes)):
            check_bits(probs, labels, c, (-np.inf, np.inf))


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 7, 12, 15, 16, 17, 33])
def test_every_number_of_few_rows_gives_the_bits_of_numpy(n_classes, precision):
    """Rows are turned sixteen at a time: those at the end of an array may be fewer, or too short for a window."""
    for n in range(1, 50):
        check_bits(*rows_of("spread", n, n_classes, precision), coefficients(pippin.pip(), n_classes), ())


@pytest.mark.parametrize("score", ["ip", "repip", "socop"])
@pytest.mark.parametrize("row", [0, ROWS - 1, ROWS, ROWS + 40])
@pytest.mark.parametrize("wrong", [np.nan, -0.25, 0.75])
def test_a_bad_row_is_named_in_any_tile(score, row, wrong):
    """NaN, a negative entry whose row still sums to 1, or a sum that is off."""
    check_bad_row_is_named(score, ROWS + 41, row, wrong)
