"""Stream: prediction sets for one object after another from thresholds that follow the labels."""

import base64
import math
import zlib
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.serialization import Content, attributes, decoded, need
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds
from pippin._online import state
from pippin._online.update_rules import make_rules
from pippin._runtime.arrays import Indices, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.showing import format_share, html_facts
from pippin._validation.rows import as_one_row, as_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Ticket(NamedTuple):
    """Prediction set of one object, to be returned with its label: in any order, once, or never.

    A ticket holds all that learning needs, and may be pickled.

    Attributes:
        number: the number of earlier objects.
        members: the class indices of the set, most probable first.
        threshold: the threshold used, or the threshold of every class.
        row: the probabilities.
        u: the draw of a randomized score.
        n_learnt: the number of labels known at that time.
        group: the index of the group.
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


class Stream(state.Resumable):
    """Prediction sets for objects one after another, from a threshold that follows the labels.

    - "none": the calibration threshold.
    - "grow": each labeled score joins the calibration set; exact while rows are exchangeable.
    - "window": the same with a sliding window of the latest scores.
    - "track": quantile tracking, q ← q + η_t(1{miss} − α), η_t = rate·t^(−0.6): the miss rate tends to α for any
      sequence whatever, within `bound`, and on exchangeable rows q tends to the quantile.
    - "aci": adaptive conformal inference; the level moves instead, α_t ← α_t + rate·(α − 1{miss}).
    - "dtaci": several such levels, each with its own rate, mixed by their losses.

    With thresholds per class, kind or group each threshold follows its own labels, and each has these properties.

    Args:
        predictor: with its calibration scores, and thresholds for all, per class, per kind or per group.
        update: one of these update rules.
        rate: of "track", in units of the score, by default the distance between the calibration quantiles 1 − 2α and
            1 − α/2; of "aci", by default 0.005.
        window: the number of scores in a "window", by default the number of calibration scores.
        seed: for a randomized score, and for the order in which calibration scores leave a window.

    Attributes:
        predictor (ConformalPredictor): the predictor at the beginning.
        update (str): the update rule.
        rate (float | None): its rate, if given.
        window (int | None): its window, if given.
        n_predicted (int): the number of objects so far.
        n_learnt (int): the number of labels so far.
        n_missed (int): the number of labels outside their set.

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
        self.predictor, self.update, self.rate, self.window = predictor, update, rate, window
        self.n_predicted, self.n_learnt, self.n_missed, self._max_delay = 0, 0, 0, 0
        self._pools = pools = state.score_pools(predictor)
        self._generator = state.seeded(seed)
        self._rules = make_rules(pools, update, rate, window, self._generator)
        self._labels, self._misses = [0] * len(self._rules), [0] * len(self._rules)  # by cell
        self._history = state.History(add)  # of misses
        self._used = bytearray()  # one bit per ticket
        self._scorer = state.RowScorer(pools.score, predictor.classes)
        self._by_class = any(len(set(cells)) > 1 for cells in pools.cells)

    @property
    def threshold(self) -> float:
        """Threshold of the next object, if there is a single one."""
        if len(self._rules) > 1:
            raise InputError(f"Expected a stream with one threshold, this one has {len(self._rules)}", "see thresholds")
        return self._rules[0].threshold

    @property
    def thresholds(self) -> Vector:
        """Thresholds of the next object: a row per group, or one, and a column per class."""
        return np.asarray(np.array([rule.threshold for rule in self._rules])[np.array(self._pools.cells)])

    @property
    def coverage(self) -> float:
        """Share of the labels that were in their sets; NaN before the first label."""
        return 1 - self.n_missed / self.n_learnt if self.n_learnt else math.nan

    @property
    def coverages(self) -> dict[Any, float]:
        """Coverage by class, kind or group, whichever has its own threshold, where there are labels."""
        counts = zip(self._pools.names, self._labels, self._misses, strict=True)
        return {name: 1 - missed / n for name, n, missed in counts if n}

    @property
    def bound(self) -> float | None:
        """Bound on `|coverage − (1 − alpha)|` now, for any sequence; None for update rules without such a bound.

        Where kinds have significance levels of their own, it holds for the coverage of each kind around its own.

        (B + (d + 1)η_1)/(n·η_n): B is the range of the scores (1 for "aci", which tracks a
        level), d the maximum number of other labels between an object and its own label. Of several
        thresholds with labels it is the largest.
        """
        counts = zip(self._rules, self._labels, strict=True)
        bounds = [rule.bound(n, self._max_delay) for rule, n in counts if n] or [self._rules[0].bound(0, 0)]
        return max((bound for bound in bounds if bound is not None), default=None)

    def predict_one(self, row: Any, *, group: Any = None) -> Ticket:
        """Compute the prediction set of one object, as a ticket.

        Args:
            row: its K probabilities, not logits.
            group: its group, where the predictor has thresholds per group.
        """
        probs = read_only(as_one_row(row, self.predictor.classes).copy())
        g = self._pools.group_index(group)
        u = self._generator.random() if self._pools.score.randomized else 0.0
        threshold: float | Vector
        if self._by_class:
            threshold = read_only(self.thresholds[g])
            bounds = Bounds(threshold[None])
            members = dispatch.members(as_rows(probs[None]), self._pools.score, bounds, np.array([u]))[1]
        else:
            threshold = self._rules[self._pools.cells[g][0]].threshold
            members = self._scorer.members(probs, u, threshold)
        self.n_predicted += 1
        return Ticket(self.n_predicted - 1, members, threshold, probs, u, self.n_learnt, g)

    def learn(self, ticket: Ticket, label: Any) -> None:
        """Update the threshold by the label of an object.

        Args:
            ticket: the object's ticket, from `predict_one`; each once.
            label: the true class, by index or by name.

        Raises:
            InputError: the ticket was learnt before, or belongs to another stream.
        """
        k = self._scorer.class_index(label)
        score = self._scorer.score_of(ticket.row, ticket.u, k)
        self._mark_used(ticket.number)
        limit: Any = ticket.threshold  # a number, or an array by class
        missed = bool(score > (limit[k] if self._by_class else limit))
        cell = self._pools.cells[ticket.group][k]
        self._max_delay = max(self._max_delay, self.n_learnt - ticket.n_learnt)
        self.n_learnt += 1
        self.n_missed += missed
        self._labels[cell] += 1
        self._misses[cell] += missed
        self._history.add(missed)
        self._rules[cell].learn(score, missed)

    def _mark_used(self, number: int) -> None:
        """Mark a ticket as used; refuse one that is marked."""
        byte, bit, used = number >> 3, 1 << (number & 7), self._used
        if number >= self.n_predicted:
            what = f"Expected a ticket of this stream, which has given {self.n_predicted:,}, got number {number:,}"
            raise InputError(what, "learn it with the stream that gave it")
        used.extend(bytes(max(0, byte + 1 - len(used))))
        if used[byte] & bit:
            raise InputError(f"Ticket {number:,} was learnt before", "learn each ticket once")
        used[byte] |= bit

    def describe(self) -> str:
        """Describe the coverage so far in a sentence."""
        target = f"{100 * (1 - self.predictor.alpha):g}% were asked for"
        if not self.n_learnt:
            return f"No label has come yet; {target}."
        bounded = self.bound is not None and getattr(self.predictor, "levels", None) is None
        bound = f", and whatever comes it is within {100 * (self.bound or 0):.3g} points of that" if bounded else ""
        return f"{100 * self.coverage:.4g}% of {self.n_learnt:,} labels were in their sets; {target}{bound}."

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the coverage in windows of labels, in their order, and the target; return Matplotlib axes.

        Args:
            ax: the axes; new ones, if not given.
        """
        from pippin._plotting.streams import plot_stream

        return plot_stream(self._history, self.predictor.alpha, ax)

    def _repr_html_(self) -> str:
        facts = {
            "update": self.update,
            "sets given": self.n_predicted,
            "labels learnt": self.n_learnt,
            "coverage": format_share(self.coverage) if self.n_learnt else "no label yet",
            "threshold now": self.threshold if len(self._rules) == 1 else f"{len(self._rules):,} of them",
        }
        return html_facts(f"Stream: {self.describe()}", facts)

    def __repr__(self) -> str:
        n = len(self._rules)
        thresholds = f"threshold {self.threshold:.6g}" if n == 1 else f"{n:,} thresholds"
        return f"Stream({self.update}: {self.n_predicted:,} sets, {self.n_learnt:,} labels, {thresholds})"

    def content(self) -> dict[str, Any]:
        """Return the state as a file holds it."""
        return {
            "kind": self._kind,
            **attributes(self, "update", "rate", "window"),
            "counts": [self.n_predicted, self._max_delay],
            "labels_of_cells": [self._labels, self._misses],
            "trail": self._history.content(),
            "learnt": base64.b64encode(zlib.compress(bytes(self._used))).decode(),
            "coin": state.position_of(self._generator),
            "ways": [rule.state() for rule in self._rules],
            "predictor": self.predictor.content(),
        }

    @classmethod
    def _from_content(cls, content: Content) -> "Stream":
        options = {name: content.take(name) for name in ("rate", "window")}
        stream = cls(state.saved_predictor(content), content.take("update"), **options)
        stream.n_predicted, stream._max_delay = state.counts_of("counts", content.take("counts"), 2, 2**62)
        pairs = content.take("labels_of_cells", lambda value: isinstance(value, list) and len(value) == 2)
        cells, n = len(stream._rules), stream.n_predicted
        stream._labels, stream._misses = (state.counts_of("labels_of_cells", counts, cells, n) for counts in pairs)
        stream.n_learnt, stream.n_missed = sum(stream._labels), sum(stream._misses)
        need("labels_of_cells", stream.n_learnt <= n and all(map(int.__le__, stream._misses, stream._labels)))
        stream._history.resume(content, "trail")
        stream._used = _used_tickets(content, stream)
        stream._generator = state.generator_from_content(content)
        saved = content.take("ways", lambda value: isinstance(value, list) and len(value) == cells)
        for rule, rule_state in zip(stream._rules, saved, strict=True):
            need("ways", isinstance(rule_state, dict))
            parts = Content(decoded(rule_state))
            rule.resume(parts)
            parts.finish()
        content.finish()
        return stream


stream_from_content = Stream._from_content


def _used_tickets(content: Content, stream: Stream) -> bytearray:
    """Return the bits of the tickets that were learnt, checked: as many as labels."""
    try:
        used = bytearray(zlib.decompress(base64.b64decode(content.take("learnt"), validate=True)))
    except (ValueError, TypeError, zlib.error):
        used = bytearray(b"\xff")
    need("learnt", sum(byte.bit_count() for byte in used) == stream.n_learnt and len(used) <= stream.n_predicted)
    return used
