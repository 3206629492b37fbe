"""Traceability of field models and their runs: CARD.md, `pippin describe`, checksums, dates, damaged records."""

import hashlib
import json
import subprocess

import numpy as np
import pytest
from PIL import Image

import pippin
from pippin.images import FieldModel
from pippin.images.field_model import read_cards, write_manifest
from support.small_field import make_parts, photograph

pytestmark = pytest.mark.usefixtures("one_thread")
WEIGHTS = "--weights weights --windows 24"


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def parts(images, tiny, tmp_path_factory):
    """Write weights and logits of a training, and a table of utilities."""
    folder = make_parts(images, tiny, tmp_path_factory.mktemp("card") / "run")
    lines = ["action,blob,ring,columns,rows", "spray,1,1,-2,-2", "leave,-1,-1,1,1"]
    (folder / "utility.csv").write_text("\n".join(lines))
    return folder


@pytest.fixture
def made(parts, tmp_path, monkeypatch, call):
    """Make a field model from its parts on the command line."""
    monkeypatch.chdir(parts)
    here = tmp_path / "MODEL"
    assert call(f"calibrate probs.npz --score pip --alpha 0.2 --by Ada --out {tmp_path}/p.json")[0] == 0
    assert call(f"calibrate probs.npz --utility utility.csv --alpha 0.2 --out {tmp_path}/d.json")[0] == 0
    line = f"field make {WEIGHTS} --predictor {tmp_path}/p.json --decider {tmp_path}/d.json --by Grace --out {here}"
    assert call(line)[0] == 0
    return here


def test_a_card_answers_every_question(made, parts, call):
    cards = read_cards(made)
    assert list(cards) == ["Field model", "Prediction sets", "Decisions"]
    for card in cards.values():
        assert "not recorded" not in [card[key] for key in card if key != "By whom?"]
    model, sets, decisions = cards.values()
    record = json.loads((parts / "train.json").read_text())
    assert (made / "train.json").read_bytes() == (parts / "train.json").read_bytes()
    n, m = (record["images"][key] for key in ("train", "held_out"))
    assert f"{n} images, whose names are in weights/training.npz. The {m} held-out" in str(model)
    assert f"its accuracy on them is {record['accuracy']:.3f}." in model["Which images trained the network?"]
    assert f"SHA-256 {record['images']['sha256']}" in model["From which data?"]
    assert model["From which training of the network?"] == f"train.json: SHA-256 {sha256(parts / 'train.json')}"
    assert model["How was the network trained?"].startswith("weights = ")
    assert "epochs = 3, " in model["How was the network trained?"]
    assert "; finished 2025-11-18T14:03:22Z, with python 3." in model["How was the network trained?"]
    assert "probability at least 80%" in model["What is guaranteed?"]
    assert "its certificate 80% of the time" in model["What is guaranteed?"]
    assert (model["By whom?"], sets["By whom?"], decisions["By whom?"]) == ("Grace", "Ada", "not recorded")
    assert model["With which command?"].startswith(f"pippin field make {WEIGHTS} --predictor ")
    for card in (sets, decisions):
        assert f"probs.npz: SHA-256 {sha256(parts / 'probs.npz')}" in card["From which data?"]
        assert card["From which training of the network?"] == model["From which training of the network?"]
    assert sets == pippin.load(made / "predictor.json").card()
    assert FieldModel.load(made).cards() == cards
    code, out, err = call(f"describe {made} --markdown")
    assert (code, err) == (0, "")
    lines = (made / "CARD.md").read_text().splitlines()
    assert lines[0] == "# MODEL"
    assert out.splitlines()[1:] == lines[1:]
    assert lines.count("2025-11-18T14:03:22Z") == 3


def test_windows_of_new_photographs_are_told_apart(parts, images, tiny, tmp_path, made):
    """The card states if images are from photographs of the calibration, or if the guarantee is for new ones."""
    same = "windows of photographs with windows in training and calibration; nothing is proven for new photographs."
    scope = read_cards(made)["Field model"]["For which images?"]
    assert scope == f"Prediction sets and Decisions: {same}"
    folder = make_parts(images, tiny, tmp_path / "by photo", group="photo", epochs=1)
    with np.load(folder / "probs.npz") as kept:
        groups, logits, labels = kept["groups"], kept["logits"], kept["labels"]
    known = {"classes": pippin.load(folder / "predictor.json").classes, "from_logits": True}
    predictor = pippin.calibrate(logits, labels, "pip", 0.4, units=groups, **known)
    model = FieldModel.make(folder / "weights", predictor, decider=folder / "decider.json", window=24)
    model.save(tmp_path / "M")
    scope = read_cards(tmp_path / "M")["Field model"]["For which images?"]
    assert scope.startswith("Prediction sets: a window drawn at random from a new photograph. Decisions: windows of")
    assert "windows in training" not in scope
    assert read_cards(tmp_path / "M")["Prediction sets"]["From which data?"] == "not recorded"


