"""Predictors of sharpened (recalibrated) probabilities: exact coverage, all modes, files, and repeated rows."""

import numpy as np
import pytest
from scipy import stats

import pippin
from pippin._conformal.predictor import mondrian_of
from pippin._sharpening.sharpener import row_prints
from pippin._validation.rows import as_rows
from support.confused_rows import confused_rows


@pytest.fixture(scope="module")
def sharper():
    """Return a sharpener fitted on 200 rows."""
    return pippin.sharpen(*confused_rows(200))


@pytest.mark.parametrize("score", ["socop", "ip", "repip"])
def test_sharpened_coverage_follows_the_beta_distribution(sharper, score):
    """Over 800 calibrations of 49 rows, coverage is Beta(45, 5)-distributed."""
    probs, labels = confused_rows(800 * 49 + 40_000, seed=20)
    scores = pippin.scores.score(sharper(probs), labels, score)
    calibrations, test = np.sort(scores[: 800 * 49].reshape(800, 49), axis=1), np.sort(scores[800 * 49 :])
    coverage = np.searchsorted(test, calibrations[:, 44], side="right") / len(test)
    assert stats.kstest(coverage, stats.beta(45, 5).cdf).pvalue > 0.01
    one = pippin.calibrate(probs[:49], labels[:49], score, 0.1, sharpen=sharper)
    assert one.threshold == calibrations[0, 44]


def test_training_rows_of_the_sharpener_cannot_calibrate():
    """They are recognized, even if they are a tenth of the rows; with them, coverage would be too low."""
    probs, labels = confused_rows(300, seed=21)
    sharper = pippin.sharpen(probs[:150], labels[:150])
    with pytest.raises(pippin.InputError, match="got 30 of 180 that it was fitted on: split the rows first"):
        pippin.calibrate(probs[120:], labels[120:], sharpen=sharper)
    pippin.calibrate(probs[150:], labels[150:], sharpen=sharper)
    again = pippin.sharpen(np.log(probs[:150]), labels[:150], from_logits=True)
    with pytest.raises(pippin.InputError, match="that it was fitted on"):
        pippin.calibrate(np.log(probs), labels, sharpen=again, from_logits=True)


@pytest.mark.parametrize("per", [None, "class", "group", "rc3p"])
def test_all_taxonomies_work_with_a_sharpener(sharper, per, tmp_path):
    """The predictor equals one calibrated on the sharpened rows, also after loading."""
    probs, labels = confused_rows(500, seed=22)
    groups = np.arange(500) % 3 if per == "group" else None
    predictor = pippin.calibrate(probs, labels, "pip", 0.2, sharpen=sharper, per=per, groups=groups)
    base = pippin.calibrate(sharper(probs), labels, "pip", 0.2, per=per, groups=groups)
    beside = {} if groups is None else {"groups": groups}
    expected = base.predict(sharper(probs), **beside)
    predictor.save(tmp_path / "p.json")
    for found in (predictor, pippin.load(tmp_path / "p.json")):
        assert np.array_equal(found.predict(probs, **beside).members, expected.members)
        if per != "rc3p":  # rc3p has no p-values
            assert np.array_equal(found.p_values(probs, **beside), base.p_values(sharper(probs), **beside))
        assert isinstance(found, pippin.ConformalPredictor)
        assert "behind a sharpener fitted on 200 rows" in found.describe()
    assert predictor.at(0.1).alpha == 0.1
    assert predictor.guarantee == 0.8


def test_predict_one_equals_predict(sharper):
    """`predict_one` returns the members of `predict`."""
    probs, labels = confused_rows(300, seed=23)
    predictor = pippin.calibrate(probs, labels, "socop", sharpen=sharper)
    sets = predictor.predict(probs)
    for row, start, stop in zip(probs[:60], sets.offsets[:60], sets.offsets[1:61], strict=True):
        assert predictor.predict_one(row).tolist() == sets.members[start:stop].tolist()
    with pytest.raises(pippin.InputError, match="Expected 4 columns, one per class"):
        predictor.predict_one(probs[0, :3])
    with pytest.raises(pippin.InputError, match="sums to"):
        predictor.predict_one(2 * probs[0])


