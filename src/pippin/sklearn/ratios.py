"""Likelihood ratios from a classifier that learns to tell two samples apart."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from pippin._runtime.errors import InputError
from pippin._shift.label_shift import likelihood_ratios
from pippin.sklearn.rows import as_seed, seeded

Vector = NDArray[np.float64]


def estimate_ratios(
    X_source: Any,
    X_target: Any,
    classifier: Any = None,
    cv: int = 5,
    random_state: Any = None,
) -> tuple[Vector, Vector]:
    """(w_source, w_target): dP_target(x)/dP_source(x) of each row, for `pippin.calibrate(weights=…)`.

    A classifier learns which sample a row is from; every row's ratio comes from a model that
    did not see it. The ratios are estimates: if they are wrong by w' − w, coverage can fall
    below 1 − alpha by up to half the mean of `|w' − w|` over the source (Lei and Candès 2021).

    Args:
        X_source: rows like those that calibrate.
        X_target: rows like those to predict; no labels are needed.
        classifier: with `predict_proba`, calibrated rather than sharp; None is
            `LogisticRegression(max_iter=1000)`.
        cv: the number of folds.
        random_state: a seed or generator for the folds, and for a classifier that has none.

    >>> rng = np.random.default_rng(0)
    >>> w_source, w_target = estimate_ratios(rng.normal(0, 1, (500, 1)), rng.normal(1, 1, (300, 1)), random_state=0)
    >>> bool(w_source.mean() < w_target.mean())
    True
    """
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or cv < 2:
        raise InputError(f"Expected cv as a number of folds of at least 2, got {cv!r}", "cv=5 makes five folds")
    source, target = (_as_features(rows, name) for rows, name in ((X_source, "X_source"), (X_target, "X_target")))
    _check_alike(source, target)
    n_source, n_target = source.shape[0], target.shape[0]
    if min(n_source, n_target) < cv:
        raise InputError(
            f"Expected at least {cv} rows of each sample, one per fold, got {n_source} and {n_target}", "lower cv"
        )
    seed = as_seed(random_state)
    model = seeded(clone(LogisticRegression(max_iter=1000) if classifier is None else classifier), seed)
    folds = StratifiedKFold(int(cv), shuffle=True, random_state=seed % 2**32)
    is_target = np.repeat([0, 1], [n_source, n_target])
    try:
        probs = cross_val_predict(model, _stacked(source, target), is_target, cv=folds, method="predict_proba")
    except ValueError as error:
        for rows, name in ((source, "X_source"), (target, "X_target")):
            row = _first_not_finite(rows)
            if row is not None:
                raise InputError(
                    f"Row {row} of {name} has a feature that is NaN or infinite, which {type(model).__name__} does not "
                    "take",
                    "fill it in, leave the row out, or pass a classifier that takes it",
                ) from error
        raise
    ratios = likelihood_ratios(probs[:, 1], n_source, n_target)
    return ratios[:n_source], ratios[n_source:]


def _as_features(rows: Any, name: str) -> Any:
    """A frame or a sparse matrix as it is, anything else as an array."""
    try:
        found = np.asarray(rows) if _container(rows) == "array" else rows
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"Expected {name} as rows of features, got {type(rows).__name__}", "pass as many for each row"
        ) from error
    # texts may come one by one, for a pipeline that reads them
    if not found.shape or (len(found.shape) == 1 and found.dtype.kind in "fiub"):
        raise InputError(
            f"Expected {name} as rows of features, (n, d), got shape {found.shape}",
            "reshape a single feature to (n, 1)",
        )
    return found


def _check_alike(source: Any, target: Any) -> None:
    """Raises a ValueError where the two samples do not have the same columns."""
    kinds = [_container(rows) for rows in (source, target)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"Expected both samples in one kind of container, got {type(source).__name__} and {type(target).__name__}",
            "convert one of them",
        )
    if source.shape[1:] != target.shape[1:]:
        raise InputError(
            f"Expected the same features in both samples, got shapes {source.shape} and {target.shape}",
            "pass the same columns",
        )
    names = (getattr(rows, "columns", ()) for rows in (source, target))
    for column, (own, other) in enumerate(zip(*names, strict=True)):
        if own != other:
            raise InputError(
                f"Column {column} is {own!r} in X_source and {other!r} in X_target",
                "select the same columns in one order, X_target[X_source.columns]",
            )


def _container(rows: Any) -> str:
    """In which of the ways of `_stacked` these rows are put together."""
    return next((kind for kind in ("iloc", "vstack", "tocsr") if hasattr(rows, kind)), "array")


def _stacked(first: Any, second: Any) -> Any:
    """The rows of both, in the container that they came in."""
    kind = _container(first)
    if kind == "iloc":
        import pandas

        return pandas.concat([first, second], ignore_index=True)
    if kind == "vstack":  # polars
        return first.vstack(second)
    if kind == "tocsr":
        from scipy import sparse

        return sparse.vstack([first, second], format="csr")
    return np.concatenate([first, second])


def _first_not_finite(rows: Any) -> int | None:
    """The first row that is not all finite numbers; None, if there is none, or where features are no numbers."""
    try:
        if hasattr(rows, "tocsr"):
            entries = rows.tocoo()
            bad = np.sort(entries.row[~np.isfinite(entries.data)])
        else:
            values = np.asarray(rows, dtype=np.float64)
            bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    except (TypeError, ValueError):
        return None
    return int(bad[0]) if len(bad) else None
