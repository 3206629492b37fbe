"""PValueHead: a last layer that turns logits into the p-value of every class."""

from typing import Any, NamedTuple

import numpy as np
import torch

from pippin._engine.protocol import Held
from pippin._predictors.conditional import ConditionalPredictor
from pippin._predictors.marginal import Predictor
from pippin._predictors.portable import portable_p
from pippin.torch.kernels import Formula
from pippin.torch.layers import ScoreHead, draws_of
from pippin.torch.limits import AT_ONCE, rows_of
from pippin.torch.ops import SCORED, drawn, scores_by_rank, softmax, wide, within_compile


class Searched(NamedTuple):
    """Calibration scores as they are searched: distinct ones, keys cell after cell, and where cells begin.

    `of[group, k]` says which cell class k of a row counts among; a column for each class, or one for all. Cell c is
    from `offsets[c]` on in `keys`: the scores themselves where there is one cell, else what `_key` makes of them.
    """

    values: torch.Tensor
    keys: torch.Tensor
    offsets: torch.Tensor
    of: torch.Tensor


def p_of_classes(
    x: torch.Tensor, formula: Formula, searched: Searched, v: torch.Tensor, which: torch.Tensor | None, logits: bool
) -> torch.Tensor:
    """(n, K) p-values in float64 of contiguous logits, or probabilities; NaN in rows with a NaN.

    `which` is the group of each row, where there are several; `v` is empty, where nothing was drawn.
    """
    if within_compile(x):
        found: torch.Tensor = p_op(x, *formula, *searched, v, which, logits)
        return found
    return _p_of_classes(x, formula, searched, v, which, logits)


