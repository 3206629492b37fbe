"""The sets of a block of logits or probabilities, as one operation that torch.compile takes whole.

On a GPU with Triton the kernels read each row once or twice; elsewhere a top-k, and a stable sort only of the rows
that it does not settle. Everything stays on its device but one flag: whether such rows are left.
"""

import math
from functools import lru_cache
from typing import Any

import torch

from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U
from pippin.torch import kernels
from pippin.torch.kernels import Formula

Sets = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

FEW = 32  # ranks that are looked at before a row is sorted whole


def within_compile(x: torch.Tensor) -> bool:
    """Whether torch is to see one operation and not what it does: tracing asks that; else it costs 0.3 ms a call."""
    return torch.compiler.is_compiling() or type(x) is not torch.Tensor


def softmax(logits: torch.Tensor) -> torch.Tensor:
    """The softmax of (n, K) logits: of float64 in float64, of anything narrower in float32."""
    found: torch.Tensor = probabilities_op(logits) if within_compile(logits) else _softmax(logits)
    return found


def _softmax(logits: torch.Tensor) -> torch.Tensor:
    if kernels.serve(logits):
        return kernels.probabilities(logits.contiguous())
    return torch.softmax(logits, dim=-1, dtype=wide(logits))


probabilities_op = torch.library.custom_op("pippin::probabilities", _softmax, mutates_args=())


@probabilities_op.register_fake
def _as_wide(logits: torch.Tensor) -> torch.Tensor:
    return logits.new_empty(logits.shape, dtype=wide(logits))


