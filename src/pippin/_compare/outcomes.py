"""What the sets of one split are, object by object, for every way to form thresholds.

All classes of all objects are scored once, by rank. A split turns the scores of the
calibration labels into a limit for every group and class; a test object's set is then
the classes whose score keeps to its own limit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pippin._compare.methods import Method
from pippin._engine import dispatch
from pippin._engine.plain import Vector
from pippin._inputs.rows import Classes, Rows, read_only
from pippin._predictors.cells import Cells, Limits, make_cells
from pippin._predictors.combination import Guarantee, Labels, find_thresholds
from pippin._predictors.conditional import at_level, make_conditional
from pippin._theory.formula import score_at
from pippin._theory.scores import Score, coefficients, margin

T = TypeVar("T", bound=np.generic)

BLOCK = 1 << 17  # class scores that are compared at once


class Split(NamedTuple):
    """Who calibrates, a u for each row, and the split's generator as it is once the calibrating rows are chosen."""

    calibration: NDArray[np.bool_]
    u: Vector
    generator: Callable[[], np.random.Generator]


class Calibrated(NamedTuple):
    """What each level makes of one split: the limits, and the u of the test rows."""

    limits: Callable[[float], Limits]
    u: Vector


class Outcome(NamedTuple):
    """The test objects of one split, in row order: the size of each set, and whether it holds the label.

    `threshold` is NaN where there are several; `notes` are what to warn of.
    """

    threshold: float
    sizes: NDArray[np.int64]
    covered: NDArray[np.bool_]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Objects:
    """The rows of a trial, as given and ranked; labels, and their ranks; the names of classes and groups."""

    given: Rows
    ranked: Rows
    labels: NDArray[np.int64]
    ranks: NDArray[np.int64]
    classes: Classes
    group: NDArray[np.int64]
    groups: Sequence[str | int] | None

    @property
    def n_groups(self) -> int:
        return 1 if self.groups is None else len(self.groups)

    @cached_property
    def order(self) -> NDArray[np.int32]:
        """The class at every rank of every row."""
        return dispatch.row_orders(self.given)

    @cached_property
    def margins(self) -> tuple[Vector, Vector]:
        """The margin scores of the first two ranks, (n, 2), and of the labels."""
        none = np.zeros(self.ranked.n)
        ranks = (read_only(np.full(self.ranked.n, rank)) for rank in (0, 1))
        first = np.column_stack([dispatch.label_scores(self.ranked, rank, margin(), none) for rank in ranks])
        return first, dispatch.label_scores(self.ranked, self.ranks, margin(), none)

    def alone(self, rows: NDArray[np.intp], b: float) -> NDArray[np.bool_]:
        """Where the margin's set at threshold b holds one class."""
        first, second = self.margins[0][rows].T
        alone: NDArray[np.bool_] = (first <= b) & ~(second <= b)
        return alone

    def cells(self, by_class: bool, by_group: bool) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The cell of every row's label, and the cell of every group and class; one row or column stands for all."""
        n_groups, n_classes = self.n_groups if by_group else 1, len(self.classes) if by_class else 1
        cell = self.group * (n_classes * by_group) + self.labels * by_class
        return cell, np.arange(n_groups * n_classes, dtype=np.int32).reshape(n_groups, n_classes)

    def fingerprint(self, method: Method) -> list[str]:
        """What the results of a method depend on beyond the ranked rows."""
        told = [str(method), dispatch.checksum(self.given, self.labels)]
        return [*told, repr(self.groups), dispatch.checksum(self.given, self.group)] if method.by_group else told


def make_objects(
    given: Rows,
    ranked: Rows,
    labels: NDArray[np.int64],
    ranks: NDArray[np.int64],
    classes: Classes,
    groups: NDArray[np.generic] | None,
) -> Objects:
    """The rows with their groups as codes."""
    if groups is None:
        return Objects(given, ranked, labels, ranks, classes, np.zeros(given.n, dtype=np.int64), None)
    names, group = np.unique(groups, return_inverse=True)
    return Objects(given, ranked, labels, ranks, classes, group, names.tolist())


@dataclass(frozen=True, eq=False)
class Scored:
    """Every class of every row under one score, by rank: (n, K) scores, or what they need beside u."""

    objects: Objects
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
        rank = self.objects.ranks[rows]
        if self.fixed is not None:
            return self.fixed[rows, rank]
        return self._at(rank, rows, u[rows])

    def sorted_labels(self, by_class: bool, by_group: bool) -> tuple[NDArray[np.intp], Vector]:
        """The rows ordered by cell and score, and the scores in that order, for a score without u."""
        kind = (by_class, by_group)
        if kind not in self._sorted:
            scores = self.labels(np.arange(self.objects.given.n), np.empty(0))
            order = np.lexsort((scores, self.objects.cells(*kind)[0]))
            self._sorted[kind] = order, scores[order]
        return self._sorted[kind]

    def _at(self, rank: Any, rows: NDArray[np.intp], u: Vector) -> Vector:
        assert self.p is not None
        assert self.mass is not None
        c = coefficients(self.score, self.objects.ranked.n_classes)
        here = c._replace(table=c.table[rank])
        found: Vector = score_at(here, slice(None), self.p[rows, rank], self.mass[rows, rank], u)
        return found


