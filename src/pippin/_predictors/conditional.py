"""Guarantees for every class, every group, or both: a threshold per cell instead of one for all."""

import warnings
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._engine import dispatch
from pippin._inputs.index import same_index
from pippin._inputs.rows import (
    Classes,
    Rows,
    agree,
    as_alpha,
    as_array,
    as_groups,
    as_labels,
    as_rows,
    check_names,
    read_only,
)
from pippin._predictors import p_values
from pippin._predictors.cells import Cells, Limits, group_cells, make_cells
from pippin._predictors.clusters import cluster_cells
from pippin._predictors.contents import check_limits, checked_classes, rising, shared_content, whole_numbers
from pippin._predictors.frames import polars_frame
from pippin._predictors.p_values import PointPredictions, Query
from pippin._predictors.rank_limits import rc3p_limits
from pippin._predictors.sets import PredictionSets
from pippin._runtime import disk
from pippin._theory.level import examples_needed
from pippin._theory.scores import Score, make_score
from pippin._theory.shortage import named

Per = Literal["class", "group", "class and group", "cluster", "rc3p"]
PER: tuple[str, ...] = get_args(Per)
UNSEEN = ("error", "marginal")


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalPredictor:
    """A calibrated score with a threshold for every class, group, or both.

    `thresholds[g, k]` is what class k of an object in group g must not exceed; without
    groups there is one row. `groups` are their names; the name None stands for every
    group that was not seen. `rank_limits` are RC3P's, of the same shape.
    """

    score: Score
    per: str
    alpha: float
    thresholds: NDArray[np.float64]
    rank_limits: NDArray[np.int32] | None
    n_calibration: int
    classes: Classes
    groups: tuple[str | int | None, ...] | None
    cells: Cells

    def at(self, alpha: float) -> "ConditionalPredictor":
        """Another level from the same calibration."""
        if self.cells.scores is None:
            raise ValueError(
                f"This predictor was saved without its calibration scores, so it has only alpha={self.alpha}: "
                "calibrate again, or save with scores=True."
            )
        predictor = at_level(self, alpha)
        if note := _rare(predictor):
            warnings.warn(note, stacklevel=2)
        return predictor

    def predict(
        self,
        probs: Any,
        seed: Any = None,
        *,
        groups: ArrayLike | None = None,
        nonempty: bool = False,
        from_logits: bool = False,
    ) -> PredictionSets:
        """The set of every row: all classes whose score is at most their own threshold.

        With `nonempty=True` the most probable class is put into sets that would be empty.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", per="class")
        >>> predictor.predict(data.probs[2000:])
        PredictionSets(2,986 objects, 12 classes, mean size 2.28, 53 % singletons)
        """
        rows = as_rows(probs, from_logits)
        agree(self.classes, rows)
        same_index("probs", rows.index, groups=groups)
        u = dispatch.draws(self.score, rows.n, seed)
        sizes, members = dispatch.members_within(
            rows, self.score, self.thresholds, self.rank_limits, self.group_codes(groups, rows.n), u
        )
        if nonempty:
            sizes, members = dispatch.with_best(rows, sizes, members)
        return PredictionSets(sizes, members, self.classes, rows.index)

    def predict_one(
        self, row: Any, seed: Any = None, *, group: str | int | None = None, nonempty: bool = False
    ) -> NDArray[np.integer]:
        """One object's class indices, most probable first."""
        if self.groups is not None and group is None:
            raise ValueError(f"This predictor has thresholds per {self.per}: pass group=, that of the object.")
        check_names(self.classes, row)
        groups = None if group is None else [group]
        return self.predict(as_array(row)[None], seed, groups=groups, nonempty=nonempty).members

    def p_values(
        self,
        probs: Any,
        labels: ArrayLike | None = None,
        *,
        smoothed: bool = False,
        seed: Any = None,
        groups: ArrayLike | None = None,
        from_logits: bool = False,
    ) -> NDArray[np.float64]:
        """The p-value of every class, (n, K), among the examples of its own cell; with labels of one class per row.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", per="class")
        >>> predictor.p_values(data.probs[2000:2003], data.labels[2000:2003]).round(3)
        array([0.966, 0.919, 0.905])
        """
        query = self._ask(as_rows(probs, from_logits), groups, smoothed, seed)
        same_index("probs", query.rows.index, labels=labels)
        if labels is None:
            return p_values.of_classes(query)
        return p_values.of_labels(query, as_labels(labels, query.rows.n, self.classes))

    def forced(
        self,
        probs: Any,
        *,
        smoothed: bool = False,
        seed: Any = None,
        groups: ArrayLike | None = None,
        from_logits: bool = False,
    ) -> PointPredictions:
        """One class per row, the one with the largest p-value, with its confidence and credibility."""
        return p_values.points(self._ask(as_rows(probs, from_logits), groups, smoothed, seed), self.classes)

    def _ask(self, rows: Rows, groups: ArrayLike | None, smoothed: bool, seed: Any) -> Query:
        if self.rank_limits is not None:
            raise ValueError(
                "The sets of per='rc3p' bound the rank of a class too, so no p-value belongs to them: "
                "calibrate with per='class' for p-values."
            )
        agree(self.classes, rows)
        same_index("probs", rows.index, groups=groups)
        return p_values.ask(rows, self.score, self.cells, self.group_codes(groups, rows.n), smoothed, seed)

    def group_codes(self, groups: ArrayLike | None, n: int) -> NDArray[np.int64]:
        """The row of `thresholds` that each object uses; the group 1 may be spelled "1", and the other way round."""
        if self.groups is None:
            if groups is not None:
                raise ValueError(
                    f"This predictor has a threshold per {self.per} and knows no groups: leave groups= out, "
                    'or calibrate with per="group".'
                )
            return np.zeros(n, dtype=np.int64)
        if groups is None:
            raise ValueError(f"This predictor has thresholds per {self.per}: pass groups=, one per row.")
        given = as_groups(groups, n)
        known = {name: code for code, name in enumerate(self.groups)}
        other = known.pop(None, -1)
        known |= {str(name): code for name, code in known.items()}
        codes = np.array([known.get(name, known.get(str(name), other)) for name in given.tolist()], dtype=np.int64)
        if (codes < 0).any():
            row = int((codes < 0).argmax())
            raise ValueError(
                f"Row {row} is in the group {given[row].item()!r}, which the calibration has not seen: calibrate with "
                'such rows, or with unseen="marginal" to give them a threshold of their own.'
            )
        return codes

    def table(self) -> Any:
        """A polars frame, one row per class (and group): its examples, its threshold, the coverage to expect.

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
        reached = np.minimum(self.cells.quantile_ranks(self.alpha)[cell], counts + 1)
        columns: dict[str, Any] = {}
        if self.groups is not None:
            names = self.groups
            if None in names:
                names = tuple("(any other)" if name is None else str(name) for name in names)
            columns["group"] = [name for name in names for _ in range(n_classes)]
        columns["class"] = list(self.classes) * n_groups
        promised = np.repeat([name is not None for name in self.groups or ("all",)], n_classes)
        if self.per == "cluster":
            promised = (counts < self.n_calibration) | (len(self.cells.counts) == 1)
            columns["cluster"] = [int(cell[k]) if promised[k] else None for k in range(n_classes)]
        columns |= {"n": counts, "threshold": self.thresholds.ravel()}
        if self.rank_limits is not None:
            columns["rank_limit"] = self.rank_limits.ravel()
        expected = reached / (counts + 1)
        columns["expected_coverage"] = [float(expected[i]) if promised[i] else None for i in range(len(expected))]
        columns["lacking"] = np.maximum(examples_needed(self.alpha) - counts, 0)
        return polars_frame(columns)

    def save(self, path: "str | PathLike[str]", scores: bool = True) -> None:
        """Writes a JSON file that any language can read; `scores=False` leaves the calibration scores out."""
        kept = self.cells.scores if scores else None
        disk.write_predictor(
            path,
            {
                "score": self.score.content(),
                "per": self.per,
                **shared_content(self),
                "thresholds": self.thresholds.tolist(),
                "rank_limits": None if self.rank_limits is None else self.rank_limits.tolist(),
                "groups": None if self.groups is None else list(self.groups),
                "cells": self.cells.of.tolist(),
                "cell_counts": self.cells.counts.tolist(),
                "calibration_scores": None if kept is None else kept.tolist(),
                "calibration_ranks": None if kept is None or self.cells.ranks is None else self.cells.ranks.tolist(),
            },
            kind="conditional",
        )

    def __repr__(self) -> str:
        told = f", {sum(name is not None for name in self.groups):,} groups" if self.groups is not None else ""
        way = self.per if self.per == "rc3p" else f"per {self.per}"
        return (
            f"ConditionalPredictor({self.score} {way}, alpha={self.alpha:g}, "
            f"{self.n_calibration:,} calibration examples, {len(self.classes):,} classes{told})"
        )


def calibrate_conditional(
    rows: Rows,
    labels: NDArray[np.int64],
    score: Score,
    alpha: float,
    classes: Classes,
    seed: Any,
    per: str,
    groups: ArrayLike | None,
    unseen: str,
) -> ConditionalPredictor:
    """What `pippin.calibrate` does with `per=` or `groups=`, and its warnings."""
    predictor, note = make_conditional(rows, labels, score, alpha, classes, seed, per, groups, unseen)
    for told in filter(None, (note, _rare(predictor))):
        warnings.warn(told, stacklevel=3)
    return predictor


def make_conditional(
    rows: Rows,
    labels: NDArray[np.int64],
    score: Score,
    alpha: float,
    classes: Classes,
    seed: Any,
    per: str,
    groups: ArrayLike | None,
    unseen: str,
) -> tuple[ConditionalPredictor, str | None]:
    """The predictor, and what to warn of beyond infinite thresholds."""
    if per not in PER:
        raise ValueError(f"Expected per to be one of {', '.join(map(repr, PER))}, got {per!r}.")
    if unseen not in UNSEEN:
        raise ValueError(f"Expected unseen to be 'error' or 'marginal', got {unseen!r}.")
    if unseen != "error" and groups is None:
        raise ValueError(
            f"Expected groups beside unseen={unseen!r}, got none: pass groups=, one per row, or leave unseen= out."
        )
    if ("group" in per) != (groups is not None):
        remedy = "pass groups=, one per row" if groups is None else "leave groups= out, or ask per='class and group'"
        got = "no groups" if groups is None else "groups"
        raise ValueError(
            f"Expected groups where thresholds are per group and only there, got per={per!r} and {got}: {remedy}."
        )
    same_index("probs", rows.index, groups=groups)
    n, n_classes = rows.n, rows.n_classes
    rng = np.random.default_rng(seed)
    scores = dispatch.label_scores(rows, labels, score, dispatch.draws(score, n, rng))
    names: tuple[Any, ...] | None = None
    note: str | None = None
    if per == "cluster":
        cells, n, note = cluster_cells(scores, labels, n_classes, alpha, rng)
    elif groups is None:
        ranks = dispatch.label_ranks(rows, labels) + 1 if per == "rc3p" else None
        cells = make_cells(scores, labels, np.arange(n_classes)[None], ranks)
    else:
        found, codes = np.unique(as_groups(groups, rows.n), return_inverse=True)
        names = tuple(found.tolist())
        cells = group_cells(scores, codes, labels if "class" in per else None, len(names), n_classes, unseen)
        if unseen == "marginal":
            names = (*names, None)
    blank = ConditionalPredictor(score, per, alpha, np.empty(0), None, n, classes, names, cells)
    return at_level(blank, alpha), note


def _limits(predictor: ConditionalPredictor, alpha: float) -> Limits:
    if predictor.per == "rc3p":
        return rc3p_limits(predictor.cells, alpha)
    return Limits(predictor.cells.thresholds(alpha)[predictor.cells.of])


def at_level(predictor: ConditionalPredictor, alpha: float) -> ConditionalPredictor:
    """`ConditionalPredictor.at` without its warning."""
    limits = _limits(predictor, alpha)
    ranks = None if limits.ranks is None else read_only(limits.ranks)
    return replace(predictor, alpha=as_alpha(alpha), thresholds=read_only(limits.scores), rank_limits=ranks)


def _rare(predictor: ConditionalPredictor) -> str | None:
    """The cells whose threshold is infinite, and what they lack."""
    needed = examples_needed(predictor.alpha)
    counts = predictor.cells.counts
    few = np.flatnonzero(counts < needed)
    if not len(few):
        return None
    classes = None if predictor.per == "group" else predictor.classes
    told = named(few, counts, predictor.cells.of, classes, predictor.groups, predictor.per == "cluster")
    outcome = {
        "group": "Its sets hold all classes: collect more, or join small groups",
        "class and group": "Such a class is in every set of its group: collect more, or join small groups",
        "cluster": "Such classes are in every set: collect more",
    }.get(predictor.per, "Such a class is in every set: collect more, or let rare classes share with per='cluster'")
    return (
        f"{len(few):,} of {len(counts):,} thresholds are infinite, because alpha={predictor.alpha:g} needs {needed:,} "
        f"calibration examples each: {told}. {outcome}."
    )


def from_content(
    score: Any,
    per: Any,
    alpha: Any,
    thresholds: Any,
    rank_limits: Any,
    n_calibration: Any,
    n_classes: Any,
    classes: Any,
    groups: Any,
    cells: Any,
    cell_counts: Any,
    calibration_scores: Any,
    calibration_ranks: Any,
) -> ConditionalPredictor:
    """A predictor from the content of its file, each part checked against the others."""
    of = whole_numbers(cells, np.int32)
    counts = whole_numbers(cell_counts, np.int64)
    limits = np.array(thresholds, dtype=np.float64)
    ranks = None if rank_limits is None else read_only(whole_numbers(rank_limits, np.int32))
    scores = None if calibration_scores is None else read_only(np.array(calibration_scores, dtype=np.float64))
    label_ranks = None if calibration_ranks is None else read_only(whole_numbers(calibration_ranks, np.int32))
    shape = (1 if groups is None else len(groups), n_classes)
    names = checked_classes(
        alpha,
        n_calibration,
        n_classes,
        classes,
        per=per in PER and ("group" in per) == (groups is not None),
        groups=groups is None or len(set(groups)) == len(groups),
        thresholds=limits.shape == shape and not np.isnan(limits).any(),
        rank_limits=(ranks is not None) == (per == "rc3p") and (ranks is None or ranks.shape == shape),
        cells=of.shape == shape and int(of.min()) >= 0 and int(of.max()) < len(counts),
        cell_counts=counts.ndim == 1 and bool((counts >= 0).all()),
        calibration_scores=scores is None
        or (scores.shape == (counts.sum(),) and all(map(rising, np.split(scores, np.cumsum(counts)[:-1])))),
        calibration_ranks=(label_ranks is not None) == (per == "rc3p" and scores is not None)
        and (label_ranks is None or (label_ranks.shape == (counts.sum(),) and bool((label_ranks >= 1).all()))),
    )
    offsets = read_only(np.concatenate([[0], np.cumsum(counts)]))
    kept = Cells(read_only(of), offsets, scores, label_ranks)
    chosen = make_score(score["name"], score["parameters"])
    group_names = None if groups is None else tuple(groups)
    predictor = ConditionalPredictor(
        chosen, per, alpha, read_only(limits), ranks, n_calibration, names, group_names, kept
    )
    if scores is not None:
        check_limits(limits, lambda level: _limits(predictor, level).scores, alpha)
    if label_ranks is not None:
        check_limits(ranks, lambda level: _limits(predictor, level).ranks, alpha)
    return predictor
