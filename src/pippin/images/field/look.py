"""What a field model sees in one image: sets, p-values and decisions of every window, and a picture of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.sets import PredictionSets
from pippin._decisions.results import Decisions
from pippin._runtime.arrays import Vector

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, eq=False, repr=False)
class Look:
    """One image, window by window: from the top left, row by row; without windows the whole image is the only one.

    Attributes:
        image: what was looked at, in RGB and upright.
        window: the side of a window in its pixels; None for the whole image.
        shape: how many rows and columns of windows there are.
        logits: a row per window, a column per class.
        sets: the set of each window.
        p_values: a row per window, a column per class.
        decisions: the action of each window; None where nothing is decided.
    """

    image: "Image.Image"
    window: int | None
    shape: tuple[int, int]
    logits: NDArray[np.float32]
    sets: PredictionSets
    p_values: Vector
    decisions: Decisions | None

    @property
    def actions(self) -> NDArray[Any] | None:
        """The action of every window; None where the model decides nothing."""
        return None if self.decisions is None else self.decisions.actions

    @property
    def certificates(self) -> Vector | None:
        """The utility certified for every action; −∞ where nothing is."""
        return None if self.decisions is None else self.decisions.certificates

    @property
    def credibility(self) -> Vector:
        """The largest p-value of every window: small where nothing looks like the images that calibrated."""
        found: Vector = self.p_values.max(axis=1)
        return found

    def boxes(self) -> list[tuple[int, int, int, int]]:
        """Left, top, right and bottom of every window."""
        if self.window is None:
            return [(0, 0, *self.image.size)]
        rows, columns, side = *self.shape, self.window
        places = ((row, column) for row in range(rows) for column in range(columns))
        return [(side * column, side * row, side * (column + 1), side * (row + 1)) for row, column in places]

    def records(self) -> list[dict[str, Any]]:
        """One line per window: row, column, set (most probable first), action, certificate, credibility."""
        found = []
        for i, names in enumerate(self.sets.labels()):
            action, certificate = (None, None) if self.decisions is None else self.decisions[i]
            found.append(
                {
                    "row": i // self.shape[1],
                    "column": i % self.shape[1],
                    "set": list(map(str, names)),
                    "action": action,
                    "certificate": certificate if certificate is not None and np.isfinite(certificate) else None,
                    "credibility": float(self.credibility[i]),
                }
            )
        return found

    def draw(self) -> "Image.Image":
        """The image with its windows: colour by action or class, pattern by certainty, and a legend below."""
        from pippin.images.field.drawing import drawn

        return drawn(self)

    def __len__(self) -> int:
        return len(self.sets)

    def __repr__(self) -> str:
        width, height = self.image.size
        told = (
            "" if self.decisions is None else f", {', '.join(f'{n} {a}' for a, n in self.decisions.counts().items())}"
        )
        singles = int((self.sets.sizes == 1).sum())
        return f"Look({width} × {height}: {len(self)} windows, {singles} singletons{told})"
