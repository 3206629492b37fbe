"""What kernels are told of limits, and what they fill in: sets, or the places and scores of labels."""

from typing import NamedTuple

import torch

ROOM = 8 * 256 + 1  # how often a score has each byte in each of its 8 places, and how many programs have counted


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
    """Sets to fill in. A size of −1 marks a row that is not settled yet."""

    def __init__(self, x: torch.Tensor, width: int, want_mask: bool) -> None:
        n, n_classes = x.shape
        self.sizes = torch.empty(n, dtype=torch.int64, device=x.device)
        self.classes = torch.empty((n, width), dtype=torch.int64, device=x.device)
        self.mask = torch.empty((n if want_mask else 0, n_classes), dtype=torch.bool, device=x.device)

    def cleared(self) -> "Found":
        """The same without members, for those who fill in nothing else."""
        self.classes.fill_(-1)
        self.mask.zero_()
        return self

    def left(self) -> torch.Tensor:
        """The rows that are not settled yet."""
        return (self.sizes < 0).nonzero().squeeze(1)


class Placed:
    """Labels (int64), and to fill in: their scores, and their ranks from 0; −1 of what is no class.

    −2 − r marks a label of rank r whose score is not settled yet. The first of `faults` counts these; all others are 0,
    and have room for the counts of `select.py`.
    """

    def __init__(self, labels: torch.Tensor) -> None:
        self.labels = labels
        self.ranks = torch.empty_like(labels, dtype=torch.int32)
        self.scores = torch.empty_like(labels, dtype=torch.float64)
        self.faults = torch.zeros(1 + ROOM, dtype=torch.int32, device=labels.device)

    def left(self) -> torch.Tensor:
        """The rows that are not settled yet."""
        return (self.ranks < -1).nonzero().squeeze(1)
