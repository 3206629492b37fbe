"""Rows with many classes, ranked as far as needed: the bits of NumPy, wherever a window of lanes ends."""

import numba
import numpy as np
import pytest

from pippin._engine.compiled import priced, ranked, rowwise, walk
from pippin._engine.compiled.lanes import LANES
from pippin._engine.compiled.sorting import MANY
from pippin._engine.compiled.walk import CHUNK
from pippin._theory.scores import coefficients
from support.engines import compiled, members, plain
from support.rows import KINDS, made_rows
from support.scores import EVERY_SCORE, every_score

# Parts of loops have no door to Python of their own.
first_of = numba.njit(lambda row, low: walk.first_of(walk.Row(row, 0, row.size), low))
largest_below = numba.njit(lambda row, high: walk.largest_below(walk.Row(row, 0, row.size), high))

CLASSES = (LANES - 3, LANES, 2 * LANES - 1, 2 * LANES, 2 * LANES + 1, CHUNK - 1, CHUNK, CHUNK + 1, 100)
CLASSES += (CHUNK + LANES, MANY, MANY + 270)


@every_score
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_classes_gives_the_bits_of_numpy(kind, score):
    """Sets, scores of labels, and sets of one row; sets of one class, of about half and of all."""
    for n_classes in CLASSES:
        n = 40
        precision = (np.float32, np.float64)[n_classes % 2]
        probs = made_rows(kind, n, n_classes, n_classes).astype(precision)
        labels = np.random.default_rng(1).integers(0, n_classes, n)
        labels[: n // 2] = probs[: n // 2].argmax(axis=1)
        probs.flags.writeable = labels.flags.writeable = False
        c, u = coefficients(score, n_classes), np.random.default_rng(2).random(n)
        wanted_places, wanted, _ = plain.label_places(probs, labels, c, u)
        scores = np.empty(n)
        ranks, p, masses = np.empty(n, np.int32), np.empty(n), np.empty(n)
        loops = ranked if np.isnan(c.price) else priced
        assert rowwise.label_places(loops, probs, labels, c[:], u, (ranks, p, masses, scores)) == 0
        assert np.array_equal(scores, wanted)
        assert np.array_equal(p, wanted_places.p)
        for i in (0, n // 2, n - 1):
            assert compiled.one_score(probs[i].copy(), c[:], u[i], int(labels[i])) == (wanted[i], False)
        every = plain.class_scores(probs, c, u)
        for threshold in (wanted.min(), np.median(wanted), np.quantile(every, 0.6, method="lower"), np.inf, -np.inf):
            sizes = np.zeros(n, dtype=np.int64)
            found, suspects = rowwise.members(loops, probs, c[:], threshold, u, sizes)
            wanted_sizes, wanted_found, _ = members(plain, probs, c, threshold, u)
            assert suspects == 0
            assert np.array_equal(sizes, wanted_sizes)
            assert np.array_equal(found, wanted_found)
            assert np.array_equal(members(compiled, probs, c, threshold, u)[1], wanted_found)
            one, suspect = compiled.one_set(probs[0].copy(), c[:], u[0], threshold)
            assert not suspect
            assert np.array_equal(one, wanted_found[: wanted_sizes[0]])


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_the_best_and_the_largest_below(precision):
    """Ties go to the first; the best may stand anywhere."""
    rng = np.random.default_rng(0)
    for n_classes in (2, 3, *CLASSES):
        row = (rng.integers(0, 5, n_classes) / 8).astype(precision)
        row.flags.writeable = False
        assert first_of(row, row.max()) == row.argmax()
        for high in np.unique(row):
            below = row[row < high]
            assert largest_below(row, high) == (below.max() if len(below) else -1)


def test_every_score_is_among_them():
    """Scores of every reach: none, the best class, all classes."""
    assert {min(coefficients(score, 40).reach, 2) for score in EVERY_SCORE} == {0, 1, 2}
