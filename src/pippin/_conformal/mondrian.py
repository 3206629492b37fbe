"""Mondrian taxonomies: calibration scores by category, and the threshold of each category.

A marginal predictor has one category, which holds all calibration scores. Other taxonomies have a category per class,
group, class and group, superclass ("kind") or cluster of classes. The score of class k of a row in group g is then
compared with the scores of the category `categories.lookup[g, k]`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.serialization import FieldsPickled
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds, SortedScores
from pippin._runtime.arrays import Classes, Codes, Indices, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._theory.level import (
    as_alpha,
    confident_examples,
    confident_rank,
    examples_needed,
    named,
    quantile_rank,
    warn_of_level,
)
from pippin._theory.spelling import INTERPOLATED, parse_interpolated
from pippin._validation.index import same_index
from pippin._validation.labels import MOST_CLASSES, Groups, as_groups, as_numbered_groups
from pippin._validation.rows import Rows, shortened

OVERLAPPING = ("groups", "groups randomized", "largest group")  # taxonomies of groups that may overlap
Per = Literal[
    "class",
    "group",
    "class and group",
    "cluster",
    "rc3p",
    "interpolated",
    "groups",
    "groups randomized",
    "largest group",
]
PER = tuple(per for per in get_args(Per) if per not in OVERLAPPING)
KIND = "kind"  # name of the taxonomy by superclasses, passed as {class: kind}
UNSEEN = ("error", "marginal")
GroupNames = tuple[str | int | None, ...]  # None stands for all groups without calibration rows
Level = float | Mapping[str, float]  # one alpha, or one per superclass ("kind")
CategoryLevels = float | tuple[float, ...]  # one alpha, or one per category


def threshold_rank(n: int, alpha: Any, confidence: float | None = None) -> int:
    """Compute the rank of the threshold among n scores: ⌈(n + 1)(1 − α)⌉, or a larger rank for a PAC guarantee.

    `confidence` is the probability over calibration sets that coverage is at least 1 − α; None without PAC guarantee.
    """
    return quantile_rank(n, alpha) if confidence is None else confident_rank(n, alpha, confidence)


def kth_smallest(scores: Vector, alpha: Any, confidence: float | None = None) -> float:
    """Return the threshold: the k-th smallest score with k from `threshold_rank`; infinity for fewer than k scores."""
    k = threshold_rank(len(scores), alpha, confidence)
    return math.inf if k > len(scores) else dispatch.smallest(scores, k)


@dataclass(frozen=True, eq=False)
class Categories(FieldsPickled):
    """Calibration scores by Mondrian category.

    Attributes:
        lookup: `lookup[g, k]` is the category of class k in group g.
        offsets: start of each category in the scores, followed by the number of all scores.
        raw_scores: the scores, category after category; None if the predictor was saved without them. Each category
            is sorted, unless there is only one.
        ranks: for RC3P the rank (from 1) of the label of each score.

    >>> scores, labels = np.array([0.3, 0.1, 0.2]), np.array([1, 0, 1])
    >>> categories = sort_into_categories(scores, labels, np.array([[0, 1]]))
    >>> categories.scores, categories.counts
    (array([0.1, 0.2, 0.3]), array([1, 2]))
    >>> categories.thresholds(0.4)
    array([inf, 0.3])
    """

    lookup: Indices
    offsets: Codes
    raw_scores: Vector | None
    ranks: Indices | None = None

    @cached_property
    def scores(self) -> Vector | None:
        """Scores, category after category, each category sorted."""
        if self.raw_scores is None or len(self.offsets) > 2:
            return self.raw_scores
        return read_only(np.sort(self.raw_scores))

    @property
    def counts(self) -> Codes:
        """Number of calibration rows in each category."""
        return np.diff(self.offsets)

    @cached_property
    def held(self) -> SortedScores:
        """Sorted scores with `lookup` and `offsets`, in the form that the engines take to compute p-values."""
        assert self.scores is not None
        return SortedScores(self.lookup, self.offsets, self.scores)

    def quantile_ranks(self, alpha: CategoryLevels, confidence: float | None = None) -> Codes:
        """Compute the rank of each category's threshold among the scores of the category, by `threshold_rank`."""
        counts = self.counts.tolist()
        levels = alpha if isinstance(alpha, tuple) else (as_alpha(alpha),) * len(counts)
        pairs = list(zip(counts, levels, strict=True))
        ranks = {pair: threshold_rank(*pair, confidence) for pair in set(pairs)}
        return np.array([ranks[pair] for pair in pairs], dtype=np.int64)

    def needed(self, alpha: CategoryLevels, confidence: float | None = None) -> Codes:
        """Compute for each category the smallest number of calibration rows that gives a finite threshold."""
        levels = alpha if isinstance(alpha, tuple) else (alpha,)
        least = [examples_needed(a) if confidence is None else confident_examples(a, confidence) for a in levels]
        return np.broadcast_to(np.array(least, dtype=np.int64), len(self.counts))

    def thresholds(self, alpha: CategoryLevels, confidence: float | None = None) -> Vector:
        """Compute the threshold of each category: its k-th smallest score, or infinity for fewer than k scores."""
        assert self.raw_scores is not None
        if len(self.offsets) == 2:
            level = alpha[0] if isinstance(alpha, tuple) else alpha
            return np.array([kth_smallest(self.raw_scores, level, confidence)])
        k, counts = self.quantile_ranks(alpha, confidence), self.counts
        thresholds = np.full(len(counts), np.inf)
        enough = k <= counts
        thresholds[enough] = self.raw_scores[(self.offsets[:-1] + k - 1)[enough]]
        return thresholds


