"""Choice of a score that preserves the coverage guarantee."""

import math

import numpy as np
import pytest

import pippin


def simulated(rng, n, n_classes=10):
    """Return overconfident probabilities: labels follow a flatter distribution."""
    truth = rng.dirichlet(np.full(n_classes, 0.5), n)
    labels = (rng.random(n)[:, None] > truth.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)
    probs = truth**2 + 1e-9
    return probs / probs.sum(axis=1, keepdims=True), labels


CANDIDATES = [pippin.scores.linear(np.random.default_rng(i).exponential(1, 9) ** 3) for i in range(60)]


def test_coverage_after_tuning_is_nominal_only_on_separate_rows():
    """With 60 candidates, tuning on separate rows keeps coverage, tuning on the calibration rows lowers it."""
    rng = np.random.default_rng(2)
    probs, labels = simulated(rng, 20_000)
    alpha, n, runs = 0.2, 39, 120
    honest, cheating = [], []
    for run in range(runs):
        rows = rng.choice(len(labels), 2 * n, replace=False)
        tuned = pippin.tune(probs[rows], labels[rows], CANDIDATES, prefer="size", alpha=alpha, splits=3, seed=run)
        honest.append(pippin.metrics.coverage(tuned.calibrate().predict(probs), labels))
        calibration = rows[:n]
        predictors = [pippin.calibrate(probs[calibration], labels[calibration], s, alpha) for s in CANDIDATES]
        best = min(predictors, key=lambda p: pippin.metrics.mean_size(p.predict(probs[calibration])))
        cheating.append(pippin.metrics.coverage(best.predict(probs), labels))
    assert np.mean(honest) == pytest.approx(0.8, abs=3.5 * np.std(honest) / np.sqrt(runs))
    assert np.mean(cheating) < 0.8 - 5 * np.std(cheating) / np.sqrt(runs)


def test_the_rows_are_divided():
    """Every row is either a tuning row or a calibration row."""
    data = pippin.load_example()
    tuned = pippin.tune(data.probs, data.labels, splits=5, tuning_fraction=0.3, classes=data.classes)
    both = np.concatenate([tuned.tuning_rows, tuned.calibration_rows])
    assert np.array_equal(np.sort(both), np.arange(4986))
    assert len(tuned.tuning_rows) == 1496
    left = tuned.calibration_rows
    predictor = tuned.calibrate(seed=1)
    assert predictor.threshold == pippin.calibrate(data.probs[left], data.labels[left], tuned.score).threshold
    assert predictor.classes == data.classes
    assert tuned.calibrate(alpha=0.05).alpha == 0.05


def test_logits_and_unnamed_classes_are_kept_for_calibration():
    """`Tuned.calibrate` treats logits and unnamed classes as `tune` did."""
    data = pippin.load_example()
    logits = np.log(np.maximum(data.probs, 1e-30)) + 3
    names = [10 * k for k in range(12)]
    labels = 10 * data.labels
    tuned = pippin.tune(logits, labels, ["ip", "pip"], splits=3, classes=names, from_logits=True)
    assert tuned.calibrate().classes == tuple(names)


def test_preferences():
    """Each preference chooses its best score: smallest size, most singletons, or most singletons up to a size."""
    data = pippin.load_example()

    def choice(**preference):
        return str(pippin.tune(data.probs, data.labels, pippin.scores.PAPER, splits=20, **preference).score)

    assert choice(prefer="size") == "ip"
    assert choice(prefer="singletons", max_size=math.inf) == "margin"
    assert choice(prefer="singletons", max_size=1.55) == "repip"
    assert choice() == "repip"  # of at most 1.1 times the size of ip


def test_the_choice_is_described_against_its_alternatives():
    """The description compares the chosen score with those of the smallest sets and of the most singletons."""
    data = pippin.load_example()
    tuned = pippin.tune(data.probs, data.labels, pippin.scores.PAPER, splits=20)
    means = {row["score"]: (row["singleton_rate"], row["mean_size"]) for row in tuned.comparison.summary().to_dicts()}
    text = {name: f"{100 * rate:.0f}% singletons at size {size:.2f}" for name, (rate, size) in means.items()}
    head = "repip has the most singletons at a size of at most 1.1 times the smallest"
    assert str(tuned).splitlines() == [
        f"{head}: {text['repip']}.",
        f"Of the 6 candidates, ip has the smallest size ({text['ip']}), margin the most singletons ({text['margin']}).",
    ]
    assert "No other candidate has" in pippin.tune(data.probs, data.labels, ["ip"], splits=2).describe()
    certain = np.eye(3)[data.labels % 3]
    assert str(pippin.tune(certain, data.labels % 3, ["aps", "ip"], splits=20).score) == "ip"  # aps: 10% empty sets


def test_the_sharpener_is_fitted_on_the_tuning_rows():
    """The sharpener (recalibration map) of a chosen score is fitted on the tuning rows; the others calibrate."""
    data = pippin.load_example()
    tuned = pippin.tune(data.probs, data.labels, ["socop", "socop sharpened"], splits=2, classes=data.classes)
    assert (str(tuned.method), str(tuned.score)) == ("socop sharpened", "socop")
    rows, left = tuned.tuning_rows, tuned.calibration_rows
    sharper = pippin.sharpen(data.probs[rows], data.labels[rows], classes=data.classes)
    wanted = pippin.calibrate(data.probs[left], data.labels[left], "socop", sharpen=sharper, classes=data.classes)
    predictor = tuned.calibrate()
    assert predictor.n_calibration == len(left)
    assert predictor.threshold == wanted.threshold
    with pytest.raises(ValueError, match="scores, sharpened or interpolated, got ip per class"):
        pippin.tune(data.probs, data.labels, ["ip per class"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefer": "speed"}, "'size' or 'singletons', got 'speed'"),
        ({"prefer": "size", "max_size": 2}, "max_size only with prefer='singletons'"),
        ({"max_size": 0.5}, "No candidate has size 0.5 or less: the smallest is 1"),
        ({"tuning_fraction": 1}, "strictly between 0 and 1, got 1"),
    ],
)
def test_wrong_use_raises_an_error_with_a_remedy(options, message):
    """Messages name what was expected, what was received, and a remedy."""
    data = pippin.load_example()
    with pytest.raises(ValueError, match=message):
        pippin.tune(data.probs, data.labels, ["ip"], splits=2, **options)


def test_a_tuned_object_is_no_score():
    """Passing it to `calibrate` as a score is an error."""
    data = pippin.load_example()
    tuned = pippin.tune(data.probs, data.labels, ["ip"], splits=2)
    with pytest.raises(ValueError, match=r"tuned\.calibrate\(\)"):
        pippin.calibrate(data.probs, data.labels, tuned)
