"""Scores of ranked probabilities in torch, and the values that heads and the row kernel share."""

import math
from typing import NamedTuple

import torch

from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U

TorchSetParts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # sizes, members and mask; without a mask (0, K)


class TorchScore(NamedTuple):
    """Score as tensors: the coefficients of every rank (K, 5), and c, b and μ in `numbers`.

    `u` has one random number per row; it is empty for a score that is not randomized. `linear` is False for SOCOP.
    """

    table: torch.Tensor
    numbers: torch.Tensor
    u: torch.Tensor
    linear: bool

    def take(self, rows: torch.Tensor) -> "TorchScore":
        """Score of some rows, with u = 0 where none was drawn."""
        return self._replace(u=self.u[rows] if len(self.u) else self.u.new_zeros(len(rows)))


class TorchLimits(NamedTuple):
    """Largest score of a member, and its largest rank (from 1) if `ranks` is given.

    Both have one row per group and one column per class, or one column for all classes. `group` is the row of limits
    of each object; without it all objects use the first row.
    """

    scores: torch.Tensor
    ranks: torch.Tensor | None
    group: torch.Tensor | None

    def take(self, rows: torch.Tensor) -> "TorchLimits":
        """Limits with one row per object."""
        group = torch.zeros_like(rows) if self.group is None else self.group[rows]
        return TorchLimits(self.scores[group], None if self.ranks is None else self.ranks[group], None)


def wide(x: torch.Tensor) -> torch.dtype:
    """Type of probabilities: float64 for float64, float32 for anything narrower."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def scores_by_rank(ranked: torch.Tensor, formula: TorchScore) -> torch.Tensor:
    """Scores in float64 of the first ranks of every row, as `pippin._theory.formula.score_at` computes them.

    Args:
        ranked: (n, m) probabilities in decreasing order; all of them (m = K) for SOCOP.
        formula: a score with one u per row.
    """
    p = ranked.double()
    constant, second, mu = formula.numbers.unbind()
    mass = torch.empty_like(p)
    if formula.linear:
        table, u = formula.table[: p.shape[1]], formula.u[:, None]
        mass[:, 0] = second * p[:, 1]
        mass[:, 1:] = torch.cumsum(table[:-1, ABOVE] * p[:, :-1], dim=1)
        own = table[:, OWN] + u * table[:, OWN_U]
        return (constant + own * p) + mass + (table[:, PENALTY] + u * table[:, PENALTY_U])
    mass[:, 0] = 0.0
    mass[:, 1:] = _lowest_ratio(p[:, 1:], mu)[:, None]
    return torch.maximum(1.0 / (p + 0.0), mass)


def _lowest_ratio(below: torch.Tensor, mu: torch.Tensor) -> torch.Tensor:
    """τ of SOCOP: the first (m − 1 + μ)/(p[2] + … + p[m]), m = 2, 3, …, after which the ratio does not fall."""
    counts = torch.arange(1, below.shape[1] + 1, dtype=torch.float64, device=below.device)
    ratio = (counts + mu) / torch.cumsum(below, dim=1)
    following = torch.nn.functional.pad(ratio[:, 1:], (0, 1), value=math.inf)
    stays = ~(following < ratio)
    stays[:, -1] = True
    return ratio.gather(1, stays.to(torch.int8).argmax(dim=1, keepdim=True)).squeeze(1)
