"""Inputs of predictors of sharpened (recalibrated) probabilities: features, names, repeated rows, invalid arguments."""

import numpy as np
import pandas as pd
import pytest

import pippin
from support.confused_rows import confused_rows

NAMES = ("maize", "wheat", "thistle", "poppy")
PROBS, LABELS = confused_rows(600, seed=50)
HINT = np.random.default_rng(51).normal(size=(600, 3))


@pytest.mark.parametrize("way", ["split", "mixture", "cross"])
def test_features_are_accepted_if_no_member_uses_them(way):
    """On rows without structure only a temperature is fitted, and features are still validated."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.3), 300)
    labels = np.array([rng.choice(4, p=row) for row in probs])
    features = rng.normal(size=(300, 5))
    for seed in range(3):
        predictor = pippin.calibrate(
            probs[:100], labels[:100], "ip", 0.2, sharpen=way, features=features[:100], seed=seed
        )
        assert len(predictor.predict(probs, features=features, **({"seed": 0} if way == "mixture" else {}))) == 300
        with pytest.raises(pippin.InputError, match=r"Expected the 5 features .* fitted with, got none"):
            predictor.predict(probs)


def test_too_large_features_raise():
    """Features whose squares overflow raise."""
    sharper = pippin.sharpen(PROBS[:100], LABELS[:100], features=HINT[:100])
    for wrong in (1e39, 1e16, np.nan, -np.inf):
        with pytest.raises(pippin.InputError, match="Expected features that are numbers below 1e"):
            sharper(PROBS[:5], features=np.full((5, 3), wrong))
    with pytest.raises(pippin.InputError, match="Expected features that are numbers below 1e"):
        pippin.sharpen(PROBS[:100], LABELS[:100], features=HINT[:100] * 1e20)


def test_rows_and_features_must_have_the_same_index():
    """Rows and features with different indices, or of different lengths, raise."""
    frame, beside = pd.DataFrame(PROBS[:100], columns=NAMES), pd.DataFrame(HINT[:100])
    turned = beside.iloc[::-1]
    with pytest.raises(pippin.InputError, match="index"):
        pippin.sharpen(frame, LABELS[:100], features=turned)
    with pytest.raises(pippin.InputError, match="index"):
        pippin.calibrate(frame, LABELS[:100], sharpen="split", features=turned)
    mixture = pippin.calibrate(
        PROBS[:100], LABELS[:100], "ip", 0.2, sharpen="mixture", features=HINT[:100], classes=NAMES
    )
    with pytest.raises(pippin.InputError, match="index"):
        mixture.predict(frame, features=turned, seed=0)
    with pytest.raises(pippin.InputError, match=r"Expected features of shape \(100, M\)"):
        mixture.predict(frame, features=HINT, seed=0)


def test_the_entries_of_one_row_go_by_name():
    """A series in another order is put in order, as without a sharpener; other names raise."""
    sharper = pippin.sharpen(PROBS[:100], LABELS[:100], classes=NAMES)
    predictor = pippin.calibrate(PROBS[100:], LABELS[100:], sharpen=sharper, classes=NAMES)
    row = pd.Series(PROBS[0], index=NAMES)
    for given in (row, row[::-1]):
        assert predictor.predict_one(given).tolist() == predictor.predict_one(PROBS[0]).tolist()
        assert np.array_equal(sharper.one(given), sharper.one(PROBS[0]))
    with pytest.raises(pippin.InputError, match="Expected a column for each class"):
        predictor.predict_one(row.rename({NAMES[0]: "corn"}))


def test_training_rows_are_recognized_as_float32_and_logits():
    """Training rows are recognized in other precisions, and new rows are not."""
    sharper = pippin.sharpen(PROBS[:100], LABELS[:100])
    with pytest.raises(pippin.InputError, match="that it was fitted on"):
        pippin.calibrate(PROBS[:100].astype(np.float32), LABELS[:100], sharpen=sharper)
    with pytest.raises(pippin.InputError, match="that it was fitted on"):
        pippin.calibrate(np.log(PROBS[:100]), LABELS[:100], sharpen=sharper, from_logits=True)
    few = pippin.sharpen(PROBS[:20], LABELS[:20])
    with pytest.raises(pippin.InputError, match="that it was fitted on"):
        pippin.calibrate(PROBS, LABELS, sharpen=few)
    pippin.calibrate(PROBS[100:], LABELS[100:], sharpen=sharper)


ROUNDED = {
    "six decimals": lambda p: p.round(6),
    "three decimals": lambda p: p.round(3),
    "half precision": lambda p: p.astype(np.float16).astype(np.float64),
    "noise": lambda p: np.abs(p + 1e-8 * np.random.default_rng(0).normal(size=p.shape)),
}


@pytest.mark.parametrize("how", ROUNDED)
def test_rows_are_known_again_after_rounding(how):
    """Training rows are recognized after rounding to six or three decimals or half precision; new rows are not."""
    data = pippin.load_example()
    order = np.random.default_rng(0).permutation(len(data.labels))
    old, new = order[:500], order[500:1000]
    sharper = pippin.sharpen(data.probs[old], data.labels[old])
    same, fresh = (ROUNDED[how](data.probs[rows].astype(np.float64)) for rows in (old, new))
    with pytest.raises(pippin.InputError, match="that it was fitted on"):
        pippin.calibrate(same / same.sum(axis=1, keepdims=True), data.labels[old], sharpen=sharper)
    pippin.calibrate(fresh / fresh.sum(axis=1, keepdims=True), data.labels[new], sharpen=sharper)


def test_rows_are_known_again_by_their_features():
    """Rows with equal probabilities, such as votes of five trees, are recognized by their features."""
    rng = np.random.default_rng(2)
    votes, labels = rng.multinomial(5, np.full(3, 1 / 3), 200) / 5, rng.integers(0, 3, 200)
    columns = rng.normal(size=(200, 150))
    sharper = pippin.sharpen(votes[:100], labels[:100], features=columns[:100])
    with pytest.raises(pippin.InputError, match="got 100 of 100 that it was fitted on"):
        pippin.calibrate(votes[:100], labels[:100], sharpen=sharper, features=columns[:100].astype(np.float32))
    pippin.calibrate(votes[100:], labels[100:], sharpen=sharper, features=columns[100:])


def test_features_of_a_frame_go_by_name(tmp_path):
    """Features of a data frame are selected by name in all methods; those of arrays go by position."""
    frame = pd.DataFrame(HINT, columns=list("uvw"))
    turned, other = frame[list("wvu")], frame.rename(columns={"w": "x"})
    sharper = pippin.sharpen(PROBS[:100], LABELS[:100], features=frame[:100])
    made = pippin.calibrate(PROBS[100:], LABELS[100:], sharpen=sharper, features=turned[100:])
    pippin.calibrate(PROBS[100:], LABELS[100:], sharpen=sharper, features=frame[100:]).save(tmp_path / "p.json")
    predictor = pippin.load(tmp_path / "p.json")
    sets = predictor.predict(PROBS, features=HINT)
    assert np.array_equal(predictor.predict(PROBS, features=frame).members, sets.members)
    assert predictor.predict_one(PROBS[0], features=frame.iloc[0]).tolist() == list(sets[0])
    assert made.threshold == predictor.threshold
    assert np.array_equal(predictor.predict(PROBS, features=turned).members, sets.members)
    assert predictor.predict_one(PROBS[0], features=turned.iloc[0]).tolist() == list(sets[0])
    mixture = pippin.calibrate(PROBS, LABELS, "ip", 0.2, sharpen="mixture", features=frame)
    drawn = mixture.predict(PROBS, features=frame, seed=0).members
    assert np.array_equal(mixture.predict(PROBS, features=turned, seed=0).members, drawn)
    for rows, features in ((PROBS, other), (PROBS, turned.assign(x=0.0))):
        with pytest.raises(
            pippin.InputError, match=r"Expected (a|no) column .*for each feature \(u, v, w\), got .*'x'"
        ):
            predictor.predict(rows, features=features)


def test_unsupported_rules_with_a_sharpener_raise():
    """Rules that cannot be combined with a sharpener raise."""
    sharper = pippin.sharpen(PROBS[:100], LABELS[:100])
    with pytest.raises(pippin.InputError, match="Expected one of folds= and a fitted sharpener, got both"):
        pippin.calibrate(PROBS[100:], LABELS[100:], folds=np.arange(500) % 2, sharpen=sharper)
    with pytest.raises(pippin.InputError, match=r"Expected sharpen to be a Sharpener, True, .* got 'sharper'"):
        pippin.calibrate(PROBS, LABELS, sharpen="sharper")


def test_a_mixture_predicts_one_row_and_names_invalid_rows():
    """One row draws a sharpener like the first of many rows, and errors name the number of an invalid row."""
    mixture = pippin.calibrate(PROBS[:200], LABELS[:200], "ip", 0.2, sharpen="mixture")
    for seed in range(5):
        assert mixture.predict_one(PROBS[300], seed=seed).tolist() == mixture.predict(PROBS[300:301], seed=seed)[0]
    wrong = PROBS[:40].copy()
    wrong[33] *= 5
    with pytest.raises(pippin.InputError, match="Row 33 sums to"):
        mixture.predict(wrong, seed=0)
    with pytest.raises(pippin.InputError, match="with at most one sharpener, got 5 in"):
        pippin.torch.ConformalHead(mixture)


def test_many_classes_and_few_rows_can_be_fitted():
    """The number of axes is at most the number of rows; only confusions that occur are listed."""
    probs, labels = confused_rows(40, n_classes=1500, seed=52)
    sharper = pippin.sharpen(probs, labels)
    assert np.allclose(sharper(probs).sum(axis=1), 1, atol=1e-4)
    assert all(weight >= 0.01 for weight in sharper.weights.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"score": "socop(max_size=-1)"},
        {"score": "socop(max_size=0)"},
        {"score": "socop(max_size=text)"},
        {"score": "socop(min_singletons=80)"},
        {"seed": -1},
        {"seed": 1.5},
        {"sharpen": "cross(learning_fraction=0.3)"},
        {"sharpen": "split(share=0.3)"},
        {"sharpen": 3},
    ],
)
def test_invalid_numbers_raise_one_sentence(wrong):
    """Invalid numbers raise an InputError."""
    with pytest.raises(pippin.InputError, match=r"^(Expected|Cannot read the score) "):
        pippin.calibrate(PROBS[:100], LABELS[:100], **{"score": "socop", "sharpen": "split", **wrong})
