"""Which action each row's probabilities call for, in NumPy: the upper envelope of its lines, row by row at once.

A row's lines v + β·m are met by falling v. A line that has a larger m than the last on the
envelope takes over at β = (v_last − v)/(m − m_last), and drops those that had not taken over
by then. The envelope at β is its last line that has taken over by then.
"""

from typing import NamedTuple

import numpy as np

from pippin._engine.protocol import Decided
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.policy import Policy

STEP = 1 << 20  # masses of outcomes in all actions' orders that are held at once


class Envelopes(NamedTuple):
    """The lines on each row's envelope, the β at which each takes over, and how many there are."""

    lines: Codes
    starts: Vector
    sizes: Codes


def decision_scores(block: Floats, labels: Codes, policy: Policy, scores: Vector) -> int:
    """Fills in the smallest β from which on the label keeps every certificate; infinite, if none."""
    step = max(1, STEP // policy.order.size)
    for start in range(0, len(block), step):
        part = slice(start, start + step)
        envelopes = _envelopes(_line_masses(block[part], policy), policy.value)
        scores[part] = _kept_from(envelopes, policy, policy.outcome[labels[part]])
    return 0


def decisions(block: Floats, policy: Policy, limits: Vector, group: Codes, found: Decided) -> int:
    """Fills in each row's action and certificate under the limits of its group: one β, or one per outcome."""
    (actions, certificates), step = found, max(1, STEP // policy.order.size)
    for start in range(0, len(block), step):
        part = slice(start, start + step)
        envelopes, own = _envelopes(_line_masses(block[part], policy), policy.value), limits[group[part]]
        actions[part], certificates[part] = _at(envelopes, policy, own.max(axis=1))
        if own.shape[1] > 1:
            _act_on_sets(envelopes, policy, own, actions[part], certificates[part])
    return 0


def _line_masses(block: Floats, policy: Policy) -> Vector:
    """(n, lines): the mass of every line, summed in the order of its action's outcomes."""
    outcomes = _outcome_masses(block, policy)
    every = outcomes[:, policy.order].cumsum(axis=1).reshape(len(block), -1)  # (n, outcomes · actions)
    whole = outcomes.cumsum(axis=1)[:, -1:]
    return np.where(policy.reach == policy.n_outcomes, whole, every[:, policy.place])


def _outcome_masses(block: Floats, policy: Policy) -> Vector:
    """(n, outcomes): the probability of every outcome, summed by rising class."""
    masses = np.empty((len(block), policy.n_outcomes))
    for c in range(policy.n_outcomes):
        own = policy.grouped[policy.ends[c] : policy.ends[c + 1]]
        masses[:, c] = np.cumsum(block[:, own], axis=1, dtype=np.float64)[:, -1]
    return masses


def _envelopes(masses: Vector, value: Vector) -> Envelopes:
    n, n_lines = masses.shape
    lines = np.zeros((n, n_lines), dtype=np.int64)
    starts, sizes, row = np.zeros((n, n_lines)), np.ones(n, dtype=np.int64), np.arange(n)  # the first line
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
    longest = sizes.max(initial=0)  # few of the lines are on an envelope
    return Envelopes(lines[:, :longest], starts[:, :longest], sizes)


def _kept_from(envelopes: Envelopes, policy: Policy, outcomes: Indices) -> Vector:
    """The β from which on an outcome per row keeps every certificate."""
    lines, starts, sizes = envelopes
    kept = policy.table[policy.action[lines], outcomes[:, None]] >= policy.value[lines]
    broken = ~kept & (np.arange(lines.shape[1]) < sizes[:, None])
    first = np.where(broken.any(axis=1), lines.shape[1] - broken[:, ::-1].argmax(axis=1), 0)  # after the last broken
    inside = np.minimum(first, lines.shape[1] - 1)
    return np.where(first < sizes, starts[np.arange(len(lines)), inside], np.inf)


def _at(envelopes: Envelopes, policy: Policy, beta: Vector) -> tuple[Indices, Vector]:
    """The action and certificate of each row at its β; at an infinite one those of the worst case over all outcomes."""
    lines, starts, sizes = envelopes
    reached = (starts <= beta[:, None]) & (np.arange(lines.shape[1]) < sizes[:, None])
    line = lines[np.arange(len(lines)), np.count_nonzero(reached, axis=1) - 1]
    sure = np.isinf(beta)
    actions = np.where(sure, policy.safe, policy.action[line]).astype(np.int32)
    return actions, np.where(sure, policy.table[policy.safe].min(), policy.value[line])


def _act_on_sets(envelopes: Envelopes, policy: Policy, limits: Vector, actions: Indices, certificates: Vector) -> None:
    """Where β differs by outcome: the worst case over the outcomes whose score is within their own limit.

    A row without any stays as it is.
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
