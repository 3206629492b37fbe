"""The IP/MS combination: the margin's set where it is a singleton, else the set of the inverse probability.

Aleksandrova and Chertov (2021) calibrate both scores at α and then choose between the two
sets of an object. Each covers 1 − α of the objects, the chosen one need not: errors of
the margin's singletons and errors of the other sets add up. docs/guarantees.md proves what
the two remedies here promise.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from os import PathLike
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._engine import dispatch
from pippin._inputs.index import same_index
from pippin._inputs.rows import Classes, Rows, agree, as_alpha, as_classes, as_labels, as_rows, exact_alpha
from pippin._predictors.contents import checked_classes, shared_content
from pippin._predictors.marginal import Predictor, Seed, kth_smallest
from pippin._predictors.sets import PredictionSets
from pippin._runtime import disk
from pippin._theory.level import quantile_rank
from pippin._theory.scores import ip, margin
from pippin._theory.shortage import too_few

Guarantee = Literal["recalibrated", "sum", "none"]


def calibrate_combination(
    probs: Any,
    labels: ArrayLike,
    alpha: float = 0.1,
    guarantee: Guarantee = "recalibrated",
    classes: Classes | None = None,
    seed: Seed = None,
    *,
    fraction: float = 0.5,
    share: float | None = None,
    from_logits: bool = False,
) -> "Combination":
    """A predictor that takes the margin's set where it is a singleton, and IP's set elsewhere.

    Args:
        guarantee: "recalibrated" covers at least 1 − alpha: one part of the rows fixes the
            margin's threshold, the other calibrates IP's with the score of the combination
            itself. "sum" calibrates both at alpha/2: their errors add up to alpha at most.
            "none" calibrates both at alpha, as published, and promises nothing.
        seed: divides the rows for "recalibrated"; a seed or a Generator.
        fraction: for "recalibrated", the part of the rows that fixes the margin's threshold.
        share: for "recalibrated", the margin's threshold is taken at share × alpha. What its
            singletons get wrong, no IP set can mend: the larger the share, the more singletons,
            and the greater the chance that only full sets can cover. By default
            1 − 2·√((1/n₁ + 1/n₂)/alpha), two standard deviations of that, for the two parts.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> both = pippin.calibrate_combination(data.probs[:2000], data.labels[:2000], 0.1, classes=data.classes, seed=0)
    >>> both.predict(data.probs[2000:])
    PredictionSets(2,986 objects, 12 classes, mean size 1.57, 73 % singletons)
    """
    rows = as_rows(probs, from_logits)
    same_index("probs", rows.index, labels=labels)
    level = as_alpha(alpha)
    names = as_classes(classes, rows)
    truth = as_labels(labels, rows.n, names)
    if guarantee not in get_args(Guarantee):
        raise ValueError(f"Expected the guarantee 'recalibrated', 'sum' or 'none', got {guarantee!r}.")
    b, q, n_ip, notes = find_thresholds(score_labels(rows, truth), alpha, guarantee, seed, fraction, share)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return Combination(level, guarantee, b, q, rows.n, n_ip, names)


class Labels(NamedTuple):
    """The margin's and IP's scores of the true labels, and where the margin's set at a threshold is a singleton."""

    margin: NDArray[np.float64]
    ip: NDArray[np.float64]
    alone: Callable[[float], NDArray[np.bool_]]

    def combined(self, b: float) -> NDArray[np.float64]:
        """The combination's own score: IP's, but −∞ and ∞ for what a singleton of the margin holds and leaves out."""
        return np.where(self.alone(b), np.where(self.margin <= b, -math.inf, math.inf), self.ip)


class Thresholds(NamedTuple):
    """The margin's threshold, IP's, how many rows set the latter, and what to warn of."""

    margin: float
    ip: float
    n_ip: int
    notes: tuple[str, ...]


def score_labels(rows: Rows, labels: NDArray[np.int64]) -> Labels:
    """The labels of these rows under both scores."""
    none = np.zeros(rows.n)
    inverse = dispatch.label_scores(rows, labels, ip(), none)
    return Labels(dispatch.label_scores(rows, labels, margin(), none), inverse, partial(singletons, rows))


