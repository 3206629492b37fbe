"""Types of probability arrays, and logits, give equal results and are not modified."""

import ml_dtypes
import numpy as np
import pytest
import torch
import xarray as xr

import pippin
from support.array_kinds import LABELS, NAMES, PROBS, SOURCES, OnlyArray, OnlyDlpack

every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


def outcome(probs):
    """Return the calibration scores, the scores of all classes, and the sets."""
    predictor = pippin.calibrate(probs, LABELS, "repip", 0.2)
    sets = predictor.predict(probs)
    scores = pippin.scores.score(probs, None, "repip")
    return [predictor.calibration_scores.tolist(), scores.tolist(), sets.sizes.tolist(), sets.members.tolist()]


@every_source
def test_all_array_types_give_equal_results(source, tmp_path):
    """Equal numbers give equal scores and sets in all array types."""
    assert outcome(source(PROBS, tmp_path)) == outcome(PROBS.copy())


@every_source
def test_all_types_of_one_row_give_equal_results(source, tmp_path):
    """predict_one accepts the types of predict and returns its set."""
    predictor = pippin.calibrate(PROBS, LABELS)
    sets = predictor.predict(PROBS)
    for i in range(0, 80, 7):
        wanted = sets.members[sets.offsets[i] : sets.offsets[i + 1]].tolist()
        assert predictor.predict_one(source(PROBS[i], tmp_path)).tolist() == wanted


LARGE_SOURCES = ["F", "strided float32", "big-endian", "float16", "pandas", "torch bfloat16 with gradient"]


@pytest.mark.parametrize("name", LARGE_SOURCES)
def test_large_arrays_of_all_types_give_equal_results(name, tmp_path):
    """Equal numbers in any array type give equal results in compiled loops over several blocks, too."""
    probs = np.tile(PROBS, (3000, 1))
    labels = np.tile(LABELS, 3000)
    plain, given = (pippin.calibrate(p, labels) for p in (probs, SOURCES[name](probs, tmp_path)))
    assert given.calibration_scores.tobytes() == plain.calibration_scores.tobytes()
    sets, wanted = given.predict(SOURCES[name](probs, tmp_path)), plain.predict(probs)
    assert sets.sizes.tobytes() == wanted.sizes.tobytes()
    assert sets.members.tobytes() == wanted.members.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_floats_are_widened_exactly(dtype):
    """float16 and bfloat16 are converted exactly."""
    probs = np.random.default_rng(8).dirichlet(np.ones(5), 80).astype(dtype)
    assert outcome(probs) == outcome(probs.astype(np.float64))


def test_wide_floats_are_not_narrowed():
    """float64 keeps every digit, in arrays and in lists."""
    for probs in ([[0.1, 0.9]], np.array([[0.1, 0.9]])):
        assert pippin.scores.score(probs, None, "ip").tolist() == [[1 - 0.1, 1 - 0.9]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64, bool, ">i4"])
def test_one_hot_integers_are_probabilities(dtype):
    """One-hot probabilities can be integers or booleans."""
    certain = np.eye(5)[np.random.default_rng(8).integers(0, 5, 80)]
    assert outcome(certain.astype(dtype)) == outcome(certain)


@every_source
def test_probabilities_are_never_modified(source, tmp_path):
    """Bits and flags of the input are unchanged."""
    given = source(PROBS, tmp_path)
    flags = given.flags.writeable if isinstance(given, np.ndarray) else None
    row = source(PROBS[0], tmp_path)
    predictor = pippin.calibrate(given, LABELS)
    predictor.predict(given)
    pippin.scores.score(given, None, "margin")
    predictor.predict_one(row)
    for held, wanted in [(given, PROBS), (row, PROBS[0])]:
        held = held._array if isinstance(held, OnlyArray | OnlyDlpack) else held
        held = held.detach().double() if isinstance(held, torch.Tensor) else held
        assert np.array_equal(np.asarray(held, dtype=np.float64), wanted)
    assert flags is None or given.flags.writeable == flags


