"""Sets under bounds per class, per group and with rank limits are equal in both engines."""

import os
import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import pippin
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import read_only
from pippin._theory.scores import coefficients
from pippin._validation.rows import as_rows
from support.engines import compiled, plain
from support.grouped_example import calibrated, every_way, sets_of
from support.rows import probabilities
from support.scores import every_score


@st.composite
def limited(draw):
    """Draw rows, a random generator, groups, the number of groups, and True for limits on ranks as well."""
    probs, _ = draw(probabilities(sizes=(2, 3, 5, 12, 33, 70, 300)))
    n, n_classes = probs.shape
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    columns = n_classes if draw(st.booleans()) else 1
    ranked = columns > 1 and draw(st.booleans())
    return probs, rng, rng.integers(0, 3, n), columns, ranked


@every_score
@given(case=limited())
def test_both_engines_give_equal_bits(score, case):
    """Both engines agree for limits equal to scores, next to scores, and infinite, with and without rank limits."""
    probs, rng, group, columns, ranked = case
    n, n_classes = probs.shape
    u = rng.random(n)
    rows = as_rows(probs)
    every = dispatch.class_scores(rows, score, u)
    limits = rng.choice(every.ravel(), (3, columns))
    limits = np.where(rng.random(limits.shape) < 0.2, np.nextafter(limits, -np.inf), limits)
    limits = read_only(np.where(rng.random(limits.shape) < 0.2, rng.choice([-np.inf, np.inf], limits.shape), limits))
    ranks = rng.integers(0, n_classes + 1, (3, columns)).astype(np.int32) if ranked else None
    c, bounds = coefficients(score, n_classes), Bounds(limits, group, ranks)
    sizes, wanted_sizes = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    found, suspects = compiled.members(rows.block(0, n), c, bounds, u, sizes)
    wanted, _ = plain.members(rows.block(0, n), c, bounds, u, wanted_sizes)
    assert suspects == 0
    assert np.array_equal(sizes, wanted_sizes)
    assert np.array_equal(found, wanted)
    inside = every <= limits[group]
    if ranked:
        order = np.argsort(-probs, axis=1, kind="stable")
        inside &= np.argsort(order, axis=1) < ranks[group]
    mask = np.zeros((n, n_classes), dtype=bool)
    mask[np.repeat(np.arange(n), sizes), found] = True
    assert np.array_equal(mask, inside)


@every_way
def test_both_engines_predict_equal_sets(per, monkeypatch):
    """Public functions give equal sets with the numba engine and in a process that has not loaded it."""
    pippin.warm_up()
    predictor = calibrated(per, "repip")
    in_loops = sets_of(predictor)
    monkeypatch.delitem(sys.modules, "pippin._engine.numba_engine.engine")
    monkeypatch.setattr(dispatch, "_scored_in_numpy", 0)
    monkeypatch.setattr(dispatch, "_loaded", None)
    in_numpy = sets_of(predictor)
    assert "pippin._engine.numba_engine.engine" not in sys.modules
    assert np.array_equal(in_numpy.members, in_loops.members)


INFINITE = """
import warnings
import numpy as np
import pippin

pippin.warm_up()
warnings.simplefilter("ignore")  # a class with one row has no limit: that is the case here
predictor = pippin.calibrate(np.full((40, 2), 0.5), [0] * 39 + [1], "ip", 0.1, per="class")
try:
    predictor.predict(np.array([[np.inf, 0.0], [0.5, 0.5]]))
except ValueError as error:
    print(error)
"""


def test_an_infinite_entry_is_an_error_where_a_class_has_no_limit():
    """A row with an infinite entry raises, also if a class has no limit.

    Fresh memory is filled with large numbers, so that an invalid class index would crash.
    """
    environment = {**os.environ, "MALLOC_PERTURB_": "165"}
    done = subprocess.run(
        [sys.executable, "-c", INFINITE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("Row 0 has inf in column 0"), (done.returncode, done.stderr)
