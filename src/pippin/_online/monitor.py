"""Conformal test martingale of a stream: anytime-valid evidence against exchangeability, and alarms."""

import math
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pippin._conformal.mondrian import kth_smallest
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.serialization import Content, attributes, vector_of
from pippin._engine import martingale
from pippin._online import state
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_facts
from pippin._shift.novelty import SURPRISE, surprises
from pippin._theory.level import as_alpha
from pippin._theory.martingale import BINS, CUSUM, EVER, PIECES, SHIRYAEV_ROBERTS, SLOPES, alarm_limit, exp_capital
from pippin._validation.rows import as_one_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DETECTORS = {None: EVER, "shiryaev-roberts": SHIRYAEV_ROBERTS, "cusum": CUSUM}


class Alarm(NamedTuple):
    """State of a monitor after a row; true once the evidence has passed the limit, and `str()` of it is a sentence.

    Attributes:
        raised: True once the evidence has passed 1/delta.
        evidence: the evidence after this row.
        row: the number of the row, from 0.
        changepoint: the row with which the change most likely began; None before an alarm.
    """

    raised: bool
    evidence: float
    row: int
    changepoint: int | None

    def __bool__(self) -> bool:
        return self.raised

    def __str__(self) -> str:
        if not self.raised:
            return f"Row {self.row:,}: no alarm; the evidence of a change is {self.evidence:.3g}."
        change = f"the rows have changed, most likely since row {self.changepoint:,}"
        return f"Row {self.row:,}: {change}; the evidence is {self.evidence:.3g}."


