"""Rows of probabilities: spread, peaked, tied, sparse and degenerate."""

import numpy as np
import pytest
from hypothesis import strategies as st

import pippin


def made_rows(kind: str, n: int, n_classes: int, seed: int) -> np.ndarray:
    """Draw rows of probabilities in float64: spread, tied, sparse, (nearly) certain or all equal."""
    rng = np.random.default_rng(seed)
    if kind == "spread":
        p = rng.dirichlet(np.full(n_classes, 0.3), n) + 1e-12
    elif kind == "peaked":
        p = np.exp(rng.normal(0, 4, (n, n_classes)))
    elif kind == "tied":
        p = rng.integers(1, 4, (n, n_classes)).astype(float)
    elif kind == "zeros":
        p = rng.integers(0, 3, (n, n_classes)) * (rng.random((n, n_classes)) < 0.3) + 0.0
        p[np.arange(n), rng.integers(0, n_classes, n)] += 1
    elif kind == "equal":
        p = np.ones((n, n_classes))
    else:
        p = np.zeros((n, n_classes))
        p[np.arange(n), rng.integers(0, n_classes, n)] = 1
        if kind == "almost certain":
            p += 10.0 ** rng.integers(-20, -3, (n, n_classes))
    return p / p.sum(axis=1, keepdims=True)


def drawn_labels(probs, rng):
    """Draw a class from the probabilities of each row."""
    return np.array([rng.choice(len(row), p=row / row.sum()) for row in probs.astype(float)])


def check_bad_row_is_named(score, n, row, wrong):
    """Check that prediction and calibration name an invalid row among n rows of 12 classes."""
    pippin.warm_up()
    probs = made_rows("spread", n, 12, 5)
    labels = np.arange(n) % 12
    predictor = pippin.calibrate(probs, labels, score)
    probs[row] = 0
    probs[row, 3] = wrong
    probs[row, 5] = 1 - wrong if wrong < 0 else 0.5
    with pytest.raises(ValueError, match=rf"^Row {row} "):
        predictor.predict(probs)
    with pytest.raises(ValueError, match=rf"^Row {row} "):
        pippin.calibrate(probs, labels, score)


KINDS = ("spread", "peaked", "tied", "zeros", "equal", "certain", "almost certain")


@st.composite
def probabilities(draw, sizes=(2, 3, 5, 12, 70, 1000), max_rows=8):
    """Draw (probs, labels): a few rows of one kind, in float32 or float64, with labels of any rank."""
    n_classes = draw(st.sampled_from(sizes))
    n = draw(st.integers(1, max_rows))
    seed = draw(st.integers(0, 2**32 - 1))
    probs = made_rows(draw(st.sampled_from(KINDS)), n, n_classes, seed)
    probs = probs.astype(draw(st.sampled_from((np.float32, np.float64))))
    rng = np.random.default_rng(seed + 1)
    order = np.argsort(-probs, axis=1, kind="stable")
    rank = np.minimum(rng.geometric(draw(st.sampled_from((0.02, 0.4))), n) - 1, n_classes - 1)
    return probs, order[np.arange(n), rank]
