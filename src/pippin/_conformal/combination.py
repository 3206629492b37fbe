"""The IP/MS combination: the margin's set where it is a singleton, else the set of the inverse probability.

Aleksandrova and Chertov (2021) calibrate both scores at α and then choose between the two
sets of an object. Each covers 1 − α of the objects, the chosen one need not: errors of
the margin's singletons and errors of the other sets add up. docs/guarantees.md proves what
the two remedies here promise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.answers import asked_rows
from pippin._conformal.content import Content
from pippin._conformal.marginal import Predictor, kth_smallest
from pippin._conformal.saving import Saved, attributes, shared_content
from pippin._conformal.sets import PredictionSets
from pippin._engine import dispatch
from pippin._engine.draws import generator_of
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Classes, Codes, Flags, Indices, Seed, Vector
from pippin._runtime.errors import InputError
from pippin._runtime.warn import warn
from pippin._theory.level import as_alpha, exact_alpha, quantile_rank
from pippin._theory.scores import ip, margin
from pippin._theory.shortage import too_few
from pippin._validation.labels import as_labelled
from pippin._validation.rows import Rows

Variant = Literal["recalibrated", "sum", "none"]


class Way(NamedTuple):
    """How the two thresholds are found; the last two are for "recalibrated"."""

    variant: Variant = "recalibrated"
    fraction: float = 0.5
    share: float | None = None


def calibrate_combination(
    probs: Any,
    labels: ArrayLike,
    alpha: float = 0.1,
    *,
    variant: Variant = "recalibrated",
    fraction: float = 0.5,
    share: float | None = None,
    classes: Classes | None = None,
    seed: Seed = None,
    from_logits: bool = False,
) -> "Combination":
    """A predictor that takes the margin's set where it is a singleton, and IP's set elsewhere.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        alpha: the share of errors allowed.
        variant: "recalibrated" covers at least 1 − alpha: one part of the rows fixes the
            margin's threshold, the other calibrates IP's with the score of the combination
            itself. "sum" calibrates both at alpha/2: their errors add up to alpha at most.
            "none" calibrates both at alpha, as published: all that is proven is 1 − 2·alpha.
        fraction: for "recalibrated", the part of the rows that fixes the margin's threshold.
        share: for "recalibrated", the margin's threshold is taken at share × alpha. What its
            singletons get wrong, no IP set can mend: the larger the share, the more singletons,
            and the greater the chance that only full sets can cover. By default
            1 − 2·√((1/n₁ + 1/n₂)/alpha), two standard deviations of that, for the two parts.
        classes: names of the K columns; a data frame brings its own.
        seed: divides the rows for "recalibrated"; a seed or a Generator.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> both = pippin.calibrate_combination(data.probs[:2000], data.labels[:2000], 0.1, classes=data.classes, seed=0)
    >>> both.predict(data.probs[2000:])
    PredictionSets(2,986 objects, 12 classes, mean size 1.57, 73 % singletons)
    """
    rows, truth, names = as_labelled(probs, labels, classes, from_logits)
    level = as_alpha(alpha)
    if variant not in get_args(Variant):
        raise InputError(f"Expected the variant 'recalibrated', 'sum' or 'none', got {variant!r}")
    found = find_thresholds(score_labels(rows, truth), alpha, seed, Way(variant, fraction, share))
    for note in found.notes:
        warn(note)
    return Combination(level, variant, found.margin, found.ip, rows.n, found.n_ip, names)


class Labels(NamedTuple):
    """The margin's and IP's scores of the true labels, and where the margin's set at a threshold is a singleton."""

    margin: Vector
    ip: Vector
    alone: Callable[[float], Flags]

    def combined(self, b: float) -> Vector:
        """The combination's own score: IP's, but −∞ and ∞ for what a singleton of the margin holds and leaves out."""
        return np.where(self.alone(b), np.where(self.margin <= b, -math.inf, math.inf), self.ip)


