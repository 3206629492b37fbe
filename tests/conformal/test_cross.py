"""Cross-conformal prediction (CV+): definition, proven and simulated coverage, and comparison with MAPIE."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import pippin
from pippin._theory.level import exact_alpha, quantile_rank
from support import peers
from support.predictor_files import check_wrong_parts, reloaded
from support.rows import KINDS, made_rows
from support.scores import EVERY_SCORE

FEW = "ignore:.*too few"
HUNDREDTHS = [h / 100 for h in range(1, 100)]


def some(n, n_folds, m, n_classes=4, seed=0, kind="spread"):
    """Return out-of-fold rows, labels, folds of unequal size, and each model's probabilities of m new objects."""
    rng = np.random.default_rng(seed)
    probs = made_rows(kind, n, n_classes, seed)
    labels = (rng.random(n)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)
    folds = rng.permutation(np.append(np.arange(n_folds), rng.integers(0, n_folds, n - n_folds)))
    return probs, labels, folds, np.stack([made_rows(kind, m, n_classes, seed + 1 + f) for f in range(n_folds)])


@pytest.mark.filterwarnings(FEW)
@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_both_definitions_agree_in_exact_arithmetic(score):
    """The sets by Vovk's p-values and by the CV+ definition of Romano, Sesia and Candès are equal."""
    for seed, kind in enumerate(KINDS):
        probs, labels, folds, new = some(23, 4, 3, seed=seed, kind=kind)
        s = pippin.scores.score(probs, labels, score, seed=1).tolist()
        t = np.stack([pippin.scores.score(part, None, score, seed=2) for part in new]).tolist()
        predictor = pippin.calibrate(probs, labels, score, 0.1, folds=folds, seed=1)
        p = predictor.p_values(new, seed=2)
        masks = {alpha: predictor.at(alpha).predict(new, seed=2).mask for alpha in (0.04, 0.125, 0.25, 0.3)}
        for i in range(3):
            for y in range(4):
                vovk = Fraction(1 + sum(s[j] >= t[f][i][y] for j, f in enumerate(folds)), 24)
                below = sum(s[j] < t[f][i][y] for j, f in enumerate(folds))
                assert p[i, y] == float(vovk)
                for alpha, mask in masks.items():
                    level = exact_alpha(alpha)
                    assert (vovk > level) == (below < (1 - level) * 24) == mask[i, y]


@pytest.mark.filterwarnings(FEW)
@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_one_fold_is_split_conformal_prediction(score):
    """Sets and their order are equal at all levels 0.01, 0.02, …"""
    for n, kind in ((1, "spread"), (19, "tied"), (100, "zeros"), (99, "peaked")):
        probs, labels, _, new = some(n, 1, 20, 5, seed=n, kind=kind)
        cross = pippin.calibrate(probs, labels, score, folds=np.zeros(n, dtype=int), seed=1)
        assert cross.guarantee == 1 - cross.alpha
        for alpha in (0.01, 0.05, 0.1, 0.2, 0.29, 0.5, 0.9):
            split = pippin.calibrate(probs, labels, score, alpha, seed=1) if n > 1 else None
            found = cross.at(alpha).predict(new, seed=2)
            if split and not math.isinf(split.threshold):
                assert found.labels() == split.predict(new[0], seed=2).labels()


@given(st.integers(1, 60), st.integers(1, 6), st.sampled_from(KINDS), st.integers(0, 10**6))
@pytest.mark.filterwarnings(FEW)
def test_sets_are_the_classes_with_p_values_above_alpha(n, n_folds, kind, seed):
    """Sets contain exactly the classes with p-values above alpha, at all levels 0.01, 0.02, …"""
    probs, labels, folds, new = some(max(n, n_folds), n_folds, 7, 5, seed, kind)
    predictor = pippin.calibrate(probs, labels, "aps", folds=folds, seed=1)
    p = predictor.p_values(new, seed=2)
    truth = np.random.default_rng(seed).integers(0, 5, 7)
    assert np.array_equal(predictor.p_values(new, truth, seed=2), p[np.arange(7), truth])
    rank = np.argsort(np.argsort(-sum(new, np.zeros((7, 5))), axis=1, kind="stable"), axis=1)
    for alpha in HUNDREDTHS[::7]:
        sets = predictor.at(alpha).predict(new, seed=2)
        assert np.array_equal(sets.mask, p > alpha)
        assert all((np.diff(rank[i, row]) > 0).all() for i, row in enumerate(sets))


