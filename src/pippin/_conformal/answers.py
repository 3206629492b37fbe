"""What a predictor with a rule answers: sets, p-values, and one class per object."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.frames import like_rows
from pippin._conformal.points import PointPredictions
from pippin._conformal.protocol import ConformalPredictor
from pippin._conformal.rules import Asked, Rule
from pippin._conformal.sets import PredictionSets
from pippin._engine import dispatch
from pippin._engine.draws import draws, generator_of
from pippin._engine.protocol import Bounds, Draws
from pippin._runtime.arrays import Classes, Seed, Vector, named
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score
from pippin._validation.batched import Batched, watched
from pippin._validation.index import same_index
from pippin._validation.labels import agree, as_labels
from pippin._validation.rows import Rows, as_rows


class Ruled(Protocol):
    """A predictor whose answers follow from one rule."""

    @property
    def score(self) -> Score: ...
    @property
    def classes(self) -> Classes: ...
    @property
    def _rule(self) -> Rule: ...


def asked_rows(classes: Classes, probs: Any, from_logits: bool, **beside: Any) -> Rows:
    """Rows of these classes; what stands beside them must not contradict their index."""
    rows = as_rows(probs, from_logits)
    agree(classes, rows)
    same_index("probs", rows.index, **beside)
    return rows


def drawn(score: Score, n: int, seed: Seed, smoothed: bool = False) -> Draws:
    """One generator gives first u for a randomised score, as `predict` draws it, then v."""
    if not smoothed:
        return Draws(draws(score, n, seed), None)
    generator = generator_of(seed)
    return Draws(draws(score, n, generator), generator.random(n))


def sets(predictor: Ruled, asked: Asked, nonempty: bool, bounds: Bounds | None = None) -> PredictionSets:
    """The set of every row; with `nonempty` the most probable class is put into those that would be empty.

    `bounds` are those of the predictor's rule, if somebody has looked at them already.
    """
    limits = predictor._rule.bounds(asked) if bounds is None else bounds
    return sets_within(predictor, asked.rows, limits, asked.draws.u, nonempty)


def sets_within(predictor: Ruled, rows: Rows, bounds: Bounds, u: Vector, nonempty: bool) -> PredictionSets:
    """The same of rows that nothing else was asked of."""
    found = dispatch.members(rows, predictor.score, bounds, u)
    if nonempty:
        found = dispatch.with_best(rows, found)
    return PredictionSets(*found, predictor.classes, rows.index)


def sets_of_batches(
    predictor: ConformalPredictor, source: Batched, seed: Seed, nonempty: bool, **told: Any
) -> PredictionSets:
    """The sets of all rows, which are small beside the rows; what the tables bring themselves must not be told."""
    if given := next((name for name, value in told.items() if value is not None), None):
        raise InputError(f"Expected tables without {given}=", "leave it out, the tables bring what they have")
    needs = ("groups",) if "groups" in predictor.takes else ()
    generator, every = generator_of(seed), []
    for batch in watched(source, *needs):
        beside = {"groups": batch.groups} if needs else {}
        with batch.naming():
            every.append(predictor.predict(batch.rows, seed=generator, nonempty=nonempty, **beside))
    sizes, members = (np.concatenate([getattr(one, name) for one in every]) for name in ("sizes", "members"))
    return PredictionSets(sizes, members, predictor.classes)


def p_values(predictor: Ruled, asked: Asked, labels: ArrayLike | None) -> Any:
    """The p-value of every class, (n, K); with labels of one class per row, (n,); frames give frames."""
    return like_rows(_p_values(predictor, asked, labels), asked.rows, predictor.classes)


def _p_values(predictor: Ruled, asked: Asked, labels: ArrayLike | None) -> Vector:
    rows, rule = asked.rows, predictor._rule
    if labels is not None:
        same_index("probs", rows.index, labels=labels)
        codes = as_labels(labels, rows.n, predictor.classes)
        scores = dispatch.label_scores(rows, codes, predictor.score, asked.draws.u)
        return rule.p_of_labels(asked, scores, codes)
    every = np.empty((rows.n, rows.n_classes))

    def use(start: int, p: Vector) -> None:
        every[start : start + len(p)] = p

    rule.p_of_classes(asked, predictor.score, use)
    return every


def points(predictor: Ruled, asked: Asked) -> PointPredictions:
    """The class with the largest p-value of each row; of equal ones the most probable, then the first.

    A class without any calibration example has p = 1 whatever the object is: it is not chosen, but
    as long as it may be the true one, confidence is 0.

    No more than a tile of p-values is held at a time.
    """
    rows, rule, unknown = asked.rows, predictor._rule, predictor._rule.unknown()
    if unknown is None:
        pair = dispatch.best_two(rows)
        scores = (dispatch.label_scores(rows, codes, predictor.score, asked.draws.u) for codes in pair)
        largest, second = (rule.p_of_labels(asked, own, codes) for own, codes in zip(scores, pair, strict=True))
        return PointPredictions(named(pair[0], predictor.classes), 1 - second, largest)
    best, largest, second = np.empty(rows.n, dtype=np.int64), np.empty(rows.n), np.empty(rows.n)

    def use(start: int, p: Vector) -> None:
        part, row = slice(start, start + len(p)), np.arange(len(p))
        judged = np.where(unknown[0 if asked.group is None else asked.group[part]], -1, p)
        at_top = judged == judged.max(axis=1, keepdims=True)
        best[part] = np.where(at_top, rows.block(start, start + len(p)), -1).argmax(axis=1)
        largest[part] = p[row, best[part]]
        p[row, best[part]] = -1
        second[part] = p.max(axis=1)

    rule.p_of_classes(asked, predictor.score, use)
    return PointPredictions(named(best, predictor.classes), 1 - second, largest)
