"""Update rules of stream thresholds: fixed, growing or sliding calibration set, quantile tracking, ACI and DtACI."""

import math
from array import array
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from pippin._conformal.mondrian import kth_smallest
from pippin._conformal.serialization import Content, need, vector_of
from pippin._online.state import ScorePools
from pippin._runtime.arguments import is_whole
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._theory.level import exact_alpha, rank_at

UPDATES = ("none", "grow", "window", "track", "aci", "dtaci")
# Step sizes of "track" are rate·t^(−DECAY). For exchangeable rows, the thresholds converge if DECAY is in (1/2, 1].
DECAY = 0.6
GAMMAS = 0.001 * 2.0 ** np.arange(8)  # step sizes γ_i of the levels of DtACI
MOST_RATE = 1e300  # largest rate: larger steps could add up to infinity, where thresholds would remain
SPAN = 500  # number of labels over which the rule DtACI averages losses, with exponential forgetting


class UpdateRule:
    """Threshold of one Mondrian category and its updates; this base class keeps the threshold fixed ("none")."""

    def __init__(self, scores: Vector, alpha: float) -> None:
        self.threshold = kth_smallest(scores, alpha)

    def learn(self, score: float, missed: bool) -> None:
        """Update the threshold with the score of a true class; `missed` is True if the class was not in the set."""

    def bound(self, n: int, delay: int) -> float | None:
        """Return a bound on |coverage − (1 − α)| for any n labels; None for a rule without a bound.

        `delay` is the largest number of other labels between a prediction and its label.
        """

    def state(self) -> dict[str, Any]:
        """Return the part of the state for a file that the calibrated predictor does not determine."""
        return {}

    def resume(self, content: Content) -> None:
        """Restore the rule from the part of a file that `state` returned."""


class GrowingCalibration(UpdateRule):
    """Threshold from a calibration set that grows with each label, or holds the latest scores ("grow", "window")."""

    def __init__(self, scores: Vector, alpha: float, window: int | None = None) -> None:
        self._fraction, self._window = exact_alpha(alpha).as_integer_ratio(), window
        self._sorted = array("d", np.sort(scores))
        self._latest: deque[float] = deque(scores.tolist() if window else ())
        self.threshold = self._quantile()

    def learn(self, score: float, missed: bool) -> None:
        insort(self._sorted, score)
        self._latest.append(score)
        while self._window and len(self._latest) > self._window:
            del self._sorted[bisect_left(self._sorted, self._latest.popleft())]
        self.threshold = self._quantile()

    def state(self) -> dict[str, Any]:
        return {"calibration_scores": list(self._latest)}

    def resume(self, content: Content) -> None:
        if self._window:
            self._latest, self._sorted = deque(), array("d")
        latest = vector_of("calibration_scores", content.take("calibration_scores")).tolist()
        self._latest.extend(latest)
        self._sorted = array("d", sorted([*self._sorted, *latest]))
        self.threshold = self._quantile()

    def _quantile(self) -> float:
        k = rank_at(len(self._sorted), *self._fraction)
        return math.inf if k > len(self._sorted) else self._sorted[k - 1]


class QuantileTracking(UpdateRule):
    """Quantile tracking of the threshold q after label number t: q ← q + η_t(1{miss} − α), η_t = rate·t^(−0.6).

    Angelopoulos, Barber, Bates (2024), arXiv 2402.01139.
    """

    def __init__(self, threshold: float, alpha: float, rate: float) -> None:
        self.threshold, self._alpha, self._rate = threshold, alpha, rate
        self._n, self._low, self._high = 0, threshold, threshold

    def learn(self, score: float, missed: bool) -> None:
        self._n += 1
        self._low, self._high = min(self._low, score), max(self._high, score)
        self.threshold += self._step(self._n) * (missed - self._alpha)

    def bound(self, n: int, delay: int) -> float:
        """Return the bound (B + (delay + 1)η_1)/(n·η_n) on |coverage − (1 − α)| for n labels.

        B is the range of all scores including the first threshold, and η_t is the step size at label t.
        """
        return tracking_bound(self._high - self._low, self._step(1), self._step(max(n, 1)), n, delay)

    def state(self) -> dict[str, Any]:
        return {"threshold": self.threshold, "n_steps": self._n, "thresholds": [self._low, self._high]}

    def resume(self, content: Content) -> None:
        self.threshold, self._n = content.number("threshold"), content.whole("n_steps", 0)
        self._low, self._high = content.numbers("thresholds", 2).tolist()

    def _step(self, t: int) -> float:
        return float(self._rate * t**-DECAY)


