"""Compiled update of a conformal test martingale: the p-value of a score among all earlier ones, and the bets."""

from pippin._engine.numba_engine.compilation import entry_point, part
from pippin._runtime.arrays import Codes, Vector
from pippin._theory import martingale as theory

_add, _bin_of, _prefix_sum = part(theory.add_to_tree), part(theory.bin_of), part(theory.prefix_sum)
_bet, _follow, _gather = part(theory.bet), part(theory.follow), part(theory.gather)
_log_capital = part(theory.log_capital)
EVER = theory.EVER


@entry_point
def add_scores(scores: Vector, counts: Codes, tree: Codes) -> None:
    """Add scores to a histogram and to the Fenwick tree of its prefix sums."""
    for i in range(scores.size):
        place = _bin_of(scores[i])
        counts[place] += 1
        _add(tree, place, 1)


@entry_point
def p_value(score: float, v: float, counts: Codes, tree: Codes) -> float:
    """Compute the smoothed p-value of a score among n earlier scores, then add the score to them.

    It is (#{greater} + v·(#{equal} + 1))/(n + 1), with a uniform random number v.
    """
    place, n = _bin_of(score), tree[0]
    p: float = (n - _prefix_sum(tree, place) + v * (counts[place] + 1)) / (n + 1)
    counts[place] += 1
    _add(tree, place, 1)
    return p


@entry_point
def update(
    histogram: tuple[Codes, Codes],
    bettors: tuple[Vector, Vector],
    change: tuple[Vector, Codes],
    detector: int,
    score: float,
    v: float,
    row: int,
    category: int,
) -> float:
    """Update the test martingale by row number `row`, from 1, and return the logarithm of its value.

    With a `detector` of changes (CUSUM or Shiryaev–Roberts), return the logarithm of the detector's statistic instead.
    """
    p = p_value(score, v, histogram[0][category], histogram[1][category])
    _bet(bettors[0], bettors[1], p)
    _follow(change[0], change[1], p, row)
    return _log_capital(bettors[0]) if detector == EVER else _gather(bettors[0], detector)
