"""The input door: many kinds of arrays give one result, and every bad input says what is wrong."""

import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import pippin

RNG = np.random.default_rng(7)
# Multiples of 1/64, so that half floats and bfloat16 hold them exactly and every row sums to 1.
PROBS = RNG.multinomial(64, [0.4, 0.3, 0.15, 0.1, 0.05], size=80) / 64
LABELS = RNG.integers(0, 5, 80)
NAMES = ["soil", "maïs", "weed", "pea", "rye"]
GOOD = [[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]]
LARGE = (100_000, 20)  # compiled, and eight blocks
DEEP = 70_001


class OnlyArray:
    """Knows nothing but `__array__`."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array


class OnlyDlpack:
    """Knows nothing but the DLPack protocol."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def strided(a):
    wide = np.ones([2 * size for size in a.shape], a.dtype)
    view = wide[(slice(None, None, 2),) * a.ndim]
    view[...] = a
    return view


def backwards(a):
    turn = (slice(None, None, -1),) * a.ndim
    return a[turn].copy()[turn]


def unaligned(a):
    view = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def memmap(a, folder):
    path = folder / f"{a.ndim}.npy"
    np.save(path, a)
    return np.load(path, mmap_mode="r")


SOURCES = {
    "C": lambda a, _: a.copy(),
    "F": lambda a, _: np.asfortranarray(a),
    "strided": lambda a, _: strided(a),
    "strided float32": lambda a, _: strided(a.astype(np.float32)),
    "negative strides": lambda a, _: backwards(a),
    "read-only": lambda a, _: read_only(a),
    "big-endian": lambda a, _: a.astype(">f8"),
    "big-endian float32": lambda a, _: a.astype(">f4"),
    "unaligned": lambda a, _: unaligned(a),
    "unaligned float32": lambda a, _: unaligned(a.astype(np.float32)),
    "float16": lambda a, _: a.astype(np.float16),
    "float32": lambda a, _: a.astype(np.float32),
    "longdouble": lambda a, _: a.astype(np.longdouble),
    "objects": lambda a, _: np.vectorize(Decimal, otypes=[object])(a),
    "lists": lambda a, _: a.tolist(),
    "memmap": memmap,
    "pandas": lambda a, _: pd.DataFrame(a) if a.ndim == 2 else pd.Series(a),
    "pandas float32": lambda a, _: pd.DataFrame(a, dtype="float32") if a.ndim == 2 else pd.Series(a, dtype="float32"),
    "pandas Float64": lambda a, _: pd.DataFrame(a, dtype="Float64") if a.ndim == 2 else pd.Series(a, dtype="Float64"),
    "polars": lambda a, _: pl.DataFrame(a) if a.ndim == 2 else pl.Series(a),
    "torch": lambda a, _: torch.tensor(a),
    "torch transposed": lambda a, _: torch.tensor(a.T.copy()).T if a.ndim == 2 else torch.tensor(strided(a)),
    "torch float32 with gradient": lambda a, _: torch.tensor(a, dtype=torch.float32, requires_grad=True),
    "torch float16": lambda a, _: torch.tensor(a, dtype=torch.float16),
    "torch bfloat16 with gradient": lambda a, _: torch.tensor(a, dtype=torch.bfloat16, requires_grad=True),
    "only __array__": lambda a, _: OnlyArray(a),
    "only __dlpack__": lambda a, _: OnlyDlpack(a),
    "only __dlpack__, torch": lambda a, _: OnlyDlpack(torch.tensor(a, dtype=torch.float32)),
}
every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


def outcome(probs, labels=LABELS, predict=None, **options):
    """All that the door leads to: the calibration scores, every class's score, the sets."""
    predictor = pippin.calibrate(probs, labels, "repip", 0.2, **options)
    sets = predictor.predict(probs if predict is None else predict)
    scores = pippin.score(probs, None, "repip")
    return [predictor.calibration_scores.tolist(), scores.tolist(), sets.sizes.tolist(), sets.members.tolist()]


@every_source
def test_every_source_of_probabilities_gives_the_same(source, tmp_path):
    """The same numbers give the same scores and sets, whatever holds them."""
    assert outcome(source(PROBS, tmp_path)) == outcome(PROBS.copy())


