"""One threshold for all: the predictor that most people want."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal import answers
from pippin._conformal.answers import asked_rows, drawn
from pippin._conformal.cells import Cells, one_cell
from pippin._conformal.content import Content, check_limits, need, rising
from pippin._conformal.explaining import Explains
from pippin._conformal.one_threshold import OneThreshold
from pippin._conformal.points import PointPredictions
from pippin._conformal.rules import Asked, ByCells, need_scores
from pippin._conformal.saving import SavedWithScores, listed, shared_content
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Classes, Seed, Vector, read_only
from pippin._runtime.warn import warn
from pippin._theory.level import as_alpha, quantile_rank
from pippin._theory.scores import Score
from pippin._theory.shortage import too_few
from pippin._validation.labels import Labelled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def calibrate_marginal(data: Labelled, score: Score, alpha: Any, seed: Seed) -> "Predictor":
    """What `pippin.calibrate` does without `per=`, and its warnings."""
    rows, labels, classes = data
    level = as_alpha(alpha)
    scores = dispatch.label_scores(rows, labels, score, draws(score, rows.n, seed))
    return from_scores(scores, score, level, classes)


def from_scores(scores: Vector, score: Score, level: float, classes: Classes) -> "Predictor":
    """The same from the scores of the true labels."""
    return Predictor(score, level, _threshold(scores, level), len(scores), classes, read_only(scores))


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(OneThreshold, Explains, SavedWithScores):
    """A calibrated score: what turns rows of probabilities into prediction sets.

    Attributes:
        score: the score.
        alpha: the share of errors allowed.
        threshold: what the score of a class must not exceed; infinite with too few rows.
        n_calibration: how many rows calibrated it.
        classes: the names of the columns, in their order.
        scores: the calibration scores in any order; None, if its file left them out.
    """

    score: Score
    alpha: float
    threshold: float
    n_calibration: int
    classes: Classes
    scores: Vector | None

    @cached_property
    def calibration_scores(self) -> Vector | None:
        """The scores of the true labels, sorted."""
        return None if self.scores is None else read_only(np.sort(self.scores))

    def at(self, alpha: float) -> "Predictor":
        """Another level from the same calibration.

        Args:
            alpha: the share of errors allowed.
        """
        need_scores(self._rule.cells, f"has only alpha={self.alpha}")
        assert self.scores is not None
        level = as_alpha(alpha)
        return replace(self, alpha=level, threshold=_threshold(self.scores, level))

    def p_values(
        self,
        probs: Any,
        labels: ArrayLike | None = None,
        *,
        seed: Seed = None,
        smoothed: bool = False,
        from_logits: bool = False,
    ) -> Any:
        """The p-value of every class, (n, K); with labels of one class per row, (n,).

        p = (1 + #{calibration scores >= s})/(n + 1), so `predict` gives the classes with
        p > alpha.

        A pandas or polars frame gives a frame, its index and the class names kept; with labels a series.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            labels: one class per row, as indices or as names; None asks for all classes.
            seed: for a randomised score and for smoothed p-values; a seed or a Generator.
            smoothed: whether calibration scores equal to s count with a random weight.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:1999], data.labels[:1999], "pip")
        >>> predictor.p_values(data.probs[1999:2001], data.labels[1999:2001])
        array([0.3035, 0.8375])
        """
        return answers.p_values(self, self._ask(probs, seed, smoothed, from_logits), labels)

    def forced(
        self, probs: Any, *, seed: Seed = None, smoothed: bool = False, from_logits: bool = False
    ) -> PointPredictions:
        """One class per row, the one with the largest p-value, with its confidence and credibility.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            seed: for a randomised score and for smoothed p-values; a seed or a Generator.
            smoothed: whether calibration scores equal to s count with a random weight.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:1999], data.labels[:1999], "pip", classes=data.classes)
        >>> predictor.forced(data.probs[1999:])
        PointPredictions(2,987 objects, mean confidence 0.938, mean credibility 0.549)
        """
        return answers.points(self, self._ask(probs, seed, smoothed, from_logits))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The scores of the calibration rows, and the threshold among them; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.thresholds import Scored, plot_scores

        need_scores(self._rule.cells, "has no picture")
        assert self.scores is not None
        return plot_scores(Scored(self.scores, None, self.threshold, str(self.score)), ax)

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        return self._promise(f"from {self.n_calibration:,} rows", "rows")

    def _content(self, scores: bool) -> dict[str, Any]:
        return {
            "score": self.score.content(),
            "threshold": self.threshold,
            **shared_content(self),
            "calibration_scores": listed(self.calibration_scores) if scores else None,
        }

    def __repr__(self) -> str:
        return self._shown(str(self.score), f"threshold={self.threshold:.6g}", self._examples)

    def _ask(self, probs: Any, seed: Seed, smoothed: bool, from_logits: bool) -> Asked:
        self._speaking()
        rows = asked_rows(self.classes, probs, from_logits)
        return Asked(rows, drawn(self.score, rows.n, seed, smoothed))

    def _speaking(self) -> Cells:
        """The calibration scores that p-values count among."""
        need_scores(self._rule.cells, "can give no p-values")
        return self._rule.cells

    @cached_property
    def _rule(self) -> ByCells:
        cells = one_cell(self.calibration_scores, self.n_calibration, len(self.classes))
        return ByCells(cells, Bounds(np.array([[self.threshold]])))


def from_content(content: Content) -> Predictor:
    """A predictor from the content of its file, each part checked against the others."""
    (alpha, n, classes), score = content.shared(), content.score()
    threshold = content.number("threshold")
    scores = content.optional_numbers("calibration_scores")
    content.finish()
    if scores is not None:
        need("calibration_scores", len(scores) == n and rising(scores))
        check_limits(threshold, kth_smallest(scores, alpha))
    return Predictor(score, alpha, threshold, n, classes, scores)


def kth_smallest(scores: Vector, alpha: Any) -> float:
    """The threshold alone: the k-th smallest score, k = ⌈(n + 1)(1 − α)⌉, or infinity if k > n."""
    k = quantile_rank(len(scores), alpha)
    return math.inf if k > len(scores) else dispatch.smallest(scores, k)


def _threshold(scores: Vector, alpha: float) -> float:
    """The threshold; if it is infinite, a warning says why."""
    return warned(kth_smallest(scores, alpha), len(scores), alpha)


def warned(threshold: float, n: int, alpha: float) -> float:
    """A threshold from n scores; if it is infinite, a warning says why."""
    if math.isinf(threshold):
        warn(
            too_few(n, alpha)
            or f"More than a share of {alpha:g} of the true labels have an infinite score, because their probability "
            "is 0: the threshold is infinite and every set holds all classes."
        )
    return threshold
