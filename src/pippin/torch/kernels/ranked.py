# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""Rows that are sorted already: the scores of every rank, of one, or how many are within a limit.

For rows whose few best classes do not settle them.
"""

import torch

from pippin.torch.kernels.filled import Formula, Found, Limits
from pippin.torch.kernels.formula import draw_of, limit_of, linear
from pippin.torch.kernels.language import constexpr, jit, launch, power_of_2, tl
from pippin.torch.kernels.sums import added

LARGE = 2048  # ranks that are added at once


@jit
def lowest_price(ranked, price, many):
    """SOCOP's τ of one sorted row."""
    mass = tl.load(ranked + 1).to(tl.float64)
    ratio = (1 + price) / mass
    rank = tl.full((), 2, tl.int32)
    falls = tl.full((), 1, tl.int1)
    while (rank < many) & falls:
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
def score_at(ranked, rank, table, formula, u, weighty, K: constexpr, BLOCK: constexpr, LINEAR: constexpr):
    """The score at one rank of a sorted row."""
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    own = tl.load(ranked + rank).to(tl.float64)
    if LINEAR:
        mass = mass_above(ranked, table, tl.minimum(rank, weighty), BLOCK)
        if rank == 0:
            mass = second * tl.load(ranked + 1).to(tl.float64)
        score = linear(table, rank, constant, own, mass, u)
    else:
        score = 1.0 / own
        if rank > 0:
            score = tl.maximum(score, lowest_price(ranked, price, K))
    return score


@jit
def linear_block(ranked, table, first, constant, second, mass, u, many, BLOCK: constexpr):
    """The scores of a block of the ranks of a sorted row, for how many these are right, and the sum behind those."""
    rank = first + tl.arange(0, BLOCK)
    real = rank < many
    p = tl.load(ranked + rank, mask=real, other=0.0).to(tl.float64)
    entry = table + rank * 5
    before, right, mass = added(mass, tl.load(entry + 2, mask=real, other=0.0) * p, BLOCK)
    if first == 0:
        before = tl.where(rank == 0, second * tl.load(ranked + 1).to(tl.float64), before)
    own = tl.load(entry, mask=real, other=0.0) + u * tl.load(entry + 1, mask=real, other=0.0)
    penalty = tl.load(entry + 3, mask=real, other=0.0) + u * tl.load(entry + 4, mask=real, other=0.0)
    return (constant + own * p) + before + penalty, right, mass


@jit
def price_block(ranked, first, price, many, BLOCK: constexpr):
    """The same of SOCOP, whose τ is known."""
    rank = first + tl.arange(0, BLOCK)
    alone = 1.0 / (tl.load(ranked + rank, mask=rank < many, other=0.0).to(tl.float64) + 0.0)
    return tl.where(rank == 0, alone, tl.maximum(alone, price))


@jit
def _scores(
    ranked, table, formula, draws, scores, K: constexpr, BLOCK: constexpr, LINEAR: constexpr, DRAWN: constexpr
):  # fmt: skip
    """All scores of one sorted row, a block of ranks at a time."""
    row = tl.program_id(0).to(tl.int64)
    start, out = ranked + row * K, scores + row * K
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    u = draw_of(draws, row, DRAWN)
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


