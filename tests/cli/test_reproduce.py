"""`pippin reproduce` on a folder of images: coverage, steps that are skipped, and photographs in the report."""

import json
import re
import shlex
from html import unescape
from importlib import import_module

import numpy as np
import polars
import pytest

import pippin
from pippin.cli.report.page import EACH, first_split, photo_kinds, photo_section, thumbnail
from pippin.cli.reproduce import run_step
from pippin.tables.reading import read_data
from support.synthetic_images import CLASSES, make_images

pytestmark = pytest.mark.usefixtures("one_thread")

OUTPUTS = (
    "train/probs.npz",
    "sweep-repip/sweep.csv",
    "sweep-raps/sweep.csv",
    "summary.csv",
    "report.html",
    "model/field.json",
)


def done(err):
    """Return the steps that were not skipped."""
    return [line[:-2] for line in err.splitlines() if line.endswith(" …")]


def test_the_whole_experiment_has_valid_coverage(tmp_path, call):
    """On 240 small images and a new ResNet18, the mean coverage of each score agrees with theory."""
    make_images(tmp_path / "images", 240, noise=100)
    line = (
        f"reproduce images {tmp_path}/images --out {tmp_path}/out --weights none --size 24 --batch 32 --epochs 3 "
        "--train-fraction 0.5 --splits 1000 --features"
    )
    code, out, err = call(line)
    assert code == 0, err
    with np.load(tmp_path / "out/train/probs.npz") as file:
        assert len(file["features"]) == len(file["labels"])
    assert done(err) == ["train", "sweep of repip", "sweep of raps", "compare", "field model"]
    assert f"Next: pippin field run {tmp_path}/out/model PHOTOS --out results" in out
    photo = next((tmp_path / "images/ring").iterdir())
    code, reported, _ = call(f"field run {tmp_path}/out/model {photo} --out {tmp_path}/results")
    assert (code, reported[:22]) == (0, "1 photograph, 1 window")
    assert f"The report, with photographs: {tmp_path}/out/report.html" in out
    summary = polars.read_csv(tmp_path / "out/summary.csv")
    n = round(0.45 * 120)
    level = np.ceil(0.9 * (n + 1)) / (n + 1)
    assert summary["score"].to_list() == list(map(str, pippin.scores.PAPER))
    assert np.abs(summary["coverage"].to_numpy() - level).max() < 0.01
    assert summary["mean_size"].max() < 4
    for score in ("repip", "raps"):
        swept = polars.read_csv(tmp_path / f"out/sweep-{score}/sweep.csv")
        assert len(swept) == 10
        assert np.abs(swept["coverage"].to_numpy() - level).max() < 0.02
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("data:image/jpeg;base64,") >= EACH
    assert re.search(r"<b>(blob|columns|ring|rows)</b><span class", page)
    assert "<h1>Which score for images?</h1>" in page
    assert page.index("Photographs and their prediction sets") < page.index("How to reproduce this report")
    assert shlex.join(["pippin", *shlex.split(line)]) in unescape(page)


@pytest.mark.usefixtures("blank_figures")
def test_steps_that_still_hold_are_skipped(tmp_path, tiny, call):
    """Steps whose outputs were changed, deleted or made from other inputs are repeated."""
    images, out = make_images(tmp_path / "images", 120, size=16), tmp_path / "out"
    line = f"reproduce images {images} --out {out} --weights {tiny} --size 16 --epochs 1 --splits 20 --sweep-splits 5"
    every = ["train", "sweep of repip", "sweep of raps", "compare", "field model"]
    assert done(call(line)[2]) == every
    before = {name: (out / name).stat().st_mtime_ns for name in OUTPUTS}
    code, _, err = call(line)
    assert (code, err.count("up to date")) == (0, 5)
    assert before == {name: (out / name).stat().st_mtime_ns for name in OUTPUTS}
    (out / "sweep-raps/sweep.csv").write_text("edited")
    (out / "sweep-repip/step.json").write_text("{")
    assert done(call(f"{line} --device cpu")[2]) == ["sweep of repip", "sweep of raps"]
    (out / "report.html").unlink()
    assert done(call(line)[2]) == ["compare"]
    make_images(images, 8, size=16, seed=1)
    assert done(call(line)[2]) == every
    make_images(images, 8, size=16)  # as it was
    weights = tiny / "model.safetensors"
    kept = weights.read_bytes()
    (out / "train/train.checkpoint.pt").unlink(missing_ok=True)
    try:
        weights.write_bytes((out / "train/weights/model.safetensors").read_bytes())
        assert done(call(line)[2]) == every
    finally:
        weights.write_bytes(kept)