def test_all_rules_work_with_a_sharpener(sharper, tmp_path):
    """A weighted predictor works with a sharpener, and equals one calibrated on sharpened rows."""
    probs, labels = confused_rows(400, seed=24)
    weights = np.linspace(1, 2, 400)
    predictor = pippin.calibrate(probs, labels, "ip", 0.2, weights=weights, sharpen=sharper)
    plain = pippin.calibrate(sharper(probs), labels, "ip", 0.2, weights=weights)
    predictor.save(tmp_path / "p.json")
    sets = pippin.load(tmp_path / "p.json").predict(probs, weights=weights)
    assert np.array_equal(sets.members, plain.predict(sharper(probs), weights=weights).members)
    pattern = (
        r"Expected the classes of the sharpener \(0, 1, 2, 3\), got .*: sharpen and calibrate with the same classes="
    )
    for names in (("a", "b", "c", "d"), (3, 2, 1, 0)):
        with pytest.raises(pippin.InputError, match=pattern):
            pippin.calibrate(probs, labels, classes=names, sharpen=sharper)


def test_split_divides_the_rows():
    """One part fits the sharpener and the other calibrates; sets cover, and are smaller than without sharpening."""
    probs, labels = confused_rows(9000, seed=25)
    predictor = pippin.calibrate(probs[:1000], labels[:1000], "socop", 0.1, sharpen="split")
    plain = pippin.calibrate(probs[:1000], labels[:1000], "socop", 0.1)
    assert (predictor.sharpeners[0].out_of_fold.n, predictor.n_calibration) == (500, 500)
    found, other = (one.predict(probs[1000:]) for one in (predictor, plain))
    assert pippin.metrics.coverage(found, labels[1000:]) == pytest.approx(0.9, abs=0.04)
    assert pippin.metrics.mean_size(found) < pippin.metrics.mean_size(other)
    assert pippin.metrics.singleton_rate(found) > pippin.metrics.singleton_rate(other)


def test_the_price_of_socop_is_chosen_on_the_training_rows():
    """SOCOP's mu is selected on the rows that fit the sharpener, out of fold; the other rows calibrate."""
    probs, labels = confused_rows(5000, seed=26)
    few = pippin.calibrate(probs[:800], labels[:800], "socop(max_size=1.35)", sharpen="split")
    many = pippin.calibrate(probs[:800], labels[:800], "socop(min_singletons=0.9)", sharpen="split")
    sets = [one.predict(probs[800:]) for one in (few, many)]
    assert few.score != many.score
    assert pippin.metrics.singleton_rate(sets[0]) < pippin.metrics.singleton_rate(sets[1])
    assert pippin.metrics.mean_size(sets[0]) < min(1.4, pippin.metrics.mean_size(sets[1]))
    for wrong in ("socop(max_size=1.0, min_singletons=0.5)", "ip(max_size=1.0)", "socop(max_size=2, mu=1)"):
        with pytest.raises(pippin.InputError, match=r"Expected socop\(max_size=…\) or socop\(min_singletons=…\)"):
            pippin.calibrate(probs[:800], labels[:800], wrong, sharpen="split")


def test_each_part_of_a_mixture_calibrates_on_rows_its_sharpener_was_not_fitted_on(tmp_path):
    """Each part is split conformal prediction, rows draw parts uniformly, and a loaded predictor draws equally."""
    probs, labels = confused_rows(250, seed=27)
    mixture = pippin.calibrate(probs, labels, "ip", 0.2, sharpen="mixture")
    assert mondrian_of(mixture).categories.counts.tolist() == [50] * 5
    parts = []
    for sharper, threshold in zip(mixture.sharpeners, mixture.thresholds[:, 0], strict=True):
        seen = np.isin(_prints(probs), sharper.out_of_fold.prints[0])
        assert seen.sum() == 200
        parts.append(pippin.calibrate(probs[~seen], labels[~seen], "ip", 0.2, sharpen=sharper))
        assert parts[-1].threshold == threshold
    new, truth = confused_rows(4000, seed=28)
    sets = mixture.predict(new, seed=1)
    drawn = np.random.default_rng(1).integers(5, size=4000)
    for number, part in enumerate(parts):
        alone = part.predict(new[drawn == number])
        assert np.array_equal(sets.sizes[drawn == number], alone.sizes)
    assert pippin.metrics.coverage(sets, truth) == pytest.approx(0.8, abs=0.06)
    mixture.save(tmp_path / "m.json")
    again = pippin.load(tmp_path / "m.json")
    assert np.array_equal(again.predict(new, seed=1).members, sets.members)
    assert again.at(0.1).alpha == 0.1
    assert mixture.guarantee == 0.8


def _prints(probs):
    return row_prints(as_rows(probs))[0]


