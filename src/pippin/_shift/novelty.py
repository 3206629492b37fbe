"""Novelty detection: conformal p-values of objects, and control of the false discovery rate."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.predictor import ConformalPredictor
from pippin._engine import dispatch
from pippin._runtime.arguments import checked
from pippin._runtime.arrays import Flags, Vector
from pippin._runtime.errors import InputError
from pippin._theory.level import exact_alpha, simplest
from pippin._theory.spelling import parse_score
from pippin._validation.labels import rows_of_classes
from pippin._validation.rows import Rows, as_array

SURPRISE = parse_score("ip")  # 1 − p, which for the most probable class is the surprise

Measure = Literal["surprise", "entropy", "energy"] | Callable[[Any], ArrayLike]


def surprise(rows: Rows) -> Vector:
    """Compute the surprise of each row: 1 − its largest probability."""
    return dispatch.label_scores(rows, dispatch.best(rows)[0], SURPRISE, np.zeros(rows.n))


@checked
def novelty(
    predictor: ConformalPredictor,
    probs: Any,
    *,
    reference: Any = None,
    measure: Measure = "surprise",
    per: Literal["class"] | None = None,
    from_logits: bool = False,
) -> Vector:
    """Compute a conformal p-value of each row; for rows that are not novel, P(p ≤ t) ≤ t for every t.

    Without a reference, the p-value is the credibility, the largest p-value over all classes. It is valid because it is
    at least the p-value of the true class. With a reference, p = (1 + #{s_i ≥ s})/(n + 1), where s is the strangeness
    of the row and s_1, …, s_n are those of the reference rows. `discoveries` then selects rows from many p-values.

    Reference: `Bates et al. (2023) <https://arxiv.org/abs/2104.08279>`__.

    Args:
        predictor: predictor that stores its calibration scores; with a reference, only its classes are used.
        probs: (m, K) probabilities of the objects to test; logits with `from_logits=True`.
        reference: (n, K) probabilities of objects that are not novel and that the classifier was not trained on, such
            as the calibration rows.
        measure: measure of strangeness, with a reference: "surprise", 1 − max p; "entropy", −Σ p log p; "energy" of
            logits, −log Σ exp; or a function of the rows that returns one number per row, larger for stranger rows.
            Rows may then be embeddings, and the function the distance to the nearest reference embedding.
        per: "class" compares a row with the reference rows that have the same most probable class.
        from_logits: treat `probs` and `reference` as logits and apply softmax.

    Returns:
        One p-value per row.

    Raises:
        InputError: the predictor cannot compute p-values, or an option is invalid.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:1999], data.labels[:1999], classes=data.classes)
    >>> unsure = 0.3 * data.probs[2000:2003] + 0.7 / 12
    >>> pippin.shift.novelty(predictor, unsure, reference=data.probs[:1999])
    array([0.002, 0.002, 0.002])
    """
    if per not in (None, "class"):
        raise InputError(f"Expected per to be None or 'class', got {per!r}")
    if reference is None:
        if measure != "surprise" or per is not None:
            raise InputError("Expected a reference with measure= or per=, got none", "pass reference=")
        if not hasattr(predictor, "p_values"):
            raise InputError(f"Expected a predictor that has p-values, got {predictor!r}", "pass reference=")
        p_values: Vector = np.asarray(predictor.p_values(probs, from_logits=from_logits))
        return np.asarray(p_values.max(axis=1))
    data = reference, probs
    if callable(measure):
        old, new = (_measured(measure, part) for part in data)
    if not callable(measure) or per is not None:
        rows = tuple(rows_of_classes(predictor.classes, part, from_logits) for part in data)
    if not callable(measure):
        old, new = (_strangeness(part, measure) for part in rows)
    if per is None:
        return _ranked(old, new)
    best, new_best = (dispatch.best(part)[0] for part in rows)
    p = np.ones(len(new))
    for k in np.unique(new_best):
        p[new_best == k] = _ranked(old[best == k], new[new_best == k])
    return p


def _ranked(old: Vector, new: Vector) -> Vector:
    """Return the conformal p-value of each of the `new` values, ranked among the `old` values."""
    below = np.searchsorted(np.sort(old), new, side="left")
    return np.asarray((1 + len(old) - below) / (len(old) + 1))


def _measured(measure: Callable[[Any], ArrayLike], data: Any) -> Vector:
    """Return the strangeness of each row, computed by the user's function `measure`."""
    values, n = np.asarray(measure(data), dtype=np.float64), len(data)
    if values.shape != (n,) or np.isnan(values).any():
        got = f"shape {values.shape}" if values.shape != (n,) else "NaN"
        raise InputError(f"Expected a number for each of {n} rows from measure=, got {got}")
    return values


