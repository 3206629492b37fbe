"""Files with thresholds that disagree with their calibration scores raise, even with a correct checksum."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import pippin
from pippin._conformal.predictor import mondrian_of
from pippin._conformal.serialization import parse_file, write_file
from support.scores import EVERY_SCORE

DATA = pippin.load_example()
PROBS, LABELS = DATA.probs[:900], DATA.labels[:900]
FARMS = np.array(["east", "north", "west"])[np.arange(900) % 3]
PER = {
    "class": {"per": "class"},
    "group": {"groups": FARMS, "unseen": "marginal"},
    "class and group": {"per": "class and group", "groups": FARMS},
    "cluster": {"per": "cluster"},
    "rc3p": {"per": "rc3p"},
    "interpolated": {"per": "interpolated"},
}
quiet = pytest.mark.filterwarnings("ignore:.*(thresholds are infinite|to cluster)")


def changed(path, **parts):
    """Change entries of a file, with a correct checksum."""
    write_file(path, {**parse_file(path.read_bytes(), path), **parts})


@quiet
@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.3, Fraction(1, 3), Fraction(1, 7), Fraction(5, 6), 1 / 3])
@pytest.mark.parametrize("per", PER)
def test_a_saved_file_loads(tmp_path, per, alpha):
    """Files load at all levels, also at fractions, which are rounded to floats in the file."""
    for n in (899, 839, 600):  # 840 is a multiple of 3, 6 and 7
        options = {key: value[:n] if key == "groups" else value for key, value in PER[per].items()}
        predictor = pippin.calibrate(PROBS[:n], LABELS[:n], "pip", alpha, seed=0, **options)
        predictor.save(tmp_path / "p.json")
        back = pippin.load(tmp_path / "p.json")
        assert np.array_equal(back.thresholds, predictor.thresholds)


def test_a_level_of_one_third_is_exact_after_loading(tmp_path):
    """k = ⌈(n + 1)(1 − 1/3)⌉ is not rounded up because of the rounding of 1/3 to a float."""
    labels = np.r_[np.zeros(20, int), np.ones(20, int)]
    probs = np.random.default_rng(0).dirichlet([1, 1], 40)
    predictor = pippin.calibrate(probs, labels, "ip", Fraction(1, 3), per="class")
    own = np.sort(pippin.scores.score(probs, labels, "ip")[:20])
    assert predictor.thresholds[0, 0] == predictor.at(1 / 3).thresholds[0, 0] == own[14 - 1]
    predictor.save(tmp_path / "p.json")
    assert np.array_equal(pippin.load(tmp_path / "p.json").thresholds, predictor.thresholds)


@quiet
@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_every_score_loads(tmp_path, score):
    """Saved predictors of every score load, also with ties and infinite thresholds."""
    predictor = pippin.calibrate(PROBS[:150], LABELS[:150], score, seed=0, per="class")
    predictor.save(tmp_path / "p.json")
    assert np.array_equal(pippin.load(tmp_path / "p.json").thresholds, predictor.thresholds)


@quiet
@pytest.mark.parametrize("per", PER)
def test_changed_thresholds_raise(tmp_path, per):
    """A file raises if one threshold, all thresholds or the calibration scores were changed."""
    predictor = pippin.calibrate(PROBS, LABELS, "pip", 0.2, seed=0, **PER[per])
    path = tmp_path / "p.json"
    message = (
        "p.json holds no sound predictor .its thresholds are not those of its calibration scores.: calibrate again"
    )
    finite = tuple(index[0] for index in np.nonzero(np.isfinite(predictor.thresholds)))
    for other in (math.inf, -math.inf, np.nextafter(predictor.thresholds[finite], 9), 0.0):
        predictor.save(path)
        limits = predictor.thresholds.copy()
        limits[finite] = other
        changed(path, thresholds=limits.tolist())
        with pytest.raises(ValueError, match=message):
            pippin.load(path)
    for parts in ({"thresholds": predictor.at(0.1).thresholds.tolist()}, {"alpha": 0.19}):
        predictor.save(path)
        changed(path, **parts)
        with pytest.raises(ValueError, match=message):
            pippin.load(path)
    predictor.save(path)
    changed(path, calibration_scores=(mondrian_of(predictor).categories.scores + 0.001).tolist())
    with pytest.raises(ValueError, match=message):
        pippin.load(path)


@pytest.mark.parametrize("alpha", [0.2, Fraction(1, 3)])
def test_a_changed_marginal_threshold_raises(tmp_path, alpha):
    """A marginal threshold that belongs to another level raises; the saved file loads."""
    predictor = pippin.calibrate(PROBS[:299], LABELS[:299], "pip", alpha)
    path = tmp_path / "p.json"
    predictor.save(path)
    assert pippin.load(path).threshold == predictor.threshold
    for parts in (
        {"threshold": math.inf},
        {"threshold": float(np.nextafter(predictor.threshold, 9))},
        {"threshold": predictor.at(0.1).threshold},
        {"alpha": 0.19},
    ):
        predictor.save(path)
        changed(path, **parts)
        with pytest.raises(ValueError, match="its thresholds are not those of its calibration scores"):
            pippin.load(path)


@quiet
def test_changed_rank_limits_raise(tmp_path):
    predictor = pippin.calibrate(PROBS, LABELS, "pip", 0.2, per="rc3p")
    predictor.save(tmp_path / "p.json")
    changed(tmp_path / "p.json", rank_limits=(predictor.rank_limits + 1).tolist())
    with pytest.raises(ValueError, match="its thresholds are not those of its calibration scores"):
        pippin.load(tmp_path / "p.json")


def test_thresholds_without_scores_are_accepted(tmp_path):
    """Without scores, thresholds cannot be verified."""
    predictor = pippin.calibrate(PROBS, LABELS, "pip", 0.2, per="group", groups=FARMS)
    predictor.save(tmp_path / "p.json", scores=False)
    changed(tmp_path / "p.json", thresholds=(predictor.thresholds + 1).tolist())
    assert (pippin.load(tmp_path / "p.json").thresholds == predictor.thresholds + 1).all()


def test_rules_without_stored_thresholds_load(tmp_path):
    """Files of weighted and cross-conformal predictors have scores only, those of IP/MS thresholds only."""
    made = {
        "weighted": pippin.calibrate(PROBS, LABELS, weights=np.ones(900)),
        "cross": pippin.calibrate(PROBS, LABELS, folds=np.arange(900) % 3),
        "combination": pippin.calibrate(PROBS, LABELS, "ip/ms", seed=0),
    }
    for kind, predictor in made.items():
        predictor.save(tmp_path / "p.json")
        keys = set(json.loads((tmp_path / "p.json").read_text())["predictor"])
        assert any("scores" in key for key in keys) != any("threshold" in key for key in keys), kind
