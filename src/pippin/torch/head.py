"""ConformalHead, a last layer that turns logits into prediction sets on their device, and the base of all heads."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from pippin._conformal.exportable import KnownGroups, portable_sets
from pippin._conformal.predictor import ConformalPredictor
from pippin._runtime.arrays import Classes
from pippin._runtime.errors import InputError
from pippin._theory.formula import OWN_U, PENALTY_U, Coefficients
from pippin._theory.scores import Score
from pippin.torch.ranking import is_traced, prediction_sets, softmax
from pippin.torch.scores import TorchLimits, TorchScore

LISTED = 64  # default of `max_size`


class TorchSets(NamedTuple):
    """Prediction sets as tensors on the logits' device.

    Attributes:
        sizes: (…), how many members each set has.
        classes: (…, max_size), the members, most probable first, then −1.
        mask: (…, K), which classes are members; None unless `forward` got `mask=True`.
    """

    sizes: torch.Tensor
    classes: torch.Tensor
    mask: torch.Tensor | None


def probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis, in float64 for float64 and in float32 for anything narrower; without gradients.

    These are the probabilities that `calibrate` and the heads compute from logits on the same device, to the last bit.

    Args:
        logits: (…, K), of any float type.
    """
    found: torch.Tensor = softmax(logits.detach().reshape(-1, logits.shape[-1]))
    return found.reshape(logits.shape)