def test_equal_models_give_split_conformal_p_values():
    """With F equal matrices the sets are those of split conformal prediction for any folds."""
    data = pippin.load_example()
    probs, labels, new = data.probs[:500], data.labels[:500], data.probs[500:900]
    folds = np.random.default_rng(0).integers(0, 4, 500)
    cross = pippin.calibrate(probs, labels, "repip", 0.1, folds=folds, classes=data.classes)
    assert (
        cross.predict([new] * 4).labels() == pippin.calibrate(probs, labels, classes=data.classes).predict(new).labels()
    )


def test_blocks_of_rows_give_the_same():
    """Sets do not change if rows are computed in several blocks, each row with its own u."""
    probs, labels, folds, new = some(60, 3, 600, 1000)
    predictor = pippin.calibrate(probs, labels, "aps", 0.1, folds=folds, seed=1)
    scores = [pippin.scores.score(part, None, "aps", seed=2) for part in new]
    below = sum(map(np.searchsorted, predictor.content()["fold_scores"], scores), np.zeros((600, 1000)))
    p = predictor.p_values(new, seed=2)
    assert np.array_equal(p, (61 - below) / 61)
    assert np.array_equal(predictor.predict(new, seed=2).mask, p > 0.1)


def by_centroids(x, y, new):
    """Probabilities by the distance to the mean of each of three classes."""
    means = np.stack([x[y == k].mean(axis=0) if (y == k).any() else np.zeros(x.shape[1]) for k in range(3)])
    near = np.exp(-3 * ((new[:, None] - means) ** 2).sum(axis=2))
    return near / near.sum(axis=1, keepdims=True)


def by_nearest(x, y, new):
    """Probabilities by the distance to the nearest row of each of three classes, an unstable classifier."""
    far = ((new[:, None] - x) ** 2).sum(axis=2)
    near = np.stack([np.where(y == k, far, 9.0).min(axis=1) for k in range(3)], axis=1)
    inverse = 1 / (near + 1e-6)
    return inverse / inverse.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("model", [by_centroids, by_nearest])
@pytest.mark.parametrize("n_folds", [2, 5, 20])
def test_coverage_keeps_its_bound_and_is_mostly_near_the_level(model, n_folds):
    """Coverage over 400 data sets of 20 rows, with 10 new objects each."""
    n, m, alpha, draws = 20, 10, 0.2, 400
    rng = np.random.default_rng(n_folds)
    covered = np.empty(draws)
    folds = np.arange(n) % n_folds
    for i in range(draws):
        y = rng.integers(0, 3, n + m)
        x = np.stack([np.cos(2.1 * y), np.sin(2.1 * y)], axis=1) + rng.normal(0, 0.7, (n + m, 2))
        probs = np.empty((n, 3))
        for f in range(n_folds):
            probs[folds == f] = model(x[:n][folds != f], y[:n][folds != f], x[:n][folds == f])
        predictor = pippin.calibrate(probs, y[:n], "pip", alpha, folds=folds)
        new = [model(x[:n][folds != f], y[:n][folds != f], x[n:]) for f in range(n_folds)]
        covered[i] = predictor.predict(new).contains(y[n:]).mean()
    error = 4 * covered.std() / math.sqrt(draws)
    assert covered.mean() > predictor.guarantee - error
    assert 1 - alpha - 0.03 - error < covered.mean() < 1 - alpha + 0.1 + error


def test_two_opposed_models_cover_less_than_one_minus_alpha():
    """Two models that rank objects in opposite orders give coverage far below 1 − alpha, but above the bound.

    x is uniform. The objects with x < 2a are least plausible under both models, in increasing order of x under one and
    in decreasing order under the other. So the two p-values of such an object add up to about 2a, and it is not
    covered.
    """
    n, alpha, a = 2000, 0.2, 0.18
    rng = np.random.default_rng(1)

    def p_true(x):
        return np.stack([x, np.where(x < 2 * a, 2 * a - x, x)])

    def rows(p):
        return np.stack([p, 1 - p], axis=-1)

    grid = (np.arange(1000) + 0.5) / 1000
    folds = np.arange(n) % 2
    covered = []
    for _ in range(40):
        x = rng.random(n)
        predictor = pippin.calibrate(
            rows(p_true(x)[folds, np.arange(n)]), np.zeros(n, dtype=int), "ip", alpha, folds=folds
        )
        covered.append(predictor.predict(rows(p_true(grid))).contains(np.zeros(1000, dtype=int)).mean())
    assert predictor.guarantee == 1 - 2 * alpha - 2 * 0.5 / 1001
    assert predictor.guarantee < np.mean(covered) < 1 - alpha - 0.1


