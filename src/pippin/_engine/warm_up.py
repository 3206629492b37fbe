"""Compiling all loops, or loading them from disk, before they are needed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from pippin._engine import deciding, dispatch, watching
from pippin._engine.protocol import Bounds, Draws, Held
from pippin._inputs.rows import as_rows
from pippin._runtime.arrays import read_only
from pippin._runtime.collecting import no_collecting
from pippin._runtime.threads import n_threads
from pippin._theory.policy import make_policy
from pippin._theory.spelling import parse_score

Kind = np.dtype[np.floating[Any]]
Step = Callable[[], object]

# A score and a shape for each kind of loop: for rows of any length, and for short ones (with 16 entries together).
ANY_ROWS = (("ip", (1, 2)), ("pip", (1, 80)), ("socop", (1, 2)))
SHORT_ROWS = (("ip", (1, 40)), ("ip", (8, 2)), ("pip", (8, 2)))


def warm_up() -> None:
    """Loads the compiled loops now, so that no later call waits for them.

    The first time on a machine this compiles for half a minute and keeps the result on disk;
    after that it takes a second. Where there are two cores, a second process compiles too.
    Call it when a service starts, or while its image is built.
    """
    other = _from_the_end() if not _is_kept() and n_threads() > 1 else None
    try:
        load_loops()
    finally:  # all loops are here, or nobody waits for them any more
        if other is not None:
            other.terminate()
            other.wait()


def load_loops(backwards: bool = False) -> None:
    """Calls every loop once, with probabilities of either kind.

    One process begins at the end, another at the beginning; where they meet, each finds on the disk what is left.
    """
    steps = _steps()
    with no_collecting():
        for step in reversed(steps) if backwards else steps:
            step()


def _steps() -> list[Step]:
    """Neighbours share what they call, so that a process compiles little of it for one of them alone."""
    single, double = np.dtype(np.float32), np.dtype(np.float64)
    return [
        *_decisions(),
        *_with_any_rows(single),
        *_sets(single, SHORT_ROWS),
        _load_products,
        _load_watching,
        *_with_whole_rankings(),
        *_sets(double, SHORT_ROWS),
        *_with_any_rows(double),
    ]


def _decisions() -> list[Step]:
    """Loops that take rows of either kind."""
    row, none, policy = np.full((1, 2), 0.5), np.zeros(1, dtype=np.int64), make_policy(np.eye(2))
    rows = as_rows(row)
    return [
        partial(deciding.decision_scores, rows, read_only(none), policy),
        partial(deciding.decisions, rows, policy, np.ones((1, 1)), none),
        partial(deciding.one_decision(policy, 1.0), row[0]),
    ]


def _with_any_rows(kind: Kind) -> list[Step]:
    ip, row = parse_score("ip"), np.full((1, 2), 0.5, dtype=kind)
    rows, none, group = as_rows(row), np.zeros(1), np.zeros(1, dtype=np.int64)
    return [
        partial(dispatch.one_set(ip, 2), row[0], 0.0, 1.0),
        partial(dispatch.one_score(ip, 2), row[0], 0.0, 0),
        partial(dispatch.members, rows, ip, Bounds(np.ones((1, 2)), group), none),
        partial(dispatch.band, rows, ip, 1.0, 1.0),
        *_sets(kind, ANY_ROWS),
    ]


def _sets(kind: Kind, each: Iterable[tuple[str, tuple[int, int]]]) -> list[Step]:
    steps: list[Step] = []
    for name, shape in each:
        score, rows = parse_score(name), as_rows(np.full(shape, 1 / shape[1], dtype=kind))
        labels, u = read_only(np.zeros(shape[0], np.int64)), np.zeros(shape[0])
        steps += (
            partial(dispatch.label_scores, rows, labels, score, u),
            partial(dispatch.members, rows, score, Bounds(np.ones((1, 1))), u),
        )
    return steps


def _with_whole_rankings() -> list[Step]:
    """Loops of float64 alone, to which float32 is widened, its order found in another way."""
    ip, none, group = parse_score("ip"), np.zeros(1), np.zeros(1, dtype=np.int64)
    held = Held(np.zeros((1, 2), dtype=np.int32), np.array([0, 1]), np.full(1, 0.5))
    single, double = (as_rows(np.full((1, 2), 0.5, dtype=kind)) for kind in (np.float32, np.float64))
    return [
        partial(dispatch.smallest, none, 1),
        partial(dispatch.class_scores, single, ip, none),
        partial(dispatch.class_scores, double, ip, none),
        partial(dispatch.p_values, double, ip, held, group, Draws(none, None), lambda start, p: None),
    ]


def _load_products() -> None:
    """Of float32 alone: sharpeners have no other."""
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


def _from_the_end() -> "subprocess.Popen[bytes] | None":
    """Another process that compiles the loops onto the disk, the last one first; None, if there can be none."""
    code = "from pippin._engine.warm_up import load_loops; load_loops(backwards=True)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with suppress(OSError):
        if sys.executable:
            quiet = subprocess.DEVNULL
            command = [sys.executable, "-c", code]
            return subprocess.Popen(command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
    return None