@every_source
def test_every_source_of_one_row_gives_the_same(source, tmp_path):
    """predict_one takes what predict takes, and gives predict's set."""
    predictor = pippin.calibrate(PROBS, LABELS)
    sets = predictor.predict(PROBS)
    for i in range(0, 80, 7):
        wanted = sets.members[sets.offsets[i] : sets.offsets[i + 1]].tolist()
        assert predictor.predict_one(source(PROBS[i], tmp_path)).tolist() == wanted


LARGE_SOURCES = ["F", "strided float32", "big-endian", "float16", "pandas", "torch bfloat16 with gradient"]


@pytest.mark.parametrize("name", LARGE_SOURCES)
def test_large_inputs_give_the_same(name, tmp_path):
    """So it is in the compiled loops, over several blocks."""
    probs = np.tile(PROBS, (3000, 1))
    labels = np.tile(LABELS, 3000)
    plain, given = (pippin.calibrate(p, labels) for p in (probs, SOURCES[name](probs, tmp_path)))
    assert given.calibration_scores.tobytes() == plain.calibration_scores.tobytes()
    sets, wanted = given.predict(SOURCES[name](probs, tmp_path)), plain.predict(probs)
    assert sets.sizes.tobytes() == wanted.sizes.tobytes()
    assert sets.members.tobytes() == wanted.members.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_floats_are_widened_exactly(dtype):
    """A narrow float counts as the number that it is, not as a rounder one."""
    probs = RNG.dirichlet(np.ones(5), 80).astype(dtype)
    assert outcome(probs) == outcome(probs.astype(np.float64))


def test_wide_floats_are_not_narrowed():
    """float64 keeps every digit, in arrays and in lists."""
    for probs in ([[0.1, 0.9]], np.array([[0.1, 0.9]])):
        assert pippin.score(probs, None, "ip").tolist() == [[1 - 0.1, 1 - 0.9]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64, bool, ">i4"])
def test_one_hot_integers_are_probabilities(dtype):
    """Certain predictions may come as whole numbers or booleans."""
    certain = np.eye(5)[RNG.integers(0, 5, 80)]
    assert outcome(certain.astype(dtype)) == outcome(certain)


@every_source
def test_probabilities_are_never_modified(source, tmp_path):
    """What the caller passed is the same afterwards, bits and flags."""
    given = source(PROBS, tmp_path)
    flags = given.flags.writeable if isinstance(given, np.ndarray) else None
    row = source(PROBS[0], tmp_path)
    predictor = pippin.calibrate(given, LABELS)
    predictor.predict(given)
    pippin.score(given, None, "margin")
    predictor.predict_one(row)
    for held, wanted in [(given, PROBS), (row, PROBS[0])]:
        held = held._array if isinstance(held, OnlyArray | OnlyDlpack) else held
        held = held.detach().double() if isinstance(held, torch.Tensor) else held
        assert np.array_equal(np.asarray(held, dtype=np.float64), wanted)
    assert flags is None or given.flags.writeable == flags


def test_logits_labels_and_classes_are_never_modified():
    """Neither are logits, although a softmax is taken of them, nor labels and names."""
    logits, labels, classes = RNG.normal(size=(80, 5)), LABELS.copy(), list(NAMES)
    before = logits.copy()
    pippin.calibrate(logits, labels, classes=classes, from_logits=True).predict(logits, from_logits=True)
    assert np.array_equal(logits, before)
    assert np.array_equal(labels, LABELS)
    assert classes == NAMES
    assert logits.flags.writeable
    assert labels.flags.writeable


def test_results_do_not_share_memory_with_the_input():
    """Writing into the input later changes no predictor and no sets."""
    probs = PROBS.copy()
    predictor = pippin.calibrate(probs, LABELS)
    sets = predictor.predict(probs)
    before = predictor.calibration_scores.tolist(), sets.labels()
    probs[:] = 0.2
    assert (predictor.calibration_scores.tolist(), sets.labels()) == before


