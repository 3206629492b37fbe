"""Journals, records and manifests that were edited: each run ends with results or one sentence, inside its folder."""

import copy
import json
import random
import shutil

import numpy as np
import pytest
from PIL import Image

import pippin
from pippin.images import FieldModel
from pippin.images.prepare import JOURNAL, RECORD, prepare_we3ds
from pippin.images.training.folder import read_training
from support.file_fuzzing import DEEP, ODD, change
from support.small_field import make_parts, photograph
from support.we3ds_tree import OPTIONS

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(images, tiny, tmp_path_factory):
    folder = make_parts(images, tiny, tmp_path_factory.mktemp("field") / "run")
    made = FieldModel.make(folder / "weights", folder / "predictor.json", decider=folder / "decider.json", window=24)
    made.save(folder / "MODEL")
    return folder / "MODEL"


@pytest.fixture
def photos(tmp_path):
    """Write a photograph and a file that is none, with names that control a terminal."""
    (tmp_path / "photos").mkdir()
    Image.fromarray(photograph(0)).save(tmp_path / "photos" / "a\x1b[2J.png")
    (tmp_path / "photos" / "b\u202e\n.png").write_text("no photograph")
    return tmp_path / "photos"


def edited(content, rng):
    """Return a JSON value with one to three changes, as text."""
    content = copy.deepcopy(content)
    for _ in range(rng.randint(1, 3)):
        change({"all": content} if isinstance(content, list) else content, rng.choice(["value", "key", "length"]), rng)
    text = json.dumps(content)
    for mark, lists in DEEP.items():
        text = text.replace(f'"{mark}"', lists)
    return text


def sentence(error):
    """Assert that an error is one line, without control characters."""
    text = str(error)
    assert text.rstrip("\n").isprintable(), text
    assert len(text) > 20
    return text


def test_an_edited_journal_of_a_field_run_ends_in_results(model, photos, tmp_path, call):
    """Entries of an edited journal that do not fit the model are computed again."""
    line, out = f"field run {model} {photos} --out {tmp_path}/out", tmp_path / "out"
    assert call(line)[0] == 0
    header, *entries = map(json.loads, (out / ".field.journal").read_text().splitlines())
    rng = random.Random(0)
    for _ in range(40):
        lines = [json.dumps(header), *(edited(entry, rng) for entry in entries)]
        (out / ".field.journal").write_text("\n".join([*lines, ""]))
        code, _, err = call(line)
        assert (code, err) == (0, ""), lines
        assert {path.parent for path in tmp_path.rglob("*.jpg")} == {out / "drawn", out / "clean"}
    for header in (*ODD[:12], [], {}, {"format": 1}, "[" * 100_000):
        text = header if isinstance(header, str) and header.startswith("[[") else json.dumps(header)
        (out / ".field.journal").write_text(f"{text}\n")
        code, _, err = call(line)
        assert code == 2
        assert "holds results of another model" in sentence(err) or "has other files" in err


@pytest.mark.parametrize("name", ["drawn", "clean", ".field.journal", "results.jsonl"])
def test_a_link_in_the_output_folder_is_refused(model, photos, tmp_path, call, name):
    """A link in the output folder is refused, and nothing is written through it."""
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / name
    target.mkdir() if name in ("drawn", "clean") else target.write_text("precious")
    (tmp_path / "out" / name).symlink_to(target)
    code, _, err = call(f"field run {model} {photos} --out {tmp_path}/out")
    assert code == 2
    assert f"Expected --out without links, but {tmp_path}/out/{name} is one: remove it" in sentence(err)
    assert list(target.iterdir()) == [] if target.is_dir() else target.read_text() == "precious"


def test_names_of_photographs_do_not_control_the_terminal(model, photos, tmp_path, call):
    code, out, err = call(f"field run {model} '{photos}' --out {tmp_path}/out")
    assert (code, err) == (0, "")
    assert r"b\u202e\n.png is damaged or no image" in out
    assert out.replace("\n", "").isprintable()
    page = (tmp_path / "out" / "field.html").read_text()
    assert r"b\u202e\n.png" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_an_edited_manifest_is_one_sentence(model, tmp_path):
    """An edited manifest raises one sentence, or the model loads if the change has no effect."""
    content, folder, rng = json.loads((model / "field.json").read_text()), tmp_path / "MODEL", random.Random(0)
    shutil.copytree(model, folder)
    ended, sentences = {"loaded": 0, "refused": 0}, []
    for _ in range(60):
        (folder / "field.json").write_text(edited(content, rng))
        try:
            FieldModel.load(folder)
            ended["loaded"] += 1
        except pippin.InputError as error:
            sentences.append(sentence(error))
            ended["refused"] += 1
    assert all(str(folder) in text or "fallback" in text for text in sentences)
    assert ended["refused"] > 20


