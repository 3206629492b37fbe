"""Invalid photographs are listed, and do not change the windows of valid ones."""

import json
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from pippin.images.prepare import prepare_we3ds
from pippin.images.we3ds import find_download
from pippin.images.windows import WindowOptions
from support.folders import content
from support.we3ds_tree import IMAGES, OPTIONS, SMALL, broken_files, made_files, write_folder, write_zip

BROKEN, REASONS = broken_files(SMALL)


@pytest.mark.parametrize("packed", [False, True])
def test_invalid_photographs_are_listed_and_change_nothing_else(packed, photographs, call, tmp_path, no_figures):
    """The windows equal those without the invalid photographs, also if one fails only in the second pass."""
    prepare_we3ds(photographs[0], tmp_path / "expected", OPTIONS, workers=1)
    files = content(photographs[0]) | BROKEN
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
def test_strict_stops_at_an_invalid_photograph(file, call, tmp_path):
    photo = Path(file).name
    folder = write_folder(tmp_path / "in", {n: d for n, d in BROKEN.items() if Path(n).name == photo})
    write_folder(folder, made_files([1], SMALL)[0])
    for _ in range(2):  # also on what an earlier attempt left
        code, printed, err = call(f"prepare we3ds {folder} --out {tmp_path / 'out'} --window 32 --workers 1 --strict")
        assert (code, printed) == (2, "")
        assert f"{file} {REASONS[file]}" in err
        assert err.count("\n") == 1
        assert not (tmp_path / "out" / "prepare.json").exists()
    prepare_we3ds(folder, tmp_path / "out", WindowOptions(32), workers=1)
    with pytest.raises(ValueError, match="--strict"):  # also on what was finished without it
        prepare_we3ds(folder, tmp_path / "out", WindowOptions(32), workers=1, strict=True)


def test_damage_inside_the_zip_file(photographs, tmp_path):
    """A damaged member is listed; the other photographs are cut."""
    files = content(photographs[0])
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
    assert done.record.skipped == [
        {"file": f"{IMAGES}/img_00000.png", "reason": "cannot be read (No such file or directory)"}
    ]


def test_a_member_that_would_take_all_memory_is_not_read(photographs, tmp_path):
    """A zip member larger than memory is not read, since the zip directory states its size."""
    files = content(photographs[0]) | {f"{IMAGES}/bomb.png": bytes(257 << 20)}
    path = write_zip(tmp_path / "in.zip", files, method=zipfile.ZIP_DEFLATED)
    del files
    with find_download(path).open() as read:
        tracemalloc.start()
        with pytest.raises(OSError, match="File too large"):
            read(f"{IMAGES}/bomb.png")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
