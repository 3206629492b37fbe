"""Cascades: exact coverage, the rows that reach each model, the choice of the exit limit, cost, admissible labels."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

import pippin
from pippin._conformal.serialization import read_content
from pippin.models import Cascade, admissible_labels, cascade
from support.predictor_files import reloaded
from support.scores import every_score


def sample(n, seed, tied=False, n_models=2):
    """Return labels and probabilities of dependent models of four classes, each more accurate than the one before."""
    rng = np.random.default_rng(seed)
    labels, shared = rng.integers(0, 4, n), rng.normal(size=(n, 4))
    each = []
    for model in range(n_models):
        logits = (1.5 + 2 * model) * np.eye(4)[labels] + shared + 0.7 * rng.normal(size=(n, 4))
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        coarse = np.round(2 * probs) + 0.5
        each.append(coarse / coarse.sum(axis=1, keepdims=True) if tied else probs)
    return labels, each


def left_out(labels, each, **options):
    """Return for each row in turn the cascade of the other rows, the row's matrices, and its label."""
    for new in range(len(labels)):
        others = np.delete(np.arange(len(labels)), new)
        models = [(p[others], cost) for p, cost in zip(each, (1, 10, 30), strict=False)]
        known = [labels[i] for i in others] if isinstance(labels, list) else labels[others]
        yield cascade(models, known, **options), [p[[new]] for p in each], labels[new]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("n_models", "exits"), [(2, 0.6), (3, (0.7, 0.5))])
@pytest.mark.parametrize("score", ["ip", "repip"])
def test_marginal_coverage_is_exact(tied, n_models, exits, score):
    """With each of n + 1 rows in turn as the new one, exactly k = ⌈(n + 1)(1 − α)⌉ are covered; with ties at least."""
    labels, each = sample(41, 0, tied, n_models)
    every = left_out(labels, each, score=score, alpha=0.2, exits=exits)
    covered = sum(int(one.predict(new).contains([label])[0]) for one, new, label in every)
    k = math.ceil(41 * 0.8)
    assert covered == k or (tied and covered > k)


def test_coverage_in_each_stage_is_exact():
    """With per="stage", the same holds among the rows that leave at each model."""
    labels, each = sample(60, 1)
    early = each[0].max(axis=1) >= 0.7
    every = left_out(labels, each, score="ip", alpha=0.2, exits=0.7, per="stage")
    covered = np.array([one.predict(new).contains([label])[0] for one, new, label in every])
    assert 10 < early.sum() < 50
    for stage in (early, ~early):
        assert covered[stage].sum() == math.ceil(stage.sum() * 0.8)


def test_a_set_contains_an_admissible_class_exactly_as_often():
    """With lists of admissible classes, exactly k of n + 1 sets contain at least one of them."""
    labels, each = sample(41, 2)
    rng = np.random.default_rng(0)
    answers = [sorted({label, int(rng.integers(4))}) for label in labels.tolist()]
    every = left_out(answers, each, score="pip", alpha=0.2, exits=0.6)
    covered = sum(any(one.predict(new).mask[0, right]) for one, new, right in every)
    assert covered == math.ceil(41 * 0.8)


@every_score
def test_the_admissible_label_has_the_smallest_score(score):
    rng = np.random.default_rng(4)
    probs, mask = rng.dirichlet(np.ones(5), 200), rng.random((200, 5)) < 0.4
    mask[:, 0] |= ~mask.any(axis=1)
    best = admissible_labels(probs, mask)
    scores = pippin.scores.score(probs, None, score, seed=0)
    np.testing.assert_array_equal(scores[np.arange(200), best], np.where(mask, scores, np.inf).min(axis=1))
    lists = [np.flatnonzero(row).tolist() for row in mask]
    np.testing.assert_array_equal(admissible_labels(probs, lists), best)


def test_each_model_runs_only_on_the_objects_that_reach_it():
    labels, each = sample(900, 3, n_models=3)
    models = [(p[:500], cost) for p, cost in zip(each, (1, 5, 20), strict=True)]
    made, new, reached = cascade(models, labels[:500], "pip", exits=(0.8, 0.9)), [p[500:] for p in each], []

    def model(number):
        def run(objects):
            reached.append(objects)
            return new[number][objects]

        return run

    probs, stages = made.run([new[0], model(1), model(2)])
    tops = np.array([p.max(axis=1) for p in new])
    expected = np.where(tops[0] >= 0.8, 0, np.where(tops[1] >= 0.9, 1, 2))
    np.testing.assert_array_equal(stages, expected)
    np.testing.assert_array_equal(probs, np.array(new)[expected, np.arange(400)])
    np.testing.assert_array_equal(reached[0], np.flatnonzero(expected >= 1))
    np.testing.assert_array_equal(reached[1], np.flatnonzero(expected == 2))
    assert set(stages.tolist()) == {0, 1, 2}
    assert pippin.evaluate(made, labels[500:], probs=new).coverage == made.predict(new).contains(labels[500:]).mean()
    plain = pippin.calibrate(made.run([p[:500] for p in each])[0], labels[:500], "pip")
    assert made.predict(new).labels() == plain.predict(probs).labels()
    np.testing.assert_array_equal(made.p_values(new, labels[500:]), plain.p_values(probs, labels[500:]))
    sure, calls = int(np.flatnonzero(expected == 0)[0]), []
    for row, wanted in (
        (sure, 0),
        (int(np.flatnonzero(expected == 1)[0]), 1),
        (int(np.flatnonzero(expected == 2)[0]), 2),
    ):
        calls.clear()
        later = [lambda number=number, row=row: calls.append(number) or new[number][row] for number in (1, 2)]
        one = made.predict_one([new[0][row], *later])
        assert one.tolist() == made.predict([p[[row]] for p in new]).members.tolist()
        assert calls == [1, 2][:wanted]


