"""Property tests for nonconformity scores: `check_score` tests a custom score against the laws of built-in scores."""

import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from pippin._conformal.calibrate import calibrate, score
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.serialization import load
from pippin._engine import numpy_engine
from pippin._engine.numba_engine import engine as numba_engine
from pippin._engine.protocol import Bounds, Engine
from pippin._runtime.arrays import Codes, Flags, Floats, Vector, read_only
from pippin._theory.formula import Coefficients
from pippin._theory.level import quantile_rank
from pippin._theory.planning import beta_binomial
from pippin._theory.scores import Score, coefficients
from pippin._theory.spelling import parse_score

__all__ = ["LawError", "check_score"]

CLASS_COUNTS = (2, 3, 5, 12, 40, 120)
ROWS = 24  # number of rows in each example
SIGNIFICANCE = 1e-6  # largest probability with which a valid score fails the test of coverage by chance


class LawError(AssertionError):
    """Error of `check_score` for a score that fails one of its tests; the message gives a counterexample."""


def check_score(candidate: Score | str) -> None:
    """Test that a score has all properties of the built-in scores; this takes some seconds.

    - Scores that are linear in the probabilities (all but SOCOP) equal their formula, evaluated in exact fractions.
    - Scores do not decrease with the rank of the class.
    - A class is in the set if and only if its score is at most the threshold, to the last bit. This holds for compiled
      code and for NumPy, in float32 and in float64.
    - The set of a row is the same in a batch, from `predict_one`, and from a saved and loaded predictor.
    - Permuting the classes permutes the sets.
    - `calibrate` and `predict` do not change their inputs.
    - Coverage over many calibrations follows its exact (beta-binomial) distribution.

    Args:
        candidate: a score, or its name with parameters, such as one of a family added by `pippin.scores.register`.

    Raises:
        LawError: the score does not have one of these properties.

    >>> import pippin.testing
    >>> pippin.testing.check_score("repip(gamma=0.05)")
    """
    candidate = parse_score(candidate)
    parsed = parse_score(str(candidate))
    _require(parsed == candidate, "its spelling can be parsed back", candidate, f"{candidate} became {parsed}")
    for n_classes in CLASS_COUNTS:
        for probs, labels in _examples(n_classes):
            for law in LAWS:
                law(candidate, read_only(probs.astype(np.float32)), labels)
                law(candidate, read_only(probs), labels)
    _check_coverage(candidate)


def _require(condition: bool, law: str, candidate: Score, example: str) -> None:
    if not condition:
        raise LawError(f"The score {candidate} violates the law that {law}: {example}.")


def _examples(n_classes: int) -> Iterator[tuple[Vector, Codes]]:
    """Yield several examples of probabilities, (ROWS, n_classes) from smooth to one-hot, each with random labels."""
    shape = (ROWS, n_classes)
    for seed in range(6):
        rng = np.random.default_rng([seed, n_classes])
        one_hot = np.eye(n_classes)[rng.integers(0, n_classes, ROWS)]
        probs = (
            rng.dirichlet(np.full(n_classes, 0.4), ROWS) + 1e-12,  # probability spread over many classes
            np.exp(rng.normal(0, 4, shape)),  # most probability in few classes
            rng.integers(1, 4, shape) + 0.0,  # many equal probabilities
            rng.integers(0, 2, shape) + one_hot,  # many zeros and equal probabilities
            one_hot,
            np.ones(shape),
        )[seed]
        yield probs / probs.sum(axis=1, keepdims=True), rng.integers(0, n_classes, ROWS)


def _check_formula(candidate: Score, probs: Floats, labels: Codes) -> None:
    """Compare the scores of one row with the exact formula; SOCOP, which has another formula, is skipped."""
    if candidate.name == "socop":
        return
    c, u = coefficients(candidate, probs.shape[1]), np.random.default_rng(0).random()
    scores = numpy_engine.class_scores(probs[:1], c, np.full(1, u))[0]
    for k, exact in enumerate(_exact_scores(c, probs[0], u)):
        near = abs(Fraction(float(scores[k])) - exact) <= Fraction(1, 10**12) * (1 + abs(exact))
        _require(near, "scores equal the formula", candidate, f"class {k} has {scores[k]}, expected {float(exact)}")


def _exact_scores(c: Coefficients, row: Floats, u: float) -> list[Fraction]:
    """Compute the score of every class of a row in exact fractions, from the coefficients `c` of the score."""
    p = [Fraction(float(x)) for x in row]
    order = sorted(range(len(p)), key=lambda k: (-p[k], k))
    mass, scores = Fraction(0), [Fraction(0)] * len(p)
    for rank, k in enumerate(order):
        own, own_u, above, penalty, penalty_u = map(Fraction, c.table[rank].tolist())  # in the order of the columns
        mass_term = mass if rank else Fraction(c.second) * p[order[1]]
        scores[k] = Fraction(c.constant) + (own + Fraction(u) * own_u) * p[k] + mass_term
        scores[k] += penalty + Fraction(u) * penalty_u
        mass += above * p[k]
    return scores


def _check_monotone(candidate: Score, probs: Floats, labels: Codes) -> None:
    """Check that the score of a class does not decrease with its rank."""
    order = np.argsort(-probs, axis=1, kind="stable")
    by_rank = np.take_along_axis(score(probs, None, candidate, seed=1), order, axis=1)
    decreases = np.argwhere(by_rank[:, 1:] < by_rank[:, :-1])
    example = f"row {probs[decreases[0, 0]].tolist()} at rank {decreases[0, 1] + 2}" if len(decreases) else ""
    _require(not len(decreases), "scores do not decrease with the rank", candidate, example)


