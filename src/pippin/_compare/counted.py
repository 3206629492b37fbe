"""A plain score over many splits, counted.

The rows are ranked once. From split to split only the threshold changes, and a score's
thresholds lie close together: sets are counted from their sizes at the lowest one plus
the few classes that enter up to the highest. So a split costs an order statistic and
some counting, whatever the number of classes.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._engine.plain.scores import at_places
from pippin._engine.protocol import Bounds, Places, ScoredPlaces, Shared
from pippin._engine.selecting import smallest
from pippin._runtime.arrays import Codes, Flags, Indices, Vector
from pippin._theory.formula import Coefficients, is_adaptive
from pippin._theory.level import quantile_rank
from pippin._theory.scores import Score, coefficients

METRICS = ("threshold", "coverage", "efficiency", "informativeness", "empty_rate")
MOST_LEVELS = 64  # sets are kept at no more thresholds than these
SPREAD = 6  # standard deviations around the middle threshold that are prepared for
QUICK = 1000  # rows of a split that NumPy counts in the time of scoring one probability

Count = Callable[[Flags, Vector], Vector]  # of splits, (splits, n): who calibrates, and u


def counter(trial: Trial, score: Score, splits: int) -> Count:
    """A function of some splits that gives the metrics of the score."""
    k = quantile_rank(trial.n_calibration, trial.alpha)
    if k > trial.n_calibration:
        return lambda calibrations, u: np.tile((math.inf, 1.0, trial.n_classes, 0.0, 0.0), (len(u), 1))
    shared, low, high = _shared(trial, score, k)
    engine = dispatch.engine_for(splits * trial.n // QUICK)

    def count(calibrations: Flags, u: Vector) -> Vector:
        counts = np.empty((len(u), len(METRICS)))
        engine.count_splits(shared, k, score.randomized, calibrations, u, counts)
        for i in np.flatnonzero(~((low <= counts[:, 0]) & (counts[:, 0] <= high))):
            counts[i] = count_anew(trial, score, k, calibrations[i], u[i])
        counts[:, 1:] /= trial.n_test
        return counts

    return count


def _shared(trial: Trial, score: Score, k: int) -> tuple[Shared, float, float]:
    """What all splits of the score share, and the thresholds between which it suffices."""
    n, c = trial.n, coefficients(score, trial.n_classes)
    u = np.random.default_rng(trial.seed).random(n)
    places, _ = dispatch.label_places(trial.ranked, trial.ranks, score, u)
    ones, sure = np.ones(n), np.zeros(0, dtype=bool)
    most = at_places(places, c)(ones)
    if score.randomized:
        low, high = _reach(trial, np.sort(at_places(places, c)(u)), float(most.max()), k)
        sure = most < low
        chosen = np.flatnonzero(~sure & (at_places(places, c)(0 * ones) <= high))
        places = Places(places.row[chosen], places.rank[chosen], places.p[chosen], places.mass[chosen])
    label, label_row, _ = _scored(places, score, c, u)
    if not score.randomized:
        low, high = _reach(trial, label.scores, float(most.max()), k)
    sizes, places = dispatch.band(trial.ranked, score, low, high)
    if score.randomized:
        order = np.argsort(np.minimum(places.rank, 2), kind="stable")
        places = Places(places.row[order], places.rank[order], places.p[order], places.mass[order])
    place, place_row, rank = _scored(places, score, c, u)
    step = len(rank) + 1 if score.randomized else max(n // 4, len(rank) // MOST_LEVELS, 1)
    kind = np.minimum(rank, 2).astype(np.int8)
    return Shared(label, label_row, sure, low, _levels(sizes, place_row, step), step, place, place_row, kind), low, high


def _scored(places: Places, score: Score, c: Coefficients, u: Vector) -> tuple[ScoredPlaces, Indices, Indices]:
    """The places with their scores, their rows and their ranks; sorted, if the score takes no u."""
    scores = dispatch.engine_for(0).place_scores(places, c, u)
    if not score.randomized:  # then nothing but the scores is looked at again
        order, none = np.argsort(scores, kind="stable"), c._replace(table=np.asfortranarray(c.table[:0]))
        return (
            ScoredPlaces(none, scores[:0], scores[:0], scores[order], False),
            places.row[order],
            places.rank[order],
        )
    here = c._replace(table=np.asfortranarray(c.table[places.rank]))  # its columns are read one by one
    return ScoredPlaces(here, places.p, places.mass, scores, is_adaptive(c)), places.row, places.rank


def _levels(sizes: Codes, entering: Indices, step: int) -> NDArray[np.int32]:
    """The sizes of all sets after every `step` places that enter them."""
    added = [np.bincount(entering[a - step : a], minlength=len(sizes)) for a in range(step, len(entering) + 1, step)]
    return np.cumsum([sizes, *added], axis=0, dtype=np.int32)


def count_anew(trial: Trial, score: Score, k: int, calibration: Flags, u: Vector) -> tuple[float, int, int, int, int]:
    """For a threshold outside the prepared levels, which is legal but next to never seen."""
    threshold = smallest(dispatch.label_scores(trial.ranked, trial.ranks, score, u)[calibration], k)
    sizes, _ = dispatch.members(trial.ranked, score, Bounds(np.array([[threshold]])), u)
    sizes, ranks = sizes[~calibration], trial.ranks[~calibration]
    return threshold, int((ranks < sizes).sum()), int(sizes.sum()), int((sizes == 1).sum()), int((sizes == 0).sum())


def _reach(trial: Trial, ordered: Vector, highest: float, k: int) -> tuple[float, float]:
    """Levels between which the thresholds of practically all splits lie; none exceeds the highest label score."""
    first, last = reach(trial, k)
    return float(ordered[first]) if first >= 0 else -math.inf, float(ordered[last]) if last < trial.n else highest


def reach(trial: Trial, k: int) -> tuple[int, int]:
    """Where these levels lie among all label scores in order; below 0 or past the last, if that is not among them."""
    n, share = trial.n, k / (trial.n_calibration + 1)
    spread = SPREAD * math.sqrt(share * (1 - share) * (1 / trial.n_calibration + 1 / n)) + 2 / trial.n_calibration
    return math.floor((share - spread) * n), math.ceil((share + spread) * n)
