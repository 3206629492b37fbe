"""Selective classification, conformal risk control and levels per superclass ("kind"): examples, files and errors."""

import warnings

import numpy as np
import pytest
from scipy import stats

import pippin
from pippin._conformal.serialization import write_file
from pippin._theory.certifying import STARTS, acted_needed, certified, sequence, tail
from support.decisions import field

DATA, UTILITY = field()
KINDS = dict(UTILITY.kinds)


@pytest.mark.parametrize(("wrong", "acted", "error"), [(0, 1, 0.5), (3, 40, 0.1), (17, 900, 0.02), (5, 5, 0.3)])
def test_tails_equal_the_binomial_distribution(wrong, acted, error):
    assert tail(wrong, acted, error) == pytest.approx(stats.binom.cdf(wrong, acted, error), rel=1e-12)


def test_certification_follows_the_fallback_procedure():
    """Thresholds are certified by Wiens's fallback procedure: a start that fails loses its share of the level."""
    log_odds = sequence(4)
    starts = [int(np.abs(log_odds[:-1] - start).argmin()) for start in STARTS[:-1]] + [len(log_odds) - 1]
    rng = np.random.default_rng(2)
    for _ in range(200):
        acted = np.sort(rng.integers(0, 600, len(log_odds)))
        wrong = np.minimum(acted, rng.binomial(acted, rng.choice([0.02, 0.08, 0.15])))
        level, wanted = 0.0, None
        for i in range(len(log_odds)):
            level += 0.02 * (i in starts)
            if level and stats.binom.cdf(wrong[i], acted[i], 0.1) <= level and acted[i]:
                wanted = i
            else:
                level = 0.0
        assert certified(acted, wrong, log_odds, 0.1, 0.1) == wanted


def test_smallest_number_of_rows_to_certify():
    """The smallest n for which the test passes at δ/5."""
    for share, error, delta in ((0.0, 0.02, 0.05), (0.01, 0.05, 0.1)):
        n = acted_needed(share, error, delta)
        assert stats.binom.cdf(np.ceil(share * n), n, error) <= delta / 5 < stats.binom.cdf(0, n // 2, error) + delta
    assert acted_needed(0.05, 0.05, 0.1) is None


@pytest.mark.filterwarnings("ignore:Nothing is acted on as")
def test_selective_predictions():
    """Rows are accepted whose largest probability reaches the threshold, or that of the predicted class."""
    found = pippin.decisions.select(DATA.probs[:2000], DATA.labels[:2000], error=0.1, classes=DATA.classes)
    predictions = found.predict(DATA.probs[2000:])
    top = DATA.probs[2000:].max(axis=1)
    np.testing.assert_array_equal(predictions.acted, top >= found.threshold)
    np.testing.assert_array_equal(predictions.labels, np.array(DATA.classes)[DATA.probs[2000:].argmax(axis=1)])
    right = predictions.labels == np.array(DATA.classes)[DATA.labels[2000:]]
    assert 1 - right[predictions.acted].mean() <= 0.1
    assert found.bound == 0.1
    assert "with 95% confidence at most 10%" in found.describe()
    each = pippin.decisions.select(DATA.probs, DATA.labels, error=0.2, classes=DATA.classes, per="class")
    predictions = each.predict(DATA.probs)
    best = DATA.probs.argmax(axis=1)
    np.testing.assert_array_equal(predictions.acted, DATA.probs.max(axis=1) >= each.thresholds[best])
    acted = np.bincount(best[predictions.acted], minlength=12)
    np.testing.assert_array_equal(acted, each.n_acted)
    with pytest.raises(pippin.InputError, match="a threshold per class: look at thresholds"):
        _ = each.threshold


@pytest.mark.filterwarnings("ignore:Nothing is acted on as")
@pytest.mark.parametrize("per", [None, "class"])
def test_saved_selective_classifiers_load_to_the_same_bits(tmp_path, per):
    """Selective classifiers are restored to the last bit, and edited files raise."""
    made = pippin.decisions.select(DATA.probs, DATA.labels, error=0.05, per=per, classes=DATA.classes)
    made.save(tmp_path / "sure.json")
    kept = pippin.load(tmp_path / "sure.json")
    assert kept.content() == made.content()
    assert np.array_equal(kept.predict(DATA.probs).acted, made.predict(DATA.probs).acted)
    assert isinstance(kept, pippin.decisions.SelectiveClassifier)
    assert (kept.confidence, kept.content()["delta"]) == (0.95, 0.05)
    assert repr(kept) == repr(made)
    write_file(tmp_path / "bad.json", {**made.content(), "thresholds": [2.0]})
    with pytest.raises(ValueError, match="its thresholds makes no sense"):
        pippin.load(tmp_path / "bad.json")


def test_warnings_if_no_threshold_is_certified():
    """Without a certified threshold, a warning names the number of rows needed, or states that no number suffices."""
    with pytest.warns(
        UserWarning, match=r"Nothing is acted on: 2,000 calibration rows .* About [\d,]+ rows like these"
    ):
        found = pippin.decisions.select(DATA.probs[:2000], DATA.labels[:2000], error=0.01)
    assert found.threshold == np.inf
    assert found.bound == 1
    assert not found.predict(DATA.probs).acted.any()
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.1), 3000)
    with pytest.warns(UserWarning, match="No number of rows like these would"):
        pippin.decisions.select(probs, rng.integers(0, 4, 3000), error=0.05)
    with pytest.warns(UserWarning, match="at least 228 of them, got 15"):
        pippin.decisions.select(probs[:15], probs[:15].argmax(axis=1), error=0.02)
    for options, message in (
        ({"error": 0}, "Expected error strictly"),
        ({"confidence": 1}, "Expected confidence strictly"),
        ({"per": "group"}, "None or 'class'"),
    ):
        with pytest.raises(pippin.InputError, match=message):
            pippin.decisions.select(DATA.probs, DATA.labels, **{"error": 0.02, **options})


