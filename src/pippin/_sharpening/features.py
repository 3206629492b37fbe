"""Features of a row for its recalibration by a sharpener: log-probabilities z and l, and random Fourier features φ.

    z = log max(p, 1e-6)  and  l = log(p + 0.01), both centered by row
    x = principal components of z, divided by a common scale; then likewise those of the user's features, if any
    ψ = [x, √(2/D)·cos(xA + c)],  φ = principal components of ψ

A and c are random frequencies and phases of D cosines; means, scales and principal axes come from the training rows.
The cosines are random Fourier features: a linear function of φ approximates any smooth function of the whole
probability vector, so a model that is linear in φ can learn confusions between particular classes.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.dispatch import engine_for
from pippin._runtime.arrays import Floats

Singles = NDArray[np.float32]

FLOOR, SHIFT = np.float32(1e-6), np.float32(0.01)  # of the log-probabilities z = log max(p, FLOOR), l = log(p + SHIFT)
COSINES = 300  # number D of random cosines
FREQUENCY_SCALE = 2.0  # standard deviation of the random frequencies A of the cosines
FEW_CLASSES = 200  # with more classes, the features x and φ have fewer axes, to limit time and memory
# Maximum number of principal axes of x, of the user's features, and of φ. In a pair, the second number is for many
# classes.
X_AXES, FEATURE_AXES, PHI_AXES = (200, 64), 100, (400, 64)


class FeatureMap(NamedTuple):
    """Fitted map from a row's log-probabilities z, and optional features of the user, to random Fourier features φ.

    The field names are keys in files of sharpeners (recalibration maps). x are principal components, ψ are x and D
    random cosines of x.

    Attributes:
        axes: (K, X) matrix from z to x.
        shift: (X,) offset of x.
        feature_axes: (M, F) matrix from the features of the user to further columns of x; None without features.
        feature_shift: (F,) offset of these further columns of x; None without features.
        waves: (X + F, D) frequencies A of the cosines.
        phases: (D,) phases c of the cosines.
        rotation: (X + F + D, axes) matrix from ψ to φ.
        centre: (axes,) offset of φ.
    """

    axes: Singles
    shift: Singles
    feature_axes: Singles | None
    feature_shift: Singles | None
    waves: Singles
    phases: Singles
    rotation: Singles
    centre: Singles

    def unscaled_psi(self, z: Singles, features: Singles | None) -> Singles:
        """Compute ψ = [x, cos(xA + c)] of each row.

        x are the principal components of z, followed by those of the user's features; A and c are the random `waves`
        and `phases`. The cosines lack the factor √(2/D) of random Fourier features.
        """
        n_x, n_waves = self.waves.shape
        x = affine(z, self.axes, self.shift)
        if self.feature_axes is not None and self.feature_shift is not None and features is not None:
            x = np.concatenate([x, affine(features, self.feature_axes, self.feature_shift)], axis=1)
        psi = np.empty((len(z), n_x + n_waves), dtype=np.float32)
        psi[:, :n_x] = x
        np.cos(affine(x, self.waves, self.phases), out=psi[:, n_x:])
        return psi

    @property
    def scale(self) -> Singles:
        """Factor of each column of `unscaled_psi` that gives ψ: 1 for the components x, √(2/D) for the D cosines."""
        n_x, n_waves = self.waves.shape
        return np.repeat(np.array([1, math.sqrt(2 / n_waves)], dtype=np.float32), [n_x, n_waves])


def affine(rows: Singles, matrix: Singles, offset: Singles) -> Singles:
    """Compute offset + rows · matrix; the result of a row has the same bits in any batch."""
    out = np.empty((len(rows), matrix.shape[1]), dtype=np.float32)
    out[:] = offset
    engine_for(rows.size).add_product(out, rows, matrix)
    return out


def logarithms(probs: Floats) -> tuple[Singles, Singles]:
    """Compute the features z = log max(p, 1e-6) and l = log(p + 0.01), both centered by row, (n, K) each."""
    single = probs.astype(np.float32, copy=False)  # first, so that float32 and float64 rows give equal results
    pair = np.empty((2, *probs.shape), dtype=np.float32)
    np.maximum(single, FLOOR, out=pair[0])
    np.add(single, SHIFT, out=pair[1])
    np.log(pair, out=pair)
    pair -= pair.mean(axis=2, keepdims=True)
    return pair[0], pair[1]


def fit_feature_map(z: Singles, features: Singles | None, seed: int) -> tuple[FeatureMap, Singles, NDArray[np.float64]]:
    """Fit the map from log-probabilities z, and features of the user, to Fourier features φ.

    Return the map, φ of these rows, and the sum of squares of each column of φ.
    """
    n, n_classes = z.shape
    many = int(n_classes > FEW_CLASSES)
    axes, shift = _standard_axes(z, X_AXES[many])
    feature_axes, feature_shift = (None, None) if features is None else _standard_axes(features, FEATURE_AXES)
    n_x = axes.shape[1] + (0 if feature_axes is None else feature_axes.shape[1])
    generator = np.random.default_rng(seed)
    waves = (FREQUENCY_SCALE * generator.normal(size=(n_x, COSINES))).astype(np.float32)
    phases = (2 * math.pi * generator.random(COSINES)).astype(np.float32)
    none = np.empty((0, 0), dtype=np.float32)
    unrotated = FeatureMap(axes, shift, feature_axes, feature_shift, waves, phases, none, none)
    psi = unrotated.unscaled_psi(z, features)
    psi *= unrotated.scale
    mean = psi.mean(axis=0, dtype=np.float64).astype(np.float32)
    psi -= mean
    squares, vectors = _eigen(psi.T @ psi)
    n_axes = min(n, PHI_AXES[many], max(1, int(np.count_nonzero(squares > 1e-6 * n / len(squares)))))
    rotation: Singles = np.ascontiguousarray(vectors[:, :n_axes], dtype=np.float32)
    return unrotated._replace(rotation=rotation, centre=-(mean @ rotation)), psi @ rotation, squares[:n_axes]


def _standard_axes(values: Singles, most: int) -> tuple[Singles, Singles]:
    """Return a matrix and an offset that map rows to at most `most` principal axes, with mean 0 and a common scale.

    If all axes are kept, the mean squared length of a mapped row is 1.
    """
    mean = values.mean(axis=0, dtype=np.float64).astype(np.float32)
    centered = values - mean
    if len(values) < values.shape[1]:  # use the Gram matrix of the rows, which is smaller than that of the columns
        squares, sides = _eigen(centered @ centered.T)
        vectors = centered.T @ (sides / np.sqrt(np.maximum(squares, 1e-12)))
    else:
        squares, vectors = _eigen(centered.T @ centered)
    scale = math.sqrt(float(squares.sum()) / len(values)) or 1.0
    axes: Singles = np.ascontiguousarray(vectors[:, :most] / scale, dtype=np.float32)
    return axes, -(mean @ axes)


def _eigen(gram: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eigenvalues of a Gram matrix in decreasing order, at least 0, and its eigenvectors as columns."""
    values, vectors = np.linalg.eigh(gram.astype(np.float64))
    return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1])
