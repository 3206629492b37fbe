"""Log-linear pool of several models, the first step of a stack: p_k ∝ Π_m p_mk^w_m, with fitted weights w_m ≥ 0.

A weight is the reciprocal of a temperature: a pool of one model is temperature scaling, and equal weights 1/M are the
geometric mean. The weights minimize the cross-entropy of the labels, a convex problem, plus half the squared deviations
of the weights from their mean, so that with few rows they are nearly equal. The pool keeps only the best single model,
unless all models together decrease the out-of-fold cross-entropy by more than one standard error.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Codes, Floats, Vector
from pippin._sharpening.features import FLOOR, Singles
from pippin._sharpening.model import Doubles


class Pool(NamedTuple):
    """Weights of the models of a stack, in the order of the models.

    Attributes:
        weights: the exponent of each model's probabilities in the pool p_k ∝ Π_m p_mk^w_m; 0 for models left out.
        cross_entropy: out-of-fold cross-entropy of each model alone, after temperature scaling.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> flat = 0.5 * data.probs + 0.5 / 12  # a second model, with the same information
    >>> stack = pippin.models.stack([data.probs[:600], flat[:600]], data.labels[:600])
    >>> len(stack.pool.weights)
    2
    """

    weights: tuple[float, ...]
    cross_entropy: tuple[float, ...]

    @property
    def best(self) -> int:
        """Index of the model with the smallest cross-entropy alone."""
        return int(np.argmin(self.cross_entropy))

    def __call__(self, probs: Floats) -> Singles:
        """Compute pooled probabilities (n, K) from those of the models, (n, M, K)."""
        u = np.zeros((len(probs), probs.shape[2]), dtype=np.float32)
        for weight, logarithm in zip(self.weights, _logarithms(probs).swapaxes(0, 1), strict=True):
            u += np.float32(weight) * logarithm
        u -= u.max(axis=1, keepdims=True)
        np.exp(u, out=u)
        u /= u.sum(axis=1, keepdims=True)
        return u

    def terms(self, probs: Floats) -> Vector:
        """Compute the term w_m·log p_mk of each model and class in the pool of one object.

        Args:
            probs: (M, K) probabilities of the object, one row per model.

        Returns:
            (M, K) terms; their sum over the models is the logarithm of the pool, up to a constant.

        >>> import pippin
        >>> pippin.models.Pool((0.5, 1.5), (0.6, 0.4)).terms(np.array([[0.8, 0.2], [0.5, 0.5]])).round(2)
        array([[-0.11, -0.8 ],
               [-1.04, -1.04]])
        """
        terms: Vector = np.array(self.weights)[:, None] * _logarithms(probs[None])[0]
        return terms


def fit_pools(probs: Floats, labels: Codes, folds: Sequence[NDArray[np.intp]]) -> list[Pool]:
    """Choose the models of a pool out of fold; return the pool fitted to all rows, then the pools without each fold."""
    n, n_models, _ = probs.shape
    logs = _logarithms(probs)
    every = list(range(n_models))
    candidates = [*([m] for m in every), every]
    fitted, losses = [], []
    for fold in folds:
        others = np.setdiff1d(np.arange(n), fold)
        weights = [_fit_weights(logs[others], labels[others], chosen) for chosen in candidates]
        losses.append([_loss(logs[fold], labels[fold], each)[0] for each in weights])
        fitted.append(weights)
    of_rows = np.concatenate(losses, axis=1)
    alone = of_rows[:-1].mean(axis=1)
    best = int(alone.argmin())
    gain = of_rows[best] - of_rows[-1]
    number = n_models if gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)) else best
    of_all_rows = _fit_weights(logs, labels, candidates[number])
    return [
        Pool(tuple(weights.astype(np.float32).tolist()), tuple(alone.tolist()))
        for weights in (of_all_rows, *(weights[number] for weights in fitted))
    ]


def _logarithms(probs: Floats) -> Singles:
    return np.log(np.maximum(probs.astype(np.float32, copy=False), FLOOR))


def _loss(logs: Singles, labels: Codes, weights: Doubles) -> tuple[Doubles, Singles]:
    """Compute the cross-entropy of each row and the probabilities for the pool of log-probabilities (n, M, K)."""
    rows = np.arange(len(logs))
    u = np.einsum("nmk,m->nk", logs, weights.astype(np.float32))
    u -= u.max(axis=1, keepdims=True)
    of_labels = u[rows, labels].astype(np.float64)
    np.exp(u, out=u)
    total = u.sum(axis=1, keepdims=True)
    u /= total
    return np.log(total[:, 0], dtype=np.float64) - of_labels, u


def _fit_weights(logs: Singles, labels: Codes, chosen: Sequence[int]) -> Doubles:
    """Fit the weights of the chosen models to log-probabilities (n, M, K); the other weights are 0."""
    from scipy.optimize import minimize

    part, rows, weights = logs[:, list(chosen)], np.arange(len(logs)), np.zeros(logs.shape[1])
    of_labels = part[rows, :, labels].sum(axis=0, dtype=np.float64)

    def objective(w: Doubles) -> tuple[float, Doubles]:
        losses, pooled = _loss(part, labels, w)
        deviations = w - w.mean()
        gradient = np.einsum("nmk,nk->nm", part, pooled).sum(axis=0, dtype=np.float64) - of_labels + deviations
        return float(losses.sum() + 0.5 * (deviations**2).sum()) / len(rows), gradient / len(rows)

    start = np.full(len(chosen), 1 / len(chosen))
    weights[list(chosen)] = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(chosen)).x
    return weights
