"""A mixture of members, as it is applied: row by row the same bits, whatever rows stand beside it."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Floats
from pippin._sharpening.inputs import Inputs, Singles, logarithms, product
from pippin._sharpening.members import Member


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
class Model:
    """Members, those without φ first, and what they are shown; `inputs` is None where none looks at φ."""

    inputs: Inputs | None
    members: tuple[Member, ...]

    def each(self, probs: Floats, features: Singles | None = None) -> Singles:
        """The probabilities that each member gives, (n, members, K)."""
        powers = np.concatenate(self._powers(probs, features), axis=1)
        powers /= powers.sum(axis=2, keepdims=True)
        return powers

    def mixed(self, weights: Singles, probs: Floats, features: Singles | None = None) -> Singles:
        """The mean of the members under these weights."""
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
        """exp(u − max u) of the members without φ, and of those with it: (n, members, K) each."""
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
