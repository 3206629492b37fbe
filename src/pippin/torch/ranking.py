"""Softmax, prediction sets and label scores in torch, registered as custom operators for torch.compile.

With Triton, the row kernel of `row_kernel.py` computes most rows, and a stable sort ranks the rest. Without Triton, a
top-k finds small sets of many classes, and a stable sort ranks all other rows.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from pippin.torch import row_kernel
from pippin.torch.scores import TorchLimits, TorchScore, TorchSetParts, scores_by_rank, wide

FEW = 32  # number of classes that top-k ranks; rows with larger sets are sorted
AT_ONCE = 1 << 24  # largest number of probabilities that are ranked at once
Outcome = TypeVar("Outcome")
SCORE_SCHEMA = "Tensor x, Tensor table, Tensor numbers, Tensor u, bool linear"


def is_traced(x: torch.Tensor) -> bool:
    """Return True if torch traces the call, so that the registered operator is needed.

    Other calls run the function directly, which saves 0.3 ms.
    """
    return torch.compiler.is_compiling() or type(x) is not torch.Tensor


def row_blocks(rows: torch.Tensor, n_classes: int) -> Iterator[torch.Tensor]:
    """Split row numbers into blocks of at most AT_ONCE probabilities."""
    return iter(torch.split(rows, max(1, AT_ONCE // n_classes)) if len(rows) else ())


def operation(
    name: str, function: Callable[..., Outcome], fake: Callable[..., Any], schema: str | None = None
) -> Callable[..., Outcome]:
    """Register a function as a custom operator of torch; return a function that uses the operator for traced tensors.

    Args:
        name: name of the operator in the namespace pippin.
        function: the implementation.
        fake: returns empty tensors with the shapes and types of the result.
        schema: types of arguments and results; by default derived from annotations.
    """
    registered = torch.library.custom_op(f"pippin::{name}", function, mutates_args=(), schema=schema)
    registered.register_fake(fake)

    def call(x: torch.Tensor, *others: Any) -> Outcome:
        return (registered if is_traced(x) else function)(x, *others)

    return call


def _softmax(logits: torch.Tensor) -> torch.Tensor:
    if row_kernel.supports(logits):
        return row_kernel.probabilities(logits.contiguous())
    return torch.softmax(logits, dim=-1, dtype=wide(logits))


# Softmax of (n, K) logits, in float64 for float64 logits, else in float32.
softmax = operation("probabilities", _softmax, lambda x: x.new_empty(x.shape, dtype=wide(x)))


def block_probabilities(x: torch.Tensor, rows: torch.Tensor, logits: bool) -> torch.Tensor:
    """Return the probabilities of some rows of x, which are logits or probabilities, in float32 or float64."""
    part = x if len(rows) == len(x) else x[rows]
    return _softmax(part) if logits else part.to(wide(x))


def _prediction_sets(x: torch.Tensor, *others: Any) -> TorchSetParts:
    """Compute set sizes (n,), the first `width` classes of each set padded with −1 (n, width), and masks (n, K).

    x is contiguous, (n, K). `others` are the fields of a TorchScore (with one u per row if it is randomized), the
    fields of a TorchLimits, `logits` (True if x are logits), `width`, and `want_mask` (if False, the mask has shape (0,
    K)).
    """
    formula, limits, (logits, width, want_mask) = TorchScore(*others[:4]), TorchLimits(*others[4:7]), others[7:]
    n, n_classes = x.shape
    sizes = x.new_full((n,), -1, dtype=torch.int64)
    members = x.new_full((n, width), -1, dtype=torch.int64)
    mask = x.new_zeros((n if want_mask else 0, n_classes), dtype=torch.bool)
    sets, rows = (sizes, members, mask), torch.arange(n, device=x.device)
    # While a CUDA graph is captured, the sequence of operations cannot depend on the data.
    captured = x.is_cuda and torch.cuda.is_current_stream_capturing()
    kernel = row_kernel.supports(x) and not captured
    if kernel:
        row_kernel.fill_sets(x, logits, formula, limits, sets)
        rows = (sizes < 0).nonzero().squeeze(1)
    one_limit = limits.scores.shape[1] == 1 and limits.ranks is None
    few = formula.linear and one_limit and n_classes > 2 * FEW and not kernel and not captured
    for block in row_blocks(rows, n_classes):
        probs = block_probabilities(x, block, logits)
        if few:
            _rank_rows(probs, block, formula, limits, sets, FEW + 1)
            left = (sizes[block] < 0).nonzero().squeeze(1)
            probs, block = probs[left], block[left]
        if not few or len(block):
            _rank_rows(probs, block, formula, limits, sets, n_classes)
    return sets


def _rank_rows(
    probs: torch.Tensor, rows: torch.Tensor, formula: TorchScore, limits: TorchLimits, sets: TorchSetParts, depth: int
) -> None:
    """Write the sets of some rows from their first `depth` ranks; the size is −1 for a row that needs more ranks."""
    sizes, members, mask = sets
    values, order = _largest(probs, depth)
    limits = limits.take(rows)
    inside = scores_by_rank(values, formula.take(rows)) <= _by_order(limits.scores, order)
    if limits.ranks is not None:
        inside &= torch.arange(depth, device=probs.device) < _by_order(limits.ranks, order)
    inside &= ~values[:, :1].isnan()
    size = inside.sum(dim=1)
    # If classes tie with the last of the largest values, `topk` may return any of them. So a set is certain only if it
    # ends before this value.
    if depth < probs.shape[1]:
        sizes[rows] = torch.where(size <= (values > values[:, -1:]).sum(dim=1), size, -1)
    else:
        sizes[rows] = size
    place = inside.cumsum(dim=1) - 1
    width = members.shape[1]
    padded = torch.full((len(rows), width + 1), -1, dtype=torch.int64, device=probs.device)
    listed = inside & (place < width)
    members[rows] = padded.scatter_(1, torch.where(listed, place, width), torch.where(listed, order, -1))[:, :width]
    if len(mask):
        mask[rows] = torch.zeros_like(probs, dtype=torch.bool).scatter_(1, order, inside)


def _largest(probs: torch.Tensor, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest `depth` probabilities of every row, ties in the order of the classes, and their classes.

    If more classes are tied with the last value, any of them may be returned.
    """
    if depth == probs.shape[1]:
        return torch.sort(probs, dim=1, descending=True, stable=True)
    order = torch.topk(probs, depth, dim=1).indices.sort(dim=1).values
    values, by_value = probs.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, order.gather(1, by_value)


