"""Comparisons of very many rows: all rows are split, and details of a report use a sample."""

import numpy as np
import pytest
from scipy import stats

import pippin
from pippin._compare import splits
from pippin._compare.evidence import difference
from pippin._compare.methods import parse_methods
from pippin._compare.report_data import study
from pippin._compare.splits import make_trial
from pippin._compare.verdict import describe_sample
from pippin._validation.labels import as_labelled

MOST = 1500


def made_trial():
    data = pippin.load_example()
    return make_trial(as_labelled(data.probs, data.labels, data.classes, False), 0.1, 0.45, 0)


def test_details_of_many_rows_use_a_sample(monkeypatch):
    """Splits use all rows; everything else uses the sample, and a sentence says so."""
    methods = parse_methods(["ip", "repip", "aps"])
    whole = study(made_trial(), methods, 300)
    assert describe_sample(whole.comparison) == ""
    monkeypatch.setattr(splits, "MOST_ROWS", MOST)
    found = study(made_trial(), methods, 300)
    assert np.array_equal(found.comparison.values, whole.comparison.values)
    near = found.comparison.sample
    assert near is found.comparison.sample
    assert near.n == MOST
    assert found.comparison.pooled == 100
    assert {front.n for front in found.verdict.fronts.values()} == {MOST}
    assert {one.n for one in found.evaluations.values()} == {near.n_test}
    assert {curve.n_test for curve in found.curves} == {near.n_test}
    assert describe_sample(found.comparison).startswith("All 4,986 rows were split. Fronts, curves over levels, sizes")
    assert found.verdict.take == whole.verdict.take
    for one, other in zip(found.comparison.tallies, whole.comparison.tallies, strict=True):
        assert np.array_equal(one.classes, other.classes)
        assert np.array_equal(one.strata, other.strata)
    ip, repip, _ = methods
    for metric in ("mean_size", "singleton_rate"):
        wide, narrow = (difference(one, metric, ip, repip) for one in (near, found.comparison))
        assert narrow.mean == difference(whole.comparison, metric, ip, repip).mean
        over_rows = _variance(wide, near.splits) - _over_splits(near, metric)
        own = over_rows * near.n / found.comparison.n + _over_splits(found.comparison, metric)
        assert _variance(narrow, 300) == pytest.approx(own, rel=1e-9)


def _variance(gap, splits):
    """Return the variance that the width of an interval implies."""
    return ((gap.high - gap.low) / 2 / stats.t.ppf(0.975, splits - 1)) ** 2


def _over_splits(comparison, metric):
    """Return the part of the variance that is due to the finite number of splits."""
    one, other = comparison.metric(metric)[:2]
    return (one - other).var(ddof=1) / comparison.splits


def test_fewer_splits_are_pooled_for_very_many_rows():
    """The total number of rows is limited, and at least five splits are pooled."""
    values = np.zeros((1, 1000, 6))
    for n, pooled in ((5_000, 100), (100_000, 100), (200_000, 50), (2_000_000, 5), (10**8, 5)):
        assert pippin.Comparison(parse_methods(["ip"]), 0.1, 0, n, n // 2, values).pooled == pooled
    assert pippin.Comparison(parse_methods(["ip"]), 0.1, 0, 100, 50, values[:, :3]).pooled == 3
