"""The NumPy engine and the numba engine give equal results to the last bit, and refuse the same rows."""

import numpy as np
import pytest

import pippin
from pippin._engine import dispatch
from pippin._engine.numpy_engine import ranked_order
from pippin._engine.protocol import Draws, SortedScores
from pippin._runtime.arrays import read_only
from pippin._theory.scores import coefficients
from support.engines import FEW_CLASSES, MANY_CLASSES, compiled, members, plain
from support.rows import KINDS, made_rows
from support.scores import EVERY_SCORE, every_score

PRECISIONS = ("float32", "float64", "half")
TILE = 256  # rows that the tiled loop ranks together


def block_of(n, n_classes, precision):
    """Return rows of every kind in random order, read-only, and labels at any rank.

    Besides the kinds of `made_rows` these are shares of a hundred votes, negative zeros, subnormal numbers, and numbers
    that are equal in float32 only.
    """
    rng = np.random.default_rng(n_classes)
    parts = [made_rows(kind, n // 10 + 1, n_classes, n_classes) for kind in KINDS]
    parts.append(rng.multinomial(100, np.full(n_classes, 1 / n_classes), n // 10 + 1) / 100)
    parts.append(parts[5] + rng.integers(0, 3, parts[5].shape) * 1e-42)
    parts.append(parts[2] * (1 + rng.integers(0, 3, parts[2].shape) * 1e-12))
    probs = rng.permutation(np.concatenate(parts))[:n]
    probs[::2] = np.where(probs[::2] == 0, -0.0, probs[::2])
    if precision == "half":
        probs = probs.astype(np.float16)
    probs = probs.astype(np.float64 if precision == "float64" else np.float32)
    labels = rng.integers(0, n_classes, n)
    labels[: n // 2] = probs[: n // 2].argmax(axis=1)
    return read_only(probs), read_only(labels)


def check_equal(score, n, n_classes, precision):
    """Compare label scores, class scores, sets under thresholds at and next to scores, and p-values."""
    probs, labels = block_of(n, n_classes, precision)
    c, u = coefficients(score, n_classes), read_only(np.random.default_rng(n).random(n))
    order, every, scores = ranked_order(probs), plain.class_scores(probs, c, u), np.empty(n)
    of_labels = every[np.arange(n), labels]
    compiled.label_scores(probs, labels, c, u, scores)
    assert np.array_equal(scores, of_labels)
    assert plain.label_scores(probs, labels, c, u, scores) == 0
    assert np.array_equal(scores, of_labels)
    assert np.array_equal(compiled.class_scores(probs, c, u), every)
    median, by_rank = np.quantile(of_labels, 0.5, method="lower"), np.take_along_axis(every, order, axis=1)
    for threshold in (median, np.nextafter(median, -9), np.nextafter(median, 9), median + 4e-7, of_labels.min()):
        check_sets(probs, c, u, threshold, order, by_rank <= threshold)
    most = np.quantile(every, 0.6, method="lower")
    for threshold in (of_labels.max(), most, -np.inf, np.inf):
        check_sets(probs, c, u, threshold, order, by_rank <= threshold)
    sizes, found, _ = members(plain, probs, c, median, u)
    assert np.array_equal(sizes, (by_rank <= median).sum(axis=1))
    assert np.array_equal(found, order[by_rank <= median])
    check_p_values(probs[:20], of_labels, c, u[:20])


def check_sets(probs, c, u, threshold, order, inside):
    """Compare the numba engine's sets with the classes `inside`, by rank."""
    sizes, found, _ = members(compiled, probs, c, threshold, u)
    assert np.array_equal(sizes, inside.sum(axis=1))
    assert np.array_equal(found, order[inside])


def check_p_values(probs, scores, c, u):
    """Compare p-values against all scores and against two categories of them, smoothed or not."""
    rng, (n, n_classes) = np.random.default_rng(0), probs.shape
    group, v, half = rng.integers(0, 3, n), rng.random(n), len(scores) // 2
    cells = SortedScores(
        rng.integers(0, 2, (3, n_classes)).astype(np.int32),
        np.array([0, half, len(scores)]),
        np.concatenate([np.sort(scores[:half]), np.sort(scores[half:])]),
    )
    marginal = SortedScores(np.zeros((3, n_classes), np.int32), np.array([0, len(scores)]), np.sort(scores))
    for held, smoothing in ((marginal, None), (cells, None), (cells, v)):
        p = np.zeros((2, n, n_classes))
        for engine, values in zip((plain, compiled), p, strict=True):
            engine.p_values(c, held)(probs, group, Draws(u, smoothing), values)
        assert np.array_equal(*p)


@every_score
@pytest.mark.parametrize("precision", PRECISIONS)
def test_few_classes(score, precision):
    """Engines agree for few classes, on full and partial tiles, up to and beyond the limit of the tiled loop."""
    for n_classes in FEW_CLASSES:
        check_equal(score, TILE + 44, n_classes, precision)


@every_score
@pytest.mark.parametrize("precision", PRECISIONS)
def test_many_classes(score, precision):
    """Engines agree for many classes: around multiples of 64, and with more members than first allocated."""
    for n_classes in MANY_CLASSES:
        check_equal(score, 70, n_classes, precision)


@pytest.mark.parametrize("precision", PRECISIONS[:2])
@pytest.mark.parametrize("n_classes", [2, 12, 33])
def test_few_rows(n_classes, precision):
    """Engines agree on the last rows of a tile, which are not read eight at a time."""
    for n in (1, 2, 3, 7, 8, 9, 17, 31):
        for score in EVERY_SCORE[:5]:
            check_equal(score, n, n_classes, precision)


def test_the_tested_scores_use_every_loop():
    """The tested scores use every loop: scores of one class only, of the best class too, and of all classes."""
    assert {min(coefficients(score, 40).reach, 2) for score in EVERY_SCORE} == {0, 1, 2}
    assert coefficients(pippin.scores.linear(weights=(0.5, 0.0), penalties=(0.0, 0.25)), 12).reach == 1
    assert coefficients(pippin.scores.linear(weights=(0.0,), penalties=(0.0, 1.0)), 12).reach == 1


@pytest.mark.parametrize("precision", PRECISIONS[:2])
@pytest.mark.parametrize(
    "score",
    [
        pippin.scores.linear(weights=(0.5, 0.0), penalties=(0.0, 0.25)),
        pippin.scores.linear(weights=(0.0,), penalties=(0.0, 1.0)),
        pippin.scores.linear(weights=(0.0, 1.0), penalties=(0.0, 1.0, 3.0)),
    ],
    ids=str,
)
def test_scores_that_depend_on_the_best_class_alone(score, precision):
    """Engines agree for linear scores that depend on the best class only, besides their own class."""
    for n_classes in (2, 3, 12, 33, 65, 300):
        check_equal(score, 60, n_classes, precision)


@pytest.mark.parametrize("values", ["distinct", "sorted", "few", "equal", "infinite"])
def test_kth_smallest(values):
    """The result equals that of sorting, and the scores are not reordered."""
    for n in (1, 2, 301, 2049, 10_000):
        rng = np.random.default_rng(n)
        scores = rng.integers(0, 4, n) / 4 if values == "few" else rng.normal(size=n)
        if values == "sorted":
            scores.sort()
        elif values == "equal":
            scores[:] = 0.5
        elif values == "infinite":
            scores[rng.random(n) < 0.3] = np.inf
        before, ranked = scores.copy(), np.sort(scores)
        for k in {1, 2, n // 100, n // 2, 9 * n // 10, n - 1, n} & set(range(1, n + 1)):
            assert dispatch.smallest(scores, k) == ranked[k - 1]
        assert np.array_equal(scores, before)


def refusal(call, *arguments, **options):
    """Return the message of the ValueError that a call raises."""
    with pytest.raises(ValueError, match="Row ") as caught:
        call(*arguments, **options)
    return str(caught.value)


WRONG = {"NaN": np.nan, "negative": -0.25, "slightly negative": -1e-7, "sum": 0.75, "infinite": np.inf}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("score", ["ip", "margin", "aps", "repip", "socop"])
@pytest.mark.parametrize("n_classes", [3, 30, 300])
def test_invalid_rows_are_refused_with_the_same_message(n_classes, score, wrong, monkeypatch):
    """Both engines refuse NaN, infinity, a wrong sum and negative entries with the same message."""
    probs = made_rows("spread", TILE + 44, n_classes, 5)
    labels = np.arange(len(probs)) % n_classes
    kinds = (np.float32, np.float64)
    predictors = [
        pippin.calibrate(probs, labels, score),
        pippin.calibrate(probs, labels, score, per="class", alpha=0.5),
    ]
    for row, kind in zip((0, 7, TILE - 1, TILE, TILE + 43), (*kinds, *kinds, np.float32), strict=True):
        rows = probs.astype(kind)
        rows[row] = 0
        rows[row, 1], rows[row, 2] = WRONG[wrong], 1 - WRONG[wrong] if WRONG[wrong] < 0 else 0.5
        messages = []
        for engine in (plain, compiled):
            monkeypatch.setattr(dispatch, "_loaded", engine)
            messages.append(
                {
                    refusal(pippin.calibrate, rows, labels, score, seed=0),
                    refusal(pippin.scores.score, rows, None, score, seed=0),
                    *(refusal(predictor.predict, rows, seed=0) for predictor in predictors),
                    *(refusal(predictor.p_values, rows, seed=0) for predictor in predictors),
                }
            )
        assert messages[0] == messages[1]
        assert len(messages[0]) == 1
        assert messages[0].pop().startswith(f"Row {row} ")


@every_score
def test_sums_within_the_tolerance(score, monkeypatch):
    """Rows whose sum differs from 1 by just under 1e-3 pass in both engines, and just over it they do not."""
    for n_classes, kind in ((12, np.float32), (12, np.float64), (80, np.float32), (80, np.float64)):
        probs = made_rows("spread", 300, n_classes, 1)
        labels = np.zeros(300, dtype=int)
        for engine in (plain, compiled):
            monkeypatch.setattr(dispatch, "_loaded", engine)
            for factor in (1 - 0.9e-3, 1 + 0.9e-3):
                inside = (probs * factor).astype(kind)
                predictor = pippin.calibrate(inside, labels, score, seed=0)
                predictor.predict(inside, seed=0)
                predictor.p_values(inside[:9], seed=0)
                outside = inside.copy()
                outside[250] *= 1 + 2 * (factor - 1) / 9
                for call in (predictor.predict, predictor.p_values):
                    with pytest.raises(ValueError, match=r"^Row 250 sums to (1\.001|0\.998)"):
                        call(outside, seed=0)


def test_arrays_that_are_only_read_may_be_writable():
    """Writable arrays work as arguments, of which the numba engine takes read-only views."""
    n, n_classes = 30, 40
    probs, _ = block_of(n, n_classes, "float32")
    c, u, scores = coefficients(pippin.scores.raps(), n_classes), np.random.default_rng(0).random(n), np.empty(n)
    labels = np.arange(n)
    assert compiled.label_scores(probs, labels, c, u, scores) == 0
    assert np.array_equal(scores, plain.class_scores(probs, c, u)[labels, labels])
