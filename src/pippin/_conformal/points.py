"""One class per object instead of a set, and how far to trust it."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from pippin._runtime.arrays import Vector, read_only
from pippin._runtime.showing import html_columns

COLUMNS = ("labels", "confidence", "credibility")


@dataclass(frozen=True, eq=False, repr=False)
class PointPredictions:
    """One class per object, the one with the largest p-value, and how far to trust it.

    Attributes:
        labels: the class of each object.
        confidence: 1 − the second largest p-value: the greatest 1 − α at which the prediction set has at most
            this one class.
        credibility: the largest p-value: small where no class looks like the calibration examples.

    >>> import numpy as np
    >>> PointPredictions(np.array(["weed", "crop"]), np.array([0.99, 0.5]), np.array([0.7, 0.6]))
    PointPredictions(2 objects, mean confidence 0.745, mean credibility 0.650)
    """

    labels: NDArray[Any]
    confidence: Vector
    credibility: Vector

    def __post_init__(self) -> None:
        for name in COLUMNS:
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.labels)

    def _repr_html_(self) -> str:
        told = repr(self).removeprefix("PointPredictions(").removesuffix(")")
        note = "Confidence: 1 − the second largest p-value; credibility: the largest."
        return html_columns(told, {name: getattr(self, name).tolist() for name in COLUMNS}, most=10, note=note)

    def __repr__(self) -> str:
        means = f"mean confidence {self.confidence.mean():.3f}, mean credibility {self.credibility.mean():.3f}"
        return f"PointPredictions({len(self):,} objects, {means})"
