"""Rows with any number of classes, one at a time, ranked only as far as needed: compiled.

The true label's score needs only the classes above it; a set needs only the classes in
it and one more: `walk.py` finds these. Sums run in rank order in float64, as in the plain
engine: the same bits.
"""

import numpy as np

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import NONE, compiled, compiled_score_at, doubled, part
from pippin._engine.compiled.cutoff import Cutoff, compare, cutoff_of
from pippin._engine.compiled.lanes import LANES
from pippin._engine.compiled.sorting import sort_down
from pippin._engine.compiled.walk import (
    CHUNK,
    any_at_least,
    append,
    best_class,
    collect_above,
    is_broken,
    is_doubtful,
    largest_but,
    rank_more,
    total,
    window,
)
from pippin._engine.protocol import Scored
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE, Coefficients, Parts


@part
def lowest_price(
    row: Floats, price: float, enough: float, known: int, values: Floats, classes: Indices
) -> tuple[float, int]:
    """SOCOP's τ, or some ratio on the way to it that is at most `enough`; and how many ranks are known."""
    mass, tau = 0.0, np.inf
    for m in range(1, row.size):
        if m == known:
            known = rank_more(row, known, values, classes)
        mass += values[m]
        ratio = (m + price) / mass
        if not ratio < tau:
            break
        tau = ratio
        if tau <= enough:
            break
    return tau, known


@part
def _place_of_label(row: Floats, label: int, c: Coefficients, values: Floats, classes: Indices) -> tuple[int, float]:
    """The label's rank and M."""
    if c.reach == 0:
        return 0, 0.0
    if c.reach == 1:
        best = best_class(row)
        if best == label:
            return 0, (c.second * largest_but(row, label) if c.second != 0.0 else 0.0)
        return 1, c.table[0, ABOVE] * row[best]
    if np.isnan(c.price):
        rank = min(collect_above(row, label, values, classes), row.size - 1)  # unless rows change, fewer
        if rank == 0:
            return 0, (c.second * largest_but(row, label) if c.second != 0.0 else 0.0)
        sort_down(values[:rank], classes[:rank])
        mass = 0.0
        for j in range(rank):
            mass += c.table[j, ABOVE] * values[j]
        return rank, mass
    known = rank_more(row, NONE, values, classes)
    if classes[0] == label:
        return 0, 0.0
    return 1, lowest_price(row, c.price, 1.0 / (np.float64(row[label]) + 0.0), known, values, classes)[0]


@part
def next_mass(
    row: Floats, c: Coefficients, rank: int, mass: float, enough: float, known: int, values: Floats, classes: Indices
) -> tuple[float, int]:
    """M at `rank`, from M at the rank before it; and how many ranks are known then."""
    if rank == known:
        known = rank_more(row, known, values, classes)
    if rank == 0:
        if c.second == 0.0:
            return 0.0, known
        if known == 1:
            known = rank_more(row, known, values, classes)
        return c.second * values[1], known
    if not np.isnan(c.price):
        return lowest_price(row, c.price, enough, known, values, classes) if rank == 1 else (mass, known)
    before = 0.0 if rank == 1 else mass
    return before + c.table[rank - 1, ABOVE] * values[rank - 1], known


@part
def _set_size_socop(row: Floats, c: Coefficients, u: float, threshold: float, values: Floats, classes: Indices) -> int:
    known, mass = NONE, 0.0
    for rank in range(row.size):
        mass, known = next_mass(row, c, rank, mass, threshold, known, values, classes)
        if not compiled_score_at(c, rank, np.float64(values[rank]), mass, u) <= threshold:
            return rank
    return row.size


@part
def _collect_inside(
    row: Floats,
    c: Coefficients,
    cutoff: Cutoff,
    best: int,
    top: float,
    threshold: float,
    values: Floats,
    classes: Indices,
) -> int:
    """Of a score that looks at no class but the best: collects the members by class; returns how many there are."""
    mass, size = c.table[0, ABOVE] * top, NONE
    if row.size < LANES:
        for k in range(row.size):
            if k == best or compiled_score_at(c, 1, np.float64(row[k]), mass, 0.0) <= threshold:
                values[size], classes[size] = row[k], k
                size += 1
        return size
    low = row.dtype.type(cutoff.base + cutoff.weight * top - cutoff.slack)
    if best >= 0 and not low <= row[best]:
        low = row[best]
    for start in range(0, row.size, CHUNK):
        if not any_at_least(row[start : start + CHUNK], low):
            continue
        for here in range(start, min(start + CHUNK, row.size), LANES):
            begin, every = window(row, here)
            inside, unsure = compare(row, begin, every, cutoff, top)
            while unsure != 0:
                lane = lanes.first(unsure)
                if compiled_score_at(c, 1, np.float64(row[begin + lane]), mass, 0.0) <= threshold:
                    inside |= np.uint32(1) << np.uint32(lane)
                unsure &= unsure - np.uint32(1)
            if here <= best < here + LANES:
                inside |= np.uint32(1) << np.uint32(best - begin)
            size = append(row, begin, inside, size, values, classes)
    return size