def test_float32_and_logits_leave_at_the_same_model_alone_and_together():
    labels, each = sample(300, 5)
    small, large = (p.astype(np.float32) for p in each)
    limit = float(np.sort(small.max(axis=1))[150])
    made = cascade([(small, 1), (large, 9)], labels, "ip", exits=limit)
    _, stages = made.run([small, large])
    assert np.sum(stages == 0) == made.counts[0] == 150
    alone = [made.run([small[[i]], large[[i]]])[1][0] for i in range(300)]
    np.testing.assert_array_equal(alone, stages)
    logits = cascade([(np.log(each[0]), 1), (np.log(each[1]), 9)], labels, "ip", exits=limit, from_logits=True)
    sets = logits.predict([np.log(each[0]), lambda objects: np.log(each[1][objects])], from_logits=True)
    assert sets.labels() == cascade([(each[0], 1), (each[1], 9)], labels, "ip", exits=limit).predict(each).labels()


def test_the_exit_limit_is_chosen_on_rows_set_aside():
    """The other rows calibrate, as if the limit had been given."""
    labels, each = sample(2000, 6)
    models = [(p, cost) for p, cost in zip(each, (1, 20), strict=True)]
    made = cascade(models, labels, "ip", learning_fraction=0.4, tolerance=0.3, seed=7)
    aside = np.random.default_rng(7).permutation(2000)[:800]
    others = np.setdiff1d(np.arange(2000), aside)
    assert made.n_calibration == made.counts.sum() == 1200
    again = cascade([(p[others], cost) for p, cost in models], labels[others], "ip", exits=made.exits)
    assert again.content() == made.content()
    assert 0.3 < made.exits[0] < 1


def population_sizes(stages, each, labels, alpha):
    """Return the mean size of IP sets with a coverage of 1 − alpha on these rows."""
    every = np.arange(len(labels))
    scores = 1 - np.array(each)[stages, every]
    return (scores <= np.quantile(scores[every, labels], 1 - alpha)).sum() / len(labels)


def test_sets_at_the_chosen_limit_are_rarely_larger_than_the_tolerance():
    """At equal coverage, sets are more than 2% larger with a probability of about 5%, and the small model is used."""
    labels, each = sample(20_000, 14)
    each[0] = (0.6 * each[0] + 0.4 * each[1]) ** 3  # too sure, so that the models have different thresholds
    each[0] /= each[0].sum(axis=1, keepdims=True)
    rng, larger, shares = np.random.default_rng(1), [], []
    last = population_sizes(np.ones(20_000, int), each, labels, 0.05)
    for _ in range(60):
        rows = rng.choice(20_000, 1500)
        made = cascade([(each[0][rows], 1), (each[1][rows], 20)], labels[rows], "ip", 0.05, seed=rng)
        stages = (each[0].max(axis=1) < made.exits[0]).astype(int)
        larger.append(population_sizes(stages, each, labels, 0.05) / last)
        shares.append(np.mean(stages == 0))
    assert np.sum(np.array(larger) > 1.02) <= binom.isf(1e-3, 60, 0.05)
    assert np.mean(shares) > 0.2


def test_a_useless_small_model_settles_nothing():
    labels, each = sample(600, 8)
    noise = np.random.default_rng(0).dirichlet(np.ones(4), 600)
    made = cascade([(noise, 1), (each[1], 20)], labels, "ip", seed=0)
    assert made.exits == (math.inf,)
    assert made.cost == 21
    assert made.describe().startswith(
        "A cascade of 2 models, 0% settled by model 0, at a cost of 21 per object (at mos"
    )


def test_the_cost_bound_is_exact_for_two_models():
    """At the bound, as few rows as observed reach the second model with a probability of 1 − confidence."""
    labels, each = sample(400, 9)
    made = cascade([(each[0], 2), (each[1], 30)], labels, exits=0.7)
    k = int(made.counts[1])
    assert made.cost == pytest.approx(2 + 30 * k / 400)
    share = (made.cost_bound(0.9) - 2) / 30
    assert binom.cdf(k, 400, share) == pytest.approx(0.1)
    every = cascade([(each[0], 2), (each[1], 30)], labels, exits=2)
    assert (every.cost, every.cost_bound()) == (32, 32)


