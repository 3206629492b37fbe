"""Conformal risk control: prediction sets with a bounded expected loss."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.card import EXCHANGEABLE, Card, listed_names, promise_card
from pippin._conformal.mondrian import by_class, single_category
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.rules import marginal_rule
from pippin._conformal.serialization import (
    Content,
    SavedDataclass,
    attributes,
    check_limits,
    classes_content,
    listed,
    need,
    whole_numbers,
)
from pippin._conformal.sets import PredictionSets
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._runtime.arguments import checked, checked_methods
from pippin._runtime.arrays import Classes, Codes, Indices, Seed, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._runtime.provenance import Provenance
from pippin._runtime.showing import visible
from pippin._theory.level import simplest
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score
from pippin._validation.labels import Labelled, as_labelled
from pippin._validation.plausibility import warn_if_implausible
from pippin._validation.rows import refuse_mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Loss = Callable[[list[str | int], str | int], float]


@checked
def control_risk(
    probs: Any,
    labels: ArrayLike,
    loss: "Loss | Mapping[Any, float] | ArrayLike",
    level: float = 0.1,
    *,
    score: Score | str = "repip",
    classes: Classes | None = None,
    bound: float | None = None,
    seed: Seed = None,
    from_logits: bool = False,
) -> "RiskController":
    """Calibrate prediction sets whose expected loss is at most `level` (conformal risk control).

    A set contains all classes with a score of at most the threshold. The threshold is the smallest λ with
    (Σ_i loss_i(λ) + B)/(n + 1) ≤ level, where loss_i(λ) is the loss of the set of calibration row i, and B is the
    largest possible loss. Then E[loss] ≤ level for exchangeable rows.

    Reference: `Angelopoulos, Bates, Fisch, Lei and Schuster (2024) <https://arxiv.org/abs/2208.02814>`__.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        loss: the cost of a set that misses the true class: a number, one number per class, or {class: number}. Or a
            function (set, label) → loss, where `set` is a list of classes, most probable first; the loss must not
            increase when classes are added to the set.
        level: the expected loss allowed.
        score: a score, or its name with parameters, such as "raps(lam=0.1)".
        classes: names of the K columns; by default those of a data frame, or 0 to K − 1.
        bound: the largest possible loss B, if `loss` is a function; 1 by default.
        seed: seed for randomized scores, or a Generator.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        The calibrated controller, whose `predict` returns the sets.

    Raises:
        InputError: a loss is negative, above the bound, or increases with the set, or an option is out of range.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> costs = {name: 10.0 if name == "black_grass" else 1.0 for name in data.classes}
    >>> names = data.classes
    >>> controller = pippin.decisions.control_risk(data.probs[:2000], data.labels[:2000], costs, 0.1, classes=names)
    >>> controller.predict(data.probs[2000:])
    PredictionSets(2,986 objects, 12 classes, mean size 3.63, 48% singletons)
    """
    score, level = parse_score(score), _positive("level", level)
    data = as_labelled(probs, labels, classes, from_logits)
    u = draws(score, data.rows.n, seed)
    if callable(loss):
        most = _positive("bound", 1.0 if bound is None else bound)
        threshold = _threshold_of_loss(loss, data, score, u, level, most)
        costs = scores = true_labels = None
    elif bound is not None:
        raise InputError("Expected bound only with a loss function, got it with costs of classes", "leave it out")
    else:
        costs = _costs(loss, data.classes)
        scores = dispatch.label_scores(data.rows, data.labels, score, u)
        order = np.argsort(scores, kind="stable")
        scores, true_labels, most = read_only(scores[order]), read_only(data.labels[order]), float(costs.max())
        threshold = _threshold_of_costs(costs, scores, true_labels, level)
    _warn_of_infinite(threshold, data.rows.n, level, most)
    warn_if_implausible(data)
    return RiskController(score, level, threshold, data.rows.n, data.classes, most, costs, scores, true_labels)


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class RiskController(SavedDataclass):
    """Calibrated predictor of sets whose expected loss is at most `level`.

    Attributes:
        score: the score.
        level: the expected loss allowed.
        threshold: upper bound on the scores of the classes in a set.
        n_calibration: number of calibration rows.
        classes: names of the columns, in their order.
        bound: the largest possible loss of a set.
        costs: the cost of missing each class; None if the loss is a function.
        scores: the scores of the calibration rows, sorted; None if the loss is a function.
        labels: the true classes of the calibration rows, in the order of `scores`; None if the loss is a function.
        provenance: data files with checksums, date, author, command and versions; None if not recorded.
    """

    score: Score
    level: float
    threshold: float
    n_calibration: int
    classes: Classes
    bound: float
    costs: Vector | None
    scores: Vector | None
    labels: Codes | None
    provenance: Provenance | None = None

    @property
    def guarantee(self) -> float:
        """Guaranteed coverage: 1 − level/(smallest cost of a class); 0 for a loss function."""
        if self.costs is None or not self.costs.min() > 0:
            return 0.0
        return max(0.0, 1 - self.level / float(self.costs.min()))

    @property
    def takes(self) -> frozenset[str]:
        """Names of the optional keywords of `predict`: "seed", which is used if the score is randomized."""
        return frozenset({"seed"})

    def at(self, level: float) -> "RiskController":
        """Return the controller at another level, from the same calibration scores.

        Args:
            level: the expected loss allowed.

        Returns:
            The controller of that level.

        Raises:
            InputError: the loss was a function, whose values are not stored.
        """
        if self.costs is None or self.scores is None or self.labels is None:
            raise InputError("Expected costs per class, got a loss function, which has no scores", "calibrate again")
        level = _positive("level", level)
        threshold = _threshold_of_costs(self.costs, self.scores, self.labels, level)
        _warn_of_infinite(threshold, self.n_calibration, level, self.bound)
        return replace(self, level=level, threshold=threshold)

    def predict(
        self, probs: Any, *, seed: Seed = None, nonempty: bool = False, from_logits: bool = False
    ) -> PredictionSets:
        """Predict the set of every row: all classes whose score is at most the threshold.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`; or the result of `pippin.scan`.
            seed: seed for randomized scores, or a Generator.
            nonempty: add the most probable class to empty sets, which increases coverage and mean size.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            One set per row.
        """
        return self._predictor.predict(probs, seed=seed, nonempty=nonempty, from_logits=from_logits)

    def predict_one(self, row: Any, *, seed: Seed = None, nonempty: bool = False) -> Indices:
        """Predict the class indices of one object, most probable first, with low latency.

        Args:
            row: its K probabilities, not logits.
            seed: seed for randomized scores, or a Generator.
            nonempty: add the most probable class to an empty set.

        Returns:
            The class indices.
        """
        return self._predictor.predict_one(row, seed=seed, nonempty=nonempty)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the distribution of the calibration scores, with the threshold.

        Args:
            ax: Matplotlib axes; new ones by default.

        Returns:
            The axes.
        """
        if self.scores is None:
            raise InputError("Expected calibration scores, which a loss function has none of", "pass costs per class")
        return self._predictor.plot(ax)

    def describe(self) -> str:
        """Describe the controller and its guarantee in one sentence.

        Returns:
            The sentence.
        """
        return (
            f"{self.score} with threshold {self.threshold:.6g}, from {self.n_calibration:,} rows: its sets have an "
            f"expected loss of at most {self.level:g}, out of a largest loss of {self.bound:g}."
        )

    def _promise(self) -> Card:
        costs = None if self.costs is None else zip(self.classes, self.costs.tolist(), strict=True)
        loss = ", ".join(f"{visible(name)} {cost:g}" for name, cost in costs) if costs else "a function"
        what = f"A risk controller: sets of {len(self.classes):,} classes by the nonconformity score {self.score}"
        return promise_card(
            what=f"{what}. Classes: {listed_names(self.classes)}. Loss: {loss}.",
            guarantee=self.describe(),
            level=f"level = {self.level:g}: the largest expected loss, where a loss is at most {self.bound:g}.",
            condition=EXCHANGEABLE,
            variation="The expected loss varies, and no exact distribution is known; the guarantee holds on average "
            "over calibrations.",
            limits="The loss within a single class or group, or of a single object.",
            rows=f"{self.n_calibration:,} rows.",
        )

    def content(self) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `pippin.load` rebuilds the controller.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.
        """
        return {
            "kind": "risk",
            "score": self.score.content(),
            "alpha": self.level,
            **classes_content(self.classes),
            **attributes(self, "n_calibration", "threshold", "bound"),
            "costs": listed(self.costs),
            "calibration_scores": listed(self.scores),
            "calibration_labels": listed(self.labels),
        }

    def __repr__(self) -> str:
        return (
            f"RiskController({self.score}, level={self.level:g}, threshold={self.threshold:.6g}, {self._examples}, "
            f"{len(self.classes):,} classes)"
        )

    @cached_property
    def _predictor(self) -> ConformalPredictor:
        """Conformal predictor with this controller's threshold, which computes its sets; its alpha has no effect."""
        rule = marginal_rule(single_category(self.scores, self.n_calibration, len(self.classes)), self.threshold)
        return ConformalPredictor(self.score, 0.5, self.n_calibration, self.classes, rule)


def risk_from_content(content: Content) -> RiskController:
    """Rebuild a risk controller from the data of a file; raise an InputError if its entries contradict each other."""
    level, n, classes = content.number("alpha"), content.whole("n_calibration", 1), content.classes()
    score, threshold, bound = content.score(), content.number("threshold"), content.number("bound")
    costs, scores, labels = content.optional_numbers("costs"), None, content.take("calibration_labels")
    need("alpha", 0 < level < math.inf)
    need("bound", 0 < bound < math.inf)
    if costs is None:
        need("calibration_labels", labels is None)
        content.take("calibration_scores", lambda value: value is None)
    else:
        scores, labels = content.scores("calibration_scores", n), whole_numbers("calibration_labels", labels, np.int64)
        need("costs", len(costs) == len(classes) and bool((costs >= 0).all()) and float(costs.max()) == bound)
        need("calibration_labels", labels.shape == (n,) and bool(((labels >= 0) & (labels < len(classes))).all()))
        check_limits(threshold, _threshold_of_costs(costs, scores, labels, level))
    content.finish()
    return RiskController(score, level, threshold, n, classes, bound, costs, scores, labels)


def _warn_of_infinite(threshold: float, n: int, level: float, bound: float) -> None:
    if threshold == math.inf:
        warn(
            f"{n:,} calibration examples are too few for an expected loss of {level:g}, since it can be {bound:g}: at "
            f"least {math.ceil(simplest(bound) / simplest(level)) - 1:,} are needed. The threshold is infinite and "
            "every set contains all classes."
        )


def _threshold_of_costs(costs: Vector, scores: Vector, labels: Codes, level: float) -> float:
    """Compute the smallest threshold with an expected cost of at most `level`.

    The criterion is (C + largest cost)/(n + 1) ≤ level. C is the total cost of the calibration labels outside their
    sets, whose scores exceed the threshold. `scores` must be in ascending order. The sum is exact: costs and level are
    replaced by the simplest fractions that round to them.
    """
    exact = list(map(_exact, costs.tolist()))
    allowed = simplest(level) * (len(scores) + 1) - max(exact)

    def is_allowed(first: int) -> bool:
        """Return True if the expected cost is allowed for sets that miss the labels of the scores from `first` on."""
        counts = np.bincount(labels[first:], minlength=len(exact))
        return sum((n * cost for n, cost in zip(counts.tolist(), exact, strict=True)), Fraction(0)) <= allowed

    first = bisect_left(range(len(scores) + 1), True, key=is_allowed)
    if first > len(scores):
        return math.inf
    return float(scores[first - 1]) if first else -math.inf


def _threshold_of_loss(loss: Loss, data: Labelled, score: Score, u: Vector, level: float, bound: float) -> float:
    """Compute by bisection the smallest threshold with an expected loss of at most `level`.

    The criterion is (L + bound)/(n + 1) ≤ level, where L is the sum of the losses of the calibration rows.
    """
    rows, labels, classes = data
    order = dispatch.row_orders(rows)
    scores = np.take_along_axis(dispatch.class_scores(rows, score, u), order, axis=1)
    names = [[classes[k] for k in row] for row in order.tolist()]
    losses: list[dict[int, float]] = [{} for _ in names]  # known losses of each row by set size, computed when needed
    limits = np.concatenate([[-np.inf], np.unique(scores), [np.inf]])

    def is_allowed(limit: float) -> bool:
        sizes = np.count_nonzero(scores <= limit, axis=1).tolist()
        for by_size, members, label, size in zip(losses, names, labels.tolist(), sizes, strict=True):
            if size not in by_size:
                by_size[size] = _checked_loss(loss(members[:size], classes[label]), by_size, size, bound)
        counts = Counter(by_size[size] for by_size, size in zip(losses, sizes, strict=True))
        excess = math.fsum(value * count for value, count in counts.items()) - float(allowed)
        if abs(excess) > 1e-9 * bound * rows.n:
            return excess < 0
        return sum((_exact(value) * count for value, count in counts.items()), Fraction(0)) <= allowed

    allowed = simplest(level) * (rows.n + 1) - simplest(bound)
    is_full_allowed = is_allowed(np.inf)
    if (worst := max(by_size[rows.n_classes] for by_size in losses)) > level:
        raise InputError(f"The full set may lose {worst:.4g}, more than level={level:g}", "pass a larger level")
    if not is_full_allowed:
        return math.inf
    return float(limits[bisect_left(limits[:-1], True, key=is_allowed)])


def _exact(value: float) -> Fraction:
    """Return the fraction with the smallest denominator that rounds to the given nonnegative float."""
    return simplest(value) if value else Fraction(0)


def _checked_loss(value: Any, known: dict[int, float], size: int, bound: float) -> float:
    """Check the loss of a set of `size` classes: from 0 to `bound`, and not increasing with set size; return a float.

    `known` maps set sizes to the losses that are known so far for sets of the same row.
    """
    loss = _number(value)
    if not 0 <= loss <= bound:
        raise InputError(f"Expected a loss from 0 to the bound {bound:g}, got {value!r}", "pass a larger bound=")
    if any((other < size and before < loss) or (other > size and before > loss) for other, before in known.items()):
        what = f"Expected a loss that does not grow with the set, got {loss:g} for {size} classes"
        raise InputError(what, "correct the loss function")
    return loss


def _costs(loss: Any, classes: Classes) -> Vector:
    """Return the validated cost of missing each class, from a number, an array, a dict or a series."""
    refuse_mask(loss, "costs")
    if hasattr(loss, "iloc"):  # a pandas series, indexed by class
        loss = dict(loss.items())
    if isinstance(loss, Mapping):
        loss = by_class(loss, classes, "a cost")
    try:
        if np.asarray(loss).dtype.kind in "mM":
            raise TypeError("dates are no costs")
        costs: Vector = np.array(loss, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        got = f"{type(loss).__name__} ({error})"
        raise InputError(f"Expected costs that are numbers, or a function, got {got}") from error
    if costs.ndim == 0:
        costs = np.full(len(classes), float(costs))
    if costs.shape != (len(classes),):
        raise InputError(f"Expected {len(classes)} costs, one per class, got shape {costs.shape}", "name every class")
    if not (np.isfinite(costs) & (costs >= 0)).all() or not costs.any():
        raise InputError(f"Expected costs of at least 0, some of them more, got {costs.tolist()}", "correct them")
    return read_only(costs)


def _positive(name: str, value: Any) -> float:
    """Convert a finite number above 0 to a float; raise an InputError for any other value."""
    number = math.nan if isinstance(value, bool | np.bool_) else _number(value)
    if not 0 < number < math.inf:
        raise InputError(f"Expected {name} to be a number above 0, got {value!r}", "it is in the unit of the losses")
    return number


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
