"""Units of several rows, such as photographs with their windows: a guarantee for a row of a new unit."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal import answers
from pippin._conformal.answers import asked_rows, drawn
from pippin._conformal.content import Content, need, whole_numbers
from pippin._conformal.explaining import Explains
from pippin._conformal.one_threshold import OneThreshold
from pippin._conformal.points import PointPredictions
from pippin._conformal.rules import Asked, ByUnits
from pippin._conformal.saving import Saved, scored_content
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._runtime.arrays import Classes, Codes, Seed, Vector, read_only
from pippin._runtime.warn import warn
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score
from pippin._theory.shortage import too_few
from pippin._validation.index import same_index
from pippin._validation.labels import Labelled, as_numbered_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def calibrate_units(data: Labelled, score: Score, alpha: Any, seed: Seed, units: ArrayLike) -> "UnitPredictor":
    """What `pippin.calibrate` does with `units=`, and its warning."""
    rows, labels, classes = data
    same_index("probs", rows.index, units=units)
    codes = as_numbered_groups(units, rows.n, "units").codes
    scores = dispatch.label_scores(rows, labels, score, draws(score, rows.n, seed))
    order = np.argsort(scores, kind="stable")
    made = UnitPredictor(
        score, as_alpha(alpha), rows.n, classes, read_only(scores[order]), read_only(codes[order].astype(np.int64))
    )
    if note := too_few(made.n_units, made.alpha, "calibration units"):
        warn(note)
    return made


@dataclass(frozen=True, eq=False, repr=False)
class UnitPredictor(OneThreshold, Explains, Saved):
    """One threshold, from units that count once each: for a row drawn at random from a new unit.

    Of J units, unit j with m_j rows, the threshold is the smallest s with Σ_{s_ji ≤ s} 1/m_j ≥ (1 − alpha)(J + 1);
    infinite, if there is none.

    Attributes:
        score: the score.
        alpha: the share of errors allowed.
        n_calibration: how many rows calibrated it.
        classes: the names of the columns, in their order.
        scores: the calibration scores in increasing order.
        units: the number of each one's unit.

    >>> import numpy as np, pippin
    >>> data = pippin.load_example()
    >>> photos = np.arange(2000) // 20
    >>> pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", 0.1, units=photos)
    UnitPredictor(pip, alpha=0.1, threshold=1.76463, 100 units of 2,000 calibration examples, 12 classes)
    """

    score: Score
    alpha: float
    n_calibration: int
    classes: Classes
    scores: Vector
    units: Codes

    @cached_property
    def n_units(self) -> int:
        """How many units calibrated it."""
        return int(self.units.max()) + 1

    @property
    def threshold(self) -> float:
        """Classes that score up to this enter the set."""
        return self._rule.threshold

    def at(self, alpha: float) -> "UnitPredictor":
        """Another level from the same calibration.

        Args:
            alpha: the share of errors allowed.
        """
        return replace(self, alpha=as_alpha(alpha))

    def p_values(
        self, probs: Any, labels: ArrayLike | None = None, *, seed: Seed = None, from_logits: bool = False
    ) -> Any:
        """p = (Σ_{s_ji ≥ s} 1/m_j + 1)/(J + 1) of the given labels, (n,), or of every class, (n, K).

        `predict` gives the classes with p > alpha.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            labels: one class per row, as indices or as names; None asks for all classes.
            seed: for a randomised score; a seed or a Generator.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> rows = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]
        >>> predictor = pippin.calibrate(rows, [0, 0, 1], "ip", 0.4, units=["a", "a", "b"])
        >>> predictor.p_values([[0.85, 0.15]])
        array([[0.83333333, 0.33333333]])
        """
        return answers.p_values(self, self._ask(probs, seed, from_logits), labels)

    def forced(self, probs: Any, *, seed: Seed = None, from_logits: bool = False) -> PointPredictions:
        """One class per row, the one with the largest p-value, with its confidence and credibility.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            seed: for a randomised score; a seed or a Generator.
            from_logits: whether `probs` are logits, of which a softmax is taken.
        """
        return answers.points(self, self._ask(probs, seed, from_logits))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The scores of the calibration rows, each counting its share of a unit, and the threshold; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.thresholds import Scored, plot_scores

        counts = 1 / np.bincount(self.units)[self.units]
        return plot_scores(Scored(self.scores, counts, self.threshold, str(self.score)), ax)

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        who = f"from {self.n_calibration:,} rows of {self.n_units:,} units"
        return self._promise(who, "units", ", for a row drawn at random from a new unit")

    def content(self) -> dict[str, Any]:
        """What its file holds."""
        return scored_content("units", self, calibration_scores=self.scores.tolist(), units=self.units.tolist())

    def __repr__(self) -> str:
        whom = f"{self.n_units:,} units of {self._examples}"
        return self._shown(str(self.score), f"threshold={self.threshold:.6g}", whom)

    def _ask(self, probs: Any, seed: Seed, from_logits: bool) -> Asked:
        rows = asked_rows(self.classes, probs, from_logits)
        return Asked(rows, drawn(self.score, rows.n, seed))

    @cached_property
    def _rule(self) -> ByUnits:
        return ByUnits(self.scores, self.units, self.alpha)


def from_content(content: Content) -> UnitPredictor:
    """The predictor that had this content, each part checked against the others."""
    (alpha, n, classes), score = content.shared(), content.score()
    scores = content.scores("calibration_scores", n)
    units = whole_numbers("units", content.take("units"), np.int64)
    content.finish()
    need("units", units.shape == (n,) and bool(((units >= 0) & (units < n)).all()))
    need("units", np.array_equal(np.unique(units), np.arange(units.max() + 1)))
    return UnitPredictor(score, alpha, n, classes, scores, units)