def test_the_cost_bound_of_three_models_holds_often_enough():
    """Over simulated calibrations, the expected cost exceeds the bound at most as often as the confidence allows."""
    labels, each = sample(4000, 10, n_models=3)
    costs, exits, rng = (1, 5, 20), (0.8, 0.9), np.random.default_rng(0)
    truth = cascade(list(zip(each, costs, strict=True)), labels, exits=exits).cost
    exceeded = 0
    for _ in range(150):
        rows = rng.integers(0, 4000, 60)
        made = cascade([(p[rows], cost) for p, cost in zip(each, costs, strict=True)], labels[rows], exits=exits)
        exceeded += truth > made.cost_bound(0.8)
    reached = np.cumsum(made.counts[::-1])[::-1]  # of the last one
    shares = [beta.isf(0.1, k + 1, 60 - k) for k in reached[1:].tolist()]  # each of two models at half of 20%
    assert made.cost_bound(0.8) == pytest.approx(1 + 5 * shares[0] + 20 * shares[1])
    assert exceeded <= binom.isf(1e-6, 150, 0.2)
    assert exceeded > 0


@pytest.mark.parametrize("per", [None, "stage"])
def test_a_cascade_survives_its_file(tmp_path, per):
    labels, each = sample(500, 11)
    made = cascade([(each[0], 1), (each[1], 9)], [("rye", "oat", "pea", "flax")[k] for k in labels], "aps", exits=0.7,
                   per=per, classes=["rye", "oat", "pea", "flax"], seed=0)  # fmt: skip
    content, back = reloaded(made, "cascade", tmp_path)
    for one in back:
        assert isinstance(one, Cascade)
        assert one.predict(each, seed=5).labels() == made.predict(each, seed=5).labels()
        assert (repr(one), one.describe(), one.card()) == (repr(made), made.describe(), made.card())
        assert one.at(0.3).predict(each, seed=5).labels() == made.at(0.3).predict(each, seed=5).labels()
    inner = content["predictor"]
    wrong = {
        "exits": [-0.5],
        "costs": [1.0, 0.0],
        "counts": [content["counts"][0] + 1, content["counts"][1]],
        "predictor": pippin.calibrate(each[0], labels, "ip", weights=np.ones(500)).content(),
    }
    for part, value in wrong.items():
        with pytest.raises(pippin.InputError):
            read_content({**content, "kind": "cascade", part: value})
    with pytest.raises(pippin.InputError):
        read_content({**content, "kind": "cascade", "predictor": {**inner, "alpha": 1.5}})
    made.save(tmp_path / "infinite.json")
    assert "kind" in json.loads((tmp_path / "infinite.json").read_text())["predictor"]


def test_an_infinite_exit_limit_survives_its_file(tmp_path):
    labels, each = sample(100, 12)
    cascade([(each[0], 1), (each[1], 9)], labels, exits=math.inf).save(tmp_path / "cascade.json")
    assert pippin.load(tmp_path / "cascade.json").exits == (math.inf,)


def test_frames_keep_their_index():
    data = pippin.load_example()
    frame = pd.DataFrame(data.probs[:50], columns=data.classes, index=[f"{i}.png" for i in range(50)])
    made = cascade([(data.probs, 1), (data.probs, 9)], data.labels, exits=0.5, classes=data.classes)
    sets = made.predict([frame[frame.columns[::-1]], frame])
    assert sets.loc["7.png"] == made.predict([data.probs[:50], data.probs[:50]])[7]


def test_wrong_use():
    labels, each = sample(100, 13)
    models = [(each[0], 1), (each[1], 9)]
    made = cascade(models, labels, exits=0.7)
    for models_given, options, message in (
        (models[:1], {}, "two or more pairs"),
        (each, {}, "two or more pairs"),
        ([(each[0], 0), models[1]], {}, "positive costs"),
        ([(each[0], "cheap"), models[1]], {}, "positive costs"),
        ([(each[0][:50], 1), models[1]], {}, "same objects from every model"),
        (models, {"exits": (0.5, 0.6)}, "exit limit for each of 1 models"),
        (models, {"exits": math.nan}, "exit limit for each of 1 models"),
        (models, {"exits": 0, "per": "stage"}, "none that leave at model 1"),
        (models, {"per": "class"}, "per to be None or 'stage'"),
        (models, {"learning_fraction": 0.001}, "more rows"),
    ):
        with pytest.raises(pippin.InputError, match=message):
            cascade(models_given, labels, **options)
    with pytest.raises(pippin.InputError, match="Row 1 has no admissible class"):
        admissible_labels(each[0][:2], [[0], []])
    with pytest.raises(pippin.InputError, match="admissible classes of shape"):
        admissible_labels(each[0][:2], np.ones((2, 3), bool))
    with pytest.raises(pippin.InputError, match="Expected 2 models, got 1"):
        made.predict([each[0]])
    with pytest.raises(pippin.InputError, match="rows of model 1, got 100"):
        made.predict([each[0], lambda objects: each[1]])
