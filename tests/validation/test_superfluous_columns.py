"""Errors that name columns without probabilities, such as labels and ids, with advice that never makes them classes."""

import numpy as np
import pandas as pd
import pytest

import pippin

EXAMPLE = pippin.load_example()
PROBS, LABELS, CLASSES = EXAMPLE.probs, EXAMPLE.labels, EXAMPLE.classes
FRAME = pd.DataFrame(PROBS, columns=CLASSES)
WRONG_COLUMNS = {
    "labels": (FRAME.assign(label=LABELS), {}, "got the column 'label' without which every row sums to 1: select the"),
    "labels and ids": (
        FRAME.assign(label=LABELS, id=range(len(FRAME))),
        {},
        "got the columns 'label', 'id' without which every row sums to 1: select the columns of the classes",
    ),
    "labels from_logits": (
        FRAME.assign(label=LABELS),
        {"from_logits": True},
        "Expected one column of logits per class, got the column 'label' of whole numbers: select the columns",
    ),
    "logits": (np.log(FRAME + 1e-9), {}, "these look like logits: pass from_logits=True"),
    "logits with labels": (
        np.log(FRAME + 1e-9).assign(label=LABELS),
        {},
        "Expected one column of logits per class, got the column 'label' of whole numbers among logits: select the",
    ),
    "array": (
        np.column_stack([LABELS, PROBS]),
        {},
        r"got the column 0 without which every row sums to 1: pass numpy.delete\(probs, \[0\], axis=1\)",
    ),
    "counts": (np.round(500 * PROBS), {}, r"sums to 500, expected 1: divide each row by its sum, probs / probs.sum"),
    "one column": (
        pd.DataFrame({"patient": range(len(LABELS)), "p": PROBS[:, 0]}),
        {},
        r"got only the column 'p': for a binary classifier pass both columns, \[1 - p, p\]",
    ),
    "vector": (PROBS[:, 0], {}, r"for a binary classifier pass both columns, numpy.column_stack\(\[1 - p, p\]\)"),
}


@pytest.mark.parametrize(("probs", "options", "words"), WRONG_COLUMNS.values(), ids=WRONG_COLUMNS)
def test_columns_without_probabilities_are_named(probs, options, words):
    """The advice never makes the columns classes."""
    with pytest.raises(pippin.InputError, match=words):
        pippin.calibrate(probs, LABELS % 2 if np.shape(probs)[1:] == (2,) else LABELS, "ip", **options)


def test_a_ruled_out_class_among_logits_is_no_label():
    """A column of −inf or another constant among logits is not blamed, since it may be a class that is ruled out."""
    logits = np.log(FRAME + 1e-9)
    for constant in (-np.inf, -100.0):
        predictor = pippin.calibrate(logits.assign(other=constant), LABELS, "ip", from_logits=True)
        assert predictor.classes[-1] == "other"


def test_one_invalid_row_does_not_blame_a_column():
    """Nine of ten rows are distributions."""
    probs = PROBS[:100].copy()
    probs[7, 0] += 0.5
    with pytest.raises(pippin.InputError, match="Row 7 sums to 1"):
        pippin.calibrate(probs, LABELS[:100], "ip")
