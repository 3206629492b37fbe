# mypy: ignore-errors
# Triton compiles the kernels itself: their arguments are pointers and blocks, for which Python has no types.
"""Triton kernels that compute prediction sets and label scores from the most probable classes of each row.

A program processes a tile of rows and reads it three times, in blocks of columns:

1. `_extremes` computes the maximum of each row, and of each lane (the entries at one position of all blocks).
2. `_extremes` then computes the normalizing constant of the softmax. The terms are rounded to multiples of 2⁻³⁵, so
   that their sum in float64 is exact in any order: all kernels obtain the same probabilities for any memory layout.
3. `_list` stores the classes above a cutoff, chosen so that the maxima of at least MIN_LANES lanes reach it.

Then `_sets` or `_labels` visits the listed classes in decreasing order of probability, and sums in float64 without
fused multiply-add, like the NumPy engine. A row whose result depends on a class below the cutoff gets the result -1,
and the torch operations of `ranking.py` compute it.

Probabilities are p = 2^((x − max)·log₂e)·scale in float32. Rows in float64 are computed by torch operations only.
"""

import os

import torch

from pippin.torch.scores import TorchLimits, TorchScore, TorchSetParts

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # torch for CPUs, macOS and Windows comes without Triton
    triton = tl = None

INTERPRETED = triton is not None and os.environ.get("TRITON_INTERPRET") == "1"  # kernels run in NumPy on the CPU
MIN_LANES, MAX_LANES = 36, 48  # range of the number of lanes whose maximum reaches the cutoff (see `_cutoff`)
LISTED = 64  # largest number of classes above the cutoff that are listed
BLOCK = 512  # largest number of columns in a block, and of lanes: so many that few of the largest entries share one

jit = triton.jit(do_not_specialize=["n", "width", "weighted"]) if triton is not None else lambda kernel: kernel
constexpr = tl.constexpr if triton is not None else object


def supports(x: torch.Tensor) -> bool:
    """Return True if the kernels can process this tensor: on a device with Triton, and not in float64."""
    return triton is not None and (x.is_cuda or INTERPRETED) and x.dtype != torch.float64


@jit
def _probability(x, top, scale, SOFTMAX: constexpr):
    if SOFTMAX:
        return tl.exp2((x - top) * 1.4426950408889634) * scale
    return x * scale + 0.0  # -0.0 counts as 0


@jit
def _columns(x, row, first, n, K: constexpr, BLOCK: constexpr, SOFTMAX: constexpr):
    """Load a block of columns of a tile in float32; return it with class indices and the mask of valid entries."""
    k = first + tl.arange(0, BLOCK)[None, :]
    inside = (row < n)[:, None] & (k < K)
    outside = -float("inf") if SOFTMAX else 0.0
    return tl.load(x + row[:, None] * K + k, mask=inside, other=outside).to(tl.float32), k, inside


@jit
def _extremes(x, row, n, K: constexpr, ROWS: constexpr, BLOCK: constexpr, SOFTMAX: constexpr):
    """Compute the maximum of every lane, (ROWS, BLOCK), the maximum of every row, and the scale of its probabilities.

    A lane is a column position in all blocks. The scale is the factor from exponentials to probabilities; it is NaN if
    the row has NaN or a logit of +inf.
    """
    lanes = tl.full((ROWS, BLOCK), -float("inf") if SOFTMAX else 0.0, tl.float32)
    for first in range(0, K, BLOCK):
        value, _, _ = _columns(x, row, first, n, K, BLOCK, SOFTMAX)
        lanes = tl.maximum(lanes, value)
    top = tl.max(lanes, axis=1)
    total = tl.zeros((ROWS,), tl.float64)
    for first in range(0, K, BLOCK):
        value, _, _ = _columns(x, row, first, n, K, BLOCK, SOFTMAX)
        term = _probability(value, top[:, None], 1.0, SOFTMAX).to(tl.float64)
        total += tl.sum((term + 196608.0) - 196608.0, axis=1)  # adding 1.5·2¹⁷ rounds to multiples of 2⁻³⁵
    scale = 1.0 / total if SOFTMAX else tl.where(total == total, 1.0, float("nan"))
    return lanes, top, scale.to(tl.float32)