def _strangeness(rows: Rows, measure: str) -> Vector:
    if measure == "surprise":
        return surprise(rows)
    if measure == "entropy":
        return _entropy(rows)
    if measure != "energy":
        raise InputError(f"Expected measure to be 'surprise', 'entropy', 'energy' or a function, got {measure!r}")
    if not rows.logits:
        raise InputError("Expected logits for the energy, got probabilities", "pass logits and from_logits=True")
    logits = rows.array.astype(np.float64)
    top = logits.max(axis=1)
    return np.asarray(-(top + np.log(np.exp(logits - top[:, None]).sum(axis=1))))


def _entropy(rows: Rows) -> Vector:
    """Return −Σ p log p of each row, with 0 · log 0 = 0."""
    rows, entropy = rows.verified(), np.empty(rows.n)

    def compute(start: int, stop: int) -> Vector:
        block = rows.block(start, stop).astype(np.float64)
        return np.asarray(-(block * np.log(np.where(block > 0, block, 1))).sum(axis=1))

    dispatch.fill(entropy, rows, compute)
    return entropy


@checked
def discoveries(p: ArrayLike, level: float = 0.1) -> Flags:
    """Select p-values with a false discovery rate of at most `level` by the Benjamini–Hochberg procedure.

    For the sorted p-values p_(1) ≤ … ≤ p_(m), this selects p_(1) to p_(k) with the largest k such that
    p_(k) ≤ k·level/m. If m₀ of the m objects are not novel, the false discovery rate is at most level·m₀/m. This holds
    for independent p-values, and for the positively dependent p-values that `novelty` computes from one reference.

    References: `Benjamini and Hochberg (1995) <https://doi.org/10.1111/j.2517-6161.1995.tb02031.x>`__;
    `Bates et al. (2023) <https://arxiv.org/abs/2104.08279>`__.

    Args:
        p: p-values, one per object.
        level: the false discovery rate allowed.

    Returns:
        True for each selected object.

    Raises:
        InputError: a p-value is outside 0 to 1, or the level is not strictly between 0 and 1.

    >>> import pippin
    >>> pippin.shift.discoveries([0.01, 0.6, 0.04, 0.03], level=0.1)
    array([ True, False,  True,  True])
    """
    p_values = np.asarray(as_array(p), dtype=np.float64)
    if p_values.ndim != 1 or not ((p_values >= 0) & (p_values <= 1)).all():
        raise InputError(f"Expected p-values from 0 to 1, one per object, got shape {p_values.shape}", "pass p-values")
    m, share = len(p_values), exact_alpha(level)
    ordered = np.sort(p_values)
    limits = float(share) * np.arange(1, m + 1) / max(m, 1)
    below = ordered <= limits
    for i in np.flatnonzero(np.abs(ordered - limits) <= 1e-12 * limits).tolist():  # near ties are compared exactly
        below[i] = simplest(float(ordered[i])) * m <= share * (i + 1)
    largest = float(ordered[below].max(initial=-1.0))
    return np.asarray(p_values <= largest)