@part
def _set_size_shallow(
    row: Floats, c: Coefficients, cutoff: Cutoff, threshold: float, values: Floats, classes: Indices
) -> int:
    best, top = -1, 0.0
    if c.reach == 1:
        best = best_class(row)
        top = np.float64(row[best])
        second = np.float64(largest_but(row, best)) if c.second != 0.0 else 0.0
        if not compiled_score_at(c, 0, top, c.second * second, 0.0) <= threshold:
            return 0
    size = _collect_inside(row, c, cutoff, best, top, threshold, values, classes)
    sort_down(values[:size], classes[:size])
    return size


@part
def set_size(
    row: Floats, c: Coefficients, cutoff: Cutoff, u: float, threshold: float, values: Floats, classes: Indices
) -> int:
    """Ranks as many classes as the set needs; classes[:size] are its members."""
    if not np.isnan(c.price):
        return _set_size_socop(row, c, u, threshold, values, classes)
    if c.reach <= 1:
        return _set_size_shallow(row, c, cutoff, threshold, values, classes)
    known = rank_more(row, NONE, values, classes)
    mass = 0.0
    if c.second != 0.0:
        known = rank_more(row, known, values, classes) if known == 1 else known
        mass = c.second * values[1]
    for rank in range(row.size):
        if rank == known:
            known = rank_more(row, known, values, classes)
        p = np.float64(values[rank])
        if not compiled_score_at(c, rank, p, mass, u) <= threshold:
            return rank
        mass = (0.0 if rank == 0 else mass) + c.table[rank, ABOVE] * p
    return row.size


@compiled
def label_places(block: Floats, labels: Codes, parts: Parts, u: Vector, out: Scored) -> int:
    """As in `protocol.py`."""
    c, n_classes = Coefficients(*parts), block.shape[1]
    ranks, p, masses, scores = out
    values = np.zeros(n_classes, block.dtype)
    classes = np.zeros(n_classes, np.int32)
    suspects = 0
    for i in range(block.shape[0]):
        ranks[i], p[i], masses[i] = 0, 1.0, 0.0
        row = block[i]
        if is_broken(row):
            suspects += 1
            continue
        suspects += is_doubtful(total(row))
        p[i] = row[labels[i]]
        ranks[i], masses[i] = _place_of_label(row, labels[i], c, values, classes)
        scores[i] = compiled_score_at(c, ranks[i], p[i], masses[i], u[i])
    return suspects


@compiled
def members(block: Floats, parts: Parts, threshold: float, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """As in `protocol.py`."""
    c = Coefficients(*parts)
    cutoff, (n, n_classes) = cutoff_of(c, threshold), block.shape
    values = np.zeros(n_classes, block.dtype)
    classes = np.zeros(n_classes, np.int32)
    found = np.empty(4 * n + n_classes, np.int32)
    used, suspects = 0, 0
    for i in range(n):
        row = block[i]
        if is_broken(row):
            suspects += 1
            continue
        suspects += is_doubtful(total(row))
        if used + n_classes > found.size:
            found = doubled(found)
        size = set_size(row, c, cutoff, u[i], threshold, values, classes)
        for j in range(size):
            found[used + j] = classes[j]
        sizes[i] = size
        used += size
    return found[:used].copy(), suspects


@compiled
def one_set(row: Floats, parts: Parts, threshold: float, u: float) -> tuple[Indices, bool]:
    """The members of one row's set, best first, and whether the row is suspect."""
    c = Coefficients(*parts)
    values = np.zeros(row.size, row.dtype)
    classes = np.zeros(row.size, np.int32)
    if is_broken(row):
        return classes[:0], True
    return classes[: set_size(row, c, cutoff_of(c, threshold), u, threshold, values, classes)], is_doubtful(total(row))


@compiled
def one_score(row: Floats, label: int, parts: Parts, u: float) -> tuple[float, bool]:
    """The score of one class of one row, and whether the row is suspect."""
    c = Coefficients(*parts)
    if is_broken(row):
        return np.nan, True
    values = np.zeros(row.size, row.dtype)
    rank, mass = _place_of_label(row, label, c, values, np.zeros(row.size, np.int32))
    return compiled_score_at(c, rank, np.float64(row[label]), mass, u), is_doubtful(total(row))