def slow_risk(scores, labels, costs, alpha):
    """Return the smallest score at which (Σ losses + B)/(n + 1) is at most alpha."""
    for limit in [-np.inf, *np.sort(scores), np.inf]:
        if (costs[labels][scores > limit].sum() + costs.max()) / (len(scores) + 1) <= alpha + 1e-12:
            return limit
    return np.inf


def test_risk_thresholds_equal_the_definition(tmp_path):
    """Thresholds equal the definition for costs per class, equal costs and loss functions, also after saving."""
    rng = np.random.default_rng(1)
    probs, labels = rng.dirichlet(np.ones(3), 80), rng.integers(0, 3, 80)
    scores = pippin.scores.score(probs, labels, "pip")
    for costs, alpha in (([1.0, 2.0, 5.0], 0.4), ([0.0, 1.0, 3.0], 0.2), ([1.0, 1.0, 1.0], 0.1), ([1, 2, 5], 7.0)):
        found = pippin.decisions.control_risk(probs, labels, costs, alpha, score="pip")
        assert found.threshold == slow_risk(scores, labels, np.array(costs, float), alpha)
        again = pippin.decisions.control_risk(
            probs,
            labels,
            lambda members, y, c=costs: 0.0 if y in members else c[y],
            alpha,
            score="pip",
            bound=max(costs),
        )
        assert again.threshold == found.threshold
        found.save(tmp_path / "r.json")
        loaded = pippin.load(tmp_path / "r.json")
        assert (loaded.threshold, loaded.describe()) == (found.threshold, found.describe())
        assert loaded.at(0.3).threshold == found.at(0.3).threshold
        again.save(tmp_path / "f.json")
        assert pippin.load(tmp_path / "f.json").predict(probs).sizes.tolist() == found.predict(probs).sizes.tolist()
    one = pippin.decisions.control_risk(probs, labels, 1.0, 0.1, score="pip")
    assert one.threshold == pippin.calibrate(probs, labels, "pip", 0.1).threshold
    assert one.guarantee == pytest.approx(0.9)


@pytest.mark.parametrize("score", ["pip", "aps"])
def test_risk_predict_one_equals_predict(score):
    """`predict_one` equals `predict` for risk control, with and without randomization and nonempty sets."""
    controller = pippin.decisions.control_risk(DATA.probs[:1000], DATA.labels[:1000], 1.0, 0.4, score=score, seed=0)
    rows = DATA.probs[1000:1100]
    assert (controller.predict(rows, seed=0).sizes == 0).any()
    for nonempty in (False, True):
        for row in rows:
            found = controller.predict_one(row, seed=3, nonempty=nonempty)
            np.testing.assert_array_equal(found, controller.predict([row], seed=3, nonempty=nonempty).members)
            assert len(found) >= nonempty
    assert repr(controller).startswith(f"RiskController({controller.score}, level=0.4, threshold=")


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99, 1 / 3, 0.123456789])
def test_files_hold_one_minus_confidence(confidence, tmp_path):
    """Files store 1 − confidence in decimal arithmetic, from which the confidence is restored to the last bit."""
    made = pippin.decisions.select(DATA.probs, DATA.labels, error=0.3, confidence=confidence)
    made.save(tmp_path / "sure.json")
    assert pippin.load(tmp_path / "sure.json").confidence == made.confidence == confidence
    assert made.content()["delta"] == pytest.approx(1 - confidence, rel=1e-15)


@pytest.mark.parametrize("confidence", [0.0002990964532489018, 0.13873673731586175, 1e-300, 1 - 1e-16])
def test_a_confidence_without_an_exact_complement_is_restored(confidence, tmp_path):
    """The file then holds the confidence too, since 1 − (1 − c) is another number than c."""
    with warnings.catch_warnings(action="ignore"):
        made = pippin.decisions.select(DATA.probs, DATA.labels, error=0.3, confidence=confidence)
    made.save(tmp_path / "sure.json")
    assert pippin.load(tmp_path / "sure.json").confidence == made.confidence == confidence


