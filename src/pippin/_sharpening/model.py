"""Model of a sharpener, which recalibrates probabilities: a mixture of maps q = softmax(a₁·z + a₂·l + b + φ·W).

A map is called a member of the mixture. z, l and φ are features of a row of probabilities (`features.py`). The
parameters a₁, a₂, b and W of a member are fitted to labeled rows. Their priors are normal, with variance 1 for a₂ and
b, and σ² for W; a₁ has no prior. The negative log posterior is convex. L-BFGS minimizes it over the parameters divided
by their approximate posterior standard deviations.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Codes, Floats
from pippin._sharpening.features import FeatureMap, Singles, affine, logarithms

Doubles = NDArray[np.float64]

MAX_ITERATIONS = 100  # maximum number of L-BFGS iterations for one recalibration map
RELATIVE_TOLERANCE = 1e-5  # L-BFGS stops if an iteration decreases the loss by less than this share


class MemberKind(NamedTuple):
    """Form of a member (one recalibration map of the mixture): the terms of its logits a₁·z + a₂·l + b + φ·W.

    Every member has a₁·z, those with `uses_l` have a₂·l, and those with `sigma` above 0 have b + φ·W. `sigma` is the
    prior standard deviation of W.
    """

    name: str
    uses_l: bool
    sigma: float


KINDS = (
    MemberKind("temperature", False, 0.0),
    MemberKind("two logarithms", True, 0.0),
    MemberKind("confusions, σ = 0.3", True, 0.3),
    MemberKind("confusions, σ = 1", True, 1.0),
    MemberKind("confusions, σ = 3", True, 3.0),
)


class Member(NamedTuple):
    """Fitted parameters of a member (one recalibration map of the mixture), q = softmax(a₁·z + a₂·l + b + φ·W).

    `a` holds a₁ and a₂, and `b` has shape (K,). `w` is W, with one row per column of φ, and K columns. It has no rows
    if the member has no term φ·W.
    """

    a: NDArray[Any]
    b: NDArray[Any]
    w: NDArray[Any]


class TrainingRows(NamedTuple):
    """Labeled rows as features: log-probabilities z and l (`log_shifted`), Fourier features φ, and the labels.

    `squares` holds the sum of squares of each column of φ.
    """

    z: Singles
    log_shifted: Singles
    phi: Singles
    squares: Doubles
    labels: Codes


def fit_member(rows: TrainingRows, kind: MemberKind, start: Member | None = None) -> Member:
    """Fit a member (one recalibration map of the mixture): compute the posterior mode of its parameters by L-BFGS.

    The search starts at the parameters `start`, or at the default values if the W of `start` has another shape.
    """
    from scipy.optimize import minimize

    n_classes = rows.z.shape[1]
    n_axes = rows.phi.shape[1] if kind.sigma else 0
    if start is None or len(start.w) != n_axes:
        zeros = np.zeros((n_axes + 1, n_classes), np.float32)
        start = Member(np.array([0.6, 0], np.float32), zeros[0], zeros[1:])
    scales = _scales(rows, kind, n_axes)
    first = np.concatenate([np.ravel(part / scale) for part, scale in zip(start, scales, strict=True)])
    options = {"maxiter": MAX_ITERATIONS, "maxcor": 12, "ftol": RELATIVE_TOLERANCE, "gtol": 1e-6}
    result = minimize(_Loss(rows, kind, scales), first, jac=True, method="L-BFGS-B", options=options)
    return Member(*(part.astype(np.float32) for part in _unscaled(result.x, scales)))


def _scales(rows: TrainingRows, kind: MemberKind, n_axes: int) -> Member:
    """Approximate the posterior standard deviation of each parameter of a recalibration map.

    `fit_member` minimizes over the parameters divided by these standard deviations.
    """
    n, n_classes = rows.z.shape
    squares = np.array([np.einsum("nk,nk->", part, part, dtype=np.float64) for part in (rows.z, rows.log_shifted)])
    frequency = (np.bincount(rows.labels, minlength=n_classes) + 0.5) / (n + 0.5 * n_classes)
    curvature = 0.35 * np.maximum(frequency, 1e-3)
    w = np.zeros((0, n_classes))
    if n_axes:
        w = 1 / np.sqrt(rows.squares[:n_axes, None] * curvature + kind.sigma**-2)
    return Member(1 / np.sqrt(0.05 * squares + 1), 1 / np.sqrt(n * curvature + 1), w)


def _unscaled(parameters: Doubles, scales: Member) -> Member:
    """Convert a vector of scaled parameters to the parameters a, b and W of a map, each multiplied by its scale."""
    a, b, w = np.split(parameters, [2, 2 + len(scales.b)])
    return Member(a * scales.a, b * scales.b, w.reshape(scales.w.shape) * scales.w)


class _Loss:
    """Negative log posterior of a recalibration map, averaged over rows, and its gradient in the scaled parameters."""

    def __init__(self, rows: TrainingRows, kind: MemberKind, scales: Member) -> None:
        self.labels, self.kind, self.scales = rows.labels, kind, scales
        self.dtype: Any = np.float64 if rows.z.size <= 200_000 else np.float32
        parts = rows.z, rows.log_shifted, rows.phi
        self.z, self.log_shifted, self.phi = (np.asarray(part, dtype=self.dtype) for part in parts)

    def __call__(self, parameters: Doubles) -> tuple[float, Doubles]:
        a, b, w = _unscaled(parameters, self.scales)
        n, every = len(self.z), np.arange(len(self.z))
        u = self._logits(a, b, w)
        u -= u.max(axis=1, keepdims=True)
        of_labels = u[every, self.labels].sum(dtype=np.float64)
        np.exp(u, out=u)
        total = u.sum(axis=1, keepdims=True)
        penalty = float(a[1] ** 2 + (b**2).sum()) + (float((w**2).sum()) / self.kind.sigma**2 if w.size else 0.0)
        loss = np.log(total).sum(dtype=np.float64) - of_labels + 0.5 * penalty
        u /= total
        u[every, self.labels] -= 1
        gradients = self._gradients(u, a, b, w)
        flat = np.concatenate([np.ravel(part * scale) for part, scale in zip(gradients, self.scales, strict=True)])
        return float(loss) / n, flat / n

    def _logits(self, a: Doubles, b: Doubles, w: Doubles) -> NDArray[Any]:
        u: NDArray[Any] = self.z * self.dtype(a[0])
        if self.kind.uses_l:
            u += self.log_shifted * self.dtype(a[1])
        if self.kind.sigma:
            u += self.phi @ w.astype(self.dtype)
            u += b.astype(self.dtype)
        return u

    def _gradients(self, residual: NDArray[Any], a: Doubles, b: Doubles, w: Doubles) -> Member:
        by_l = np.vdot(self.log_shifted, residual) + a[1] if self.kind.uses_l else 0.0
        by_a = np.array([np.vdot(self.z, residual), by_l])
        if not self.kind.sigma:
            return Member(by_a, np.zeros_like(b), w)
        by_w = (self.phi.T @ residual).astype(np.float64) + w / self.kind.sigma**2
        return Member(by_a, residual.sum(axis=0, dtype=np.float64) + b, by_w)


class StackedMembers(NamedTuple):
    """Concatenated parameters of all members (recalibration maps) of the mixture, for one matrix product.

    `a_plain` holds the factors a of the members without the Fourier features φ. `a_phi`, `b` and `w` are those of the
    members with φ. `rotation` is the matrix from the features ψ to φ (see `features.py`), or None if `w` is already
    multiplied by it, which is done if it saves work.
    """

    a_plain: Singles
    a_phi: Singles
    b: Singles
    w: Singles
    rotation: Singles | None


@dataclass(frozen=True, eq=False)
class SharpeningModel:
    """Fitted mixture of recalibration maps (members): those without the Fourier features φ first, then those with φ.

    `feature_map` computes φ from a row of probabilities; it is None if no member uses φ.
    """

    feature_map: FeatureMap | None
    members: tuple[Member, ...]

    def each(self, probs: Floats, features: Singles | None = None) -> Singles:
        """Recalibrate rows by each member of the mixture separately; return probabilities (n, members, K)."""
        powers = np.concatenate(self._exponentials(probs, features), axis=1)
        powers /= powers.sum(axis=2, keepdims=True)
        return powers

    def mixed(self, weights: Singles, probs: Floats, features: Singles | None = None) -> Singles:
        """Recalibrate rows by the mixture: compute the weighted mean of the probabilities by all members, (n, K)."""
        out, used = np.zeros(probs.shape, dtype=np.float32), 0
        for powers in self._exponentials(probs, features):
            members = powers.shape[1]
            factors = weights[used : used + members] / powers.sum(axis=2)
            for m in range(members):
                out += factors[:, m, None] * powers[:, m]
            used += members
        return out

    def _exponentials(self, probs: Floats, features: Singles | None) -> list[Singles]:
        """Compute unnormalized probabilities exp(u − max u) from the logits u of each member, (n, members, K).

        The result is a list of up to two arrays: for the members without the Fourier features φ, and for those with φ.
        """
        z, log_shifted = logarithms(probs)
        n, n_classes = z.shape
        stack, groups = self.stacked, []
        if len(stack.a_plain):
            groups.append((np.zeros((n, len(stack.a_plain), n_classes), dtype=np.float32), stack.a_plain))
        if self.feature_map is not None and len(stack.a_phi):
            phi = self.feature_map.unscaled_psi(z, features)
            if stack.rotation is not None:
                phi = affine(phi, stack.rotation, self.feature_map.centre)
            groups.append((affine(phi, stack.w, stack.b).reshape(n, -1, n_classes), stack.a_phi))
        for u, a in groups:
            u += z[:, None] * a[:, :1]
            u += log_shifted[:, None] * a[:, 1:]
            u -= u.max(axis=2, keepdims=True)
            np.exp(u, out=u)
        return [u for u, _ in groups]

    @cached_property
    def stacked(self) -> StackedMembers:
        """Parameters of all members as one chain of matrix products, for computation and export."""
        of_phi = [member for member in self.members if len(member.w)]
        plain = [member.a for member in self.members if not len(member.w)]
        none = np.empty((0, 2), dtype=np.float32)
        a_plain = np.stack(plain) if plain else none
        if self.feature_map is None or not of_phi:
            return StackedMembers(a_plain, none, none, none, None)
        a_phi = np.stack([member.a for member in of_phi])
        b = np.concatenate([member.b for member in of_phi])
        w = np.concatenate([member.w for member in of_phi], axis=1)
        rotation = self.feature_map.scale[:, None] * self.feature_map.rotation
        n_psi, n_axes = rotation.shape
        if (n_psi + w.shape[1]) * n_axes < n_psi * w.shape[1]:
            return StackedMembers(a_plain, a_phi, b, w, rotation)
        return StackedMembers(a_plain, a_phi, b + self.feature_map.centre @ w, rotation @ w, None)
