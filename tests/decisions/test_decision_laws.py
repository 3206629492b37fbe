"""Statistical guarantees of decisions, selective classification and risk control, by simulation."""

import numpy as np
import pytest
from scipy import stats

import pippin
from pippin._theory.level import quantile_rank
from support.decisions import drawn, utility_of


@pytest.mark.parametrize(
    ("n_classes", "n_actions", "honest"),
    [(2, 2, True), (3, 8, False), (7, 3, True), (12, 5, False), (50, 4, True), (50, 8, False)],
)
def test_kept_certificates_follow_the_beta_law_or_exceed_it(n_classes, n_actions, honest):
    """Over 400 calibrations, the share of kept certificates is not stochastically below Beta(k, n + 1 − k).

    The share of labels whose score is at most β has exactly this distribution if scores do not tie, which is tested
    where ties are rare. Certificates hold at least as often, row by row.
    """
    rng = np.random.default_rng([n_classes, n_actions])
    utilities = rng.normal(size=(n_actions, n_classes))
    probs, labels = drawn(rng, 60_000, n_classes, honest)
    utility = utility_of(utilities)
    everybody = pippin.decisions.calibrate(probs, labels, utility, 0.1)
    scores = np.sort(everybody.calibration_scores)
    n, alpha = 60, 0.1
    k = quantile_rank(n, alpha)
    within, kept = [], []
    for _ in range(400):
        rows = rng.integers(0, len(labels), n)
        decider = pippin.decisions.calibrate(probs[rows], labels[rows], utility, alpha)
        within.append(np.searchsorted(scores, decider.beta, side="right") / len(scores))
        test = rng.integers(0, len(labels), 500)
        found = decider.decide(probs[test])
        kept.append((utilities[found.codes, labels[test]] >= found.certificates).mean())
    law = stats.beta(k, n + 1 - k)
    assert stats.kstest(within, law.cdf, alternative="greater").pvalue > 0.001  # "greater": below the law
    if (scores == 0).mean() < 0.6:  # β is practically never at the one score that many share
        assert stats.kstest(within, law.cdf).pvalue > 0.001
    error = np.sqrt(law.var() / 400 + 0.09 / (500 * 400))
    assert np.mean(kept) >= 1 - alpha - 4 * error


@pytest.mark.parametrize("per", ["class", "kind", "group"])
def test_guarantees_per_class_kind_and_group(per):
    """Over 150 calibrations, the mean share of kept certificates is at least 1 − α in every category."""
    rng = np.random.default_rng(5)
    probs, labels = drawn(rng, 40_000, 4, honest=False)
    groups = (rng.random(len(labels)) < 0.3 + 0.1 * labels).astype(int)
    utilities = np.array([[1.0, 0.8, -2.0, -1.0], [-1.0, -0.5, 1.0, 0.9], [0.2, 0.2, 0.2, 0.3]])
    kinds = {0: "weed", 1: "weed", 2: "crop", 3: "crop"}
    utility, categories = utility_of(utilities), {"class": labels, "kind": labels // 2, "group": groups}[per]
    kept = []
    for _ in range(150):
        rows, test = rng.integers(0, len(labels), (2, 400))
        options = {"class": {"per": "class"}, "kind": {"per": kinds}, "group": {"groups": groups[rows]}}[per]
        decider = pippin.decisions.calibrate(probs[rows], labels[rows], utility, 0.2, **options)
        found = decider.decide(probs[test], groups=groups[test] if per == "group" else None)
        good = utilities[found.codes, labels[test]] >= found.certificates
        kept.append([good[categories[test] == category].mean() for category in np.unique(categories)])
    means, errors = np.mean(kept, axis=0), np.std(kept, axis=0) / np.sqrt(len(kept))
    assert (means >= 0.8 - 4 * errors).all(), means


def test_coverage_of_each_kind_follows_its_own_beta_law():
    """With levels of 90% and 99% per superclass, coverage of each is Beta(k, n + 1 − k)."""
    rng = np.random.default_rng(8)
    probs, labels = drawn(rng, 60_000, 4, honest=True)
    kinds, levels = {0: "weed", 1: "weed", 2: "crop", 3: "crop"}, {"weed": 0.1, "crop": 0.01}
    scores = pippin.scores.score(probs, labels, "ip")
    own = {name: np.sort(scores[(labels // 2) == i]) for i, name in enumerate(levels)}
    seen = {name: [] for name in levels}
    for _ in range(400):
        rows = rng.integers(0, len(labels), 500)
        predictor = pippin.calibrate(probs[rows], labels[rows], "ip", levels, per=kinds)
        for i, (name, alpha) in enumerate(levels.items()):
            n = int(((labels[rows] // 2) == i).sum())
            k = quantile_rank(n, alpha)
            covered = np.searchsorted(own[name], predictor.thresholds[0, 2 * i], side="right") / len(own[name])
            seen[name].append(stats.beta.cdf(covered, k, n + 1 - k))
    for values in seen.values():
        assert stats.kstest(values, "uniform").pvalue > 0.005


@pytest.mark.filterwarnings("ignore:Nothing is acted on")
def test_selective_error_rates_exceed_the_bound_with_probability_delta():
    """At most a share δ of 2,000 calibrations gives a larger error rate among accepted rows."""
    rng = np.random.default_rng(12)
    probs, labels = drawn(rng, 200_000, 5, honest=False)
    top, wrong = probs.max(axis=1), probs.argmax(axis=1) != labels
    order = np.argsort(-top)
    share = np.cumsum(wrong[order]) / np.arange(1, len(top) + 1)  # of errors among the surest
    falling = top[order]
    error, delta, above, acting = 0.2, 0.1, 0, 0
    for _ in range(2000):
        rows = rng.integers(0, len(labels), 400)
        found = pippin.decisions.select(probs[rows], labels[rows], error=error, confidence=1 - delta)
        acted = np.searchsorted(-falling, -found.threshold, side="right")
        acting += acted > 0
        above += acted > 0 and share[acted - 1] > error
    assert acting > 200  # something is certified often enough to be worth the test
    assert above / 2000 <= delta


@pytest.mark.parametrize("kind", ["costs", "function"])
def test_expected_losses_are_at_most_the_level(kind):
    """The expected loss is at most the level, within its standard error.

    Missing class y costs y + 1, or half of it for larger sets.
    """
    rng = np.random.default_rng(3)
    probs, labels = drawn(rng, 20_000, 4, honest=False)
    costs = np.arange(1.0, 5.0)

    def loss(members, label):
        return 0.0 if label in members else 1.0 if len(members) < 2 else 0.5

    losses = []
    for _ in range(300 if kind == "costs" else 60):
        rows, test = rng.integers(0, len(labels), (2, 60))
        predictor = pippin.decisions.control_risk(
            probs[rows], labels[rows], costs if kind == "costs" else loss, 0.3, score="pip"
        )
        sets = predictor.predict(probs[test])
        if kind == "costs":
            losses.append(np.mean(~sets.contains(labels[test]) * costs[labels[test]]))
        else:
            losses.append(np.mean([loss(members, label) for members, label in zip(sets, labels[test], strict=True)]))
    assert np.mean(losses) <= 0.3 + 3 * np.std(losses) / np.sqrt(len(losses))
    assert np.mean(losses) >= 0.15  # and not much less