def test_errors_of_losses():
    probs, labels = np.full((30, 2), 0.5), [0, 1] * 15
    for loss, options, message in (
        (lambda s, y: float(len(s)), {"bound": 5, "level": 3}, "does not grow with the set"),
        (lambda s, y: 2.0, {}, "a loss from 0 to the bound 1, got 2"),
        (lambda s, y: 0.5, {}, "The full set may lose 0.5"),
        ([1, 2, 3], {}, "Expected 2 costs, one per class"),
        ([1, -2], {}, "Expected costs of at least 0"),
        ({"a": 1}, {"classes": ["a", "b"]}, "a cost for each of the 2 classes .*, got none for 'b'"),
        ({"a": 1, "b": 1, "c": 1}, {"classes": ["a", "b"]}, "'c', which is none of the 2 classes"),
        (1.0, {"bound": 2}, "bound only with a loss function"),
        (1.0, {"level": 0}, "Expected level to be a number above 0"),
    ):
        with pytest.raises(pippin.InputError, match=message):
            pippin.decisions.control_risk(probs, labels, loss, options.pop("level", 0.1), **options)
    with pytest.warns(UserWarning, match="30 calibration examples are too few .* at least 99 are needed"):
        found = pippin.decisions.control_risk(probs, labels, 10.0, 0.1)
    assert found.threshold == np.inf


def test_sets_per_kind(tmp_path):
    """With a level per superclass, sets have a threshold for each, which is saved, loaded and described."""
    levels = {"weed": 0.1, "crop": 0.01}
    found = pippin.calibrate(DATA.probs[:2000], DATA.labels[:2000], "ip", levels, per=KINDS, classes=DATA.classes)
    scores = pippin.scores.score(DATA.probs[:2000], DATA.labels[:2000], "ip")
    crop = np.array([KINDS[DATA.classes[k]] == "crop" for k in DATA.labels[:2000]])
    for name, own in (("crop", scores[crop]), ("weed", scores[~crop])):
        n = len(own)
        k = int(np.ceil((n + 1) * (1 - levels[name]) - 1e-9))
        column = next(i for i, c in enumerate(DATA.classes) if KINDS[c] == name)
        assert found.thresholds[0, column] == np.sort(own)[k - 1]
    assert found.alpha == 0.1
    assert found.describe().endswith(
        "its sets contain the true class with probability at least 90% for weed, 99% for crop."
    )
    assert found.table()["kind"].to_list() == [KINDS[name] for name in DATA.classes]
    found.save(tmp_path / "k.json")
    again = pippin.load(tmp_path / "k.json")
    assert again.describe() == found.describe()
    assert again.levels == found.levels
    np.testing.assert_array_equal(
        again.at({"weed": 0.2, "crop": 0.1}).thresholds, found.at({"weed": 0.2, "crop": 0.1}).thresholds
    )
    np.testing.assert_array_equal(again.at(0.05).thresholds, found.at(0.05).thresholds)
    with pytest.raises(pippin.InputError, match="one per kind without kinds"):
        pippin.calibrate(DATA.probs, DATA.labels, "ip", levels)
    with pytest.warns(UserWarning, match=r"crop has \d+ and needs 999"):
        pippin.calibrate(DATA.probs, DATA.labels, "ip", {"weed": 0.1, "crop": 0.001}, per=KINDS, classes=DATA.classes)


def test_masked_and_huge_costs_are_refused():
    for wrong in (np.ma.masked_array([1.0, 2.0, 3.0], mask=[1, 0, 0]), [10**400, 1, 1]):
        with pytest.raises(pippin.InputError, match="Expected costs"):
            pippin.decisions.control_risk(np.full((9, 3), 1 / 3), [0, 1, 2] * 3, wrong, 0.5)


@pytest.mark.parametrize("error", [1e-300, 5e-324])
def test_an_impossible_error_rate_is_told(error):
    with pytest.warns(UserWarning, match="It takes more than 1,099,511,627,776 of them, got 9"):
        found = pippin.decisions.select(np.tile([0.9, 0.1], (9, 1)), [0] * 9, error=error)
    assert not found.predict([[0.9, 0.1]]).acted.any()


def test_a_loss_function_is_calibrated_exactly():
    """A loss function gives exactly the threshold of equal costs, also where 0.29 · 100 is not 29 in floats."""
    rng = np.random.default_rng(4)
    probs, labels = rng.dirichlet(np.ones(3), 99), rng.integers(0, 3, 99)
    alone = pippin.calibrate(probs, labels, "ip", 0.29).threshold
    for loss in (1, lambda members, label: float(label not in members)):
        assert pippin.decisions.control_risk(probs, labels, loss, 0.29, score="ip").threshold == alone
    thirds = {0: 0.1, 1: 0.2, 2: 0.3}
    for level in (0.29, 0.1, 0.57):
        wanted = pippin.decisions.control_risk(probs, labels, thirds, level, score="ip")
        found = pippin.decisions.control_risk(
            probs, labels, lambda members, label: thirds[label] * (label not in members), level, score="ip", bound=0.3
        )
        assert found.threshold == pytest.approx(wanted.threshold, abs=0)
