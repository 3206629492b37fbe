"""The guarantee: a threshold from calibration scores, and the predictor that applies it."""

import math
import warnings
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from os import PathLike
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._engine import dispatch
from pippin._inputs.index import same_index
from pippin._inputs.rows import (
    NATIVE,
    Classes,
    Rows,
    agree,
    as_alpha,
    as_array,
    as_classes,
    as_labels,
    as_rows,
    check_names,
    read_only,
    uniforms,
)
from pippin._predictors import p_values
from pippin._predictors.cells import one_cell
from pippin._predictors.conditional import ConditionalPredictor, Per, calibrate_conditional
from pippin._predictors.contents import check_limits, checked_classes, rising, shared_content
from pippin._predictors.p_values import PointPredictions, Query
from pippin._predictors.sets import PredictionSets
from pippin._runtime import disk
from pippin._theory.level import quantile_rank
from pippin._theory.scores import Score, make_score, parse_score
from pippin._theory.shortage import too_few

Seed = int | np.random.Generator | None


def score(
    probs: Any, labels: ArrayLike | None, score: Score | str, *, seed: Seed = None, from_logits: bool = False
) -> NDArray[np.float64]:
    """Scores of the given labels, (n,); with labels=None of every class, (n, K).

    >>> import pippin
    >>> pippin.score([[0.5, 0.25, 0.25]], [2], "pip")
    array([1.375])
    """
    rows = as_rows(probs, from_logits)
    same_index("probs", rows.index, labels=labels)
    chosen = parse_score(score)
    u = dispatch.draws(chosen, rows.n, seed)
    if labels is None:
        return dispatch.class_scores(rows, chosen, u)
    indices = as_labels(labels, rows.n, as_classes(None, rows))
    return dispatch.label_scores(rows, indices, chosen, u)


@overload
def calibrate(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    alpha: float = 0.1,
    classes: Classes | None = None,
    seed: Seed = None,
    *,
    from_logits: bool = False,
) -> "Predictor": ...
@overload
def calibrate(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    alpha: float = 0.1,
    classes: Classes | None = None,
    seed: Seed = None,
    *,
    per: Per | None = None,
    groups: ArrayLike | None = None,
    unseen: Literal["error", "marginal"] = "error",
    from_logits: bool = False,
) -> "Predictor | ConditionalPredictor": ...
def calibrate(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    alpha: float = 0.1,
    classes: Classes | None = None,
    seed: Seed = None,
    *,
    per: Per | None = None,
    groups: ArrayLike | None = None,
    unseen: Literal["error", "marginal"] = "error",
    from_logits: bool = False,
) -> "Predictor | ConditionalPredictor":
    """A predictor whose sets contain the true class with probability at least 1 − alpha.

    The threshold is the k-th smallest score of the true labels, k = ⌈(n + 1)(1 − alpha)⌉.
    The guarantee holds on average over calibration and test rows that are exchangeable:
    use rows the classifier was not trained on.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        score: a score or its spelling.
        alpha: the share of errors allowed.
        classes: names of the K columns; a data frame brings its own.
        seed: for the randomised scores (APS, RAPS, SAPS) and for clusters; a seed or a Generator.
        per: what the guarantee holds for, beyond all objects together: every "class", every
            "group", every "class and group", with rare classes sharing by "cluster", or
            every class by "rc3p", which bounds its rank as well. See docs/guarantees.md.
        groups: the group of each row, for a guarantee per group.
        unseen: what `predict` does with a group that is not among them: an "error", or the
            "marginal" threshold of all groups together.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", 0.1, data.classes)
    >>> round(predictor.threshold, 4)
    1.7291
    """
    rows = as_rows(probs, from_logits)
    same_index("probs", rows.index, labels=labels)
    chosen = parse_score(score)
    level = as_alpha(alpha)
    names = as_classes(classes, rows)
    indices = as_labels(labels, rows.n, names)
    if per is not None or groups is not None or unseen != "error":
        return calibrate_conditional(
            rows, indices, chosen, alpha, names, seed, "group" if per is None else per, groups, unseen
        )
    scores = dispatch.label_scores(rows, indices, chosen, dispatch.draws(chosen, rows.n, seed))
    return Predictor(chosen, level, _threshold(scores, alpha), rows.n, names, read_only(scores))


