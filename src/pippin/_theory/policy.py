"""Decision policy of a utility U(action, class): the action that the calibrated multiplier β selects for an object.

An action a reaches a utility v with probability m, the sum of p_y over the classes y with U(a, y) ≥ v. The policy
selects the action a and the utility v with the largest v + β·m (if several are equal, the one with the largest m). This
v is the certificate: the action has at least this utility with probability 1 − alpha if β ≥ 0 was calibrated. Kiyani,
Pappas, Roth, Hassani (2025), Decision theoretic foundations for conformal prediction, arXiv 2502.02561.

For a given row of probabilities, each v + β·m is a line as a function of β, and the policy follows the highest line,
the upper envelope of all lines. Between two successive utilities of an action, m is constant. So it is enough to have
one line for each pair of an action a and one of its distinct utilities v. Lines are ordered by decreasing v, which does
not depend on the probabilities. Classes with equal utilities under every action are merged into one outcome.
"""

from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Codes, Indices, Vector, read_only


class Policy(NamedTuple):
    """Decision policy of a utility, as arrays for the engines: lines v + β·m and outcomes (classes of equal utility).

    A line is an action a with one of its utilities v; its mass m is the probability that the utility of a is at least
    v. The line that is highest at the calibrated β gives the selected action, and its v is the certificate: the utility
    that the action reaches with probability 1 − alpha.

    The masses of all lines are prefix sums of the probabilities of outcomes: in the array S of shape (outcomes,
    actions), S[j, a] is the probability of the j + 1 outcomes with the highest utilities under action a.

    Attributes:
        grouped: the classes, sorted by outcome; those of outcome c are `grouped[ends[c]:ends[c + 1]]`.
        ends: start of each outcome in `grouped`, followed by the number of classes.
        outcome: the outcome of each class.
        table: `table[a, c]` is the utility of action a for outcome c.
        order: `order[:, a]` lists the outcomes by decreasing utility under action a.
        value: v of each line, in decreasing order.
        action: the action of each line.
        reach: number of outcomes whose probabilities are added to each mass m, the first ones of `order[:, action]`. If
            these are all outcomes, they are added in the order of their numbers, so that rounding favors no action.
        place: the index of each line's mass m in the flattened array S.
        line: the line whose mass is at each index of the flattened array S; −1 if there is none.
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
        """Index of the action with the largest worst-case utility over all outcomes."""
        return int(self.table.min(axis=1).argmax())


def make_policy(utilities: Vector) -> Policy:
    """Derive a decision policy from utilities (actions, K): its lines v + β·m, and its outcomes.

    A line is an action with one of its utilities v; m is the probability that the action has at least this utility. m
    depends on the row, and is computed later. An outcome consists of classes with equal utilities under every action.

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
    last = np.ones((n_actions, n_outcomes), dtype=bool)  # in each row, True at the last of equal utilities
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
    """Group classes with equal utilities into outcomes; return each outcome's first class, and each class's outcome.

    Outcomes are numbered in the order of their first classes.
    """
    _, first, which = np.unique(utilities + 0.0, axis=1, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return np.sort(first), rank[which.reshape(-1)]


def _int32(values: Codes) -> Indices:
    return read_only(np.ascontiguousarray(values, dtype=np.int32))