def sort_into_categories(
    scores: Vector, category: NDArray[np.integer], lookup: NDArray[np.integer], ranks: NDArray[np.integer] | None = None
) -> Categories:
    """Sort scores by category, and within each category by value; `category` holds the category of each score."""
    n_categories = int(lookup.max()) + 1
    order = np.lexsort((scores, category))
    offsets = np.zeros(n_categories + 1, dtype=np.int64)
    np.cumsum(np.bincount(category, minlength=n_categories), out=offsets[1:])
    sorted_ranks = None if ranks is None else read_only(ranks[order].astype(np.int32))
    return Categories(read_only(lookup.astype(np.int32)), read_only(offsets), read_only(scores[order]), sorted_ranks)


def single_category(scores: Vector | None, n: int, n_classes: int) -> Categories:
    """Create the only category of a marginal predictor: n scores, in any order, for all classes."""
    lookup = read_only(np.zeros((1, n_classes), dtype=np.int32))
    return Categories(lookup, np.array([0, n]), None if scores is None else read_only(scores))


class CategoryAssignment(NamedTuple):
    """Assignment of calibration rows, and of the classes of new rows, to Mondrian categories by class and group.

    A calibration row of class y in group g is in the category `group_step * g + class_category[y]`, where g is 0
    without groups.

    If `pooled` is not None, further categories pool the rows of all groups (or of all clusters), and `pooled` is the
    number of the first. Then each row is in its own category and in a pooled one, unless both are the same.

    Attributes:
        lookup: `lookup[g, k]` is the category whose scores class k in group g is compared with.
        class_category: the category of each class in group 0.
        group_step: the number of categories per group.
        pooled: the first category that pools the rows of all groups or clusters, or None.
        by_class: True if the category depends on the class.
    """

    lookup: Indices
    class_category: Codes
    group_step: int = 0
    pooled: int | None = None
    by_class: bool = True

    def __call__(self, scores: Vector, labels: Codes, group: Codes | None) -> tuple[Vector, Codes]:
        """Return the scores and the category of each; a score that is in two categories occurs twice."""
        within = self.class_category[labels] if self.by_class else np.zeros(len(scores), dtype=np.int64)
        category = within if group is None else group * self.group_step + within
        if self.pooled is None:
            return scores, category
        first = category < self.pooled
        again = np.broadcast_to(self.pooled + (within if self.group_step > 1 else 0), len(scores))
        return np.concatenate([scores[first], scores]), np.concatenate([category[first], again])

    def categories(
        self, scores: Vector, labels: Codes, group: Codes | None, ranks: Indices | None = None
    ) -> Categories:
        """Sort the calibration scores into their categories."""
        return sort_into_categories(*self(scores, labels, group), self.lookup, ranks)


class ClassKinds(NamedTuple):
    """Superclasses ("kinds"), such as crop and weed: their names, and `codes`, the superclass index of each class."""

    names: tuple[str, ...]
    codes: Codes

    def per_class(self) -> list[str]:
        """Return the superclass of each class, by name."""
        return [self.names[code] for code in self.codes]


