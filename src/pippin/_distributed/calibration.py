"""Calibration on rows that are processed in parts, equal to a calibration on all rows at once to the last bit."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal import mondrian
from pippin._conformal.calibrate import ranks_from_1
from pippin._conformal.clusters import NULL, clusters_of, on_null, plan, sharing
from pippin._conformal.mondrian import Level
from pippin._conformal.predictor import ConformalPredictor, without_scores
from pippin._conformal.rules import MondrianRule, marginal_rule, warned
from pippin._engine import dispatch
from pippin._engine.draws import draws, generator_of
from pippin._runtime.arguments import checked_methods, is_whole
from pippin._runtime.arrays import Classes, Codes, Indices, Seed, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._theory.level import as_alpha, examples_needed, quantile_rank
from pippin._theory.scores import Score
from pippin._theory.spelling import INTERPOLATED, parse_score
from pippin._validation.batched import Batch, Batched, needed, watched
from pippin._validation.frames import Names, as_frame
from pippin._validation.labels import (
    ColumnNumbers,
    Groups,
    as_numbered_groups,
    ids_not_groups,
    labels_of_part,
    rows_of_classes,
)
from pippin._validation.plausibility import TopClasses, implausibility, joined, top_classes
from pippin._validation.rows import Rows

EXAMINED = 4096  # number of rows of a part from which on only a sample is checked for plausibility
MOST_SCORES = 1_000_000  # maximum number of calibration scores that a predictor stores, 20 MB in its file


class Part(NamedTuple):
    """Nonconformity scores of some calibration rows, and the data that determine their Mondrian categories.

    Attributes:
        scores: the scores of the true labels.
        labels: indices of the true classes; empty for a marginal predictor.
        groups: group of each row, for thresholds per group.
        ranks: rank of each true class by probability, from 1, for RC3P.
        first: number of rows in all previous parts.
        top: most probable classes of some of the rows, for warnings about implausible rows.
    """

    scores: Vector
    labels: Codes = np.empty(0, dtype=np.int64)
    groups: Groups | None = None
    ranks: Indices | None = None
    first: int = 0
    top: TopClasses | None = None


Select = Callable[[Part], Part]


@checked_methods
class Calibration:
    """Calibration on rows that are divided into parts, on one machine or on many.

    `part` computes the calibration scores of some rows, in any process. `merge` makes a predictor of all parts. It
    equals the result of `pippin.calibrate` on all rows to the last bit, for any division into parts.

    Args:
        score: a score, or its name with parameters, such as "raps(lam=0.1)".
        alpha: significance level (miscoverage). If `per` joins classes to superclasses ("kinds"), {kind: alpha} sets a
            level for each kind.
        classes: names of the columns, or a range for unnamed classes.
        per: Mondrian taxonomy, as in `pippin.calibrate`.
        unseen: policy of `predict` for groups without calibration rows: "error" raises an InputError, "marginal" uses
            the threshold that is calibrated on all groups together.
        seed: seed for randomized scores and for per="cluster"; the random number of a row depends only on the seed and
            the position of the row.
        most_scores: maximum number of calibration scores that the predictor stores. With more rows, it stores none: its
            thresholds do not change, but it can compute neither p-values nor, by its method `at`, thresholds for
            another alpha.

    Attributes:
        score (Score): the score.
        alpha (Level): the significance level.
        classes (Classes): names of the columns, in their order.
        taxonomy: the Mondrian taxonomy; None for one threshold for all rows.
        seed (numpy.random.Generator): generator of the random numbers of randomized scores.
        most_scores (int): maximum number of calibration scores that the predictor stores.

    Raises:
        InputError: the score, the level or the taxonomy is invalid, or `seed` is a Generator whose bit generator cannot
            skip numbers (PCG64, the default of NumPy, can).

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
        self.taxonomy = None if per is None and unseen == "error" else mondrian.as_taxonomy(per, None, unseen)
        self.seed = np.random.default_rng() if seed is None else generator_of(seed)
        self.most_scores = most_scores
        if not is_whole(most_scores, 0):
            raise InputError(
                f"Expected most_scores to be a whole number of scores, got {most_scores!r}", "leave it out"
            )
        positioned(self.seed, 0)
        kinds = None
        if self.taxonomy is not None:
            self.taxonomy._replace(groups=() if self.by_group else None).check()
            if self.taxonomy.name == INTERPOLATED:
                what = f"Expected rows in memory for per={per!r}, got tables or parts of the rows"
                raise InputError(what, "read them into arrays, and call pippin.calibrate")
            kinds = mondrian.as_kinds(self.taxonomy.per, classes) if isinstance(self.taxonomy.per, Mapping) else None
        mondrian.as_levels(alpha, kinds)
        mondrian.warn_of_levels(alpha)

    @property
    def by_group(self) -> bool:
        """True if `part` needs the groups of its rows."""
        return self.taxonomy is not None and "group" in (self.taxonomy.name or "")

    def part(
        self, probs: Any, labels: Any, *, groups: ArrayLike | None = None, first: int = 0, from_logits: bool = False
    ) -> Part:
        """Compute the calibration scores of some rows.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`. n may be 0.
            labels: the true classes, as indices or as names.
            groups: the group of each row, for a guarantee per group.
            first: number of rows in all previous parts, which determines the random numbers of a randomized score.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            The scores of the rows with their classes and groups, which can be pickled and sent to another process.

        Raises:
            InputError: probabilities, labels or groups are invalid.
        """
        if not is_whole(first, 0):
            raise InputError(
                f"Expected first to be a number of rows, got {first!r}", "count the rows of previous parts"
            )
        probs = as_frame(probs)
        array = probs.array if isinstance(probs, Rows) else probs
        if hasattr(array, "__len__") and np.shape(array)[:1] == (0,):
            return Part(np.empty(0), first=first)
        rows = rows_of_classes(self.classes, probs, from_logits, labels=labels, groups=groups)
        codes = labels_of_part(labels, rows, self.classes)
        (self.taxonomy or mondrian.Taxonomy())._replace(groups=groups).check()
        u = draws(self.score, rows.n, positioned(self.seed, first) if self.score.randomized else None)
        scores = dispatch.label_scores(rows, codes, self.score, u)
        top = sampled(rows, codes)
        if self.taxonomy is None:
            return Part(scores, first=first, top=top)
        numbers = None
        if self.by_group and groups is not None:
            group_codes, names = as_numbered_groups(groups, rows.n)
            numbers = Groups(compact(group_codes), names)
        ranks = compact(ranks_from_1(rows, codes)) if self.taxonomy.per == "rc3p" else None
        return Part(scores, compact(codes), numbers, ranks, first, top)

    def merge(self, parts: Iterable[Part]) -> ConformalPredictor:
        """Create the predictor that is calibrated on the rows of all parts.

        Args:
            parts: the results of `part` for all rows, in any order. The merge needs memory for one more copy of the
                scores, 8 bytes per row, or 16 with `unseen="marginal"`.

        Returns:
            The predictor that `pippin.calibrate` returns for all rows at once.

        Raises:
            InputError: all parts are empty.
        """
        ordered = sorted((part for part in parts if len(part.scores)), key=lambda part: part.first)
        if not ordered:
            raise InputError("Expected at least one row of probabilities, got parts without any")
        tops = [part.top for part in ordered if part.top is not None]
        if tops and (note := implausibility(joined(tops), self.classes)):
            warn(note)
        if self.taxonomy is None:
            return self._marginal(np.concatenate([part.scores for part in ordered]))
        return self._mondrian(ordered, self.taxonomy)

    def _marginal(self, scores: Vector) -> ConformalPredictor:
        n, level = len(scores), as_alpha(self.alpha)
        if n <= self.most_scores:
            rule, _ = MondrianRule(mondrian.single_category(scores, n, len(self.classes))).at(level)
            return warned(ConformalPredictor(self.score, level, n, self.classes, rule))
        k, threshold = quantile_rank(n, level), math.inf
        if k <= n:
            scores.partition(k - 1)  # in place, without another copy of the scores
            threshold = float(scores[k - 1])
        rule = marginal_rule(mondrian.single_category(None, n, len(self.classes)), threshold)
        return warned(ConformalPredictor(self.score, level, n, self.classes, rule))

    def _mondrian(self, parts: Sequence[Part], taxonomy: mondrian.Taxonomy) -> ConformalPredictor:
        n, note, known, kinds = sum(len(part.scores) for part in parts), None, None, None
        total = n
        if taxonomy.per == "cluster":
            categories, n, note = self._clustered(parts, n)
        else:
            of_parts = [part.groups.names for part in parts if part.groups is not None]
            names = merged_names(of_parts) if self.by_group else None
            assignment, known, kinds = taxonomy.assign(self.classes, names)
            categories = gather_categories(parts, assignment, names)
        rule, level = MondrianRule(categories, taxonomy.name, known, kinds).at(self.alpha)
        predictor = warned(ConformalPredictor(self.score, level, n, self.classes, rule))
        if note:
            warn(note)
        return without_scores(predictor) if total > self.most_scores else predictor

    def _clustered(self, parts: Sequence[Part], n: int) -> tuple[mondrian.Categories, int, str | None]:
        """Cluster the classes; return scores by cluster, the number of calibration rows, and a warning or None."""
        n_classes, alpha = len(self.classes), as_alpha(self.alpha)
        # Skip the random numbers u that were drawn for the scores, as a calibration on all rows at once does.
        generator = positioned(self.seed, n if self.score.randomized else 0)
        counts = sum((np.bincount(part.labels, minlength=n_classes) for part in parts), np.zeros(n_classes, np.int64))
        cluster, aside = np.full(n_classes, NULL), np.zeros_like(counts)
        select: Select | None = None
        share, n_clusters = plan(counts, alpha)
        if n_clusters:
            drawn = [_drawn(generator, share, False, part) for part in parts]
            scores = np.concatenate([part.scores for part in drawn])
            labels = np.concatenate([part.labels for part in drawn])
            cluster = clusters_of(scores, labels, n_classes, alpha, n_clusters, positioned(generator, n))
            aside, select = np.bincount(labels, minlength=n_classes), partial(_drawn, generator, share, True)
            del drawn, scores, labels  # free memory before the scores of the calibration rows are gathered
        assignment = sharing(cluster, counts - aside, counts > 0, examples_needed(alpha))
        return gather_categories(parts, assignment, select=select), int((counts - aside).sum()), on_null(cluster)


