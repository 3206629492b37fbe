"""A monitor of the promise itself: an alarm when sets miss more often than was promised."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pippin._online.alarm import capital
from pippin._online.monitor import as_delta
from pippin._online.resuming import Resumes
from pippin._online.trail import Trail
from pippin._runtime.errors import InputError
from pippin._theory.level import as_alpha
from pippin._theory.risk_bets import log_capital, lowest_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RiskMonitor(Resumes):
    """Evidence that misses are more frequent than alpha + tolerance; harmless changes raise no alarm.

    Bettors multiply their capital by 1 − c + c·x/m, m = alpha + tolerance, x = 1 for a miss. While the chance of a
    miss, given all before, stays at most m, P(ever an alarm) ≤ delta. `lower_bound` is below a constant
    rate of misses at all times at once with probability 1 − delta.

    Args:
        alpha: the share of misses that was promised.
        tolerance: how much more is borne; a calibration with n rows is itself off by about √(alpha(1 − alpha)/n).
        delta: the probability of a false alarm, over the whole life of the monitor.

    Attributes:
        alpha (float): the share of errors allowed.
        delta (float): the chance of a false alarm, over its whole life.
        tolerance (float): how much more than alpha is still let pass.
        n_rows (int): how many outcomes have come.
        n_missed (int): how many of them were misses.
        drift_detected (bool): whether there was an alarm; it stays once it was raised.

    >>> import pippin
    >>> monitor = pippin.online.RiskMonitor(alpha=0.1, tolerance=0.02)
    >>> any(monitor.update(i % 10 == 0) for i in range(1000))
    False
    >>> any(monitor.update(i % 3 == 0) for i in range(600))
    True
    >>> print(monitor.describe())
    202 of 1,304 labels were missed, so the rate is at least 12 %; the promise of 10 % is broken.
    """

    _kind = "risk monitor"

    def __init__(self, alpha: float, *, tolerance: float = 0.02, delta: float = 0.01) -> None:
        self.alpha, self.delta = as_alpha(alpha), as_delta(delta)
        if not isinstance(tolerance, int | float | np.number) or not 0 <= tolerance < 1 - self.alpha:
            raise InputError(f"Expected a tolerance from 0 to 1 − alpha, got {tolerance!r}", "pass for example 0.02")
        self.tolerance = float(tolerance)
        self.n_rows, self.n_missed, self.drift_detected = 0, 0, False
        self._trail = Trail("sum")  # of misses

    def update(self, missed: Any) -> bool:
        """One more outcome; true from the one on at which the evidence passed 1/delta.

        Args:
            missed: whether the true class was outside its set.
        """
        if not isinstance(missed, bool | np.bool_):
            raise InputError(f"Expected whether the set missed its label, got {missed!r}", "pass True or False")
        self.n_rows += 1
        self.n_missed += bool(missed)
        self._trail.add(bool(missed))
        limit = -math.log(self.delta)
        self.drift_detected = self.drift_detected or self._log_capital() >= limit
        return self.drift_detected

    @property
    def evidence(self) -> float:
        """The capital now: how many times what was put in."""
        return capital(self._log_capital())

    @property
    def lower_bound(self) -> float:
        """What the rate of misses is at least, with confidence 1 − delta at all times at once."""
        return lowest_rate(self.n_missed, self.n_rows - self.n_missed, self.delta)

    def describe(self) -> str:
        """What it has seen, in a sentence."""
        seen = f"{self.n_missed:,} of {self.n_rows:,} labels were missed"
        least = f"the rate is at least {100 * self.lower_bound:.3g} %"
        kept = "broken" if self.drift_detected else "not refuted"
        return f"{seen}, so {least}; the promise of {100 * self.alpha:g} % is {kept}."

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The evidence along the labels, and the limit of an alarm; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.streams import plot_risk

        return plot_risk(self, ax)

    def _facts(self) -> dict[str, Any]:
        return {
            "labels": self.n_rows,
            "missed": self.n_missed,
            "evidence now": self.evidence,
            "an alarm at": 1 / self.delta,
        }

    def __repr__(self) -> str:
        return f"RiskMonitor({self.n_missed:,} of {self.n_rows:,} missed, alpha={self.alpha:g}, delta={self.delta:g})"

    def _log_capital(self) -> float:
        return log_capital(self.n_missed, self.n_rows - self.n_missed, self.alpha + self.tolerance)
