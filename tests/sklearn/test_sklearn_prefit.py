"""Calibration of fitted estimators, on rows that they were not fitted on."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from pippin._validation.fingerprints import fingerprints, seen_before
from pippin.sklearn import ConformalClassifier
from support.blobs import NEW, TRUTH, X, Y, fitted


def test_prefit_keeps_the_fitted_estimator():
    """With cv="prefit", the given estimator is not fitted."""
    model = GaussianNB().fit(X[:300], Y[:300])
    before = model.predict_proba(NEW)
    clf = ConformalClassifier(model, cv="prefit").fit(X[300:], Y[300:])
    assert clf.estimator_ is model
    assert np.array_equal(clf.predict_proba(NEW), before)
    assert clf.predictor_.n_calibration == 300
    same = ConformalClassifier(model, cv="prefit").calibrate(X[300:], Y[300:])
    assert same.predict_set(NEW).labels() == clf.predict_set(NEW).labels()
    frozen = clone(ConformalClassifier(FrozenEstimator(model)))
    assert frozen.fit(X[300:], Y[300:]).predict_set(NEW).labels() == clf.predict_set(NEW).labels()
    with pytest.raises(NotFittedError, match="Expected a fitted estimator for cv='prefit', got a GaussianNB"):
        clone(clf).fit(X[300:], Y[300:])
    with pytest.raises(ValueError, match="leave it out"):
        clf.fit(X, Y, sample_weight=np.ones(600))


class Named(GaussianNB):
    """Classifier whose probabilities are a data frame with the classes in descending order."""

    def predict_proba(self, X):
        return pd.DataFrame(super().predict_proba(X), columns=self.classes_)[sorted(self.classes_, reverse=True)]


def test_probabilities_with_names_are_selected_by_name():
    wanted, found = (
        ConformalClassifier(model.fit(X[:300], Y[:300]), cv="prefit").fit(X[300:], Y[300:])
        for model in (GaussianNB(), Named())
    )
    assert found.predictor_.threshold == wanted.predictor_.threshold
    assert np.array_equal(found.predict_proba(NEW), wanted.predict_proba(NEW))
    assert found.predict_set(NEW).labels() == wanted.predict_set(NEW).labels()


def test_recalibration():
    """`calibrate` can be called any number of times with new rows."""
    clf = fitted()
    first = clf.predictor_.threshold
    clf.calibrate(NEW, TRUTH)
    assert clf.predictor_.n_calibration == 400
    assert clf.predictor_.threshold != first
    assert clf.calibrate(NEW, TRUTH) is clf
    with pytest.raises(ValueError, match=r"Row 1 has the label 'moss', expected one of the 4 classes"):
        clf.calibrate(NEW[:2], ["crop", "moss"])


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, sparse.csr_array, lambda rows: rows.tolist()])
def test_training_rows_raise_errors(kind, share):
    """Calibration on all, half or some of the training rows raises, in any order and container."""
    clf = fitted()
    old = np.random.default_rng(0).permutation(clf._trained)[: int(share * 400)]
    rows = np.concatenate([X[old], NEW[: 400 - len(old)]])
    with pytest.raises(
        ValueError, match=rf"fitted on, got {len(old)} of 400 that went through fit: calibrate on fresh"
    ):
        clf.calibrate(kind(rows), ["crop"] * 400)
    with pytest.raises(ValueError, match="got 600 of 600 that went through fit"):
        clf.calibrate(kind(X), Y)


def test_fresh_rows_may_repeat_training_rows():
    """New rows may equal training rows, if there are few distinct values; training rows still raise."""
    for levels, seed in ((2, 0), (3, 1), (6, 2), (30, 3)):
        rng = np.random.default_rng(seed)
        rows, y = rng.integers(0, levels, (900, 3)), rng.integers(0, 3, 900)
        clf = ConformalClassifier(random_state=0).fit(rows[:500], y[:500])
        clf.calibrate(rows[500:], y[500:])
        with pytest.raises(ValueError, match="500 of 500"):
            clf.calibrate(rows[:500], y[:500])
    iris, kinds = load_iris(return_X_y=True)  # two of its flowers are equal
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(150)
        clf = ConformalClassifier(GaussianNB(), random_state=seed).fit(iris[order[:100]], kinds[order[:100]])
        clf.calibrate(iris[order[100:]], kinds[order[100:]])


def test_fingerprints_distinguish_rows():
    """Hashes distinguish rows of small whole numbers and of mixed frames; -0.0 equals 0."""
    grid = np.stack(np.meshgrid(*[np.arange(17)] * 4), axis=-1).reshape(-1, 4)
    assert len(np.unique(fingerprints(grid))) == 17**4
    frame = pd.DataFrame({"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [None, None, 0.5]})
    assert len(set(fingerprints(frame))) == 3
    assert np.array_equal(fingerprints(frame), fingerprints(pl.DataFrame(frame.to_dict("list"))))
    assert fingerprints([[-0.0, 1]]) == fingerprints(np.array([[0, 1]], dtype=np.float32))
    rows = fingerprints(np.random.default_rng(0).random((2000, 5)))
    assert seen_before(rows[:1000], rows[1000:]) == 0
    assert seen_before(rows[:1000], rows[980:]) == 20
