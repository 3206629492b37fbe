"""A monitor: anytime-valid evidence that the rows are no longer like those before."""

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.marginal import kth_smallest
from pippin._conformal.protocol import ConformalPredictor
from pippin._engine import martingale
from pippin._online.alarm import Alarm, capital
from pippin._online.one_object import Coin, OneObject
from pippin._online.pools import Pools, pools_of
from pippin._online.resuming import Resumes
from pippin._online.trail import Trail
from pippin._runtime.errors import InputError
from pippin._shift.novelty import SURPRISE, surprises
from pippin._theory.betting import CUSUM, SHIRYAEV_ROBERTS, limit_of
from pippin._theory.level import as_alpha

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DETECTORS = {"shiryaev-roberts": SHIRYAEV_ROBERTS, "cusum": CUSUM}


class Monitor(Resumes):
    """Evidence against "the rows are exchangeable", row by row: P(ever an alarm) ≤ delta while they are.

    Each row has a score s: with labels that of the true class, without them 1 − max p. It is ranked among the n
    scores before it, those of the calibration included: p = (#{s_i > s} + v(#{s_i = s} + 1))/(n + 1), v uniform.
    Only then does it join them. While all rows, the calibration's too, are exchangeable, these p-values are
    independent and uniform, ties or not. (A score's first ten binary digits count, so the pool takes
    two megabytes, however long the stream; for each class, kind or group that has its own.) Bettors bet
    against that; `evidence` is their capital. It starts at 1, and by Ville's inequality reaches 1/delta ever with
    probability at most delta.

    For machines that run for months, `mean_time` is the mean number of rows between two false alarms: then the evidence
    is what was gained since any row before, summed (Shiryaev–Roberts) or at its largest (CUSUM), an alarm comes where
    it reaches `limit`, and with the next row it begins anew.

    A predictor with thresholds per class, kind or group ranks a score among those of its own: then classes and groups
    may become more frequent or less, and only other scores within one are a change.

    `n_rows` is how many rows it has seen, `n_alarms` how many alarms it has raised.

    Args:
        predictor: whose calibration scores are the first of the pool, where labels come.
        delta: the probability of a false alarm, over the whole life of the monitor; 0.01, if neither is given.
        mean_time: instead of delta, how many rows pass between two false alarms on average: at least so many with
            "shiryaev-roberts", about so many with "cusum", whose first comes sooner where few are asked for.
        detector: with mean_time, "shiryaev-roberts" or "cusum".
        reference: (n, K) probabilities of rows from before, such as those that calibrated: the
            first of the pool, where no labels come. Without them the stream is held against itself.
        seed: of the draws v, a whole number; the state of the draws is saved with the monitor.

    Attributes:
        predictor (ConformalPredictor): what is watched.
        delta (float | None): the chance of a false alarm, over its whole life.
        mean_time (float | None): rows between false alarms on average, if that was asked for instead.
        detector (str): how evidence is gathered.
        n_rows (int): how many rows have come.
        n_alarms (int): how many alarms there were.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], classes=data.classes)
    >>> monitor = pippin.online.Monitor(predictor, delta=0.01, seed=0)
    >>> alarms = [monitor.update(row, label) for row, label in zip(data.probs[2000:], data.labels[2000:])]
    >>> any(alarms)
    False
    >>> blurred = 0.5 * data.probs[2000:2200] + 0.5 / 12
    >>> alarms = [monitor.update(row, label) for row, label in zip(blurred, data.labels[2000:])]
    >>> print(next(alarm for alarm in alarms if alarm))
    Row 3,037: the rows have changed, most likely since row 2,973; the evidence is 129.
    """

    _kind = "monitor"

    def __init__(
        self,
        predictor: ConformalPredictor,
        delta: float | None = None,
        *,
        mean_time: float | None = None,
        detector: str | None = None,
        reference: Any = None,
        seed: int | None = None,
    ) -> None:
        self.predictor = predictor
        self.delta, self.mean_time, self.detector = promised(delta, mean_time, detector)
        self._limit = math.log(self.limit)
        self._coin = Coin(seed)
        self.n_rows, self.n_alarms, self._last = 0, 0, 0.0
        self._evidence, self._trail = martingale.new_martingale(), Trail("largest")
        self._missed: Trail | None = None  # by the predictor's own sets, where labels come
        self._alarmed: Alarm | None = None
        self._labelled: bool | None = None  # not known before the first row
        if reference is not None:
            martingale.add_scores(self._evidence, surprises(predictor, reference))
        self._surprise = OneObject(SURPRISE, predictor.classes)

    def update(self, row: Any, label: Any = None, *, group: Any = None) -> Alarm:
        """One more row; true from the row on at which the evidence passed 1/delta; with mean_time, at alarms alone.

        Args:
            row: its K probabilities, not logits.
            label: its true class, by number or by name; for every row, or for none.
            group: its group, with labels and where the predictor has thresholds per group.
        """
        if self._labelled is not (label is not None):
            self._begin(label is not None)
        score, cell = self._surprising(row, group) if label is None else self._scored(row, label, group)
        self.n_rows += 1
        self._last = log = self._watch(score, self._coin.toss(), self.n_rows, cell)
        self._trail.add(log)
        if log >= self._limit and (self._alarmed is None or self.mean_time is not None):
            self._alert(log)
        if self._alarmed is None or not self.drift_detected:
            return Alarm(False, capital(log), self.n_rows - 1, None)
        return Alarm(True, capital(log), self.n_rows - 1, self.changepoint)

    @property
    def limit(self) -> float:
        """The evidence that is an alarm: 1/delta, or what keeps the mean time."""
        if self.mean_time is None or self.detector is None:
            return 1 / (self.delta or 1)
        return limit_of(DETECTORS[self.detector], self.mean_time)

    @property
    def evidence(self) -> float:
        """The capital now, how many times what was put in; with mean_time, what was gained since any row before."""
        return capital(self._last) if self.n_rows or self.mean_time is None else 0.0

    @property
    def drift_detected(self) -> bool:
        """Whether the evidence has ever passed 1/delta; with mean_time, whether the last row raised an alarm."""
        latest = self._alarmed
        return latest is not None and (self.mean_time is None or latest.row == self.n_rows - 1)

    @property
    def alarm(self) -> Alarm | None:
        """The first alarm, with mean_time the latest; None, if there was none."""
        return self._alarmed

    @property
    def changepoint(self) -> int | None:
        """The row, counted from 0, with which the change most likely began; None before an alarm."""
        return None if self._alarmed is None else self._alarmed.changepoint

    def describe(self) -> str:
        """What it has seen, in a sentence."""
        seen = f"{self.n_rows:,} rows {'with' if self._labelled else 'without'} labels"
        if self._alarmed is not None:
            often = f", {self.n_alarms:,} alarms; the latest" if self.n_alarms > 1 else ""
            return f"{seen}{often}. {self._alarmed}"
        return f"{seen}, no change: the evidence is {self.evidence:.3g}, and {self.limit:.6g} would be an alarm."

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The evidence along the stream, the limit of an alarm, the alarm, and where the change began; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.streams import plot_evidence

        return plot_evidence(self, ax)

    def _facts(self) -> dict[str, Any]:
        return {
            "rows": self.n_rows,
            "alarms": self.n_alarms,
            "evidence now": self.evidence,
            "an alarm at": self.limit,
            "change since row": "–" if self.changepoint is None else f"about {self.changepoint:,}",
        }

    def __repr__(self) -> str:
        asked = f"delta={self.delta:g}" if self.delta is not None else f"mean_time={self.mean_time:g}"
        return f"Monitor({self.n_rows:,} rows, evidence {self.evidence:.3g}, {asked})"

    @cached_property
    def _watch(self) -> martingale.Update:
        return martingale.updater(self._evidence, 0 if self.detector is None else DETECTORS[self.detector])

    @cached_property
    def _pools(self) -> Pools:
        return pools_of(self.predictor)

    @cached_property
    def _thresholds(self) -> list[float]:
        return [kth_smallest(*one) for one in zip(self._pools.scores, self._pools.levels, strict=True)]

    @cached_property
    def _true(self) -> OneObject:
        return OneObject(self._pools.score, self.predictor.classes)

    def _alert(self, log: float) -> None:
        began = self._evidence.since[self._evidence.rises.argmax()]
        self._alarmed = Alarm(True, capital(log), self.n_rows - 1, int(began))
        self.n_alarms += 1
        if self.mean_time is not None:
            martingale.restart(self._evidence, self.n_rows)

    def _begin(self, labelled: bool) -> None:
        """Settles with the first row whether labels come; refuses a row that is not like the first."""
        if self._labelled is not None:
            came, wanted = ("a label", "none") if labelled else ("no label", "one")
            raise InputError(
                f"Expected {wanted} with this row, as with those before, got {came}",
                "use two monitors, one with labels and one without, each with half of delta",
            )
        if labelled:
            self._fill()
        self._labelled = labelled

    def _fill(self) -> None:
        if self._evidence.tree[0, 0]:
            raise InputError(
                "Expected no labels, since the reference holds none, got one",
                "leave reference out: with labels, the calibration scores are the reference",
            )
        self._evidence, self._missed = martingale.new_martingale(len(self._pools.scores)), Trail("sum")
        for cell, scores in enumerate(self._pools.scores):
            if cell not in self._pools.shared:  # a group that was not seen is held against itself
                martingale.add_scores(self._evidence, scores, cell)

    def _surprising(self, row: Any, group: Any) -> tuple[float, int]:
        if group is not None:
            raise InputError(f"Expected no group with a row without label, got {group!r}", "leave it out")
        given: NDArray[Any] = self._surprise.row(row)
        return self._surprise.score_of(given, 0.0, int(given.argmax())), 0

    def _scored(self, row: Any, label: Any, group: Any) -> tuple[float, int]:
        true, pools = self._true, self._pools
        given, code = true.row(row), true.code(label)
        number = 0 if group is None and pools.groups is None else pools.group(group)
        score = true.score_of(given, self._coin.toss() if true.randomized else 0.0, code)
        cell = pools.of[number][code]
        if self._missed is not None:
            self._missed.add(score > self._thresholds[cell])
        return score, cell


