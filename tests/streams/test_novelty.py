"""Novel objects: valid p-values, and a false discovery rate that keeps to its level."""

import numpy as np
import pytest

import pippin

DATA = pippin.load_example()
PREDICTOR = pippin.calibrate(DATA.probs[:999], DATA.labels[:999], "pip")


def test_p_values_are_those_of_the_definition():
    found = pippin.novelty(PREDICTOR, DATA.probs[1000:1100], reference=DATA.probs[:999])
    known, scores = (1 - part.astype(np.float64).max(axis=1) for part in (DATA.probs[:999], DATA.probs[1000:1100]))
    assert np.array_equal(found, [(1 + (known >= s).sum()) / 1000 for s in scores])


def test_without_a_reference_it_is_the_credibility():
    found = pippin.novelty(PREDICTOR, DATA.probs[1000:1100])
    assert np.array_equal(found, PREDICTOR.forced(DATA.probs[1000:1100]).credibility)


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_discoveries_are_those_of_benjamini_and_hochberg(level):
    """By trying every k."""
    rng = np.random.default_rng(0)
    for m in (1, 2, 7, 40):
        for _ in range(30):
            p = np.round(rng.random(m) ** 2, 2)
            largest = max([k for k in range(1, m + 1) if np.sort(p)[k - 1] <= level * k / m], default=0)
            wanted = p <= np.sort(p)[largest - 1] if largest else np.zeros(m, dtype=bool)
            assert np.array_equal(pippin.discoveries(p, level), wanted)


def rows(rng, n, sure):
    top = 0.5 + 0.5 * rng.beta(sure, 2, n)
    return np.column_stack([top, 1 - top])


@pytest.mark.parametrize("level", [0.1, 0.3])
def test_the_false_discovery_rate_keeps_to_its_level(level):
    """Over 500 batches of 100 objects, 20 of them novel: at most level·80/100, and something is found."""
    rng = np.random.default_rng(1)
    false, power = [], []
    predictor = pippin.calibrate(rows(rng, 20, 6), [0] * 20, "ip")
    for _ in range(500):
        p = pippin.novelty(predictor, np.vstack([rows(rng, 80, 6), rows(rng, 20, 0.5)]), reference=rows(rng, 300, 6))
        found = pippin.discoveries(p, level)
        false.append(found[:80].sum() / max(1, found.sum()))
        power.append(found[80:].mean())
    assert np.mean(false) <= 0.8 * level + 3 * np.std(false) / np.sqrt(500)
    assert np.mean(false) >= 0.4 * level
    assert np.mean(power) > 0.2


def test_wrong_use_is_told():
    with pytest.raises(pippin.InputError, match="between 0 and 1"):
        pippin.discoveries([0.2, 1.5])
    with pytest.raises(pippin.InputError, match="strictly between 0 and 1"):
        pippin.discoveries([0.2], 0)
    assert pippin.discoveries([]).shape == (0,)
