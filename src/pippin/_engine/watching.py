"""The evidence of a stream: the pool of its scores, and what bettors have gained; a step is always compiled."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Codes, Vector, read_only
from pippin._theory.betting import PIECES, SLOPES, SUM, bettors
from pippin._theory.bins import BINS

Watch = Callable[[float, float, int, int], float]


class Evidence(NamedTuple):
    """Scores of every cell by bin with the tree of their sums, the bettors with the density that one of them bets on,
    and the rises that look for the beginning of a change."""

    counts: Codes
    tree: Codes
    bettors: Vector
    density: Vector
    rises: Vector
    since: Codes


def no_evidence(cells: int = 1) -> Evidence:
    """Empty pools, and a capital of 1."""
    whole = np.int64
    return Evidence(
        np.zeros((cells, BINS), whole),
        np.zeros((cells, BINS + 1), whole),
        bettors(),
        np.zeros(PIECES),
        np.zeros(len(SLOPES)),
        np.zeros(len(SLOPES), whole),
    )


def fill(evidence: Evidence, scores: Vector, cell: int = 0) -> None:
    """Scores from before the stream join a pool."""
    from pippin._engine.compiled import watching

    watching.fill(read_only(np.ascontiguousarray(scores)), evidence.counts[cell], evidence.tree[cell])


def begin_anew(evidence: Evidence, rows: int) -> None:
    """After an alarm: sums and rises from nothing; the pool and what bettors have learnt stay."""
    evidence.bettors[:, SUM] = 0.0
    evidence.rises[:] = 0.0
    evidence.since[:] = rows


def watcher(evidence: Evidence, detector: int) -> Watch:
    """A function of a row's score, a draw v, the row's number, counted from 1, and its cell; compiled.

    The score is ranked among its cell's pool, ties broken by v, and joins it; what is returned is the
    logarithm of the capital after that, or of the detector's sum.
    """
    from pippin._engine.compiled import watching

    return partial(watching.watch, evidence[:2], evidence[2:4], evidence[4:], detector)
