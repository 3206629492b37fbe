"""Sharpeners (recalibration maps): corrected confusions, independence of rows, files, and unusual rows."""

import json

import numpy as np
import pandas as pd
import pytest

import pippin
from pippin._engine import dispatch
from pippin._engine import numpy_engine as plain
from pippin._engine.numba_engine import engine as compiled
from support.confused_rows import confused_rows

NAMES = ("maize", "wheat", "thistle", "poppy")


@pytest.fixture(scope="module")
def sharper():
    """Return a sharpener fitted on 400 rows."""
    return pippin.sharpen(*confused_rows(400), classes=NAMES)


def test_sharpening_corrects_confusions(sharper):
    """On new rows accuracy and cross-entropy improve, and `helps` is True."""
    probs, labels = confused_rows(4000, seed=1)
    after = sharper(probs)
    rows = np.arange(len(labels))
    assert (after.argmax(axis=1) == labels).mean() > (probs.argmax(axis=1) == labels).mean() + 0.02
    assert -np.log(after[rows, labels]).mean() < -np.log(probs[rows, labels]).mean() - 0.1
    assert np.allclose(after.sum(axis=1), 1, atol=1e-5)
    assert sharper.helps
    assert sharper.out_of_fold.cross_entropy[1] == pytest.approx(-np.log(after[rows, labels]).mean(), abs=0.1)
    first = sharper.explain()[0]
    assert {first.true, first.predicted} in ({"maize", "wheat"}, {"thistle", "poppy"})
    assert first.after < first.before
    assert "fitted on 400 rows: cross-entropy" in repr(sharper)
    assert sum(sharper.weights.values()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("engine", [plain, compiled])
def test_a_sharpened_row_does_not_depend_on_other_rows(sharper, engine, monkeypatch):
    """One row, some rows and all rows give equal bits, in NumPy and compiled."""
    probs, _ = confused_rows(700, seed=2)
    expected = sharper(probs)
    monkeypatch.setattr(dispatch, "_loaded", engine)
    assert np.array_equal(sharper(probs), expected)
    assert np.array_equal(sharper(probs[13:80]), expected[13:80])
    assert np.array_equal(np.stack([sharper.one(row) for row in probs[:50]]), expected[:50])
    single = probs.astype(np.float32)
    assert np.array_equal(sharper(single), sharper(single.astype(np.float64)))


def test_many_classes_use_fewer_axes_and_rows_stay_independent():
    """With more than 200 classes, the result for a row does not depend on other rows, to the last bit."""
    probs, labels = confused_rows(500, n_classes=240, seed=3)
    sharper = pippin.sharpen(probs, labels)
    assert sharper.model.feature_map is None or sharper.model.feature_map.rotation.shape[1] <= 64
    expected = sharper(probs)
    assert np.array_equal(np.stack([sharper.one(row) for row in probs[:20]]), expected[:20])


def test_a_sharpener_equals_its_formula(sharper):
    """A slow reference in float64 gives equal probabilities."""
    probs, _ = confused_rows(30, seed=4)
    z, both = np.log(np.maximum(probs, 1e-6)), np.log(probs + 0.01)
    z, both = z - z.mean(axis=1, keepdims=True), both - both.mean(axis=1, keepdims=True)
    inputs, mixed = sharper.model.feature_map, 0
    x = z @ inputs.axes.astype(float) + inputs.shift
    waves = np.sqrt(2 / len(inputs.phases)) * np.cos(x @ inputs.waves.astype(float) + inputs.phases)
    phi = np.concatenate([x, waves], axis=1) @ inputs.rotation.astype(float) + inputs.centre
    for weight, member in zip(sharper.weights.values(), sharper.model.members, strict=True):
        u = member.a[0] * z + member.a[1] * both + member.b + phi[:, : len(member.w)] @ member.w
        q = np.exp(u - u.max(axis=1, keepdims=True))
        mixed = mixed + weight * q / q.sum(axis=1, keepdims=True)
    assert np.allclose(sharper(probs), mixed, atol=2e-5)


def test_fitting_is_deterministic_and_independent_of_the_order_of_classes():
    """Equal rows and seeds give equal sharpeners, and inputs are not modified."""
    probs, labels = confused_rows(120, seed=5)
    kept = probs.copy()
    one, other = pippin.sharpen(probs, labels), pippin.sharpen(probs, labels)
    assert np.array_equal(one(probs), other(probs))
    assert np.array_equal(probs, kept)
    named = pippin.sharpen(pd.DataFrame(probs, columns=NAMES), np.array(NAMES)[labels])
    assert np.array_equal(named(pd.DataFrame(probs, columns=NAMES)), one(probs))


def test_a_saved_sharpener_gives_equal_bits(sharper, tmp_path):
    """A loaded sharpener is equal; a damaged file raises an error with its name."""
    probs, _ = confused_rows(100, seed=6)
    path = tmp_path / "sharpener.json"
    sharper.save(path)
    again = pippin.load(path)
    assert np.array_equal(again(probs), sharper(probs))
    assert again.explain() == sharper.explain()
    assert isinstance(again, pippin.Sharpener)
    path.write_text(path.read_text().replace('"n_learnt": 400', '"n_learnt": 399'))
    with pytest.raises(pippin.InputError, match="was edited or damaged"):
        pippin.load(path)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("weights", {"temperature": 0.5}),
        ("weights", {"a stranger": 1.0}),
        ("prints", {"shape": [3], "base64": ""}),
        ("members", []),
        ("inputs", {"axes": None}),
        ("confusions", [["a", "b", 2.0, 0.1]]),
        ("cross_entropy", [0.1]),
        ("surplus", 1),
    ],
)
def test_an_inconsistent_sharpener_file_raises(sharper, part, value, tmp_path):
    """Each entry is validated even if the checksum is correct."""
    from pippin._conformal.serialization import write_file

    write_file(tmp_path / "s.json", {**json.loads(json.dumps(sharper.content())), part: value})
    with pytest.raises(pippin.InputError, match="holds no sound sharpener"):
        pippin.load(tmp_path / "s.json")


