"""Many splits of one score, counted in compiled loops without a branch that depends on who calibrates."""

from typing import Any

import numpy as np

from pippin._engine.compiled.build import compiled, compiled_score_at, loop, making, part
from pippin._engine.compiled.sorting import smallest
from pippin._engine.protocol import Shared
from pippin._runtime.arrays import Flags, Indices, Vector
from pippin._theory.formula import PENALTY, Coefficients

Counts = tuple[Any, Any, Any, Any, Any]  # threshold; test rows covered; sum of sizes; singletons; empty sets


@part
def _count_fixed(shared: Shared, calibration: Flags, k: int) -> Counts:
    """As in the plain engine, in one pass over the labels from the top, one over the places and one over the sizes."""
    scores, label_row, place_scores = shared.label.scores, shared.label_row, shared.place.scores
    left, end = _how_many(calibration) - k + 1, scores.size
    while left > 0:
        end -= 1
        left -= calibration[label_row[end]]
    threshold, inside = scores[end], k
    end += 1
    while end < scores.size and scores[end] == threshold:
        inside += calibration[label_row[end]]
        end += 1
    stop = np.searchsorted(place_scores, threshold, side="right")
    level = stop // shared.step
    firsts, seconds, others = 0, 0, 0
    for j in range(level * shared.step, stop):
        enters = not calibration[shared.place_row[j]]
        firsts += enters & (shared.kind[j] == 0)
        seconds += enters & (shared.kind[j] == 1)
        others += enters & (shared.kind[j] == 2)
    return _with_sizes(threshold, end - inside, firsts, seconds, others, shared.sizes[level], calibration)


@making
def _count_randomized(shared: Shared, calibration: Flags, k: int, u: Vector) -> Counts:
    """As in the plain engine."""
    n = shared.label_row.size
    scores, tail = np.empty(n), np.empty(n)
    sure, below = _how_many(shared.sure), _how_many_of_both(calibration, shared.sure)
    before, size = _fill(shared, calibration, u, scores, tail)
    before += below
    if before >= k or before + size < k:
        return np.nan, 0, 0, 0, 0
    threshold = smallest(tail[:size], k - before - 1)
    covered = sure - below + _covered(shared.label_row, calibration, scores, threshold)
    pairs, larger = np.searchsorted(shared.kind, 1), np.searchsorted(shared.kind, 2)
    firsts = _entering(shared, 0, pairs, calibration, u, threshold)
    seconds = _entering(shared, pairs, larger, calibration, u, threshold)
    others = _entering(shared, larger, shared.kind.size, calibration, u, threshold)
    return _with_sizes(threshold, covered, firsts, seconds, others, shared.sizes[0], calibration)


@part
def _covered(label_row: Indices, calibration: Flags, scores: Vector, threshold: float) -> int:
    """How many of these labels are in the sets of test rows."""
    covered = 0
    for j in range(scores.size):
        covered += (scores[j] <= threshold) & (not calibration[label_row[j]])
    return covered


@part
def _fill(shared: Shared, calibration: Flags, u: Vector, scores: Vector, tail: Vector) -> tuple[int, int]:
    """Fills in scores, and in `tail` those that calibrate and are not low; returns how many are low, and not."""
    label, label_row, low = shared.label, shared.label_row, shared.low
    before, size, penalty = 0, 0, label.c.table[:, PENALTY]
    for j in range(scores.size):
        i = label_row[j]
        if label.adaptive:
            score = u[i] * label.p[j] + label.mass[j] + penalty[j]
        else:
            score = compiled_score_at(label.c, j, label.p[j], label.mass[j], u[i])
        scores[j], tail[size] = score, score
        size += calibration[i] & (score >= low)
        before += calibration[i] & (score < low)
    return before, size


@part
def _entering(shared: Shared, begin: Any, end: Any, calibration: Flags, u: Vector, threshold: float) -> int:
    """How many of these places enter a set of the test rows."""
    place, place_row, count = shared.place, shared.place_row, 0
    if place.adaptive:
        penalty = place.c.table[:, PENALTY]
        for j in range(begin, end):
            i = place_row[j]
            score = u[i] * place.p[j] + place.mass[j] + penalty[j]
            count += (score <= threshold) & (not calibration[i])
    else:
        for j in range(begin, end):
            i = place_row[j]
            score = compiled_score_at(place.c, j, place.p[j], place.mass[j], u[i])
            count += (score <= threshold) & (not calibration[i])
    return count


@part
def _how_many(rows: Flags) -> int:
    count = 0
    for i in range(rows.size):
        count += rows[i]
    return count


@part
def _how_many_of_both(rows: Flags, others: Flags) -> int:
    count = 0
    for i in range(others.size):
        count += rows[i] & others[i]
    return count


@part
def _with_sizes(
    threshold: float,
    covered: int,
    firsts: int,
    seconds: int,
    others: int,
    sizes: Indices,
    calibration: Flags,
) -> Counts:
    total, singletons, empty = 0, 0, 0
    for i in range(sizes.size):
        test = not calibration[i]
        total += sizes[i] * test
        singletons += (sizes[i] == 1) & test
        empty += (sizes[i] == 0) & test
    return threshold, covered, total + firsts + seconds + others, singletons + firsts - seconds, empty - firsts


@loop
def deal(calibration: Flags, drawn: Vector, u: Vector) -> None:
    """As in the plain engine."""
    here, there = 0, _how_many(calibration)
    for i in range(calibration.size):
        own = calibration[i]
        u[i] = drawn[np.uint64(here if own else there)]
        here, there = here + own, there + (not own)


@compiled
def count_splits(shared: Shared, k: int, randomized: bool, calibrations: Flags, u: Vector, counts: Vector) -> None:
    """Fills `counts`, one row per split, from (splits, n) arrays of who calibrates and of u."""
    for i in range(calibrations.shape[0]):
        if randomized:
            found = _count_randomized(shared, calibrations[i], k, u[i])
        else:
            found = _count_fixed(shared, calibrations[i], k)
        counts[i, 0], counts[i, 1], counts[i, 2], counts[i, 3], counts[i, 4] = found


@compiled
def place_scores(row: Indices, rank: Indices, p: Vector, mass: Vector, c: Coefficients, u: Vector) -> Vector:
    """The score of every place; u has one number per row."""
    scores = np.empty(row.size)
    for j in range(row.size):
        scores[j] = compiled_score_at(c, rank[j], p[j], mass[j], u[row[j]])
    return scores
