"""The model of a sharpener: a mixture of members q = softmax(a₁·z + a₂·l + b + φ·W), each fitted to labels.

Priors are normal: a₂ and b with variance 1, W with variance σ². a₁ has none. The posterior is
convex; L-BFGS finds its peak, in parameters scaled by about their own uncertainty.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Codes, Floats
from pippin._sharpening.features import SharpenerInputs, Singles, logarithms, product

Doubles = NDArray[np.float64]

STEPS = 100  # of L-BFGS at most
ENOUGH = 1e-5  # relative gain below which it stops


class MemberKind(NamedTuple):
    """Terms of a member: l beside z, and φ with weights of this σ (0 for none)."""

    name: str
    both: bool
    sigma: float


KINDS = (
    MemberKind("temperature", False, 0.0),
    MemberKind("two logarithms", True, 0.0),
    MemberKind("confusions, σ = 0.3", True, 0.3),
    MemberKind("confusions, σ = 1", True, 1.0),
    MemberKind("confusions, σ = 3", True, 3.0),
)


class Member(NamedTuple):
    """a₁ and a₂, b of every class, and W, (axes, K); no axes without φ."""

    a: Singles
    b: Singles
    w: Singles


class TrainingRows(NamedTuple):
    """Labelled rows as a member is fitted to them: z, l, φ, the variance of φ's axes, and labels."""

    z: Singles
    both: Singles
    phi: Singles
    spread: Doubles
    labels: Codes


class _Scales(NamedTuple):
    """Approximate standard deviation of each parameter, by which L-BFGS scales it."""

    a: Doubles
    b: Doubles
    w: Doubles


def fit_member(rows: TrainingRows, kind: MemberKind, start: Member | None = None) -> Member:
    """Fit the parameters of one kind of member by their posterior mode; `start` is a member to begin with."""
    from scipy.optimize import minimize

    n_classes = rows.z.shape[1]
    n_axes = rows.phi.shape[1] if kind.sigma else 0
    scales = _scales(rows, kind, n_axes)
    none = np.zeros((n_axes, n_classes), np.float32)
    begin = Member(np.array([0.6, 0], np.float32), np.zeros(n_classes, np.float32), none)
    if start is not None and start.w.shape == begin.w.shape:
        begin = start
    first = np.concatenate([np.ravel(part / scale) for part, scale in zip(begin, scales, strict=True)])
    options = {"maxiter": STEPS, "maxcor": 12, "ftol": ENOUGH, "gtol": 1e-6}
    found = minimize(_Loss(rows, kind, scales), first, jac=True, method="L-BFGS-B", options=options)
    a, b, w = _parted(found.x, scales)
    return Member(a.astype(np.float32), b.astype(np.float32), w.astype(np.float32))


def _scales(rows: TrainingRows, kind: MemberKind, n_axes: int) -> _Scales:
    n, n_classes = rows.z.shape
    squares = np.array([np.einsum("nk,nk->", part, part, dtype=np.float64) for part in (rows.z, rows.both)])
    frequency = (np.bincount(rows.labels, minlength=n_classes) + 0.5) / (n + 0.5 * n_classes)
    curvature = 0.35 * np.maximum(frequency, 1e-3)
    spread = rows.spread[:n_axes, None]
    w = 1 / np.sqrt(spread * curvature + kind.sigma**-2) if n_axes else np.zeros((0, n_classes))
    return _Scales(1 / np.sqrt(0.05 * squares + 1), 1 / np.sqrt(n * curvature + 1), w)


def _parted(parameters: Doubles, scales: _Scales) -> tuple[Doubles, Doubles, Doubles]:
    n_classes = len(scales.b)
    a, b, w = np.split(parameters, [2, 2 + n_classes])
    return a * scales.a, b * scales.b, w.reshape(scales.w.shape) * scales.w


