"""Stacks of several models: weights, choice of the best model, exact coverage, all modes, files, and inputs."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pippin
from pippin._conformal.serialization import parse
from support.confused_rows import confused_rows
from support.file_fuzzing import file_of


def softmax(u):
    powers = np.exp(u - u.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def evidence(n, factors=(1.0, 1.0), n_classes=4, seed=0, strength=1.2):
    """Draw labels, and probabilities of models with independent evidence, whose log-probabilities are multiplied.

    Model m observes x ~ N(strength·e_y, I), so its posterior is softmax(strength·x), and that of all models is the
    product. It reports softmax(factors[m]·strength·x), so its best weight is 1/factors[m].
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    x = rng.normal(size=(len(factors), n, n_classes)) + strength * np.eye(n_classes)[labels]
    return [softmax(factor * strength * part) for factor, part in zip(factors, x, strict=True)], labels


def loss(probs, labels):
    return -np.log(np.maximum(probs[np.arange(len(labels)), labels], 1e-12))


@pytest.fixture(scope="module")
def stack():
    """Return a stack of two models, of which the second is overconfident."""
    models, labels = evidence(600, (1.0, 2.0))
    return pippin.models.stack(models, labels)


def test_weights_are_the_reciprocal_overconfidence():
    """The product of posteriors is the posterior of independent evidence; three models, one far too certain."""
    models, labels = evidence(6000, (1.0, 2.0, 0.5), seed=1)
    pool = pippin.models.stack(models, labels).pool
    np.testing.assert_allclose(pool.weights, [1, 0.5, 2], rtol=0.12)
    pairs = zip(models, (1.0, 2.0, 0.5), strict=True)
    alone = [loss(softmax(np.log(one) / factor), labels).mean() for one, factor in pairs]
    np.testing.assert_allclose(pool.cross_entropy, alone, atol=0.06)  # on the held-out fold of 1,200 rows


def test_a_stack_is_better_than_each_model(stack):
    """On new rows, the loss is that of the true posterior within 2%, and far below that of the best model alone."""
    models, labels = evidence(20_000, (1.0, 2.0), seed=2)
    truth = softmax(np.log(models[0]) + 0.5 * np.log(models[1]))
    found = loss(stack(models), labels).mean()
    assert found < 1.02 * loss(truth, labels).mean()
    assert found < 0.8 * loss(models[0], labels).mean()
    assert stack.helps


def test_one_model_alone_if_the_other_adds_nothing():
    """Noise, a copy and a model that is systematically wrong get weight 0, and the loss is that of the other model."""
    (model,), labels = evidence(800, (1.5,), seed=3)
    (new,), new_labels = evidence(8000, (1.5,), seed=4)
    alone = loss(pippin.sharpen(model, labels)(new), new_labels)
    rng = np.random.default_rng(5)
    noise, new_noise = (rng.dirichlet(np.ones(4), n) for n in (800, 8000))
    cases = {(0, 1): ((model, noise), (new, new_noise)), (1, 0): ((noise, model), (new_noise, new))}
    cases[0, 1, "copy"] = (model, model), (new, new)
    wrong, new_wrong = (
        softmax(-5 * np.eye(4)[truth] + rng.normal(size=(len(truth), 4))) for truth in (labels, new_labels)
    )
    cases[0, 1, "wrong"] = (model, wrong), (new, new_wrong)
    for (best, other, *_), (training, test) in cases.items():
        stack = pippin.models.stack(training, labels)
        assert stack.pool.best == best
        assert stack.pool.weights[best] > 0.3
        assert stack.pool.weights[other] == 0
        difference = loss(stack(test), new_labels) - alone
        assert difference.mean() < 3 * difference.std() / np.sqrt(8000) + 1e-3


@pytest.mark.parametrize("score", ["socop", "pip"])
def test_coverage_follows_the_beta_distribution(score):
    """Over 800 calibrations of 49 rows, with models that depend on each other, coverage is Beta(45, 5)-distributed."""
    first, labels = confused_rows(300 + 800 * 49 + 40_000, seed=20)
    second = softmax(0.7 * np.log(first) + np.random.default_rng(21).normal(size=first.shape))
    stack = pippin.models.stack([first[:300], second[:300]], labels[:300])
    rows = [first[300:], second[300:]]
    scores = pippin.scores.score(stack(rows), labels[300:], score)
    calibrations, test = np.sort(scores[: 800 * 49].reshape(800, 49), axis=1), np.sort(scores[800 * 49 :])
    coverage = np.searchsorted(test, calibrations[:, 44], side="right") / len(test)
    assert stats.kstest(coverage, stats.beta(45, 5).cdf).pvalue > 0.01
    one = pippin.calibrate([part[:49] for part in rows], labels[300:349], score, 0.1, sharpen=stack)
    assert one.threshold == calibrations[0, 44]


