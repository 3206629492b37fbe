"""How members are weighed: by the probability they give to labels they were not fitted to."""

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def mixture_weights(probs: Doubles, favour: float = 1.0, steps: int = 500) -> Doubles:
    """The weights w that maximise Σ_i log Σ_m w_m·probs[m, i] + favour·log w_0, by EM.

    `probs[m, i]` is what member m gives to row i's label. The first member is favoured, so that few
    rows fall back to it.

    >>> mixture_weights(np.array([[0.5, 0.5], [0.9, 0.8]])).round(2)
    array([0.81, 0.19])
    """
    weights = np.full(len(probs), 1 / len(probs))
    prior = np.zeros(len(probs))
    prior[0] = favour
    for _ in range(steps):
        share = weights[:, None] * probs
        share /= share.sum(axis=0)
        weights = share.sum(axis=1) + prior
        weights /= weights.sum()
    return weights