@dataclass(frozen=True, eq=False, repr=False)
class Predictor:
    """A calibrated score: what turns rows of probabilities into prediction sets.

    `scores` are the calibration scores in any order; None, if its file left them out.
    """

    score: Score
    alpha: float
    threshold: float
    n_calibration: int
    classes: Classes
    scores: NDArray[np.float64] | None

    @cached_property
    def calibration_scores(self) -> NDArray[np.float64] | None:
        """The scores of the true labels, sorted."""
        return None if self.scores is None else read_only(np.sort(self.scores))

    def at(self, alpha: float) -> "Predictor":
        """Another level from the same calibration."""
        if self.scores is None:
            raise ValueError(
                f"This predictor was saved without its calibration scores, so it has only alpha={self.alpha}: "
                "calibrate again, or save with scores=True."
            )
        return replace(self, alpha=as_alpha(alpha), threshold=_threshold(self.scores, alpha))

    def predict(
        self, probs: Any, seed: Seed = None, *, nonempty: bool = False, from_logits: bool = False
    ) -> PredictionSets:
        """The set of every row: all classes whose score is at most the threshold.

        With `nonempty=True` the most probable class is put into sets that would be empty:
        coverage can only rise, and so does the mean size.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], classes=data.classes)
        >>> predictor.predict(data.probs[2000:])
        PredictionSets(2,986 objects, 12 classes, mean size 1.48, 73 % singletons)
        """
        rows = as_rows(probs, from_logits)
        agree(self.classes, rows)
        sizes, members = dispatch.members(rows, self.score, self.threshold, dispatch.draws(self.score, rows.n, seed))
        if nonempty:
            sizes, members = dispatch.with_best(rows, sizes, members)
        return PredictionSets(sizes, members, self.classes, rows.index)

    def p_values(
        self,
        probs: Any,
        labels: ArrayLike | None = None,
        *,
        smoothed: bool = False,
        seed: Seed = None,
        from_logits: bool = False,
    ) -> NDArray[np.float64]:
        """The p-value of every class, (n, K); with labels of one class per row, (n,).

        p = (1 + #{calibration scores >= s})/(n + 1), so `predict` gives the classes with
        p > alpha. Smoothed, calibration scores equal to s count with a random weight.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:1999], data.labels[:1999], "pip")
        >>> predictor.p_values(data.probs[1999:2001], data.labels[1999:2001])
        array([0.3035, 0.8375])
        """
        query = self._ask(as_rows(probs, from_logits), smoothed, seed)
        same_index("probs", query.rows.index, labels=labels)
        if labels is None:
            return p_values.of_classes(query)
        return p_values.of_labels(query, as_labels(labels, query.rows.n, self.classes))

    def forced(
        self, probs: Any, *, smoothed: bool = False, seed: Seed = None, from_logits: bool = False
    ) -> PointPredictions:
        """One class per row, the one with the largest p-value, with its confidence and credibility.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:1999], data.labels[:1999], "pip", classes=data.classes)
        >>> predictor.forced(data.probs[1999:])
        PointPredictions(2,987 objects, mean confidence 0.938, mean credibility 0.549)
        """
        return p_values.points(self._ask(as_rows(probs, from_logits), smoothed, seed), self.classes)

    def _ask(self, rows: Rows, smoothed: bool, seed: Seed) -> Query:
        agree(self.classes, rows)
        cells = one_cell(self.calibration_scores, self.n_calibration, len(self.classes))
        return p_values.ask(rows, self.score, cells, np.zeros(rows.n, dtype=np.int64), smoothed, seed)

    def predict_one(self, row: Any, seed: Seed = None) -> NDArray[np.int32]:
        """One object's class indices, most probable first, with the least delay.

        Takes probabilities, not logits. The first call in a process loads the compiled
        loop; see `pippin.warm_up`.
        """
        if type(row) is not np.ndarray or row.dtype not in NATIVE or not row.flags.carray:
            check_names(self.classes, row)
            row = np.require(as_array(row), np.float64, ["C", "A"])
        n_classes, randomized, one_set = self._one
        if row.shape != (n_classes,):
            raise ValueError(f"Expected one row of {n_classes} probabilities, got shape {row.shape}.")
        return one_set(row, float(uniforms(seed, 1)[0]) if randomized else 0.0)

    def save(self, path: "str | PathLike[str]", scores: bool = True) -> None:
        """Writes a JSON file that any language can read; `scores=False` leaves the calibration scores out."""
        disk.write_predictor(
            path,
            {
                "score": self.score.content(),
                "threshold": self.threshold,
                **shared_content(self),
                "calibration_scores": self.calibration_scores.tolist()
                if scores and self.calibration_scores is not None
                else None,
            },
        )

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _one(self) -> tuple[int, bool, dispatch.OneSet]:
        """What `predict_one` would otherwise look up for every row."""
        n_classes = len(self.classes)
        return n_classes, self.score.randomized, dispatch.one_set(self.score, n_classes, self.threshold)

    def __repr__(self) -> str:
        return (
            f"Predictor({self.score}, alpha={self.alpha:g}, threshold={self.threshold:.6g}, "
            f"{self.n_calibration:,} calibration examples, {len(self.classes):,} classes)"
        )


