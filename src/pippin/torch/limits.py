"""Limits that differ by group or by class: sets that may pass over a class, and which row of limits is whose."""

import numpy as np
import torch
from numpy.typing import ArrayLike

from pippin._predictors.portable import KnownGroups
from pippin._runtime.errors import InputError
from pippin.torch.ops import scores_by_rank


@torch.library.custom_op("pippin::limited_sets", mutates_args=())
def limited_sets(
    probs: torch.Tensor,
    table: torch.Tensor,
    numbers: torch.Tensor,
    u: torch.Tensor,
    limits: torch.Tensor,
    ranks: torch.Tensor | None,
    linear: bool,
    width: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sizes (n,), the first `width` members (n, width), and membership (n, K).

    A class is a member if its score is at most its limit, and its rank, from 1, at most that of `ranks`. Limits have
    a row for each object, or one for all; a column for each class, or one for all.
    """
    n_classes = probs.shape[1]
    values, order = torch.sort(probs, dim=1, descending=True, stable=True)
    inside = scores_by_rank(values, table, numbers, u, linear) <= _by_order(limits, order)
    if ranks is not None:
        inside &= torch.arange(n_classes, device=probs.device) < _by_order(ranks, order)
    sizes = inside.sum(dim=1)
    first = (~inside).to(torch.int8).sort(dim=1, stable=True).indices[:, :width]
    listed = torch.arange(width, device=probs.device) < sizes[:, None]
    classes = torch.where(listed, order.gather(1, first), -1)
    return sizes, classes, torch.zeros_like(inside).scatter(1, order, inside)


@limited_sets.register_fake
def _shapes(
    probs: torch.Tensor,
    table: torch.Tensor,
    numbers: torch.Tensor,
    u: torch.Tensor,
    limits: torch.Tensor,
    ranks: torch.Tensor | None,
    linear: bool,
    width: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    n, n_classes = probs.shape
    sizes, classes = probs.new_empty((n,), dtype=torch.int64), probs.new_empty((n, width), dtype=torch.int64)
    return sizes, classes, probs.new_empty((n, n_classes), dtype=torch.bool)


def _by_order(limits: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    return limits if limits.shape[1] == 1 else limits.expand(len(order), -1).gather(1, order)


@torch.library.custom_op("pippin::group_rows", mutates_args=())
def group_rows(group: torch.Tensor, known: int, others: bool) -> torch.Tensor:
    """The row of limits of each group by number; that behind the known ones for all others, if there is one."""
    outside = (group < 0) | (group >= known)
    if not others and bool(outside.any()):
        raise InputError(
            f"Expected groups by number, from 0 to {known - 1}, got {int(group[outside][0])}",
            "pass what the head's group_codes gives, or calibrate with unseen='marginal'",
        )
    return torch.where(outside, known, group)


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
    rows: torch.Tensor = group_rows(
        group.to(x.device, torch.int64).reshape(-1), len(groups.names), groups.other is not None
    )
    return rows
