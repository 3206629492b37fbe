"""Rows that are sorted already: the loops that rank nothing give what the others give, to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pippin._compare.many_rows import _fixed, _layers
from pippin._engine.compiled import in_order, packed
from pippin._predictors.coverage_by import counted, tally
from pippin._runtime.arrays import read_only
from pippin._theory.formula import score_at
from pippin._theory.scores import coefficients
from support.engines import members, plain
from support.rows import probabilities
from support.scores import every_score


def sorted_rows(data):
    """The rows downwards, read-only, and the label of each as a rank."""
    probs, labels = data
    ranked, ranks = np.ascontiguousarray(-np.sort(-probs, axis=1)), labels.astype(np.int64)
    ranked.flags.writeable = ranks.flags.writeable = False
    return ranked, ranks


@every_score
@given(data=probabilities(), seed=st.integers(0, 10**6))
def test_sorted_rows_have_the_scores_and_sets_of_any_rows(score, data, seed):
    """Label scores, and who is covered by class, group and size."""
    ranked, ranks = sorted_rows(data)
    rng, (n, n_classes) = np.random.default_rng(seed), ranked.shape
    u, calibration, groups, scores = rng.random(n), rng.random(n) < 0.4, rng.integers(0, 3, n), np.empty(n)
    classes = read_only(ranks[::-1].copy())
    c = coefficients(score, n_classes)
    in_order.label_scores(ranked, ranks, c, u, scores)
    assert np.array_equal(scores, plain.label_places(ranked, ranks, c, u)[1])
    for threshold in (*rng.choice(scores, 3), np.inf, -np.inf):
        found = tuple(np.zeros((2, kinds), np.int64) for kinds in (n_classes, 3, n_classes + 1))
        in_order.count_covered(ranked, (ranks, classes, groups), calibration, u, c, threshold, found)
        sizes, test = members(plain, ranked, c, threshold, u)[0], ~calibration
        wanted = tally(sizes[test], (ranks < sizes)[test], classes[test], groups[test], n_classes, 3)
        for one, other in zip(vars(counted(*found)).values(), vars(wanted).values(), strict=True):
            assert np.array_equal(one, other)


@every_score
@pytest.mark.parametrize("everything", [False, True])
@given(data=probabilities(), seed=st.integers(0, 10**6))
def test_near_places_are_those_between_two_thresholds(score, everything, data, seed):
    """However many there are; with u, it is known at which steps of it they are in for sure, and possible."""
    ranked, ranks = sorted_rows(data)
    n, n_classes = ranked.shape
    c, sizes = coefficients(score, n_classes), np.empty(n, np.int64)
    low, high = (
        (-np.inf, np.inf) if everything else np.sort(np.random.default_rng(seed).choice(plain_scores(ranked, c), 2))
    )
    wanted_sizes, places = plain.band(ranked, c, low, high)
    if not score.randomized:
        found = _fixed(ranked, ranks, c, (low, high), sizes)
        assert np.array_equal(found.scores, plain.place_scores(places, c, np.zeros(n)))
        assert np.array_equal(found.row, places.row)
        assert np.array_equal(found.kind, np.minimum(places.rank, 2) + 4 * (places.rank == ranks[places.row]))
    else:
        first = np.diff(places.row, prepend=-1) != 0
        firsts, others = _layers(ranked, ranks, c, (low, high), sizes)
        assert firsts.row[:n].tolist() == list(range(n))
        for layer, here, at in ((firsts, first, places.row[first]), (others, ~first, slice(np.count_nonzero(~first)))):
            assert len(layer.row) == 64 * layer.planes.shape[1]
            row, rank, p, mass = (column[here] for column in places)
            assert np.array_equal(layer.row[at], row)
            assert np.array_equal(layer.rank[at], rank)
            bits = np.unpackbits(layer.planes.astype("<u8").view(np.uint8), axis=1, bitorder="little")
            assert np.array_equal(bits[:, : len(layer.row)][:3].argmax(axis=0)[at], np.minimum(rank, 2))
            assert np.array_equal(bits[3, : len(layer.row)][at] > 0, rank == ranks[row])
            assert bits[:3].sum() == np.count_nonzero(here)  # what fills the last word is no place
            table = c._replace(table=c.table[rank])
            for bound, steps in ((low, layer.inside[at].astype(int)), (high, layer.outside[at].astype(int))):
                inside = score_at(table, slice(None), p, mass, steps / packed.STEPS) <= bound
                beyond = score_at(table, slice(None), p, mass, (steps + 1) / packed.STEPS) <= bound
                assert (inside | (steps == 0)).all()
                assert (~beyond | (steps == packed.STEPS - 1)).all()
    assert np.array_equal(sizes, wanted_sizes)


def plain_scores(ranked, c):
    """The scores of all classes at u = 1/2."""
    return plain.class_scores(ranked, c, np.full(len(ranked), 0.5)).ravel()