def as_kinds(kinds: Mapping[Any, str], classes: Classes) -> ClassKinds:
    """Convert {class: kind} to superclasses ("kinds"); raise an InputError unless the keys are the given classes.

    >>> as_kinds({"maize": "crop", "charlock": "weed", "wheat": "crop"}, ("charlock", "maize", "wheat"))
    ClassKinds(names=('weed', 'crop'), codes=array([0, 1, 1]))
    """
    each = [str(kind) for kind in by_class(kinds, classes, "a kind")]
    names = tuple(dict.fromkeys(each))
    return ClassKinds(names, read_only(np.array([names.index(kind) for kind in each], dtype=np.int64)))


def by_class(values: Mapping[Any, Any], classes: Classes, what: str) -> list[Any]:
    """Return the value of each class; raise an InputError unless the keys of `values` are exactly these classes.

    Args:
        what: the value in words with its article, for error messages.

    >>> by_class({"weed": 1, "crop": 2}, ("crop", "weed"), "a cost")
    [2, 1]
    """
    by_name, names = by_text(values), [str(name) for name in islice(classes, MOST_CLASSES)]
    of_classes = f"{len(names)} classes ({shortened(classes)})"
    if missing := [name for name in names if name not in by_name]:
        raise InputError(f"Expected {what} for each of the {of_classes}, got none for {missing[0]!r}", "add it")
    if unknown := set(by_name) - set(names):
        what = f"Got {what} for {min(unknown)!r}, which is none of the {of_classes}"
        raise InputError(what, "correct its name, or leave it out")
    return [by_name[name] for name in names]


