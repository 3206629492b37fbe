"""Which action each row's probabilities call for: compiled. The same steps as in `plain/decisions.py`, row by row."""

from typing import Any

import numpy as np

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import NONE, compiled, inlined, making, part
from pippin._engine.compiled.lanes import ROWS
from pippin._engine.compiled.walk import Row, is_broken, is_doubtful, look
from pippin._engine.protocol import Decided
from pippin._runtime.arrays import Codes, Floats, Indices, Vector, read_only
from pippin._theory.policy import LINES, Policy

Side = tuple[int, int]  # how many rows stand side by side, and which of them is meant
Sizes = tuple[int, int, int, int]  # of classes, outcomes, lines and actions
Work = tuple[Vector, Vector, Indices]  # the largest mass of each block of lines; some lines and their masses

ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
FEW_LINES = 4 * LINES  # up to which every line is looked at
SLACK = 1e-6  # below the envelope, in the range of utilities, that is clear whatever is rounded
STEEP = 1e8  # β, in that range, from which on rounding counts


@part
def _outcome_masses(block: Floats, begin: int, grouped: Indices, ends: Indices, outcomes: Vector) -> None:
    """Fills in the mass of every outcome, summed by rising class, of ROWS rows side by side; the last row repeats."""
    last = block.shape[0] - 1
    p, q = block[begin], block[min(begin + 1, last)]
    r, s = block[min(begin + 2, last)], block[min(begin + 3, last)]
    if outcomes.size == ROWS * p.size:
        for k in range(p.size):
            here = np.uint64(ROWS * k)
            outcomes[here], outcomes[here + ONE], outcomes[here + TWO], outcomes[here + THREE] = p[k], q[k], r[k], s[k]
        return
    for c in range(ends.size - 1):
        a, b, d, e = 0.0, 0.0, 0.0, 0.0
        for j in range(ends[c], ends[c + 1]):
            of = np.uint64(grouped[j])
            a, b, d, e = a + p[of], b + q[of], d + r[of], e + s[of]
        here = np.uint64(ROWS * c)
        outcomes[here], outcomes[here + ONE], outcomes[here + TWO], outcomes[here + THREE] = a, b, d, e


@making
def _add_up(outcomes: Vector, order: Indices, masses: Vector) -> None:
    """Fills in the mass of every first so many outcomes in the order of each action, of ROWS rows side by side."""
    n_actions, flat = order.shape[1], order.ravel()
    for i in range(n_actions):
        for r in range(ROWS):
            masses[ROWS * i + r] = outcomes[ROWS * flat[i] + r]
    step = ROWS * n_actions
    for i in range(n_actions, flat.size):
        lanes.add_rows(masses, ROWS * i, ROWS * i - step, outcomes, ROWS * np.int64(flat[np.uint64(i)]))
    p, q, s, t = 0.0, 0.0, 0.0, 0.0
    for c in range(order.shape[0]):
        here = np.uint64(ROWS * c)
        p, q = p + outcomes[here], q + outcomes[here + ONE]
        s, t = s + outcomes[here + TWO], t + outcomes[here + THREE]
    for i in range(flat.size - n_actions, flat.size):
        here = np.uint64(ROWS * i)
        masses[here], masses[here + ONE], masses[here + TWO], masses[here + THREE] = p, q, s, t


@part
def _stack(value: Vector, mass: Vector, chosen: Indices, count: int, lines: Indices, starts: Vector) -> int:
    """The envelope of some lines: fills in its lines and where each takes over; returns how many."""
    size, m_last, v_last, s_last = NONE, -1.0, 0.0, 0.0
    for i in range(count):
        m = mass[np.uint64(i)]
        if not m > m_last:
            continue
        t = chosen[np.uint64(i)]
        v, start = value[np.uint64(t)], 0.0
        while size > 0:
            start = (v_last - v) / (m - m_last)
            if not start <= s_last:
                break
            size -= 1
            if size > 0:
                below = lines[size - 1]
                m_last, v_last, s_last = mass[below], value[chosen[below]], starts[size - 1]
        s_last = start if size > 0 else 0.0
        lines[size], starts[size] = i, s_last
        m_last, v_last = m, v
        size += 1
    for i in range(size):
        lines[i] = chosen[lines[i]]
    return size


@part
def _tops(place: Indices, last: Indices, masses: Vector, side: Side, tops: Vector, chosen: Indices) -> None:
    """Fills in the largest mass up to the end of each block of lines, and the line that has it."""
    rows, r = side
    for b in range(last.shape[0]):
        tops[b], chosen[b] = -1.0, 0
        for a in range(last.shape[1]):
            t = last[b, a]
            if t >= 0 and masses[np.uint64(rows * place[t] + r)] > tops[b]:
                tops[b], chosen[b] = masses[np.uint64(rows * place[t] + r)], t


@inlined
def _height(value: Vector, mass: Vector, lines: Indices, at: int, m: float) -> Any:
    """The rough envelope as a chain of points (mass, value), at the mass m, which lies before or at point `at`."""
    high = value[lines[at]]
    if at == 0:
        return high
    before = value[lines[at - 1]]
    return before + (high - before) * (m - mass[at - 1]) / (mass[at] - mass[at - 1])


