"""Covariate and label shift: calibration rows weigh as much as rows like them occur where one predicts."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal import answers
from pippin._conformal.answers import asked_rows, drawn
from pippin._conformal.content import Content, need, vector_of
from pippin._conformal.explaining import Explains
from pippin._conformal.points import PointPredictions
from pippin._conformal.rules import Asked, ByWeights, as_weights, one_weight, own_weights
from pippin._conformal.saving import Saved, scored_content
from pippin._conformal.sets import PredictionSets
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._runtime.arrays import Classes, Indices, Seed, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.visible import visible
from pippin._runtime.warn import warn
from pippin._shift.label_shift import LabelRatios
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score
from pippin._validation.index import same_index
from pippin._validation.labels import as_labelled, check_names
from pippin._validation.rows import as_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def likelihood_ratios(p_target: ArrayLike, n_source: int, n_target: int) -> Vector:
    """w(x) = p/(1 − p) · n_source/n_target, from a classifier that tells target rows from source rows.

    Args:
        p_target: for each object the probability that it comes from the target, where one
            predicts, rather than from the source, where one calibrates.
        n_source: how many source rows the classifier was fitted on.
        n_target: how many target rows.

    >>> import pippin
    >>> pippin.shift.likelihood_ratios([0.5, 0.8, 0.0], n_source=300, n_target=100)
    array([ 3., 12.,  0.])
    """
    if not all(isinstance(n, int | float | np.number) and 1 <= n < np.inf for n in (n_source, n_target)):
        raise InputError(
            f"Expected rows of both kinds, got n_source={n_source!r} and n_target={n_target!r}", "count them"
        )
    p = np.asarray(as_array(p_target), dtype=np.float64)
    if p.ndim != 1 or not p.size:
        raise InputError(f"Expected one probability per object, got shape {p.shape}", "pass the target's column")
    bad = ~((p >= 0) & (p < 1))
    if bad.any():
        row = int(bad.argmax())
        if p[row] == 1:
            raise InputError(
                f"Row {row} comes from the target with probability 1, so its ratio is infinite",
                "no source row is like "
                "it, and no weight can make up for that; leave it out, or regularise the classifier",
            )
        raise InputError(f"Row {row} has {p[row]}, expected a probability", "pass the target's column of predict_proba")
    with np.errstate(over="ignore"):
        return p / (1 - p) * (n_source / n_target)


def calibrate_weighted(
    probs: Any,
    labels: ArrayLike,
    weights: ArrayLike | LabelRatios,
    score: Score | str = "repip",
    alpha: float = 0.1,
    *,
    classes: Classes | None = None,
    seed: Seed = None,
    from_logits: bool = False,
) -> "WeightedPredictor":
    """A predictor for objects of another distribution than the calibration rows.

    If only the distribution of x changes, not that of the class given x, and the ratios are
    right, sets contain the true class with probability at least 1 − alpha. Tibshirani,
    Barber, Candès, Ramdas (2019), Conformal prediction under covariate shift. With the ratios of
    classes, from `label_ratios`, the same holds if only the distribution of the class changes.
    Podkopaev, Ramdas (2021), Distribution-free uncertainty quantification under label shift.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        weights: the rows' likelihood ratios dP_target(x)/dP_source(x), up to one factor that
            they share with the weights given to `predict`; or what `label_ratios` returns.
        score: a score or its spelling.
        alpha: the share of errors allowed.
        classes: names of the K columns; a data frame brings its own.
        seed: for the randomised scores; a seed or a Generator.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> ratio = 1 + data.probs[:, 0]  # where one predicts, the first class is up to twice as common
    >>> predictor = pippin.calibrate_weighted(data.probs[:2000], data.labels[:2000], ratio[:2000], "pip", 0.1)
    >>> predictor
    WeightedPredictor(pip, alpha=0.1, 2,000 calibration examples worth 1,940, 12 classes)
    """
    rows, codes, names = as_labelled(probs, labels, classes, from_logits)
    same_index("probs", rows.index, weights=weights)
    chosen, level = parse_score(score), as_alpha(alpha)
    given = as_weights(weights.agreeing(names).of(codes) if isinstance(weights, LabelRatios) else weights, rows.n)
    if not given.any():
        raise InputError("Expected some positive weight among the calibration rows, got zeros only", "check the ratios")
    scores = dispatch.label_scores(rows, codes, chosen, draws(chosen, rows.n, seed))
    order = np.argsort(scores, kind="stable")
    return WeightedPredictor(chosen, level, rows.n, names, read_only(scores[order]), read_only(given[order]))


@dataclass(frozen=True, eq=False, repr=False)
class WeightedPredictor(Explains, Saved):
    """Calibration scores in increasing order, each with its weight, and a threshold for every object.

    An object of weight w has the smallest score s as its threshold for which the scores up
    to s hold a share of at least 1 − alpha of all weights, w included; if none does, it is
    infinite. Where the weight follows from the class, every class has its own threshold.

    Attributes:
        score: the score.
        alpha: the share of errors allowed.
        n_calibration: how many rows calibrated it, those of weight 0 too.
        classes: the names of the columns, in their order.
        scores: the calibration scores in increasing order.
        weights: the weight of each.
    """

    score: Score
    alpha: float
    n_calibration: int
    classes: Classes
    scores: Vector
    weights: Vector

    @property
    def takes(self) -> frozenset[str]:
        """What `predict` is to be told beside the rows."""
        return frozenset({"seed", "weights"})

    @property
    def effective_sample_size(self) -> float:
        """(Σw)²/Σw²: as many rows of equal weight would be about as good."""
        scaled = self.weights / self.weights.max()
        return float(scaled.sum() ** 2 / (scaled**2).sum())

    def at(self, alpha: float) -> "WeightedPredictor":
        """Another level from the same calibration.

        Args:
            alpha: the share of errors allowed.
        """
        return replace(self, alpha=as_alpha(alpha))

    def thresholds(self, weights: ArrayLike) -> Vector:
        """The threshold of each object, from its weight.

        Args:
            weights: the likelihood ratios of the objects.
        """
        return self._rule.thresholds(as_weights(weights, np.asarray(as_array(weights)).size))

    def predict(
        self,
        probs: Any,
        weights: ArrayLike | LabelRatios,
        *,
        seed: Seed = None,
        nonempty: bool = False,
        from_logits: bool = False,
    ) -> PredictionSets:
        """The set of every row: all classes whose score is at most the row's threshold, or their own.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            weights: the likelihood ratios of these objects, by the same function as those of the
                calibration rows; or the `LabelRatios` that it was calibrated with.
            seed: for a randomised score; a seed or a Generator.
            nonempty: whether the most probable class is put into sets that would be empty.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> ratio = 1 + data.probs[:, 0]
        >>> predictor = pippin.calibrate_weighted(data.probs[:2000], data.labels[:2000], ratio[:2000])
        >>> predictor.predict(data.probs[2000:], ratio[2000:])
        PredictionSets(2,986 objects, 12 classes, mean size 1.52, 72 % singletons)
        """
        return self._sets(self._ask(probs, weights, seed, from_logits), nonempty)

    def predict_one(
        self, row: Any, weight: float | LabelRatios, *, seed: Seed = None, nonempty: bool = False
    ) -> Indices:
        """One object's class indices, most probable first, as in `PredictionSets.members`.

        Args:
            row: its K probabilities, not logits.
            weight: its likelihood ratio, or the `LabelRatios`.
            seed: for a randomised score; a seed or a Generator.
            nonempty: whether a set that would be empty gets the most probable class.
        """
        check_names(self.classes, row)
        rows = asked_rows(self.classes, as_array(row)[None], False)
        asked = Asked(rows, drawn(self.score, 1, seed), weights=one_weight(weight, self.classes))
        return self._sets(asked, nonempty).members

    def p_values(
        self,
        probs: Any,
        weights: ArrayLike | LabelRatios,
        labels: ArrayLike | None = None,
        *,
        seed: Seed = None,
        from_logits: bool = False,
    ) -> Any:
        """p = (Σ_{s_j ≥ s} w_j + w)/(Σ_j w_j + w) of the given labels, (n,), or of every class, (n, K).

        `predict` gives the classes with p > alpha, exactly: each p is rounded once.

        A pandas or polars frame gives a frame, its index and the class names kept; with labels a series.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            weights: the likelihood ratios of these objects, or the `LabelRatios`.
            labels: one class per row, as indices or as names; None asks for all classes.
            seed: for a randomised score; a seed or a Generator.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> scores = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]
        >>> predictor = pippin.calibrate_weighted(scores, [0, 0, 1], [1, 2, 1], "ip")
        >>> predictor.p_values([[0.7, 0.3]], [1])
        array([[0.4, 0.2]])
        """
        return answers.p_values(self, self._ask(probs, weights, seed, from_logits), labels)

    def forced(
        self, probs: Any, weights: ArrayLike | LabelRatios, *, seed: Seed = None, from_logits: bool = False
    ) -> PointPredictions:
        """One class per row, the one with the largest p-value, with its confidence and credibility.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            weights: the likelihood ratios of these objects, or the `LabelRatios`.
            seed: for a randomised score; a seed or a Generator.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> ratio = 1 + data.probs[:, 0]
        >>> predictor = pippin.calibrate_weighted(data.probs[:2000], data.labels[:2000], ratio[:2000], "pip")
        >>> predictor.forced(data.probs[2000:], ratio[2000:])
        PointPredictions(2,986 objects, mean confidence 0.935, mean credibility 0.572)
        """
        return answers.points(self, self._ask(probs, weights, seed, from_logits))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The scores of the calibration rows by weight, and the threshold of an object of mean weight; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.thresholds import Scored, plot_scores

        usual = float(self.thresholds([self.weights.mean()])[0])
        return plot_scores(Scored(self.scores, self.weights, usual, str(self.score)), ax)

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        return (
            f"{self.score} with weights, from {self.n_calibration:,} rows worth {self.effective_sample_size:,.0f}: "
            f"where the weights are right, its sets hold the true class {100 * self.guarantee:g} % of the time."
        )

    def content(self) -> dict[str, Any]:
        """What its file holds."""
        return scored_content("weighted", self, calibration_scores=self.scores.tolist(), weights=self.weights.tolist())

    def __repr__(self) -> str:
        return self._shown(str(self.score), f"{self._examples} worth {self.effective_sample_size:,.0f}")

    def _ask(self, probs: Any, weights: ArrayLike | LabelRatios, seed: Seed, from_logits: bool) -> Asked:
        rows = asked_rows(self.classes, probs, from_logits, weights=weights)
        return Asked(rows, drawn(self.score, rows.n, seed), weights=own_weights(weights, rows.n, self.classes))

    def _sets(self, asked: Asked, nonempty: bool) -> PredictionSets:
        bounds = self._rule.bounds(asked)
        found = answers.sets(self, asked, nonempty, bounds)
        heavy = 0 if self.scores[-1] == np.inf else int(np.isinf(bounds.scores).sum())
        if heavy and bounds.group is None:
            first = self.classes[int(np.isinf(bounds.scores[0]).argmax())]
            warn(
                f"{heavy:,} of {len(self.classes):,} classes, {visible(first)} for one, weigh more than a share of "
                f"{self.alpha:g} of all weights: they are in every set. Calibrate on more rows of them."
            )
        elif heavy:
            warn(
                f"{heavy:,} of {asked.rows.n:,} objects weigh more than a share of {self.alpha:g} of all weights: "
                "their sets hold all classes. Calibrate on more rows that are like them."
            )
        return found

    @cached_property
    def _rule(self) -> ByWeights:
        return ByWeights(self.scores, self.weights, self.alpha)


def from_content(content: Content) -> WeightedPredictor:
    """The predictor that had this content, each part checked against the others."""
    (alpha, n, classes), score = content.shared(), content.score()
    scores = content.scores("calibration_scores", n)
    weights = vector_of("weights", content.take("weights"))
    content.finish()
    need("weights", len(weights) == n and bool(((weights >= 0) & (weights < np.inf)).all() and weights.any()))
    return WeightedPredictor(score, alpha, n, classes, scores, weights)
