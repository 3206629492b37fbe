"""Functions on the rows of X and y: validation, splits, fits, probabilities, and detection of training rows."""

import inspect
from collections.abc import Iterator
from math import sqrt
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, has_fit_parameter

from pippin._runtime.arrays import Codes
from pippin._runtime.errors import InputError, warn
from pippin._validation.fingerprints import fingerprints, seen_before
from pippin._validation.frames import column_names, row_index
from pippin._validation.index import same_index
from pippin._validation.labels import Labelled
from pippin._validation.plausibility import warn_if_implausible
from pippin._validation.rows import as_rows, select_columns

KEEPS_ROWS = ("_fit_X", "X_train_", "support_vectors_", "X_")  # attributes of estimators that store training rows
HELD_OUT = ("oob_score_", "best_score_", "best_validation_score_")  # attributes with held-out accuracies


def as_targets(X: Any, y: Any) -> NDArray[Any]:
    """Validate y, one label for each row of X, and return it as an array."""
    if y is None:
        raise InputError("This classifier requires y to be passed, but the target y is None", "pass one label per row")
    same_index("X", row_index(X), y=y)
    labels = np.asarray(column_or_1d(y, warn=True))
    assert_all_finite(labels, input_name="y")
    check_consistent_length(X, labels)
    check_classification_targets(labels)
    return labels


def classes_in(y: NDArray[Any]) -> NDArray[Any]:
    """Return the sorted classes in y; an InputError if there are fewer than two."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise InputError(f"Expected at least two classes, got {len(classes)} class", "add rows of another class")
    return classes


def split(cv: Any, X: Any, y: NDArray[Any], seed: int, params: dict[str, Any]) -> tuple[Codes, Codes]:
    """Split rows by `cv` into the indices of training rows and of calibration rows.

    >>> fitted, held_out = split(0.25, np.zeros((8, 1)), np.arange(8), 0, {})
    >>> len(held_out), len(np.union1d(fitted, held_out))
    (2, 8)
    """
    n = len(y)
    if isinstance(cv, Real) and 0 < float(cv) < 1:
        order = np.random.default_rng([seed, 0]).permutation(n)
        count = min(max(round(float(cv) * n), 1), n - 1)
        return np.sort(order[count:]), np.sort(order[:count])
    others = "'prefit', a fraction between 0 and 1,"
    splits = _splits(cv, X, y, params, others, "cv=0.25 holds a quarter of the rows out")
    train, held_out = (np.arange(n)[part] for part in next(splits))
    both = np.intersect1d(train, held_out)
    if len(both):
        raise InputError(f"Expected rows to fit on or to calibrate on, got row {both[0]} for both", "change cv")
    return train, held_out


def fold_of_rows(cv: Any, X: Any, y: NDArray[Any], seed: int, params: dict[str, Any]) -> Codes:
    """Return the fold of each row, numbered from 0: `cv` random folds, or the test parts of a splitter.

    >>> np.bincount(fold_of_rows(3, np.zeros((8, 1)), np.arange(8), 0, {}))
    array([3, 3, 2])
    """
    n = len(y)
    if isinstance(cv, Integral) and int(cv) >= 2:
        if n < int(cv):
            raise InputError(f"Expected at least as many rows as folds, got n_samples={n} for cv={cv}", "lower cv")
        return np.random.default_rng([seed, 0]).permutation(np.arange(n) % int(cv))
    folds = np.full(n, -1)
    splits = _splits(cv, X, y, params, "a number of folds of at least 2", "cv=5 makes five folds")
    for f, (train, test) in enumerate(splits):
        if (folds[test] >= 0).any() or len(np.union1d(train, test)) < n or len(np.intersect1d(train, test)):
            what = f"Expected folds that share no row and leave all others to fit on, got another split number {f}"
            raise InputError(what, "pass for example KFold(5, shuffle=True)")
        folds[test] = f
    if (folds < 0).any():
        raise InputError(f"Expected every row in one fold, got row {int(folds.argmin())} in none", "change cv")
    return folds


def _splits(cv: Any, X: Any, y: NDArray[Any], params: dict[str, Any], others: str, remedy: str) -> Iterator[Any]:
    """Return the splits of a splitter or a list; `others` names the other valid values of cv in error messages."""
    if isinstance(cv, str | Real) or not (hasattr(cv, "__iter__") or hasattr(cv, "split")):
        raise InputError(f"Expected cv as {others} or a splitter, got {cv!r}", remedy)
    return iter(check_cv(cv).split(X, y, **params))


def cut(value: Any, rows: Codes, n: int) -> Any:
    """Reduce a parameter of `fit` to some rows if it has one value for each of the n rows; else return it unchanged."""
    if isinstance(value, str | dict) or not hasattr(value, "__len__") or len(value) != n:
        return value
    return _safe_indexing(value, rows)


def fitted(estimator: Any, X: Any, y: NDArray[Any], train: Codes, params: dict[str, Any], seed: int | None) -> Any:
    """Fit a clone of the estimator on the training rows, with random states derived from `seed` unless it is None."""
    params_of_rows = {name: cut(value, train, len(y)) for name, value in params.items()}
    for name, weights in params_of_rows.items():
        if name.endswith("sample_weight") and not np.any(weights) and np.any(params[name]):
            what = f"Expected a class with weight among the {len(train)} rows to fit on, got weights of 0 only"
            raise InputError(what, "give weight to more rows, or pass another random_state or cv")
    unfitted = clone(estimator) if seed is None else seeded(clone(estimator), seed)
    return unfitted.fit(_safe_indexing(X, train), y[train], **params_of_rows)


def weight_name(estimator: Any) -> str:
    """Return the name of the weight parameter of `fit`, for an estimator or the last step of a pipeline."""
    last = getattr(estimator, "steps", [("", estimator)])[-1]
    if not has_fit_parameter(last[1], "sample_weight"):
        what = f"Expected an estimator whose fit takes sample_weight, got {type(last[1]).__name__}"
        raise InputError(what, "leave the weights out")
    return f"{last[0]}__sample_weight" if last[0] else "sample_weight"


def seeded(estimator: Any, seed: int) -> Any:
    """Set each `random_state` that is None to a number derived from `seed`, also in nested estimators; return it."""
    empty = [k for k, v in sorted(estimator.get_params().items()) if v is None and k.split("__")[-1] == "random_state"]
    draws = np.random.default_rng([seed, 3]).integers(2**31, size=len(empty))
    return estimator.set_params(**dict(zip(empty, draws.tolist(), strict=True)))


def probabilities(estimator: Any, classes: NDArray[Any], X: Any) -> NDArray[Any]:
    """Predict probabilities with one column for each of `classes`; 0 for classes the estimator was not fitted on."""
    if not hasattr(estimator, "predict_proba"):
        what = f"Expected a classifier with predict_proba, got {type(estimator).__name__}"
        raise TypeError(f"{what}: wrap it in sklearn.calibration.CalibratedClassifierCV first.")
    predicted = estimator.predict_proba(X)
    if column_names(predicted) is not None:
        predicted = select_columns(as_names(np.asarray(estimator.classes_)), as_rows(predicted)).array
    probs = np.asarray(predicted)
    if np.array_equal(estimator.classes_, classes):
        return probs
    full = np.zeros((len(probs), len(classes)), dtype=probs.dtype)
    full[:, np.searchsorted(classes, estimator.classes_)] = probs  # `estimator.classes_` may be unsorted
    return full


def as_names(classes: NDArray[Any]) -> list[Any]:
    """Convert class labels to text or integers, the types that predictor files can store.

    >>> as_names(np.array([False, True])), as_names(np.array([0.5, 1.0]))
    ([0, 1], ['0.5', '1.0'])
    """
    values: list[Any] = classes.tolist()
    whole = all(isinstance(c, int) or (isinstance(c, float) and c.is_integer()) for c in values)
    return [int(c) if whole else str(c) for c in values]


def as_seed(random_state: Any) -> int:
    """Return an integer seed for a `random_state`; None uses fresh entropy, not NumPy's global generator."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**32))
    if isinstance(random_state, Integral) and int(random_state) >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    what = f"Expected random_state as None, a whole number of at least 0 or a generator, got {random_state!r}"
    raise InputError(what, "pass for example 0, so that results repeat")


