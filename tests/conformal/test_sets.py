"""PredictionSets: all views are consistent."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from support.one_threshold import one_threshold

NAMES = ("crop", "soil", "weed")


def make(rows, classes=range(3)):
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    return pippin.PredictionSets(sizes, np.array([k for row in rows for k in row], dtype=np.int32), classes)


@st.composite
def set_rows(draw, at_least=0):
    """Draw sets over 2 to 6 classes, as lists of indices, and class names."""
    n_classes = draw(st.integers(2, 6))
    one = st.permutations(range(n_classes)).flatmap(lambda p: st.integers(0, n_classes).map(lambda size: p[:size]))
    rows = draw(st.lists(one, min_size=at_least, max_size=8))
    classes = draw(st.sampled_from([range(6), "abcdef", (5, 4, 3, 2, 1, 0), (10, 20, 30, 40, 50, 60)]))[:n_classes]
    return rows, classes if isinstance(classes, range) else tuple(classes)


@given(set_rows())
def test_all_views_agree(drawn):
    """sizes, members, offsets, mask, labels, iteration and indexing are consistent."""
    rows, classes = drawn
    sets = make(rows, classes)
    names = [[classes[k] for k in row] for row in rows]
    assert len(sets) == len(rows)
    assert sets.sizes.tolist() == [len(row) for row in rows]
    assert sets.members.tolist() == [k for row in rows for k in row]
    assert [sets.members[a:b].tolist() for a, b in zip(sets.offsets, sets.offsets[1:], strict=False)] == rows
    assert sets.mask.shape == (len(rows), len(classes))
    assert sets.mask.tolist() == [[k in row for k in range(len(classes))] for row in rows]
    assert sets.labels() == list(sets) == [sets[i] for i in range(len(rows))] == names


@given(set_rows(at_least=1))
def test_contains_is_the_mask(drawn):
    """`contains` equals the mask at the label, given as index or name."""
    rows, classes = drawn
    sets = make(rows, classes)
    for k, name in enumerate(classes):
        assert sets.contains([name] * len(rows)).tolist() == sets.mask[:, k].tolist()
        if isinstance(name, str) or isinstance(classes, range):
            assert sets.contains([k] * len(rows)).tolist() == sets.mask[:, k].tolist()


@given(set_rows(), st.data())
def test_a_slice_of_sets_equals_sets_of_the_slice(drawn, data):
    """Slices of any step are sets again, with the same classes."""
    rows, classes = drawn
    part = data.draw(st.slices(len(rows)))
    sets = make(rows, classes)[part]
    assert isinstance(sets, pippin.PredictionSets)
    assert sets.labels() == make(rows[part], classes).labels()
    assert sets.classes == classes
    assert sets.mask.tolist() == make(rows[part], classes).mask.tolist()
    assert (sets.sizes.dtype, sets.members.dtype) == (np.int64, np.int32)


def test_indexing_follows_python():
    """Negative indices count from the end, NumPy's integers are indices."""
    sets = make([[2], [], [1, 0]], NAMES)
    assert sets[0] == sets[-3] == sets[np.int64(0)] == ["weed"]
    assert sets[1] == []
    assert sets[-1] == ["soil", "crop"]


@pytest.mark.parametrize("index", [3, -4, 10**9])
def test_an_index_out_of_range_is_an_index_error(index):
    """An index out of range raises an IndexError, as for a list."""
    with pytest.raises(IndexError):
        make([[2], [], [1, 0]])[index]


@pytest.mark.parametrize("index", ["a", 1.0, None])
def test_an_index_of_another_type_is_a_type_error(index):
    """An index of another type raises a TypeError, as for a list."""
    with pytest.raises(TypeError):
        make([[2], []])[index]


@pytest.mark.parametrize(
    ("rows", "classes", "text"),
    [
        ([[0], [1, 2]], NAMES, "PredictionSets(2 objects, 3 classes, mean size 1.50, 50% singletons)"),
        ([[]], range(2000), "PredictionSets(1 objects, 2,000 classes, mean size 0.00, 0% singletons)"),
        ([[0]] * 1234, range(2), "PredictionSets(1,234 objects, 2 classes, mean size 1.00, 100% singletons)"),
        ([], range(2), "PredictionSets(0 objects, 2 classes, mean size 0, no singletons)"),
    ],
)
def test_repr_summarizes_the_sets(rows, classes, text):
    """`repr` is a summary of one line, also without objects."""
    assert repr(make(rows, classes)) == text


def test_names_are_plain_python():
    """Lists of labels hold Python's str and int, which JSON supports."""
    for classes in (range(3), NAMES, (7, 8, 9)):
        sets = make([[2, 0]], classes)
        kinds = {type(name) for name in [*sets.labels()[0], *sets[0], *next(iter(sets))]}
        assert kinds == {type(classes[0])}


@pytest.mark.parametrize("name", ["sizes", "members", "offsets", "mask"])
def test_arrays_are_read_only(name):
    """The arrays of PredictionSets cannot be modified."""
    array = getattr(make([[2], [1, 0]]), name)
    with pytest.raises(ValueError, match="read-only"):
        array[...] = 0


