"""Interrupted runs of `pippin prepare` resume, write the same files, and repeat no work."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from pippin.images.prepare import JOURNAL, prepare_we3ds
from support.command import run
from support.folders import content, times
from support.killed_processes import killed_with_stderr
from support.we3ds_tree import OPTIONS, SMALL, broken_files, made_files, write_zip

SLOWER = (400, 640)
LINE = ["prepare", "we3ds", "in.zip", "--out", "out", "--window", "32", "--soil", "300", "--workers", "2"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Write a zip file with some invalid photographs, and return it with the results of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    files, _ = made_files(range(8), SLOWER)
    broken, bad = broken_files(SMALL)[0], ("undecodable", "three channels", "lonely mask")
    write_zip(folder / "in.zip", files | {n: d for n, d in broken.items() if Path(n).stem in bad})
    run(*LINE, folder=folder, check=True)
    return folder, content(folder / "out")


RESULT = "pippin.images.batch:Workers._result"  # first of every mask, then of every photograph
NOTED = "pippin.images.batch:Journal.append"


def test_killed_anywhere(uninterrupted, tmp_path):
    """Killed before, during and after reading masks, and while writing windows: the files are the same."""
    folder, expected = uninterrupted
    shutil.copy(folder / "in.zip", tmp_path)
    out = tmp_path / "out"
    events = [(NOTED, 1, "before"), (NOTED, 3, "after"), (RESULT, 8, "before"), (RESULT, 4, "after")]
    assert killed_with_stderr(events, *LINE, modules=["pippin.cli", "PIL.Image"], folder=tmp_path)[0] == [9] * 4
    earlier = {name: when for name, when in times(out).items() if name.endswith(".png") and "/" in name}
    assert earlier
    run(*LINE, folder=tmp_path, check=True)
    assert content(out) == expected
    later = times(out)
    assert all(later[name] == when for name, when in earlier.items())  # not cut again


def test_a_journal_cut_anywhere_is_resumed(photographs, tmp_path):
    expected = prepare_we3ds(photographs[0], tmp_path / "expected", OPTIONS, workers=1)
    out = tmp_path / "out"
    with pytest.raises(ZeroDivisionError):
        prepare_we3ds(photographs[0], out, OPTIONS, workers=1, draw=lambda *_: 1 / 0)
    whole = (out / JOURNAL).read_bytes()
    for cut in (*np.random.default_rng(0).integers(0, len(whole), 12).tolist(), 0, whole.index(b"\n") + 1, len(whole)):
        shutil.rmtree(out)
        out.mkdir()
        (out / JOURNAL).write_bytes(whole[:cut])
        assert prepare_we3ds(photographs[0], out, OPTIONS, workers=1).record == expected.record
        assert content(out) == content(tmp_path / "expected")


def test_a_finished_run_is_left_alone_and_mended(photographs, call, tmp_path, blank_figures):
    out = tmp_path / "out"
    line = f"prepare we3ds {photographs[0]} --out {out} --window 64 --drop none --workers 1"
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
