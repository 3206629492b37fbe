"""Invalid arguments raise errors with expected value, received value and remedy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.sparse import csr_matrix

import pippin
from support.array_kinds import OnlyDlpack

GOOD = [[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]]


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
    "positive logits": ([[9.0, 3.0, 1.0]], r"Row 0 sums to 13, expected 1: divide each row by its sum, probs / "),
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
    "text column": (
        pd.DataFrame({"a": [1.0], "label": ["a"]}),
        "Column 'label' holds text such as 'a', expected the prob",
    ),
    "lazy frame": (pl.LazyFrame({"a": [0.5], "b": [0.5]}), r"got a LazyFrame: pass its result, frame.collect\(\)"),
    "sparse": (csr_matrix(GOOD), r"Expected a matrix of numbers, got csr_matrix: convert it with .toarray\(\)"),
    "dict": ({"a": [0.5]}, r"Expected a matrix of numbers, got dict"),
    "complex": (np.array([[0.5 + 1j, 0.25, 0.25]]), r"Expected a matrix of numbers"),
    "masked": (np.ma.array(GOOD, mask=np.eye(2, 3)), r"mask"),
    "unexportable DLPack": (OnlyDlpack(torch.tensor(GOOD, requires_grad=True)), r"Expected a matrix of numbers"),
    "K = 1": ([[1.0], [1.0]], r"Expected at least two classes, got 1 column\(s\): .*\[1 - p, p\]"),
    "K = 0": (np.zeros((3, 0)), r"Expected at least two classes, got 0 column"),
    "no rows": (np.zeros((0, 3)), r"Expected at least one row of probabilities, got shape \(0, 3\)"),
}


@pytest.mark.parametrize(("probs", "words"), BAD_PROBS.values(), ids=BAD_PROBS)
def test_invalid_probabilities_raise(probs, words):
    """score, calibrate and predict raise the same error."""
    n = np.shape(probs)[0] if isinstance(probs, csr_matrix) else len(probs) if hasattr(probs, "__len__") else 1
    predictor = calibrate()
    with pytest.raises(ValueError, match=words):
        pippin.scores.score(probs, None, "ip")
    with pytest.raises(ValueError, match=words):
        pippin.calibrate(probs, [0] * n, alpha=0.5)
    with pytest.raises(ValueError, match=words):
        predictor.predict(probs)


def test_sums_within_the_tolerance_are_accepted():
    """A difference of 0.001 is accepted, in float32 and float64."""
    for total in (0.9991, 1.0009):
        for dtype in (np.float32, np.float64):
            assert pippin.scores.score(np.array([[0.5, total - 0.5]], dtype), None, "ip").shape == (1, 2)


BAD_LABELS = {
    "too high": ([0, 3], r"Row 1 has the label 3, expected 0 to 2: labels are column numbers counted from 0"),
    "negative": ([-1, 0], r"Row 0 has the label -1, expected 0 to 2"),
    "unsigned, far too high": (np.array([0, 2**64 - 1], np.uint64), r"Row 1 has the label 18446744073709551615"),
    "first of two": ([0, 7, 9][1:], r"Row 0 has the label 7"),
    "too few": ([0], r"Expected 2 labels, one per row, got shape \(1,\): pass labels in row order"),
    "too many": ([0, 1, 2], r"Expected 2 labels, one per row, got shape \(3,\)"),
    "none": ([], r"Expected 2 labels, one per row, got shape \(0,\)"),
    "one row": ([[0, 1]], r"Expected 2 labels, one per row, got shape \(1, 2\): pass numpy.ravel\(labels\)"),
    "2-D": ([[0, 1], [1, 1]], r"Expected 2 labels, one per row, got shape \(2, 2\): pass labels in row order"),
    "one-hot": (np.eye(3)[:2], r"one per row, got shape \(2, 3\): pass labels.argmax\(axis=1\)"),
    "one-hot tensor": (torch.eye(3, dtype=torch.bool)[:2], r"got shape \(2, 3\): pass labels.argmax\(axis=1\)"),
    "one-hot list": (np.eye(3)[:2].tolist(), r"got shape \(2, 3\): pass numpy.argmax\(labels, axis=1\)"),
    "one-hot frame": (pd.DataFrame(np.eye(3)[:2]), r"got shape \(2, 3\): pass labels.idxmax\(axis=1\)"),
    "ragged": ([[0], [1, 2]], r"Expected 2 labels, one per row"),
    "fractions": ([0.0, 1.5], r"Row 1 has the label 1.5, expected a whole number or a class name: pass the true class"),
    "infinite": ([np.inf, 1.0], r"Row 0 has the label inf, expected a whole number"),
    "huge": ([1.0, 1e300], r"Row 1 has the label 1e\+300, expected a whole number"),
    "booleans": ([True, False], r"whole numbers or class names, got bool: pass labels.astype\(int\)"),
    "missing": (
        pd.Series([1, None], dtype="Int64"),
        r"Row 1 has no label \((<NA>|nan)\), expected its true class: leave rows",
    ),
    "missing, floats": (
        [1.0, np.nan],
        r"Row 1 has no label \(nan\), expected its true class: leave rows without a lab",
    ),
    "missing, polars": (pl.Series([None, 1]), r"Row 0 has no label \(nan\)"),
    "missing, objects": ([None, 1], r"Row 0 has no label \(None\)"),
    "lazy frame": (pl.LazyFrame({"label": [0, 1]}), r"got a LazyFrame: pass its result, frame.collect\(\)"),
    "unknown name": (
        ["0", "crop"],
        r"Row 1 has the label 'crop', which is not one of the 3 classes \(0, 1, 2\): correct",
    ),
    "unhashable": (np.array([0, [1, 2]], dtype=object), r"Row 1 has the label \[1, 2\]"),
}


@pytest.mark.parametrize(("labels", "words"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_invalid_labels_raise(labels, words):
    """calibrate, score, contains and the metrics raise the same error."""
    sets = calibrate().predict(GOOD)
    for use in (
        lambda: calibrate(labels=labels),
        lambda: pippin.scores.score(GOOD, labels, "ip"),
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
        (["10", "25"], [10, 20, 30], r"Row 1 has the label '25'"),
        ([b"soil", b"pea"], ["soil", "pea", "rye"], r"Row 0 has the label b'soil'"),
        (["soil", None], ["soil", "pea", "rye"], r"Row 1 has no label \(None\), expected its true class"),
        ([0, 3], ["soil", "pea", "rye"], r"Row 1 has the label 3, expected 0 to 2"),
    ],
)
def test_unknown_labels_raise(labels, classes, words):
    """The error names an unknown label, its row and the classes."""
    with pytest.raises(ValueError, match=words):
        calibrate(labels=labels, classes=classes)


@pytest.mark.parametrize("alpha", [0, 1, -1, 1.5, np.nan, np.inf, -np.inf, "x", "", None, True, [0.1], "1/0", 0.1j])
def test_invalid_alpha_raises(alpha):
    """alpha lies strictly between 0 and 1, in calibrate and in at."""
    words = r"Expected alpha, the share of errors allowed, strictly between 0 and 1, got .*: alpha=0.1 asks for 90%"
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
def test_invalid_class_names_raise(classes, words):
    """Class names are one per column, distinct, and of one type."""
    with pytest.raises(ValueError, match=words):
        calibrate(classes=classes)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.full((2, 4), 0.25), r"Expected 3 columns, one per class \(a, b, c\), got 4: pass the same classes"),
        (np.full((2, 2), 0.5), r"Expected 3 columns, one per class \(a, b, c\), got 2"),
        (
            frame(["a", "b", "x"]),
            r"Expected a column for each class \(a, b, c\), got none called 'c' but 'x': rename the",
        ),
        (
            frame(["a", "b", "c"]).assign(id=1.0),
            r"no column but one for each class \(a, b, c\), got 'id': leave it out",
        ),
        (
            frame(["a", "b", "c"])[["a", "b", "b", "c"]],
            r"Expected one column for each class, got 'b' twice: give every",
        ),
        (
            frame(["a", "b", "c"])[["c", "a"]],
            r"Expected a column for each class \(a, b, c\), got none called 'b': rename",
        ),
        (frame([0, 1, 2]), r"none called 'a' but 0: name the columns, or pass frame.to_numpy\(\) if they are in this"),
        (pl.DataFrame(frame(["c", "b", "d"]).to_dict("list")), r"got none called 'a' but 'd'"),
    ],
)
def test_predicting_with_other_columns_raises(given, words):
    """The columns of predict must be the calibrated classes."""
    with pytest.raises(ValueError, match=words):
        calibrate(frame(["a", "b", "c"])).predict(given)


def test_columns_numbered_from_one_raise():
    """The names of columns named by numbers are compared with the indices of unnamed classes."""
    with pytest.raises(ValueError, match=r"Expected a column for each class \(0, 1, 2\), got none called 0 but 3"):
        calibrate(frame([0, 1, 2])).predict(frame([1, 2, 3]))


def test_frames_with_contradicting_names_raise():
    """A repeated column, or classes= other than the columns, raises in calibrate."""
    with pytest.raises(ValueError, match=r"The class name 'a' occurs twice"):
        calibrate(frame(["a", "b", "a"]))
    with pytest.raises(ValueError, match=r"Expected a column for each class \(b, a, d\), got none called 'd' but 'c'"):
        calibrate(frame(["a", "b", "c"]), classes=["b", "a", "d"])


@pytest.mark.parametrize("bad", [[np.nan, 0, 0], [0, np.inf, 0], [-np.inf] * 3])
def test_invalid_logits_raise(bad):
    """The largest logit of a row must be finite; the error names the first other row."""
    with pytest.raises(ValueError, match=r"Row 2 has a largest logit of -?(nan|inf), expected finite logits .*repair"):
        pippin.scores.score([*GOOD, bad, bad], None, "ip", from_logits=True)


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
def test_invalid_rows_in_predict_one_raise(row, words, dtype):
    """predict_one raises the errors of predict."""
    with pytest.raises(ValueError, match=words):
        calibrate().predict_one(np.array(row, dtype))


def test_text_in_predict_one_raises():
    """A row of text raises one sentence."""
    with pytest.raises(ValueError, match=r"Expected a matrix of numbers, got <U1"):
        calibrate().predict_one(["a", "b", "c"])
