"""The command as a process: completion, imports, closed pipes and kills."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

import pippin
from support.cli_data import LABELS, PROBS
from support.command import PIPPIN, run
from support.folders import tree
from support.killed_processes import run_until


def test_the_installed_script():
    script = Path(sys.executable).with_name("pippin")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"pippin {pippin.__version__}\n"


def test_completion():
    """The shell completes commands that begin with c."""
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
        assert process.wait() == 1


def test_starting_is_light(folder):
    """A command that fails at once imports neither polars, rich nor numba."""
    code = (
        "import sys; sys.argv = ['pippin', 'compare', 'none.npz']\n"
        "from pippin.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'polars', 'numba', 'rich', 'pandas', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout == "[]\n"


LONG = ["compare", "--scores", "aps,repip", "--splits", "900", "--seed", "5", "--out"]


def test_a_killed_comparison_goes_on_to_the_same_end(folder, call, no_figures):
    """A killed comparison that is started again gives the table of an uninterrupted run; other options are refused."""
    assert run_until("os:replace", 2, *LONG, "killed", after=True, folder=folder).returncode == -signal.SIGKILL
    before = tree(folder / "killed")
    assert [path.name for path in before] == ["compare.checkpoint.npz"]
    code, _, refused = call(" ".join([*LONG[:6], "6", "--out", "killed"]))
    assert code == 2
    assert refused.count("\n") == 1
    assert "of another run" in refused
    assert tree(folder / "killed") == before
    for out in ("killed", "whole"):
        assert call(" ".join([*LONG, out]))[0] == 0
    for name in ("results.parquet", "summary.csv"):
        assert (folder / "killed" / name).read_bytes() == (folder / "whole" / name).read_bytes()
    assert {path.name for path in (folder / "killed").iterdir()} == {path.name for path in (folder / "whole").iterdir()}


def test_an_interrupted_comparison_ends_quietly(folder):
    done = run_until("os:replace", 2, *LONG, "stopped", after=True, folder=folder, by=int(signal.SIGINT))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert [path.name for path in (folder / "stopped").iterdir()] == ["compare.checkpoint.npz"]
