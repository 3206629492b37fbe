"""Products of matrices that give a row the same bits whatever rows stand around it: in NumPy."""

import numpy as np

from pippin._runtime.arrays import Floats


def add_product(out: Floats, left: Floats, right: Floats) -> None:
    """Adds left · right to `out`, term after term in the order of the inner index."""
    for j in range(len(right)):
        out += left[:, j : j + 1] * right[j]


def add_logits(u: Floats, z: Floats, both: Floats, a: Floats) -> None:
    """Adds a₁·z + a₂·l of each member to `u`, (n, members, K), and takes away each row's largest logit."""
    u += z[:, None] * a[:, :1]
    u += both[:, None] * a[:, 1:]
    u -= u.max(axis=2, keepdims=True)


def _lane_sums(rows: Floats) -> Floats:
    """The sums along the last axis, in four lanes."""
    *outer, width = rows.shape
    lanes = np.zeros((*outer, -(-width // 4), 4), dtype=rows.dtype)
    lanes.reshape(*outer, -1)[..., :width] = rows
    a, b, c, d = np.moveaxis(np.add.accumulate(lanes, axis=-2)[..., -1, :], -1, 0)
    found: Floats = (a + b) + (c + d)
    return found


def centre(values: Floats) -> None:
    """Takes its mean from every row of `values`, (parts, n, K)."""
    values -= (_lane_sums(values) / values.dtype.type(values.shape[-1]))[..., None]


def add_mixed(out: Floats, powers: Floats, weights: Floats) -> None:
    """Adds Σ_m w_m·powers_m/Σ_k powers_mk to `out`, (n, K); sums run in four lanes."""
    factors = weights / _lane_sums(powers)
    for m in range(powers.shape[1]):
        out += factors[:, m, None] * powers[:, m]
