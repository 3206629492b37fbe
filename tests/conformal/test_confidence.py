"""Training-conditional (PAC) calibration: coverage reaches 1 − alpha with the requested confidence."""

import numpy as np
import pytest
from scipy import stats

import pippin


def rows_of(scores):
    """Return rows whose first class, the true one, has these scores under ip."""
    p = 1 - np.asarray(scores)
    return np.stack([p, 1 - p], axis=1)


def calibrated(scores, alpha=0.1, confidence=0.9, **options):
    labels = np.zeros(len(scores), dtype=int)
    return pippin.calibrate(rows_of(scores), labels, "ip", alpha, confidence=confidence, **options)


@pytest.mark.filterwarnings("ignore:.*too few")
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.25])
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
def test_the_rank_is_the_smallest_by_the_beta_distribution(alpha, confidence):
    """Coverage of the k-th smallest is Beta(k, n + 1 − k), so P(coverage ≥ 1 − alpha) is its survival function."""
    for n in (1, 5, 28, 29, 58, 59, 100, 317, 1000):
        scores = np.sort(np.random.default_rng(n).random(n))
        probable = stats.beta.sf(1 - alpha, np.arange(1, n + 1), n - np.arange(n)) >= confidence
        own = 1 - rows_of(scores)[:, 0]
        wanted = own[probable.argmax()] if probable.any() else np.inf
        assert calibrated(scores, alpha, confidence).threshold == wanted


@pytest.mark.parametrize(("n", "alpha", "confidence"), [(200, 0.1, 0.9), (80, 0.2, 0.75), (60, 0.05, 0.95)])
def test_coverage_reaches_the_level_with_the_given_confidence(n, alpha, confidence):
    """Scores are uniform, so coverage is the threshold; over 1,000 calibrations, within four standard errors."""
    rng = np.random.default_rng(n)
    coverage = np.array([calibrated(rng.random(n), alpha, confidence).threshold for _ in range(1000)])
    reached = (coverage >= 1 - alpha).mean()
    k = int(np.argmax(stats.beta.sf(1 - alpha, np.arange(1, n + 1), n - np.arange(n)) >= confidence)) + 1
    exact = stats.beta.sf(1 - alpha, k, n + 1 - k)
    assert exact >= confidence
    assert abs(reached - exact) < 4 * np.sqrt(exact * (1 - exact) / 1000)
    assert stats.kstest(coverage, stats.beta(k, n + 1 - k).cdf).pvalue > 0.01
    on_average = np.array([calibrated(rng.random(n), alpha, None).threshold for _ in range(200)])
    assert (on_average >= 1 - alpha).mean() < confidence


def test_each_class_reaches_the_level_with_the_given_confidence():
    """Per class the rank follows from the number of rows of the class."""
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1], [60, 150])
    reached = np.zeros(2)
    for _ in range(500):
        scores = rng.random(210)
        p = 1 - scores
        probs = np.where(labels[:, None] == 0, np.stack([p, 1 - p], axis=1), np.stack([1 - p, p], axis=1))
        predictor = pippin.calibrate(probs, labels, "ip", 0.1, per="class", confidence=0.8)
        reached += predictor.thresholds[0] >= 0.9
    assert (reached / 500 > 0.8 - 4 * np.sqrt(0.16 / 500)).all()


def test_at_save_and_describe_keep_the_confidence(tmp_path):
    scores = np.random.default_rng(0).random(500)
    predictor = calibrated(scores)
    assert predictor.confidence == 0.9
    assert predictor.at(0.2).threshold == calibrated(scores, 0.2).threshold
    assert (
        "in 90% of calibrations its sets contain the true class with probability at least 90%" in predictor.describe()
    )
    assert "confidence=0.9" in repr(predictor)
    predictor.save(tmp_path / "p.json")
    again = pippin.load(tmp_path / "p.json")
    assert (again.confidence, again.threshold, repr(again)) == (0.9, predictor.threshold, repr(predictor))
    assert again.at(0.2).threshold == predictor.at(0.2).threshold
    assert predictor.threshold > calibrated(scores, confidence=None).threshold


def test_too_few_rows_warn_with_the_number_needed():
    """With n rows the largest score reaches 0.9 with probability 1 − 0.9ⁿ, which is 0.95 from n = 29 on."""
    assert np.isfinite(calibrated(np.arange(29) / 29, 0.1, 0.95).threshold)
    with pytest.warns(
        UserWarning, match=r"28 calibration examples are too few for alpha=0\.1 with confidence=0\.95: at"
    ):
        assert calibrated(np.arange(28) / 28, 0.1, 0.95).threshold == np.inf


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, np.nan, "0.9"])
def test_an_invalid_confidence_raises(confidence):
    with pytest.raises(pippin.InputError, match="Expected a confidence strictly between 0 and 1, got"):
        calibrated(np.arange(50) / 50, confidence=confidence)


