"""What the compiled path promises beyond its results: memory, the disk cache, bad rows."""

import copy
import ctypes
import gc
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import pippin
from pippin._engine.compiled import (
    band,
    decisions,
    p_values,
    per_class,
    priced,
    ranked,
    single,
    sorting,
    tiled,
    unranked,
)
from pippin._engine.compiled.cache import CheckedFiles
from pippin._theory.scores import coefficients
from support.rows import made_rows
from support.scores import EVERY_SCORE


@pytest.fixture(scope="module")
def wide():
    """Few rows, very many classes, in float32: 240 MB."""
    rng = np.random.default_rng(0)
    probs = np.zeros((400, 150_000), np.float32)
    np.put_along_axis(probs, rng.integers(0, 150_000, (400, 20)), rng.random((400, 20), dtype=np.float32) ** 4, axis=1)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, probs.argmax(axis=1)


@pytest.mark.parametrize("layout", ["float32", "float16", "logits", "columns"])
def test_nothing_of_the_inputs_size_is_allocated(wide, layout, monkeypatch):
    """150,000 classes: calibrating and predicting take room for some rows of each thread, under 24 MB in any layout."""
    probs, labels = wide
    room = 0.1 * probs.nbytes
    if layout == "float16":
        probs = probs.astype(np.float16)
    elif layout == "logits":
        probs = np.log(probs + np.float32(1e-12))
    elif layout == "columns":
        probs = np.asfortranarray(probs)
    logits = layout == "logits"
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "2")
    pippin.warm_up()
    for score in ("ip", "margin", "raps", "repip", "socop"):
        coefficients(pippin.parse_score(score), probs.shape[1])  # which are kept for the next one who asks
        tracemalloc.start()
        predictor = pippin.calibrate(probs, labels, score, 0.1, seed=0, from_logits=logits)
        sets = predictor.predict(probs, seed=0, from_logits=logits)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < room
        assert sets.sizes.mean() < 10


