"""Whether a fitted estimator saw rows before: known where it keeps them, suspected where it is too right on them."""

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.errors import InputError, warn
from pippin._validation.fingerprints import fingerprints, seen_before

KEEPS_ROWS = ("_fit_X", "X_train_", "support_vectors_", "X_")  # neighbours, Gaussian processes, SVMs, label propagation
HELD_OUT = ("oob_score_", "best_score_", "best_validation_score_")  # accuracies on rows that did not train
ENOUGH = 50  # rows, all of them right, that look like training rows


def check_unseen(estimator: Any, X: Any, right: NDArray[np.bool_]) -> None:
    """Refuses rows that the estimator keeps from its training; warns of an accuracy that only such rows have.

    Args:
        estimator: a fitted one.
        X: the rows to calibrate on.
        right: where its most probable class is the true one.

    Raises:
        InputError: the estimator was fitted on some of these rows.
    """
    parts = _parts(estimator, X)
    for part, rows in parts:
        for name in KEEPS_ROWS:
            kept = getattr(part, name, None)
            seen = 0 if kept is None or not np.size(kept) else seen_before(fingerprints(kept), fingerprints(rows))
            if seen:
                raise InputError(
                    f"Expected rows that the estimator was not fitted on, got {seen} of {len(right)} that its "
                    f"{type(part).__name__} keeps from its training",
                    "calibrate on rows that it has not seen",
                )
    n, accuracy = len(right), float(np.mean(right))
    if n >= ENOUGH and accuracy == 1:
        warn(
            f"The estimator is right on all {n:,} calibration rows: if it was fitted on them, sets will miss the true "
            "class far more often than promised. Calibrate on rows that it has not seen."
        )
        return
    known = next((float(v) for part, _ in parts for name in HELD_OUT if (v := getattr(part, name, None))), None)
    if known is not None and 0 < known < 1 and accuracy - known > max(0.02, 5 * sqrt(known * (1 - known) / n)):
        warn(
            f"The estimator is right on {100 * accuracy:.3g} % of the calibration rows, but only on "
            f"{100 * known:.3g} % of rows that it was not fitted on: it seems to have seen these. Calibrate on others."
        )


def _parts(estimator: Any, X: Any) -> list[tuple[Any, Any]]:
    """The estimator and what was fitted inside of it, each with the rows as they reach it."""
    found = [(estimator, X)]
    if hasattr(estimator, "steps"):
        rows = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        return found + _parts(estimator.steps[-1][1], rows)
    inside = [getattr(estimator, name, None) for name in ("estimator", "best_estimator_", "base_estimator_")]
    for name in ("estimators_", "calibrated_classifiers_"):
        several = getattr(estimator, name, None)
        inside += several if isinstance(several, list) else []
    for part in inside:
        if hasattr(part, "classes_") or hasattr(part, "X_train_"):  # else a template, never fitted
            found += _parts(part, X)
    return found
