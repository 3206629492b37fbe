"""Sharpening (recalibration) as the first step of a predictor: one map, one map per fold, or a random map per row."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._runtime.arrays import Codes
from pippin._sharpening.sharpener import Sharpener, as_features
from pippin._validation.index import same_index
from pippin._validation.labels import as_rows_of_stack
from pippin._validation.rows import Rows, row_of_classes, select_columns

Combine = Literal["single", "folds", "mixture"]


@dataclass(frozen=True, eq=False)
class SharpeningStep:
    """Sharpeners (recalibration maps) that a predictor applies to probabilities before it computes scores.

    Attributes:
        sharpeners: the fitted sharpeners.
        combine: "single" for one sharpener; "folds" for one per fold of a cross-conformal predictor; "mixture" to draw
            one at random for each row. In a mixture, each sharpener has its own threshold, which is calibrated on rows
            that this sharpener was not fitted on.
    """

    sharpeners: tuple[Sharpener, ...]
    combine: Combine = "single"

    @property
    def n_features(self) -> int:
        """Number of features that the sharpeners need in addition to the probabilities."""
        return self.sharpeners[0].n_features

    def rows(self, probs: Any, features: ArrayLike | None, from_logits: bool) -> tuple[Rows, ...]:
        """Recalibrate all rows by each of the sharpeners; return one `Rows` per sharpener."""
        rows = as_rows_of_stack(probs, from_logits)
        return tuple(sharpener.rows(rows, features=features) for sharpener in self.sharpeners)

    def one_object(self, row: Any) -> NDArray[Any]:
        """Convert the probabilities of one object to the input for a batch of one row, for stacks (M, 1, K)."""
        first = self.sharpeners[0]
        return row_of_classes(first.classes, row)[None] if first.pool is None else first.one_row(row)[:, None]

    def mixed(
        self, probs: Any, features: ArrayLike | None, from_logits: bool, generator: np.random.Generator
    ) -> tuple[Rows, Codes]:
        """Recalibrate each row by a randomly drawn sharpener; return the rows, and each row's sharpener index."""
        rows = select_columns(self.sharpeners[0].classes, as_rows_of_stack(probs, from_logits)).verified()
        same_index("probs", rows.index, features=features)
        checked = None if features is None else as_features(features, rows.n)
        drawn_sharpener = generator.integers(len(self.sharpeners), size=rows.n)
        out = np.empty((rows.n, rows.n_classes), dtype=np.float32)
        for number, sharpener in enumerate(self.sharpeners):
            chosen = np.flatnonzero(drawn_sharpener == number)
            if len(chosen):
                part = Rows(rows.array[chosen], rows.logits, rows.names, checked=True)
                some: Any = checked and checked.take(chosen)
                out[chosen] = sharpener.rows(part, features=some).array
        return replace(rows, array=out, logits=False), drawn_sharpener

    def describe(self) -> str:
        """Describe the sharpeners in a phrase, which a predictor adds to its own description."""
        n = len(self.sharpeners)
        return f"behind {f'{n} sharpeners, the first' if n > 1 else 'a sharpener'} {self.sharpeners[0].describe()}"
