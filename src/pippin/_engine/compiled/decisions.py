"""Which action each row's probabilities call for: compiled. The same steps as in `plain/decisions.py`, row by row."""

from typing import Any

import numpy as np

from pippin._engine.compiled.build import NONE, compiled, making, part
from pippin._engine.compiled.envelope import (
    FEW_LINES,
    Work,
    add_up,
    envelope,
    find_chain,
    find_tops,
    line_at,
    outcome_masses,
    room,
)
from pippin._engine.compiled.side_by_side import ROWS
from pippin._engine.compiled.walk import Row, is_broken, is_doubtful, look
from pippin._engine.protocol import Decided
from pippin._runtime.arrays import Codes, Floats, Indices, Vector, read_only
from pippin._theory.policy import Policy

Sizes = tuple[int, int, int, int]  # of classes, outcomes, lines and actions


@making
def _look_at(block: Floats, begin: int, policy: Policy, outcomes: Vector, work: Work, whole: bool) -> None:
    """Fills in what ROWS rows side by side need; of the envelopes that are wanted whole, the chains below them."""
    outcome_masses(block, begin, policy.grouped, policy.ends, outcomes)
    add_up(outcomes, policy.order, work[0])
    if policy.value.size > FEW_LINES:
        find_tops(policy, work)
        if whole:
            find_chain(work)


@part
def _kept_from(policy: Policy, lines: Indices, starts: Vector, size: int, outcome: int) -> float:
    """The β from which on an outcome keeps every certificate."""
    first = size
    while first > 0 and policy.table[policy.action[lines[first - 1]], outcome] >= policy.value[lines[first - 1]]:
        first -= 1
    return starts[first] if first < size else np.inf


@making
def _worst(policy: Policy, lines: Indices, starts: Vector, size: int, limits: Vector) -> tuple[int, float]:
    """The best action in the worst case over the outcomes within their limits, and that case; −1 if there is none."""
    best, highest = -1, -np.inf
    inside = np.zeros(limits.size, np.bool_)
    some = False
    for c in range(limits.size):
        inside[c] = _kept_from(policy, lines, starts, size, c) <= limits[c]
        some |= inside[c]
    for a in range(policy.table.shape[0] if some else 0):
        lowest = np.inf
        for c in range(limits.size):
            if inside[c]:
                lowest = min(lowest, policy.table[a, c])
        if lowest > highest:
            best, highest = a, lowest
    return best, highest


@making
def _decide(policy: Policy, r: int, limits: Vector, work: Work, lines: Indices, starts: Vector) -> tuple[int, float]:
    """The action and certificate of row r of those side by side, under one β, or one per outcome."""
    beta = limits.max()
    if limits.size > 1:
        size = envelope(policy, r, work, lines, starts)
        best, lowest = _worst(policy, lines, starts, size, limits)
        if best >= 0:
            return best, lowest
    if np.isinf(beta):
        every = np.full(policy.table.shape[1], np.inf)
        return _worst(policy, lines, starts, NONE, every)
    line = line_at(policy, (ROWS, r), beta, work, lines, starts)
    return policy.action[line], policy.value[line]


@compiled
def decision_scores(block: Floats, labels: Codes, parts: Any, scores: Vector) -> int:
    """As in `protocol.py`."""
    policy = Policy(*parts)
    outcomes, work = np.zeros(ROWS * policy.table.shape[1]), room(policy)
    lines, starts = np.zeros(policy.value.size, np.int32), np.zeros(policy.value.size)
    flat, suspects = block.reshape(block.size), NONE
    for i in range(block.shape[0]):
        scores[i] = np.inf
        if i % ROWS == 0:
            _look_at(block, i, policy, outcomes, work, True)
        seen = look(Row(flat, i * block.shape[1], block.shape[1]))
        suspects += is_doubtful(seen.total) | is_broken(seen)
        if is_broken(seen):
            continue
        size = envelope(policy, i % ROWS, work, lines, starts)
        scores[i] = _kept_from(policy, lines, starts, size, policy.outcome[labels[i]])
    return suspects


