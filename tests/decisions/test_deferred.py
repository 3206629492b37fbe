"""Sets of deferred objects and the accuracy of singletons: guarantees by simulation, definition, files, errors."""

import pickle

import numpy as np
import pytest
from scipy import stats

import pippin
from support.decisions import drawn, field
from support.predictor_files import write

DATA, _ = field()
ONE, TWO, TEST = slice(0, 1500), slice(1500, 3000), slice(3000, None)


def select(**options):
    return pippin.decisions.select(DATA.probs[ONE], DATA.labels[ONE], classes=DATA.classes, **options)


def predictor_of(score="ip", **options):
    return pippin.calibrate(DATA.probs[ONE], DATA.labels[ONE], score, classes=DATA.classes, **options)


def of_singletons(**options):
    options = {"error": 0.05, "confidence": 0.9, "predictor": predictor_of(), **options}
    return pippin.decisions.select(DATA.probs[TWO], DATA.labels[TWO], **options)


@pytest.mark.filterwarnings("ignore:Nothing is acted on", "ignore:.*calibration examples are too few")
def test_sets_cover_deferred_objects():
    """In 2,000 worlds of 60 rows, sets of deferred objects cover 1 − α to 1 − α + 1/(m + 1), for m deferred rows."""
    rng = np.random.default_rng(7)
    probs, labels = drawn(rng, 40_000, 4, honest=True)
    top, alpha = probs.max(axis=1), 0.2
    selectors = []
    while len(selectors) < 50:
        rows = rng.integers(0, len(labels), 600)
        selector = pippin.decisions.select(probs[rows], labels[rows], error=0.3, confidence=0.8)
        if np.isfinite(selector.threshold):
            selectors.append(selector)
    excess, slack = [], []
    for world in range(2000):
        selector, rows = selectors[world % 50], rng.integers(0, len(labels), 60)
        if (deferred := top[rows] < selector.threshold).sum() < 5:
            continue
        test = rng.integers(0, len(labels), 60)
        test = test[top[test] < selector.threshold]
        sets = selector.calibrate_deferred(probs[rows], labels[rows], "ip", alpha).predict(probs[test])
        excess.append((~sets.contains(labels[test]) - alpha).sum())
        slack.append(len(test) / (deferred.sum() + 1))
    error = np.std(excess) / np.sqrt(len(excess))
    assert len(excess) > 1900
    assert -np.mean(slack) - 4 * error <= np.mean(excess) <= 4 * error


@pytest.mark.filterwarnings("ignore:Nothing is acted on", "ignore:.*calibration examples are too few")
def test_error_rates_of_singletons_exceed_the_bound_with_probability_delta():
    """In 2,000 worlds of 250 rows, at most a share δ has singletons with a larger error rate than the bound.

    The error rate of each level is known on the population. Levels that are right often enough are certified often.
    """
    rng = np.random.default_rng(13)
    probs, labels = drawn(rng, 40_000, 4, honest=False)
    predictor = pippin.calibrate(*drawn(rng, 500, 4, honest=False), "ip")
    error, delta, rates, failures, acting = 0.25, 0.2, {}, 0, 0
    for _ in range(400):
        rows = rng.integers(0, len(labels), 250)
        found = pippin.decisions.select(
            probs[rows], labels[rows], error=error, confidence=1 - delta, predictor=predictor
        )
        if np.isinf(found.threshold):
            continue
        if found.threshold not in rates:
            sets = found.predictor.predict(probs)
            single = sets.sizes == 1
            rates[found.threshold] = (~sets.contains(labels))[single].mean()
        acting += 1
        failures += rates[found.threshold] > error
    assert acting > 100
    assert failures <= stats.binom.ppf(0.999, 400, delta)


def test_accepted_objects_are_the_singletons_of_the_chosen_level():
    """Of all levels that pass in the fallback procedure, the one with the most singletons is chosen."""
    found = of_singletons()
    log_odds = np.arange(5.0, -1.01, -0.125)
    starts = {0, 8, 24, 40, 48}  # the levels nearest to the log-odds 6, 4, 2, 0 and the last one
    level, passed = 0.0, {}
    for i, value in enumerate(log_odds):
        sets = predictor_of().at(float(1 / (1 + np.exp(value)))).predict(DATA.probs[TWO])
        single = sets.sizes == 1
        wrong = (~sets.contains(DATA.labels[TWO]))[single].sum()
        level += 0.1 / 5 if i in starts else 0.0
        if level and stats.binom.cdf(wrong, single.sum(), 0.05) <= level:
            passed[i] = single.sum(), wrong
        else:
            level = 0.0
    best = max(passed, key=lambda i: passed[i][0])
    assert found.predictor.alpha == pytest.approx(1 / (1 + np.exp(log_odds[best])))
    assert (found.n_acted[0], found.n_wrong[0]) == passed[best]
    assert found.threshold == 1 - found.predictor.alpha
    predictions, sets = found.predict(DATA.probs[TEST]), found.predictor.predict(DATA.probs[TEST])
    np.testing.assert_array_equal(predictions.acted, sets.sizes == 1)
    members = [members[0] for members, single in zip(sets, predictions.acted, strict=True) if single]
    assert predictions.labels[predictions.acted].tolist() == members
    assert "Acts on singletons of ip at alpha=0.0" in found.describe()
    assert "singletons" in repr(found)
    found.plot()


