"""Gaussian blobs of four overlapping classes, for the tests of the scikit-learn classifiers."""

import numpy as np
from sklearn.naive_bayes import GaussianNB

from pippin.sklearn import ConformalClassifier

NAMES = ["crop", "rye", "soil", "weed"]


def blobs(n, seed=0, names=None):
    """Draw features in three dimensions and labels; each class is a Gaussian blob."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    rows = np.stack([np.cos(y * 1.5), np.sin(y * 1.5), y == 0], axis=1) + rng.normal(0, 0.8, (n, 3))
    return rows, y if names is None else np.array(names)[y]


X, Y = blobs(600, names=NAMES)
NEW, TRUTH = blobs(400, seed=1, names=NAMES)


def fitted(**params):
    """Fit a ConformalClassifier on X and Y."""
    return ConformalClassifier(GaussianNB(), **{"random_state": 0, **params}).fit(X, Y)
