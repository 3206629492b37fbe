"""A stream: sets for one object after another, and labels whenever they come."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.protocol import ConformalPredictor
from pippin._online.beginning import WAYS, begun
from pippin._online.one_object import Coin, OneObject
from pippin._online.pools import pools_of
from pippin._online.resuming import Resumes
from pippin._online.trail import Trail
from pippin._runtime.arrays import Indices, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.showing import shown_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Ticket(NamedTuple):
    """One object's set, to come back with when its label is known: in any order, once, or never.

    A ticket holds all that learning needs, and may be pickled.

    Attributes:
        number: how many objects came before it.
        members: the class indices of its set, most probable first.
        threshold: the threshold then, or the threshold of every class.
        row: its probabilities.
        u: what was drawn for a randomised score.
        n_learnt: how many labels were known then.
        group: its group, by number.
    """

    number: int
    members: Indices
    threshold: "float | Vector"
    row: NDArray[Any]
    u: float
    n_learnt: int
    group: int = 0

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class Stream(Resumes):
    """Sets for objects one after another, from a threshold that follows the labels that come.

    - "none": the threshold of the calibration.
    - "grow": each labelled score joins the calibration; exact while rows are exchangeable.
    - "window": the same with the latest scores only.
    - "track": q ← q + η_t(1{miss} − α), η_t = rate·t^(−0.6): the share of misses tends to α for any sequence
      whatever, within `bound`, and on exchangeable rows q tends to the quantile.
    - "aci": the level moves instead, α_t ← α_t + rate·(α − 1{miss}).
    - "dtaci": several such levels, each with its own rate, mixed by how well they did.

    With thresholds per class, kind or group each of them follows its own labels, and what holds, holds of each.
    `n_learnt` labels have come, and `n_missed` of them were not in their sets.

    Args:
        predictor: with its calibration scores, and thresholds for all, per class, per kind or per group.
        update: one of these ways.
        rate: of "track", in units of the score, by default how far the calibration's quantiles 1 − 2α and 1 − α/2 are
            apart; of "aci", by default 0.005.
        window: how many scores a "window" holds, by default as many as calibrated.
        seed: for a randomised score, and for the order in which calibration scores leave a window.

    Attributes:
        predictor (ConformalPredictor): what it began with.
        update (str): how it follows the labels.
        rate (float | None): how fast.
        window (int | None): how many rows back.
        n_predicted (int): how many objects have come.
        n_learnt (int): how many labels have come.
        n_missed (int): how many of these were outside their set.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], classes=data.classes)
    >>> stream = pippin.online.Stream(predictor, update="track")
    >>> ticket = stream.predict_one(data.probs[2000])
    >>> [data.classes[k] for k in ticket.members]
    ['loose_silky_bent']
    >>> stream.learn(ticket, data.labels[2000])
    >>> for row, label in zip(data.probs[2001:], data.labels[2001:]):
    ...     stream.learn(stream.predict_one(row), label)
    >>> stream
    Stream(track: 2,986 sets, 2,986 labels, threshold 1.72503)
    """

    _kind = "stream"

    def __init__(
        self,
        predictor: ConformalPredictor,
        update: str = "grow",
        *,
        rate: float | None = None,
        window: int | None = None,
        seed: int | None = None,
    ) -> None:
        if update not in WAYS:
            raise InputError(f"Expected update to be one of {', '.join(WAYS)}, got {update!r}", "choose one of them")
        self.predictor, self.update, self.rate, self.window = predictor, update, rate, window
        self.n_predicted, self.n_learnt, self.n_missed, self._late = 0, 0, 0, 0
        self._pools = pools_of(predictor)
        self._coin = Coin(seed)
        self._ways = begun(self._pools, update, rate, window, self._coin)
        self._learnt, self._missed = [0] * len(self._ways), [0] * len(self._ways)
        self._trail = Trail("sum")  # of misses
        self._known = bytearray()  # a bit per ticket: whether it was learnt
        self._object = OneObject(self._pools.score, predictor.classes)
        self._by_class = self._pools.by_class

    @property
    def threshold(self) -> float:
        """That of the next object, where there is one for all."""
        if len(self._ways) > 1:
            raise InputError(f"Expected a stream with one threshold, this one has {len(self._ways)}", "see thresholds")
        return self._ways[0].threshold

    @property
    def thresholds(self) -> Vector:
        """Those of the next object: a row per group, or one, and a column per class."""
        each = np.array([way.threshold for way in self._ways])
        return np.asarray(each[np.array(self._pools.of)])

    @property
    def coverage(self) -> float:
        """The share of labels that came and were in their sets; NaN before the first."""
        return 1 - self.n_missed / self.n_learnt if self.n_learnt else math.nan

    @property
    def coverages(self) -> dict[Any, float]:
        """The same by class, kind or group, whatever has a threshold of its own, where a label came."""
        counted = zip(self._pools.names, self._learnt, self._missed, strict=True)
        return {name: 1 - missed / n for name, n, missed in counted if n}

    @property
    def bound(self) -> float | None:
        """What `|coverage − (1 − alpha)|` is at most by now, whatever came; None for ways that have no such bound.

        Where kinds have levels of their own, it holds for each kind's coverage around its own.

        (B + (d + 1)η_1)/(n·η_n): B is the range of the scores that came (1 for "aci", which tracks a
        level), d how many other labels came at most between an object and its own label. Of several
        thresholds it is the largest of those that have learnt.
        """
        counted = zip(self._ways, self._learnt, strict=True)
        each = [way.bound(n, self._late) for way, n in counted if n] or [self._ways[0].bound(0, 0)]
        return max((one for one in each if one is not None), default=None)

    def predict_one(self, row: Any, *, group: Any = None) -> Ticket:
        """The set of one object, as a ticket.

        Args:
            row: its K probabilities, not logits.
            group: its group, where the predictor has thresholds per group.
        """
        kept = read_only(self._object.row(row).copy())
        number = 0 if group is None and self._pools.groups is None else self._pools.group(group)
        u = self._coin.toss() if self._object.randomized else 0.0
        threshold: float | Vector
        if self._by_class:
            threshold = read_only(self.thresholds[number])
            members = self._object.members_within(kept, u, threshold)
        else:
            threshold = self._ways[self._pools.of[number][0]].threshold
            members = self._object.members(kept, u, threshold)
        self.n_predicted += 1
        return Ticket(self.n_predicted - 1, members, threshold, kept, u, self.n_learnt, number)

    def learn(self, ticket: Ticket, label: Any) -> None:
        """A label has come.

        Args:
            ticket: its object's, from `predict_one`; each once.
            label: the true class, by number or by name.

        Raises:
            InputError: the ticket was learnt before, or is not this stream's.
        """
        code = self._object.code(label)
        score = self._object.score_of(ticket.row, ticket.u, code)
        self._once(ticket.number)
        limit: Any = ticket.threshold  # one number, or a list by class
        missed = bool(score > (limit[code] if self._by_class else limit))
        cell = self._pools.of[ticket.group][code]
        if (late := self.n_learnt - ticket.n_learnt) > self._late:
            self._late = late
        self.n_learnt += 1
        self.n_missed += missed
        self._learnt[cell] += 1
        self._missed[cell] += missed
        self._trail.add(missed)
        self._ways[cell].learn(score, missed)

    def _once(self, number: int) -> None:
        """Marks a ticket as learnt; refuses one that is marked."""
        byte, bit, known = number >> 3, 1 << (number & 7), self._known
        if number >= self.n_predicted:
            raise InputError(
                f"Expected a ticket of this stream, which has given {self.n_predicted:,}, got number {number:,}",
                "learn it with the stream that gave it",
            )
        if byte >= len(known):
            known.extend(bytes(byte + 1 - len(known)))
        if known[byte] & bit:
            raise InputError(f"Ticket {number:,} was learnt before", "learn each ticket once")
        known[byte] |= bit

    def describe(self) -> str:
        """What has come of it, in a sentence."""
        asked = f"{100 * (1 - self.predictor.alpha):g} % were asked for"
        if not self.n_learnt:
            return f"No label has come yet; {asked}."
        alike = self.bound is not None and getattr(self.predictor, "levels", None) is None
        bound = f", and whatever comes it is within {100 * (self.bound or 0):.3g} points of that" if alike else ""
        return f"{100 * self.coverage:.4g} % of {self.n_learnt:,} labels were in their sets; {asked}{bound}."

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Coverage of the labels in the order in which they came, in windows, beside what was asked; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.streams import plot_stream

        return plot_stream(self._trail, self.predictor.alpha, ax)

    def _facts(self) -> dict[str, Any]:
        return {
            "update": self.update,
            "sets given": self.n_predicted,
            "labels learnt": self.n_learnt,
            "coverage": shown_share(self.coverage) if self.n_learnt else "no label yet",
            "threshold now": self.threshold if len(self._ways) == 1 else f"{len(self._ways):,} of them",
        }

    def __repr__(self) -> str:
        counted = f"{self.n_predicted:,} sets, {self.n_learnt:,} labels"
        one = len(self._ways) == 1
        told = f"threshold {self.threshold:.6g}" if one else f"{len(self._ways):,} thresholds"
        return f"Stream({self.update}: {counted}, {told})"
