"""One more row of a stream: its p-value among all before it, and what the bettors gain by it; compiled."""

from pippin._engine.compiled.build import compiled, part
from pippin._runtime.arrays import Codes, Vector
from pippin._theory import betting, bins

_add, _bin_of, _up_to = part(bins.add), part(bins.bin_of), part(bins.up_to)
_bet, _follow, _log_capital = part(betting.bet), part(betting.follow), part(betting.log_capital)
_gather = part(betting.gather)
EVER = betting.EVER


@compiled
def fill(scores: Vector, counts: Codes, tree: Codes) -> None:
    """These scores join the pool."""
    for i in range(scores.size):
        place = _bin_of(scores[i])
        counts[place] += 1
        _add(tree, place, 1)


@part
def _ranked(score: float, v: float, counts: Codes, tree: Codes) -> float:
    """p = (#greater + v(#equal + 1))/(n + 1) among the pool, which the score joins then."""
    place, n = _bin_of(score), tree[0]
    p: float = (n - _up_to(tree, place) + v * (counts[place] + 1)) / (n + 1)
    counts[place] += 1
    _add(tree, place, 1)
    return p


@compiled
def p_value(score: float, v: float, counts: Codes, tree: Codes) -> float:
    """The same, for whoever wants the p-value alone."""
    return _ranked(score, v, counts, tree)


@compiled
def watch(
    pool: tuple[Codes, Codes],
    held: tuple[Vector, Vector],
    change: tuple[Vector, Codes],
    detector: int,
    score: float,
    v: float,
    row: int,
    cell: int,
) -> float:
    """The logarithm of the capital, or of a detector's sum, after the score of this row, counted from 1.

    `pool` are the counts and the tree of every cell, `held` the bettors and their density, `change` the rises.
    """
    p = _ranked(score, v, pool[0][cell], pool[1][cell])
    _bet(held[0], held[1], p)
    _follow(change[0], change[1], p, row)
    return _log_capital(held[0]) if detector == EVER else _gather(held[0], detector)
