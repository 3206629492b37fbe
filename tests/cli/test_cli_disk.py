"""Output of commands: a full disk, two runs at once, and paths that are not UTF-8."""

import errno
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import polars
import pytest

import pippin
from support.cli_data import LABELS, NAMES, PROBS
from support.folders import tree
from support.full_disk import files_of_at_most

WRITING = {
    "compare": ("compare data.npz --splits 3 --scores ip,pip --out out", 100, "out/compare.checkpoint.npz"),
    "compare late": ("compare data.npz --splits 3 --scores ip,pip --out out", 4000, "out/violins.png"),
    "sweep": ("sweep data.npz --splits 2 --values 0,0.1 --out out", 100, "out/sweep.parquet"),
    "toy": ("toy --out out", 100, "out/toy.png"),
    "calibrate": ("calibrate data.npz --out new.json", 100, "new.json"),
    "tune": ("tune data.npz --splits 2 --out new.json", 100, "new.json"),
    "predict": ("predict p.json data.npz --out sets.csv", 100, "sets.csv"),
    "predict jsonl": ("predict p.json data.npz --out sets.jsonl", 100, "sets.jsonl"),
    "p-values": ("predict p.json data.npz --out sets.parquet --p-values p.csv", 2000, "p.csv"),
    "export c": ("export p.json --c head.h", 100, "head.h"),
    "export onnx": ("export p.json --onnx head.onnx", 100, "head.onnx"),
}


@pytest.mark.filterwarnings("ignore:.*(too few|needs at least)")
@pytest.mark.parametrize(("line", "size", "target"), WRITING.values(), ids=WRITING)
def test_a_full_disk_is_one_sentence(line, size, target, folder, call):
    """The message names the file, and no temporary or partial file is left."""
    pippin.calibrate(PROBS, LABELS, "ip", 0.2, classes=NAMES).save("p.json")
    with files_of_at_most(size):
        code, _, err = call(line)
    reported = err.splitlines()[-1]
    assert (code, reported) == (
        2,
        f"pippin: Cannot write {target} (File too large): free some space, or choose another place.",
    )
    assert "Traceback" not in err
    left = tree(folder)
    assert not [path for path in left if path.suffix == ".tmp" or path == folder / target]
    assert (folder / "out").exists() == (line.startswith("compare") and size > 100)


def test_a_full_disk_in_python(tmp_path):
    """In Python, a full disk raises the OSError of the system, with a message that names the file."""
    with (
        files_of_at_most(10),
        pytest.raises(OSError, match=r"Cannot write .*p\.json \(File too large\): free") as caught,
    ):
        pippin.calibrate(PROBS, LABELS, "ip", 0.2).save(tmp_path / "p.json")
    assert caught.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []


def test_a_full_standard_output(folder):
    """If standard output is on a full disk, the command prints one error message."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pippin.cli", "toy"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device" in done.stderr


ODD = os.fsdecode(b"fields\xff\xfe")


def test_paths_that_are_no_utf8(folder, call):
    """File names may have any bytes that the system allows; messages show escape sequences."""
    np.savez(f"{ODD}.npz", probs=PROBS, labels=LABELS, classes=NAMES)
    assert call(f"calibrate {ODD}.npz --out {ODD}.json")[0] == 0
    assert call(f"predict {ODD}.json {ODD}.npz --out {ODD}.csv")[0] == 0
    assert call(f"sweep {ODD}.npz --splits 2 --values 0,0.1 --out {ODD}-sweep")[0] == 0
    code, out, err = call(f"compare {ODD}.npz --splits 2 --scores ip,pip --out {ODD}")
    assert (code, err) == (0, "")
    assert "report.html" in out
    page = (folder / ODD / "report.html").read_text(encoding="utf-8")
    assert r"Which score for fields\udcff\udcfe?" in page
    assert (folder / ODD / "results.parquet").is_file()


HELD = """
import os, sys
from pippin.cli import main

real = os.replace
def replace(*given):
    os.replace = real
    print("here", flush=True)
    sys.stdin.readline()
    real(*given)

os.replace = replace
main()
"""
IP, PIP = (f"compare data.npz --splits 3 --scores {score} --out out" for score in ("ip", "pip"))


@contextmanager
def run_that_waits(line, folder):
    """Start a run that pauses before its first file until it receives a line."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", HELD, *line.split()], cwd=folder, text=True, **streams) as process:
        assert process.stdout.readline() == "here\n", process.stderr.read()
        try:
            yield process
        finally:
            process.kill()


def test_two_runs_at_once_do_not_mix(folder, call, no_figures):
    """The second run ends with an error message, and the first one is not affected."""
    with run_that_waits(IP, folder) as first:
        before = tree(folder)
        for line in (PIP, IP, "sweep data.npz --out out", "toy --out out"):
            code, out, err = call(line)
            assert (code, out) == (2, "")
            assert err == (
                "pippin: Another run is writing into out now: wait until it has ended, or choose another output "
                "folder.\n"
            )
        assert tree(folder) == before
        assert call(f"{PIP}-of-another")[0] == 0
        first.communicate("\n")
        assert first.returncode == 0
    assert set(polars.read_parquet("out/results.parquet")["score"]) == {"ip"}
    assert call(PIP)[0] == 0  # after it
    assert set(polars.read_parquet("out/results.parquet")["score"]) == {"pip"}


def test_a_killed_run_releases_its_lock(folder, call, no_figures):
    with run_that_waits(IP, folder) as first:
        first.send_signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        assert call(PIP)[0] == 0
    assert {path.name for path in (folder / "out").iterdir() if path.suffix == ".lock"} == set()
