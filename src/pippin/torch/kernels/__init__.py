"""Triton kernels: what the core does with rows, on the GPU where they are, with the core's bits.

Rows of up to 4,096 classes are read once: `rows.py` makes the softmax, walks the ranks and finds the set, or the score
of the label; `whole.py` sorts the few rows that this leaves. Of longer rows `softmax.py` finds two numbers that make
their probabilities, and the largest value of every group of classes; `tops.py` looks into the groups that can have the
best few and ranks the label, and `few.py` walks the ranks of many rows at once; what is left is sorted by torch, and
scored by `ranked.py`. `sums.py` says how a sum in rank order is made of many terms at once.
"""

from collections.abc import Iterator

import torch

from pippin.torch.kernels.few import few_labels, few_sets
from pippin.torch.kernels.filled import Found, Limits, Placed, one_limit, several_limits
from pippin.torch.kernels.language import serve
from pippin.torch.kernels.ranked import scores_of_ranked
from pippin.torch.kernels.rows import few_classes, labels_of_rows, probabilities_of_rows, sets_of_rows
from pippin.torch.kernels.softmax import NEAR, Measured, measure, unmeasured, written
from pippin.torch.kernels.tops import list_tops, rank_labels
from pippin.torch.kernels.whole import can_sort, whole_labels, whole_sets

__all__ = [
    "NEAR",
    "label_scores",
    "listed",
    "one_limit",
    "probabilities",
    "scores_of_ranked",
    "serve",
    "sets",
    "several_limits",
]

AT_ONCE = 1 << 24  # probabilities that are sorted at once


def probabilities(x: torch.Tensor) -> torch.Tensor:
    """The softmax of (n, K) logits: what all kernels take for their probabilities, to the last bit."""
    if not len(x):
        return unmeasured(x, True).numbers.new_empty(x.shape)
    return probabilities_of_rows(unmeasured(x, True)) if few_classes(x) else written(measure(x, True))


def sets(
    x: torch.Tensor,
    softmax: bool,
    table: torch.Tensor,
    formula: torch.Tensor,
    u: torch.Tensor,
    limits: Limits,
    linear: bool,
    width: int,
    want_mask: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sizes (n,), the first `width` members (n, width), and membership (n, K), or (0, K) if not wanted.

    Of logits, if `softmax`, else of probabilities; `formula` holds c, b and μ.
    """
    found = Found(x, width, want_mask)
    if not len(x):
        return found.sizes, found.classes, found.mask
    if few_classes(x):
        measured = unmeasured(x, softmax)
        sets_of_rows(measured, table, formula, u, limits, found, linear)
    else:
        measured = measure(x, softmax)
        few_sets(measured, list_tops(measured), table, formula, u, limits, found, linear)
    if can_sort(measured):
        whole_sets(measured, table, formula, u, limits, found, linear)
    else:
        for rows in _left(found, x.shape[1]):
            _sort_sets(rows, measured, table, formula, u, limits, found, linear)
    return found.sizes, found.classes, found.mask


def label_scores(
    x: torch.Tensor,
    softmax: bool,
    labels: torch.Tensor,
    table: torch.Tensor,
    formula: torch.Tensor,
    u: torch.Tensor,
    linear: bool,
    weighty: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The scores of labels in float64, their ranks from 0, and how many faults there are, (1,).

    A fault is a label that is no class (its rank is −1), or a row that may be no distribution: where the softmax is
    NaN, or a sum is not near 1. `weighty` says of how many of the best classes the weights are not 0.
    """
    measured = unmeasured(x, softmax)
    placed = Placed(labels, measured.numbers.dtype)
    if not len(x):
        return placed.scores, placed.ranks, placed.faults
    if few_classes(x):
        labels_of_rows(measured, table, formula, u, placed, linear, weighty)
    else:
        measured = measure(x, softmax)
        rank_labels(measured, placed)
        few_labels(measured, list_tops(measured), table, formula, u, placed, linear, weighty)
    if can_sort(measured):
        whole_labels(measured, table, formula, u, placed, linear, weighty)
    else:
        for rows in _left(placed, x.shape[1]):
            ranked = written(measured, rows).sort(dim=1, descending=True).values
            scores = scores_of_ranked(ranked, table, formula, u[rows], linear)
            placed.scores[rows] = scores.gather(1, placed.ranks[rows].long()[:, None]).squeeze(1)
    return placed.scores, placed.ranks, placed.faults


def _left(found: Found | Placed, n_classes: int) -> Iterator[torch.Tensor]:
    """The rows that are left, so many at a time that they can be sorted."""
    many = int(found.n_left)
    return iter(torch.split(found.left[:many].long(), max(1, AT_ONCE // n_classes)) if many else ())


def _sort_sets(
    rows: torch.Tensor,
    measured: Measured,
    table: torch.Tensor,
    formula: torch.Tensor,
    u: torch.Tensor,
    limits: Limits,
    found: Found,
    linear: bool,
) -> None:
    """Fills in the sets of some rows from a stable sort."""
    ranked, order = written(measured, rows).sort(dim=1, descending=True, stable=True)
    scores = scores_of_ranked(ranked, table, formula, u[rows], linear)
    group = limits.group[rows] if limits.grouped else torch.zeros_like(rows)
    inside = (scores <= limits.highest[group][:, None]) & (ranked >= 0)
    if limits.by_class:
        inside &= scores <= limits.scores[group].gather(1, order)
    if limits.by_rank:
        inside &= torch.arange(order.shape[1], device=order.device) < limits.ranks[group].gather(1, order)
    found.sizes[rows], found.classes[rows] = listed(inside, order, found.classes.shape[1])
    if len(found.mask):
        found.mask[rows] = torch.zeros_like(inside).scatter(1, order, inside)


def listed(inside: torch.Tensor, order: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """How many of the ranked classes are members, and the first `width` of them, then −1."""
    position = inside.cumsum(dim=1) - 1
    fits = inside & (position < width)
    classes = torch.full((len(order), width + 1), -1, dtype=torch.int64, device=order.device)
    classes.scatter_(1, torch.where(fits, position, width), torch.where(fits, order, -1))
    return inside.sum(dim=1), classes[:, :width]
