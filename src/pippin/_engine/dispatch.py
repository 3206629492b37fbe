"""Rows in, scores or sets out: block by block, on all cores, by the engine that pays.

Small work runs in NumPy. Once a process has scored about a million probabilities, the
compiled loops are loaded and serve everything after. Both give the same bits, so nobody
can tell but by the clock.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine.plain import engine as plain
from pippin._engine.plain.scores import ranked_order
from pippin._engine.protocol import Bounds, Draws, Engine, Held, Places
from pippin._inputs.rows import Rows, find_fault
from pippin._runtime.arrays import Codes, Floats, Indices, Vector, read_only
from pippin._runtime.disk import room_beside
from pippin._runtime.errors import InputError
from pippin._runtime.threads import n_threads, run
from pippin._theory.scores import Score, coefficients

BLOCK = 1 << 20  # probabilities per block at most: four megabytes of float32
TILE = 1 << 17  # of p-values, which are ranked whole: small enough for a processor's own cache
ALONE = 1 << 17  # probabilities that are not worth a second thread
WORTH_COMPILING = 1_000_000  # probabilities that NumPy scores while the compiled loops load

OneSet = Callable[[NDArray[Any], float, float], Indices]
OneScore = Callable[[NDArray[Any], float, int], float]
Sets = tuple[Codes, Indices]  # the size of each row's set, and the members of all sets row after row, best first

_COMPILED = "pippin._engine.compiled.engine"
_scored_in_numpy = 0
_loaded: Engine | None = None


def engine_for(work: int) -> Engine:
    """The one place that chooses: the compiled loops, once they are loaded or worth loading, else NumPy.

    `work` is how many probabilities are about to be scored.
    """
    global _scored_in_numpy, _loaded
    if _loaded is not None:
        return _loaded
    if _COMPILED not in sys.modules:
        _scored_in_numpy += work
        if _scored_in_numpy < WORTH_COMPILING:
            return plain
    from pippin._engine.compiled import engine  # waits, if another thread is importing them

    _loaded = engine
    return engine


def is_compiled() -> bool:
    """Whether the compiled loops are in use, which do not hold the interpreter."""
    return engine_for(0) is not plain


def label_places(rows: Rows, labels: Codes, score: Score, u: Vector) -> tuple[Places, Vector]:
    """What the formula needs of one class per row, and the score that it gives."""
    c, engine = coefficients(score, rows.n_classes), engine_for(rows.array.size)
    places: dict[int, Places] = {}
    scores = np.empty(rows.n)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        block = examined(engine, rows, start, stop)
        places[start], scores[part], suspects = engine.label_places(block, labels[part], c, u[part])
        if suspects:
            rows.check(start, stop)

    in_blocks(work, rows)
    return _joined(places), scores


def label_scores(rows: Rows, labels: Codes, score: Score, u: Vector) -> Vector:
    """The score of one class per row."""
    n, n_classes = rows.array.shape
    c, engine, scores = coefficients(score, n_classes), engine_for(n * n_classes), np.empty(n)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        if engine.label_scores(examined(engine, rows, start, stop), labels[part], c, u[part], scores[part]):
            rows.check(start, stop)

    in_blocks(work, rows)
    return scores


def accuracy(rows: Rows, labels: Codes) -> float:
    """The share of rows whose most probable class, the first of equal ones, is the label."""
    right: dict[int, int] = {}

    def work(start: int, stop: int) -> None:
        right[start] = int(np.count_nonzero(rows.block(start, stop).argmax(axis=1) == labels[start:stop]))

    in_blocks(work, rows)
    return sum(right.values()) / rows.n


def smallest(scores: Vector, k: int) -> float:
    """The k-th smallest score, k from 1 on."""
    return engine_for(0).smallest(scores, k)


def band(rows: Rows, score: Score, low: float, high: float) -> tuple[Codes, Places]:
    """Set sizes that every threshold from `low` to `high` reaches, and the places that only some reach."""
    c, engine = coefficients(score, rows.n_classes), engine_for(rows.array.size)
    sizes = np.zeros(rows.n, dtype=np.int64)
    places: dict[int, Places] = {}

    def work(start: int, stop: int) -> None:
        sizes[start:stop], places[start] = engine.band(rows.block(start, stop), c, low, high)

    in_blocks(work, rows)
    return sizes, _joined(places)


def class_scores(rows: Rows, score: Score, u: Vector) -> Vector:
    """The score of every class of every row."""
    c, engine = coefficients(score, rows.n_classes), engine_for(rows.array.size)
    scores = np.empty((rows.n, rows.n_classes))

    def work(start: int, stop: int) -> None:
        rows.check(start, stop)
        scores[start:stop] = engine.class_scores(rows.block(start, stop), c, u[start:stop])

    in_blocks(work, rows)
    return scores


def members(rows: Rows, score: Score, bounds: Bounds, u: Vector) -> Sets:
    """The sets of all rows: the classes that keep to their bounds."""
    n, n_classes = rows.array.shape
    c, engine, sizes = coefficients(score, n_classes), engine_for(n * n_classes), np.zeros(n, dtype=np.int64)
    found: dict[int, Indices] = {}

    def work(start: int, stop: int) -> None:
        part, own = slice(start, stop), bounds.of_rows(start, stop)
        found[start], suspects = engine.members(examined(engine, rows, start, stop), c, own, u[part], sizes[part])
        if suspects:
            rows.check(start, stop)

    in_blocks(work, rows)
    return sizes, found[0] if len(found) == 1 else np.concatenate([found[start] for start in sorted(found)])


def p_values(
    rows: Rows, score: Score, held: Held, group: Codes | None, draws: Draws, use: Callable[[int, Vector], None]
) -> None:
    """Calls use(start, p) with the p-values of all classes, tile by tile."""
    group = np.zeros(rows.n, dtype=np.int64) if group is None else group
    engine = engine_for(rows.array.size)
    key = engine.INSPECTS, score  # which engine, in one word
    if key not in held.fills:
        held.fills[key] = engine.p_values(coefficients(score, rows.n_classes), held)
    fill = held.fills[key]

    def work(start: int, stop: int) -> None:
        p = np.empty((stop - start, rows.n_classes))
        if fill(examined(engine, rows, start, stop), group[start:stop], draws.of_rows(start, stop), p):
            rows.check(start, stop)
        use(start, p)

    in_steps(work, rows.n, TILE // rows.n_classes)


def one_set(score: Score, n_classes: int) -> OneSet:
    """A function of one object's row, u and a threshold that gives the members of its set, best first; compiled."""
    from pippin._engine.compiled import engine

    return _of_one_row(engine.one_set, score, n_classes)


