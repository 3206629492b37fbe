"""Probabilities of a classifier with systematic confusions, which a sharpener can correct."""

import numpy as np


def confused_rows(n, n_classes=4, seed=0):
    """Draw labels, and probabilities that confuse every odd class with the preceding one."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    logits = rng.normal(0, 1, (n, n_classes))
    logits[np.arange(n), labels] += 2.0
    logits[np.arange(n), np.where(labels % 2, labels - 1, labels)] += 1.5 * (labels % 2)
    powers = np.exp(1.5 * (logits - logits.max(axis=1, keepdims=True)))
    return powers / powers.sum(axis=1, keepdims=True), labels
