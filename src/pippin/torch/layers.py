"""What all heads share: classes and groups, rows from logits of any shape, draws, and float64 kept as bits."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from pippin._predictors.portable import KnownGroups
from pippin._runtime.arrays import Classes
from pippin._runtime.errors import InputError
from pippin._theory.formula import OWN_U, PENALTY_U, Coefficients, reach_of
from pippin._theory.scores import Score
from pippin.torch.kernels.filled import SOCOP, kind_of
from pippin.torch.limits import group_numbers
from pippin.torch.ops import nothing, within_compile


class Head(torch.nn.Module):
    """A last layer of a classifier with certain classes, for objects that may be in groups.

    Numbers are buffers that hold the bits of float64 as int64, so that `half()` and `to(dtype)` cannot round them.
    """

    classes: Classes
    from_probs: bool
    _groups: KnownGroups | None

    def __init__(self, classes: Classes, groups: KnownGroups | None, from_probs: bool) -> None:
        super().__init__()
        self._note(classes=classes, from_probs=from_probs, _groups=groups)

    def _note(self, **attributes: Any) -> None:
        """Sets attributes that are no tensors: torch would look whether they are, for longer than all else takes."""
        vars(self).update(attributes)

    def group_codes(self, groups: ArrayLike) -> torch.Tensor:
        """The numbers of groups by name, as forward takes them.

        Args:
            groups: the group of each object.
        """
        return group_numbers(self._groups, groups)

    def _keep_bits(self, name: str, values: Any) -> None:
        """A buffer with the bits of float64 numbers; or with nothing."""
        bits = None if values is None else torch.from_numpy(np.array(values, dtype=np.float64).view(np.int64))
        self.register_buffer(name, bits)

    def _rows(self, x: torch.Tensor) -> torch.Tensor:
        """(n, K) contiguous rows of (…, K) logits or probabilities, without gradients."""
        n_classes = len(self.classes)
        if x.ndim == 0 or x.shape[-1] != n_classes:
            raise InputError(
                f"Expected {n_classes} classes in the last axis, got shape {tuple(x.shape)}",
                "pass the outputs of the classifier that was calibrated",
            )
        flat = x.detach() if x.requires_grad else x
        return (flat if x.ndim == 2 else flat.reshape(-1, n_classes)).contiguous()


class ScoreHead(Head):
    """A head that knows the formula of a score: its table, and c, b and μ first among its numbers."""

    table_bits: torch.Tensor
    number_bits: torch.Tensor
    linear: bool
    randomized: bool
    _kind: int

    def _keep_formula(self, score: Score, c: Coefficients, *more: float) -> None:
        self._keep_bits("table_bits", c.table)
        self._keep_bits("number_bits", [c.constant, c.second, c.price, *more])
        self._note_kind(kind_of(c.price, c.reach), score.randomized)

    def _note_kind(self, kind: int, randomized: bool) -> None:
        """What the coefficients say about the kind of score, asked once and not in every forward."""
        self._note(_kind=kind, linear=kind != SOCOP, randomized=randomized)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        if not self.table_bits.is_meta:
            table, numbers = (bits.cpu().numpy().view(np.float64) for bits in (self.table_bits, self.number_bits))
            self._note_kind(kind_of(numbers[2], reach_of(numbers[1], table)), bool(table[:, [OWN_U, PENALTY_U]].any()))


def draws_of(name: str, given: torch.Tensor | None, wanted: bool, flat: torch.Tensor) -> torch.Tensor:
    """One number in (0, 1) per row: those given, or drawn where they are wanted; else none."""
    if given is not None:
        if given.numel() != flat.shape[0]:
            raise InputError(
                f"Expected {flat.shape[0]} numbers as {name}, one per object, got shape {tuple(given.shape)}",
                "pass one for each object, in their order",
            )
        return given.to(device=flat.device, dtype=torch.float64).reshape(-1).contiguous()
    if wanted:
        return torch.rand(flat.shape[0], dtype=torch.float64, device=flat.device)
    if within_compile(flat):
        return torch.empty(0, dtype=torch.float64, device=flat.device)
    return nothing(flat.device)
