"""Rules of conformal predictors: how calibration scores determine the sets and p-values of new rows.

A rule determines the threshold for each class of a row (the class is in the set if its score is at most the threshold)
and the p-value of a score s. With n calibration scores,

    p = (1 + #{scores >= s}) / (n + 1)
    smoothed p = (#{scores > s} + v·(1 + #{scores = s})) / (n + 1),  v uniform in [0, 1)

With weights, and with clustered rows where each cluster ("unit") counts once, the counts are sums of weights. The set
at level α is {classes with p > α}.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.card import EXCHANGEABLE, EXCHANGEABLE_ROWS, UNSEEN_ROWS, share, variation_of
from pippin._conformal.judgment import KindLevel, Requested
from pippin._conformal.mondrian import (
    KIND,
    PER,
    Categories,
    ClassKinds,
    GroupNames,
    Level,
    as_kinds,
    as_levels,
    describe_infinite_thresholds,
    rc3p_limits,
    single_category,
)
from pippin._conformal.serialization import (
    Content,
    FieldsPickled,
    SavedWithScores,
    check_limits,
    listed,
    need,
    rising,
    whole_numbers,
)
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds, Draws
from pippin._runtime.arguments import checked_methods
from pippin._runtime.arrays import Classes, Codes, Flags, Floats, Indices, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._runtime.showing import visible
from pippin._sharpening.step import SharpeningStep
from pippin._theory.level import as_alpha, category_name, quantile_rank, too_few
from pippin._theory.scores import Score
from pippin._theory.spelling import INTERPOLATED
from pippin._theory.weighted_tails import Tails, tails, unit_p_values
from pippin._validation.labels import as_numbered_groups
from pippin._validation.memberships import Memberships
from pippin._validation.rows import Rows, as_array

Predictor = TypeVar("Predictor", bound="Calibrated")
Use = Callable[[int, Vector], None]  # arguments: index of the first row of a block, p-values (rows, classes)


class Request(NamedTuple):
    """Rows to predict, and the other inputs of their sets and p-values.

    Attributes:
        rows: the probabilities; for a cross-conformal rule those by the first model.
        draws: random numbers, u of a randomized score and v of smoothed p-values.
        classes: names of the classes.
        group: the index of each object's group, which is its row in the thresholds, if thresholds are per group.
        weights: likelihood ratios, (n, 1), or (1, K) if they depend on the class only (label shift).
        folds: for a cross-conformal rule, the probabilities by the model of each fold.
        memberships: the groups of each object, if they may overlap.
    """

    rows: Rows
    draws: Draws
    classes: Classes
    group: Codes | None = None
    weights: Vector | None = None
    folds: tuple[Rows, ...] = ()
    memberships: Memberships | None = None


class Rule(FieldsPickled):
    """Base class of rules, which compute the sets and p-values of new rows from calibration scores.

    The defaults are for a rule with one threshold, without groups and weights.
    """

    takes: frozenset[str] = frozenset()
    per: str | None = None
    groups: GroupNames | None = None
    randomized: bool = False  # True if sets depend on a random number per object, even if the score does not

    def bounds(self, request: Request) -> Bounds:
        """Return the largest score with which each class of each row is in the set."""
        raise NotImplementedError

    def members(self, score: Score, request: Request) -> dispatch.Sets:
        """Return the sizes and members of all sets."""
        return dispatch.members(request.rows, score, self.bounds(request), request.draws.u)

    def with_best(self, request: Request, sets: dispatch.Sets) -> dispatch.Sets:
        """Add the most probable class to each empty set."""
        return dispatch.with_best(request.rows, sets)

    def label_p_values(self, request: Request, score: Score, labels: Codes) -> Vector:
        """Return the p-value of one class per row."""
        raise NotImplementedError

    def class_p_values(self, request: Request, score: Score, use: Use) -> None:
        """Compute the p-values of all classes block by block, and call use(first row, p-values) for each block."""
        raise NotImplementedError

    def unseen_classes(self) -> Flags | None:
        """Return (groups, K) flags of classes without calibration rows; None if all classes share calibration rows.

        None implies that p-values decrease with the rank of a class, so that the two most probable classes have the
        largest p-values.
        """
        return None

    def top(self, rows: Rows, request: Request, start: int, stop: int) -> Floats:
        """Return the probabilities of a block of rows, to break ties between classes with equal p-values."""
        return rows.block(start, stop)

    def at(self, alpha: Any) -> "tuple[Rule, float]":
        """Return the rule calibrated at another alpha, and this alpha."""
        rule: Any = self
        return replace(rule, alpha=as_alpha(alpha)), as_alpha(alpha)

    def warn_of_infinite(self, predictor: Any) -> None:
        """Warn of infinite thresholds, and name the categories with too few calibration rows."""

    def describe(self, predictor: Any) -> str:
        """Describe the predictor and its guarantee in one sentence."""
        raise NotImplementedError

    def facts(self, predictor: Any) -> tuple[str, ...]:
        """Return the parts of the predictor's `repr` that follow alpha, such as the threshold."""
        return (f"{predictor.n_calibration:,} calibration examples",)

    def guarantee(self, predictor: Any) -> float:
        """Return the proven coverage."""
        return float(1 - predictor.alpha)

    def n_effective(self, n: int) -> float:
        """Return the number of independent rows of equal weight that are as informative as the n calibration rows."""
        return n

    def condition(self) -> str:
        """Describe for a card (answers about a saved object) the condition under which the guarantee holds."""
        return EXCHANGEABLE

    def variation(self, owner: Any, what: str = "Coverage", at_least: bool = False) -> str:
        """Describe for a card (answers about a saved object) how coverage varies over calibration sets.

        Args:
            owner: the predictor or decider with this rule.
            what: what varies.
            at_least: True if the calibration scores give only a lower bound on `what`.
        """
        return f"{what} varies, and no exact distribution is known; the guarantee holds on average over calibrations."

    def limits_of_guarantee(self, what: str = "Coverage", of: str = "of the sets of one size") -> str:
        """Describe for a card (answers about a saved object) what is not guaranteed."""
        return f"{what} within a single class or group, or {of}."

    def rows(self, owner: Any) -> str:
        """Describe for a card (answers about a saved object) how many calibration rows were used."""
        return f"{owner.n_calibration:,} rows"

    def picture(self) -> tuple[Vector | None, float | None]:
        """Return the weights of the calibration scores and the threshold, for a plot; each may be None."""
        return None, None

    def content(self, scores: bool) -> dict[str, Any]:
        """Return the rule's entries in a saved file; `scores` is True to include the calibration scores."""
        raise NotImplementedError


