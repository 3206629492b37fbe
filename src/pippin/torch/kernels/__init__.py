"""Triton kernels: what the core does with rows, on the GPU where they are, with the core's bits.

Rows of up to 4,096 classes are read once: `rows.py` makes the softmax, walks the ranks and finds the set, or the score
of the label, of a row that one program holds (`held.py`); `whole.py` ranks the few rows that this leaves. Of longer
rows `softmax.py` finds two numbers that make their probabilities, and the largest value of every group of classes;
`tops.py` looks into the groups that can have the best few and ranks the label, and `few.py` walks the ranks of many
rows at once; of what is left, sets by a flat score are counted by `counted.py`, and all else is sorted by torch, and
scored by `ranked.py`. `sums.py` says how a sum in rank order is made of many terms at once. `select.py` finds the
threshold among the scores.
"""

import torch

from pippin.torch.kernels.counted import counted_sets
from pippin.torch.kernels.few import few_labels, few_sets
from pippin.torch.kernels.filled import (
    Formula,
    Found,
    Left,
    Limits,
    Placed,
    give_back,
    one_limit,
    room_for_left,
    several_limits,
)
from pippin.torch.kernels.held import few_classes
from pippin.torch.kernels.language import serve
from pippin.torch.kernels.ranked import labels_of_ranked, scores_of_ranked, sets_of_ranked
from pippin.torch.kernels.rows import labels_of_rows, probabilities_of_rows, sets_of_rows
from pippin.torch.kernels.select import smallest
from pippin.torch.kernels.softmax import NEAR, measure, written
from pippin.torch.kernels.tops import list_tops, rank_labels
from pippin.torch.kernels.whole import can_rank, whole_labels, whole_sets

__all__ = [
    "NEAR",
    "Formula",
    "label_scores",
    "listed",
    "one_limit",
    "probabilities",
    "scores_of_ranked",
    "serve",
    "sets",
    "several_limits",
    "smallest",
]

AT_ONCE = 1 << 25  # probabilities that are sorted at once


def probabilities(x: torch.Tensor) -> torch.Tensor:
    """The softmax of (n, K) logits: what all kernels take for their probabilities, to the last bit."""
    if not x.shape[0]:
        return x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, torch.float32))
    return probabilities_of_rows(x, True) if few_classes(x) else written(measure(x, True))


def sets(
    x: torch.Tensor,
    softmax: bool,
    formula: Formula,
    limits: Limits,
    width: int,
    want_mask: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Sizes (n,), the first `width` members (n, width), and membership (n, K), if it is wanted.

    Of logits, if `softmax`, else of probabilities.
    """
    found = Found(x, width, want_mask)
    if not x.shape[0]:
        return found.sizes, found.classes, found.mask
    if can_rank(x):
        left = room_for_left(x)
        sets_of_rows(x, softmax, formula, limits, found, left)
        whole_sets(x, softmax, formula, limits, found, left)
        give_back(left, x)
    elif few_classes(x):
        sets_of_rows(x, softmax, formula, limits, found, Left(x))
        for rows in _parts(found.marked(), x):
            _sort_sets(rows, probabilities_of_rows(x[rows], softmax), formula, limits, found)
    else:
        measured = measure(x, softmax)
        few_sets(measured, list_tops(measured), formula, limits, found)
        unsettled = found.marked()
        if formula.flat and not limits.by_class and unsettled.shape[0]:
            counted_sets(measured, unsettled, formula, limits, found)
            unsettled = found.marked()
        for rows in _parts(unsettled, x):
            _sort_sets(rows, written(measured, rows), formula, limits, found)
    return found.sizes, found.classes, found.mask


def label_scores(
    x: torch.Tensor, softmax: bool, labels: torch.Tensor, formula: Formula, weighty: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The scores of labels in float64, their ranks from 0, and how many faults there are: the first of some numbers.

    A fault is a label that is no class (its rank is −1), or a row that may be no distribution: where the softmax is
    NaN, or a sum is not near 1. `weighty` says of how many of the best classes the weights are not 0.
    """
    placed = Placed(labels)
    if not x.shape[0]:
        return placed.scores, placed.ranks, placed.faults
    if few_classes(x):
        labels_of_rows(x, softmax, formula, placed, weighty)
        if can_rank(x):
            whole_labels(x, softmax, formula, placed, weighty)
        else:
            for rows in _parts(placed.marked(), x):
                probs = probabilities_of_rows(x[rows], softmax)
                _sort_labels(rows, probs, formula, placed, weighty)
    else:
        measured = measure(x, softmax)
        rank_labels(measured, placed)
        few_labels(measured, list_tops(measured), formula, placed, weighty)
        for rows in _parts(placed.marked(), x):
            _sort_labels(rows, written(measured, rows), formula, placed, weighty)
    return placed.scores, placed.ranks, placed.faults


def _parts(rows: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rows by number, so many at a time that they can be sorted."""
    return torch.split(rows, max(1, AT_ONCE // x.shape[1])) if rows.shape[0] else ()


def _sort_labels(rows: torch.Tensor, probs: torch.Tensor, formula: Formula, placed: Placed, weighty: int) -> None:
    """Fills in the scores of some labels from a sort, and their ranks."""
    ranks = -2 - placed.ranks[rows]
    ranked = probs.sort(dim=1, descending=True).values
    placed.scores[rows] = labels_of_ranked(ranked, ranks, formula.of(rows), weighty)
    placed.ranks[rows] = ranks


def _sort_sets(rows: torch.Tensor, probs: torch.Tensor, formula: Formula, limits: Limits, found: Found) -> None:
    """Fills in the sets of some rows from a stable sort."""
    if not limits.by_class:
        sets_of_ranked(rows, probs, formula, limits, found)
        return
    ranked, order = probs.sort(dim=1, descending=True, stable=True)
    scores = scores_of_ranked(ranked, formula.of(rows))
    group = limits.group[rows] if limits.grouped else torch.zeros_like(rows)
    inside = (scores <= limits.scores[group].gather(1, order)) & (ranked >= 0)
    if limits.by_rank:
        inside &= torch.arange(order.shape[1], device=order.device) < limits.ranks[group].gather(1, order)
    found.sizes[rows], found.classes[rows] = listed(inside, order, found.classes.shape[1])
    if found.inside is not None:
        found.inside[rows] = torch.zeros_like(inside).scatter(1, order, inside).to(torch.int8)


def listed(inside: torch.Tensor, order: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """How many of the ranked classes are members, and the first `width` of them, then −1."""
    position = inside.cumsum(dim=1) - 1
    fits = inside & (position < width)
    classes = torch.full((len(order), width + 1), -1, dtype=torch.int64, device=order.device)
    classes.scatter_(1, torch.where(fits, position, width), torch.where(fits, order, -1))
    return inside.sum(dim=1), classes[:, :width]
