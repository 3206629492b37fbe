"""Row-wise loop: sets and label scores, one row after another, for any score and many classes.

To find a set, the loop visits the classes in descending order of probability until a score exceeds the threshold. A row
is ranked in bands, the classes with probabilities between two limits, and only as far as needed. If the formula gives a
lower bound on the probability of the classes in a set, this bound limits the first band.

After a band, the score at the band's lower limit is a lower bound on all later scores, since scores do not decrease
with the rank, and rounding is monotone. If this bound exceeds the threshold, the loop ends.

Arrays are passed one by one, and only numbers in tuples, since numba counts references to arrays in tuples.
"""

from typing import Any, NamedTuple, cast

import numpy as np

from pippin._engine.numba_engine import partial_sort
from pippin._engine.numba_engine.compilation import entry_point, inlined_part, part
from pippin._engine.numba_engine.row_checks import rows_at_once, scan_rows
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, formula

ZERO = cast(int, np.int64(0))  # numba would compile another specialization for the literal 0
_ROUNDING = 1e-6  # relative margin by which a lower bound on probabilities is reduced, above float32 rounding errors

compiled_formula = inlined_part(formula)


class Numbers(NamedTuple):
    """Scalar coefficients of a score, named as in `Coefficients`; the coefficients per rank are passed separately."""

    constant: float
    second: float
    price: float
    reach: int


@part
def _member_limit(table: Vector, c: Numbers, threshold: float) -> tuple[float, float]:
    """Return an approximate lower bound on the probability of a set's classes from rank 2 on, as base and slope.

    The bound is base + slope·p[1], where p[1] is the largest probability. From rank 2 on, a score is at least a sum of
    four terms: its constant, a negative factor times the probability of the class, a weight times p[1], and the penalty
    of rank 2. The bound is the probability at which this sum equals the threshold. `members` evaluates the formula at
    the bound, so that an inaccurate bound costs time only.
    """
    own, base, slope = table[1, OWN], 0.0, 0.0
    if np.isnan(c.price) and own < 0:
        fixed = c.constant + table[1, PENALTY]
        base = (fixed - threshold - _ROUNDING * (1 + abs(fixed) + table[0, ABOVE] + abs(threshold))) / -own
        slope = table[0, ABOVE] / -own
    return base, slope


@inlined_part
def lowest_ratio(
    block: Floats, i: int, order: Any, price: float, enough: float, known: int, m: int, mass: float, tau: float
) -> tuple[int, float, float]:
    """Continue the search for SOCOP's τ, the lowest ratio (m − 1 + μ)/(p[2] + … + p[m]), among the sorted ranks.

    `price` is μ. The first `known` classes are sorted; `m` counts ranks from 0. `mass` and `tau` are the sum and the
    lowest ratio so far. The search ends once the ratio does not fall, or is at most `enough`. Return the next m (−1 if
    the search ended), the sum of the probabilities from rank 2 on, and the lowest ratio.
    """
    while (m > 0) & (m < known):
        mass += np.float64(block[i, order[m]])
        ratio = (m + price) / mass
        falls = ratio < tau
        tau = ratio if falls else tau
        m = m + 1 if falls and tau > enough else -1
    return m, mass, tau


@entry_point
def label_scores(block: Floats, bits: Any, labels: Codes, table: Vector, numbers: Any, u: Vector, out: Vector) -> int:
    """Write for each row the score of its class in `labels`; return the number of suspect rows.

    The rank of the class is computed only as far as the score depends on it: not at all for IP; for margin and SOCOP,
    only to distinguish the most probable class from the others. Suspect rows have negative or NaN entries, or a sum
    other than 1.
    """
    c, n_classes, linear, suspects = Numbers(*numbers), block.shape[1], np.isnan(numbers[2]), 0
    order, values, counts, keys = partial_sort.sort_buffers(block)
    tops, first, scanned = np.empty(rows_at_once(n_classes), block.dtype), 0, 0
    best_weight = table[0, ABOVE]
    for i in range(labels.size):
        if i == scanned:
            first, scanned = i, min(i + tops.size, labels.size)
            suspects += scan_rows(block, bits, first, scanned, tops)
        own, top, rank, mass = block[i, labels[i]], tops[i - first], 0, 0.0
        if c.reach == 1:  # the score depends on its class and the largest other probability
            other = partial_sort.largest_other(block, bits, i, labels[i])
            is_best = own > other
            if own == other:
                is_best = partial_sort.is_first(block, i, labels[i])
            rank, mass = 0 if is_best else 1, (c.second if is_best else best_weight) * np.float64(other)
        elif c.reach > 1:
            is_best = own == top
            if is_best:
                is_best = partial_sort.is_first(block, i, labels[i])
            if is_best and c.second != 0.0:
                mass = c.second * np.float64(partial_sort.second_largest(block, bits, i, top))
            # Collect and sort the classes that the score depends on.
            if not is_best and top >= 0:
                low = min(top, block.dtype.type(partial_sort.FIRST_BAND))
                if linear:
                    size = partial_sort.collect_above(block, bits, i, labels[i], order)
                else:
                    size = partial_sort.collect_band(block, i, low, low, ZERO, order)
                partial_sort.sort_few(block, i, order, ZERO, size)
                if size > partial_sort.FEW:
                    partial_sort.sort_many(block, bits, i, order, ZERO, size, values, counts, keys)
                # Compute the rank of the label, and M of the score formula (the term of the other classes).
                if linear:
                    rank, mass = size, 0.0
                    for above in range(rank):
                        mass += table[above, ABOVE] * np.float64(block[i, order[above]])
                else:
                    rank, enough = 1, 1.0 / (np.float64(own) + 0.0)
                    m, below, mass = lowest_ratio(block, i, order, c.price, enough, size, ZERO + 1, 0.0, np.inf)
                    while 0 < m < n_classes and (m + c.price) / (below + np.float64(low)) < mass:
                        size, low = partial_sort.rank_more(block, bits, i, low, size, order, values, counts, keys)
                        m, below, mass = lowest_ratio(block, i, order, c.price, enough, size, m, below, mass)
        out[i] = compiled_formula(table, c.constant, c.price, rank, np.float64(own), mass, u[i])
    return suspects


