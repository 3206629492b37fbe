"""Novelty detection: valid p-values, and the false discovery rate."""

from fractions import Fraction

import numpy as np
import pytest

import pippin

DATA = pippin.load_example()
PREDICTOR = pippin.calibrate(DATA.probs[:999], DATA.labels[:999], "pip")


def test_p_values_by_their_definition():
    found = pippin.shift.novelty(PREDICTOR, DATA.probs[1000:1100], reference=DATA.probs[:999])
    known, scores = (1 - part.astype(np.float64).max(axis=1) for part in (DATA.probs[:999], DATA.probs[1000:1100]))
    assert np.array_equal(found, [(1 + (known >= s).sum()) / 1000 for s in scores])


def test_without_a_reference_novelty_is_the_credibility():
    found = pippin.shift.novelty(PREDICTOR, DATA.probs[1000:1100])
    assert np.array_equal(found, PREDICTOR.point_predictions(DATA.probs[1000:1100]).credibility)


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_discoveries_equal_benjamini_hochberg(level):
    """Discoveries equal the definition of Benjamini and Hochberg, by trying every k."""
    rng = np.random.default_rng(0)
    for m in (1, 2, 7, 40):
        for _ in range(30):
            p = np.round(rng.random(m) ** 2, 2)
            largest = max([k for k in range(1, m + 1) if np.sort(p)[k - 1] <= level * k / m], default=0)
            wanted = p <= np.sort(p)[largest - 1] if largest else np.zeros(m, dtype=bool)
            assert np.array_equal(pippin.shift.discoveries(p, level), wanted)


def test_discoveries_at_exact_ties():
    """The rule in fractions: p-values lie on the grid of conformal p-values, so many of them equal their limit."""
    assert pippin.shift.discoveries([6 / 100] * 12 + [1.0] * 18, 0.15).sum() == 12
    rng, ties = np.random.default_rng(1), 0
    for _ in range(400):
        m, level = int(rng.integers(5, 40)), Fraction(int(rng.integers(1, 20)), 40)
        p = [level * int(i) / m if i <= m else Fraction(1) for i in rng.integers(1, 2 * m, m)]  # the limits themselves
        kept = [i for i in range(1, m + 1) if sorted(p)[i - 1] <= level * i / m]
        ties += any(sorted(p)[i - 1] == level * i / m for i in kept)
        wanted = [bool(kept) and value <= sorted(p)[kept[-1] - 1] for value in p]
        assert pippin.shift.discoveries([float(value) for value in p], float(level)).tolist() == wanted
    assert ties > 50


def rows(rng, n, sure):
    top = 0.5 + 0.5 * rng.beta(sure, 2, n)
    return np.column_stack([top, 1 - top])


@pytest.mark.parametrize("level", [0.1, 0.3])
def test_false_discovery_rate_is_within_its_level(level):
    """Over 500 batches of 100 objects, 20 of them novel, the false discovery rate is at most level·80/100."""
    rng = np.random.default_rng(1)
    false, power = [], []
    predictor = pippin.calibrate(rows(rng, 20, 6), [0] * 20, "ip")
    for _ in range(500):
        p = pippin.shift.novelty(
            predictor, np.vstack([rows(rng, 80, 6), rows(rng, 20, 0.5)]), reference=rows(rng, 300, 6)
        )
        found = pippin.shift.discoveries(p, level)
        false.append(found[:80].sum() / max(1, found.sum()))
        power.append(found[80:].mean())
    assert np.mean(false) <= 0.8 * level + 3 * np.std(false) / np.sqrt(500)
    assert np.mean(false) >= 0.4 * level
    assert np.mean(power) > 0.2


def test_errors_of_arguments():
    with pytest.raises(pippin.InputError, match="p-values from 0 to 1"):
        pippin.shift.discoveries([0.2, 1.5])
    with pytest.raises(pippin.InputError, match="strictly between 0 and 1"):
        pippin.shift.discoveries([0.2], 0)
    assert pippin.shift.discoveries([]).shape == (0,)


MEASURES = {
    "surprise": lambda p: 1 - p.max(axis=1),
    "entropy": lambda p: -(p * np.log(np.where(p > 0, p, 1))).sum(axis=1),
    "energy": lambda p: -np.log(np.exp(np.log(p + 1e-12) * 3).sum(axis=1)),
}


@pytest.mark.parametrize("per", [None, "class"])
@pytest.mark.parametrize("measure", [*MEASURES, "own"])
def test_p_values_of_every_measure(measure, per):
    """p-values of each measure equal (1 + #{as strange or stranger})/(n + 1), among all rows or of one class."""
    data = pippin.load_example()
    predictor = pippin.calibrate(data.probs[:500], data.labels[:500])
    known, new = (np.asarray(data.probs[part], np.float64) for part in (slice(500, 900), slice(900, 960)))
    strange = MEASURES.get(measure, lambda p: p[:, 3])
    logits = measure == "energy"
    given = [np.log(part + 1e-12) * 3 if logits else part for part in (known, new)]
    rounding = 0 if measure == "own" else 1e-9
    chosen = (lambda rows: rows[:, 3]) if measure == "own" else measure
    p = pippin.shift.novelty(predictor, given[1], reference=given[0], measure=chosen, per=per, from_logits=logits)
    for row, found in zip(new, p, strict=True):
        compared = known if per is None else known[known.argmax(axis=1) == row.argmax()]
        as_strange = np.count_nonzero(strange(compared) >= strange(row[None])[0] - rounding)
        assert found == pytest.approx((1 + as_strange) / (len(compared) + 1))


def test_prediction_sets_show_novelty():
    """Prediction sets show flags of novel objects in the repr, as a column and after slicing."""
    data = pippin.load_example()
    predictor = pippin.calibrate(data.probs[:500], data.labels[:500], classes=data.classes)
    sets = predictor.predict(data.probs[500:510])
    marks = np.arange(10) % 3 == 0
    flagged = sets.flagged(marks)
    assert repr(flagged).endswith("4 novel)")
    assert flagged.to_frame()["novel"].to_list() == marks.tolist()
    assert flagged[3:5].novel.tolist() == [True, False]
    assert " – novel" in flagged._repr_html_()
    assert "novel" not in repr(sets)
    for wrong in (marks[:3], np.ones(10)):
        with pytest.raises(pippin.InputError, match="one True or False for each of 10 sets"):
            sets.flagged(wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "entropy"}, "Expected a reference with measure= or per="),
        ({"measure": "size", "reference": True}, "'surprise', 'entropy', 'energy' or a function, got 'size'"),
        ({"measure": "energy", "reference": True}, "Expected logits for the energy"),
        ({"measure": lambda rows: 1.0, "reference": True}, "Expected a number for each of 5 rows from measure="),
        ({"per": "group", "reference": True}, "None or 'class', got 'group'"),
    ],
)
def test_errors_of_measures(options, message):
    data = pippin.load_example()
    predictor = pippin.calibrate(data.probs[:500], data.labels[:500])
    if "reference" in options:
        options = options | {"reference": data.probs[:5]}
    with pytest.raises(pippin.InputError, match=message):
        pippin.shift.novelty(predictor, data.probs[:5], **options)
