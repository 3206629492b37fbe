"""Calibrating a network: its logits over a loader, or as a tensor."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from pippin._predictors.calibrating import calibrate as calibrate_rows
from pippin._predictors.marginal import Predictor
from pippin._runtime.arrays import Classes, Seed
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score
from pippin.torch.head import floats, probabilities


def calibrate(
    model_or_logits: "torch.nn.Module | Callable[[Any], torch.Tensor] | torch.Tensor",
    loader_or_labels: "Iterable[Any] | torch.Tensor",
    score: Score | str = "repip",
    alpha: float = 0.1,
    *,
    classes: Classes | None = None,
    seed: Seed = None,
    from_probs: bool = False,
) -> Predictor:
    """A predictor from logits and labels, or from a model and a loader of (inputs, labels) batches.

    The model runs in eval mode, without gradients, on the device of its parameters. Probabilities
    are made as `ConformalHead` makes them and are scored in the CPU's memory.

    Args:
        model_or_logits: gives logits (n, K), or is them; probabilities with `from_probs=True`.
        loader_or_labels: batches of (inputs, labels), or the labels as class indices.
        score: a score or its spelling.
        alpha: the share of errors allowed.
        classes: names of the K columns.
        seed: for the randomised scores; a seed or a Generator.
        from_probs: whether the model gives probabilities instead of logits.

    >>> import pippin.torch, torch
    >>> data = pippin.load_example()
    >>> pippin.torch.calibrate(torch.tensor(data.probs), torch.tensor(data.labels), "pip", from_probs=True)
    Predictor(pip, alpha=0.1, threshold=1.7366, 4,986 calibration examples, 12 classes)
    """
    if isinstance(model_or_logits, torch.Tensor):
        batches: Iterable[tuple[torch.Tensor, Any]] = [(model_or_logits, loader_or_labels)]
    elif callable(model_or_logits):
        batches = _outputs(model_or_logits, loader_or_labels)
    else:
        raise InputError(
            f"Expected a model or a tensor of logits, got {type(model_or_logits).__name__}",
            "pass a torch.nn.Module, or logits of shape (n, K)",
        )
    probs: list[Any] = []
    labels: list[Any] = []
    for outputs, truth in batches:
        rows = outputs.detach()
        rows = floats(rows) if from_probs else probabilities(rows)
        probs.append(rows.cpu().numpy())
        labels.append(np.asarray(truth.cpu() if isinstance(truth, torch.Tensor) else truth))
    if not probs:
        raise InputError(
            "Expected at least one batch of (inputs, labels), got an empty loader", "pass calibration data"
        )
    return calibrate_rows(np.concatenate(probs), np.concatenate(labels), score, alpha, classes=classes, seed=seed)


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