def test_a_tournament_reaches_its_exact_coverage():
    """With leave-one-out models, coverage can be far below 1 − alpha: exactly 2/3 of 21 objects at alpha = 0.2.

    Seven of the objects have larger scores than the other fourteen under all models, and larger scores than three of
    the other six, in a circle. So each of the seven exceeds 14 + 3 scores, and k = ⌈21 · 0.8⌉ = 17 excludes it. The
    proven bound is 0.6.
    """
    size, odd, alpha = 21, 7, 0.2
    truth = np.zeros(size - 1, dtype=int)

    def p_true(i, j):
        """Return the probability of i's class by the model that is fitted without i and j."""
        if i >= odd:
            return 0.9
        if j >= odd:
            return 0.2
        return 0.1 if 1 <= (i - j) % odd <= odd // 2 else 0.3

    covered = []
    for new in range(size):
        rest = [i for i in range(size) if i != new]
        probs = np.array([[p_true(i, new), 1 - p_true(i, new)] for i in rest])
        predictor = pippin.calibrate(probs, truth, "ip", alpha, folds=np.arange(size - 1))
        said = np.array([[[p_true(new, i), 1 - p_true(new, i)]] for i in rest])
        covered.append(predictor.predict(said).contains([0])[0])
    assert covered == [False] * odd + [True] * (size - odd)
    assert predictor.guarantee == pytest.approx(1 - 2 * alpha)  # as many folds as rows: the jackknife+
    assert np.mean(covered) == pytest.approx(2 / 3)


def test_coverage_of_fixed_models_of_one_kind_is_beta():
    """If models do not depend on the calibration rows, coverage over calibration sets is Beta(k, n + 1 − k)."""
    n, alpha, draws = 30, 0.2, 500
    rng = np.random.default_rng(8)
    x = np.linspace(0, 1, 4000)
    grid = np.stack([x, 1 - x], axis=1)
    covered = []
    for _ in range(draws):
        rows = grid[rng.integers(0, 4000, n)]
        predictor = pippin.calibrate(rows, np.zeros(n, dtype=int), "ip", alpha, folds=np.arange(n) % 3)
        covered.append((predictor.p_values([grid] * 3, np.zeros(4000, dtype=int)) > alpha).mean())
    k = quantile_rank(n, alpha)
    assert stats.kstest(covered, stats.beta(k, n + 1 - k).cdf).pvalue > 0.01


def test_the_proven_guarantee():
    """The larger of two bounds for folds of equal size, the first bound for others, and never negative."""
    probs, labels, *_ = some(100, 5, 1)
    cases = {5: 2 * 0.8 / 21, 2: 2 * 0.5 / 51, 50: 0.5 / 51, 100: 0.0}
    for n_folds, loss in cases.items():
        predictor = pippin.calibrate(probs, labels, folds=np.arange(100) % n_folds, alpha=0.1)
        assert predictor.guarantee == pytest.approx(1 - 0.2 - loss)
    uneven = pippin.calibrate(probs, labels, folds=np.minimum(np.arange(100) % 50, 48), alpha=0.1)
    assert uneven.guarantee == pytest.approx(max(0, 0.8 - 2 * (1 - 1 / 49) / (100 / 49 + 1)))
    assert uneven.at(0.6).guarantee == 0


@pytest.mark.parametrize("n", [99, 100, 101])
def test_mapie_agrees_where_its_count_does(n):
    """MAPIE's `agg_scores="crossval"` with LAC gives equal sets if both libraries need equally many scores.

    MAPIE needs ⌈α(n − 1)⌉ scores at or above that of a class, pippin ⌊α(n + 1)⌋.
    """
    probs, labels, folds, new = some(n, 5, 50, seed=n)
    ours = pippin.calibrate(probs, labels, "ip", 0.1, folds=folds)
    assert np.array_equal(peers.mapie_cross(probs, labels, folds, 0.1)(new), ours.predict(new).mask)


