"""Sharpener: a map from probabilities to recalibrated probabilities."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.serialization import SavedDataclass
from pippin._runtime.arrays import Classes, Floats
from pippin._runtime.errors import InputError
from pippin._runtime.threads import run
from pippin._sharpening.features import Singles
from pippin._sharpening.model import SharpeningModel
from pippin._validation.fingerprints import Prints, fingerprints, rounded_prints, seen_before
from pippin._validation.index import same_index
from pippin._validation.rows import SUM_TOLERANCE, Names, Rows, agree, as_array, as_rows, check_names, column_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LARGEST = 1e15  # bound on features, so that float32 can hold their squares
BLOCK = 1 << 17  # probabilities per block: small enough for a processor's cache, large enough to hide the calls


class Confusion(NamedTuple):
    """Share of the rows of class `true` that are classified as `predicted`, before and after sharpening, out of fold.

    Attributes:
        true: the true class.
        predicted: the predicted class.
        before: the share before sharpening.
        after: the share after sharpening.

    >>> import pippin
    >>> pippin.Confusion("charlock", "cleavers", 0.04, 0.01).after
    0.01
    """

    true: str | int
    predicted: str | int
    before: float
    after: float


class OutOfFoldMetrics(NamedTuple):
    """Metrics of a sharpener on training rows that its members were not fitted on, before and after sharpening.

    Attributes:
        n: the number of training rows.
        cross_entropy: mean cross-entropy before and after; smaller is better.
        accuracy: accuracy before and after.
        gain_error: the standard error of the decrease in cross-entropy.
        confusions: the pairs of classes whose confusion changed most.
        prints: fingerprints of all training rows, one row for each kind of `row_prints`.
    """

    n: int
    cross_entropy: tuple[float, float]
    accuracy: tuple[float, float]
    gain_error: float
    confusions: tuple[Confusion, ...]
    prints: Prints


@dataclass(frozen=True, eq=False, repr=False)
class Sharpener(SavedDataclass):
    """Fitted map from a classifier's probabilities to recalibrated ones; `pippin.sharpen` returns it.

    Attributes:
        classes: the names of the columns, in their order.
        weights: the weight of each member of the mixture, by name.
        out_of_fold: metrics on training rows that the members were not fitted on.
        model: the members of the mixture.
        n_features: the number of features that the map needs in addition to the probabilities.
        feature_names: the names of these features, if they came in a data frame.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300], classes=data.classes)
    >>> round(sum(sharpener.weights.values()), 6)
    1.0
    """

    classes: Classes
    weights: dict[str, float]
    out_of_fold: OutOfFoldMetrics
    model: SharpeningModel
    n_features: int = 0
    feature_names: tuple[str | int, ...] | None = None

    def __call__(self, probs: Any, *, features: ArrayLike | None = None, from_logits: bool = False) -> Singles:
        """Compute sharpened probabilities, (n, K) in float32.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            features: (n, M) features, with the same columns as in `pippin.sharpen`.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            (n, K) sharpened probabilities.

        Raises:
            InputError: `probs` or `features` are invalid, or the columns are other classes.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> sharpener(data.probs[300:]).shape
        (4686, 12)
        """
        sharpened: Singles = self.rows(probs, features=features, from_logits=from_logits).array
        return sharpened

    def rows(self, probs: Any, *, features: ArrayLike | None = None, from_logits: bool = False) -> Rows:
        """Compute sharpened rows with the index and the class names of the input.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            features: (n, M) features, with the same columns as in `pippin.sharpen`.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            The rows, in the type of the package's functions.

        Raises:
            InputError: `probs` or `features` are invalid, or the columns are other classes.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> sharpener.rows(data.probs[300:]).n
        4686
        """
        rows = as_rows(probs, from_logits)
        agree(self.classes, rows)
        same_index("probs", rows.index, features=features)
        checked, weights = self._checked_features(features, rows.n), self._weights
        out = np.empty((rows.n, rows.n_classes), dtype=np.float32)

        def work(start: int, stop: int) -> None:
            rows.check(start, stop)
            part = None if checked is None else checked.values[start:stop]
            out[start:stop] = self.model.mixed(weights, rows.block(start, stop), part)

        step = max(1, BLOCK // rows.n_classes)
        run(work, [(start, min(start + step, rows.n)) for start in range(0, rows.n, step)])
        return replace(rows, array=out, logits=False, checked=True)

    def one(self, row: Any, *, features: ArrayLike | None = None) -> Singles:
        """Sharpen one row of K probabilities, with the same bits as in a batch.

        Args:
            row: its K probabilities, not logits.
            features: its M features.

        Returns:
            K sharpened probabilities in float32.

        Raises:
            InputError: the row or the features are invalid.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> sharpener.one(data.probs[300]).shape
        (12,)
        """
        check_names(self.classes, row)
        array = as_array(row)
        if array.shape != (len(self.classes),):
            raise InputError(f"Expected one row of {len(self.classes)} probabilities, got shape {array.shape}")
        if not abs(np.add.reduce(array) - 1) <= SUM_TOLERANCE or np.minimum.reduce(array) < 0:
            as_rows(array[None]).check(0, 1)
        checked = self._checked_features(one_row_of_features(features), 1)
        sharpened: Singles = self.model.mixed(self._weights, array[None], checked and checked.values)[0]
        return sharpened

    def check_unseen(self, rows: Rows, features: ArrayLike | None = None) -> None:
        """Raise an InputError if some of these calibration rows are training rows of the sharpener.

        Args:
            rows: the calibration rows.
            features: their features.

        Raises:
            InputError: more rows are training rows than repeated rows in the data explain.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> sharpener.check_unseen(sharpener.rows(data.probs[300:]))
        """
        prints = row_prints(rows, self._checked_features(features, rows.n))
        (training, new), *others = zip(self.out_of_fold.prints, prints, strict=False)  # the first alone in old files
        counts = [seen_before(training, new), seen_before(new, training)]
        counts += [
            min(seen_before(a, b, True), seen_before(b, a, True)) for a, b in others
        ]  # fresh rows may share them
        repeated = max(counts)
        if repeated:
            raise InputError(
                f"Expected calibration rows that the sharpener was not fitted on, got {repeated:,} of {rows.n:,} "
                "that it was fitted on",
                "split the rows first, or pass sharpen='split'",
            )

    def explain(self) -> tuple[Confusion, ...]:
        """Return the pairs of classes whose confusion changed most, out of fold.

        Returns:
            The pairs, the largest change first.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:1200], data.labels[:1200], classes=data.classes)
        >>> sharpener.explain()[0].true
        'loose_silky_bent'
        """
        return self.out_of_fold.confusions

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the confusions that changed most, before and after sharpening.

        Args:
            ax: Matplotlib axes to draw on; new axes by default.

        Returns:
            The Matplotlib axes.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> axes = sharpener.plot()
        """
        from pippin._plotting.calibration import plot_confusions

        return plot_confusions(self.out_of_fold, ax)

    @property
    def helps(self) -> bool:
        """True if the decrease in cross-entropy, out of fold, is more than twice its standard error."""
        before, after = self.out_of_fold.cross_entropy
        return before - after > 2 * self.out_of_fold.gain_error

    def describe(self) -> str:
        """Describe the training rows and the metrics before and after sharpening in one sentence.

        Returns:
            The sentence.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> sharpener.describe().partition(":")[0]
        'fitted on 300 rows'
        """
        metrics = self.out_of_fold
        (loss, new_loss), (accuracy, new_accuracy) = metrics.cross_entropy, metrics.accuracy
        return (
            f"fitted on {metrics.n:,} rows: cross-entropy {loss:.3f} → {new_loss:.3f}, accuracy {100 * accuracy:.1f} → "
            f"{100 * new_accuracy:.1f}%, out of fold"
        )

    def content(self) -> dict[str, Any]:
        """Return the content of the sharpener's file.

        Returns:
            Numbers, text and lists by name.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> sharpener.content()["kind"]
        'sharpener'
        """
        from pippin._sharpening.serialization import to_content

        return to_content(self)

    def __repr__(self) -> str:
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in self.weights.items())
        return f"Sharpener({self.describe()}; members: {weights})"

    @cached_property
    def _weights(self) -> Singles:
        return np.array(list(self.weights.values()), dtype=np.float32)

    def _checked_features(self, features: "ArrayLike | CheckedFeatures | None", n: int) -> "CheckedFeatures | None":
        if features is None and self.n_features:
            what = f"Expected the {self.n_features} features that the sharpener was fitted with, got none"
            raise InputError(what, "pass features=")
        if features is None:
            return None
        if not self.n_features:
            raise InputError("Expected no features, since the sharpener was fitted without", "leave features= out")
        checked = as_features(features, n)
        if checked.values.shape[1] != self.n_features:
            what = f"Expected {self.n_features} features per row, got {checked.values.shape[1]}"
            raise InputError(what, "pass the columns that the sharpener was fitted with")
        for column, (name, wanted) in enumerate(zip(checked.names or (), self.feature_names or (), strict=False)):
            if name != wanted:
                what = f"Expected the features in the order of the sharpener, got {name!r} in column {column} and not "
                raise InputError(f"{what}{wanted!r}", "select its columns, features[list(sharpener.feature_names)]")
        return checked


