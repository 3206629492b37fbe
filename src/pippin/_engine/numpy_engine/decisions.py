"""Risk-averse decisions in NumPy: the upper envelope of the lines v + β·m of each row, all rows at once.

The lines of a row are visited by falling v. One with a larger m than the last line on the stack takes over from it at
β = (v_last − v)/(m − m_last), after lines that start at that β or later are popped. The highest line at β is the last
one on the stack that starts at β or before.
"""

from typing import NamedTuple

import numpy as np

from pippin._engine.protocol import Decided
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.policy import Policy

BLOCK = 1 << 20  # cumulative masses per block of rows


class Envelopes(NamedTuple):
    """Lines on the envelope of each row, the β at which each takes over, and their number."""

    lines: Codes
    starts: Vector
    sizes: Codes


def decision_scores(block: Floats, labels: Codes, policy: Policy, scores: Vector) -> int:
    """Compute the smallest β from which on each label keeps its certificate; inf if there is none."""
    step = max(1, BLOCK // policy.order.size)
    for start in range(0, len(block), step):
        part = slice(start, start + step)
        envelopes = _envelopes(_line_masses(block[part], policy), policy.value)
        scores[part] = _kept_from(envelopes, policy, policy.outcome[labels[part]])
    return 0


def decisions(block: Floats, policy: Policy, limits: Vector, group: Codes, found: Decided) -> int:
    """Compute the action and certificate of each row under `limits[group]`: one β, or one per outcome."""
    (actions, certificates), step = found, max(1, BLOCK // policy.order.size)
    for start in range(0, len(block), step):
        part = slice(start, start + step)
        envelopes, betas = _envelopes(_line_masses(block[part], policy), policy.value), limits[group[part]]
        actions[part], certificates[part] = _at(envelopes, policy, betas.max(axis=1))
        if betas.shape[1] > 1:
            _act_on_sets(envelopes, policy, betas, actions[part], certificates[part])
    return 0


def _line_masses(block: Floats, policy: Policy) -> Vector:
    """Compute the mass of every line, (n, lines), summed in the order of its action's outcomes."""
    outcomes = _outcome_masses(block, policy)
    every = outcomes[:, policy.order].cumsum(axis=1).reshape(len(block), -1)  # (n, outcomes · actions)
    whole = outcomes.cumsum(axis=1)[:, -1:]
    return np.where(policy.reach == policy.n_outcomes, whole, every[:, policy.place])


def _outcome_masses(block: Floats, policy: Policy) -> Vector:
    """Compute the probability of every outcome, (n, outcomes), summed by rising class."""
    masses = np.empty((len(block), policy.n_outcomes))
    for c in range(policy.n_outcomes):
        classes = policy.grouped[policy.ends[c] : policy.ends[c + 1]]
        masses[:, c] = np.cumsum(block[:, classes], axis=1, dtype=np.float64)[:, -1]
    return masses


def _envelopes(masses: Vector, value: Vector) -> Envelopes:
    """Find the upper envelope of each row's lines; a step pops one line from the stacks of all rows that need it."""
    n, n_lines = masses.shape
    lines = np.zeros((n, n_lines), dtype=np.int64)
    starts, sizes, row = np.zeros((n, n_lines)), np.ones(n, dtype=np.int64), np.arange(n)  # line 0 is on every stack
    for t in range(1, n_lines):
        grown = row[masses[:, t] > masses[row, lines[row, sizes - 1]]]
        if not grown.size:
            continue
        left, start = grown, np.zeros(n)
        while (left := left[sizes[left] > 0]).size:
            last, place = lines[left, sizes[left] - 1], sizes[left] - 1
            with np.errstate(over="ignore"):
                start[left] = (value[last] - value[t]) / (masses[left, t] - masses[left, last])
            left = left[start[left] <= starts[left, place]]
            sizes[left] -= 1
        lines[grown, sizes[grown]] = t
        starts[grown, sizes[grown]] = np.where(sizes[grown] == 0, 0.0, start[grown])
        sizes[grown] += 1
    longest = sizes.max(initial=0)
    return Envelopes(lines[:, :longest], starts[:, :longest], sizes)


def _kept_from(envelopes: Envelopes, policy: Policy, outcomes: Indices) -> Vector:
    """Compute the β from which on one outcome per row keeps every certificate."""
    lines, starts, sizes = envelopes
    kept = policy.table[policy.action[lines], outcomes[:, None]] >= policy.value[lines]
    broken = ~kept & (np.arange(lines.shape[1]) < sizes[:, None])
    first = np.where(broken.any(axis=1), lines.shape[1] - broken[:, ::-1].argmax(axis=1), 0)  # after the last
    inside = np.minimum(first, lines.shape[1] - 1)
    return np.where(first < sizes, starts[np.arange(len(lines)), inside], np.inf)


def _at(envelopes: Envelopes, policy: Policy, beta: Vector) -> tuple[Indices, Vector]:
    """Look up the action and certificate of each row at its β; at an infinite β, of the best worst case."""
    lines, starts, sizes = envelopes
    reached = (starts <= beta[:, None]) & (np.arange(lines.shape[1]) < sizes[:, None])
    line = lines[np.arange(len(lines)), np.count_nonzero(reached, axis=1) - 1]
    infinite = np.isinf(beta)
    actions = np.where(infinite, policy.safe, policy.action[line]).astype(np.int32)
    return actions, np.where(infinite, policy.table[policy.safe].min(), policy.value[line])


def _act_on_sets(envelopes: Envelopes, policy: Policy, limits: Vector, actions: Indices, certificates: Vector) -> None:
    """Choose the action with the best worst case over the outcomes whose score is within their limit.

    Rows without such an outcome stay unchanged.
    """
    n, n_outcomes = limits.shape
    worst = np.full((n, len(policy.table)), np.inf)
    for c in range(n_outcomes):
        inside = _kept_from(envelopes, policy, np.full(n, c, dtype=np.int32)) <= limits[:, c]
        worst[inside] = np.minimum(worst[inside], policy.table[:, c])
    some = np.isfinite(worst[:, 0])
    best = worst.argmax(axis=1)
    actions[some] = best[some]
    certificates[some] = worst[np.arange(n), best][some]
