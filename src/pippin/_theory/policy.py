"""From utilities to lines: what a decision depends on, before there are any data.

With the distinct utilities v_1 > … > v_L and m_l = max_a Σ_{y: U(a, y) ≥ v_l} p_y, the
multiplier β ≥ 0 picks the l that maximises v_l + β·m_l (of equal ones that with the larger
m), its best action, and the certificate ν = v_l. Kiyani, Pappas, Roth, Hassani (2025),
Decision theoretic foundations for conformal prediction, arXiv 2502.02561.

For one action only its own utilities count as v: at others it has the mass of the next
higher one. So there is one line v + β·m for every action and each of its utilities, and
their order by falling v is known before any probability is. Classes with the same
utilities under every action are one outcome.
"""

from typing import NamedTuple

import numpy as np

from pippin._runtime.arrays import Codes, Indices, Vector, read_only

LINES = 32  # that are looked at, or passed over, together


class Policy(NamedTuple):
    """A utility as the engines want it.

    The classes of outcome c are `grouped[ends[c]:ends[c + 1]]`, in rising order, and
    `outcome[k]` is that of class k. `table[a, c]` is the utility of action a. Action a meets
    the outcomes in the order `order[:, a]`, by falling utility. Line t, by falling `value`, is
    that of `action[t]`, and its mass that of the first `reach[t]` outcomes in the action's order
    (of all outcomes, their sum by number, so that no action has more than another by rounding):
    the entry `place[t]` of all masses, (outcomes, actions), in a row. `last[b, a]` is the last
    line of action a among the first (b + 1)·LINES lines, or the first of all.
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
    last: Indices

    @property
    def n_outcomes(self) -> int:
        return int(self.table.shape[1])

    @property
    def safe(self) -> int:
        """The action whose worst utility is best."""
        return int(self.table.min(axis=1).argmax())


def make_policy(utilities: Vector) -> Policy:
    """The policy of utilities (A, K).

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
    last = np.ones((n_actions, n_outcomes), dtype=bool)  # of those with the same utility
    last[:, :-1] = falling[:, 1:] != falling[:, :-1]
    action, place = np.nonzero(last)
    value = falling[action, place]
    by_value = np.lexsort((action, -value))
    counts = np.bincount(outcome, minlength=n_outcomes)
    action, place, value = action[by_value], place[by_value], value[by_value]
    return Policy(
        _short(np.argsort(outcome, kind="stable")),
        _short(np.concatenate([[0], np.cumsum(counts)])),
        _short(outcome),
        read_only(table),
        _short(order.T),
        read_only(value),
        _short(action),
        _short(place + 1),
        _short(place * n_actions + action),
        _short(_last_lines(action, n_actions)),
    )


def _last_lines(action: Codes, n_actions: int) -> Codes:
    """(blocks, actions): the last line of each action up to the end of each block of LINES lines; if none, line 0."""
    seen = np.where(action[:, None] == np.arange(n_actions), np.arange(len(action))[:, None], 0)
    ends = np.minimum(np.arange(LINES, len(action) + LINES, LINES), len(action)) - 1
    return np.asarray(np.maximum.accumulate(seen, axis=0)[ends])


def _outcomes(utilities: Vector) -> tuple[Codes, Codes]:
    """The first class of each outcome, and the outcome of each class, numbered as they first occur."""
    _, first, which = np.unique(utilities + 0.0, axis=1, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return np.sort(first), rank[which.reshape(-1)]


def _short(values: Codes) -> Indices:
    return read_only(np.ascontiguousarray(values, dtype=np.int32))