# Labels and class names

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
def test_every_source_of_labels_gives_the_same(labels):
    """Indices and names lead to the same calibration and are found in the same sets."""
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
    """Where classes are named by numbers, a label is a name, not a column."""
    predictor = pippin.calibrate(PROBS, labels, classes=classes)
    plain = pippin.calibrate(PROBS, LABELS)
    assert predictor.calibration_scores.tolist() == plain.calibration_scores.tolist()
    sets, wanted = predictor.predict(PROBS), plain.predict(PROBS)
    assert sets.labels() == [[NUMBERED[k] for k in row] for row in wanted.labels()]
    assert sets.contains(labels).tolist() == wanted.contains(LABELS).tolist()
    assert {type(name) for name in predictor.classes} == {int}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_brings_its_class_names(frame):
    """Columns are class names: for the labels, for the sets, in calibrate and in score."""
    probs = frame({name: PROBS[:, k] for k, name in enumerate(NAMES)})
    predictor = pippin.calibrate(probs, BY_NAME)
    assert list(predictor.classes) == NAMES
    assert predictor.predict(probs).labels() == pippin.calibrate(PROBS, LABELS, classes=NAMES).predict(PROBS).labels()
    assert pippin.score(probs, BY_NAME, "pip").tolist() == pippin.score(PROBS, LABELS, "pip").tolist()


@pytest.mark.parametrize("classes", [tuple(NAMES), np.array(NAMES), pd.Index(NAMES), pl.Series(NAMES)], ids=type)
def test_class_names_from_any_sequence(classes):
    """Names become plain text, whatever held them."""
    predictor = pippin.calibrate(PROBS, BY_NAME, classes=classes)
    assert list(predictor.classes) == NAMES
    assert {type(name) for name in predictor.classes} == {str}


def test_without_names_classes_are_counted_from_zero():
    """An array without names gets 0 … K − 1."""
    assert list(pippin.calibrate(PROBS, LABELS).classes) == [0, 1, 2, 3, 4]


# Logits


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", [1, 30, 1000])
def test_logits_are_softmaxed(dtype, spread):
    """from_logits=True gives what the softmax's probabilities give."""
    logits = (spread * RNG.normal(size=(80, 5))).astype(dtype)
    probs = torch.softmax(torch.tensor(logits, dtype=torch.float64), 1).numpy()
    assert np.allclose(
        pippin.score(logits, None, "pip", from_logits=True), pippin.score(probs, None, "pip"), rtol=0, atol=1e-12
    )
    made, wanted = pippin.calibrate(logits, LABELS, from_logits=True), pippin.calibrate(probs, LABELS)
    assert made.predict(logits, from_logits=True).labels() == wanted.predict(probs).labels()


def test_a_logit_of_minus_infinity_is_a_probability_of_zero():
    """Masked classes are legal."""
    scores = pippin.score([[-np.inf, 0.0, 0.0]], None, "ip", from_logits=True)
    assert scores.tolist() == [[1.0, 0.5, 0.5]]


# Bad inputs


def calibrate(probs=GOOD, labels=(0, 2), **options):
    return pippin.calibrate(probs, labels, alpha=options.pop("alpha", 0.5), **options)


def frame(columns):
    return pd.DataFrame([[0.5, 0.25, 0.25]] * 2, columns=columns)