class CheckedFeatures(NamedTuple):
    """Checked features, (n, M), and the names of their columns, if they came in a data frame."""

    values: Singles
    names: Names | None = None

    def take(self, rows: NDArray[np.intp]) -> "CheckedFeatures":
        """Return the features of some rows."""
        return CheckedFeatures(self.values[rows], self.names)


def one_row_of_features(features: Any) -> CheckedFeatures | None:
    """Return the features of one row, (1, M), with the names of a pandas Series."""
    if features is None or isinstance(features, CheckedFeatures):
        return features
    values = as_features(np.asarray(as_array(features))[None], 1).values
    index = getattr(features, "index", None)
    return CheckedFeatures(values, None if index is None or callable(index) else tuple(index))


def as_features(features: "ArrayLike | CheckedFeatures", n: int) -> CheckedFeatures:
    """Return features as float32, (n, M); raise an InputError for another shape, NaN or numbers of LARGEST or more."""
    if isinstance(features, CheckedFeatures):
        return features
    array = as_array(features)
    if array.ndim != 2 or len(array) != n or not array.shape[1]:
        raise InputError(f"Expected features of shape ({n}, M), got shape {array.shape}", "pass one row per object")
    with np.errstate(over="ignore"):
        checked = np.ascontiguousarray(array, dtype=np.float32)
    if not (np.abs(checked) < LARGEST).all():  # False for NaN too
        what = f"Expected features that are numbers below {LARGEST:g}, got NaN, infinity or more"
        raise InputError(what, "scale them, or leave those rows out")
    names = column_names(features)
    return CheckedFeatures(checked, None if names == tuple(range(checked.shape[1])) else names)


def row_prints(rows: Rows, features: CheckedFeatures | None = None) -> Prints:
    """Compute fingerprints of each row, (2, n), or (3, n) with features.

    The first is of all probabilities to about four digits: a row has the same one as float64, as float32 and computed
    from logits. The second is of the largest probabilities on a coarse grid, which a row usually keeps when it is
    rounded, as in a CSV file or in half precision. The third is of the features, to about four digits.
    """
    step = max(1, BLOCK // rows.n_classes)
    parts = []
    for start in range(0, rows.n, step):
        block = rows.block(start, start + step)
        parts.append((fingerprints(_four_digits(block)), rounded_prints(block)))
    prints = list(map(np.concatenate, zip(*parts, strict=True)))
    return np.stack(prints if features is None else [*prints, fingerprints(_four_digits(features.values))])


def _four_digits(numbers: Floats) -> Singles:
    """Round to 12 of the 23 bits of the mantissa of float32."""
    bits = numbers.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(1 << 10)) & np.uint32(0xFFFFF800)).view(np.float32)
