"""Decision policy of a utility: the lines v + β·m, in their order by falling v.

With the distinct utilities v_1 > … > v_L and m_l = max_a Σ_{y: U(a, y) ≥ v_l} p_y, the
multiplier β ≥ 0 selects the l that maximizes v_l + β·m_l (of equal ones the one with the larger
m), its best action, and the certificate ν = v_l. Kiyani, Pappas, Roth, Hassani (2025),
Decision theoretic foundations for conformal prediction, arXiv 2502.02561.

An action has the same mass between two of its utilities, so only these count as its v: there is
one line v + β·m for every action and each of its distinct utilities. The order of the lines by
falling v does not depend on probabilities. Classes with the same utilities under every action
are one outcome.
"""

from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Codes, Indices, Vector, read_only


class Policy(NamedTuple):
    """Lines and outcomes of a utility, in the form that the engines read.

    The classes of outcome c are `grouped[ends[c]:ends[c + 1]]`, in rising order, and
    `outcome[k]` is the outcome of class k. `table[a, c]` is the utility of action a.
    `order[:, a]` are the outcomes by falling utility of action a. Lines are sorted by falling
    `value`; line t belongs to `action[t]`, and its mass is the sum of the first `reach[t]`
    outcomes in the order of that action. (The mass of all outcomes is summed by outcome number
    instead, so that rounding does not favor an action.) With the cumulative masses as a flat
    array (outcomes, actions), the mass of line t is entry `place[t]`, and `line[i]` is the line
    of entry i, or −1.
    """

    grouped: Indices
    ends: Indices
    outcome: Indices
    table: Vector
    order: Indices
    value: Vector
    action: Indices
    reach: Indices
    place: Indices
    line: Indices

    @property
    def n_outcomes(self) -> int:
        """Number of outcomes."""
        return int(self.table.shape[1])

    @property
    def safe(self) -> int:
        """Action with the largest worst-case utility."""
        return int(self.table.min(axis=1).argmax())


def make_policy(utilities: Vector) -> Policy:
    """Derive the policy of utilities (A, K).

    >>> policy = make_policy(np.array([[1.0, -2.0, 1.0], [-1.0, 1.0, -1.0]]))
    >>> policy.outcome, policy.value, policy.action, policy.reach
    (array([0, 1, 0], dtype=int32), array([ 1.,  1., -1., -2.]), array([0, 1, 1, 0], dtype=int32), array([1, 1, 2, 2],
    dtype=int32))
    """
    first, outcome = _outcomes(utilities)
    table = np.ascontiguousarray(utilities[:, first])
    n_actions, n_outcomes = table.shape
    order = np.argsort(-table, axis=1, kind="stable")
    falling = np.take_along_axis(table, order, axis=1)
    last = np.ones((n_actions, n_outcomes), dtype=bool)  # the last of equal utilities
    last[:, :-1] = falling[:, 1:] != falling[:, :-1]
    action, place = np.nonzero(last)
    value = falling[action, place]
    by_value = np.lexsort((action, -value))
    counts = np.bincount(outcome, minlength=n_outcomes)
    action, place, value, reach = action[by_value], place[by_value], value[by_value], place[by_value] + 1
    place = place * n_actions + action
    line = np.full(table.size, -1)
    line[place] = np.arange(len(place))
    grouped, ends = _int32(np.argsort(outcome, kind="stable")), _int32(np.concatenate([[0], np.cumsum(counts)]))
    lines = _int32(action), _int32(reach), _int32(place), _int32(line)
    return Policy(grouped, ends, _int32(outcome), read_only(table), _int32(order.T), read_only(value), *lines)


def _outcomes(utilities: Vector) -> tuple[Codes, Codes]:
    """Return the first class of each outcome and the outcome of each class, numbered in the order of occurrence."""
    _, first, which = np.unique(utilities + 0.0, axis=1, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return np.sort(first), rank[which.reshape(-1)]


def _int32(values: Codes) -> Indices:
    return read_only(np.ascontiguousarray(values, dtype=np.int32))
