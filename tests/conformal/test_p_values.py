"""p-values: relation to sets, exact distribution, equality of engines, and comparison with crepes."""

import pickle
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import pippin
from pippin._conformal.mondrian import single_category, sort_into_categories
from pippin._conformal.rules import MondrianRule, Request
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._engine.protocol import Draws
from pippin._runtime.arrays import read_only
from pippin._theory.scores import coefficients
from pippin._validation.rows import as_rows
from support import peers
from support.engines import compiled, plain
from support.rows import KINDS, made_rows, probabilities
from support.scores import every_score

too_few = pytest.mark.filterwarnings("ignore:.*(too few|infinite score|are infinite):UserWarning")
HUNDREDTHS = [a / 100 for a in range(1, 100)]


def cells_of(kind, scores, labels, groups, n_classes):
    """Return calibration scores by category of one taxonomy, and the index of the table row that each object uses."""
    no_group = np.zeros(len(labels), dtype=np.int64)
    if kind is None:
        return single_category(read_only(np.sort(scores)), len(scores), n_classes), no_group
    if kind == "class":
        return sort_into_categories(scores, labels, np.arange(n_classes)[None]), no_group
    if kind == "group":
        return sort_into_categories(scores, groups, np.repeat(np.arange(3)[:, None], n_classes, axis=1)), groups
    return sort_into_categories(
        scores, groups * n_classes + labels, np.arange(3 * n_classes).reshape(3, n_classes)
    ), groups


def drawn(score, n, seed, smoothed):
    """Return u of a randomized score and v of smoothed p-values, in the order in which a predictor draws them."""
    rng = np.random.default_rng(seed)
    u = draws(score, n, rng)
    return Draws(u, rng.random(n) if smoothed else None)


def ruled(score, categories, per=None):
    """Return a predictor of these categories, without thresholds, since p-values do not depend on them."""
    groups = (0, 1, 2) if per in ("group", "class and group") else None
    rule = MondrianRule(categories, per, groups)
    return pippin.ConformalPredictor(score, 0.1, len(categories.scores), range(categories.lookup.shape[1]), rule)


def brute(categories, group, v, scores):
    """Return the p-value of each class as a fraction, by counting."""
    found = np.empty(scores.shape, dtype=object)
    for (i, k), s in np.ndenumerate(scores):
        category = categories.lookup[group[i], k]
        own = categories.scores[categories.offsets[category] : categories.offsets[category + 1]].tolist()
        if v is None:
            found[i, k] = Fraction(1 + sum(other >= s for other in own), len(own) + 1)
        else:
            tied = Fraction(v[i]) * (1 + sum(other == s for other in own))
            found[i, k] = (sum(other > s for other in own) + tied) / (len(own) + 1)
    return found


@every_score
@given(
    kind=st.sampled_from((None, "class", "group", "class and group")),
    data=probabilities(sizes=(2, 3, 12, 70), max_rows=6),
    seed=st.integers(0, 10**6),
    smoothed=st.booleans(),
)
def test_compiled_numpy_and_counting_agree(score, kind, data, seed, smoothed):
    """p-values of both engines equal fractions from counting, also for calibration rows, whose scores tie."""
    probs, labels = data
    n, n_classes = probs.shape
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 3, n)
    categories, group = cells_of(kind, pippin.scores.score(probs, labels, score, seed=seed), labels, groups, n_classes)
    predictor, c, both = ruled(score, categories, kind), coefficients(score, n_classes), drawn(score, n, seed, smoothed)
    by_plain, by_kernel = np.empty((n, n_classes)), np.empty((n, n_classes))
    for engine, p in ((plain, by_plain), (compiled, by_kernel)):
        engine.p_values(c, categories.held)(read_only(probs), group, both, p)
    assert np.array_equal(by_kernel, by_plain)
    exact = brute(categories, group, both.v, pippin.scores.score(probs, None, score, seed=seed))
    if smoothed:
        np.testing.assert_allclose(by_plain, exact.astype(float), rtol=1e-14)
    else:
        assert np.array_equal(by_plain, exact.astype(float))
    asked = {"seed": seed, "smoothed": smoothed, "groups": groups if predictor.groups else None}
    assert np.array_equal(predictor.p_values(probs, labels, **asked), by_plain[np.arange(n), labels])
    assert np.array_equal(predictor.p_values(probs, **asked), by_plain)
    points = predictor.point_predictions(probs, **asked)
    for i, row in enumerate(by_plain):
        known = categories.counts[categories.lookup[group[i]]] > 0
        best = max(range(n_classes), key=lambda k: (known[k], row[k], probs[i, k], -k))
        assert points.labels[i] == best
        assert points.credibility[i] == row[best]
        assert points.confidence[i] == 1 - max(np.delete(row, best))


