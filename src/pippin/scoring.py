"""Rows in, scores or sets out: block by block, on all cores, by the path that pays.

Small work runs in NumPy (`plain.py`). Once a process has scored about a million
probabilities, the compiled loops (`kernels.py`) are loaded and serve everything after.
Both give the same bits, so nobody can tell but by the clock.
"""

import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from pippin import plain
from pippin.ranking import Rows
from pippin.scores import Score, coefficients
from pippin.threads import run

Vector = NDArray[np.float64]

BLOCK = 1 << 18  # probabilities per block: a megabyte of float32
WORTH_COMPILING = 1_000_000  # probabilities that NumPy scores while the compiled loops load

_scored_in_numpy = 0


def label_scores(rows: Rows, labels: NDArray[np.int64], score: Score, u: Vector) -> Vector:
    """The score of one class per row."""
    c = coefficients(score, rows.n_classes)
    scores = np.empty(rows.n)
    kernels = _compiled(rows.array.size)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        if kernels is None:
            rows.check(start, stop)
            scores[part] = plain.label_scores(rows.block(start, stop), labels[part], c, u[part])
        elif kernels.label_scores(rows.block(start, stop), labels[part], c, u[part], scores[part]):
            rows.check(start, stop)

    run(work, _blocks(rows))
    return scores


def class_scores(rows: Rows, score: Score, u: Vector) -> Vector:
    """The score of every class of every row."""
    c = coefficients(score, rows.n_classes)
    scores = np.empty((rows.n, rows.n_classes))
    kernels = _compiled(rows.array.size)

    def work(start: int, stop: int) -> None:
        rows.check(start, stop)
        engine = kernels or plain
        scores[start:stop] = engine.class_scores(rows.block(start, stop), c, u[start:stop])

    run(work, _blocks(rows))
    return scores


def members(rows: Rows, score: Score, threshold: float, u: Vector) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The size of each row's set, and the members of all sets row after row, best first."""
    c = coefficients(score, rows.n_classes)
    sizes = np.zeros(rows.n, dtype=np.int64)
    found: dict[int, NDArray[np.int32]] = {}
    kernels = _compiled(rows.array.size)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        if kernels is None:
            rows.check(start, stop)
            sizes[part], found[start] = plain.members(rows.block(start, stop), c, threshold, u[part])
        else:
            found[start], suspects = kernels.members(rows.block(start, stop), c, threshold, u[part], sizes[part])
            if suspects:
                rows.check(start, stop)

    run(work, _blocks(rows))
    return sizes, np.concatenate([found[start] for start in sorted(found)])


def one_set(row: NDArray[np.float64], score: Score, threshold: float, u: float) -> NDArray[np.int32]:
    """The members of one object's set, best first, by the compiled loop always."""
    from pippin import kernels

    found, suspect = kernels.one_set(row, coefficients(score, row.size), threshold, u)
    if suspect:
        Rows(row[None], False, None).check(0, 1)
    return found


def _blocks(rows: Rows) -> Iterator[tuple[int, int]]:
    step = max(1, BLOCK // rows.n_classes)
    return ((start, min(start + step, rows.n)) for start in range(0, rows.n, step))


def _compiled(work: int) -> ModuleType | None:
    """The compiled loops, once they are loaded or worth loading."""
    global _scored_in_numpy
    if "pippin.kernels" not in sys.modules:
        _scored_in_numpy += work
        if _scored_in_numpy < WORTH_COMPILING:
            return None
    from pippin import kernels

    return kernels
