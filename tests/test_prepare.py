"""Photographs into windows: every count and label against a slow rule, bad data, kills, and what is refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import polars
import pytest
from PIL import Image

from pippin.data import workers
from pippin.data.journal import JOURNAL
from pippin.data.prepare import prepare_we3ds
from pippin.data.we3ds import RARE, mask_classes, reading
from pippin.data.windows import Options, label_windows
from pippin.data.workers import Workers
from pippin.report.windows import write_windows
from we3ds_tree import (
    IMAGES,
    MASKS,
    broken_files,
    made_files,
    made_photograph,
    photo_name,
    png,
    write_folder,
    write_zip,
)

NAMES = [known.name for known in mask_classes()]
CROPS = {"broad bean", "common buckwheat", "pea", "corn", "soybean", "sunflower", "sugar beet"}
SMALL = (200, 330)
OPTIONS = Options(window=32, soil=40)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Three photographs of the real size: (folder, masks)."""
    files, masks = made_files(range(3))
    return write_folder(tmp_path_factory.mktemp("full"), files, "WE3DS/"), masks


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Nine small photographs: (folder, masks)."""
    files, masks = made_files(range(9), SMALL)
    return write_folder(tmp_path_factory.mktemp("small"), files), masks


def slow_label(counts: Counter, rule: str) -> str | None:
    """The label as the text says it."""
    best = None
    for value in range(1, 19):
        counted = value > 1 or rule == "all"
        if counted and counts[value] > 0 and (best is None or counts[value] > counts[best]):
            best = value
    if best is None and counts[1] > 0:
        best = 1
    return None if best is None else NAMES[best]


def slow_windows(masks, window, rule):
    """(photo, row, column) → (label, counts), by walking over the pixels."""
    found = {}
    for photo, mask in masks.items():
        row = 0
        while (row + 1) * window <= len(mask):
            column = 0
            while (column + 1) * window <= len(mask[0]):
                part = mask[row * window : (row + 1) * window, column * window : (column + 1) * window]
                counts = Counter(part.ravel().tolist())
                found[photo, row, column] = (slow_label(counts, rule), [counts[value] for value in range(19)])
                column += 1
            row += 1
    return found


def content(folder: Path) -> dict[str, bytes]:
    """Every file below the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def times(folder: Path) -> dict[str, int]:
    """When each file was last written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def check_against_the_slow_rule(out, masks, options):
    """The table, the counts of the record, and every pixel written."""
    expected = slow_windows(masks, options.window, options.label)
    table = polars.read_parquet(out / "windows.parquet")
    assert table.columns == ["file", "photo", "row", "column", "label", *NAMES]
    for file, photo, row, column, label, *counts in table.iter_rows():
        assert (label, counts) == expected[photo, row, column]
        assert file == f"{label}/{photo}_{row}_{column}.png"
    before = Counter(label for label, _ in expected.values())
    kept = {name: n for name, n in before.items() if name is not None and name not in options.drop}
    if "soil" in kept:
        kept["soil"] = min(options.soil, before["soil"])
    assert Counter(table["label"]) == Counter(kept)
    assert {str(path.relative_to(out)) for path in out.rglob("*/*.png")} == set(table["file"])
    record = json.loads((out / "prepare.json").read_text())
    assert {c["name"]: (c["before"], c["after"]) for c in record["classes"]} == {
        name: (before[name], kept.get(name, 0)) for name in NAMES[1:]
    }
    size = sum(path.stat().st_size for path in out.rglob("*/*.png"))
    written = {"written": sum(kept.values()), "bytes": size}
    assert record["windows"] == {"cut": len(expected), "all void": before[None], **written}
    side = options.window
    for file, photo, row, column, *_ in table.iter_rows():
        photograph = made_photograph(masks[photo])
        part = photograph[row * side : (row + 1) * side, column * side : (column + 1) * side]
        np.testing.assert_array_equal(np.asarray(Image.open(out / file)), part)
    return record


# What is cut


def test_the_class_table_is_that_of_the_dataset():
    """Value by value; which plants are crops, and which are left out."""
    table = """void soil broad_bean corn_spurry red-root_amaranth common_buckwheat pea red_fingergrass common_wild_oat
        cornflower corn_cockle corn milk_thistle rye_brome soybean sunflower narrow-leaved_plantain
        small-flower_geranium sugar_beet"""
    assert [name.replace("_", " ") for name in table.split()] == NAMES
    assert [known.value for known in mask_classes()] == list(range(19))
    assert {known.name for known in mask_classes() if known.group == "crop"} == CROPS
    assert Counter(known.group for known in mask_classes()) == {"void": 1, "soil": 1, "crop": 7, "weed": 10}
    assert set(RARE) <= {known.name for known in mask_classes() if known.group == "weed"}


@pytest.mark.parametrize("rule", ["plant", "all"])
def test_photographs_of_the_real_size(rule, full, call, tmp_path):
    """35 windows each, 13 classes or fewer, all soil where there is less than was asked for; both figures."""
    folder, masks = full
    code, printed, err = call(f"prepare we3ds {folder} --out {tmp_path / 'out'} --label {rule} --workers 2")
    assert (code, err) == (0, "")
    record = check_against_the_slow_rule(tmp_path / "out", masks, Options(label=rule))
    assert record["windows"]["cut"] == 35 * len(masks)
    assert record["windows"]["all void"] > 0
    assert sum(known["after"] > 0 for known in record["classes"]) <= 13
    assert all(known["after"] == 0 for known in record["classes"] if known["name"] in RARE)
    assert record["run"]["options"] == {"window": 224, "label": rule, "soil": 1500, "drop": list(RARE), "seed": 0}
    assert {"pippin-conformal", "numpy", "pillow", "polars", "python"} == set(record["versions"])
    for words in ("3 of 3 photographs gave 105 windows", "per second", "MB of memory", "cutting.png", "sugar beet"):
        assert words in printed
    for name in ("cutting.png", "cutting.svg", "counts.png", "counts.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 10_000
    assert not list((tmp_path / "out").rglob(".*"))


@pytest.mark.parametrize("rule", ["plant", "all"])
@pytest.mark.parametrize("window", [32, 47, 64, 110, 200])
@pytest.mark.parametrize("drop", [(), ("pea", "cornflower")])
def test_other_windows_and_classes(rule, window, drop, small, tmp_path):
    options = Options(window, rule, 7, drop, seed=5)
    prepare_we3ds(small[0], tmp_path, options, workers=1)
    record = check_against_the_slow_rule(tmp_path, small[1], options)
    assert record["windows"]["cut"] == 9 * (SMALL[0] // window) * (SMALL[1] // window)


def test_soil_can_be_dropped(small, tmp_path):
    options = Options(32, drop=("soil",))
    prepare_we3ds(small[0], tmp_path, options, workers=1)
    check_against_the_slow_rule(tmp_path, small[1], options)


def test_masks_with_a_palette_keep_their_values(tmp_path):
    """An index is not the grey of its colour."""
    files, masks = made_files(range(2), SMALL, mode="P")
    prepare_we3ds(write_folder(tmp_path / "in", files), tmp_path / "out", OPTIONS, workers=1)
    check_against_the_slow_rule(tmp_path / "out", masks, OPTIONS)


def test_photographs_of_many_sizes(tmp_path):
    """Each is cut on its own grid."""
    files, masks = {}, {}
    for i, size in enumerate([(64, 40), (33, 100), (32, 32)]):
        these, mask = made_files([i], size)
        files |= {name.replace(photo_name(0), f"odd_{i}_1"): data for name, data in these.items()}
        masks[f"odd_{i}_1"] = mask[photo_name(0)]
    prepare_we3ds(write_folder(tmp_path / "in", files), tmp_path / "out", OPTIONS, workers=1)
    check_against_the_slow_rule(tmp_path / "out", masks, OPTIONS)


@pytest.mark.parametrize(
    ("counts", "plant", "everything"),
    [
        ({0: 5}, "void", "void"),
        ({0: 5, 1: 1}, "soil", "soil"),
        ({0: 900, 1: 90, 6: 1}, "pea", "soil"),
        ({1: 4, 6: 3, 11: 3}, "pea", "soil"),  # ties: the lower value
        ({1: 3, 18: 3}, "sugar beet", "soil"),
        ({11: 3, 18: 3, 12: 2}, "corn", "corn"),
        ({1: 2, 18: 3, 12: 2}, "sugar beet", "sugar beet"),
        ({0: 9, 18: 1}, "sugar beet", "sugar beet"),
    ],
)
def test_labels(counts, plant, everything):
    row = np.array([counts.get(value, 0) for value in range(19)])
    assert NAMES[label_windows(row, "plant")] == plant
    assert NAMES[label_windows(row, "all")] == everything


# What is drawn


def test_a_seed_draws_the_same_soil_and_another_seed_other_soil(small, tmp_path):
    soil = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        options, draw = Options(32, soil=20, seed=seed), None if seed else write_windows
        prepare_we3ds(small[0], tmp_path / name, options, workers=1, draw=draw)
        soil[name] = {path.name for path in (tmp_path / name / "soil").iterdir()}
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert soil["a"] != soil["c"]
    assert all(len(drawn) == 20 for drawn in soil.values())
    photographs = Counter(name.rsplit("_", 2)[0] for seed in soil.values() for name in seed)
    assert len(photographs) == 9  # from everywhere


def test_every_window_of_soil_is_as_likely(small, tmp_path):
    """Over many seeds each is drawn about as often."""
    from pippin.data.windows import choose

    names, labels = [f"photo_{i}" for i in range(50)], np.ones(50, np.uint8)
    drawn = sum(choose(names, labels, Options(soil=10, seed=seed)).astype(int) for seed in range(1000))
    assert drawn.sum() == 10_000
    assert np.all(np.abs(drawn - 200) < 75)  # six standard deviations


@pytest.mark.parametrize("top", ["", "WE3DS/"])
@pytest.mark.parametrize("kind", ["folder", "stored", "packed"])
def test_zip_or_folder_gives_the_same_files(top, kind, small, tmp_path):
    prepare_we3ds(small[0], tmp_path / "expected", OPTIONS, workers=1)
    files = {name: (small[0] / name).read_bytes() for name in content(small[0]) if name.endswith(".png")}
    if kind == "folder":
        path = write_folder(tmp_path / "in", files, top)
    else:
        method = zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED
        path = write_zip(tmp_path / "WE3DS.zip", files, top, method)
    prepare_we3ds(path, tmp_path / "out", OPTIONS, workers=2 if kind == "packed" else 1)
    assert content(tmp_path / "out") == content(tmp_path / "expected")


# Bad data

BROKEN, REASONS = broken_files(SMALL)


@pytest.mark.parametrize("packed", [False, True])
def test_bad_photographs_are_named_and_change_nothing_else(packed, small, call, tmp_path):
    """Sound photographs give what they give without the bad ones, also where one is found to be bad only late."""
    prepare_we3ds(small[0], tmp_path / "expected", OPTIONS, workers=1)
    files = {name: (small[0] / name).read_bytes() for name in content(small[0])} | BROKEN
    path = write_zip(tmp_path / "in.zip", files) if packed else write_folder(tmp_path / "in", files)
    out = tmp_path / "out"
    code, printed, err = call(f"prepare we3ds {path} --out {out} --window 32 --soil 40 --workers 2")
    assert (code, err) == (0, "")
    assert f"9 of {9 + len(REASONS)} photographs gave" in printed
    record = json.loads((out / "prepare.json").read_text())
    assert record["photographs"] == {"found": 9 + len(REASONS), "cut": 9, "skipped": len(REASONS)}
    said = {problem["file"]: problem["reason"] for problem in record["skipped"]}
    assert said.keys() == REASONS.keys()
    for file, reason in REASONS.items():
        assert said[file].startswith(reason)
        assert f"{file} {reason}" in printed
    made, expected = content(out), content(tmp_path / "expected")
    assert {n: d for n, d in made.items() if n.endswith(".parquet") or "/" in n} == {
        n: d for n, d in expected.items() if n != "prepare.json"
    }


@pytest.mark.parametrize("file", REASONS)
def test_strict_stops_at_a_bad_photograph(file, call, tmp_path):
    photo = Path(file).name
    folder = write_folder(tmp_path / "in", {n: d for n, d in BROKEN.items() if Path(n).name == photo})
    write_folder(folder, made_files([1], SMALL)[0])
    for _ in range(2):  # also on what an earlier attempt left
        code, printed, err = call(f"prepare we3ds {folder} --out {tmp_path / 'out'} --window 32 --workers 1 --strict")
        assert (code, printed) == (2, "")
        assert f"{file} {REASONS[file]}" in err
        assert err.count("\n") == 1
        assert not (tmp_path / "out" / "prepare.json").exists()
    prepare_we3ds(folder, tmp_path / "out", Options(32), workers=1)
    with pytest.raises(ValueError, match="--strict"):  # also on what was finished without it
        prepare_we3ds(folder, tmp_path / "out", Options(32), workers=1, strict=True)


def test_damage_inside_the_zip_file(small, tmp_path):
    """A member whose bytes changed is named; the others are cut."""
    files = {name: (small[0] / name).read_bytes() for name in content(small[0])}
    path = write_zip(tmp_path / "in.zip", files, method=zipfile.ZIP_STORED)
    data, start = bytearray(path.read_bytes()), files[f"{IMAGES}/img_00004.png"]
    data[data.index(start) + len(start) // 2] ^= 1
    path.write_bytes(data)
    done = prepare_we3ds(path, tmp_path / "out", OPTIONS, workers=1)
    assert done.record.skipped == [{"file": f"{IMAGES}/img_00004.png", "reason": "cannot be read"}]


def test_a_photograph_that_cannot_be_read(tmp_path):
    files, _ = made_files([1, 2], SMALL)
    folder = write_folder(tmp_path / "in", files)
    (folder / IMAGES / "img_00000.png").unlink()
    (folder / IMAGES / "img_00000.png").symlink_to(tmp_path / "nowhere")
    done = prepare_we3ds(folder, tmp_path / "out", OPTIONS, workers=1)
    assert done.record.skipped == [{"file": f"{IMAGES}/img_00000.png", "reason": "cannot be read"}]


# Stopped and run again

SLOWER = (400, 640)
LINE = ["prepare", "we3ds", "in.zip", "--out", "out", "--window", "32", "--soil", "300", "--workers", "2"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """A zip file with some bad photographs, and what a run without a break makes of it."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    files, _ = made_files(range(8), SLOWER)
    bad = ("undecodable", "three channels", "lonely mask")
    write_zip(folder / "in.zip", files | {n: d for n, d in BROKEN.items() if Path(n).stem in bad})
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "pippin.cli", *LINE], cwd=folder, check=True, capture_output=True)
    return folder, content(folder / "out"), time.monotonic() - began


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in tasks.read_text().split()] if tasks.exists() else []


