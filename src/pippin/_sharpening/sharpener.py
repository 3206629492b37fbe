"""Sharpener: a fitted map from the probabilities of a classifier to recalibrated probabilities."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.card import Card, listed_names, promise_card
from pippin._conformal.serialization import SavedDataclass
from pippin._runtime.arguments import checked_methods
from pippin._runtime.arrays import Classes, Floats
from pippin._runtime.errors import InputError
from pippin._runtime.provenance import Provenance
from pippin._runtime.threads import run
from pippin._sharpening.features import Singles
from pippin._sharpening.model import SharpeningModel
from pippin._sharpening.pooling import Pool
from pippin._validation.fingerprints import Prints, fingerprints, rounded_prints, seen_before
from pippin._validation.frames import Names, as_frame, column_names, row_names
from pippin._validation.index import same_index
from pippin._validation.labels import as_rows_of_stack
from pippin._validation.rows import (
    SUM_TOLERANCE,
    Rows,
    as_array,
    as_rows,
    column_order,
    row_of_classes,
    select_columns,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LARGEST = 1e15  # bound on the absolute value of features, so that squares do not overflow in float32
BLOCK = 1 << 17  # number of probabilities per block of rows: it fits into the cache, with little overhead per block


class Confusion(NamedTuple):
    """Share of the rows of class `true` that are classified as `predicted`, before and after sharpening.

    The share after sharpening is computed out of fold: by maps that were not fitted on the same rows.

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
    """Metrics before and after sharpening (recalibration), on rows that the evaluated maps were not fitted on.

    For a stack of several models, those before sharpening are of the best model alone.

    Attributes:
        n: the number of training rows.
        cross_entropy: mean cross-entropy before and after; smaller is better.
        accuracy: accuracy before and after.
        gain_error: standard error of the decrease in mean cross-entropy.
        confusions: the pairs of classes whose confusion changed most.
        prints: fingerprints (hashes) of all training rows, see `row_prints`, by which `check_unseen` recognizes them.
    """

    n: int
    cross_entropy: tuple[float, float]
    accuracy: tuple[float, float]
    gain_error: float
    confusions: tuple[Confusion, ...]
    prints: Prints


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class Sharpener(SavedDataclass):
    """Fitted map from a classifier's probabilities to recalibrated ones; `pippin.sharpen` returns it.

    `pippin.models.stack` returns one with the probabilities of several classifiers as input: where `probs` is a matrix
    here, pass a list of matrices to a stack, or an (M, n, K) array.

    Attributes:
        classes: the names of the columns, in their order.
        weights: the sharpener is a weighted mean of several recalibration maps; these are their weights, by name.
        out_of_fold: metrics before and after sharpening, each row sharpened by maps that were not fitted on it.
        model: the fitted parameters of the maps.
        n_features: the number of features that the map needs in addition to the probabilities.
        feature_names: the names of these features, if they were columns of a data frame; otherwise None.
        provenance: data files with checksums, date, author, command and versions; None if not recorded.
        pool: for a stack, the weight of each classifier; None for a sharpener of one classifier.

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
    provenance: Provenance | None = None
    pool: Pool | None = None

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
        """Compute sharpened probabilities, with the index and the column names of the input, for use inside pippin.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            features: (n, M) features, with the same columns as in `pippin.sharpen`.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            The sharpened probabilities as `Rows`, the internal type of validated probabilities.

        Raises:
            InputError: `probs` or `features` are invalid, or the columns are other classes.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> sharpener.rows(data.probs[300:]).n
        4686
        """
        rows = select_columns(self.classes, as_rows_of_stack(probs, from_logits))
        self._check_models(rows)
        same_index("probs", rows.index, features=features)
        checked = self._checked_features(features, rows.n)
        out = np.empty((rows.n, rows.n_classes), dtype=np.float32)

        def work(start: int, stop: int) -> None:
            rows.check(start, stop)
            part = None if checked is None else checked.values[start:stop]
            out[start:stop] = self._mixed(rows.block(start, stop), part)

        step = max(1, BLOCK // rows.n_classes)
        run(work, [(start, min(start + step, rows.n)) for start in range(0, rows.n, step)])
        return replace(rows, array=out, logits=False, checked=True)

    def one(self, row: Any, *, features: ArrayLike | None = None) -> Singles:
        """Sharpen the probabilities of one object; the result equals that of a batch to the last bit.

        Args:
            row: the K probabilities, not logits; for a stack a list of rows, one per model.
            features: the M features of the row.

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
        array = self.one_row(row)
        for each in array if array.ndim == 2 else (array,):
            if not abs(np.add.reduce(each) - 1) <= SUM_TOLERANCE or np.minimum.reduce(each) < 0:
                as_rows(each[None]).check(0, 1)
        checked = self._checked_features(one_row_of_features(features), 1)
        sharpened: Singles = self._mixed(array[None], checked and checked.values)[0]
        return sharpened

    def one_row(self, row: Any) -> NDArray[Any]:
        """Convert the input for one object to an array: K probabilities, (K,), or for a stack of M models (M, K).

        Args:
            row: the probabilities; for a stack a list of rows, one per model.

        Returns:
            The array, with columns in the order of the classes.

        Raises:
            InputError: the input has another shape.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> sharpener.one_row(data.probs[300]).shape
        (12,)
        """
        models = [row] if self.pool is None or not hasattr(row, "__iter__") else list(row)
        arrays = [row_of_classes(self.classes, one) for one in models]
        if [array.shape for array in arrays] != [(len(self.classes),)] * self.n_models:
            rows = "one row" if self.pool is None else f"{self.n_models} rows, one per model,"
            got = arrays[0].shape if len(arrays) == 1 else [array.shape for array in arrays]
            raise InputError(f"Expected {rows} of {len(self.classes)} probabilities, got shape {got}")
        return arrays[0] if self.pool is None else np.stack(arrays)

    def check_unseen(self, rows: Rows, features: ArrayLike | None = None) -> None:
        """Raise an InputError if the sharpener was fitted on some of these calibration rows.

        Args:
            rows: the calibration rows, before sharpening.
            features: the (n, M) features of these rows, if the sharpener uses features.

        Raises:
            InputError: training rows occur among these rows more often than equal rows occur by chance.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:300], data.labels[:300])
        >>> sharpener.check_unseen(sharpener.rows(data.probs[300:]))
        """
        prints = row_prints(rows, self._checked_features(features, rows.n))
        # Files of version 0.1 have only the first fingerprint (hash) of each row, so the others may be missing.
        (training, new), *others = zip(self.out_of_fold.prints, prints, strict=False)
        counts = [seen_before(training, new), seen_before(new, training)]
        # The other fingerprints are coarser, and different rows may share them. So take the smaller of two counts: new
        # rows that are among the training rows, and training rows that are among the new rows.
        counts += [min(seen_before(a, b, True), seen_before(b, a, True)) for a, b in others]
        repeated = max(counts)
        if repeated:
            got = f"{repeated:,} of {rows.n:,} that it was fitted on"
            remedy = "split the rows first, or pass sharpen='split'"
            raise InputError(f"Expected calibration rows that the sharpener was not fitted on, got {got}", remedy)

    def explain(self) -> tuple[Confusion, ...]:
        """Return the confusions (shares of a class classified as another) that sharpening changed most.

        Returns:
            At most 20 pairs of classes with their shares before and after sharpening, the largest change first. Each
            row was sharpened by maps that were not fitted on it.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharpener = pippin.sharpen(data.probs[:1200], data.labels[:1200], classes=data.classes)
        >>> sharpener.explain()[0].true
        'loose_silky_bent'
        """
        return self.out_of_fold.confusions

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the confusions (shares of a class classified as another) that sharpening changed most.

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
    def n_models(self) -> int:
        """Number of models whose probabilities are the input; 1 unless the sharpener is a stack."""
        return 1 if self.pool is None else len(self.pool.weights)

    @property
    def helps(self) -> bool:
        """True if sharpening decreases the out-of-fold cross-entropy by more than twice its standard error."""
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
        models = ""
        if self.pool is not None:
            weights = ", ".join(f"{weight:.2f}" for weight in self.pool.weights)
            models = f"of {self.n_models} models with weights {weights}, "
        return (
            f"{models}fitted on {metrics.n:,} rows: cross-entropy {loss:.3f} → {new_loss:.3f}, accuracy "
            f"{100 * accuracy:.1f} → {100 * new_accuracy:.1f}%, out of fold"
        )

    def _promise(self) -> Card:
        return promise_card(
            what=f"A sharpener: a map that recalibrates the probabilities of {len(self.classes):,} classes: "
            f"{listed_names(self.classes)}.",
            guarantee="None by itself; a predictor calibrated on other rows has the guarantee of its kind.",
            level="None.",
            condition="None.",
            variation="Not applicable.",
            shift="",
            limits="That its probabilities are calibrated.",
            rows=f"None; it is {self.describe()}.",
        )

    def content(self) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `pippin.load` rebuilds the sharpener.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.

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

    def _mixed(self, block: Floats, features: Singles | None) -> Singles:
        """Sharpen a block of rows; for a stack, pool the probabilities of its models first."""
        return self.model.mixed(self.weight_array, block if self.pool is None else self.pool(block), features)

    def _check_models(self, rows: Rows) -> None:
        """Raise an InputError unless the rows hold one matrix, or for a stack a matrix of each model."""
        shape = rows.array.shape[1:-1]
        if shape == (() if self.pool is None else (self.n_models,)):
            return
        got = f"{shape[0]} matrices" if shape else "one matrix"
        if self.pool is None:
            what = f"Expected one matrix of probabilities for a sharpener of one model, got {got}"
            raise InputError(what, "fit a stack with pippin.models.stack")
        what = f"Expected the probabilities of {self.n_models} models for a stack, got {got}"
        raise InputError(what, "pass a list with the matrix of each model")

    @cached_property
    def weight_array(self) -> Singles:
        """Weight of each map in the mixture of maps that this sharpener is, in the order of `weights`."""
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
        wanted = range(self.n_features) if self.feature_names is None else self.feature_names
        order = None if checked.names is None else column_order(wanted, checked.names, "feature")
        if order is not None:
            checked = CheckedFeatures(np.take(checked.values, order, axis=1), tuple(wanted))
        if checked.values.shape[1] != self.n_features:
            what = f"Expected {self.n_features} features per row, got {checked.values.shape[1]}"
            raise InputError(what, "pass the columns that the sharpener was fitted with")
        return checked