def _by_order(limits: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    return limits if limits.shape[1] == 1 else limits.gather(1, order)


def _empty_sets(x: torch.Tensor, *others: Any) -> TorchSetParts:
    (n, n_classes), (*_, width, want_mask) = x.shape, others
    sizes = x.new_empty((n,), dtype=torch.int64)
    members = x.new_empty((n, width), dtype=torch.int64)
    return sizes, members, x.new_empty((n if want_mask else 0, n_classes), dtype=torch.bool)


prediction_sets = operation(
    "prediction_sets",
    _prediction_sets,
    _empty_sets,
    f"({SCORE_SCHEMA}, Tensor limits, Tensor? ranks, Tensor? group, bool logits, int width, bool want_mask)"
    " -> (Tensor, Tensor, Tensor)",
)


def score_labels(
    x: torch.Tensor, labels: torch.Tensor, formula: TorchScore, weighted: int, logits: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute scores of labels in float64, and their ranks from 0; the score of a label that is no class is NaN.

    Args:
        x: contiguous (n, K) logits, or probabilities.
        labels: class indices.
        formula: the score, with one u per row if it is randomized.
        weighted: last rank (from 1) whose probability enters the scores of later ranks; 0 if there is none.
        logits: whether x are logits.
    """
    n, n_classes = x.shape
    if row_kernel.supports(x):
        scores, ranks = row_kernel.label_scores(x, logits, labels, formula, weighted)
        rows = (ranks < 0).nonzero().squeeze(1)
    else:
        scores, ranks = x.new_empty(n, dtype=torch.float64), x.new_empty(n, dtype=torch.int32)
        rows = torch.arange(n, device=x.device)
    column = torch.arange(n_classes, device=x.device)
    for block in row_blocks(rows, n_classes):
        probs = block_probabilities(x, block, logits)
        valid = (labels[block] >= 0) & (labels[block] < n_classes)
        label = torch.where(valid, labels[block], 0)[:, None]
        own = probs.gather(1, label)
        rank = ((probs > own) | ((probs == own) & (column < label))).sum(dim=1)
        ranked = probs.sort(dim=1, descending=True).values
        score = scores_by_rank(ranked, formula.take(block)).gather(1, rank[:, None]).squeeze(1)
        scores[block] = torch.where(valid, score, torch.nan)
        ranks[block] = rank.int()
    return scores, ranks