class AdaptiveLevel(UpdateRule):
    """Adaptive conformal inference: calibration quantile at a level that changes, α_t ← α_t + γ(α − 1{miss}).

    Gibbs and Candès (2021).
    """

    def __init__(self, scores: Vector, alpha: float, rate: float) -> None:
        self._sorted = np.sort(scores)
        self._alpha, self._rate, self._level = alpha, rate, alpha
        self.threshold = quantile(self._sorted, alpha)

    def learn(self, score: float, missed: bool) -> None:
        self._level += self._rate * (self._alpha - missed)
        self.threshold = quantile(self._sorted, self._level)

    def bound(self, n: int, delay: int) -> float:
        """Return the bound (1 + (delay + 1)γ)/(n·γ) on |coverage − (1 − α)| for n labels with the step size γ.

        The levels have range 1, since sets are full for α_t ≤ 0 and empty for α_t ≥ 1.
        """
        return tracking_bound(1.0, self._rate, self._rate, n, delay)

    def state(self) -> dict[str, Any]:
        return {"level_now": self._level}

    def resume(self, content: Content) -> None:
        self._level = content.number("level_now")
        self.threshold = quantile(self._sorted, self._level)


class TunedAdaptiveLevel(UpdateRule):
    """Dynamically tuned ACI: a weighted mean of levels α_i with step sizes γ_i. Gibbs and Candès (2022).

    Let β be the largest level at which the set contains the true class. After each label, level i has the loss
    ℓ = α(β − α_i) − min(0, β − α_i), and its weight is multiplied by exp(−η·ℓ). Then a share 1/(2·SPAN) of all weights
    is redistributed equally, and α_i ← α_i + γ_i(α − 1{α_i ≥ β}). The threshold is the quantile at the weighted mean of
    the levels. The rate η follows from η² = (log(8·SPAN) + 2)/Σℓ², a sum with exponential forgetting over SPAN labels.
    The theory bounds the regret on every interval, not the mean coverage, so `bound` returns None.
    """

    def __init__(self, scores: Vector, alpha: float) -> None:
        self._sorted, self._alpha = np.sort(scores), alpha
        self._levels, self._weights = np.full(len(GAMMAS), alpha), np.full(len(GAMMAS), 1 / len(GAMMAS))
        self._losses = SPAN * alpha**2 * (1 - alpha) ** 2  # initial value of the sum of squared losses
        self.threshold = self._quantile()

    def learn(self, score: float, missed: bool) -> None:
        n = len(self._sorted)
        best = 1 - int(self._sorted.searchsorted(score, side="left")) / (n + 1)
        gaps = best - self._levels
        losses = self._alpha * gaps - np.minimum(0.0, gaps)
        weights = self._weights * np.exp(-math.sqrt((math.log(len(GAMMAS) * SPAN) + 2) / self._losses) * losses)
        mean = float(self._weights @ losses**2)
        self._losses += mean - self._losses / SPAN
        share = 1 / (2 * SPAN)
        total = weights.sum()
        if total > 0:  # otherwise all weights underflow: keep the previous ones
            self._weights = (1 - share) * weights / total + share / len(GAMMAS)
        self._levels = self._levels + GAMMAS * (self._alpha - ((gaps <= 0) & (self._levels > 0)))
        self.threshold = self._quantile()

    def state(self) -> dict[str, Any]:
        return {"levels": self._levels.tolist(), "weights": self._weights.tolist(), "losses": self._losses}

    def resume(self, content: Content) -> None:
        self._levels, self._weights = (np.array(content.numbers(name, len(GAMMAS))) for name in ("levels", "weights"))
        self._losses = content.number("losses")
        need("weights", bool(((self._weights > 0) & (self._weights <= 1)).all()))
        need("levels", bool((np.abs(self._levels) <= 2).all()) and self._losses > 1e-300)
        self.threshold = self._quantile()

    def _quantile(self) -> float:
        return quantile(self._sorted, float(self._weights @ self._levels))


