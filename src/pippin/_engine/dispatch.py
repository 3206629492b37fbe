"""Rows in, scores or sets out: block by block, on all cores, by the path that pays.

Small work runs in NumPy (`plain.py`). Once a process has scored about a million
probabilities, the compiled loops (`kernels.py`) are loaded and serve everything after.
Both give the same bits, so nobody can tell but by the clock.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine import plain
from pippin._engine.plain import Places, Vector
from pippin._inputs.rows import Rows, ranked_order, read_only, uniforms
from pippin._runtime.threads import n_threads, run
from pippin._theory.scores import Score, coefficients

BLOCK = 1 << 20  # probabilities per block at most: four megabytes of float32
ALONE = 1 << 17  # probabilities that are not worth a second thread
OneSet = Callable[[NDArray[Any], float], NDArray[np.int32]]

WORTH_COMPILING = 1_000_000  # probabilities that NumPy scores while the compiled loops load

EVERY_LOOP = {"ip": (8, 2), "pip": (8, 2), "socop": (1, 2)}  # a score and a shape for each kind of rows

_scored_in_numpy = 0
_kernels: ModuleType | None = None


def label_places(rows: Rows, labels: NDArray[np.int64], score: Score, u: Vector) -> tuple[Places, Vector]:
    """What the formula needs of one class per row, and the score that it gives."""
    c = coefficients(score, rows.n_classes)
    found: dict[int, Places] = {}
    scores = np.empty(rows.n)
    kernels = compiled(rows.array.size)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        if kernels is None:
            rows.check(start, stop)
            found[start], scores[part] = plain.label_places(rows.block(start, stop), labels[part], c, u[part])
        else:
            block = rows.block(start, stop)
            found[start], scores[part], suspects = kernels.label_places(block, labels[part], c, u[part])
            if suspects:
                rows.check(start, stop)

    _in_blocks(work, rows)
    return _joined(found), scores


def label_scores(rows: Rows, labels: NDArray[np.int64], score: Score, u: Vector) -> Vector:
    """The score of one class per row."""
    c = coefficients(score, rows.n_classes)
    scores = np.empty(rows.n)
    kernels = compiled(rows.array.size)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        if kernels is None:
            rows.check(start, stop)
            scores[part] = plain.label_places(rows.block(start, stop), labels[part], c, u[part])[1]
        elif kernels.label_scores(rows.block(start, stop), labels[part], c, u[part], scores[part]):
            rows.check(start, stop)

    _in_blocks(work, rows)
    return scores


def smallest(scores: Vector, k: int) -> float:
    """The k-th smallest score."""
    kernels = compiled(scores.size)
    if kernels is None:
        return float(np.partition(scores, k - 1)[k - 1])
    return float(kernels.smallest(scores.copy(), k - 1))


def band(rows: Rows, score: Score, low: float, high: float) -> tuple[NDArray[np.int64], Places]:
    """Set sizes that every threshold from `low` to `high` reaches, and the places that only some reach."""
    c = coefficients(score, rows.n_classes)
    sizes = np.zeros(rows.n, dtype=np.int64)
    found: dict[int, Places] = {}
    engine = compiled(rows.array.size) or plain

    def work(start: int, stop: int) -> None:
        sizes[start:stop], found[start] = engine.band(rows.block(start, stop), c, low, high)

    _in_blocks(work, rows)
    return sizes, _joined(found)


def class_scores(rows: Rows, score: Score, u: Vector) -> Vector:
    """The score of every class of every row."""
    c = coefficients(score, rows.n_classes)
    scores = np.empty((rows.n, rows.n_classes))
    kernels = compiled(rows.array.size)

    def work(start: int, stop: int) -> None:
        rows.check(start, stop)
        engine = kernels or plain
        scores[start:stop] = engine.class_scores(rows.block(start, stop), c, u[start:stop])

    _in_blocks(work, rows)
    return scores


def members(rows: Rows, score: Score, threshold: float, u: Vector) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The size of each row's set, and the members of all sets row after row, best first."""
    c = coefficients(score, rows.n_classes)
    sizes = np.zeros(rows.n, dtype=np.int64)
    found: dict[int, NDArray[np.int32]] = {}
    kernels = compiled(rows.array.size)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        if kernels is None:
            rows.check(start, stop)
            sizes[part], found[start] = plain.members(rows.block(start, stop), c, threshold, u[part])
        else:
            found[start], suspects = kernels.members(rows.block(start, stop), c, threshold, u[part], sizes[part])
            if suspects:
                rows.check(start, stop)

    _in_blocks(work, rows)
    return sizes, _strung(found)