BAD_PROBS = {
    "NaN": ([GOOD[0], [0.5, np.nan, 0.5]], r"Row 1 has nan in column 1, expected probabilities: remove or repair"),
    "inf": ([GOOD[0], [0.5, 0.5, np.inf]], r"Row 1 has inf in column 2, expected probabilities: remove or repair"),
    "-inf": ([[-np.inf, 0.5, 0.5], GOOD[0]], r"Row 0 has -inf in column 0, expected probabilities: remove or repair"),
    "both infinities": ([[-np.inf, np.inf, 1]], r"Row 0 has -inf in column 0"),
    "negative, sum 1": ([GOOD[0], [0.5, -0.25, 0.75]], r"Row 1 has -0.25 in column 1, expected no negative .*clip"),
    "sum too small": ([GOOD[0], [0.5, 0.25, 0.125]], r"Row 1 sums to 0.875, expected 1 within 0.001: divide each row"),
    "sum too large": ([GOOD[0], [0.5, 0.25, 0.5]], r"Row 1 sums to 1.25, expected 1 within 0.001: divide each row"),
    "sum just outside": ([[0.5, 0.5, 0.0011]], r"Row 0 sums to 1.0011, expected 1 within 0.001"),
    "zeros": ([GOOD[0], [0, 0, 0]], r"Row 1 sums to 0, expected 1"),
    "logits": ([[2.5, -1.0, 0.25]], r"Row 0 sums to 1.75, expected 1: these look like logits: pass from_logits=True"),
    "positive logits": ([[9.0, 3.0, 1.0]], r"Row 0 sums to 13, expected 1: these look like logits: pass from_logits="),
    "percentages": ([[50, 30, 20]], r"Row 0 sums to 100, expected 1: these look like percentages, divide them by 100"),
    "named column": (
        pd.DataFrame([[0.5, np.nan, 0.5]], columns=["crop", "weed", "soil"]),
        r"Row 0 has nan in column 1 \('weed'\), expected probabilities",
    ),
    "polars null": (pl.DataFrame({"a": [0.5], "b": [None], "c": [0.5]}), r"Row 0 has nan in column 1 \('b'\)"),
    "0-D": (0.5, r"Expected probabilities of shape \(n, K\), got shape \(\)"),
    "1-D": ([0.5, 0.5], r"shape \(n, K\), got shape \(2,\): reshape one object to \(1, K\), or use predict_one"),
    "3-D": (np.full((2, 2, 2), 0.5), r"shape \(n, K\), got shape \(2, 2, 2\): one row per object"),
    "ragged": ([[0.5, 0.5], [1.0]], r"Expected a matrix of numbers, got list: .*all of one length"),
    "strings": ([["a", "b"]], r"Expected a matrix of numbers, got <U1: convert it to floats"),
    "None inside": ([[0.5, None, 0.5]], r"Expected a matrix of numbers, got list|Row 0 has nan in column 1"),
    "text column": (pd.DataFrame({"a": [1.0], "label": ["a"]}), r"Expected a matrix of numbers, got DataFrame"),
    "lazy frame": (pl.LazyFrame({"a": [0.5], "b": [0.5]}), r"Expected a matrix of numbers, got LazyFrame"),
    "dict": ({"a": [0.5]}, r"Expected a matrix of numbers, got dict"),
    "complex": (np.array([[0.5 + 1j, 0.25, 0.25]]), r"Expected a matrix of numbers"),
    "masked": (np.ma.array(GOOD, mask=np.eye(2, 3)), r"mask"),
    "unexportable DLPack": (OnlyDlpack(torch.tensor(GOOD, requires_grad=True)), r"Expected a matrix of numbers"),
    "K = 1": ([[1.0], [1.0]], r"Expected at least two classes, got 1 column\(s\): .*\[1 - p, p\]"),
    "K = 0": (np.zeros((3, 0)), r"Expected at least two classes, got 0 column"),
    "no rows": (np.zeros((0, 3)), r"Expected at least one row of probabilities, got shape \(0, 3\)"),
}


@pytest.mark.parametrize(("probs", "words"), BAD_PROBS.values(), ids=BAD_PROBS)
def test_bad_probabilities(probs, words):
    """score, calibrate and predict refuse the same inputs with the same words."""
    n = len(probs) if hasattr(probs, "__len__") else 1
    predictor = calibrate()
    with pytest.raises(ValueError, match=words):
        pippin.score(probs, None, "ip")
    with pytest.raises(ValueError, match=words):
        pippin.calibrate(probs, [0] * n, alpha=0.5)
    with pytest.raises(ValueError, match=words):
        predictor.predict(probs)


def test_sums_within_the_tolerance_are_taken():
    """0.001 off is rounding, not an error; in float32 as in float64."""
    for total in (0.9991, 1.0009):
        for dtype in (np.float32, np.float64):
            assert pippin.score(np.array([[0.5, total - 0.5]], dtype), None, "ip").shape == (1, 2)