def by_text(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the mapping with keys as text, so that the class 1 may be spelled "1".

    >>> by_text({1: "crop", "1": "weed"})
    Traceback (most recent call last):
    pippin._runtime.errors.InputError: Expected different names, got two entries that are spelled '1': leave one of
    them out.
    """
    by_name: dict[str, Any] = {}
    for name, value in mapping.items():
        if str(name) in by_name:
            what = f"Expected different names, got two entries that are spelled {str(name)!r}"
            raise InputError(what, "leave one of them out")
        by_name[str(name)] = value
    return by_name


def as_levels(alpha: Any, kinds: ClassKinds | None) -> tuple[float, tuple[float, ...] | None]:
    """Validate alpha, or {kind: alpha} for superclasses; return the largest level, and all levels or None.

    >>> as_levels({"crop": 0.1, "weed": 0.05}, ClassKinds(("weed", "crop"), np.array([0, 1])))
    (0.1, (0.05, 0.1))
    """
    if not isinstance(alpha, Mapping):
        return as_alpha(alpha), None
    if kinds is None:
        what = "Expected one alpha, got one per kind without kinds of classes"
        raise InputError(what, "pass per={class: kind} too, or one alpha")
    if missing := [name for name in kinds.names if name not in alpha]:
        raise InputError(f"Expected an alpha for every kind, got none for {missing[0]!r}", "add it")
    if unknown := [name for name in alpha if name not in kinds.names]:
        what = f"Expected an alpha for each of the kinds {', '.join(kinds.names)}, got one for {unknown[0]!r}"
        raise InputError(what, "correct its name")
    levels = tuple(as_alpha(alpha[name]) for name in kinds.names)
    return max(levels), levels


def warn_of_levels(alpha: Any) -> None:
    """Warn of each alpha above 0.5, which is probably a confidence level."""
    for level in alpha.values() if isinstance(alpha, Mapping) else (alpha,):
        warn_of_level(as_alpha(level))


class ScoredLabels(NamedTuple):
    """Calibration rows: scores of the true labels, labels, groups, and for RC3P the ranks of the labels (from 1)."""

    scores: Vector
    labels: Codes
    groups: Groups | None = None
    ranks: Indices | None = None


class Taxonomy(NamedTuple):
    """Mondrian taxonomy as passed to `calibrate`: `per`, the group of each row, and the policy for new groups.

    With `per=None` there is one category, as for a marginal predictor.
    """

    per: str | Mapping[Any, str] | None = None
    groups: ArrayLike | None = None
    unseen: str = "error"

    @property
    def name(self) -> str | None:
        """Name of the taxonomy without parameters; "kind" for {class: kind}, None for one category."""
        if parse_interpolated(self.per):
            return INTERPOLATED
        return self.per if self.per is None or isinstance(self.per, str) else KIND

    def check(self) -> None:
        """Raise an InputError if per, groups and unseen contradict each other."""
        per, groups, unseen = self.name or "", self.groups, self.unseen
        if per in OVERLAPPING:
            what = f"Expected per={per!r} for prediction sets of rows in memory only, got it elsewhere"
            raise InputError(what, "use pippin.calibrate with arrays")
        if not (self.per is None or isinstance(self.per, Mapping) or (isinstance(self.per, str) and per in PER)):
            known = ", ".join(map(repr, PER))
            raise InputError(f"Expected per to be one of {known}, or {{class: kind}}, got {self.per!r}")
        if unseen not in UNSEEN:
            raise InputError(f"Expected unseen to be 'error' or 'marginal', got {unseen!r}")
        if unseen != "error" and groups is None:
            what = f"Expected groups with unseen={unseen!r}, got none"
            raise InputError(what, "pass groups=, one per row, or leave unseen= out")
        if ("group" in per) != (groups is not None):
            if groups is None:
                raise InputError(f"Expected groups with per={per!r}, got none", "pass groups=, one per row")
            what = f"Expected no groups with per={self.per!r}, got some"
            raise InputError(what, "leave groups= out, or pass per='class and group'")

    def numbered_groups(self, rows: Rows) -> Groups | None:
        """Check the taxonomy, and return the groups of the rows as numbers with names; None without groups."""
        if self.per is None:  # `as_taxonomy` sets per="group" if there are groups
            return None
        self.check()
        if self.groups is None:
            return None
        same_index("probs", rows.index, groups=self.groups)
        shape = np.shape(self.groups)
        if len(shape) == 2 and shape[1] > 1:
            what = f"Expected one group per row with per={self.name!r}, got shape {shape}"
            raise InputError(what, "pass per='groups' for groups that may overlap")
        return as_numbered_groups(self.groups, rows.n)

    def assign(
        self, classes: Classes, names: tuple[str | int, ...] | None
    ) -> tuple[CategoryAssignment, GroupNames | None, ClassKinds | None]:
        """Assign classes and groups to categories; return the assignment, the names of groups, and the superclasses.

        `names` holds the names of the groups of the calibration rows; None without groups.
        """
        if isinstance(self.per, Mapping):
            kinds = as_kinds(self.per, classes)
            return CategoryAssignment(kinds.codes[None].astype(np.int32), kinds.codes), None, kinds
        n = len(classes)
        if names is None:
            return CategoryAssignment(np.arange(n, dtype=np.int32)[None], np.arange(n)), None, None
        group_names: GroupNames = (*names, None) if self.unseen == "marginal" else names
        step = 1 if self.per == "group" else n  # number of categories per group; those for unseen groups come last
        lookup = np.arange(len(group_names) * step, dtype=np.int32).reshape(len(group_names), step)
        lookup = np.broadcast_to(lookup, (len(group_names), n))
        pooled = len(names) * step if self.unseen == "marginal" else None
        return CategoryAssignment(lookup, np.arange(n), step, pooled, self.per != "group"), group_names, None

    def categorize(
        self, scored: ScoredLabels, classes: Classes
    ) -> tuple[Categories, GroupNames | None, ClassKinds | None]:
        """Sort scores into categories; return these, the names of the groups with thresholds, and the superclasses."""
        scores, labels, groups, ranks = scored
        if self.per is None:
            return single_category(scores, len(scores), len(classes)), None, None
        codes, names = groups or (None, None)
        assignment, group_names, kinds = self.assign(classes, names)
        return assignment.categories(scores, labels, codes, ranks), group_names, kinds


def as_taxonomy(per: Any, groups: Any, unseen: str) -> Taxonomy:
    """Create the taxonomy from keywords of `calibrate`; groups without `per` mean `per="group"`."""
    by_group = per is None and (groups is not None or unseen != "error")
    return Taxonomy("group" if by_group else per, groups, unseen)


def rc3p_limits(categories: Categories, alpha: float) -> Bounds:
    """Return the bounds of RC3P on the score and the rank of each class (Shi et al. 2024); each class is a category.

    A class y is in the set if its score is at most q(y) and its rank at most r(y). With k = ⌈(n + 1)(1 − α)⌉, the two
    limits may exclude A = n − k of the n calibration examples of y. The rank limit r(y) is the k-th smallest rank of
    these examples. If it excludes m of them, the score limit q(y) excludes A − m more. There is one exception: if
    exactly A + 1 examples have a rank of at least r(y), a single further example could lower r(y), so q(y) is infinite.
    With this exception, coverage of every class is at least 1 − α for any scores. A class with fewer than k examples
    has neither limit.

    >>> scores, ranks = np.arange(9) / 10, np.array([1, 1, 1, 1, 1, 1, 1, 2, 3])
    >>> categories = sort_into_categories(scores, np.zeros(9, dtype=int), np.array([[0, 1]]), ranks)
    >>> rc3p_limits(categories, 0.3)
    Bounds(scores=array([[0.8, inf]]), group=None, ranks=array([[1, 2]], dtype=int32))
    >>> rc3p_limits(categories, 0.2)
    Bounds(scores=array([[inf, inf]]), group=None, ranks=array([[2, 2]], dtype=int32))
    """
    assert categories.scores is not None
    assert categories.ranks is not None
    scores = np.full(len(categories.counts), np.inf)
    ranks = np.full(len(categories.counts), categories.lookup.shape[1], dtype=np.int32)
    for category, k in enumerate(categories.quantile_ranks(alpha).tolist()):
        start, stop = categories.offsets[category : category + 2].tolist()
        if k > stop - start:
            continue
        class_ranks = np.sort(categories.ranks[start:stop])
        ranks[category] = class_ranks[k - 1]
        n_below, n_within = (int(np.searchsorted(class_ranks, class_ranks[k - 1], side)) for side in ("left", "right"))
        if n_below < k - 1:  # the score limit excludes the n_within − k examples that the rank limit may not
            scores[category] = categories.scores[stop - 1 - (n_within - k)]
    return Bounds(scores[categories.lookup], None, ranks[categories.lookup])


def group_codes(names: GroupNames | None, per: str, groups: ArrayLike | None, n: int) -> Codes | None:
    """Return for each object the index of its group, which is its row in the thresholds; None without groups.

    The names 1 and "1" stand for one group.

    Args:
        names: names of the groups with thresholds, or None.
        per: the taxonomy, for error messages.
        groups: the group of each object.
        n: the number of objects.

    Raises:
        InputError: groups are missing, superfluous, or without calibration rows.
    """
    if names is None:
        if groups is not None:
            what = f"Expected no groups for a predictor with thresholds per {per}, got some"
            raise InputError(what, 'leave groups= out, or calibrate with per="group"')
        return None
    if groups is None:
        in_files = "add an array groups (.npz) or a column group (.csv, .parquet) to the data"
        raise InputError(f"Expected groups for thresholds per {per}, got none", "pass groups=, one per row", in_files)
    values = as_groups(groups, n)
    numbers = {name: code for code, name in enumerate(names)}
    other = numbers.pop(None, -1)
    numbers |= {str(name): code for name, code in numbers.items()}
    codes = np.array([numbers.get(name, numbers.get(str(name), other)) for name in values.tolist()], dtype=np.int64)
    if (codes < 0).any():
        row = int((codes < 0).argmax())
        what = f"is in the group {values[row].item()!r}, which has no calibration rows"
        remedy = "calibrate with such rows, or with {} for a threshold of all groups together"
        raise InputError(what, remedy.format('unseen="marginal"'), remedy.format("--unseen marginal"), row)
    return codes


def describe_infinite_thresholds(
    conditional: Any, owner: Any, what: str, of_kinds: str, of_others: str, confidence: float | None = None
) -> str | None:
    """Describe the categories with too few rows for a finite threshold, and the consequence; None if there are none.

    Args:
        conditional: a rule or decider, with the attributes categories, kinds (superclasses), levels, per and groups.
        owner: the predictor or decider, with alpha and classes.
        what: the word for what is infinite, such as "thresholds".
        of_kinds: the consequence in words, if categories are superclasses ("kinds").
        of_others: the consequence in words, for other categories.
        confidence: the probability over calibration sets, if the guarantee has one.
    """
    categories, kinds, alpha = conditional.categories, conditional.kinds, owner.alpha
    counts, needed = categories.counts, categories.needed(conditional.levels or alpha, confidence)
    few = np.flatnonzero(counts < needed)
    if not len(few):
        return None
    if kinds is not None:
        each = zip(kinds.names, counts.tolist(), needed.tolist(), strict=True)
        lacking = [f"{name} has {n:,} and needs {least:,}" for name, n, least in each if n < least]
        return (
            f"{len(lacking):,} of {len(kinds.names):,} thresholds are infinite, by too few calibration examples: "
            f"{', '.join(lacking)}. {of_kinds}: collect more."
        )
    classes = None if conditional.per == "group" else owner.classes
    names = named(few, counts, categories.lookup, classes, conditional.groups, conditional.per == "cluster")
    return (
        f"{len(few):,} of {len(counts):,} {what} are infinite, because alpha={alpha:g} needs "
        f"{needed[0]:,} calibration examples each: {names}. {of_others}."
    )
