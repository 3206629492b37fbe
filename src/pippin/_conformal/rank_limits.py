"""A limit on the rank beside the one on the score (RC3P, Shi et al. 2024).

A class y is in the set if its score is at most q(y) and its rank at most k(y): a class that is
seldom ranked low when it is true need not be in sets where it is ranked low.
"""

import numpy as np

from pippin._conformal.cells import Cells
from pippin._engine.protocol import Bounds


def rc3p_limits(cells: Cells, alpha: float) -> Bounds:
    """Both limits of every class; each class is a cell of its own.

    Of n examples a class may lose A = n − k, with k = ⌈(n + 1)(1 − α)⌉. The rank limit is the
    smallest that loses no more: the k-th smallest rank. If it loses m, the score may lose
    the other A − m. If exactly A + 1 examples reach the rank limit, one example more
    could lower it, and the score is left free: then every class is covered with probability
    at least 1 − α whatever the scores are. A class too rare for k has no limit.

    >>> from pippin._conformal.cells import make_cells
    >>> scores, ranks = np.arange(9) / 10, np.array([1, 1, 1, 1, 1, 1, 1, 2, 3])
    >>> cells = make_cells(scores, np.zeros(9, dtype=int), np.array([[0, 1]]), ranks)
    >>> rc3p_limits(cells, 0.3)
    Bounds(scores=array([[0.8, inf]]), group=None, ranks=array([[1, 2]], dtype=int32))
    >>> rc3p_limits(cells, 0.2)
    Bounds(scores=array([[inf, inf]]), group=None, ranks=array([[2, 2]], dtype=int32))
    """
    assert cells.scores is not None
    assert cells.ranks is not None
    n_classes = cells.of.shape[1]
    scores = np.full(len(cells.counts), np.inf)
    ranks = np.full(len(cells.counts), n_classes, dtype=np.int32)
    for cell, k in enumerate(cells.quantile_ranks(alpha).tolist()):
        start, stop = cells.offsets[cell : cell + 2].tolist()
        if k > stop - start:
            continue
        own = np.sort(cells.ranks[start:stop])
        ranks[cell] = own[k - 1]
        before, reached = (int(np.searchsorted(own, own[k - 1], side)) for side in ("left", "right"))
        if place := score_place(k, stop - start, before, reached):
            scores[cell] = cells.scores[start + place - 1]
    return Bounds(scores[cells.of], None, ranks[cells.of])


def score_place(k: int, n: int, before: int, reached: int) -> int:
    """Which of a class's n scores, counted from the smallest, is its limit; 0, where the score is left free.

    `before` examples have a smaller rank than the limit, and `reached` none that is larger.
    """
    return k + n - reached if before < k - 1 else 0