def quantile(ordered: Vector, level: float) -> float:
    """Return the k-th smallest of n sorted scores, k = ⌈(n + 1)(1 − level)⌉; ∞ if level ≤ 0, −∞ if level ≥ 1.

    >>> quantile(np.array([0.1, 0.2, 0.3]), 0.5), quantile(np.array([0.1]), 0.0)
    (0.2, inf)
    """
    if not 0 < level < 1:
        return math.inf if level <= 0 else -math.inf
    k = math.ceil((len(ordered) + 1) * (1 - level))
    return math.inf if k > len(ordered) else float(ordered[max(k, 1) - 1])


def tracking_bound(span: float, first: float, last: float, n: int, delay: int) -> float:
    """Return the bound (span + (delay + 1)·η_1)/(n·η_n) on |coverage − (1 − α)| of quantile tracking.

    `span` is the width of the range of scores, and `delay` the largest number of other labels between a prediction and
    its label. `first` and `last` are the step sizes η_1 and η_n; step sizes must not increase.

    Proof: a threshold outside the range of the scores is moved back by every update. So with delayed labels it leaves
    the range by at most delay + 1 steps, and all thresholds are in an interval of width W = span + (delay + 1)·η_1. By
    summation by parts, Σ(1{miss} − α) = Σ(q_{t+1} − q_t)/η_t is at most W/η_n.

    >>> tracking_bound(1.0, 0.25, 0.25, 100, 0)
    0.05
    """
    return math.inf if n * last == 0 else (span + (delay + 1) * first) / (n * last)


def make_rules(
    pools: ScorePools, update: str, rate: Any, window: Any, generator: np.random.Generator
) -> Sequence[UpdateRule]:
    """Make the update rule `update` for each Mondrian category.

    Raises:
        InputError: `update`, `rate` or `window` is invalid, or a category has too few scores for "track".
    """
    if update not in UPDATES:
        raise InputError(f"Expected update to be one of {', '.join(UPDATES)}, got {update!r}", "choose one of them")
    _check_options(update, rate, window)
    categories = list(zip(pools.scores, pools.levels, strict=True))
    if update == "track":
        return [_tracking(name, *category, rate) for name, category in zip(pools.names, categories, strict=True)]
    if update == "window":
        return [_sliding_window(*category, window, generator) for category in categories]
    if update == "aci":
        return [AdaptiveLevel(*category, 0.005 if rate is None else float(rate)) for category in categories]
    rule = {"none": UpdateRule, "grow": GrowingCalibration, "dtaci": TunedAdaptiveLevel}[update]
    return [rule(*category) for category in categories]


def _sliding_window(scores: Vector, alpha: float, window: Any, generator: np.random.Generator) -> GrowingCalibration:
    """Make the rule "window". Calibration scores are shuffled, since they are sorted and leave the window in order."""
    length = max(1, len(scores)) if window is None else int(window)
    return GrowingCalibration(generator.permutation(scores)[-length:], alpha, length)


def _tracking(name: Any, scores: Vector, alpha: float, rate: Any) -> QuantileTracking:
    """Make the rule "track" (quantile tracking); its default rate is the distance between two quantiles of the scores.

    These are the quantiles 1 − 2α and 1 − α/2. If they are equal, the default rate is 1.
    """
    threshold = kth_smallest(scores, alpha)
    if math.isinf(threshold):
        category = "" if name == "all" else f" for {name}"
        raise InputError(f"Expected a finite threshold to begin with, got inf{category}", "calibrate with more rows")
    if rate is None:
        levels = [max(0.0, 1 - 2 * alpha), 1 - alpha / 2]
        low, high = np.quantile(scores[np.isfinite(scores)], levels, method="lower")
        rate = float(high - low) or 1.0
    return QuantileTracking(threshold, alpha, float(rate))


def _check_options(update: str, rate: Any, window: Any) -> None:
    if rate is not None:
        if update not in ("track", "aci"):
            raise InputError(f"Expected no rate with update={update!r}, got {rate!r}", "leave it out")
        if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not 0 < rate <= MOST_RATE:
            raise InputError(f"Expected a positive rate of at most {MOST_RATE:g}, got {rate!r}", "leave it out")
    if window is not None:
        if update != "window":
            raise InputError(f"Expected no window with update={update!r}, got {window!r}", "leave it out")
        if not is_whole(window, 1):
            raise InputError(f"Expected a window of at least one score, got {window!r}", "leave it out")
