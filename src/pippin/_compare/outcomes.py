"""What the sets of one split are, object by object, for every way to form thresholds.

All classes of all objects are scored once, by rank. A split turns the scores of the
calibration labels into a limit for every group and class; a test object's set is then
the classes whose score keeps to its own limit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._compare.methods import Method
from pippin._compare.splits import Split
from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._engine.protocol import Bounds
from pippin._inputs.labels import Labelled
from pippin._predictors.by_cell import make_conditional
from pippin._predictors.cells import Cells, make_cells
from pippin._predictors.combination import Labels, Way, find_thresholds
from pippin._predictors.conditional import bounds_at
from pippin._predictors.grouping import Grouping
from pippin._runtime.arrays import Codes, Flags, T, Vector
from pippin._theory.formula import score_at
from pippin._theory.scores import Score, coefficients

BLOCK = 1 << 17  # class scores that are compared at once


class Limits(NamedTuple):
    """What classes must keep to. Where the margin's set at the threshold `margin` is a singleton, that is the set.

    `notes` are what to warn of.
    """

    bounds: Bounds
    margin: float | None = None
    notes: tuple[str, ...] = ()


class Calibrated(NamedTuple):
    """What each level makes of one split: the limits, and the u of the test rows."""

    limits: Callable[[float], Limits]
    u: Vector


class Outcome(NamedTuple):
    """The test objects of one split, in row order: the size of each set, and whether it holds the label.

    `threshold` is NaN where there are several; `notes` are what to warn of.
    """

    threshold: float
    sizes: Codes
    covered: Flags
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class RankScores:
    """Every class of every row under one score, by rank: (n, K) scores, or what they need beside u."""

    trial: Trial
    score: Score
    fixed: Vector | None
    p: Vector | None
    mass: Vector | None
    _sorted: dict[tuple[bool, bool], tuple[NDArray[np.intp], Vector]] = field(default_factory=dict)

    def at(self, rows: NDArray[np.intp], u: Vector) -> Vector:
        """The scores of all classes of some rows."""
        if self.fixed is not None:
            return self.fixed[rows]
        return self._at(slice(None), rows, u[rows, None])

    def labels(self, rows: NDArray[np.intp], u: Vector) -> Vector:
        """The scores of the labels of some rows."""
        rank = self.trial.ranks[rows]
        if self.fixed is not None:
            return self.fixed[rows, rank]
        return self._at(rank, rows, u[rows])

    def sorted_labels(self, method: Method) -> tuple[NDArray[np.intp], Vector]:
        """The rows ordered by cell and score, and the scores in that order, for a score without u."""
        kind = (method.by_class, method.by_group)
        if kind not in self._sorted:
            scores = self.labels(np.arange(self.trial.n), np.empty(0))
            order = np.lexsort((scores, self.trial.cells(method)[0]))
            self._sorted[kind] = order, scores[order]
        return self._sorted[kind]

    def _at(self, rank: Any, rows: NDArray[np.intp], u: Vector) -> Vector:
        assert self.p is not None
        assert self.mass is not None
        c = coefficients(self.score, self.trial.n_classes)
        here = c._replace(table=c.table[rank])
        scores: Vector = score_at(here, slice(None), self.p[rows, rank], self.mass[rows, rank], u)
        return scores


def rank_scores(trial: Trial, score: Score) -> RankScores:
    """Scores all classes of all rows; of a randomised score, all but u."""
    rows = trial.ranked
    if not score.randomized:
        return RankScores(trial, score, dispatch.class_scores(rows, score, np.zeros(rows.n)), None, None)
    _, places = dispatch.band(rows, score, -np.inf, np.inf)
    shape = (rows.n, rows.n_classes)
    return RankScores(trial, score, None, places.p.reshape(shape), places.mass.reshape(shape))


def outcome(scores: RankScores, method: Method, alpha: float, split: Split) -> Outcome:
    """Calibrates the method on one split and looks at its test rows."""
    found = calibrated(scores, method, alpha, split)
    return sets_within(scores, method, found.limits(alpha), np.flatnonzero(~split.calibration), found.u)


def plain_outcome(trial: Trial, score: Score, threshold: float, split: Split) -> Outcome:
    """The same for a plain score whose threshold is known: its sets are the first ranks."""
    test = np.flatnonzero(~split.calibration)
    bounds = Bounds(np.array([[threshold]]))
    sizes, _ = dispatch.members(trial.ranked.take(test), score, bounds, split.u[test])
    return Outcome(threshold, sizes, trial.ranks[test] < sizes)


def calibrated(scores: RankScores, method: Method, alpha: float, split: Split) -> Calibrated:
    """The method's limits on one split.

    Clusters are drawn too, between the u of the calibration rows and those of the test
    rows, so that `calibrate` and `predict` with the split's generator give the same.
    """
    if method.per in ("cluster", "rc3p"):
        return _calibrated_anew(scores.trial, method, alpha, split)
    if method.margin is not None:
        return Calibrated(partial(_combined_limits, scores, method, split), split.u)
    cells = _cells(scores, method, split)
    return Calibrated(lambda level: Limits(Bounds(cells.thresholds(level)[cells.of])), split.u)


def _calibrated_anew(trial: Trial, method: Method, alpha: float, split: Split) -> Calibrated:
    generator, inner = split.generator(), np.flatnonzero(split.calibration)
    data = Labelled(trial.data.rows.take(inner), trial.labels[inner], range(trial.n_classes))
    assert method.per is not None
    predictor, note = make_conditional(data, method.score, alpha, generator, Grouping(method.per))
    u = np.empty(len(split.u))
    u[~split.calibration] = draws(method.score, len(u) - len(inner), generator)
    notes = (note,) if note else ()
    return Calibrated(lambda level: Limits(bounds_at(predictor, level), notes=notes), u)


def _combined_limits(scores: RankScores, method: Method, split: Split, alpha: float) -> Limits:
    """IP's limit and the margin's."""
    trial, inner = scores.trial, np.flatnonzero(split.calibration)
    labels = Labels(trial.margins[1][inner], scores.labels(inner, split.u), partial(trial.alone, inner))
    assert method.margin is not None
    found = find_thresholds(labels, alpha, split.generator(), Way(method.margin))
    return Limits(Bounds(np.array([[found.ip]])), found.margin, found.notes)


def _cells(scores: RankScores, method: Method, split: Split) -> Cells:
    """The calibration scores of every group and class; one row or column stands for all."""
    cell, of = scores.trial.cells(method)
    if scores.fixed is None:
        inner = np.flatnonzero(split.calibration)
        return make_cells(scores.labels(inner, split.u), cell[inner], of)
    order, ordered = scores.sorted_labels(method)
    chosen = split.calibration[order]
    sizes = np.bincount(cell[order[chosen]], minlength=of.size)
    return Cells(of, np.concatenate([[0], np.cumsum(sizes)]), ordered[chosen])


def sets_within(scores: RankScores, method: Method, limits: Limits, rows: NDArray[np.intp], u: Vector) -> Outcome:
    """The sets of some rows under these limits."""
    trial = scores.trial
    sizes = np.empty(len(rows), dtype=np.int64)
    covered = np.empty(len(rows), dtype=bool)
    step = max(1, BLOCK // trial.n_classes)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        sizes[part], covered[part] = _sets(scores, limits.bounds, rows[part], u)
    if limits.margin is not None:
        alone = trial.alone(rows, limits.margin)
        sizes, covered = np.where(alone, 1, sizes), np.where(alone, trial.ranks[rows] == 0, covered)
    if method.nonempty:
        covered |= (sizes == 0) & (trial.ranks[rows] == 0)
        sizes = np.maximum(sizes, 1)
    several = method.per is not None or method.margin is not None
    return Outcome(np.nan if several else float(limits.bounds.scores[0, 0]), sizes, covered, limits.notes)


def _sets(scores: RankScores, bounds: Bounds, rows: NDArray[np.intp], u: Vector) -> tuple[Codes, Flags]:
    trial = scores.trial
    inside = scores.at(rows, u) <= _by_rank(bounds.scores, trial, rows)
    if bounds.ranks is not None:
        inside &= np.arange(inside.shape[1]) < _by_rank(bounds.ranks, trial, rows)
    return np.count_nonzero(inside, axis=1), inside[np.arange(len(rows)), trial.ranks[rows]]


def _by_rank(limits: NDArray[T], trial: Trial, rows: NDArray[np.intp]) -> NDArray[T]:
    """The limits of some rows by rank, (rows, K); or (rows, 1), if they do not depend on the class."""
    group = trial.group[rows] if len(limits) > 1 else np.zeros(1, dtype=np.int64)
    if limits.shape[1] == 1:
        return limits[group]
    order = trial.order[rows]
    return limits[0].take(order) if len(limits) == 1 else limits[group[:, None], order]
