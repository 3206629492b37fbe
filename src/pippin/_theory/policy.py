"""Decision policy of a utility U(action, class): which action the calibrated multiplier β selects for an object.

Let v_1 > … > v_L be the distinct utilities, and m_l = max_a Σ_{y: U(a, y) ≥ v_l} p_y the largest probability with which
an action a reaches the utility v_l. The multiplier β ≥ 0 selects the l that maximizes v_l + β·m_l (of equal values the
one with the larger m_l), the action a that attains m_l, and the certificate ν = v_l: the utility that is guaranteed
with probability 1 − alpha by a calibrated β. Kiyani, Pappas, Roth, Hassani (2025), Decision theoretic foundations for
conformal prediction, arXiv 2502.02561.

For each action, only its own distinct utilities matter as v, since m is constant between two of them. Each pair of an
action a and one of its distinct utilities v is called a line, v + β·m as a function of β, where m is the probability of
the classes whose utility under a is at least v. Lines are ordered by decreasing v, whatever the probabilities are.
Classes with equal utilities under every action are merged into one outcome.
"""

from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Codes, Indices, Vector, read_only


class Policy(NamedTuple):
    """Lines and outcomes of a utility, as arrays for the engines.

    An outcome is a group of classes with equal utilities. A line is a pair of an action a and a value v; its mass m is
    the probability of the outcomes whose utility under a is at least v. At a multiplier β, the highest
    line v + β·m gives the action, and v is its certificate, the utility guaranteed with probability 1 − alpha.

    Attributes:
        grouped: the classes sorted by outcome; those of outcome c are `grouped[ends[c]:ends[c + 1]]`.
        ends: start of each outcome in `grouped`, followed by the number of classes.
        outcome: the outcome of each class.
        table: `table[a, c]` is the utility of action a for outcome c.
        order: `order[:, a]` are the outcomes by decreasing utility of action a.
        value: v of each line, in decreasing order.
        action: the action of each line.
        reach: for each line, the number of outcomes that count in m: the first `reach` ones in `order` of its action. A
            sum over all outcomes is taken in the order of their numbers: rounding then favors no action.
        place: the index of each line's m in the flattened array (outcomes, actions) of the cumulative probabilities of
            outcomes in `order`.
        line: the line at each index of this flattened array, or −1.
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
    """Derive the policy from the utility of each action and class, shape (actions, K).

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
    last = np.ones((n_actions, n_outcomes), dtype=bool)  # flags of the last of several equal utilities
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
    """Return the first class of each outcome, and the outcome of each class; outcomes are numbered by first class."""
    _, first, which = np.unique(utilities + 0.0, axis=1, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return np.sort(first), rank[which.reshape(-1)]


def _int32(values: Codes) -> Indices:
    return read_only(np.ascontiguousarray(values, dtype=np.int32))
