"""Predictor files that an earlier version wrote, of every kind, give the sets that they gave then, to the last bit."""

import json
from pathlib import Path

import numpy as np
import pytest

import pippin

FOLDER = Path(__file__).parents[1] / "data" / "predictors"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
ROWS = slice(300, 360)


def beside(kept):
    """What the sets were asked for with, beside the rows."""
    number = np.arange(len(pippin.load_example().labels))
    groups = {"names": np.array(["north", "south", "west"])[number * 7 % 5 % 3], "numbers": number % 2}
    given = {"groups": groups[kept["groups"]][ROWS]} if "groups" in kept else {}
    if "weights" in kept:
        given["weights"] = 1 + pippin.load_example().probs[ROWS, 0].astype(float)
    return given


@pytest.mark.parametrize("name", EXPECTED)
def test_files_of_before_give_the_sets_of_before(name):
    kept = EXPECTED[name]
    predictor = pippin.load(FOLDER / f"{name}.json")
    rows = pippin.load_example().probs[ROWS]
    asked = beside(kept["beside"]) | ({"seed": 7} if "seed" in predictor.takes else {})
    sets = predictor.predict([rows, rows[:, ::-1].copy(), rows] if "folds" in kept["beside"] else rows, **asked)
    assert sets.sizes.tolist() == kept["sizes"]
    assert sets.members.tolist() == kept["members"]


def test_every_file_is_among_them(tmp_path):
    """And what is written today holds the same, part by part."""
    assert {path.stem for path in FOLDER.glob("*.json")} == {*EXPECTED, "expected"}
    for name in EXPECTED:
        pippin.load(FOLDER / f"{name}.json").save(tmp_path / "again.json")
        before, now = (json.loads(path.read_text()) for path in (FOLDER / f"{name}.json", tmp_path / "again.json"))
        assert now == before
