"""Which action each row's probabilities call for: compiled. The same steps as in `plain/decisions.py`, row by row."""

from typing import Any

import numpy as np

from pippin._engine.compiled.build import NONE, compiled, part
from pippin._engine.compiled.walk import is_broken, is_doubtful, total
from pippin._engine.protocol import Decided
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.policy import Policy


@part
def _add_up(row: Floats, policy: Policy, outcomes: Vector, masses: Vector) -> None:
    """Fills in the mass of every outcome, and of every first so many outcomes in the order of each action."""
    for c in range(outcomes.size):
        mass = np.float64(0.0)
        for j in range(policy.ends[c], policy.ends[c + 1]):
            mass += row[policy.grouped[j]]
        outcomes[c] = mass
    for a in range(masses.shape[0]):
        mass = np.float64(0.0)
        for j in range(outcomes.size):
            mass += outcomes[policy.order[a, j]]
            masses[a, j] = mass


@part
def _envelope(policy: Policy, masses: Vector, lines: Indices, starts: Vector) -> int:
    """Fills in the lines on the envelope; returns how many there are."""
    value, size, m_last = policy.value, NONE, -1.0
    for t in range(value.size):
        m = masses[policy.action[t], policy.reach[t] - 1]
        if size > 0 and not m > m_last:
            continue
        start = 0.0
        while size > 0:
            last = lines[size - 1]
            start = (value[last] - value[t]) / (m - masses[policy.action[last], policy.reach[last] - 1])
            if not start <= starts[size - 1]:
                break
            size -= 1
        lines[size], starts[size] = t, start if size > 0 else 0.0
        size += 1
        m_last = m
    return size


@part
def _kept_from(policy: Policy, lines: Indices, starts: Vector, size: int, outcome: int) -> float:
    """The β from which on an outcome keeps every certificate."""
    first = size
    while first > 0 and policy.table[policy.action[lines[first - 1]], outcome] >= policy.value[lines[first - 1]]:
        first -= 1
    return starts[first] if first < size else np.inf


@part
def _line_at(starts: Vector, size: int, beta: float) -> int:
    place = size - 1
    while place > 0 and not starts[place] <= beta:
        place -= 1
    return place


@part
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


@part
def _decide(policy: Policy, lines: Indices, starts: Vector, size: int, limits: Vector) -> tuple[int, float]:
    """The action and certificate under one β, or one per outcome."""
    if limits.size > 1:
        best, lowest = _worst(policy, lines, starts, size, limits)
        if best >= 0:
            return best, lowest
    beta = limits.max()
    if np.isinf(beta):
        every = np.full(policy.table.shape[1], np.inf)
        return _worst(policy, lines, starts, size, every)
    line = lines[_line_at(starts, size, beta)]
    return policy.action[line], policy.value[line]


@compiled
def decision_scores(block: Floats, labels: Codes, parts: Any, scores: Vector) -> int:
    """As in `protocol.py`."""
    policy = Policy(*parts)
    outcomes, masses = np.zeros(policy.table.shape[1]), np.zeros(policy.table.shape)
    lines, starts = np.zeros(policy.value.size, np.int32), np.zeros(policy.value.size)
    suspects = NONE
    for i in range(block.shape[0]):
        scores[i] = np.inf
        row = block[i]
        if is_broken(row):
            suspects += 1
            continue
        suspects += is_doubtful(total(row))
        _add_up(row, policy, outcomes, masses)
        size = _envelope(policy, masses, lines, starts)
        scores[i] = _kept_from(policy, lines, starts, size, policy.outcome[labels[i]])
    return suspects


@compiled
def decisions(block: Floats, parts: Any, limits: Vector, group: Codes, found: Decided) -> int:
    """As in `protocol.py`."""
    policy, (actions, certificates) = Policy(*parts), found
    outcomes, masses = np.zeros(policy.table.shape[1]), np.zeros(policy.table.shape)
    lines, starts = np.zeros(policy.value.size, np.int32), np.zeros(policy.value.size)
    suspects = NONE
    for i in range(block.shape[0]):
        row = block[i]
        if is_broken(row):
            suspects += 1
            continue
        suspects += is_doubtful(total(row))
        _add_up(row, policy, outcomes, masses)
        size = _envelope(policy, masses, lines, starts)
        actions[i], certificates[i] = _decide(policy, lines, starts, size, limits[group[i]])
    return suspects


@compiled
def one_decision(row: Floats, parts: Any, beta: float) -> tuple[int, float, bool]:
    """The action and certificate of one row under one β, and whether the row is suspect."""
    policy = Policy(*parts)
    outcomes, masses = np.zeros(policy.table.shape[1]), np.zeros(policy.table.shape)
    lines, starts = np.zeros(policy.value.size, np.int32), np.zeros(policy.value.size)
    if is_broken(row):
        return 0, 0.0, True
    _add_up(row, policy, outcomes, masses)
    size = _envelope(policy, masses, lines, starts)
    action, certificate = _decide(policy, lines, starts, size, np.full(1, beta))
    return action, certificate, is_doubtful(total(row))
