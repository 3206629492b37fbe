"""DecisionHead: a last layer that turns logits into actions with certificates."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pippin._predictors.decisions.decider import Decider, need_one_beta
from pippin._runtime.errors import InputError
from pippin.torch.head import floats, probabilities


class TorchDecisions(NamedTuple):
    """Actions as tensors on the logits' device.

    Args:
        actions: (…), the number of each object's action.
        certificates: (…), the utility that it has at least, in float64.
    """

    actions: torch.Tensor
    certificates: torch.Tensor


class DecisionHead(torch.nn.Module):
    """A last layer: logits in, actions and certificates out, as `decider.decide` would give them.

    On the same float32 or float64 probabilities the actions are the core's, but for objects whose
    two best lines tie within rounding. Probabilities are not checked for summing to 1. Numbers are
    kept as the bits of float64, so that `half()` and `to(dtype)` cannot round them.

    Args:
        decider: what `calibrate_decisions` returned or `pippin.load` read, with one β for all.
        from_probs: whether forward takes probabilities instead of logits.

    >>> import pippin.torch, torch
    >>> utility = pippin.Utility([[1, -2], [-1, 1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9]]
    >>> decider = pippin.calibrate_decisions(probs, [0, 0, 1, 1, 1], utility, alpha=0.3)
    >>> head = pippin.torch.DecisionHead(decider, from_probs=True)
    >>> found = head(torch.tensor([[0.95, 0.05], [0.55, 0.45]]))
    >>> [head.actions[a] for a in found.actions], found.certificates
    (['spray', 'ask'], tensor([1.0000, 0.3000], dtype=torch.float64))
    """

    value_bits: torch.Tensor
    number_bits: torch.Tensor
    action: torch.Tensor
    reach: torch.Tensor
    place: torch.Tensor
    order: torch.Tensor
    outcome: torch.Tensor

    def __init__(self, decider: Decider, *, from_probs: bool = False) -> None:
        super().__init__()
        policy = need_one_beta(decider).utility.policy(decider.classes)
        self.classes, self.actions, self.from_probs = decider.classes, decider.utility.actions, from_probs
        self.n_outcomes, self.safe = policy.n_outcomes, policy.safe
        numbers = np.array([decider.beta, policy.table[policy.safe].min()])
        self.register_buffer("value_bits", torch.from_numpy(policy.value.view(np.int64).copy()))
        self.register_buffer("number_bits", torch.from_numpy(numbers.view(np.int64)))
        by_action = np.argsort(policy.action, kind="stable")
        self.counts = np.bincount(policy.action).tolist()  # lines of each action
        self._keep("action", policy.action)
        self._keep("reach", policy.reach[by_action] - 1)
        self._keep("place", np.argsort(by_action))
        self._keep("order", policy.order)
        self._keep("outcome", policy.outcome)

    @property
    def beta(self) -> float:
        """The multiplier of the decider."""
        return float(self.number_bits[:1].view(torch.float64))

    def forward(self, x: torch.Tensor) -> TorchDecisions:
        """The actions of logits (…, K); of probabilities, if the head was made `from_probs`.

        Args:
            x: any float type; half floats get their softmax in float32.
        """
        n_classes = len(self.classes)
        if x.ndim == 0 or x.shape[-1] != n_classes:
            raise InputError(
                f"Expected {n_classes} classes in the last axis, got shape {tuple(x.shape)}",
                "pass the outputs of the classifier that was calibrated",
            )
        shape = x.shape[:-1]
        probs = (floats(x) if self.from_probs else probabilities(x)).detach().reshape(-1, n_classes).double()
        beta, lowest = self.number_bits.view(torch.float64).unbind()
        value = self.value_bits.view(torch.float64)
        masses = self._masses(probs)
        height = value + beta * masses
        best = height >= height.amax(dim=1, keepdim=True)
        line = torch.where(best, masses, -1.0).argmax(dim=1)
        sure = torch.isinf(beta)
        actions = torch.where(sure, self.safe, self.action[line])
        certificates = torch.where(sure, lowest, value[line])
        return TorchDecisions(actions.reshape(shape), certificates.reshape(shape))

    def _keep(self, name: str, values: NDArray[Any]) -> None:
        self.register_buffer(name, torch.from_numpy(values.astype(np.int64)))

    def extra_repr(self) -> str:
        return f"{', '.join(self.actions)}; {len(self.classes)} classes, beta={self.beta:.6g}"

    def _masses(self, probs: torch.Tensor) -> torch.Tensor:
        """(n, lines): the mass of every line, summed in the order of its action's outcomes."""
        outcomes = probs
        if self.n_outcomes < probs.shape[1]:
            outcomes = probs.new_zeros((probs.shape[0], self.n_outcomes)).index_add(1, self.outcome, probs)
        of_actions = []
        for a, reach in enumerate(torch.split_with_sizes(self.reach, self.counts)):
            of_actions.append(torch.cumsum(outcomes[:, self.order[:, a]], dim=1)[:, reach])
        masses = torch.cat(of_actions, dim=1)[:, self.place]
        whole = torch.cumsum(outcomes, dim=1)[:, -1:]
        return torch.where(self.reach[self.place] == self.n_outcomes - 1, whole, masses)