def test_features_improve_the_sharpener():
    """Informative features are used, and are required at prediction."""
    probs, labels = confused_rows(600, seed=7)
    hint = np.column_stack([labels % 2 + np.random.default_rng(8).normal(0, 0.3, 600), np.zeros(600)])
    without = pippin.sharpen(probs[:400], labels[:400])
    sharper = pippin.sharpen(probs[:400], labels[:400], features=hint[:400])
    found = without(probs[400:]), sharper(probs[400:], features=hint[400:])
    right = [(q.argmax(axis=1) == labels[400:]).mean() for q in found]
    assert right[1] > right[0] + 0.05
    predictor = pippin.calibrate(probs[400:], labels[400:], "socop", sharpen=sharper, features=hint[400:])
    assert predictor.takes == {"features"}
    sets = predictor.predict(probs, features=hint)
    assert (
        predictor.predict_one(probs[3], features=hint[3]).tolist()
        == sets.members[: sets.offsets[4]][sets.offsets[3] :].tolist()
    )
    with pytest.raises(pippin.InputError, match="Expected the 2 features that the sharpener was fitted with, got none"):
        predictor.predict(probs)
    with pytest.raises(pippin.InputError, match="Expected 2 features per row, got 1"):
        sharper(probs, features=hint[:, :1])
    with pytest.raises(pippin.InputError, match="Expected no features, since the sharpener was fitted without"):
        without(probs, features=hint)
    with pytest.raises(pippin.InputError, match="Expected features that are numbers"):
        sharper(probs, features=np.where(hint == 0, np.nan, hint))
    with pytest.raises(pippin.InputError, match="Expected features= only with sharpen="):
        pippin.calibrate(probs, labels, features=hint)


def odd_rows():
    """Degenerate training rows, by name."""
    rng = np.random.default_rng(9)
    some = rng.dirichlet(np.ones(30), 20)
    yield "fewer rows than classes", some, rng.integers(0, 30, 20)
    yield "a class that is never seen", rng.dirichlet(np.ones(3), 60), rng.integers(0, 2, 60)
    yield "constant probabilities", np.full((40, 4), 0.25), rng.integers(0, 4, 40)
    yield "one-hot probabilities", np.eye(3)[rng.integers(0, 3, 50)], rng.integers(0, 3, 50)
    yield "two classes", rng.dirichlet(np.ones(2), 80), rng.integers(0, 2, 80)
    yield "one class only", rng.dirichlet(np.ones(3), 30), np.zeros(30, dtype=int)


@pytest.mark.parametrize(
    ("name", "probs", "labels"), list(odd_rows()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_unusual_rows_give_valid_probabilities(name, probs, labels):
    """Results are probability distributions, also for rows unlike the training rows."""
    sharper = pippin.sharpen(probs, labels)
    others = np.random.default_rng(10).dirichlet(np.ones(probs.shape[1]), 50)
    for rows in (probs, others, np.eye(probs.shape[1])):
        found = sharper(rows)
        assert np.isfinite(found).all()
        assert np.allclose(found.sum(axis=1), 1, atol=1e-5)
        assert (found >= 0).all()


def test_logits_of_minus_infinity_are_accepted_and_infinity_raises():
    """A logit of −∞ is a probability of 0; +∞ is none."""
    probs, labels = confused_rows(60, seed=11)
    logits = np.log(probs)
    logits[:5, 0] = -np.inf
    assert np.isfinite(pippin.sharpen(logits, labels, from_logits=True)(probs)).all()
    logits[7, 1] = np.inf
    with pytest.raises(pippin.InputError, match="Row 7 has a largest logit of inf"):
        pippin.sharpen(logits, labels, from_logits=True)
    with pytest.raises(pippin.InputError, match="Expected at least 10 rows to fit a sharpener, got 9"):
        pippin.sharpen(probs[:9], labels[:9])
    with pytest.raises(pippin.InputError, match="sums to"):
        pippin.sharpen(probs * 2, labels)


def test_the_plot_names_the_confusions(sharper):
    """The plot has one line per pair of confused classes, from before sharpening to after it."""
    from matplotlib import pyplot as plt

    ax = sharper.plot()
    assert " taken for " in ax.get_yticklabels()[0].get_text()
    assert len(ax.get_yticklabels()) == min(10, len(sharper.explain()))
    plt.close(ax.figure)
