"""Predictor files are never half-written: not by a full disk, a kill, or threads that save to one path."""

import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pippin
from support.predictor_files import held, save_one


def test_saving_leaves_one_file(tmp_path):
    """After each success there is the file and nothing else."""
    for threshold in (1.0, 2.0, 3.0):
        held([threshold, threshold]).save(tmp_path / "p.json")
        assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
        assert pippin.load(tmp_path / "p.json").threshold == threshold


def test_a_failed_save_leaves_nothing(tmp_path):
    """A missing folder, a file for a folder, a folder for a file: an OSError, and no trace."""
    saved = save_one(tmp_path)
    (saved.parent / "folder").mkdir()
    before = sorted(saved.parent.rglob("*")), saved.read_bytes()
    for target in ("nowhere/p.json", "predictor.json/p.json", "folder"):
        with pytest.raises(OSError, match=r".+"):
            held().save(saved.parent / target)
    assert (sorted(saved.parent.rglob("*")), saved.read_bytes()) == before


FULL_DISK = """
import resource, sys
import numpy as np
import pippin

big = pippin.Predictor(pippin.ip(), 0.1, 2.0, 50_000, range(2), np.linspace(0, 1, 50_000))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    big.save(sys.argv[1])
except OSError as error:
    print("refused", error)
"""


def test_the_old_file_survives_a_write_that_fails_halfway(tmp_path):
    """A limit on file sizes stops the write in the middle, as a full disk would."""
    saved = save_one(tmp_path)
    before = saved.read_bytes()
    done = subprocess.run([sys.executable, "-c", FULL_DISK, saved], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused")
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


SAVE_FOREVER = """
import sys
import numpy as np
import pippin

versions = [pippin.Predictor(pippin.ip(), 0.00006, t, 20_000, range(2), np.linspace(0, t, 20_000)) for t in (1.0, 2.0)]
while True:
    for version in versions:
        version.save(sys.argv[1])
"""


def test_a_killed_save_leaves_a_whole_file(tmp_path):
    """kill -9 in the midst of writing: the file is one of the versions, entire."""
    path = tmp_path / "p.json"
    chance = random.Random(1)

    def look():
        return path.stat().st_mtime_ns, path.stat().st_size, sorted(os.listdir(tmp_path))

    held(np.linspace(0, 1, 20_000)).save(path)
    for _ in range(12):
        before = look()
        child = subprocess.Popen([sys.executable, "-c", SAVE_FOREVER, path])
        try:
            while look() == before and child.poll() is None:
                pass  # a write has begun when the folder changes
            time.sleep(chance.choice([0, 0, 0.0005, 0.001, 0.1]) * chance.random())
        finally:
            child.kill()
            assert child.wait() == -9
        back = pippin.load(path)
        assert back.calibration_scores.tobytes() == np.linspace(0, back.calibration_scores[-1], 20_000).tobytes()
        drafts = [file for file in tmp_path.iterdir() if file != path]
        for draft in drafts:
            draft.unlink()


def test_threads_may_save_to_one_path(tmp_path):
    """Savers in several threads do not trip over each other, and readers see whole files."""
    path = tmp_path / "p.json"
    held().save(path)
    failures = []

    def work(top):
        try:
            for _ in range(25):
                held(np.linspace(0, top, 2000)).save(path)
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