def scores_of_ranked(ranked: torch.Tensor, formula: Formula) -> torch.Tensor:
    """(n, K) scores in float64, of contiguous rows that are sorted downwards."""
    n, n_classes = ranked.shape
    scores = torch.empty((n, n_classes), dtype=torch.float64, device=ranked.device)
    block = min(LARGE, power_of_2(n_classes))
    if n:
        launch(
            _scores, n, (ranked, *formula[:3], scores), (), (n_classes, block, formula.linear, formula.drawn),
            max(1, block // 256),
        )  # fmt: skip
    return scores


@jit
def ranks_within(
    ranked, many, table, formula, u, limit, scores, BLOCK: constexpr, LINEAR: constexpr, KEPT: constexpr
):  # fmt: skip
    """How many of the first ranks of a sorted row score at most the limit; their scores are written down, if KEPT."""
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    mass = tl.full((), 0.0, tl.float64)
    if LINEAR == 0:
        mass = lowest_price(ranked, price, many)
    size = tl.full((), 0, tl.int32)
    first = tl.full((), 0, tl.int32)
    right = tl.full((), BLOCK, tl.int32)
    going = tl.full((), 1, tl.int1)
    while (first < many) & going:
        rank = first + tl.arange(0, BLOCK)
        if LINEAR:
            score, right, mass = linear_block(ranked, table, first, constant, second, mass, u, many, BLOCK)
        else:
            score = price_block(ranked, first, mass, many, BLOCK)
        real = tl.load(ranked + rank, mask=rank < many, other=-1.0) >= 0
        within = real & (rank < first + right) & (score <= limit)
        if KEPT:
            tl.store(scores + rank, score, mask=within)
        inside = tl.sum(within.to(tl.int32), axis=0)
        size += inside
        going = inside == right
        first += right
    return size


@jit
def _sets(
    ranked, order, rows, table, formula, draws, highest, group, sizes, members, width,
    K: constexpr, BLOCK: constexpr, LINEAR: constexpr, DRAWN: constexpr, GROUPED: constexpr,
):  # fmt: skip
    """The set of one sorted row, whose classes share a limit: the first of them."""
    place = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + place)
    u = draw_of(draws, row, DRAWN)
    _, limit = limit_of(highest, group, row, GROUPED)
    size = ranks_within(ranked + place * K, K, table, formula, u, limit, table, BLOCK, LINEAR, False)
    tl.store(sizes + row, size.to(tl.int64))
    first = tl.full((), 0, tl.int32)
    while first < width:
        rank = first + tl.arange(0, BLOCK)
        k = tl.load(order + place * K + rank, mask=rank < size, other=-1)
        tl.store(members + row * width + rank, k, mask=rank < width)
        first += BLOCK


@jit
def _mark(
    probs, ranked, order, rows, sizes, mask, K: constexpr, BLOCK: constexpr, BLOCKS: constexpr
):  # fmt: skip
    """Which of a block of one row's classes are members: all, or those up to the last one."""
    place = (tl.program_id(0) // BLOCKS).to(tl.int64)
    row = tl.load(rows + place)
    size, k = tl.load(sizes + row), tl.program_id(0) % BLOCKS * BLOCK + tl.arange(0, BLOCK)
    inside = tl.full((BLOCK,), 1, tl.int1)
    if size < K:
        last = place * K + tl.maximum(size, 1) - 1
        least, final = tl.load(ranked + last), tl.load(order + last)
        p = tl.load(probs + place * K + k, mask=k < K, other=-1.0)
        inside = ((p > least) | ((p == least) & (k <= final))) & (size > 0)
    tl.store(mask + row * K + k, inside.to(tl.int8), mask=k < K)


def sets_of_ranked(
    rows: torch.Tensor, probs: torch.Tensor, formula: Formula, limits: Limits, found: Found
) -> None:  # fmt: skip
    """Fills in the sets of some rows, whose probabilities are these, and whose limits are not by class."""
    ranked, order = probs.sort(dim=1, descending=True, stable=True)
    many, n_classes = ranked.shape
    block = min(LARGE, power_of_2(n_classes))
    launch(
        _sets, many,
        (ranked, order, rows, *formula[:3], limits.highest, limits.group, found.sizes, found.classes),
        (found.classes.shape[1],), (n_classes, block, formula.linear, formula.drawn, limits.grouped),
        max(1, block // 256),
    )  # fmt: skip
    if found.inside is not None:
        blocks = -(-n_classes // block)
        launch(
            _mark, many * blocks, (probs, ranked, order, rows, found.sizes, found.inside), (),
            (n_classes, block, blocks), max(1, block // 512),
        )  # fmt: skip


@jit
def _labels(
    ranked, table, formula, draws, ranks, scores, weighty,
    K: constexpr, BLOCK: constexpr, LINEAR: constexpr, DRAWN: constexpr,
):  # fmt: skip
    """The score at one rank of a sorted row."""
    row = tl.program_id(0).to(tl.int64)
    u, rank = draw_of(draws, row, DRAWN), tl.load(ranks + row)
    tl.store(scores + row, score_at(ranked + row * K, rank, table, formula, u, weighty, K, BLOCK, LINEAR))


def labels_of_ranked(
    ranked: torch.Tensor, ranks: torch.Tensor, formula: Formula, weighty: int
) -> torch.Tensor:  # fmt: skip
    """The scores (n,) at one rank of each row, from 0, of contiguous rows that are sorted downwards."""
    n, n_classes = ranked.shape
    scores = torch.empty(n, dtype=torch.float64, device=ranked.device)
    block = min(LARGE, power_of_2(n_classes))
    launch(
        _labels, n, (ranked, *formula[:3], ranks, scores), (weighty,),
        (n_classes, block, formula.linear, formula.drawn), max(1, block // 256),
    )  # fmt: skip
    return scores
