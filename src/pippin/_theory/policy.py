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

FEW_LINES, MANY_LINES = 256, 1024  # up to which each is looked at by itself; up to which SOME of an action together
SOME, MANY = 8, 16  # lines of one action, that are looked at, or passed over, together


class Policy(NamedTuple):
    """A utility as the engines want it.

    The classes of outcome c are `grouped[ends[c]:ends[c + 1]]`, in rising order, and
    `outcome[k]` is that of class k. `table[a, c]` is the utility of action a. Action a meets
    the outcomes in the order `order[:, a]`, by falling utility. Line t, by falling `value`, is
    that of `action[t]`, and its mass that of the first `reach[t]` outcomes in the action's order
    (of all outcomes, their sum by number, so that no action has more than another by rounding):
    the entry `place[t]` of all masses, (outcomes, actions), in a row; the line of a place is
    `line[place]`, or −1.

    Every SOME or MANY lines of an action are a block, or each line by itself: block b, by falling value,
    has the lines of its action from `head[b]` to `tail[b]`, after those of block `before[b]` (−1:
    none). `met` has the blocks by the places of their tails.
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
    head: Indices
    tail: Indices
    before: Indices
    met: Indices

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
    action, place, value, reach = action[by_value], place[by_value], value[by_value], place[by_value] + 1
    place = place * n_actions + action
    line = np.full(table.size, -1)
    line[place] = np.arange(len(place))
    return Policy(
        _short(np.argsort(outcome, kind="stable")),
        _short(np.concatenate([[0], np.cumsum(counts)])),
        _short(outcome),
        read_only(table),
        _short(order.T),
        read_only(value),
        _short(action),
        _short(reach),
        _short(place),
        _short(line),
        **_blocks(action, place, _together(len(value))),
    )


def _together(n_lines: int) -> int:
    if n_lines <= FEW_LINES:
        return 1
    return SOME if n_lines <= MANY_LINES else MANY


def _blocks(action: Codes | Indices, place: Codes | Indices, size: int) -> dict[str, Indices]:
    """Blocks of so many lines of an action, as `Policy` has them."""
    heads, tails, befores, count = [], [], [], 0
    for a in range(int(action.max()) + 1):
        own = np.flatnonzero(action == a)
        ends = np.arange(size - 1, len(own) + size - 1, size)
        heads.append(own[::size])
        tails.append(own[np.minimum(ends, len(own) - 1)])
        befores.append(np.append(-1, count + np.arange(len(ends) - 1)))
        count += len(ends)
    tail, before = np.concatenate(tails), np.concatenate(befores)
    by_value = np.argsort(tail)
    rank = np.append(np.argsort(by_value), -1)
    tail, met = tail[by_value], np.argsort(place[tail[by_value]])
    head, before = np.concatenate(heads)[by_value], rank[before[by_value]]
    return {"head": _short(head), "tail": _short(tail), "before": _short(before), "met": _short(met)}


def _outcomes(utilities: Vector) -> tuple[Codes, Codes]:
    """The first class of each outcome, and the outcome of each class, numbered as they first occur."""
    _, first, which = np.unique(utilities + 0.0, axis=1, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return np.sort(first), rank[which.reshape(-1)]


def _short(values: Codes) -> Indices:
    return read_only(np.ascontiguousarray(values, dtype=np.int32))