@pytest.mark.parametrize("n", [102, 105, 108])
def test_mapie_needs_larger_p_values(n):
    """MAPIE needs larger p-values: α(n − 1) scores at or above that of a class; pippin sometimes needs one fewer."""
    probs, labels, folds, new = some(n, 5, 200, seed=n)
    theirs = peers.mapie_cross(probs, labels, folds, 0.1)(new)
    p = pippin.calibrate(probs, labels, "ip", 0.1, folds=folds).p_values(new)
    count = np.rint(p * (n + 1) - 1)
    assert np.array_equal(theirs, count >= 0.1 * (n - 1))
    assert (theirs < (p > 0.1)).any()
    assert not (theirs > (p > 0.1)).any()


def test_frames_logits_seeds_and_inputs():
    """With folds, frames, logits and names are accepted as without, seeds decide, and inputs are not modified."""
    probs, labels, folds, new = some(50, 2, 30)
    before = [a.copy() for a in (probs, labels, folds, new)]
    names = ["crop", "rye", "soil", "weed"]
    frames = [pd.DataFrame(part, columns=names, index=np.arange(30) + 7) for part in new]
    predictor = pippin.calibrate(
        pd.DataFrame(probs, columns=names), np.array(names)[labels], "aps", folds=pd.Series(folds), seed=3
    )
    sets = predictor.predict(frames, seed=4)
    assert list(sets.index) == list(range(7, 37))
    assert sets.labels() == predictor.predict(new, seed=4).labels() != predictor.predict(new, seed=5).labels()
    logits = pippin.calibrate(np.log(probs), labels, "ip", folds=folds, from_logits=True)
    plain = pippin.calibrate(probs, labels, "ip", folds=folds)
    assert np.allclose(logits.calibration_scores, plain.calibration_scores)
    assert np.allclose(logits.p_values(np.log(new), from_logits=True), plain.p_values(new), atol=0.05)
    assert all(np.array_equal(a, b) for a, b in zip(before, (probs, labels, folds, new), strict=True))
    assert repr(predictor) == "ConformalPredictor(aps, alpha=0.1, 50 calibration examples in 2 folds, 4 classes)"


def test_a_saved_predictor_is_restored(tmp_path):
    """All numbers are restored to the last bit, and inconsistent entries raise."""
    probs, labels, folds, new = some(50, 3, 30)
    probs[3] = np.eye(4)[(labels[3] + 1) % 4]  # an infinite score
    predictor = pippin.calibrate(probs, labels, "socop(mu=2)", 0.2, folds=folds, classes=["a", "b", "c", "d"])
    content, back = reloaded(predictor, "cross", tmp_path)
    for same in back:
        assert np.array_equal(same.p_values(new), predictor.p_values(new))
    check_wrong_parts("cross", content, fold_scores=[part[::-1] for part in content["fold_scores"]])


def test_too_few_rows_warn():
    """The warning states the required number of rows; all sets are full."""
    probs, labels, folds, new = some(8, 2, 5)
    with pytest.warns(UserWarning, match="at least 9 are needed") as caught:
        predictor = pippin.calibrate(probs, labels, folds=folds, alpha=0.1)
    assert caught[0].filename == __file__
    assert (predictor.predict(new).sizes == 4).all()


P, Y, G, NEW = some(20, 2, 5)


def made():
    return pippin.calibrate(P, Y, folds=G)


