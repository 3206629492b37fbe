"""Calibration of rows in parts: equal to calibration of all rows at once, to the last bit."""

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.calibrate import marginal_predictor, ranks_from_1
from pippin._conformal.clusters import NULL, alike, described_by, on_null, plan, sharing
from pippin._conformal.mondrian import (
    Categories,
    CategoryAssignment,
    Level,
    Taxonomy,
    as_kinds,
    as_levels,
    assign_by_class,
    single_category,
    warn_of_levels,
)
from pippin._conformal.predictor import ConformalPredictor, without_scores
from pippin._conformal.rules import marginal_rule, mondrian_rule, warned
from pippin._engine import dispatch
from pippin._engine.draws import draws, generator_of
from pippin._runtime.arrays import Classes, Codes, Indices, Seed, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._theory.level import as_alpha, examples_needed, quantile_rank
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score
from pippin._validation.batched import Batch, Batched, needed, watched
from pippin._validation.index import same_index
from pippin._validation.labels import ColumnNumbers, Groups, as_numbered_groups, ids_not_groups, labels_of_part
from pippin._validation.rows import Names, Rows, agree, as_rows

MOST_SCORES = 1_000_000  # calibration scores that a predictor keeps: a file of 20 MB


class Part(NamedTuple):
    """Nonconformity scores of the true labels of some rows, and what determines their Mondrian categories.

    Attributes:
        scores: the scores of the true labels.
        labels: the classes by number, where thresholds are per class, group or cluster.
        groups: the groups of these rows, where thresholds are per group.
        ranks: the ranks of the labels, from 1, for RC3P.
        first: the number of rows before these, in all parts.
    """

    scores: Vector
    labels: Codes | None = None
    groups: Groups | None = None
    ranks: Indices | None = None
    first: int = 0


Select = Callable[[Part], Part]


