"""Guarantees for every class, kind, group, or class and group: a threshold per cell instead of one for all."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal import answers
from pippin._conformal.answers import asked_rows, drawn
from pippin._conformal.cells import Cells
from pippin._conformal.content import Content, check_limits, need, whole_numbers
from pippin._conformal.explaining import Explains
from pippin._conformal.frames import polars_frame
from pippin._conformal.grouping import (
    KIND,
    PER,
    GroupNames,
    cells_content,
    cells_of,
    group_codes,
    group_names,
    kinds_of,
    levels_of,
    rare_cells,
)
from pippin._conformal.kinds import Kinds, Level, as_level, as_levels
from pippin._conformal.points import PointPredictions
from pippin._conformal.rank_limits import rc3p_limits
from pippin._conformal.rules import Asked, ByCells, need_scores
from pippin._conformal.saving import SavedWithScores, listed, shared_content
from pippin._conformal.sets import PredictionSets
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Classes, Codes, Indices, Seed, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.warn import warn
from pippin._theory.scores import Score
from pippin._validation.batched import is_batched
from pippin._validation.labels import check_names
from pippin._validation.rows import as_array

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalPredictor(Explains, SavedWithScores):
    """A calibrated score with a threshold for every class, kind of classes, group, or class and group.

    Attributes:
        score: the score.
        per: what the thresholds are per, "class" for instance.
        alpha: the share of errors allowed; the largest, where kinds have levels of their own.
        thresholds: thresholds[g, k] is what class k of an object in group g must not exceed; without groups
            there is one row.
        rank_limits: RC3P's limits on the rank, of the same shape; None elsewhere.
        n_calibration: how many rows calibrated it.
        classes: the names of the columns, in their order.
        groups: the names of the groups, where there are some; None among them stands for every group that was
            not seen.
        cells: the calibration scores, cell by cell.
        kinds: the kinds of the classes, if they have some.
        levels: the kinds' own alphas, if they have some.
    """

    score: Score
    per: str
    alpha: float
    thresholds: Vector
    rank_limits: Indices | None
    n_calibration: int
    classes: Classes
    groups: GroupNames | None
    cells: Cells
    kinds: Kinds | None = None
    levels: tuple[float, ...] | None = None

    @property
    def takes(self) -> frozenset[str]:
        """What `predict` may be told beside the rows."""
        return frozenset({"seed"} if self.groups is None else {"seed", "groups"})

    def at(self, alpha: Level) -> "ConditionalPredictor":
        """Another level from the same calibration.

        Args:
            alpha: the share of errors allowed; where thresholds are per kind, one for all or {kind: alpha}.
        """
        need_scores(self.cells, f"has only alpha={self.alpha}")
        predictor = at_level(self, alpha)
        if note := rare(predictor):
            warn(note)
        return predictor

    def predict(
        self,
        probs: Any,
        *,
        seed: Seed = None,
        groups: ArrayLike | None = None,
        nonempty: bool = False,
        from_logits: bool = False,
    ) -> PredictionSets:
        """The set of every row: all classes whose score is at most their own threshold.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`. Or what `pippin.scan` returns.
            seed: for a randomised score; a seed or a Generator.
            groups: the group of each row, where there are thresholds per group.
            nonempty: whether the most probable class is put into sets that would be empty.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", per="class")
        >>> predictor.predict(data.probs[2000:])
        PredictionSets(2,986 objects, 12 classes, mean size 2.28, 53 % singletons)
        """
        if is_batched(probs):
            return answers.sets_of_batches(self, probs, seed, nonempty, groups=groups, from_logits=from_logits or None)
        rows = asked_rows(self.classes, probs, from_logits, groups=groups)
        asked = Asked(rows, drawn(self.score, rows.n, seed), self.group_codes(groups, rows.n))
        return answers.sets(self, asked, nonempty)

    def predict_one(
        self, row: Any, *, seed: Seed = None, group: str | int | None = None, nonempty: bool = False
    ) -> Indices:
        """One object's class indices, most probable first, as in `PredictionSets.members`.

        Args:
            row: its K probabilities, not logits.
            seed: for a randomised score; a seed or a Generator.
            group: the object's group, where there are thresholds per group.
            nonempty: whether a set that would be empty gets the most probable class.
        """
        if self.groups is not None and group is None:
            raise InputError(f"This predictor has thresholds per {self.per}", "pass group=, that of the object")
        check_names(self.classes, row)
        groups = None if group is None else [group]
        return self.predict(as_array(row)[None], seed=seed, groups=groups, nonempty=nonempty).members

    def p_values(
        self,
        probs: Any,
        labels: ArrayLike | None = None,
        *,
        seed: Seed = None,
        groups: ArrayLike | None = None,
        smoothed: bool = False,
        from_logits: bool = False,
    ) -> Any:
        """The p-value of every class, (n, K), among the examples of its own cell; with labels of one class per row.

        A pandas or polars frame gives a frame, its index and the class names kept; with labels a series.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            labels: one class per row, as indices or as names; None asks for all classes.
            seed: for a randomised score and for smoothed p-values; a seed or a Generator.
            groups: the group of each row, where there are thresholds per group.
            smoothed: whether calibration scores equal to the own one count with a random weight.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", per="class")
        >>> predictor.p_values(data.probs[2000:2003], data.labels[2000:2003]).round(3)
        array([0.966, 0.919, 0.905])
        """
        return answers.p_values(self, self._ask(probs, seed, groups, smoothed, from_logits), labels)

    def forced(
        self,
        probs: Any,
        *,
        seed: Seed = None,
        groups: ArrayLike | None = None,
        smoothed: bool = False,
        from_logits: bool = False,
    ) -> PointPredictions:
        """One class per row, the one with the largest p-value, with its confidence and credibility.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            seed: for a randomised score and for smoothed p-values; a seed or a Generator.
            groups: the group of each row, where there are thresholds per group.
            smoothed: whether calibration scores equal to the own one count with a random weight.
            from_logits: whether `probs` are logits, of which a softmax is taken.
        """
        return answers.points(self, self._ask(probs, seed, groups, smoothed, from_logits))

    def _ask(self, probs: Any, seed: Seed, groups: ArrayLike | None, smoothed: bool, from_logits: bool) -> Asked:
        self._speaking()
        rows = asked_rows(self.classes, probs, from_logits, groups=groups)
        return Asked(rows, drawn(self.score, rows.n, seed, smoothed), self.group_codes(groups, rows.n))

    def _speaking(self) -> Cells:
        """The calibration scores that p-values count among, cell by cell."""
        if self.rank_limits is not None:
            raise InputError(
                "The sets of per='rc3p' bound the rank of a class too, so no p-value belongs to them",
                "calibrate with per='class' for p-values",
            )
        need_scores(self.cells, "can give no p-values")
        return self.cells

    def group_codes(self, groups: ArrayLike | None, n: int) -> Codes | None:
        """The row of `thresholds` that each object uses; the group 1 may be spelled "1", and the other way round.

        None without groups, where all use the same.

        Args:
            groups: the group of each row, whole numbers or text.
            n: how many rows there are.
        """
        return group_codes(self.groups, self.per, groups, n)

    def table(self) -> "polars.DataFrame":
        """One row per class (and group): its examples, its threshold, the coverage to expect.

        `expected_coverage` is k/(n + 1), the mean over calibrations if no scores tie; of a
        cluster for its classes together, and with RC3P the least that it can be. `lacking` says how
        many examples are missing for a finite threshold. Where nothing is promised it is null: for
        groups that were not seen, and for classes whose cluster is null because all rows
        speak for them.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs, data.labels, "pip", classes=data.classes, per="class")
        >>> predictor.table().select("class", "n", "expected_coverage").row(0)
        ('black_grass', 273, 0.9014598540145985)
        """
        n_groups, n_classes = self.thresholds.shape
        cell = self.cells.of.ravel()
        counts = self.cells.counts[cell]
        reached = np.minimum(self.cells.quantile_ranks(self.levels or self.alpha)[cell], counts + 1)
        columns: dict[str, Any] = {}
        if self.groups is not None:
            names = self.groups
            if None in names:
                names = tuple("(any other)" if name is None else str(name) for name in names)
            columns["group"] = [name for name in names for _ in range(n_classes)]
        columns["class"] = list(self.classes) * n_groups
        if self.kinds is not None:
            columns[KIND] = self.kinds.by_class()
        promised = np.repeat([name is not None for name in self.groups or ("all",)], n_classes)
        if self.per == "cluster":
            promised = (counts < self.n_calibration) | (len(self.cells.counts) == 1)
            columns["cluster"] = [int(cell[k]) if promised[k] else None for k in range(n_classes)]
        columns |= {"n": counts, "threshold": self.thresholds.ravel()}
        if self.rank_limits is not None:
            columns["rank_limit"] = self.rank_limits.ravel()
        expected = reached / (counts + 1)
        columns["expected_coverage"] = [float(expected[i]) if promised[i] else None for i in range(len(expected))]
        columns["lacking"] = np.maximum(self.cells.needed(self.levels or self.alpha)[cell] - counts, 0)
        return polars_frame(columns)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The threshold of every class (and group), and how many examples speak for it; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.thresholds import cell_names, plot_thresholds

        table = self.table().to_dict(as_series=False)
        names = cell_names(table, self.per)
        each = {name: row for row, name in enumerate(names)}  # of those that share a threshold, one
        notes = [f"{table['n'][row]:,} examples" for row in each.values()]
        thresholds = np.array([table["threshold"][row] for row in each.values()])
        told = f"{self.score} per {self.per}", "threshold: classes that score up to this enter the set"
        return plot_thresholds(list(each), thresholds, notes, told, ax)

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        how = "by RC3P" if self.per == "rc3p" else f"per {self.per}"
        whom = {"rc3p": "class", "cluster": "cluster of classes"}.get(self.per, self.per)
        infinite = np.isinf(self.thresholds) & (self.rank_limits is None)  # under RC3P ranks are bounded all the same
        if infinite.all():
            return (
                f"{self.score} {how}, from {self.n_calibration:,} rows: all its thresholds are infinite, so every set "
                "holds all classes and tells nothing."
            )
        full = "; where its threshold is infinite, by too few rows, a class is in every set"
        often = f"for every {whom}, its sets hold the true class {100 * self.guarantee:g} % of the time"
        if self.levels is not None and self.kinds is not None:
            each = (f"{100 * (1 - own):g} % of {name}" for name, own in zip(self.kinds.names, self.levels, strict=True))
            often = f"its sets hold the true class of {', '.join(each)}"
        return f"{self.score} {how}, from {self.n_calibration:,} rows: {often}{full if infinite.any() else ''}."

    def _content(self, scores: bool) -> dict[str, Any]:
        kinds = {} if self.kinds is None else {"kinds": self.kinds.by_class(), "levels": self.levels and [*self.levels]}
        return {
            "kind": "conditional",
            **kinds,
            "score": self.score.content(),
            "per": self.per,
            **shared_content(self),
            "thresholds": self.thresholds.tolist(),
            "rank_limits": listed(self.rank_limits),
            **cells_content(self, scores),
        }

    def __repr__(self) -> str:
        told = f", {sum(name is not None for name in self.groups):,} groups" if self.groups is not None else ""
        way = self.per if self.per == "rc3p" else f"per {self.per}"
        return (
            f"ConditionalPredictor({self.score} {way}, alpha={self.alpha:g}, {self._examples}, "
            f"{len(self.classes):,} classes{told})"
        )

    @cached_property
    def _rule(self) -> ByCells:
        return ByCells(self.cells, Bounds(self.thresholds, None, self.rank_limits))


def bounds_at(predictor: ConditionalPredictor, alpha: Any) -> Bounds:
    """The limits that the predictor's calibration gives at a level."""
    if predictor.per == "rc3p":
        return rc3p_limits(predictor.cells, alpha)
    level = as_levels(alpha, predictor.kinds) or alpha
    return Bounds(predictor.cells.thresholds(level)[predictor.cells.of])


def at_level(predictor: ConditionalPredictor, alpha: Any) -> ConditionalPredictor:
    """`ConditionalPredictor.at` without its warning."""
    bounds = bounds_at(predictor, alpha)
    ranks = None if bounds.ranks is None else read_only(bounds.ranks)
    level, levels = as_level(alpha, predictor.kinds)
    return replace(predictor, alpha=level, thresholds=read_only(bounds.scores), rank_limits=ranks, levels=levels)


def rare(predictor: ConditionalPredictor) -> str | None:
    """The cells whose threshold is infinite, and what they lack."""
    outcome = {
        "group": "Its sets hold all classes: collect more, or join small groups",
        "class and group": "Such a class is in every set of its group: collect more, or join small groups",
        "cluster": "Such classes are in every set: collect more",
    }.get(predictor.per, "Such a class is in every set: collect more, or let rare classes share with per='cluster'")
    return rare_cells(predictor, "thresholds", "Their classes are in every set", outcome)


def from_content(content: Content) -> ConditionalPredictor:
    """A predictor from the content of its file, each part checked against the others."""
    (alpha, n, classes), score = content.shared(), content.score()
    groups = group_names(content.take("groups", lambda value: value is None or isinstance(value, list)))
    per = content.take("per", lambda value: value in (*PER, KIND) and ("group" in value) == (groups is not None))
    shape = (1 if groups is None else len(groups), len(classes))
    thresholds = content.matrix("thresholds", shape)
    limits = content.take("rank_limits", lambda value: (value is not None) == (per == "rc3p"))
    rank_limits = None if limits is None else whole_numbers("rank_limits", limits, np.int32)
    need("rank_limits", rank_limits is None or rank_limits.shape == shape)
    shared = per == "cluster" or (groups is not None and groups[-1] is None)
    cells = cells_of(content, per, n, shape, shared)
    kinds = kinds_of(content, classes, cells) if per == KIND else None
    levels = levels_of(content, alpha, kinds)
    content.finish()
    predictor = ConditionalPredictor(
        score, per, alpha, thresholds, rank_limits, n, classes, groups, cells, kinds, levels
    )
    if cells.scores is not None:
        known = Bounds(cells.thresholds(levels)[cells.of]) if levels else bounds_at(predictor, alpha)
        check_limits(thresholds, known.scores)
        if rank_limits is not None:
            check_limits(rank_limits, known.ranks)
    return predictor
