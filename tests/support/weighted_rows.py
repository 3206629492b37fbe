"""Rows with weights, for tests of weighted calibration."""

import numpy as np

from support.rows import made_rows


def some(n, n_classes=4, seed=0, kind="spread"):
    """Draw rows, labels from their probabilities, and weights."""
    rng = np.random.default_rng(seed)
    probs = made_rows(kind, n, n_classes, seed)
    labels = (rng.random(n)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)
    return probs, labels, rng.lognormal(0, 1, n)


def thresholds_of(predictor, weights):
    """Return the threshold of each object of a weighted predictor, from its weight."""
    return predictor._rule.thresholds(np.asarray(weights, dtype=np.float64))