class Calibration:
    """Calibration of rows in parts, on one machine or on many.

    `part` computes the calibration scores of some rows, wherever those are; `merge` makes the predictor of all
    parts. It is the predictor that `pippin.calibrate` makes of all rows at once, to the last bit, however they are
    divided.

    Args:
        score: a score or its spelling.
        alpha: the miscoverage level; with kinds one for all or {kind: alpha}.
        classes: the names of the columns, or a range where they have none.
        per: the Mondrian taxonomy, as in `pippin.calibrate`.
        unseen: the policy of `predict` for groups without calibration rows: an "error", or "marginal".
        seed: for the randomized scores and for clusters; a row's u follows from it and from the row's position.
        most_scores: a predictor of more rows than that leaves the calibration scores out: then it has no other
            level and no p-values, but the same thresholds.

    Attributes:
        score (Score): the score.
        alpha (Level): the miscoverage level.
        classes (Classes): the names of the columns, in their order.
        grouping: the Mondrian taxonomy; None for one threshold.
        seed (numpy.random.Generator): the generator of randomized scores.
        most_scores (int): of more rows than that, the calibration scores are not kept.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> calibration = pippin.distributed.Calibration("pip", 0.1, classes=data.classes)
    >>> cuts = [slice(first, first + 100) for first in range(0, 2000, 100)]
    >>> parts = [calibration.part(data.probs[cut], data.labels[cut], first=cut.start) for cut in cuts]
    >>> calibration.merge(parts).threshold == pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip").threshold
    True
    """

    def __init__(
        self,
        score: Score | str = "repip",
        alpha: Level = 0.1,
        *,
        classes: Classes,
        per: Any = None,
        unseen: str = "error",
        seed: Seed = None,
        most_scores: int = MOST_SCORES,
    ) -> None:
        self.score, self.alpha, self.classes = parse_score(score), alpha, classes
        self.grouping = None if per is None and unseen == "error" else Taxonomy(per or "group", None, unseen)
        self.seed = np.random.default_rng() if seed is None else generator_of(seed)
        self.most_scores = most_scores
        positioned(self.seed, 0)
        kinds = None
        if self.grouping is not None:
            self.grouping._replace(groups=() if self.by_group else None).check()
            kinds = None if isinstance(self.grouping.per, str) else as_kinds(self.grouping.per, classes)
        as_levels(alpha, kinds)
        warn_of_levels(alpha)

    @property
    def by_group(self) -> bool:
        """True if every part needs the groups of its rows."""
        return self.grouping is not None and "group" in self.grouping.name

    def part(
        self, probs: Any, labels: Any, *, groups: ArrayLike | None = None, first: int = 0, from_logits: bool = False
    ) -> Part:
        """Compute the scores of the true labels of some rows, and what determines their categories.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`. Zero rows are a part too.
            labels: the true classes, as indices or as names.
            groups: the group of each row, where the guarantee is per group.
            first: the number of rows before these, in all parts.
            from_logits: if True, take a softmax of `probs` first.
        """
        if not len(probs.array if isinstance(probs, Rows) else probs):
            return self._empty(first)
        rows = as_rows(probs, from_logits)
        same_index("probs", rows.index, labels=labels, groups=groups)
        agree(self.classes, rows)
        codes = labels_of_part(labels, rows.n, self.classes)
        if self.grouping is not None:
            self.grouping._replace(groups=groups).check()
        u = draws(self.score, rows.n, positioned(self.seed, first) if self.score.randomized else None)
        scores = dispatch.label_scores(rows, codes, self.score, u)
        if self.grouping is None:
            return Part(scores, first=first)
        numbers = None
        if self.by_group and groups is not None:
            group_codes, names = as_numbered_groups(groups, rows.n)
            numbers = Groups(compact(group_codes), names)
        ranks = compact(ranks_from_1(rows, codes)) if self.grouping.per == "rc3p" else None
        return Part(scores, compact(codes), numbers, ranks, first)

    def _empty(self, first: int) -> Part:
        if self.grouping is None:
            return Part(np.empty(0), first=first)
        none: Any = np.empty(0, dtype=np.uint8)
        groups, ranks = Groups(none, ()) if self.by_group else None, none if self.grouping.per == "rc3p" else None
        return Part(np.empty(0), none, groups, ranks, first)

    def merge(self, parts: Iterable[Part]) -> ConformalPredictor:
        """Make the predictor of all parts.

        Args:
            parts: the results of `part` for all rows, in any order. Besides them, memory holds one copy of the scores,
                8 bytes a row, or 16 with `unseen="marginal"`.
        """
        ordered = sorted(parts, key=lambda part: part.first)
        if not any(len(part.scores) for part in ordered):
            raise InputError("Expected at least one row of probabilities, got parts without any")
        if self.grouping is None:
            return self._one_threshold(np.concatenate([part.scores for part in ordered]))
        return self._per_cell(ordered, self.grouping)

    def _one_threshold(self, scores: Vector) -> ConformalPredictor:
        n, level = len(scores), as_alpha(self.alpha)
        if n <= self.most_scores:
            return warned(marginal_predictor(scores, self.score, level, self.classes))
        k, threshold = quantile_rank(n, level), math.inf
        if k <= n:
            scores.partition(k - 1)  # in place: no further copy of so many scores
            threshold = float(scores[k - 1])
        rule = marginal_rule(single_category(None, n, len(self.classes)), threshold)
        return warned(ConformalPredictor(self.score, level, n, self.classes, rule))

    def _per_cell(self, parts: Sequence[Part], grouping: Taxonomy) -> ConformalPredictor:
        """Return the Mondrian predictor."""
        n, note, known, kinds = sum(len(part.scores) for part in parts), None, None, None
        total = n
        if grouping.per == "cluster":
            categories, n, note = self._clustered(parts, n)
        else:
            names = united(part.groups.names for part in parts if part.groups is not None) if self.by_group else None
            assignment, known, kinds = grouping.assign(self.classes, names)
            categories = gather_categories(parts, assignment, names)
        rule, level = mondrian_rule(categories, grouping.name, known, kinds).at(self.alpha)
        predictor = warned(ConformalPredictor(self.score, level, n, self.classes, rule))
        if note:
            warn(note)
        return without_scores(predictor) if total > self.most_scores else predictor

    def _clustered(self, parts: Sequence[Part], n: int) -> tuple[Categories, int, str | None]:
        """Cluster the classes; return their categories, the number of rows that calibrate, and what to warn of."""
        n_classes, alpha, generator = len(self.classes), as_alpha(self.alpha), self.after(n)
        counts = sum((np.bincount(_labels(part), minlength=n_classes) for part in parts), np.zeros(n_classes, np.int64))
        cluster, aside = np.full(n_classes, NULL), np.zeros_like(counts)
        select: Select | None = None
        share, n_clusters = plan(counts, alpha)
        if n_clusters:
            drawn = gather_categories(
                parts, assign_by_class(n_classes), select=partial(_drawn, generator, share, False)
            )
            assert drawn.scores is not None
            aside, select = drawn.counts, partial(_drawn, generator, share, True)
            common, ranks = described_by(aside, alpha)
            points = drawn.scores[drawn.offsets[common, None] + ranks - 1]
            cluster = alike(points, common, aside, n_clusters, positioned(generator, n))
            del drawn  # before the other scores are gathered
        assignment = sharing(cluster, counts - aside, counts > 0, examples_needed(alpha))
        return gather_categories(parts, assignment, select=select), int((counts - aside).sum()), on_null(cluster)

    def after(self, n: int) -> np.random.Generator:
        """Return the generator in its state after the u of all rows.

        Args:
            n: the number of rows.
        """
        return positioned(self.seed, n if self.score.randomized else 0)


