"""Risk-averse decisions: one upper-envelope search per row, with the algorithm of `numpy_engine.py`.

Each action and each utility level v define a line v + β·m as a function of β; its mass m is the probability that the
action has a utility of at least v. The highest line at the calibrated β gives the selected action, and its v is the
certificate: the utility that is guaranteed with probability 1 − alpha.

Classes with equal utilities are merged into one outcome. If each outcome has its own β, each row has a set of outcomes,
and the action with the largest worst-case utility over this set is selected.

Probabilities of outcomes are computed first, from float32 or float64, so that the search is compiled for float64 only.
Arrays of a named tuple are bound to local variables before a loop, since inside the loop numba would count a reference
at each access.
"""

from typing import Any, NamedTuple

import numpy as np

from pippin._engine.numba_engine.compilation import entry_point, inlined_part, part
from pippin._engine.numba_engine.row_checks import check_row
from pippin._engine.protocol import Decided
from pippin._runtime.arrays import Codes, Floats, Indices, Vector, read_only
from pippin._theory.policy import Policy

SLACK = 1e-9  # relative rounding error: lines v + β·m within this distance of the highest one stay candidates


class Envelope(NamedTuple):
    """Buffers for one row: the mass m of each line v + β·m, candidate lines, and the stack of the upper envelope.

    A line is an action with one of its utilities v; m is the probability that the action has at least this utility.
    The stack consists of the lines on the envelope (`line`) and the β from which each is the highest (`start`).
    """

    mass: Vector
    candidate: Codes
    line: Codes
    start: Vector


def decision_scores(block: Floats, labels: Codes, policy: Policy, scores: Vector) -> int:
    """Write the nonconformity score of each row's label, for calibrating decisions; return the number of suspect rows.

    Under a multiplier β, a decision is the action a and the utility level v with the largest v + β·m, where m is the
    probability that a has a utility of at least v. The score is the smallest β above which the utility of the selected
    action under the label is at least v; inf if there is none. Suspect rows have negative or NaN entries, or a sum
    other than 1.
    """
    masses, suspects = _masses_of(block, policy)
    _decision_scores(masses, read_only(labels), _frozen(policy), scores)
    return suspects


def decisions(block: Floats, policy: Policy, limits: Vector, group: Codes, found: Decided) -> int:
    """Write each row's action and certificate (guaranteed utility); return the number of suspect rows.

    They are the action a and the utility level v with the largest v + β·m, where m is the probability that a has a
    utility of at least v. Row i uses the calibrated multiplier β in `limits[group[i]]`: one number, or one for each
    outcome (classes with equal utilities). Suspect rows have negative or NaN entries, or a sum other than 1.
    """
    masses, suspects = _masses_of(block, policy)
    safe = policy.safe, float(policy.table[policy.safe].min())
    _decisions(masses, _frozen(policy), safe, read_only(limits), read_only(group), found)
    return suspects


def row_arrays(policy: Policy) -> tuple[Indices, Indices, Indices, Indices, Vector]:
    """Return the arrays of a policy that `line_of_row` needs, in the order of its arguments."""
    grouped, ends, order, line = map(read_only, (policy.grouped, policy.ends, policy.order, policy.line))
    return grouped, ends, order, line, read_only(policy.value)


def _masses_of(block: Any, policy: Policy) -> tuple[Vector, int]:
    masses = np.empty((len(block), policy.n_outcomes))
    return masses, _outcome_masses(read_only(block), read_only(policy.grouped), read_only(policy.ends), masses)


def _frozen(policy: Any) -> Policy:
    return Policy(*map(read_only, policy))


@inlined_part
def _add_outcomes(row: Floats, grouped: Indices, ends: Indices, masses: Vector) -> None:
    """Write the probability of every outcome (classes with equal utilities) of a row to `masses`.

    Probabilities are added in the order of the classes.
    """
    distinct = masses.size == row.size
    for c in range(masses.size):
        total = np.float64(row[c] if distinct else 0.0)
        for j in range(0 if distinct else ends[c], 0 if distinct else ends[c + 1]):
            total += row[grouped[j]]
        masses[c] = total


