"""Conformal test martingales: their state, and compiled updates."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Codes, Vector, read_only
from pippin._theory.martingale import BINS, PIECES, SLOPES, SUM, bettors

Update = Callable[[float, float, int, int], float]


class Martingale(NamedTuple):
    """State of a conformal test martingale.

    Attributes:
        counts: number of earlier scores by Mondrian category and histogram bin.
        tree: Fenwick trees of prefix sums of `counts`.
        bettors: the capital and parameters of each betting strategy.
        density: histogram of earlier p-values, from which the plug-in bettor estimates their density.
        rises: log gain of each linear bet since its last reset; the change point is estimated from them.
        since: number of the row at which each bet of `rises` was last reset.
    """

    counts: Codes
    tree: Codes
    bettors: Vector
    density: Vector
    rises: Vector
    since: Codes


def new_martingale(categories: int = 1) -> Martingale:
    """Return a martingale of value 1 without earlier scores."""
    counts, tree = np.zeros((categories, BINS), np.int64), np.zeros((categories, BINS + 1), np.int64)
    rises, since = np.zeros(len(SLOPES)), np.zeros(len(SLOPES), np.int64)
    return Martingale(counts, tree, bettors(), np.zeros(PIECES), rises, since)


def add_scores(martingale: Martingale, scores: Vector, category: int = 0) -> None:
    """Add reference scores to the histogram of a category, without betting on them."""
    from pippin._engine.numba_engine.martingale import add_scores

    add_scores(read_only(np.ascontiguousarray(scores)), martingale.counts[category], martingale.tree[category])


def restart(martingale: Martingale, rows: int) -> None:
    """Reset the statistics of change detection after an alarm at row `rows`, and those that estimate the change point.

    The histogram of scores and the capital of the bettors are kept.
    """
    martingale.bettors[:, SUM] = 0.0
    martingale.rises[:] = 0.0
    martingale.since[:] = rows


def updater(martingale: Martingale, detector: int) -> Update:
    """Return a function that updates the martingale by one row and returns the log of a statistic.

    `detector` selects the statistic: the value of the martingale, CUSUM or Shiryaev–Roberts. The function's arguments
    are the score of the row, a uniform number that breaks ties, the number of the row (from 1) and its Mondrian
    category. It bets on the conformal p-value of the score among the earlier scores of the category, then adds the
    score to these.
    """
    from pippin._engine.numba_engine.martingale import update

    return partial(update, martingale[:2], martingale[2:4], martingale[4:], detector)
