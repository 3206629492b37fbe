"""Confidence intervals of differences, and the two tests of coverage."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import pippin
from pippin._compare.evidence import check_order, check_spread, difference
from pippin._compare.splits import draw_split
from support.trials import trial_of


def test_a_difference_is_paired_and_signed():
    """The interval equals one computed from the influence of the rows; swapping the scores negates it."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, ["ip", "pip"], splits=50)
    n, n_cal = 4986, 2244
    gaps = comparison.metric("mean_size")[0] - comparison.metric("mean_size")[1]
    found = difference(comparison, "mean_size", pippin.scores.ip(), pippin.scores.pip())
    whole = [pippin.calibrate(data.probs, data.labels, name).predict(data.probs).sizes for name in ("ip", "pip")]
    own = whole[0] - whole[1]
    tests = [~draw_split(comparison.trial, index).calibration for index in range(50)]
    tested = np.array([own[test].mean() for test in tests])
    rest = gaps - tested
    variance = own.var() / n + n_cal / (n - n_cal) * rest.var(ddof=1) - 2 * np.cov(tested, rest)[0, 1]
    half = stats.t.ppf(0.975, 49) * np.sqrt(variance + gaps.var(ddof=1) / 50)
    assert (found.mean, found.high - found.mean) == pytest.approx((gaps.mean(), half), rel=1e-6)
    turned = difference(comparison, "mean_size", pippin.scores.pip(), pippin.scores.ip())
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    assert len(pippin.differences(comparison, "mean_size")) == 1
    two = pippin.compare(data.probs, data.labels, ["ip", "pip"], splits=2)
    assert pippin.differences(two, "mean_size")[0].clear is False
    unknown = difference(replace(comparison, trial=None), "mean_size", pippin.scores.ip(), pippin.scores.pip())
    assert unknown.high - unknown.mean > half


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("metric", ["mean_size", "singleton_rate"])
def test_the_interval_covers_the_difference_on_new_rows(fraction, metric):
    """Over 200 simulated data sets, the 95% interval contains the true difference in at least 95% of cases.

    The true difference is the mean over data sets with equally many calibration rows.
    """
    rng = np.random.default_rng(11)
    found = []
    for _ in range(200):
        probs = rng.dirichlet(np.full(6, 0.4), 300)
        labels = (rng.random(300)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=5)
        comparison = pippin.compare(
            probs, labels, ["ip", "margin"], alpha=0.2, splits=30, calibration_fraction=fraction
        )
        found.append(difference(comparison, metric, *comparison.scores))
    truth = np.mean([one.mean for one in found])
    assert sum(one.low <= truth <= one.high for one in found) >= 190


def test_exchangeable_rows_pass_both_tests():
    """The example passes both tests of coverage."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, splits=300)
    found = check_spread(comparison)
    assert found.good, found.message
    assert "behaves as guaranteed" in found.message
    trial = trial_of(data.probs, data.labels)
    assert check_order(trial, pippin.scores.ip()).good


def test_ties_are_detected():
    """Coverage of top-k exceeds its exact distribution, and the message names ties."""
    data = pippin.load_example()
    found = check_spread(pippin.compare(data.probs, data.labels, ["ip", "topk"], splits=100))
    assert not found.good
    assert "Coverage of topk is not distributed as in theory" in found.message
    assert "tied" in found.message


def test_drift_is_detected():
    """Rows that get harder along the file fail the test of order, but not the test on random splits."""
    data = pippin.load_example()
    easy_first = np.argsort(pippin.scores.score(data.probs, data.labels, "ip"), kind="stable")
    probs, labels = data.probs[easy_first], data.labels[easy_first]
    assert check_spread(pippin.compare(probs, labels, ["ip"], splits=100)).good
    found = check_order(trial_of(probs, labels), pippin.scores.ip())
    assert not found.good
    assert "may not be exchangeable" in found.message


def test_the_test_of_order_rarely_rejects_exchangeable_rows():
    """At most a few of 300 exchangeable data sets are rejected."""
    rng = np.random.default_rng(3)
    accused = 0
    for _ in range(300):
        probs = rng.dirichlet(np.full(4, 0.5), 200)
        labels = (rng.random(200)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=3)
        accused += not check_order(trial_of(probs, labels, fraction=0.5), pippin.scores.ip()).good
    assert accused <= 3