def test_singletons_by_thresholds_per_class_keep_their_class_and_probability():
    """With a threshold per class, the class of a singleton need not be the most probable one."""
    found = of_singletons(error=0.4, predictor=predictor_of(per="class", alpha=0.1))
    predictions = found.predict(DATA.probs[TEST])
    codes = np.array([DATA.classes.index(name) for name in predictions.labels])
    best = DATA.probs[TEST].argmax(axis=1)
    assert (codes != best)[predictions.acted].any()
    np.testing.assert_allclose(predictions.confidence, DATA.probs[TEST][np.arange(len(codes)), codes], atol=1e-6)


def test_saved_classifiers_load_to_the_same_bits(tmp_path):
    found = of_singletons()
    wanted = found.predict(DATA.probs[TEST])
    found.save(tmp_path / "s.json")
    for other in (pippin.load(tmp_path / "s.json"), pickle.loads(pickle.dumps(found))):  # noqa: S301 - our own
        assert (repr(other), other.describe(), other.checksum) == (repr(found), found.describe(), found.checksum)
        np.testing.assert_array_equal(other.predict(DATA.probs[TEST]).acted, wanted.acted)
    content = found.content()
    risk = pippin.decisions.control_risk(DATA.probs[ONE], DATA.labels[ONE], 1.0, classes=DATA.classes)
    for key, value, message in (
        ("thresholds", [0.5], "thresholds makes no sense"),
        ("per", "class", "per makes no sense"),
        ("predictor", risk.content(), "predictor makes no sense"),
        ("predictor", predictor_of("aps", seed=0).content(), "predictor makes no sense"),
        ("predictor", 1, "predictor makes no sense"),
    ):
        write(tmp_path / "bad.json", {**content, key: value}, version=2)
        with pytest.raises(pippin.InputError, match=f"holds no sound predictor .*{message}"):
            pippin.load(tmp_path / "bad.json")


def test_deferred_rows_calibrate_and_wrong_use_is_named():
    """The predictor equals one calibrated on the rejected rows; a warning names rows that were used before."""
    selector = select(error=0.1)
    deferred = ~selector.predict(DATA.probs[TWO]).acted
    found = selector.calibrate_deferred(DATA.probs[TWO], DATA.labels[TWO], "pip", 0.05, confidence=0.9)
    probs, labels = DATA.probs[TWO][deferred], DATA.labels[TWO][deferred]
    wanted = pippin.calibrate(probs, labels, "pip", 0.05, classes=DATA.classes, confidence=0.9)
    assert repr(found) == repr(wanted)
    assert found.threshold == wanted.threshold
    of_sets = of_singletons().calibrate_deferred(DATA.probs[TEST], DATA.labels[TEST])
    assert of_sets.n_calibration == (of_singletons().predictor.predict(DATA.probs[TEST]).sizes != 1).sum()
    with pytest.warns(UserWarning, match="probably the rows that the selective classifier was calibrated on"):
        selector.calibrate_deferred(DATA.probs[ONE], DATA.labels[ONE])
    sure = np.eye(12)[DATA.labels[:60]]
    with pytest.raises(pippin.InputError, match="Expected rejected rows, got 60 accepted ones"):
        selector.calibrate_deferred(sure, DATA.labels[:60])
    with pytest.warns(UserWarning, match="Nothing is acted on"):
        nothing = of_singletons(error=0.0001)
    assert not nothing.predict(DATA.probs[TEST]).acted.any()
    for options, message in (
        ({"predictor": selector}, "Expected a ConformalPredictor, got SelectiveClassifier"),
        ({"predictor": predictor_of("aps", seed=0)}, "sets follow from the probabilities alone"),
        ({"predictor": predictor_of(groups=np.zeros(1500, int))}, "sets follow from the probabilities alone"),
        ({"per": "class"}, "without per=, and with its own classes"),
        ({"classes": range(12)}, "without per=, and with its own classes"),
    ):
        with pytest.raises(pippin.InputError, match=message):
            of_singletons(**options)