@pytest.mark.usefixtures("blank_figures")
def test_we3ds_is_prepared_first(tmp_path, tiny, call, monkeypatch):
    """`reproduce we3ds` cuts windows of the paper's size, and trains with mirroring in both directions."""
    asked = []

    def cut(download, windows, **options):
        asked.append((str(download), options))
        make_images(windows, 80, size=224, photos=10)

    monkeypatch.setattr(import_module("pippin.cli.prepare"), "we3ds", cut)
    line = f"reproduce we3ds WE3DS.zip --out {tmp_path}/out --weights {tiny} --size 16 --epochs 1 --seed 4"
    code, _, err = call(f"{line} --splits 5 --sweep-splits 5 --group photo")
    assert (code, len(done(err))) == (0, 5)
    assert asked == [("WE3DS.zip", {"window": 224, "seed": 4})]
    assert json.loads((tmp_path / "out/model/field.json").read_text())["window"] == 224
    assert "of 3 units" in pippin.load(tmp_path / "out/model/predictor.json").describe()
    chosen = json.loads((tmp_path / "out/train/train.json").read_text())["options"]
    assert (chosen["flips"], chosen["group"], chosen["seed"], chosen["train_fraction"]) == ("both", "photo", 4, 0.7)


def test_wrong_use_is_one_sentence_and_leaves_nothing(tmp_path, call):
    for rest in ("", "--epochs 0"):
        code, out, err = call(f"reproduce images {tmp_path}/none --out {tmp_path}/out {rest}")
        assert (code, out, err.count("\n")) == (2, "", 1)
    assert not list(tmp_path.iterdir())
    assert call("reproduce")[0] == 2


def test_a_failed_step_leaves_no_note(tmp_path, capsys):
    def fail():
        raise ValueError("no")

    made, note = tmp_path / "made", tmp_path / "note.json"
    assert run_step("it", note, {"a": (1, 2)}, [made], lambda: made.write_text("x") and None)
    assert not run_step("it", note, {"a": (1, 2)}, [made], fail)
    with pytest.raises(ValueError, match="no"):
        run_step("it", note, {"a": (1, 3)}, [made], fail)
    assert not note.exists()
    assert capsys.readouterr().err == "it …\nit: up to date\nit …\n"


# Photographs

SETS = pippin.PredictionSets(np.array([1, 1, 0, 3, 2]), np.array([0, 1, 2, 1, 0, 0, 1]), ("a<b", "corn_spurry", "rye"))
LABELS = np.array([0, 0, 1, 0, 2])


def test_photographs_are_shown_by_kind(tmp_path):
    make_images(tmp_path, 4)
    files = ["blob/picture-0000.png"] * 4 + ["gone.png"]
    found = photo_kinds({"raps": SETS}, LABELS)
    assert {heading: rows.tolist() for heading, (_, rows) in found.items()} == {
        "Correct singletons": [0],
        "Wrong singletons": [1],
        "The largest sets, of different true classes": [3, 4],
        "Empty sets": [2],
    }
    section = photo_section(tmp_path, files, {"raps": SETS}, LABELS)
    assert section.count("<li>") == 5
    assert section.count("<img ") == 4  # one is gone
    assert '<span class="in">a&lt;b ✓</span>' in section
    assert '<span class="out">corn spurry</span>' in section
    assert "<b>corn spurry</b>no class" in section
    assert "a<b" not in section


