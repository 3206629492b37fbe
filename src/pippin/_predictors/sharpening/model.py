"""A mixture of members, as it is applied: row by row the same bits, whatever rows stand beside it."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pippin._predictors.sharpening.inputs import Inputs, Singles, logarithms, product
from pippin._predictors.sharpening.members import Member
from pippin._runtime.arrays import Floats


class _Stack(NamedTuple):
    """All members side by side: a₁ and a₂, (members, 1) each; b and W of those with φ, one after the other.

    `rotation` is done for every row first; None, where it is less work to have it in W.
    """

    first: Singles
    second: Singles
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
        z, both = logarithms(probs)
        stack = self._stack
        u = z[:, None] * stack.first
        u += both[:, None] * stack.second
        if self.inputs is not None:
            phi = self.inputs.raw(z, features)
            if stack.rotation is not None:
                phi = product(phi, stack.rotation, self.inputs.centre)
            with_phi = product(phi, stack.w, stack.b).reshape(len(z), -1, z.shape[1])
            u[:, u.shape[1] - with_phi.shape[1] :] += with_phi
        u -= np.maximum.reduce(u, axis=2, keepdims=True)
        np.exp(u, out=u)
        u /= np.add.reduce(u, axis=2, keepdims=True)
        return u

    def mixed(self, weights: Singles, probs: Floats, features: Singles | None = None) -> Singles:
        """The mean of the members under weights of shape (members, 1)."""
        each = self.each(probs, features)
        each *= weights
        mean: Singles = np.add.reduce(each, axis=1)
        return mean

    @cached_property
    def _stack(self) -> _Stack:
        first, second = (np.array([[member.a[i]] for member in self.members], dtype=np.float32) for i in (0, 1))
        seeing = [member for member in self.members if len(member.w)]
        if self.inputs is None or not seeing:
            none = np.empty((0, 0), dtype=np.float32)
            return _Stack(first, second, none, none, None)
        b = np.concatenate([member.b for member in seeing])
        w = np.concatenate([member.w for member in seeing], axis=1)
        rotation, (raw, axes) = self.inputs.rotation, self.inputs.rotation.shape
        if (raw + w.shape[1]) * axes < raw * w.shape[1]:
            return _Stack(first, second, b, w, rotation)
        return _Stack(first, second, b + self.inputs.centre @ w, rotation @ w, None)