def promise(
    predictor: Any, threshold: float, source: str, unit: str, scope: str = "", confidence: float | None = None
) -> str:
    """Describe the guarantee of a predictor with one threshold.

    Args:
        predictor: the predictor.
        threshold: its threshold.
        source: the calibration rows, such as "from 2,000 rows".
        unit: the name of calibration examples in the plural: "rows", or "units" (clusters of rows).
        scope: the objects that the guarantee applies to, if not all.
        confidence: the probability over calibration sets of a PAC guarantee, or None.
    """
    holds = "its sets contain the true class with probability at least"
    if confidence is not None:
        holds = f"in {100 * confidence:g}% of calibrations {holds}"
    if np.isinf(threshold):
        return (
            f"{predictor.score} with an infinite threshold, {source}: every set contains all classes, since so few "
            f"{unit} allow no other guarantee."
        )
    return f"{predictor.score} with threshold {threshold:.6g}, {source}: {holds} {100 * predictor.guarantee:g}%{scope}."


NO_LIMITS = Bounds(np.empty((0, 0)))  # placeholder until `at` has computed the thresholds


@dataclass(frozen=True, eq=False)
class MondrianRule(Rule):
    """Marginal or Mondrian rule: one threshold per category of classes and groups, from the scores of that category."""

    categories: Categories
    per: str | None = None
    groups: GroupNames | None = None
    kinds: ClassKinds | None = None
    confidence: float | None = None
    levels: tuple[float, ...] | None = None
    limits: Bounds = NO_LIMITS

    @property
    def whole(self) -> bool:
        """True if the guarantee is for all rows together, so that there is one category."""
        return self.per is None

    @property
    def takes(self) -> frozenset[str]:  # type: ignore[override]  # an attribute in the base class
        return frozenset() if self.groups is None else frozenset({"groups"})

    def bounds(self, request: Request) -> Bounds:
        return self.limits if request.group is None else self.limits._replace(group=request.group)

    def label_p_values(self, request: Request, score: Score, labels: Codes) -> Vector:
        from pippin._engine.numpy_engine import among

        scores = dispatch.label_scores(request.rows, labels, score, request.draws.u)
        group = 0 if request.group is None else request.group
        return among(self.categories.held)(scores, self.categories.lookup[group, labels], request.draws.v)

    def class_p_values(self, request: Request, score: Score, use: Use) -> None:
        dispatch.p_values(request.rows, score, self.categories.held, request.group, request.draws, use)

    def unseen_classes(self) -> Flags | None:
        of = self.categories.lookup
        return None if (of == of[:, :1]).all() else (self.categories.counts == 0)[of]

    def at(self, alpha: Level) -> "tuple[MondrianRule, float]":
        level, levels = as_levels(alpha, self.kinds)
        if self.per == "rc3p":
            limits = rc3p_limits(self.categories, level)
        else:
            limits = Bounds(self.categories.thresholds(levels or level, self.confidence)[self._columns])
        ranks = None if limits.ranks is None else read_only(limits.ranks)
        fixed = self.categories, self.per, self.groups, self.kinds, self.confidence
        return MondrianRule(*fixed, levels, Bounds(read_only(limits.scores), None, ranks)), level

    @property
    def _columns(self) -> Indices:
        """Mondrian category of each threshold, (groups, K); (1, 1) for a marginal predictor."""
        return self.categories.lookup if self.per else self.categories.lookup[:, :1]

    def warn_of_infinite(self, predictor: Any) -> None:
        if self.whole:
            if np.isinf(self.limits.scores).any():
                warn(self._too_few(int(self.categories.counts.min()), predictor.alpha))
            return
        outcome = {
            "group": "Its sets hold all classes: collect more, or join small groups",
            "class and group": "Such a class is in every set of its group: collect more, or join small groups",
            "cluster": "Such classes are in every set: collect more",
        }.get(
            self.per or "", "Such a class is in every set: collect more, or let rare classes share with per='cluster'"
        )
        ends = "Their classes are in every set", outcome
        if note := describe_infinite_thresholds(self, predictor, "thresholds", *ends, self.confidence):
            warn(note)

    def _too_few(self, n: int, alpha: float) -> str:
        least = int(self.categories.needed(alpha, self.confidence)[0])
        if self.confidence is not None and n < least:
            return (
                f"{n} calibration examples are too few for alpha={alpha:g} with confidence={self.confidence:g}: at "
                f"least {least:,} are needed. The threshold is infinite and every set holds all classes."
            )
        return too_few(n, alpha) or (
            f"More than a share of {alpha:g} of the true labels have an infinite score, because their probability "
            "is 0: the threshold is infinite and every set holds all classes."
        )

    def describe(self, predictor: Any) -> str:
        n = predictor.n_calibration
        if self.per is None:
            threshold = float(self.limits.scores[0, 0])
            return promise(predictor, threshold, f"from {n:,} rows", "rows", confidence=self.confidence)
        sure = "" if self.confidence is None else f"in {100 * self.confidence:g}% of calibrations "
        how = "by RC3P" if self.per == "rc3p" else f"per {self.per}"
        whom = {"rc3p": "class", "cluster": "cluster of classes"}.get(self.per, self.per)
        infinite = np.isinf(self.limits.scores)
        if self.limits.ranks is not None:  # of RC3P, which can limit the rank instead of the score
            infinite &= self.limits.ranks == len(predictor.classes)
        if infinite.all():
            return (
                f"{predictor.score} {how}, from {n:,} rows: all its thresholds are infinite, so every set "
                "contains all classes."
            )
        full = "; where its threshold is infinite, by too few rows, a class is in every set"
        often = f"for every {whom}, {sure}its sets contain the true class with probability at least "
        often += f"{100 * predictor.guarantee:g}%"
        if self.levels is not None and self.kinds is not None:
            levels = zip(self.kinds.names, self.levels, strict=True)
            each = (f"{100 * (1 - level):g}% for {visible(name)}" for name, level in levels)
            often = f"its sets contain the true class with probability at least {', '.join(each)}"
        return f"{predictor.score} {how}, from {n:,} rows: {often}{full if infinite.any() else ''}."

    def condition(self) -> str:
        if self.whole:
            return EXCHANGEABLE
        each = {"rc3p": "class", "cluster": "cluster of classes", KIND: "kind of classes"}.get(self.per or "", self.per)
        other = " Objects of groups without calibration rows have no guarantee." if None in (self.groups or ()) else ""
        return f"Within each {each}, {EXCHANGEABLE_ROWS} Its frequency may change. {UNSEEN_ROWS}{other}"

    def variation(self, owner: Any, what: str = "Coverage", at_least: bool = False) -> str:
        if self.per == "rc3p":
            return super().variation(owner, what)
        ranks = self.categories.quantile_ranks(self.levels or owner.alpha, self.confidence).tolist()
        counts, described = self.categories.counts.tolist(), []
        for category, name in self._reported(owner).items():
            k, n = ranks[category], counts[category]
            larger = at_least or self._has_ties(category, k)
            text = variation_of(k, n, larger)
            if self.whole:
                shape = f" (beta distribution, a = {k} and b = {n + 1 - k})" if k <= n else ""
                equal = "; equal scores can only increase it" if larger and not at_least and k <= n else ""
                return f"{what} is {text}{shape}{equal}."
            described.append(f"{text} for {name}")
        return f"{what} is {'; '.join(described)}."

    def limits_of_guarantee(self, what: str = "Coverage", of: str = "of the sets of one size") -> str:
        places = {"class": "group", "rc3p": "group", "group": "class", "class and group": "photograph"}
        within = f"a single {places.get(self.per or '', 'class or group')}"
        return f"{what} within {within}, or {of}."

    def rows(self, owner: Any) -> str:
        if self.whole:
            return super().rows(owner)
        return f"{super().rows(owner)}: {', '.join(self._reported(owner).values())}"

    def _reported(self, owner: Any) -> dict[int, str]:
        """Return the Mondrian categories that a card reports, by number, with a name that states their number of rows.

        All superclasses are reported; of other categories, only those with the fewest and with the most rows.
        """
        categories, counts = self.categories, self.categories.counts
        if self.whole:
            return {0: "all rows"}
        if self.kinds is not None:
            pairs = zip(self.kinds.names, counts.tolist(), strict=True)
            return {category: f"{visible(name)} ({n:,} rows)" for category, (name, n) in enumerate(pairs)}
        lookup = categories.lookup[[name is not None for name in self.groups or ("all",)]]
        every = np.unique(lookup)
        if self.per == "cluster" and len(counts) > 1:  # classes too rare to cluster share the scores of all rows
            every = own if len(own := every[counts[every] < owner.n_calibration]) else every
        classes = None if self.per == "group" else owner.classes
        ends = {int(every[counts[every].argmax()]): ", the most", int(every[counts[every].argmin()]): ", the fewest"}
        how = classes, self.groups, self.per == "cluster"
        reported = {}
        for category, end in reversed(ends.items()):
            name = visible(category_name(category, categories.lookup, *how))
            reported[category] = f"{name} ({counts[category]:,} rows{end if len(ends) > 1 else ''})"
        return reported

    def _has_ties(self, category: int, k: int) -> bool:
        """Return True if several calibration scores of a category are equal to its k-th smallest one."""
        if self.categories.scores is None:
            return False
        start, stop = self.categories.offsets[category : category + 2].tolist()
        scores = self.categories.scores[start:stop]
        return k <= len(scores) and int(np.count_nonzero(scores == scores[k - 1])) > 1

    def facts(self, predictor: Any) -> tuple[str, ...]:
        examples = f"{predictor.n_calibration:,} calibration examples"
        sure = () if self.confidence is None else (f"confidence={self.confidence:g}",)
        if self.whole:
            threshold = (f"threshold={self.limits.scores[0, 0]:.6g}",) if self.limits.scores.size == 1 else ()
            return (*sure, *threshold, examples)
        groups = () if self.groups is None else (f"{sum(name is not None for name in self.groups):,} groups",)
        return (*sure, examples, *groups)

    def picture(self) -> tuple[Vector | None, float | None]:
        return None, float(self.limits.scores[0, 0]) if self.limits.scores.size == 1 else None

    def content(self, scores: bool) -> dict[str, Any]:
        confidence = {} if self.confidence is None else {"confidence": self.confidence}
        if self.per is None:
            kept = listed(self.categories.scores) if scores else None
            return {"threshold": float(self.limits.scores[0, 0]), "calibration_scores": kept, **confidence}
        kinds: dict[str, Any] = {}
        if self.kinds is not None:
            kinds = {"kinds": self.kinds.per_class(), "levels": self.levels and list(self.levels)}
        return {
            "kind": "conditional",
            **kinds,
            "per": self.per,
            "thresholds": self.limits.scores.tolist(),
            "rank_limits": listed(self.limits.ranks),
            **categories_content(self.groups, self.categories, scores),
            **confidence,
        }