def test_empty_sets_may_be_another_scores(tmp_path):
    full = pippin.PredictionSets(np.ones(5, dtype=int), LABELS, SETS.classes)
    section = photo_section(tmp_path, ["gone.png"] * 5, {"repip": full, "raps": SETS}, LABELS)
    assert "<h3>Empty sets, under raps</h3>" in section
    assert section.count("<p>None on the first split.</p>") == 2
    section = photo_section(tmp_path, ["gone.png"] * 5, {"repip": full}, LABELS)
    assert "<h3>Empty sets</h3>\n<p>None on the first split.</p>" in section


def test_long_sets_are_cut_and_few_photographs_stand_for_many(tmp_path):
    names = tuple(f"class {k}" for k in range(9))
    sets = pippin.PredictionSets(np.full(50, 9), np.tile(np.arange(9), 50), names)
    section = photo_section(tmp_path, ["gone.png"] * 50, {"ip": sets}, np.full(50, 8))
    assert section.count("and 3 more, the true one too") == section.count("<li>") == 1
    one = pippin.PredictionSets(np.ones(50, dtype=int), np.zeros(50, dtype=int), names)
    assert photo_kinds({"ip": one}, np.zeros(50, dtype=int))["Correct singletons"][1].tolist() == [
        0,
        9,
        19,
        29,
        39,
        49,
    ]


def test_the_largest_sets_are_of_different_kinds():
    """The largest sets of different true classes, without repeated sets, by size."""
    rows = [[0, 1, 2, 3], [3, 2, 1, 0], [0, 1, 2], [2, 1, 0], [1, 2, 3], [0, 1], [2, 3], [2], []]
    labels = np.array([0, 1, 0, 1, 1, 2, 3, 2, 3])
    names = tuple("abcd")
    sets = pippin.PredictionSets(np.array([len(row) for row in rows]), np.concatenate(rows).astype(int), names)
    (heading,) = (name for name in photo_kinds({"ip": sets}, labels) if "largest" in name)
    assert photo_kinds({"ip": sets}, labels)[heading][1].tolist() == [0, 1, 2, 3, 5, 6]
    assert heading == "The largest sets, of different true classes"
    alike = pippin.PredictionSets(np.full(40, 4), np.tile(np.arange(4), 40), names)
    assert photo_kinds({"ip": alike}, np.arange(40) // 20)[heading][1].tolist() == [0, 20]


def test_sets_of_photographs_are_those_that_compare_evaluates(tmp_path):
    """The photographs in the report are rows of the comparison's first split, with their sets."""
    from pippin._compare.methods import parse_methods
    from pippin._compare.report_data import study
    from pippin._compare.splits import make_trial

    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (400, 4)).astype(np.float32)
    labels = np.array([rng.choice(4, p=p) for p in np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)])
    np.savez(tmp_path / "p.npz", logits=logits, labels=labels, classes=np.array(CLASSES))
    data = read_data(tmp_path / "p.npz")
    rows, sets = first_split(data, 0.2, 0.45, 3)
    expected = study(make_trial(data.labelled, 0.2, 0.45, 3), parse_methods(sets), 5)
    assert {*expected.evaluations} <= {*sets}  # with four classes, aps and raps coincide
    for name, of_split in expected.evaluations.items():
        assert str(pippin.evaluate(sets[name], np.array(CLASSES)[labels[rows]], alpha=0.2)) == str(of_split)


def test_a_thumbnail_is_a_small_jpeg(tmp_path):
    make_images(tmp_path, 4, size=300)
    text = thumbnail(tmp_path / "blob/picture-0000.png")
    assert re.fullmatch(r"/9j/[\w+/=]+", text)
    assert len(text) < 20_000
    (tmp_path / "bad.png").write_bytes(b"no")
    assert thumbnail(tmp_path / "bad.png") is None
