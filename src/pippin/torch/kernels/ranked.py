# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""The scores of rows that are sorted already, at every rank: for rows whose few best classes do not settle them."""

import torch

from pippin.torch.kernels.formula import linear
from pippin.torch.kernels.language import constexpr, jit, on_device_of, power_of_2, tl
from pippin.torch.kernels.sums import steps

LARGE, SMALL = 2048, 32  # ranks that are added at once


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
def block_scores(start, out, table, first, constant, second, mass, u, K: constexpr, BLOCK: constexpr):
    """Writes the scores of a block of ranks and says so, if its terms can be added at once; else nothing is done."""
    rank = first + tl.arange(0, BLOCK)
    real = rank < K
    p = tl.load(start + rank, mask=real, other=0.0).to(tl.float64)
    entry = table + rank * 5
    step, calm = steps(mass, tl.where(real, tl.load(entry + 2, mask=real, other=0.0) * p, 0.0))
    if calm:
        before = mass + (tl.cumsum(step, axis=0) - step)
        own = tl.load(entry, mask=real, other=0.0) + u * tl.load(entry + 1, mask=real, other=0.0)
        penalty = tl.load(entry + 3, mask=real, other=0.0) + u * tl.load(entry + 4, mask=real, other=0.0)
        tl.store(out + rank, (constant + own * p) + before + penalty, mask=real)
        mass += tl.sum(step, axis=0)
    return mass, calm


@jit
def _scores(
    ranked, table, formula, draws, scores, K: constexpr, LARGE: constexpr, SMALL: constexpr, LINEAR: constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    start, out = ranked + row * K, scores + row * K
    constant, second, price = tl.load(formula), tl.load(formula + 1), tl.load(formula + 2)
    u = tl.load(draws + row)
    mass = tl.full((), 0.0, tl.float64)
    if LINEAR == 0:
        mass = lowest_price(start, price, K)
    for first in range(0, K, LARGE):
        if LINEAR:
            mass, calm = block_scores(start, out, table, first, constant, second, mass, u, K, LARGE)
            within = tl.full((), first, tl.int32)
            while (calm == 0) & (within < K) & (within < first + LARGE):
                mass, still = block_scores(start, out, table, within, constant, second, mass, u, K, SMALL)
                one = within
                within += SMALL
                while (still == 0) & (one < K) & (one < within):
                    wide = tl.load(start + one).to(tl.float64)
                    before = mass
                    if one == 0:
                        before = second * tl.load(start + 1).to(tl.float64)
                    tl.store(out + one, linear(table, one, constant, wide, before, u))
                    mass += tl.load(table + one * 5 + 2) * wide
                    one += 1
        else:
            rank = first + tl.arange(0, LARGE)
            real = rank < K
            alone = 1.0 / (tl.load(start + rank, mask=real, other=0.0).to(tl.float64) + 0.0)
            tl.store(out + rank, tl.where(rank == 0, alone, tl.maximum(alone, mass)), mask=real)


def scores_of_ranked(
    ranked: torch.Tensor, table: torch.Tensor, formula: torch.Tensor, u: torch.Tensor, linear: bool
) -> torch.Tensor:
    """(n, K) scores in float64, of contiguous rows that are sorted downwards."""
    n, n_classes = ranked.shape
    scores = torch.empty((n, n_classes), dtype=torch.float64, device=ranked.device)
    large = min(LARGE, max(SMALL, power_of_2(n_classes)))
    if n:
        with on_device_of(ranked):
            _scores[(n,)](
                ranked,
                table,
                formula,
                u,
                scores,
                n_classes,
                large,
                SMALL,
                linear,
                num_warps=max(1, large // 256),
                enable_fp_fusion=False,
            )
    return scores