@jit
def _halfway(low, high, SOFTMAX: constexpr):
    """Return the mean of two logits; for probabilities the mean of their bits, which is about the geometric mean."""
    if SOFTMAX:
        return low + (high - low) * 0.5
    below = low.to(tl.int32, bitcast=True)
    return (below + (high.to(tl.int32, bitcast=True) - below) // 2).to(tl.float32, bitcast=True)


@jit
def _cutoff(lanes, top, MIN_LANES: constexpr, MAX_LANES: constexpr, SOFTMAX: constexpr):
    """Find by bisection a cutoff that the maxima of MIN_LANES to MAX_LANES lanes of a row reach.

    A lane is a column position in all blocks. If many maxima are equal, more lanes than MAX_LANES may reach the cutoff.
    """
    smallest = tl.min(lanes, axis=1)
    low = tl.maximum(smallest, top - 104.0) if SOFTMAX else smallest  # exp(−104) is 0 in float32
    high = top
    reached = tl.sum((lanes >= low[:, None]).to(tl.int32), axis=1)
    step = tl.full((), 0, tl.int32)
    while (step < 24) & (tl.max(reached, axis=0) > MAX_LANES):
        middle = _halfway(low, high, SOFTMAX)
        above = tl.sum((lanes >= middle[:, None]).to(tl.int32), axis=1)
        enough = above >= MIN_LANES
        low, high = tl.where(enough, middle, low), tl.where(enough, high, middle)
        reached = tl.where(enough, above, reached)
        step += 1
    return low


@jit
def _key(p, k):
    """Return integers in the order of the ranking: larger for larger probabilities, then for smaller indices."""
    return (p.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (2147483647 - k.to(tl.int64))


@jit
def _value(key):
    """Return the probability of a key in float64; 0 for -1, which marks an empty slot."""
    return tl.where(key >= 0, (key >> 32).to(tl.int32).to(tl.float32, bitcast=True), 0.0).to(tl.float64)


@jit
def _list(
    x, keys, row, lanes, top, scale, label, own, near, n,
    K: constexpr, ROWS: constexpr, BLOCK: constexpr, LISTED: constexpr, MIN_LANES: constexpr, MAX_LANES: constexpr,
    SOFTMAX: constexpr, LABELS: constexpr,
):  # fmt: skip
    """List the classes of each row above a cutoff: their keys (ROWS, LISTED) and their number.

    Return also an upper bound on the probabilities of other classes, and the ranks of the labels. If the number exceeds
    LISTED, the list is incomplete and must not be used.
    """
    cut = tl.full((ROWS,), -float("inf"), tl.float32)
    bound = tl.zeros((ROWS,), tl.float32)
    if K > LISTED:
        cut = _cutoff(lanes, top, MIN_LANES, MAX_LANES, SOFTMAX)
        bound = _probability(cut, top, scale, SOFTMAX)
        if SOFTMAX:
            bound = bound * 1.00006103515625  # a margin, since the computed 2^x is not monotone in its last bit
    reach = cut
    if LABELS:  # also read the classes that may be ranked before the label
        reach = tl.minimum(reach, near)
    count, rank = tl.zeros((ROWS,), tl.int32), tl.zeros((ROWS,), tl.int32)
    key = tl.full((ROWS, LISTED), -1, tl.int64)
    for first in range(0, K, BLOCK):
        value, k, inside = _columns(x, row, first, n, K, BLOCK, SOFTMAX)
        some = inside & (value >= reach[:, None])
        if tl.max(tl.max(some.to(tl.int32), axis=1), axis=0) > 0:
            p = _probability(value, top[:, None], scale[:, None], SOFTMAX)
            if LABELS:
                before = (p > own[:, None]) | ((p == own[:, None]) & (k < label[:, None]))
                rank += tl.sum((inside & before).to(tl.int32), axis=1)
            high = inside & (p >= bound[:, None])
            if K > LISTED:
                high = high & (p > 0)
                place = count[:, None] + tl.cumsum(high.to(tl.int32), axis=1) - 1
                tl.store(keys + row[:, None] * LISTED + place, _key(p, k), mask=high & (place < LISTED))
            else:
                key = tl.where(high, _key(p, k), -1)
            count += tl.sum(high.to(tl.int32), axis=1)
    if K > LISTED:
        tl.debug_barrier()  # wait until all threads have stored their keys
        slot = tl.arange(0, LISTED)[None, :]
        key = tl.load(keys + row[:, None] * LISTED + slot, mask=(row < n)[:, None] & (slot < count[:, None]), other=-1)
    return key, count, bound.to(tl.float64), rank


@jit
def _take(key):
    """Return the largest key of every row, and the keys without it."""
    best = tl.max(key, axis=1)
    return best, tl.where(key == best[:, None], -1, key)


@jit
def _linear(table, rank, constant, p, mass, u):
    """Compute a score that is linear in the probabilities, in the order of `pippin._theory.formula.score_at`."""
    entry = table + rank * 5
    own = tl.load(entry) + u * tl.load(entry + 1)
    return (constant + own * p) + mass + (tl.load(entry + 3) + u * tl.load(entry + 4))


@jit
def _second(key, count, bound, second):
    """Return the product of `second` and the second largest probability, a term of the score of the best class.

    Return also True if this probability is above the cutoff, or not needed.
    """
    _, others = _take(key)
    following, _ = _take(others)
    return second * _value(following), (second == 0.0) | (count > 1) | (bound == 0.0)


@jit
def _lowest_ratio(key, count, bound, mu, enough, K: constexpr, ROWS: constexpr):
    """Compute SOCOP's τ, the lowest ratio (m − 1 + μ)/(p[2] + … + p[m]), over m = 2, 3, … while the ratio falls.

    `mu` is μ. The search also ends at a ratio of at most `enough`. Return τ, and True if the classes above the cutoff
    determine it.
    """
    _, key = _take(key)
    ratio = tl.full((ROWS,), float("inf"), tl.float64)
    mass = tl.zeros((ROWS,), tl.float64)
    going = count > 0
    known = going
    rank = tl.full((), 1, tl.int32)
    while (rank < K) & (tl.max(going.to(tl.int32), axis=0) > 0):
        best, key = _take(key)
        unlisted = rank >= count
        following = mass + tl.where(unlisted, bound, _value(best))
        candidate = (rank + mu) / following
        falls = candidate < ratio
        known = known & ((going & unlisted & falls) == 0)
        going = going & falls & (unlisted == 0)
        ratio, mass = tl.where(going, candidate, ratio), tl.where(going, following, mass)
        going = going & (ratio > enough)
        rank += 1
    return ratio, known


@jit
def _sets(
    x, keys, table, numbers, draws, highest, limits, rank_limits, group, sizes, members, mask, n, width,
    K: constexpr, ROWS: constexpr, BLOCK: constexpr, LISTED: constexpr, MIN_LANES: constexpr, MAX_LANES: constexpr,
    SOFTMAX: constexpr, LINEAR: constexpr, DRAWN: constexpr, GROUPED: constexpr, BY_CLASS: constexpr,
    BY_RANK: constexpr, MASK: constexpr,
):  # fmt: skip
    """Write the size and the classes of every set; the size is -1 if classes below the cutoff may be in the set."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = row < n
    lanes, top, scale = _extremes(x, row, n, K, ROWS, BLOCK, SOFTMAX)
    key, count, bound, _ = _list(
        x, keys, row, lanes, top, scale, row, top, top, n, K, ROWS, BLOCK, LISTED, MIN_LANES, MAX_LANES, SOFTMAX, False
    )
    constant, mu = tl.load(numbers), tl.load(numbers + 2)
    second = tl.load(numbers + 1) + tl.zeros((ROWS,), tl.float64)
    u = tl.load(draws + row, mask=real & DRAWN, other=0.0)
    g = tl.load(group + row, mask=real & GROUPED, other=0)
    limit = tl.load(highest + g)
    decided = count <= LISTED
    if LINEAR:
        mass, known = _second(key, count, bound, second)
    else:
        enough = tl.full((ROWS,), -1.0, tl.float64) if BY_CLASS else limit
        mass, known = _lowest_ratio(key, count, bound, mu, enough, K, ROWS)
    valid = real & (scale == scale)  # rows with NaN have empty sets
    decided = (decided & known) | (valid == 0)
    going = decided & valid
    size = tl.zeros((ROWS,), tl.int32)
    rank = tl.full((), 0, tl.int32)
    while (rank < K) & (tl.max(going.to(tl.int32), axis=0) > 0):
        best, key = _take(key)
        p, k = _value(best), 2147483647 - (best & 2147483647)
        if LINEAR:
            score = _linear(table, rank, constant, p, mass, u)
            least = tl.minimum(
                _linear(table, rank, constant, 0.0, mass, u), _linear(table, rank, constant, bound, mass, u)
            )
            mass = tl.where(rank == 0, 0.0, mass) + tl.load(table + rank * 5 + 2) * p
        else:
            score, least = 1.0 / p, 1.0 / bound
            if rank > 0:
                score, least = tl.maximum(score, mass), tl.maximum(least, mass)
        unlisted = rank >= count
        decided = decided & ((going & unlisted & (least <= limit)) == 0)
        going = going & (unlisted == 0) & (score <= limit)
        member = going
        if BY_CLASS:
            member = member & (score <= tl.load(limits + g * K + k, mask=going, other=0.0))
            if BY_RANK:
                member = member & (rank < tl.load(rank_limits + g * K + k, mask=going, other=0))
        tl.store(members + row * width + size, k, mask=member & (size < width))
        if MASK:
            tl.store(mask + row * K + k, tl.full((ROWS,), 1, tl.int8), mask=member)
        size += member.to(tl.int32)
        rank += 1
    tl.store(sizes + row, tl.where(decided, size, -1).to(tl.int64), mask=real)


@jit
def _labels(
    x, keys, table, numbers, draws, labels, scores, ranks, n, weighted,
    K: constexpr, ROWS: constexpr, BLOCK: constexpr, LISTED: constexpr, MIN_LANES: constexpr, MAX_LANES: constexpr,
    SOFTMAX: constexpr, LINEAR: constexpr, DRAWN: constexpr,
):  # fmt: skip
    """Write the score and the rank of every label; the rank is -1 if they depend on classes below the cutoff.

    The score is NaN for a row with NaN, and for a label that is not a class.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = row < n
    lanes, top, scale = _extremes(x, row, n, K, ROWS, BLOCK, SOFTMAX)
    label = tl.load(labels + row, mask=real, other=0)
    known_label = real & (label >= 0) & (label < K)
    value = tl.load(x + row * K + label, mask=known_label, other=0.0).to(tl.float32)
    own = _probability(value, top, scale, SOFTMAX)
    near = own  # only entries of at least `near` can have the probability of the label or more
    if SOFTMAX:  # with a margin, since nearly equal logits can have equal probabilities
        near = tl.where(own > 1e-30, value - 1e-3, -float("inf"))
    key, count, bound, rank = _list(
        x, keys, row, lanes, top, scale, label, own, near, n,
        K, ROWS, BLOCK, LISTED, MIN_LANES, MAX_LANES, SOFTMAX, True,
    )  # fmt: skip
    constant, mu = tl.load(numbers), tl.load(numbers + 2)
    second = tl.load(numbers + 1) + tl.zeros((ROWS,), tl.float64)
    u = tl.load(draws + row, mask=real & DRAWN, other=0.0)
    p, complete = own.to(tl.float64), count <= LISTED
    if LINEAR:
        needed = tl.minimum(rank, weighted)  # number of classes ranked before the label that enter its score
        first, known = _second(key, count, bound, second)
        decided = tl.where(
            rank == 0, (second == 0.0) | (known & complete), (needed == 0) | ((needed <= count) & complete)
        )
        mass = tl.zeros((ROWS,), tl.float64)
        last = tl.max(tl.where(decided, needed, 0), axis=0)
        j = tl.full((), 0, tl.int32)
        while j < last:
            best, key = _take(key)
            following = mass + tl.load(table + j * 5 + 2) * _value(best)
            mass = tl.where(j < needed, following, mass)
            j += 1
        mass = tl.where(rank == 0, first, mass)
        score = _linear(table, tl.minimum(rank, K - 1), constant, p, mass, u)
    else:
        score = 1.0 / p
        tau, known = _lowest_ratio(key, count, bound, mu, score, K, ROWS)
        decided = (rank == 0) | (known & complete)
        score = tl.where(rank > 0, tl.maximum(score, tau), score)
    broken = (scale != scale) | (known_label == 0)
    tl.store(scores + row, tl.where(broken, float("nan"), score), mask=real)
    tl.store(ranks + row, tl.where(decided | broken, rank, -1), mask=real)


@jit
def _probabilities(x, out, n, K: constexpr, ROWS: constexpr, BLOCK: constexpr):
    """Write the softmax of the rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    _, top, scale = _extremes(x, row, n, K, ROWS, BLOCK, True)
    for first in range(0, K, BLOCK):
        value, k, inside = _columns(x, row, first, n, K, BLOCK, True)
        p = _probability(value, top[:, None], scale[:, None], True)
        tl.store(out + row[:, None] * K + k, p, mask=inside)


def _launch(kernel, x, tensors, integers=(), **constants):
    """Run a kernel on all rows of x, (n, K); all kernels but `_probabilities` get memory for lists of classes."""
    n, n_classes = x.shape
    block = min(BLOCK, triton.next_power_of_2(n_classes))
    rows = max(1, 128 // block)
    if kernel is not _probabilities:
        listed = min(LISTED, block)
        tensors = (x.new_empty((n if n_classes > listed else 1, listed), dtype=torch.int64), *tensors)
        constants |= {"LISTED": listed, "MIN_LANES": MIN_LANES, "MAX_LANES": MAX_LANES}
    with torch.cuda.device_of(x):
        kernel[(triton.cdiv(n, rows),)](
            x, *tensors, n, *integers, K=n_classes, ROWS=rows, BLOCK=block, **constants,
            num_warps=1, enable_fp_fusion=False,
        )  # fmt: skip


def probabilities(x: torch.Tensor) -> torch.Tensor:
    """Compute the softmax of contiguous (n, K) logits in float32, equal to that in the other kernels bit by bit."""
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    if x.shape[0]:
        _launch(_probabilities, x, (out,))
    return out


def fill_sets(x: torch.Tensor, softmax: bool, formula: TorchScore, limits: TorchLimits, sets: TorchSetParts) -> None:
    """Write the prediction sets of contiguous (n, K) rows; the size is -1 for a row that needs a full ranking."""
    sizes, members, mask = sets
    by_class = limits.scores.shape[1] > 1 or limits.ranks is not None
    highest = limits.scores.amax(dim=1)
    scores = limits.scores if limits.ranks is None else limits.scores.expand_as(limits.ranks)
    tensors = (
        formula.table, formula.numbers, formula.u, highest, scores.contiguous(),
        sizes if limits.ranks is None else limits.ranks, sizes if limits.group is None else limits.group,
        sizes, members, mask.view(torch.int8),
    )  # fmt: skip
    if x.shape[0]:
        _launch(
            _sets, x, tensors, (members.shape[1],), SOFTMAX=softmax, LINEAR=formula.linear, DRAWN=len(formula.u) > 0,
            GROUPED=limits.group is not None, BY_CLASS=by_class, BY_RANK=limits.ranks is not None, MASK=len(mask) > 0,
        )  # fmt: skip


def label_scores(
    x: torch.Tensor, softmax: bool, labels: torch.Tensor, formula: TorchScore, weighted: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute scores of labels in float64, and their ranks from 0, or -1 if a full ranking is needed.

    The score is NaN for a row with NaN, and for a label that is not a class. `weighted` is the last rank (from 1) whose
    probability enters the scores of later ranks; 0 if there is none.
    """
    scores = torch.empty(x.shape[0], dtype=torch.float64, device=x.device)
    ranks = torch.empty(x.shape[0], dtype=torch.int32, device=x.device)
    tensors = (formula.table, formula.numbers, formula.u, labels, scores, ranks)
    _launch(_labels, x, tensors, (weighted,), SOFTMAX=softmax, LINEAR=formula.linear, DRAWN=len(formula.u) > 0)
    return scores, ranks
