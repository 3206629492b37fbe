"""Mondrian taxonomies: calibration scores by category, and the thresholds of each.

A marginal predictor has one cell, which holds all calibration scores. With a taxonomy per class, group, class and
group, kind of classes or cluster of classes, class k of an object in group g is compared with the scores of its own
cell, `cells.of[g, k]`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._engine import dispatch
from pippin._engine.protocol import Bounds, Held
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
from pippin._validation.index import same_index
from pippin._validation.labels import Labelled, as_groups, as_numbered_groups
from pippin._validation.rows import shortened

Per = Literal["class", "group", "class and group", "cluster", "rc3p"]
PER: tuple[str, ...] = get_args(Per)
KIND = "kind"  # name of a taxonomy given as {class: kind}
UNSEEN = ("error", "marginal")
GroupNames = tuple[str | int | None, ...]  # None stands for every group that calibration did not see
Level = float | Mapping[str, float]  # one alpha, or one for every kind
Levels = float | tuple[float, ...]  # one alpha, or one for every cell


def threshold_rank(n: int, alpha: Any, confidence: float | None = None) -> int:
    """Return k = ⌈(n + 1)(1 − α)⌉; with `confidence` the k that covers 1 − α in that share of calibration sets."""
    return quantile_rank(n, alpha) if confidence is None else confident_rank(n, alpha, confidence)


def kth_smallest(scores: Vector, alpha: Any, confidence: float | None = None) -> float:
    """Return the k-th smallest score for the k of `threshold_rank`, or infinity if there are fewer scores."""
    k = threshold_rank(len(scores), alpha, confidence)
    return math.inf if k > len(scores) else dispatch.smallest(scores, k)


@dataclass(frozen=True, eq=False)
class Cells:
    """Calibration scores by cell.

    Attributes:
        of: `of[g, k]` is the cell of class k in group g.
        offsets: where each cell begins in `scores`; one more entry than there are cells.
        given: the scores cell by cell; None if a file left them out. Each cell is sorted, unless there is only one.
        ranks: the ranks (from 1) of the same labels, for RC3P.

    >>> cells = make_cells(np.array([0.3, 0.1, 0.2]), np.array([1, 0, 1]), np.array([[0, 1]]))
    >>> cells.scores, cells.counts
    (array([0.1, 0.2, 0.3]), array([1, 2]))
    >>> cells.thresholds(0.4)
    array([inf, 0.3])
    """

    of: Indices
    offsets: Codes
    given: Vector | None
    ranks: Indices | None = None

    @cached_property
    def scores(self) -> Vector | None:
        """Sorted scores of each cell, cell by cell."""
        if self.given is None or len(self.offsets) > 2:
            return self.given
        return read_only(np.sort(self.given))

    @property
    def counts(self) -> Codes:
        """Number of calibration rows in each cell."""
        return np.diff(self.offsets)

    @property
    def n_groups(self) -> int:
        return int(self.of.shape[0])

    @cached_property
    def held(self) -> Held:
        """Cells as the engines take them."""
        assert self.scores is not None
        return Held(self.of, self.offsets, self.scores)

    def __getstate__(self) -> dict[str, Any]:
        return {"of": self.of, "offsets": self.offsets, "given": self.given, "ranks": self.ranks}

    def quantile_ranks(self, alpha: Levels, confidence: float | None = None) -> Codes:
        """Return k = ⌈(n + 1)(1 − α)⌉ of every cell."""
        if isinstance(alpha, tuple):
            levels = zip(self.counts.tolist(), alpha, strict=True)
            return np.array([threshold_rank(n, level, confidence) for n, level in levels], dtype=np.int64)
        sizes, where = np.unique(self.counts, return_inverse=True)
        return np.array([threshold_rank(n, alpha, confidence) for n in sizes.tolist()], dtype=np.int64)[where]

    def needed(self, alpha: Levels, confidence: float | None = None) -> Codes:
        """Return the smallest number of rows that gives each cell a finite threshold."""
        levels = alpha if isinstance(alpha, tuple) else (alpha,)
        least = [examples_needed(one) if confidence is None else confident_examples(one, confidence) for one in levels]
        return np.broadcast_to(np.array(least, dtype=np.int64), len(self.counts))

    def thresholds(self, alpha: Levels, confidence: float | None = None) -> Vector:
        """Return the k-th smallest score of each cell, infinite where a cell has fewer than k."""
        assert self.given is not None
        if len(self.offsets) == 2:
            return np.array([kth_smallest(self.given, alpha[0] if isinstance(alpha, tuple) else alpha, confidence)])
        k, counts = self.quantile_ranks(alpha, confidence), self.counts
        thresholds = np.full(len(counts), np.inf)
        enough = k <= counts
        thresholds[enough] = self.given[(self.offsets[:-1] + k - 1)[enough]]
        return thresholds


def make_cells(
    scores: Vector, cell: NDArray[np.integer], of: NDArray[np.integer], ranks: NDArray[np.integer] | None = None
) -> Cells:
    """Sort scores into their cells."""
    n_cells = int(of.max()) + 1
    order = np.lexsort((scores, cell))
    offsets = np.zeros(n_cells + 1, dtype=np.int64)
    np.cumsum(np.bincount(cell, minlength=n_cells), out=offsets[1:])
    sorted_ranks = None if ranks is None else read_only(ranks[order].astype(np.int32))
    return Cells(read_only(of.astype(np.int32)), read_only(offsets), read_only(scores[order]), sorted_ranks)


def one_cell(scores: Vector | None, n: int, n_classes: int) -> Cells:
    """Return the cell of a marginal predictor: n scores, in any order, for every class."""
    return Cells(_one_cell(n_classes), np.array([0, n]), None if scores is None else read_only(scores))


@lru_cache(maxsize=16)
def _one_cell(n_classes: int) -> Indices:
    return read_only(np.zeros((1, n_classes), dtype=np.int32))


class Placement(NamedTuple):
    """Rule that assigns rows to cells by class and group, and the table `of` that looks cells up.

    A row of group g (0 without groups) and class y is in cell g·each + own[y]. The cells from `extra` on hold all
    rows once more; a row whose own cell is one of them is there once.
    """

    of: Indices
    own: Codes
    each: int = 0
    extra: int | None = None
    by_class: bool = True

    def __call__(self, scores: Vector, labels: Codes, group: Codes | None) -> tuple[Vector, Codes]:
        """Return scores and their cells, followed by those of the extra cells."""
        within = self.own[labels] if self.by_class else np.zeros(len(scores), dtype=np.int64)
        cell = within if group is None else group * self.each + within
        if self.extra is None:
            return scores, cell
        first = cell < self.extra
        again = np.broadcast_to(self.extra + (within if self.each > 1 else 0), len(scores))
        return np.concatenate([scores[first], scores]), np.concatenate([cell[first], again])

    def cells(self, scores: Vector, labels: Codes, group: Codes | None, ranks: Indices | None = None) -> Cells:
        """Sort all calibration scores into their cells."""
        return make_cells(*self(scores, labels, group), self.of, ranks)


def by_class(n_classes: int) -> Placement:
    """Return the placement with one cell per class."""
    return Placement(np.arange(n_classes, dtype=np.int32)[None], np.arange(n_classes))


def by_group(n_groups: int, n_classes: int, and_class: bool, unseen: str) -> Placement:
    """Return the placement with one cell per group, or per class and group, and extra cells for unseen groups."""
    each, more = n_classes if and_class else 1, unseen == "marginal"
    of = np.arange((n_groups + more) * each, dtype=np.int32).reshape(n_groups + more, each)
    every = np.broadcast_to(of, (n_groups + more, n_classes))
    return Placement(every, np.arange(n_classes), each, n_groups * each if more else None, and_class)


class Kinds(NamedTuple):
    """Kinds of classes, such as crop and weed: their names in the order of their first class, and each class's kind."""

    names: tuple[str, ...]
    of: Codes

    def by_class(self) -> list[str]:
        """Return the name of each class's kind."""
        return [self.names[k] for k in self.of]


