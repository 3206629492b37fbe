"""Weighted calibration: definition in exact arithmetic, and coverage under a known shift."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import pippin
from pippin._theory import weighted_tails
from pippin._theory.level import exact_alpha, quantile_rank
from pippin._theory.weighted_tails import tails
from support.rows import KINDS, probabilities
from support.scores import EVERY_SCORE
from support.weighted_rows import some, thresholds_of

FULL = "ignore:.*sets hold all classes"
HUNDREDTHS = [h / 100 for h in range(1, 100)]


def exact_threshold(scores, weights, own, alpha):
    """Return the threshold of Tibshirani et al. (2019), the quantile of Σ w_j δ(s_j) + w δ(∞), in fractions."""
    weights, own = [Fraction(float(w)) for w in weights], Fraction(float(own))
    wanted, held = (1 - exact_alpha(alpha)) * (sum(weights) + own), Fraction(0)
    for s, w in sorted(zip(scores.tolist(), weights, strict=True)):
        held += w
        if held >= wanted:
            return s
    return math.inf


@pytest.mark.filterwarnings(FULL)
@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_sets_equal_the_definition_in_exact_arithmetic(score):
    """Thresholds, sets and p-values of every score, from weights of several orders of magnitude and some zeros."""
    for seed, kind in enumerate(KINDS):
        probs, labels, weights = some(30, seed=seed, kind=kind)
        weights[::7] = 0
        own = np.append(np.random.default_rng(seed).lognormal(0, 2, 29), 0.0)
        scores = pippin.scores.score(probs, labels, score, seed=1)
        every = pippin.scores.score(probs, None, score, seed=2)
        for alpha in (0.05, 0.1, 0.4):
            predictor = pippin.calibrate(probs, labels, score, alpha, weights=weights, seed=1)
            limits = np.array([exact_threshold(scores, weights, w, alpha) for w in own])
            assert np.array_equal(thresholds_of(predictor, own), limits)
            assert np.array_equal(predictor.predict(probs, weights=own, seed=2).mask, every <= limits[:, None])
        total = sum(map(Fraction, weights.tolist()))
        found = predictor.p_values(probs, weights=own, seed=2)
        for i, k in ((0, 0), (7, 3), (29, 1)):
            tail = sum((Fraction(w) for s, w in zip(scores, weights.tolist(), strict=True) if s >= every[i, k]), 0)
            assert found[i, k] == float((tail + Fraction(own[i])) / (total + Fraction(own[i])))  # rounded once


@pytest.mark.filterwarnings(FULL)
@pytest.mark.filterwarnings("ignore:The most probable class is the true one in only")  # labels may have any rank
@given(probabilities(sizes=(2, 5, 12), max_rows=40), st.sampled_from([1.0, 0.1, 3.0, 1e-300, 7e250, 5e-324, 1 / 3]))
def test_equal_weights_equal_marginal_calibration(case, weight):
    """With equal weights, sets equal those without weights at all levels 0.01, 0.02, …"""
    probs, labels = case
    weights = np.full(len(probs), weight)
    plain = pippin.calibrate(probs, labels, "repip", 0.99)
    weighted = pippin.calibrate(probs, labels, "repip", weights=weights)
    p = weighted.p_values(probs, weights=weights)
    scores = pippin.scores.score(probs, None, "repip")
    for alpha in HUNDREDTHS:
        k = quantile_rank(len(probs), alpha)
        threshold = math.inf if k > len(probs) else plain.calibration_scores[k - 1]
        assert thresholds_of(weighted.at(alpha), weights[:1]) == threshold
        assert np.array_equal(p > alpha, scores <= threshold)
    assert weighted.n_effective == pytest.approx(len(probs))


def test_equal_weights_at_every_n():
    """If (n + 1)·alpha is an integer, a rounding error would change the threshold."""
    probs, labels, _ = some(400)
    scores = pippin.scores.score(probs, labels, "pip")
    wrong = 0
    for n in range(1, 400):
        found = tails(np.full(n, 0.1))
        for alpha in (0.01, 0.05, 0.07, 0.1, 0.29, 0.3):
            assert found.reach(np.array([0.1]), alpha)[0] == min(quantile_rank(n, alpha) - 1, n)
            held = np.append(np.cumsum(np.full(n, 0.1)), np.inf)
            wrong += np.argmax(held >= (1 - alpha) * 0.1 * (n + 1)) != min(quantile_rank(n, alpha) - 1, n)
    assert wrong > 30  # number of p-values that plain floats round wrongly
    weighted = pippin.calibrate(probs, labels, "pip", 0.1, weights=np.full(400, 0.1))
    assert thresholds_of(weighted, [0.1]) == np.sort(scores)[quantile_rank(400, 0.1) - 1]


@pytest.mark.filterwarnings(FULL)
@given(probabilities(sizes=(2, 5, 12), max_rows=40), st.integers(0, 2**32 - 1), st.sampled_from(HUNDREDTHS))
def test_sets_are_the_classes_with_p_values_above_alpha(case, seed, alpha):
    """Sets equal {p > alpha} for weights over 200 orders of magnitude, whole numbers, and decimal fractions."""
    probs, labels = case
    rng = np.random.default_rng(seed)
    for weights in (
        10 ** rng.uniform(-100, 100, len(probs)),
        1.0 + rng.integers(0, 3, len(probs)),
        rng.choice([0.1, 0.3], len(probs)),
    ):
        predictor = pippin.calibrate(probs, labels, "aps", alpha, weights=weights, seed=1)
        own = rng.permutation(weights)
        p = predictor.p_values(probs, weights=own, seed=2)
        sets = predictor.predict(probs, weights=own, seed=2)
        assert np.array_equal(sets.mask, p > alpha)
        assert np.array_equal(sets.contains(labels), predictor.p_values(probs, labels, weights=own, seed=2) > alpha)
        order = np.argsort(-probs, axis=1, kind="stable")
        assert all(row == order[i, : len(row)].tolist() for i, row in enumerate(sets))


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=20), st.floats(0, 1e300))
def test_each_p_value_is_correctly_rounded(weights, own):
    """Each is the double nearest to the exact quotient, by pairs of doubles and by integers."""
    weights.append(0.25)
    exact = [sum(map(Fraction, weights[b:])) + Fraction(own) for b in range(len(weights) + 1)]
    found = tails(np.array(weights)).p(np.arange(len(weights) + 1), np.array([own]))
    assert found.tolist() == [float(e / exact[0]) for e in exact]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighted_tails, "_SLACK", 0.5)  # all values are then computed with integers
        assert np.array_equal(tails(np.array(weights)).p(np.arange(len(weights) + 1), np.array([own])), found)


EXTREMES = {
    "just above the middle of two doubles": ([0.5 - 2**-54, 0.5, 2**-54, 2**-110], 0.0),
    "just below it": ([2**-110, 0.5 - 2**-54, 0.5, 2**-54], 0.0),
    "in the middle": ([0.5 - 2**-54, 0.5, 2**-54], 0.0),
    "next to nothing": ([1e300, 1e-10], 1e-20),
    "nothing but the object": ([5e-324, 1e-300], 1e308),
    "the smallest weight": ([1.0, 5e-324], 5e-324),
    "the largest": ([1.7e308] * 3, 1.7e308),
    "all scales": ([1e-300, 1e300, 1e-200, 1e100, 0.0], 1e-100),
}


@pytest.mark.parametrize(("weights", "own"), EXTREMES.values(), ids=EXTREMES)
def test_extreme_weights(weights, own):
    """For extreme weights, p-values are exact, and consistent with `reach` at every level."""
    made, own = tails(np.array(weights)), np.array([own])
    exact = [sum(map(Fraction, weights[b:]), Fraction(own[0])) for b in range(len(weights) + 1)]
    found = made.p(np.arange(len(weights) + 1), own)
    assert found.tolist() == [float(e / exact[0]) for e in exact]
    for alpha in (5e-324, 1e-310, 1e-200, 0.1, 0.25, 0.5, 0.75, 1 - 2**-53):
        assert made.reach(own, alpha)[0] == np.flatnonzero(found > alpha).max()


def test_many_p_values_are_correctly_rounded():
    """p-values are correctly rounded if the exact quotient is close to the middle between two floats."""
    rng = np.random.default_rng(0)
    weights, own = rng.lognormal(0, 1, 100), rng.lognormal(0, 1, 300)
    found = tails(weights).p(np.arange(101)[:, None], own)
    exact = [sum(map(Fraction, weights[b:].tolist()), Fraction(0)) for b in range(101)]
    for w, column in zip(map(Fraction, own.tolist()), found.T.tolist(), strict=True):
        assert column == [float((tail + w) / (exact[0] + w)) for tail in exact]


def test_weights_stay_with_their_scores():
    """Each weight stays with its score when scores are sorted; another library sorts them separately."""
    probs, labels, weights = some(50)
    predictor = pippin.calibrate(probs, labels, "ip", 0.2, weights=weights)
    scores = pippin.scores.score(probs, labels, "ip")
    pairs = sorted(zip(scores.tolist(), weights.tolist(), strict=True))
    content = predictor.content()
    assert list(zip(content["calibration_scores"], content["weights"], strict=True)) == pairs
    apart = np.sort(scores)[np.argmax(np.cumsum(np.sort(weights)) >= 0.8 * (weights.sum() + 1))]
    assert thresholds_of(predictor, [1.0])[0] != apart
    shuffled = np.random.default_rng(0).permutation(50)
    again = pippin.calibrate(probs[shuffled], labels[shuffled], "ip", 0.2, weights=weights[shuffled])
    assert np.array_equal(thresholds_of(again, weights), thresholds_of(predictor, weights))


@pytest.mark.filterwarnings(FULL, "ignore:.*too few")
@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_a_row_of_weight_zero_is_ignored(score):
    """With weights 0 and 1, sets are those of a calibration on the rows of weight 1."""
    probs, labels, _ = some(60, 5, seed=3)
    kept = np.random.default_rng(4).random(60) < 0.6
    u = np.random.default_rng(1).random(60)

    class Drawn(np.random.Generator):  # gives each row the u that it has among all rows
        def __init__(self, values):
            super().__init__(np.random.PCG64(0))
            self.values = values

        def random(self, n):
            return self.values

    weighted = pippin.calibrate(probs, labels, score, 0.1, weights=kept.astype(float), seed=Drawn(u))
    for alpha in (0.01, 0.1, 0.25, 0.5):
        plain = pippin.calibrate(probs[kept], labels[kept], score, alpha, seed=Drawn(u[kept]))
        assert (thresholds_of(weighted.at(alpha), np.ones(3)) == plain.threshold).all()
        sets = weighted.at(alpha).predict(probs, weights=np.ones(60), seed=5)
        assert sets.labels() == plain.predict(probs, seed=5).labels()


def test_the_guarantee_under_a_known_shift():
    """For objects that are rare among calibration rows, weighted sets cover, and unweighted sets do not.

    Given n + 1 rows without their order, row j is the new one with probability proportional to its weight (Tibshirani
    et al. 2019), so coverage is computed exactly for each draw. Its mean is at least 1 − alpha, and exceeds it by less
    than the mean of the largest share of a weight.
    """
    n, alpha, draws = 40, 0.2, 3000
    rng = np.random.default_rng(11)
    covered, plain, chance, largest = (np.empty(draws) for _ in range(4))
    for i in range(draws):
        x = np.append(rng.beta(1, 2, n), rng.beta(2, 1))  # densities 2(1 − x) and 2x: a ratio of x/(1 − x)
        noise = 0.1 + 0.8 * x  # the error rate of the classifier rises with x
        probs = rng.dirichlet((8, 1, 1), n + 1)
        labels = np.where(rng.random(n + 1) < noise, rng.integers(0, 3, n + 1), 0)
        ratio = x / (1 - x)
        predictor = pippin.calibrate(probs[:n], labels[:n], "ip", alpha, weights=ratio[:n])
        covered[i] = predictor.p_values(probs[n:], labels[n:], weights=ratio[n:])[0] > alpha
        scores = pippin.scores.score(probs, labels, "ip")
        plain[i] = scores[n] <= np.sort(scores[:n])[quantile_rank(n, alpha) - 1]
        share = ratio[np.argsort(scores)] / ratio.sum()
        chance[i] = np.cumsum(share)[np.argmax(np.cumsum(share) >= 1 - alpha)]
        largest[i] = share.max()
    error = math.sqrt((chance * (1 - chance)).sum()) / draws
    assert abs(covered.mean() - chance.mean()) < 4 * error
    assert 1 - alpha <= chance.mean() < 1 - alpha + largest.mean()
    assert covered.mean() > 1 - alpha - 4 * error
    assert plain.mean() < 1 - alpha - 10 * error


def test_coverage_with_equal_weights_is_beta():
    """Coverage over calibration sets is Beta(k, n + 1 − k), as without weights."""
    n, alpha, draws = 30, 0.2, 600
    rng = np.random.default_rng(5)
    probs, labels, _ = some(20_000, seed=6)
    population = np.sort(pippin.scores.score(probs, labels, "pip"))
    reached = []
    for _ in range(draws):
        rows = rng.integers(0, len(probs), n)
        predictor = pippin.calibrate(probs[rows], labels[rows], "pip", alpha, weights=np.full(n, 0.7))
        reached.append(thresholds_of(predictor, [0.7])[0])
    coverage = np.searchsorted(population, reached, side="right") / len(population)
    k = quantile_rank(n, alpha)
    assert stats.kstest(coverage, stats.beta(k, n + 1 - k).cdf).pvalue > 0.01


def test_only_ratios_count():
    """A common factor of all weights has no effect if it is a power of two, and little otherwise."""
    probs, labels, weights = some(200)
    predictor = pippin.calibrate(probs, labels, weights=weights)
    for factor in (2.0**-900, 0.5, 2.0**900):
        other = pippin.calibrate(probs, labels, weights=weights * factor)
        assert np.array_equal(
            other.p_values(probs, weights=weights * factor), predictor.p_values(probs, weights=weights)
        )
        assert other.n_effective == predictor.n_effective
    assert predictor.n_effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_a_heavy_object_gets_the_full_set():
    """An object of large weight gets all classes, with a warning; an object of weight 0 does not."""
    probs, labels, _ = some(20)
    predictor = pippin.calibrate(probs, labels, "pip", 0.1, weights=np.ones(20))
    with pytest.warns(UserWarning, match="2 of 4 objects weigh more than a share of 0.1 of all weights"):
        sets = predictor.predict(probs[:4], weights=[1, 5, 0, 1e300])
    assert sets.sizes[[1, 3]].tolist() == [4, 4]
    assert (sets.sizes[[0, 2]] < 4).all()
    assert thresholds_of(predictor, [0, 1, 5]).tolist() == [*np.sort(predictor.calibration_scores)[[17, 18]], math.inf]
