"""Thresholds between marginal and class-conditional ones, recalibrated for a marginal guarantee (Ding et al. 2025).

Some rows, the learning rows, determine a blend of two distributions of scores: that of each class, and that of all
classes. A score has a level in the blend of its class, and the other rows calibrate one quantile of these levels.
docs/guarantees.md proves that coverage is at least 1 − α.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.mondrian import Level, as_levels, single_category, threshold_rank
from pippin._conformal.rules import MondrianRule, Request, Use, confidence_from_content
from pippin._conformal.serialization import Content, check_limits, listed, need, rising, whole_numbers
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Classes, Codes, Flags, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._theory.level import examples_needed
from pippin._theory.scores import Score
from pippin._theory.spelling import INTERPOLATED, Interpolated

HALF = 10  # number of learning rows of a class with which its own distribution has half of the largest weight
Keys = NDArray[np.complex128]  # pairs level + score·i; NumPy orders complex numbers by real part, then imaginary part


@dataclass(frozen=True, eq=False)
class Blend:
    """Scores of the learning rows, and the blended level of a score for a class.

    Let F(s) be the share of all learning scores that are below s, and F_y(s) this share among the n_y learning scores
    of class y. The level of a score s for class y is T(s, y) = F(s) + w_y·(F_y(s) − F(s)), where w_y = share · n_y/(n_y
    + 10). The level increases with s.

    Attributes:
        share: the number `share` in w_y: the weight of the class's own distribution F_y, if the class has very many
            rows.
        scores: the learning scores, class after class, each class sorted.
        counts: number of learning rows of each class.

    >>> blend = Blend(1.0, np.array([0.1, 0.3, 0.2, 0.4]), np.array([2, 2]))
    >>> blend.levels(np.array([0.25, 0.25]), np.array([0, 1]))
    array([0.5, 0.5])
    >>> blend.thresholds(0.5, 0.25)
    array([0.25, 0.25])
    """

    share: float
    scores: Vector
    counts: Codes

    def levels(self, scores: Vector, classes: Codes) -> Vector:
        """Return the blended level of each score for its class."""
        return self._at(np.searchsorted(self._values, scores), classes)

    def thresholds(self, level: float, score: float) -> Vector:
        """Return for each class the largest score s whose pair (level, s) is not above the pair (`level`, `score`).

        Pairs are compared by level first. Between two neighboring learning scores the level is constant; where it
        equals `level`, scores decide.
        """
        edges = np.concatenate([[-np.inf], self._values, [np.inf]])
        low, high = edges[self._first(level, False)], edges[self._first(level, True)]
        thresholds: Vector = np.clip(score, low, high)
        return thresholds

    def _first(self, level: float, above: bool) -> Codes:
        """Return for each class how many distinct learning scores a score must exceed to have at least the given level.

        With `above`, the level of the score must be larger than the given one.
        """
        classes = np.arange(len(self.counts))
        low, high = np.zeros_like(classes), np.full_like(classes, len(self._values) + 1)
        while (open_ := low < high).any():
            middle = (low + high) // 2
            value = self._at(np.minimum(middle, len(self._values)), classes)
            short = value <= level if above else value < level
            low, high = np.where(open_ & short, middle + 1, low), np.where(open_ & ~short, middle, high)
        return low

    def _at(self, place: Codes, classes: Codes) -> Vector:
        """Return the blended level of a score that is larger than `place` of the distinct learning scores."""
        pooled = self._below[place] / len(self.scores)
        own = np.searchsorted(self._keys, place + classes * (len(self._values) + 1)) - self._starts[classes]
        weight = self.share * self.counts / (self.counts + HALF)
        levels: Vector = pooled + weight[classes] * (own / np.maximum(self.counts, 1)[classes] - pooled)
        return levels

    @cached_property
    def _values(self) -> Vector:
        return np.unique(self.scores)

    @cached_property
    def _below(self) -> Codes:
        """Number of learning scores below each distinct learning score, and at the end the number of all of them."""
        counts = np.bincount(np.searchsorted(self._values, self.scores), minlength=len(self._values))
        return np.concatenate([[0], np.cumsum(counts)])

    @cached_property
    def _keys(self) -> Codes:
        """Place of each learning score among the distinct ones, plus an offset for each class; in ascending order."""
        classes = np.repeat(np.arange(len(self.counts)), self.counts)
        return np.searchsorted(self._values, self.scores) + classes * (len(self._values) + 1)

    @cached_property
    def _starts(self) -> Codes:
        return np.cumsum(self.counts) - self.counts


@dataclass(frozen=True, eq=False)
class InterpolatedRule(MondrianRule):
    """Rule with a threshold per class, and one guarantee for all classes together.

    The pairs (level, score) of calibration rows are compared, see `Blend`. The threshold of each class follows from the
    k-th smallest pair of n, with k = ⌈(n + 1)(1 − alpha)⌉ (larger for a PAC guarantee). `blend` and `keys` are None in
    a predictor saved without scores.
    """

    per: str | None = INTERPOLATED
    share: float = Interpolated.share
    blend: Blend | None = None
    keys: Keys | None = None

    def at(self, alpha: Level) -> "tuple[InterpolatedRule, float]":
        level, _ = as_levels(alpha, None)
        assert self.blend is not None
        assert self.keys is not None
        k = threshold_rank(len(self.keys), level, self.confidence)
        thresholds = np.full(len(self.blend.counts), np.inf)
        if k <= len(self.keys):
            thresholds = self.blend.thresholds(self.keys[k - 1].real, self.keys[k - 1].imag)
        return replace(self, limits=Bounds(read_only(thresholds[None]))), level

    def label_p_values(self, request: Request, score: Score, labels: Codes) -> Vector:
        scores = dispatch.label_scores(request.rows, labels, score, request.draws.u)
        return self._p(scores, labels, request.draws.v)

    def class_p_values(self, request: Request, score: Score, use: Use) -> None:
        scores = dispatch.class_scores(request.rows, score, request.draws.u)
        classes, v = np.broadcast_to(np.arange(scores.shape[1]), scores.shape), request.draws.v

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            use(start, self._p(scores[part], classes[part], None if v is None else v[part, None]))

        dispatch.in_steps(work, request.rows.n, dispatch.TILE // (2 * request.rows.n_classes))

    def _p(self, scores: Vector, classes: Codes, v: Vector | None) -> Vector:
        assert self.blend is not None
        assert self.keys is not None
        wanted, n = pairs(self.blend.levels(scores, classes), scores), len(self.keys)
        low = np.searchsorted(self.keys, wanted)
        if v is None:
            return (1 + n - low) / (n + 1)
        high = np.searchsorted(self.keys, wanted, "right")
        smoothed: Vector = (n - high + v * (1 + high - low)) / (n + 1)
        return smoothed

    def unseen_classes(self) -> Flags:
        return np.zeros((1, self.categories.lookup.shape[1]), dtype=bool)

    @property
    def whole(self) -> bool:
        return True

    def describe(self, predictor: Any) -> str:
        n, sure = (
            predictor.n_calibration,
            "" if self.confidence is None else f"in {100 * self.confidence:g}% of calibrations ",
        )
        text = f"{predictor.score} {INTERPOLATED} between marginal and per class, from {n:,} rows"
        if np.isinf(self.limits.scores).all():
            return f"{text}: all its thresholds are infinite, so every set contains all classes."
        return (
            f"{text}: {sure}its sets contain the true class with probability at least {100 * predictor.guarantee:g}%, "
            "for a single class only approximately."
        )

    def condition(self) -> str:
        return f"{super().condition()} Other rows determined how the thresholds of the classes differ."

    def _has_ties(self, category: int, k: int) -> bool:
        return self.keys is not None and k <= len(self.keys) and int((self.keys == self.keys[k - 1]).sum()) > 1

    def content(self, scores: bool) -> dict[str, Any]:
        keys = self.keys if scores and self.categories.raw_scores is not None else None
        blend = self.blend if keys is not None else None
        return {
            "kind": INTERPOLATED,
            "share": self.share,
            "thresholds": self.limits.scores.tolist(),
            "calibration_scores": listed(None if keys is None else keys.imag),
            "calibration_levels": listed(None if keys is None else keys.real),
            "learning_scores": listed(None if blend is None else blend.scores),
            "learning_counts": listed(None if blend is None else blend.counts),
            **({} if self.confidence is None else {"confidence": self.confidence}),
        }


def interpolated_rule(
    scores: Vector,
    labels: Codes,
    n_classes: int,
    spec: Interpolated,
    rng: np.random.Generator,
    confidence: float | None = None,
) -> InterpolatedRule:
    """Divide the rows at random, learn the blend on the first part, and calibrate the rule on the second part."""
    n, cut = len(scores), round(spec.learning_fraction * len(scores))
    if not 0 < cut < n:
        what = f"Expected rows to learn the blend on and others to calibrate, got {n} rows with {spec}"
        raise InputError(what, "pass more rows")
    learning, rest = np.split(rng.permutation(n), [cut])
    learning = learning[np.lexsort((scores[learning], labels[learning]))]
    counts = np.bincount(labels[learning], minlength=n_classes)
    blend = Blend(float(spec.share), read_only(scores[learning]), read_only(counts))
    keys = np.sort(pairs(blend.levels(scores[rest], labels[rest]), scores[rest]))
    return _rule(blend, keys, confidence)


def pairs(levels: Vector, scores: Vector) -> Keys:
    """Join levels and scores to numbers that NumPy orders by level, then by score."""
    joined = np.empty(scores.shape, dtype=np.complex128)
    joined.real, joined.imag = levels, scores  # not level + 1j·score, which is NaN for an infinite score
    return joined


def interpolated_from_content(content: Content, alpha: float, n: int, classes: Classes) -> InterpolatedRule:
    """Restore an interpolated rule from a file, and check that its entries are consistent."""
    share, thresholds = content.number("share"), content.matrix("thresholds", (1, len(classes)))
    need("share", 0 < share <= 1)
    confidence = confidence_from_content(content)
    scores, levels, learning = map(
        content.optional_numbers, ("calibration_scores", "calibration_levels", "learning_scores")
    )
    given = content.take("learning_counts", lambda value: (value is None) == (learning is None))
    need("calibration_scores", (scores is None) == (levels is None) == (learning is None))
    if scores is None or levels is None or learning is None:
        need("calibration_levels", scores is None and levels is None and learning is None)
        need("thresholds", n >= examples_needed(alpha) or bool(np.isinf(thresholds).all()))
        limits = Bounds(thresholds)
        none = single_category(None, n, len(classes))
        return InterpolatedRule(none, confidence=confidence, limits=limits, share=share)
    counts = whole_numbers("learning_counts", given, np.int64)
    need("learning_counts", counts.shape == (len(classes),) and bool((counts >= 0).all()))
    need("learning_scores", 0 < len(learning) == int(counts.sum()))
    need("learning_scores", all(map(rising, np.split(learning, np.cumsum(counts)[:-1]))))
    need("calibration_scores", len(scores) == n == len(levels))
    keys = pairs(levels, scores)
    need("calibration_levels", bool(((levels >= 0) & (levels <= 1)).all() and (keys[1:] >= keys[:-1]).all()))
    rule = _rule(Blend(share, learning, counts), keys, confidence).at(alpha)[0]
    check_limits(thresholds, rule.limits.scores)
    return rule


def _rule(blend: Blend, keys: Keys, confidence: float | None) -> InterpolatedRule:
    category = single_category(keys.imag.copy(), len(keys), len(blend.counts))
    return InterpolatedRule(category, confidence=confidence, share=blend.share, blend=blend, keys=keys)