@every_score
@too_few
@pytest.mark.parametrize("n", [9, 19, 99, 999])
def test_the_set_is_every_class_whose_p_value_exceeds_alpha(score, n):
    """The set is {p > alpha} at all levels 0.01, 0.02, …, also with ties and with integer α(n + 1)."""
    parts = [made_rows(kind, n, 4, seed) for seed, kind in enumerate(KINDS)]
    rng = np.random.default_rng(n)
    probs = np.concatenate(parts)[rng.permutation(n * len(KINDS))[: n + 40]]
    labels = rng.integers(0, 4, n)
    predictor = pippin.calibrate(probs[:n], labels, score, seed=1)
    p = predictor.p_values(probs[n:], seed=2)
    for alpha in HUNDREDTHS:
        assert np.array_equal(predictor.at(alpha).predict(probs[n:], seed=2).mask, p > alpha)


@too_few
@pytest.mark.parametrize("score", ["ip", "aps", "pip", "topk", "socop"])
@pytest.mark.parametrize("per", ["class", "group", "class and group"])
@pytest.mark.parametrize("unseen", ["error", "marginal"])
def test_p_values_are_valid_in_each_category(score, per, unseen):
    """p-values are valid in each category, and 1 for a class without calibration rows."""
    n = 399
    probs = np.concatenate([made_rows("spread", 300, 5, 1), made_rows("zeros", 199, 5, 2)])
    rng = np.random.default_rng(3)
    rng.shuffle(probs)
    labels, groups = rng.integers(0, 4, n), rng.integers(0, 2, 499)
    given_groups = {} if per == "class" else {"groups": groups[:n], "unseen": unseen}
    predictor = pippin.calibrate(probs[:n], labels, score, per=per, seed=1, **given_groups)
    asked = {} if per == "class" else {"groups": groups[n:] + (unseen == "marginal")}
    p = predictor.p_values(probs[n:], seed=2, **asked)
    for alpha in HUNDREDTHS[::3]:
        assert np.array_equal(predictor.at(alpha).predict(probs[n:], seed=2, **asked).mask, p > alpha)
    assert (p[:, 4] == 1).all() or "class" not in per
    forced = predictor.point_predictions(probs[n:], seed=2, **asked)
    best = forced.labels
    assert (best < 4).all() or "class" not in per  # a class without calibration rows is not selected
    seen = p[:, :4] if "class" in per else p
    assert np.array_equal(forced.credibility, seen.max(axis=1))
    rest = np.where(np.arange(5) == best[:, None], -1, p)
    assert np.array_equal(forced.confidence, 1 - rest.max(axis=1))


@pytest.mark.parametrize("parts", [100, 1000])
def test_floats_compare_as_fractions_do(parts):
    """j/(n + 1) > a/parts has the same truth value in floats and integers, for all n below 2,000 and all a."""
    a = np.arange(1, parts)
    alpha = np.array([float(f"{k / parts:.3f}") for k in a])
    for n in range(1, 2000):
        j = a * (n + 1) // parts  # the largest j that does not exceed
        assert not (j / (n + 1) > alpha).any()
        assert ((j + 1) / (n + 1) > alpha).all()


def test_one_generator_gives_u_and_then_v():
    """A generator draws u of a randomized score first, as in `predict`, then v, one number each per object."""
    data = pippin.load_example()
    predictor = pippin.calibrate(data.probs[:500], data.labels[:500], "aps", seed=0)
    test = data.probs[500:600]
    rng = np.random.default_rng(5)
    u, v = rng.random(100), rng.random(100)
    scores = pippin.scores.score(test, None, "aps", seed=5)
    above = (predictor.calibration_scores[:, None, None] > scores).sum(axis=0)
    assert np.array_equal(predictor.p_values(test, smoothed=True, seed=5), (above + v[:, None]) / 501)
    assert np.array_equal(
        predictor.p_values(test, smoothed=True, seed=np.random.default_rng(5)), (above + v[:, None]) / 501
    )
    assert u[0] != v[0]
    assert np.array_equal(
        predictor.p_values(test, data.labels[500:600], smoothed=True, seed=5),
        ((above + v[:, None]) / 501)[np.arange(100), data.labels[500:600]],
    )


def test_categories_without_rows_have_p_values_of_one():
    categories = sort_into_categories(np.array([0.5]), np.array([0]), np.array([[0, 1]]))
    predictor, v = ruled(pippin.scores.ip(), categories), np.random.default_rng(1).random()
    for smoothed, wanted in ((False, 1.0), (True, v)):
        assert predictor.p_values([[0.5, 0.5]], seed=1, smoothed=smoothed).tolist() == [[wanted, wanted]]


