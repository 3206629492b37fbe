"""State of a conformal test martingale: score histograms, bettors and change-point statistics; always compiled."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Codes, Vector, read_only
from pippin._theory.martingale import BINS, PIECES, SLOPES, SUM, bettors

Update = Callable[[float, float, int, int], float]


class Martingale(NamedTuple):
    """State of a conformal test martingale.

    Counts of scores by cell and bin, with Fenwick trees of their prefix sums; the bettors, with the p-value histogram
    of the plug-in bettor; log-likelihood rises that estimate the change point, with the row at which each began.
    """

    counts: Codes
    tree: Codes
    bettors: Vector
    density: Vector
    rises: Vector
    since: Codes


def new_martingale(cells: int = 1) -> Martingale:
    """Return a martingale of value 1 without earlier scores."""
    counts, tree = np.zeros((cells, BINS), np.int64), np.zeros((cells, BINS + 1), np.int64)
    rises, since = np.zeros(len(SLOPES)), np.zeros(len(SLOPES), np.int64)
    return Martingale(counts, tree, bettors(), np.zeros(PIECES), rises, since)


def add_scores(martingale: Martingale, scores: Vector, cell: int = 0) -> None:
    """Add reference scores to the histogram of a cell, without betting on them."""
    from pippin._engine.numba_engine.martingale import add_scores

    add_scores(read_only(np.ascontiguousarray(scores)), martingale.counts[cell], martingale.tree[cell])


def restart(martingale: Martingale, rows: int) -> None:
    """Reset the detector sums and the rises after an alarm at row `rows`; keep histograms and bettors."""
    martingale.bettors[:, SUM] = 0.0
    martingale.rises[:] = 0.0
    martingale.since[:] = rows


def updater(martingale: Martingale, detector: int) -> Update:
    """Return a function that updates the martingale by one row and returns the log of the detector's statistic.

    Its arguments are the row's score, a uniform number that breaks ties, the number of the row (from 1) and its cell.
    The conformal p-value of the score among the earlier ones of its cell is bet on, then the score joins them.
    """
    from pippin._engine.numba_engine.martingale import update

    return partial(update, martingale[:2], martingale[2:4], martingale[4:], detector)
