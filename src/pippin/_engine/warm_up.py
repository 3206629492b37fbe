"""Compilation of all numba loops, or loading of their machine code from disk, before the first call needs them."""

import numpy as np

from pippin._engine import dispatch, martingale
from pippin._engine.protocol import Bounds, Draws, SortedScores
from pippin._runtime.arrays import Floats, read_only
from pippin._theory.policy import make_policy
from pippin._theory.scores import coefficients
from pippin._theory.spelling import parse_score
from pippin._validation.rows import as_rows


def warm_up() -> None:
    """Load all functions that pippin compiles with Numba, so that later calls do not wait for the compiler.

    The first call of `warm_up` on a machine compiles for about 20 seconds and stores the machine code on disk; later
    calls take less than a second. Call it when a service starts, or while its container image is built.

    >>> import pippin
    >>> pippin.warm_up()
    """
    dispatch.engine_for(dispatch.WORTH_COMPILING)
    for row in (np.full((1, 2), 0.5, np.float32), np.full((1, 2), 0.5)):
        _load_loops(row)
    state = martingale.new_martingale()
    martingale.add_scores(state, np.zeros(1))
    martingale.updater(state, 0)(0.5, 0.5, 1, 0)


def _load_loops(row: Floats) -> None:
    """Call every compiled loop that processes rows, on a row of one float type, so that numba loads the loop."""
    rows, u, label, score = as_rows(row), np.zeros(1), read_only(np.zeros(1, np.int64)), parse_score("pip")
    engine, policy = dispatch.engine_for(0), make_policy(np.eye(2))
    dispatch.label_scores(rows, label, score, u)  # loads the tiled loop; one_score below loads the row-wise loop
    dispatch.one_score(score, 2)(row[0], 0.0, 0)
    for bounds in (Bounds(np.ones((1, 2))), Bounds(np.ones((1, 1)))):
        dispatch.members(rows, score, bounds, u)
    dispatch.class_scores(rows, score, u)
    held = SortedScores(np.zeros((1, 2), np.int32), np.array([0, 1]), np.full(1, 0.5))
    dispatch.p_values(rows, score, held, label, Draws(u, None), lambda start, p: None)
    border = dispatch.borderline_classes(rows, label, score, 0.0, 1.0)
    calibrations, draws = read_only(np.ones((1, 1), np.bool_)), read_only(np.zeros((1, 1)))
    engine.count_splits(border, coefficients(score, 2), 1, calibrations, draws, np.empty((1, 6)))
    dispatch.decision_scores(rows, label, policy)
    dispatch.decide(rows, policy, np.ones((1, 1)), label)
    dispatch.one_decision(policy, 1.0)(row[0])
    one = np.ones((1, 1), np.float32)
    engine.add_product(one, one, one)