BAD_LABELS = {
    "too high": ([0, 3], r"Row 1 has the label 3, expected 0 to 2: labels are column numbers counted from 0"),
    "negative": ([-1, 0], r"Row 0 has the label -1, expected 0 to 2"),
    "unsigned, far too high": (np.array([0, 2**64 - 1], np.uint64), r"Row 1 has the label 18446744073709551615"),
    "first of two": ([0, 7, 9][1:], r"Row 0 has the label 7"),
    "too few": ([0], r"Expected 2 labels, one per row, got shape \(1,\): pass labels in row order"),
    "too many": ([0, 1, 2], r"Expected 2 labels, one per row, got shape \(3,\)"),
    "none": ([], r"Expected 2 labels, one per row, got shape \(0,\)"),
    "2-D": ([[0], [1]], r"Expected 2 labels, one per row, got shape \(2, 1\)"),
    "one-hot": (np.eye(3)[:2], r"Expected 2 labels, one per row, got shape \(2, 3\)"),
    "ragged": ([[0], [1, 2]], r"Expected 2 labels, one per row"),
    "floats": ([0.0, 1.0], r"whole numbers or class names, got float64: convert them"),
    "booleans": ([True, False], r"whole numbers or class names, got bool: convert them"),
    "missing": (pd.Series([1, None], dtype="Int64"), r"whole numbers or class names"),
    "unknown name": (["0", "crop"], r"Row 0 has the label '0', which is not one of the 3 classes \(0, 1, 2\): correct"),
    "unhashable": (np.array([0, [1, 2]], dtype=object), r"Row 1 has the label \[1, 2\]"),
}


@pytest.mark.parametrize(("labels", "words"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_bad_labels(labels, words):
    """calibrate, score, contains and the metrics refuse the same labels with the same words."""
    sets = calibrate().predict(GOOD)
    for use in (
        lambda: calibrate(labels=labels),
        lambda: pippin.score(GOOD, labels, "ip"),
        lambda: sets.contains(labels),
        lambda: pippin.evaluate(sets, labels),
    ):
        with pytest.raises(ValueError, match=words):
            use()


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (["soil", "wheat"], ["soil", "pea", "rye"], r"Row 1 has the label 'wheat', .* 3 classes \(soil, pea, rye\)"),
        ([10, 2], [10, 20, 30], r"Row 1 has the label 2, which is not one of the 3 classes \(10, 20, 30\)"),
        (["10", "20"], [10, 20, 30], r"Row 0 has the label '10'"),
        ([b"soil", b"pea"], ["soil", "pea", "rye"], r"Row 0 has the label b'soil'"),
        (["soil", None], ["soil", "pea", "rye"], r"Row 1 has the label None"),
        ([0, 3], ["soil", "pea", "rye"], r"Row 1 has the label 3, expected 0 to 2"),
    ],
)
def test_labels_that_are_no_class(labels, classes, words):
    """An unknown label is named with its row, beside what was expected."""
    with pytest.raises(ValueError, match=words):
        calibrate(labels=labels, classes=classes)


@pytest.mark.parametrize("alpha", [0, 1, -1, 1.5, np.nan, np.inf, -np.inf, "x", "", None, True, [0.1], "1/0", 0.1j])
def test_bad_alpha(alpha):
    """alpha lies strictly between 0 and 1, in calibrate and in at."""
    words = r"Expected alpha, the share of errors allowed, strictly between 0 and 1, got .*: alpha=0.1 asks for 90 %"
    with pytest.raises(ValueError, match=words):
        calibrate(alpha=alpha)
    with pytest.raises(ValueError, match=words):
        calibrate().at(alpha)


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (["a", "b"], r"Expected 2 columns, one per class \(a, b\), got 3: pass the same classes in the same order"),
        (["a", "b", "c", "d", "e"], r"Expected 5 columns, one per class \(a, b, c, d, …\), got 3"),
        ([], r"Expected 0 columns"),
        (["a", "b", "a"], r"The class name 'a' occurs twice: give every class its own name"),
        ([1, 2, 1], r"The class name 1 occurs twice"),
        (["a", "b", 3], r"all text or all whole numbers, got 3: convert them"),
        ([0.0, 1.0, 2.0], r"all text or all whole numbers, got 0.0"),
        ([True, False, True], r"all text or all whole numbers, got True"),
        (["a", "b", None], r"all text or all whole numbers, got None"),
        ("abc", r"Expected a list of class names, got 'abc': pass for example"),
        (3, r"Expected a list of class names, got"),
    ],
)
def test_bad_classes(classes, words):
    """Class names are one per column, different, and of one kind."""
    with pytest.raises(ValueError, match=words):
        calibrate(classes=classes)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.full((2, 4), 0.25), r"Expected 3 columns, one per class \(a, b, c\), got 4: pass the same classes"),
        (np.full((2, 2), 0.5), r"Expected 3 columns, one per class \(a, b, c\), got 2"),
        (frame(["a", "c", "b"]), r"Column 1 is 'c', expected 'b': select the columns in the order of the classes"),
        (pl.DataFrame(frame(["c", "b", "a"]).to_dict("list")), r"Column 0 is 'c', expected 'a'"),
        (frame(["a", "b", "x"]), r"Column 2 is 'x', expected 'c'"),
    ],
)
def test_predicting_with_other_columns(given, words):
    """The columns to predict from are the classes that were calibrated, in their order."""
    with pytest.raises(ValueError, match=words):
        calibrate(frame(["a", "b", "c"])).predict(given)