def need_one_threshold(predictor: Any) -> None:
    """Raises a ValueError if the predictor has another kind of thresholds than one."""
    if not isinstance(predictor, Predictor):
        raise ValueError(
            f"Expected a predictor with one threshold for all, got {predictor!r}: only those can leave Python yet, so "
            "calibrate one without thresholds per class or group."
        )


def warm_up() -> None:
    """Loads the compiled loops now, so that no later call waits for them.

    The first time on a machine this compiles for some seconds and keeps the result on
    disk; after that it takes well under a second. Call it when a service starts, or
    while its image is built.
    """
    for kind in (np.float32, np.float64):
        block = np.full((1, 2), 0.5, dtype=kind)
        rows = as_rows(block)
        dispatch.one_set(parse_score("ip"), 2, 1.0)(block[0], 0.0)
        for name, shape in dispatch.EVERY_LOOP.items():
            some, labels = as_rows(np.full(shape, 1 / shape[1], dtype=kind)), read_only(np.zeros(shape[0], np.int64))
            scores = dispatch.label_scores(some, labels, parse_score(name), np.zeros(shape[0]))
            dispatch.members(some, parse_score(name), 1.0, np.zeros(shape[0]))
        dispatch.smallest(scores, 1)
        dispatch.members_within(
            rows, parse_score("ip"), np.ones((1, 1)), None, np.zeros(1, dtype=np.int64), np.zeros(1)
        )
        dispatch.band(rows, parse_score("ip"), 1.0, 1.0)
        dispatch.class_scores(rows, parse_score("ip"), np.zeros(1))
        Predictor(parse_score("ip"), 0.5, 0.5, 1, range(2), np.full(1, 0.5)).p_values(rows)


def from_content(
    score: Any, alpha: Any, threshold: Any, n_calibration: Any, n_classes: Any, classes: Any, calibration_scores: Any
) -> Predictor:
    """A predictor from the content of its file, each part checked against the others."""
    scores = None if calibration_scores is None else read_only(np.array(calibration_scores, dtype=np.float64))
    names = checked_classes(
        alpha,
        n_calibration,
        n_classes,
        classes,
        threshold=isinstance(threshold, float) and not math.isnan(threshold),
        calibration_scores=scores is None or (scores.shape == (n_calibration,) and rising(scores)),
    )
    if scores is not None:
        check_limits(threshold, partial(kth_smallest, scores), alpha)
    return Predictor(make_score(score["name"], score["parameters"]), alpha, threshold, n_calibration, names, scores)


def kth_smallest(scores: NDArray[np.float64], alpha: float) -> float:
    """The threshold alone: the k-th smallest score, k = ⌈(n + 1)(1 − α)⌉, or infinity if k > n."""
    k = quantile_rank(len(scores), alpha)
    return math.inf if k > len(scores) else dispatch.smallest(scores, k)


def _threshold(scores: NDArray[np.float64], alpha: float) -> float:
    threshold = kth_smallest(scores, alpha)
    if math.isinf(threshold):
        warn_of_few(len(scores), alpha)
    if math.isinf(threshold) and quantile_rank(len(scores), alpha) <= len(scores):
        warnings.warn(
            f"More than a share of {float(alpha):g} of the true labels have an infinite score, because their "
            "probability is 0: the threshold is infinite and every set holds all classes.",
            stacklevel=3,
        )
    return threshold


def warn_of_few(n: int, alpha: float) -> None:
    """Warns if n calibration examples cannot give a finite threshold."""
    if note := too_few(n, alpha):
        warnings.warn(note, stacklevel=4)
