"""Label shift: class ratios, their standard errors, and coverage with weights by class."""

import numpy as np
import pandas as pd
import pytest

import pippin

DATA = pippin.load_example()


def sample(rng, n, shares):
    """Draw rows of three classes under label shift, with probabilities calibrated for equal shares."""
    labels = rng.choice(3, n, p=shares)
    logits = rng.normal(size=(n, 3)) + 2 * np.eye(3)[labels]
    odds = np.exp(2 * logits)
    return odds / odds.sum(axis=1, keepdims=True), labels


@pytest.mark.parametrize("method", ["confusion", "em"])
def test_standard_errors_of_the_ratios(method):
    """Over 200 samples the deviations in standard errors have mean 0 and standard deviation 1."""
    rng, shares, new = np.random.default_rng(0), np.full(3, 1 / 3), np.array([0.6, 0.3, 0.1])
    deviations = []
    for _ in range(200):
        found = pippin.shift.label_ratios(*sample(rng, 1500, shares), sample(rng, 1000, new)[0], method=method)
        deviations.append((found.ratios - new / shares) / found.errors)
    assert np.abs(np.mean(deviations, axis=0)).max() < 0.35
    assert 0.8 < np.std(deviations) < 1.25


@pytest.mark.parametrize("mixture", range(5))
def test_weights_by_class_restore_coverage(mixture):
    """For five other mixtures of classes, weighted coverage is 90% within one point, over 40 splits of the example."""
    shares = np.random.default_rng(mixture).dirichlet(np.ones(12))
    covered = []
    for split in range(40):
        rng = np.random.default_rng([mixture, split])
        order = rng.permutation(len(DATA.labels))
        old, rest = order[:2493], order[2493:]
        chance = (shares / np.bincount(DATA.labels))[DATA.labels[rest]]
        new = rng.choice(rest, 4000, p=chance / chance.sum())
        probs, labels = DATA.probs[old], DATA.labels[old]
        found = pippin.shift.label_ratios(probs, labels, DATA.probs[new])
        sets = pippin.calibrate(probs, labels, "pip", 0.1, weights=found).predict(DATA.probs[new], weights=found)
        covered.append(pippin.metrics.coverage(sets, DATA.labels[new]))
    assert abs(np.mean(covered) - 0.9) < 0.01


RATIOS = pippin.shift.LabelRatios(np.array([1.8, 0.9, 0.3]), np.zeros(3), range(3))


@pytest.mark.parametrize("score", ["ip", "pip", "socop", "aps"])
def test_every_class_has_its_own_threshold(score):
    """p_y = (Σ_{s_j ≥ s} w_j + w_y)/(Σ_j w_j + w_y), written out; the set, one object and its explanation follow."""
    rng = np.random.default_rng(3)
    probs, labels = sample(rng, 40, np.full(3, 1 / 3))
    new = sample(rng, 25, RATIOS.ratios / 3)[0]
    predictor = pippin.calibrate(probs, labels, score, 0.2, weights=RATIOS, seed=1)
    given, own = pippin.scores.score(probs, labels, score, seed=1), pippin.scores.score(new, None, score, seed=2)
    weights = RATIOS.ratios[labels]
    expected = np.array(
        [
            [(weights[given >= s].sum() + w) / (weights.sum() + w) for s, w in zip(row, RATIOS.ratios, strict=True)]
            for row in own
        ]
    )
    found = predictor.p_values(new, weights=RATIOS, seed=2)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    some = rng.integers(0, 3, 25)
    np.testing.assert_array_equal(predictor.p_values(new, some, weights=RATIOS, seed=2), found[np.arange(25), some])
    sets = predictor.predict(new, weights=RATIOS, seed=2)
    np.testing.assert_array_equal(sets.mask, found > 0.2)
    widest = predictor.predict(new, weights=np.full(25, RATIOS.ratios.max()), seed=2)
    assert (sets.mask <= widest.mask).all()
    one = predictor.predict_one(new[0], weight=RATIOS, seed=4)
    explanation = predictor.explain(new[0], weight=RATIOS, seed=4)
    assert sorted(one) == sorted(each.name for each in explanation.classes if each.inside)


def test_coverage_with_few_rows():
    """With known ratios and 40 calibration rows, coverage is at least 80%, within three standard errors."""
    rng, n_samples, covered = np.random.default_rng(5), 4000, 0
    for _ in range(n_samples):
        probs, labels = sample(rng, 40, np.full(3, 1 / 3))
        new, truth = sample(rng, 1, RATIOS.ratios / 3)
        covered += truth[0] in pippin.calibrate(probs, labels, "pip", 0.2, weights=RATIOS).predict_one(
            new[0], weight=RATIOS
        )
    assert 0.8 - 3 * np.sqrt(0.16 / n_samples) < covered / n_samples < 0.8 + 2 / 41 + 3 * np.sqrt(0.16 / n_samples)


def test_errors_of_classes_and_large_ratios():
    probs, labels = sample(np.random.default_rng(3), 40, np.full(3, 1 / 3))
    predictor = pippin.calibrate(probs, labels, "ip", weights=RATIOS, classes=["oat", "rye", "pea"])
    other = RATIOS._replace(classes=("oat", "pea", "rye"))
    with pytest.raises(pippin.InputError, match="ratios of oat, rye, pea, got those of oat, pea, rye"):
        predictor.predict(probs, weights=other)
    with pytest.raises(pippin.InputError, match="Expected the ratios of"):
        pippin.calibrate(probs, labels, weights=pippin.shift.LabelRatios(np.ones(4), np.zeros(4), range(4)))
    heavy = RATIOS._replace(ratios=np.array([1.0, 1.0, 100.0]))
    with pytest.warns(UserWarning, match="1 of 3 classes, pea for one, weigh more than a share of 0.1 of all weights"):
        assert predictor.predict(probs, weights=heavy).mask[:, 2].all()


def test_errors_of_arguments():
    probs, labels = DATA.probs[:300], DATA.labels[:300]
    with pytest.raises(pippin.InputError, match="confusion or em"):
        pippin.shift.label_ratios(probs, labels, probs, method="magic")
    with pytest.raises(pippin.InputError, match="got none of 3"):
        pippin.shift.label_ratios(probs[labels != 3], labels[labels != 3], probs)
    with pytest.raises(pippin.InputError, match="12 columns"):
        pippin.shift.label_ratios(probs, labels, np.full((2, 3), 1 / 3))


def test_columns_of_new_rows_go_by_name():
    """Columns in another order are put in order, other classes are refused; those of an array go by position."""
    probs, labels = sample(np.random.default_rng(0), 300, np.full(3, 1 / 3))
    frame, names = pd.DataFrame(probs, columns=list("abc")), np.array(list("abc"))[labels]
    wanted = pippin.shift.label_ratios(frame, names, frame[:200]).ratios
    assert np.array_equal(pippin.shift.label_ratios(frame, names, probs[:200]).ratios, wanted)
    assert np.array_equal(pippin.shift.label_ratios(frame, names, frame[["c", "b", "a"]][:200]).ratios, wanted)
    with pytest.raises(pippin.InputError, match="got none called 'b' but 'other'"):
        pippin.shift.label_ratios(frame, names, frame.rename(columns={"b": "other"}))