def _p_of_classes(
    x: torch.Tensor, formula: Formula, searched: Searched, v: torch.Tensor, which: torch.Tensor | None, logits: bool
) -> torch.Tensor:
    n, n_classes = x.shape
    p = torch.empty((n, n_classes), dtype=torch.float64, device=x.device)
    step, formula = max(1, AT_ONCE // n_classes), drawn(formula, n)
    values, keys, offsets, of = searched
    for rows in (slice(start, start + step) for start in range(0, n, step)):
        probs = softmax(x[rows]) if logits else x[rows].to(wide(x))
        ranked, order = probs.sort(dim=1, descending=True, stable=True)
        asked = scores_by_rank(ranked, formula._replace(u=formula.u[rows]))
        cell = of[:1].expand(len(ranked), -1) if which is None else of[which[rows]]
        cell = cell if cell.shape[1] == 1 else cell.gather(1, order)
        if len(offsets) > 2:
            asked = _key(values, asked, cell)
        begin, stop = offsets[cell], offsets[cell + 1]
        low = torch.searchsorted(keys, asked)
        if len(v):
            high = torch.searchsorted(keys, asked, right=True)
            found = ((stop - high) + v[rows, None] * (1 + (high - low))) / (stop - begin + 1)
        else:
            found = (1 + (stop - low)) / (stop - begin + 1).double()
        p[rows].scatter_(1, order, found.masked_fill(ranked[:, :1].isnan(), torch.nan))
    return p


@torch.library.custom_op(
    "pippin::p_values",
    mutates_args=(),
    schema=f"({SCORED}, Tensor values, Tensor keys, Tensor offsets, Tensor of, Tensor v, Tensor? which, bool logits)"
    " -> Tensor",
)
def p_op(x: torch.Tensor, *others: Any) -> torch.Tensor:
    """`p_of_classes` as torch sees it."""
    return _p_of_classes(x, Formula(*others[:4]), Searched(*others[4:8]), *others[8:])


@p_op.register_fake
def _shape(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return x.new_empty(x.shape, dtype=torch.float64)


def _key(values: torch.Tensor, scores: torch.Tensor, cell: torch.Tensor) -> torch.Tensor:
    """A whole number that grows with the score within a cell, and from cell to cell.

    It is odd for a score that is among the distinct `values`, and even between two of them.
    """
    place = torch.searchsorted(values, scores) + torch.searchsorted(values, scores, right=True)
    return place + cell * (2 * len(values) + 1)


def _searched(held: Held) -> Searched:
    scores, offsets, of = (torch.from_numpy(np.array(given)) for given in (held.scores, held.offsets, held.of))
    alone = bool((of == of[:, :1]).all())
    of = of[:, :1] if alone else of
    if len(offsets) == 2:
        return Searched(scores[:0], scores, offsets, of.long())
    values = torch.unique(scores)
    cell = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    return Searched(values, _key(values, scores, cell), offsets.long(), of.long())


class PValueHead(ScoreHead):
    """A last layer: logits in, the p-value of every class out, as `predictor.p_values` would give them.

    p = (1 + #{calibration scores >= s})/(n + 1), so that the set at any level α is {classes with p > α}; smoothed,
    scores equal to s count with a random weight v. On the same float32 or float64 probabilities (of logits, those that
    `probabilities` gives) they are the core's to the last bit; on a GPU without Triton, where sums run in another
    order, only up to rounding. A row with NaN has NaN. Probabilities are not checked for summing to 1.

    The calibration scores are buffers: the layer grows with them, and takes the state of another only if that has as
    many. Numbers are kept as the bits of float64, so that `half()` and `to(dtype)` cannot round them.

    Args:
        predictor: what `calibrate` returned or `pippin.load` read, with its calibration scores.
        from_probs: whether forward takes probabilities instead of logits.

    Attributes:
        classes (Classes): the names of the columns, in their order.
        n_calibration (int): how many rows calibrated it.
        from_probs (bool): whether it takes probabilities instead of logits.
        linear (bool): whether the score is of the linear family.
        randomized (bool): whether it takes `u`.

    >>> import pippin.torch, torch
    >>> data = pippin.load_example()
    >>> head = pippin.torch.PValueHead(pippin.calibrate(data.probs, data.labels, "pip"), from_probs=True)
    >>> head(torch.tensor(data.probs[:2])).amax(dim=1)
    tensor([0.4588, 0.3990], dtype=torch.float64)
    """

    value_bits: torch.Tensor
    keys: torch.Tensor
    offsets: torch.Tensor
    of: torch.Tensor

    def __init__(self, predictor: Predictor | ConditionalPredictor, *, from_probs: bool = False) -> None:
        given = portable_p(predictor)
        super().__init__(given.classes, given.groups, from_probs)
        self.n_calibration = given.n_calibration
        self._keep_formula(given.score, given.c)
        searched = _searched(given.held)
        self.register_buffer("value_bits", searched.values.view(torch.int64))
        self.register_buffer("keys", searched.keys.view(torch.int64))
        self.register_buffer("offsets", searched.offsets)
        self.register_buffer("of", searched.of)

    def forward(
        self,
        x: torch.Tensor,
        u: torch.Tensor | None = None,
        v: torch.Tensor | None = None,
        group: torch.Tensor | None = None,
        smoothed: bool = False,
    ) -> torch.Tensor:
        """The p-values (…, K) of logits (…, K), in float64; of probabilities, if the head was made `from_probs`.

        Args:
            x: any float type; half floats get their softmax in float32.
            u: for a randomised score, one number in (0, 1) per object; drawn, if not given.
            v: for smoothed p-values, one number in [0, 1) per object.
            group: the number of each object's group, where cells are per group.
            smoothed: whether v is drawn, if it is not given.
        """
        flat = self._rows(x)
        which = rows_of(self._groups, group, x)
        table, numbers = self.table_bits.view(torch.float64), self.number_bits.view(torch.float64)
        formula = Formula(table, numbers, draws_of("u", u, self.randomized, flat), self._kind)
        keys = self.keys.view(torch.float64) if len(self.offsets) == 2 else self.keys
        searched = Searched(self.value_bits.view(torch.float64), keys, self.offsets, self.of)
        found = p_of_classes(flat, formula, searched, draws_of("v", v, smoothed, flat), which, not self.from_probs)
        return found.reshape(x.shape)

    def extra_repr(self) -> str:
        return f"{len(self.classes)} classes, {self.n_calibration:,} calibration examples, from_probs={self.from_probs}"
