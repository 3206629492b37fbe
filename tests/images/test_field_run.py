"""`pippin field`: results and drawn pictures of photographs; damaged photographs, killed runs, unrelated folders."""

import io
import json
import shutil

import numpy as np
import polars
import pytest
from PIL import Image

import pippin
from pippin.images import FieldModel
from support.killed_processes import killed_in_turn
from support.small_field import make_parts, photograph
from support.small_training import HEAVY

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(images, tiny, tmp_path_factory):
    folder = make_parts(images, tiny, tmp_path_factory.mktemp("field") / "run")
    made = FieldModel.make(folder / "weights", folder / "predictor.json", decider=folder / "decider.json", window=24)
    made.save(folder / "MODEL")
    return folder / "MODEL"


@pytest.fixture
def photos(tmp_path):
    """Write four photographs, two of the same name, and three invalid ones."""
    for number, name in enumerate(("a.png", "b.jpg", "c.png", "more/a.png")):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photograph(number)).save(path)
    good = (tmp_path / "photos/a.png").read_bytes()
    (tmp_path / "photos/cut.png").write_bytes(good[: len(good) // 2])
    Image.fromarray(photograph(9)[:20]).save(tmp_path / "photos/low.png")
    Image.new("RGBA", (60, 60), (1, 2, 3, 4)).save(tmp_path / "photos/glass.png")
    (tmp_path / "photos/notes.txt").write_text("no photograph")
    return tmp_path / "photos"


def contents(folder):
    """Read all files of a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_make_and_run_as_typed(model, photos, tmp_path, call):
    parts = model.parent
    line = f"field make --weights {parts}/weights --predictor {parts}/predictor.json --decider {parts}/decider.json"
    code, out, err = call(f"{line} --windows 24 --out {tmp_path}/MODEL")
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path}/MODEL: 4 classes in windows of 24 × 24. pip with threshold ")
    made, expected = contents(tmp_path / "MODEL"), contents(model)
    for name in ("field.json", "CARD.md"):  # these record the command
        assert f"field make --weights {parts}/weights" in made.pop(name).decode()
        assert b"field make" not in expected.pop(name)
    assert made == expected
    code, out, err = call(f"field run {tmp_path}/MODEL {photos} --out {tmp_path}/out")
    assert (code, err) == (0, "")
    assert out.startswith("4 photographs, 24 windows: ")
    for problem in (
        "cut.png is damaged or no image",
        "glass.png is partly transparent",
        "low.png: The image is 79 × 20",
    ):
        assert problem in out
    assert f"the photographs with their windows: {tmp_path}/out/field.html" in out
    page = (tmp_path / "out/field.html").read_text()
    assert "3 photographs were skipped" in page
    assert f"{photos}/cut.png is damaged or no image" in page
    assert sorted(path.name for path in (tmp_path / "out/drawn").iterdir()) == ["a-2.jpg", "a.jpg", "b.jpg", "c.jpg"]


def test_each_line_is_a_record_of_look(model, photos, tmp_path, call):
    assert call(f"field run {model} {photos} --out {tmp_path}/out")[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "out/results.jsonl").read_text().splitlines()]
    table = polars.read_parquet(tmp_path / "out/results.parquet")
    names = ["photo", "row", "column", "set", "action", "certificate", "credibility", "novelty", "careful"]
    assert table.columns == names
    assert table.to_dicts() == lines
    loaded = FieldModel.load(model)
    expected = []
    for name in ("a.png", "b.jpg", "c.png", "more/a.png"):
        records = loaded.look(photos / name).records()
        expected += [{"photo": (photos / name).as_posix(), **record} for record in records]
    assert lines == expected
    reported = json.loads((tmp_path / "out/run.json").read_text())
    assert reported["photographs"] == {"looked at": 4, "skipped": 3}
    assert sum(reported["counts"].values()) == reported["windows"] == 24
    buffer = io.BytesIO()
    loaded.look(photos / "more/a.png").draw().save(buffer, "JPEG", quality=90, subsampling=0)
    assert (tmp_path / "out/drawn/a-2.jpg").read_bytes() == buffer.getvalue()


def test_other_windows_and_single_files(model, photos, tmp_path, call):
    code, out, err = call(
        f"field run {model} {photos}/a.png {photos}/a.png {photos}/b.jpg --out {tmp_path}/o --windows 12"
    )
    assert code == 0
    words = (
        "but the images of the training and the calibration have 24 × 24 pixels, so sets and actions have no guarantee"
    )
    assert words in err
    assert words in json.loads((tmp_path / "o/run.json").read_text())["model"]
    assert out.startswith("2 photographs, 48 windows: ")  # 55 × 79 pixels


def test_other_formats_are_counted_and_reasons_are_true(model, photos, tmp_path, call):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/a.heic").write_bytes(b"not read")
    Image.new("1", (20_000, 20_000)).save(tmp_path / "more/huge.png")
    Image.fromarray(photograph(3)).save(tmp_path / "more/film.gif")
    code, out, _ = call(f"field run {model} {tmp_path}/more --out {tmp_path}/o")
    assert code == 0
    assert out.startswith("1 photograph, 6 windows: ")
    assert f"{tmp_path}/more/a.heic has the ending .heic, of a format that is not read" in out
    assert f"{tmp_path}/more/huge.png has more than 179 megapixels" in out


def test_a_run_without_any_photograph_fails(model, tmp_path, call):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/a.png").write_bytes(b"no image")
    code, out, err = call(f"field run {model} {tmp_path}/bad --out {tmp_path}/o")
    assert code == 2
    assert "0 photographs, 0 windows: nothing." in out
    assert err == (
        "pippin: Expected a photograph that can be processed, got none in 1 photograph: "
        f"see the reasons in {tmp_path}/o/run.json.\n"
    )


def test_the_longest_name_that_a_disk_takes(model, photos, tmp_path, call):
    """A photograph with the longest possible name is drawn, although its temporary file has a longer name."""
    (tmp_path / "long").mkdir()
    long = tmp_path / "long" / ("ü" * 125 + ".png")  # 254 bytes
    shutil.copy(photos / "a.png", long)
    code, out, err = call(f"field run {model} '{long}' --out {tmp_path}/o")
    assert (code, err) == (0, "")
    assert out.startswith("1 photograph, ")
    assert [path.name for path in (tmp_path / "o/drawn").iterdir()] == ["ü" * 75 + ".jpg"]


def test_no_pictures(model, photos, tmp_path, call):
    """A run without pictures has the results of one with pictures; a later run with pictures draws them."""
    assert call(f"field run {model} {photos} --out {tmp_path}/o --no-draw")[0] == 0
    assert call(f"field run {model} {photos} --out {tmp_path}/drawn")[0] == 0
    assert not (tmp_path / "o/drawn").exists()
    assert (tmp_path / "o/results.jsonl").read_bytes() == (tmp_path / "drawn/results.jsonl").read_bytes()
    assert call(f"field run {model} {photos} --out {tmp_path}/o")[0] == 0
    assert contents(tmp_path / "o/drawn") == contents(tmp_path / "drawn/drawn")
    assert (tmp_path / "o/field.html").read_bytes() == (tmp_path / "drawn/field.html").read_bytes()


RUNNING = "pippin.images.field_run"
PLACES = ("pippin.images.batch:Journal.append", f"{RUNNING}:write_atomically", f"{RUNNING}:FieldRun.process", "write")


def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been(model, photos, tmp_path, call):
    """A run that is killed at eight events, and resumed each time, writes the files of an uninterrupted run."""
    assert call(f"field run {model} {photos} --out {tmp_path}/whole")[0] == 0
    rng = np.random.default_rng(0)
    events = [("pippin.images.batch:Journal.append", 1, "before")]  # before the journal begins
    events += [
        (str(rng.choice(PLACES)), int(rng.integers(1, 4)), str(rng.choice(["before", "after"]))) for _ in range(7)
    ]
    command = ["field", "run", str(model), str(photos), "--out", str(tmp_path / "out")]
    ends = killed_in_turn(events, *command, modules=HEAVY)
    assert set(ends) <= {9, 0}
    assert ends.count(9) >= 6
    assert call(" ".join(command))[0] == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_what_is_done_is_not_done_again(model, photos, tmp_path, call, monkeypatch):
    assert call(f"field run {model} {photos} --out {tmp_path}/out")[0] == 0
    before = contents(tmp_path / "out")
    looked = []
    real = FieldModel.look
    monkeypatch.setattr(FieldModel, "look", lambda self, image: looked.append(image.size) or real(self, image))
    assert call(f"field run {model} {photos} --out {tmp_path}/out")[0] == 0
    assert looked == []
    assert contents(tmp_path / "out") == before
    Image.fromarray(photograph(7)).save(photos / "c.png")
    (tmp_path / "out/drawn/b.jpg").unlink()
    assert call(f"field run {model} {photos} --out {tmp_path}/out")[0] == 0
    assert len(looked) == 2


@pytest.mark.parametrize("drawn", ["../../pwn.jpg", "/tmp/pwn.jpg", "drawn/../../pwn.jpg", "drawn/..", "pwn.jpg", ""])
def test_a_journal_names_no_place_outside(model, photos, tmp_path, call, drawn):
    """Pictures are drawn in their folder, whatever path an edited journal names."""
    assert call(f"field run {model} {photos} --out {tmp_path}/in/out")[0] == 0
    before, journal = contents(tmp_path / "in/out"), tmp_path / "in/out/.field.journal"
    header, *entries = journal.read_text().splitlines()
    entries = [json.dumps(json.loads(entry) | {"drawn": drawn, "sha256": "0"}) for entry in entries]
    journal.write_text("\n".join([header, *entries, ""]))
    assert call(f"field run {model} {photos} --out {tmp_path}/in/out")[0] == 0
    assert not list(tmp_path.rglob("pwn.jpg"))
    after = contents(tmp_path / "in/out")
    assert {name: after[name] for name in before if "journal" not in str(name)} == {
        name: before[name] for name in before if "journal" not in str(name)
    }


def test_wrong_use_is_one_sentence(model, photos, tmp_path, call):
    shutil.copytree(photos, tmp_path / "out")
    for line, sentence in (
        (f"{model} {tmp_path}/none --out {tmp_path}/o", f"there is no {tmp_path}/none: check the path"),
        (f"{model} {photos} --out {photos}/o", "Expected --out outside the photographs"),
        (f"{model} --out {tmp_path}/o", "Expected either photographs or --watch with a folder"),
        (f"{model} --watch {tmp_path}/none --out {tmp_path}/o", "Expected --watch to be a folder"),
        (f"{model} --watch {photos} --out {photos}/o", "Expected --out outside the photographs"),
        (f"{model} {photos} --monitor m.json --out {tmp_path}/o", "Expected --watch with a monitor"),
        (f"{model} --watch {photos} --no-monitor --delta 0.1 --out {tmp_path}/o", "Expected --no-monitor without"),
        (f"{model} {photos} --out {tmp_path}/o --novelty 0.02", "the smallest p-value, got 0.02: raise it, or pass 0"),
        (f"{model} {photos} --out {tmp_path}/o --novelty 2", "Expected a level of novelty of at least 0 and below 1"),
        (f"{model} {photos} --out {tmp_path}/out", "has other files: choose another folder"),
        (f"{photos} {photos} --out {tmp_path}/o", f"{photos} is no field model"),
        (f"{model} {photos} --out {tmp_path}/o --device tpu", "Expected --device to be auto or cpu or cuda"),
    ):
        code, _, err = call(f"field run {line}")
        assert code == 2
        assert sentence in err
        assert err.count("\n") == 1
    assert not (tmp_path / "o").exists()
    assert call(f"field run {model} {photos}/a.png --out {tmp_path}/o")[0] == 0
    code, _, err = call(f"field run {model} {photos}/a.png --out {tmp_path}/o --windows 12")
    assert (code, "holds results of another model, or of other windows" in err) == (2, True)


def test_drawings_scale_with_the_window_and_clean_copies_have_none():
    """In a large photograph of small windows, at least half of each window is not covered; frames and words are."""
    from PIL import ImageChops

    from pippin.decisions import Utility, decide
    from pippin.images.drawing import clean_copy
    from pippin.images.field_model import Look

    rows, columns, side = 15, 20, 112
    image = Image.fromarray(np.full((rows * side, columns * side, 3), 120, np.uint8))
    n = rows * columns
    sets = pippin.PredictionSets.from_labels([["a", "b"]] * n, ("a", "b"))
    utility = Utility({"spray": {"a": 1, "b": -1}, "ask": {"a": 0, "b": 0}})
    logits, p_values = np.zeros((n, 2), np.float32), np.ones((n, 2))
    look = Look(image, side, (rows, columns), logits, sets, p_values, decide(sets, utility))
    drawn = look.draw().crop((0, 0, columns * side, rows * side))
    changed = np.asarray(ImageChops.difference(drawn, image)).any(axis=2)
    covered = changed.reshape(rows, side, columns, side).mean(axis=(1, 3))
    assert covered.max() < 0.5
    assert covered.min() > 0.02
    assert clean_copy(image, side) is image
    assert clean_copy(image, 448).size == (columns * side // 2, rows * side // 2)
