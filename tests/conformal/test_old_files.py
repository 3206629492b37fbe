"""Files written by version 0.1 load and give equal results to the last bit."""

import json
from pathlib import Path

import numpy as np
import pytest

import pippin

FOLDER = Path(__file__).parents[1] / "data" / "predictors"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
SETS = [name for name, kept in EXPECTED.items() if "sizes" in kept]
DATA = pippin.load_example()
FEW = np.column_stack([DATA.probs[:, part : part + 4].sum(axis=1) for part in (0, 4, 8)]).astype(np.float32)
FEW /= FEW.sum(axis=1, keepdims=True)  # three classes keep the files of sharpeners small


def rows_of(kept):
    """Return the rows that a saved object was applied to by version 0.1."""
    return FEW[300:330] if kept.get("classes") == 3 else DATA.probs[300:360]


def keywords(kept):
    """Return the keywords with which version 0.1 called `predict`."""
    number, rows = np.arange(len(DATA.labels)), slice(300, 360)
    groups = {"names": np.array(["north", "south", "west"])[number * 7 % 5 % 3], "numbers": number % 2}
    given = {"groups": groups[kept["groups"]][rows]} if "groups" in kept else {}
    if "weights" in kept:
        given["weights"] = 1 + DATA.probs[rows, 0].astype(float)
    return given


@pytest.mark.parametrize("name", SETS)
def test_old_files_give_the_same_sets(name):
    kept = EXPECTED[name]
    predictor, rows = pippin.load(FOLDER / f"{name}.json"), rows_of(kept)
    asked = keywords(kept["beside"]) | ({"seed": 7} if "seed" in getattr(predictor, "takes", ()) else {})
    sets = predictor.predict([rows, rows[:, ::-1].copy(), rows] if "folds" in kept["beside"] else rows, **asked)
    assert sets.sizes.tolist() == kept["sizes"]
    assert sets.members.tolist() == kept["members"]


def test_an_old_sharpener_gives_the_same_probabilities():
    sharpener = pippin.load(FOLDER / "sharpener.json")
    assert isinstance(sharpener, pippin.Sharpener)
    assert sharpener(FEW[300:330][:5]).tolist() == EXPECTED["sharpener"]["probs"]


@pytest.mark.parametrize(
    ("name", "keywords"), [("decisions", {}), ("decisions-per-group", {"groups": np.arange(30) % 2})]
)
def test_old_deciders_select_the_same_actions(name, keywords):
    found = pippin.load(FOLDER / f"{name}.json").decide(FEW[300:330], **keywords)
    assert found.actions.tolist() == EXPECTED[name]["actions"]
    assert found.certificates.tolist() == EXPECTED[name]["certificates"]


def test_an_old_selective_classifier_answers_the_same_rows():
    found = pippin.load(FOLDER / "selective.json").predict(FEW[300:330])
    assert found.acted.tolist() == EXPECTED["selective"]["acted"]
    assert [str(label) for label in found.labels] == EXPECTED["selective"]["labels"]


def test_old_monitors_have_the_same_state():
    monitor = pippin.load(FOLDER / "monitor.json")
    assert isinstance(monitor, pippin.online.Monitor)
    assert {"value": monitor.evidence, "n": monitor.n_rows} == values("monitor")
    assert pippin.load(FOLDER / "risk-monitor.json").n_rows == values("risk-monitor")["n"]


def test_an_old_stream_gives_the_same_set():
    stream = pippin.load(FOLDER / "stream.json")
    assert isinstance(stream, pippin.online.Stream)
    assert stream.predict_one(FEW[131]).members.tolist() == values("stream")["members"]


def values(name):
    """Return the results of version 0.1, without the number of classes."""
    return {key: value for key, value in EXPECTED[name].items() if key != "classes"}


@pytest.mark.parametrize("name", EXPECTED)
def test_old_files_are_saved_again_with_equal_content(name, tmp_path):
    pippin.load(FOLDER / f"{name}.json").save(tmp_path / "again.json")
    before, now = (json.loads(path.read_text()) for path in (FOLDER / f"{name}.json", tmp_path / "again.json"))
    assert now == before


def test_every_old_file_is_tested():
    assert {path.stem for path in FOLDER.glob("*.json")} == {*EXPECTED, "expected"}
