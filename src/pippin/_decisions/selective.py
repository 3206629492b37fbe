"""Acting only when sure: how many of those acted on are wrong is bounded, with a chosen confidence."""

import math
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.answers import asked_rows
from pippin._conformal.content import Content, need, vector_of, whole_numbers
from pippin._conformal.saving import Saved, attributes, classes_content, read_kind
from pippin._engine import dispatch
from pippin._runtime.arrays import Classes, Codes, Flags, Vector, named, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.showing import Share, html_table
from pippin._runtime.warn import warn
from pippin._theory.certifying import acted_needed, certified, rows_needed, sequence
from pippin._theory.level import as_alpha
from pippin._validation.labels import as_labelled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 10  # predictions in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class SelectivePredictions:
    """The most probable class of each object, and whether it is sure enough to act on.

    Attributes:
        labels: the class, given for all; those not acted on are not promised anything.
        acted: which objects are acted on.
        confidence: the probability of the label.

    >>> import numpy as np, pippin
    >>> labels, acted = np.array(["weed", "crop"]), np.array([True, False])
    >>> pippin.decisions.SelectivePredictions(labels, acted, np.array([0.99, 0.5]))
    SelectivePredictions(2 objects, 50 % acted on)
    """

    labels: NDArray[Any]
    acted: Flags
    confidence: Vector

    def __post_init__(self) -> None:
        for name in ("labels", "acted", "confidence"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.labels)

    def _repr_html_(self) -> str:
        told = repr(self).removeprefix("SelectivePredictions(").removesuffix(")")
        first = zip(self.labels[:SHOWN].tolist(), self.acted[:SHOWN].tolist(), self.confidence[:SHOWN], strict=True)
        rows = [(str(label), "acted on" if acted else "left", Share(float(sure))) for label, acted, sure in first]
        left_out = len(self) - len(rows)
        return html_table(told, ("label", "", "its probability"), rows, left_out=left_out)

    def __repr__(self) -> str:
        return f"SelectivePredictions({len(self):,} objects, {100 * self.acted.mean():.0f} % acted on)"


@dataclass(frozen=True, eq=False, repr=False)
class SelectiveClassifier(Saved):
    """Acts on the rows whose largest probability reaches a threshold.

    With probability 1 − delta over the calibration rows, at most a share `error` of those acted on
    is wrong; with per="class" that holds for each predicted class, which has its own threshold.

    Attributes:
        error: the share of errors allowed among those acted on.
        delta: how often a calibration may fail to promise that.
        per: "class", if each predicted class has its own threshold.
        thresholds: what the largest probability must reach; infinite where nothing could be certified: then no
            row is acted on.
        n_acted: how many calibration rows reach each threshold.
        n_wrong: how many of those were wrong.
        n_calibration: how many rows calibrated it.
        classes: the names of the columns, in their order.
    """

    error: float
    delta: float
    per: str | None
    thresholds: Vector
    n_acted: Codes
    n_wrong: Codes
    n_calibration: int
    classes: Classes

    @property
    def threshold(self) -> float:
        """The smallest probability that is acted on."""
        if self.per is not None:
            raise InputError(f"This predictor has a threshold per {self.per}", "look at thresholds")
        return float(self.thresholds[0])

    @property
    def bound(self) -> float:
        """The share of errors that is certified: `error`, or 1 where nothing could be."""
        return 1.0 if np.isinf(self.thresholds).all() else self.error

    def predict(self, probs: Any, *, from_logits: bool = False) -> SelectivePredictions:
        """The most probable class of every row, and whether to act on it.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> selective = pippin.decisions.select(data.probs[:2000], data.labels[:2000], error=0.05)
        >>> selective.predict(data.probs[2000:])
        SelectivePredictions(2,986 objects, 35 % acted on)
        """
        rows = asked_rows(self.classes, probs, from_logits)
        best, top = dispatch.best(rows)
        limits = self.thresholds[best] if self.per is not None else self.thresholds
        return SelectivePredictions(named(best, self.classes), top >= limits, top)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The probability from which on is acted, of all rows or of every predicted class; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.thresholds import plot_thresholds

        names = self.classes if self.per is not None else ["all rows"]
        counts = zip(self.n_acted.tolist(), self.n_wrong.tolist(), strict=True)
        notes = [f"{wrong:,} wrong of {acted:,}" if acted else "nothing certified" for acted, wrong in counts]
        told = f"At most {100 * self.error:g} % wrong among those acted on", "smallest probability that is acted on"
        return plot_thresholds(names, self.thresholds, notes, told, ax)

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        if np.isinf(self.thresholds).all():
            return f"Acts on nothing: from {self.n_calibration:,} rows, {100 * self.error:g} % cannot be certified."
        whom = "of those acted on" if self.per is None else "of those acted on as each class"
        return (
            f"Acts on what is sure, from {self.n_calibration:,} rows: with {100 * (1 - self.delta):g} % confidence at "
            f"most {100 * self.error:g} % {whom} are wrong."
        )

    def content(self) -> dict[str, Any]:
        """What its file holds."""
        return {
            "kind": "selective",
            **attributes(self, "error", "delta", "per", "n_calibration"),
            **classes_content(self.classes),
            "thresholds": self.thresholds.tolist(),
            "n_acted": self.n_acted.tolist(),
            "n_wrong": self.n_wrong.tolist(),
        }

    @staticmethod
    def load(path: "str | PathLike[str]") -> "SelectiveClassifier":
        """Reads a selective predictor that `save` wrote; every number is what it was, to the last bit.

        Args:
            path: the file.
        """
        remedies = "read predictors of sets with pippin.load", "calibrate again and save"
        return read_kind(path, "selective", "selective predictor", _from_content, remedies)

    def __repr__(self) -> str:
        per = "" if self.per is None else " per class"
        return (
            f"SelectiveClassifier(error={self.error:g}{per}, delta={self.delta:g}, "
            f"{int(self.n_acted.sum()):,} of {self.n_calibration:,} calibration rows acted on)"
        )


