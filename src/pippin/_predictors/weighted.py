"""Covariate shift: calibration rows weigh as much as rows like them occur where one predicts."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os import PathLike
from typing import Any

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
    as_classes,
    as_labels,
    as_rows,
    check_names,
    read_only,
)
from pippin._predictors.contents import checked_classes, rising, shared_content
from pippin._predictors.marginal import Seed
from pippin._predictors.p_values import PointPredictions, best_two
from pippin._predictors.sets import PredictionSets
from pippin._runtime import disk
from pippin._runtime.threads import run
from pippin._theory.scores import Score, make_score, parse_score
from pippin._theory.weighted_tails import Tails, tails

Vector = NDArray[np.float64]


def likelihood_ratios(p_target: ArrayLike, n_source: int, n_target: int) -> Vector:
    """w(x) = p/(1 − p) · n_source/n_target, from a classifier that tells target rows from source rows.

    Args:
        p_target: for each object the probability that it comes from the target, where one
            predicts, rather than from the source, where one calibrates.
        n_source: how many source rows the classifier was fitted on.
        n_target: how many target rows.

    >>> import pippin
    >>> pippin.likelihood_ratios([0.5, 0.8, 0.0], n_source=300, n_target=100)
    array([ 3., 12.,  0.])
    """
    if not all(isinstance(n, int | float | np.number) and 1 <= n < np.inf for n in (n_source, n_target)):
        raise ValueError(
            f"Expected rows of both kinds, got n_source={n_source!r} and n_target={n_target!r}: count them."
        )
    p = np.asarray(as_array(p_target), dtype=np.float64)
    if p.ndim != 1 or not p.size:
        raise ValueError(f"Expected one probability per object, got shape {p.shape}: pass the target's column.")
    bad = ~((p >= 0) & (p < 1))
    if bad.any():
        row = int(bad.argmax())
        if p[row] == 1:
            raise ValueError(
                f"Row {row} comes from the target with probability 1, so its ratio is infinite: no source row is like "
                "it, and no weight can make up for that; leave it out, or regularise the classifier."
            )
        raise ValueError(f"Row {row} has {p[row]}, expected a probability: pass the target's column of predict_proba.")
    with np.errstate(over="ignore"):
        return p / (1 - p) * (n_source / n_target)


def calibrate_weighted(
    probs: Any,
    labels: ArrayLike,
    weights: ArrayLike,
    score: Score | str = "repip",
    alpha: float = 0.1,
    classes: Classes | None = None,
    seed: Seed = None,
    *,
    from_logits: bool = False,
) -> "WeightedPredictor":
    """A predictor for objects of another distribution than the calibration rows.

    `weights` are the rows' likelihood ratios dP_target(x)/dP_source(x), up to one factor that
    they share with the weights given to `predict`. If only the distribution of x changes, not
    that of the class given x, and the ratios are right, sets contain the true class with
    probability at least 1 − alpha. Tibshirani, Barber, Candès, Ramdas (2019), Conformal
    prediction under covariate shift.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> ratio = 1 + data.probs[:, 0]  # where one predicts, the first class is up to twice as common
    >>> predictor = pippin.calibrate_weighted(data.probs[:2000], data.labels[:2000], ratio[:2000], "pip", 0.1)
    >>> predictor
    WeightedPredictor(pip, alpha=0.1, 2,000 calibration examples worth 1,940, 12 classes)
    """
    rows = as_rows(probs, from_logits)
    same_index("probs", rows.index, labels=labels, weights=weights)
    chosen = parse_score(score)
    level = as_alpha(alpha)
    names = as_classes(classes, rows)
    indices = as_labels(labels, rows.n, names)
    given = _as_weights(weights, rows.n)
    if not given.any():
        raise ValueError("Expected some positive weight among the calibration rows, got zeros only: check the ratios.")
    scores = dispatch.label_scores(rows, indices, chosen, dispatch.draws(chosen, rows.n, seed))
    order = np.argsort(scores, kind="stable")
    return WeightedPredictor(chosen, level, rows.n, names, read_only(scores[order]), read_only(given[order]))


@dataclass(frozen=True, eq=False, repr=False)
class WeightedPredictor:
    """Calibration scores in increasing order, each with its weight, and a threshold for every object.

    An object of weight w has the smallest score s as its threshold for which the scores up
    to s hold a share of at least 1 − alpha of all weights, w included; if none does, it is
    infinite. `n_calibration` counts rows of weight 0 too.
    """

    score: Score
    alpha: float
    n_calibration: int
    classes: Classes
    scores: Vector
    weights: Vector

    @property
    def effective_sample_size(self) -> float:
        """(Σw)²/Σw²: as many rows of equal weight would be about as good."""
        scaled = self.weights / self.weights.max()
        return float(scaled.sum() ** 2 / (scaled**2).sum())

    def at(self, alpha: float) -> "WeightedPredictor":
        """Another level from the same calibration."""
        return replace(self, alpha=as_alpha(alpha))

    def thresholds(self, weights: ArrayLike) -> Vector:
        """The threshold of each object, from its weight."""
        given = np.asarray(as_array(weights))
        distinct, which = np.unique(_as_weights(weights, given.size), return_inverse=True)
        reached = self._tails.reach(distinct, self.alpha)
        return np.append(self.scores, np.inf)[reached][which]

    def predict(
        self, probs: Any, weights: ArrayLike, seed: Seed = None, *, nonempty: bool = False, from_logits: bool = False
    ) -> PredictionSets:
        """The set of every row: all classes whose score is at most the row's threshold.

        `weights` are the likelihood ratios of these objects, by the same function as those of
        the calibration rows. With `nonempty=True` an empty set gets the most probable class.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> ratio = 1 + data.probs[:, 0]
        >>> predictor = pippin.calibrate_weighted(data.probs[:2000], data.labels[:2000], ratio[:2000])
        >>> predictor.predict(data.probs[2000:], ratio[2000:])
        PredictionSets(2,986 objects, 12 classes, mean size 1.52, 72 % singletons)
        """
        return self._sets(probs, weights, seed, nonempty, from_logits)

    def predict_one(self, row: Any, weight: float, seed: Seed = None, *, nonempty: bool = False) -> NDArray[np.integer]:
        """One object's class indices, most probable first; takes probabilities, not logits."""
        check_names(self.classes, row)
        return self._sets(as_array(row)[None], [weight], seed, nonempty, False).members

    def _sets(self, probs: Any, weights: ArrayLike, seed: Seed, nonempty: bool, from_logits: bool) -> PredictionSets:
        rows, given, u = self._ask(probs, weights, seed, from_logits)
        limits = self.thresholds(given)
        sizes, members = dispatch.members_within(rows, self.score, limits[:, None], None, np.arange(rows.n), u)
        if nonempty:
            sizes, members = dispatch.with_best(rows, sizes, members)
        if self.scores[-1] < np.inf and (full := int(np.isinf(limits).sum())):
            warnings.warn(
                f"{full:,} of {rows.n:,} objects weigh more than a share of {self.alpha:g} of all weights: their sets "
                "hold all classes. Calibrate on more rows that are like them.",
                stacklevel=3,
            )
        return PredictionSets(sizes, members, self.classes, rows.index)

    def p_values(
        self,
        probs: Any,
        weights: ArrayLike,
        labels: ArrayLike | None = None,
        seed: Seed = None,
        *,
        from_logits: bool = False,
    ) -> Vector:
        """p = (Σ_{s_j ≥ s} w_j + w)/(Σ_j w_j + w) of the given labels, (n,), or of every class, (n, K).

        `predict` gives the classes with p > alpha, exactly: each p is rounded once.

        >>> import pippin
        >>> scores = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]
        >>> predictor = pippin.calibrate_weighted(scores, [0, 0, 1], [1, 2, 1], "ip")
        >>> predictor.p_values([[0.7, 0.3]], [1])
        array([[0.4, 0.2]])
        """
        rows, given, u = self._ask(probs, weights, seed, from_logits)
        same_index("probs", rows.index, labels=labels)
        if labels is not None:
            indices = as_labels(labels, rows.n, self.classes)
            return self._p(dispatch.label_scores(rows, indices, self.score, u), given)
        found = dispatch.class_scores(rows, self.score, u)

        def work(start: int, stop: int) -> None:
            found[start:stop] = self._p(found[start:stop], given[start:stop, None])

        _in_blocks(work, rows)
        return found

    def forced(
        self, probs: Any, weights: ArrayLike, seed: Seed = None, *, from_logits: bool = False
    ) -> PointPredictions:
        """One class per row, the one with the largest p-value, with its confidence and credibility.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> ratio = 1 + data.probs[:, 0]
        >>> predictor = pippin.calibrate_weighted(data.probs[:2000], data.labels[:2000], ratio[:2000], "pip")
        >>> predictor.forced(data.probs[2000:], ratio[2000:])
        PointPredictions(2,986 objects, mean confidence 0.935, mean credibility 0.572)
        """
        rows, given, u = self._ask(probs, weights, seed, from_logits)

        def p_of(labels: NDArray[np.int64]) -> Vector:
            return self._p(dispatch.label_scores(rows, labels, self.score, u), given)

        return best_two(rows, self.classes, p_of)

    def _ask(self, probs: Any, weights: ArrayLike, seed: Seed, from_logits: bool) -> tuple[Rows, Vector, Vector]:
        """The rows, their weights, and their u."""
        rows = as_rows(probs, from_logits)
        agree(self.classes, rows)
        same_index("probs", rows.index, weights=weights)
        return rows, _as_weights(weights, rows.n), dispatch.draws(self.score, rows.n, seed)

    def _p(self, scores: Vector, weights: Vector) -> Vector:
        return self._tails.p(np.searchsorted(self.scores, scores, side="left"), weights)

    @cached_property
    def _tails(self) -> Tails:
        return tails(self.weights)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def save(self, path: "str | PathLike[str]") -> None:
        """Writes a JSON file that any language can read; `pippin.load` reads it."""
        content = {
            "score": self.score.content(),
            **shared_content(self),
            "calibration_scores": self.scores.tolist(),
            "weights": self.weights.tolist(),
        }
        disk.write_predictor(path, content, kind="weighted")

    def __repr__(self) -> str:
        return (
            f"WeightedPredictor({self.score}, alpha={self.alpha:g}, {self.n_calibration:,} calibration examples "
            f"worth {self.effective_sample_size:,.0f}, {len(self.classes):,} classes)"
        )