def _check_membership(candidate: Score, probs: Floats, labels: Codes) -> None:
    """Compare sets (at several thresholds) and label scores of both engines with the scores of all classes."""
    c, u = coefficients(candidate, probs.shape[1]), np.random.default_rng(2).random(len(probs))
    scores = numpy_engine.class_scores(probs, c, u)
    of_labels = scores[np.arange(len(labels)), labels]
    median = np.median(of_labels)
    thresholds = of_labels.min(), median, of_labels.max(), np.nextafter(median, -np.inf), -np.inf, np.inf
    for threshold in map(float, thresholds):
        for name, engine in (("NumPy", numpy_engine), ("numba", numba_engine)):
            law = "a class is in the set if and only if its score is at most the threshold"
            equal = np.array_equal(_mask(engine, probs, c, threshold, u), scores <= threshold)
            _require(equal, law, candidate, f"wrong set in the {name} engine at threshold {threshold}")
    compiled = np.empty(len(labels))
    numba_engine.label_scores(probs, read_only(labels), c, u, compiled)
    _require(np.array_equal(compiled, of_labels), "both engines give the same bits", candidate, "label scores differ")


def _mask(engine: Engine, probs: Floats, c: Coefficients, threshold: float, u: Vector) -> Flags:
    """Compute the sets at a threshold with one of the engines; return them as flags (rows, classes)."""
    sizes, mask = np.zeros(len(probs), dtype=np.int64), np.zeros(probs.shape, dtype=bool)
    members, _ = engine.members(probs, c, Bounds(np.array([[threshold]])), u, sizes)
    mask[np.repeat(np.arange(len(probs)), sizes), members] = True
    return mask


def _calibrated(candidate: Score, probs: Floats, labels: Codes) -> ConformalPredictor:
    with warnings.catch_warnings():  # ignore warnings of infinite thresholds
        warnings.simplefilter("ignore")
        return calibrate(probs, labels, candidate, 0.3, seed=3)


def _check_single_row(candidate: Score, probs: Floats, labels: Codes) -> None:
    """Compare the set of the first row in a batch, from `predict_one`, and from a saved and loaded predictor."""
    predictor = _calibrated(candidate, probs, labels)
    alone = predictor.predict(probs[:1], seed=4).members.tolist()
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(Path(folder) / "predictor.json")
        loaded = load(Path(folder) / "predictor.json").predict(probs[:1], seed=4)
    batch = predictor.predict(probs, seed=4)  # the first row has the same u as the row alone
    for path, members in (
        ("by predict_one", predictor.predict_one(probs[0], seed=4)),
        ("by a saved and loaded predictor", loaded.members),
        ("in a batch", batch.members[: batch.sizes[0]]),
    ):
        law = "the set of a row does not depend on how it is predicted"
        _require(alone == members.tolist(), law, candidate, f"another set {path}")


def _check_permutation(candidate: Score, probs: Floats, labels: Codes) -> None:
    """Compare the sets of rows without ties before and after a permutation of the classes."""
    order = np.random.default_rng(5).permutation(probs.shape[1])
    untied = np.array([len(np.unique(row)) == len(row) for row in probs])
    predictor = _calibrated(candidate, probs, labels)
    original, permuted = (predictor.predict(rows, seed=6).mask for rows in (probs, probs[:, order]))
    equal = bool((original[:, order] == permuted)[untied].all())
    _require(equal, "permuting the classes permutes the sets", candidate, "the sets differ")


def _check_inputs(candidate: Score, probs: Floats, labels: Codes) -> None:
    """Check that calibration and prediction do not change their input."""
    rows = probs.copy()
    _calibrated(candidate, rows, labels).predict(rows, seed=7)
    _require(np.array_equal(rows, probs), "inputs are not changed", candidate, "the probabilities were changed")


Law = Callable[[Score, Floats, Codes], None]
LAWS: tuple[Law, ...] = (_check_formula, _check_monotone, _check_membership)
LAWS += (_check_single_row, _check_permutation, _check_inputs)


def _check_coverage(candidate: Score) -> None:
    """Compare the numbers of covered labels with the beta-binomial distribution; tied scores may cover more labels."""
    n, m, runs, alpha = 39, 20, 400, 0.2
    rng = np.random.default_rng(8)
    probs = rng.dirichlet(np.full(4, 0.7), runs * (n + m))
    labels = (rng.random(len(probs))[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=3)
    covered = np.zeros(runs, dtype=int)
    for run in range(runs):
        part = slice(run * (n + m), (run + 1) * (n + m))
        rows, truth = probs[part], labels[part]
        predictor = calibrate(rows[:n], truth[:n], candidate, alpha, seed=rng)
        covered[run] = predictor.predict(rows[n:], seed=rng).contains(truth[n:]).sum()
    k = quantile_rank(n, alpha)
    gap = np.cumsum(np.bincount(covered, minlength=m + 1) / runs) - np.cumsum(beta_binomial(m, k, n + 1 - k))
    ties = len(np.unique(score(probs, labels, candidate, seed=9))) < 0.9 * len(probs)
    distance = float(gap.max() if ties else np.abs(gap).max())
    bound = math.sqrt(math.log(2 / SIGNIFICANCE) / (2 * runs))  # Dvoretzky–Kiefer–Wolfowitz–Massart inequality
    example = f"its distribution function is off by {distance:.3f}, more than the {bound:.3f} that chance explains"
    _require(distance <= bound, "coverage follows its exact distribution", candidate, example)
