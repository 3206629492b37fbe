"""Quantile regression for conditional calibration (Gibbs, Cherian and Candès 2023), by the simplex method.

With values s_i of the scores and features φ_i, the regression minimizes Σ ρ(s_i − φ_i·β) over β, where ρ(r) is
(1 − α)·r for r ≥ 0 and −α·r for r < 0. At an optimum there is a basis: as many rows as columns of φ, with residual 0.
Every row has a dual variable η_i in [−α, 1 − α], which is −α for a negative and 1 − α for a positive residual, and
Σ η_i·φ_i = 0.

A new object with the features φ and the dual variable u adds −u·φ·β to the sum. Its threshold at level u is the
smallest φ·β of a minimum. If u increases from 0, it changes at few levels, where one row of the basis is replaced.

Rows with equal features form a pattern. The state of a pattern is the number of its smallest scores with η = −α, and
whether the next score is in the basis, so that a replacement takes time in proportion to the number of patterns.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Codes, Flags, Vector
from pippin._runtime.errors import InputError

PERTURBATION = 1e-11  # of the largest score, so that no two rows reach residual 0 together
ENDLESS = 1e4  # replaces infinite scores, in units of the largest finite score
ZERO = 1e-9  # smaller coefficients and dual variables are rounding errors
MOST_STEPS = 100_000


class LogScale(NamedTuple):
    """Increasing function of scores, whose values are regressed instead of the scores.

    Scores with the bounds `low` and `high` become −log((high − s)/(high − low)), which is −log p for s = 1 − p; without
    an upper bound they become log(1 + s − low). On this scale, every finite sum of the coefficients of several groups
    is the value of a score below `high`, and a threshold of `high` would put all classes into the set.
    """

    low: float
    high: float

    def __call__(self, scores: Vector) -> Vector:
        with np.errstate(divide="ignore"):
            if np.isinf(self.high):
                return np.log1p(np.maximum(scores - self.low, 0))
            scaled: Vector = -np.log(np.maximum(self.high - scores, 0) / (self.high - self.low))
        return scaled

    def inverse(self, scaled: float) -> float:
        """Return the score whose value on this scale is `scaled`."""
        if np.isinf(self.high):
            return self.low + float(np.expm1(scaled))
        return self.high - (self.high - self.low) * float(np.exp(-scaled))


class _State(NamedTuple):
    """Optimal basis: the pattern of each basic row (−1 for a fixed coefficient), and the state of every pattern."""

    basis: Codes
    rows: Vector
    scores: Vector
    below: Codes
    basic: Flags

    def copied(self) -> "_State":
        return _State(self.basis.copy(), self.rows.copy(), self.scores.copy(), self.below.copy(), self.basic.copy())


@dataclass(frozen=True, eq=False)
class ConditionalQuantiles:
    """Thresholds of objects by their features, from calibration scores and the features of the calibration rows.

    Attributes:
        scores: the calibration scores; they may be infinite.
        codes: the pattern of each calibration row.
        patterns: the features of each pattern, (patterns, d); the first column is 1.
        alpha: significance level (miscoverage).
        scale: the function of the scores that is regressed.

    >>> same, scale = np.zeros(20, dtype=int), LogScale(0, np.inf)
    >>> quantiles = ConditionalQuantiles(np.arange(20.0), same, np.ones((1, 1)), 0.1, scale)
    >>> quantiles.threshold(np.ones(1)), quantiles.threshold(np.ones(1), -0.05)
    (18.0, 17.0)
    >>> ends, thresholds = quantiles.steps(np.ones(1))
    >>> bool(thresholds[np.searchsorted(ends, 0.85)] == quantiles.threshold(np.ones(1), 0.85))
    True
    """

    scores: Vector
    codes: Codes
    patterns: Vector
    alpha: float
    scale: LogScale

    def threshold(self, phi: Vector, level: float | None = None) -> float:
        """Return the threshold of an object with the features `phi` at a level; 1 − α by default."""
        return self._path(phi, 1 - self.alpha if level is None else level)[1][-1]

    def steps(self, phi: Vector) -> tuple[Vector, Vector]:
        """Return the threshold as a step function of the level, from −α to 1 − α.

        It is `thresholds[k]` at levels above `ends[k - 1]` and up to `ends[k]`.
        """
        (down, lower), (up, upper) = self._path(phi, -self.alpha), self._path(phi, 1 - self.alpha)
        ends = np.array([*down[::-1], 0.0, *up, 1 - self.alpha])
        return ends, np.array([*lower[::-1], *upper])

    def _path(self, phi: Vector, level: float) -> tuple[list[float], list[float]]:
        """Return the levels between 0 and `level` at which the threshold changes, and the thresholds around them."""
        state, way = self._solution.copied(), 1.0 if level >= 0 else -1.0
        at, changes, thresholds = 0.0, list[float](), list[float]()
        for _ in range(MOST_STEPS):
            inverse: Vector = np.linalg.inv(state.rows).astype(np.float64)
            c = phi @ inverse
            c[np.abs(c) < ZERO] = 0
            thresholds.append(self._exact(c, state))
            eta, (low, high) = self._duals(state, inverse, at * phi), self._box(state)
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.maximum((eta - np.where(way * c > 0, low, high)) / (way * c), 0)
            room[c == 0] = np.inf
            j = int(room.argmin())
            if way * at + room[j] >= abs(level) - ZERO:
                return changes, thresholds
            at += way * float(room[j])
            changes.append(at)
            if not self._replace(state, inverse, j, way * float(np.sign(c[j]))):
                return changes, [*thresholds, way * np.inf]
        raise _unsolved()

    def _exact(self, c: Vector, state: _State) -> float:
        """Return the score at Σ c_j·s_j over the basis, rounded up by a bound on rounding errors.

        If a calibration score is within this bound, it is returned.
        """
        near = np.round(c)
        c = np.where(np.abs(c - near) < ZERO, near, c)
        endless = float(c[np.isinf(state.scores)].sum())
        if abs(endless) > ZERO:
            return float(np.copysign(np.inf, endless))
        finite = np.isfinite(state.scores) & (c != 0)
        threshold = float(c[finite] @ state.scores[finite])
        most = threshold + 2 * PERTURBATION * self._size * float(np.abs(c).sum())
        scores, scaled = self._sorted
        place = int(np.searchsorted(scaled, most, side="right")) - 1
        return float(scores[place]) if place >= 0 and scaled[place] >= threshold else self.scale.inverse(most)

    def _box(self, state: _State) -> tuple[Vector, Vector]:
        real = state.basis >= 0
        return np.where(real, -self.alpha, 0.0), np.where(real, 1 - self.alpha, 0.0)

    def _duals(self, state: _State, inverse: Vector, added: Vector) -> Vector:
        """Return η of the basic rows, for which Σ η_i·φ_i over all rows is 0; `added` is the new object's term."""
        above = self._counts - state.below - state.basic
        total: Vector = ((1 - self.alpha) * above - self.alpha * state.below) @ self.patterns + added
        return -total @ inverse

    def _replace(self, state: _State, inverse: Vector, j: int, sign: float, excess: float = 0.0) -> bool:
        """Replace row j of the basis; return False if no row reaches residual 0.

        The residual of row j becomes negative if `sign` is 1, positive if it is −1. Other rows reach residual 0 on the
        way, and increase the slope of the objective, −`excess` at the start. The row that makes this slope 0 or more
        enters the basis.
        """
        direction = sign * inverse[:, j]
        w, v = self.patterns @ direction, self.patterns @ (inverse @ self._perturbed_of(state))
        w[np.abs(w) < ZERO] = 0
        if excess:
            inside = np.arange(len(self._codes)) - self._starts[self._codes]
            rising = w[self._codes]
            up = (rising > 0) & (inside >= (state.below + state.basic)[self._codes])
            rows = np.flatnonzero(up | ((rising < 0) & (inside < state.below[self._codes])))
        else:  # only the first row of each pattern can be the first of all
            first = self._starts + np.where(w > 0, state.below + state.basic, state.below - 1)
            there = np.where(w > 0, first < self._starts + self._counts, (w < 0) & (first >= self._starts))
            rows = first[there]
        if not len(rows):
            return False
        of = self._codes[rows]
        steps = np.maximum((self._perturbed[rows] - v[of]) / w[of], 0)
        if excess:
            order = np.lexsort((np.where(w[of] > 0, rows, -rows), steps))
            place = int(np.searchsorted(np.cumsum(np.abs(w[of][order])), excess - ZERO))
            if place == len(rows):
                return False
            row, passed = int(rows[order[place]]), of[order[:place]]
            change = np.bincount(passed, minlength=len(self.patterns))
            state.below[:] += np.where(w > 0, change, -change)
        else:
            row = int(rows[steps.argmin()])
        if (leaving := int(state.basis[j])) >= 0:
            state.below[leaving] += sign > 0
            state.basic[leaving] = False
        entering = int(self._codes[row])
        state.below[entering], state.basic[entering] = row - self._starts[entering], True
        state.basis[j], state.rows[j] = entering, self.patterns[entering]
        state.scores[j] = self._ordered[row]
        return True

    def _perturbed_of(self, state: _State) -> Vector:
        real = state.basis >= 0
        rows = (self._starts + state.below)[state.basis]
        return np.where(real, self._perturbed[np.where(real, rows, 0)], state.scores)

    @cached_property
    def _solution(self) -> _State:
        """Optimum of the calibration rows alone.

        The simplex method starts with each coefficient fixed by an artificial row, whose features are a unit vector,
        and whose η is 0 in the end. In each step, the basic row whose η is farthest outside of its interval leaves.
        """
        d = self.patterns.shape[1]
        start = np.zeros(d)
        start[0] = np.partition(self._perturbed, len(self._perturbed) // 2)[len(self._perturbed) // 2]
        is_below = np.flatnonzero(self._perturbed < start[0])
        below = np.bincount(self._codes[is_below], minlength=len(self.patterns))
        state = _State(np.full(d, -1), np.eye(d), start, below, np.zeros(len(self.patterns), dtype=bool))
        for _ in range(MOST_STEPS):
            inverse: Vector = np.linalg.inv(state.rows).astype(np.float64)
            eta, (low, high) = self._duals(state, inverse, np.zeros(d)), self._box(state)
            excess = np.maximum(eta - high, low - eta)
            j = int(excess.argmax())
            if excess[j] <= ZERO * max(1, len(self.scores)) or not self._replace(
                state, inverse, j, 1.0 if eta[j] < low[j] else -1.0, float(excess[j])
            ):
                return state
        raise _unsolved()

    @cached_property
    def _order(self) -> Codes:
        order: Codes = np.lexsort((self.scores, self.codes))
        return order

    @cached_property
    def _codes(self) -> Codes:
        """Pattern of each row, where rows are sorted by pattern and score."""
        return self.codes[self._order]

    @cached_property
    def _ordered(self) -> Vector:
        return self.scale(self.scores[self._order])

    @cached_property
    def _sorted(self) -> tuple[Vector, Vector]:
        scores = np.sort(self.scores)
        return scores, self.scale(scores)

    @cached_property
    def _counts(self) -> Codes:
        return np.bincount(self.codes, minlength=len(self.patterns))

    @cached_property
    def _starts(self) -> Codes:
        starts: Codes = np.cumsum(self._counts) - self._counts
        return starts

    @cached_property
    def _size(self) -> float:
        return float(np.abs(self._ordered[np.isfinite(self._ordered)]).max(initial=0.0)) or 1.0

    @cached_property
    def _perturbed(self) -> Vector:
        """Scores with small random shifts, so that all differ, sorted like `_ordered`; large numbers if infinite."""
        shift = np.cumsum(np.random.default_rng(0).random(len(self.scores))) / len(self.scores)
        finite = np.isfinite(self._ordered)
        base = np.where(finite, self._ordered, ENDLESS * self._size)
        perturbed: Vector = base + np.where(finite, PERTURBATION, 1.0) * self._size * shift
        return perturbed


def _unsolved() -> InputError:
    return InputError("The quantile regression of overlapping groups did not end", "pass fewer groups")
