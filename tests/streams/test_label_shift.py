"""Label shift: the ratios are found, their errors are honest, and weights restore coverage."""

import numpy as np
import pytest

import pippin

DATA = pippin.load_example()


def made(rng, n, shares):
    """Three classes that look the same wherever they are; probabilities right for equal shares."""
    labels = rng.choice(3, n, p=shares)
    logits = rng.normal(size=(n, 3)) + 2 * np.eye(3)[labels]
    odds = np.exp(2 * logits)
    return odds / odds.sum(axis=1, keepdims=True), labels


@pytest.mark.parametrize("method", ["confusion", "em"])
def test_ratios_are_found_within_their_errors(method):
    """Over 200 worlds the deviations in standard errors have mean 0 and spread 1."""
    rng, shares, new = np.random.default_rng(0), np.full(3, 1 / 3), np.array([0.6, 0.3, 0.1])
    deviations = []
    for _ in range(200):
        found = pippin.label_ratios(*made(rng, 1500, shares), made(rng, 1000, new)[0], method=method)
        deviations.append((found.ratios - new / shares) / found.errors)
    assert np.abs(np.mean(deviations, axis=0)).max() < 0.35
    assert 0.8 < np.std(deviations) < 1.25


@pytest.mark.parametrize("mixture", range(5))
def test_weights_by_class_restore_coverage(mixture):
    """The example's classes in five other mixtures: 90 % again, within a point over 40 splits (one varies by two)."""
    shares = np.random.default_rng(mixture).dirichlet(np.ones(12))
    covered = []
    for split in range(40):
        rng = np.random.default_rng([mixture, split])
        order = rng.permutation(len(DATA.labels))
        old, rest = order[:2493], order[2493:]
        chance = (shares / np.bincount(DATA.labels))[DATA.labels[rest]]
        new = rng.choice(rest, 4000, p=chance / chance.sum())
        probs, labels = DATA.probs[old], DATA.labels[old]
        found = pippin.label_ratios(probs, labels, DATA.probs[new])
        predictor = pippin.calibrate_weighted(probs, labels, found.of(labels), "pip", 0.1)
        sets = predictor.predict(DATA.probs[new], np.full(4000, found.ratios.max()))
        covered.append(pippin.coverage(sets, DATA.labels[new]))
    assert abs(np.mean(covered) - 0.9) < 0.01


def test_wrong_use_is_told():
    probs, labels = DATA.probs[:300], DATA.labels[:300]
    with pytest.raises(pippin.InputError, match="confusion or em"):
        pippin.label_ratios(probs, labels, probs, method="magic")
    with pytest.raises(pippin.InputError, match="got none of 3"):
        pippin.label_ratios(probs[labels != 3], labels[labels != 3], probs)
    with pytest.raises(pippin.InputError, match="12 columns"):
        pippin.label_ratios(probs, labels, np.full((2, 3), 1 / 3))
