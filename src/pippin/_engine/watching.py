"""The evidence of a stream: the pool of its scores, and what bettors have gained; a step is always compiled."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Codes, Vector, read_only
from pippin._theory.betting import SLOPES, jumpers
from pippin._theory.bins import BINS

Watch = Callable[[float, float, int], float]


class Evidence(NamedTuple):
    """Scores by bin with the tree of their sums, the bettors, and the rises that look for the beginning of a change."""

    counts: Codes
    tree: Codes
    capitals: Vector
    rises: Vector
    since: Codes


def no_evidence() -> Evidence:
    """An empty pool, and a capital of 1."""
    whole = np.int64
    return Evidence(
        np.zeros(BINS, whole),
        np.zeros(BINS + 1, whole),
        jumpers(),
        np.zeros(len(SLOPES)),
        np.zeros(len(SLOPES), whole),
    )


def fill(evidence: Evidence, scores: Vector) -> None:
    """Scores from before the stream join the pool."""
    from pippin._engine.compiled import watching

    watching.fill(read_only(np.ascontiguousarray(scores)), evidence.counts, evidence.tree)


def watcher(evidence: Evidence) -> Watch:
    """A function of a row's score, a draw v and the row's number, counted from 1; compiled.

    The score is ranked among the pool, ties broken by v, and joins it; what is returned is the
    logarithm of the capital after that.
    """
    from pippin._engine.compiled import watching

    pool, capitals, rises, since = (evidence.counts, evidence.tree), *evidence[2:]
    step = watching.watch
    return lambda score, v, row: step(score, v, row, pool, capitals, rises, since)