def marginal_rule(categories: Categories, threshold: float, confidence: float | None = None) -> MondrianRule:
    """Create the rule of a marginal predictor from its calibration scores and its threshold."""
    return MondrianRule(categories, limits=Bounds(read_only(np.array([[threshold]]))), confidence=confidence)


def marginal_from_content(content: Content, alpha: float, n: int, classes: Classes) -> MondrianRule:
    """Restore a rule with one threshold from a file, and check that its entries are consistent."""
    threshold = content.number("threshold")
    scores = content.optional_numbers("calibration_scores")
    rule = marginal_rule(single_category(scores, n, len(classes)), threshold, confidence_from_content(content))
    if scores is not None:
        need("calibration_scores", len(scores) == n and rising(scores))
        check_limits(threshold, rule.at(alpha)[0].limits.scores[0, 0])
    return rule


def mondrian_from_content(
    content: Content,
    alpha: float,
    n: int,
    classes: Classes,
    key: str = "thresholds",
    taxonomies: tuple[str | None, ...] = (*(set(PER) - {INTERPOLATED}), KIND),
) -> MondrianRule:
    """Restore a rule with a threshold per category from a file, and check that its entries are consistent.

    Args:
        content: the content of the file.
        alpha: the significance level (miscoverage).
        n: the number of calibration rows.
        classes: names of the classes.
        key: the name of the thresholds in the file.
        taxonomies: the valid Mondrian taxonomies.
    """
    groups = groups_from_content(content)
    per = content.take("per", lambda value: value in taxonomies and ("group" in (value or "")) == (groups is not None))
    shape = (1 if groups is None else len(groups), len(classes))
    thresholds = content.matrix(key, shape)
    ranks = None
    if "rc3p" in taxonomies:
        limits = content.take("rank_limits", lambda value: (value is not None) == (per == "rc3p"))
        ranks = None if limits is None else whole_numbers("rank_limits", limits, np.int32)
        need("rank_limits", ranks is None or ranks.shape == shape)
    shared = per == "cluster" or (groups is not None and groups[-1] is None)
    categories = categories_from_content(content, per, n, shape, shared)
    need("cells", per is not None or len(categories.counts) == 1)
    kinds = kinds_from_content(content, classes, categories) if per == KIND else None
    levels = levels_from_content(content, alpha, kinds)
    limits = Bounds(thresholds if per else thresholds[:, :1], None, ranks)
    rule = MondrianRule(categories, per, groups, kinds, confidence_from_content(content), levels, limits)
    if categories.raw_scores is not None:
        known = rule.at(alpha if levels is None or kinds is None else dict(zip(kinds.names, levels, strict=True)))[0]
        check_limits(thresholds, np.broadcast_to(known.limits.scores, shape))
        if ranks is not None:
            check_limits(ranks, known.limits.ranks)
    else:  # check that all classes of a category have one threshold, which is infinite with too few rows
        of_categories = np.full(len(categories.counts), np.inf)
        of_categories[categories.lookup] = thresholds
        few = categories.counts < categories.needed(levels or alpha, rule.confidence)
        need(key, np.array_equal(of_categories[categories.lookup], thresholds))
        need(key, bool(np.isinf(of_categories[few]).all()))
    return rule