@part
def _choose(
    policy: Policy,
    masses: Vector,
    side: Side,
    work: Work,
    lines: Indices,
    starts: Vector,
    rough: int,
    corners: Vector,
) -> int:
    """Fills in the lines that may be on the envelope, and their masses; returns how many.

    Left out are those that have no more mass than one before, and those that lie clearly below the
    envelope of one line per block: it is concave, so in a block it lies above the chord between
    its ends. Where it is so steep that rounding counts, none is left out for that.
    """
    value, place = policy.value, policy.place
    (tops, mass, chosen), (rows, r) = work, side
    count, at, n_lines, previous, low = NONE, NONE, value.size, -1.0, value[0]
    scale = value[0] - value[n_lines - 1]
    for b in range(tops.size):
        top, first = tops[b], b * LINES
        while at < rough - 1 and corners[at] < top:
            at += 1
        high = _height(value, corners, lines, at, top)
        if top > previous:
            slope = (high - low) / (top - previous) if previous >= 0.0 else 0.0
            base = (low if previous >= 0.0 else high) - SLACK * scale
            steep = not starts[at] < STEEP * scale
            if steep or not value[first] < high - SLACK * scale:
                for t in range(first, min(first + LINES, n_lines)):
                    m = masses[np.uint64(rows * place[np.uint64(t)] + r)]
                    below = value[np.uint64(t)] < base + slope * (m - previous)
                    chosen[np.uint64(count)], mass[np.uint64(count)] = t, m
                    count += (m > previous) & (steep | (not below))
        previous, low = top, high
    return count


@making
def _envelope(policy: Policy, masses: Vector, side: Side, work: Work, lines: Indices, starts: Vector) -> int:
    """Fills in the lines on the envelope of one of the rows side by side; returns how many there are."""
    value, place = policy.value, policy.place
    (tops, mass, chosen), (rows, r) = work, side
    count = value.size
    if count > FEW_LINES:
        _tops(place, policy.last, masses, side, tops, chosen)
        rough = _stack(value, tops, chosen, tops.size, lines, starts)
        corners = np.empty(rough)
        for i in range(rough):
            corners[i] = masses[rows * place[lines[i]] + r]
        count = _choose(policy, masses, side, work, lines, starts, rough, corners)
    else:
        for t in range(count):
            chosen[t], mass[t] = t, masses[np.uint64(rows * place[t] + r)]
    return _stack(value, mass, chosen, count, lines, starts)


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
    outcomes, masses = np.zeros(ROWS * policy.table.shape[1]), np.zeros(ROWS * policy.order.size)
    work = np.zeros(policy.last.shape[0]), np.zeros(policy.value.size), np.zeros(policy.value.size, np.int32)
    lines, starts = np.zeros(policy.value.size, np.int32), np.zeros(policy.value.size)
    flat, suspects = block.reshape(block.size), NONE
    for i in range(block.shape[0]):
        scores[i] = np.inf
        if i % ROWS == 0:
            _outcome_masses(block, i, policy.grouped, policy.ends, outcomes)
            _add_up(outcomes, policy.order, masses)
        seen = look(Row(flat, i * block.shape[1], block.shape[1]))
        suspects += is_doubtful(seen.total) | is_broken(seen)
        if is_broken(seen):
            continue
        size = _envelope(policy, masses, (ROWS, i % ROWS), work, lines, starts)
        scores[i] = _kept_from(policy, lines, starts, size, policy.outcome[labels[i]])
    return suspects


@compiled
def decisions(block: Floats, parts: Any, limits: Vector, group: Codes, found: Decided) -> int:
    """As in `protocol.py`."""
    policy, (actions, certificates) = Policy(*parts), found
    outcomes, masses = np.zeros(ROWS * policy.table.shape[1]), np.zeros(ROWS * policy.order.size)
    work = np.zeros(policy.last.shape[0]), np.zeros(policy.value.size), np.zeros(policy.value.size, np.int32)
    lines, starts = np.zeros(policy.value.size, np.int32), np.zeros(policy.value.size)
    flat, suspects = block.reshape(block.size), NONE
    for i in range(block.shape[0]):
        if i % ROWS == 0:
            _outcome_masses(block, i, policy.grouped, policy.ends, outcomes)
            _add_up(outcomes, policy.order, masses)
        seen = look(Row(flat, i * block.shape[1], block.shape[1]))
        suspects += is_doubtful(seen.total) | is_broken(seen)
        if is_broken(seen):
            continue
        size = _envelope(policy, masses, (ROWS, i % ROWS), work, lines, starts)
        actions[i], certificates[i] = _decide(policy, lines, starts, size, limits[group[i]])
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


@part
def _add_up_one(row: Floats, policy: Policy, outcomes: Vector, masses: Vector) -> None:
    """As `_outcome_masses` and `_add_up`, for a single row."""
    n_outcomes, n_actions = policy.order.shape
    whole = 0.0
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


@compiled
def one_decision(row: Floats, whole: Indices, value: Vector, sizes: Sizes, beta: float) -> tuple[int, float, bool]:
    """The action and certificate of one row under a finite β, and whether the row is suspect."""
    seen = look(Row(row, NONE, row.size))
    if is_broken(seen):
        return 0, 0.0, True
    policy = _unpacked(whole, value, sizes)
    outcomes, masses = np.empty(policy.order.shape[0]), np.empty(policy.order.size)
    work = np.empty(policy.last.shape[0]), np.empty(value.size), np.empty(value.size, np.int32)
    lines, starts = np.zeros(value.size, np.int32), np.empty(value.size)
    _add_up_one(row, policy, outcomes, masses)
    line = lines[_line_at(starts, _envelope(policy, masses, (1, 0), work, lines, starts), beta)]
    return policy.action[line], value[line], is_doubtful(seen.total)