def test_the_callers_arrays_stay_writable():
    """The caller's arrays are not made read-only."""
    sizes, members = np.array([1, 2]), np.array([2, 1, 0])
    pippin.PredictionSets(sizes, members, NAMES)
    assert sizes.flags.writeable
    assert members.flags.writeable


def test_fields_cannot_be_assigned():
    """Fields of prediction sets cannot be assigned."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        make([[0]]).sizes = np.array([2])


PROBS = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.25, 0.5, 0.25]])
TWO = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])


@pytest.mark.parametrize(
    ("probs", "threshold", "wanted"),
    [
        (PROBS, np.inf, [[0, 1, 2], [2, 1, 0], [1, 0, 2]]),
        (PROBS, -1.0, [[], [], []]),
        (PROBS, 0.4, [[0], [2], []]),
        (PROBS, 0.75, [[0], [2], [1, 0, 2]]),
        (TWO, np.inf, [[0, 1], [0, 1], [1, 0]]),
        (TWO, 0.3, [[0], [], [1]]),
        (TWO, 0.5, [[0], [0, 1], [1]]),
        (TWO, -1.0, [[], [], []]),
    ],
)
def test_predicted_sets(probs, threshold, wanted):
    """Full, empty and other sets of IP, most probable class first, ties by index."""
    predictor = one_threshold("ip", 0.1, threshold, 9, range(probs.shape[1]))
    sets = predictor.predict(probs)
    assert sets.labels() == wanted
    assert sets.mask.sum() == sum(map(len, wanted))
    assert [predictor.predict_one(row).tolist() for row in probs] == wanted


def test_numbered_classes_contain_by_name():
    """If classes are named by numbers, the label 1 is the class named 1, not column 1."""
    sets = make([[0], [1]], (1, 0))
    assert sets.labels() == [[1], [0]]
    assert sets.contains([1, 1]).tolist() == [True, False]


@given(set_rows())
def test_sets_from_a_mask_and_from_labels(drawn):
    """Sets, names and sizes are equal; members from a mask are in the order of the columns."""
    rows, classes = drawn
    sets = make(rows, classes)
    listed = pippin.PredictionSets.from_labels(sets.labels(), classes)
    assert listed.labels() == sets.labels()
    assert listed.members.tolist() == sets.members.tolist()
    assert (listed.sizes.dtype, listed.members.dtype) == (np.int64, np.int32)
    if rows:
        masked = pippin.PredictionSets.from_mask(sets.mask, classes)
        assert masked.mask.tolist() == sets.mask.tolist()
        assert masked.members.tolist() == [k for row in rows for k in sorted(row)]
        assert list(masked.classes) == list(classes)
        assert pippin.PredictionSets.from_mask(sets.mask.astype(int).tolist()).sizes.tolist() == sets.sizes.tolist()


def test_sets_of_a_frame_keep_its_names_and_index():
    """pandas gives index and names, polars the names; labels in another order raise."""
    frame = pd.DataFrame([[True, False, True], [False, False, False]], index=["a.png", "b.png"], columns=NAMES)
    sets = pippin.PredictionSets.from_mask(frame)
    assert sets.classes == NAMES
    assert sets.loc["a.png"] == ["crop", "weed"]
    assert sets.to_frame()["size"].to_dict() == {"a.png": 2, "b.png": 0}
    assert pippin.metrics.coverage(sets, pd.Series(["weed", "crop"], index=frame.index)) == 0.5
    with pytest.raises(pippin.InputError, match="Expected labels with the index of sets"):
        sets.contains(pd.Series(["weed", "crop"], index=["b.png", "a.png"]))
    assert pippin.PredictionSets.from_mask(pl.DataFrame(frame)).labels() == [["crop", "weed"], []]


@pytest.mark.parametrize(
    "mask", [[0.2, 0.8], [[0.2, 0.8]], [[2, 0]], [[[True]]], [["a", "b"]], [[True, None]]], ids=repr
)
def test_an_invalid_mask_raises(mask):
    with pytest.raises(pippin.InputError, match=r"Expected a mask of shape \(n, K\), True where a class is in the set"):
        pippin.PredictionSets.from_mask(mask)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([["crop"], ["weed", "crop", "weed"]], "Row 1 holds a class twice, expected each at most once"),
        ([["crop", "rye"]], "label 'rye'"),
        ([[3]], "has the label 3"),
        ([[-1]], "has the label -1"),
    ],
)
def test_invalid_lists_of_classes_raise(sets, message):
    with pytest.raises(pippin.InputError, match=message):
        pippin.PredictionSets.from_labels(sets, NAMES)


def test_a_mask_has_as_many_columns_as_classes():
    with pytest.raises(pippin.InputError, match="3"):
        pippin.PredictionSets.from_mask([[True, False]], NAMES)


def test_sets_from_indices_and_from_no_lists():
    """Indices are accepted for classes with text names; no lists give no sets."""
    assert pippin.PredictionSets.from_labels([[2], [0, 1]], NAMES).labels() == [["weed"], ["crop", "soil"]]
    assert pippin.PredictionSets.from_labels([[], []], range(2)).sizes.tolist() == [0, 0]
    assert len(pippin.PredictionSets.from_labels([], NAMES)) == 0
