"""Thresholds from scores on a GPU: the k-th smallest of all, or of every class, kind, group, or class and group."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pippin._inputs.labels import as_numbered_groups
from pippin._predictors import by_cell, marginal
from pippin._predictors.cells import Cells, Placement
from pippin._predictors.conditional import ConditionalPredictor, at_level
from pippin._predictors.grouping import Grouping, places
from pippin._predictors.kinds import as_levels
from pippin._predictors.marginal import Predictor
from pippin._predictors.partitions.part import Part
from pippin._runtime.arrays import Classes, Codes, Vector, read_only
from pippin._theory.level import as_alpha, quantile_rank
from pippin._theory.scores import Score
from pippin.torch import kernels
from pippin.torch.scoring import Scored


def one_threshold(
    scored: Scored, score: Score, alpha: Any, classes: Classes, keep: bool, check: Callable[[int], None] | None = None
) -> Predictor:
    """A predictor with one threshold; it keeps the scores, if it is to. Faults are told to `check`."""
    level, n = as_alpha(alpha), len(scored.scores)
    k = quantile_rank(n, level)
    found = _smallest(scored, min(k, n))
    kept = _to_host(scored.scores) if keep else None
    threshold, faults = found.tolist()  # which waits for the device, and so for all copies before
    if check is not None:
        check(int(faults))
    scores = None if kept is None else read_only(kept.numpy())
    return Predictor(score, level, marginal.warned(math.inf if k > n else threshold, n, level), n, classes, scores)


def several_thresholds(
    scored: Scored,
    score: Score,
    alpha: Any,
    classes: Classes,
    grouping: Grouping,
    generator: np.random.Generator,
    keep: bool,
) -> ConditionalPredictor:
    """A predictor with a threshold for every class, kind, group, cluster, or class and group."""
    grouping.check()
    n = len(scored.scores)
    groups = None if grouping.groups is None else as_numbered_groups(grouping.groups, n)
    if grouping.per in ("cluster", "rc3p"):  # these look at more than the k-th score of a cell
        ranks = (scored.ranks + 1).cpu().numpy() if grouping.per == "rc3p" else None
        part = Part(scored.scores.cpu().numpy(), scored.labels.cpu().numpy(), groups, ranks)
        made = by_cell.warned(*by_cell.from_part(part, score, alpha, classes, grouping, generator))
        return made if keep else without_scores(made)
    codes, names = (None, None) if groups is None else groups
    placement, known, kinds = places(grouping, classes, names)
    scores, offsets = _by_cell(scored, placement, codes)
    cells = Cells(
        read_only(placement.of.astype(np.int32)), read_only(offsets), _array(_to_host(scores)) if keep else None
    )
    blank = ConditionalPredictor(score, grouping.name, 0.5, np.empty(0), None, n, classes, known, cells, kinds)
    if keep:
        return by_cell.warned(at_level(blank, alpha), None)
    levels = as_levels(alpha, kinds)
    level = as_alpha(alpha) if levels is None else max(levels)
    found = _thresholds(cells, scores, levels or level)
    made = ConditionalPredictor(
        score, grouping.name, level, read_only(found[cells.of]), None, n, classes, known, cells, kinds, levels
    )
    return by_cell.warned(made, None)


def without_scores(predictor: Any) -> Any:
    """The same predictor, its calibration scores forgotten."""
    if isinstance(predictor, Predictor):
        return replace(predictor, scores=None)
    return replace(predictor, cells=replace(predictor.cells, scores=None, ranks=None))


def _smallest(scored: Scored, k: int) -> torch.Tensor:
    """The k-th smallest score and the number of faults, (2,)."""
    if kernels.serve(scored.scores):
        return kernels.smallest(scored.scores, k, scored.faults)
    return torch.cat([scored.scores.sort().values[k - 1 : k], scored.faults[:1].double()])


def _by_cell(scored: Scored, placement: Placement, codes: Codes | None) -> tuple[torch.Tensor, Codes]:
    """All scores cell after cell, each cell sorted, and where each begins: `Placement` and `make_cells` on the GPU."""
    device = scored.scores.device
    own = torch.from_numpy(np.array(placement.own, dtype=np.int64)).to(device)
    within = own[scored.labels] if placement.by_class else torch.zeros_like(scored.labels)
    cell = within if codes is None else torch.from_numpy(np.array(codes)).to(device) * placement.each + within
    scores = scored.scores
    if placement.extra is not None:
        first = cell < placement.extra
        again = placement.extra + (within if placement.each > 1 else torch.zeros_like(within))
        scores, cell = torch.cat([scores[first], scores]), torch.cat([cell[first], again])
    scores, order = scores.sort()
    cell, order = cell[order].sort(stable=True)
    counts = torch.bincount(cell, minlength=int(placement.of.max()) + 1)
    return scores[order], np.concatenate([[0], np.cumsum(counts.cpu().numpy())])


def _thresholds(cells: Cells, scores: torch.Tensor, alpha: "float | tuple[float, ...]") -> Vector:
    """Each cell's k-th smallest score; infinite where it has fewer than k."""
    k, counts = cells.quantile_ranks(alpha), cells.counts
    enough = k <= counts
    found = np.full(len(counts), np.inf)
    chosen = torch.from_numpy((cells.offsets[:-1] + k - 1)[enough]).to(scores.device)
    found[enough] = scores[chosen].cpu().numpy()
    return found


def _to_host(scores: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU, under way: it is there once the device has been waited for."""
    there = torch.empty(scores.shape, dtype=scores.dtype, pin_memory=scores.is_cuda)
    return there.copy_(scores, non_blocking=True)


def _array(scores: torch.Tensor) -> Vector:
    """What is on the CPU once the device has been waited for."""
    if scores.is_pinned():
        torch.cuda.current_stream().synchronize()
    return read_only(scores.numpy())
