"""The upper envelope of a row's lines v + β·m: compiled. The same lines as in `plain/decisions.py`.

With few lines, all are stacked. With many, few of which are on the envelope where it is asked for,
most are passed over unseen: of a block of an action's lines only the mass of the last one is
kept, which is at least that of the others, as the value of the first is. So no line of a
block is higher than its first value and its last mass make it, and one is as high as its last
value does. Between two β, the highest known point at each end lies nowhere above the envelope; so a line
clearly below both, at the ends and where they cross, is not on it in between. What is left
goes on the stack that finds the envelope. All that is done for ROWS rows side by side, up to
where they part.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled import lanes
from pippin._engine.compiled.build import NONE, inlined, making, part
from pippin._engine.compiled.side_by_side import (
    CLEAR,
    ROWS,
    add_three_along,
    add_two_along,
    copy,
    highest,
    reaching,
)
from pippin._runtime.arrays import Floats, Indices, Vector
from pippin._theory.policy import Policy

ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
WORD = np.uint64(63)
SLACK = 1e-6  # below the envelope, in the range of utilities, that is clear whatever is rounded
STEPS = 16  # that one action goes before the next follows: what one waits for, another fills
TEST = 3 * ROWS  # a height that is asked for: weights of values and of masses, and what they must reach


class Work(NamedTuple):
    """Room for ROWS rows: masses of outcomes, of STEPS steps and of blocks' tails; values of blocks' heads and tails,
    and their actions; three tests, which blocks pass them, a point; which lines pass, and their masses; those lines
    in order; the envelope."""

    outcomes: Vector
    whole: Vector
    totals: Vector
    steps: Vector
    masses: Vector
    high: Vector
    low: Vector
    action: Indices
    any_worth: Vector
    tests: Vector
    open: NDArray[np.uint64]
    point: Vector
    passed: NDArray[np.uint64]
    by_line: Vector
    mass: Vector
    chosen: Indices
    lines: Indices
    starts: Vector


@making
def room(policy: Policy) -> Work:
    n_blocks, n_lines, (n_outcomes, n_actions) = policy.tail.size, policy.value.size, policy.order.shape
    high, low, action = np.empty(n_blocks), np.empty(n_blocks), np.empty(n_blocks, np.int32)
    for b in range(n_blocks):
        high[b], low[b] = policy.value[policy.head[b]], policy.value[policy.tail[b]]
        action[b] = policy.action[policy.tail[b]]
    return Work(
        np.empty(ROWS * n_outcomes),
        np.zeros(ROWS),
        np.zeros(ROWS * n_actions),
        np.empty(ROWS * STEPS * n_actions),
        np.empty(ROWS * n_blocks),
        high,
        low,
        action,
        np.full(ROWS * n_actions, np.inf),
        np.zeros(3 * TEST),
        np.zeros(ROWS * (n_blocks // 64 + 1), np.uint64),
        np.zeros(4 * ROWS),
        np.zeros(ROWS * (n_lines // 64 + 1), np.uint64),
        np.empty(ROWS * n_lines),
        np.empty(n_lines),
        np.empty(n_lines, np.int32),
        np.zeros(n_lines, np.int32),
        np.empty(n_lines),
    )


@part
def outcome_masses(flat: Floats, begin: int, policy: Policy, work: Work) -> None:
    """Fills in the mass of every outcome, summed by rising class, and of all outcomes, by number.

    Of ROWS rows side by side; the last row repeats.
    """
    n_classes, outcomes, ends = policy.grouped.size, work.outcomes, policy.ends
    last, start = flat.size - n_classes, begin * n_classes
    second, third, fourth = start + n_classes, start + 2 * n_classes, start + 3 * n_classes
    p, q = flat[start : start + n_classes], flat[min(second, last) : min(second, last) + n_classes]
    r, s = (
        flat[min(third, last) : min(third, last) + n_classes],
        flat[min(fourth, last) : min(fourth, last) + n_classes],
    )
    each = outcomes.size == ROWS * p.size
    a_all, b_all, d_all, e_all = 0.0, 0.0, 0.0, 0.0
    for c in range(outcomes.size // ROWS):
        a, b, d, e = np.float64(p[c]), np.float64(q[c]), np.float64(r[c]), np.float64(s[c])
        if not each:
            a, b, d, e = np.float64(0.0), np.float64(0.0), np.float64(0.0), np.float64(0.0)
            for j in range(ends[c], ends[c + 1]):
                of = np.uint64(policy.grouped[j])
                a, b, d, e = a + p[of], b + q[of], d + r[of], e + s[of]
        here = np.uint64(ROWS * c)
        outcomes[here], outcomes[here + ONE], outcomes[here + TWO], outcomes[here + THREE] = a, b, d, e
        a_all, b_all, d_all, e_all = a_all + a, b_all + b, d_all + d, e_all + e
    work.whole[0], work.whole[1], work.whole[2], work.whole[3] = a_all, b_all, d_all, e_all


@part
def add_up(policy: Policy, work: Work) -> None:
    """Fills in the masses of blocks' tails: of so many first outcomes in the order of their action, of ROWS rows.

    Of all outcomes it is their sum by number.
    """
    outcomes, steps, order, totals = work.outcomes, work.steps, policy.order, work.totals
    (n_outcomes, n_actions), odd, met = order.shape, order.shape[1] % 2, NONE
    totals[:] = 0.0
    for begin in range(0, n_outcomes, STEPS):
        count = min(STEPS, n_outcomes - begin)
        first, end = n_actions * begin, n_actions * (begin + count)
        for a in range(0, n_actions - 3 * odd, 2):
            add_two_along(outcomes, order, first, n_actions, count, totals, a, steps)
        if odd:
            add_three_along(outcomes, order, first, n_actions, count, totals, n_actions - 3, steps)
        if begin + count == n_outcomes:
            for a in range(n_actions):
                copy(work.whole, 0, steps, n_actions * (count - 1) + a)
        while met < policy.met.size:
            b = policy.met[np.uint64(met)]
            place = policy.place[np.uint64(policy.tail[np.uint64(b)])]
            if place >= end:
                break
            copy(steps, place - first, work.masses, b)
            met += 1


@inlined
def aim(work: Work, test: int, r: int, beta: float) -> None:
    """Has a test ask for the height of row r at β; at an infinite one for the mass."""
    here = TEST * test + r
    work.tests[here], work.tests[here + ROWS] = (1.0, beta) if beta < np.inf else (0.0, 1.0)


@inlined
def set_limit(policy: Policy, work: Work, test: int, r: int, value: float, mass: float) -> None:
    """Has a test ask for lines of row r that are not clearly below a known one."""
    here, value_range = TEST * test + r, policy.value[0] - policy.value[policy.value.size - 1]
    by_value, by_mass = work.tests[here], work.tests[here + ROWS]
    slack = SLACK * by_value * value_range + CLEAR * by_mass
    work.tests[here + 2 * ROWS] = by_value * value + by_mass * mass - slack


@part
def find_highest(policy: Policy, work: Work, test: int) -> None:
    """Has a test ask for lines that are not clearly below the highest known point, which it fills in."""
    highest(work.low, work.masses, work.action, work.any_worth, work.tests, 3 * test, work.point)
    for r in range(ROWS):
        set_limit(policy, work, test, r, work.point[r], work.point[ROWS + r])


@part
def find_open(work: Work) -> None:
    """Fills in the blocks that pass a test."""
    work.open[:] = 0
    for test in range(3):
        reaching(work.high, work.masses, work.tests, 3 * test, work.open)


@inlined
def _mark(work: Work, r: int, t: int, mass: float) -> None:
    work.by_line[np.uint64(ROWS * t + r)] = mass
    work.passed[np.uint64(ROWS * (t >> 6) + r)] |= ONE << (np.uint64(t) & WORD)


@part
def mark_open(policy: Policy, work: Work, r: int) -> None:
    """Marks the lines of row r in open blocks that pass a test, and keeps their masses."""
    n_actions, tests, value = policy.order.shape[1], work.tests, policy.value
    u, v, w = tests[r], tests[TEST + r], tests[2 * TEST + r]
    u_m, v_m, w_m = tests[ROWS + r], tests[TEST + ROWS + r], tests[2 * TEST + ROWS + r]
    u_limit, v_limit, w_limit = tests[2 * ROWS + r], tests[TEST + 2 * ROWS + r], tests[2 * TEST + 2 * ROWS + r]
    for word in range(work.open.size // ROWS):
        left = work.open[ROWS * word + r]
        while left != 0:
            b = 64 * word + lanes.first(left)
            left &= left - ONE
            before, a, mass, begin = policy.before[b], work.action[b], 0.0, NONE
            if before >= 0:
                mass, begin = work.masses[ROWS * before + r], policy.place[policy.tail[before]] // n_actions + 1
            end = policy.place[policy.tail[b]] // n_actions
            for step in range(begin, end + 1):
                mass += work.outcomes[np.uint64(ROWS * policy.order[np.uint64(step), np.uint64(a)] + r)]
                if step == end:
                    mass = work.masses[ROWS * b + r]
                t = policy.line[np.uint64(n_actions * step + a)]
                x = value[np.uint64(t if t > 0 else 0)]
                passes = (u * x + u_m * mass >= u_limit) | (v * x + v_m * mass >= v_limit)
                if (passes | (w * x + w_m * mass >= w_limit)) & (t >= 0):
                    _mark(work, r, t, mass)


@part
def gather(work: Work, r: int) -> int:
    """Fills in the marked lines of row r and their masses, and marks none any more; returns how many there were."""
    count = NONE
    for word in range(work.passed.size // ROWS):
        left = work.passed[np.uint64(ROWS * word + r)]
        work.passed[np.uint64(ROWS * word + r)] = 0
        while left != 0:
            t = 64 * word + lanes.first(left)
            left &= left - ONE
            work.chosen[np.uint64(count)], work.mass[np.uint64(count)] = t, work.by_line[np.uint64(ROWS * t + r)]
            count += 1
    return count


@inlined
def take_all(work: Work, r: int) -> int:
    """The same where each line is a block by itself: all lines."""
    for t in range(work.chosen.size):
        work.chosen[t], work.mass[t] = t, work.masses[np.uint64(ROWS * t + r)]
    return work.chosen.size


@part
def stack(value: Vector, count: int, work: Work) -> int:
    """The envelope of the first so many lines: fills in its lines and where each takes over; returns how many."""
    mass, chosen, lines, starts = work.mass, work.chosen, work.lines, work.starts
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


@inlined
def taken_over(starts: Vector, size: int, beta: float) -> int:
    """How many of the envelope's lines have taken over by β: the last of them is the envelope there."""
    while size > 1 and not starts[size - 1] <= beta:
        size -= 1
    return size