class _Loss:
    """The negative log posterior per row and its gradient, in scaled parameters."""

    def __init__(self, rows: TrainingRows, kind: MemberKind, scales: _Scales) -> None:
        self.rows, self.kind, self.scales = rows, kind, scales
        self.exact: Any = np.float64 if rows.z.size <= 200_000 else np.float32
        self.z: NDArray[Any] = rows.z.astype(self.exact)
        self.both: NDArray[Any] = rows.both.astype(self.exact)
        self.phi: NDArray[Any] = rows.phi.astype(self.exact)

    def __call__(self, parameters: Doubles) -> tuple[float, Doubles]:
        a, b, w = _parted(parameters, self.scales)
        n, each = len(self.z), np.arange(len(self.z))
        u = self._logits(a, b, w)
        u -= u.max(axis=1, keepdims=True)
        own = u[each, self.rows.labels].sum(dtype=np.float64)
        np.exp(u, out=u)
        total = u.sum(axis=1, keepdims=True)
        loss = np.log(total).sum(dtype=np.float64) - own + self._penalty(a, b, w)
        u /= total
        u[each, self.rows.labels] -= 1
        gradients = self._gradients(u, a, b, w)
        flat = np.concatenate([np.ravel(one * scale) for one, scale in zip(gradients, self.scales, strict=True)])
        return float(loss) / n, flat / n

    def _logits(self, a: Doubles, b: Doubles, w: Doubles) -> NDArray[Any]:
        u: NDArray[Any] = self.z * self.exact(a[0])
        if self.kind.both:
            u += self.both * self.exact(a[1])
        if self.kind.sigma:
            u += self.phi @ w.astype(self.exact)
            u += b.astype(self.exact)
        return u

    def _penalty(self, a: Doubles, b: Doubles, w: Doubles) -> float:
        penalty = float(a[1] ** 2 + (b**2).sum())
        return 0.5 * (penalty + (float((w**2).sum()) / self.kind.sigma**2 if w.size else 0.0))

    def _gradients(
        self, residual: NDArray[Any], a: Doubles, b: Doubles, w: Doubles
    ) -> tuple[Doubles, Doubles, Doubles]:
        by_a = np.array([np.vdot(self.z, residual), np.vdot(self.both, residual) + a[1] if self.kind.both else 0.0])
        if not self.kind.sigma:
            return by_a, np.zeros_like(b), w
        by_w = (self.phi.T @ residual).astype(np.float64) + w / self.kind.sigma**2
        return by_a, residual.sum(axis=0, dtype=np.float64) + b, by_w


class _Stack(NamedTuple):
    """Members side by side: a₁ and a₂ of those without φ and of those with it; b and W of the latter.

    `rotation` is done for every row first; None, where it is less work to have it in W.
    """

    plain: Singles
    seeing: Singles
    b: Singles
    w: Singles
    rotation: Singles | None


@dataclass(frozen=True, eq=False)
class SharpeningModel:
    """Members, those without φ first, and the map to φ; `inputs` is None if no member uses φ."""

    inputs: SharpenerInputs | None
    members: tuple[Member, ...]

    def each(self, probs: Floats, features: Singles | None = None) -> Singles:
        """Return the probabilities of each member, (n, members, K)."""
        powers = np.concatenate(self._powers(probs, features), axis=1)
        powers /= powers.sum(axis=2, keepdims=True)
        return powers

    def mixed(self, weights: Singles, probs: Floats, features: Singles | None = None) -> Singles:
        """Return the weighted mean of the members' probabilities."""
        out = np.zeros(probs.shape, dtype=np.float32)
        used = 0
        for powers in self._powers(probs, features):
            members = powers.shape[1]
            factors = weights[used : used + members] / powers.sum(axis=2)
            for m in range(members):
                out += factors[:, m, None] * powers[:, m]
            used += members
        return out

    def _powers(self, probs: Floats, features: Singles | None) -> list[Singles]:
        """Compute exp(u − max u) of the members without φ, and of those with it: (n, members, K) each."""
        z, both = logarithms(probs)
        n, n_classes = z.shape
        stack, found = self._stack, []
        if len(stack.plain):
            found.append((np.zeros((n, len(stack.plain), n_classes), dtype=np.float32), stack.plain))
        if self.inputs is not None and len(stack.seeing):
            phi = self.inputs.raw(z, features)
            if stack.rotation is not None:
                phi = product(phi, stack.rotation, self.inputs.centre)
            found.append((product(phi, stack.w, stack.b).reshape(n, -1, n_classes), stack.seeing))
        for u, a in found:
            u += z[:, None] * a[:, :1]
            u += both[:, None] * a[:, 1:]
            u -= u.max(axis=2, keepdims=True)
            np.exp(u, out=u)
        return [u for u, _ in found]

    @cached_property
    def _stack(self) -> _Stack:
        seeing = [member for member in self.members if len(member.w)]
        plain = [member.a for member in self.members if not len(member.w)]
        none = np.empty((0, 2), dtype=np.float32)
        first = np.stack(plain) if plain else none
        if self.inputs is None or not seeing:
            return _Stack(first, none, none, none, None)
        b = np.concatenate([member.b for member in seeing])
        w = np.concatenate([member.w for member in seeing], axis=1)
        second = np.stack([member.a for member in seeing])
        rotation, (raw, axes) = self.inputs.scale[:, None] * self.inputs.rotation, self.inputs.rotation.shape
        if (raw + w.shape[1]) * axes < raw * w.shape[1]:
            return _Stack(first, second, b, w, rotation)
        return _Stack(first, second, b + self.inputs.centre @ w, rotation @ w, None)