def wide(x: torch.Tensor) -> torch.dtype:
    """What probabilities are held in."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def sets_of_one_threshold(x: torch.Tensor, formula: Formula, logits: bool, width: int, want_mask: bool) -> Sets:
    """Sizes (n,), the first `width` members (n, width), and membership (n, K), or (0, K) if not wanted.

    Of contiguous logits, or probabilities. The formula's numbers are c, b, μ and the threshold.
    """
    if within_compile(x):
        found: Sets = conformal_sets(x, *formula, logits, width, want_mask)
        return found
    return _sets(x, formula, logits, width, want_mask)


def _sets(x: torch.Tensor, formula: Formula, logits: bool, width: int, want_mask: bool) -> Sets:
    if kernels.serve(x):
        limit = kernels.one_limit(formula.numbers[3:])
        return with_mask(x, *kernels.sets(x, logits, formula, limit, width, want_mask))
    probs = softmax(x) if logits else x.to(wide(x))
    n, n_classes = probs.shape
    formula = drawn(formula, n)
    sizes = torch.empty(n, dtype=torch.int64, device=probs.device)
    classes = torch.full((n, width), -1, dtype=torch.int64, device=probs.device)
    last = torch.full((n,), -1, dtype=torch.int64, device=probs.device)
    if formula.linear and n_classes > 2 * FEW:
        settled = _look_at_few(probs, formula, sizes, classes, last)
    else:
        settled = torch.zeros(n, dtype=torch.bool, device=probs.device)
    if not bool(settled.all()):
        rows = (~settled).nonzero().squeeze(1)
        sizes[rows], classes[rows], last[rows] = _sorted_sets(probs[rows], formula.of(rows), width)
    if not want_mask:
        return sizes, classes, torch.empty((0, n_classes), dtype=torch.bool, device=probs.device)
    lowest = probs.gather(1, last.clamp(min=0)[:, None])
    ties = (probs == lowest) & (torch.arange(n_classes, device=probs.device) <= last[:, None])
    return sizes, classes, ((probs > lowest) | ties) & (sizes > 0)[:, None]


def with_mask(x: torch.Tensor, sizes: torch.Tensor, classes: torch.Tensor, mask: torch.Tensor | None) -> Sets:
    """What kernels found; a mask that nobody wanted is (0, K), as an operation has to give a tensor."""
    return sizes, classes, x.new_empty((0, x.shape[1]), dtype=torch.bool) if mask is None else mask


SCORED = "Tensor x, Tensor table, Tensor numbers, Tensor u, int kind"  # rows and a formula


@torch.library.custom_op(
    "pippin::conformal_sets",
    mutates_args=(),
    schema=f"({SCORED}, bool logits, int width, bool want_mask) -> (Tensor, Tensor, Tensor)",
)
def conformal_sets(x: torch.Tensor, *others: Any) -> Sets:
    """`sets_of_one_threshold` as torch sees it."""
    *formula, logits, width, want_mask = others
    return _sets(x, Formula(*formula), logits, width, want_mask)


@conformal_sets.register_fake
def shapes_of_sets(x: torch.Tensor, *others: Any) -> Sets:
    """What an operation gives whose last arguments are `width` and `want_mask`."""
    (n, n_classes), (*_, width, want_mask) = x.shape, others
    sizes = x.new_empty((n,), dtype=torch.int64)
    classes = x.new_empty((n, width), dtype=torch.int64)
    return sizes, classes, x.new_empty((n if want_mask else 0, n_classes), dtype=torch.bool)


@lru_cache(maxsize=8)
def nothing(device: torch.device) -> torch.Tensor:
    """What is drawn for a score that is not randomised."""
    return torch.empty(0, dtype=torch.float64, device=device)


def drawn(formula: Formula, n: int) -> Formula:
    """With a number for each of n rows: 0, if none was drawn."""
    return formula if formula.drawn else formula._replace(u=formula.u.new_zeros(n))


def _look_at_few(
    probs: torch.Tensor, formula: Formula, sizes: torch.Tensor, classes: torch.Tensor, last: torch.Tensor
) -> torch.Tensor:
    """Fills in the rows that their best few classes settle, and says which these are.

    A top-k gives the right values, but which of several equal classes it takes is its own
    affair: only members above the lowest value are sure.
    """
    values, order = torch.topk(probs, FEW + 1, dim=1)
    order, by_index = order.sort(dim=1)
    values, by_value = values.gather(1, by_index).sort(dim=1, descending=True, stable=True)
    order = order.gather(1, by_value)
    found = _sizes(values, formula)
    sizes[:] = found
    _list(order, found, classes, last)
    return found <= (values > values[:, -1:]).sum(dim=1)


def _sorted_sets(probs: torch.Tensor, formula: Formula, width: int) -> Sets:
    """Sizes, listed members and last members, from a full stable sort."""
    values, order = torch.sort(probs, dim=1, descending=True, stable=True)
    sizes = _sizes(values, formula)
    classes = torch.full((len(probs), width), -1, dtype=torch.int64, device=probs.device)
    last = torch.full((len(probs),), -1, dtype=torch.int64, device=probs.device)
    _list(order, sizes, classes, last)
    return sizes, classes, last


def _list(order: torch.Tensor, sizes: torch.Tensor, classes: torch.Tensor, last: torch.Tensor) -> None:
    """Writes the members and the last one of each row; −1 where there is none."""
    width = min(classes.shape[1], order.shape[1])
    member = torch.arange(width, device=order.device) < sizes[:, None]
    classes[:, :width] = torch.where(member, order[:, :width], -1)
    final = order.gather(1, (sizes - 1).clamp(min=0, max=order.shape[1] - 1)[:, None]).squeeze(1)
    last[:] = torch.where(sizes > 0, final, -1)


def _sizes(values: torch.Tensor, formula: Formula) -> torch.Tensor:
    """How many of the ranked probabilities score at most the threshold."""
    return (scores_by_rank(values, formula) <= formula.numbers[3]).sum(dim=1)


def scores_by_rank(values: torch.Tensor, formula: Formula) -> torch.Tensor:
    """The scores of ranked probabilities: `score_at` of the formula in its order."""
    if kernels.serve(values):
        return kernels.scores_of_ranked(values, formula)
    p = values.double()
    constant, second, price = formula.numbers[:3].unbind()
    mass = torch.empty_like(p)
    if formula.linear:
        ranks, draw = formula.table[: p.shape[1]], formula.u[:, None]
        mass[:, 0] = second * p[:, 1]
        mass[:, 1:] = torch.cumsum(ranks[:-1, ABOVE] * p[:, :-1], dim=1)
        own = ranks[:, OWN] + draw * ranks[:, OWN_U]
        return (constant + own * p) + mass + (ranks[:, PENALTY] + draw * ranks[:, PENALTY_U])
    mass[:, 0] = 0.0
    mass[:, 1:] = _lowest_price(p[:, 1:], price)[:, None]
    return torch.maximum(1.0 / (p + 0.0), mass)


def _lowest_price(below: torch.Tensor, price: torch.Tensor) -> torch.Tensor:
    """SOCOP's τ, reached by walking m = 2, 3, … as long as the ratio falls."""
    counts = torch.arange(1, below.shape[1] + 1, dtype=torch.float64, device=below.device)
    ratio = (counts + price) / torch.cumsum(below, dim=1)
    following = torch.nn.functional.pad(ratio[:, 1:], (0, 1), value=math.inf)
    stays = ~(following < ratio)
    stays[:, -1] = True
    return ratio.gather(1, stays.to(torch.int8).argmax(dim=1, keepdim=True)).squeeze(1)
