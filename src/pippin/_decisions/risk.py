"""Conformal risk control: sets whose expected loss is at most what was asked for."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.content import Content, check_limits, need, whole_numbers
from pippin._conformal.kinds import by_text
from pippin._conformal.one_threshold import OneThreshold
from pippin._conformal.saving import Saved, listed, scored_content
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._runtime.arrays import Classes, Codes, Seed, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.warn import warn
from pippin._theory.level import simplest
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score
from pippin._validation.labels import Labelled, as_labelled, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Loss = Callable[[list[str | int], str | int], float]


def calibrate_risk(
    probs: Any,
    labels: ArrayLike,
    loss: "Loss | Mapping[Any, float] | ArrayLike",
    alpha: float = 0.1,
    *,
    score: Score | str = "repip",
    classes: Classes | None = None,
    bound: float | None = None,
    seed: Seed = None,
    from_logits: bool = False,
) -> "RiskController":
    """A predictor whose sets have an expected loss of at most alpha.

    The threshold is the smallest λ with (Σ_i loss_i(λ) + B)/(n + 1) ≤ alpha, the losses being
    those of the calibration rows and B the largest there can be: then E[loss] ≤ alpha.
    Angelopoulos, Bates, Fisch, Lei, Schuster (2024), Conformal risk control.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        loss: what it costs if the true class y is not in the set: one number for all, one per
            class, or {class: number}; or a function of (set, label), the set a list of classes,
            most probable first, whose loss does not grow with the set.
        alpha: the expected loss allowed.
        score: a score or its spelling.
        classes: names of the K columns; a data frame brings its own.
        bound: B, where `loss` is a function; 1, if it is not given.
        seed: for the randomised scores; a seed or a Generator.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> dear = {name: 10.0 if name == "black_grass" else 1.0 for name in data.classes}
    >>> names = data.classes
    >>> predictor = pippin.decisions.control_risk(data.probs[:2000], data.labels[:2000], dear, 0.1, classes=names)
    >>> predictor.predict(data.probs[2000:])
    PredictionSets(2,986 objects, 12 classes, mean size 3.63, 48 % singletons)
    """
    chosen, level = parse_score(score), float(_positive("alpha", alpha))
    data = as_labelled(probs, labels, classes, from_logits)
    u = draws(chosen, data.rows.n, seed)
    if callable(loss):
        most = float(_positive("bound", 1.0 if bound is None else bound))
        threshold = _threshold_of(loss, data, chosen, u, level, most)
        made = RiskController(chosen, level, threshold, data.rows.n, data.classes, most, None, None, None)
    else:
        if bound is not None:
            raise InputError("Expected a bound beside a function alone, got it beside costs of classes", "leave it out")
        costs = _costs(loss, data.classes)
        scores = dispatch.label_scores(data.rows, data.labels, chosen, u)
        order = np.argsort(scores, kind="stable")
        kept = read_only(scores[order]), read_only(data.labels[order])
        threshold = _weighted_threshold(*kept, costs, level)
        made = RiskController(chosen, level, threshold, data.rows.n, data.classes, float(costs.max()), costs, *kept)
    _warn_of_infinite(threshold, data.rows.n, level, made.bound)
    return made


@dataclass(frozen=True, eq=False, repr=False)
class RiskController(OneThreshold, Saved):
    """A calibrated score: its sets lose at most alpha on average.

    Attributes:
        score: the score.
        alpha: the mean loss allowed.
        threshold: what the score of a class must not exceed.
        n_calibration: how many rows calibrated it.
        classes: the names of the columns, in their order.
        bound: the largest loss that a set can have.
        costs: those of missing each class; None, if the loss was a function.
        scores: the calibration scores, sorted; None with a function.
        labels: the classes that they belong to; None with a function.
    """

    score: Score
    alpha: float
    threshold: float
    n_calibration: int
    classes: Classes
    bound: float
    costs: Vector | None
    scores: Vector | None
    labels: Codes | None

    @property
    def guarantee(self) -> float:
        """The coverage that follows: 1 − alpha/(the least cost of a class); 0 where the loss is a function."""
        if self.costs is None or not self.costs.min() > 0:
            return 0.0
        return max(0.0, 1 - self.alpha / float(self.costs.min()))

    @property
    def takes(self) -> frozenset[str]:
        """What `predict` may be told beside the rows."""
        return frozenset({"seed"})

    def at(self, alpha: float) -> "RiskController":
        """Another level from the same calibration.

        Args:
            alpha: the expected loss allowed.
        """
        if self.costs is None or self.scores is None or self.labels is None:
            raise InputError("The loss of this predictor was a function, which it does not keep", "calibrate again")
        level = float(_positive("alpha", alpha))
        threshold = _weighted_threshold(self.scores, self.labels, self.costs, level)
        _warn_of_infinite(threshold, self.n_calibration, level, self.bound)
        return replace(self, alpha=level, threshold=threshold)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The scores of the calibration rows, and the threshold among them; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.thresholds import Scored, plot_scores

        if self.scores is None:
            raise InputError(
                "A bound on any loss keeps no calibration scores, so it has no picture",
                "give the loss as a cost per class",
            )
        return plot_scores(Scored(self.scores, None, self.threshold, str(self.score)), ax)

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        return (
            f"{self.score} with threshold {self.threshold:.6g}, from {self.n_calibration:,} rows: its sets have an "
            f"expected loss of at most {self.alpha:g}, of {self.bound:g} that it can be."
        )

    def content(self) -> dict[str, Any]:
        """What its file holds."""
        return scored_content(
            "risk",
            self,
            threshold=self.threshold,
            bound=self.bound,
            costs=listed(self.costs),
            calibration_scores=listed(self.scores),
            calibration_labels=listed(self.labels),
        )

    def __repr__(self) -> str:
        return self._shown(str(self.score), f"threshold={self.threshold:.6g}", self._examples)


def from_content(content: Content) -> RiskController:
    """The predictor that had this content, each part checked against the others."""
    alpha = content.number("alpha")
    need("alpha", 0 < alpha < math.inf)
    n, classes, score = content.whole("n_calibration", 1), content.classes(), content.score()
    threshold, bound = content.number("threshold"), content.number("bound")
    costs, scores = content.optional_numbers("costs"), content.optional_numbers("calibration_scores")
    given = content.take("calibration_labels")
    content.finish()
    need("bound", 0 < bound < math.inf)
    need("calibration_scores", (scores is None) == (costs is None) == (given is None))
    if costs is None or scores is None:
        return RiskController(score, alpha, threshold, n, classes, bound, None, None, None)
    labels = whole_numbers("calibration_labels", given, np.int64)
    need("costs", len(costs) == len(classes) and bool((costs >= 0).all()) and float(costs.max()) == bound)
    need("calibration_labels", labels.shape == (n,) and int(labels.min()) >= 0 and int(labels.max()) < len(classes))
    need("calibration_scores", len(scores) == n and bool((scores[1:] >= scores[:-1]).all()))
    check_limits(threshold, _weighted_threshold(scores, labels, costs, alpha))
    return RiskController(score, alpha, threshold, n, classes, bound, costs, scores, labels)


def _warn_of_infinite(threshold: float, n: int, level: float, bound: float) -> None:
    if threshold == math.inf:
        warn(
            f"{n:,} calibration examples are too few for an expected loss of {level:g} where it can be {bound:g}: at "
            f"least {math.ceil(simplest(bound) / simplest(level)) - 1:,} are needed. The threshold is infinite and "
            "every set holds all classes."
        )


def _weighted_threshold(scores: Vector, labels: Codes, costs: Vector, alpha: float) -> float:
    """The smallest λ at which the costs of the labels that score higher, and the largest cost, are low enough.

    In exact arithmetic: each cost, and alpha, is the simplest fraction that rounds to it.
    """
    exact = [simplest(cost) if cost else Fraction(0) for cost in costs.tolist()]
    allowed = simplest(alpha) * (len(scores) + 1) - max(exact)

    def enough(first: int) -> bool:
        counts = np.bincount(labels[first:], minlength=len(exact))
        return sum((n * cost for n, cost in zip(counts.tolist(), exact, strict=True)), Fraction(0)) <= allowed

    if not enough(len(scores)):
        return math.inf
    low, high = -1, len(scores)  # the labels from `high` on may be lost
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    if high == 0:
        return -math.inf
    return float(scores[high - 1])


def _threshold_of(loss: Loss, data: Labelled, score: Score, u: Vector, alpha: float, bound: float) -> float:
    """The smallest λ at which the losses of the calibration rows are low enough, by halving."""
    rows, labels, classes = data
    order = dispatch.row_orders(rows)
    scores = np.take_along_axis(dispatch.class_scores(rows, score, u), order, axis=1)
    names = [[classes[k] for k in own] for own in order.tolist()]
    known: list[dict[int, float]] = [{} for _ in names]
    limits = np.concatenate([[-np.inf], np.unique(scores), [np.inf]])

    def total(limit: float) -> float:
        sizes = np.count_nonzero(scores <= limit, axis=1).tolist()
        for own, members, label, size in zip(known, names, labels.tolist(), sizes, strict=True):
            if size not in own:
                own[size] = _checked_loss(loss(members[:size], classes[label]), own, size, bound)
        return math.fsum(own[size] for own, size in zip(known, sizes, strict=True))

    allowed = alpha * (rows.n + 1) - bound
    at_all = total(np.inf)
    worst = max(own[rows.n_classes] for own in known)
    if worst > alpha:
        raise InputError(
            f"Even a set of all classes may lose {worst:.4g}, more than alpha={alpha:g}",
            "allow a larger alpha, or let the full set lose less",
        )
    if at_all > allowed:
        return math.inf
    low, high = -1, len(limits) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if total(limits[middle]) <= allowed else (middle, high)
    return float(limits[high])


def _checked_loss(value: Any, known: dict[int, float], size: int, bound: float) -> float:
    """A loss, in its range and not above that of a smaller set of the same row."""
    try:
        found = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Expected a loss that is a number, got {value!r}", "return one for every set and label"
        ) from error
    if not 0 <= found <= bound:
        raise InputError(
            f"Expected losses from 0 to the bound {bound:g}, got {found:g}", "pass bound=, the largest there can be"
        )
    if any((other < size and before < found) or (other > size and before > found) for other, before in known.items()):
        raise InputError(
            f"Expected a loss that does not grow with the set, got {found:g} for {size} classes and another way round "
            "for fewer or more",
            "only such a loss can be bounded",
        )
    return found


def _costs(loss: Any, classes: Classes) -> Vector:
    """What missing each class costs."""
    if hasattr(loss, "iloc"):  # a pandas series is by its index, as a dict is by its keys
        loss = dict(loss.items())
    if isinstance(loss, Mapping):
        known = by_text(loss)
        if missing := [name for name in map(str, classes) if name not in known]:
            raise InputError(f"Expected a cost for every class, got none for {missing[0]!r}", "add it")
        if strange := set(known) - set(map(str, classes)):
            raise InputError(
                f"Got a cost for {min(strange)!r}, which is none of the classes ({shortened(classes)})", "correct it"
            )
        loss = [known[str(name)] for name in classes]
    try:
        costs: Vector = np.array(loss, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected costs that are numbers, or a function, got {type(loss).__name__}") from error
    if costs.ndim == 0:
        costs = np.full(len(classes), float(costs))
    if costs.shape != (len(classes),):
        raise InputError(f"Expected {len(classes)} costs, one per class, got shape {costs.shape}", "name every class")
    if not (np.isfinite(costs) & (costs >= 0)).all() or not costs.any():
        raise InputError(f"Expected costs of at least 0, some of them more, got {costs.tolist()}", "correct them")
    return read_only(costs)


def _positive(name: str, value: Any) -> Fraction:
    """A number above 0, as the simplest fraction that rounds to it."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number < math.inf:
        raise InputError(f"Expected {name} to be a number above 0, got {value!r}", "it is in the unit of the losses")
    return simplest(number)