def calibrate_batched(
    source: Batched, calibration: Calibration, watch: Callable[[Batch], None] = lambda batch: None
) -> ConformalPredictor:
    """Calibrate on all rows of scanned tables, which are read in batches; call `watch` with each batch of rows."""
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
    """Raise an InputError if nearly every row has its own group, as if the column of groups held row ids."""
    n, names = 0, set[str | int]()
    for part in parts:
        n += len(part.scores)
        names.update(() if part.groups is None else part.groups.names)
    if (ids := ids_not_groups(names, n)) is not None:
        raise ids.in_file(name)


def sampled(rows: Rows, labels: Codes) -> TopClasses:
    """Return the most probable class of a sample of a part's rows, as evidence for warnings about implausible rows."""
    top = top_classes(rows, labels, EXAMINED)
    probability = top.probability.astype(np.float32)
    return TopClasses(compact(top.labels), compact(top.predicted), probability, top.total)


def _drawn(generator: np.random.Generator, share: float, calibrating: bool, part: Part) -> Part:
    """Select random rows of a part: for calibration if `calibrating`, otherwise for clustering the classes.

    `share` is the share of rows for clustering.
    """
    u = positioned(generator, part.first).random(len(part.scores))
    chosen = (u >= share) == calibrating
    return Part(part.scores[chosen], part.labels[chosen])