@entry_point
def _outcome_masses(block: Floats, grouped: Indices, ends: Indices, masses: Vector) -> int:
    """Write the probability of every outcome of each row; return the number of suspect rows.

    An outcome consists of classes with equal utilities. Suspect rows have negative or NaN entries, or a sum other than
    1.
    """
    suspects = 0
    for i in range(block.shape[0]):
        suspects += check_row(block[i])[0]
        _add_outcomes(block[i], grouped, ends, masses[i])
    return suspects


@part
def _allocate(n_lines: int) -> Envelope:
    return Envelope(np.empty(n_lines), np.arange(n_lines), np.zeros(n_lines, np.int64), np.empty(n_lines))


@inlined_part
def _add_lines(by_outcome: Vector, order: Indices, line: Indices, envelope: Envelope) -> None:
    """Compute the mass m of every line v + β·m of a row: the probability that its action has a utility of at least v.

    m is the sum of the probabilities of the outcomes with such a utility, added in descending order of utility. If
    these are all outcomes, the sum is computed in the order of the outcomes, so that it is equal for all actions.
    """
    (n_outcomes, n_actions), mass, whole = order.shape, envelope.mass, 0.0
    for c in range(n_outcomes):
        whole += by_outcome[c]
    for a in range(n_actions):
        total = 0.0
        for step in range(n_outcomes):
            total += by_outcome[order[step, a]]
            t = line[step * n_actions + a]
            if t >= 0:
                mass[t] = whole if step == n_outcomes - 1 else total


@inlined_part
def _choose_candidates(value: Vector, beta: float, envelope: Envelope) -> int:
    """Collect the lines v + β·m that may be the highest at a given β; return their number.

    A line is an action with one of its utilities v; m is the probability that the action has at least this utility.
    Lines below the highest one by less than the possible rounding error are collected too.
    """
    mass, candidate, highest, count = envelope.mass, envelope.candidate, -np.inf, 0
    for t in range(value.size):
        highest = max(highest, value[t] + beta * mass[t])
    lowest = highest - SLACK * (abs(value[0]) + abs(value[-1]) + beta)
    for t in range(value.size):
        candidate[count] = t
        count += not value[t] + beta * mass[t] < lowest
    return count


@inlined_part
def _stack_lines(value: Vector, count: int, envelope: Envelope) -> int:
    """Write the upper envelope of `count` candidate lines v + β·m to the stack; return its number of lines.

    A line is an action with one of its utilities v; m is the probability that the action has at least this utility.
    """
    mass, candidate, line, start = envelope.mass, envelope.candidate, envelope.line, envelope.start
    line[0], start[0], size = candidate[0], 0.0, 1
    v_last, m_last, s_last = value[line[0]], mass[line[0]], 0.0
    for i in range(1, count):
        t, s = candidate[i], 0.0
        v, m = value[t], mass[t]
        if not m > m_last:
            continue
        while size > 0:
            s = (v_last - v) / (m - m_last)
            if not s <= s_last:
                break
            size -= 1
            if size > 0:
                v_last, m_last, s_last = value[line[size - 1]], mass[line[size - 1]], start[size - 1]
        s_last = s if size > 0 else 0.0
        line[size], start[size] = t, s_last
        v_last, m_last = v, m
        size += 1
    return size


@inlined_part
def _line_at(beta: float, size: int, envelope: Envelope) -> int:
    """Return the line v + β·m that is highest at a finite β: the last line of the envelope that starts at β or before.

    A line is an action with one of its utilities v; it starts at the β from which on it is the highest.
    """
    last, start = size - 1, envelope.start
    while last > 0 and not start[last] <= beta:
        last -= 1
    return int(envelope.line[last])