def test_point_predictions_are_named_and_ties_go_to_the_more_probable_class():
    """A class without calibration rows has p = 1: it is not selected, and confidence is 0."""
    predictor = replace(
        pippin.calibrate([[0.2, 0.3, 0.5]] * 3, [2, 2, 2], "ip", 0.5),
        classes=("crop", "soil", "weed"),
    )
    assert predictor.point_predictions([[0.25, 0.25, 0.5], [0.5, 0.4, 0.1]]).labels.tolist() == ["weed", "crop"]
    with pytest.warns(UserWarning, match="infinite"):
        per_class = pippin.calibrate([[0.2, 0.3, 0.5]] * 3, [2, 2, 2], "ip", 0.5, per="class")
    found = per_class.point_predictions([[0.4, 0.5, 0.1], [0.2, 0.2, 0.6], [0.0, 0.0, 1.0]])
    assert found.labels.tolist() == [2, 2, 2]
    assert found.credibility.tolist() == [0.25, 1.0, 1.0]
    assert found.confidence.tolist() == [0.0, 0.0, 0.0]


def test_without_calibration_scores_there_are_no_p_values(tmp_path):
    data = pippin.load_example()
    for options in ({}, {"per": "class"}):
        predictor = pippin.calibrate(data.probs, data.labels, "pip", **options)
        predictor.save(tmp_path / "bare.json", scores=False)
        with pytest.raises(ValueError, match=r"without its calibration scores.*save with scores=True"):
            pippin.load(tmp_path / "bare.json").p_values(data.probs)
        predictor.save(tmp_path / "whole.json")
        assert np.array_equal(pippin.load(tmp_path / "whole.json").p_values(data.probs), predictor.p_values(data.probs))


def test_rc3p_has_no_p_values():
    data = pippin.load_example()
    bounded = pippin.calibrate(data.probs, data.labels, "pip", per="rc3p")
    for call in (bounded.p_values, bounded.point_predictions):
        with pytest.raises(ValueError, match=r"bound the rank.*per='class'"):
            call(data.probs)


@pytest.mark.parametrize("columns", [3, 700])
def test_an_invalid_row_is_named(columns):
    """NumPy and compiled loops name the number of an invalid row."""
    probs = made_rows("spread", 2000, columns, 0)
    predictor = pippin.calibrate(probs, np.zeros(2000, dtype=int), "pip")
    for value in (-0.5, np.nan, 2.0):
        wrong = probs.copy()
        wrong[1234, 1] = value
        for call in (predictor.p_values, predictor.point_predictions):
            with pytest.raises(ValueError, match="Row 1234 "):
                call(wrong)
    logits = np.log(probs)
    np.testing.assert_allclose(predictor.p_values(logits, from_logits=True), predictor.p_values(probs), atol=2e-3)


@too_few
def test_with_very_many_classes_only_the_result_is_held(monkeypatch):
    """With 150,000 classes, p-values need memory for the result and some rows, point predictions for some rows."""
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "2")
    probs = made_rows("peaked", 48, 150_000, 0).astype(np.float32)
    labels = np.arange(48) * 3000
    pippin.warm_up()
    for per in (None, "class"):
        predictor = pippin.calibrate(probs, labels, "pip", per=per)
        predictor.point_predictions(probs[:2])
        for call, result in ((predictor.p_values, 2 * probs.nbytes), (predictor.point_predictions, 0)):
            tracemalloc.start()
            call(probs)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < result + 0.6 * probs.nbytes


def uniform_over(counts):
    """Return the p-value of a chi-squared test of equal frequencies."""
    return stats.chisquare(counts).pvalue


def one_p_value_each(per, score, smoothed, draws=2500, each=9):
    """Return p-values of the true label of one object, each from a new calibration with `each` rows per class."""
    rng = np.random.default_rng(0)
    n = 3 * each
    labels = np.repeat(np.arange(3), each)
    found = np.empty(draws)
    for i in range(draws):
        evidence = rng.exponential(size=(n + 1, 3)) + 1e-9
        true = np.append(labels, i % 3) if per == "class" else rng.integers(0, 3, n + 1)
        evidence[np.arange(n + 1), true] *= 1 + true  # difficulty depends on the class
        probs = evidence / evidence.sum(axis=1, keepdims=True)
        predictor = pippin.calibrate(probs[:n], true[:n], score, 0.5, seed=rng, per=per)
        found[i] = predictor.p_values(probs[n:], true[n:], smoothed=smoothed, seed=rng)[0]
    return found