class Head(torch.nn.Module):
    """Base of the heads: classes, groups, rows from input of any shape, and float64 numbers in buffers.

    Buffers hold the bits of float64 numbers as int64, so that `half()` and `to(dtype)` do not round them.
    """

    def __init__(self, classes: Classes, groups: KnownGroups | None, from_probs: bool) -> None:
        super().__init__()
        self.classes, self.from_probs, self._groups = classes, from_probs, groups

    def group_codes(self, groups: ArrayLike) -> torch.Tensor:
        """Numbers of groups given by name, as `forward` takes them.

        Args:
            groups: the group of each object.
        """
        if self._groups is None:
            raise InputError("Got groups, but all objects have the same limits", "leave them out")
        return torch.from_numpy(self._groups.codes(groups, len(np.atleast_1d(np.asarray(groups)))))

    def _keep(self, name: str, values: Any) -> None:
        """Register a buffer with the bits of float64 numbers, or with None."""
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
        return x.detach().reshape(-1, n_classes).contiguous()

    def _group_rows(self, group: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor | None:
        """Row of limits of every object of x, (…, K); None where all objects share one.

        Raises:
            InputError: groups are missing, not expected, of another shape, or unknown.
        """
        if self._groups is None:
            if group is not None:
                raise InputError("Got the group of each object, but all have the same limits", "leave it out")
            return None
        if group is None or group.dtype not in (torch.int64, torch.int32) or group.shape != x.shape[:-1]:
            got = "none" if group is None else f"{group.dtype} of shape {tuple(group.shape)}"
            raise InputError(
                f"Expected the group of each object by number, int64 of shape {tuple(x.shape[:-1])}, got {got}",
                "pass group=, for instance what group_codes makes of their names",
            )
        find = group_rows_op if is_traced(x) else _group_rows
        flat = group.to(x.device, torch.int64).reshape(-1)
        rows: torch.Tensor = find(flat, len(self._groups.names), self._groups.other is not None)
        return rows


def _group_rows(group: torch.Tensor, known: int, others: bool) -> torch.Tensor:
    """Row of limits of each group by number; all unknown groups share the row after the known ones, if there is one."""
    outside = (group < 0) | (group >= known)
    if not others and bool(outside.any()):
        raise InputError(
            f"Expected groups by number, from 0 to {known - 1}, got {int(group[outside][0])}",
            "pass what the head's group_codes gives, or calibrate with unseen='marginal'",
        )
    return torch.where(outside, known, group)


group_rows_op = torch.library.custom_op("pippin::group_rows", _group_rows, mutates_args=())


@group_rows_op.register_fake
def _like_groups(group: torch.Tensor, known: int, others: bool) -> torch.Tensor:
    return torch.empty_like(group)


class ScoreHead(Head):
    """Head with a nonconformity score: its coefficients, and c, b and μ in `number_bits`."""

    table_bits: torch.Tensor
    number_bits: torch.Tensor
    linear: bool
    randomized: bool

    def _keep_score(self, score: Score, c: Coefficients) -> None:
        self._keep("table_bits", c.table)
        self._keep("number_bits", [c.constant, c.second, c.price])
        self.linear, self.randomized = bool(np.isnan(c.price)), score.randomized

    def _score(self, u: torch.Tensor | None, flat: torch.Tensor) -> TorchScore:
        """Score with the given u, or one drawn per row if it is randomized."""
        table, numbers = self.table_bits.view(torch.float64), self.number_bits.view(torch.float64)
        return TorchScore(table, numbers, uniform("u", u, self.randomized, flat), self.linear)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        if not self.table_bits.is_meta:
            table, numbers = (bits.cpu().view(torch.float64) for bits in (self.table_bits, self.number_bits))
            self.linear, self.randomized = bool(numbers[2].isnan()), bool(table[:, [OWN_U, PENALTY_U]].any())


def uniform(name: str, given: torch.Tensor | None, wanted: bool, flat: torch.Tensor) -> torch.Tensor:
    """One number in (0, 1) per row: as given, or drawn if wanted; an empty tensor otherwise."""
    if given is None:
        return torch.rand(len(flat) if wanted else 0, dtype=torch.float64, device=flat.device)
    if given.numel() != len(flat):
        raise InputError(
            f"Expected {len(flat)} numbers as {name}, one per object, got shape {tuple(given.shape)}",
            "pass one for each object, in their order",
        )
    return given.to(device=flat.device, dtype=torch.float64).reshape(-1).contiguous()


class ConformalHead(ScoreHead):
    """Last layer: logits in, prediction sets out, as `predictor.predict` returns them.

    Sizes and masks do not depend on `max_size`, which bounds how many members are listed (at most 64 by default). Equal
    probabilities are ranked by class index. A row with NaN has an empty set. Probabilities are not checked for summing
    to 1.

    On the CPU the sets are the core's, to the last bit, for the same float32 or float64 probabilities (of logits, those
    of `probabilities`). On a GPU a set may differ where a score is within rounding of the threshold.

    Thresholds may differ by class, kind, cluster or group. With groups, `forward` takes the number of each object's
    group, which `group_codes` returns for names.

    Coefficients and thresholds are buffers with the bits of float64 numbers as int64, so that `half()` and `to(dtype)`
    do not round them.

    Args:
        predictor: what `calibrate` returned or `pippin.load` read.
        from_probs: whether forward takes probabilities instead of logits.
        max_size: how many members are listed per set.

    Attributes:
        classes (Classes): the names of the columns, in their order.
        from_probs (bool): whether it takes probabilities instead of logits.
        max_size (int): how many members are listed per set.
        linear (bool): whether the score is of the linear family.
        randomized (bool): whether it takes `u`.

    >>> import pippin.torch, torch
    >>> data = pippin.load_example()
    >>> head = pippin.torch.ConformalHead(pippin.calibrate(data.probs, data.labels, "pip"), from_probs=True, max_size=3)
    >>> sets = head(torch.tensor(data.probs[:2]))
    >>> sets.sizes, sets.classes
    (tensor([1, 1]), tensor([[ 1, -1, -1],
            [ 1, -1, -1]]))
    """

    limit_bits: torch.Tensor
    rank_limits: torch.Tensor | None

    def __init__(
        self,
        predictor: ConformalPredictor,
        *,
        from_probs: bool = False,
        max_size: int | None = None,
    ) -> None:
        given = portable_sets(predictor)
        super().__init__(given.classes, given.groups, from_probs)
        n_classes = len(given.classes)
        self.max_size = min(n_classes, LISTED) if max_size is None else max_size
        if not 1 <= self.max_size <= n_classes:
            raise InputError(f"Expected max_size from 1 to {n_classes}, the number of classes, got {max_size}")
        self._keep_score(given.score, given.c)
        self._keep("limit_bits", given.thresholds)
        self.register_buffer("rank_limits", None if given.ranks is None else torch.from_numpy(given.ranks.astype(int)))

    @property
    def threshold(self) -> float:
        """Largest score of a member of any set."""
        return float(self.limit_bits.view(torch.float64).max())

    def forward(
        self, x: torch.Tensor, u: torch.Tensor | None = None, mask: bool = False, group: torch.Tensor | None = None
    ) -> TorchSets:
        """Prediction sets of logits (…, K), or of probabilities with `from_probs=True`.

        Args:
            x: any float type; the softmax of half floats is computed in float32.
            u: for a randomized score, one number in (0, 1) per object; drawn by default.
            mask: whether membership is also returned as a mask.
            group: the number of each object's group, where thresholds are per group.
        """
        flat, shape = self._rows(x), x.shape[:-1]
        limits = TorchLimits(self.limit_bits.view(torch.float64), self.rank_limits, self._group_rows(group, x))
        sizes, members, inside = prediction_sets(
            flat, self._score(u, flat), limits, not self.from_probs, self.max_size, mask
        )
        return TorchSets(
            sizes.reshape(shape), members.reshape(*shape, self.max_size), inside.reshape(x.shape) if mask else None
        )

    def extra_repr(self) -> str:
        which = "threshold" if self.limit_bits.numel() == 1 else "largest threshold"
        return f"{len(self.classes)} classes, {which}={self.threshold:.6g}, from_probs={self.from_probs}"
