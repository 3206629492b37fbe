"""Conformal test martingale of a stream: a test of exchangeability that is valid at all times, and its alarms."""

import math
import sys
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pippin._conformal.card import Card, promise_card
from pippin._conformal.mondrian import kth_smallest, single_category
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.rules import marginal_rule
from pippin._conformal.serialization import Content, attributes, need, vector_of
from pippin._engine import martingale
from pippin._online import state
from pippin._runtime.arguments import checked_methods
from pippin._runtime.errors import InputError
from pippin._runtime.showing import html_facts
from pippin._shift.novelty import SURPRISE, surprise
from pippin._theory.level import as_alpha
from pippin._theory.martingale import (
    BINS,
    CUSUM,
    EVER,
    PAID,
    PIECES,
    SHIRYAEV_ROBERTS,
    SLOPES,
    SUM,
    alarm_limit,
    exp_capital,
)
from pippin._validation.frames import as_frame
from pippin._validation.labels import rows_of_classes
from pippin._validation.rows import as_array, as_one_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DELTA = "delta, the probability of a false alarm,", "pass for example 0.01"  # name and remedy for error messages
SCORES = "scores"  # value of `Monitor._labeled` for a stream of scores, instead of True or False
DETECTORS = {None: EVER, "shiryaev-roberts": SHIRYAEV_ROBERTS, "cusum": CUSUM}