class Monitor(state.Resumable):
    """Evidence against "the rows are exchangeable", row by row: P(ever an alarm) ≤ delta while they are.

    Each row has a score s: with labels that of the true class, without them 1 − max p. It is ranked among the n
    earlier scores, including the calibration scores: p = (#{s_i > s} + v(#{s_i = s} + 1))/(n + 1), v uniform; then it
    is added to them. While all rows, including the calibration rows, are exchangeable, these conformal p-values are
    independent and uniform, with or without ties. (Scores are rounded to ten binary digits, so the memory is
    two megabytes for each pool of scores, however long the stream.) `evidence` is the value of a test martingale, the
    capital of several betting functions. It starts at 1, and by Ville's inequality reaches 1/delta ever with
    probability at most delta.

    For machines that run for months, `mean_time` is the mean number of rows between two false alarms: then the evidence
    is the gain since any earlier row, summed (Shiryaev–Roberts) or at its maximum (CUSUM), an alarm is raised where
    it reaches `limit`, and the detector restarts with the next row.

    With a Mondrian predictor (thresholds per class, kind or group) a score is ranked among those of its own cell: then
    class and group frequencies may change, and only other scores within a cell are a change.

    Args:
        predictor: the predictor, whose calibration scores are the first of the pool, where labels come.
        delta: the probability of a false alarm, over the whole life of the monitor; 0.01, if neither is given.
        mean_time: instead of delta, the mean number of rows between two false alarms: a lower bound with
            "shiryaev-roberts", approximate with "cusum", whose first alarm is earlier for a small `mean_time`.
        detector: with mean_time, "shiryaev-roberts" or "cusum".
        reference: (n, K) probabilities of earlier rows, such as the calibration rows: the
            first of the pool, where no labels come. Without them the stream is compared with itself.
        seed: of the draws v, a whole number; the state of the draws is saved with the monitor.

    Attributes:
        predictor (ConformalPredictor): the predictor.
        delta (float | None): the probability of a false alarm, over the whole life of the monitor.
        mean_time (float | None): the mean number of rows between false alarms, if given instead.
        detector (str): the detector, with `mean_time`.
        n_rows (int): the number of rows so far.
        n_alarms (int): the number of alarms so far.
        alarm (Alarm | None): the first alarm, with mean_time the latest; None if there was none.

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
    alarm: Alarm | None

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
        self.delta, self.mean_time, self.detector = false_alarm_options(delta, mean_time, detector)
        self.n_rows, self.n_alarms, self.alarm = 0, 0, None
        self._log_limit, self._log_evidence = math.log(self.limit), 0.0
        self._generator = state.seeded(seed)
        self._pools = state.ScorePools(SURPRISE, [[0] * len(predictor.classes)], [], [], [])
        self._martingale, self._history = martingale.new_martingale(), state.History(max)
        self._misses: state.History | None = None  # of the prediction sets, where labels come
        self._thresholds: list[float] = []
        self._labeled: bool | None = None  # unknown before the first row
        if reference is not None:
            martingale.add_scores(self._martingale, surprises(predictor, reference))

    def update(self, row: Any, label: Any = None, *, group: Any = None) -> Alarm:
        """Add a row; true from the row on at which the evidence passes 1/delta; with mean_time, at alarms alone.

        Args:
            row: its K probabilities, not logits.
            label: its true class, by index or by name; for every row, or for none.
            group: its group, with labels and where the predictor has thresholds per group.
        """
        if self._labeled is not (label is not None):
            self._begin(label is not None)
        scorer, probs = self._scorer, as_one_row(row, self.predictor.classes)
        k = int(probs.argmax()) if label is None else scorer.class_index(label)
        cell = self._pools.cells[self._pools.group_index(group)][k]
        score = scorer.score_of(probs, self._generator.random() if scorer.score.randomized else 0.0, k)
        if self._misses is not None:
            self._misses.add(score > self._thresholds[cell])
        self.n_rows += 1
        self._log_evidence = log = self._step(score, self._generator.random(), self.n_rows, cell)
        self._history.add(log)
        if log >= self._log_limit and (self.alarm is None or self.mean_time is not None):
            self._raise_alarm(log)
        changepoint = self.changepoint if self.drift_detected else None
        return Alarm(self.drift_detected, exp_capital(log), self.n_rows - 1, changepoint)

    @property
    def limit(self) -> float:
        """Evidence at which an alarm is raised: 1/delta, or the limit of the detector for the mean time."""
        return (
            1 / (self.delta or 1) if self.mean_time is None else alarm_limit(DETECTORS[self.detector], self.mean_time)
        )

    @property
    def evidence(self) -> float:
        """Value of the test martingale; with `mean_time`, of the Shiryaev–Roberts or CUSUM statistic."""
        return exp_capital(self._log_evidence) if self.n_rows or self.mean_time is None else 0.0

    @property
    def drift_detected(self) -> bool:
        """True if the evidence has ever passed 1/delta; with mean_time, if the last row raised an alarm."""
        return self.alarm is not None and (self.mean_time is None or self.alarm.row == self.n_rows - 1)

    @property
    def changepoint(self) -> int | None:
        """Row, counted from 0, with which the change most likely began; None before an alarm."""
        return None if self.alarm is None else self.alarm.changepoint

    def describe(self) -> str:
        """Describe the rows and alarms so far in a sentence."""
        rows = f"{self.n_rows:,} rows {'with' if self._labeled else 'without'} labels"
        if self.alarm is not None:
            alarms = f", {self.n_alarms:,} alarms; the latest" if self.n_alarms > 1 else ""
            return f"{rows}{alarms}. {self.alarm}"
        return f"{rows}, no change: the evidence is {self.evidence:.3g}, and {self.limit:.6g} would be an alarm."

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the evidence along the stream, the limit, the alarm and the change point; return Matplotlib axes.

        Args:
            ax: the axes; new ones, if not given.
        """
        from pippin._plotting.streams import plot_evidence

        return plot_evidence(self, ax)

    def _repr_html_(self) -> str:
        facts = {
            "rows": self.n_rows,
            "alarms": self.n_alarms,
            "evidence now": self.evidence,
            "an alarm at": self.limit,
            "change since row": "–" if self.changepoint is None else f"about {self.changepoint:,}",
        }
        return html_facts(f"Monitor: {self.describe()}", facts)

    def __repr__(self) -> str:
        option = f"delta={self.delta:g}" if self.delta is not None else f"mean_time={self.mean_time:g}"
        return f"Monitor({self.n_rows:,} rows, evidence {self.evidence:.3g}, {option})"

    def content(self) -> dict[str, Any]:
        """Return the state as a file holds it."""
        evidence = self._martingale
        cells, bins = np.nonzero(evidence.counts)
        return {
            "kind": self._kind,
            **attributes(self, "delta", "mean_time", "detector"),
            "labelled": self._labeled,
            **attributes(self, "n_rows", "n_alarms"),
            "last": self._log_evidence,
            "trail": self._history.content(),
            "misses": None if self._misses is None else self._misses.content(),
            **{name: getattr(evidence, name).tolist() for name in ("bettors", "density", "rises", "since")},
            "cells": cells.tolist(),
            "bins": bins.tolist(),
            "counts": evidence.counts[cells, bins].tolist(),
            "coin": state.position_of(self._generator),
            "alarm": None if self.alarm is None else list(self.alarm[1:]),
            "predictor": self.predictor.content(),
        }

    @classmethod
    def _from_content(cls, content: Content) -> "Monitor":
        options = {name: content.take(name) for name in ("delta", "mean_time", "detector")}
        monitor = cls(state.saved_predictor(content), **options)
        if (labeled := content.take("labelled", lambda value: value in (None, True, False))) is not None:
            monitor._begin(bool(labeled))
        monitor.n_rows, monitor.n_alarms = content.whole("n_rows", 0), content.whole("n_alarms", 0)
        monitor._log_evidence = content.number("last")
        _fill_martingale(monitor._martingale, content, monitor.n_rows)
        monitor._history.resume(content, "trail")
        if monitor._misses is not None:
            monitor._misses.resume(content, "misses")
        else:
            content.take("misses", lambda value: value is None)
        monitor._generator = state.generator_from_content(content)
        if (parts := content.take("alarm", lambda value: value is None or isinstance(value, list))) is not None:
            row, changepoint = state.counts_of("alarm", parts[1:], 2, monitor.n_rows)
            monitor.alarm = Alarm(True, float(vector_of("alarm", parts[:1])[0]), row, changepoint)
        content.finish()
        return monitor

    def _raise_alarm(self, log: float) -> None:
        changepoint = int(self._martingale.since[self._martingale.rises.argmax()])
        self.alarm = Alarm(True, exp_capital(log), self.n_rows - 1, changepoint)
        self.n_alarms += 1
        if self.mean_time is not None:
            martingale.restart(self._martingale, self.n_rows)

    def _begin(self, labeled: bool) -> None:
        """Prepare for rows with labels or without, as the first row is; refuse a later row that differs from it."""
        if self._labeled is not None:
            received, expected = ("a label", "none") if labeled else ("no label", "one")
            remedy = "use two monitors, one with labels and one without, each with half of delta"
            raise InputError(f"Expected {expected} with this row, as with those before, got {received}", remedy)
        if labeled:
            self._add_calibration_scores()
        self._scorer = state.RowScorer(self._pools.score, self.predictor.classes)
        self._step = martingale.updater(self._martingale, DETECTORS[self.detector])
        self._labeled = labeled

    def _add_calibration_scores(self) -> None:
        if self._martingale.tree[0, 0]:
            remedy = "leave reference out: with labels, the calibration scores are the reference"
            raise InputError("Expected no labels, since the reference holds none, got one", remedy)
        self._pools = pools = state.score_pools(self.predictor)
        self._thresholds = list(map(kth_smallest, pools.scores, pools.levels))
        self._martingale, self._misses = martingale.new_martingale(len(pools.scores)), state.History(add)
        unseen = () if pools.unseen is None else pools.cells[pools.unseen]
        for cell, scores in enumerate(pools.scores):
            if cell not in unseen:  # groups unseen at calibration are compared with themselves
                martingale.add_scores(self._martingale, scores, cell)


