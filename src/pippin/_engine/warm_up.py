"""Compiling all loops, or loading them from disk, before they are needed."""

import numpy as np

from pippin._engine import dispatch
from pippin._engine.protocol import Bounds, Draws, Held
from pippin._inputs.rows import as_rows
from pippin._runtime.arrays import read_only
from pippin._theory.scores import parse_score

EVERY_LOOP = {"ip": (8, 2), "pip": (8, 2), "socop": (1, 2)}  # a score and a shape for each kind of rows


def warm_up() -> None:
    """Loads the compiled loops now, so that no later call waits for them.

    The first time on a machine this compiles for some seconds and keeps the result on
    disk; after that it takes well under a second. Call it when a service starts, or
    while its image is built.
    """
    ip, one, none = parse_score("ip"), np.ones((1, 1)), np.zeros(1)
    group = np.zeros(1, dtype=np.int64)
    held = Held(np.zeros((1, 2), dtype=np.int32), np.array([0, 1]), np.full(1, 0.5))
    for kind in (np.float32, np.float64):
        row = np.full((1, 2), 0.5, dtype=kind)
        dispatch.one_set(ip, 2, 1.0)(row[0], 0.0)
        for name, shape in EVERY_LOOP.items():
            score, rows = parse_score(name), as_rows(np.full(shape, 1 / shape[1], dtype=kind))
            labels, u = read_only(np.zeros(shape[0], np.int64)), np.zeros(shape[0])
            scores = dispatch.label_scores(rows, labels, score, u)
            dispatch.members(rows, score, Bounds(one), u)
        rows = as_rows(row)
        dispatch.smallest(scores, 1)
        dispatch.members(rows, ip, Bounds(np.ones((1, 2)), group), none)
        dispatch.band(rows, ip, 1.0, 1.0)
        dispatch.class_scores(rows, ip, none)
        dispatch.p_values(rows, ip, held, group, Draws(none, None), lambda start, p: None)
