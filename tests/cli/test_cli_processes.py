"""The command as a process: how it starts, who reads it, and what a kill leaves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import pippin
from support.cli_data import LABELS, PROBS
from support.command import PIPPIN, run
from support.folders import tree


def test_the_installed_script():
    script = Path(sys.executable).with_name("pippin")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"pippin {pippin.__version__}\n"


def test_completion():
    """The shell's request for the commands that begin with c."""
    asked = {"_PIPPIN_COMPLETE": "complete_bash", "COMP_WORDS": "pippin c", "COMP_CWORD": "1"}
    script = Path(sys.executable).with_name("pippin")
    done = subprocess.run([script], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["compare", "calibrate"]


def test_names_that_the_terminal_cannot_show(folder):
    np.savez("ü.npz", probs=PROBS, labels=LABELS)
    done = run("compare", "ü.npz", "--splits", "2", folder=folder, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0


def test_a_reader_that_leaves():
    with subprocess.Popen([*PIPPIN, "toy"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 1


def test_starting_is_light(folder):
    """A command that fails at once has loaded neither polars, rich nor numba."""
    code = (
        "import sys; sys.argv = ['pippin', 'compare', 'none.npz']\n"
        "from pippin.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'polars', 'numba', 'rich', 'pandas', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout == "[]\n"


LONG = ["compare", "--scores", "aps,repip", "--splits", "30000", "--seed", "5", "--out"]


def started(out, folder):
    """A long comparison that has kept something by now."""
    process = subprocess.Popen([*PIPPIN, *LONG, out], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not (folder / out / "compare.checkpoint.npz").exists() and time.monotonic() < until:
        assert process.poll() is None
        time.sleep(0.005)
    return process


def test_a_killed_comparison_goes_on_to_the_same_end(folder):
    """The table is that of an uninterrupted run; other options on the same folder are refused."""
    with started("killed", folder) as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL
    left = {path.name for path in (folder / "killed").iterdir()}
    assert "compare.checkpoint.npz" in left
    assert not {"results.parquet", "summary.csv"} & left
    before = tree(folder / "killed")
    refused = run(
        "compare", "--scores", "aps,repip", "--splits", "30000", "--seed", "6", "--out", "killed", folder=folder
    )
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "belongs to another run" in refused.stderr
    assert tree(folder / "killed") == before
    with np.load(folder / "killed" / "compare.checkpoint.npz") as kept:
        finished = kept["values"].shape[1]
    assert 0 < finished < 29_000
    short = [*LONG[:4], str(finished + 300), *LONG[5:]]
    assert run(*short, "killed", folder=folder).returncode == 0
    assert run(*short, "whole", folder=folder).returncode == 0
    for name in ("results.parquet", "summary.csv"):
        assert (folder / "killed" / name).read_bytes() == (folder / "whole" / name).read_bytes()
    assert {path.name for path in (folder / "killed").iterdir()} == {path.name for path in (folder / "whole").iterdir()}


def test_an_interrupted_comparison_ends_quietly(folder):
    with started("stopped", folder) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert [path.name for path in (folder / "stopped").iterdir()] == ["compare.checkpoint.npz"]
