"""Use in a server: many threads at once, after a fork, in worker processes; a limited number of threads."""

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import joblib
import numpy as np
import pytest

import pippin
from pippin._runtime import threads

SCORES = ("pip", "raps", "socop", "margin")


@cache
def made(n=6000, n_classes=200, seed=0):
    """Return the rows of all requests; made once per process."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(n_classes, 0.05), n).astype(np.float32)
    return probs, rng.integers(0, n_classes, n)


def outcome(score="pip"):
    """Return the results of calibrate, predict and predict_one, with enough rows for compiled loops and threads."""
    probs, labels = made()
    predictor = pippin.calibrate(probs, labels, score, 0.2, seed=1)
    sets = predictor.predict(probs, seed=2)
    return (
        predictor.threshold,
        int(sets.members.sum()),
        sets.sizes.tolist(),
        predictor.predict_one(probs[0], seed=3).tolist(),
    )


def test_many_threads_at_once_change_nothing():
    """24 requests with different scores in 12 threads have the results of single requests."""
    alone = {score: outcome(score) for score in SCORES}
    with ThreadPoolExecutor(12) as pool:
        for score, found in pool.map(lambda s: (s, outcome(s)), SCORES * 6):
            assert found == alone[score]


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_use_after_fork():
    """A child forked from a process whose threads are running computes the same."""
    before = outcome()
    assert any(thread.name.startswith(threads.NAME) for thread in threading.enumerate())
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(outcome, ["pip"] * 4) == [before] * 4


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_use_in_multiprocessing_workers(method):
    """Worker processes compute the same."""
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(outcome, ["pip", "raps"]) == [outcome("pip"), outcome("raps")]


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_use_in_joblib_workers(backend):
    """Processes and threads of joblib compute the same with a pickled predictor."""
    probs, labels = made()
    predictor = pippin.calibrate(probs, labels, "repip")
    predictor.predict_one(probs[0])
    alone = predictor.predict(probs).members.tolist()
    found = joblib.Parallel(2, backend=backend)(joblib.delayed(predictor.predict)(probs) for _ in range(4))
    assert all(sets.members.tolist() == alone for sets in found)


THREADS = """
import threading, numpy as np, pippin, sys
before = threading.active_count()
probs = np.random.default_rng(0).dirichlet(np.full(200, 0.05), 8000)
for _ in range(3):
    pippin.calibrate(probs, np.zeros(8000, int), "pip")
    pippin.scores.score(probs, None, "aps")
print(threading.active_count() - before)
"""


@pytest.mark.parametrize(("asked", "most"), [("1", 0), ("2", 2), ("3", 3), (None, len(os.sched_getaffinity(0)))])
def test_the_number_of_threads_is_limited(asked, most):
    """`PIPPIN_NUM_THREADS` limits the threads; with one, no thread is started."""
    env = {k: v for k, v in os.environ.items() if k != "PIPPIN_NUM_THREADS"}
    if asked:
        env["PIPPIN_NUM_THREADS"] = asked
    run = subprocess.run([sys.executable, "-c", THREADS], env=env, check=True, capture_output=True, text=True)
    assert int(run.stdout) <= most
    assert asked != "3" or int(run.stdout) == 3


def test_the_number_of_threads_changes_nothing(monkeypatch):
    """Results with one thread equal those with several."""
    many = outcome("raps")
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "1")
    assert outcome("raps") == many


@pytest.mark.parametrize("value", ["0", "-1", "two", ""])
def test_an_invalid_number_of_threads_is_an_error(monkeypatch, value):
    """The message names what was expected and what was received."""
    monkeypatch.setenv("PIPPIN_NUM_THREADS", value)
    with pytest.raises(ValueError, match="PIPPIN_NUM_THREADS to be a whole number of at least 1"):
        outcome()


def test_an_error_in_a_thread_reaches_the_caller_and_the_pool_lives_on():
    """The error names an invalid row in a late block; the next call works."""
    probs, labels = (part.copy() for part in made(20_000))
    probs[15_000, 7] = np.nan
    with pytest.raises(ValueError, match="Row 15000 has nan in column 7"):
        pippin.calibrate(probs, labels, "pip")
    outcome()


def test_nested_work_runs_in_the_calling_worker():
    """Work that starts work in a thread runs it in the same thread, since waiting could deadlock."""
    seen = []

    def inner(start, stop):
        seen.append((start, stop))

    threads.run(lambda a, b: threads.run(inner, [(a, b), (b, b + 1)]), [(i, i) for i in range(8)])
    assert len(seen) == 16


LOADING = """
import threading
import numpy as np
import pippin
from pippin._engine import dispatch

dispatch._scored_in_numpy = dispatch.WORTH_COMPILING
failures = []

def work():
    try:
        pippin.scores.score(np.full((4, 2), 0.5), [0, 1, 0, 1], "ip")
    except Exception as error:
        failures.append(error)

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failures)
"""


def test_threads_wait_while_one_of_them_loads_the_loops():
    """Threads wait until one of them has loaded the compiled loops.

    A partly imported module is already in sys.modules.
    """
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