def one_score(score: Score, n_classes: int) -> OneScore:
    """A function of one object's row, u and a class that gives the score of that class; always compiled."""
    from pippin._engine.compiled import engine

    return _of_one_row(engine.one_score, score, n_classes)


def _of_one_row(loop: Callable[..., Any], score: Score, n_classes: int) -> Callable[[NDArray[Any], float, Any], Any]:
    parts = coefficients(score, n_classes)[:]

    def find(row: NDArray[Any], u: float, asked: Any) -> Any:
        found, suspect = loop(row if row.flags.writeable else row.copy(), parts, u, asked)
        if suspect:
            refuse(row)
        return found

    return find


def refuse(row: NDArray[Any]) -> None:
    """Raises an InputError if one row is no distribution."""
    if (fault := find_fault(row[None])) is not None:
        raise InputError(f"The row {fault.what}", "apply softmax first" if fault.in_files else fault.remedy)


def best(rows: Rows) -> tuple[Codes, Vector]:
    """The most probable class of every row, the first of equal ones, and its probability."""
    classes, top = np.empty(rows.n, dtype=np.int64), np.empty(rows.n)

    def work(start: int, stop: int) -> None:
        rows.check(start, stop)
        block = rows.block(start, stop)
        classes[start:stop] = block.argmax(axis=1)
        top[start:stop] = block[np.arange(stop - start), classes[start:stop]]

    in_blocks(work, rows)
    return read_only(classes), read_only(top)


