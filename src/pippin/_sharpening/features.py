"""What a sharpener sees of a row: two logarithms of its probabilities, and smooth functions of all of them.

    z = log max(p, 1e-6)  and  l = log(p + 0.01), both centred by row
    x = (z − mean)/s on its principal axes, and beside it the features that the user has
    ψ = [x, √(2/D)·cos(xA + c)], then on its own principal axes

The cosines are random Fourier features: a linear function of ψ is close to any smooth function
of the whole probability vector, so that confusions between particular classes can be learnt.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.dispatch import engine_for
from pippin._runtime.arrays import Floats

Singles = NDArray[np.float32]

FLOOR, SHIFT = np.float32(1e-6), np.float32(0.01)  # of probabilities in z and l
COSINES = 300  # D
WIGGLE = 2.0  # the scale of A
FEW_CLASSES = 200  # up to which x and ψ keep all the axes that matter
MOST_AXES = {"x": (200, 64), "features": (100, 100), "psi": (400, 64)}  # of few classes, of many


class SharpenerInputs(NamedTuple):
    """How ψ is made: x = z·axes + shift, waves A and phases c, and ψ's mean and axes (`rotation`)."""

    axes: Singles
    shift: Singles
    feature_axes: Singles | None
    feature_shift: Singles | None
    waves: Singles
    phases: Singles
    rotation: Singles
    centre: Singles

    def raw(self, z: Singles, features: Singles | None) -> Singles:
        """ψ before its rotation and without the factor √(2/D) of its cosines, (n, x's axes + D)."""
        n_x, n_waves = self.waves.shape
        x = product(z, self.axes, self.shift)
        if self.feature_axes is not None and self.feature_shift is not None and features is not None:
            x = np.concatenate([x, product(features, self.feature_axes, self.feature_shift)], axis=1)
        psi = np.empty((len(z), n_x + n_waves), dtype=np.float32)
        psi[:, :n_x] = x
        np.cos(product(x, self.waves, self.phases), out=psi[:, n_x:])
        return psi

    @property
    def scale(self) -> Singles:
        """What `raw` is multiplied by to be ψ."""
        n_x, n_waves = self.waves.shape
        return np.repeat(np.array([1, math.sqrt(2 / n_waves)], dtype=np.float32), [n_x, n_waves])


def product(left: Singles, right: Singles, start: Singles) -> Singles:
    """start + left · right; each row's bits depend on that row alone."""
    out = np.empty((len(left), right.shape[1]), dtype=np.float32)
    out[:] = start
    engine_for(left.size).add_product(out, left, right)
    return out


def logarithms(probs: Floats) -> tuple[Singles, Singles]:
    """z and l of every row."""
    single = probs.astype(np.float32, copy=False)  # first, so that what is float32 and what became float64 agree
    pair = np.empty((2, *probs.shape), dtype=np.float32)
    np.maximum(single, FLOOR, out=pair[0])
    np.add(single, SHIFT, out=pair[1])
    np.log(pair, out=pair)
    pair -= pair.mean(axis=2, keepdims=True)
    return pair[0], pair[1]


def fit_inputs(z: Singles, features: Singles | None, seed: int) -> tuple[SharpenerInputs, Singles, NDArray[np.float64]]:
    """How to make ψ of rows like these; ψ of these rows, and how much each of its axes varies (a sum of squares)."""
    n, n_classes = z.shape
    many = int(n_classes > FEW_CLASSES)
    axes, shift = _standard_axes(z, MOST_AXES["x"][many])
    joined = None if features is None else _standard_axes(features, MOST_AXES["features"][many])
    n_x = axes.shape[1] + (0 if joined is None else joined[0].shape[1])
    generator = np.random.default_rng(seed)
    waves = (WIGGLE * generator.normal(size=(n_x, COSINES))).astype(np.float32)
    phases = (2 * math.pi * generator.random(COSINES)).astype(np.float32)
    none = np.empty((0, 0), dtype=np.float32)
    feature_axes, feature_shift = joined or (None, None)
    inputs = SharpenerInputs(axes, shift, feature_axes, feature_shift, waves, phases, none, none)
    psi = inputs.raw(z, features)
    psi *= inputs.scale
    mean = psi.mean(axis=0, dtype=np.float64).astype(np.float32)
    psi -= mean
    spread, every = _principal(psi.T @ psi)
    kept = min(n, MOST_AXES["psi"][many], max(1, int(np.count_nonzero(spread > 1e-6 * n / len(spread)))))
    rotation: Singles = np.ascontiguousarray(every[:, :kept], dtype=np.float32)
    found = inputs._replace(rotation=rotation, centre=-(mean @ rotation))
    return found, psi @ rotation, spread[:kept]


def _standard_axes(values: Singles, most: int) -> tuple[Singles, Singles]:
    """Principal axes, scaled so that rows have a mean square length of 1, and the shift that centres them."""
    mean = values.mean(axis=0, dtype=np.float64).astype(np.float32)
    centred = values - mean
    if len(values) < values.shape[1]:  # the rows span no more: their products are fewer
        spread, sides = _principal(centred @ centred.T)
        every = centred.T @ (sides / np.sqrt(np.maximum(spread, 1e-12)))
    else:
        spread, every = _principal(centred.T @ centred)
    scale = math.sqrt(float(spread.sum()) / len(values)) or 1.0
    axes: Singles = np.ascontiguousarray(every[:, :most] / scale, dtype=np.float32)
    return axes, -(mean @ axes)


def _principal(gram: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues from the largest on, none negative, and their vectors as columns."""
    values, vectors = np.linalg.eigh(gram.astype(np.float64))
    return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1])