def test_coverage_with_ties_is_at_least_the_level():
    """With models that know three values only, many scores are equal; coverage is at least 0.9 on average."""
    models, labels = evidence(300 + 400 * 49 + 20_000, seed=22)
    tied = [np.where(np.eye(4)[one.argmax(axis=1)] > 0, np.where(one > 0.6, 0.7, 0.4)[:, :], 0) for one in models]
    tied = [one + (1 - one.sum(axis=1, keepdims=True)) / 3 * (one == 0) for one in tied]
    stack = pippin.models.stack([one[:300] for one in tied], labels[:300])
    scores = pippin.scores.score(stack([one[300:] for one in tied]), labels[300:], "ip")
    calibrations, test = np.sort(scores[: 400 * 49].reshape(400, 49), axis=1), np.sort(scores[400 * 49 :])
    assert len(np.unique(test)) < 100
    coverage = np.searchsorted(test, calibrations[:, 44], side="right") / len(test)
    assert coverage.mean() > 0.9 - 4 * coverage.std() / 20


def test_predictors_with_a_stack(stack, tmp_path):
    """Sets and p-values are those of the stacked probabilities, for all forms of input, also after loading."""
    models, labels = evidence(900, (1.0, 2.0), seed=6)
    predictor = pippin.calibrate([one[:500] for one in models], labels[:500], "socop", 0.1, sharpen=stack)
    new = [one[500:] for one in models]
    base = pippin.calibrate(stack([one[:500] for one in models]), labels[:500], "socop", 0.1)
    expected, p = base.predict(stack(new)), base.p_values(stack(new))
    predictor.save(tmp_path / "p.json")
    for found in (predictor, pippin.load(tmp_path / "p.json")):
        for given in (new, tuple(new), np.stack(new), [one.tolist() for one in new]):
            assert np.array_equal(found.predict(given).members, expected.members)
        assert np.array_equal(found.p_values(new), p)
        assert "behind a sharpener of 2 models with weights" in found.describe()
        assert found.sharpeners[0].pool == stack.pool
    logits = [np.log(one) + 3 for one in new]
    assert (predictor.predict(logits, from_logits=True).sizes != expected.sizes).mean() < 0.01
    for row in range(30):
        members = expected.members[expected.offsets[row] : expected.offsets[row + 1]].tolist()
        for given in ([new[0][row], new[1][row]], np.stack([new[0][row], new[1][row]])):
            assert predictor.predict_one(given).tolist() == members
    assert np.array_equal(stack.one([one[0] for one in new]), stack(new)[0])
    found = pippin.evaluate(predictor, labels[500:], probs=new)
    assert (found.coverage, found.accuracy) == (pippin.metrics.coverage(expected, labels[500:]), None)
    with pytest.warns(UserWarning, match="calibration rows"):
        pippin.evaluate(predictor, labels[:500], probs=[one[:500] for one in models])


@pytest.mark.parametrize("mode", ["split", "split(learning_fraction=0.3)", "mixture", "cross"])
def test_modes_fit_stacks(mode, tmp_path):
    """Each sharpener is a stack; sets cover, are smaller than those of the best model, and survive a file."""
    models, labels = evidence(6000, (1.0, 2.0), seed=7)
    predictor = pippin.calibrate([one[:1000] for one in models], labels[:1000], "ip", 0.1, sharpen=mode)
    assert {sharpener.n_models for sharpener in predictor.sharpeners} == {2}
    seed = {"seed": 1} if mode == "mixture" else {}
    new = [one[1000:] for one in models]
    sets = predictor.predict(new, **seed)
    assert pippin.metrics.coverage(sets, labels[1000:]) == pytest.approx(0.9, abs=0.035)
    alone = pippin.calibrate(models[0][:1000], labels[:1000], "ip", 0.1).predict(models[0][1000:])
    assert pippin.metrics.mean_size(sets) < 0.9 * pippin.metrics.mean_size(alone)
    predictor.save(tmp_path / "p.json")
    assert np.array_equal(pippin.load(tmp_path / "p.json").predict(new, **seed).members, sets.members)
    assert len(predictor.predict_one([one[0] for one in new], **seed)) > 0


def test_columns_are_matched_by_name():
    """Data frames may have their columns in different orders."""
    models, labels = evidence(700, seed=8)
    names = ["soil", "rye", "maize", "poppy"]
    frames = [pd.DataFrame(one, columns=names) for one in models]
    swapped = [frames[0], frames[1][names[::-1]]]
    text = np.array(names)[labels]
    expected = pippin.models.stack([one[:300] for one in frames], text[:300])
    stack = pippin.models.stack([one[:300] for one in swapped], text[:300])
    assert stack.pool == expected.pool
    predictor = pippin.calibrate([one[300:600] for one in swapped], text[300:600], sharpen=stack)
    backwards = [one[names[::-1]][600:] for one in frames]
    sets = [predictor.predict([one[600:] for one in frames]), predictor.predict(backwards)]
    assert sets[0].members.tolist() == sets[1].members.tolist()
    first = sets[0].members[: sets[0].sizes[0]].tolist()
    assert predictor.predict_one([one.iloc[600] for one in swapped]).tolist() == first


