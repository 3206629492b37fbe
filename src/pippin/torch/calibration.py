"""Calibration of a PyTorch network, from a data loader or from a tensor of logits."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import ArrayLike

from pippin._conformal.calibrate import Settings, Unseen, predictor_of_scores
from pippin._conformal.calibrate import calibrate as calibrate_rows
from pippin._conformal.mondrian import (
    Level,
    Per,
    ScoredLabels,
    as_taxonomy,
    single_category,
    threshold_rank,
)
from pippin._conformal.predictor import ConformalPredictor, without_scores
from pippin._conformal.rules import marginal_rule, warned
from pippin._engine.draws import generator_of
from pippin._runtime.arguments import checked
from pippin._runtime.arrays import Classes, Seed, read_only
from pippin._runtime.errors import InputError, warn
from pippin._theory.formula import ABOVE
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score, coefficients
from pippin._theory.spelling import parse_score
from pippin._validation.labels import as_labels, as_numbered_groups, as_rows_and_classes, two_meanings
from pippin._validation.rows import Rows, as_rows
from pippin.torch import row_kernel
from pippin.torch.heads import probabilities
from pippin.torch.ranking import block_probabilities, row_blocks, score_labels
from pippin.torch.scores import TorchScore, wide

SUM_TOLERANCE = 9e-4  # rows whose sum differs from 1 by more are validated again in NumPy, with the tolerance 1e-3


@checked
def calibrate(
    model_or_logits: "torch.nn.Module | Callable[[Any], torch.Tensor] | torch.Tensor",
    loader_or_labels: "Iterable[Any] | torch.Tensor",
    score: Score | str = "repip",
    alpha: Level = 0.1,
    *,
    classes: Classes | None = None,
    per: Per | Mapping[Any, str] | None = None,
    groups: ArrayLike | None = None,
    unseen: Unseen = "error",
    confidence: float | None = None,
    seed: Seed = None,
    from_probs: bool = False,
    scores: bool = True,
) -> ConformalPredictor:
    """Calibrate a predictor from logits and labels, or from a model and a loader of (inputs, labels) batches.

    The model runs in eval mode, without gradients, on the device of its parameters. On the CPU the result is equal to
    that of `pippin.calibrate` on `probabilities(logits)`, to the last bit. On a CUDA device each batch is scored there,
    only the scores of its labels are kept, and a threshold may differ in the last bits.

    Args:
        model_or_logits: a model that returns logits (n, K), or the logits; probabilities with `from_probs=True`.
        loader_or_labels: batches of (inputs, labels), or the labels as class indices.
        score: a score, or its name with parameters, such as "raps(lam=0.1)".
        alpha: significance level (miscoverage). If `per` joins classes to superclasses ("kinds"), {kind: alpha} sets a
            level for each kind.
        classes: names of the K columns.
        per: Mondrian taxonomy, as in `pippin.calibrate`.
        groups: the group of each row, in the order of the loader, for a guarantee per group.
        unseen: policy of `predict` for groups without calibration rows, "error" or "marginal", as in
            `pippin.calibrate`.
        confidence: probability over calibration sets with which coverage is at least 1 − alpha (PAC); by default
            coverage is at least 1 − alpha on average over them.
        seed: for randomized scores and for per="cluster"; a seed or a Generator.
        from_probs: whether the model returns probabilities instead of logits.
        scores: whether the predictor keeps the calibration scores, which other levels and p-values need.

    Returns:
        The calibrated predictor, the same type as from `pippin.calibrate`.

    Raises:
        InputError: a row is not a probability distribution, a label is not a class, or the loader is empty.

    >>> import pippin.torch, torch
    >>> data = pippin.load_example()
    >>> pippin.torch.calibrate(torch.tensor(data.probs), torch.tensor(data.labels), "pip", from_probs=True)
    ConformalPredictor(pip, alpha=0.1, threshold=1.7366, 4,986 calibration examples, 12 classes)
    """
    chosen, generator = parse_score(score), generator_of(seed)
    on_device: list[tuple[torch.Tensor, ...]] = []  # of each batch: labels, their scores and their ranks
    on_host: list[tuple[Any, Any]] = []
    for outputs, labels in _batches(model_or_logits, loader_or_labels):
        x = outputs.detach()
        if x.is_cuda or row_kernel.INTERPRETED:
            first = sum(len(codes) for codes, _, _ in on_device)
            on_device.append(_score_labels(x, labels, classes, first, chosen, generator, not from_probs))
        else:
            probs = (x.to(wide(x)) if from_probs else probabilities(x)).cpu().numpy()
            on_host.append((probs, np.asarray(labels.cpu() if isinstance(labels, torch.Tensor) else labels)))
    if on_host:
        options: dict[str, Any] = {"per": per, "groups": groups, "unseen": unseen, "confidence": confidence}
        if any(not labels.ndim for _, labels in on_host):
            raise InputError("Expected one label per row of logits, got a single object", "pass a tensor of labels")
        rows, truth = map(np.concatenate, zip(*on_host, strict=True))
        predictor = calibrate_rows(rows, truth, chosen, alpha, classes=classes, seed=seed, **options)
        return predictor if scores else without_scores(predictor)
    if not on_device:
        what = "Expected at least one batch of (inputs, labels), got an empty loader"
        raise InputError(what, "pass calibration data")
    taxonomy = as_taxonomy(per, groups, unseen)
    settings = Settings(chosen, alpha, generator, taxonomy, confidence=confidence)
    settings.check()
    codes, label_scores, ranks = on_device[0] if len(on_device) == 1 else map(torch.cat, zip(*on_device, strict=True))
    names = as_rows_and_classes(np.empty((1, x.shape[1])), classes)[1]
    if taxonomy.per is None:
        return _one_threshold(label_scores, chosen, alpha, names, confidence, scores)
    taxonomy.check()
    scored = ScoredLabels(
        label_scores.cpu().numpy(),
        codes.cpu().numpy(),
        None if groups is None else as_numbered_groups(groups, len(codes)),
        (ranks + 1).cpu().numpy() if per == "rc3p" else None,
    )
    predictor, note = predictor_of_scores(scored, names, settings)
    if note:
        warn(note)
    return warned(predictor) if scores else without_scores(warned(predictor))


def _score_labels(
    x: torch.Tensor, labels: Any, classes: Classes | None, first: int, score: Score, generator: Generator, logits: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the labels of one batch as class indices, their scores and their ranks (from 0).

    `first` is the number of rows in earlier batches, by which error messages number the rows of the whole data set.
    """
    if x.ndim != 2 or not len(x) or x.shape[1] < 2 or not x.is_floating_point():
        as_rows(x.float().cpu())  # raises an InputError that describes the fault
    n, n_classes = x.shape
    names = range(n_classes) if classes is None else classes
    codes = _class_indices(labels, n, names).to(x.device).contiguous()
    formula, weighted = _score_on(x.device, score, n_classes)
    if score.randomized:
        formula = formula._replace(u=torch.from_numpy(generator.random(n)).to(x.device))
    scores, ranks = score_labels(x.contiguous(), codes, formula, weighted, logits)
    invalid = scores.isnan()
    if not logits:
        invalid |= ~((x.sum(dim=1, dtype=wide(x)) - 1).abs() <= SUM_TOLERANCE) | (x < 0).any(dim=1)
    if bool(invalid.any()):
        _check(x, labels, names, first, logits)
    return codes, scores, ranks


