"""Novelty test of windows: conformal p-values against the images that were held out of the training.

The strangeness of a window is log d + H/2, both standardized: H is the entropy of the softmax, and d the distance to
the fifth nearest reference image. An image has two types of coordinates. Features of the network (inputs of the last
layer) are used if the training saved them. Statistics of the picture (brightness, contrast, color) notice pictures that
are black, blank or badly exposed, even if the network maps them to familiar features.

One part of the held-out images is the reference, and another part calibrates, so that the p-values are exact.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Vector
from pippin._validation.rows import softmax
from pippin.images.training.folder import TrainingRecord, photo_of

LEVEL = 0.02  # default significance level
NEIGHBOR = 5  # number of the nearest reference image to which the distance is computed
ENTROPY = 0.5  # weight of the entropy relative to the log distance, both standardized
STATISTICS = 2.0  # weight of all picture statistics relative to all features
MOST_REFERENCE, MOST_CALIBRATION = 2000, 10_000  # maximum numbers of images, so that a model loads fast
BLOCK = 256  # number of windows whose distances are computed at a time
TINY = 1e-12


@lru_cache(maxsize=2)
def novelty_test(training: TrainingRecord) -> "NoveltyTest | None":
    """Return the novelty test of a training; None if it has no picture statistics, or too few held-out images."""
    test = None if training.statistics is None else NoveltyTest(training)
    return test if test is not None and test.is_possible else None


class NoveltyTest:
    """Test of windows against the held-out images of a training.

    Each photograph counts once in the p-values, and is either reference or calibration as a whole, if no photograph has
    windows both in the training and among the held-out images. Otherwise every image counts once.

    Args:
        training: the record of the training, with the picture statistics.

    Attributes:
        scores: strangeness of the calibration images, as defined in the module docstring.
        units: number of the unit (photograph or single image) of each calibration image.
        smallest: smallest possible p-value, 1 / (number of units + 1).
    """

    def __init__(self, training: TrainingRecord) -> None:
        assert training.statistics is not None
        self.takes_features = training.features is not None
        names = training.groups
        if {photo_of(file) for file in training.trained} & set(names.tolist()):
            names = training.files
        units = np.unique(names, return_inverse=True)[1]
        rng = np.random.default_rng(0)
        order, rows = rng.permutation(int(units.max(initial=-1)) + 1), rng.permutation(len(units))
        is_reference = np.isin(units[rows], order[: len(order) // 2])
        reference, rest = rows[is_reference][:MOST_REFERENCE], rows[~is_reference][:MOST_CALIBRATION]
        self.units = np.unique(units[rest], return_inverse=True)[1]
        self._n = len(set(self.units.tolist()))
        self.smallest = 1 / (self._n + 1)
        self.is_possible = len(reference) > NEIGHBOR and len(rest) > 0
        if not self.is_possible:
            return
        empty = np.zeros((len(units), 0), np.float32)
        features: NDArray[np.float32] = empty if training.features is None else training.features
        blocks: list[tuple[NDArray[Any], float]] = [(features, 1.0), (training.statistics, STATISTICS)]
        self._scales: list[tuple[Vector, Vector]] = []
        for block, weight in blocks:
            part = block[reference].astype(np.float64)
            width = part.std(axis=0)
            scale = np.where(width > TINY, weight / np.maximum(width, TINY) / np.sqrt(max(1, part.shape[1])), 0.0)
            self._scales.append((part.mean(axis=0), scale))
        self._reference = self._coordinates(features[reference], training.statistics[reference])
        # A reference image is its own nearest reference image, so one more neighbor is needed.
        logs, entropy = self._parts(self._reference, training.logits[reference], NEIGHBOR + 1)
        self._moments = [(float(values.mean()), float(values.std()) or 1.0) for values in (logs, entropy)]
        self.scores = self.strangeness(training.logits[rest], features[rest], training.statistics[rest])
        order = np.argsort(-self.scores, kind="stable")
        weights = 1 / np.bincount(self.units)[self.units[order]]
        self._falling, self._above = -self.scores[order], np.append(0.0, np.cumsum(weights))

    def strangeness(
        self, logits: NDArray[np.float32], features: NDArray[np.float32] | None, statistics: Vector
    ) -> Vector:
        """Compute the strangeness of windows from logits, features (None without them) and picture statistics.

        It is the log distance to the fifth nearest reference image plus half the entropy of the softmax, both
        standardized.
        """
        given = np.zeros((len(logits), 0)) if features is None else features
        found = self._parts(self._coordinates(given, statistics), logits, NEIGHBOR)
        logs, entropy = ((values - mean) / sd for values, (mean, sd) in zip(found, self._moments, strict=True))
        return np.asarray(logs + ENTROPY * entropy)

    def p_values(self, strangeness: Vector) -> Vector:
        """Compute p-values: P(p ≤ t) ≤ t for a random window of a new unit (photograph) exchangeable with the others.

        p = (1 + Σ_j share_j)/(J + 1) for J units, where share_j is the share of images of unit j that are at least as
        strange as the window.
        """
        above = self._above[np.searchsorted(self._falling, -strangeness, side="right")]
        return np.asarray((1 + above) / (self._n + 1))

    def one_per_unit(self) -> Vector:
        """Return the strangeness of one random calibration image per photograph, the reference of a monitor."""
        order = np.random.default_rng(1).permutation(len(self.scores))
        return np.asarray(self.scores[order[np.unique(self.units[order], return_index=True)[1]]])

    def _coordinates(self, features: NDArray[Any], statistics: Vector) -> Vector:
        parts = zip((features, statistics), self._scales, strict=True)
        return np.hstack([(part - mean) * scale for part, (mean, scale) in parts])

    def _parts(self, coordinates: Vector, logits: NDArray[np.float32], neighbor: int) -> tuple[Vector, Vector]:
        """Return the log distance to the `neighbor`-th nearest reference image, and the entropy of the softmax."""
        distances = np.empty(len(coordinates))
        squares = np.einsum("ij,ij->i", self._reference, self._reference)
        for start in range(0, len(coordinates), BLOCK):
            rows = coordinates[start : start + BLOCK]
            square = squares - 2 * rows @ self._reference.T + np.einsum("ij,ij->i", rows, rows)[:, None]
            nearest = np.partition(square, neighbor - 1, axis=1)[:, neighbor - 1]
            distances[start : start + BLOCK] = np.sqrt(np.maximum(nearest, 0))
        probs = softmax(logits)
        entropy = -(probs * np.log(np.maximum(probs, 1e-300))).sum(axis=1)
        return np.log(distances + TINY), entropy