def promised(delta: Any, mean_time: Any, detector: Any) -> tuple[float | None, float | None, str | None]:
    """What is promised of false alarms, checked: a probability, or a mean time and the detector that keeps it."""
    if mean_time is None:
        if detector is not None:
            raise InputError(f"Expected mean_time beside detector={detector!r}, got none", "pass for example 100_000")
        return as_delta(0.01 if delta is None else delta), None, None
    if delta is not None:
        raise InputError(f"Expected delta or mean_time, got both, {delta!r} and {mean_time!r}", "leave one out")
    if isinstance(mean_time, bool) or not isinstance(mean_time, int | float | np.number) or not 1 < mean_time < np.inf:
        raise InputError(f"Expected mean_time, a number of rows above 1, got {mean_time!r}", "pass for example 100_000")
    chosen = "shiryaev-roberts" if detector is None else detector
    if chosen not in DETECTORS:
        raise InputError(f"Expected detector to be {' or '.join(DETECTORS)}, got {detector!r}", "choose one of them")
    return None, float(mean_time), chosen


def as_delta(delta: Any) -> float:
    """The probability of a false alarm, checked to lie strictly between 0 and 1."""
    try:
        return as_alpha(delta)
    except InputError as error:
        raise InputError(
            f"Expected delta, the probability of a false alarm, strictly between 0 and 1, got {delta!r}",
            "delta=0.01 is one monitor in a hundred",
        ) from error