def test_logits_labels_and_classes_are_never_modified():
    """Logits, labels and names are unchanged."""
    logits, labels, classes = np.random.default_rng(8).normal(size=(80, 5)), LABELS.copy(), list(NAMES)
    before = logits.copy()
    pippin.calibrate(logits, labels, classes=classes, from_logits=True).predict(logits, from_logits=True)
    assert np.array_equal(logits, before)
    assert np.array_equal(labels, LABELS)
    assert classes == NAMES
    assert logits.flags.writeable
    assert labels.flags.writeable


def test_results_do_not_share_memory_with_the_input():
    """Changing the input later does not change predictors or sets."""
    probs = PROBS.copy()
    predictor = pippin.calibrate(probs, LABELS)
    sets = predictor.predict(probs)
    before = predictor.calibration_scores.tolist(), sets.labels()
    probs[:] = 0.2
    assert (predictor.calibration_scores.tolist(), sets.labels()) == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", [1, 30, 1000])
def test_logits_are_softmaxed(dtype, spread):
    """from_logits=True equals passing the softmax."""
    logits = (spread * np.random.default_rng(8).normal(size=(80, 5))).astype(dtype)
    probs = torch.softmax(torch.tensor(logits, dtype=torch.float64), 1).numpy()
    assert np.allclose(
        pippin.scores.score(logits, None, "pip", from_logits=True),
        pippin.scores.score(probs, None, "pip"),
        rtol=0,
        atol=1e-12,
    )
    made, wanted = pippin.calibrate(logits, LABELS, from_logits=True), pippin.calibrate(probs, LABELS)
    assert made.predict(logits, from_logits=True).labels() == wanted.predict(probs).labels()


def test_a_logit_of_minus_infinity_is_a_probability_of_zero():
    """Classes masked by −∞ are valid."""
    scores = pippin.scores.score([[-np.inf, 0.0, 0.0]], None, "ip", from_logits=True)
    assert scores.tolist() == [[1.0, 0.5, 0.5]]


def softmax_in_bfloat16(logits):
    """Compute every step in bfloat16, as an accelerator may."""
    logits = logits.astype(ml_dtypes.bfloat16)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.astype(np.float32).sum(axis=1, keepdims=True).astype(ml_dtypes.bfloat16)


def test_rows_of_bfloat16_are_taken():
    """Softmax of bfloat16 rarely sums to 1 within 0.001; such rows keep their values, in arrays and one by one."""
    logits = np.random.default_rng(1).normal(size=(2000, 12)) * 3
    probs = softmax_in_bfloat16(logits)
    sums = probs.astype(np.float64).sum(axis=1)
    assert 0.001 < np.abs(sums - 1).max() < 2**-7
    single = probs.astype(np.float32)
    labels = np.array([np.random.default_rng(i).choice(12, p=p / p.sum()) for i, p in enumerate(single.astype(float))])
    made, wanted = (pippin.calibrate(rows[:1000], labels[:1000]) for rows in (probs, single))
    assert made.threshold == wanted.threshold
    sets = made.predict(probs[1000:])
    assert sets.labels() == made.predict(single.astype(np.float64)[1000:]).labels()
    assert abs(pippin.metrics.coverage(sets, labels[1000:]) - 0.9) < 0.03
    for i in range(20):
        assert [made.classes[k] for k in made.predict_one(probs[1000 + i])] == sets[i]
    assert made.predict(xr.DataArray(probs[1000:])).labels() == sets.labels()


def test_rows_of_bfloat16_beyond_their_precision_raise():
    """A row that sums to 0.98 is no rounded distribution, and neither is one of float32 that sums to 0.995."""
    halves = np.array([[0.5, 0.48046875]], dtype=ml_dtypes.bfloat16)
    with pytest.raises(pippin.InputError, match=r"Row 0 sums to 0.980469, expected 1 within 0.001"):
        pippin.scores.score(halves, None, "ip")
    with pytest.raises(pippin.InputError, match=r"Row 0 sums to 0.995123, expected 1 within 0.001"):
        pippin.scores.score(np.array([[0.5, 0.4951234]]), None, "ip")
