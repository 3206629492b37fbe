"""Smoothed p-values with weights, clustered rows ("units") and folds are uniform, by exact counting."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import pippin

TIED = np.array([0.125, 0.25, 0.25, 0.5, 0.5, 0.5, 0.75])


def rows_of(scores):
    """Return rows whose first class, the true one, has these scores under ip."""
    p = 1 - np.asarray(scores, dtype=float)
    return np.stack([p, 1 - p], axis=1)


def zeros(scores):
    return np.zeros(len(scores), dtype=int)


def jumps(lower, upper):
    """Return the distinct intervals of p-values, sorted, after a check that they divide [0, 1] without a gap."""
    distinct = sorted(set(zip(lower.tolist(), upper.tolist(), strict=True)))
    assert distinct[0][0] == pytest.approx(0, abs=1e-12)
    assert distinct[-1][1] == pytest.approx(1, abs=1e-12)
    for (_, end), (begin, _) in pairwise(distinct):
        assert end == pytest.approx(begin, abs=1e-12)
    return distinct


def ends(predictor, scores, probs=None, **options):
    """Return the limits of smoothed p-values for v → 0 and v → 1; the former is extrapolated from a random v."""
    rows = rows_of(scores) if probs is None else probs
    v = np.random.default_rng(5).random(len(scores))
    smoothed = predictor.p_values(rows, zeros(scores), seed=5, smoothed=True, **options)
    largest = predictor.p_values(rows, zeros(scores), **options)
    smallest = (smoothed - v * largest) / (1 - v)  # smoothed = v·largest + (1 − v)·smallest
    every = predictor.p_values(rows, seed=5, smoothed=True, **options)
    assert np.array_equal(every[:, 0], smoothed)
    return smallest, largest


def test_weighted_smoothed_p_values():
    """If each of n + 1 rows is the new one with probability proportional to its weight, p-values are uniform."""
    weights = np.array([1, 3, 2, 1, 5, 2, 4], dtype=float)
    pieces = []
    for new in range(7):
        rest = np.arange(7) != new
        predictor = pippin.calibrate(rows_of(TIED[rest]), zeros(TIED[rest]), "ip", 0.4, weights=weights[rest])
        low, high = ends(predictor, TIED[[new]], weights=weights[[new]])
        above = Fraction(int(weights[TIED[new] < TIED].sum()), int(weights.sum()))
        at_least = Fraction(int(weights[TIED[new] <= TIED].sum()), int(weights.sum()))
        assert low[0] == pytest.approx(float(above), abs=1e-12)
        assert high[0] == pytest.approx(float(at_least), abs=1e-15)
        pieces.append((low[0], high[0], weights[new] / weights.sum()))
    low, high, share = map(np.array, zip(*pieces, strict=True))
    for begin, end in jumps(low.round(12), high.round(12)):
        inside = np.isclose(low, begin)
        assert share[inside].sum() == pytest.approx(end - begin, abs=1e-11)  # so P(p ≤ t) = t


def test_label_shift_smoothed_p_values():
    """With weights by class (label shift), smoothed p-values are uniform."""
    data = pippin.load_example()
    ratios = pippin.shift.label_ratios(data.probs[:600], data.labels[:600], data.probs[600:900])
    predictor = pippin.calibrate(data.probs[:600], data.labels[:600], "topk", 0.1, weights=ratios)
    by_row = pippin.calibrate(
        data.probs[:600], data.labels[:600], "topk", 0.1, weights=np.asarray(ratios.ratios)[data.labels[:600]]
    )
    found = predictor.p_values(data.probs[600:640], weights=ratios, seed=1, smoothed=True)
    for k, ratio in enumerate(ratios.ratios):
        one = by_row.p_values(data.probs[600:640], weights=np.full(40, ratio), seed=1, smoothed=True)
        assert np.allclose(found[:, k], one[:, k], rtol=1e-14)


def test_units_of_several_rows_have_no_smoothed_p_values():
    """Clusters of several rows have no smoothed p-values: none is proven valid for one random row of a new cluster."""
    predictor = pippin.calibrate(rows_of([0.1, 0.2, 0.3]), zeros([0.1, 0.2, 0.3]), "ip", 0.5, units=[0, 0, 1])
    for method in (predictor.p_values, predictor.point_predictions):
        with pytest.raises(
            pippin.InputError, match="may be too small, so this predictor has none: leave smoothed= out"
        ):
            method(rows_of([0.2]), smoothed=True)


def test_units_of_one_row_are_uniform():
    """Clusters of one row are exchangeable rows, whose smoothed p-values are exactly uniform."""
    low, high = np.empty(7), np.empty(7)
    for new in range(7):
        rest = TIED[np.arange(7) != new]
        predictor = pippin.calibrate(rows_of(rest), zeros(rest), "ip", 0.4, units=np.arange(6))
        plain = pippin.calibrate(rows_of(rest), zeros(rest), "ip", 0.4)
        low[new : new + 1], high[new : new + 1] = ends(predictor, TIED[[new]])
        asked = {"seed": 2, "smoothed": True}
        assert np.allclose(
            predictor.p_values(rows_of(TIED), **asked), plain.p_values(rows_of(TIED), **asked), rtol=1e-14
        )
    for begin, end in jumps(low.round(12), high.round(12)):
        assert np.isclose(low, begin).sum() / 7 == pytest.approx(end - begin, abs=1e-11)


def test_cross_conformal_smoothed_p_values():
    """With equal models, cross-conformal p-values are those of split conformal prediction, so exactly uniform."""
    low, high = np.empty(7), np.empty(7)
    for new in range(7):
        rest = TIED[np.arange(7) != new]
        predictor = pippin.calibrate(rows_of(rest), zeros(rest), "ip", 0.4, folds=np.arange(6) % 2)
        models = [rows_of(TIED[[new]])] * 2
        low[new : new + 1], high[new : new + 1] = ends(predictor, TIED[[new]], probs=models)
    for begin, end in jumps(low.round(12), high.round(12)):
        assert np.isclose(low, begin).sum() / 7 == pytest.approx(end - begin, abs=1e-11)


def test_folds_with_unequal_models_by_counting():
    """With unequal models, smoothed p-values equal those from counting under the model of each fold."""
    folds = np.array([0, 1, 0, 1, 1, 0, 0])
    predictor = pippin.calibrate(rows_of(TIED), zeros(TIED), "ip", 0.4, folds=folds)
    grid = np.arange(1, 8) / 8
    models = [grid, grid[::-1]]
    v = np.random.default_rng(3).random(7)
    found = predictor.p_values([rows_of(one) for one in models], zeros(grid), seed=3, smoothed=True)
    for i in range(7):
        above = sum(s > models[f][i] for s, f in zip(TIED, folds, strict=True))
        equal = sum(s == models[f][i] for s, f in zip(TIED, folds, strict=True))
        assert found[i] == pytest.approx((above + v[i] * (1 + equal)) / 8, rel=1e-14)


@pytest.mark.parametrize("rule", ["weights", "units", "folds"])
def test_many_smoothed_p_values_are_uniform(rule):
    """Smoothed p-values of every rule are uniform over 1,500 calibrations, for a score with many ties (top-k)."""
    rng, n, found = np.random.default_rng(1), 20, []
    given = {"weights": np.ones(n), "units": np.arange(n), "folds": np.arange(n) % 4}[rule]
    for _ in range(1500):
        probs, labels = rng.dirichlet(np.ones(3), n + 1), rng.integers(0, 3, n + 1)
        predictor = pippin.calibrate(probs[:n], labels[:n], "topk", 0.3, **{rule: given})
        rows = [probs[n:]] * 4 if rule == "folds" else probs[n:]
        weights = {"weights": [1.0]} if rule == "weights" else {}
        found.append(predictor.p_values(rows, labels[n:], seed=rng, smoothed=True, **weights)[0])
    assert stats.kstest(found, "uniform").pvalue > 0.01