@pytest.mark.parametrize(
    "options",
    [
        {"units": np.arange(50)},
        {"weights": np.ones(50)},
        {"folds": np.arange(50) % 2},
        {"per": "rc3p"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_rules_without_a_coverage_distribution_raise(options):
    with pytest.raises(
        pippin.InputError, match=r"Expected confidence= without .*, whose coverage has no known distribution"
    ):
        calibrated(np.arange(50) / 50, **options)


WORLDS = 400
LAWS = {
    "all rows": ({}, lambda n: [n]),
    "class": ({"per": "class"}, lambda n: [n - n // 3, n // 3]),
    "group": ({"per": "group"}, lambda n: [n - n // 4, n // 4]),
    "kind": ({"per": {0: "crop", 1: "crop"}}, lambda n: [n]),
    "interpolated": ({"per": "interpolated"}, lambda n: [n - round(n / 2)]),
}


@pytest.mark.filterwarnings("ignore")  # of few rows, and of rows that are all classified correctly
@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("n", [40, 90, 240])
@pytest.mark.parametrize("name", LAWS)
def test_the_share_of_calibrations_with_enough_coverage_is_exact(name, n, decimals):
    """Scores are uniform in every category, so that coverage is the threshold; rounded to 0.1 they have ties.

    Without ties, the number of calibrations that reach 1 − alpha is binomial with the probability of the beta
    distribution. With ties, it is at least the confidence. Both are tested exactly, at a level of 1e-5.
    """
    options, sizes = LAWS[name]
    rng = np.random.default_rng(n)
    reached = np.zeros(len(sizes(n)), dtype=int)
    labels = (np.arange(n) >= n - n // 3).astype(int)
    for _ in range(WORLDS):
        scores = rng.random(n) if decimals is None else np.ceil(rng.random(n) * 10) / 10
        probs = np.stack([np.where(labels == 0, 1 - scores, scores), np.where(labels == 0, scores, 1 - scores)], axis=1)
        groups = {"groups": (np.arange(n) >= n - n // 4).astype(int)} if name == "group" else {}
        given = {"seed": rng, "confidence": 0.8, **options, **groups}
        thresholds = pippin.calibrate(probs, labels, "ip", 0.2, **given).thresholds
        if name in ("class", "group"):
            reached += (thresholds[0] if name == "class" else thresholds[:, 0]) >= 0.8 - 1e-9
        else:  # the two classes have the shares 1 − 1/3 and 1/3
            weight = np.array([(labels == 0).mean(), (labels == 1).mean()])
            reached += np.minimum(np.broadcast_to(thresholds[0], 2), 1) @ weight >= 0.8 - 1e-9
    for count, m in zip(reached.tolist(), sizes(n), strict=True):
        chances = stats.beta.sf(0.8, np.arange(1, m + 1), m - np.arange(m))
        exact = chances[(chances >= 0.8).argmax()] if (chances >= 0.8).any() else 1.0
        assert count >= stats.binom.ppf(1e-5, WORLDS, exact if decimals is None else 0.8)
        if decimals is None:
            assert count <= stats.binom.ppf(1 - 1e-5, WORLDS, exact)


@pytest.mark.parametrize("n", [28, 29, 100, 2000])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_plan_has_the_rank_of_the_calibration(n, confidence):
    planned = pippin.plan(0.1, n, confidence=confidence, test=500)
    reached = stats.beta.sf(0.9, np.arange(1, n + 1), n - np.arange(n))
    assert planned.k == (int((reached >= confidence).argmax()) + 1 if (reached >= confidence).any() else n + 1)
    assert planned.confidence == confidence
    assert planned.below() <= 1 - confidence
    assert planned.finite == (planned.k <= n)
    if planned.finite:
        law = stats.beta(planned.k, n + 1 - planned.k)
        assert (planned.mean, planned.low) == pytest.approx((law.mean(), law.ppf(0.025)))
        measured = stats.betabinom(500, planned.k, n + 1 - planned.k)
        assert planned.test_low == pytest.approx(measured.ppf(0.025) / 500)


def test_plan_refuses_an_invalid_confidence():
    with pytest.raises(pippin.InputError, match="Expected a confidence strictly between 0 and 1, got 95"):
        pippin.plan(0.1, 100, confidence=95)


def test_the_verdict_expects_the_coverage_of_the_confidence():
    """With confidence, coverage above 1 − alpha is as promised, where it is higher than expected on average."""
    rng = np.random.default_rng(8)
    predictor = calibrated(rng.random(60), 0.1, 0.99)
    new = rng.random(4000)
    evaluation = pippin.evaluate(predictor, np.zeros(4000, dtype=int), probs=rows_of(new))
    law = stats.betabinom(4000, 59, 2)
    assert evaluation.coverage > 0.95
    assert ("as promised" in evaluation.verdict) == (law.sf(round(evaluation.coverage * 4000) - 1) > 0.0228)


@pytest.mark.filterwarnings("ignore")
def test_the_card_names_the_confidence():
    predictor = calibrated(np.random.default_rng(0).random(500), 0.1, 0.9)
    assert predictor.card()["At which level?"] == (
        "alpha = 0.1: coverage of at least 90%, with a confidence of 90% over calibrations."
    )