class Thresholds(NamedTuple):
    """The margin's threshold, IP's, how many rows set the latter, and what to warn of."""

    margin: float
    ip: float
    n_ip: int
    notes: tuple[str, ...]


def score_labels(rows: Rows, labels: Codes) -> Labels:
    """The labels of these rows under both scores."""
    none = np.zeros(rows.n)
    inverse = dispatch.label_scores(rows, labels, ip(), none)
    return Labels(dispatch.label_scores(rows, labels, margin(), none), inverse, partial(singletons, rows))


def find_thresholds(labels: Labels, alpha: Any, seed: Seed, way: Way) -> Thresholds:
    """Calibrates both scores on these labels."""
    n, level = len(labels.ip), as_alpha(alpha)
    exact: Any = exact_alpha(alpha)  # so that alpha/2 is just half
    if way.variant != "recalibrated":
        each, name = (exact, "alpha=") if way.variant == "none" else (exact / 2, "alpha/2=")
        notes = _notes(too_few(n, each, level=name))
        return Thresholds(kth_smallest(labels.margin, each), kth_smallest(labels.ip, each), n, notes)
    first, second = _divided(n, way.fraction, seed)
    part = exact * _share(way.share, len(first), len(second), level)
    b, told = math.inf, [too_few(len(second), exact, "rows for IP's threshold")]
    if part <= 0 or quantile_rank(len(first), part) > len(first):
        told.append(
            f"{n} calibration examples are too few to take singletons from the margin at alpha={level:g}: "
            "all sets are IP's."
        )
    else:
        b = kth_smallest(labels.margin[first], part)
    scores = labels.combined(b)[second]
    q = kth_smallest(scores, exact)
    if q == math.inf:
        if quantile_rank(len(scores), exact) <= len(scores):
            told.append(
                f"The margin's singletons are wrong for {np.mean(scores == math.inf):.3g} of the calibration rows, "
                f"which alpha={level:g} has no room for: every set holds all classes. Pass a share below "
                f"{float(part / exact):.2g}, or more rows."
            )
        b = math.inf  # then no set is the margin's, and IP's are full
    return Thresholds(b, q, len(second), _notes(*told))


@dataclass(frozen=True, eq=False, repr=False)
class Combination(Saved):
    """Two thresholds and one rule: the margin's set where it is a singleton, else IP's.

    Attributes:
        alpha: the share of errors allowed.
        variant: how the two were calibrated: "recalibrated", "sum" or "none", as published.
        margin_threshold: the margin's; infinite where IP's is.
        ip_threshold: IP's. It is −∞ where the singletons alone cover enough: the other sets are empty. If it is
            ∞, every set is full.
        n_calibration: how many rows calibrated it.
        n_ip: how many of them set IP's threshold.
        classes: the names of the columns, in their order.
    """

    alpha: float
    variant: Variant
    margin_threshold: float
    ip_threshold: float
    n_calibration: int
    n_ip: int
    classes: Classes

    @property
    def guarantee(self) -> float:
        """The coverage that is proven: 1 − alpha; as published, 1 − 2·alpha, since two kinds of errors add up."""
        return max(0.0, 1 - (2 if self.variant == "none" else 1) * self.alpha)

    @property
    def takes(self) -> frozenset[str]:
        """What `predict` may be told beside the rows: nothing."""
        return frozenset()

    def predict(self, probs: Any, *, nonempty: bool = False, from_logits: bool = False) -> PredictionSets:
        """The set of every row.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            nonempty: whether the most probable class is put into sets that would be empty.
            from_logits: whether `probs` are logits, of which a softmax is taken.
        """
        rows = asked_rows(self.classes, probs, from_logits)
        found = combined(rows, self.margin_threshold, self.ip_threshold)
        if nonempty:
            found = dispatch.with_best(rows, found)
        return PredictionSets(*found, self.classes, rows.index)

    def predict_one(self, row: Any) -> Indices:
        """One object's class indices, most probable first, as in `PredictionSets.members`.

        Args:
            row: its K probabilities, not logits.
        """
        single, other = self._pair
        found = single.predict_one(row)
        return found if len(found) == 1 else other.predict_one(row)

    @cached_property
    def _pair(self) -> tuple[Predictor, Predictor]:
        known = (self.n_calibration, self.classes, None)
        return (
            Predictor(margin(), self.alpha, self.margin_threshold, *known),
            Predictor(ip(), self.alpha, self.ip_threshold, *known),
        )

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        unsure = f", which is aimed at; {100 * self.guarantee:g} % is proven" if self.variant == "none" else ""
        return (
            f"ip/ms {self.variant} with the thresholds {self.margin_threshold:.6g} (margin) and "
            f"{self.ip_threshold:.6g} (ip), from {self.n_calibration:,} rows: its sets hold the true class "
            f"{100 * (1 - self.alpha):g} % of the time{unsure}."
        )

    def content(self) -> dict[str, Any]:
        """What its file holds."""
        return {
            "kind": "combination",
            "guarantee": self.variant,
            **attributes(self, "margin_threshold", "ip_threshold", "n_ip"),
            **shared_content(self),
        }

    def __repr__(self) -> str:
        both = f"margin threshold={self.margin_threshold:.6g}", f"ip threshold={self.ip_threshold:.6g}"
        return self._shown(self.variant, *both, self._examples)


