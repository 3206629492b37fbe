"""How a stream's threshold follows what it learns: each way has a threshold, learns a score, and knows its state."""

import math
from collections import deque
from typing import Any, Protocol

import numpy as np

from pippin._conformal.content import Content, need
from pippin._online.sorted_pool import SortedPool
from pippin._runtime.arrays import Vector
from pippin._theory.level import exact_alpha, rank_at

DECAY = (
    0.6  # of the steps of `track`: more than a half, so that they settle, less than one, so that they reach anywhere
)
GAMMAS = 0.001 * 2.0 ** np.arange(8)  # rates that DtACI chooses among
SPAN = 500  # labels after which its choice may have to be another


class Way(Protocol):
    """What every way of following has."""

    threshold: float

    def learn(self, score: float, missed: bool) -> None:
        """A label came: its score, and whether its set missed it."""

    def bound(self, n: int, late: int) -> float | None:
        """What |coverage − (1 − α)| is at most after n labels, each at most so many labels late, whatever came."""

    def state(self) -> dict[str, Any]:
        """What is not in the predictor."""

    def resume(self, content: Content) -> None:
        """Takes up a state."""


class Fixed:
    """The threshold of the calibration."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def learn(self, score: float, missed: bool) -> None:
        """Nothing."""

    def bound(self, n: int, late: int) -> None:
        """None: what comes may be anything."""

    def state(self) -> dict[str, Any]:
        """None of its own."""
        return {}

    def resume(self, content: Content) -> None:
        """Nothing."""


class Growing:
    """The k-th smallest of all scores so far, k = ⌈(n + 1)(1 − α)⌉; with a window, of the latest so many."""

    def __init__(self, scores: Vector, alpha: float, window: int | None) -> None:
        self._error, self._window = exact_alpha(alpha).as_integer_ratio(), window
        self._pool = SortedPool(scores.tolist())
        self._learnt: deque[float] = deque(scores.tolist() if window else ())
        self.threshold = self._kth()

    def learn(self, score: float, missed: bool) -> None:
        """The score joins; the oldest leaves a window that is full."""
        self._pool.add(score)
        self._learnt.append(score)
        while self._window and len(self._learnt) > self._window:
            self._pool.remove(self._learnt.popleft())
        self.threshold = self._kth()

    def bound(self, n: int, late: int) -> None:
        """None: what comes may be anything."""

    def state(self) -> dict[str, Any]:
        """The scores that were learnt; those in the window."""
        return {"calibration_scores": list(self._learnt)}

    def resume(self, content: Content) -> None:
        """The same pool."""
        learnt = content.optional_numbers("calibration_scores")
        need("calibration_scores", learnt is not None)
        assert learnt is not None
        if self._window:
            self._learnt.clear()
            self._pool = SortedPool(())
        for score in learnt.tolist():
            self._pool.add(score)
            self._learnt.append(score)
        self.threshold = self._kth()

    def _kth(self) -> float:
        n = self._pool.n
        k = rank_at(n, *self._error)
        return math.inf if k > n else self._pool.kth(k)


class Tracking:
    """q ← q + η_t(1{miss} − α), η_t = rate·t^(−0.6): Angelopoulos, Barber, Bates (2024), arXiv 2402.01139."""

    def __init__(self, threshold: float, alpha: float, rate: float) -> None:
        self.threshold, self._alpha, self._rate = threshold, alpha, rate
        self._n, self._low, self._high = 0, threshold, threshold

    def learn(self, score: float, missed: bool) -> None:
        """A step up after a miss, a smaller one down after a hit."""
        self._n += 1
        self._low, self._high = min(self._low, score), max(self._high, score)
        self.threshold += self._step(self._n) * (missed - self._alpha)

    def bound(self, n: int, late: int) -> float:
        """(B + (late + 1)η_1)/(n·η_n), B the range of the scores that came and of the first threshold."""
        return reach(self._high - self._low, self._step(1), self._step(max(n, 1)), n, late)

    def state(self) -> dict[str, Any]:
        """The threshold, and the range of the scores."""
        return {"threshold": self.threshold, "n_steps": self._n, "thresholds": [self._low, self._high]}

    def resume(self, content: Content) -> None:
        """The same threshold."""
        self.threshold, self._n = content.number("threshold"), content.whole("n_steps", 0)
        self._low, self._high = content.few("thresholds", 2)

    def _step(self, t: int) -> float:
        return float(self._rate * t**-DECAY)


class Adapting:
    """α_t ← α_t + γ(α − 1{miss}), and the quantile of the calibration at α_t: Gibbs and Candès (2021)."""

    def __init__(self, scores: Vector, alpha: float, rate: float) -> None:
        self._sorted = np.sort(scores)
        self._alpha, self._rate, self._now = alpha, rate, alpha
        self.threshold = self._quantile()

    def learn(self, score: float, missed: bool) -> None:
        """A smaller level after a miss, a larger one after a hit."""
        self._now += self._rate * (self._alpha - missed)
        self.threshold = self._quantile()

    def bound(self, n: int, late: int) -> float:
        """(1 + (late + 1)γ)/(n·γ): at α_t ≤ 0 sets hold every class, at α_t ≥ 1 none."""
        return reach(1.0, self._rate, self._rate, n, late)

    def state(self) -> dict[str, Any]:
        """The level now."""
        return {"level_now": self._now}

    def resume(self, content: Content) -> None:
        """The same level."""
        self._now = content.number("level_now")
        self.threshold = self._quantile()

    def _quantile(self) -> float:
        return quantile(self._sorted, self._now)


class Choosing:
    """Several levels α_i, each moved at its own rate, mixed by how well each did: DtACI, Gibbs and Candès (2022).

    β is the largest level whose set would have held the label. Expert i has the loss
    ℓ(β, α_i) = α(β − α_i) − min(0, β − α_i); its weight is multiplied by exp(−η·ℓ), and a share 1/(2·SPAN) of all
    weights is divided anew; α_i ← α_i + γ_i(α − 1{α_i ≥ β}). The level now is the weighted mean.
    η² = (log(8·SPAN) + 2)/Σℓ², the sum over about the last SPAN labels.
    """

    def __init__(self, scores: Vector, alpha: float) -> None:
        self._sorted, self._alpha = np.sort(scores), alpha
        self._levels, self._weights = np.full(len(GAMMAS), alpha), np.full(len(GAMMAS), 1 / len(GAMMAS))
        self._losses = SPAN * alpha**2 * (1 - alpha) ** 2  # before any label, as if each had lost so much
        self.threshold = self._quantile()

    def learn(self, score: float, missed: bool) -> None:
        """The experts that did well count more, and each moves."""
        n = len(self._sorted)
        best = 1 - int(self._sorted.searchsorted(score, side="left")) / (n + 1)
        apart = best - self._levels
        losses = self._alpha * apart - np.minimum(0.0, apart)
        weights = self._weights * np.exp(-math.sqrt((math.log(len(GAMMAS) * SPAN) + 2) / self._losses) * losses)
        mean = float(self._weights @ losses**2)
        self._losses += mean - self._losses / SPAN
        share = 1 / (2 * SPAN)
        self._weights = (1 - share) * weights / weights.sum() + share / len(GAMMAS)
        self._levels = self._levels + GAMMAS * (self._alpha - ((apart <= 0) & (self._levels > 0)))
        self.threshold = self._quantile()

    def bound(self, n: int, late: int) -> None:
        """None: its promise is about regret over every interval, not about the average alone."""

    def state(self) -> dict[str, Any]:
        """The experts."""
        return {"levels": self._levels.tolist(), "weights": self._weights.tolist(), "losses": self._losses}

    def resume(self, content: Content) -> None:
        """The same experts."""
        self._levels, self._weights = (np.array(content.few(name, len(GAMMAS))) for name in ("levels", "weights"))
        self._losses = content.number("losses")
        need("weights", bool((self._weights > 0).all()) and self._losses > 0)
        self.threshold = self._quantile()

    def _quantile(self) -> float:
        return quantile(self._sorted, float(self._weights @ self._levels))


def quantile(ordered: Vector, level: float) -> float:
    """The k-th smallest score, k = ⌈(n + 1)(1 − level)⌉; infinite at a level of 0 or less, −infinite at 1 or more.

    >>> quantile(np.array([0.1, 0.2, 0.3]), 0.5), quantile(np.array([0.1]), 0.0)
    (0.2, inf)
    """
    n = len(ordered)
    k = math.ceil((n + 1) * (1 - level))
    if level <= 0 or k > n:
        return math.inf
    return -math.inf if level >= 1 else float(ordered[max(k, 1) - 1])


def reach(span: float, first: float, last: float, n: int, late: int) -> float:
    """(span + (late + 1)·η_1)/(n·η_n), with steps η that never grow; infinite before the first label.

    What is tracked cannot leave the span by more than late + 1 steps, for beyond it every step leads
    back. Misses less α are its steps over η_t; summed by parts, they are at most that width over η_n.

    >>> reach(1.0, 0.25, 0.25, 100, 0)
    0.05
    """
    return math.inf if n == 0 else (span + (late + 1) * first) / (n * last)
