"""DecisionHead, a last layer that turns logits into actions with certificates."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pippin._conformal.exportable import PortableDecisions, portable_decisions
from pippin._decisions.decider import Decider
from pippin.torch.head import Head, probabilities

MOST = torch.finfo(torch.float64).max


class TorchDecisions(NamedTuple):
    """Actions as tensors on the logits' device.

    Attributes:
        actions: (…), the number of each object's action.
        certificates: (…), the utility that it has at least, in float64.
    """

    actions: torch.Tensor
    certificates: torch.Tensor


class DecisionHead(Head):
    """Last layer: logits in, actions and certificates out, as `decider.decide` returns them.

    For the same float32 or float64 probabilities the actions are the core's, except for objects whose two best lines
    tie within rounding. Probabilities are not checked for summing to 1. A row with NaN gets the action whose worst case
    is best, and a certificate of −∞. With a guarantee per group, `forward` takes the number of each object's group,
    which `group_codes` returns for names. Numbers are kept as the bits of float64, so that `half()` and `to(dtype)` do
    not round them.

    Args:
        decider: what `pippin.decisions.calibrate` returned or `pippin.load` read.
        from_probs: whether forward takes probabilities instead of logits.

    Attributes:
        classes (Classes): the names of the columns, in their order.
        actions (tuple[str, ...]): the names of the actions.
        from_probs (bool): whether it takes probabilities instead of logits.
        counts (list[int]): number of distinct utilities of each action.
        n_outcomes (int): number of classes, or kinds of classes, with different utilities.
        safe (int): the action whose worst utility is best, by number.

    >>> import pippin.torch, torch
    >>> utility = pippin.decisions.Utility([[1, -2], [-1, 1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9]]
    >>> decider = pippin.decisions.calibrate(probs, [0, 0, 1, 1, 1], utility, alpha=0.3)
    >>> head = pippin.torch.DecisionHead(decider, from_probs=True)
    >>> found = head(torch.tensor([[0.95, 0.05], [0.55, 0.45]]))
    >>> [head.actions[a] for a in found.actions], found.certificates
    (['spray', 'ask'], tensor([1.0000, 0.3000], dtype=torch.float64))
    """

    value_bits: torch.Tensor
    number_bits: torch.Tensor
    limit_bits: torch.Tensor | None
    utility_bits: torch.Tensor | None
    action: torch.Tensor
    reach: torch.Tensor
    place: torch.Tensor
    order: torch.Tensor
    outcome: torch.Tensor

    def __init__(self, decider: Decider, *, from_probs: bool = False) -> None:
        given = portable_decisions(decider)
        super().__init__(given.classes, given.groups, from_probs)
        policy = given.policy
        self.actions, self.n_outcomes, self.safe = given.actions, policy.n_outcomes, policy.safe
        self._keep("value_bits", policy.value)
        self._keep("number_bits", np.array([given.betas.max(), given.lowest]))
        self._keep_limits(given)
        by_action = np.argsort(policy.action, kind="stable")
        self.counts = np.bincount(policy.action).tolist()  # lines of each action
        self._keep_indices("action", policy.action)
        self._keep_indices("reach", policy.reach[by_action] - 1)
        self._keep_indices("place", np.argsort(by_action))
        self._keep_indices("order", policy.order)
        self._keep_indices("outcome", policy.outcome)

    @property
    def beta(self) -> float:
        """Multiplier of the decider; the largest, if there are several."""
        return float(self.number_bits[:1].view(torch.float64))

    def forward(self, x: torch.Tensor, group: torch.Tensor | None = None) -> TorchDecisions:
        """Actions for logits (…, K), or for probabilities with `from_probs=True`.

        Args:
            x: any float type; the softmax of half floats is computed in float32.
            group: the number of each object's group, where the guarantee is per group.
        """
        flat, shape = self._rows(x), x.shape[:-1]
        rows = self._group_rows(group, x)
        probs = (flat if self.from_probs else probabilities(flat)).double()
        masses = self._masses(probs)
        value, beta = self.value_bits.view(torch.float64), self.number_bits[:1].view(torch.float64)
        if self.limit_bits is None:
            height = value + torch.where(torch.isinf(beta), 0.0, beta) * masses
            actions, certificates = self._heaviest(height >= height.amax(dim=1, keepdim=True), beta, masses)
        else:
            limits = self.limit_bits.view(torch.float64)
            limits = limits.expand(len(masses), -1) if rows is None else limits[rows]
            starts, ends = _envelope(value, masses)
            beta = limits.amax(dim=1)
            actions, certificates = self._heaviest(starts <= beta.clamp(max=MOST)[:, None], beta, masses)
            if self.utility_bits is not None:
                actions, certificates = self._on_sets(limits, ends, actions, certificates)
        broken = masses.isnan().any(dim=1)
        actions, certificates = actions.masked_fill(broken, self.safe), certificates.masked_fill(broken, -torch.inf)
        return TorchDecisions(actions.reshape(shape), certificates.reshape(shape))

    def _heaviest(
        self, lines: torch.Tensor, beta: torch.Tensor, masses: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Action and certificate of the line with the largest mass among `lines`; the safe ones if β is infinite."""
        line, sure = torch.where(lines, masses, -1.0).argmax(dim=1), torch.isinf(beta)
        value, lowest = self.value_bits.view(torch.float64), self.number_bits[1:].view(torch.float64)
        return torch.where(sure, self.safe, self.action[line]), torch.where(sure, lowest, value[line])

    def _on_sets(
        self, limits: torch.Tensor, ends: torch.Tensor, actions: torch.Tensor, certificates: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Action with the best worst case over the outcomes within their own limit, for a β per outcome.

        An outcome is within its limit unless a line whose certificate it breaks is on the envelope beyond that limit.
        Objects without such outcomes keep the given actions and certificates.
        """
        assert self.utility_bits is not None
        value, utility = self.value_bits.view(torch.float64), self.utility_bits.view(torch.float64)
        broken = utility[self.action] < value[:, None]
        beyond = ends[:, :, None] > limits[:, None, :]
        inside = ~(beyond & broken).any(dim=1) | torch.isinf(limits)
        worst = torch.where(inside[:, None, :], utility, torch.inf).amin(dim=2)
        worth, best = worst.max(dim=1)
        best = (worst == worth[:, None]).to(torch.int8).argmax(dim=1)  # the first of equal ones
        some = inside.any(dim=1)
        return torch.where(some, best, actions), torch.where(some, worth, certificates)

    def _keep_limits(self, given: PortableDecisions) -> None:
        one = given.betas.size == 1 and given.groups is None
        self._keep("limit_bits", None if one else given.betas)
        self._keep("utility_bits", given.policy.table if given.betas.shape[1] > 1 else None)

    def _keep_indices(self, name: str, values: NDArray[Any]) -> None:
        self.register_buffer(name, torch.from_numpy(values.astype(np.int64)))

    def extra_repr(self) -> str:
        return f"{', '.join(self.actions)}; {len(self.classes)} classes, beta={self.beta:.6g}"

    def _masses(self, probs: torch.Tensor) -> torch.Tensor:
        """Mass of every line, (n, lines), summed in the order of its action's outcomes."""
        outcomes = probs
        if self.n_outcomes < probs.shape[1]:
            outcomes = probs.new_zeros((probs.shape[0], self.n_outcomes)).index_add(1, self.outcome, probs)
        of_actions = []
        for a, reach in enumerate(torch.split_with_sizes(self.reach, self.counts)):
            of_actions.append(torch.cumsum(outcomes[:, self.order[:, a]], dim=1)[:, reach])
        masses = torch.cat(of_actions, dim=1)[:, self.place]
        whole = torch.cumsum(outcomes, dim=1)[:, -1:]
        return torch.where(self.reach[self.place] == self.n_outcomes - 1, whole, masses)


def _envelope(value: torch.Tensor, masses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Interval of β, (n, lines) each end, in which each line is on the upper envelope; ∞ and −1 if it never is.

    Line t is on it from max (v_s − v_t)/(m_t − m_s) over the lines s with less mass to min (v_t − v_s)/(m_s − m_t) over
    those with more. Of lines with equal mass only the first can be on it.
    """
    ends, starts = torch.full_like(masses, torch.inf), torch.zeros_like(masses)
    lines = torch.arange(len(value), device=masses.device)
    for s in range(len(value)):
        ahead = masses[:, s : s + 1] - masses
        cross = (value - value[s]) / torch.where(ahead == 0, 1.0, ahead)
        ends = torch.where(ahead > 0, torch.minimum(ends, cross), ends)
        starts = torch.where(ahead < 0, torch.maximum(starts, cross), starts)
        ends = torch.where((ahead == 0) & (lines > s), -1.0, ends)
    shown = ends > starts
    return torch.where(shown, starts, torch.inf), torch.where(shown, ends, -1.0)
