"""Predictor files are written atomically: full disk, killed process, concurrent threads."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import pippin
from support.killed_processes import run_until
from support.predictor_files import predictor_with_scores, save_one


def test_saving_leaves_one_file(tmp_path):
    """After saving, the folder contains one file."""
    for threshold in (1.0, 2.0, 3.0):
        predictor_with_scores([threshold, threshold]).save(tmp_path / "p.json")
        assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
        assert pippin.load(tmp_path / "p.json").threshold == threshold


def test_a_failed_save_leaves_nothing(tmp_path):
    """A missing folder, or a folder as target, raises an OSError and leaves no file."""
    saved = save_one(tmp_path)
    (saved.parent / "folder").mkdir()
    before = sorted(saved.parent.rglob("*")), saved.read_bytes()
    for target in ("nowhere/p.json", "predictor.json/p.json", "folder"):
        with pytest.raises(OSError, match=r".+"):
            predictor_with_scores().save(saved.parent / target)
    assert (sorted(saved.parent.rglob("*")), saved.read_bytes()) == before


FULL_DISK = """
import resource, sys
import numpy as np
from support.predictor_files import predictor_with_scores

big = predictor_with_scores(np.linspace(0, 1, 50_000))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    big.save(sys.argv[1])
except OSError as error:
    print("refused", error)
"""


def test_a_failed_write_keeps_the_old_file(tmp_path):
    """A limit on file sizes interrupts the write, as a full disk would."""
    saved = save_one(tmp_path)
    before = saved.read_bytes()
    done = subprocess.run([sys.executable, "-c", FULL_DISK, saved], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused")
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


SAVE = """
import sys
import numpy as np
from support.predictor_files import predictor_with_scores

predictor_with_scores(np.linspace(0, 2, 20_000)).save(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("event", "after", "renamed"),
    [
        ("write", False, False),
        ("os:fsync", False, False),
        ("os:fsync", True, False),
        ("os:replace", False, False),
        ("os:replace", True, True),
    ],
)
def test_a_killed_save_leaves_a_complete_file(tmp_path, event, after, renamed):
    """After kill -9 at any step of writing, the file is the old or the new one, complete."""
    path = tmp_path / "p.json"
    predictor_with_scores(np.linspace(0, 1, 20_000)).save(path)
    assert run_until(event, 1, path, after=after, code=SAVE).returncode == -9
    top = 2 if renamed else 1
    assert pippin.load(path).calibration_scores.tobytes() == np.linspace(0, top, 20_000).tobytes()
    drafts = [file for file in tmp_path.iterdir() if file != path]
    assert len(drafts) == (not renamed)


def test_threads_may_save_to_one_path(tmp_path):
    """Several threads save to one path, and readers see complete files."""
    path = tmp_path / "p.json"
    predictor_with_scores().save(path)
    failures = []

    def work(top):
        try:
            for _ in range(25):
                predictor_with_scores(np.linspace(0, top, 2000)).save(path)
                pippin.load(path)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(tmp_path.iterdir()) == [path]
