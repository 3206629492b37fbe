"""Likelihood ratios for covariate shift, from a classifier that separates two samples."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from pippin._runtime.arguments import is_whole
from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError
from pippin._shift.label_shift import likelihood_ratios
from pippin._validation.frames import Names, as_frame, column_names
from pippin.sklearn.rows import as_seed, seeded


def estimate_ratios(
    X_source: Any, X_target: Any, classifier: Any = None, cv: int = 5, random_state: Any = None
) -> tuple[Vector, Vector]:
    """Estimate the likelihood ratios dP_target(x)/dP_source(x) of two samples, for `weights=` of `pippin.calibrate`.

    A classifier is fitted to predict from which of the two samples a row comes, and its probabilities are converted to
    ratios. They are computed by cross-validation: the classifier is not fitted on the row whose ratio it predicts. If w
    are the true ratios and w' the estimated ones, coverage can fall below 1 − alpha by up to half the mean of
    `|w' − w|` over the source distribution.

    Reference: `Lei and Candès (2021) <https://arxiv.org/abs/2006.06138>`__.

    Args:
        X_source: rows distributed like the calibration rows.
        X_target: rows distributed like the rows to predict; no labels are needed.
        classifier: a classifier with `predict_proba`, for which calibrated probabilities matter more than accuracy;
            None stands for `LogisticRegression(max_iter=1000)`.
        cv: number of folds.
        random_state: seed or generator for the folds, and for a classifier whose own `random_state` is None.

    Returns:
        A pair (w_source, w_target) with the ratios of the rows of `X_source` and of `X_target`.

    Raises:
        InputError: the samples have different types or features, or fewer rows than folds.

    >>> rng = np.random.default_rng(0)
    >>> w_source, w_target = estimate_ratios(rng.normal(0, 1, (500, 1)), rng.normal(1, 1, (300, 1)), random_state=0)
    >>> bool(w_source.mean() < w_target.mean())
    True
    """
    if not is_whole(cv, 2):
        raise InputError(f"Expected cv as a number of folds of at least 2, got {cv!r}", "cv=5 makes five folds")
    frames = as_frame(X_source), as_frame(X_target)
    source, target = map(_as_features, frames, ("X_source", "X_target"))
    _check_alike(source, target, *map(column_names, frames))
    n_source, n_target = source.shape[0], target.shape[0]
    if min(n_source, n_target) < cv:
        raise InputError(f"Expected at least {cv} rows of each sample, got {n_source} and {n_target}", "lower cv")
    seed = as_seed(random_state)
    model = seeded(clone(LogisticRegression(max_iter=1000) if classifier is None else classifier), seed)
    folds = StratifiedKFold(int(cv), shuffle=True, random_state=seed % 2**32)
    is_target = np.repeat([0, 1], [n_source, n_target])
    try:
        probs = cross_val_predict(model, _stacked(source, target), is_target, cv=folds, method="predict_proba")
    except ValueError as error:
        for rows, name in ((source, "X_source"), (target, "X_target")):
            if (row := _first_not_finite(rows)) is not None:
                what = f"Row {row} of {name} has a feature that is NaN or infinite"
                remedy = "fill it in, leave the row out, or pass a classifier that takes it"
                raise InputError(f"{what}, which {type(model).__name__} does not take", remedy) from error
        raise
    ratios = likelihood_ratios(probs[:, 1], n_source, n_target)
    return ratios[:n_source], ratios[n_source:]


def _as_features(rows: Any, name: str) -> Any:
    """Validate the features of a sample; return frames and sparse matrices unchanged, anything else as an array."""
    try:
        features = np.asarray(rows) if _container(rows) == "array" else rows
    except (TypeError, ValueError, RuntimeError) as error:
        what = f"Expected {name} as rows of features, got {type(rows).__name__}"
        raise InputError(what, "pass as many per row") from error
    # An array of one dimension may contain texts, for a pipeline with a vectorizer.
    if not features.shape or (len(features.shape) == 1 and features.dtype.kind in "fiub"):
        raise InputError(f"Expected {name} as rows of features, got shape {features.shape}", "reshape it to (n, d)")
    return features


def _check_alike(source: Any, target: Any, source_names: Names | None, target_names: Names | None) -> None:
    """Raise an InputError if the two samples have different types of containers or different columns."""
    if _container(source) != _container(target):
        kinds = f"{type(source).__name__} and {type(target).__name__}"
        raise InputError(f"Expected both samples in one kind of container, got {kinds}", "convert one of them")
    if source.shape[1:] != target.shape[1:]:
        what = f"Expected the same features in both samples, got shapes {source.shape} and {target.shape}"
        raise InputError(what, "pass the same columns")
    pairs = zip(source_names or (), target_names or (), strict=False)
    for column, (first, second) in enumerate(pairs):
        if first != second:
            what = f"Column {column} is {first!r} in X_source and {second!r} in X_target"
            raise InputError(what, "select the same columns in one order, X_target[X_source.columns]")


def _container(rows: Any) -> str:
    """Return "iloc" for a pandas frame, "vstack" for a polars frame, "tocsr" for a sparse matrix, else "array"."""
    return next((kind for kind in ("iloc", "vstack", "tocsr") if hasattr(rows, kind)), "array")


def _stacked(first: Any, second: Any) -> Any:
    """Concatenate the rows of two samples of one type: frames, sparse matrices or arrays."""
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
    """Return the index of the first row with NaN or infinity; None without such a row, or for features as text."""
    try:
        if hasattr(rows, "tocsr"):
            entries = rows.tocoo()
            bad = entries.row[~np.isfinite(entries.data)]
        else:
            bad = np.argwhere(~np.isfinite(np.asarray(rows, dtype=np.float64)))[:, 0]
    except (TypeError, ValueError):
        return None
    return int(bad.min()) if len(bad) else None
