"""The rows of X and y: checked, split in two, cut, and turned into probabilities of named classes."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, has_fit_parameter

from pippin._runtime.errors import InputError
from pippin._validation.index import same_index
from pippin._validation.rows import row_index

RowIndices = NDArray[np.intp]


def as_targets(X: Any, y: Any) -> NDArray[Any]:
    """y as one label for each row of X."""
    if y is None:
        raise InputError(
            "A conformal classifier requires y to be passed, but the target y is None", "pass one label per row"
        )
    same_index("X", row_index(X), y=y)
    labels = np.asarray(column_or_1d(y, warn=True))
    assert_all_finite(labels, input_name="y")
    check_consistent_length(X, labels)
    check_classification_targets(labels)
    return labels


def several(y: NDArray[Any]) -> NDArray[Any]:
    """The classes in y, sorted; at least two."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise InputError(f"Expected at least two classes, got {len(classes)} class", "add rows of another class")
    return classes


def split(cv: Any, X: Any, y: NDArray[Any], seed: int, params: dict[str, Any]) -> tuple[RowIndices, RowIndices]:
    """Indices of the rows to fit on and of those to calibrate on, which share none.

    >>> fitted, held_out = split(0.25, np.zeros((8, 1)), np.arange(8), 0, {})
    >>> len(held_out), len(np.union1d(fitted, held_out))
    (2, 8)
    """
    n = len(y)
    if isinstance(cv, Real) and 0 < float(cv) < 1:
        order = np.random.default_rng([seed, 0]).permutation(n)
        count = min(max(round(float(cv) * n), 1), n - 1)
        return np.sort(order[count:]), np.sort(order[:count])
    if isinstance(cv, str | Real) or not (hasattr(cv, "__iter__") or hasattr(cv, "split")):
        raise InputError(
            f"Expected cv as 'prefit', a fraction between 0 and 1, or a splitter, got {cv!r}",
            "cv=0.25 holds a quarter of the rows out",
        )
    train, held_out = (np.arange(n)[part] for part in next(iter(check_cv(cv).split(X, y, **params))))
    both = np.intersect1d(train, held_out)
    if len(both):
        raise InputError(f"Expected rows to fit on or to calibrate on, got row {both[0]} for both", "change cv")
    return train, held_out


def fold_of_rows(cv: Any, X: Any, y: NDArray[Any], seed: int, params: dict[str, Any]) -> RowIndices:
    """The fold of each row, numbered from 0: as many as `cv` says, at random, or a splitter's test parts.

    >>> np.bincount(fold_of_rows(3, np.zeros((8, 1)), np.arange(8), 0, {}))
    array([3, 3, 2])
    """
    n = len(y)
    if isinstance(cv, Integral) and int(cv) >= 2:
        if n < int(cv):
            raise InputError(f"Expected at least as many rows as folds, got n_samples={n} for cv={cv}", "lower cv")
        return np.random.default_rng([seed, 0]).permutation(np.arange(n) % int(cv))
    if isinstance(cv, str | Real) or not (hasattr(cv, "__iter__") or hasattr(cv, "split")):
        raise InputError(
            f"Expected cv as a number of folds of at least 2 or a splitter, got {cv!r}", "cv=5 makes five folds"
        )
    folds = np.full(n, -1)
    for f, (train, test) in enumerate(check_cv(cv).split(X, y, **params)):
        if (folds[test] >= 0).any() or len(np.union1d(train, test)) < n or len(np.intersect1d(train, test)):
            raise InputError(
                f"Expected folds that share no row and leave all others to fit on, got another split number {f}",
                "pass for example KFold(5, shuffle=True)",
            )
        folds[test] = f
    if (folds < 0).any():
        raise InputError(f"Expected every row in one fold, got row {int(folds.argmin())} in none", "change cv")
    return folds


def cut(value: Any, rows: RowIndices, n: int) -> Any:
    """A parameter of `fit` for some of the n rows, if it has a value for each of them."""
    if isinstance(value, str | dict) or not hasattr(value, "__len__") or len(value) != n:
        return value
    return _safe_indexing(value, rows)


def fitted(estimator: Any, X: Any, y: NDArray[Any], train: RowIndices, params: dict[str, Any], seed: int | None) -> Any:
    """A clone fitted on some of the rows, with seeds of its own unless `seed` is None."""
    own = {name: cut(value, train, len(y)) for name, value in params.items()}
    for name, weights in own.items():
        if name.endswith("sample_weight") and not np.any(weights) and np.any(params[name]):
            raise InputError(
                f"Expected a class with weight among the {len(train)} rows to fit on, got weights of 0 only",
                "give weight to more rows, or pass another random_state or cv",
            )
    unfitted = clone(estimator) if seed is None else seeded(clone(estimator), seed)
    return unfitted.fit(_safe_indexing(X, train), y[train], **own)


def weight_name(estimator: Any) -> str:
    """The parameter of `fit` that takes the weights: the estimator's own, or that of a pipeline's last step."""
    last = getattr(estimator, "steps", [("", estimator)])[-1]
    if not has_fit_parameter(last[1], "sample_weight"):
        raise InputError(
            f"Expected an estimator whose fit takes sample_weight, got {type(last[1]).__name__}",
            "leave the weights out",
        )
    return f"{last[0]}__sample_weight" if last[0] else "sample_weight"


def seeded(estimator: Any, seed: int) -> Any:
    """The estimator with seeds wherever its random_state is None, its steps and parts included."""
    empty = [k for k, v in sorted(estimator.get_params().items()) if v is None and k.split("__")[-1] == "random_state"]
    draws = np.random.default_rng([seed, 3]).integers(2**31, size=len(empty))
    return estimator.set_params(**dict(zip(empty, draws.tolist(), strict=True)))


def probabilities(estimator: Any, classes: NDArray[Any], X: Any) -> NDArray[Any]:
    """The estimator's probabilities in columns for `classes`; a class it never saw has 0."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"Expected a classifier with predict_proba, got {type(estimator).__name__}: "
            "wrap it in sklearn.calibration.CalibratedClassifierCV first."
        )
    probs = np.asarray(estimator.predict_proba(X))
    given, own = classes.tolist(), np.asarray(estimator.classes_).tolist()
    if own == given:
        return probs
    place = {name: column for column, name in enumerate(given)}
    full = np.zeros((len(probs), len(classes)), dtype=probs.dtype)
    full[:, [place[name] for name in own]] = probs  # some estimators do not sort their classes
    return full


def as_names(classes: NDArray[Any]) -> list[Any]:
    """Classes as text or whole numbers, which is what names can be in a predictor's file.

    >>> as_names(np.array([False, True])), as_names(np.array([0.5, 1.0]))
    ([0, 1], ['0.5', '1.0'])
    """
    found: list[Any] = classes.tolist()
    if all(isinstance(c, int) or (isinstance(c, float) and c.is_integer()) for c in found):
        return [int(c) for c in found]
    return [str(c) for c in found]


def as_seed(random_state: Any) -> int:
    """A seed from what scikit-learn calls a random state; None is fresh entropy, not the global generator."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**32))
    if isinstance(random_state, Integral) and int(random_state) >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    raise InputError(
        f"Expected random_state as None, a whole number of at least 0 or a generator, got {random_state!r}",
        "random_state=0 makes results repeat",
    )