def best_classes(rows: Rows, chosen: NDArray[np.intp]) -> Indices:
    """The most probable class of some rows; the first of equal ones."""
    best = np.empty(len(chosen), dtype=np.int32)

    def work(start: int, stop: int) -> None:
        best[start:stop] = rows.take(chosen[start:stop]).block(0, stop - start).argmax(axis=1)

    in_steps(work, len(chosen), BLOCK // rows.n_classes)
    return best


def with_best(rows: Rows, sets: Sets) -> Sets:
    """The sets with the most probable class in each one that was empty."""
    sizes, members = sets
    empty = np.flatnonzero(sizes == 0)
    if not len(empty):
        return sets
    return np.maximum(sizes, 1), np.insert(members, np.cumsum(sizes)[empty], best_classes(rows, empty))


def best_two(rows: Rows) -> tuple[Codes, Codes]:
    """The two most probable classes of each row."""
    first, second = np.empty(rows.n, dtype=np.int64), np.empty(rows.n, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        block = rows.block(start, stop).copy()
        first[start:stop] = block.argmax(axis=1)
        block[np.arange(stop - start), first[start:stop]] = -1
        second[start:stop] = block.argmax(axis=1)

    in_steps(work, rows.n, TILE // rows.n_classes)
    return read_only(first), read_only(second)


def ranked_rows(rows: Rows, labels: Codes) -> tuple[Rows, Codes]:
    """Every row sorted downwards, and each label as its rank (from 0): the same scores, ranked already."""
    ranked = room_beside(rows.array, (rows.n, rows.n_classes), rows.block(0, 1).dtype)
    ranks = np.empty(rows.n, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        rows.check(start, stop)
        block = rows.block(start, stop)
        ranks[start:stop] = _ranks_in(block, labels[start:stop])
        ranked[start:stop] = np.sort(block, axis=1)[:, ::-1]

    in_blocks(work, rows)
    return Rows(read_only(ranked), checked=True), read_only(ranks)


def row_orders(rows: Rows) -> Indices:
    """The class at every rank of every row; equal probabilities are ranked by class index."""
    orders = np.empty((rows.n, rows.n_classes), dtype=np.int32)

    def work(start: int, stop: int) -> None:
        orders[start:stop] = ranked_order(rows.block(start, stop))

    in_blocks(work, rows)
    return read_only(orders)


def label_ranks(rows: Rows, labels: Codes) -> Codes:
    """The rank (from 0) of one class per row; equal probabilities are ranked by class index."""
    ranks = np.empty(rows.n, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        ranks[start:stop] = _ranks_in(rows.block(start, stop), labels[start:stop])

    in_blocks(work, rows)
    return ranks


def _ranks_in(block: Any, labels: Codes) -> Any:
    own = np.take_along_axis(block, labels[:, None], axis=1)
    before = np.arange(block.shape[1]) < labels[:, None]
    return ((block > own) | ((block == own) & before)).sum(axis=1)


def checksum(rows: Rows, labels: Codes) -> str:
    """The SHA-256 of rows and labels, whatever array they came in."""
    digest = hashlib.sha256(repr(rows.array.shape).encode())
    for start, stop in _blocks(rows):
        digest.update(np.ascontiguousarray(rows.array[start:stop]).data)
    digest.update(labels.data)
    return digest.hexdigest()


def examined(engine: Engine, rows: Rows, start: int, stop: int) -> Floats:
    """A block of rows for an engine; checked before, unless it looks for itself."""
    if not engine.INSPECTS:
        rows.check(start, stop)
    return rows.block(start, stop)


def _joined(parts: dict[int, Places]) -> Places:
    """The places of all blocks, their rows counted from the first block's."""
    if len(parts) == 1:
        return parts[0]
    ordered = [(start, parts[start]) for start in sorted(parts)]
    kind = np.int32 if ordered[-1][0] < 2**30 else np.int64  # a block has fewer rows than the other half
    return Places(
        np.concatenate([part.row + kind(start) for start, part in ordered]),
        *(np.concatenate([part[column] for _, part in ordered]) for column in (1, 2, 3)),
    )


def in_blocks(work: Callable[[int, int], None], rows: Rows) -> None:
    """Calls work(start, stop) for every block of rows, on all cores."""
    if rows.array.size <= ALONE:
        work(0, rows.n)
    else:
        run(work, _blocks(rows))


def _blocks(rows: Rows) -> Iterator[tuple[int, int]]:
    block = BLOCK // 2 if rows.logits else BLOCK  # their softmax is made in float64
    step = max(4, min(block // rows.n_classes, -(-rows.n // n_threads())))
    return ((start, min(start + step, rows.n)) for start in range(0, rows.n, step))


def in_steps(work: Callable[[int, int], None], n: int, step: int) -> None:
    """Calls work(start, stop) for every so many of n rows, on all cores."""
    step = max(1, step)
    run(work, ((start, min(start + step, n)) for start in range(0, n, step)))
