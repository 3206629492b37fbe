"""ConformalHead: a last layer that turns logits into prediction sets, on the device where they are."""

from typing import Any, NamedTuple

import torch

from pippin._predictors.conditional import ConditionalPredictor
from pippin._predictors.marginal import Predictor
from pippin._predictors.portable import portable_sets
from pippin._runtime.errors import InputError
from pippin.torch import kernels
from pippin.torch.kernels.filled import Limits
from pippin.torch.layers import ScoreHead, draws_of
from pippin.torch.limits import SeveralLimits, rows_of, sets_of_several_limits
from pippin.torch.ops import nothing, sets_of_one_threshold, softmax, wide, within_compile

LISTED = 64  # classes of a set that are listed, unless `max_size` says otherwise


class TorchSets(NamedTuple):
    """Prediction sets as tensors on the logits' device.

    Attributes:
        sizes: (…), how many members each set has.
        classes: (…, max_size), the members, most probable first, then −1.
        mask: (…, K), which classes are members, if that was asked for.
    """

    sizes: torch.Tensor
    classes: torch.Tensor
    mask: torch.Tensor | None


def probabilities(logits: torch.Tensor) -> torch.Tensor:
    """The softmax over the last axis, of float64 in float64, of anything narrower in float32; without gradients.

    On a GPU with Triton these are, to the last bit, the probabilities that `calibrate` and `ConformalHead` see there
    themselves: what the core makes of them is what they find. Elsewhere it is torch's own softmax.

    Args:
        logits: (…, K), of any float type.
    """
    found: torch.Tensor = softmax(logits.detach().reshape(-1, logits.shape[-1]))
    return found.reshape(logits.shape)


class ConformalHead(ScoreHead):
    """A last layer: logits in, prediction sets out, as `predictor.predict` would give them.

    Sizes and masks are exact, whatever `max_size`; it only bounds how many members are
    listed (64 at most, if not given). Equal probabilities are ranked by class index. On
    the same float32 or float64 probabilities (of logits, those that `probabilities` gives) the sets are the core's to
    the last bit; on a GPU without Triton, where sums run in another order, only up to rounding. A row with NaN has an
    empty set. Probabilities are not checked for summing to 1.

    Thresholds may differ by class, kind, cluster or group; per group, forward is told the group
    of every object by its number, which `group_codes` finds by name.

    The coefficients and the thresholds are buffers that hold the bits of float64 numbers as
    int64, so that `half()` and `to(dtype)` cannot round them.

    Args:
        predictor: what `calibrate` returned or `pippin.load` read.
        from_probs: whether forward takes probabilities instead of logits.
        max_size: how many members are listed per set.

    Attributes:
        classes (Classes): the names of the columns, in their order.
        from_probs (bool): whether it takes probabilities instead of logits.
        max_size (int): how many members it can give.
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

    limit_bits: torch.Tensor | None
    rank_limits: torch.Tensor | None
    max_size: int
    _views: tuple[Any, kernels.Formula, Limits] | None

    def __init__(
        self,
        predictor: Predictor | ConditionalPredictor,
        *,
        from_probs: bool = False,
        max_size: int | None = None,
    ) -> None:
        given = portable_sets(predictor)
        super().__init__(given.classes, given.groups, from_probs)
        n_classes = len(given.classes)
        width = min(n_classes, LISTED) if max_size is None else max_size
        if not 1 <= width <= n_classes:
            raise InputError(f"Expected max_size from 1 to {n_classes}, the number of classes, got {max_size}")
        self._note(max_size=width)
        self._keep_formula(given.score, given.c, given.thresholds.max())
        self._keep_bits("limit_bits", None if given.one is not None else given.thresholds)
        self.register_buffer("rank_limits", None if given.ranks is None else torch.from_numpy(given.ranks.astype(int)))

    @property
    def threshold(self) -> float:
        """The largest score that a member of a set has."""
        return float(self.number_bits[3:].view(torch.float64))

    def forward(
        self, x: torch.Tensor, u: torch.Tensor | None = None, mask: bool = False, group: torch.Tensor | None = None
    ) -> TorchSets:
        """The sets of logits (…, K); of probabilities, if the head was made `from_probs`.

        Args:
            x: any float type; half floats get their softmax in float32.
            u: for a randomised score, one number in (0, 1) per object; drawn, if not given.
            mask: whether membership is also given as a mask.
            group: the number of each object's group, where thresholds are per group.
        """
        n_classes = len(self.classes)
        flat = self._rows(x)
        shape, traced = x.shape[:-1], within_compile(x)
        draws = draws_of("u", u, self.randomized, flat)
        rows = None if self._groups is None and group is None else rows_of(self._groups, group, x)
        logits, width = not self.from_probs, self.max_size
        inside: torch.Tensor | None
        if not traced and kernels.serve(flat):
            formula, limits = self._kept()
            if rows is not None:
                limits = limits._replace(group=rows, grouped=True)
            if self.randomized:
                formula = formula._replace(u=draws)
            sizes, classes, inside = kernels.sets(flat, logits, formula, limits, width, mask)
        else:
            table, numbers = self.table_bits.view(torch.float64), self.number_bits.view(torch.float64)
            formula = kernels.Formula(table, numbers, draws, self._kind)
            if self.limit_bits is None:
                sizes, classes, inside = sets_of_one_threshold(flat, formula, logits, width, mask)
            else:
                limits_of = SeveralLimits(self.limit_bits.view(torch.float64), self.rank_limits, rows)
                sizes, classes, inside = sets_of_several_limits(flat, formula, limits_of, logits, width, mask)
        if not mask:
            inside = None
        if len(shape) == 1:
            return TorchSets(sizes, classes, inside)
        return TorchSets(
            sizes.reshape(shape),
            classes.reshape(*shape, width),
            None if inside is None else inside.reshape(*shape, n_classes),
        )

    def extra_repr(self) -> str:
        which = "threshold" if self.limit_bits is None else "largest threshold"
        return f"{len(self.classes)} classes, {which}={self.threshold:.6g}, from_probs={self.from_probs}"

    def _note_kind(self, kind: int, randomized: bool) -> None:
        super()._note_kind(kind, randomized)
        self._note(_views=None)

    def _kept(self) -> tuple[kernels.Formula, Limits]:
        """Formula and limits as kernels take them, made anew when the head was moved or loaded."""
        bits = self._buffers["table_bits"]
        if self._views is None or self._views[0] is not bits:
            numbers = self.number_bits.view(torch.float64)
            if self.limit_bits is None:
                limits = kernels.one_limit(numbers[3:])
            else:
                limits = kernels.several_limits(self.limit_bits.view(torch.float64), self.rank_limits, None)
            table = self.table_bits.view(torch.float64)
            self._views = (bits, kernels.Formula(table, numbers, nothing(table.device), self._kind), limits)
        return self._views[1:]


def floats(probs: torch.Tensor) -> torch.Tensor:
    return probs.to(wide(probs))