class Alarm(NamedTuple):
    """State of a monitor after a row; `bool(alarm)` is its attribute `raised`, and `str(alarm)` describes it.

    Attributes:
        raised: True from the first alarm on; for a monitor with `mean_time`, True only if this row raised an alarm.
        evidence: the evidence of a change after this row, the value of the test martingale or of the detector.
        row: the number of the row in the stream, from 0.
        changepoint: the estimated first row after the change; None before an alarm.
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


@checked_methods
class Monitor(state.Resumable):
    """Conformal test martingale against exchangeability of a stream: P(any alarm ever) ≤ delta for exchangeable rows.

    Each row has a nonconformity score s: the score of its true class, or without labels 1 minus its largest
    probability. Its conformal p-value among the n earlier scores s_1, …, s_n, which begin with the calibration scores,
    is p = (#{s_i > s} + v·(#{s_i = s} + 1))/(n + 1), where v is a random number, uniform in (0, 1). If all rows are
    exchangeable, these p-values are independent and uniform. The memory of the monitor does not grow with the stream,
    since scores are rounded to ten binary digits and counted in a histogram.

    `evidence` is the value of a test martingale: the mean capital of several bettors, which bet that the p-values are
    not uniform. It starts at 1, and the alarm is raised when it reaches 1/delta. By Ville's inequality, it ever does so
    with probability at most delta if the rows are exchangeable.

    For streams without an end, pass `mean_time`, the mean number of rows between two false alarms. The evidence is then
    a sum (Shiryaev–Roberts) or a maximum (CUSUM) over all possible change points. The monitor raises an alarm when the
    evidence reaches `limit`, and the detector restarts with the next row.

    For a Mondrian predictor (thresholds per class, superclass or group), a score is ranked among the earlier
    scores of its own category. Class and group frequencies may then change without an alarm.

    References: `Vovk et al. (2021) <https://arxiv.org/abs/2102.10439>`__;
    `Fedorova et al. (2012) <https://arxiv.org/abs/1204.3251>`__;
    `Volkhonskiy et al. (2017) <https://arxiv.org/abs/1706.03415>`__.

    Args:
        predictor: the predictor; if the rows have labels, its calibration scores precede the scores of the stream.
        delta: probability of a false alarm over the whole life of the monitor; 0.01 by default, without `mean_time`.
        mean_time: mean number of rows between two false alarms, instead of delta. It is a lower bound for
            "shiryaev-roberts", and approximate for "cusum", whose first alarm is earlier for a small `mean_time`.
        detector: "shiryaev-roberts" (by default) or "cusum"; only with `mean_time`.
        reference: (n, K) probabilities of earlier rows, such as the calibration rows, for streams without labels;
            without a reference, rows are compared with earlier rows of the stream only. Or (n,) nonconformity scores of
            earlier objects by any measure; `update` then takes the score of an object.
        seed: seed of v, a whole number; `save` stores the state of the generator.

    Attributes:
        predictor (ConformalPredictor): the predictor.
        delta (float | None): probability of a false alarm over the whole life of the monitor.
        mean_time (float | None): mean number of rows between false alarms; None if `delta` is used.
        detector (str | None): the detector; None if `delta` is used.
        n_rows (int): number of rows so far.
        n_alarms (int): number of alarms so far.
        alarm (Alarm | None): the first alarm, or with `mean_time` the latest one; None before any alarm.

    Raises:
        InputError: options contradict each other, or some rows have labels and others do not.

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
        rule = marginal_rule(single_category(np.empty(0), 0, len(predictor.classes)), math.inf)
        self._pools = state.ScorePools(ConformalPredictor(SURPRISE, predictor.alpha, 0, predictor.classes, rule))
        self._martingale, self._history = martingale.new_martingale(), state.History(max)
        self._misses: state.History | None = None  # number of sets that miss the label, in blocks of rows
        self._thresholds: list[float] = []
        # True or False for a stream with or without labels, SCORES for a stream of scores; None before the first row.
        self._labeled: bool | str | None = None
        if reference is not None:
            reference = as_frame(reference)
            if np.ndim(reference) == 1:
                self._begin(SCORES)
                scores = np.array([_as_score(score) for score in np.asarray(as_array(reference)).tolist()])
            else:
                scores = surprise(rows_of_classes(predictor.classes, reference, False))
            martingale.add_scores(self._martingale, scores)

    @property
    def takes_scores(self) -> bool:
        """True if the reference is an array of scores, so that `update` takes a score."""
        return self._labeled == SCORES

    def update(self, row: Any, label: Any = None, *, group: Any = None) -> Alarm:
        """Update the evidence by one row.

        Args:
            row: its K probabilities, not logits; a score if the reference is an array of scores.
            label: the true class of the row, as index or name; either for every row or for no row.
            group: the group of the row, if rows have labels and the predictor has thresholds per group.

        Returns:
            The state after this row. It is true from the first alarm on; with `mean_time`, only if this row raised an
            alarm.
        """
        if self.takes_scores and label is None:
            score, category = _as_score(row), 0
        else:
            if self._labeled is not (label is not None):
                self._begin(label is not None)
            scorer, probs = self._scorer, as_one_row(row, self.predictor.classes)
            k = int(probs.argmax()) if label is None else scorer.class_index(label)
            category = self._pools.categories[self._pools.group_index(group)][k]
            score = scorer.score_of(probs, self._generator.random() if scorer.score.randomized else 0.0, k)
        if self._misses is not None:
            self._misses.add(score > self._thresholds[category])
        self.n_rows += 1
        self._log_evidence = log = self._step(score, self._generator.random(), self.n_rows, category)
        self._history.add(log)
        if log >= self._log_limit and (self.alarm is None or self.mean_time is not None):
            self._raise_alarm(log)
        changepoint = self.changepoint if self.drift_detected else None
        return Alarm(self.drift_detected, exp_capital(log), self.n_rows - 1, changepoint)

    @property
    def limit(self) -> float:
        """Evidence at which an alarm is raised: 1/delta, or the limit with `mean_time` rows between false alarms."""
        if self.mean_time is not None:
            return alarm_limit(DETECTORS[self.detector], self.mean_time)
        return 1 / (self.delta or 1)

    @property
    def evidence(self) -> float:
        """Value of the test martingale; with `mean_time`, of the Shiryaev–Roberts or CUSUM statistic."""
        return exp_capital(self._log_evidence) if self.n_rows or self.mean_time is None else 0.0

    @property
    def drift_detected(self) -> bool:
        """True if an alarm was ever raised; for a monitor with `mean_time`, if the last row raised an alarm."""
        return self.alarm is not None and (self.mean_time is None or self.alarm.row == self.n_rows - 1)

    @property
    def changepoint(self) -> int | None:
        """Estimated index of the first row after the change; None before an alarm."""
        return None if self.alarm is None else self.alarm.changepoint

    def describe(self) -> str:
        """Describe the rows and alarms so far in one sentence.

        Returns:
            The sentence.
        """
        rows = f"{self.n_rows:,} rows {'with' if self._labeled is True else 'without'} labels"
        if self.alarm is not None:
            alarms = f", {self.n_alarms:,} alarms; the latest" if self.n_alarms > 1 else ""
            return f"{rows}{alarms}. {self.alarm}"
        return f"{rows}, no change: the evidence is {self.evidence:.3g}, and {self.limit:.6g} would be an alarm."

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the evidence after each row, with the limit of an alarm, and after an alarm the estimated change point.

        Args:
            ax: Matplotlib axes; new ones by default.

        Returns:
            The axes.
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

    def _promise(self) -> Card:
        rare = self.mean_time is None
        alarms = f"the probability of any alarm, however long the stream, is at most {self.delta:g}"
        least = "about" if self.detector == "cusum" else "at least"
        alarms = alarms if rare else f"the mean number of rows between alarms is {least} {self.mean_time:,g}"
        card = promise_card(
            what=f"A monitor of a stream, for the predictor: {self.predictor.describe()}",
            guarantee=f"As long as the rows do not change, {alarms}.",
            level=f"delta = {self.delta:g}." if rare else f"mean time = {self.mean_time:,g} rows.",
            condition="Without a change, the rows of the stream are exchangeable, together with the reference: with "
            "labels the calibration rows, without labels the reference rows if there are any.",
            variation="Not applicable: the bound holds for all calibrations together.",
            shift="",
            limits="That every change raises an alarm, or how soon.",
            rows=f"{self.predictor._rule.rows(self.predictor)}.",
        )
        return card | {"In which state is it?": self.describe()}

    def content(self) -> dict[str, Any]:
        """Return the data that `save` writes to a file: the whole state of the monitor, including the predictor.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.
        """
        evidence = self._martingale
        categories, bins = np.nonzero(evidence.counts)
        return {
            "kind": self._kind,
            **attributes(self, "delta", "mean_time", "detector"),
            "labelled": self._labeled,
            **attributes(self, "n_rows", "n_alarms"),
            "last": self._log_evidence,
            "trail": self._history.content(),
            "misses": None if self._misses is None else self._misses.content(),
            **{name: getattr(evidence, name).tolist() for name in ("bettors", "density", "rises", "since")},
            "cells": categories.tolist(),
            "bins": bins.tolist(),
            "counts": evidence.counts[categories, bins].tolist(),
            "coin": state.position_of(self._generator),
            "alarm": None if self.alarm is None else list(self.alarm[1:]),
            "predictor": self.predictor.content(),
        }

    @classmethod
    def _from_content(cls, content: Content) -> "Monitor":
        options = {name: content.take(name) for name in ("delta", "mean_time", "detector")}
        monitor = cls(state.saved_predictor(content), **options)
        labeled = content.take("labelled", lambda value: value is None or isinstance(value, bool) or value == SCORES)
        if labeled is not None:
            monitor._begin(labeled)
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

    def _begin(self, labeled: bool | str) -> None:
        """Record at the first row if rows have labels or are scores; raise an InputError if a later row differs."""
        if self._labeled is not None:
            received, expected = ("a label", "none") if labeled else ("no label", "one")
            remedy = "use two monitors, one with labels and one without, each with half of delta"
            raise InputError(f"Expected {expected} with this row, as with the first, got {received}", remedy)
        if labeled is True:
            self._add_calibration_scores()
        self._scorer = state.RowScorer(self._pools.score, self.predictor.classes)
        self._step = martingale.updater(self._martingale, DETECTORS[self.detector])
        self._labeled = labeled

    def _add_calibration_scores(self) -> None:
        if self._martingale.tree[0, 0]:
            remedy = "leave reference out: with labels, the calibration scores are the reference"
            raise InputError("Expected no labels, since the reference holds none, got one", remedy)
        self._pools = pools = state.ScorePools(self.predictor)
        self._thresholds = list(map(kth_smallest, pools.scores, pools.levels))
        self._martingale, self._misses = martingale.new_martingale(len(pools.scores)), state.History(add)
        unseen = () if pools.unseen is None else pools.categories[pools.unseen]
        for category, scores in enumerate(pools.scores):
            if category not in unseen:  # new groups have no calibration scores; theirs are compared with each other
                martingale.add_scores(self._martingale, scores, category)


def _as_score(value: Any) -> float:
    """Convert a score to a float; raise an InputError unless it is a finite number."""
    if isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise InputError(f"Expected a finite number as the score of an object, got {value!r}", "check the measure")


def _fill_martingale(evidence: martingale.Martingale, content: Content, n_rows: int) -> None:
    """Restore a martingale from a file: histograms of scores, Fenwick trees of their prefix sums, and bettors."""
    categories = state.counts_of("cells", content.take("cells"), None, len(evidence.counts) - 1)
    bins = state.counts_of("bins", content.take("bins"), len(categories), BINS - 1)
    counts = state.counts_of("counts", content.take("counts"), len(categories), 2**53)
    evidence.counts[:] = 0
    evidence.counts[np.array(categories, dtype=np.intp), np.array(bins, dtype=np.intp)] = counts
    ends = np.arange(1, BINS + 1)
    for histogram, tree in zip(evidence.counts, evidence.tree, strict=True):
        sums = np.append(0, histogram.cumsum())
        tree[0], tree[1:] = sums[-1], sums[ends] - sums[ends & (ends - 1)]
    evidence.bettors[:] = bettors = content.matrix("bettors", evidence.bettors.shape)
    shares = bettors[:, SUM + 1 :]
    need("bettors", bool((np.abs(bettors) < 1e300).all() and (bettors[:, PAID] > 0).all()))
    need("bettors", bool((bettors[:, SUM] >= 0).all()))
    need("bettors", bool(((shares >= 0) & (shares <= 1)).all()))
    evidence.density[:], evidence.rises[:] = content.numbers("density", PIECES), content.numbers("rises", len(SLOPES))
    need("density", bool(((evidence.density >= 0) & (evidence.density < 1e300)).all()))
    evidence.since[:] = state.counts_of("since", content.take("since"), len(SLOPES), n_rows)


def false_alarm_options(delta: Any, mean_time: Any, detector: Any) -> tuple[float | None, float | None, str | None]:
    """Validate and return `delta`, `mean_time` and `detector`: either a delta, or a mean time with a detector."""
    if mean_time is None:
        if detector is not None:
            raise InputError(f"Expected mean_time with detector={detector!r}, got none", "pass for example 100_000")
        return as_alpha(0.01 if delta is None else delta, *DELTA), None, None
    if delta is not None:
        raise InputError(f"Expected delta or mean_time, got both, {delta!r} and {mean_time!r}", "leave one out")
    is_number = isinstance(mean_time, int | float | np.number) and not isinstance(mean_time, bool)
    if not is_number or not 1 < mean_time <= sys.float_info.max:
        raise InputError(f"Expected mean_time, a number of rows above 1, got {mean_time!r}", "pass for example 100_000")
    chosen = "shiryaev-roberts" if detector is None else detector
    if not isinstance(chosen, str) or chosen not in DETECTORS:
        raise InputError(f"Expected detector to be shiryaev-roberts or cusum, got {detector!r}", "choose one of them")
    return None, float(mean_time), chosen
