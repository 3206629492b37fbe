"""Explanations of sets agree with predict and p_values for every rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin

DATA = pippin.load_example()
LEFT, LABELS, C = DATA.probs[:1500], DATA.labels[:1500], DATA.classes
WEIGHTS = np.linspace(0.5, 2, 1500)
GROUPS = np.where(np.arange(1500) % 3 == 0, "north", "south")

PREDICTORS = {
    "one": (pippin.calibrate(LEFT, LABELS, "pip", classes=C), {}, {}),
    "random": (pippin.calibrate(LEFT, LABELS, "aps", classes=C, seed=1), {"seed": 3}, {"seed": 3}),
    "class": (pippin.calibrate(LEFT, LABELS, "repip", classes=C, per="class"), {}, {}),
    "units": (pippin.calibrate(LEFT, LABELS, "pip", classes=C, units=np.arange(1500) // 10), {}, {}),
    "rc3p": (pippin.calibrate(LEFT, LABELS, "pip", classes=C, per="rc3p"), {}, {}),
    "group": (
        pippin.calibrate(LEFT, LABELS, "ip", classes=C, per="group", groups=GROUPS),
        {"group": "north"},
        {"groups": ["north"]},
    ),
    "weighted": (
        pippin.calibrate(LEFT, LABELS, "pip", weights=WEIGHTS, classes=C),
        {"weight": 1.5},
        {"weights": [1.5]},
    ),
}


@given(st.sampled_from(list(PREDICTORS)), st.integers(1500, 4985))
def test_an_explanation_agrees_with_predict(name, row):
    """Sets, scores, thresholds and p-values are consistent, and classes are sorted by probability."""
    predictor, beside, of_rows = PREDICTORS[name]
    found = predictor.explain(DATA.probs[row], **beside)
    sets = predictor.predict(DATA.probs[row : row + 1], **of_rows)
    assert [one.name for one in found.classes if one.inside] == sets[0]
    assert [one.rank for one in found.classes] == list(range(1, 13))
    assert all(a.probability >= b.probability for a, b in zip(found.classes, found.classes[1:], strict=False))
    p = None if name == "rc3p" else predictor.p_values(DATA.probs[row : row + 1], **of_rows)[0]
    for one in found.classes:
        assert one.why.startswith("in: " if one.inside else "out: ")
        if name == "rc3p":
            assert one.p_value is None
            assert one.inside <= (one.score <= one.threshold)
        else:
            assert one.p_value == p[C.index(one.name)]
            assert one.inside == (one.score <= one.threshold) == (one.p_value > predictor.alpha)


def test_an_explanation_prints_as_a_table():
    """Text, HTML and frame, with names that contain control characters, and for an empty set."""
    predictor = pippin.calibrate(LEFT, LABELS, "ip", 0.5, classes=("<b>x", *C[1:]))
    sizes = predictor.predict(DATA.probs[1500:]).sizes
    empty = predictor.explain(DATA.probs[1500 + int(np.flatnonzero(sizes == 0)[0])])
    assert empty.sentence.startswith("The set is empty: even ")
    one = predictor.explain(DATA.probs[1500])
    assert repr(one).splitlines()[0] == one.sentence
    assert len(repr(one).splitlines()) == 13
    assert one.to_frame().shape == (12, 8)
    assert "<b>x" not in one._repr_html_()
    assert "&lt;b&gt;x" in one._repr_html_()


def test_explanations_with_logits_groups_and_weights():
    """With a sharpener the sharpened probabilities are explained; a missing or unused group or weight raises."""
    sharper = pippin.sharpen(DATA.probs[1500:1800], DATA.labels[1500:1800], classes=C)
    sharpened = pippin.calibrate(LEFT, LABELS, "socop", sharpen=sharper, classes=C)
    row = DATA.probs[2000]
    found = sharpened.explain(row)
    assert [one.name for one in found.classes if one.inside] == sharpened.predict(row[None])[0]
    assert found.classes[0].probability == sharper.one(row).max()
    kept, _, _ = PREDICTORS["one"]
    with pytest.raises(ValueError, match="Expected no group with the row, got 'north': leave group= out"):
        kept.explain(row, group="north")
    with pytest.raises(ValueError, match="Expected a weight with the row, got None: pass weight="):
        PREDICTORS["weighted"][0].explain(row)


def test_a_predictor_saved_without_scores_explains_without_p_values(tmp_path):
    PREDICTORS["one"][0].save(tmp_path / "p.json", scores=False)
    assert {one.p_value for one in pippin.load(tmp_path / "p.json").explain(DATA.probs[2000]).classes} == {None}


def test_explanations_of_rank_limits_alone():
    """If RC3P does not bound the score, the rank limit decides, and sets do not hold all classes."""
    probs = np.full((27, 3), 0.1)
    for row in range(27):  # nine of each class, of which two are second to the next class
        label = row // 9
        probs[row, label] = 0.6 + 0.01 * (row % 9) if row % 9 < 7 else 0.3
        probs[row, (label + 1) % 3] = 0.1 if row % 9 < 7 else 0.55
    probs /= probs.sum(axis=1, keepdims=True)
    made = pippin.calibrate(probs, np.arange(27) // 9, "ip", 0.2, per="rc3p")
    assert np.isinf(made.thresholds).all()
    assert set(made.predict(probs).sizes.tolist()) == {2}
    assert "tells nothing" not in made.describe()
    assert [one.why for one in made.explain(probs[0]).classes] == [
        "in: its rank 1 is let in",
        "in: its rank 2 is let in",
        "out: its rank 3 is above 2, the last that is let in",
    ]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_invalid_weights_raise(weight):
    with pytest.raises(ValueError, match="expected a finite number of at least 0"):
        PREDICTORS["weighted"][0].explain(DATA.probs[2000], weight=weight)
