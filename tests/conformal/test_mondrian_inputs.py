"""Inputs of Mondrian predictors: validation, names of frames, no modification."""

import numpy as np
import pytest

import pippin
from pippin._conformal.predictor import mondrian_of
from support.grouped_example import DATA, FARMS, calibrated


def test_the_entries_of_one_row_of_a_frame_go_by_name():
    """Entries in another order are selected by name, as for a frame; other names raise."""
    import pandas

    predictor = calibrated("class")
    row = pandas.Series(DATA.probs[0], index=DATA.classes)
    assert np.array_equal(predictor.predict_one(row), predictor.predict_one(DATA.probs[0]))
    assert np.array_equal(predictor.predict_one(row[::-1]), predictor.predict_one(DATA.probs[0]))
    with pytest.raises(
        ValueError, match=r"Expected a column for each class \(.*\), got none called 'maize' but 'corn'"
    ):
        predictor.predict_one(row.rename({"maize": "corn"}))


def test_inputs_are_not_modified():
    """Inputs are not modified, and arrays of the predictor are read-only."""
    probs, labels, groups = np.array(DATA.probs[:900]), np.array(DATA.labels[:900]), FARMS[:900].copy()
    before = probs.copy(), labels.copy(), groups.copy()
    predictor = pippin.calibrate(probs, labels, "aps", 0.4, seed=0, per="class and group", groups=groups)
    predictor.predict(probs, seed=1, groups=groups, nonempty=True)
    for now, then in zip((probs, labels, groups), before, strict=True):
        assert np.array_equal(now, then)
    for mine in (
        predictor.thresholds,
        mondrian_of(predictor).categories.scores,
        mondrian_of(predictor).categories.lookup,
    ):
        with pytest.raises(ValueError, match="read-only"):
            mine[...] = 0


FIVE = {"probs": np.full((5, 2), 0.5), "labels": [0, 1, 0, 1, 0], "score": "ip", "alpha": 0.5}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"per": "klass"},
            "Expected per to be one of 'class', 'group', 'class and group', .*, got 'klass'",
        ),
        ({"per": "group"}, r"Expected groups with per='group', got none: pass groups=, one per row\."),
        (
            {"per": "class and group"},
            r"Expected groups with per='class and group', got none: pass groups=, one per row\.",
        ),
        (
            {"per": "class", "groups": [1] * 5},
            r"Expected no groups with per='class', got some: leave groups= out, or pass per='class and group'\.",
        ),
        ({"per": "rc3p", "groups": [1] * 5}, r"Expected no groups with per='rc3p', got some: leave groups= out"),
        ({"per": "cluster", "groups": [1] * 5}, r"Expected no groups with per='cluster', got some: leave groups= out"),
        ({"groups": [1, 2]}, r"Expected 5 groups, one per row, got shape \(2,\): pass groups in row order\."),
        ({"groups": [[1, 2]] * 5}, r"Expected one group per row with per='group', got shape \(5, 2\)"),
        ({"groups": [0.5] * 5}, "all whole numbers or all text, got float64: convert them"),
        ({"groups": ["a", None, "a", "a", "a"]}, r"Row 1 has no group \(None\)"),
        ({"groups": [1, "a", 2, "b", None]}, r"Row 4 has no group \(None\)"),
        ({"groups": [1] * 5, "unseen": "ignore"}, "Expected unseen to be 'error' or 'marginal', got 'ignore'"),
        ({"per": "class", "alpha": 0}, "Expected alpha, the share of errors allowed, strictly between 0 and 1, got 0"),
    ],
)
def test_invalid_input_raises_one_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        pippin.calibrate(**{**FIVE, **options})


def test_groups_of_predict_are_checked():
    by_group = calibrated("group")
    with pytest.raises(ValueError, match=r"Expected groups for thresholds per group, got none: pass groups="):
        by_group.predict(DATA.probs[:3])
    with pytest.raises(ValueError, match=r"Expected 3 groups, one per row, got shape \(1,\)"):
        by_group.predict(DATA.probs[:3], groups=["west"])
    with pytest.raises(ValueError, match=r"Row 0 is in the group 1, which has no calibration rows"):
        by_group.predict_one(DATA.probs[0], group=1)
    with pytest.raises(ValueError, match=r"Expected no groups .* per class, got some: leave groups= out, or .*\."):
        calibrated("class").predict(DATA.probs[:3], groups=["west"] * 3)
    with pytest.raises(ValueError, match=r"Expected 12 columns, one per class .*, got 5: pass the same"):
        calibrated("class").predict(DATA.probs[:3, :5] + 0.2)
