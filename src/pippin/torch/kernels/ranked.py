# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""The scores of rows that are sorted already, at every rank: for rows whose few best classes do not settle them."""

import torch

from pippin.torch.kernels.formula import linear
from pippin.torch.kernels.language import constexpr, jit, launch, power_of_2, tl
from pippin.torch.kernels.sums import added

LARGE = 2048  # ranks that are added at once


@jit
def lowest_price(ranked, price, K: constexpr):
    """SOCOP's τ of one sorted row."""
    mass = tl.load(ranked + 1).to(tl.float64)
    ratio = (1 + price) / mass
    rank = tl.full((), 2, tl.int32)
    falls = tl.full((), 1, tl.int1)
    while (rank < K) & falls:
        mass += tl.load(ranked + rank).to(tl.float64)
        following = (rank + price) / mass
        falls = following < ratio
        ratio = tl.where(falls, following, ratio)
        rank += 1
    return ratio


@jit
def mass_above(ranked, table, needed, BLOCK: constexpr):
    """The weighted sum of the first `needed` values of a sorted row, in their order."""
    mass = tl.full((), 0.0, tl.float64)
    first = tl.full((), 0, tl.int32)
    while first < needed:
        rank = first + tl.arange(0, BLOCK)
        real = rank < needed
        p = tl.load(ranked + rank, mask=real, other=0.0).to(tl.float64)
        _, many, mass = added(mass, tl.load(table + rank * 5 + 2, mask=real, other=0.0) * p, BLOCK)
        first += many
    return mass


@jit
def linear_block(ranked, table, first, constant, second, mass, u, K: constexpr, BLOCK: constexpr):
    """The scores of a block of ranks of a sorted row, for how many these are right, and the sum behind those."""
    rank = first + tl.arange(0, BLOCK)
    real = rank < K
    p = tl.load(ranked + rank, mask=real, other=0.0).to(tl.float64)
    entry = table + rank * 5
    before, many, mass = added(mass, tl.load(entry + 2, mask=real, other=0.0) * p, BLOCK)
    if first == 0:
        before = tl.where(rank == 0, second * tl.load(ranked + 1).to(tl.float64), before)
    own = tl.load(entry, mask=real, other=0.0) + u * tl.load(entry + 1, mask=real, other=0.0)
    penalty = tl.load(entry + 3, mask=real, other=0.0) + u * tl.load(entry + 4, mask=real, other=0.0)
    return (constant + own * p) + before + penalty, many, mass


@jit
def price_block(ranked, first, price, K: constexpr, BLOCK: constexpr):
    """The same of SOCOP, whose τ is known."""
    rank = first + tl.arange(0, BLOCK)
    alone = 1.0 / (tl.load(ranked + rank, mask=rank < K, other=0.0).to(tl.float64) + 0.0)
    return tl.where(rank == 0, alone, tl.maximum(alone, price))


@jit
def _scores(
    ranked, table, formula, draws, scores, K: constexpr, BLOCK: constexpr, LINEAR: constexpr, DRAWN: constexpr
):  # fmt: skip
    """All scores of one sorted row, a block of ranks at a time."""
    row = tl.program_id(0).to(tl.int64)
    start, out = ranked + row * K, scores + row * K
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    u = tl.full((), 0.0, tl.float64)
    if DRAWN:
        u = tl.load(draws + row)
    mass = tl.full((), 0.0, tl.float64)
    if LINEAR == 0:
        mass = lowest_price(start, price, K)
    first = tl.full((), 0, tl.int32)
    many = tl.full((), BLOCK, tl.int32)
    place = tl.arange(0, BLOCK)
    while first < K:
        if LINEAR:
            score, many, mass = linear_block(start, table, first, constant, second, mass, u, K, BLOCK)
        else:
            score = price_block(start, first, mass, K, BLOCK)
        tl.store(out + first + place, score, mask=(first + place < K) & (place < many))
        first += many


def scores_of_ranked(
    ranked: torch.Tensor, table: torch.Tensor, formula: torch.Tensor, u: torch.Tensor, linear: bool
) -> torch.Tensor:
    """(n, K) scores in float64, of contiguous rows that are sorted downwards."""
    n, n_classes = ranked.shape
    scores = torch.empty((n, n_classes), dtype=torch.float64, device=ranked.device)
    block = min(LARGE, power_of_2(n_classes))
    if n:
        launch(
            _scores, n, (ranked, table, formula, u, scores), (), (n_classes, block, linear, u.shape[0] > 0),
            max(1, block // 256),
        )  # fmt: skip
    return scores


@jit
def _labels(
    ranked, table, formula, draws, ranks, scores, weighty,
    K: constexpr, BLOCK: constexpr, LINEAR: constexpr, DRAWN: constexpr,
):  # fmt: skip
    """The score at one rank of a sorted row."""
    row = tl.program_id(0).to(tl.int64)
    start, last = ranked + row * K, tl.load(ranks + row)
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    own = tl.load(start + last).to(tl.float64)
    u = tl.full((), 0.0, tl.float64)
    if DRAWN:
        u = tl.load(draws + row)
    if LINEAR:
        mass = mass_above(start, table, tl.minimum(last, weighty), BLOCK)
        if last == 0:
            mass = second * tl.load(start + 1).to(tl.float64)
        score = linear(table, last, constant, own, mass, u)
    else:
        score = 1.0 / own
        if last > 0:
            score = tl.maximum(score, lowest_price(start, price, K))
    tl.store(scores + row, score)


def labels_of_ranked(
    ranked: torch.Tensor, ranks: torch.Tensor, table: torch.Tensor, formula: torch.Tensor, u: torch.Tensor,
    linear: bool, weighty: int,
) -> torch.Tensor:  # fmt: skip
    """The scores (n,) at one rank of each row, from 0, of contiguous rows that are sorted downwards."""
    n, n_classes = ranked.shape
    scores = torch.empty(n, dtype=torch.float64, device=ranked.device)
    block = min(LARGE, power_of_2(n_classes))
    launch(
        _labels, n, (ranked, table, formula, u, ranks, scores), (weighty,),
        (n_classes, block, linear, u.shape[0] > 0), max(1, block // 256),
    )  # fmt: skip
    return scores