@inlined_part
def _smallest_beta(lines: Policy, size: int, outcome: int, envelope: Envelope) -> float:
    """Return the nonconformity score of an outcome (classes with equal utilities): a multiplier β.

    At a multiplier β, the highest line v + β·m gives the selected action, and its v is the certificate. The score is
    the smallest β above which the utility of the selected action under the outcome is at least v; inf if there is none.
    """
    first, line, table, action, value = size, envelope.line, lines.table, lines.action, lines.value
    while first > 0 and table[action[line[first - 1]], outcome] >= value[line[first - 1]]:
        first -= 1
    return float(envelope.start[first]) if first < size else np.inf


@inlined_part
def _best_worst_case(lines: Policy, size: int, limits: Vector, envelope: Envelope) -> tuple[int, float]:
    """Return the action with the largest worst-case utility over a set of outcomes, and that utility.

    The set contains the outcomes (classes with equal utilities) whose score, computed by `_smallest_beta`, does not
    exceed their entry in `limits`. The action is −1 if the set is empty.
    """
    table, best = lines.table, -1
    n_actions, n_outcomes = table.shape
    worst = np.full(n_actions, np.inf)
    for c in range(n_outcomes):
        if _smallest_beta(lines, size, c, envelope) <= limits[c]:
            best = 0
            for a in range(n_actions):
                worst[a] = min(worst[a], table[a, c])
    for a in range(1, n_actions if best == 0 else 0):
        if worst[a] > worst[best]:
            best = a
    return best, worst[max(best, 0)]


@entry_point
def _decision_scores(masses: Vector, labels: Codes, lines: Policy, scores: Vector) -> None:
    """Write the nonconformity score of each row's label, for calibrating decisions.

    Under a multiplier β, a decision is the action a and the utility level v with the largest v + β·m, where m is the
    probability that a has a utility of at least v. The score is the smallest β above which the utility of the selected
    action under the label is at least v; inf if there is none.
    """
    order, line, outcome, value = lines.order, lines.line, lines.outcome, lines.value
    envelope = _allocate(value.size)
    for i in range(labels.size):
        _add_lines(masses[i], order, line, envelope)
        size = _stack_lines(value, value.size, envelope)
        scores[i] = _smallest_beta(lines, size, outcome[labels[i]], envelope)


@entry_point
def _decisions(masses: Vector, lines: Policy, safe: Any, limits: Vector, group: Codes, found: Decided) -> None:
    """Write the action and the certificate (the guaranteed utility) of each row.

    `limits` holds the calibrated β, the factor of m in v + β·m. It has one row for each group of rows, and either a
    single column or one for each outcome (classes with equal utilities). `safe` is the action and certificate at an
    infinite β.
    """
    order, line, action, value, (actions, certificates) = lines.order, lines.line, lines.action, lines.value, found
    envelope, several = _allocate(value.size), limits.shape[1] > 1
    for i in range(group.size):
        beta, count = limits[group[i], 0], value.size
        for outcome in range(1, limits.shape[1]):
            beta = max(beta, limits[group[i], outcome])
        actions[i], certificates[i] = safe
        if not several and beta == np.inf:
            continue
        _add_lines(masses[i], order, line, envelope)
        if not several:
            count = _choose_candidates(value, beta, envelope)
        size = _stack_lines(value, count, envelope)
        best, certificate = -1, 0.0
        if several:
            best, certificate = _best_worst_case(lines, size, limits[group[i]], envelope)
        if best < 0:
            t = _line_at(beta, size, envelope)
            best, certificate = action[t], value[t]
        actions[i], certificates[i] = best, certificate


@entry_point
def line_of_row(
    row: Vector, grouped: Indices, ends: Indices, order: Indices, line: Indices, value: Vector, beta: float
) -> tuple[int, bool]:
    """Return the index of a row's highest line v + β·m at a finite β, and True if the row must be validated.

    A line is an action with one of its utilities v; m is the probability that the action has at least this utility.
    """
    masses, envelope = np.empty(order.shape[0]), _allocate(value.size)
    _add_outcomes(row, grouped, ends, masses)
    _add_lines(masses, order, line, envelope)
    size = _stack_lines(value, _choose_candidates(value, beta, envelope), envelope)
    return _line_at(beta, size, envelope), check_row(row)[0]
