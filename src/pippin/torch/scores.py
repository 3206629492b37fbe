"""Scores of ranked probabilities in torch, and types that the layers (`heads`) and the Triton kernel share."""

import math
from typing import NamedTuple

import torch

from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U

# Sizes, classes and mask of prediction sets; the mask has shape (0, K) if it is not requested.
TorchSetParts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class TorchScore(NamedTuple):
    """Coefficients of a nonconformity score as tensors: `table`, with one row per rank, and three `numbers`.

    The numbers are the constant of the score, the factor of the second largest probability in the score of the best
    class, and μ of SOCOP (NaN for other scores). `u` has one random number per row, or is empty if the score is
    not randomized. `linear` is True for a score that is linear in the probabilities, and False for SOCOP.
    """

    table: torch.Tensor
    numbers: torch.Tensor
    u: torch.Tensor
    linear: bool

    def take(self, rows: torch.Tensor) -> "TorchScore":
        """Return the score for the rows with these indices, with u = 0 if it is not randomized."""
        return self._replace(u=self.u[rows] if len(self.u) else self.u.new_zeros(len(rows)))


class TorchLimits(NamedTuple):
    """Largest scores of classes in prediction sets, and unless `ranks` is None, their largest ranks (from 1).

    Both have one row per group, and one column per class or one for all classes. `group` holds the index of each
    object's row; if None, all objects use the first row.
    """

    scores: torch.Tensor
    ranks: torch.Tensor | None
    group: torch.Tensor | None

    def take(self, rows: torch.Tensor) -> "TorchLimits":
        """Return the limits of the objects with these indices, with one row per object."""
        group = torch.zeros_like(rows) if self.group is None else self.group[rows]
        return TorchLimits(self.scores[group], None if self.ranks is None else self.ranks[group], None)


def wide(x: torch.Tensor) -> torch.dtype:
    """Return the float type in which probabilities are computed: float64 for float64 input, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def scores_by_rank(ranked: torch.Tensor, formula: TorchScore) -> torch.Tensor:
    """Compute scores in float64 at the first ranks of every row, in the order of operations of `formula.score_at`.

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
    """Return SOCOP's τ: the first local minimum of (m − 1 + μ)/(p[2] + … + p[m]) over m = 2, 3, …

    `below` holds the sorted probabilities from p[2] on.
    """
    counts = torch.arange(1, below.shape[1] + 1, dtype=torch.float64, device=below.device)
    ratio = (counts + mu) / torch.cumsum(below, dim=1)
    following = torch.nn.functional.pad(ratio[:, 1:], (0, 1), value=math.inf)
    stays = ~(following < ratio)
    stays[:, -1] = True
    return ratio.gather(1, stays.to(torch.int8).argmax(dim=1, keepdim=True)).squeeze(1)