def calibrate_batched(
    source: Batched, calibration: Calibration, watch: Callable[[Batch], None] = lambda batch: None
) -> ConformalPredictor:
    """Calibrate on all rows of tables, batch after batch; call `watch` with every batch."""
    needs = ("labels", "groups") if calibration.by_group else ("labels",)
    parts = []
    for batch in watched(source, *needs):
        with batch.naming():
            labels = ColumnNumbers(needed(batch.labels))
            parts.append(calibration.part(batch.rows, labels, groups=batch.groups, first=batch.first))
        watch(batch)
    refuse_ids(parts, source.name)
    return calibration.merge(parts)


def refuse_ids(parts: Iterable[Part], name: str) -> None:
    """Raise an InputError where nearly every row of these tables has a group of its own."""
    n, names = 0, set[str | int]()
    for part in parts:
        n += len(part.scores)
        names.update(() if part.groups is None else part.groups.names)
    if (ids := ids_not_groups(names, n)) is not None:
        raise ids.in_file(name)


def _drawn(generator: np.random.Generator, share: float, calibrating: bool, part: Part) -> Part:
    """Return the rows of a part that calibrate, or those that cluster the classes; drawn by row position."""
    u = positioned(generator, part.first).random(len(part.scores))
    chosen = (u >= share) == calibrating
    return Part(part.scores[chosen], _labels(part)[chosen])


def _labels(part: Part) -> Codes:
    assert part.labels is not None
    return part.labels


def gather_categories(
    parts: Sequence[Part], assignment: CategoryAssignment, names: Names | None = None, select: Select | None = None
) -> Categories:
    """Sort the scores of all parts into their categories, with one copy of the scores.

    Counting sort by category, part after part, then a sort within each category.

    Args:
        parts: the parts, in the order of their rows.
        assignment: the categories of classes and groups.
        names: the names of all groups, where categories depend on them.
        select: a function that returns the rows of a part to gather; by default all.
    """

    def placed(part: Part) -> tuple[Vector, Codes, Codes, Part]:
        chosen = part if select is None else select(part)
        groups = None if names is None or chosen.groups is None else numbered(chosen.groups, names)
        scores, category = assignment(chosen.scores, _labels(chosen).astype(np.int64), groups)
        return scores, category, np.bincount(category, minlength=int(assignment.lookup.max()) + 1), chosen

    offsets = np.concatenate([[0], np.cumsum(sum(placed(part)[2] for part in parts))])
    scores, vacant = np.empty(offsets[-1]), offsets[:-1].copy()  # the first vacant place of each category
    ranks = None if parts[0].ranks is None else np.empty(offsets[-1], dtype=np.int32)
    for part in parts:
        own, category, counts, chosen = placed(part)
        order = np.argsort(category, kind="stable")
        target = np.arange(len(order)) + np.repeat(vacant - np.cumsum(counts) + counts, counts)
        scores[target] = own[order]
        if ranks is not None and chosen.ranks is not None:
            ranks[target] = chosen.ranks[order]
        vacant += counts
    for start, stop in pairwise(offsets.tolist()):
        if ranks is None:
            scores[start:stop].sort()
        else:
            order = np.argsort(scores[start:stop], kind="stable")
            scores[start:stop], ranks[start:stop] = scores[start:stop][order], ranks[start:stop][order]
    of = read_only(assignment.lookup.astype(np.int32))
    return Categories(of, read_only(offsets), read_only(scores), None if ranks is None else read_only(ranks))


def united(several: Iterable[Names]) -> Names:
    """Return all group names in order; as text, unless all are whole numbers.

    >>> united([(2, 10), (1,)]), united([(2, 10), ("b",)])
    ((1, 2, 10), ('10', '2', 'b'))
    """
    every = {name for names in several for name in names}
    text = any(isinstance(name, str) for name in every)
    return tuple(sorted({str(name) for name in every} if text else every, key=str if text else int))


def numbered(groups: Groups, names: Names) -> Codes:
    """Return the group of every row as its position in `names`."""
    text = bool(names) and isinstance(names[0], str)
    place = {name: code for code, name in enumerate(names)}
    return np.array([place[str(name) if text else name] for name in groups.names], dtype=np.int64)[groups.codes]


def positioned(seed: Any, first: int) -> np.random.Generator:
    """Return a copy of the generator, advanced past one draw for each of the first `first` rows.

    >>> alone = np.random.default_rng(7).random(5)
    >>> bool((positioned(7, 3).random(2) == alone[3:]).all())
    True
    """
    generator = copy.deepcopy(generator_of(seed))
    if not hasattr(generator.bit_generator, "advance"):
        kind = type(generator.bit_generator).__name__
        raise InputError(f"Expected a seed or a Generator to advance, got one of {kind}", "pass a whole number")
    generator.bit_generator.advance(first)
    return generator


def compact(codes: Codes | Indices) -> Any:
    """Convert classes, groups or ranks to the smallest unsigned type that holds them.

    >>> compact(np.array([3, 200])).dtype
    dtype('uint8')
    """
    return codes.astype(np.min_scalar_type(int(codes.max(initial=0))))
