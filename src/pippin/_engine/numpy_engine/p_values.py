"""p-values in NumPy: one search serves the calibration scores of all cells."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine.numpy_engine.scores import class_scores
from pippin._engine.protocol import Draws, FillP, Held
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.formula import Coefficients

Among = Callable[[Vector, Indices, Vector | None], Vector]


def p_values(c: Coefficients, held: Held) -> FillP:
    """A function that fills in the p-value of every class of a block."""
    search = among(held)

    def fill(block: Floats, group: Codes, draws: Draws, p: Vector) -> None:
        scores = class_scores(block, c, draws.u)
        p[:] = search(scores, held.of[group], None if draws.v is None else draws.v[:, None])

    return fill


def among(held: Held) -> Among:
    """A function of scores, their cells and v that gives their p-values.

    A score becomes a whole number, odd if it occurs among the calibration scores and even
    between two that do, and cells follow each other: so one search serves them all.
    """
    values = np.unique(held.scores)
    width = 2 * len(values) + 1
    counts = np.diff(held.offsets)

    def keys(scores: Vector, cell: NDArray[Any]) -> Codes:
        place = np.searchsorted(values, scores, "left") + np.searchsorted(values, scores, "right")
        return place + cell.astype(np.int64) * width

    calibration = keys(held.scores, np.repeat(np.arange(len(counts)), counts))

    def search(scores: Vector, cell: Indices, v: Vector | None) -> Vector:
        n, stop, asked = counts[cell], held.offsets[1:][cell], keys(scores, cell)
        low = np.searchsorted(calibration, asked, "left")
        high = low if v is None else np.searchsorted(calibration, asked, "right")
        p: Vector = (1 + (stop - low) if v is None else (stop - high) + v * (1 + (high - low))) / (n + 1)
        return p

    return search