def find_thresholds(
    labels: Labels,
    alpha: float,
    guarantee: Guarantee,
    seed: Seed,
    fraction: float = 0.5,
    share: float | None = None,
) -> Thresholds:
    """Calibrates both scores on these labels."""
    n, level = len(labels.ip), as_alpha(alpha)
    exact: Any = exact_alpha(alpha)  # so that alpha/2 is just half
    if guarantee != "recalibrated":
        each, name = (exact, "alpha=") if guarantee == "none" else (exact / 2, "alpha/2=")
        notes = _notes(too_few(n, each, level=name))
        return Thresholds(kth_smallest(labels.margin, each), kth_smallest(labels.ip, each), n, notes)
    first, second = _divided(n, fraction, seed)
    part = exact * _share(share, len(first), len(second), level)
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
class Combination:
    """Two thresholds and one rule: the margin's set where it is a singleton, else IP's.

    `n_calibration` rows calibrated it, of which `n_ip` set IP's threshold. IP's threshold is
    −∞ where the singletons alone cover enough: the other sets are empty. If it is ∞ so is
    the margin's, and every set is full.
    """

    alpha: float
    guarantee: Guarantee
    margin_threshold: float
    ip_threshold: float
    n_calibration: int
    n_ip: int
    classes: Classes

    def predict(self, probs: Any, *, nonempty: bool = False, from_logits: bool = False) -> PredictionSets:
        """The set of every row; with `nonempty=True` an empty one gets the most probable class."""
        rows = as_rows(probs, from_logits)
        agree(self.classes, rows)
        sizes, members = combined(rows, self.margin_threshold, self.ip_threshold)
        if nonempty:
            sizes, members = dispatch.with_best(rows, sizes, members)
        return PredictionSets(sizes, members, self.classes, rows.index)

    def predict_one(self, row: Any) -> NDArray[np.int32]:
        """One object's class indices, most probable first; takes probabilities, not logits."""
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

    def save(self, path: "str | PathLike[str]") -> None:
        """Writes a JSON file that any language can read; `pippin.load` reads it."""
        content = {
            "guarantee": self.guarantee,
            "margin_threshold": self.margin_threshold,
            "ip_threshold": self.ip_threshold,
            "n_ip": self.n_ip,
            **shared_content(self),
        }
        disk.write_predictor(path, content, kind="combination")

    def __repr__(self) -> str:
        return (
            f"Combination({self.guarantee}, alpha={self.alpha:g}, margin threshold={self.margin_threshold:.6g}, "
            f"ip threshold={self.ip_threshold:.6g}, {self.n_calibration:,} calibration examples, "
            f"{len(self.classes):,} classes)"
        )


def singletons(rows: Rows, b: float) -> NDArray[np.bool_]:
    """Where the margin's set at threshold b holds one class."""
    alone: NDArray[np.bool_] = dispatch.band(rows, margin(), b, b)[0] == 1
    return alone


def combined(rows: Rows, b: float, q: float) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The size of each row's set, and the members of all sets row after row, best first."""
    sizes, members = dispatch.members(rows, ip(), q, np.zeros(rows.n))
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


def from_content(
    alpha: Any,
    guarantee: Any,
    margin_threshold: Any,
    ip_threshold: Any,
    n_calibration: Any,
    n_ip: Any,
    n_classes: Any,
    classes: Any,
) -> Combination:
    """A combination from the content of its file, each part checked."""
    names = checked_classes(
        alpha,
        n_calibration,
        n_classes,
        classes,
        guarantee=guarantee in get_args(Guarantee),
        margin_threshold=isinstance(margin_threshold, float) and not math.isnan(margin_threshold),
        ip_threshold=isinstance(ip_threshold, float) and not math.isnan(ip_threshold),
        n_ip=isinstance(n_ip, int) and 0 < n_ip <= n_calibration,
    )
    return Combination(alpha, guarantee, margin_threshold, ip_threshold, n_calibration, n_ip, names)


def _divided(n: int, fraction: float, seed: Seed) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows that fix the margin's threshold, and those that calibrate IP's."""
    if not 0 < fraction < 1:
        raise ValueError(f"Expected a fraction of the rows strictly between 0 and 1, got {fraction!r}.")
    cut = round(fraction * n)
    if not 0 < cut < n:
        raise ValueError(
            f"Expected enough rows for both thresholds, got {n} of which a fraction of {fraction:g} is for the "
            "margin's: pass more rows, or guarantee='sum'."
        )
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[:cut]), np.sort(order[cut:])


def _share(share: float | None, n_first: int, n_second: int, alpha: float) -> Fraction:
    if share is None:
        return Fraction(max(0.0, 1 - 2 * math.sqrt((1 / n_first + 1 / n_second) / alpha)))
    try:
        exact = Fraction(str(share))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if not 0 < exact <= 1:
        raise ValueError(f"Expected a share of alpha above 0 and at most 1, got {share!r}.")
    return exact


def _notes(*told: str | None) -> tuple[str, ...]:
    return tuple(filter(None, told))
