"""Laws of nonconformity scores: `check_score` checks a custom score against all of them."""

import math
import tempfile
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from pippin._conformal.calibrate import calibrate, score
from pippin._conformal.serialization import load
from pippin._engine import numpy_engine as plain
from pippin._engine.numba_engine import engine as compiled
from pippin._engine.protocol import Bounds, Engine
from pippin._runtime.arrays import Codes, Flags, Floats, Vector, read_only
from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients
from pippin._theory.level import quantile_rank
from pippin._theory.planning import beta_binomial
from pippin._theory.scores import Score, coefficients
from pippin._theory.spelling import parse_score

__all__ = ["LawError", "check_score"]

SIZES = (2, 3, 5, 12, 40, 120)  # numbers of classes
ROWS = 24  # of each kind, at each of them
KINDS = ("spread", "peaked", "tied", "sparse", "certain", "equal")
UNLIKELY = 1e-6  # probability below which the law of coverage counts as broken


class LawError(AssertionError):
    """A score breaks a law; the message names the law and an example."""


def check_score(candidate: Score | str) -> None:
    """Check a score against every law that the scores of this package obey; takes some seconds.

    The formula evaluated in exact fractions gives its values; it never falls with the rank; a
    label is in the set exactly if its score is at most the threshold, to the last bit, in
    both engines, in batches and row by row, in float32 and float64, saved and loaded; a row's
    set does not depend on other rows; permuting the classes permutes the sets; inputs
    are not changed; and over many calibrations coverage follows its exact law.

    Args:
        candidate: a score or its spelling, such as one of a family that you have registered.

    Raises:
        LawError: the law that it breaks, and where.

    >>> import pippin.testing
    >>> pippin.testing.check_score("repip(gamma=0.05)")
    """
    chosen = parse_score(candidate)
    _spelling(chosen)
    for n_classes in SIZES:
        for number, kind in enumerate(KINDS):
            probs, labels = _rows(kind, n_classes, number)
            for law in LAWS:
                law(chosen, read_only(probs.astype(np.float32)), labels)
                law(chosen, read_only(probs), labels)
    _coverage(chosen)


def _need(good: bool, law: str, chosen: Score, example: str) -> None:
    if not good:
        raise LawError(f"The score {chosen} breaks the law that {law}: {example}.")


def _rows(kind: str, n_classes: int, seed: int) -> tuple[Vector, Codes]:
    """Make rows of one kind, and labels at any rank."""
    rng = np.random.default_rng([seed, n_classes])
    shape = (ROWS, n_classes)
    one_hot = np.eye(n_classes)[rng.integers(0, n_classes, ROWS)]
    kinds: dict[str, Any] = {
        "spread": rng.dirichlet(np.full(n_classes, 0.4), ROWS) + 1e-12,
        "peaked": np.exp(rng.normal(0, 4, shape)),
        "tied": rng.integers(1, 4, shape) + 0.0,
        "sparse": rng.integers(0, 2, shape) + one_hot,
        "certain": one_hot,
        "equal": np.ones(shape),
    }
    return kinds[kind] / kinds[kind].sum(axis=1, keepdims=True), rng.integers(0, n_classes, ROWS)


def _spelling(chosen: Score) -> None:
    again = parse_score(str(chosen))
    _need(again == chosen, "its spelling reads back", chosen, f"{chosen} became {again}")


def _formula(chosen: Score, probs: Floats, labels: Codes) -> None:
    """Compare every class's score with the exact formula."""
    if chosen.name == "socop":
        return  # not linear; the tests of this package check it against the paper's definition
    c, u = coefficients(chosen, probs.shape[1]), np.random.default_rng(0).random()
    scores = plain.class_scores(probs[:1], c, np.full(1, u))[0]
    for k, wanted in enumerate(_exact(c, probs[0], u)):
        near = abs(Fraction(float(scores[k])) - wanted) <= Fraction(1, 10**12) * (1 + abs(wanted))
        _need(near, "its values are the formula's", chosen, f"class {k} has {scores[k]}, not {float(wanted)}")


def _exact(c: Coefficients, row: Floats, u: float) -> list[Fraction]:
    """Compute the formula in exact fractions, rank by rank, in the order of the classes."""
    p = [Fraction(float(x)) for x in row]
    order = sorted(range(len(p)), key=lambda k: (-p[k], k))
    mass, scores = Fraction(0), [Fraction(0)] * len(p)
    for rank, k in enumerate(order):
        own, own_u, above, penalty, penalty_u = (
            Fraction(float(c.table[rank, column])) for column in (OWN, OWN_U, ABOVE, PENALTY, PENALTY_U)
        )
        drawn, before = Fraction(u), mass if rank else Fraction(c.second) * p[order[1]]
        scores[k] = Fraction(c.constant) + (own + drawn * own_u) * p[k] + before + penalty + drawn * penalty_u
        mass += above * p[k]
    return scores


def _rising(chosen: Score, probs: Floats, labels: Codes) -> None:
    ranked = np.take_along_axis(score(probs, None, chosen, seed=1), np.argsort(-probs, axis=1, kind="stable"), axis=1)
    falls = np.argwhere(ranked[:, 1:] < ranked[:, :-1])
    example = f"row {probs[falls[0, 0]].tolist()} at rank {falls[0, 1] + 2}" if len(falls) else ""
    _need(not len(falls), "scores never fall with the rank", chosen, example)


