"""All in which marginal, conditional, weighted and unit predictors differ: their rules, and what is asked of them.

A rule says which bounds the classes of a row must keep to, and how a score becomes a
p-value. With s the score of a class, and the n calibration scores that speak for it,

    p = (1 + #{scores >= s}) / (n + 1)
    smoothed p = (#{scores > s} + v·(1 + #{scores = s})) / (n + 1),  v uniform in [0, 1)

and with weights, or with units that count once each, the same in sums of weights. The set at level α is
{classes with p > α}.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.cells import Cells
from pippin._engine import dispatch
from pippin._engine.numpy_engine.p_values import Among, among
from pippin._engine.protocol import Bounds, Draws, Held
from pippin._runtime.arrays import Classes, Codes, Flags, Vector
from pippin._runtime.errors import InputError
from pippin._shift.label_shift import LabelRatios
from pippin._theory.scores import Score
from pippin._theory.units import unit_p_values
from pippin._theory.weighted_tails import Tails, tails
from pippin._validation.rows import Rows, as_array

Use = Callable[[int, Vector], None]  # the p-values of all classes of the rows from start on


class Asked(NamedTuple):
    """Rows to predict, and all that their sets and p-values depend on.

    `group` says which row of a rule's bounds each object uses, `weights` how much it weighs, where
    the rule wants to know: (n, 1), or (1, K) where that follows from its class.
    """

    rows: Rows
    draws: Draws
    group: Codes | None = None
    weights: Vector | None = None


class Rule(Protocol):
    """What `answers.py` asks of every predictor that has one."""

    def bounds(self, asked: Asked) -> Bounds:
        """What the classes of each row must keep to."""

    def p_of_labels(self, asked: Asked, scores: Vector, labels: Codes) -> Vector:
        """The p-value of one class per row, from its score."""

    def p_of_classes(self, asked: Asked, score: Score, use: Use) -> None:
        """Calls use(start, p) with the p-values of every class, (rows, K), tile by tile."""

    def unknown(self) -> Flags | None:
        """(groups, K): classes that no example speaks for; None where the same ones speak for all classes of a row.

        Then p-values fall with the rank, and the two best classes have the largest.
        """


@dataclass(frozen=True, eq=False)
class ByCells:
    """One threshold for all, or one per class, group or cluster: each from the scores of its own cell."""

    cells: Cells
    limits: Bounds

    def bounds(self, asked: Asked) -> Bounds:
        return self.limits._replace(group=asked.group)

    def p_of_labels(self, asked: Asked, scores: Vector, labels: Codes) -> Vector:
        group = 0 if asked.group is None else asked.group
        return self._among(scores, self.cells.of[group, labels], asked.draws.v)

    def p_of_classes(self, asked: Asked, score: Score, use: Use) -> None:
        dispatch.p_values(asked.rows, score, self._held, asked.group, asked.draws, use)

    def unknown(self) -> Flags | None:
        of = self.cells.of
        return None if (of == of[:, :1]).all() else (self.cells.counts == 0)[of]

    @cached_property
    def _among(self) -> Among:
        return among(self._held)

    @cached_property
    def _held(self) -> Held:
        return self.cells.held()


@dataclass(frozen=True, eq=False)
class ByWeights:
    """A threshold for every object or class, from its own weight and those of the calibration rows, sorted by score."""

    scores: Vector
    weights: Vector
    alpha: float

    def bounds(self, asked: Asked) -> Bounds:
        own = _weights(asked)
        each = self.thresholds(own.ravel()).reshape(own.shape)
        return Bounds(each, np.arange(asked.rows.n) if own.shape[1] == 1 else None)

    def thresholds(self, weights: Vector) -> Vector:
        """The threshold of each object, from its weight."""
        distinct, which = np.unique(weights, return_inverse=True)
        reached = self._tails.reach(distinct, self.alpha)
        return np.append(self.scores, np.inf)[reached][which]

    def p_of_labels(self, asked: Asked, scores: Vector, labels: Codes) -> Vector:
        own = _weights(asked)
        return self._p(scores, own[:, 0] if own.shape[1] == 1 else own[0, labels])

    def p_of_classes(self, asked: Asked, score: Score, use: Use) -> None:
        own = np.broadcast_to(_weights(asked), (asked.rows.n, asked.rows.n_classes))
        _in_tiles(asked, score, lambda scores, start, stop: use(start, self._p(scores, own[start:stop])))

    def unknown(self) -> Flags | None:
        return None

    def _p(self, scores: Vector, weights: Vector) -> Vector:
        return self._tails.p(np.searchsorted(self.scores, scores, side="left"), weights)

    @cached_property
    def _tails(self) -> Tails:
        return tails(self.weights)


@dataclass(frozen=True, eq=False)
class ByUnits:
    """One threshold, from units that count once each, whatever number of scores they have; sorted by score."""

    scores: Vector
    units: Codes
    alpha: float

    @cached_property
    def threshold(self) -> float:
        """The largest score that keeps p above the level."""
        return float(np.append(self.scores, np.inf)[(self._levels > self.alpha).sum() - 1])

    def bounds(self, asked: Asked) -> Bounds:
        return Bounds(np.array([[self.threshold]]))

    def p_of_labels(self, asked: Asked, scores: Vector, labels: Codes) -> Vector:
        return self._p(scores)

    def p_of_classes(self, asked: Asked, score: Score, use: Use) -> None:
        _in_tiles(asked, score, lambda scores, start, stop: use(start, self._p(scores)))

    def unknown(self) -> Flags | None:
        return None

    def _p(self, scores: Vector) -> Vector:
        found: Vector = self._levels[np.searchsorted(self.scores, scores, side="left")]
        return found

    @cached_property
    def _levels(self) -> Vector:
        return unit_p_values(self.units)


def _in_tiles(asked: Asked, score: Score, use: Callable[[Vector, int, int], None]) -> None:
    """Calls use(scores, start, stop) with the scores of every class, some rows at a time."""
    scores = dispatch.class_scores(asked.rows, score, asked.draws.u)

    def work(start: int, stop: int) -> None:
        use(scores[start:stop], start, stop)

    dispatch.in_steps(work, asked.rows.n, dispatch.TILE // (2 * asked.rows.n_classes))


def _weights(asked: Asked) -> Vector:
    assert asked.weights is not None
    return asked.weights


def need_scores(cells: Cells, for_what: str) -> None:
    """Raises an InputError if a file has left the calibration scores out."""
    if cells.scores is None:
        raise InputError(
            f"This predictor was saved without its calibration scores, so it {for_what}",
            "calibrate again, or save with scores=True",
        )


def own_weights(weights: ArrayLike | LabelRatios, n: int, classes: Classes) -> Vector:
    """The weights of n objects, (n, 1), or what each of them would weigh with each class, (1, K)."""
    if not isinstance(weights, LabelRatios):
        return as_weights(weights, n)[:, None]
    return as_weights(weights.agreeing(classes).ratios, len(classes))[None]


def one_weight(weight: float | LabelRatios, classes: Classes) -> Vector:
    """The same of one object."""
    return own_weights(weight if isinstance(weight, LabelRatios) else [weight], 1, classes)


def as_weights(weights: ArrayLike, n: int) -> Vector:
    """One finite weight of at least 0 per row."""
    given = np.asarray(as_array(weights), dtype=np.float64)
    if given.shape != (n,):
        raise InputError(f"Expected {n} weights, one per row, got shape {given.shape}", "pass weights in row order")
    bad = ~((given >= 0) & (given < np.inf))
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"has the weight {given[row]}, expected a finite number of at least 0",
            "repair its likelihood ratio, or leave the row out",
            row=row,
        )
    return given