def score_objects(objects: Objects, score: Score) -> Scored:
    """Scores all classes of all rows; of a randomised score, all but u."""
    rows = objects.ranked
    if not score.randomized:
        return Scored(objects, score, dispatch.class_scores(rows, score, np.zeros(rows.n)), None, None)
    _, places = dispatch.band(rows, score, -np.inf, np.inf)
    shape = (rows.n, rows.n_classes)
    return Scored(objects, score, None, places.p.reshape(shape), places.mass.reshape(shape))


def outcome(scored: Scored, method: Method, alpha: float, split: Split) -> Outcome:
    """Calibrates the method on one split and looks at its test rows."""
    found = calibrated(scored, method, alpha, split)
    return sets_within(scored, method, found.limits(alpha), np.flatnonzero(~split.calibration), found.u)


def plain_outcome(objects: Objects, score: Score, threshold: float, split: Split) -> Outcome:
    """The same for a plain score whose threshold is known: its sets are the first ranks."""
    test = np.flatnonzero(~split.calibration)
    sizes, _ = dispatch.members(objects.ranked.take(test), score, threshold, split.u[test])
    return Outcome(threshold, sizes, objects.ranks[test] < sizes)


def calibrated(scored: Scored, method: Method, alpha: float, split: Split) -> Calibrated:
    """The method's limits on one split.

    Clusters are drawn too, between the u of the calibration rows and those of the test
    rows, so that `calibrate` and `predict` with the split's generator give the same.
    """
    if method.per in ("cluster", "rc3p"):
        objects, generator, inner = scored.objects, split.generator(), np.flatnonzero(split.calibration)
        rows, names = objects.given.take(inner), range(objects.given.n_classes)
        found, note = make_conditional(
            rows, objects.labels[inner], method.score, alpha, names, generator, method.per, None, "error"
        )
        u = np.empty(len(split.u))
        u[~split.calibration] = dispatch.draws(method.score, len(u) - len(inner), generator)

        def limits(level: float) -> Limits:
            own = at_level(found, level)
            return Limits(own.thresholds, own.rank_limits, notes=(note,) if note else ())

        return Calibrated(limits, u)
    if method.margin is not None:
        return Calibrated(partial(_combined_limits, scored, method.margin, split), split.u)
    cells = _cells(scored, method, split)
    return Calibrated(lambda level: Limits(cells.thresholds(level)[cells.of]), split.u)


def sets_within(scored: Scored, method: Method, limits: Limits, rows: NDArray[np.intp], u: Vector) -> Outcome:
    """The sets of some rows under these limits."""
    sizes = np.empty(len(rows), dtype=np.int64)
    covered = np.empty(len(rows), dtype=bool)
    step = max(1, BLOCK // scored.objects.given.n_classes)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        sizes[part], covered[part] = _sets(scored, limits, rows[part], u)
    if limits.margin is not None:
        alone = scored.objects.alone(rows, limits.margin)
        sizes, covered = np.where(alone, 1, sizes), np.where(alone, scored.objects.ranks[rows] == 0, covered)
    if method.nonempty:
        covered |= (sizes == 0) & (scored.objects.ranks[rows] == 0)
        sizes = np.maximum(sizes, 1)
    several = method.per is not None or method.margin is not None
    return Outcome(np.nan if several else float(limits.scores[0, 0]), sizes, covered, limits.notes)


def _combined_limits(scored: Scored, guarantee: Guarantee, split: Split, alpha: float) -> Limits:
    """IP's limit and the margin's."""
    objects, inner = scored.objects, np.flatnonzero(split.calibration)
    labels = Labels(objects.margins[1][inner], scored.labels(inner, split.u), partial(objects.alone, inner))
    b, q, _, notes = find_thresholds(labels, alpha, guarantee, split.generator())
    return Limits(np.array([[q]]), margin=b, notes=notes)


def _cells(scored: Scored, method: Method, split: Split) -> Cells:
    """The calibration scores of every group and class; one row or column stands for all."""
    cell, of = scored.objects.cells(method.by_class, method.by_group)
    if scored.fixed is None:
        inner = np.flatnonzero(split.calibration)
        return make_cells(scored.labels(inner, split.u), cell[inner], of)
    order, ordered = scored.sorted_labels(method.by_class, method.by_group)
    chosen = split.calibration[order]
    sizes = np.bincount(cell[order[chosen]], minlength=of.size)
    return Cells(of, np.concatenate([[0], np.cumsum(sizes)]), ordered[chosen])


def _sets(
    scored: Scored, limits: Limits, rows: NDArray[np.intp], u: Vector
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    objects = scored.objects
    inside = scored.at(rows, u) <= _own(limits.scores, objects, rows)
    if limits.ranks is not None:
        inside &= np.arange(inside.shape[1]) < _own(limits.ranks, objects, rows)
    return np.count_nonzero(inside, axis=1), inside[np.arange(len(rows)), objects.ranks[rows]]


def _own(limits: NDArray[T], objects: Objects, rows: NDArray[np.intp]) -> NDArray[T]:
    """The limits of some rows by rank, (rows, K); or (rows, 1), if they do not depend on the class."""
    group = objects.group[rows] if len(limits) > 1 else np.zeros(1, dtype=np.int64)
    if limits.shape[1] == 1:
        return limits[group]
    order = objects.order[rows]
    return limits[0].take(order) if len(limits) == 1 else limits[group[:, None], order]