monitor_from_content = Monitor._from_content


def _fill_martingale(evidence: martingale.Martingale, content: Content, n_rows: int) -> None:
    """Restore the histograms and the bettors; compute the trees of prefix sums."""
    cells = state.counts_of("cells", content.take("cells"), None, len(evidence.counts) - 1)
    bins = state.counts_of("bins", content.take("bins"), len(cells), BINS - 1)
    counts = state.counts_of("counts", content.take("counts"), len(cells), 2**53)
    evidence.counts[:] = 0
    evidence.counts[np.array(cells, dtype=np.intp), np.array(bins, dtype=np.intp)] = counts
    ends = np.arange(1, BINS + 1)
    for histogram, tree in zip(evidence.counts, evidence.tree, strict=True):
        sums = np.append(0, histogram.cumsum())
        tree[0], tree[1:] = sums[-1], sums[ends] - sums[ends & (ends - 1)]
    evidence.bettors[:] = content.matrix("bettors", evidence.bettors.shape)
    evidence.density[:], evidence.rises[:] = content.few("density", PIECES), content.few("rises", len(SLOPES))
    evidence.since[:] = state.counts_of("since", content.take("since"), len(SLOPES), n_rows)


def false_alarm_options(delta: Any, mean_time: Any, detector: Any) -> tuple[float | None, float | None, str | None]:
    """Check the bound on false alarms: a probability, or a mean time with its detector."""
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
        raise InputError(f"Expected detector to be shiryaev-roberts or cusum, got {detector!r}", "choose one of them")
    return None, float(mean_time), chosen


def as_delta(delta: Any) -> float:
    """Check that the probability of a false alarm lies strictly between 0 and 1."""
    try:
        return as_alpha(delta)
    except InputError as error:
        what = f"Expected delta, the probability of a false alarm, strictly between 0 and 1, got {delta!r}"
        raise InputError(what, "delta=0.01 is one monitor in a hundred") from error
