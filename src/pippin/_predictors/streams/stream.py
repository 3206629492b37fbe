"""A stream: sets for one object after another, and labels whenever they come."""

import math
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._predictors.marginal import Predictor
from pippin._predictors.saving import write_predictor
from pippin._predictors.streams.one_object import Coin, OneObject
from pippin._predictors.streams.ways import Adapting, Fixed, Growing, Tracking, Way
from pippin._runtime.arrays import Indices, Vector, read_only
from pippin._runtime.errors import InputError

WAYS = ("none", "grow", "window", "track", "aci")


class Ticket(NamedTuple):
    """One object's set, to come back with when its label is known: in any order, once, or never.

    `members` are its class indices, most probable first; a ticket holds all that learning needs,
    and may be pickled.
    """

    number: int
    members: Indices
    threshold: float
    row: NDArray[Any]
    u: float
    n_learnt: int

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class Stream:
    """Sets for objects one after another, from a threshold that follows the labels that come.

    - "none": the threshold of the calibration.
    - "grow": each labelled score joins the calibration; exact while rows are exchangeable.
    - "window": the same with the latest scores only.
    - "track": q ← q + η_t(1{miss} − α), η_t = rate·t^(−0.6): the share of misses tends to α for any sequence
      whatever, within `bound`, and on exchangeable rows q tends to the quantile.
    - "aci": the level moves instead, α_t ← α_t + rate·(α − 1{miss}).

    `n_learnt` labels have come, and `n_missed` of them were not in their sets.

    Args:
        predictor: with one threshold, and with its calibration scores.
        update: one of these ways.
        rate: of "track", in units of the score, by default how far the calibration's quantiles 1 − 2α and 1 − α/2 are
            apart; of "aci", by default 0.005.
        window: how many scores a "window" holds, by default as many as calibrated.
        seed: for a randomised score, and for the order in which calibration scores leave a window.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], classes=data.classes)
    >>> stream = pippin.Stream(predictor, update="track")
    >>> ticket = stream.predict_one(data.probs[2000])
    >>> [data.classes[k] for k in ticket.members]
    ['loose_silky_bent']
    >>> stream.learn(ticket, data.labels[2000])
    >>> for row, label in zip(data.probs[2001:], data.labels[2001:]):
    ...     stream.learn(stream.predict_one(row), label)
    >>> stream
    Stream(track: 2,986 sets, 2,986 labels, threshold 1.72503)
    """

    def __init__(
        self,
        predictor: Predictor,
        update: str = "grow",
        *,
        rate: float | None = None,
        window: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.predictor, self.update = predictor, update
        self.n_predicted, self.n_learnt, self.n_missed, self._late = 0, 0, 0, 0
        self._coin = Coin(seed)
        scores = _scores(predictor, update)
        self.rate, self.window = _rate(predictor, update, rate), _window(scores, update, window)
        self._object = OneObject(predictor.score, predictor.classes)
        self._way = self._begun(scores)

    def _begun(self, scores: Vector) -> Way:
        alpha, threshold = self.predictor.alpha, self.predictor.threshold
        if self.update == "window":  # a file has them sorted, and they leave one after another
            shuffled = self._coin.generator.permutation(scores)
            return Growing(shuffled[-self.window :] if self.window else shuffled, alpha, self.window)
        if self.update == "grow":
            return Growing(scores, alpha, None)
        if self.update == "track":
            return Tracking(threshold, alpha, self.rate or 0.0)
        return Fixed(threshold) if self.update == "none" else Adapting(scores, alpha, self.rate or 0.0)

    @property
    def threshold(self) -> float:
        """That of the next object."""
        return self._way.threshold

    @property
    def coverage(self) -> float:
        """The share of labels that came and were in their sets; NaN before the first."""
        return 1 - self.n_missed / self.n_learnt if self.n_learnt else math.nan

    @property
    def bound(self) -> float | None:
        """What |coverage − (1 − alpha)| is at most by now, whatever came; None for ways that have no such bound.

        (B + (d + 1)η_1)/(n·η_n): B is the range of the scores that came (1 for "aci", which tracks a
        level), d how many other labels came at most between an object and its own label.
        """
        return self._way.bound(self.n_learnt, self._late)

    def predict_one(self, row: Any) -> Ticket:
        """The set of one object, as a ticket.

        Args:
            row: its K probabilities, not logits.
        """
        kept = read_only(self._object.row(row).copy())
        u = self._coin.toss() if self._object.randomized else 0.0
        threshold = self._way.threshold
        members = self._object.members(kept, u, threshold)
        self.n_predicted += 1
        return Ticket(self.n_predicted - 1, members, threshold, kept, u, self.n_learnt)

    def learn(self, ticket: Ticket, label: Any) -> None:
        """A label has come.

        Args:
            ticket: its object's, from `predict_one`; each once.
            label: the true class, by number or by name.
        """
        score = self._object.score_of(ticket.row, self._object.code(label), ticket.u)
        missed = score > ticket.threshold
        self._late = max(self._late, self.n_learnt - ticket.n_learnt)
        self.n_learnt += 1
        self.n_missed += missed
        self._way.learn(score, missed)

    def describe(self) -> str:
        """What has come of it, in a sentence."""
        asked = f"{100 * (1 - self.predictor.alpha):g} % were asked for"
        if not self.n_learnt:
            return f"No label has come yet; {asked}."
        bound = "" if self.bound is None else f", and whatever comes it is within {100 * self.bound:.3g} points of that"
        return f"{100 * self.coverage:.4g} % of {self.n_learnt:,} labels were in their sets; {asked}{bound}."

    def save(self, path: "str | PathLike[str]") -> None:
        """Writes its whole state, the predictor included, to one file, which is old or new but never half-written.

        A stream that is loaded goes on as if it had never stopped, to the last bit.

        Args:
            path: the file.
        """
        from pippin._predictors.streams import files

        write_predictor(path, files.stream_content(self))

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> "Stream":
        """Reads what `save` wrote.

        Args:
            path: the file.

        Raises:
            InputError: the file is damaged, was edited, or holds something else.
        """
        from pippin._predictors.streams import files

        return files.load_stream(path)

    def __repr__(self) -> str:
        counted = f"{self.n_predicted:,} sets, {self.n_learnt:,} labels"
        return f"Stream({self.update}: {counted}, threshold {self.threshold:.6g})"


def _scores(predictor: Any, update: str) -> Vector:
    """The calibration scores, where the way and the predictor fit each other."""
    if update not in WAYS:
        raise InputError(f"Expected update to be one of {', '.join(WAYS)}, got {update!r}", "choose one of them")
    if not isinstance(predictor, Predictor) or predictor.scores is None:
        raise InputError(
            f"Expected a predictor with one threshold and its calibration scores, got {predictor!r}",
            "calibrate one without thresholds per class or group",
        )
    if update == "track" and math.isinf(predictor.threshold):
        raise InputError("Expected a finite threshold to begin with, got inf", "calibrate with more rows")
    return predictor.scores


def _rate(predictor: Predictor, update: str, rate: Any) -> float | None:
    if update not in ("track", "aci"):
        if rate is not None:
            raise InputError(f"Expected no rate, which update={update!r} has no use for, got {rate!r}", "leave it out")
        return None
    found = rate if rate is not None else 0.005 if update == "aci" else _spread(predictor)
    if isinstance(found, bool) or not isinstance(found, int | float | np.number) or not 0 < found < math.inf:
        raise InputError(f"Expected a positive rate, got {rate!r}", "leave it out")
    return float(found)


def _spread(predictor: Predictor) -> float:
    """How far the scores around the threshold are apart; 1 where they are not."""
    assert predictor.scores is not None
    around = [max(0.0, 1 - 2 * predictor.alpha), 1 - predictor.alpha / 2]
    low, high = np.quantile(predictor.scores[np.isfinite(predictor.scores)], around, method="lower")
    return float(high - low) or 1.0


def _window(scores: Vector, update: str, window: Any) -> int | None:
    if update != "window":
        if window is not None:
            raise InputError(f"Expected no window, since update={update!r} has none, got {window!r}", "leave it out")
        return None
    found = len(scores) if window is None else window
    if isinstance(found, bool) or not isinstance(found, int | np.integer) or found < 1:
        raise InputError(f"Expected a window of at least one score, got {window!r}", "leave it out")
    return int(found)
