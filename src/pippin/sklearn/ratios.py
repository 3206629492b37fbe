"""Likelihood ratios from a classifier that learns to tell two samples apart."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from pippin.sklearn.rows import as_seed, seeded
from pippin.weighting import likelihood_ratios

Vector = NDArray[np.float64]


def estimate_ratios(
    X_source: Any,
    X_target: Any,
    classifier: Any = None,
    cv: int = 5,
    random_state: Any = None,
) -> tuple[Vector, Vector]:
    """(w_source, w_target): dP_target(x)/dP_source(x) of each row, for `pippin.calibrate_weighted`.

    A classifier learns which sample a row is from; every row's ratio comes from a model that
    did not see it. The ratios are estimates: if they are wrong by w' − w, coverage can fall
    below 1 − alpha by up to half the mean of |w' − w| over the source (Lei and Candès 2021).

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
    n_source, n_target = (rows.shape[0] if hasattr(rows, "shape") else len(rows) for rows in (X_source, X_target))
    if min(n_source, n_target) < cv:
        raise ValueError(
            f"Expected at least {cv} rows of each sample, one per fold, got {n_source} and {n_target}: lower cv."
        )
    seed = as_seed(random_state)
    model = seeded(clone(LogisticRegression(max_iter=1000) if classifier is None else classifier), seed)
    folds = StratifiedKFold(cv, shuffle=True, random_state=seed % 2**32)
    is_target = np.repeat([0, 1], [n_source, n_target])
    probs = cross_val_predict(model, _stacked(X_source, X_target), is_target, cv=folds, method="predict_proba")
    ratios = likelihood_ratios(probs[:, 1], n_source, n_target)
    return ratios[:n_source], ratios[n_source:]


def _stacked(first: Any, second: Any) -> Any:
    """The rows of both, in the container that they came in."""
    if hasattr(first, "iloc"):
        import pandas

        return pandas.concat([first, second], ignore_index=True)
    if hasattr(first, "vstack"):  # polars
        return first.vstack(second)
    if hasattr(first, "tocsr"):
        from scipy import sparse

        return sparse.vstack([first, second], format="csr")
    return np.concatenate([np.asarray(first), np.asarray(second)])