def as_kinds(kinds: Mapping[Any, str], classes: Classes) -> Kinds:
    """Return the kind of every class.

    Raises:
        InputError: a class has no kind, or a kind is given for something that is no class.

    >>> as_kinds({"maize": "crop", "charlock": "weed", "wheat": "crop"}, ("charlock", "maize", "wheat"))
    Kinds(names=('weed', 'crop'), of=array([0, 1, 1]))
    """
    known = by_text(kinds)
    for name in map(str, classes):
        if name not in known:
            raise InputError(
                f"Expected a kind for each of the {len(classes)} classes ({shortened(classes)}), got none for {name!r}",
                "name its kind too",
            )
    if strange := set(known) - set(map(str, classes)):
        raise InputError(
            f"Got a kind for {min(strange)!r}, which is none of the {len(classes)} classes ({shortened(classes)})",
            "correct its name, or leave it out",
        )
    each = [str(known[str(name)]) for name in classes]
    names = tuple(dict.fromkeys(each))
    return Kinds(names, read_only(np.array([names.index(kind) for kind in each], dtype=np.int64)))


def by_text(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the mapping with keys as text, so that the class 1 may be spelled "1".

    >>> by_text({1: "crop", "1": "weed"})
    Traceback (most recent call last):
    pippin._runtime.errors.InputError: Got two entries that are spelled '1': leave one of them out.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if str(name) in found:
            raise InputError(f"Got two entries that are spelled {str(name)!r}", "leave one of them out")
        found[str(name)] = value
    return found


def as_levels(alpha: Any, kinds: Kinds | None) -> tuple[float, ...] | None:
    """Return the alpha of every kind; None if one alpha serves all.

    Raises:
        InputError: levels by kind without kinds, a kind without a level, or a level of no kind.
    """
    if not isinstance(alpha, Mapping):
        as_alpha(alpha)
        return None
    if kinds is None:
        raise InputError(
            "Expected one alpha, got one per kind where there are no kinds", "pass per={class: kind} too, or one alpha"
        )
    if missing := [name for name in kinds.names if name not in alpha]:
        raise InputError(f"Expected an alpha for every kind, got none for {missing[0]!r}", "add it")
    if strange := [name for name in alpha if name not in kinds.names]:
        raise InputError(
            f"Got an alpha for {strange[0]!r}, which is none of the kinds ({', '.join(kinds.names)})",
            "correct its name",
        )
    return tuple(as_alpha(alpha[name]) for name in kinds.names)


def as_level(alpha: Any, kinds: Kinds | None) -> tuple[float, tuple[float, ...] | None]:
    """Return alpha and the alphas of the kinds; where kinds have their own, alpha is the largest of them.

    >>> as_level({"crop": 0.1, "weed": 0.05}, Kinds(("weed", "crop"), np.array([0, 1])))
    (0.1, (0.05, 0.1))
    """
    levels = as_levels(alpha, kinds)
    return as_alpha(alpha) if levels is None else max(levels), levels


def warn_of_levels(alpha: Any) -> None:
    """Warn of an alpha, or of the alpha of a kind, that is probably a confidence level."""
    for level in alpha.values() if isinstance(alpha, Mapping) else (alpha,):
        if (share := as_alpha(level)) > 0.5:
            warn_of_level(share)


class Taxonomy(NamedTuple):
    """Categories with a threshold of their own, the group of each row, and the policy for unseen groups."""

    per: str | Mapping[Any, str]
    groups: ArrayLike | None = None
    unseen: str = "error"

    @property
    def name(self) -> str:
        """Name of the taxonomy; "kind" for {class: kind}."""
        return self.per if isinstance(self.per, str) else KIND

    def check(self) -> None:
        """Raise an InputError if per, groups and unseen contradict each other."""
        per, groups, unseen = self.name, self.groups, self.unseen
        if isinstance(self.per, str) and per not in PER:
            raise InputError(f"Expected per to be one of {', '.join(map(repr, PER))}, or {{class: kind}}, got {per!r}")
        if unseen not in UNSEEN:
            raise InputError(f"Expected unseen to be 'error' or 'marginal', got {unseen!r}")
        if unseen != "error" and groups is None:
            raise InputError(
                f"Expected groups beside unseen={unseen!r}, got none",
                "pass groups=, one per row, or leave unseen= out",
            )
        if ("group" in per) != (groups is not None):
            got = "no groups" if groups is None else "groups"
            raise InputError(
                f"Expected groups where thresholds are per group and only there, got per={per!r} and {got}",
                "pass groups=, one per row" if groups is None else "leave groups= out, or ask per='class and group'",
            )

    def places(self, classes: Classes, names: tuple[str | int, ...] | None) -> "ResolvedTaxonomy":
        """Return the placement of rows per class, kind, group, or class and group; `names` are those of the groups."""
        if not isinstance(self.per, str):
            kinds = as_kinds(self.per, classes)
            return ResolvedTaxonomy(Placement(kinds.of[None].astype(np.int32), kinds.of), None, kinds)
        if names is None:
            return ResolvedTaxonomy(by_class(len(classes)), None, None)
        known: GroupNames = (*names, None) if self.unseen == "marginal" else names
        return ResolvedTaxonomy(by_group(len(names), len(classes), "class" in self.per, self.unseen), known, None)


class ResolvedTaxonomy(NamedTuple):
    """Placement of calibration rows, names of the groups, and kinds of the classes, where there are any."""

    placement: Placement
    groups: GroupNames | None
    kinds: Kinds | None


def cells_by(taxonomy: Taxonomy, scores: Vector, data: Labelled) -> tuple[Cells, GroupNames | None, Kinds | None]:
    """Sort scores into the cells of a taxonomy; return the cells, the groups and the kinds."""
    taxonomy.check()
    rows, labels, classes = data
    same_index("probs", rows.index, groups=taxonomy.groups)
    groups = None if taxonomy.groups is None else as_numbered_groups(taxonomy.groups, rows.n)
    codes, names = (None, None) if groups is None else groups
    placement, known, kinds = taxonomy.places(classes, names)
    return placement.cells(scores, labels, codes), known, kinds


def rc3p_limits(cells: Cells, alpha: float) -> Bounds:
    """Return the bounds of RC3P on score and rank of every class (Shi et al. 2024); each class is a cell.

    A class y is in the set if its score is at most q(y) and its rank at most k(y). Of n examples a class may lose
    A = n − k, with k = ⌈(n + 1)(1 − α)⌉. The rank limit is the smallest that loses no more: the k-th smallest rank.
    If it loses m, the score may lose the other A − m. If exactly A + 1 examples reach the rank limit, one example
    more could lower it, and the score has no limit: then every class is covered with probability at least 1 − α
    whatever the scores are. A class too rare for k has no limit.

    >>> scores, ranks = np.arange(9) / 10, np.array([1, 1, 1, 1, 1, 1, 1, 2, 3])
    >>> cells = make_cells(scores, np.zeros(9, dtype=int), np.array([[0, 1]]), ranks)
    >>> rc3p_limits(cells, 0.3)
    Bounds(scores=array([[0.8, inf]]), group=None, ranks=array([[1, 2]], dtype=int32))
    >>> rc3p_limits(cells, 0.2)
    Bounds(scores=array([[inf, inf]]), group=None, ranks=array([[2, 2]], dtype=int32))
    """
    assert cells.scores is not None
    assert cells.ranks is not None
    scores = np.full(len(cells.counts), np.inf)
    ranks = np.full(len(cells.counts), cells.of.shape[1], dtype=np.int32)
    for cell, k in enumerate(cells.quantile_ranks(alpha).tolist()):
        start, stop = cells.offsets[cell : cell + 2].tolist()
        if k > stop - start:
            continue
        own = np.sort(cells.ranks[start:stop])
        ranks[cell] = own[k - 1]
        before, reached = (int(np.searchsorted(own, own[k - 1], side)) for side in ("left", "right"))
        if place := score_place(k, stop - start, before, reached):
            scores[cell] = cells.scores[start + place - 1]
    return Bounds(scores[cells.of], None, ranks[cells.of])


def score_place(k: int, n: int, before: int, reached: int) -> int:
    """Return which of n scores, counted from the smallest, limits a class under RC3P; 0 for no limit.

    `before` examples have a smaller rank than the limit, and `reached` none that is larger.
    """
    return k + n - reached if before < k - 1 else 0


def group_codes(known: GroupNames | None, per: str, groups: ArrayLike | None, n: int) -> Codes | None:
    """Return the row of thresholds of each object, None without groups; the group 1 may be spelled "1" and vice versa.

    Raises:
        InputError: groups are missing, are given to a predictor without groups, or were not seen at calibration.
    """
    if known is None:
        if groups is not None:
            raise InputError(
                f"This predictor has a threshold per {per} and knows no groups",
                'leave groups= out, or calibrate with per="group"',
            )
        return None
    if groups is None:
        raise InputError(
            f"This predictor has thresholds per {per}",
            "pass groups=, one per row",
            "add an array groups (.npz) or a column group (.csv, .parquet) to the data",
        )
    given = as_groups(groups, n)
    numbers = {name: code for code, name in enumerate(known)}
    other = numbers.pop(None, -1)
    numbers |= {str(name): code for name, code in numbers.items()}
    codes = np.array([numbers.get(name, numbers.get(str(name), other)) for name in given.tolist()], dtype=np.int64)
    if (codes < 0).any():
        row = int((codes < 0).argmax())
        raise InputError(
            f"is in the group {given[row].item()!r}, which the calibration has not seen",
            'calibrate with such rows, or with unseen="marginal" to give them a threshold of their own',
            "calibrate with such rows, or with --unseen marginal to give them a threshold of their own",
            row,
        )
    return codes


def rare_cells(
    by_cell: Any, owner: Any, what: str, of_kinds: str, of_others: str, confidence: float | None = None
) -> str | None:
    """Describe the cells whose limit is infinite, what they lack and what follows; None if there are none.

    Args:
        by_cell: a rule or decider, with cells, kinds, levels, per and groups.
        owner: the predictor or decider, with alpha and classes.
        what: the limits in a word, "thresholds" for instance.
        of_kinds: what follows where cells are kinds of classes.
        of_others: what follows elsewhere.
        confidence: the probability over calibration sets, if one was asked for.
    """
    cells, kinds, alpha = by_cell.cells, by_cell.kinds, owner.alpha
    counts, needed = cells.counts, cells.needed(by_cell.levels or alpha, confidence)
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
    classes = None if by_cell.per == "group" else owner.classes
    cell_names = named(few, counts, cells.of, classes, by_cell.groups, by_cell.per == "cluster")
    return (
        f"{len(few):,} of {len(counts):,} {what} are infinite, because alpha={alpha:g} needs "
        f"{needed[0]:,} calibration examples each: {cell_names}. {of_others}."
    )