def singletons(rows: Rows, b: float) -> Flags:
    """Where the margin's set at threshold b holds one class."""
    alone: Flags = dispatch.members(rows, margin(), Bounds(np.array([[b]])), np.zeros(rows.n))[0] == 1
    return alone


def combined(rows: Rows, b: float, q: float) -> dispatch.Sets:
    """The size of each row's set, and the members of all sets row after row, best first."""
    sizes, members = dispatch.members(rows, ip(), Bounds(np.array([[q]])), np.zeros(rows.n))
    single = singletons(rows, b)
    chosen = np.flatnonzero(single)
    if not len(chosen):
        return sizes, members
    both = np.where(single, 1, sizes)
    joined = np.empty(both.sum(), dtype=np.int32)
    alone = np.repeat(single, both)
    joined[alone] = dispatch.best_classes(rows, chosen)
    joined[~alone] = members[~np.repeat(single, sizes)]
    return both, joined


def from_content(content: Content) -> Combination:
    """A combination from the content of its file, each part checked."""
    alpha, n, classes = content.shared()
    variant = content.take("guarantee", lambda value: value in get_args(Variant))
    margin_threshold, ip_threshold = content.number("margin_threshold"), content.number("ip_threshold")
    n_ip = content.whole("n_ip", 1, n)
    content.finish()
    return Combination(alpha, variant, margin_threshold, ip_threshold, n, n_ip, classes)


def _divided(n: int, fraction: float, seed: Seed) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows that fix the margin's threshold, and those that calibrate IP's."""
    if not 0 < fraction < 1:
        raise InputError(f"Expected a fraction of the rows strictly between 0 and 1, got {fraction!r}")
    cut = round(fraction * n)
    if not 0 < cut < n:
        raise InputError(
            f"Expected enough rows for both thresholds, got {n} of which a fraction of {fraction:g} is for the "
            "margin's",
            "pass more rows, or variant='sum'",
        )
    order = generator_of(seed).permutation(n)
    return np.sort(order[:cut]), np.sort(order[cut:])


def _share(share: float | None, n_first: int, n_second: int, alpha: float) -> Fraction:
    if share is None:
        return Fraction(max(0.0, 1 - 2 * math.sqrt((1 / n_first + 1 / n_second) / alpha)))
    try:
        exact = Fraction(str(share))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if not 0 < exact <= 1:
        raise InputError(f"Expected a share of alpha above 0 and at most 1, got {share!r}")
    return exact


def _notes(*told: str | None) -> tuple[str, ...]:
    return tuple(filter(None, told))