def has_ended(process: int) -> bool:
    """Whether it is gone, or dead and waiting to be collected."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def run_and_kill(folder, is_time):
    """Kills the run, not its workers, when it is time; whether it was still alive. Its workers must follow."""
    process = subprocess.Popen([sys.executable, "-m", "pippin.cli", *LINE], cwd=folder, stdout=subprocess.DEVNULL)
    while process.poll() is None and not is_time():
        time.sleep(0.002)
    left = children(process.pid)
    process.send_signal(signal.SIGKILL)
    killed = process.wait() == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while not all(has_ended(child) for child in left):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.01)
    return killed


def lines_noted(out: Path) -> int:
    path = out / JOURNAL
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_points(seed, uninterrupted, tmp_path):
    """While masks are read, while windows are written, at any time: the rest of the work gives the same files."""
    folder, expected, seconds = uninterrupted
    shutil.copy(folder / "in.zip", tmp_path)
    out, rng = tmp_path / "out", np.random.default_rng(seed)
    n_windows = sum("/" in name for name in expected)
    masks, few, many = rng.integers(1, 8), rng.integers(1, n_windows // 2), rng.integers(n_windows // 2, n_windows)
    deadline = time.monotonic() + rng.uniform(0.1, seconds)
    points = [
        lambda: time.monotonic() > deadline,
        lambda: lines_noted(out) > masks,
        lambda: len(list(out.glob("*/*.png"))) >= few,
        lambda: len(list(out.glob("*/*.png"))) >= many,
    ]
    assert sum(run_and_kill(tmp_path, is_time) for is_time in points) >= 2
    earlier = {name: when for name, when in times(out).items() if name.endswith(".png") and "/" in name}
    subprocess.run([sys.executable, "-m", "pippin.cli", *LINE], cwd=tmp_path, check=True, capture_output=True)
    assert content(out) == expected
    later = times(out)
    assert all(later[name] == when for name, when in earlier.items())  # not cut again


def test_a_journal_cut_anywhere_is_resumed(small, tmp_path):
    expected = prepare_we3ds(small[0], tmp_path / "expected", OPTIONS, workers=1)
    out = tmp_path / "out"
    with pytest.raises(ZeroDivisionError):
        prepare_we3ds(small[0], out, OPTIONS, workers=1, draw=lambda *_: 1 / 0)
    whole = (out / JOURNAL).read_bytes()
    for cut in (*np.random.default_rng(0).integers(0, len(whole), 12).tolist(), 0, whole.index(b"\n") + 1, len(whole)):
        shutil.rmtree(out)
        out.mkdir()
        (out / JOURNAL).write_bytes(whole[:cut])
        assert prepare_we3ds(small[0], out, OPTIONS, workers=1).record == expected.record
        assert content(out) == content(tmp_path / "expected")


def test_a_finished_run_is_left_alone_and_mended(small, call, tmp_path):
    out = tmp_path / "out"
    line = f"prepare we3ds {small[0]} --out {out} --window 64 --drop none --workers 1"
    assert call(line)[0] == 0
    before, files = times(out), content(out)
    (out / JOURNAL).write_bytes(b"left by a kill after the end")
    code, printed, _ = call(line)
    assert code == 0
    assert "Nothing was left to do." in printed
    assert times(out) == before
    missing, short, empty, *_ = out.glob("*/*.png")
    missing.unlink()
    short.write_bytes(short.read_bytes()[:-5])
    empty.write_bytes(b"")
    (out / "windows.parquet").write_bytes(b"")
    assert call(line)[0] == 0
    assert content(out) == files
    mended = {str(path.relative_to(out)) for path in (missing, short, empty)}
    kept = {name: when for name, when in times(out).items() if "/" in name and name not in mended}
    assert kept.items() <= before.items()


# What is refused


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("--window 48", "--window 32, not 48"),
        ("--label all", "--label plant, not all"),
        ("--soil 3", "--soil 1500, not 3"),
        ("--seed 9", "--seed 0, not 9"),
        ("--drop none", "not none"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_other_options_on_the_same_folder(other, told, finished, small, call, tmp_path):
    out = tmp_path / "out"
    if finished:
        prepare_we3ds(small[0], out, Options(32), workers=1)
    else:
        with pytest.raises(ZeroDivisionError):
            prepare_we3ds(small[0], out, Options(32), workers=1, draw=lambda *_: 1 / 0)
    before = content(out)
    code, _, err = call(f"prepare we3ds {small[0]} --out {out} --window 32 --workers 1 {other}")
    assert code == 2
    assert told in err
    assert err.count("\n") == 1
    assert content(out) == before


def test_other_photographs_on_the_same_folder(small, call, tmp_path):
    prepare_we3ds(small[0], tmp_path / "out", Options(32), workers=1)
    other = write_folder(tmp_path / "in", made_files(range(3, 5), SMALL)[0])
    code, _, err = call(f"prepare we3ds {other} --out {tmp_path / 'out'} --window 32")
    assert code == 2
    assert "made with other photographs" in err


def spoil(folder: Path, case: str) -> str:
    """Prepares a wrong use; the command."""
    sound = "good" if case not in ("no such", "layout", "no masks", "text", "bzip", "all bad") else case
    files, _ = made_files([0], SMALL)
    write_folder(folder / "good", files)
    (folder / "layout").mkdir()
    write_folder(folder / "no masks", {n: d for n, d in files.items() if n.startswith(IMAGES)})
    (folder / "text").write_text("not a zip file")
    write_zip(folder / "bzip", files, method=zipfile.ZIP_BZIP2)
    bad = {f"{MASKS}/a.png": png(np.full((40, 40), 77, np.uint8)), f"{IMAGES}/a.png": b""}
    write_folder(folder / "all bad", bad)
    (folder / "other").mkdir()
    (folder / "other" / "thesis.txt").write_text("precious")
    (folder / "damaged").mkdir()
    (folder / "damaged" / "prepare.json").write_text('{"format": "pippin windows"')
    (folder / "file").write_text("")
    out = case if case in ("other", "damaged", "file") else "out"
    options = {"names": "--drop peas,corn", "window": "--window 31", "soil": "--soil -1", "rule": "--label best"}
    everything = f"--soil 0 --drop '{','.join(NAMES[2:])}'"
    return f"prepare we3ds '{sound}' --out {out} --workers 1 --window 32 " + (
        everything if case == "nothing left" else options.get(case, "")
    )


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("no such", "there is no no such: check the path"),
        ("layout", "found none in layout: name the unpacked WE3DS folder or WE3DS.zip itself"),
        ("no masks", "found none in no masks"),
        ("text", "text is no zip file, or is damaged or cut short: download it again"),
        ("bzip", "packed in another way: unpack it"),
        ("all bad", "all 1 are bad, the first because annotations/segmentation/SegmentationLabel/a.png holds unknown"),
        ("other", "other holds other files: choose another folder"),
        ("damaged", "prepare.json is damaged or something else"),
        ("file", "file is a file: choose another name"),
        ("names", "got 'peas': correct the name"),
        ("nothing left", "none has any that stay: drop fewer classes"),
        ("window", "32"),
        ("soil", "'--soil'"),
        ("rule", "'plant', 'all'"),
    ],
)
def test_wrong_use_is_one_sentence(case, told, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, printed, err = call(spoil(tmp_path, case))
    assert (code, printed) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert (tmp_path / "other" / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize("wrong", [{"window": 31}, {"soil": -1}, {"seed": -1}, {"label": "best"}, {"drop": ("void",)}])
def test_options_are_looked_at_in_python_too(wrong):
    with pytest.raises(ValueError, match="Expected"):
        Options(**wrong)


def test_without_pillow(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ValueError, match=r"pip install \"pippin-conformal\[vision\]\""):
        prepare_we3ds(small[0], tmp_path / "out")


# Processes


def double(read, item):
    return 2 * item


def die(read, item):
    os._exit(1)


@pytest.mark.parametrize("n", [1, 2])
def test_little_is_under_way_at_any_time(n, small):
    """Results come in order, and no more is taken from the items than the processes can use."""
    taken = []

    def items():
        for i in range(40):
            taken.append(i)
            yield i

    with Workers(n, partial(reading, small[0], "")) as crew:
        for i, result in enumerate(crew.map(double, items())):
            assert result == 2 * i
            assert len(taken) - i <= workers.AHEAD * n
        assert crew.megabytes > 10


def test_a_worker_that_dies_is_one_sentence(small):
    with Workers(2, partial(reading, small[0], "")) as crew, pytest.raises(ValueError, match="run the same command"):
        list(crew.map(die, range(5)))


# Figures


def test_figures_show_the_grid_and_every_class(small, tmp_path):
    from matplotlib.patches import Rectangle

    from pippin.report.windows import class_counts, cutting

    seen = {}
    prepare_we3ds(small[0], tmp_path, Options(64, drop=()), workers=1, draw=lambda *all_: seen.update(enumerate(all_)))
    example, record = seen[1], seen[2]
    figure = cutting(example)
    frames = [p for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    assert example.labels.shape == (3, 5)
    assert len(frames) == 15 + 2  # and what is left over
    texts = [text.get_text().replace("\n", " ") for text in figure.axes[0].texts]
    assert texts == [NAMES[value] for value in example.labels.ravel()]
    bars = class_counts(record.classes)
    for ax, key in zip(bars.axes, ("before", "after"), strict=True):
        names = [label.get_text() for label in bars.axes[0].get_yticklabels()]
        shown = dict(zip(names, (bar.get_width() for bar in ax.patches), strict=True))
        assert shown == {known["name"]: known[key] for known in record.classes}
