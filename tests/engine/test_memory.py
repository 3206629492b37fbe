"""Memory of the numba engine: how much it allocates, and that it accesses its arrays only."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import pippin
from pippin._theory.scores import coefficients


@pytest.fixture(scope="module")
def wide():
    """Return few rows of 150,000 classes in float32, 60 MB."""
    rng = np.random.default_rng(0)
    probs = np.zeros((100, 150_000), np.float32)
    np.put_along_axis(probs, rng.integers(0, 150_000, (100, 20)), rng.random((100, 20), dtype=np.float32) ** 4, axis=1)
    probs /= probs.sum(axis=1, keepdims=True)
    best_two = np.argpartition(probs, -2, axis=1)[:, -2:]
    return probs, np.take_along_axis(best_two, (np.arange(100)[:, None] % 4 > 0).astype(int), axis=1)[:, 0]


def peak_of(work):
    """Return the most memory that was allocated during a call, and its result."""
    tracemalloc.start()
    result = work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak, result


BLOCKS = 24 << 20  # bytes of a few rows for each of two threads


@pytest.mark.parametrize("layout", ["float32", "float16", "logits", "columns"])
def test_nothing_of_the_size_of_the_input_is_allocated(wide, layout, monkeypatch):
    """Calibration and prediction allocate a few rows for each thread, in every layout of the input."""
    probs, labels = wide
    if layout == "float16":
        probs = probs.astype(np.float16)
    elif layout == "logits":
        probs = np.log(probs + np.float32(1e-12))
    elif layout == "columns":
        probs = np.asfortranarray(probs)
    logits = layout == "logits"
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "2")
    pippin.warm_up()
    for score in ("ip", "raps", "socop"):
        coefficients(pippin.scores.parse(score), probs.shape[1])  # kept for later calls

        def work(score=score):
            predictor = pippin.calibrate(probs, labels, score, 0.1, seed=0, from_logits=logits)
            return predictor.predict(probs, seed=0, from_logits=logits)

        peak, sets = peak_of(work)
        assert peak < BLOCKS
        assert sets.sizes.mean() < 10


def test_nonempty_sets_allocate_no_more(wide, monkeypatch):
    """Rows whose empty sets are filled are read block by block too."""
    probs, labels = wide
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "2")
    pippin.warm_up()
    for predictor in (
        pippin.calibrate(probs, labels, "ip/ms", 0.3, seed=0),
        pippin.calibrate(probs, labels, "ip", 0.9),
    ):
        peak, sets = peak_of(lambda predictor=predictor: predictor.predict(probs, nonempty=True))
        assert peak < BLOCKS
        assert np.mean(sets.sizes == 1) > 0.5


GUARDED = """
import ctypes, itertools, mmap
import numpy as np
import pippin
from pippin._engine import dispatch
from pippin._engine.numba_engine import engine
from pippin._engine.protocol import Bounds
from pippin._theory.scores import coefficients

page = mmap.PAGESIZE
memory = mmap.mmap(-1, 3 * page)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for closed in (address, address + 2 * page):
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(closed), page, 0) == 0
for n_classes, n, at_end in itertools.product((2, 7, 12, 24, 25, 33, 64, 70), (1, 2, 9, 14), (False, True)):
    start = 2 * page - 4 * n * n_classes if at_end else page
    probs = np.frombuffer(memory, np.float32, n * n_classes, start).reshape(n, n_classes)
    probs[:] = 1 / n_classes
    first, last = probs[0], probs[-1]
    probs.flags.writeable = False
    labels, u, sizes = np.arange(n) % n_classes, np.zeros(n), np.zeros(n, np.int64)
    for score in map(pippin.scores.parse, ("ip", "margin", "pip", "socop")):
        c = coefficients(score, n_classes)
        assert engine.label_scores(probs, labels, c, u, np.empty(n)) == 0
        engine.class_scores(probs, c, u)
        for columns in (1, n_classes):
            assert engine.members(probs, c, Bounds(np.ones((1, columns))), u, sizes)[1] == 0
        for row in (first, last):
            dispatch.one_set(score, n_classes)(row, 0.0, 1.0)
            dispatch.one_score(score, n_classes)(row, 0.0, n_classes - 1)
print("fine", flush=True)
"""


def test_nothing_outside_of_the_array_is_read():
    """The array begins or ends at a page that cannot be read: a process that reads it is killed."""
    done = subprocess.run([sys.executable, "-c", GUARDED], capture_output=True, text=True, check=False)
    assert done.stdout == "fine\n", (done.returncode, done.stderr[-2000:])


RACE = """
import contextlib
import threading
import warnings
import numpy as np
import pippin

warnings.simplefilter("ignore")
pippin.warm_up()
rng = np.random.default_rng(0)
for n_classes, n, kind in ((6, 300, np.float32), (12, 300, np.float64), (40, 150, np.float64), (400, 40, np.float32)):
    clean = rng.dirichlet(np.full(n_classes, 0.3), n).astype(kind)
    labels = rng.integers(0, n_classes, n)
    predictors = [pippin.calibrate(clean, labels, score) for score in ("ip", "margin", "repip", "socop")]
    predictors += [pippin.calibrate(clean, labels, score, 0.3, per="class") for score in ("ip", "repip", "socop")]
    probs, done = clean.copy(), threading.Event()

    def write():
        own = np.random.default_rng(1)
        while not done.is_set():
            rows = own.integers(0, n, 8)
            probs[rows] = clean[own.integers(0, n, 8)] if own.random() < 0.7 else 1 / n_classes

    threads = [threading.Thread(target=write, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        for predictor in predictors:
            with contextlib.suppress(ValueError):  # a row that is partly overwritten is refused
                members = predictor.predict(probs).members
                assert not members.size or 0 <= members.min() <= members.max() < n_classes
            with contextlib.suppress(ValueError):
                predictor.p_values(probs)
            with contextlib.suppress(ValueError):
                pippin.scores.score(probs, labels, predictor.score, seed=0)
    done.set()
    for thread in threads:
        thread.join()
print("fine")
"""


def test_rows_that_change_during_a_call_are_safe():
    """If another thread writes to the rows, only the memory of the arrays is accessed, and classes are in range."""
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True)
    assert done.stdout == "fine\n", (done.returncode, done.stderr[-2000:])