def members_within(
    rows: Rows, score: Score, limits: Vector, rank_limits: NDArray[np.int32] | None, group: NDArray[np.int64], u: Vector
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """As `members`; class k of a row in group g must score at most `limits[g, k]`, or `limits[g, 0]` if that is all.

    With `rank_limits` its rank (from 1) must not exceed `rank_limits[g, k]` either.
    """
    c = coefficients(score, rows.n_classes)
    sizes = np.zeros(rows.n, dtype=np.int64)
    found: dict[int, NDArray[np.int32]] = {}
    limits = read_only(limits)  # for every caller the same compiled loop, which is made for read-only arrays
    highest = read_only(np.zeros((1, 1), dtype=np.int32) if rank_limits is None else rank_limits)
    kernels = _cell_kernels(rows.array.size)

    def work(start: int, stop: int) -> None:
        part, block = slice(start, stop), rows.block(start, stop)
        if kernels is None:
            rows.check(start, stop)
            sizes[part], found[start] = plain.members_within(block, c, limits, highest, group[part], u[part])
        else:
            found[start], suspects = kernels.members_within(
                block, c, limits, highest, group[part], u[part], sizes[part]
            )
            if suspects:
                rows.check(start, stop)

    _in_blocks(work, rows)
    return sizes, _strung(found)


def best_classes(rows: Rows, chosen: NDArray[np.intp]) -> NDArray[np.int32]:
    """The most probable class of some rows; the first of equal ones."""
    best = np.empty(len(chosen), dtype=np.int32)

    def work(start: int, stop: int) -> None:
        best[start:stop] = rows.take(chosen[start:stop]).block(0, stop - start).argmax(axis=1)

    step = max(4, BLOCK // rows.n_classes)
    run(work, ((start, min(start + step, len(chosen))) for start in range(0, len(chosen), step)))
    return best


def with_best(
    rows: Rows, sizes: NDArray[np.int64], members: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The sets with the most probable class in each one that was empty."""
    empty = np.flatnonzero(sizes == 0)
    if not len(empty):
        return sizes, members
    return np.maximum(sizes, 1), np.insert(members, np.cumsum(sizes)[empty], best_classes(rows, empty))


def draws(score: Score, n: int, seed: Any) -> Vector:
    """One u per object for a randomised score; zeros for any other, which takes none.

    Raises:
        ValueError: something else stands where the seed belongs, such as groups.
    """
    if seed is not None and (isinstance(seed, str) or hasattr(seed, "__array__")) and not isinstance(seed, np.integer):
        raise ValueError(
            f"Expected a seed or a Generator, got {type(seed).__name__}: pass groups and weights by their names."
        )
    return uniforms(seed, n) if score.randomized else np.zeros(n)


def one_set(score: Score, n_classes: int, threshold: float) -> OneSet:
    """A function of one object's row and u that gives the members of its set, best first; always compiled."""
    from pippin._engine.compiled import engine

    parts, compiled_one_set = coefficients(score, n_classes)[:], engine.one_set

    def find(row: NDArray[Any], u: float) -> NDArray[np.int32]:
        found, suspect = compiled_one_set(read_only(row), parts, threshold, u)
        if suspect:
            try:
                Rows(row[None], False, None).check(0, 1)
            except ValueError as error:
                said = str(error).removeprefix("Row 0 ").replace("pass from_logits=True", "apply softmax first")
                raise ValueError(f"The row {said}") from None
        return found

    return find


def ranked_rows(rows: Rows, labels: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int64]]:
    """Every row sorted downwards, and each label as its rank (from 0): the same scores, ranked already."""
    ranked = np.empty((rows.n, rows.n_classes), rows.block(0, 1).dtype)
    ranks = np.empty(rows.n, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        rows.check(start, stop)
        block = rows.block(start, stop)
        ranks[start:stop] = _ranks_in(block, labels[start:stop])
        ranked[start:stop] = np.sort(block, axis=1)[:, ::-1]

    _in_blocks(work, rows)
    return Rows(read_only(ranked), False, None), read_only(ranks)


def row_orders(rows: Rows) -> NDArray[np.int32]:
    """The class at every rank of every row; equal probabilities are ranked by class index."""
    orders = np.empty((rows.n, rows.n_classes), dtype=np.int32)

    def work(start: int, stop: int) -> None:
        orders[start:stop] = ranked_order(rows.block(start, stop))

    _in_blocks(work, rows)
    return read_only(orders)


def label_ranks(rows: Rows, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rank (from 0) of one class per row; equal probabilities are ranked by class index."""
    ranks = np.empty(rows.n, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        ranks[start:stop] = _ranks_in(rows.block(start, stop), labels[start:stop])

    _in_blocks(work, rows)
    return ranks


def _ranks_in(block: Any, labels: NDArray[np.int64]) -> Any:
    own = np.take_along_axis(block, labels[:, None], axis=1)
    before = np.arange(block.shape[1]) < labels[:, None]
    return ((block > own) | ((block == own) & before)).sum(axis=1)


def checksum(rows: Rows, labels: NDArray[np.int64]) -> str:
    """The SHA-256 of rows and labels, whatever array they came in."""
    digest = hashlib.sha256(repr(rows.array.shape).encode())
    for start, stop in _blocks(rows):
        digest.update(np.ascontiguousarray(rows.array[start:stop]).data)
    digest.update(labels.data)
    return digest.hexdigest()


def _joined(found: dict[int, Places]) -> Places:
    """The places of all blocks, their rows counted from the first block's."""
    if len(found) == 1:
        return found[0]
    parts = [(start, found[start]) for start in sorted(found)]
    return Places(
        np.concatenate([part.row + np.int32(start) for start, part in parts]),
        *(np.concatenate([part[column] for _, part in parts]) for column in (1, 2, 3)),
    )


def _strung(found: dict[int, NDArray[np.int32]]) -> NDArray[np.int32]:
    """The members of all blocks in the order of rows."""
    return found[0] if len(found) == 1 else np.concatenate([found[start] for start in sorted(found)])


def _in_blocks(work: Callable[[int, int], None], rows: Rows) -> None:
    """Calls work(start, stop) for every block of rows, on all cores."""
    if rows.array.size <= ALONE:
        work(0, rows.n)
    else:
        run(work, _blocks(rows))


def _blocks(rows: Rows) -> Iterator[tuple[int, int]]:
    step = max(4, min(BLOCK // rows.n_classes, -(-rows.n // n_threads())))
    return ((start, min(start + step, rows.n)) for start in range(0, rows.n, step))


def _cell_kernels(work: int) -> ModuleType | None:
    if compiled(work) is None:
        return None
    from pippin._engine.compiled import per_class

    return per_class


def compiled(work: int) -> ModuleType | None:
    """The compiled loops, once they are loaded or worth loading."""
    global _scored_in_numpy, _kernels
    if _kernels is not None:
        return _kernels
    if "pippin._engine.compiled.engine" not in sys.modules:
        _scored_in_numpy += work
        if _scored_in_numpy < WORTH_COMPILING:
            return None
    from pippin._engine.compiled import engine  # waits, if another thread is importing them

    _kernels = engine
    return engine
