"""Online prediction: prediction sets from thresholds that are updated after each label."""

import base64
import math
import zlib
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.card import EXCHANGEABLE, SHIFT, Card, promise_card, share
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.serialization import Content, attributes, decoded, need
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds
from pippin._online import state
from pippin._online.update_rules import make_rules
from pippin._runtime.arguments import checked_methods
from pippin._runtime.arrays import Indices, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.showing import format_share, html_facts
from pippin._validation.rows import as_one_row, as_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BYTES = 1 << 29  # maximum number of bytes in a file for the flags of used tickets, one bit per prediction


class Ticket(NamedTuple):
    """Prediction set of one object, to be passed to `Stream.learn` once the label of the object is known.

    Tickets may be passed in any order, each at most once. A ticket holds all data of the update, so it can be pickled.

    Attributes:
        number: the number of the object in the stream, from 0.
        members: column numbers of the classes in the set, most probable first.
        threshold: the threshold of the set, or an array with a threshold per class.
        row: the probabilities of the object.
        u: the random number of a randomized score, uniform in (0, 1); 0 for other scores.
        n_learnt: number of labels passed to `Stream.learn` before this prediction.
        group: the number of the object's group; 0 without groups.
        stream: identifier of the stream, by which `Stream.learn` recognizes its own tickets; empty in tickets of
            pippin 0.1.
    """

    number: int
    members: Indices
    threshold: "float | Vector"
    row: NDArray[Any]
    u: float
    n_learnt: int
    group: int = 0
    stream: str = ""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


