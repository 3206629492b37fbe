"""Splits in three parts: some of the calibrating rows learn a sharpener, the others calibrate behind it.

A score that is not sharpened calibrates on both parts, so what sharpening costs is charged.
"""

import threading
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pippin._compare.methods import Method
from pippin._compare.outcomes import Outcome, outcome, rank_scores
from pippin._compare.splits import Split
from pippin._compare.trial import Trial
from pippin._engine import dispatch
from pippin._inputs.labels import Groups, Labelled
from pippin._predictors.sharpening.learning import FEWEST, sharpen_labelled
from pippin._runtime.errors import InputError
from pippin._runtime.warn import warn

KEPT = 1 << 24  # probabilities of splits whose sharper rows are remembered, for the next method
REMEMBERED = 100  # splits of a method whose outcomes are remembered, for who looks at them again
MANY = 100  # splits from which on a word about the time is due


class Divided(NamedTuple):
    """Rows that did not learn, sharper; the method behind the sharpener, and who of the rows calibrates."""

    trial: Trial
    method: Method
    split: Split


class SharpenedSplits:
    """The splits of one trial, each with a sharpener that is learnt once for all methods.

    It does not hold the trial, so that it goes when the trial goes.
    """

    def __init__(self) -> None:
        self._rows: dict[bytes, tuple[Trial, NDArray[np.intp]]] = {}
        self._outcomes: dict[Method, dict[bytes, Outcome]] = {}
        self._lock = threading.Lock()

    def divide(self, trial: Trial, method: Method, split: Split) -> Divided:
        """What the method sees of a split."""
        key = split.calibration.tobytes()
        known = self._rows.get(key) or _sharpened(trial, split)
        with self._lock:
            self._rows[key] = known
            for old in list(self._rows)[: -max(4, KEPT // (trial.n * trial.n_classes))]:
                del self._rows[old]
        sharper, others = known
        left = Split(split.calibration[others], split.u[others], split.generator)
        return Divided(sharper, replace(method, sharpened=False), left)

    def outcome(self, trial: Trial, method: Method, split: Split) -> Outcome:
        """The test objects of the split, in row order."""
        key = split.calibration.tobytes()
        known = self._outcomes.setdefault(method, {})
        if key in known:
            return known[key]
        sharper, behind, left = self.divide(trial, method, split)
        found = outcome(rank_scores(sharper, behind.score), behind, trial.alpha, left)
        if len(known) < REMEMBERED:
            known[key] = found
        return found


_OF_TRIAL: "WeakKeyDictionary[Trial, SharpenedSplits]" = WeakKeyDictionary()


def sharpened_splits(trial: Trial) -> SharpenedSplits:
    """Those of the trial: whoever asks gets the same."""
    return _OF_TRIAL.setdefault(trial, SharpenedSplits())


def _sharpened(trial: Trial, split: Split) -> tuple[Trial, NDArray[np.intp]]:
    """The rows that do not learn, sharper, and which they are."""
    inner = np.flatnonzero(split.calibration)
    generator = np.random.default_rng(int(split.generator().integers(2**62)))
    ours = np.sort(generator.choice(inner, len(inner) // 2, replace=False))
    rows, labels, classes = trial.data
    sharpener, _ = sharpen_labelled(Labelled(rows.take(ours), labels[ours], classes), None, trial.seed)
    left = np.ones(trial.n, dtype=bool)
    left[ours] = False
    others = np.flatnonzero(left)
    data = Labelled(sharpener.rows(rows.take(others)), labels[others], classes)
    ranked, ranks = dispatch.ranked_rows(data.rows, data.labels)
    groups = None if trial.groups is None else Groups(trial.groups.codes[others], trial.groups.names)
    sharper = replace(trial, data=data, groups=groups, ranked=ranked, ranks=ranks, n_calibration=len(inner) - len(ours))
    return sharper, others


def check_sharpened(trial: Trial, methods: tuple[Method, ...], splits: int) -> None:
    """Says what sharpening asks for, before anything is begun."""
    several = [str(method) for method in methods if method.sharpened]
    if not several:
        return
    if trial.n_calibration < 2 * FEWEST:
        raise InputError(
            f"Expected at least {2 * FEWEST} calibration rows in a split for {several[0]}, half of which learn, got "
            f"{trial.n_calibration}",
            "pass more rows",
        )
    if splits > MANY:
        warn(
            f"{', '.join(several)}: a sharpener is learnt anew in each of {splits:,} splits, which takes a while; 50 "
            "splits tell nearly as much."
        )
