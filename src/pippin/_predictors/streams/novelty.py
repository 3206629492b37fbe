"""Is an object like the calibration objects at all? p-values of novelty, and discoveries among many of them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._engine import dispatch
from pippin._inputs.rows import as_array
from pippin._predictors.answers import asked_rows
from pippin._predictors.protocol import ConformalPredictor
from pippin._runtime.arrays import Flags, Vector
from pippin._runtime.errors import InputError
from pippin._theory.level import exact_alpha
from pippin._theory.spelling import parse_score

SURPRISE = parse_score("ip")  # of the most probable class: 1 − max p


def surprises(predictor: ConformalPredictor, probs: Any, from_logits: bool = False) -> Vector:
    """1 − max p of every row."""
    rows = asked_rows(predictor.classes, probs, from_logits)
    return dispatch.label_scores(rows, dispatch.best(rows)[0], SURPRISE, np.zeros(rows.n))


def novelty(predictor: ConformalPredictor, probs: Any, *, reference: Any = None, from_logits: bool = False) -> Vector:
    """The p-value of every row for "this object is like those before": P(p ≤ t) ≤ t for every t where it is.

    Without a reference it is the credibility, the largest p-value of all classes: that of the true class is valid, and
    this one is no smaller. With a reference, s = 1 − max p is ranked among the reference's:
    p = (1 + #{s_i ≥ s})/(n + 1). `discoveries` chooses among many.

    Args:
        predictor: with its calibration scores; with a reference, only its classes count.
        probs: (m, K) probabilities of the objects in question; logits with `from_logits=True`.
        reference: (n, K) probabilities of objects that are not novel, and that the classifier was not
            trained on, such as those that calibrated.
        from_logits: whether both are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:1999], data.labels[:1999], classes=data.classes)
    >>> unsure = 0.3 * data.probs[2000:2003] + 0.7 / 12
    >>> pippin.novelty(predictor, unsure, reference=data.probs[:1999])
    array([0.002, 0.002, 0.002])
    """
    if reference is None:
        told: Any = predictor
        if not hasattr(predictor, "p_values"):
            raise InputError(f"Expected a predictor that has p-values, got {predictor!r}", "pass reference=")
        every: Vector = np.asarray(told.p_values(probs, from_logits=from_logits))
        return np.asarray(every.max(axis=1))
    known = np.sort(surprises(predictor, reference, from_logits))
    below = np.searchsorted(known, surprises(predictor, probs, from_logits), side="left")
    return np.asarray((1 + len(known) - below) / (len(known) + 1))


def discoveries(p: ArrayLike, level: float = 0.1) -> Flags:
    """Which of many p-values to act on, so that the share of false ones among those is at most `level` on average.

    Benjamini and Hochberg (1995): with p_(1) ≤ … ≤ p_(m), all up to the largest k with p_(k) ≤ k·level/m. The false
    discovery rate is at most level·m₀/m, m₀ of the m being no novelty: for independent p-values, and for those of
    `novelty` with a reference, which they share and so depend on each other positively (Bates, Candès, Lei,
    Romano, Sesia 2023, Testing for outliers with conformal p-values).

    Args:
        p: p-values, one per object.
        level: the false discovery rate allowed.

    >>> import pippin
    >>> pippin.discoveries([0.01, 0.6, 0.04, 0.03], level=0.1)
    array([ True, False,  True,  True])
    """
    given = np.asarray(as_array(p), dtype=np.float64)
    if given.ndim != 1 or not ((given >= 0) & (given <= 1)).all():
        raise InputError(f"Expected p-values between 0 and 1, one per object, got shape {given.shape}", "check them")
    m, share = len(given), float(exact_alpha(level))
    falling = np.sort(given)
    kept = np.flatnonzero(falling <= share * np.arange(1, m + 1) / m) if m else np.array([], dtype=np.int64)
    return np.zeros(m, dtype=np.bool_) if not len(kept) else given <= falling[kept[-1]]