def test_an_explanation_shows_each_model(stack):
    """The log odds of the models add up to those of the pool, computed here in float64."""
    models, labels = evidence(400, (1.0, 2.0), seed=9)
    predictor = pippin.calibrate([one[:300] for one in models], labels[:300], sharpen=stack)
    row = [one[300] for one in models]
    found = predictor.explain(row)
    first, second = (one.name for one in found.classes[:2])
    odds = [w * np.log(p[first] / p[second]) for w, p in zip(stack.pool.weights, row, strict=True)]
    np.testing.assert_allclose([one.evidence for one in found.models], odds, rtol=1e-5)
    assert [one.weight for one in found.models] == list(stack.pool.weights)
    assert [one.best for one in found.models] == [int(p.argmax()) for p in row]
    weight, best = stack.pool.weights[1], row[1].argmax()
    line = f"model 1, weight {weight:.2f}: alone {best} with {100 * row[1].max():.1f}%, log odds"
    assert repr(found).splitlines()[-1].startswith(line)
    assert pippin.calibrate(models[0], labels, sharpen="split").explain(row[0]).models == ()


def test_deciders_with_a_stack(stack):
    """Decisions are those of the stacked probabilities, in a batch and one by one; a mixture of stacks works too."""
    models, labels = evidence(900, (1.0, 2.0), seed=10)
    utility = pippin.decisions.Utility([[1, -2, 0, 0], [-1, 1, 0.5, 0], [0.2, 0.2, 0.2, 0.2]], actions=("a", "b", "c"))
    old, new = [one[:500] for one in models], [one[500:] for one in models]
    decider = pippin.decisions.calibrate(old, labels[:500], utility, 0.1, sharpen=stack)
    base = pippin.decisions.calibrate(stack(old), labels[:500], utility, 0.1)
    expected = base.decide(stack(new))
    assert np.array_equal(decider.decide(new).actions, expected.actions)
    assert [decider.decide_one([one[i] for one in new]).action for i in range(20)] == expected.actions[:20].tolist()
    mixed = pippin.decisions.calibrate(old, labels[:500], utility, 0.1, sharpen="mixture")
    one = mixed.decide_one([part[0] for part in new], seed=3)
    assert one.action == mixed.decide([part[:1] for part in new], seed=3).actions[0]


def test_calibration_rows_of_the_stack_are_refused():
    """They are recognized, also among other rows, and from logits."""
    models, labels = evidence(600, seed=11)
    stack = pippin.models.stack([one[:300] for one in models], labels[:300])
    with pytest.raises(pippin.InputError, match="got 60 of 360 that it was fitted on"):
        pippin.calibrate([one[240:] for one in models], labels[240:], sharpen=stack)
    with pytest.raises(pippin.InputError, match="that it was fitted on"):
        pippin.calibrate([np.log(one) for one in models], labels, sharpen=stack, from_logits=True)


def test_invalid_inputs(stack):
    """Errors name the model, and the remedy."""
    models, labels = evidence(100, seed=12)
    predictor = pippin.calibrate(models, labels, sharpen=stack)
    short = "got 100 rows from model 0 and 7 from model 1: let every model predict all of them"
    broken = [models[0], np.where(np.arange(100)[:, None] == 5, np.nan, models[1])]
    single = "Expected the probabilities of 2 models for a stack, got one matrix: pass a list with the matrix"
    shape = r"Expected probabilities of shape \(n, K\), got shape \(2, 100, 4\).*several models a stack"
    calls = {
        short: lambda: predictor.predict([models[0], models[1][:7]]),
        "Model 1: Row 5": lambda: predictor.predict(broken),
        single: lambda: predictor.predict(models[0]),
        "Expected the probabilities of 2 models for a stack, got 3 matrices": lambda: stack([*models, models[0]]),
        "Expected 2 rows, one per model, of 4 probabilities": lambda: predictor.predict_one(models[0][0]),
        "Expected one matrix of probabilities for a sharpener of one model, got 2 matrices: fit a stack": lambda: (
            pippin.sharpen(models[0], labels)(models)
        ),
        "Expected the probabilities of several models, got ndarray": lambda: pippin.models.stack(models[0], labels),
        shape: lambda: pippin.calibrate(models, labels),
        "Expected at least 10 rows": lambda: pippin.models.stack([one[:7] for one in models], labels[:7]),
        "sums to 2": lambda: stack.one([models[0][0], 2 * models[1][0]]),
    }
    for pattern, call in calls.items():
        with pytest.raises(pippin.InputError, match=pattern):
            call()
    with pytest.raises(pippin.InputError, match=shape):
        pippin.sharpen(models, labels)


def test_damaged_pools_are_refused(stack):
    """Numbers of both lists, their signs and their lengths."""
    content = stack.content()
    assert parse(file_of(content), "s.json").pool == stack.pool
    for part in ("weights", "cross_entropy"):
        wrong = [[], [0.5], [-1.0, 1.0], ["inf", 1.0], [None, 1.0], "pool"]
        for values in [*wrong, [0.0, 0.0], [1e9, 1.0]] if part == "weights" else wrong:
            damaged = {**content, "pool": {**content["pool"], part: values}}
            with pytest.raises(pippin.InputError, match="its pool makes no sense"):
                parse(file_of(damaged), "s.json")
