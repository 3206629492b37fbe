"""Monitor of the miss rate: an alarm when prediction sets miss their labels more often than guaranteed."""

import math
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from pippin._conformal.serialization import Content, attributes, need
from pippin._online.monitor import as_delta
from pippin._online.state import History, Resumable
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_facts
from pippin._theory.level import as_alpha
from pippin._theory.martingale import exp_capital, log_risk_capital, risk_lower_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RiskMonitor(Resumable):
    """Evidence that misses are more frequent than alpha + tolerance; harmless changes raise no alarm.

    `evidence` is a mean of products of 1 − c + c·x/m, m = alpha + tolerance, x = 1 for a miss. While the probability of
    a miss, given all earlier outcomes, is at most m, P(ever an alarm) ≤ delta. `lower_bound` is below a constant
    miss rate at all times at once with probability 1 − delta.

    Args:
        alpha: the guaranteed miscoverage.
        tolerance: an excess that raises no alarm; n calibration rows alone give one of about √(alpha(1 − alpha)/n).
        delta: the probability of a false alarm, over the whole life of the monitor.

    Attributes:
        alpha (float): the significance level.
        delta (float): the probability of a false alarm, over the whole life of the monitor.
        tolerance (float): the excess over alpha that raises no alarm.
        n_rows (int): the number of outcomes so far.
        n_missed (int): the number of misses among them.
        drift_detected (bool): True from the first alarm on.

    >>> import pippin
    >>> monitor = pippin.online.RiskMonitor(alpha=0.1, tolerance=0.02)
    >>> any(monitor.update(i % 10 == 0) for i in range(1000))
    False
    >>> any(monitor.update(i % 3 == 0) for i in range(600))
    True
    >>> print(monitor.describe())
    202 of 1,304 labels were missed, so the rate is at least 12%; the promise of 10% is broken.
    """

    _kind = "risk monitor"

    def __init__(self, alpha: float, *, tolerance: float = 0.02, delta: float = 0.01) -> None:
        self.alpha, self.delta = as_alpha(alpha), as_delta(delta)
        if not isinstance(tolerance, int | float | np.number) or not 0 <= tolerance < 1 - self.alpha:
            raise InputError(f"Expected a tolerance from 0 to 1 − alpha, got {tolerance!r}", "pass for example 0.02")
        self.tolerance = float(tolerance)
        self.n_rows, self.n_missed, self.drift_detected = 0, 0, False
        self._history = History(add)

    def update(self, missed: Any) -> bool:
        """Add an outcome; true from the one on at which the evidence passes 1/delta.

        Args:
            missed: True if the true class was outside its set.
        """
        if not isinstance(missed, bool | np.bool_):
            raise InputError(f"Expected whether the set missed its label, got {missed!r}", "pass True or False")
        self.n_rows += 1
        self.n_missed += bool(missed)
        self._history.add(bool(missed))
        self.drift_detected = self.drift_detected or self._log_capital() >= -math.log(self.delta)
        return self.drift_detected

    @property
    def evidence(self) -> float:
        """Value of the test martingale."""
        return exp_capital(self._log_capital())

    @property
    def lower_bound(self) -> float:
        """Lower confidence bound on the miss rate, at level 1 − delta at all times at once."""
        return risk_lower_bound(self.n_missed, self.n_rows - self.n_missed, self.delta)

    def describe(self) -> str:
        """Describe the outcomes so far in a sentence."""
        missed = f"{self.n_missed:,} of {self.n_rows:,} labels were missed"
        bound = f"the rate is at least {100 * self.lower_bound:.3g}%"
        verdict = "broken" if self.drift_detected else "not refuted"
        return f"{missed}, so {bound}; the promise of {100 * self.alpha:g}% is {verdict}."

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the evidence along the labels and the limit of an alarm; return Matplotlib axes.

        Args:
            ax: the axes; new ones, if not given.
        """
        from pippin._plotting.streams import plot_risk

        return plot_risk(self, ax)

    def _repr_html_(self) -> str:
        facts = {"labels": self.n_rows, "missed": self.n_missed, "evidence now": self.evidence}
        return html_facts(f"RiskMonitor: {self.describe()}", facts | {"an alarm at": 1 / self.delta})

    def __repr__(self) -> str:
        return f"RiskMonitor({self.n_missed:,} of {self.n_rows:,} missed, alpha={self.alpha:g}, delta={self.delta:g})"

    def content(self) -> dict[str, Any]:
        """Return the state as a file holds it."""
        saved = attributes(self, "alpha", "tolerance", "delta", "n_rows", "n_missed", "drift_detected")
        return {"kind": self._kind, **saved, "trail": self._history.content()}

    @classmethod
    def _from_content(cls, content: Content) -> "RiskMonitor":
        monitor = cls(content.level(), tolerance=content.number("tolerance"), delta=content.number("delta"))
        monitor.n_rows = content.whole("n_rows", 0)
        monitor.n_missed = content.whole("n_missed", 0, monitor.n_rows)
        monitor.drift_detected = content.take("drift_detected", lambda value: isinstance(value, bool))
        if content.has("trail"):  # absent in files of the first format
            history = monitor._history
            history.resume(content, "trail")
            need("trail", history.n <= monitor.n_rows and history.total <= monitor.n_missed)
        content.finish()
        return monitor

    def _log_capital(self) -> float:
        return log_risk_capital(self.n_missed, self.n_rows - self.n_missed, self.alpha + self.tolerance)


risk_monitor_from_content = RiskMonitor._from_content