@entry_point
def members(
    block: Floats,
    bits: Any,
    table: Vector,
    numbers: Any,
    score_limits: Vector,
    rank_limits: Indices,
    group: Codes,
    u: Vector,
    sizes: Codes,
    begin: int,
    found: Indices,
) -> tuple[int, int, int]:
    """Write the sizes and classes of prediction sets, from row `begin` on, until `found` is nearly full.

    In each set, the most probable class is first. Return the first row that was not processed, the number of classes in
    all sets, and the number of suspect rows (negative or NaN entries, or a sum other than 1). `score_limits` and
    `rank_limits` have one row per group, and one column per class or one for all classes; without rank limits,
    `rank_limits` has no rows. Without groups, `group` is empty and the first row of the limits is used.
    """
    c, (n, n_classes), first_band = Numbers(*numbers), block.shape, partial_sort.FIRST_BAND
    order, values, counts, keys = partial_sort.sort_buffers(block)
    highest, base, slope = np.empty(score_limits.shape[0]), np.empty(score_limits.shape[0]), 0.0
    linear = np.isnan(c.price)
    for g in range(highest.size):
        highest[g] = score_limits[g, 0]
        for k in range(score_limits.shape[1]):
            highest[g] = max(highest[g], score_limits[g, k])
        base[g], slope = _member_limit(table, c, highest[g])
    by_class, by_rank = score_limits.shape[1] > 1, rank_limits.shape[0] > 0
    tops, first, scanned = np.empty(rows_at_once(n_classes), block.dtype), begin, begin
    used, suspects = 0, 0
    for i in range(begin, n):
        if used + n_classes + 4 > found.size:
            return i, used, suspects
        if i == scanned:
            first, scanned = i, min(i + tops.size, n)
            suspects += scan_rows(block, bits, first, scanned, tops)
        top = tops[i - first]
        sizes[i] = 0
        if top < 0:
            continue
        # Rank the classes of the first band, which have at least the probability `low`.
        g = group[i] if group.size > 0 else 0
        threshold, size, mass = highest[g], 0, 0.0
        limit = max(base[g] + slope * np.float64(top), 0.0 if c.reach <= 1 else first_band)
        low = min(top, block.dtype.type(limit))
        known = partial_sort.collect_band(block, i, low, low, ZERO, order)
        partial_sort.sort_few(block, i, order, ZERO, known)
        if known > partial_sort.FEW:
            partial_sort.sort_many(block, bits, i, order, ZERO, known, values, counts, keys)
        first_size = known
        if c.second != 0.0:
            mass = c.second * np.float64(partial_sort.second_largest(block, bits, i, top))
        # If a score depends only on its class and the best class (IP, margin), search backwards from the end of the
        # band for the last class that is in the set.
        rank, fixed = known if c.reach <= 1 and not by_class and not by_rank else 0, table[0, ABOVE] * np.float64(top)
        while rank > 1:
            last = np.float64(block[i, order[rank - 1]])
            if compiled_formula(table, c.constant, c.price, rank - 1, last, fixed, u[i]) <= threshold:
                mass = fixed
                break
            rank -= 1
        if rank == 1:
            rank = 0
        for place in range(4):  # a fixed number, without a branch on the size: most sets have at most four
            found[used + place] = order[place]
        for place in range(4, rank):
            found[used + place] = order[place]
        size = rank
        # Add classes in the order of their ranks until a score exceeds the threshold.
        while rank < n_classes:
            if rank == 1 and not linear:
                enough = -np.inf if by_class else threshold
                m, above, mass = lowest_ratio(block, i, order, c.price, enough, known, ZERO + 1, 0.0, np.inf)
                while 0 < m < n_classes and (m + c.price) / (above + np.float64(low)) < mass:
                    known, low = partial_sort.rank_more(block, bits, i, low, known, order, values, counts, keys)
                    m, above, mass = lowest_ratio(block, i, order, c.price, enough, known, m, above, mass)
            if rank == known:
                falling = not linear or table[rank, OWN] + u[i] * table[rank, OWN_U] <= 0
                bound = np.float64(low) if falling else 0.0
                if not compiled_formula(table, c.constant, c.price, rank, bound, mass, u[i]) <= threshold:
                    break
                known, low = partial_sort.rank_more(block, bits, i, low, known, order, values, counts, keys)
            k = order[rank]
            p = np.float64(block[i, k])
            score = compiled_formula(table, c.constant, c.price, rank, p, mass, u[i])
            if not score <= threshold:
                break
            found[used + size] = k
            size += (not by_class or score <= score_limits[g, k]) and (
                not by_rank or rank < rank_limits[g, k if rank_limits.shape[1] > 1 else 0]
            )
            if linear:
                mass = (0.0 if rank == 0 else mass) + table[rank, ABOVE] * p
            rank += 1
        first_band = partial_sort.adapted(first_band, rank, known == first_size)
        sizes[i] = size
        used += size
    return n, used, suspects
