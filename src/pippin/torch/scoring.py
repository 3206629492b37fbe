"""The scores of true labels where the logits are, batch after batch, with the checks of the core."""

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from pippin._engine.draws import generator_of
from pippin._inputs.labels import as_labels, two_meanings
from pippin._inputs.rows import Rows, as_rows
from pippin._runtime.arrays import Classes, Codes, Seed
from pippin._runtime.errors import InputError
from pippin._theory.formula import ABOVE
from pippin._theory.scores import Score, coefficients
from pippin.torch import kernels
from pippin.torch.kernels.filled import kind_of
from pippin.torch.ops import FEW, drawn, nothing, scores_by_rank, softmax, wide

AT_ONCE = 1 << 24  # probabilities that are ranked at once, without kernels


class Scored(NamedTuple):
    """Labels by number, the scores of the true ones, their ranks from 0, and first in `faults` how many there were.

    All rows together and on one device. What else is in `faults` is room for the kernels.
    """

    labels: torch.Tensor
    scores: torch.Tensor
    ranks: torch.Tensor
    faults: torch.Tensor


class Scoring:
    """Takes batches; keeps of each the labels, their scores and their ranks.

    Whether a batch has faults is known when the device has come so far; who does not wait (`later`) asks `check`.
    """

    def __init__(self, score: Score, seed: Seed, logits: bool, classes: Classes | None) -> None:
        self.score, self.logits, self.classes = score, logits, classes
        self.seed = seed
        self.parts: list[Scored] = []
        self.last: tuple[torch.Tensor, Any, Classes] | None = None

    @cached_property
    def generator(self) -> np.random.Generator:
        """What u comes from, row after row, and clusters after that."""
        return generator_of(self.seed)

    def add(self, x: torch.Tensor, labels: Any, later: bool = False) -> None:
        """The rows of one batch, (n, K) on a GPU, and their labels."""
        if x.ndim != 2 or not len(x) or x.shape[1] < 2 or not x.is_floating_point():
            as_rows(x.float().cpu())  # says what is wrong
        names = range(x.shape[1]) if self.classes is None else self.classes
        numbered = _numbers(labels, len(x), names).to(x.device).contiguous()
        u = nothing(x.device)
        if self.score.randomized:
            u = torch.from_numpy(self.generator.random(len(x))).to(x.device)
        self.parts.append(Scored(numbered, *_scored(x.contiguous(), numbered, self.score, u, self.logits)))
        self.last = (x, labels, names)
        if not later:
            self.check(int(self.parts[-1].faults[0]))
            self.last = None

    def check(self, faults: int) -> None:
        """Raises what the core says of the last batch, if it has faults; rows may turn out to be good in float64."""
        if not faults or self.last is None:
            return
        x, labels, names = self.last
        before = sum(len(part.labels) for part in self.parts[:-1])
        as_labels(labels.cpu() if isinstance(labels, torch.Tensor) else labels, len(x), names)
        for rows in torch.split(torch.arange(len(x), device=x.device), max(1, AT_ONCE // x.shape[1])):
            probs = softmax(x[rows]) if self.logits else x[rows].to(wide(x))
            try:
                Rows(probs.cpu().numpy()).check(0, len(rows))
            except InputError as error:
                raise error.later(before + int(rows[0])) from None

    def all(self) -> Scored:
        if not self.parts:
            raise InputError(
                "Expected at least one batch of (inputs, labels), got an empty loader", "pass calibration data"
            )
        return self.parts[0] if len(self.parts) == 1 else Scored(*map(torch.cat, zip(*self.parts, strict=True)))


def _numbers(labels: Any, n: int, classes: Classes) -> torch.Tensor:
    """Labels as class indices, on the device where they are, if they can mean nothing else."""
    if isinstance(labels, torch.Tensor) and labels.dtype in (torch.int64, torch.int32) and labels.shape == (n,):
        if isinstance(classes, range) or (isinstance(classes[0], str) and not two_meanings(classes)):
            return labels.to(torch.int64)
        labels = labels.cpu()
    codes: Codes = as_labels(labels.cpu() if isinstance(labels, torch.Tensor) else labels, n, classes)
    return torch.from_numpy(np.array(codes, dtype=np.int64))


@lru_cache(maxsize=8)
def _coefficients(score: Score, n_classes: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, int, int]:
    """The score's table and numbers on a device, its kind, and of how many ranks the weights are not 0."""
    c = coefficients(score, n_classes)
    weights = np.flatnonzero(c.table[:, ABOVE])
    table, numbers = (torch.from_numpy(np.array(a)).to(device) for a in (c.table, (c.constant, c.second, c.price)))
    return table, numbers, kind_of(c.price, c.reach), int(weights[-1]) + 1 if len(weights) else 0


def _scored(
    x: torch.Tensor, labels: torch.Tensor, score: Score, u: torch.Tensor, logits: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, ranks from 0, and how many faults of labels and rows there are."""
    table, numbers, kind, weighty = _coefficients(score, x.shape[1], x.device)
    formula = kernels.Formula(table, numbers, u, kind)
    if not kernels.serve(x):
        return _ranked_scores(x, labels, formula, logits)
    return kernels.label_scores(x, logits, labels, formula, weighty)


def _ranked_scores(
    x: torch.Tensor, labels: torch.Tensor, formula: kernels.Formula, logits: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same in torch: what is above a label is found by comparing, and only as far down as its rank is it sorted."""
    n, n_classes = x.shape
    formula = drawn(formula, n)
    scores = torch.empty(n, dtype=torch.float64, device=x.device)
    ranks = torch.full((n,), -1, dtype=torch.int32, device=x.device)
    faults = torch.zeros(1, dtype=torch.int64, device=x.device)
    column = torch.arange(n_classes, device=x.device)
    for rows in torch.split(torch.arange(n, device=x.device), max(1, AT_ONCE // n_classes)):
        probs = softmax(x[rows]) if logits else x[rows].to(wide(x))
        odd = ~((probs.sum(dim=1) - 1).abs() <= kernels.NEAR) | (probs < 0).any(dim=1)
        label = labels[rows]
        known = (label >= 0) & (label < n_classes)
        own = probs.gather(1, label.clamp(0, n_classes - 1)[:, None])
        faults += (odd | ~known).sum()
        rank = ((probs > own) | ((probs == own) & (column < label[:, None]))).sum(dim=1)
        ranks[rows] = torch.where(known, rank, -1).int()
        rank = torch.where(known, rank, 0)
        short = (rank < FEW) if formula.linear and n_classes > 2 * FEW else torch.zeros_like(known)
        for chosen, width in ((short, FEW + 1), (~short, n_classes)):
            if bool(chosen.any()):
                values = probs[chosen].topk(width, dim=1).values
                found = scores_by_rank(values, formula.of(rows[chosen]))
                scores[rows[chosen]] = found.gather(1, rank[chosen][:, None]).squeeze(1)
    return scores, ranks, faults
