"""Combined predictors: validity of merged p-values under any dependence, and exact coverage after recalibration."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2

import pippin
from pippin._conformal.serialization import read_content
from pippin.models import CombinedPredictor, combine
from support.predictor_files import predictor_with_scores, reloaded

N = 2000  # p-values are 1/N, …, N/N
GRID = np.arange(1, N + 1)
WORST = ("bonferroni", "majority", "mean", "geometric", "harmonic", "cauchy")
ANY = (*WORST, "fisher", "scores")
PREDICTOR = predictor_with_scores(np.arange(1, N) / N, alpha=0.1, score=pippin.scores.ip())


def matrix_of(ranks):
    """Return rows whose first class has the p-values ranks/N by PREDICTOR, whose scores are 1/N, …, (N − 1)/N."""
    probs = (ranks - 0.5) / N
    return np.column_stack([probs, 1 - probs])


def merged(method, couplings):
    """Return the merged p-values of the first class, for one array of ranks per model."""
    models = [PREDICTOR] * len(couplings)
    return combine(models, method=method).p_values([matrix_of(ranks) for ranks in couplings])[:, 0]


def same_sums(tails, transform, rounds=30):
    """Rearrange columns of p-values so that the sums of their transforms are nearly equal (Puccetti, Rüschendorf)."""
    columns = tails.copy()
    rng = np.random.default_rng(0)
    for column in columns:
        rng.shuffle(column)
    for _, m in product(range(rounds), range(len(columns))):
        others = transform(np.delete(columns, m, axis=0)).sum(axis=0)
        columns[m, np.argsort(others)] = np.sort(columns[m])  # the largest transforms go where the others sum to least
    return columns


def adversary(method, m, tail):
    """Return ranks of m dependent p-values, each uniform, for which merged p-values are small in `tail` rows."""
    if method in ("bonferroni", "majority"):
        j = 1 if method == "bonferroni" else (m + 1) // 2
        columns = []
        for model in range(m):
            small = (np.arange(tail) - model) % m < j  # in each row, j models have small p-values
            column = np.empty(tail, dtype=int)
            column[small], column[~small] = GRID[: small.sum()], GRID[small.sum() : tail]
            columns.append(column)
        tails = np.array(columns)
    else:
        transform = {
            "mean": lambda p: -p,
            "geometric": lambda p: -np.log(p),
            "harmonic": lambda p: 1 / p,
            "cauchy": lambda p: 1 / np.tan(np.pi * p),
        }[method]
        tails = np.rint(same_sums(np.tile(GRID[:tail] / N, (m, 1)), transform) * N).astype(int)
    rest = np.tile(GRID[tail:], (m, 1))
    return np.concatenate([tails, rest], axis=1)


@pytest.mark.parametrize("method", WORST)
@pytest.mark.parametrize("m", [2, 3, 5])
def test_merged_p_values_are_valid_for_the_worst_dependence_and_not_for_smaller_constants(method, m):
    """Of N equally likely outcomes at most a share α have a merged p-value up to α, and nearly α for an adversary."""
    alpha, rng = 0.1, np.random.default_rng(m)
    couplings = [
        np.tile(GRID, (m, 1)),
        np.array([GRID[:: 1 if model % 2 else -1] for model in range(m)]),
        np.array([rng.permutation(GRID) for _ in range(m)]),
        np.array([np.roll(GRID, model * N // m) for model in range(m)]),
    ]
    shares = [np.mean(merged(method, ranks) <= alpha) for ranks in couplings]
    assert max(shares) <= alpha
    worst = [np.mean(merged(method, adversary(method, m, tail)) <= alpha) for tail in range(188, 203, 2)]
    assert max(worst) <= alpha
    assert max(worst) >= 0.94 * alpha


@pytest.mark.parametrize("m", [3, 5, 10, 100])
def test_constants_are_those_of_vovk_and_wang(m):
    """The harmonic and the geometric constant equal the solutions of their equations in Vovk and Wang (2020)."""
    y = brentq(lambda y: y * y - m * ((y + 1) * math.log1p(y) - y), 1e-3, 1e6)
    equal = matrix_of(np.array([1]))  # all p-values are 1/N, and so is every mean
    harmonic = combine([PREDICTOR] * m, method="harmonic").p_values([equal] * m)[0, 0] * N
    assert harmonic == pytest.approx((y + m) ** 2 / ((y + 1) * m), rel=1e-6)
    if m <= 10:  # the other equation has no accurate solution in floats for many models
        c = brentq(lambda c: math.log(1 / c - (m - 1)) - (m - m * m * c), 1e-12, 0.9999 / m)
        geometric = combine([PREDICTOR] * m, method="geometric").p_values([equal] * m)[0, 0] * N
        assert geometric == pytest.approx(math.exp(-(m - 1) * (1 - m * c)) / c, rel=1e-6)


def test_the_cauchy_combination_of_two_solves_its_equation():
    """For two variables, the largest probability of a mean of at least t is twice that of one (Chen et al. 2023)."""
    ranks = np.array([1, 3, 10, 30])
    p = merged("cauchy", [ranks, ranks])
    np.testing.assert_allclose(p, 2 * ranks / N, rtol=8e-3)
    assert (p >= 2 * ranks / N).all()


def test_fisher_is_valid_for_independent_p_values():
    """Over all pairs of a grid, at most a share α and nearly α has a combined p-value up to α, the chi-squared tail."""
    grid = np.arange(2, N + 1, 2)
    first, second = (part.ravel() for part in np.meshgrid(grid, grid))
    p = merged("fisher", [first, second])
    np.testing.assert_allclose(p, chi2.sf(-2 * np.log(first * second / N**2), 4), rtol=1e-12)
    for alpha in (0.02, 0.1, 0.3):
        assert 0.93 * alpha < np.mean(p <= alpha) <= alpha


def sample(n, m, seed, tied=False):
    """Return labels and probabilities of m dependent models of four classes; with few values if `tied`."""
    rng = np.random.default_rng(seed)
    labels, shared = rng.integers(0, 4, n), rng.normal(size=(n, 4))
    each = []
    for _ in range(m):
        logits = 1.5 * np.eye(4)[labels] + shared + 0.7 * rng.normal(size=(n, 4))
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        coarse = np.round(probs) + 0.5
        each.append(coarse / coarse.sum(axis=1, keepdims=True) if tied else probs)
    return labels, each


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("method", ANY)
def test_recalibrated_coverage_is_exact(method, tied):
    """With each of n + 1 rows in turn as the new one, exactly k = ⌈(n + 1)(1 − α)⌉ are covered; with ties at least."""
    labels, each = sample(20_020, 3, 1, tied)
    models = [pippin.calibrate(probs[20:], labels[20:], "pip") for probs in each]
    held = combine(models, [p[:20] for p in each], labels[:20], method=method).calibration_scores
    assert (len(np.unique(held)) < 20) == tied
    covered = 0
    for new in range(20):
        others = np.delete(np.arange(20), new)
        combined = combine(models, [p[others] for p in each], labels[others], method=method)
        covered += combined.predict([p[[new]] for p in each]).contains(labels[[new]])[0]
    k = math.ceil(20 * 0.9)
    assert covered == k or (tied and covered > k)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("method", WORST)
def test_errors_of_dependent_conformal_predictors_stay_within_alpha(method, tied):
    """With each of n + 1 rows in turn as the new one, at most ⌊α(n + 1)⌋ are not covered."""
    labels, each = sample(30, 3, 2, tied)
    missed = 0
    for new in range(30):
        others = np.delete(np.arange(30), new)
        models = [pippin.calibrate(p[others], labels[others], "ip", 0.3) for p in each]
        combined = combine(models, method=method)
        missed += not combined.predict([p[[new]] for p in each]).contains(labels[[new]])[0]
    assert missed <= 9


def test_smoothed_p_values_are_uniform_with_ties():
    """The sum over the n + 1 rows of the chance that the smoothed p-value is at most α equals α(n + 1)."""
    labels, each = sample(1041, 2, 3, tied=True)
    models = [pippin.calibrate(probs[41:], labels[41:], "ip") for probs in each]
    draws, small = np.random.default_rng(0), []
    for new in range(41):
        others = np.delete(np.arange(41), new)
        combined = combine(models, [p[others] for p in each], labels[others])
        many = [np.repeat(p[[new]], 400, axis=0) for p in each]
        p = combined.p_values(many, np.repeat(labels[[new]], 400), seed=draws, smoothed=True)
        small.append(np.mean(p <= 0.1))
    deviation = math.sqrt(41 * 0.25 / 400)  # at least the standard deviation of the sum
    assert abs(sum(small) - 4.1) < 5 * deviation


@pytest.mark.parametrize("m", [2, 3, 4])
def test_the_majority_votes_at_a_smaller_level(m):
    """Sets of "majority" hold the classes in more than half of the predictors' sets, at the level α·⌈M/2⌉/M."""
    labels, each = sample(1501, m, 4)
    models = [pippin.calibrate(p[:501], labels[:501], "pip", 0.1) for p in each]
    new = [p[501:] for p in each]
    level = 0.1 * ((m + 1) // 2) / m
    votes = sum(model.at(level).predict(p).mask.astype(int) for model, p in zip(models, new, strict=True))
    sets = combine(models, method="majority").predict(new)
    assert (sets.mask == (votes > m / 2)).all()
    assert 0 < (votes > m / 2).mean() < 1


def test_scores_are_averaged():
    """The method "scores" is split conformal prediction with the mean of the models' scores."""
    labels, each = sample(900, 3, 5)
    combined = combine(
        [pippin.calibrate(p[:300], labels[:300], "repip") for p in each],
        [p[:300] for p in each],
        labels[:300],
        method="scores",
    )
    mean = np.mean([pippin.scores.score(p, None, "repip") for p in each], axis=0)
    threshold = np.sort(mean[np.arange(300), labels[:300]])[math.ceil(301 * 0.9) - 1]
    assert (combined.predict([p[300:] for p in each]).mask == (mean[300:] <= threshold)).all()


def recalibrated(seed=6, **options):
    labels, each = sample(600, 2, seed)
    models = [
        pippin.calibrate(p[:200], labels[:200], "aps", seed=0, classes=["rye", "oat", "pea", "flax"]) for p in each
    ]
    held = [p[200:400] for p in each], labels[200:400]
    return combine(models, *held, seed=1, **options), [p[400:] for p in each], labels[400:]


def test_sets_are_the_classes_with_large_p_values():
    combined, new, labels = recalibrated()
    p = combined.p_values(new, seed=3)
    sets = combined.predict(new, seed=3)
    assert (sets.mask == (p > 0.1)).all()
    names = np.array(combined.classes)[labels]
    np.testing.assert_array_equal(combined.p_values(new, names, seed=3), p[np.arange(200), labels])
    order = (-sum(new)).argsort(axis=1)
    assert [list(row) for row in sets] == [
        [combined.classes[k] for k in row if mask[k]] for row, mask in zip(order, sets.mask, strict=True)
    ]
    low = combined.at(0.8)
    assert (low.predict(new, seed=3).sizes == 0).any()
    assert (
        low.predict(new, seed=3, nonempty=True).mask
        == (p > 0.8) | ~(p > 0.8).any(axis=1)[:, None] & (np.eye(4, dtype=bool)[order[:, 0]])
    ).all()
    one = combined.predict_one([p[7] for p in new], seed=9)
    assert one.tolist() == combined.predict([p[7:8] for p in new], seed=9).members.tolist()


def test_frames_and_sharpened_predictors():
    """Columns are selected by name, results have the index, and a sharpened predictor takes raw probabilities."""
    data = pippin.load_example()
    sharp = pippin.calibrate(data.probs[:900], data.labels[:900], "ip", classes=data.classes, sharpen="split", seed=0)
    plain = pippin.calibrate(data.probs[:900], data.labels[:900], "ip", classes=data.classes)
    combined = combine([sharp, plain])
    frame = pd.DataFrame(data.probs[900:950], columns=data.classes, index=[f"{i}.png" for i in range(50)])
    p = combined.p_values([frame[frame.columns[::-1]], frame])
    expected = np.minimum(1, sharp.p_values(data.probs[900:950]) + plain.p_values(data.probs[900:950]))
    np.testing.assert_allclose(p, expected, rtol=1e-14)
    assert list(p.columns) == list(data.classes)
    assert combined.predict([frame, frame]).loc["3.png"] == combined.predict([frame, frame])[3]


@pytest.mark.parametrize("options", [{}, {"method": "scores"}])
def test_a_combination_survives_its_file(tmp_path, options):
    combined, new, _ = recalibrated(**options)
    content, back = reloaded(combined, "combined", tmp_path)
    for one in back:
        assert isinstance(one, CombinedPredictor)
        np.testing.assert_array_equal(one.p_values(new, seed=2), combined.p_values(new, seed=2))
        assert (one.describe(), one.card()) == (combined.describe(), combined.card())
    other = pippin.calibrate(new[0], np.arange(200) % 4, "ip").content()
    for part, value in {
        "alpha": 1.5,
        "n_classes": 3,
        "classes": ["rye", "rye", "pea", "flax"],
        "method": "median",
        "predictors": [content["predictors"][0], other],
        "calibration_scores": content["calibration_scores"][::-1],
    }.items():
        with pytest.raises(pippin.InputError):
            read_content({**content, "kind": "combined", part: value})


def test_what_the_card_says():
    combined, _, _ = recalibrated()
    assert combined.describe() == (
        "2 predictors by their p-values, merged by 'mean', recalibrated on 200 rows: its sets contain the true class "
        "with probability at least 90%."
    )
    assert combined.card()["How much does it vary between calibrations?"].startswith("Coverage is at least 0.8")
    fisher = combine(combined.predictors, method="fisher")
    assert "if the p-values are independent" in fisher.describe()
    assert repr(fisher) == "CombinedPredictor(fisher of 2 predictors, alpha=0.1, 4 classes)"
    result = pippin.evaluate(combined, np.arange(200) % 4, probs=[np.full((200, 4), 0.25)] * 2, seed=0)
    assert result.n == 200


def test_wrong_use():
    labels, each = sample(300, 2, 7)
    models = [pippin.calibrate(p[:100], labels[:100], "ip") for p in each]
    weighted = pippin.calibrate(each[0], labels, "ip", weights=np.ones(300))
    smaller = pippin.calibrate(np.full((50, 2), 0.5), np.zeros(50, int), "ip")
    for predictors, options, message in (
        (models[:1], {}, "two or more conformal predictors"),
        ([models[0], "ip"], {}, "two or more conformal predictors"),
        ([models[0], weighted], {}, "got weights in 1"),
        ([models[0], smaller], {}, "got other classes in 1"),
        (models, {"method": "median"}, "Expected method to be one of"),
        (models, {"method": "scores"}, "got none"),
        (models, {"labels": labels}, "got only one of them"),
        ([models[0], models[1].at(0.2)], {}, "predictors of one alpha"),
    ):
        with pytest.raises(pippin.InputError, match=message):
            combine(predictors, **options)
    with pytest.warns(UserWarning, match="seem to be calibration rows of a predictor"):
        combine(models, [p[:100] for p in each], labels[:100])
    with pytest.warns(UserWarning, match="too few"):
        combine(models, [p[100:104] for p in each], labels[100:104])
