"""Rule for groups that may overlap, and for numeric features: coverage holds in every group at once.

"largest group" takes the largest of the thresholds of the groups that an object is in. "groups" calibrates
conditionally on all groups (Gibbs, Cherian and Candès 2023), and "groups randomized" draws the level of each object, so
that coverage is exact. All rows together are a group too. docs/guarantees.md has the proofs.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pippin._conformal.card import EXCHANGEABLE
from pippin._conformal.mondrian import OVERLAPPING, GroupNames, group_codes, kth_smallest
from pippin._conformal.rules import Request, Rule, Use
from pippin._conformal.serialization import Content, need, whole_numbers
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Classes, Codes, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._runtime.showing import visible
from pippin._theory.conditional_quantile import ConditionalQuantiles, LogScale
from pippin._theory.level import examples_needed, too_few
from pippin._theory.scores import Score
from pippin._validation.memberships import MATRIX, Memberships, as_memberships
from pippin._validation.rows import Rows

LARGEST, RANDOMIZED = "largest group", "groups randomized"
MOST_AT_ONCE = 1_000_000  # combinations times squared number of groups up to which calibration computes all thresholds


@dataclass(frozen=True, eq=False)
class OverlappingRule(Rule):
    """Rule for overlapping groups, or numeric features.

    Attributes:
        scores: the calibration scores, sorted.
        codes: the combination of groups of each calibration row.
        combinations: the memberships of each combination that occurs among the calibration rows.
        alpha: significance level (miscoverage).
        scale: the function of the scores that is regressed, from the lowest and the highest score.
        per: "groups", "groups randomized" or "largest group".
    """

    scores: Vector
    codes: Codes
    combinations: Memberships
    alpha: float
    scale: LogScale
    per: str = "groups"
    known: dict[bytes, Any] = field(default_factory=dict, init=False, repr=False)

    takes = frozenset({"groups"})

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "known": {}}

    @property
    def randomized(self) -> bool:  # type: ignore[override]  # an attribute in the base class
        return self.per == RANDOMIZED

    @cached_property
    def groups(self) -> GroupNames | None:  # type: ignore[override]  # an attribute in the base class
        """Names of the combinations with a threshold each; None for numeric features and random thresholds."""
        return None if self.randomized or not self.combinations.binary else self.combinations.combinations()

    def memberships(self, groups: Any, n: int) -> Memberships:
        """Check the groups of new objects, and return the memberships of the objects."""
        if groups is None:
            what = f"Expected groups for thresholds per {self.per}, got none"
            raise InputError(what, MATRIX, "add an array groups (.npz) or a column group (.csv, .parquet) to the data")
        given = as_memberships(groups, n, self.combinations.names)
        if self.combinations.binary and not given.binary:
            row, column = np.argwhere((given.values != 0) & (given.values != 1))[0].tolist()
            what = f"has the value {given.values[row, column]:g} in the group {given.names[column]}, expected 0 or 1"
            raise InputError(what, MATRIX, row=row)
        return given

    def group_codes(self, groups: Any, n: int) -> Codes | None:
        """Return for each object the row of the thresholds that belongs to its combination of groups."""
        combinations, codes = self.memberships(groups, n).distinct()
        found = group_codes(self.groups, self.per, combinations.combinations(), len(combinations.values))
        return None if found is None else found[codes]

    @cached_property
    def limits(self) -> Bounds:
        """Thresholds of the combinations of the calibration rows, (combinations, 1)."""
        return Bounds(read_only(self.thresholds(self.combinations)))

    def thresholds(self, combinations: Memberships, alpha: float | None = None) -> Vector:
        """Return the threshold of each combination, (combinations, 1), at alpha or another level."""
        rule = self if alpha in (None, self.alpha) else replace(self, alpha=alpha)
        return np.array([[rule._threshold(phi)] for phi in combinations.values])

    def bounds(self, request: Request) -> Bounds:
        assert request.memberships is not None
        combinations, codes = request.memberships.distinct()
        if not self.randomized:
            return Bounds(self.thresholds(combinations), codes)
        assert request.draws.v is not None
        thresholds, levels = np.empty((len(codes), 1)), request.draws.v - self.alpha
        order = np.argsort(codes, kind="stable")
        for phi, rows in zip(combinations.values, np.split(order, np.cumsum(np.bincount(codes))[:-1]), strict=True):
            ends, steps = self._steps(phi)
            thresholds[rows, 0] = steps[np.minimum(np.searchsorted(ends, levels[rows]), len(steps) - 1)]
        return Bounds(thresholds, np.arange(len(codes)))

    def _threshold(self, phi: Vector) -> float:
        if self.per == LARGEST:
            return float(self._group_limits[np.append(True, phi != 0)].max())
        return float(self._of(phi, self._quantiles.threshold))

    def _steps(self, phi: Vector) -> tuple[Vector, Vector]:
        """Return the threshold as a step function of the level."""
        steps: tuple[Vector, Vector] = self._of(phi, self._quantiles.steps)
        return steps

    def _of(self, phi: Vector, compute: Any) -> Any:
        """Return `compute` of the scaled memberships or features; it is cached for each combination of groups."""
        if not self.combinations.binary:
            return compute(np.append(1.0, phi / self._scales))
        key = phi.tobytes()
        if key not in self.known:
            self.known[key] = compute(np.append(1.0, phi / self._scales))
        return self.known[key]

    @cached_property
    def _group_scores(self) -> list[Vector]:
        """Sorted scores of all rows, and of the rows of each group."""
        members = self.combinations.values[self.codes] != 0
        return [self.scores, *(self.scores[own] for own in members.T)]

    @cached_property
    def _group_limits(self) -> Vector:
        """Thresholds of all rows, and of each group."""
        return np.array([kth_smallest(own, self.alpha) for own in self._group_scores])

    @cached_property
    def _scales(self) -> Vector:
        scales: Vector = np.abs(self.combinations.values).max(axis=0)
        return np.where(scales > 0, scales, 1.0)

    @cached_property
    def _quantiles(self) -> ConditionalQuantiles:
        scaled = self.combinations.values / self._scales
        return ConditionalQuantiles(self.scores, self.codes, np.insert(scaled, 0, 1.0, axis=1), self.alpha, self.scale)

    def label_p_values(self, request: Request, score: Score, labels: Codes) -> Vector:
        scores = dispatch.label_scores(request.rows, labels, score, request.draws.u)
        return self._p_values(scores[:, None], request)[:, 0]

    def class_p_values(self, request: Request, score: Score, use: Use) -> None:
        use(0, self._p_values(dispatch.class_scores(request.rows, score, request.draws.u), request))

    def _p_values(self, scores: Vector, request: Request) -> Vector:
        """Return the largest of the p-values among the scores of all rows and of each group of the object."""
        assert request.memberships is not None
        largest, v = np.zeros(scores.shape), request.draws.v
        every = np.insert(request.memberships.values != 0, 0, True, axis=1)
        for known, rows in zip(self._group_scores, map(np.flatnonzero, every.T), strict=True):
            own, n = scores[rows], len(known)
            above = n - np.searchsorted(known, own, side="left")
            p = (1 + above) / (n + 1)
            if v is not None:
                greater = n - np.searchsorted(known, own, side="right")
                p = (greater + v[rows, None] * (1 + (above - greater))) / (n + 1)
            largest[rows] = np.maximum(largest[rows], p)
        return largest

    def warn_of_infinite(self, predictor: Any) -> None:
        n, needed = len(self.scores), examples_needed(self.alpha)
        if note := too_few(n, self.alpha):
            warn(note)
        elif self.combinations.binary:
            counts = [len(own) for own in self._group_scores[1:]]
            few = [(name, m) for name, m in zip(self.combinations.names, counts, strict=True) if m < needed]
            if few:
                named = ", ".join(f"{visible(name)} ({m:,})" for name, m in few)
                warn(
                    f"{len(few):,} of {len(counts):,} groups have fewer than the {needed:,} calibration examples that "
                    f"alpha={self.alpha:g} needs: {named}. The sets of their members hold all classes: collect more, "
                    "or join small groups."
                )

    def describe(self, predictor: Any) -> str:
        k, share = len(self.combinations.names), 100 * predictor.guarantee
        holds = "its sets contain the true class with probability"
        often = f"{holds} {share:g}%, or more with equal scores" if self.randomized else f"{holds} at least {share:g}%"
        whom = f"in each of {k:,} groups, which may overlap, and in all rows together"
        if not self.combinations.binary:
            whom = f"weighted by any combination of {k:,} features and 1 that is not negative"
        return f"{predictor.score} per {self.per}, from {predictor.n_calibration:,} rows: {whom}, {often}."

    def facts(self, predictor: Any) -> tuple[str, ...]:
        what = "groups" if self.combinations.binary else "features"
        return f"{predictor.n_calibration:,} calibration examples", f"{len(self.combinations.names):,} {what}"

    def condition(self) -> str:
        return EXCHANGEABLE

    def limits_of_guarantee(self, what: str = "Coverage", of: str = "of the sets of one size") -> str:
        return f"{what} within a single class, within a part of a group, such as the overlap of two groups, or {of}."

    def table(self, predictor: Any) -> dict[str, Any]:
        """Return the columns of a table of thresholds, with a row for each combination of the calibration rows."""
        counts = np.bincount(self.codes, minlength=len(self.combinations.values))
        return {"group": list(self.groups or ()), "n": counts, "threshold": self.limits.scores[:, 0]}

    def content(self, scores: bool) -> dict[str, Any]:
        return {
            "kind": "overlapping",
            "per": self.per,
            "groups": list(self.combinations.names),
            "combinations": self.combinations.values.tolist(),
            "cells": self.codes.tolist(),
            "lowest_score": self.scale.low,
            "highest_score": self.scale.high,
            "calibration_scores": self.scores.tolist(),
        }


def scale_of(score: Score, n_classes: int) -> LogScale:
    """Return the scale of a score, from its values for a row with one certain class.

    >>> from pippin._theory.scores import ip, socop
    >>> scale_of(ip(), 3), scale_of(socop(), 3)
    (LogScale(low=0.0, high=1.0), LogScale(low=1.0, high=inf))
    """
    certain = Rows(np.tile(np.eye(1, n_classes), (2, 1)))
    scores = dispatch.class_scores(certain, score, np.array([0.0, 1.0]))
    low, high = float(scores.min()), float(scores.max())
    return LogScale(low, high if high > low else np.inf)


def overlapping_rule(scores: Vector, groups: Any, per: str, alpha: float, scale: LogScale) -> OverlappingRule:
    """Create the rule for overlapping groups from the score and the memberships of each calibration row."""
    given = as_memberships(groups, len(scores))
    if per == LARGEST and not given.binary:
        raise InputError(f"Expected groups of 0 and 1 with per={per!r}, got other numbers", "pass per='groups'")
    if not (present := given.values.any(axis=0)).all():
        what = f"Expected calibration rows in every group, got none in {given.names[int(present.argmin())]}"
        raise InputError(what, "leave the group out, or collect rows of it")
    order = np.argsort(scores, kind="stable")
    combinations, codes = given.distinct()
    codes = read_only(codes[order].astype(np.int64))
    rule = OverlappingRule(read_only(scores[order]), codes, combinations, alpha, scale, per)
    n, d = combinations.values.shape
    if combinations.binary and n * d**2 <= MOST_AT_ONCE:  # so that the first prediction takes no longer
        each = rule._steps if rule.randomized else rule._threshold
        for phi in combinations.values:
            each(phi)
    return rule


def overlapping_from_content(content: Content, alpha: float, n: int, classes: Classes) -> OverlappingRule:
    """Restore a rule for overlapping groups from a file, and check that its entries are consistent."""
    per = content.take("per", lambda value: value in OVERLAPPING)
    names = content.take("groups", lambda value: isinstance(value, list) and len(value) > 0)
    need("groups", all(isinstance(name, str) for name in names) and len(set(names)) == len(names))
    scores, codes = content.scores("calibration_scores", n), whole_numbers("cells", content.take("cells"), np.int64)
    need("cells", codes.shape == (n,) and codes.min() == 0)
    values = content.matrix("combinations", (int(codes.max()) + 1, len(names)))
    need("combinations", len(np.unique(values, axis=0)) == len(values) == len(np.unique(codes)))
    need("combinations", bool(np.isfinite(values).all() and values.any(axis=0).all()))
    scale = LogScale(content.number("lowest_score"), content.number("highest_score"))
    need("highest_score", -np.inf < scale.low < scale.high)
    rule = OverlappingRule(scores, codes, Memberships(tuple(names), values), alpha, scale, per)
    need("combinations", per != LARGEST or rule.combinations.binary)
    return rule
