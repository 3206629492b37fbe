"""p-values: how unusual a class would be among the calibration examples that speak for it.

With s the score of the class, and the n calibration scores of its cell,

    p = (1 + #{scores >= s}) / (n + 1)
    smoothed p = (#{scores > s} + v·(1 + #{scores = s})) / (n + 1),  v uniform in [0, 1)

The prediction set at level α is {classes with p > α}.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine import dispatch, plain
from pippin._engine.plain import Vector
from pippin._inputs.rows import Classes, Rows, read_only
from pippin._predictors.cells import Cells
from pippin._runtime.threads import run
from pippin._theory.scores import Score, coefficients

Fill = Callable[[int, int, Vector], None]  # p-values of the rows from start to stop, into an array

TILE = 1 << 17  # probabilities ranked together: small enough for a processor's own cache


@dataclass(frozen=True, eq=False, repr=False)
class PointPredictions:
    """One class per object, the one with the largest p-value, and how far to trust it.

    `credibility` is that largest p-value: small where no class looks like the calibration
    examples. `confidence` is 1 − the second largest: the greatest 1 − α at which the
    prediction set has at most this one class.

    >>> PointPredictions(np.array(["weed", "crop"]), np.array([0.99, 0.5]), np.array([0.7, 0.6]))
    PointPredictions(2 objects, mean confidence 0.745, mean credibility 0.650)
    """

    labels: NDArray[Any]
    confidence: Vector
    credibility: Vector

    def __post_init__(self) -> None:
        for name in ("labels", "confidence", "credibility"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        means = f"mean confidence {self.confidence.mean():.3f}, mean credibility {self.credibility.mean():.3f}"
        return f"PointPredictions({len(self):,} objects, {means})"


@dataclass(frozen=True, eq=False)
class Query:
    """Rows, and all that their p-values depend on; `group[i]` is the row of `cells.of` that object i uses.

    `v` is None for p-values that are not smoothed.
    """

    rows: Rows
    score: Score
    cells: Cells
    group: NDArray[np.int64]
    u: Vector
    v: Vector | None


def ask(rows: Rows, score: Score, cells: Cells, group: NDArray[np.int64], smoothed: bool, seed: Any) -> Query:
    """One generator gives first u for a randomised score, as `predict` draws it, then v.

    Raises:
        ValueError: the cells came from a file without calibration scores.
    """
    if cells.scores is None:
        raise ValueError(
            "This predictor was saved without its calibration scores, so it can give no p-values: "
            "calibrate again, or save with scores=True."
        )
    generator = np.random.default_rng(seed)
    u = dispatch.draws(score, rows.n, generator)
    return Query(rows, score, cells, group, u, generator.random(rows.n) if smoothed else None)


def of_labels(query: Query, labels: NDArray[np.int64]) -> Vector:
    """The p-value of one class per row."""
    scores = dispatch.label_scores(query.rows, labels, query.score, query.u)
    return _among(query.cells)(scores, query.cells.of[query.group, labels], query.v)


def of_classes(query: Query) -> Vector:
    """The p-value of every class of every row, (n, K)."""
    found = np.empty((query.rows.n, query.rows.n_classes))
    fill = _filler(query)
    run(lambda start, stop: fill(start, stop, found[start:stop]), _tiles(query.rows))
    return found


def points(query: Query, classes: Classes) -> PointPredictions:
    """The class with the largest p-value of each row; of equal ones the most probable, then the first.

    A class without any calibration example has p = 1 whatever the object is: it is not chosen, but
    as long as it may be the true one, confidence is 0.

    No more than a tile of p-values is held at a time.
    """
    if _alone(query.cells).all():
        return best_two(query.rows, classes, lambda labels: of_labels(query, labels))
    best = np.empty(query.rows.n, dtype=np.int64)
    largest, second = np.empty(query.rows.n), np.empty(query.rows.n)
    fill = _filler(query)
    unknown = (query.cells.counts == 0)[query.cells.of]

    def work(start: int, stop: int) -> None:
        p = np.empty((stop - start, query.rows.n_classes))
        fill(start, stop, p)
        judged = np.where(unknown[query.group[start:stop]], -1, p)
        at_top = judged == judged.max(axis=1, keepdims=True)
        row, found = np.arange(stop - start), np.where(at_top, query.rows.block(start, stop), -1).argmax(axis=1)
        best[start:stop], largest[start:stop] = found, p[row, found]
        p[row, found] = -1
        second[start:stop] = p.max(axis=1)

    run(work, _tiles(query.rows))
    return PointPredictions(_named(best, classes), 1 - second, largest)


def best_two(rows: Rows, classes: Classes, p_of: Callable[[NDArray[np.int64]], Vector]) -> PointPredictions:
    """Where the same examples speak for all classes of a row, p-values fall with the rank: two of them suffice.

    `p_of` gives the p-value of one class per row.
    """
    best, runner_up = np.empty(rows.n, dtype=np.int64), np.empty(rows.n, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        block = rows.block(start, stop).copy()
        best[start:stop] = block.argmax(axis=1)
        block[np.arange(stop - start), best[start:stop]] = -1
        runner_up[start:stop] = block.argmax(axis=1)

    run(work, _tiles(rows))
    largest, second = p_of(read_only(best)), p_of(read_only(runner_up))
    return PointPredictions(_named(best, classes), 1 - second, largest)


def _named(best: NDArray[np.int64], classes: Classes) -> NDArray[Any]:
    return best if isinstance(classes, range) else np.array(classes)[best]


def _filler(query: Query) -> Fill:
    return plain_fill(query) if dispatch.compiled(query.rows.array.size) is None else compiled_fill(query)


def plain_fill(query: Query) -> Fill:
    """Puts p-values into an array, in NumPy."""
    rows, v = query.rows, query.v
    c, among = coefficients(query.score, rows.n_classes), _among(query.cells)

    def fill(start: int, stop: int, found: Vector) -> None:
        rows.check(start, stop)
        part = slice(start, stop)
        scores = plain.class_scores(rows.block(start, stop), c, query.u[part])
        found[:] = among(scores, query.cells.of[query.group[part]], None if v is None else v[part, None])

    return fill


def compiled_fill(query: Query) -> Fill:
    """The same bits from compiled loops."""
    from pippin._engine.compiled import engine, p_values

    rows, cells = query.rows, query.cells
    assert cells.scores is not None
    # For every caller the same compiled loops, which are made for read-only arrays.
    of, offsets, scores = read_only(cells.of), read_only(cells.offsets), read_only(cells.scores)
    c, v = coefficients(query.score, rows.n_classes), np.full(rows.n, -1.0) if query.v is None else query.v
    ends, alone = p_values.run_ends(scores, offsets), _alone(cells)

    def fill(start: int, stop: int, found: Vector) -> None:
        part, block = slice(start, stop), rows.block(start, stop)
        order = engine.whole_order(block)
        held_against = of, alone, query.group[part], scores, offsets, ends
        if p_values.fill_p_values(block, order, c, query.u[part], v[part], *held_against, found):
            rows.check(start, stop)

    return fill


def _among(cells: Cells) -> Callable[[Vector, NDArray[np.int32], Vector | None], Vector]:
    """A function of scores, their cells and v that gives their p-values, in NumPy.

    One search serves all cells: a score becomes a whole number, odd if it occurs among the
    calibration scores and even between two that do, and cells follow each other.
    """
    assert cells.scores is not None
    known = np.unique(cells.scores)
    width = 2 * len(known) + 1

    def keys(scores: Vector, cell: NDArray[Any]) -> NDArray[np.int64]:
        place = np.searchsorted(known, scores, "left") + np.searchsorted(known, scores, "right")
        return place + cell.astype(np.int64) * width

    calibration = keys(cells.scores, np.repeat(np.arange(len(cells.counts)), cells.counts))

    def among(scores: Vector, cell: NDArray[np.int32], v: Vector | None) -> Vector:
        n, stop, asked = cells.counts[cell], cells.offsets[1:][cell], keys(scores, cell)
        low = np.searchsorted(calibration, asked, "left")
        if v is None:
            return (1 + (stop - low)) / (n + 1)
        high = np.searchsorted(calibration, asked, "right")
        return ((stop - high) + v * (1 + (high - low))) / (n + 1)

    return among


def _alone(cells: Cells) -> NDArray[np.bool_]:
    """Of each group: whether one cell speaks for all its classes."""
    alone: NDArray[np.bool_] = (cells.of == cells.of[:, :1]).all(axis=1)
    return alone


def _tiles(rows: Rows) -> Iterator[tuple[int, int]]:
    step = max(1, TILE // rows.n_classes)
    return ((start, min(start + step, rows.n)) for start in range(0, rows.n, step))
