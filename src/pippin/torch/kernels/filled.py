"""What kernels are told of limits, and what they fill in: sets, or the places and scores of labels."""

from typing import NamedTuple

import torch


class Limits(NamedTuple):
    """Limits of each group of rows: one for all classes, or one per class (`by_class`), and on ranks too (`by_rank`).

    `highest` (G,) is the largest of each group's `scores`, (G, K) or (G, 1). Row i is in group `group[i]`; where
    all rows are in the first one, `group` is anything. So are `ranks`, where there are no limits on them.
    """

    highest: torch.Tensor
    scores: torch.Tensor
    ranks: torch.Tensor
    group: torch.Tensor
    grouped: bool
    by_class: bool
    by_rank: bool


def one_limit(threshold: torch.Tensor) -> Limits:
    """A threshold, (1,), that all share."""
    return Limits(threshold, threshold, threshold, threshold, False, False, False)


def several_limits(scores: torch.Tensor, ranks: torch.Tensor | None, group: torch.Tensor | None) -> Limits:
    """Limits (G, K) or (G, 1); `ranks`, if any, (G, K) from 1; `group` the row of limits of every object."""
    by_class, scores = scores.shape[1] > 1 or ranks is not None, scores.contiguous()
    if ranks is not None:
        scores = scores.expand_as(ranks).contiguous()
    return Limits(
        scores.amax(dim=1),
        scores,
        scores if ranks is None else ranks.contiguous(),
        scores if group is None else group.contiguous(),
        group is not None,
        by_class,
        ranks is not None,
    )


class Found:
    """Sets to fill in, and the rows that are not settled yet: `left[:n_left[0]]`, in any order."""

    def __init__(self, x: torch.Tensor, width: int, want_mask: bool) -> None:
        n, n_classes = x.shape
        self.sizes = torch.empty(n, dtype=torch.int64, device=x.device)
        self.classes = torch.full((n, width), -1, dtype=torch.int64, device=x.device)
        self.mask = torch.zeros((n if want_mask else 0, n_classes), dtype=torch.bool, device=x.device)
        self.left = torch.empty(n, dtype=torch.int32, device=x.device)
        self.n_left = torch.zeros(1, dtype=torch.int32, device=x.device)


class Placed:
    """Labels (int64), and to fill in: their ranks from 0 (−1: no class), probabilities and scores.

    Rows are left as above; faults are counted.
    """

    def __init__(self, labels: torch.Tensor, kind: torch.dtype) -> None:
        self.labels = labels
        self.ranks = torch.empty_like(labels, dtype=torch.int32)
        self.own = torch.empty_like(labels, dtype=kind)
        self.scores = torch.empty_like(labels, dtype=torch.float64)
        self.left = torch.empty_like(self.ranks)
        counts = torch.zeros(2, dtype=torch.int32, device=labels.device)
        self.n_left, self.faults = counts[:1], counts[1:]
