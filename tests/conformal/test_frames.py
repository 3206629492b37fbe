"""Data frames as input and output, and arrays without copies."""

import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from pandas.testing import assert_frame_equal

import pippin
from pippin._validation.rows import as_array, as_rows
from support.array_kinds import OnlyArray, OnlyDlpack
from support.one_threshold import one_threshold

NAMES = ("crop", "soil", "weed")
PROBS = np.array([[0.7, 0.2, 0.1], [0.05, 0.45, 0.5], [0.4, 0.35, 0.25], [0.45, 0.1, 0.45]])
SETS = [["crop"], ["weed", "soil"], [], ["crop", "weed"]]  # all classes of at least 0.42
SIZES = [1, 2, 0, 2]

INDICES = {
    "numbers": pd.RangeIndex(4),
    "names": pd.Index(["a", "b", "c", "d"], name="image"),
    "repeated": pd.Index([7, 7, 3, 3]),
    "days": pd.date_range("2024-03-01", periods=4),
    "levels": pd.MultiIndex.from_product([["field", "yard"], [1, 2]], names=["place", "row"]),
}


def predict(probs, classes=NAMES):
    return one_threshold("ip", 0.1, 0.58, 9, classes).predict(probs)


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_pandas_input_gives_pandas_output(index):
    """The index of the rows is kept."""
    frame = predict(pd.DataFrame(PROBS, index=index, columns=NAMES)).to_frame()
    assert_frame_equal(frame, pd.DataFrame({"size": SIZES, "labels": pd.Series(SETS, index=index)}, index=index))
    assert frame["labels"].tolist() == SETS


@pytest.mark.parametrize(
    "probs",
    [PROBS, PROBS.tolist(), torch.tensor(PROBS), pl.DataFrame(PROBS, schema=NAMES)],
    ids=lambda p: type(p).__name__,
)
def test_other_input_gives_polars_output(probs):
    """polars, arrays, tensors and lists have no index."""
    frame = predict(probs).to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame.schema == {"size": pl.Int64, "labels": pl.List(pl.String)}
    assert frame.to_dict(as_series=False) == {"size": SIZES, "labels": SETS}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_to_frame_with_a_column_per_class(make):
    """The columns are in the order of the classes and equal the mask."""
    sets = predict(make(dict(zip(NAMES, PROBS.T, strict=True))))
    frame = sets.to_frame(classes=True)
    assert list(frame.columns) == ["size", "labels", *NAMES]
    assert np.array_equal(np.asarray(frame[list(NAMES)]), sets.mask)
    assert np.asarray(frame[list(NAMES)]).dtype == bool


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_class_names_come_from_the_columns(make):
    """Sets from frames hold the column names."""
    data = pippin.load_example()
    frame = make(dict(zip(data.classes, data.probs.T, strict=True)))
    predictor = pippin.calibrate(frame[:2000], np.array(data.classes)[data.labels[:2000]])
    assert predictor.classes == tuple(data.classes)
    sets = predictor.predict(frame[2000:])
    same = pippin.calibrate(data.probs[:2000], data.labels[:2000], classes=data.classes).predict(data.probs[2000:])
    assert sets.labels() == same.labels() == [list(names) for names in sets.to_frame()["labels"]]


def test_numbered_classes():
    """Whole-number classes are numbers in sets, and text as column names."""
    frame = predict(PROBS, (10, 20, 30)).to_frame(classes=True)
    assert frame["labels"].to_list() == [[10], [30, 20], [], [10, 30]]
    assert frame.columns == ["size", "labels", "10", "20", "30"]
    plain = predict(pd.DataFrame(PROBS), range(3)).to_frame(classes=True)
    assert plain["labels"].tolist() == [[0], [2, 1], [], [0, 2]]
    assert list(plain.columns) == ["size", "labels", "0", "1", "2"]


@pytest.mark.parametrize("part", [slice(1, 3), slice(None, None, -1), slice(4, 9), slice(0, 4, 2)])
def test_a_slice_keeps_its_part_of_the_index(part):
    """Slices of sets and slices of the frame agree."""
    sets = predict(pd.DataFrame(PROBS, index=list("abcd"), columns=NAMES))
    assert_frame_equal(sets[part].to_frame(classes=True), sets.to_frame(classes=True)[part])


def test_only_empty_sets():
    """If all sets are empty, the frame has the usual column types."""
    sets = pippin.PredictionSets(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int32), NAMES)
    assert sets.to_frame().schema == {"size": pl.Int64, "labels": pl.List(pl.String)}
    assert sets[:0].to_frame().schema == sets.to_frame().schema


@pytest.mark.parametrize("name", ["size", "labels"])
def test_a_class_named_like_a_column_raises(name):
    """A class named like another column of the frame raises, but only if there is a column per class."""
    sets = predict(PROBS, ("crop", name, "weed"))
    assert sets.to_frame().columns == ["size", "labels"]
    with pytest.raises(ValueError, match=f"Expected class names other than .*, got '{name}': leave classes=True out"):
        sets.to_frame(classes=True)


def test_sets_with_an_index_equal_sets_without():
    """Sets with a pandas index equal those without, are immutable and can be pickled."""
    sets = predict(pd.DataFrame(PROBS, index=list("abcd"), columns=NAMES))
    with pytest.raises(dataclasses.FrozenInstanceError):
        sets.index = None
    assert_frame_equal(pickle.loads(pickle.dumps(sets)).to_frame(), sets.to_frame())  # noqa: S301 - our own
    assert pippin.PredictionSets(np.array([1]), np.array([0]), NAMES).index is None


@pytest.mark.parametrize(("used", "other"), [("pandas", "polars"), ("polars", "pandas")])
def test_only_the_library_of_the_input_is_imported(used, other):
    """pandas input does not import polars, and polars input does not import pandas."""
    code = (
        f"import sys; sys.modules[{other!r}] = None; import numpy, pippin, {used}\n"
        "from support.one_threshold import one_threshold\n"
        "p = one_threshold('ip', 0.1, 0.58, 9, ('a', 'b'))\n"
        f"print(p.predict({used}.DataFrame({{'a': [0.9], 'b': [0.1]}})).to_frame(classes=True).shape)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "(1, 4)\n"


SOURCES = {
    "NumPy": lambda a: a,
    "__array__": OnlyArray,
    "DLPack": OnlyDlpack,
    "torch": torch.from_numpy,
    "torch with gradient": lambda a: torch.from_numpy(a).requires_grad_(),
    "torch through DLPack": lambda a: OnlyDlpack(torch.from_numpy(a)),
    "memoryview": memoryview,
    "pandas": lambda a: pd.DataFrame(a, copy=False),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_contiguous_floats_are_not_copied(source, dtype):
    """The scored blocks share memory with the input."""
    base = np.ascontiguousarray(PROBS, dtype=dtype)
    given = source(base)
    assert np.shares_memory(as_array(given), base)
    assert np.shares_memory(as_rows(given).block(0, 4), base)
    assert predict(given, range(3)).labels() == predict(base, range(3)).labels()
    assert np.array_equal(base, PROBS.astype(dtype))


def test_one_row_of_any_array():
    """`predict_one` takes what `predict` takes."""
    predictor = one_threshold("ip", 0.1, 0.58, 9, NAMES)
    for source in (OnlyArray, OnlyDlpack, torch.from_numpy):
        assert predictor.predict_one(source(PROBS[1].copy())).tolist() == [2, 1]