def confidence_from_content(content: Content) -> float | None:
    """Read the confidence of a PAC guarantee from a file; None if the guarantee is on average."""
    if not content.has("confidence"):
        return None
    value = content.number("confidence")
    need("confidence", 0 < value < 1)
    return value


def categories_content(groups: GroupNames | None, categories: Categories, scores: bool) -> dict[str, Any]:
    """Return the entries of groups and categories for a file; `scores` is True to include the calibration scores."""
    kept = categories.scores if scores else None
    return {
        "groups": None if groups is None else list(groups),
        "cells": categories.lookup.tolist(),
        "cell_counts": categories.counts.tolist(),
        "calibration_scores": listed(kept),
        "calibration_ranks": None if kept is None else listed(categories.ranks),
    }


def categories_from_content(
    content: Content, per: str | None, n: int, shape: tuple[int, int], shared: bool
) -> Categories:
    """Read Mondrian categories from a file, with their calibration scores if these were saved.

    If `shared`, a score may occur twice: in its own category, and in one that pools all groups or clusters.
    """
    of = whole_numbers("cells", content.take("cells"), np.int32)
    counts = whole_numbers("cell_counts", content.take("cell_counts"), np.int64)
    need("cell_counts", counts.ndim == 1 and bool((counts >= 0).all()))
    need("cells", of.shape == shape and int(of.min()) >= 0 and int(of.max()) < len(counts))
    total = int(counts.sum())
    need("n_calibration", n <= total <= (2 * n if shared else n))
    scores = content.optional_numbers("calibration_scores")
    has_ranks = per == "rc3p" and scores is not None
    ranks = content.take("calibration_ranks", lambda value: (value is not None) == has_ranks)
    label_ranks = None if ranks is None else whole_numbers("calibration_ranks", ranks, np.int32)
    if scores is not None:
        categories = np.split(scores, np.cumsum(counts)[:-1])
        need("calibration_scores", len(scores) == total and all(map(rising, categories)))
    if label_ranks is not None:
        need("calibration_ranks", label_ranks.shape == (total,) and bool((label_ranks >= 1).all()))
    return Categories(of, read_only(np.concatenate([[0], np.cumsum(counts)])), scores, label_ranks)


