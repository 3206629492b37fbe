"""Limits that differ by group or by class: sets that may pass over a class, and which row of limits is whose."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from pippin._predictors.portable import KnownGroups
from pippin._runtime.errors import InputError
from pippin.torch import kernels
from pippin.torch.kernels import Formula
from pippin.torch.ops import (
    SCORED,
    Sets,
    drawn,
    scores_by_rank,
    shapes_of_sets,
    softmax,
    wide,
    with_mask,
    within_compile,
)

AT_ONCE = 1 << 24  # probabilities that are sorted at once


class SeveralLimits(NamedTuple):
    """A class is a member if its score is at most its limit and its rank, from 1, at most that of `ranks`, if any.

    Both have a row for each group, and `which` says which is an object's, where there are several; a column for each
    class, or one for all.
    """

    scores: torch.Tensor
    ranks: torch.Tensor | None
    which: torch.Tensor | None


def sets_of_several_limits(
    x: torch.Tensor, formula: Formula, limits: SeveralLimits, logits: bool, width: int, want_mask: bool
) -> Sets:
    """Sizes (n,), the first `width` members (n, width), and membership (n, K), or (0, K) if not wanted.

    Of contiguous logits, or probabilities.
    """
    if within_compile(x):
        found: Sets = limited_sets(x, *formula, *limits, logits, width, want_mask)
        return found
    return _sets(x, formula, limits, logits, width, want_mask)


def _sets(x: torch.Tensor, formula: Formula, limits: SeveralLimits, logits: bool, width: int, want_mask: bool) -> Sets:
    if kernels.serve(x):
        return with_mask(x, *kernels.sets(x, logits, formula, kernels.several_limits(*limits), width, want_mask))
    n, n_classes = x.shape
    formula = drawn(formula, n)
    sizes = torch.empty(n, dtype=torch.int64, device=x.device)
    classes = torch.empty((n, width), dtype=torch.int64, device=x.device)
    mask = torch.empty((n if want_mask else 0, n_classes), dtype=torch.bool, device=x.device)
    for rows in torch.split(torch.arange(n, device=x.device), max(1, AT_ONCE // n_classes)):
        probs = softmax(x[rows]) if logits else x[rows].to(wide(x))
        values, order = torch.sort(probs, dim=1, descending=True, stable=True)
        group = torch.zeros_like(rows) if limits.which is None else limits.which[rows]
        inside = scores_by_rank(values, formula.of(rows)) <= _by_order(limits.scores, group, order)
        if limits.ranks is not None:
            inside &= torch.arange(n_classes, device=x.device) < _by_order(limits.ranks, group, order)
        sizes[rows], classes[rows] = kernels.listed(inside, order, width)
        if want_mask:
            mask[rows] = torch.zeros_like(inside).scatter(1, order, inside)
    return sizes, classes, mask


@torch.library.custom_op(
    "pippin::limited_sets",
    mutates_args=(),
    schema=f"({SCORED}, Tensor limits, Tensor? ranks, Tensor? which, bool logits, int width, bool want_mask)"
    " -> (Tensor, Tensor, Tensor)",
)
def limited_sets(x: torch.Tensor, *others: Any) -> Sets:
    """`sets_of_several_limits` as torch sees it."""
    return _sets(x, Formula(*others[:4]), SeveralLimits(*others[4:7]), *others[7:])


limited_sets.register_fake(shapes_of_sets)


def _by_order(limits: torch.Tensor, group: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    own = limits[group]
    return own if own.shape[1] == 1 else own.gather(1, order)


def _group_rows(group: torch.Tensor, known: int, others: bool) -> torch.Tensor:
    """The row of limits of each group by number; that behind the known ones for all others, if there is one."""
    outside = (group < 0) | (group >= known)
    if not others and bool(outside.any()):
        raise InputError(
            f"Expected groups by number, from 0 to {known - 1}, got {int(group[outside][0])}",
            "pass what the head's group_codes gives, or calibrate with unseen='marginal'",
        )
    return torch.where(outside, known, group)


group_rows = torch.library.custom_op("pippin::group_rows", _group_rows, mutates_args=())


@group_rows.register_fake
def _rows(group: torch.Tensor, known: int, others: bool) -> torch.Tensor:
    return torch.empty_like(group)


def group_numbers(groups: KnownGroups | None, names: ArrayLike) -> torch.Tensor:
    """The numbers of groups by name."""
    if groups is None:
        raise InputError("Got groups, but all objects have the same limits", "leave them out")
    return torch.from_numpy(groups.codes(names, len(np.atleast_1d(np.asarray(names)))))


def rows_of(groups: KnownGroups | None, group: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor | None:
    """The row of limits of every object of x, (…, K); None where all share one.

    Raises:
        InputError: groups are missing, or there are none to be told, or they are too few, or not known.
    """
    if groups is None:
        if group is not None:
            raise InputError("Got the group of each object, but all have the same limits", "leave it out")
        return None
    if group is None or group.dtype not in (torch.int64, torch.int32) or group.shape != x.shape[:-1]:
        got = "none" if group is None else f"{group.dtype} of shape {tuple(group.shape)}"
        raise InputError(
            f"Expected the group of each object by number, int64 of shape {tuple(x.shape[:-1])}, got {got}",
            "pass group=, for instance what group_codes makes of their names",
        )
    find = group_rows if within_compile(x) else _group_rows
    rows: torch.Tensor = find(group.to(x.device, torch.int64).reshape(-1), len(groups.names), groups.other is not None)
    return rows
