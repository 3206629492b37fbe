"""Intervals, and the two looks at coverage."""

import numpy as np
import pytest
from scipy import stats

import pippin
from pippin._compare.evidence import check_order, check_spread, difference, student_quantile
from support.trials import trial_of


@pytest.mark.parametrize("freedom", [5, 9, 30, 99, 999])
@pytest.mark.parametrize("p", [0.9, 0.95, 0.975, 0.995])
def test_students_quantile(freedom, p):
    """The series against SciPy."""
    assert student_quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), rel=3e-3)


def test_a_difference_is_paired_and_signed():
    """Nadeau and Bengio's interval by hand; swapping the scores turns it round."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, ["ip", "pip"], splits=50)
    gaps = comparison.metric("efficiency")[0] - comparison.metric("efficiency")[1]
    found = difference(comparison, "efficiency", pippin.ip(), pippin.pip())
    half = stats.t.ppf(0.975, 49) * np.sqrt((1 / 50 + 2742 / 2244) * gaps.var(ddof=1))
    assert (found.mean, found.high - found.mean) == pytest.approx((gaps.mean(), half), rel=1e-6)
    turned = difference(comparison, "efficiency", pippin.pip(), pippin.ip())
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    assert len(pippin.differences(comparison, "efficiency")) == 1


def test_the_interval_covers_the_difference_on_new_rows():
    """Over 200 simulated data sets, the 95 % interval holds the true difference at least 95 % of the time.

    It is conservative here: for a fixed classifier the correction allows for more than the splits share.
    """
    rng = np.random.default_rng(11)

    def draw(n):
        probs = rng.dirichlet(np.full(6, 0.4), n)
        return probs, (rng.random(n)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=5)

    probs, labels = draw(60_000)
    sizes = [
        pippin.efficiency(pippin.calibrate(probs, labels, score, 0.2).predict(probs)) for score in ("ip", "margin")
    ]
    truth = sizes[0] - sizes[1]
    hits = 0
    for _ in range(200):
        comparison = pippin.compare(*draw(300), ["ip", "margin"], alpha=0.2, splits=30)
        found = difference(comparison, "efficiency", *comparison.scores)
        hits += found.low <= truth <= found.high
    assert hits >= 190


def test_coverage_of_honest_rows_behaves_as_guaranteed():
    """The example passes both looks."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, splits=300)
    found = check_spread(comparison)
    assert found.good, found.message
    assert "behaves as guaranteed" in found.message
    trial = trial_of(data.probs, data.labels)
    assert check_order(trial, pippin.ip()).good


def test_ties_are_noticed():
    """Top-k covers more than the law says, and the sentence names ties."""
    data = pippin.load_example()
    found = check_spread(pippin.compare(data.probs, data.labels, ["ip", "topk"], splits=100))
    assert not found.good
    assert "topk strays" in found.message
    assert "tied" in found.message


def test_drift_is_noticed():
    """Rows that get harder along the file: random splits cannot show it, the order does."""
    data = pippin.load_example()
    easy_first = np.argsort(pippin.score(data.probs, data.labels, "ip"), kind="stable")
    probs, labels = data.probs[easy_first], data.labels[easy_first]
    assert check_spread(pippin.compare(probs, labels, ["ip"], splits=100)).good
    found = check_order(trial_of(probs, labels), pippin.ip())
    assert not found.good
    assert "may not be exchangeable" in found.message


def test_the_look_along_the_file_seldom_errs():
    """Of 300 honest data sets, next to none is accused."""
    rng = np.random.default_rng(3)
    accused = 0
    for _ in range(300):
        probs = rng.dirichlet(np.full(4, 0.5), 200)
        labels = (rng.random(200)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=3)
        accused += not check_order(trial_of(probs, labels, fraction=0.5), pippin.ip()).good
    assert accused <= 3