def test_numbered_columns_in_another_order():
    """Columns named by numbers are held to their order as well."""
    with pytest.raises(ValueError, match=r"Column 0 is .*2"):
        calibrate(frame([0, 1, 2])).predict(frame([2, 1, 0]))


def test_frames_that_contradict_themselves():
    """A repeated column, or classes= against the columns, is an error when calibrating."""
    with pytest.raises(ValueError, match=r"The class name 'a' occurs twice"):
        calibrate(frame(["a", "b", "a"]))
    with pytest.raises(ValueError, match=r"Column 0 is 'a', expected 'b'"):
        calibrate(frame(["a", "b", "c"]), classes=["b", "a", "c"])


@pytest.mark.parametrize("bad", [[np.nan, 0, 0], [0, np.inf, 0], [-np.inf] * 3])
def test_bad_logits(bad):
    """A row of logits needs a finite largest one; the first that has none is named."""
    with pytest.raises(ValueError, match=r"Row 2 has a largest logit of -?(nan|inf), expected finite logits .*repair"):
        pippin.score([*GOOD, bad, bad], None, "ip", from_logits=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([0.5, 0.5], r"Expected one row of 3 probabilities, got shape \(2,\)"),
        ([[0.5, 0.25, 0.25]], r"Expected one row of 3 probabilities, got shape \(1, 3\)"),
        ([0.5, np.nan, 0.5], r"nan in column 1, expected probabilities"),
        ([0.5, 0.5, np.inf], r"inf in column 2, expected probabilities"),
        ([-0.5, 0.75, 0.75], r"-0.5 in column 0, expected no negative"),
        ([0.5, 0.25, 0.125], r"sums to 0.875, expected 1"),
        ([2.5, -1, 0.25], r"look like logits"),
        ([50, 30, 20], r"percentages, divide them by 100"),
    ],
)
def test_bad_rows_in_predict_one(row, words, dtype):
    """predict_one checks as predict does."""
    with pytest.raises(ValueError, match=words):
        calibrate().predict_one(np.array(row, dtype))


def test_text_in_predict_one():
    """A row that is no numbers at all is an error with a sentence."""
    with pytest.raises(ValueError, match=r"Expected a matrix of numbers, got <U1"):
        calibrate().predict_one(["a", "b", "c"])


# Bad rows deep inside large inputs

DAMAGE = {
    "NaN": ({3: np.nan}, r"has nan in column 3, expected probabilities"),
    "inf": ({0: np.inf}, r"has inf in column 0, expected probabilities"),
    "-inf": ({19: -np.inf}, r"has -inf in column 19, expected probabilities"),
    "negative, sum 1": ({0: 1.5, 1: -0.5}, r"has -0.5 in column 1, expected no negative"),
    "sum too large": ({0: 0.75, 1: 0.25, 2: 0.0625}, r"sums to 1.0625, expected 1 within 0.001"),
    "sum just outside": ({0: 0.5, 1: 0.5011}, r"sums to 1.0011, expected 1"),
    "logits": ({0: 8.0, 1: -2.0}, r"sums to 6, expected 1: these look like logits: pass from_logits=True"),
    "percentages": ({0: 60.0, 1: 40.0}, r"sums to 100, expected 1: these look like percentages"),
}
USES = {
    "calibrate": lambda probs: pippin.calibrate(probs, np.zeros(len(probs), int)),
    "calibrate socop": lambda probs: pippin.calibrate(probs, np.zeros(len(probs), int), "socop"),
    "predict": lambda probs: SMALL.predict(probs),
    "score": lambda probs: pippin.score(probs, None, "ip"),
}
SMALL = pippin.calibrate(np.full((20, 20), 0.05), range(20))