@compiled
def decisions(block: Floats, parts: Any, limits: Vector, group: Codes, found: Decided) -> int:
    """As in `protocol.py`."""
    policy, (actions, certificates) = Policy(*parts), found
    outcomes, work = np.zeros(ROWS * policy.table.shape[1]), room(policy)
    lines, starts = np.zeros(policy.value.size, np.int32), np.zeros(policy.value.size)
    flat, suspects = block.reshape(block.size), NONE
    for i in range(block.shape[0]):
        if i % ROWS == 0:
            _look_at(block, i, policy, outcomes, work, limits.shape[1] > 1)
        seen = look(Row(flat, i * block.shape[1], block.shape[1]))
        suspects += is_doubtful(seen.total) | is_broken(seen)
        if is_broken(seen):
            continue
        actions[i], certificates[i] = _decide(policy, i % ROWS, limits[group[i]], work, lines, starts)
    return suspects


def packed(policy: Policy) -> tuple[Indices, Vector, Sizes]:
    """What one row needs of a policy in two arrays, which a compiled loop is given sooner than eight."""
    whole = (policy.grouped, policy.ends, policy.order, policy.action, policy.place, policy.last)
    sizes = (len(policy.grouped), policy.n_outcomes, len(policy.value), policy.order.shape[1])
    return read_only(np.concatenate([part.ravel() for part in whole])), policy.value, sizes


@making
def _unpacked(whole: Indices, value: Vector, sizes: Sizes) -> Policy:
    n_classes, n_outcomes, n_lines, n_actions = sizes
    a = n_classes
    b = a + n_outcomes + 1
    c = b + n_actions * n_outcomes
    d = c + n_lines
    e = d + n_lines
    order = whole[b:c].reshape(n_outcomes, n_actions)
    last = whole[e:].reshape((whole.size - e) // n_actions, n_actions)
    no_table = np.empty((0, 0))
    return Policy(whole[:a], whole[a:b], whole[:0], no_table, order, value, whole[c:d], whole[:0], whole[d:e], last)


@making
def _look_at_one(row: Floats, policy: Policy, masses: Vector, tops: Vector, heads: Vector) -> None:
    """As `_look_at`, for a single row."""
    n_outcomes, n_actions = policy.order.shape
    outcomes, whole = np.empty(n_outcomes), 0.0
    for c in range(n_outcomes):
        mass = np.float64(0.0)
        for j in range(policy.ends[c], policy.ends[c + 1]):
            mass += row[policy.grouped[j]]
        outcomes[c] = mass
        whole += mass
    for a in range(n_actions):
        mass = np.float64(0.0)
        for j in range(n_outcomes - 1):
            mass += outcomes[policy.order[j, a]]
            masses[j * n_actions + a] = mass
        masses[(n_outcomes - 1) * n_actions + a] = whole
    for b in range(policy.last.shape[0]):
        tops[b] = -1.0
        for a in range(n_actions):
            t = policy.last[b, a]
            if masses[policy.place[t]] > tops[b]:
                tops[b], heads[b] = masses[policy.place[t]], policy.value[t]


@compiled
def one_decision(row: Floats, whole: Indices, value: Vector, sizes: Sizes, beta: float) -> tuple[int, float, bool]:
    """The action and certificate of one row under a finite β, and whether the row is suspect."""
    seen = look(Row(row, NONE, row.size))
    if is_broken(seen):
        return 0, 0.0, True
    policy = _unpacked(whole, value, sizes)
    n_blocks, nothing = policy.last.shape[0], np.empty(0)
    masses, tops, heads = np.empty(policy.order.size), np.empty(n_blocks), np.empty(n_blocks)
    lines, starts = np.zeros(value.size, np.int32), np.empty(value.size)
    work = masses, tops, heads, nothing, nothing, np.empty(value.size), np.empty(value.size, np.int32), lines
    _look_at_one(row, policy, masses, tops, heads)
    line = line_at(policy, (1, 0), beta, work, lines, starts)
    return policy.action[line], value[line], is_doubtful(seen.total)
