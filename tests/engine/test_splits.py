"""Loops that count splits: equal in NumPy and compiled, and equal to an evaluation of every class of every row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pippin._engine import dispatch
from pippin._runtime.arrays import read_only
from pippin._theory.scores import coefficients
from pippin._validation.rows import Rows
from support.engines import compiled, plain
from support.rows import probabilities
from support.scores import every_score


def drawn(data, seed):
    """Return sorted rows, labels as ranks, u, and masks of the calibration rows of three splits."""
    probs, labels = data
    rng = np.random.default_rng(seed)
    ranked = read_only(np.ascontiguousarray(-np.sort(-probs, axis=1)))
    masks = rng.random((3, len(ranked))) < 0.5
    return ranked, read_only(labels.astype(np.int64)), read_only(rng.random(masks.shape)), read_only(masks)


def limits(ranked, c, seed):
    """Return two scores at u = 1/2, the lower one first."""
    scores = plain.class_scores(ranked, c, np.full(len(ranked), 0.5)).ravel()
    return np.sort(np.random.default_rng(seed).choice(scores, 2)).tolist()


@every_score
@given(data=probabilities(), seed=st.integers(0, 10**6))
def test_borderline_classes_are_equal_in_both_engines(score, data, seed):
    ranked, ranks, _, _ = drawn(data, seed)
    c = coefficients(score, ranked.shape[1])
    for low, high in ((-np.inf, np.inf), limits(ranked, c, seed)):
        of_engines = (engine.borderline_classes(ranked, ranks, c, low, high) for engine in (plain, compiled))
        for one, other in zip(*of_engines, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)


@every_score
@given(data=probabilities(), seed=st.integers(0, 10**6))
def test_counts_equal_an_evaluation_of_every_class(score, data, seed):
    """At thresholds between the two limits, counts equal those of every class; at others, both engines agree."""
    ranked, ranks, u, masks = drawn(data, seed)
    n, n_classes = ranked.shape
    c = coefficients(score, n_classes)
    k = 1 + int(seed % max(1, masks.sum(axis=1).min()))
    for low, high in ((-np.inf, np.inf), limits(ranked, c, seed)):
        border = dispatch.borderline_classes(Rows(ranked, checked=True), ranks, score, low, high)
        found = np.empty((2, len(masks), 6))
        for engine, counts in zip((plain, compiled), found, strict=True):
            engine.count_splits(border, c, k, masks, u, counts)
        known = ~np.isnan(found[0, :, 0])
        assert np.array_equal(known, ~np.isnan(found[1, :, 0]))
        assert np.array_equal(*found[:, known])
        for calibration, own_u, counts in zip(masks, u, found[0], strict=True):
            scores = plain.class_scores(ranked, c, own_u)
            labels = np.sort(scores[np.arange(n), ranks][calibration])
            if len(labels) < k:
                assert np.isnan(counts[0])
            elif low < labels[k - 1] <= high:
                inside = (scores <= labels[k - 1])[~calibration]
                sizes, covered = inside.sum(axis=1), inside[np.arange(len(inside)), ranks[~calibration]]
                single = sizes == 1
                wanted = covered.sum(), sizes.sum(), single.sum(), (sizes == 0).sum(), (single & covered).sum()
                assert counts.tolist() == [labels[k - 1], *wanted]