def calibrate_selective(
    probs: Any,
    labels: ArrayLike,
    *,
    error: float = 0.02,
    delta: float = 0.05,
    classes: Classes | None = None,
    per: Literal["class"] | None = None,
    from_logits: bool = False,
) -> SelectiveClassifier:
    """A predictor that acts where the share of errors *among those acted on* is at most `error`.

    Coverage never bounds that share. Here it holds with probability 1 − delta over the calibration
    rows, which must be independent draws of what is to come: each threshold of a fixed falling
    sequence is certified by P(Bin(acted, error) ≤ wrong), as long as that is small enough.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        error: the share of errors allowed among those acted on.
        delta: the chance allowed of a calibration that leads to more.
        classes: names of the K columns; a data frame brings its own.
        per: "class" for a threshold, and a guarantee of its own, for each predicted class.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> pippin.decisions.select(data.probs, data.labels, error=0.05, delta=0.1)
    SelectiveClassifier(error=0.05, delta=0.1, 2,119 of 4,986 calibration rows acted on)
    """
    share, chance = _share("error", error), _share("delta", delta)
    if per not in (None, "class"):
        raise InputError(f"Expected per to be None or 'class', got {per!r}")
    data = as_labelled(probs, labels, classes, from_logits)
    best, top = dispatch.best(data.rows)
    log_odds = sequence(data.rows.n_classes)
    limits = np.append(1 / (1 + np.exp(-log_odds[:-1])), 0.0)
    right, n_classes = best == data.labels, data.rows.n_classes
    cells = [np.ones(data.rows.n, dtype=bool)] if per is None else [best == k for k in range(n_classes)]
    thresholds, counts, notes = np.full(len(cells), np.inf), np.zeros((2, len(cells)), dtype=np.int64), []
    for k, own in enumerate(cells):
        acted, wrong = _reached(top[own], limits), _reached(top[own & ~right], limits)
        last = certified(acted, wrong, log_odds, share, chance)
        if last is None:
            notes.append(_lacking(None if per is None else data.classes[k], acted, wrong, data.rows.n, share, chance))
        else:
            thresholds[k], counts[:, k] = limits[last], (acted[last], wrong[last])
    if notes:
        warn(" ".join(notes[:5]) + (f" So it is for {len(notes) - 5:,} more." if len(notes) > 5 else ""))
    numbers = read_only(counts[0]), read_only(counts[1])
    return SelectiveClassifier(share, chance, per, read_only(thresholds), *numbers, data.rows.n, data.classes)


def _from_content(content: Content) -> SelectiveClassifier:
    """The predictor that had this content, each part checked against the others."""
    error, delta, per = content.number("error"), content.number("delta"), content.take("per")
    n, classes = content.whole("n_calibration", 1), content.classes()
    thresholds = vector_of("thresholds", content.take("thresholds"))
    acted, wrong = (whole_numbers(key, content.take(key), np.int64) for key in ("n_acted", "n_wrong"))
    content.finish()
    need("error", 0 < error < 1)
    need("delta", 0 < delta < 1)
    need("per", per in (None, "class"))
    cells = 1 if per is None else len(classes)
    need("thresholds", thresholds.shape == (cells,) and bool((thresholds >= 0).all()))
    need("thresholds", bool(((thresholds <= 1) | np.isinf(thresholds)).all()))
    need("n_acted", acted.shape == (cells,) and bool((acted >= 0).all()) and int(acted.sum()) <= n)
    need("n_wrong", wrong.shape == (cells,) and bool(((wrong >= 0) & (wrong <= acted)).all()))
    return SelectiveClassifier(error, delta, per, thresholds, acted, wrong, n, classes)


def _reached(confidence: Vector, limits: Vector) -> Codes:
    """How many reach each limit."""
    return len(confidence) - np.searchsorted(np.sort(confidence), limits, side="left")


def _lacking(name: str | int | None, acted: Codes, wrong: Codes, n: int, error: float, delta: float) -> str:
    """Why nothing is certified, and how many rows it would take."""
    whom, what = ("acted on", "") if name is None else (f"taken for {name}", f" as {name}")
    least = acted_needed(0.0, error, delta)
    told = (
        f"Nothing is acted on{what}: {n:,} calibration rows cannot certify that at most {100 * error:g} % of those "
        f"{whom} are wrong."
    )
    if (needed := rows_needed(acted, wrong, n, error, delta)) is not None and needed > n:
        return f"{told} About {needed:,} rows like these would."
    if acted[-1] < (least or math.inf):
        return f"{told} It takes at least {least:,} of them, got {acted[-1]:,}."
    return f"{told} No number of rows like these would: the classifier is not right often enough where it is surest."


def _share(name: str, value: Any) -> float:
    try:
        return as_alpha(value)
    except InputError as wrong:
        raise InputError(f"Expected {name} strictly between 0 and 1, got {value!r}", "0.05 is 5 %") from wrong