REFUSED = {
    "short folds": (lambda: pippin.calibrate(P, Y, folds=G[:19]), r"Expected 20 folds, one per row, got shape \(19,\)"),
    "real folds": (lambda: pippin.calibrate(P, Y, folds=G + 0.5), "Expected 20 whole numbers .* got float64"),
    "from one": (lambda: pippin.calibrate(P, Y, folds=G + 1), "Expected folds numbered from 0 .* got 1, 2: number"),
    "negative": (lambda: pippin.calibrate(P, Y, folds=G - 1), "Expected folds numbered from 0 .* got -1, 0"),
    "a gap": (lambda: pippin.calibrate(P, Y, folds=2 * G), "Expected folds numbered from 0 .* got 0, 2"),
    "one matrix": (lambda: made().predict(NEW[0]), r"Expected probabilities of shape \(2, n, 4\).* got shape \(5, 4\)"),
    "one model": (lambda: made().predict(NEW[:1]), r"got shape \(1, 5, 4\): let every model predict"),
    "a list": (lambda: made().predict([NEW[0]] * 3), "got 3 matrices"),
    "rows": (lambda: made().predict([NEW[0], NEW[1, :3]]), "got 5 rows from model 0 and 3 from model 1"),
    "columns": (lambda: made().predict(NEW[:, :, :3]), "Model 0: Expected 4 columns"),
    "other columns": (lambda: made().predict([NEW[0], NEW[1, :, :3]]), "Model 1: Expected 4 columns"),
    "nothing": (lambda: made().predict(None), r"Expected probabilities of shape \(2, n, 4\).* got NoneType: let every"),
    "a number": (lambda: made().predict(0.5), "got float: let every"),
    "one number": (lambda: made().predict(np.float64(0.5)), r"got shape \(\): let every"),
    "text": (lambda: made().predict("ab"), "got str: let every"),
    "a dict": (lambda: made().predict(dict(enumerate(NEW))), "got dict: let every"),
    "no list": (lambda: made().predict(iter(NEW)), "got iterator: let every"),
    "a frame": (lambda: made().predict(pd.DataFrame(NEW[0])), r"got shape \(5, 4\): let every"),
    "polars": (lambda: made().predict(pl.DataFrame(NEW[:, 0, :])), r"got shape \(2, 4\): let every"),
    "four axes": (lambda: made().predict(NEW[None]), r"got shape \(1, 2, 5, 4\): let every"),
    "no model": (lambda: made().predict([]), "got 0 matrices: let every"),
    "no objects": (lambda: made().predict(NEW[:, :0]), "Model 0: Expected at least one row"),
    "a hole": (lambda: made().predict([NEW[0], None]), r"Model 1: Expected .* \(n, K\), got shape \(\)"),
    "words": (lambda: made().predict(["a", "b"]), "Model 0: Expected a matrix of numbers"),
    "ragged": (lambda: made().predict([NEW[0], [[1.0], [0.5, 0.5]]]), "Model 1: Expected a matrix of numbers"),
    "one object": (lambda: made().predict([NEW[0], NEW[1, 0]]), r"Model 1: Expected .* \(n, K\), got shape \(4,\)"),
    "p of nothing": (lambda: made().p_values(None), "got NoneType: let every"),
    "p of a label": (
        lambda: made().p_values([NEW[0], 2 * NEW[1]], np.zeros(len(NEW[0]), dtype=int)),
        "Model 1: Row 0 sums to 2",
    ),
    "p of ragged": (lambda: made().p_values([NEW[0], [[1.0], [0.5, 0.5]]]), "Model 1: Expected a matrix of numbers"),
    "ragged folds": (
        lambda: pippin.calibrate(P, Y, folds=[[0], [1, 1]]),
        "Expected 20 folds, .* got list: pass",
    ),
    "table of folds": (
        lambda: pippin.calibrate(P, Y, folds=np.stack([G, G], axis=1)),
        r"Expected 20 folds, .* got shape \(20, 2\)",
    ),
    "named folds": (lambda: pippin.calibrate(P, Y, folds=["a"] * 20), "Expected 20 whole numbers .* got object"),
    "a hole in folds": (lambda: pippin.calibrate(P, Y, folds=[None] * 20), "Expected 20 whole numbers .* got object"),
    "no probabilities": (
        lambda: pippin.calibrate(None, Y, folds=G),
        r"Expected probabilities of shape \(n, K\), got shape \(\)",
    ),
    "three axes": (lambda: pippin.calibrate(NEW, Y, folds=G), r"Expected probabilities of shape \(n, K\), got"),
    "no labels": (lambda: pippin.calibrate(P, None, folds=G), "Expected the true classes of the rows, got no labels"),
    "no distribution": (lambda: made().predict([NEW[0], 2 * NEW[1]]), "Model 1: Row 0 sums to 2"),
    "level": (lambda: made().at(2), "Expected alpha"),
    "label": (lambda: made().p_values(NEW, [0, 1, 2, 3, 4]), "Row 4 has the label 4"),
}


@pytest.mark.parametrize(("call", "sentence"), REFUSED.values(), ids=REFUSED)
def test_invalid_arguments_raise(call, sentence):
    """Each error is one sentence."""
    with pytest.raises(ValueError, match=sentence):
        call()
