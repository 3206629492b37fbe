"""Calibrating a network: its logits over a loader, or as a tensor."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from pippin._inputs.labels import as_classes
from pippin._inputs.rows import as_rows
from pippin._predictors.calibrating import Unseen
from pippin._predictors.calibrating import calibrate as calibrate_rows
from pippin._predictors.conditional import ConditionalPredictor
from pippin._predictors.grouping import Grouping, Per
from pippin._predictors.kinds import Level, warn_of_levels
from pippin._predictors.marginal import Predictor
from pippin._runtime.arrays import Classes, Seed
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score
from pippin.torch import kernels
from pippin.torch.head import floats, probabilities
from pippin.torch.scoring import Scoring
from pippin.torch.selecting import one_threshold, several_thresholds, without_scores

Batches = Iterable[tuple[torch.Tensor, Any]]


def calibrate(
    model_or_logits: "torch.nn.Module | Callable[[Any], torch.Tensor] | torch.Tensor",
    loader_or_labels: "Iterable[Any] | torch.Tensor",
    score: Score | str = "repip",
    alpha: Level = 0.1,
    *,
    classes: Classes | None = None,
    seed: Seed = None,
    per: Per | Mapping[Any, str] | None = None,
    groups: ArrayLike | None = None,
    unseen: Unseen = "error",
    from_probs: bool = False,
    scores: bool = True,
) -> Predictor | ConditionalPredictor:
    """A predictor from logits and labels, or from a model and a loader of (inputs, labels) batches.

    The model runs in eval mode, without gradients, on the device of its parameters. On a CUDA device everything stays
    there but thresholds and, if they are kept, scores; a batch leaves its labels' scores and is forgotten. With
    Triton the predictor is, to the last bit, the one that `pippin.calibrate` makes of `probabilities(logits)`. From
    any other device probabilities come to the CPU's memory and are scored there.

    Args:
        model_or_logits: gives logits (n, K), or is them; probabilities with `from_probs=True`.
        loader_or_labels: batches of (inputs, labels), or the labels as class indices.
        score: a score or its spelling.
        alpha: the share of errors allowed; where the guarantee is per kind, one for all or {kind: alpha}.
        classes: names of the K columns.
        seed: for the randomised scores and for clusters; a seed or a Generator.
        per: what the guarantee holds for, as in `pippin.calibrate`.
        groups: the group of each row, in the order of the loader, for a guarantee per group.
        unseen: what becomes of a group that is not among them, as in `pippin.calibrate`.
        from_probs: whether the model gives probabilities instead of logits.
        scores: whether the predictor keeps the calibration scores, for other levels and for p-values.

    >>> import pippin.torch, torch
    >>> data = pippin.load_example()
    >>> pippin.torch.calibrate(torch.tensor(data.probs), torch.tensor(data.labels), "pip", from_probs=True)
    Predictor(pip, alpha=0.1, threshold=1.7366, 4,986 calibration examples, 12 classes)
    """
    batches: Batches
    at_once = isinstance(model_or_logits, torch.Tensor)
    if isinstance(model_or_logits, torch.Tensor):
        batches = [(model_or_logits, loader_or_labels)]
    elif callable(model_or_logits):
        batches = _outputs(model_or_logits, loader_or_labels)
    else:
        raise InputError(
            f"Expected a model or a tensor of logits, got {type(model_or_logits).__name__}",
            "pass a torch.nn.Module, or logits of shape (n, K)",
        )
    chosen, grouping = parse_score(score), None
    if per is not None or groups is not None or unseen != "error":
        grouping = Grouping(per or "group", groups, unseen)
    scoring = Scoring(chosen, seed, not from_probs, classes)
    probs: list[Any] = []
    labels: list[Any] = []
    width = 0
    for outputs, truth in batches:
        rows, width = outputs.detach(), outputs.shape[-1]
        if rows.is_cuda or kernels.serve(rows):
            scoring.add(rows, truth, later=grouping is None and at_once)
        else:
            probs.append((floats(rows) if from_probs else probabilities(rows)).cpu().numpy())
            labels.append(np.asarray(truth.cpu() if isinstance(truth, torch.Tensor) else truth))
    if probs:
        made = calibrate_rows(
            np.concatenate(probs),
            np.concatenate(labels),
            chosen,
            alpha,
            classes=classes,
            seed=seed,
            per=per,
            groups=groups,
            unseen=unseen,
        )
        return made if scores else without_scores(made)
    warn_of_levels(alpha)
    scored = scoring.all()
    names = range(width) if classes is None else as_classes(classes, as_rows(np.empty((1, width))))
    if grouping is None:
        return one_threshold(scored, chosen, alpha, names, scores, scoring.check)
    return several_thresholds(scored, chosen, alpha, names, grouping, scoring.generator, scores)


def _outputs(model: Callable[[Any], torch.Tensor], loader: Iterable[Any]) -> Iterator[tuple[torch.Tensor, Any]]:
    """What the model says of every batch, and the batch's labels."""
    module = model if isinstance(model, torch.nn.Module) else None
    first = None if module is None else next(module.parameters(), None)
    with _evaluating(module), torch.no_grad():
        for batch in loader:
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise InputError(
                    f"Expected batches of (inputs, labels), got {type(batch).__name__}", "pass a loader of such pairs"
                )
            inputs, labels = batch
            if first is not None and isinstance(inputs, torch.Tensor):
                inputs = inputs.to(first.device)
            yield model(inputs), labels


@contextlib.contextmanager
def _evaluating(module: "torch.nn.Module | None") -> Iterator[None]:
    """Eval mode for a while; every part returns to the mode it had."""
    modes = [] if module is None else [(part, part.training) for part in module.modules()]
    for part, _ in modes:
        part.training = False
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