def damaged(changes, *rows, dtype=np.float32, order="C"):
    probs = np.full(LARGE, 0.05, dtype, order)
    for row in rows:
        probs[row] = 0
        for column, value in changes.items():
            probs[row, column] = value
    return probs


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(("changes", "words"), DAMAGE.values(), ids=DAMAGE)
def test_a_bad_row_deep_inside_is_named(changes, words, use):
    """The row is named by its place in the whole input, and what is wrong as in a small one."""
    with pytest.raises(ValueError, match=f"^Row {DEEP} {words}"):
        use(damaged(changes, DEEP))


@pytest.mark.parametrize("options", [{"dtype": np.float64}, {"order": "F"}, {"dtype": np.float16}], ids=str)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_bad_row_is_named_in_other_layouts(use, options):
    """Layout and type of the array do not change which row is named."""
    with pytest.raises(ValueError, match=f"^Row {DEEP} has nan in column 3"):
        use(damaged({3: np.nan}, DEEP, **options))


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("first", [0, 13_106, 13_107, 40_000])
def test_the_first_of_several_bad_rows_is_named(first, use):
    """Blocks run on several threads, yet the first bad row is named each time."""
    probs = damaged({3: np.nan}, first + 1, DEEP, 99_999)
    probs[first, 0] += 1
    for _ in range(3):
        with pytest.raises(ValueError, match=f"^Row {first} sums to 2"):
            use(probs)


def test_bad_logits_deep_inside_are_named():
    """The softmax names the first bad row as well."""
    logits = np.zeros(LARGE, np.float32)
    logits[[99_000, DEEP], 5] = np.nan
    with pytest.raises(ValueError, match=f"^Row {DEEP} has a largest logit of nan"):
        pippin.calibrate(logits, np.zeros(len(logits), int), from_logits=True)


def test_bad_labels_deep_inside_are_named():
    """So are labels, as indices and as names."""
    probs = np.full(LARGE, 0.05, np.float32)
    labels = np.zeros(LARGE[0], int)
    labels[[99_000, DEEP]] = 20
    with pytest.raises(ValueError, match=f"^Row {DEEP} has the label 20, expected 0 to 19"):
        pippin.calibrate(probs, labels)
    names = [f"c{k}" for k in range(20)]
    with pytest.raises(ValueError, match=f"^Row {DEEP} has the label 'c20', which is not one of the 20 classes"):
        pippin.calibrate(probs, [f"c{k}" for k in labels], classes=names)


UNCOMPILED = """
import sys
import numpy as np
import pippin

for use in (
    lambda probs: pippin.calibrate(probs, np.zeros(len(probs), int)),
    lambda probs: pippin.score(probs, None, "ip"),
    lambda probs: pippin.calibrate(np.full((20, 10), 0.1), [0] * 20).predict(probs),
):
    probs = np.full((30_000, 10), 0.1)
    probs[29_000, 3] = np.nan
    probs[27_001, 0] = 1
    try:
        use(probs)
    except ValueError as error:
        print(error)
print("pippin.kernels" in sys.modules)
"""


def test_the_uncompiled_path_names_the_same_row():
    """A fresh process works in NumPy, in several blocks, and names the first bad row too."""
    done = subprocess.run([sys.executable, "-c", UNCOMPILED], capture_output=True, text=True, check=True)
    *errors, compiled = done.stdout.splitlines()
    assert compiled == "False"
    assert len(errors) == 3
    assert {error[:27] for error in errors} == {"Row 27001 sums to 1.9, expe"}