def refitting_search() -> str | None:
    """Return the class name of the search, such as GridSearchCV, that refits its best candidate now; None without one.

    A search gives the estimator that it fits no sign of itself. So look for it among the callers: it is the estimator
    whose `best_estimator_` is being fitted.
    """
    fitting: list[Any] = []
    frame = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, BaseEstimator):
            if any(vars(caller).get("best_estimator_") is one for one in fitting):
                return type(caller).__name__
            fitting.append(caller)
        frame = frame.f_back
    return None


def check_unseen(estimator: Any, X: Any, data: Labelled) -> None:
    """Reject calibration rows that the estimator stores from its training; warn if rows are suspicious.

    Args:
        estimator: a fitted estimator.
        X: the calibration rows.
        data: their probabilities and labels.

    Raises:
        InputError: the estimator was fitted on some of these rows.
    """
    parts = _parts(estimator, X)
    for part, rows in parts:
        for name in KEEPS_ROWS:
            kept = getattr(part, name, None)
            if kept is not None and np.size(kept) and (seen := seen_before(fingerprints(kept), fingerprints(rows))):
                what = f"got {seen} of {data.rows.n} that its {type(part).__name__} keeps from its training"
                raise InputError(f"Expected rows that the estimator was not fitted on, {what}", "use other rows")
    n, accuracy = data.rows.n, float(np.mean(data.rows.array.argmax(axis=1) == data.labels))
    known = next((float(v) for part, _ in parts for name in HELD_OUT if (v := getattr(part, name, None))), None)
    if known is not None and 0 < known < 1 and accuracy - known > max(0.02, 5 * sqrt(known * (1 - known) / n)):
        warn(
            f"The estimator is right on {100 * accuracy:.3g}% of the calibration rows, but only on "
            f"{100 * known:.3g}% of rows that it was not fitted on, so it was probably fitted on these: calibrate "
            "on other rows."
        )
    else:
        warn_if_implausible(data)


def _parts(estimator: Any, X: Any) -> list[tuple[Any, Any]]:
    """Return pairs (estimator, its input rows) of the estimator and of its fitted nested estimators."""
    parts = [(estimator, X)]
    if hasattr(estimator, "steps"):
        rows = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        return parts + _parts(estimator.steps[-1][1], rows)
    inside = [getattr(estimator, name, None) for name in ("estimator", "best_estimator_", "base_estimator_")]
    for name in ("estimators_", "calibrated_classifiers_"):
        inside += members if isinstance(members := getattr(estimator, name, None), list) else []
    for part in inside:
        if hasattr(part, "classes_") or hasattr(part, "X_train_"):  # fitted, not a template to be cloned
            parts += _parts(part, X)
    return parts