def groups_from_content(content: Content) -> GroupNames | None:
    """Read the names of the groups from a file; None without groups."""
    names = content.take("groups", lambda value: value is None or isinstance(value, list))
    if names is None:
        return None
    others = [name for name in names if name is not None]
    alike = any(all(isinstance(name, kind) for name in others) for kind in (str, int))
    need("groups", bool(others) and alike and len(set(names)) == len(names) and None not in names[:-1])
    return tuple(names)


def kinds_from_content(content: Content, classes: Any, categories: Categories) -> ClassKinds:
    """Read the superclass ("kind") of each class from a file; classes of one kind must share a category."""
    given = content.take("kinds", lambda value: isinstance(value, list) and len(value) == len(classes))
    need("kinds", all(isinstance(kind, str) for kind in given))
    kinds = as_kinds(dict(zip(map(str, classes), given, strict=True)), classes)
    need("kinds", bool((kinds.codes == categories.lookup[0]).all()))
    return kinds


def levels_from_content(content: Content, alpha: float, kinds: ClassKinds | None) -> tuple[float, ...] | None:
    """Read the alpha of each superclass ("kind") from a file; None if there is one. The largest must equal `alpha`."""
    given = None if kinds is None else content.take("levels")
    if given is None or kinds is None:
        return None
    need("levels", isinstance(given, list) and len(given) == len(kinds.names))
    need("levels", all(isinstance(level, float) and as_alpha(level) == level for level in given))
    need("alpha", max(given) == alpha)
    return tuple(given)


