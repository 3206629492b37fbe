"""Sharpening as a step before the rule of a predictor: one sharpener, one per fold, or one drawn for each row."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pippin._runtime.arrays import Classes, Codes
from pippin._sharpening.sharpener import Sharpener, as_features
from pippin._validation.index import same_index
from pippin._validation.rows import Rows, as_rows

Combine = Literal["single", "folds", "mixture"]


@dataclass(frozen=True, eq=False)
class SharpeningStep:
    """Sharpeners applied to the probabilities of a predictor before its rule.

    Attributes:
        sharpeners: the sharpeners.
        combine: "single" for one sharpener; "folds" for one per fold of a cross-conformal rule; "mixture" if every
            row draws one, whose threshold was calibrated on the rows that this sharpener did not learn on.
    """

    sharpeners: tuple[Sharpener, ...]
    combine: Combine = "single"

    @property
    def classes(self) -> Classes:
        """Names of the classes."""
        return self.sharpeners[0].classes

    @property
    def n_features(self) -> int:
        """Number of features that the sharpeners learnt with."""
        return self.sharpeners[0].takes_features

    def rows(self, probs: Any, features: ArrayLike | None, from_logits: bool) -> tuple[Rows, ...]:
        """Return the rows sharpened by each sharpener."""
        rows = as_rows(probs, from_logits)
        return tuple(one.rows(rows, features=features) for one in self.sharpeners)

    def mixed(
        self, probs: Any, features: ArrayLike | None, from_logits: bool, generator: np.random.Generator
    ) -> tuple[Rows, Codes]:
        """Draw a sharpener for each row; return the sharpened rows and the number of each row's sharpener."""
        rows = as_rows(probs, from_logits).verified()
        same_index("probs", rows.index, features=features)
        given = None if features is None else as_features(features, rows.n)
        part = generator.integers(len(self.sharpeners), size=rows.n)
        out = np.empty((rows.n, rows.n_classes), dtype=np.float32)
        for number, sharpener in enumerate(self.sharpeners):
            of = np.flatnonzero(part == number)
            if len(of):
                chosen = Rows(rows.array[of], rows.logits, rows.names, checked=True)
                out[of] = sharpener.rows(chosen, features=None if given is None else given[of]).array
        return Rows(out, False, rows.names, rows.index, True, rows.library), part

    def describe(self) -> str:
        """Describe the sharpeners in half a sentence."""
        first = self.sharpeners[0].describe()
        several = f"{len(self.sharpeners)} sharpeners, the first " if len(self.sharpeners) > 1 else "a sharpener "
        return f"behind {several}{first}"