def test_a_changed_card_or_record_is_refused(made, call):
    for name in ("CARD.md", "train.json"):
        content = (made / name).read_bytes()
        (made / name).write_bytes(content.replace(b"2025", b"2031", 1))
        code, _, err = call(f"describe {made}")
        assert (code, err.count("\n")) == (2, 1)
        assert f"The part {name} of {made} is damaged or of another model: make the model again." in err
        (made / name).write_bytes(content)
    manifest = (made / "field.json").read_text()
    for edited in (manifest.replace("2025", "2031"), manifest.replace("Grace", "Alan")):
        (made / "field.json").write_text(edited)
        with pytest.raises(ValueError, match=r"was edited or damaged after it was saved \(its checksum differs\)"):
            FieldModel.load(made)
    whole = json.loads(manifest)
    del whole["sha256"]
    (made / "field.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match="its checksum differs"):
        read_cards(made)


def test_a_folder_of_an_earlier_version_still_loads(made):
    """A folder of an earlier version loads; its card says "not recorded" where entries are missing."""
    for name in ("CARD.md", "train.json"):
        (made / name).unlink()
    whole = json.loads((made / "field.json").read_text())
    gone = ("provenance", "checksum", "sha256", "parts", "format", "version")
    write_manifest(made, {key: value for key, value in whole.items() if key not in gone})
    whole = json.loads((made / "field.json").read_text())
    del whole["sha256"]
    (made / "field.json").write_text(json.dumps(whole))
    assert FieldModel.load(made).provenance is None
    card = read_cards(made)["Field model"]
    for question in ("From which data?", "When was it made?", "With which versions?", "Which checksum identifies it?"):
        assert card[question] == "not recorded"
    assert "How was the network trained?" not in card


def test_a_record_of_another_training_is_not_taken(parts, tmp_path):
    """The train.json of other weights, or a missing one, is not part of the provenance."""
    (tmp_path / "weights").symlink_to(parts / "weights")
    assert FieldModel.make(tmp_path / "weights", parts / "predictor.json").record is None
    record = json.loads((parts / "train.json").read_text())
    record["outputs"]["weights"] = "0" * 64
    (tmp_path / "train.json").write_text(json.dumps(record))
    assert FieldModel.make(tmp_path / "weights", parts / "predictor.json").record is None
    (tmp_path / "train.json").write_bytes((parts / "train.json").read_bytes())
    assert FieldModel.make(tmp_path / "weights", parts / "predictor.json").record is not None


def test_a_model_made_again_at_another_date_is_the_same_model(made, parts, tmp_path, call, monkeypatch):
    """A model made again at another date continues a run of the first; its card has the new date."""
    Image.fromarray(photograph(0)).save(tmp_path / "a.png")
    assert call(f"field run {made} {tmp_path}/a.png --out {tmp_path}/out")[0] == 0
    before = (tmp_path / "out/results.jsonl").read_bytes()
    checksum = read_cards(made)["Field model"]["Which checksum identifies it?"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1893456000")
    assert call(f"calibrate probs.npz --score pip --alpha 0.2 --out {tmp_path}/p.json")[0] == 0
    made_again = f"field make {WEIGHTS} --predictor {tmp_path}/p.json --decider {tmp_path}/d.json --out {made}"
    assert call(made_again)[0] == 0
    card = read_cards(made)["Field model"]
    assert card["When was it made?"] == "2030-01-01T00:00:00Z"
    assert card["Which checksum identifies it?"] == checksum
    assert call(f"field run {made} {tmp_path}/a.png --out {tmp_path}/out")[0] == 0
    assert (tmp_path / "out/results.jsonl").read_bytes() == before
    assert call(f"calibrate probs.npz --score pip --alpha 0.3 --out {tmp_path}/p.json")[0] == 0
    assert call(made_again)[0] == 0
    assert read_cards(made)["Field model"]["Which checksum identifies it?"] != checksum
    assert "holds results of another model" in call(f"field run {made} {tmp_path}/a.png --out {tmp_path}/out")[2]


def test_a_run_can_be_traced(made, tmp_path, call, monkeypatch):
    """The results of a run contain dates, checksums for `sha256sum`, versions and cards."""
    for number in range(2):
        Image.fromarray(photograph(number)).save(tmp_path / f"{number}.png")
    out = tmp_path / "out"
    assert call(f"field run {made} {tmp_path}/0.png --out {out}")[0] == 0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1893456000")
    assert call(f"field run {made} {tmp_path}/0.png {tmp_path}/1.png --out {out}")[0] == 0
    run = json.loads((out / "run.json").read_text())
    made_from = run["made"]
    assert made_from["first photograph"] == "2025-11-18T14:03:22Z"
    assert made_from["last photograph"] == "2030-01-01T00:00:00Z"
    assert made_from["versions"]["pippin"] == pippin.__version__
    assert made_from["files"] == {name: sha256(out / name) for name in made_from["files"]}
    assert set(made_from["files"]) == {"results.jsonl", "results.parquet", "photographs.sha256"}
    assert made_from["model"] in run["cards"]["Field model"]["Which checksum identifies it?"]
    assert run["cards"] == read_cards(made)
    done = subprocess.run(["sha256sum", "-c", "photographs.sha256"], cwd=out, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count(": OK\n")) == (0, 2)
