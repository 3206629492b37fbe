"""Types of labels and class names give equal results."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
import xarray as xr

import pippin
from support.array_kinds import LABELS, NAMES, PROBS, OnlyArray, backwards, strided

BY_NAME = [NAMES[k] for k in LABELS]
LABEL_SOURCES = {
    "list": LABELS.tolist(),
    "tuple": tuple(LABELS.tolist()),
    "int8": LABELS.astype(np.int8),
    "uint64": LABELS.astype(np.uint64),
    "big-endian": LABELS.astype(">i4"),
    "strided": strided(LABELS),
    "negative strides": backwards(LABELS),
    "objects": LABELS.astype(object),
    "pandas": pd.Series(LABELS, index=range(80, 0, -1)),
    "pandas Int64": pd.Series(LABELS, dtype="Int64"),
    "pandas categorical": pd.Series(LABELS, dtype="category"),
    "polars": pl.Series(LABELS),
    "torch": torch.tensor(LABELS),
    "torch int32": torch.tensor(LABELS, dtype=torch.int32),
    "only __array__": OnlyArray(LABELS),
    "names": BY_NAME,
    "names, NumPy": np.array(BY_NAME),
    "names, NumPy strings": np.array(BY_NAME, dtype=np.dtypes.StringDType()),
    "names, objects": np.array(BY_NAME, dtype=object),
    "names, pandas": pd.Series(BY_NAME, index=range(80, 0, -1)),
    "names, pandas categorical": pd.Series(BY_NAME, dtype="category"),
    "names, pandas categories in another order": pd.Categorical(BY_NAME, categories=NAMES[::-1]),
    "names, polars": pl.Series(BY_NAME),
    "names, polars categorical": pl.Series(BY_NAME, dtype=pl.Categorical),
}


@pytest.mark.parametrize("labels", LABEL_SOURCES.values(), ids=LABEL_SOURCES)
def test_all_label_types_give_equal_results(labels):
    """Indices and names give equal calibrations and coverage."""
    wanted = pippin.calibrate(PROBS, LABELS, classes=NAMES)
    given = pippin.calibrate(PROBS, labels, classes=NAMES)
    assert given.calibration_scores.tolist() == wanted.calibration_scores.tolist()
    sets = wanted.predict(PROBS)
    assert sets.contains(labels).tolist() == sets.contains(LABELS).tolist()


NUMBERED = [30, 10, 0, 20, 1]
BY_NUMBER = [NUMBERED[k] for k in LABELS]


@pytest.mark.parametrize("labels", [BY_NUMBER, np.array(BY_NUMBER, np.int16), pd.Categorical(BY_NUMBER)], ids=type)
@pytest.mark.parametrize("classes", [NUMBERED, tuple(NUMBERED), np.array(NUMBERED), pd.Index(NUMBERED)], ids=type)
def test_classes_named_by_numbers(classes, labels):
    """If classes are named by numbers, a label is a name and not a column number."""
    predictor = pippin.calibrate(PROBS, labels, classes=classes)
    plain = pippin.calibrate(PROBS, LABELS)
    assert predictor.calibration_scores.tolist() == plain.calibration_scores.tolist()
    sets, wanted = predictor.predict(PROBS), plain.predict(PROBS)
    assert sets.labels() == [[NUMBERED[k] for k in row] for row in wanted.labels()]
    assert sets.contains(labels).tolist() == wanted.contains(LABELS).tolist()
    assert {type(name) for name in predictor.classes} == {int}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_class_names_come_from_the_columns_of_a_frame(frame):
    """Column names are class names in calibrate and score."""
    probs = frame({name: PROBS[:, k] for k, name in enumerate(NAMES)})
    predictor = pippin.calibrate(probs, BY_NAME)
    assert list(predictor.classes) == NAMES
    assert predictor.predict(probs).labels() == pippin.calibrate(PROBS, LABELS, classes=NAMES).predict(PROBS).labels()
    assert pippin.scores.score(probs, BY_NAME, "pip").tolist() == pippin.scores.score(PROBS, LABELS, "pip").tolist()


@pytest.mark.parametrize("classes", [tuple(NAMES), np.array(NAMES), pd.Index(NAMES), pl.Series(NAMES)], ids=type)
def test_class_names_from_any_sequence(classes):
    """Names become text from any sequence."""
    predictor = pippin.calibrate(PROBS, BY_NAME, classes=classes)
    assert list(predictor.classes) == NAMES
    assert {type(name) for name in predictor.classes} == {str}


def test_without_names_classes_are_counted_from_zero():
    """An array without names gets 0 … K − 1."""
    assert list(pippin.calibrate(PROBS, LABELS).classes) == [0, 1, 2, 3, 4]


ONE_COLUMN = {
    "array of Arrow": pa.array(BY_NAME),
    "chunks of Arrow": pa.chunked_array([BY_NAME[:50], BY_NAME[50:]]),
    "dictionary of Arrow": pa.array(BY_NAME).dictionary_encode(),
    "table of Arrow": pa.table({"label": BY_NAME}),
    "numbers of Arrow": pa.table({"label": LABELS}),
    "xarray": xr.DataArray(BY_NAME, dims=["photo"]),
    "pandas": pd.DataFrame({"label": BY_NAME}),
    "polars": pl.DataFrame({"label": LABELS}),
    "names": np.array(BY_NAME)[:, None],
    "numbers": LABELS[:, None],
    "lists": LABELS[:, None].tolist(),
    "tensor": torch.tensor(LABELS)[:, None],
    "floats": LABELS.astype(np.float32),
    "floats as objects": np.array([float(k) for k in LABELS], dtype=object),
    "floats of pandas": pd.Series(LABELS, dtype="Float64"),
    "floats as text": [f"{k}.0" for k in LABELS],
}


@pytest.mark.parametrize("labels", ONE_COLUMN.values(), ids=ONE_COLUMN)
def test_one_column_and_whole_floats_are_labels(labels):
    """Labels may be tables with one column, or whole numbers stored as floats."""
    wanted = pippin.calibrate(PROBS, LABELS, classes=NAMES)
    assert pippin.calibrate(PROBS, labels, classes=NAMES).threshold == wanted.threshold
    assert wanted.predict(PROBS).contains(labels).tolist() == wanted.predict(PROBS).contains(LABELS).tolist()


def test_whole_floats_as_text_have_the_meaning_of_the_number():
    """Text such as "2.0" is a class name if a class has this name, and else means the whole number 2."""
    sets = pippin.PredictionSets.from_labels([["3"]], ("1", "2", "3"))
    assert sets.contains(["3.0"]).tolist() == sets.contains(["3"]).tolist() == [True]
    with pytest.raises(pippin.InputError, match=r"Row 0 has the label 2, which is column 2 \('3'\) by number and"):
        sets.contains(["2.0"])
    named = pippin.PredictionSets.from_labels([["2.0"]], ("1.0", "2.0"))
    assert named.contains(["2.0"]).tolist() == [True]