def _membership(chosen: Score, probs: Floats, labels: Codes) -> None:
    """Compare the sets of both engines with the scores of all classes."""
    c, u = coefficients(chosen, probs.shape[1]), np.random.default_rng(2).random(len(probs))
    every = plain.class_scores(probs, c, u)
    own = every[np.arange(len(labels)), labels]
    places = (own.min(), np.median(own), own.max(), np.nextafter(np.median(own), -np.inf))
    for threshold in (*map(float, places), -np.inf, np.inf):
        inside = every <= threshold
        for name, engine in (("NumPy", plain), ("compiled loops", compiled)):
            law = "a class is in the set exactly if its score is at most the threshold"
            same = np.array_equal(_mask(engine, probs, c, threshold, u), inside)
            _need(same, law, chosen, f"in {name} at the threshold {threshold}")
    scores = np.empty(len(labels))
    compiled.label_scores(probs, read_only(labels), c, u, scores)
    _need(np.array_equal(scores, own), "both engines give the same bits", chosen, "label scores differ")


def _mask(engine: Engine, probs: Floats, c: Coefficients, threshold: float, u: Vector) -> Flags:
    sizes = np.zeros(len(probs), dtype=np.int64)
    members, _ = engine.members(probs, c, Bounds(np.array([[threshold]])), u, sizes)
    mask = np.zeros(probs.shape, dtype=bool)
    mask[np.repeat(np.arange(len(probs)), sizes), members] = True
    return mask


def _predictor(chosen: Score, probs: Floats, labels: Codes) -> Any:
    with warnings.catch_warnings():  # of infinite scores
        warnings.simplefilter("ignore")
        return calibrate(probs, labels, chosen, 0.3, seed=3)


def _alone(chosen: Score, probs: Floats, labels: Codes) -> None:
    """Compare the set of a row alone, among others, row by row, and after saving and loading."""
    predictor = _predictor(chosen, probs, labels)
    sets = predictor.predict(probs[:1], seed=4)
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(Path(folder) / "predictor.json")
        loaded = load(Path(folder) / "predictor.json").predict(probs[:1], seed=4)
    several = predictor.predict(probs, seed=4)  # its first u is that of the row alone
    for path, members in (
        ("one row at a time", predictor.predict_one(probs[0], seed=4)),
        ("saved and loaded", loaded.members),
        ("among other rows", several.members[: several.sizes[0]]),
    ):
        law = "a row's set does not depend on how it is predicted"
        _need(sets.members.tolist() == members.tolist(), law, chosen, f"{path} it is another")


def _permuted(chosen: Score, probs: Floats, labels: Codes) -> None:
    order = np.random.default_rng(5).permutation(probs.shape[1])
    untied = np.array([len(set(row.tolist())) == len(row) for row in probs])
    if not untied.any():
        return
    predictor = _predictor(chosen, probs, labels)
    before = predictor.predict(probs, seed=6).mask
    after = predictor.predict(probs[:, order], seed=6).mask
    same = bool((before[:, order] == after)[untied].all())
    _need(same, "permuting the classes permutes the sets", chosen, "it does not")


def _untouched(chosen: Score, probs: Floats, labels: Codes) -> None:
    mine, kept = probs.copy(), probs.copy()
    _predictor(chosen, mine, labels).predict(mine, seed=7)
    _need(np.array_equal(mine, kept), "inputs stay as they are", chosen, "they were changed")


Law = Callable[[Score, Floats, Codes], None]
LAWS: tuple[Law, ...] = (_formula, _rising, _membership, _alone, _permuted, _untouched)


def _coverage(chosen: Score) -> None:
    """Compare the number of labels covered with the beta-binomial law; with tied scores it may be larger."""
    n, m, runs, alpha = 39, 20, 400, 0.2
    rng = np.random.default_rng(8)
    probs = rng.dirichlet(np.full(4, 0.7), runs * (n + m))
    labels = (rng.random(len(probs))[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=3)
    covered = np.zeros(runs, dtype=int)
    for run in range(runs):
        part = slice(run * (n + m), (run + 1) * (n + m))
        rows, truth = probs[part], labels[part]
        predictor = calibrate(rows[:n], truth[:n], chosen, alpha, seed=rng)
        covered[run] = predictor.predict(rows[n:], seed=rng).contains(truth[n:]).sum()
    k = quantile_rank(n, alpha)
    gap = np.cumsum(np.bincount(covered, minlength=m + 1) / runs) - np.cumsum(beta_binomial(m, k, n + 1 - k))
    ties = len(np.unique(score(probs, labels, chosen, seed=9))) < 0.9 * len(probs)
    off = float(gap.max() if ties else np.abs(gap).max())
    room = math.sqrt(math.log(2 / UNLIKELY) / (2 * runs))  # Massart's bound on an empirical distribution
    example = f"its distribution is off by {off:.3f}, where chance explains {room:.3f}"
    _need(off <= room, "coverage follows its exact law", chosen, example)
