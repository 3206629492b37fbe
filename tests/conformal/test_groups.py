"""Validation of groups: types and missing values."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pippin
from pippin._validation.labels import as_groups
from support.rows import drawn_labels, made_rows

PROBS = made_rows("spread", 40, 3, 0)
LABELS = drawn_labels(PROBS, np.random.default_rng(0))
NAMES = ["north", "south"] * 20

SOUND = {
    "text": NAMES,
    "tuple": tuple(NAMES),
    "array": np.array(NAMES),
    "objects": np.array(NAMES, dtype=object),
    "numpy text": [np.str_(name) for name in NAMES],
    "numbers": [0, 1] * 20,
    "numpy numbers": [np.int8(0), np.int64(1)] * 20,
    "truths": [True, False] * 20,
    "numpy truths": [np.True_, np.False_] * 20,
    "small numbers": np.array([0, 1] * 20, dtype=np.uint8),
    "pandas": pd.Series(NAMES),
    "pandas text": pd.Series(NAMES, dtype="string"),
    "pandas category": pd.Series(NAMES, dtype="category"),
    "pandas numbers": pd.Series([0, 1] * 20, dtype="Int64"),
    "polars": pl.Series(NAMES),
    "polars category": pl.Series(NAMES, dtype=pl.Categorical),
    "the word nan": ["nan", "None"] * 20,
}


@pytest.mark.parametrize("given", SOUND.values(), ids=SOUND)
def test_groups_of_all_types(given):
    """Whole numbers and text from all containers keep their types."""
    found = as_groups(given, 40)
    assert found.dtype.kind in "iubU"
    assert found.tolist() == list(given)
    with pytest.warns(UserWarning, match="2 of 2 thresholds are infinite"):
        predictor = pippin.calibrate(PROBS, LABELS, "ip", 0.01, groups=given)
    assert predictor.groups == tuple(sorted(set(given)))
    assert len(predictor.predict(PROBS, groups=given)) == 40


def with_hole(hole, names=NAMES):
    return [*names[:3], hole, *names[4:]]


MISSING = {
    "None beside text": with_hole(None),
    "NaN beside text": with_hole(float("nan")),
    "NumPy's NaN beside text": tuple(with_hole(np.float32("nan"))),
    "None beside numbers": with_hole(None, [0, 1] * 20),
    "NaN beside numbers": with_hole(float("nan"), [0, 1] * 20),
    "objects": np.array(with_hole(None), dtype=object),
    "floats": np.array(with_hole(np.nan, [0, 1] * 20)),
    "pandas": pd.Series(with_hole(None)),
    "pandas objects": pd.Series(with_hole(np.nan), dtype=object),
    "pandas text": pd.Series(with_hole(None), dtype="string"),
    "pandas category": pd.Series(with_hole(None), dtype="category"),
    "pandas numbers": pd.Series(with_hole(None, [0, 1] * 20), dtype="Int64"),
    "pandas truths": pd.Series(with_hole(None, [True, False] * 20), dtype="boolean"),
    "polars": pl.Series(with_hole(None)),
    "polars numbers": pl.Series(with_hole(None, [0, 1] * 20)),
}


@pytest.mark.parametrize("given", MISSING.values(), ids=MISSING)
def test_a_missing_group_is_named(given):
    """A missing group raises in all functions, and is never a group named nan or None."""
    message = r"Row 3 has no group \((nan|None|<NA>)\), expected a whole number or text: name the missing groups"
    with pytest.raises(ValueError, match=message):
        pippin.calibrate(PROBS, LABELS, "ip", 0.3, groups=given)
    predictor = pippin.calibrate(PROBS, LABELS, "ip", 0.3, groups=NAMES)
    with pytest.raises(ValueError, match=message):
        predictor.predict(PROBS, groups=given)
    with pytest.raises(ValueError, match=message):
        predictor.p_values(PROBS, groups=given)
    with pytest.raises(ValueError, match=message):
        pippin.evaluate(predictor.predict(PROBS, groups=NAMES), LABELS, groups=given)
    with pytest.raises(ValueError, match=message):
        pippin.compare(PROBS, LABELS, ["ip"], 0.3, splits=2, groups=given)


WRONG = {
    "none at all": (None, r"Expected 40 groups, one per row, got shape \(\)"),
    "one word": ("north", r"got shape \(\)"),
    "fewer": (NAMES[:3], r"got shape \(3,\): pass groups in row order"),
    "a table": ([[name, name] for name in NAMES], r"got shape \(40, 2\)"),
    "ragged": ([["a"], ["b", "c"], *NAMES[2:]], "Expected 40 groups, one per row, got list"),
    "no array": ([np.zeros((2, 2)), np.zeros((2, 3))], "Expected 40 groups, one per row, got list: pass whole"),
    "text and numbers": ([1, *NAMES[1:]], "all whole numbers or all text, got int and str: convert them"),
    "fractions": ([0.5] * 40, "all whole numbers or all text, got float64: convert them"),
    "floats": (np.zeros(40), "all whole numbers or all text, got float64: convert them"),
    "bytes": ([b"north"] * 40, "got bytes"),
    "days": ([datetime.date(2024, 3, 1)] * 40, "got date"),
    "too large": ([2**70] * 40, "got int"),
}


@pytest.mark.parametrize("per", [None, "class", "cluster", "rc3p", "group", "class and group"])
def test_unseen_groups_need_groups(per):
    """`unseen` without groups raises, since it would have no effect."""
    with pytest.raises(ValueError, match=r"Expected groups with unseen='marginal', got none: pass groups=, one per"):
        pippin.calibrate(PROBS, LABELS, "ip", 0.3, per=per, unseen="marginal")


@pytest.mark.parametrize("per", ["", "--per class"])
def test_unseen_groups_need_groups_on_the_command_line(per, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", probs=PROBS, labels=LABELS)
    code, _, err = call(f"calibrate data.npz --alpha 0.3 {per} --unseen marginal --out p.json")
    assert code == 2
    assert "Expected --per group with --unseen marginal" in err
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG)
def test_invalid_groups_raise(given, message):
    with pytest.raises(ValueError, match=message):
        as_groups(given, 40)
