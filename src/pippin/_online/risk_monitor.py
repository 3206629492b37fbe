"""Sequential test of the miss rate: alarm when prediction sets miss the true class more often than guaranteed."""

import math
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from pippin._conformal.card import Card, promise_card
from pippin._conformal.serialization import Content, attributes, need
from pippin._online.monitor import DELTA
from pippin._online.state import History, Resumable
from pippin._runtime.arguments import checked_methods
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_facts
from pippin._theory.level import as_alpha
from pippin._theory.martingale import exp_capital, log_risk_capital, risk_lower_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@checked_methods
class RiskMonitor(Resumable):
    """Sequential test that raises an alarm if prediction sets miss the true class at a rate above alpha + tolerance.

    A miss is a true class that is not in its set. The monitor takes one outcome per object: x = 1 for a miss, and x = 0
    otherwise. Changes of the data that do not increase the rate of misses raise no alarm.

    `evidence` is the value of a test martingale: the product of 1 − c + c·x/m over all outcomes, with
    m = alpha + tolerance, averaged over several stakes c between 0 and 1. An alarm is raised when it reaches 1/delta.
    If the probability of a miss, given all earlier outcomes, is always at most m, then P(any alarm ever) ≤ delta.
    `lower_bound` is a lower confidence bound on the miss rate, for a rate that does not change. It holds at all times
    together with probability 1 − delta.

    Reference: `Waudby-Smith and Ramdas (2024) <https://arxiv.org/abs/2010.09686>`__.

    Args:
        alpha: significance level (miscoverage) of the predictor.
        tolerance: excess over alpha that raises no alarm. With n calibration rows, the miss rate of a calibrated
            predictor differs from alpha by about √(alpha(1 − alpha)/n) by chance.
        delta: probability of a false alarm over the whole life of the monitor.

    Attributes:
        alpha (float): the significance level.
        delta (float): probability of a false alarm over the whole life of the monitor.
        tolerance (float): excess over alpha that raises no alarm.
        n_rows (int): number of outcomes (misses or not) so far.
        n_missed (int): number of misses so far.
        drift_detected (bool): True from the first alarm on.

    Raises:
        InputError: alpha, tolerance or delta is out of range.

    >>> import pippin
    >>> monitor = pippin.online.RiskMonitor(alpha=0.1, tolerance=0.02)
    >>> any(monitor.update(i % 10 == 0) for i in range(1000))
    False
    >>> any(monitor.update(i % 3 == 0) for i in range(600))
    True
    >>> print(monitor.describe())
    202 of 1,304 labels were missed, so the rate is at least 12%; the guarantee of 10% is violated.
    """

    _kind = "risk monitor"

    def __init__(self, alpha: float, *, tolerance: float = 0.02, delta: float = 0.01) -> None:
        self.alpha, self.delta = as_alpha(alpha), as_alpha(delta, *DELTA)
        if not isinstance(tolerance, int | float | np.number) or not 0 <= tolerance < 1 - self.alpha:
            raise InputError(f"Expected a tolerance from 0 to 1 − alpha, got {tolerance!r}", "pass for example 0.02")
        self.tolerance = float(tolerance)
        self.n_rows, self.n_missed, self.drift_detected = 0, 0, False
        self._history = History(add)

    def update(self, missed: Any) -> bool:
        """Update the evidence by one outcome, a miss or not.

        Args:
            missed: True if the prediction set missed the true class.

        Returns:
            True once the evidence has reached 1/delta, which is the alarm.
        """
        if not isinstance(missed, bool | np.bool_):
            raise InputError(f"Expected True or False, got {missed!r}", "pass True if the set missed the true class")
        self.n_rows += 1
        self.n_missed += bool(missed)
        self._history.add(bool(missed))
        self.drift_detected = self.drift_detected or self._log_capital() >= -math.log(self.delta)
        return self.drift_detected

    @property
    def evidence(self) -> float:
        """Value of the test martingale after the last outcome."""
        return exp_capital(self._log_capital())

    @property
    def lower_bound(self) -> float:
        """Lower confidence bound on the miss rate; with probability 1 − delta, it is valid at all times."""
        return risk_lower_bound(self.n_missed, self.n_rows - self.n_missed, self.delta)

    def describe(self) -> str:
        """Describe the outcomes so far in one sentence.

        Returns:
            The sentence.
        """
        missed = f"{self.n_missed:,} of {self.n_rows:,} labels were missed"
        bound = f"the rate is at least {100 * self.lower_bound:.3g}%"
        verdict = "violated" if self.drift_detected else "not refuted"
        return f"{missed}, so {bound}; the guarantee of {100 * self.alpha:g}% is {verdict}."

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the evidence along the sequence of outcomes, with the limit 1/delta of an alarm.

        Args:
            ax: Matplotlib axes; new ones by default.

        Returns:
            The axes.
        """
        from pippin._plotting.streams import plot_risk

        return plot_risk(self, ax)

    def _repr_html_(self) -> str:
        facts = {"labels": self.n_rows, "missed": self.n_missed, "evidence now": self.evidence}
        return html_facts(f"RiskMonitor: {self.describe()}", facts | {"an alarm at": 1 / self.delta})

    def __repr__(self) -> str:
        return f"RiskMonitor({self.n_missed:,} of {self.n_rows:,} missed, alpha={self.alpha:g}, delta={self.delta:g})"

    def _promise(self) -> Card:
        card = promise_card(
            what="A monitor of the miss rate of prediction sets on labeled rows.",
            guarantee=f"As long as the miss rate is at most alpha + tolerance = {self.alpha + self.tolerance:g}, the "
            f"probability of any alarm, however long the stream, is at most {self.delta:g}.",
            level=f"alpha = {self.alpha:g}, tolerance = {self.tolerance:g}, delta = {self.delta:g}.",
            condition="The probability of a miss, given all earlier outcomes, is at most alpha + tolerance.",
            variation="Not applicable.",
            shift="",
            limits="That every larger miss rate raises an alarm, or how soon.",
            rows="None.",
        )
        return card | {"In which state is it?": self.describe()}

    def content(self) -> dict[str, Any]:
        """Return the data that `save` writes to a file: the whole state of the monitor.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.
        """
        saved = attributes(self, "alpha", "tolerance", "delta", "n_rows", "n_missed", "drift_detected")
        return {"kind": self._kind, **saved, "trail": self._history.content()}

    @classmethod
    def _from_content(cls, content: Content) -> "RiskMonitor":
        monitor = cls(content.level(), tolerance=content.number("tolerance"), delta=content.number("delta"))
        monitor.n_rows = content.whole("n_rows", 0)
        monitor.n_missed = content.whole("n_missed", 0, monitor.n_rows)
        monitor.drift_detected = content.take("drift_detected", lambda value: isinstance(value, bool))
        if content.has("trail"):  # files of the first format have no history
            history = monitor._history
            history.resume(content, "trail")
            need("trail", history.n <= monitor.n_rows and history.total <= monitor.n_missed)
        content.finish()
        return monitor

    def _log_capital(self) -> float:
        return log_risk_capital(self.n_missed, self.n_rows - self.n_missed, self.alpha + self.tolerance)
