"""Verdicts in sentences, fronts of families, and curves of the first split over levels."""

import numpy as np
import pytest

import pippin
from pippin._compare.report_data import STEPS, level_curve
from pippin._compare.splits import draw_split
from pippin._compare.tuning import FRONTS
from pippin._compare.verdict import judge
from support.scores import EVERY_SCORE
from support.trials import study_of, trial_of


@pytest.fixture(scope="module")
def example():
    data = pippin.load_example()
    return data, trial_of(data.probs, data.labels)


@pytest.fixture(scope="module")
def verdict(example):
    data, trial = example
    return judge(trial, pippin.compare(data.probs, data.labels, splits=60))


def test_the_verdict_names_the_best_for_each_preference(verdict):
    """On the example, the verdict names IP for size, margin for singletons, and RePIP for both."""
    assert [str(pick.score) for pick in verdict.compared] == ["ip", "margin", "repip"]
    assert [pick.score.score.name for pick in verdict.tuned][1:] == ["socop", "socop"]
    assert verdict.sentences[0].startswith("Take repip: on these data it gives 73% singletons at size 1.4")
    assert "ip is smaller" in verdict.sentences[0]
    assert "percentage points" in verdict.sentences[1]
    assert "pippin tune" in verdict.sentences[2]
    assert all(check.good for check in verdict.checks)


def test_every_family_traces_a_front(verdict):
    """A larger mu of SOCOP gives larger sets and more singletons."""
    assert set(verdict.fronts) == set(FRONTS)
    sizes, singletons = (verdict.fronts["socop"].metric(m).mean(axis=1) for m in ("mean_size", "singleton_rate"))
    assert (np.diff(sizes) > -1e-3).all()
    assert (np.diff(singletons) > -1e-3).all()


@pytest.mark.parametrize("scores", [["ip"], ["margin"], ["ip", "socop"], ["topk", "aps"]])
def test_any_comparison_has_sentences(example, scores):
    """A verdict has sentences for any compared scores, with or without the best one."""
    data, trial = example
    told = judge(trial, pippin.compare(data.probs, data.labels, scores, splits=10)).sentences
    assert told[0].startswith("Take ")
    assert all(sentence.endswith(".") for sentence in told)


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_the_curve_equals_calibrating_at_every_level(example, score):
    """A curve of the first split equals calibration and prediction with public functions."""
    data, trial = example
    curve = level_curve(trial, pippin.scores.Method(score))
    split = draw_split(trial, 0)
    calibration = split.calibration
    for alpha in (0.01, 0.1, 0.25, 0.5):
        generator = split.generator()
        predictor = pippin.calibrate(data.probs[calibration], data.labels[calibration], score, alpha, seed=generator)
        found = pippin.evaluate(predictor.predict(data.probs[~calibration], seed=generator), data.labels[~calibration])
        i = STEPS.index(round(1000 * alpha))
        counts = (curve.covered[i], curve.sizes[i], curve.singletons[i], curve.empty[i])
        assert curve.thresholds[i] == predictor.threshold
        assert np.array(counts) / curve.n_test == pytest.approx(
            (found.coverage, found.mean_size, found.singleton_rate, found.empty_rate), abs=1e-12
        )


def test_a_study_contains_comparison_and_evaluations(example):
    """The comparison equals that of `compare`, and the evaluations those of its first split."""
    data, _ = example
    scores = (pippin.scores.ip(), pippin.scores.aps())
    found = study_of(data.probs, data.labels, scores, 20, classes=data.classes)
    assert np.array_equal(found.comparison.values, pippin.compare(data.probs, data.labels, scores, splits=20).values)
    for number, score in enumerate(scores):
        evaluation = found.evaluations[str(score)]
        assert evaluation.mean_size == pytest.approx(found.comparison.values[number, 0, 2])
        assert evaluation.coverage == pytest.approx(found.comparison.values[number, 0, 1])
        assert set(evaluation.class_coverage) == set(data.classes)


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        (["pip"], "under pip, black_grass is covered only 70% of the time; compare pip per class to see"),
        (["ip", "repip", "repip per class"], "repip per class brings the worst class to 90% at size 1.8"),
        (["repip", "ip per class", "ip nonempty"], "ip per class brings the worst class to 90% at size"),
    ],
)
def test_low_coverage_of_a_class_is_reported(example, scores, told):
    """The verdict names a class with low coverage, and the cost of a compared method that covers it."""
    data, trial = example
    comparison = pippin.compare(data.probs, data.labels, scores, splits=60, classes=data.classes)
    found = judge(trial, comparison)
    assert told in found.cautions[0]
    assert all(pick.score.plain for pick in (*found.compared, *found.tuned))
    assert len(found.checks) == 2
    assert all(check.good for check in found.checks)


def test_methods_without_plain_scores_are_compared_too(example):
    """Without a plain score, the test against the exact distribution of coverage is left out."""
    data, trial = example
    found = judge(trial, pippin.compare(data.probs, data.labels, ["pip per class", "ip per class"], splits=20))
    assert {str(pick.score) for pick in found.compared} <= {"pip per class", "ip per class"}
    assert len(found.checks) == 1


def test_equal_coverage_of_classes_is_not_reported():
    """No class is named if all classes have the same coverage."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 3000)
    labels = (rng.random(3000)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=2)
    trial = trial_of(probs, labels)
    assert not any(
        "all classes together" in s for s in judge(trial, pippin.compare(probs, labels, ["ip"], splits=30)).cautions
    )
