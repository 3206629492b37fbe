"""`DecisionHead`, a last layer that computes actions with certificates from logits."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pippin._conformal.exportable import exportable_decisions
from pippin._decisions.decider import Decider
from pippin.torch.heads import Head, probabilities

MOST = torch.finfo(torch.float64).max


class TorchDecisions(NamedTuple):
    """Actions and certificates as tensors on the device of the logits.

    Attributes:
        actions: index of each object's action, shape (…).
        certificates: guaranteed utility of each object's action, in float64, shape (…).
    """

    actions: torch.Tensor
    certificates: torch.Tensor


class DecisionHead(Head):
    """Last layer that computes actions and certificates from logits, like `decider.decide`.

    A certificate is the utility of the action that is guaranteed with probability 1 − alpha.

    For the same float32 or float64 probabilities the actions are equal to those of `decider.decide`, except where two
    actions are equally good for an object within rounding, or with a sharpener, where rounded probabilities change the
    decision. It is not checked that probabilities sum to 1. A row with
    NaN gets the action with the best worst case, and a certificate of −∞. With a guarantee per group, `forward` takes
    the index of each object's group, which `group_codes` returns for names. Buffers store float64 numbers as int64
    bits, so that `half()` and `to(dtype)` do not round them.

    Args:
        decider: result of `pippin.decisions.calibrate` or of `pippin.load`.
        from_probs: whether `forward` takes probabilities instead of logits.

    Attributes:
        classes (Classes): the names of the columns, in their order.
        actions (tuple[str, ...]): the names of the actions.
        from_probs (bool): whether `forward` takes probabilities instead of logits.
        sharpened (bool): whether the probabilities are sharpened first.
        n_features (int): number of features that `forward` takes for the sharpener.
        counts (list[int]): for each action, its number of different utilities.
        n_outcomes (int): number of classes, where classes with equal utilities under every action count as one.
        safe (int): index of the action with the largest worst-case utility over all classes.

    >>> import pippin.torch, torch
    >>> utility = pippin.decisions.Utility([[1, -2], [-1, 1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9]]
    >>> decider = pippin.decisions.calibrate(probs, [0, 0, 1, 1, 1], utility, alpha=0.3)
    >>> head = pippin.torch.DecisionHead(decider, from_probs=True)
    >>> found = head(torch.tensor([[0.95, 0.05], [0.55, 0.45]]))
    >>> [head.actions[a] for a in found.actions], found.certificates
    (['spray', 'ask'], tensor([1.0000, 0.3000], dtype=torch.float64))
    """

    action: torch.Tensor
    reach: torch.Tensor
    place: torch.Tensor
    order: torch.Tensor
    outcome: torch.Tensor
    falling: torch.Tensor

    def __init__(self, decider: Decider, *, from_probs: bool = False) -> None:
        given = exportable_decisions(decider)
        super().__init__(given, from_probs)
        policy = given.policy
        self.actions, self.n_outcomes, self.safe = decider.utility.actions, policy.n_outcomes, policy.safe
        self._keep("value_bits", policy.value)
        self._keep("number_bits", [given.betas.max(), given.lowest])
        self._one_beta, self._by_outcome = given.betas.size == 1 and given.groups is None, given.betas.shape[1] > 1
        if not self._one_beta:  # torch.export does not accept a buffer after one that is None
            self._keep("limit_bits", given.betas)
        if self._by_outcome:
            self._keep("utility_bits", policy.table)
        own = given.by_action
        self._per_action = own is not None
        if own is not None:
            self._keep("falling_bits", own.falling)
            self._keep("floor_bits", own.floors)
            self._keep("threshold_bits", own.limits)
        by_action = np.argsort(policy.action, kind="stable")
        self.counts = np.bincount(policy.action).tolist()  # number of distinct utilities of each action
        indices: dict[str, NDArray[Any]] = {
            "action": policy.action,
            "reach": policy.reach[by_action] - 1,
            "place": np.argsort(by_action),
            "order": policy.order,
            "outcome": policy.outcome,
        }
        for name, values in (indices if own is None else indices | {"falling": own.order}).items():
            self.register_buffer(name, torch.from_numpy(values.astype(np.int64)))

    @property
    def beta(self) -> float:
        """Calibrated multiplier β of the decider; the largest one if it differs between classes or groups.

        The action maximizes v + β·m, where v is its certificate and m the predicted probability of reaching it.
        """
        return float(self._numbers("number_bits")[0])

    def forward(
        self, x: torch.Tensor, group: torch.Tensor | None = None, features: torch.Tensor | None = None
    ) -> TorchDecisions:
        """Compute the actions for logits of shape (…, K), or for probabilities with `from_probs=True`.

        Args:
            x: logits of any float type; the softmax of half floats is computed in float32.
            group: index of each object's group, if the guarantee is per group.
            features: features of each object for the sharpener (recalibration map), shape (…, n_features).

        Returns:
            Index of the selected action and certificate of each object.
        """
        (flat, logits), shape = self._scored_rows(x, features), x.shape[:-1]
        rows = self._group_rows(group, x)
        probs = (probabilities(flat) if logits else flat).double()
        masses = self._masses(probs)
        value, beta = self._numbers("value_bits"), self._numbers("number_bits")[:1]
        if self._one_beta:
            height = value + torch.where(torch.isinf(beta), 0.0, beta) * masses
            actions, certificates = self._heaviest(height >= height.amax(dim=1, keepdim=True), beta, masses)
        else:
            limits = self._numbers("limit_bits")
            limits = limits.expand(len(masses), -1) if rows is None else limits[rows]
            starts, ends = _envelope(value, masses)
            beta = limits.amax(dim=1)
            actions, certificates = self._heaviest(starts <= beta.clamp(max=MOST)[:, None], beta, masses)
            if self._by_outcome:
                actions, certificates = self._on_sets(limits, ends, actions, certificates)
        if self._per_action:
            actions, certificates = self._within_actions(probs, actions, certificates)
        broken = masses.isnan().any(dim=1)
        actions, certificates = actions.masked_fill(broken, self.safe), certificates.masked_fill(broken, -torch.inf)
        return TorchDecisions(actions.reshape(shape), certificates.reshape(shape))

    def _heaviest(
        self, lines: torch.Tensor, beta: torch.Tensor, masses: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the decision of each row: its action and certificate (guaranteed utility).

        A line is an action with one of its utilities v; its height at the multiplier β is v + β·m, where m is the
        probability that the action has at least the utility v. The mask `lines` flags the highest lines of each row;
        the decision is the one of these with the largest m. At an infinite β, it is the action with the largest
        worst-case utility over all classes, with this utility.
        """
        line, infinite = torch.where(lines, masses, -1.0).argmax(dim=1), torch.isinf(beta)
        value, lowest = self._numbers("value_bits"), self._numbers("number_bits")[1:]
        return torch.where(infinite, self.safe, self.action[line]), torch.where(infinite, lowest, value[line])

    def _on_sets(
        self, limits: torch.Tensor, ends: torch.Tensor, actions: torch.Tensor, certificates: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Replace each object's action by the one with the largest worst-case utility over its set of outcomes.

        An outcome consists of classes with equal utilities. It is in the set unless, at some β above its calibrated β
        in `limits`, the selected action has a lower utility for this outcome than its certificate (guaranteed utility).
        Objects with an empty set keep the given actions and certificates.
        """
        value, utility = self._numbers("value_bits"), self._numbers("utility_bits")
        broken = utility[self.action] < value[:, None]
        beyond = ends[:, :, None] > limits[:, None, :]
        inside = ~(beyond & broken).any(dim=1) | torch.isinf(limits)
        worst = torch.where(inside[:, None, :], utility, torch.inf).amin(dim=2)
        value = worst.amax(dim=1)
        best = (worst == value[:, None]).to(torch.int8).argmax(dim=1)  # the first of ties
        decided = inside.any(dim=1)
        return torch.where(decided, best, actions), torch.where(decided, value, certificates)

    def _within_actions(
        self, probs: torch.Tensor, actions: torch.Tensor, certificates: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Apply the floor of each action, and return the certificates that hold given the action (per="action").

        An action whose predicted probability of reaching the given certificate is below its floor is replaced by the
        safe action.
        """
        falling = self._numbers("falling_bits")
        level = (falling[actions] >= certificates[:, None]).sum(dim=1, keepdim=True) - 1
        masses = probs.gather(1, self.falling[actions]).cumsum(dim=1).gather(1, level)[:, 0]
        actions = torch.where(masses < self._numbers("floor_bits")[actions], self.safe, actions)
        masses = probs.gather(1, self.falling[actions]).cumsum(dim=1)
        failing = masses <= self._numbers("threshold_bits")[actions][:, None]
        first = failing.sum(dim=1, keepdim=True).clamp(max=masses.shape[1] - 1)  # at least the worst-case utility
        return actions, falling[actions].gather(1, first)[:, 0]

    def extra_repr(self) -> str:
        return f"{', '.join(self.actions)}; {len(self.classes)} classes, beta={self.beta:.6g}"

    def _masses(self, probs: torch.Tensor) -> torch.Tensor:
        """Compute for every line v + β·m the probability m that its action has a utility of at least v.

        The shape is (n, lines). m is the sum of the probabilities of the outcomes (classes with equal utilities) with
        such a utility, added in descending order of utility. If these are all outcomes, the sum is computed in the
        order of the outcomes, so that it is equal for all actions.
        """
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
    """Return start and end of the interval of β in which each line v + β·m is the highest.

    A line is an action with one of its utilities v; m is the probability that the action has at least this utility.
    Both results have the shape (n, lines).


    A line that is never the highest has start ∞ and end −1. Line t is the highest from max (v_s − v_t)/(m_t − m_s) over
    the lines s with smaller m, to min (v_t − v_s)/(m_s − m_t) over the lines s with larger m. Of lines with equal m,
    only the first can be the highest, since lines are in descending order of v.
    """
    ends, starts = torch.full_like(masses, torch.inf), torch.zeros_like(masses)
    lines = torch.arange(len(value), device=masses.device)
    for s in range(len(value)):
        ahead = masses[:, s : s + 1] - masses
        cross = (value - value[s]) / torch.where(ahead == 0, 1.0, ahead)
        ends = torch.where(ahead > 0, torch.minimum(ends, cross), ends)
        starts = torch.where(ahead < 0, torch.maximum(starts, cross), starts)
        ends = torch.where((ahead == 0) & (lines > s), -1.0, ends)
    on_envelope = ends > starts
    return torch.where(on_envelope, starts, torch.inf), torch.where(on_envelope, ends, -1.0)