@pytest.mark.parametrize("file", ["config.json", "preprocessor_config.json"])
def test_an_edited_configuration_of_a_network_is_one_sentence(model, tmp_path, file):
    """An edited network configuration raises one sentence, also for images larger than memory."""
    weights, rng = tmp_path / "weights", random.Random(1)
    shutil.copytree(model / "weights", weights)
    content = json.loads((weights / file).read_text())
    for number in range(25):
        text = edited(content, rng)
        if file == "preprocessor_config.json" and number < 4:
            side = [10**400, 1e308, 10**7, -1][number]
            text = json.dumps(content | {"crop_size": {"height": side, "width": side}})
        (weights / file).write_text(text)
        try:
            FieldModel.make(weights, model / "predictor.json")
        except pippin.InputError as error:
            sentence(error)
        else:
            assert number >= 4 or file == "config.json"


def test_an_edited_training_record_is_damaged(model, tmp_path):
    """Arrays that do not fit each other are refused when the record is read."""
    weights = tmp_path / "weights"
    shutil.copytree(model / "weights", weights)
    with np.load(weights / "training.npz") as archive:
        arrays = dict(archive)
    n = len(arrays["logits"])
    wrong = {
        "logits": [arrays["logits"][:-1], arrays["logits"].ravel(), arrays["logits"].astype(int), np.zeros((n, 0))],
        "labels": [arrays["labels"] + 9, arrays["labels"][:, None], arrays["labels"].astype(float)],
        "files": [arrays["files"][:-1], np.arange(n)],
        "classes": [arrays["classes"][:-1], np.arange(4), np.array("a")],
        "trained": [np.arange(3), np.array(1.5)],
        "features": [np.zeros(3), np.zeros((n + 1, 2)), np.full((n, 2), "a")],
        "statistics": [np.zeros((n, 5)), np.full((n, 6), np.nan)],
        "sides": [np.zeros((n, 1), int), np.zeros(n)],
        "more": [np.zeros(1)],
    }
    assert read_training(weights).classes == tuple(arrays["classes"].tolist())
    for name, values in wrong.items():
        for value in values:
            np.savez(weights / "training.npz", **(arrays | {name: value}))
            with pytest.raises(pippin.InputError, match=r"training\.npz is damaged: train again"):
                read_training(weights)
    np.save(weights / "training.npz", arrays["logits"])
    (weights / "training.npz.npy").rename(weights / "training.npz")
    with pytest.raises(pippin.InputError, match=r"training\.npz is damaged: train again"):
        read_training(weights)


def test_more_windows_than_memory_are_refused(model):
    """An image with more windows than fit into memory is refused, such as with windows of one pixel."""
    small = FieldModel.load(model)
    object.__setattr__(small, "window", 1)
    with pytest.raises(pippin.InputError, match=r"4,000,000 windows of 1 × 1, too many to compute at once: cut it"):
        small.look(Image.new("RGB", (2000, 2000)))


@pytest.mark.parametrize("file", [JOURNAL, RECORD])
def test_an_edited_record_of_prepare_ends_in_windows_or_a_sentence(photographs, tmp_path, file, no_figures):
    out, rng = tmp_path / "out", random.Random(2)
    if file == JOURNAL:
        with pytest.raises(ZeroDivisionError):
            prepare_we3ds(photographs[0], out, OPTIONS, workers=1, draw=lambda *_: 1 / 0)
        lines = list(map(json.loads, (out / JOURNAL).read_text().splitlines()))
    else:
        expected = prepare_we3ds(photographs[0], out, OPTIONS, workers=1).record
        lines = [json.loads((out / RECORD).read_text())]
    kept = tmp_path / "kept"
    out.rename(kept)
    for _ in range(25):
        shutil.copytree(kept, out)
        number = rng.randrange(len(lines))
        texts = [edited(line, rng) if k == number else json.dumps(line) for k, line in enumerate(lines)]
        (out / file).write_text("\n".join([*texts, ""]))
        try:
            found = prepare_we3ds(photographs[0], out, OPTIONS, workers=1).record
        except pippin.InputError as error:
            sentence(error)
        else:
            assert file == JOURNAL or found.run == expected.run
        shutil.rmtree(out)
