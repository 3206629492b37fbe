"""The map itself: probabilities in, sharper probabilities out."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.serialization import Saved
from pippin._runtime.arrays import Classes
from pippin._runtime.errors import InputError
from pippin._runtime.threads import run
from pippin._sharpening.features import Singles
from pippin._sharpening.model import SharpeningModel
from pippin._validation.fingerprints import Prints, fingerprints, seen_before
from pippin._validation.index import same_index
from pippin._validation.rows import SUM_TOLERANCE, Rows, agree, as_array, as_rows, check_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LARGEST = 1e15  # feature, whose square float32 can hold
BLOCK = 1 << 17  # probabilities that are sharpened at once: they fit a processor's cache, and calls cost little


class Confusion(NamedTuple):
    """Of the rows of class `true`, the share taken for `predicted`, before and after sharpening, out of fold.

    Attributes:
        true: the true class.
        predicted: the class that they were taken for.
        before: the share of them, before sharpening.
        after: the share of them, after it.
    """

    true: str | int
    predicted: str | int
    before: float
    after: float


class Learnt(NamedTuple):
    """How it did on rows that its members were not fitted to, before and after.

    Attributes:
        n: how many rows.
        cross_entropy: before and after; the smaller the better.
        accuracy: before and after.
        gain_error: the standard error of what cross-entropy gained.
        confusions: which classes are taken for which, before and after.
        prints: the fingerprints of all rows that it has seen.
    """

    n: int
    cross_entropy: tuple[float, float]
    accuracy: tuple[float, float]
    gain_error: float
    confusions: tuple[Confusion, ...]
    prints: Prints


@dataclass(frozen=True, eq=False, repr=False)
class Sharpener(Saved):
    """A frozen map from a classifier's probabilities to better ones, made by `pippin.sharpen`.

    Attributes:
        classes: the names of the columns, in their order.
        weights: those of its members, by name.
        learnt: how it did on rows that its members were not fitted to.
        model: the members themselves.
        takes_features: how many features it wants beside the probabilities.
    """

    classes: Classes
    weights: dict[str, float]
    learnt: Learnt
    model: SharpeningModel
    takes_features: int = 0

    def __call__(self, probs: Any, *, features: ArrayLike | None = None, from_logits: bool = False) -> Singles:
        """Sharper probabilities, (n, K) in float32.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            features: what it was shown beside them when it learnt, one row per object.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharper = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> sharper(data.probs[300:]).shape
        (4686, 12)
        """
        found: Singles = self.rows(probs, features=features, from_logits=from_logits).array
        return found

    def rows(self, probs: Any, *, features: ArrayLike | None = None, from_logits: bool = False) -> Rows:
        """Sharper rows, with the index and names that they came with.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            features: what it was shown beside them when it learnt, one row per object.
            from_logits: whether `probs` are logits, of which a softmax is taken.
        """
        rows = as_rows(probs, from_logits)
        agree(self.classes, rows)
        same_index("probs", rows.index, features=features)
        beside = self._features(features, rows.n)
        weights = self._weights
        out = np.empty((rows.n, rows.n_classes), dtype=np.float32)

        def work(start: int, stop: int) -> None:
            rows.check(start, stop)
            part = None if beside is None else beside[start:stop]
            out[start:stop] = self.model.mixed(weights, rows.block(start, stop), part)

        step = max(1, BLOCK // rows.n_classes)
        run(work, [(start, min(start + step, rows.n)) for start in range(0, rows.n, step)])
        return replace(rows, array=out, logits=False, checked=True)

    def one(self, row: Any, *, features: ArrayLike | None = None) -> Singles:
        """One row of K probabilities, sharper; the same bits as among others.

        Args:
            row: its K probabilities, not logits.
            features: what it was shown beside them when it learnt, of this object.
        """
        check_names(self.classes, row)
        array = as_array(row)
        if array.shape != (len(self.classes),):
            raise InputError(f"Expected one row of {len(self.classes)} probabilities, got shape {array.shape}")
        if not abs(np.add.reduce(array) - 1) <= SUM_TOLERANCE or np.minimum.reduce(array) < 0:
            as_rows(array[None]).check(0, 1)
        beside = self._features(None if features is None else np.asarray(features)[None], 1)
        found: Singles = self.model.mixed(self._weights, array[None], beside)[0]
        return found

    def check_unseen(self, rows: Rows) -> None:
        """Raises an InputError if it learnt on some of these rows: they cannot calibrate as well.

        Args:
            rows: those that are to calibrate.
        """
        prints = row_prints(rows)
        seen = seen_before(self.learnt.prints, prints) or seen_before(prints, self.learnt.prints)
        if seen:
            raise InputError(
                f"Expected calibration rows that the sharpener did not learn on, got {seen:,} of {rows.n:,} it did",
                "divide the rows first, or pass sharpen='split'",
            )

    def explain(self) -> tuple[Confusion, ...]:
        """The confusions that changed most, out of fold: true class, predicted class, share before and after.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharper = pippin.sharpen(data.probs[:1200], data.labels[:1200], classes=data.classes)
        >>> sharper.explain()[0].true
        'loose_silky_bent'
        """
        return self.learnt.confusions

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The confusions that changed most, before and after.

        Args:
            ax: where to draw; by default a new figure.
        """
        from pippin._plotting.sharpening import draw_confusions

        return draw_confusions(self.learnt, ax)

    @property
    def helps(self) -> bool:
        """Whether what it won out of fold is more than twice its standard error."""
        before, after = self.learnt.cross_entropy
        return before - after > 2 * self.learnt.gain_error

    def describe(self) -> str:
        """What it learnt, in a sentence."""
        (loss, lower), (right, higher) = self.learnt.cross_entropy, self.learnt.accuracy
        return (
            f"learnt on {self.learnt.n:,} rows: cross-entropy {loss:.3f} → {lower:.3f}, accuracy {100 * right:.1f} → "
            f"{100 * higher:.1f} %, out of fold"
        )

    def content(self) -> dict[str, Any]:
        """What a file holds of it."""
        from pippin._sharpening.storing import to_content

        return to_content(self)

    def __repr__(self) -> str:
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in self.weights.items())
        return f"Sharpener({self.describe()}; members: {weights})"

    @cached_property
    def _weights(self) -> Singles:
        return np.array(list(self.weights.values()), dtype=np.float32)

    def _features(self, given: ArrayLike | None, n: int) -> Singles | None:
        wanted = self.takes_features
        if not wanted:
            if given is not None:
                raise InputError("Expected no features, since the sharpener learnt without", "leave features= out")
            return None
        if given is None:
            raise InputError(
                f"Expected the {wanted} features that the sharpener learnt with, got none", "pass features="
            )
        found = as_features(given, n)
        if found.shape[1] != wanted:
            raise InputError(f"Expected {wanted} features per row, got {found.shape[1]}", "pass those it learnt with")
        return found


def as_features(given: ArrayLike, n: int) -> Singles:
    """Numbers beside the probabilities, (n, M) and finite."""
    array = as_array(given)
    if array.ndim != 2 or len(array) != n or not array.shape[1]:
        raise InputError(f"Expected features of shape ({n}, M), got shape {array.shape}", "one row per object")
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(array, dtype=np.float32)
    if not (np.abs(found) < LARGEST).all():  # neither is NaN
        raise InputError(
            f"Expected features that are numbers below {LARGEST:g}, got NaN, infinity or more",
            "scale them, or leave those rows out",
        )
    return found


def row_prints(rows: Rows) -> Prints:
    """A number for each row, so that it is known again: as float32 too, or from its logits.

    So each probability counts to about four digits, 12 of the 23 bits of its mantissa.
    """
    step = max(1, BLOCK // rows.n_classes)
    parts = []
    for start in range(0, rows.n, step):
        bits = rows.block(start, start + step).astype(np.float32).view(np.uint32)
        rounded = (bits + np.uint32(1 << 10)) & np.uint32(0xFFFFF800)
        parts.append(fingerprints(rounded.view(np.float32)))
    return np.concatenate(parts)