def gather_categories(
    parts: Sequence[Part],
    assignment: mondrian.CategoryAssignment,
    names: Names | None = None,
    select: Select | None = None,
) -> mondrian.Categories:
    """Gather the scores of all parts, sorted within each Mondrian category, in one array.

    To need memory for only this one copy of the scores, it uses a counting sort by category over all parts, then a
    sort within each category.

    Args:
        parts: the parts, in the order of their rows.
        assignment: the category of each class and group.
        names: the names of all groups, if categories depend on them.
        select: a function from a part to the part with the rows to use; by default all rows are used.
    """

    def placed(part: Part) -> tuple[Vector, Codes, Codes, Part]:
        chosen = part if select is None else select(part)
        groups = None if names is None or chosen.groups is None else group_positions(chosen.groups, names)
        scores, category = assignment(chosen.scores, chosen.labels.astype(np.int64), groups)
        return scores, category, np.bincount(category, minlength=int(assignment.lookup.max()) + 1), chosen

    offsets = np.concatenate([[0], np.cumsum(sum(placed(part)[2] for part in parts))])
    scores, vacant = np.empty(offsets[-1]), offsets[:-1].copy()  # next free index of each category
    ranks = None if parts[0].ranks is None else np.empty(offsets[-1], dtype=np.int32)
    for part in parts:
        own_scores, category, counts, chosen = placed(part)
        order = np.argsort(category, kind="stable")
        target = np.arange(len(order)) + np.repeat(vacant - np.cumsum(counts) + counts, counts)
        scores[target] = own_scores[order]
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
    return mondrian.Categories(of, read_only(offsets), read_only(scores), None if ranks is None else read_only(ranks))


def merged_names(several: Iterable[Names]) -> Names:
    """Merge the group names of several parts in sorted order; as text, unless all names are whole numbers.

    >>> merged_names([(2, 10), (1,)]), merged_names([(2, 10), ("b",)])
    ((1, 2, 10), ('10', '2', 'b'))
    """
    every = {name for names in several for name in names}
    text = any(isinstance(name, str) for name in every)
    return tuple(sorted({str(name) for name in every} if text else every, key=str if text else int))


def group_positions(groups: Groups, names: Names) -> Codes:
    """Return the index in `names` of the group of each row."""
    text = bool(names) and isinstance(names[0], str)
    place = {name: code for code, name in enumerate(names)}
    return np.array([place[str(name) if text else name] for name in groups.names], dtype=np.int64)[groups.codes]


def positioned(seed: Any, first: int) -> np.random.Generator:
    """Return a generator for a seed (or a copy of a generator) that has skipped `first` draws, one per earlier row.

    >>> all_draws = np.random.default_rng(7).random(5)
    >>> bool((positioned(7, 3).random(2) == all_draws[3:]).all())
    True
    """
    generator = copy.deepcopy(generator_of(seed))
    if not hasattr(generator.bit_generator, "advance"):
        kind = type(generator.bit_generator).__name__
        raise InputError(f"Expected a seed or a Generator to advance, got one of {kind}", "pass a whole number")
    generator.bit_generator.advance(first)
    return generator


def compact(codes: NDArray[np.integer[Any]]) -> Any:
    """Convert class, group or rank numbers to the smallest unsigned integer type that holds them.

    >>> compact(np.array([3, 200])).dtype
    dtype('uint8')
    """
    return codes.astype(np.min_scalar_type(int(codes.max(initial=0))))
