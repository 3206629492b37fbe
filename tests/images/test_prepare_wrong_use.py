"""Wrong use of `pippin prepare` is one error message: changed options, wrong paths, invalid options."""

import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pippin.images.prepare import prepare_we3ds
from pippin.images.windows import WindowOptions
from support.folders import content
from support.we3ds_tree import IMAGES, MASKS, NAMES, SMALL, made_files, png, write_folder, write_zip


@pytest.mark.parametrize(
    ("other", "reported"),
    [
        ("--window 48", "--window 32, not 48"),
        ("--label all", "--label plant, not all"),
        ("--soil 3", "--soil 1500, not 3"),
        ("--seed 9", "--seed 0, not 9"),
        ("--drop none", "not none"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_other_options_on_the_same_folder(other, reported, finished, photographs, call, tmp_path):
    out = tmp_path / "out"
    if finished:
        prepare_we3ds(photographs[0], out, WindowOptions(32), workers=1)
    else:
        with pytest.raises(ZeroDivisionError):
            prepare_we3ds(photographs[0], out, WindowOptions(32), workers=1, draw=lambda *_: 1 / 0)
    before = content(out)
    code, _, err = call(f"prepare we3ds {photographs[0]} --out {out} --window 32 --workers 1 {other}")
    assert code == 2
    assert reported in err
    assert err.count("\n") == 1
    assert content(out) == before


def test_other_photographs_on_the_same_folder(photographs, call, tmp_path):
    prepare_we3ds(photographs[0], tmp_path / "out", WindowOptions(32), workers=1)
    other = write_folder(tmp_path / "in", made_files(range(3, 5), SMALL)[0])
    code, _, err = call(f"prepare we3ds {other} --out {tmp_path / 'out'} --window 32")
    assert code == 2
    assert "made with other photographs" in err


def spoil(folder: Path, case: str) -> str:
    """Prepare a wrong use, and return the command."""
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
    ("case", "reported"),
    [
        ("no such", "no such is neither: check the path"),
        ("layout", "found none in layout: name the unpacked WE3DS folder or WE3DS.zip itself"),
        ("no masks", "found none in no masks"),
        ("text", "text is no zip file, or is damaged or cut short: download it again"),
        ("bzip", "packed otherwise: unpack it"),
        (
            "all bad",
            "all 1 are invalid, the first because annotations/segmentation/SegmentationLabel/a.png holds unknown",
        ),
        ("other", "other has other files: choose another folder"),
        ("damaged", "prepare.json is damaged, or no record of pippin prepare"),
        ("file", "file is a file: choose another name"),
        ("names", "got 'peas': correct the name"),
        ("nothing left", "have no selected windows: drop fewer classes"),
        ("window", "32"),
        ("soil", "'--soil'"),
        ("rule", "'plant', 'all'"),
    ],
)
def test_wrong_use_is_one_sentence(case, reported, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, printed, err = call(spoil(tmp_path, case))
    assert (code, printed) == (2, "")
    assert reported in err
    assert err.count("\n") == 1
    assert (tmp_path / "other" / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize("wrong", [{"window": 31}, {"soil": -1}, {"seed": -1}, {"label": "best"}, {"drop": ("void",)}])
def test_options_are_looked_at_in_python_too(wrong):
    with pytest.raises(ValueError, match="Expected"):
        WindowOptions(**wrong)


def test_without_pillow(photographs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"pip install \"pippin-conformal\[vision\]\""):
        prepare_we3ds(photographs[0], tmp_path / "out")
