"""Clustered rows: each cluster ("unit") counts once, and a random row of a new cluster is covered."""

from fractions import Fraction

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from pippin._conformal.serialization import read_content
from pippin._theory.level import exact_alpha

CLASSES = ("crop", "weed")


def rows_of(scores):
    """Return rows whose first class, the true one, has these scores under ip."""
    p = 1 - np.asarray(scores, dtype=float)
    return np.stack([p, 1 - p], axis=1)


def calibrated(scores, units, alpha, **options):
    return pippin.calibrate(rows_of(scores), np.zeros(len(scores), int), "ip", alpha, units=units, **options)


def threshold_by_hand(scores, units, alpha):
    """Return the threshold by its definition: the smallest score with a weight up to it of (1 − α)(J + 1).

    A unit of m rows gives each row the weight 1/m; J is the number of units.
    """
    sizes = {unit: units.count(unit) for unit in units}
    reached = Fraction(0)
    for score, unit in sorted(zip(scores, units, strict=True)):
        reached += Fraction(1, sizes[unit])
        if reached >= (1 - exact_alpha(alpha)) * (len(sizes) + 1):
            return score
    return np.inf


pools = st.lists(st.lists(st.sampled_from([i / 16 for i in range(16)]), min_size=1, max_size=7), min_size=2, max_size=9)
levels = st.sampled_from([0.1, 0.25, 0.3, 1 / 3, 0.5])


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(pools, levels)
def test_threshold_and_p_values_equal_the_definition(pool, alpha):
    scores = [score for unit in pool for score in unit]
    units = [j for j, unit in enumerate(pool) for _ in unit]
    predictor = calibrated(scores, units, alpha)
    assert predictor.threshold == threshold_by_hand(scores, units, alpha)
    asked = np.arange(17) / 16
    heavier = [sum(Fraction(1, len(unit)) for unit in pool for score in unit if score >= one) for one in asked]
    expected = [float((one + 1) / (len(pool) + 1)) for one in heavier]
    found = predictor.p_values(rows_of(asked), np.zeros(17, int))
    assert found.tolist() == expected
    sets = predictor.predict(rows_of(asked))
    np.testing.assert_array_equal(sets.mask, predictor.p_values(rows_of(asked)) > alpha)
    assert [predictor.predict_one(row).tolist() for row in rows_of(asked)] == [list(one) for one in sets]


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(pools, levels)
def test_the_theorem_holds_for_every_pool_of_units(pool, alpha):
    """With each of the exchangeable units as the new one in turn, mean coverage is at least 1 − α."""
    shares = []
    for new, unit in enumerate(pool):
        rest = [(score, j) for j, other in enumerate(pool) for score in other if j != new]
        threshold = calibrated(*map(list, zip(*rest, strict=True)), alpha).threshold
        shares.append(Fraction(sum(score <= threshold for score in unit), len(unit)))
    assert sum(shares) / len(pool) >= 1 - exact_alpha(alpha)


def test_units_of_one_row_equal_marginal_calibration():
    scores = np.random.default_rng(0).random(57).round(2)
    asked = rows_of(np.linspace(0, 1, 40))
    for alpha in (0.05, 0.1, 1 / 3):
        plain = pippin.calibrate(rows_of(scores), np.zeros(57, int), "ip", alpha)
        found = calibrated(scores, np.arange(57), alpha)
        assert found.threshold == plain.threshold
        np.testing.assert_array_equal(found.p_values(asked), plain.p_values(asked))
        np.testing.assert_array_equal(
            found.point_predictions(asked).confidence, plain.point_predictions(asked).confidence
        )


def test_units_cover_random_photographs_and_marginal_calibration_does_not():
    """Calibration by unit covers random photographs, calibration by row does not, over 300 calibrations.

    Half of the photographs are easy and have many windows, with scores uniform on [0, ½]. The others are hard and have
    few windows, all with one score in [½, 1]. Coverage is computed exactly.
    """
    rng, alpha, found = np.random.default_rng(1), 0.2, {"plain": [], "units": []}
    for _ in range(300):
        hard = rng.random(24) < 0.5
        sizes = np.where(hard, 2, 30)
        units = np.repeat(np.arange(24), sizes)
        scores = np.where(hard[units], np.repeat(0.5 + rng.random(24) / 2, sizes), rng.random(len(units)) / 2)
        rows, truth = rows_of(scores), np.zeros(len(units), int)
        for name, more in (("plain", {}), ("units", {"units": units})):
            threshold = pippin.calibrate(rows, truth, "ip", alpha, **more).threshold
            easy, tough = np.clip(2 * threshold, 0, 1), np.clip(2 * threshold - 1, 0, 1)
            found[name].append((easy + tough) / 2)
    means = {name: np.mean(values) for name, values in found.items()}
    error = np.std(found["units"]) / np.sqrt(300)
    assert means["plain"] < 0.5
    assert 1 - alpha - 3 * error < means["units"] < 1 - alpha + 1 / 25 + 3 * error


def test_a_saved_predictor_is_restored_with_and_without_a_sharpener(tmp_path):
    data = pippin.load_example()
    photos = np.array([f"photo {i // 20}" for i in range(1000)])
    predictor = pippin.calibrate(data.probs[:1000], data.labels[:1000], "pip", units=photos, classes=data.classes)
    predictor.save(tmp_path / "p.json")
    again = pippin.load(tmp_path / "p.json")
    assert (repr(again), again.threshold, again.content()) == (
        repr(predictor),
        predictor.threshold,
        predictor.content(),
    )
    assert (
        "from 1,000 rows of 50 units: its sets contain the true class with probability at least 90%, for a row drawn"
        in again.describe()
    )
    assert again.at(0.2).threshold < again.threshold
    asked = polars.DataFrame(data.probs[1000:1010], schema=list(data.classes))
    assert again.p_values(asked).columns == list(data.classes)
    sharper = pippin.sharpen(data.probs[1000:1150], data.labels[1000:1150], classes=data.classes)
    behind = pippin.calibrate(
        data.probs[:1000], data.labels[:1000], "socop", units=photos, classes=data.classes, sharpen=sharper
    )
    behind.save(tmp_path / "s.json")
    rows = data.probs[2000:2050]
    assert pippin.load(tmp_path / "s.json").predict(rows).labels() == behind.predict(rows).labels()


def test_wrong_use_raises():
    with pytest.raises(
        ValueError, match="Expected one of units=, per= or groups=, got them together: choose one of them"
    ):
        calibrated([0.1, 0.2], [0, 1], 0.5, per="class")
    with pytest.raises(ValueError, match="Expected 2 units"):
        calibrated([0.1, 0.2], [0], 0.5)
    with pytest.warns(UserWarning, match="2 calibration units are too few for alpha=0.1: at least 9 are needed"):
        assert np.isinf(calibrated([0.1, 0.2, 0.3], [0, 0, 1], 0.1).threshold)
    content = calibrated([0.1, 0.2, 0.3], [0, 0, 1], 0.5).content()
    with pytest.raises(ValueError, match="its units makes no sense"):
        read_content(content | {"units": [0, 0, 2]})
