"""Compilation of the loops: machine code on disk, warm-up, and no compilation afterwards."""

import copy
import ctypes
import importlib
import os
import pickle
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pippin
from pippin._engine import numba_engine

ONE_LOOP = """
import numpy as np
import pippin
from pippin._engine.numba_engine.p_values import class_scores  # small, and it calls the formula of another file
from pippin._theory.scores import coefficients

c, scores = coefficients(pippin.scores.ip(), 2), np.empty((1, 2))
class_scores(np.array([[0.5, 0.5]]), np.array([[0, 1]]), c.table, c[:4], np.zeros(1), scores)
print(scores[0, 0], str(class_scores.stats).replace("Counter()", "{}"))
"""


def installed_copy(folder: Path) -> Path:
    """Copy the package without machine code."""
    shutil.copytree(Path(pippin.__file__).parent, folder / "pippin", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def without_write_override() -> None:
    """Make file permissions apply to root too, from the next program on."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE


def run_one_loop(folder: Path, home: Path, **environment: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(folder), **environment}
    run = subprocess.run(
        [sys.executable, "-c", ONE_LOOP],
        env=env,
        preexec_fn=without_write_override if os.geteuid() == 0 else None,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return run.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Copy the package, with the machine code of one loop."""
    folder = installed_copy(tmp_path_factory.mktemp("compilation") / "site")
    assert "cache_hits={}" in run_one_loop(folder, folder)
    return folder


def test_machine_code_is_loaded_by_the_next_process(site):
    found = run_one_loop(site, site)
    assert found.startswith("0.5 ")
    assert "cache_misses={}" in found


def test_a_change_in_another_file_recompiles(site, tmp_path):
    """A change in a file that a loop calls compiles the loop again, which numba alone would not do."""
    folder = shutil.copytree(site, tmp_path / "site")
    assert "cache_misses={}" in run_one_loop(folder, tmp_path)
    formula = folder / "pippin" / "_theory" / "formula.py"
    changed = formula.read_text().replace("return (constant + own * p)", "return (constant + 2.0 + own * p)")
    formula.write_text(changed)
    assert run_one_loop(folder, tmp_path).startswith("2.5 ")
    again = run_one_loop(folder, tmp_path)
    assert again.startswith("2.5 ")
    assert "cache_misses={}" in again


def test_the_digest_covers_every_source_that_loops_call():
    """Functions of other files that loops are made from, by the files in which they are defined."""
    from pippin._engine.numba_engine import compilation

    package, digested = Path(pippin.__file__).parent, Path(compilation.__file__).parent
    for function in dispatchers():
        path = Path(function.py_func.__code__.co_filename)
        assert path.parent == digested or str(path.relative_to(package)) in compilation._OTHER_SOURCES


def test_machine_code_is_kept_for_a_folder_that_cannot_be_written(tmp_path):
    """If the folder is read-only, machine code is stored in the user's cache, from which the next process loads it."""
    folder, home = installed_copy(tmp_path / "site"), tmp_path / "home"
    home.mkdir()
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    first, second = (run_one_loop(folder, home) for _ in range(2))
    assert "cache_hits={}" in first
    assert "cache_misses={}" in second
    assert not list(folder.rglob("*.nbc"))
    assert list(home.rglob("*.nbc"))


def test_no_folder_for_a_cache_is_no_error(tmp_path):
    """If no folder for a cache is writable, loops are compiled in memory without an error."""
    folder, home = installed_copy(tmp_path / "site"), tmp_path / "home"
    home.write_text("not a folder")
    assert run_one_loop(folder, home, NUMBA_CACHE_DIR=str(home)).startswith("0.5 ")


def dispatchers():
    """Return all compiled functions of the numba engine."""
    names = [module.name for module in pkgutil.iter_modules(numba_engine.__path__, f"{numba_engine.__name__}.")]
    functions = [of for name in names for of in vars(importlib.import_module(name)).values()]
    return list({id(of): of for of in functions if hasattr(of, "signatures") and hasattr(of, "stats")}.values())


def signatures():
    """Return the number of signatures of every entry point that Python has called; only entry points have a cache."""
    points = [of for of in dispatchers() if of.stats.cache_path is not None and of.signatures]
    return {f"{of.py_func.__module__.rpartition('.')[2]}.{of.py_func.__name__}": len(of.signatures) for of in points}


TWO_PRECISIONS = {
    "decisions._outcome_masses",
    "rowwise.label_scores",
    "rowwise.members",
    "splits.borderline_classes",
    "tiled.label_scores",
    "tiled.members",
}
ONE_PRECISION = {
    "decisions._decision_scores",
    "decisions._decisions",
    "decisions.line_of_row",
    "engine.add_product",
    "martingale.add_scores",
    "martingale.update",
    "p_values.class_scores",
    "p_values.p_values",
    "p_values.run_ends",
    "splits.count_splits",
}

WARM = """
import pippin
from pippin._engine import dispatch
from test_compilation import signatures

pippin.warm_up()
print(dispatch.engine_for(0).INSPECTS, dict(sorted(signatures().items())))
"""


def test_warm_up_loads_every_entry_point():
    """After warm-up, every entry point is compiled, for float32 and float64 if it takes both."""
    pippin.warm_up()
    folder = str(Path(__file__).parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run([sys.executable, "-c", WARM], env=env, capture_output=True, text=True, check=True)
    loaded = {**dict.fromkeys(TWO_PRECISIONS, 2), **dict.fromkeys(ONE_PRECISION, 1)}
    assert run.stdout == f"True {dict(sorted(loaded.items()))}\n"


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_predictor_compiles_after_warm_up(kind):
    """After warm-up, no predictor compiles a loop, also if it was copied or unpickled and its arrays are writable."""
    pippin.warm_up()
    before = signatures()
    data = pippin.load_example()
    probs, labels, groups = data.probs[:600].astype(kind), data.labels[:600], np.arange(600) % 2
    wide = np.hstack([probs, np.zeros((600, 60), kind)])
    for rows in (probs, wide):
        for per in (None, "class", "group", "rc3p"):
            given = {"groups": groups} if per == "group" else {}
            predictor = pippin.calibrate(rows, labels, "pip", 0.3, per=per, seed=0, **given)
            for each in (predictor, copy.deepcopy(predictor), pickle.loads(pickle.dumps(predictor))):  # noqa: S301
                each.predict(rows, **given)
                if per != "rc3p":
                    each.p_values(rows, **given)
                if per is None:
                    each.predict_one(rows[0])
    for score in ("ip", "raps", "socop"):
        pippin.scores.score(probs, labels.astype(np.int32), score, seed=0)
        pippin.scores.score(probs, None, score, seed=0)
    pippin.calibrate(probs, labels, weights=np.ones(600)).predict(probs, weights=np.ones(600))
    pippin.calibrate(probs, labels, "ip/ms", seed=0).predict(probs)
    pippin.compare(probs, labels, ["ip", "raps"], 0.2, splits=3)
    decider = pippin.decisions.calibrate(
        probs, labels, pippin.decisions.Utility(np.eye(12), actions=list("abcdefghijkl"))
    )
    for each in (decider, copy.deepcopy(decider)):
        each.decide(probs)
        each.decide_one(probs[0])
    assert signatures() == before
