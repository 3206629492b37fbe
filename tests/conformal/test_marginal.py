"""Marginal calibration: exact quantiles, coverage, and reference results."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import pippin
from pippin._theory.level import examples_needed, quantile_rank
from support.scores import EVERY_SCORE

LEVELS = ("0.01", "0.05", "0.1", "0.2", "0.3")


@pytest.mark.parametrize("alpha", LEVELS)
def test_the_quantile_is_exact(alpha):
    """k equals ⌈(n + 1)(1 − α)⌉ in rational arithmetic, for every n up to 5,000."""
    exact = Fraction(alpha)
    for n in range(1, 5001):
        assert quantile_rank(n, float(alpha)) == math.ceil((n + 1) * (1 - exact))


def test_the_quantile_is_exact_where_floats_are_not():
    """k is exact at all levels 0.01, 0.02, …; in floats, ⌈(n + 1)(1 − α)⌉ is too large by one for many of them."""
    wrong = 0
    for hundredths in range(1, 100):
        for n in range(1, 400):
            k = math.ceil((n + 1) * (1 - Fraction(hundredths, 100)))
            assert quantile_rank(n, hundredths / 100) == k
            wrong += math.ceil((n + 1) * (1 - hundredths / 100)) != k
    assert wrong > 100


@pytest.mark.parametrize("alpha", [np.float32(0.1), np.float64(0.1), Fraction(1, 10)])
def test_one_tenth_is_one_tenth_in_any_type(alpha):
    """A level of 0.1 is exactly 1/10 as float32, as fraction and in other types."""
    assert quantile_rank(1999, alpha) == 1800


@pytest.mark.parametrize("n", [9, 99, 999, 1999])
def test_the_threshold_is_the_kth_smallest_score(n):
    """The threshold is the k-th smallest score, also if (n + 1)(1 − α) is an integer."""
    data = pippin.load_example()
    probs, labels = data.probs[:n], data.labels[:n]
    predictor = pippin.calibrate(probs, labels, "pip", 0.1)
    assert predictor.threshold == np.sort(pippin.scores.score(probs, labels, "pip"))[9 * (n + 1) // 10 - 1]


@pytest.mark.parametrize("alpha", [*map(float, LEVELS), 0.5, 0.123])
def test_too_few_examples_warn_and_give_full_sets(alpha):
    """The warning names the number of examples needed, and with one more than too few there is none."""
    data = pippin.load_example()
    need = examples_needed(alpha)
    if need > 1:
        with pytest.warns(UserWarning, match=f"at least {need} are needed"):
            predictor = pippin.calibrate(data.probs[: need - 1], data.labels[: need - 1], "repip", alpha)
        assert predictor.threshold == math.inf
        assert (predictor.predict(data.probs[:50]).sizes == 12).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isfinite(pippin.calibrate(data.probs[:need], data.labels[:need], "repip", alpha).threshold)


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_at_equals_calibrating_anew(score):
    """Predictors from `at` equal those calibrated at the level."""
    data = pippin.load_example()
    at_ten = pippin.calibrate(data.probs, data.labels, score, 0.1, classes=data.classes, seed=3)
    at_five = pippin.calibrate(data.probs, data.labels, score, 0.05, classes=data.classes, seed=3)
    assert at_ten.at(0.05).threshold == at_five.threshold
    assert at_ten.at(0.05).alpha == 0.05
    assert at_ten.at(0.05).classes == data.classes


def test_a_class_without_calibration_rows():
    """Marginal calibration works if a class has no calibration rows."""
    data = pippin.load_example()
    kept = data.labels != 3
    predictor = pippin.calibrate(data.probs[kept], data.labels[kept], "ip", 0.1, classes=data.classes)
    assert len(predictor.predict(data.probs)) == len(data.labels)


def test_equal_seeds_agree_and_other_seeds_differ():
    """Randomized scores depend on the seed and not on NumPy's global generator."""
    data = pippin.load_example()
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the global state is what is watched
    first, same, other = (pippin.calibrate(data.probs, data.labels, "aps", seed=s).threshold for s in (1, 1, 2))
    assert first == same != other
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_coverage_has_its_exact_distribution(score):
    """Given the calibration set, coverage is Beta(k, n + 1 − k), over 2,000 calibration sets.

    The population is finite and known, so coverage is computed exactly. A score with ties (top-k) covers more, unless
    ties are broken at random.
    """
    n, alpha, draws = 60, 0.2, 2000
    rng = np.random.default_rng(20240617)
    probs = rng.dirichlet(np.full(6, 0.5), 20_000)
    labels = (rng.random(len(probs))[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=5)
    population = pippin.scores.score(probs, labels, score, seed=1)
    if score.name == "topk":
        population += 1e-6 * rng.random(len(population))
    population.sort()
    k = quantile_rank(n, alpha)
    drawn = rng.integers(0, len(population), (draws, n))
    threshold = np.partition(population[drawn], k - 1, axis=1)[:, k - 1]
    coverage = np.searchsorted(population, threshold, side="right") / len(population)
    assert stats.kstest(coverage, stats.beta(k, n + 1 - k).cdf).pvalue > 0.01


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_coverage_on_test_rows_is_beta_binomial(score):
    """Covered test rows of 2,000 runs of calibrate and predict follow the beta-binomial distribution."""
    n, m, alpha, draws = 19, 10, 0.2, 2000
    rng = np.random.default_rng(7)
    shape = (draws, n + m)
    probs = rng.dirichlet(np.full(4, 0.5), shape).reshape(-1, 4)
    labels = (rng.random(len(probs))[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=3)
    probs, labels = probs.reshape(*shape, 4), labels.reshape(shape)
    hits = np.zeros(m + 1)
    for i in range(draws):
        predictor = pippin.calibrate(probs[i, :n], labels[i, :n], score, alpha, seed=2 * i)
        hits[predictor.predict(probs[i, n:], seed=2 * i + 1).contains(labels[i, n:]).sum()] += 1
    k = quantile_rank(n, alpha)
    law = stats.betabinom(m, k, n + 1 - k)
    if score.name == "topk":  # ties: at least the law's coverage
        assert (hits * np.arange(m + 1)).sum() / draws / m >= law.mean() / m - 0.01
        return
    expected = draws * law.pmf(np.arange(m + 1))
    few = expected < 5
    observed = np.append(hits[~few], hits[few].sum())
    wanted = np.append(expected[~few], expected[few].sum())
    assert stats.chisquare(observed, wanted).pvalue > 0.01


REFERENCE = {  # coverage, mean_size, singleton_rate, empty; and their standard deviations over splits
    "ip": ((0.900, 1.371, 0.690, 0.000), (0.009, 0.029, 0.018)),
    "margin": ((0.900, 2.514, 0.769, 0.000), (0.009, 0.157, 0.013)),
    "aps": ((0.900, 1.499, 0.622, 0.014), (0.009, 0.029, 0.012)),
    "raps": ((0.900, 1.484, 0.617, 0.013), (0.009, 0.029, 0.014)),
    "pip": ((0.900, 1.674, 0.737, 0.000), (0.009, 0.144, 0.013)),
    "repip": ((0.900, 1.468, 0.730, 0.000), (0.009, 0.062, 0.013)),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_the_example_gives_the_reference_table(name):
    """Means over 100 random splits with 45% calibration rows agree with known values within noise."""
    data = pippin.load_example()
    found = []
    for split in range(100):
        order = np.random.default_rng(split).permutation(len(data.labels))
        inner, outer = np.split(order, [round(0.45 * len(order))])
        predictor = pippin.calibrate(data.probs[inner], data.labels[inner], name, 0.1, seed=split)
        sets = predictor.predict(data.probs[outer], seed=1000 + split)
        result = pippin.evaluate(sets, data.labels[outer])
        found.append((result.coverage, result.mean_size, result.singleton_rate, result.empty_rate))
    means, spreads = REFERENCE[name]
    noise = 3.5 * np.array([*spreads, 0.003]) / 10 + 0.0005
    assert (np.abs(np.mean(found, axis=0) - means) < noise).all(), np.mean(found, axis=0)
    assert np.std(found, axis=0)[:3] == pytest.approx(spreads, rel=0.35)
