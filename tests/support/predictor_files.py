"""Predictors for tests of files, bitwise equality, and files written from the format description alone."""

import hashlib
import json
import pickle

import numpy as np
import pytest

import pippin
from pippin._conformal.mondrian import single_category
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.rules import marginal_rule
from pippin._conformal.serialization import read_content

RNG = np.random.default_rng(3)
PROBS = RNG.dirichlet(np.ones(4), 50)
LABELS = RNG.integers(0, 4, 50)


def made(score="repip", **options):
    return pippin.calibrate(PROBS, LABELS, score, seed=0, **options)


def predictor_with_scores(scores=(0.5, 1.0), alpha=0.4, classes=range(2), score=pippin.scores.repip()):  # noqa: B008 - scores are frozen
    """Return a predictor with given calibration scores and their threshold."""
    numbers = np.array(scores, dtype=np.float64)
    rule, level = marginal_rule(single_category(numbers, len(numbers), len(classes)), 0.0).at(alpha)
    return ConformalPredictor(score, level, len(numbers), classes, rule)


def same(a, b):
    """Return True if all fields are equal, including bits of floats and types of class names."""
    return (
        repr(a.score.parameters) == repr(b.score.parameters)
        and a.score == b.score
        and (a.alpha.hex(), a.threshold.hex(), a.n_calibration) == (b.alpha.hex(), b.threshold.hex(), b.n_calibration)
        and (list(a.classes), list(map(type, a.classes))) == (list(b.classes), list(map(type, b.classes)))
        and isinstance(a.classes, range) == isinstance(b.classes, range)
        and a.calibration_scores.tobytes() == b.calibration_scores.tobytes()
    )


def reloaded(predictor, kind, folder):
    """Return the content of a predictor's file and its copies from file and pickle, whose files must be equal."""
    predictor.save(folder / "p.json")
    whole = json.loads((folder / "p.json").read_text())
    assert (whole["version"], whole["predictor"].pop("kind")) == (2, kind)
    back = pippin.load(folder / "p.json"), pickle.loads(pickle.dumps(predictor))  # noqa: S301 - our own
    for one in back:
        one.save(folder / "again.json")
        assert (folder / "again.json").read_text() == (folder / "p.json").read_text()
    return whole["predictor"], back


def check_wrong_parts(kind, content, **parts):
    """Check that a file with one wrong part, specific or shared, is refused."""
    n, names = content["n_calibration"], content["classes"]
    wrong = {"alpha": 1.5, "n_calibration": n - 1, "n_classes": len(names) - 1, "classes": [names[0], *names[:-1]]}
    for part, value in {**wrong, **parts}.items():
        with pytest.raises(ValueError, match=r"makes no sense|Expected alpha"):
            read_content({**content, "kind": kind, part: value})


CONTENT = {
    "score": {"name": "pip", "parameters": {"beta": 2.0}},
    "alpha": 0.4,
    "threshold": 1.5,
    "n_calibration": 4,
    "n_classes": 2,
    "classes": ["crop", "weed"],
    "calibration_scores": [0.5, 1.0, 1.5, "inf"],
}


def write(path, content, **changes):
    """Write a file with a valid checksum, from the format description alone."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    whole = {"predictor": content, "sha256": hashlib.sha256(text.encode()).hexdigest(), "version": 1}
    path.write_text(json.dumps({**whole, "format": "pippin predictor", **changes}))


def save_one(folder):
    """Save a predictor with named classes; return its file."""
    path = folder / "predictor.json"
    made(classes=["crop", "soil", "weed", "rye"]).save(path)
    return path