def from_content(
    score: Any, alpha: Any, n_calibration: Any, n_classes: Any, classes: Any, calibration_scores: Any, weights: Any
) -> WeightedPredictor:
    """The predictor that had this content, each part checked against the others."""
    scores = np.array(calibration_scores, dtype=np.float64)
    given = np.array(weights, dtype=np.float64)
    names = checked_classes(
        alpha,
        n_calibration,
        n_classes,
        classes,
        calibration_scores=scores.shape == (n_calibration,) and rising(scores),
        weights=given.shape == (n_calibration,) and bool(((given >= 0) & (given < np.inf)).all() and given.any()),
    )
    chosen = make_score(score["name"], score["parameters"])
    return WeightedPredictor(chosen, alpha, n_calibration, names, read_only(scores), read_only(given))


def _as_weights(weights: ArrayLike, n: int) -> Vector:
    given = np.asarray(as_array(weights), dtype=np.float64)
    if given.shape != (n,):
        raise ValueError(f"Expected {n} weights, one per row, got shape {given.shape}: pass weights in row order.")
    bad = ~((given >= 0) & (given < np.inf))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"Row {row} has the weight {given[row]}, expected a finite number of at least 0: "
            "repair its likelihood ratio, or leave the row out."
        )
    return given


def _in_blocks(work: Callable[[int, int], None], rows: Rows) -> None:
    step = max(4, (dispatch.BLOCK >> 4) // rows.n_classes)  # wide floats and whole numbers take room
    run(work, ((start, min(start + step, rows.n)) for start in range(0, rows.n, step)))
