"""Compiling all loops, or loading them from disk, before they are needed."""

import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from pippin._engine import deciding, dispatch, watching
from pippin._engine.protocol import Bounds, Draws, Held
from pippin._inputs.rows import as_rows
from pippin._runtime.arrays import read_only
from pippin._runtime.threads import n_threads
from pippin._theory.policy import make_policy
from pippin._theory.spelling import parse_score

# A score and a shape for each kind of rows.
EVERY_LOOP = (("ip", (1, 2)), ("ip", (8, 2)), ("ip", (1, 40)), ("pip", (8, 2)), ("pip", (1, 40)), ("socop", (1, 2)))


def warm_up() -> None:
    """Loads the compiled loops now, so that no later call waits for them.

    The first time on a machine this compiles for most of a minute and keeps the result on disk;
    after that it takes a second. Where there are two cores, a second process compiles the
    loops for float64 meanwhile. Call it when a service starts, or while its image is built.
    """
    other = _elsewhere("float64") if not _is_kept() and n_threads() > 1 else None
    load_loops("float32")
    if other is not None:
        other.wait()
    load_loops("float64")


def load_loops(kind: str) -> None:
    """Calls every loop once, with probabilities of this kind."""
    ip, one, none = parse_score("ip"), np.ones((1, 1)), np.zeros(1)
    group = np.zeros(1, dtype=np.int64)
    held = Held(np.zeros((1, 2), dtype=np.int32), np.array([0, 1]), np.full(1, 0.5))
    row = np.full((1, 2), 0.5, dtype=kind)
    dispatch.one_set(ip, 2)(row[0], 0.0, 1.0)
    dispatch.one_score(ip, 2)(row[0], 0, 0.0)
    for name, shape in EVERY_LOOP:
        score, rows = parse_score(name), as_rows(np.full(shape, 1 / shape[1], dtype=kind))
        labels, u = read_only(np.zeros(shape[0], np.int64)), np.zeros(shape[0])
        dispatch.label_scores(rows, labels, score, u)
        dispatch.members(rows, score, Bounds(one), u)
    rows = as_rows(row)
    dispatch.members(rows, ip, Bounds(np.ones((1, 2)), group), none)
    dispatch.band(rows, ip, 1.0, 1.0)
    policy = make_policy(np.eye(2))
    deciding.decision_scores(rows, read_only(group), policy)
    deciding.decisions(rows, policy, one, group)
    deciding.one_decision(policy, 1.0)(row[0])
    if kind == "float32":  # sharpeners have no other
        _load_products()
    else:  # whole rankings, and scores that are watched, have no other
        _load_watching()
        for own in (rows, as_rows(row.astype(np.float32))):  # whose order is found in another way
            dispatch.class_scores(own, ip, none)
        dispatch.p_values(rows, ip, held, group, Draws(none, None), lambda start, p: None)


def _load_products() -> None:
    engine, one, member = dispatch.engine_for(0), np.ones((1, 1), np.float32), np.ones((1, 1, 1), np.float32)
    engine.add_product(one, one, one)
    engine.add_logits(member, one, one, np.ones((1, 2), np.float32))
    engine.add_mixed(one, member, one[0])
    engine.centre(member)


def _load_watching() -> None:
    evidence = watching.no_evidence()
    watching.fill(evidence, np.zeros(1))
    watching.watcher(evidence, 0)(0.5, 0.5, 1, 0)


def _is_kept() -> bool:
    """Whether the disk has the loops already, or cannot keep them; the smallest of them tells."""
    from pippin._engine.compiled.sorting import smallest

    loop: Any = smallest
    loop(np.ones(1), 0)
    return not loop.stats.cache_misses or not loop.stats.cache_path


def _elsewhere(kind: str) -> "subprocess.Popen[bytes] | None":
    """Another process that compiles the loops of this kind onto the disk; None, if there can be none."""
    code = f"from pippin._engine.warm_up import load_loops; load_loops({kind!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with suppress(OSError):
        if sys.executable:
            quiet = subprocess.DEVNULL
            command = [sys.executable, "-c", code]
            return subprocess.Popen(command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
    return None
