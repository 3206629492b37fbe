# mypy: ignore-errors
# Triton compiles these functions itself: their arguments are pointers and blocks, for which Python has no types.
"""Scores from the listed values of each row, rank after rank, many rows at once.

Sums run in rank order in float64 and without fused multiply-add: the bits of the core. Where the list ends, no class
behind it has more than the cut, and the formula says whether one of them could still count; if so, or if
the list overflowed, the row is not settled, and marked for those who rank it whole.
"""

import torch

from pippin.torch.kernels.filled import Formula, Found, Limits, Placed
from pippin.torch.kernels.formula import linear
from pippin.torch.kernels.language import constexpr, jit, launch, power_of_2, tl
from pippin.torch.kernels.softmax import Measured
from pippin.torch.kernels.tops import LISTED, Tops

ROWS = 16
BLOCK = 8192  # classes whose membership is written at once


@jit
def at(place, values, rank):
    """The values at one rank of every row."""
    return tl.sum(tl.where(place == rank, values, 0), axis=1)


@jit
def _rows_of(values, classes, counts, numbers, n, ROWS: constexpr, LISTED: constexpr):
    """Which rows, how many values each has listed (−1: too many), these, their classes and places, and the cut."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = row < n
    count = tl.load(counts + row, mask=real, other=0)
    slot = tl.arange(0, LISTED)[None, :]
    listed = slot < count[:, None]
    start = row[:, None] * LISTED
    value = tl.load(values + start + slot, mask=listed, other=-1.0)
    k = tl.load(classes + start + slot, mask=listed, other=0)
    place = tl.zeros((ROWS, LISTED), tl.int32)
    for other in range(LISTED):
        there = (other < count)[:, None]
        p = tl.load(values + start + other, mask=there, other=-1.0)
        its = tl.load(classes + start + other, mask=there, other=0)
        place += ((p > value) | ((p == value) & (its < k))).to(tl.int32)
    place = tl.where(listed, place, LISTED)
    cut = tl.load(numbers + 2 * n + row, mask=real, other=0.0)
    broken = tl.load(numbers + n + row, mask=real, other=1.0)
    return row, real, tl.where(count > LISTED, -1, count), value, k, place, cut.to(tl.float64), broken != broken


@jit
def _formula_of(formula, draws, row, real, ROWS: constexpr, DRAWN: constexpr):
    """The numbers of a score, b for every row, and what was drawn for each."""
    u = tl.zeros((ROWS,), tl.float64)
    if DRAWN:
        u = tl.load(draws + row, mask=real, other=0.0)
    return tl.load(formula), tl.load(formula + 1) + tl.zeros((ROWS,), tl.float64), tl.load(formula + 2), u


@jit
def _sets(
    values, classes, counts, numbers, table, formula, draws, highest, limits, rank_limits, group,
    sizes, members, marks, n, width,
    K: constexpr, ROWS: constexpr, LISTED: constexpr, LINEAR: constexpr, DRAWN: constexpr,
    GROUPED: constexpr, BY_CLASS: constexpr, BY_RANK: constexpr, MASK: constexpr,
):  # fmt: skip
    """The sets of ROWS rows, whose ranks are walked together: a list is too short to keep a warp busy."""
    row, real, count, value, k, place, cut, broken = _rows_of(values, classes, counts, numbers, n, ROWS, LISTED)
    constant, second, price, u = _formula_of(formula, draws, row, real, ROWS, DRAWN)
    g = tl.zeros((ROWS,), tl.int64)
    if GROUPED:
        g = tl.load(group + row, mask=real, other=0)
    limit = tl.load(highest + g)
    size = tl.zeros((ROWS,), tl.int32)
    position = tl.full((ROWS, LISTED), LISTED, tl.int32)  # of the members in the set
    going = real & (count >= 0) & (broken == 0)
    settled = (count >= 0) | broken
    mass = tl.zeros((ROWS,), tl.float64)
    if LINEAR:
        mass = second * at(place, value, 1).to(tl.float64)
        knows = (count > 1) | (second == 0.0)
        settled = settled & (knows | broken)
        going = going & knows
        price = tl.zeros((ROWS,), tl.float64)
    else:
        enough = tl.where(BY_CLASS, -1.0, limit)
        price, known = _price(place, value, count, cut, enough, price, K, ROWS, LISTED)
        settled = settled & (known | broken)
        going = going & known
    rank = tl.full((), 0, tl.int32)
    while (rank < K) & (tl.max(going.to(tl.int32), axis=0) != 0):
        p = at(place, value, rank)
        wide = p.to(tl.float64)
        beyond = rank >= count
        if LINEAR:
            score = linear(table, rank, constant, wide, mass, u)
            least = tl.minimum(linear(table, rank, constant, 0.0, mass, u), linear(table, rank, constant, cut, mass, u))
        else:
            score = 1.0 / wide
            least = 1.0 / cut
            if rank > 0:
                score, least = tl.maximum(score, price), tl.maximum(least, price)
        settled = settled & ((going & beyond & (least <= limit)) == 0)
        going = going & (beyond == 0) & (score <= limit) & (p >= 0)
        member = going
        if BY_CLASS:
            own = at(place, k, rank)
            member = member & (score <= tl.load(limits + g * K + own, mask=going, other=0.0))
            if BY_RANK:
                member = member & (rank < tl.load(rank_limits + g * K + own, mask=going, other=0))
        position = tl.where((place == rank) & member[:, None], size[:, None], position)
        size += member.to(tl.int32)
        if LINEAR:
            mass = tl.where(rank == 0, 0.0, mass) + tl.load(table + rank * 5 + 2) * wide
        rank += 1
    tl.store(sizes + row, tl.where(settled, size, -1).to(tl.int64), mask=real)
    chosen = (position < LISTED) & (real & settled)[:, None]
    tl.store(members + row[:, None] * width + position, k.to(tl.int64), mask=chosen & (position < width))
    if MASK:  # a bit for each of those that are listed
        tl.store(marks + row, tl.sum(tl.where(chosen, 1 << tl.arange(0, LISTED)[None, :], 0), axis=1), mask=real)


@jit
def _fill(sizes, classes, marks, mask, K: constexpr, BLOCK: constexpr, BLOCKS: constexpr, LISTED: constexpr):
    """Membership in a block of the classes of one row, if it is settled: none, and then those that are marked."""
    row, first = (tl.program_id(0) // BLOCKS).to(tl.int64), tl.program_id(0) % BLOCKS * BLOCK
    if tl.load(sizes + row) >= 0:
        k, slot = first + tl.arange(0, BLOCK), tl.arange(0, LISTED)
        tl.store(mask + row * K + k, tl.zeros((BLOCK,), tl.int8), mask=k < K)
        tl.debug_barrier()
        member = (tl.load(marks + row) >> slot) & 1
        own = tl.load(classes + row * LISTED + slot, mask=member != 0, other=-1)
        tl.store(mask + row * K + own, tl.full((LISTED,), 1, tl.int8), mask=(own >= first) & (own < first + BLOCK))


@jit
def _price(
    place, value, count, cut, enough, price, K: constexpr, ROWS: constexpr, LISTED: constexpr
):  # fmt: skip
    """SOCOP's τ, reached by walking m = 2, 3, … as long as the ratio falls, and whether it is known.

    Once the ratio is at most `enough` the rest does not matter.
    """
    ratio = tl.full((ROWS,), float("inf"), tl.float64)
    mass = tl.zeros((ROWS,), tl.float64)
    going = count > 1
    known = going
    rank = tl.full((), 1, tl.int32)
    while (rank < K) & (tl.max(going.to(tl.int32), axis=0) != 0):
        p = at(place, value, rank).to(tl.float64)
        beyond = rank >= count
        with_p = (rank + price) / (mass + tl.where(beyond, cut, p))
        falls = with_p < ratio
        known = known & ((going & beyond & falls) == 0)
        going = going & (beyond == 0) & falls
        ratio = tl.where(going, with_p, ratio)
        mass = tl.where(going, mass + p, mass)
        going = going & (ratio > enough)
        rank += 1
    return ratio, known


@jit
def _labels(
    values, classes, counts, numbers, table, formula, draws, ranks, scores, n, weighty,
    K: constexpr, ROWS: constexpr, LISTED: constexpr, LINEAR: constexpr, DRAWN: constexpr,
):  # fmt: skip
    """The scores of ROWS labels, from what is listed above them."""
    row, real, count, value, _, place, cut, broken = _rows_of(values, classes, counts, numbers, n, ROWS, LISTED)
    constant, second, price, u = _formula_of(formula, draws, row, real, ROWS, DRAWN)
    own = tl.load(scores + row, mask=real, other=0.0)
    rank = tl.load(ranks + row, mask=real, other=0)
    if LINEAR:
        needed = tl.minimum(rank, weighty)  # how many of the values above the label count
        settled = (needed <= count) & ((rank > 0) | (second == 0.0) | (count > 1))
        mass = tl.zeros((ROWS,), tl.float64)
        most = tl.max(tl.where(settled, needed, 0), axis=0)
        j = tl.full((), 0, tl.int32)
        while j < most:
            with_p = mass + tl.load(table + j * 5 + 2) * at(place, value, j).to(tl.float64)
            mass = tl.where(j < needed, with_p, mass)
            j += 1
        mass = tl.where(rank == 0, second * at(place, value, 1).to(tl.float64), mass)
        score = linear(table, tl.maximum(rank, 0), constant, own, mass, u)
    else:
        score = 1.0 / own
        price, known = _price(place, value, count, cut, score, price, K, ROWS, LISTED)
        score = tl.where(rank > 0, tl.maximum(score, price), score)
        settled = known | (rank == 0)
    settled = settled | broken | (rank < 0)
    tl.store(scores + row, score, mask=real)
    tl.store(ranks + row, -2 - rank, mask=real & (settled == 0))


def few_sets(
    measured: Measured, tops: Tops, formula: Formula, limits: Limits, found: Found
) -> None:  # fmt: skip
    """Fills in the sets of all rows that their listed values settle."""
    n, n_classes = measured.x.shape
    found.classes.fill_(-1)
    marks = torch.empty_like(tops.counts)
    launch(
        _sets, -(-n // ROWS),
        (*tops, measured.numbers, *formula[:3], limits.highest, limits.scores, limits.ranks, limits.group,
         found.sizes, found.classes, marks),
        (n, found.classes.shape[1]),
        (n_classes, ROWS, LISTED, formula.linear, formula.drawn, limits.grouped, limits.by_class, limits.by_rank,
         found.inside is not None),
        1,
    )  # fmt: skip
    if found.inside is not None:
        block = min(BLOCK, power_of_2(n_classes))
        blocks = -(-n_classes // block)
        launch(
            _fill, n * blocks, (found.sizes, tops.classes, marks, found.inside), (),
            (n_classes, block, blocks, LISTED), 4,
        )  # fmt: skip


def few_labels(
    measured: Measured, tops: Tops, formula: Formula, placed: Placed, weighty: int
) -> None:  # fmt: skip
    """Makes scores of the probabilities of labels, where the listed values settle them."""
    n, n_classes = measured.x.shape
    launch(
        _labels, -(-n // ROWS),
        (*tops, measured.numbers, *formula[:3], placed.ranks, placed.scores), (n, weighty),
        (n_classes, ROWS, LISTED, formula.linear, formula.drawn), 1,
    )  # fmt: skip
