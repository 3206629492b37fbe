"""Is an object like the calibration objects at all? p-values of novelty, and discoveries among many of them."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.answers import asked_rows
from pippin._conformal.protocol import ConformalPredictor
from pippin._engine import dispatch
from pippin._runtime.arrays import Flags, Vector
from pippin._runtime.errors import InputError
from pippin._theory.level import exact_alpha
from pippin._theory.spelling import parse_score
from pippin._validation.rows import Rows, as_array

SURPRISE = parse_score("ip")  # of the most probable class: 1 − max p


Measure = Literal["surprise", "entropy", "energy"] | Callable[[Any], ArrayLike]


def surprises(predictor: ConformalPredictor, probs: Any, from_logits: bool = False) -> Vector:
    """1 − max p of every row."""
    return _surprise(asked_rows(predictor.classes, probs, from_logits))


def novelty(
    predictor: ConformalPredictor,
    probs: Any,
    *,
    reference: Any = None,
    measure: Measure = "surprise",
    per: Literal["class"] | None = None,
    from_logits: bool = False,
) -> Vector:
    """The p-value of every row for "this object is like those before": P(p ≤ t) ≤ t for every t where it is.

    Without a reference it is the credibility, the largest p-value of all classes: that of the true class is valid, and
    this one is no smaller. With a reference, how strange an object is, s, is ranked among the reference's:
    p = (1 + #{s_i ≥ s})/(n + 1). `discoveries` chooses among many.

    Args:
        predictor: with its calibration scores; with a reference, only its classes count.
        probs: (m, K) probabilities of the objects in question; logits with `from_logits=True`.
        reference: (n, K) probabilities of objects that are not novel, and that the classifier was not
            trained on, such as those that calibrated.
        measure: what is strange, with a reference: "surprise", 1 − max p; "entropy", −Σ p log p; "energy" of logits,
            −log Σ exp; or a function of what is passed, which may then be embeddings too, such as the distance to
            the nearest known one: a number for each, larger for the stranger.
        per: "class" ranks an object among those of the reference that are taken for the same class.
        from_logits: whether both are logits, of which a softmax is taken.

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
            raise InputError("Expected a reference beside measure= or per=, got none", "pass reference=")
        told: Any = predictor
        if not hasattr(predictor, "p_values"):
            raise InputError(f"Expected a predictor that has p-values, got {predictor!r}", "pass reference=")
        every: Vector = np.asarray(told.p_values(probs, from_logits=from_logits))
        return np.asarray(every.max(axis=1))
    known, new = (_measured(predictor, rows, measure, from_logits) for rows in (reference, probs))
    if per is None:
        return _ranked(known, new)
    taken = [dispatch.best(asked_rows(predictor.classes, rows, from_logits))[0] for rows in (reference, probs)]
    found = np.ones(len(new))
    for k in np.unique(taken[1]):
        found[taken[1] == k] = _ranked(known[taken[0] == k], new[taken[1] == k])
    return found


def _ranked(known: Vector, new: Vector) -> Vector:
    below = np.searchsorted(np.sort(known), new, side="left")
    return np.asarray((1 + len(known) - below) / (len(known) + 1))


def _measured(predictor: ConformalPredictor, given: Any, measure: Measure, from_logits: bool) -> Vector:
    """How strange each row is, by the measure."""
    if callable(measure):
        found, n = np.asarray(measure(given), dtype=np.float64), len(given)
        if found.shape != (n,) or np.isnan(found).any():
            got = f"shape {found.shape}" if found.shape != (n,) else "NaN"
            raise InputError(f"Expected a number for each of {n} rows from measure=, got {got}")
        return found
    rows = asked_rows(predictor.classes, given, from_logits)
    if measure == "energy":
        if not from_logits:
            raise InputError("Expected logits for the energy, got probabilities", "pass logits and from_logits=True")
        logits = np.asarray(as_array(given), dtype=np.float64)
        top = logits.max(axis=1)
        return np.asarray(-(top + np.log(np.exp(logits - top[:, None]).sum(axis=1))))
    ways: dict[str, Callable[[Rows], Vector]] = {"surprise": _surprise, "entropy": _entropy}
    if measure not in ways:
        raise InputError(f"Expected measure to be 'surprise', 'entropy', 'energy' or a function, got {measure!r}")
    return ways[measure](rows)


def _surprise(rows: Rows) -> Vector:
    return dispatch.label_scores(rows, dispatch.best(rows)[0], SURPRISE, np.zeros(rows.n))


def _entropy(rows: Rows) -> Vector:
    """−Σ p log p of every row, 0 · log 0 being 0."""
    rows = rows.verified()
    found = np.empty(rows.n)

    def work(start: int, stop: int) -> None:
        block = rows.block(start, stop).astype(np.float64)
        found[start:stop] = -(block * np.log(np.where(block > 0, block, 1))).sum(axis=1)

    dispatch.in_blocks(work, rows)
    return found


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
    >>> pippin.shift.discoveries([0.01, 0.6, 0.04, 0.03], level=0.1)
    array([ True, False,  True,  True])
    """
    given = np.asarray(as_array(p), dtype=np.float64)
    if given.ndim != 1 or not ((given >= 0) & (given <= 1)).all():
        raise InputError(f"Expected p-values between 0 and 1, one per object, got shape {given.shape}", "check them")
    m, share = len(given), float(exact_alpha(level))
    falling = np.sort(given)
    kept = np.flatnonzero(falling <= share * np.arange(1, m + 1) / m) if m else np.array([], dtype=np.int64)
    return np.zeros(m, dtype=np.bool_) if not len(kept) else given <= falling[kept[-1]]
