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


def add_mixed(out: Floats, powers: Floats, weights: Floats) -> None:
    """Adds Σ_m w_m·powers_m/Σ_k powers_mk to `out`, (n, K); sums run in four lanes."""
    n, members, width = powers.shape
    lanes = np.zeros((n, members, -(-width // 4), 4), dtype=powers.dtype)
    lanes.reshape(n, members, -1)[:, :, :width] = powers
    a, b, c, d = np.moveaxis(np.add.accumulate(lanes, axis=2)[:, :, -1], -1, 0)
    factors = weights / ((a + b) + (c + d))
    for m in range(members):
        out += factors[:, m, None] * powers[:, m]
