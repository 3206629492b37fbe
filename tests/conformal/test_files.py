"""Predictor files: numbers are restored to the last bit, from strict JSON."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pippin
from support.predictor_files import CONTENT, LABELS, PROBS, made, predictor_with_scores, same, write


def infinite():
    with pytest.warns(UserWarning, match="too few"):
        return pippin.calibrate(PROBS[:3], LABELS[:3])


def impossible():
    """Return a SOCOP predictor with infinite scores, of true labels with probability 0."""
    return pippin.calibrate(np.eye(4)[(LABELS + (np.arange(50) < 3)) % 4], LABELS, "socop")


PREDICTORS = {
    "plain": made,
    "awkward float": lambda: made(pippin.scores.repip(gamma=0.1 + 0.2, beta=1 / 3)),
    "awkward alpha": lambda: made(alpha=0.1 + 0.2),
    "whole float": lambda: made(pippin.scores.repip(gamma=1, beta=2)),
    "tiny parameter": lambda: made(pippin.scores.socop(mu=5e-324)),
    "not randomized": lambda: made(pippin.scores.aps(randomized=False)),
    "randomized": lambda: made("raps"),
    "infinite threshold": infinite,
    "infinite scores": impossible,
    "text names": lambda: made(classes=["crop", "maïs 🌽", '"quoted"\n', "\ud800"]),
    "numbers for names": lambda: made(classes=[3, 2, 1, 0], alpha=0.2),
    "huge numbers for names": lambda: predictor_with_scores(classes=(2**70, -1)),
    "custom weights": lambda: made(pippin.scores.linear((1, 0.1 + 0.2, 1e-300), (0, 0.1, 1 / 3))),
}


@pytest.mark.parametrize("make", PREDICTORS.values(), ids=PREDICTORS)
def test_a_saved_predictor_is_restored_to_the_bit(make, tmp_path):
    """Numbers, names and types are equal, and so is the file when saved again."""
    predictor = make()
    predictor.save(tmp_path / "a.json")
    back = pippin.load(tmp_path / "a.json")
    assert same(back, predictor)
    assert not back.calibration_scores.flags.writeable
    back.save(str(tmp_path / "b.json"))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("make", PREDICTORS.values(), ids=PREDICTORS)
def test_a_loaded_predictor_predicts_the_same(make, tmp_path):
    """Sets, single rows and other levels are those of the predictor that was saved."""
    predictor = make()
    probs = PROBS if len(predictor.classes) == 4 else np.array([[0.5, 0.5], [0.875, 0.125]])
    predictor.save(tmp_path / "p.json")
    back = pippin.load(tmp_path / "p.json")
    assert back.predict(probs, seed=1).labels() == predictor.predict(probs, seed=1).labels()
    assert back.predict_one(probs[0], seed=1).tolist() == predictor.predict_one(probs[0], seed=1).tolist()
    assert back.at(0.5).threshold == predictor.at(0.5).threshold


def test_the_cases_are_what_they_claim():
    """The test cases that should have infinite thresholds have them."""
    assert infinite().threshold == np.inf
    assert np.isinf(impossible().calibration_scores).sum() == 3


NUMBERS = st.floats(allow_nan=False)


@given(st.lists(NUMBERS, min_size=1), st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_arbitrary_floats_are_restored(tmp_path_factory, scores, alpha):
    """Signed zeros, subnormal numbers and infinities among the scores are restored."""
    path = tmp_path_factory.mktemp("floats") / "p.json"
    predictor = predictor_with_scores(sorted(scores), alpha)
    predictor.save(path)
    assert same(pippin.load(path), predictor)


@given(st.lists(st.text(), min_size=2, max_size=5, unique=True))
def test_arbitrary_class_names_are_restored(tmp_path_factory, names):
    """Class names are any text: empty, with line breaks, in any script."""
    path = tmp_path_factory.mktemp("names") / "p.json"
    predictor_with_scores(classes=tuple(names)).save(path)
    assert list(pippin.load(path).classes) == names


def test_saving_without_calibration_scores(tmp_path):
    """A file with scores=False is small and predicts, and another level raises."""
    predictor = made()
    predictor.save(tmp_path / "p.json", scores=False)
    back = pippin.load(tmp_path / "p.json")
    assert back.calibration_scores is None
    assert (back.threshold, back.n_calibration) == (predictor.threshold, 50)
    assert back.predict(PROBS).labels() == predictor.predict(PROBS).labels()
    with pytest.raises(ValueError, match=r"saved without its calibration scores, so it has only alpha=0.1: calibrate"):
        back.at(0.2)
    back.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "p.json").read_bytes()


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize("make", PREDICTORS.values(), ids=PREDICTORS)
def test_the_file_is_strict_json_in_ascii(make, tmp_path):
    """The file has no NaN, no Infinity and no byte above 127."""
    make().save(tmp_path / "p.json")
    data = (tmp_path / "p.json").read_bytes()
    whole = json.loads(data.decode("ascii"), parse_constant=refuse)
    assert list(whole) == ["format", "version", "sha256", "predictor"]


def test_a_file_written_by_other_software_loads(tmp_path):
    """A file written by other software loads: white space and the order of keys are free."""
    write(tmp_path / "p.json", CONTENT)
    wanted = predictor_with_scores([0.5, 1.0, 1.5, np.inf], 0.4, ("crop", "weed"), pippin.scores.pip(2))
    assert same(pippin.load(tmp_path / "p.json"), wanted)