@pytest.mark.parametrize(("per", "n"), [(None, 27), ("class", 9)])
def test_without_ties_each_fraction_is_equally_likely(per, n):
    """Without ties, a p-value takes each of the values j/(n + 1), j = 1 … n + 1, with equal probability."""
    found = one_p_value_each(per, "pip", smoothed=False)
    steps = np.rint(found * (n + 1)).astype(int)
    assert np.array_equal(found, steps / (n + 1))
    assert uniform_over(np.bincount(steps, minlength=n + 2)[1:]) > 0.01


@pytest.mark.parametrize("per", [None, "class"])
def test_smoothed_p_values_are_uniform_even_with_ties(per):
    """Top-k has three scores in all; smoothed, its p-values are uniform. Unsmoothed, they are larger."""
    found = one_p_value_each(per, "topk", smoothed=True)
    assert stats.kstest(found, "uniform").pvalue > 0.01
    assert uniform_over(np.bincount((found * 20).astype(int), minlength=20)) > 0.01
    careful = one_p_value_each(per, "topk", smoothed=False, draws=500)
    assert stats.kstest(careful, "uniform", alternative="greater").pvalue > 0.5
    assert careful.mean() > 0.55


def example(n):
    data = pippin.load_example()
    probs, labels = np.array(data.probs, dtype=np.float64), np.array(data.labels, dtype=np.int64)
    return probs[:n], labels[:n], probs[n : n + 400], labels[n : n + 400]


@pytest.mark.parametrize("score", ["ip", "margin", "pip"])
def test_crepes_p_values(score):
    """p-values equal those of crepes for hinge and margin, and for PIP from our scores, also per class."""
    probs, labels, test, _ = example(1999)
    calibration, every = pippin.scores.score(probs, labels, score), pippin.scores.score(test, None, score)
    marginal = pippin.calibrate(probs, labels, score)
    assert np.array_equal(marginal.p_values(test), peers.crepes_p_values(calibration, every))
    if score != "pip":
        theirs = peers.crepes_p_values(*peers.crepes_scores({"ip": "hinge"}.get(score, score), probs, labels, test))
        assert np.array_equal(marginal.p_values(test), theirs)
    per_class = pippin.calibrate(probs, labels, score, per="class")
    assert np.array_equal(per_class.p_values(test), peers.crepes_p_values(calibration, every, labels))


def test_crepes_smoothed_p_values_given_its_draws():
    """With the random numbers of crepes, smoothed p-values equal those of crepes, also if most scores tie."""
    probs, labels, test, true = example(1999)
    calibration = pippin.scores.score(probs, labels, "topk")
    theta = np.random.RandomState(3).rand(len(test))
    rule = MondrianRule(single_category(read_only(np.sort(calibration)), len(calibration), 12))
    request = Request(as_rows(test), Draws(np.zeros(len(test)), theta), range(12))
    theirs = peers.crepes_p_values(calibration, pippin.scores.score(test, true, "topk"), smoothing=True, seed=3)
    assert np.array_equal(rule.label_p_values(request, pippin.scores.topk(), true), theirs)


def test_a_p_value_of_exactly_alpha_is_outside():
    """A class with p = α is outside; crepes requires p >= 1 − confidence and includes it."""
    probs, labels, _, _ = example(1999)
    predictor = pippin.calibrate(probs, labels, "pip", 0.1)
    calibration, every = predictor.calibration_scores, pippin.scores.score(probs, None, "pip")
    at_alpha = predictor.p_values(probs) == 0.1
    assert at_alpha.any()
    assert not predictor.predict(probs).mask[at_alpha].any()
    assert peers.crepes_from_scores(calibration, every)[at_alpha].all()


@pytest.mark.parametrize("per", [None, "class"])
def test_p_value_caches_are_filled_once_and_not_pickled(per, monkeypatch):
    """Caches are filled at the first call and are not pickled."""
    from pippin._engine import numpy_engine as in_numpy

    data, prepared, real = pippin.load_example(), [], in_numpy.among
    monkeypatch.setattr(dispatch, "engine_for", lambda work: dispatch.numpy_engine)
    monkeypatch.setattr(in_numpy, "among", lambda held: prepared.append(held) or real(held))
    predictor = pippin.calibrate(data.probs[:900], data.labels[:900], "pip", per=per)
    first, second = (predictor.p_values(data.probs[900:910]) for _ in range(2))
    assert len(prepared) == 1
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(predictor)).p_values(data.probs[900:910]), first)  # noqa: S301
