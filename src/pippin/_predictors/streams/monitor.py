"""A monitor: anytime-valid evidence that the rows are no longer like those before."""

import math
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine import watching
from pippin._predictors.marginal import Predictor
from pippin._predictors.protocol import ConformalPredictor
from pippin._predictors.saving import write_predictor
from pippin._predictors.streams.alarm import Alarm
from pippin._predictors.streams.novelty import SURPRISE, surprises
from pippin._predictors.streams.one_object import Coin, OneObject
from pippin._runtime.errors import InputError
from pippin._theory.betting import log_capital
from pippin._theory.level import as_alpha

LARGEST_LOG = math.log(np.finfo(np.float64).max)


class Monitor:
    """Evidence against "the rows are exchangeable", row by row: P(ever an alarm) ≤ delta while they are.

    Each row has a score s: with labels that of the true class, without them 1 − max p. It is ranked among the n
    scores before it, those of the calibration included: p = (#{s_i > s} + v(#{s_i = s} + 1))/(n + 1), v uniform.
    Only then does it join them. While all rows, the calibration's too, are exchangeable, these p-values are
    independent and uniform, ties or not. (A score's first ten binary digits count, so the pool takes
    two megabytes, however long the stream.) Jumpers bet against that; `evidence` is their capital. It
    starts at 1, and by Ville's inequality reaches 1/delta ever with probability at most delta.

    `n_rows` is how many rows it has seen.

    Args:
        predictor: whose calibration scores are the first of the pool, where labels come; it must be marginal for that.
        delta: the probability of a false alarm, over the whole life of the monitor.
        reference: (n, K) probabilities of rows from before, such as those that calibrated: the
            first of the pool, where no labels come. Without them the stream is held against itself.
        seed: of the draws v, a whole number; the state of the draws is saved with the monitor.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], classes=data.classes)
    >>> monitor = pippin.Monitor(predictor, delta=0.01, seed=0)
    >>> alarms = [monitor.update(row, label) for row, label in zip(data.probs[2000:], data.labels[2000:])]
    >>> any(alarms)
    False
    >>> blurred = 0.5 * data.probs[2000:2200] + 0.5 / 12
    >>> alarms = [monitor.update(row, label) for row, label in zip(blurred, data.labels[2000:])]
    >>> print(next(alarm for alarm in alarms if alarm))
    Row 3,036: the rows have changed, most likely since row 2,973; the evidence is 116.
    """

    def __init__(
        self, predictor: ConformalPredictor, delta: float = 0.01, *, reference: Any = None, seed: int | None = None
    ) -> None:
        self.predictor = predictor
        self.delta = as_delta(delta)
        self._coin = Coin(seed)
        self.n_rows = 0
        self._evidence = watching.no_evidence()
        self._alarmed: Alarm | None = None
        self._labelled: bool | None = None  # not known before the first row
        if reference is not None:
            watching.fill(self._evidence, surprises(predictor, reference))
        self._surprise = OneObject(SURPRISE, predictor.classes)
        self._true = OneObject(predictor.score if isinstance(predictor, Predictor) else SURPRISE, predictor.classes)
        self._limit = -math.log(self.delta)

    def update(self, row: Any, label: Any = None) -> Alarm:
        """One more row; true from the row on at which the evidence passed 1/delta.

        Args:
            row: its K probabilities, not logits.
            label: its true class, by number or by name; for every row, or for none.
        """
        if self._labelled is not (label is not None):
            self._begin(label is not None)
        score = self._score(row, label)
        self.n_rows += 1
        log = self._watch(score, self._coin.toss(), self.n_rows)
        if self._alarmed is None and log >= self._limit:
            began = self._evidence.since[self._evidence.rises.argmax()]
            self._alarmed = Alarm(True, _capital(log), self.n_rows - 1, int(began))
        return Alarm(self._alarmed is not None, _capital(log), self.n_rows - 1, self.changepoint)

    @property
    def evidence(self) -> float:
        """The capital now: how many times what was put in. It may fall again; an alarm stays."""
        return _capital(log_capital(self._evidence.capitals))

    @property
    def drift_detected(self) -> bool:
        """Whether the evidence has ever passed 1/delta."""
        return self._alarmed is not None

    @property
    def alarm(self) -> Alarm | None:
        """The first alarm; None, if there was none."""
        return self._alarmed

    @property
    def changepoint(self) -> int | None:
        """The row, counted from 0, with which the change most likely began; None before an alarm."""
        return None if self._alarmed is None else self._alarmed.changepoint

    def describe(self) -> str:
        """What it has seen, in a sentence."""
        seen = f"{self.n_rows:,} rows {'with' if self._labelled else 'without'} labels"
        if self._alarmed is not None:
            return f"{seen}. {self._alarmed}"
        return f"{seen}, no change: the evidence is {self.evidence:.3g}, and {1 / self.delta:.6g} would be an alarm."

    def save(self, path: "str | PathLike[str]") -> None:
        """Writes its whole state, the predictor included, to one file, which is old or new but never half-written.

        A monitor that is loaded goes on as if it had never stopped, to the last bit.

        Args:
            path: the file.
        """
        from pippin._predictors.streams import files

        write_predictor(path, files.monitor_content(self))

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> "Monitor":
        """Reads what `save` wrote.

        Args:
            path: the file.

        Raises:
            InputError: the file is damaged, was edited, or holds something else.
        """
        from pippin._predictors.streams import files

        return files.load_monitor(path)

    def __repr__(self) -> str:
        return f"Monitor({self.n_rows:,} rows, evidence {self.evidence:.3g}, delta={self.delta:g})"

    @cached_property
    def _watch(self) -> watching.Watch:
        return watching.watcher(self._evidence)

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
        if not isinstance(self.predictor, Predictor) or self.predictor.scores is None:
            raise InputError(
                f"Expected a predictor with one threshold and its calibration scores, got {self.predictor!r}",
                "calibrate one without thresholds per class or group, or update without labels",
            )
        if self._evidence.tree[0]:
            raise InputError(
                "Expected no labels, since the reference holds none, got one",
                "leave reference out: with labels, the calibration scores are the reference",
            )
        watching.fill(self._evidence, self.predictor.scores)

    def _score(self, row: Any, label: Any) -> float:
        if label is None:
            given: NDArray[Any] = self._surprise.row(row)
            return self._surprise.score_of(given, int(given.argmax()), 0.0)
        u = self._coin.toss() if self._true.randomized else 0.0
        return self._true.score_of(self._true.row(row), self._true.code(label), u)


def as_delta(delta: Any) -> float:
    """The probability of a false alarm, checked to lie strictly between 0 and 1."""
    try:
        return as_alpha(delta)
    except InputError as error:
        raise InputError(
            f"Expected delta, the probability of a false alarm, strictly between 0 and 1, got {delta!r}",
            "delta=0.01 is one monitor in a hundred",
        ) from error


def _capital(log: float) -> float:
    return math.exp(min(log, LARGEST_LOG))
