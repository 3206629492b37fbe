"""Laws that every score obeys, in both engines."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from pippin._engine import dispatch
from pippin._theory.scores import coefficients
from support.engines import compiled, members, plain
from support.exact_scores import ranking, score_of
from support.one_threshold import one_threshold
from support.rows import probabilities
from support.scores import every_score


def predictor_with(score, threshold, n_classes):
    return one_threshold(score, 0.1, threshold, 99, range(n_classes))


def some_thresholds(all_scores, seed):
    """Draw thresholds: scores that occur (to test ties), their neighboring floats, and infinities."""
    picked = np.random.default_rng(seed).choice(all_scores.ravel(), 3)
    return [*picked, np.nextafter(picked[0], -np.inf), np.nextafter(picked[0], np.inf), np.inf, -np.inf]


@every_score
@given(data=probabilities(), seed=st.integers(0, 10**6))
def test_a_label_is_in_the_set_exactly_if_its_score_is_at_most_the_threshold(score, tmp_path_factory, data, seed):
    """Law 1: a label is in the set exactly if its score is at most the threshold, to the last bit."""
    probs, labels = data
    n, n_classes = probs.shape
    of_labels = pippin.scores.score(probs, labels, score, seed=seed)
    of_classes = pippin.scores.score(probs, None, score, seed=seed)
    assert np.array_equal(of_labels, of_classes[np.arange(n), labels])
    for threshold in some_thresholds(of_classes, seed):
        predictor = predictor_with(score, threshold, n_classes)
        sets = predictor.predict(probs, seed=seed)
        assert np.array_equal(sets.contains(labels), of_labels <= threshold)
        assert np.array_equal(sets.mask, of_classes <= threshold)
        widened = predictor.predict(probs.astype(np.float64), seed=seed)
        assert np.array_equal(widened.members, sets.members)
        path = tmp_path_factory.getbasetemp() / "law1.json"
        predictor.save(path)
        again = pippin.load(path).predict(probs, seed=seed)
        assert np.array_equal(again.members, sets.members)
        one = predictor.predict_one(probs[0], seed=seed)
        assert one.tolist() == sets.members[: sets.sizes[0]].tolist()


@every_score
@given(data=probabilities(), seed=st.integers(0, 10**6))
def test_both_engines_give_equal_bits(score, data, seed):
    """Label scores, class scores, sets and the set of a single row equal those of the NumPy engine."""
    probs, labels = data
    n, n_classes = probs.shape
    probs.flags.writeable = labels.flags.writeable = False
    u = np.random.default_rng(seed).random(n)
    c = coefficients(score, n_classes)
    of_classes = plain.class_scores(probs, c, u)
    assert np.array_equal(compiled.class_scores(probs, c, u), of_classes)
    of_labels, one_set = np.empty((2, n)), dispatch.one_set(score, n_classes)
    for engine, scores in zip((plain, compiled), of_labels, strict=True):
        assert engine.label_scores(probs, labels, c, u, scores) == 0
    assert np.array_equal(*of_labels)
    assert np.array_equal(of_labels[0], of_classes[np.arange(n), labels])
    for threshold in some_thresholds(of_classes, seed):
        sizes, found, suspects = members(compiled, probs, c, threshold, u)
        wanted_sizes, wanted, _ = members(plain, probs, c, threshold, u)
        assert suspects == 0
        assert np.array_equal(sizes, wanted_sizes)
        assert np.array_equal(found, wanted)
        assert np.array_equal(one_set(probs[0], u[0], threshold), wanted[: wanted_sizes[0]])


@every_score
@given(data=probabilities(), seed=st.integers(0, 10**6))
def test_scores_never_fall_with_the_rank(score, data, seed):
    """Law 2: scores do not decrease with the rank of the class."""
    probs, _ = data
    scores = pippin.scores.score(probs, None, score, seed=seed)
    ranked = np.take_along_axis(scores, np.argsort(-probs, axis=1, kind="stable"), axis=1)
    assert (ranked[:, 1:] >= ranked[:, :-1]).all()


@every_score
@given(data=probabilities(max_rows=6), seed=st.integers(0, 10**6))
def test_a_set_does_not_depend_on_the_batch(score, data, seed):
    """Law 3: row i alone, with the same u, has the same set as in the batch; also from logits."""
    probs, _ = data
    n, n_classes = probs.shape
    logits = np.log(np.maximum(probs, 1e-30)) * 1.7
    for rows, from_logits in ((probs, False), (logits, True)):
        threshold = np.median(pippin.scores.score(rows, None, score, seed=seed, from_logits=from_logits))
        predict = partial(predictor_with(score, threshold, n_classes).predict, from_logits=from_logits)
        whole = predict(rows, seed=np.random.default_rng(seed)).labels()
        generator = np.random.default_rng(seed)
        assert [predict(rows[i : i + 1], seed=generator)[0] for i in range(n)] == whole


@every_score
@given(n_classes=st.sampled_from((2, 3, 12, 100)), seed=st.integers(0, 10**6))
def test_permuting_classes_permutes_sets(score, n_classes, seed):
    """Law 4: permuting the classes permutes the sets, if no two probabilities are equal."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(n_classes), 5)
    order = rng.permutation(n_classes)
    straight = pippin.scores.score(probs, None, score, seed=seed)
    shuffled = pippin.scores.score(probs[:, order], None, score, seed=seed)
    assert np.array_equal(shuffled, straight[:, order])
    predictor = predictor_with(score, np.median(straight), n_classes)
    mask = predictor.predict(probs, seed=seed).mask
    assert np.array_equal(predictor.predict(probs[:, order], seed=seed).mask, mask[:, order])


@every_score
@given(data=probabilities(), seed=st.integers(0, 10**6))
def test_members_come_in_rank_order_and_ties_by_index(score, data, seed):
    """Law 4, second half: every set is a prefix of the ranking."""
    probs, _ = data
    threshold = np.median(pippin.scores.score(probs, None, score, seed=seed))
    sets = predictor_with(score, threshold, probs.shape[1]).predict(probs, seed=seed)
    for row, listed in zip(probs, sets.labels(), strict=True):
        assert listed == ranking(row)[: len(listed)]


@every_score
@pytest.mark.filterwarnings("ignore:.*infinite score:UserWarning")
@given(data=probabilities())
def test_inputs_are_never_modified(score, data):
    """Law 5: inputs are not modified."""
    probs, labels = data
    kept_probs, kept_labels = probs.copy(), labels.copy()
    predictor = pippin.calibrate(probs, labels, score, alpha=0.5, seed=0)
    predictor.predict(probs, seed=0)
    predictor.predict_one(probs[0], seed=0)
    assert np.array_equal(probs, kept_probs)
    assert np.array_equal(labels, kept_labels)
    assert probs.flags.writeable
    assert labels.flags.writeable


@every_score
@given(data=probabilities(sizes=(2, 3, 5, 12), max_rows=3), seed=st.integers(0, 10**6))
def test_scores_equal_the_papers_definitions(score, data, seed):
    """Law 6: scores equal the definitions of their papers in exact fractions, within rounding."""
    probs, _ = data
    scores = pippin.scores.score(probs, None, score, seed=seed)
    u = np.random.default_rng(seed).random(len(probs))
    for i, row in enumerate(probs):
        for label in range(len(row)):
            exact = float(score_of(score, row, label, u[i]))
            assert scores[i, label] == pytest.approx(exact, rel=1e-13, abs=1e-15)