def _check(x: torch.Tensor, labels: Any, names: Classes, first: int, logits: bool) -> None:
    """Raise the InputError of `pippin.calibrate` if a label is not a class, or a row is not a distribution."""
    start = first
    try:
        as_labels(labels.cpu() if isinstance(labels, torch.Tensor) else labels, len(x), names)
        for rows in row_blocks(torch.arange(len(x), device=x.device), x.shape[1]):
            start = first + int(rows[0])
            Rows(block_probabilities(x, rows, logits).cpu().numpy()).check(0, len(rows))
    except InputError as error:
        raise error.later(start) from None


@lru_cache(maxsize=8)
def _score_on(device: torch.device, formula: Score, n_classes: int) -> tuple[TorchScore, int]:
    """Return the coefficients of a score as tensors on a device, and the last rank that affects later ranks.

    This is the last rank (from 1) whose probability enters the scores of later ranks; 0 if there is none.
    """
    c = coefficients(formula, n_classes)
    parts: tuple[Any, ...] = c.table, (c.constant, c.second, c.price), ()
    table, numbers, u = (torch.from_numpy(np.array(part, dtype=np.float64)).to(device) for part in parts)
    weighted = int(np.flatnonzero(c.table[:, ABOVE]).max(initial=-1)) + 1
    return TorchScore(table, numbers, u, math.isnan(c.price)), weighted


def _class_indices(labels: Any, n: int, classes: Classes) -> torch.Tensor:
    """Return labels as class indices; an integer tensor stays on its device, unless its numbers may be class names."""
    plain = isinstance(classes, range) or (isinstance(classes[0], str) and not two_meanings(classes))
    if isinstance(labels, torch.Tensor):
        if plain and labels.dtype in (torch.int64, torch.int32) and labels.shape == (n,):
            return labels.to(torch.int64)
        labels = labels.cpu()
    return torch.from_numpy(np.array(as_labels(labels, n, classes), dtype=np.int64))


def _one_threshold(
    scores: torch.Tensor, score: Score, alpha: Any, classes: Classes, confidence: float | None, keep: bool
) -> ConformalPredictor:
    """Return a predictor with one threshold: the k-th smallest of the n calibration scores, or inf if k > n."""
    level, n = as_alpha(alpha), len(scores)
    k = threshold_rank(n, level, confidence)
    smallest = scores.sort().values[min(k, n) - 1 :][:1]
    host = torch.cat([smallest, scores] if keep else [smallest]).cpu().numpy()  # one transfer from the device
    threshold = float(host[0]) if k <= n else math.inf
    categories = single_category(read_only(host[1:]) if keep else None, n, len(classes))
    return warned(ConformalPredictor(score, level, n, classes, marginal_rule(categories, threshold, confidence)))


def _batches(model: Any, loader: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    """Yield the outputs and labels of every batch, computed with the model in eval mode; a tensor is a single batch.

    Afterwards every module gets its training mode back.
    """
    if isinstance(model, torch.Tensor):
        yield model, loader
        return
    if not callable(model):
        what = f"Expected a model or a tensor of logits, got {type(model).__name__}"
        raise InputError(what, "pass a torch.nn.Module, or logits of shape (n, K)")
    module = model if isinstance(model, torch.nn.Module) else torch.nn.Identity()
    modes, parameter = [(child, child.training) for child in module.modules()], next(module.parameters(), None)
    module.eval()
    try:
        with torch.no_grad():
            for batch in loader:
                if not isinstance(batch, tuple | list) or len(batch) != 2:
                    got = type(batch).__name__
                    raise InputError(f"Expected batches of (inputs, labels), got {got}", "pass a loader of such pairs")
                inputs, labels = batch
                if parameter is not None and isinstance(inputs, torch.Tensor):
                    inputs = inputs.to(parameter.device)
                yield model(inputs), labels
    finally:
        for child, mode in modes:
            child.training = mode
