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
