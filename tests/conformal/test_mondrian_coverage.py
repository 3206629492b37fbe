"""Exact distribution of coverage per class, group and pair."""

import numpy as np
import pytest
from scipy import stats

import pippin
from pippin._conformal.predictor import mondrian_of
from pippin._theory.level import quantile_rank


def population():
    """Make 100,000 rows of four classes in two groups, of unequal frequency and difficulty, and their scores."""
    rng = np.random.default_rng(20240617)
    probs = rng.dirichlet((4, 2, 1, 1), 100_000)
    labels = (rng.random(len(probs))[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=3)
    groups = (rng.random(len(probs)) < 0.3 + 0.1 * labels).astype(int)
    return probs, labels, groups, pippin.scores.score(probs, labels, "pip")


@pytest.mark.parametrize("per", ["class", "group", "class and group"])
def test_each_category_has_the_exact_coverage_distribution(per):
    """Given the number n of a category's calibration rows, its coverage is Beta(k, n + 1 − k).

    n is random, so the distribution function for its value maps coverage to a number that is uniform in (0, 1), over
    600 calibrations.
    """
    probs, labels, groups, scores = population()
    rng = np.random.default_rng(11)
    alpha, n, draws = 0.2, 400, 600
    sorted_scores = {
        (g, k): np.sort(scores[(groups == g if "group" in per else True) & (labels == k if "class" in per else True)])
        for g in range(2 if "group" in per else 1)
        for k in range(4 if "class" in per else 1)
    }
    seen = {category: [] for category in sorted_scores}
    for _ in range(draws):
        rows = rng.integers(0, len(labels), n)
        predictor = pippin.calibrate(
            probs[rows], labels[rows], "pip", alpha, per=per, groups=groups[rows] if "group" in per else None
        )
        counts = mondrian_of(predictor).categories.counts[mondrian_of(predictor).categories.lookup]
        for (g, k), own in sorted_scores.items():
            count = int(counts[g, k])
            rank = quantile_rank(count, alpha)
            covered = np.searchsorted(own, predictor.thresholds[g, k], side="right") / len(own)
            seen[g, k].append(stats.beta.cdf(covered, rank, count + 1 - rank))
    for category, values in seen.items():
        assert stats.kstest(values, "uniform").pvalue > 0.01 / len(seen), category


def test_coverage_per_class_on_test_rows_is_beta_binomial():
    """The number of covered test rows of each class is beta-binomial, over repeated calibrations."""
    rng = np.random.default_rng(8)
    n, m, alpha, draws = 19, 8, 0.2, 800
    hits = np.zeros((3, m + 1))
    labels = np.repeat(np.arange(3), n + m)
    fits = np.tile(np.arange(n + m) < n, 3)
    for _ in range(draws):
        probs = rng.dirichlet((0.6, 0.6, 0.6), len(labels))
        probs[np.arange(len(labels)), labels] += 0.2 * (labels + 1)  # difficulty depends on the class
        probs /= probs.sum(axis=1, keepdims=True)
        predictor = pippin.calibrate(probs[fits], labels[fits], "pip", alpha, per="class")
        inside = predictor.predict(probs[~fits]).contains(labels[~fits])
        hits[np.arange(3), inside.reshape(3, m).sum(axis=1)] += 1
    k = quantile_rank(n, alpha)
    expected = draws * stats.betabinom(m, k, n + 1 - k).pmf(np.arange(m + 1))
    few = expected < 5
    for of_class in hits:
        observed = np.append(of_class[~few], of_class[few].sum())
        assert stats.chisquare(observed, np.append(expected[~few], expected[few].sum())).pvalue > 0.01