def test_nor_for_singletons_and_empty_sets(wide, monkeypatch):
    """Rows whose sets are changed are looked at block by block too, however many they are."""
    probs, labels = wide
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "2")
    both = pippin.calibrate_combination(probs, labels, 0.3, seed=0)
    plain = pippin.calibrate(probs, labels, "ip", 0.9)
    pippin.warm_up()
    for predictor in (both, plain):
        tracemalloc.start()
        sets = predictor.predict(probs, nonempty=True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 0.1 * probs.nbytes
        assert np.mean(sets.sizes == 1) > 0.5


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_doubtful_sums_are_judged_as_in_numpy(score):
    """Rows off by just under 1e-3 pass, just over fail, whichever path reads them."""
    probs = made_rows("spread", 3000, 400, 1)
    labels = np.zeros(3000, dtype=int)
    fine = probs * (1 + 0.9e-3)
    pippin.calibrate(fine, labels, score, seed=0).predict(fine, seed=0)
    wrong = fine.copy()
    wrong[2500] *= 1.0002
    with pytest.raises(ValueError, match=r"Row 2500 sums to 1\.001"):
        pippin.calibrate(wrong, labels, score, seed=0)
    with pytest.raises(ValueError, match=r"Row 2500 sums to 1\.001"):
        pippin.calibrate(fine, labels, score, seed=0).predict(wrong, seed=0)


ONE_LOOP = """
import numpy as np
import pippin
from pippin._engine.compiled.splits import place_scores  # small, and it calls the formula of another file
from pippin._theory.scores import coefficients

row = np.zeros(1, np.int32)
score = place_scores(row, row, np.array([0.5]), np.zeros(1), coefficients(pippin.ip(), 2), np.zeros(1))
print(score[0], str(place_scores.stats).replace("Counter()", "{}"))
"""


def installed_copy(folder: Path) -> Path:
    """The package somewhere else, without compiled loops."""
    shutil.copytree(Path(pippin.__file__).parent, folder / "pippin", ignore=shutil.ignore_patterns("*.nb[ic]"))
    return folder


@pytest.fixture(scope="module")
def compiled_copy(tmp_path_factory):
    """The package somewhere else, with a loop that a process compiled and kept: (folder, home, what it said)."""
    folder, home = installed_copy(tmp_path_factory.mktemp("compiled") / "site"), tmp_path_factory.mktemp("home")
    return folder, home, one_loop_in(folder, home)


def without_write_override() -> None:
    """Lets permissions bind root too, from the next program on."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE


def one_loop_in(folder: Path, home: Path, **more: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(folder), **more}
    run = subprocess.run(
        [sys.executable, "-c", ONE_LOOP],
        env=env,
        preexec_fn=without_write_override if os.geteuid() == 0 else None,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_disk_cache_works_from_a_folder_that_cannot_be_written(tmp_path):
    """Compiled once into the user's cache, loaded from there in the next process."""
    folder, home = installed_copy(tmp_path / "site"), tmp_path / "home"
    home.mkdir()
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    first, second = (one_loop_in(folder, home) for _ in range(2))
    assert "cache_hits={}" in first
    assert "cache_misses={}" in second
    assert not list(folder.rglob("*.nbc"))
    assert list(home.rglob("*.nbc"))


def test_a_change_in_another_file_is_compiled_anew(compiled_copy, tmp_path):
    """The loops in the cache bear the stamp of every source, not only of their own."""
    compiled, home, told = compiled_copy
    assert told.startswith("0.5 ")
    folder = shutil.copytree(compiled, tmp_path / "site")
    formula = folder / "pippin" / "_theory" / "formula.py"
    changed = formula.read_text().replace("return (c.constant + own * p)", "return (c.constant + 2.0 + own * p)")
    formula.write_text(changed)
    assert one_loop_in(folder, home).startswith("2.5 ")


def test_no_folder_for_a_cache_is_no_error(tmp_path):
    """Then it compiles in memory and works all the same."""
    folder, home = installed_copy(tmp_path / "site"), tmp_path / "home"
    home.write_text("not a folder")
    assert one_loop_in(folder, home, NUMBA_CACHE_DIR=str(home)).startswith("0.5 ")


def flip(content: bytes) -> bytes:
    middle = len(content) * 2 // 3
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = {"one bit": flip, "emptied": lambda content: b"", "cut": lambda content: content[: len(content) // 2]}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_cache_is_compiled_anew_and_repaired(damage, compiled_copy, tmp_path):
    """Told in one sentence with the folder, or not at all where it only looks out of date; the next process loads."""
    compiled, home, _ = compiled_copy
    folder = shutil.copytree(compiled, tmp_path / "site")
    files = list(folder.rglob("*.nbc"))
    assert files
    for path in files:
        path.write_bytes(damage(path.read_bytes()))
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(folder)}
    runs = [subprocess.run([sys.executable, "-c", ONE_LOOP], env=env, capture_output=True, text=True) for _ in range(2)]
    assert all(run.stdout.startswith("0.5 ") for run in runs), runs[0].stderr
    assert "cache_hits={}" in runs[0].stdout
    assert "cache_misses={}" in runs[1].stdout
    assert runs[0].stderr.count("cannot be used") == (0 if damage(b"a\nb") == b"" else 1)
    assert runs[1].stderr == ""


def test_what_is_kept_for_one_signature_is_in_a_file_of_its_own(tmp_path):
    """So two processes that compile one loop for two precisions cannot write over each other, whenever they do it."""
    keys = [((kind,), ("processor", "features"), ("bytecode", "closure")) for kind in ("float32", "float64")]
    files, before = CheckedFiles(str(tmp_path), "loop", "stamp"), {}
    for key in keys:
        files.save(key, f"code for {key[0]}")
        after = {path: path.read_bytes() for path in tmp_path.iterdir()}
        assert before.items() < after.items()
        before = after
    assert [files.load(key) for key in keys] == [f"code for {key[0]}" for key in keys]
    changed = (*keys[0][:2], ("other bytecode", "closure"))
    assert files.load(changed) is None
    files.save(changed, "newer")
    assert (files.load(changed), files.load(keys[0]), len(list(tmp_path.iterdir()))) == ("newer", None, 2)


def test_a_full_disk_is_no_error(tmp_path):
    """What cannot be kept is compiled in memory, and told once."""
    folder, home = installed_copy(tmp_path / "site"), tmp_path / "home"
    home.mkdir()
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n" + ONE_LOOP
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert run.stdout.startswith("0.5 "), run.stderr
    assert run.stderr.count("cannot be written") == 1


FORK = """
import os, sys, threading
import numpy as np
import pippin
from numba.core.compiler_lock import global_compiler_lock
from pippin._engine.compiled import build
from pippin._engine.warm_up import load_loops

held, left = threading.Event(), threading.Event()

def hold():  # as a thread that compiles does
    with global_compiler_lock:
        held.set()
        load_loops()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    probs = np.full((400, 3), 1 / 3)
    pippin.calibrate(probs, np.zeros(400, int), "socop").predict(probs)
    os._exit(7)
print(os.waitpid(child, 0)[1] >> 8)
thread.join()
"""


def test_a_fork_while_another_thread_compiles():
    """The child can compile: it begins with no lock that nobody will give back."""
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True)
    assert done.stdout == "7\n", done.stderr


RACE = """
import contextlib
import threading
import warnings
import numpy as np
import pippin

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
for n_classes, n in ((6, 300), (12, 300), (40, 150), (400, 40)):
    clean = rng.dirichlet(np.full(n_classes, 0.3), n).astype(np.float32)
    labels = rng.integers(0, n_classes, n)
    made = [pippin.calibrate(clean, labels, score) for score in ("ip", "margin", "repip", "socop")]
    made += [pippin.calibrate(clean, labels, score, 0.3, per="class") for score in ("ip", "repip", "socop")]
    probs, done = clean.copy(), threading.Event()

    def write():
        own = np.random.default_rng(1)
        while not done.is_set():
            rows = own.integers(0, n, 8)
            probs[rows] = clean[own.integers(0, n, 8)] if own.random() < 0.7 else 1 / n_classes

    threads = [threading.Thread(target=write, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(40):
        for predictor in made:
            with contextlib.suppress(ValueError):  # a row that is half of one and half of another is refused
                found = predictor.predict(probs).members
                assert not found.size or 0 <= found.min() <= found.max() < n_classes
            with contextlib.suppress(ValueError):
                predictor.p_values(probs)
    done.set()
    for thread in threads:
        thread.join()
print("fine")
"""


def test_rows_that_change_meanwhile_harm_nobody():
    """Whatever another thread writes: no memory but the arrays' own is touched, and no class is out of range."""
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr[-2000:]


def compilations():
    loops = [loop for module in (priced, ranked, unranked) for loop in (module.fill_members, module.fill_places)]
    loops += [
        tiled.members,
        tiled.label_places,
        single.one_set,
        single.one_score,
        band._band,
        per_class.members_within,
        sorting.smallest,
    ]
    loops += [decisions.decision_scores, decisions.decisions, decisions.one_decision]
    return [len(loop.signatures) for loop in (*loops, p_values.run_ends, p_values._fill)]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_no_predictor_compiles_after_warm_up(kind):
    """Not even one that was copied or pickled, which makes its arrays writable."""
    pippin.warm_up()
    before = compilations()
    data = pippin.load_example()
    probs, labels, ones = data.probs[:600].astype(kind), data.labels[:600], np.ones(600)
    for per in ("class", "rc3p"):
        predictor = pippin.calibrate(probs, labels, "pip", 0.3, per=per)
        for one in (predictor, copy.deepcopy(predictor)):
            one.predict(probs)
            _ = one.p_values(probs) if per == "class" else None
    pippin.calibrate_weighted(probs, labels, ones).predict(probs, ones)
    pippin.calibrate_combination(probs, labels, seed=0).predict(probs)
    decider = pippin.calibrate_decisions(probs, labels, pippin.Utility(np.eye(12), actions=list("abcdefghijkl")))
    for one in (decider, copy.deepcopy(decider)):
        one.decide(probs)
        one.decide_one(probs[0])
    assert compilations() == before


@pytest.mark.parametrize("on", [True, False])
def test_warm_up_collects_no_garbage_and_leaves_the_collector_as_it_was(on, monkeypatch):
    meanwhile = []
    monkeypatch.setattr(
        "pippin._engine.warm_up._steps", lambda: [lambda: meanwhile.append(gc.isenabled()), lambda: {}["fails"]]
    )
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(KeyError):
            pippin.warm_up()
        assert (meanwhile, gc.isenabled()) == ([False], on)
    finally:
        gc.enable()


WARM = """
import pippin
from pippin._engine import dispatch
from pippin._engine.compiled import band, decisions, narrow, p_values, per_class, single, tiled
from pippin._engine.compiled import priced, ranked, unranked
from pippin._engine.warm_up import _from_the_end

pippin.warm_up()
loops = [loop for module in (priced, ranked, unranked) for loop in (module.fill_members, module.fill_places)]
loops += [tiled.members, tiled.label_places, single.one_set, single.one_score, band._band, per_class.members_within]
loops += [narrow._members_in_one_window, narrow._members_in_several]
loops += [narrow._label_places_in_one_window, narrow._label_places_in_several]
once = [p_values._fill, decisions.decision_scores, decisions.decisions, decisions.one_decision]
print(dispatch.is_compiled(), *({len(loop.signatures) for loop in some} for some in (loops, once)))
print(_from_the_end().wait())
"""


def test_warm_up_loads_every_loop():
    """For both precisions, and the loops serve from then on; what a second process would compile, it can."""
    pippin.warm_up()
    done = subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, check=True)
    assert done.stdout == "True {2} {1}\n0\n"