@checked_methods
class Stream(state.Resumable):
    """Prediction sets for a stream of objects, from thresholds that an update rule adapts to the labels.

    Update rules, where the indicator 1{miss} is 1 if the true class is not in the set, and 0 otherwise:

    - "none": keeps the calibration threshold.
    - "grow": adds the score of each label to the calibration scores; the coverage guarantee holds for exchangeable
      rows.
    - "window": calibrates on a sliding window of the scores of the latest labels.
    - "track": quantile tracking. The t-th label changes the threshold q to q + η_t·(1{miss} − alpha), with the step
      size η_t = rate·t^(−0.6). For any sequence, the miss rate tends to alpha (see `bound`); for exchangeable rows, q
      tends to the 1 − alpha quantile of the scores.
    - "aci": adaptive conformal inference. Each label changes the level a at which the threshold is calibrated to
      a + rate·(alpha − 1{miss}).
    - "dtaci": dynamically tuned ACI. The level is a weighted mean of levels that are adapted with different rates; the
      weights depend on the quantile losses of these levels.

    With thresholds per class, kind (superclass) or group, each threshold is updated only with labels of its own
    category, and the properties above hold for each category.

    References: "track" `Angelopoulos, Barber and Bates (2024) <https://arxiv.org/abs/2402.01139>`__;
    "aci" `Gibbs and Candès (2021) <https://arxiv.org/abs/2106.00170>`__;
    "dtaci" `Gibbs and Candès (2022) <https://arxiv.org/abs/2208.08401>`__.

    Args:
        predictor: predictor that stores its calibration scores, with one threshold or one per class, kind or group.
        update: the update rule.
        rate: step size of "track", by default the difference of the 1 − alpha/2 and 1 − 2·alpha quantiles of the
            calibration scores; or step size of "aci", by default 0.005.
        window: number of scores of "window", by default the number of calibration scores.
        seed: seed for a randomized score, for the order in which "window" drops the calibration scores, and for the
            identifier of the stream in its tickets; pass a different seed to each stream.

    Attributes:
        predictor (ConformalPredictor): the predictor, with its calibration thresholds.
        update (str): the update rule.
        rate (float | None): the step size; None for the default.
        window (int | None): the window length; None for the default.
        n_predicted (int): number of objects so far.
        n_learnt (int): number of labels so far.
        n_missed (int): number of labels so far that were not in the set of their object.

    Raises:
        InputError: the predictor has no calibration scores, or an option does not match the update rule.

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
        self._pools = pools = state.ScorePools(predictor)
        self._generator = state.seeded(seed)
        self._rules = make_rules(pools, update, rate, window, self._generator)
        # Numbers of labels, and of labels outside their sets, by category.
        self._labels, self._misses = [0] * len(self._rules), [0] * len(self._rules)
        self._history = state.History(add)  # number of misses in blocks of labels
        self._used = bytearray()  # bit i is set once ticket i was passed to `learn`
        identity = None if seed is None else [seed, predictor.n_calibration, len(predictor.classes)]
        self._id = np.random.default_rng(identity).bytes(8).hex()  # identifies the stream in its tickets
        self._scorer = state.RowScorer(pools.score, predictor.classes)
        self._by_class = any(len(set(row)) > 1 for row in pools.categories)

    @property
    def threshold(self) -> float:
        """Threshold for the next object; an InputError if the stream has several thresholds."""
        if len(self._rules) > 1:
            raise InputError(f"Expected a stream with one threshold, this one has {len(self._rules)}", "see thresholds")
        return self._rules[0].threshold

    @property
    def thresholds(self) -> Vector:
        """Thresholds for the next object, (groups, classes); a single row without groups."""
        return np.asarray(np.array([rule.threshold for rule in self._rules])[np.array(self._pools.categories)])

    @property
    def coverage(self) -> float:
        """Share of labels that were in the set of their object; NaN before the first label."""
        return 1 - self.n_missed / self.n_learnt if self.n_learnt else math.nan

    @property
    def coverages(self) -> dict[Any, float]:
        """Coverage by name of each Mondrian category (such as a class or a group) that has labels."""
        counts = zip(self._pools.names, self._labels, self._misses, strict=True)
        return {name: 1 - missed / n for name, n, missed in counts if n}

    @property
    def bound(self) -> float | None:
        """Current bound on `|coverage − (1 − alpha)|` for any sequence; None for update rules without such a bound.

        After n labels, the bound of "track" and "aci" is (B + (d + 1)·η_1)/(n·η_n). η_t is the step size at label t. B
        is the range of the scores for "track", and 1 for "aci", which adapts a level between 0 and 1. d is the largest
        delay: the number of other labels between the prediction for an object and its label.

        With several thresholds, this property is the largest of their bounds. If each kind (superclass) has its own
        alpha, the bound is for the coverage of each kind and its alpha.
        """
        counts = zip(self._rules, self._labels, strict=True)
        bounds = [rule.bound(n, self._max_delay) for rule, n in counts if n] or [self._rules[0].bound(0, 0)]
        return max((bound for bound in bounds if bound is not None), default=None)

    def predict_one(self, row: Any, *, group: Any = None) -> Ticket:
        """Predict the set of one object.

        Args:
            row: its K probabilities, not logits.
            group: the group of the object, if the predictor has thresholds per group.

        Returns:
            A ticket with the set, to be passed to `learn` with the label.
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
            threshold = self._rules[self._pools.categories[g][0]].threshold
            members = self._scorer.members(probs, u, threshold)
        self.n_predicted += 1
        return Ticket(self.n_predicted - 1, members, threshold, probs, u, self.n_learnt, g, self._id)

    def learn(self, ticket: Ticket, label: Any) -> None:
        """Update the threshold with the true class of an object.

        Args:
            ticket: the result of `predict_one` for the object; each ticket can be used once.
            label: the true class, as index or name.

        Raises:
            InputError: the ticket was passed to `learn` before, or comes from another stream.
        """
        number, group = ticket.number, ticket.group
        if ticket.stream != self._id or not (
            0 <= number < self.n_predicted and 0 <= group < len(self._pools.categories)
        ):
            what = f"Expected a ticket of this stream, which has made {self.n_predicted:,}, got number {number:,} of "
            raise InputError(what + "another stream", "pass it to the stream that made it")
        k = self._scorer.class_index(label)
        score = self._scorer.score_of(ticket.row, ticket.u, k)
        self._mark_used(number)
        limit: Any = ticket.threshold  # a number, or an array with a threshold per class
        missed = bool(score > (limit[k] if self._by_class else limit))
        category = self._pools.categories[group][k]
        self._max_delay = max(self._max_delay, self.n_learnt - ticket.n_learnt)
        self.n_learnt += 1
        self.n_missed += missed
        self._labels[category] += 1
        self._misses[category] += missed
        self._history.add(missed)
        self._rules[category].learn(score, missed)

    def _mark_used(self, number: int) -> None:
        """Mark a ticket (receipt of one prediction) as used; raise an InputError if it was used before."""
        byte, bit, used = number >> 3, 1 << (number & 7), self._used
        used.extend(bytes(max(0, byte + 1 - len(used))))
        if used[byte] & bit:
            raise InputError(f"Expected each ticket once, got ticket {number:,} again", "learn each ticket once")
        used[byte] |= bit

    def describe(self) -> str:
        """Describe the coverage so far in one sentence.

        Returns:
            The sentence.
        """
        target = f"{100 * (1 - self.predictor.alpha):g}% were requested"
        if not self.n_learnt:
            return f"No labels yet; {target}."
        bound = ""
        largest = max(self.predictor.alpha, 1 - self.predictor.alpha)  # a larger bound says nothing
        if self.bound is not None and self.bound < largest and getattr(self.predictor, "levels", None) is None:
            bound = f", guaranteed within {100 * self.bound:.3g} points for any sequence"
        return f"{100 * self.coverage:.4g}% of {self.n_learnt:,} labels were in their sets; {target}{bound}."

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the coverage in windows of consecutive labels, and the target.

        Args:
            ax: Matplotlib axes; new ones by default.

        Returns:
            The axes.
        """
        from pippin._plotting.streams import plot_stream

        return plot_stream(self._history, self.predictor.alpha, ax)

    def _repr_html_(self) -> str:
        facts = {
            "update": self.update,
            "sets": self.n_predicted,
            "labels": self.n_learnt,
            "coverage": format_share(self.coverage) if self.n_learnt else "no label yet",
            "threshold": self.threshold if len(self._rules) == 1 else f"{len(self._rules):,} of them",
        }
        return html_facts(f"Stream: {self.describe()}", facts)

    def __repr__(self) -> str:
        n = len(self._rules)
        thresholds = f"threshold {self.threshold:.6g}" if n == 1 else f"{n:,} thresholds"
        return f"Stream({self.update}: {self.n_predicted:,} sets, {self.n_learnt:,} labels, {thresholds})"

    def _promise(self) -> Card:
        predictor, level = self.predictor, share(1 - self.predictor.alpha)
        any_sequence = f"For any sequence of rows, the share of labels in their sets tends to {level}"
        if self.bound is not None:
            any_sequence += f"; it is now within {self.bound:.3g} of it"
        guarantees = {
            "none": f"For exchangeable rows, sets contain the true class with probability at least {level}.",
            "grow": f"For exchangeable rows, sets contain the true class with probability at least {level}.",
            "window": f"As long as the rows of the window and the next row are exchangeable, sets contain the true "
            f"class with probability at least {level}.",
            "dtaci": f"None for finite streams; the rule adapts its level to keep a coverage of {level}.",
        }
        card = promise_card(
            what=f"Prediction sets for a stream with the update rule {self.update}, from the predictor: "
            f"{predictor.describe()}",
            guarantee=guarantees.get(self.update, f"{any_sequence}."),
            level=f"{predictor._level()}.",
            condition="None: the sequence may be arbitrary. Labels arrive for the rows whose coverage counts."
            if self.update in ("track", "aci")
            else EXCHANGEABLE,
            variation=predictor._rule.variation(predictor) if self.update == "none" else "Not applicable.",
            shift="" if self.update in ("track", "aci", "dtaci") else SHIFT,
            limits="Coverage of a single set, or within a class or group.",
            rows=f"{predictor._rule.rows(predictor)}, and {self.n_learnt:,} labels of the stream.",
        )
        return card | {"In which state is it?": self.describe()}

    def content(self) -> dict[str, Any]:
        """Return the data that `save` writes to a file: the whole state of the stream, including the predictor.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.
        """
        return {
            "kind": self._kind,
            **({"id": self._id} if self._id else {}),
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
        stream._id = (
            content.take("id", lambda value: isinstance(value, str) and value != "") if content.has("id") else ""
        )
        stream.n_predicted, stream._max_delay = state.counts_of("counts", content.take("counts"), 2, 8 * MOST_BYTES)
        pairs = content.take("labels_of_cells", lambda value: isinstance(value, list) and len(value) == 2)
        n_categories, n = len(stream._rules), stream.n_predicted
        stream._labels, stream._misses = (
            state.counts_of("labels_of_cells", counts, n_categories, n) for counts in pairs
        )
        stream.n_learnt, stream.n_missed = sum(stream._labels), sum(stream._misses)
        need("labels_of_cells", stream.n_learnt <= n and all(map(int.__le__, stream._misses, stream._labels)))
        stream._history.resume(content, "trail")
        stream._used = _used_tickets(content, stream)
        stream._generator = state.generator_from_content(content)
        saved = content.take("ways", lambda value: isinstance(value, list) and len(value) == n_categories)
        for rule, rule_state in zip(stream._rules, saved, strict=True):
            need("ways", isinstance(rule_state, dict))
            parts = Content(decoded(rule_state))
            rule.resume(parts)
            parts.finish()
        content.finish()
        return stream


def _used_tickets(content: Content, stream: Stream) -> bytearray:
    """Read from a file which tickets (receipts of predictions) were passed to `learn`, one bit per ticket.

    Raise an InputError unless the number of these tickets equals the number of labels that the stream has received.
    """
    most = min(stream.n_predicted // 8 + 1, MOST_BYTES)
    unpack = zlib.decompressobj()
    try:
        packed = base64.b64decode(content.take("learnt"), validate=True)
        used = unpack.decompress(packed, most + 1)
    except (ValueError, TypeError, OverflowError, zlib.error):
        used = b"\xff"
    need("learnt", unpack.eof and int.from_bytes(used).bit_count() == stream.n_learnt and len(used) <= most)
    return bytearray(used)