class CheckedFeatures(NamedTuple):
    """Validated features, (n, M), and the names of their columns (None if they did not come from a data frame)."""

    values: Singles
    names: Names | None = None

    def take(self, rows: NDArray[np.intp]) -> "CheckedFeatures":
        """Return the features of the rows with these indices."""
        return CheckedFeatures(self.values[rows], self.names)


def one_row_of_features(features: Any) -> CheckedFeatures | None:
    """Validate the features of a single row; return them as (1, M). The index of a pandas Series gives column names."""
    if features is None or isinstance(features, CheckedFeatures):
        return features
    return CheckedFeatures(as_features(as_array(features)[None], 1).values, row_names(features))


def as_features(features: "ArrayLike | CheckedFeatures", n: int) -> CheckedFeatures:
    """Validate features of n rows: shape (n, M), absolute values below `LARGEST`; convert them to float32."""
    if isinstance(features, CheckedFeatures):
        return features
    frame = as_frame(features)
    array = as_array(frame)
    if array.ndim != 2 or len(array) != n or not array.shape[1]:
        raise InputError(f"Expected features of shape ({n}, M), got shape {array.shape}", "pass one row per object")
    with np.errstate(over="ignore"):
        checked = np.ascontiguousarray(array, dtype=np.float32)
    if not (np.abs(checked) < LARGEST).all():  # False for NaN, too
        what = f"Expected features that are numbers below {LARGEST:g}, got NaN, infinity or more"
        raise InputError(what, "scale them, or leave those rows out")
    names = column_names(frame)
    return CheckedFeatures(checked, None if names == tuple(range(checked.shape[1])) else names)


def row_prints(rows: Rows, features: CheckedFeatures | None = None) -> Prints:
    """Compute two fingerprints (hashes) of each row, (2, n); with features three, (3, n).

    The first is computed from all probabilities, rounded to about four digits: it is equal for a row in float64, in
    float32 and computed from logits. The second is computed from the largest probabilities on a coarse grid, and
    usually remains equal if a row is rounded, as in a CSV file or in half precision. The third is computed from the
    features, rounded to about four digits.
    """
    step = max(1, BLOCK // rows.n_classes)
    parts = []
    for start in range(0, rows.n, step):
        block = rows.block(start, start + step)
        block = block.reshape(len(block), -1)  # joins the models of a stack
        parts.append((fingerprints(_four_digits(block)), rounded_prints(block)))
    prints = list(map(np.concatenate, zip(*parts, strict=True)))
    return np.stack(prints if features is None else [*prints, fingerprints(_four_digits(features.values))])


def _four_digits(numbers: Floats) -> Singles:
    """Round float32 numbers to 12 bits of their mantissa, about four digits."""
    bits = numbers.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(1 << 10)) & np.uint32(0xFFFFF800)).view(np.float32)