class WeightedScoresRule(Rule):
    """Base class of rules in which each calibration score, and each new object, has a weight."""

    scores: Vector

    def label_p_values(self, request: Request, score: Score, labels: Codes) -> Vector:
        scores = dispatch.label_scores(request.rows, labels, score, request.draws.u)
        return self._p(scores, request, labels, None)

    def class_p_values(self, request: Request, score: Score, use: Use) -> None:
        scores = dispatch.class_scores(request.rows, score, request.draws.u)
        classes = np.arange(request.rows.n_classes)

        def work(start: int, stop: int) -> None:
            use(start, self._p(scores[start:stop], request, classes, slice(start, stop)))

        dispatch.in_steps(work, request.rows.n, dispatch.TILE // (2 * request.rows.n_classes))

    def _p(self, scores: Vector, request: Request, labels: Codes, part: slice | None) -> Vector:
        """Return p-values of scores: of one label per row if `part` is None, else of all classes of the rows `part`."""
        own, total = self._object_weights(request, labels, part)
        p = self._tail(np.searchsorted(self.scores, scores, side="left"), own)
        if request.draws.v is None:
            return p
        v = request.draws.v if part is None else request.draws.v[part, None]
        above = self._tail(np.searchsorted(self.scores, scores, side="right"), own) - own / total
        smoothed: Vector = v * p + (1 - v) * above
        return smoothed

    def _object_weights(self, request: Request, labels: Codes, part: slice | None) -> tuple[Any, Any]:
        """Return the weight of each new object, and the total weight of the calibration rows and this object."""
        raise NotImplementedError

    def _tail(self, below: Codes, own: Any) -> Vector:
        """Return p-values of scores that exceed `below` calibration scores, for new objects with the weights `own`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class UnitsRule(WeightedScoresRule):
    """Rule for clustered rows with one threshold: each cluster ("unit") counts once, whatever its number of rows.

    With J units, and scores s_ji of the m_j rows in unit j, the threshold is the smallest s with Σ_{s_ji ≤ s} 1/m_j ≥
    (1 − alpha)(J + 1), or infinite if there is none. `scores` are sorted; `units` holds the unit of each score.
    Smoothed p-values are uniform if all units have one row.
    """

    scores: Vector
    units: Codes
    alpha: float

    @cached_property
    def n_units(self) -> int:
        """Number of units (clusters of calibration rows)."""
        return int(self.units.max()) + 1

    @cached_property
    def limits(self) -> Bounds:
        """Threshold: the largest calibration score (or infinity) whose p-value exceeds alpha."""
        place = (self._levels > self.alpha).sum() - 1
        return Bounds(np.array([[np.append(self.scores, np.inf)[place]]]))

    def bounds(self, request: Request) -> Bounds:
        return self.limits

    def _object_weights(self, request: Request, labels: Codes, part: slice | None) -> tuple[Any, Any]:
        return 1, self.n_units + 1

    def _tail(self, below: Codes, own: Any) -> Vector:
        return self._levels[below]

    @cached_property
    def _levels(self) -> Vector:
        return unit_p_values(self.units)

    def warn_of_infinite(self, predictor: Any) -> None:
        if note := too_few(self.n_units, self.alpha, "calibration units"):
            warn(note)

    def describe(self, predictor: Any) -> str:
        source = f"from {predictor.n_calibration:,} rows of {self.n_units:,} units"
        scope = ", for a row drawn at random from a new unit"
        return promise(predictor, float(self.limits.scores[0, 0]), source, "units", scope)

    def condition(self) -> str:
        return (
            "The units (groups of rows, such as the windows of a photograph) of the calibration and new units are "
            "exchangeable, such as independent draws; rows of one unit may depend on each other. A new row is drawn at "
            "random from a new unit. The classifier was not trained on rows of these units."
        )

    def variation(self, owner: Any, what: str = "Coverage", at_least: bool = False) -> str:
        k = quantile_rank(self.n_units, self.alpha)
        text = f"{what} is {variation_of(k, self.n_units, at_least)}"
        if self.n_units == owner.n_calibration or k > self.n_units:
            return f"{text}."
        return f"{text} if all rows of a unit are alike; else it usually varies less, but no distribution is known."

    def limits_of_guarantee(self, what: str = "Coverage", of: str = "of the sets of one size") -> str:
        return f"{what} within a single unit, such as a photograph, within a class, or {of}."

    def rows(self, owner: Any) -> str:
        return f"{owner.n_calibration:,} rows of {self.n_units:,} units"

    def facts(self, predictor: Any) -> tuple[str, ...]:
        examples = f"{self.n_units:,} units of {predictor.n_calibration:,} calibration examples"
        return f"threshold={self.limits.scores[0, 0]:.6g}", examples

    def n_effective(self, n: int) -> float:
        return self.n_units

    def picture(self) -> tuple[Vector | None, float | None]:
        return 1 / np.bincount(self.units)[self.units], float(self.limits.scores[0, 0])

    def content(self, scores: bool) -> dict[str, Any]:
        return {"kind": "units", "calibration_scores": self.scores.tolist(), "units": self.units.tolist()}


def units_rule(scores: Vector, units: ArrayLike, alpha: float) -> UnitsRule:
    """Create the rule for clustered rows from the score and the unit (cluster) of each calibration row."""
    codes, order = as_numbered_groups(units, len(scores), "units").codes, np.argsort(scores, kind="stable")
    return UnitsRule(read_only(scores[order]), read_only(codes[order].astype(np.int64)), alpha)


def units_from_content(content: Content, alpha: float, n: int, classes: Classes) -> UnitsRule:
    """Restore a rule for clustered rows from a file, and check that its entries are consistent."""
    scores = content.scores("calibration_scores", n)
    units = whole_numbers("units", content.take("units"), np.int64)
    need("units", units.shape == (n,) and bool(((units >= 0) & (units < n)).all()))
    need("units", np.array_equal(np.unique(units), np.arange(units.max() + 1)))
    return UnitsRule(scores, units, alpha)


@dataclass(frozen=True, eq=False)
class WeightedRule(WeightedScoresRule):
    """Rule with likelihood ratios as weights (covariate or label shift): a threshold per object or per class.

    The threshold of an object of weight w is the smallest calibration score s such that the scores up to s have at
    least a share 1 − alpha of all weights, including w; it is infinite if there is none. If weights depend on the class
    (label shift), there is a threshold per class. `scores` are sorted; `weights` holds their weights.
    """

    scores: Vector
    weights: Vector
    alpha: float

    takes = frozenset({"weights"})

    def bounds(self, request: Request) -> Bounds:
        assert request.weights is not None
        thresholds = self.thresholds(request.weights.ravel()).reshape(request.weights.shape)
        return Bounds(thresholds, np.arange(request.rows.n) if request.weights.shape[1] == 1 else None)

    def thresholds(self, weights: Vector) -> Vector:
        """Return the threshold of each object from its weight."""
        distinct, inverse = np.unique(weights, return_inverse=True)
        places = self._tails.reach(distinct, self.alpha)
        thresholds: Vector = np.append(self.scores, np.inf)[places][inverse]
        return thresholds

    def members(self, score: Score, request: Request) -> dispatch.Sets:
        bounds = self.bounds(request)
        sets = dispatch.members(request.rows, score, bounds, request.draws.u)
        self._warn_of_heavy(bounds, request)
        return sets

    def _warn_of_heavy(self, bounds: Bounds, request: Request) -> None:
        """Warn of objects or classes whose thresholds are infinite because of their large weights."""
        heavy = 0 if self.scores[-1] == np.inf else int(np.isinf(bounds.scores).sum())
        if heavy and bounds.group is None:
            first = request.classes[int(np.isinf(bounds.scores[0]).argmax())]
            warn(
                f"{heavy:,} of {len(request.classes):,} classes, {visible(first)} for one, weigh more than a share of "
                f"{self.alpha:g} of all weights: they are in every set. Calibrate on more rows of them."
            )
        elif heavy:
            warn(
                f"{heavy:,} of {request.rows.n:,} objects weigh more than a share of {self.alpha:g} of all weights: "
                "their sets hold all classes. Calibrate on more rows that are like them."
            )

    def _object_weights(self, request: Request, labels: Codes, part: slice | None) -> tuple[Any, Any]:
        assert request.weights is not None
        if request.weights.shape[1] > 1:  # the weight of an object follows from its class
            own = request.weights[0, labels]
        else:
            own = request.weights[:, 0] if part is None else request.weights[part]
        return own, self.weights.sum() + own

    def _tail(self, below: Codes, own: Any) -> Vector:
        return self._tails.p(below, np.broadcast_to(own, below.shape))

    @cached_property
    def _tails(self) -> Tails:
        return tails(self.weights)

    def describe(self, predictor: Any) -> str:
        n = predictor.n_calibration
        return (
            f"{predictor.score} with weights, from {n:,} rows worth {self.n_effective(n):,.0f}: "
            f"if the weights are correct, its sets contain the true class with probability at least "
            f"{100 * predictor.guarantee:g}%."
        )

    def condition(self) -> str:
        return (
            "The weights are the true likelihood ratios of the new to the calibration distribution, up to a common "
            "factor. Rows are independent. "
            f"{UNSEEN_ROWS}"
        )

    def variation(self, owner: Any, what: str = "Coverage", at_least: bool = False) -> str:
        n = round(self.n_effective(owner.n_calibration))
        text = variation_of(quantile_rank(n, self.alpha), n, at_least)
        return f"{what} is {text}, approximately: as with {n:,} rows of equal weight. No exact distribution is known."

    def rows(self, owner: Any) -> str:
        n = owner.n_calibration
        return f"{n:,} rows, worth {self.n_effective(n):,.0f} rows of equal weight"

    def facts(self, predictor: Any) -> tuple[str, ...]:
        n = predictor.n_calibration
        return (f"{n:,} calibration examples worth {self.n_effective(n):,.0f}",)

    def n_effective(self, n: int) -> float:
        """Return Kish's effective sample size, (Σw)²/Σw²."""
        scaled = self.weights / self.weights.max()
        return float(scaled.sum() ** 2 / (scaled**2).sum())

    def picture(self) -> tuple[Vector | None, float | None]:
        """Return the weights, and the threshold of an object with the mean weight."""
        return self.weights, float(self.thresholds(np.array([self.weights.mean()]))[0])

    def content(self, scores: bool) -> dict[str, Any]:
        return {"kind": "weighted", "calibration_scores": self.scores.tolist(), "weights": self.weights.tolist()}


def weighted_from_content(content: Content, alpha: float, n: int, classes: Classes) -> WeightedRule:
    """Restore a weighted rule from a file, and check that its entries are consistent."""
    scores = content.scores("calibration_scores", n)
    weights = content.numbers("weights")
    need("weights", len(weights) == n and bool(((weights >= 0) & (weights < np.inf)).all() and weights.any()))
    return WeightedRule(scores, weights, alpha)


def as_weights(weights: ArrayLike, n: int) -> Vector:
    """Check that there is one finite weight of at least 0 per row, and return the weights in float64."""
    checked = np.asarray(as_array(weights), dtype=np.float64)
    if checked.shape != (n,):
        raise InputError(f"Expected {n} weights, one per row, got shape {checked.shape}", "pass weights in row order")
    invalid = ~((checked >= 0) & (checked < np.inf))
    if invalid.any():
        row = int(invalid.argmax())
        what = f"has the weight {checked[row]}, expected a finite number of at least 0"
        raise InputError(what, "repair its likelihood ratio, or leave the row out", row=row)
    return checked


@checked_methods
class Calibrated(SavedWithScores):
    """Base class of conformal predictors and decision policies: alpha, Mondrian taxonomy, change of alpha by `at`."""

    alpha: float
    n_calibration: int
    classes: Classes
    _rule: Rule
    _sharpening: SharpeningStep | None

    @property
    def per(self) -> str | None:
        """Taxonomy: "class", "group", "class and group", "cluster", "rc3p", "interpolated", "kind", or None.

        "groups", "groups randomized" and "largest group" are for groups that may overlap.
        """
        return self._rule.per

    @property
    def groups(self) -> GroupNames | None:
        """Names of the groups with thresholds; None among them stands for all groups without calibration rows.

        With groups that may overlap, these are the combinations of groups among the calibration rows.
        """
        return self._rule.groups

    @property
    def levels(self) -> dict[str, float] | None:
        """Alpha of each superclass, {kind: alpha}; None if there is one alpha."""
        rule = self._rule
        if not isinstance(rule, MondrianRule) or rule.levels is None or rule.kinds is None:
            return None
        return dict(zip(rule.kinds.names, rule.levels, strict=True))

    def at(self, alpha: Level) -> Self:
        """Return the predictor or decider calibrated at another alpha, from the same calibration scores.

        Args:
            alpha: significance level (miscoverage); with superclasses ("kinds") one for all, or {kind: alpha}.

        Returns:
            The predictor or decider of that level.

        Raises:
            InputError: the object was saved without its calibration scores.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip")
        >>> predictor.at(0.05).alpha
        0.05
        """
        self._need_scores(f"has only alpha={self.alpha}")
        copied: Any = self
        rule, level = self._rule.at(alpha)
        # The recorded command calibrated another level, so it is not kept.
        record = None if self.provenance is None else replace(self.provenance, command="")
        calibrated: Self = replace(copied, alpha=level, _rule=rule, provenance=record)
        return warned(calibrated)

    @property
    def n_effective(self) -> float:
        """Effective sample size: number of independent rows of equal weight as informative as the calibration rows."""
        return self._rule.n_effective(self.n_calibration)

    @property
    def sharpeners(self) -> tuple[Any, ...]:
        """Sharpeners (recalibration maps) of the probabilities; empty without sharpening."""
        return () if self._sharpening is None else self._sharpening.sharpeners

    @property
    def _mixture(self) -> bool:
        """True if each row uses one of several sharpeners (recalibration maps) at random, with its own threshold."""
        return self._sharpening is not None and self._sharpening.combine == "mixture"

    def _mixture_content(self, scores: bool) -> dict[str, Any]:
        """Return the file content of a mixture: the contents of the predictors (or deciders), one per sharpener."""
        rule, copied = self._rule, cast("Any", self)
        assert isinstance(rule, MondrianRule)
        parts = []
        for k, sharpener in enumerate(self.sharpeners):
            start, stop = rule.categories.offsets[k : k + 2].tolist()
            own = None if rule.categories.scores is None else rule.categories.scores[start:stop]
            category = single_category(own, stop - start, len(self.classes))
            part = marginal_rule(category, float(rule.limits.scores[k, 0]))
            base = replace(copied, n_calibration=stop - start, _rule=part, _sharpening=None).content(scores)
            parts.append(self._sharpened_content(base, (sharpener,)))
        return {"kind": "sharpened mixture", "parts": parts}

    @staticmethod
    def _sharpened_content(base: dict[str, Any], sharpeners: tuple[Any, ...]) -> dict[str, Any]:
        """Add sharpeners (recalibration maps) to `base`, the file content of an object without them."""
        return {"kind": "sharpened", "base": base, "sharpeners": [sharpener.content() for sharpener in sharpeners]}

    def _condition(self) -> str:
        """Describe the condition of the guarantee for a card (answers about a saved object).

        It includes the recalibration of probabilities, if there are sharpeners (recalibration maps).
        """
        condition, step = self._rule.condition(), self._sharpening
        if step is None:
            return condition
        n, learned = len(step.sharpeners), step.sharpeners[0].out_of_fold.n
        one = f"The sharpener was fitted on {learned:,} other rows."
        several = f"Each of {n} sharpeners was fitted on about {learned:,} rows, none of which calibrate it."
        return f"{EXCHANGEABLE if step.combine == 'folds' else condition} {one if n == 1 else several}"

    def _variation(self, what: str = "Coverage", at_least: bool = False) -> str:
        """Describe for a card how coverage varies over calibration sets; unknown for a mixture of sharpeners."""
        rule = self._rule
        return Rule.variation(rule, self, what) if self._mixture else rule.variation(self, what, at_least)

    def _level(self, noun: str = "coverage") -> str:
        """Describe the significance level for a card (answers about a saved object)."""
        confidence = getattr(self._rule, "confidence", None)
        sure = "" if confidence is None else f", with a confidence of {share(confidence)} over calibrations"
        if self.levels is None:
            return f"alpha = {self.alpha:g}: {noun} of at least {share(1 - self.alpha)}{sure}"
        each = (f"alpha = {level:g} for {visible(kind)} ({share(1 - level)})" for kind, level in self.levels.items())
        return f"{', '.join(each)}{sure}"

    def _warn_of_infinite(self) -> None:
        """Warn of infinite thresholds, and of the number of calibration rows that they need."""
        self._rule.warn_of_infinite(self)

    def _need_scores(self, consequence: str) -> None:
        """Raise an InputError if the calibration scores were not saved; `consequence` completes the message."""
        if isinstance(self._rule, MondrianRule) and self._rule.categories.raw_scores is None:
            what = f"This {type(self).__name__} was saved without its calibration scores, so it {consequence}"
            raise InputError(what, "calibrate again, or save with scores=True")


def kind_levels(predictor: Any) -> tuple[KindLevel, ...]:
    """Return the superclasses ("kinds") of a predictor or decider with their requested shares; empty without kinds."""
    rule = getattr(predictor, "_rule", None)
    if not isinstance(rule, MondrianRule) or rule.kinds is None:
        return ()
    names, codes = rule.kinds
    levels = rule.levels or (predictor.alpha,) * len(names)
    each = enumerate(zip(names, levels, rule.categories.counts.tolist(), strict=True))
    return tuple(
        KindLevel(name, np.flatnonzero(codes == number), Requested(level, n, rule.confidence))
        for number, (name, level, n) in each
    )


def is_by_unit(predictor: Any) -> bool:
    """Return True if a predictor or decider was calibrated on clusters of rows ("units"), which count equally."""
    return isinstance(getattr(predictor, "_rule", None), UnitsRule)


def calibration_size(predictor: Any, n: int, n_units: int | None) -> int:
    """Return the effective calibration size in rows, or in clusters ("units") if n test rows form `n_units` clusters.

    A predictor that was calibrated on rows is assumed to have as many rows per cluster as these n rows.
    """
    size = float(getattr(predictor, "n_effective", predictor.n_calibration))
    if n_units is None or is_by_unit(predictor):
        return round(size)
    return max(1, round(size * n_units / n))


def warn_without_units(predictor: Any) -> None:
    """Warn if a predictor or decider calibrated with units (clusters of rows) is evaluated without units."""
    if is_by_unit(predictor):
        warn(
            "The predictor was calibrated with units, but these rows came without: the verdict treats them as "
            "independent. Pass units=, or a column group."
        )


def warned(predictor: Predictor) -> Predictor:
    """Warn if thresholds are infinite, and return the predictor."""
    predictor._warn_of_infinite()
    return predictor