def test_sharpened_cross_conformal_coverage_keeps_its_bound(tmp_path):
    """Five sharpeners, all rows calibrate; coverage is above the proven bound and near 1 − alpha."""
    probs, labels = confused_rows(250, seed=29)
    predictor = pippin.calibrate(probs, labels, "socop", 0.1, sharpen="cross")
    assert (len(predictor.sharpeners), predictor.n_calibration) == (5, 250)
    new, truth = confused_rows(4000, seed=30)
    sets = predictor.predict(new)
    assert predictor.guarantee < pippin.metrics.coverage(sets, truth) == pytest.approx(0.9, abs=0.05)
    assert predictor.takes == set()
    predictor.save(tmp_path / "c.json")
    assert np.array_equal(pippin.load(tmp_path / "c.json").predict(new).members, sets.members)
    assert [predictor.predict_one(row).tolist() for row in new[:20]] == [
        sets.members[a:b].tolist() for a, b in zip(sets.offsets[:20], sets.offsets[1:21], strict=True)
    ]


def test_the_number_of_folds_is_chosen():
    """With three folds, three sharpeners are each fitted on two thirds of the rows."""
    predictor = pippin.calibrate(*confused_rows(120, seed=29), "socop", 0.1, sharpen="cross(folds=3)")
    assert [sharpener.out_of_fold.n for sharpener in predictor.sharpeners] == [80, 80, 80]
    assert predictor.guarantee == pytest.approx(0.8 - min(2 * (2 / 3) / 41, (1 - 3 / 120) / 4))
    with pytest.raises(pippin.InputError, match="Expected more rows, to learn on some and calibrate on others, got 60"):
        pippin.calibrate(*confused_rows(60), sharpen="cross(folds=61)")


def test_a_mixture_covers_on_average_over_small_data_sets():
    """Mean coverage over ten data sets of 60 rows, within three standard errors."""
    new, truth = confused_rows(1000, seed=31)
    found = []
    for seed in range(10):
        probs, labels = confused_rows(60, seed=100 + seed)
        sets = pippin.calibrate(probs, labels, "ip", 0.2, sharpen="mixture", seed=seed).predict(new, seed=seed)
        found.append(pippin.metrics.coverage(sets, truth))
    assert np.mean(found) > 0.8 - 3 * np.std(found) / np.sqrt(10)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("both", "Expected sharpen to be a Sharpener, True, 'split', 'mixture' or 'cross', got 'both'"),
        ("mixture(folds=3)", "Expected sharpen to be a Sharpener, True, 'split', 'mixture' or 'cross'"),
        ("cross(folds=1)", "Expected a whole number of folds from 2 to 100, got 1: 5 is the default"),
        ("cross(folds=2.0)", "Expected a whole number of folds from 2 to 100, got 2.0"),
        ("cross(folds=101)", "Expected a whole number of folds from 2 to 100, got 101"),
        ("split(learning_fraction=1.0)", "Expected a learning fraction strictly between 0 and 1, got 1.0"),
    ],
)
def test_sharpen_is_checked(wrong, message):
    """Each error is one sentence."""
    with pytest.raises(pippin.InputError, match=message):
        pippin.calibrate(*confused_rows(100), sharpen=wrong)
    with pytest.raises(pippin.InputError, match="Expected more rows, to learn on some and calibrate on others, got 12"):
        pippin.calibrate(*confused_rows(12), sharpen=True)


def test_a_split_keeps_units_together():
    """With clustered rows, no cluster both fits the sharpener and calibrates."""
    probs, labels = confused_rows(600, seed=33)
    units = np.random.default_rng(34).permutation(np.arange(600) // 12)
    for fraction in (0.3, 0.5, 0.8):
        predictor = pippin.calibrate(
            probs, labels, "pip", 0.2, units=units, sharpen=f"split(learning_fraction={fraction})", seed=1
        )
        fitted = np.isin(_prints(probs), predictor.sharpeners[0].out_of_fold.prints[0])
        assert not set(units[fitted]) & set(units[~fitted])
        assert len(set(units[fitted])) == round(fraction * 50)
        assert predictor.n_calibration == (~fitted).sum()
        assert predictor.n_effective == 50 - round(fraction * 50)
        again = pippin.calibrate(
            probs[~fitted], labels[~fitted], "pip", 0.2, units=units[~fitted], sharpen=predictor.sharpeners[0]
        )
        assert again.threshold == predictor.threshold
