"""PValueHead, a last layer that turns logits into the conformal p-value of every class."""

from typing import Any, NamedTuple

import numpy as np
import torch

from pippin._conformal.exportable import portable_p
from pippin._conformal.predictor import ConformalPredictor
from pippin._engine.protocol import Held
from pippin.torch.head import ScoreHead, uniform
from pippin.torch.ranking import SCORE_SCHEMA, block_probabilities, is_traced, row_blocks
from pippin.torch.scores import TorchScore, scores_by_rank


class SortedScores(NamedTuple):
    """Calibration scores for binary search: the distinct ones, keys in order of cells, and where each cell begins.

    `of[group, k]` is the cell of class k in a group, with one column if all classes share it. Cell c begins at
    `offsets[c]` of `keys`, which are the scores themselves if there is one cell, else integers made by `_search_key`.
    """

    values: torch.Tensor
    keys: torch.Tensor
    offsets: torch.Tensor
    of: torch.Tensor


def _p_values(
    x: torch.Tensor,
    formula: TorchScore,
    held: SortedScores,
    v: torch.Tensor,
    group: torch.Tensor | None,
    logits: bool,
) -> torch.Tensor:
    """(n, K) p-values in float64 of contiguous rows, smoothed if v is not empty; NaN in rows with a NaN."""
    n, n_classes = x.shape
    p = x.new_empty((n, n_classes), dtype=torch.float64)
    values, keys, offsets, of = held
    for rows in row_blocks(torch.arange(n, device=x.device), n_classes):
        ranked, order = block_probabilities(x, rows, logits).sort(dim=1, descending=True, stable=True)
        scores = scores_by_rank(ranked, formula.take(rows))
        cell = of[:1].expand(len(rows), -1) if group is None else of[group[rows]]
        cell = cell if cell.shape[1] == 1 else cell.gather(1, order)
        if len(offsets) > 2:
            scores = _search_key(values, scores, cell)
        begin, stop = offsets[cell], offsets[cell + 1]
        low = torch.searchsorted(keys, scores)
        if len(v):
            high = torch.searchsorted(keys, scores, right=True)
            found = ((stop - high) + v[rows, None] * (1 + (high - low))) / (stop - begin + 1)
        else:
            found = (1 + (stop - low)) / (stop - begin + 1).double()
        found = found.masked_fill(ranked[:, :1].isnan(), torch.nan)
        p[rows] = torch.empty_like(found).scatter_(1, order, found)
    return p


@torch.library.custom_op(
    "pippin::p_values",
    mutates_args=(),
    schema=f"({SCORE_SCHEMA}, Tensor values, Tensor keys, Tensor offsets, Tensor of, Tensor v, Tensor? group,"
    " bool logits) -> Tensor",
)
def p_values_op(x: torch.Tensor, *others: Any) -> torch.Tensor:
    """Registered operation of `_p_values`."""
    return _p_values(x, TorchScore(*others[:4]), SortedScores(*others[4:8]), *others[8:])


@p_values_op.register_fake
def _shape_of_p(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return x.new_empty(x.shape, dtype=torch.float64)


def _search_key(values: torch.Tensor, scores: torch.Tensor, cell: torch.Tensor) -> torch.Tensor:
    """Integer that increases with the score within a cell, and from cell to cell.

    It is odd for a score that is among the distinct `values`, and even between two of them.
    """
    place = torch.searchsorted(values, scores) + torch.searchsorted(values, scores, right=True)
    return place + cell * (2 * len(values) + 1)


def _sorted_scores(held: Held) -> SortedScores:
    scores, offsets, of = (torch.from_numpy(np.array(given)) for given in (held.scores, held.offsets, held.of))
    of = of[:, :1] if bool((of == of[:, :1]).all()) else of
    if len(offsets) == 2:
        return SortedScores(scores[:0], scores, offsets, of.long())
    values = torch.unique(scores)
    cell = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    return SortedScores(values, _search_key(values, scores, cell), offsets.long(), of.long())


class PValueHead(ScoreHead):
    """Last layer: logits in, the p-value of every class out, as `predictor.p_values` returns them.

    p = (1 + #{calibration scores >= s})/(n + 1), so that the set at any level α is {classes with p > α}; smoothed,
    scores equal to s count with a random weight v. A row with NaN has NaN. Probabilities are not checked for summing
    to 1.

    On the CPU the p-values are the core's, to the last bit, for the same float32 or float64 probabilities (of logits,
    those of `probabilities`). On a GPU a score within rounding of a calibration score may count on its other side.

    The calibration scores are buffers: the layer grows with them, and loads the state only of a head that has as many.
    Numbers are kept as the bits of float64, so that `half()` and `to(dtype)` do not round them.

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

    def __init__(self, predictor: ConformalPredictor, *, from_probs: bool = False) -> None:
        given = portable_p(predictor)
        super().__init__(given.classes, given.groups, from_probs)
        self.n_calibration = given.n_calibration
        self._keep_score(given.score, given.c)
        held = _sorted_scores(given.held)
        self.register_buffer("value_bits", held.values.view(torch.int64))
        self.register_buffer("keys", held.keys.view(torch.int64))
        self.register_buffer("offsets", held.offsets)
        self.register_buffer("of", held.of)

    def forward(
        self,
        x: torch.Tensor,
        u: torch.Tensor | None = None,
        v: torch.Tensor | None = None,
        group: torch.Tensor | None = None,
        smoothed: bool = False,
    ) -> torch.Tensor:
        """p-values (…, K) in float64 of logits (…, K), or of probabilities with `from_probs=True`.

        Args:
            x: any float type; the softmax of half floats is computed in float32.
            u: for a randomized score, one number in (0, 1) per object; drawn by default.
            v: for smoothed p-values, one number in [0, 1) per object.
            group: the number of each object's group, where cells are per group.
            smoothed: whether v is drawn, if it is not given.
        """
        flat, rows = self._rows(x), self._group_rows(group, x)
        score, weights = self._score(u, flat), uniform("v", v, smoothed, flat)
        keys = self.keys.view(torch.float64) if len(self.offsets) == 2 else self.keys
        held = SortedScores(self.value_bits.view(torch.float64), keys, self.offsets, self.of)
        found: torch.Tensor
        if is_traced(flat):
            found = p_values_op(flat, *score, *held, weights, rows, not self.from_probs)
        else:
            found = _p_values(flat, score, held, weights, rows, not self.from_probs)
        return found.reshape(x.shape)

    def extra_repr(self) -> str:
        return f"{len(self.classes)} classes, {self.n_calibration:,} calibration examples, from_probs={self.from_probs}"
