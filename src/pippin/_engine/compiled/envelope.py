"""The upper envelope of a row's lines v + β·m: compiled. The same lines as in `plain/decisions.py`.

With many lines, few of which are on it, most are passed over unseen. They come in blocks of
LINES by falling value, and of each block the largest mass up to its end, which is that of the
last line of some action, is known at once. A chain of chords between such points lies nowhere
above the envelope, so a line clearly below the chain cannot be on it, nor can a block whose
first value is clearly below the chain at the block's last mass. What is left goes on the
stack that finds the envelope. All that is done for ROWS rows side by side, up to where they
part.
"""

from typing import Any

import numpy as np

from pippin._engine.compiled.build import NONE, inlined, making, part
from pippin._engine.compiled.side_by_side import ROWS, add_three_along, add_two_along, furthest, largest, lower
from pippin._runtime.arrays import Floats, Indices, Vector
from pippin._theory.policy import LINES, Policy

Work = tuple[Vector, Vector, Vector, Vector, Vector, Vector, Indices, Indices]

ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
FEW_LINES = 8 * LINES  # up to which every line is looked at
SLACK = 1e-6  # below the envelope, in the range of utilities, that is clear whatever is rounded
CHORDS = 8  # of the chain
CORNER = 3 * ROWS  # a corner of the chain and the slope from there on: masses, values, slopes
FEW = 16  # lines that are stacked as they are
STEPS = 16  # that one action goes before the next follows: what one waits for, another fills


@making
def room(policy: Policy) -> Work:
    """Room for the masses of all lines; tops, heads and heights of blocks; corners; some lines' masses and lines.

    At its end stands the last line but one of each action.
    """
    n_blocks, n_lines, n_actions = policy.last.shape[0], policy.value.size, policy.order.shape[1]
    last_but_one, last = np.zeros(n_actions, np.int32), np.zeros(n_actions, np.int32)
    for t in range(n_lines):
        a = policy.action[t]
        last_but_one[a], last[a] = last[a], t
    tops, heads, heights = np.zeros(ROWS * n_blocks), np.zeros(ROWS * n_blocks), np.zeros(ROWS * n_blocks)
    corners, masses = np.zeros(CORNER * (CHORDS + 1)), np.zeros(ROWS * policy.order.size)
    return masses, tops, heads, heights, corners, np.zeros(n_lines), np.zeros(n_lines, np.int32), last_but_one


@part
def outcome_masses(block: Floats, begin: int, grouped: Indices, ends: Indices, outcomes: Vector) -> None:
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
def add_up(outcomes: Vector, order: Indices, masses: Vector) -> None:
    """Fills in the mass of every first so many outcomes in the order of each action, of ROWS rows side by side."""
    (n_outcomes, n_actions), flat = order.shape, order.ravel()
    totals = np.zeros(ROWS * n_actions)
    for begin in range(0, n_outcomes, STEPS):
        count = min(STEPS, n_outcomes - begin)
        odd = n_actions % 2
        for a in range(0, n_actions - 3 * odd, 2):
            add_two_along(outcomes, flat, n_actions * begin + a, n_actions, count, totals, a, masses)
        if odd:
            a = n_actions - 3
            add_three_along(outcomes, flat, n_actions * begin + a, n_actions, count, totals, a, masses)
    p, q, s, t = 0.0, 0.0, 0.0, 0.0
    for c in range(n_outcomes):
        here = np.uint64(ROWS * c)
        p, q = p + outcomes[here], q + outcomes[here + ONE]
        s, t = s + outcomes[here + TWO], t + outcomes[here + THREE]
    for i in range(flat.size - n_actions, flat.size):
        here = np.uint64(ROWS * i)
        masses[here], masses[here + ONE], masses[here + TWO], masses[here + THREE] = p, q, s, t


@making
def find_tops(policy: Policy, work: Work) -> None:
    """Fills in the largest mass up to the end of each block of lines, and the value of the first line known to have it.

    The masses of an action rise from line to line, but for the last one: all outcomes are summed
    by number, so by rounding it may have less than the one before.
    """
    masses, tops, heads, last_but_one = work[0], work[1], work[2], work[7]
    tops[:] = -1.0
    for a in range(last_but_one.size):
        own = last_but_one[a : a + 1]
        largest(masses, policy.place, policy.value, own, tops, heads, np.int64(own[0]) // LINES)
    for b in range(policy.last.shape[0]):
        largest(masses, policy.place, policy.value, policy.last[b], tops, heads, b)


@making
def find_chain(work: Work) -> None:
    """Fills in the corners of the chain: its ends, then the points furthest above the chords so far, three times.

    Then the height of the chain at the end of each block; before its first corner it is level.
    """
    _, tops, heads, heights, corners, _, _, _ = work
    n_blocks, last = tops.size // ROWS, CORNER * CHORDS
    found = np.empty(2 * ROWS)
    for r in range(ROWS):
        corners[r], corners[ROWS + r] = tops[r], heads[r]
        corners[last + r], corners[last + ROWS + r] = tops[tops.size - ROWS + r], heads[tops.size - ROWS + r]
    step = last
    while step >= CORNER:
        for a in range(0, last, step):
            b, between = a + step, a + step // 2
            for r in range(ROWS):
                run, fall = corners[b + r] - corners[a + r], corners[a + ROWS + r] - corners[b + ROWS + r]
                corners[a + 2 * ROWS + r] = fall / run if run > 0.0 else 0.0
            if step > CORNER:
                furthest(heads, tops, n_blocks, corners, a + 2 * ROWS, found)
                for r in range(ROWS):
                    m, v = found[r], found[ROWS + r]
                    chord = corners[a + ROWS + r] - corners[a + 2 * ROWS + r] * (m - corners[a + r])
                    new = (m > corners[a + r]) & (m <= corners[b + r]) & (v > chord)
                    corners[between + r] = m if new else corners[a + r]
                    corners[between + ROWS + r] = v if new else corners[a + ROWS + r]
        step //= 2
    for i in range(heights.size):
        heights[i] = heads[i % ROWS]
    for a in range(0, last, CORNER):
        for r in range(ROWS):
            if not corners[a + CORNER + r] > corners[a + r]:
                corners[a + ROWS + r] = np.inf  # no chord
        lower(heights, tops, n_blocks, corners, a)


@part
def _unpassed(policy: Policy, r: int, work: Work, blocks: Indices) -> int:
    """Fills in the lines of row r that are not clearly below the chain, and their masses; returns how many.

    In a block the chain lies above the chord between its heights at the block's ends.
    """
    masses, tops, _, heights, _, mass, chosen, _ = work
    value, place = policy.value, policy.place
    n_blocks, slack, count = policy.last.shape[0], SLACK * (value[0] - value[value.size - 1]), NONE
    open_blocks = NONE
    for b in range(n_blocks):
        blocks[np.uint64(open_blocks)] = b
        open_blocks += not value[np.uint64(b * LINES)] < heights[np.uint64(ROWS * b + r)] - slack
    for i in range(open_blocks):
        b = int(blocks[i])
        here, before = ROWS * b + r, ROWS * (b - 1) + r
        previous, slope, base = -1.0, 0.0, heights[here] - slack
        if b > 0:
            previous, run = tops[before], tops[here] - tops[before]
            if run > 0.0:
                slope, base = (heights[here] - heights[before]) / run, heights[before] - slack
        for t in range(b * LINES, min(b * LINES + LINES, value.size)):
            m = masses[np.uint64(ROWS * place[np.uint64(t)] + r)]
            below = value[np.uint64(t)] < base + slope * (m - previous)
            chosen[np.uint64(count)], mass[np.uint64(count)] = t, m
            count += (m > previous) & (not below)
    return count


@part
def _thin(value: Vector, mass: Vector, chosen: Indices, count: int) -> int:
    """Drops lines that have no more mass than one before; then, again and again, those clearly below the chord
    between their neighbours."""
    kept, most = NONE, -1.0
    for i in range(count):
        m = mass[np.uint64(i)]
        chosen[np.uint64(kept)], mass[np.uint64(kept)] = chosen[np.uint64(i)], m
        kept += m > most
        most = max(m, most)
    slack, before = SLACK * (value[0] - value[value.size - 1]), count + 2
    while kept > FEW and kept < before - 1:
        before, count, kept = kept, kept, NONE + 1
        m0, v0 = mass[0], value[chosen[0]]
        m1, v1, t1 = mass[1], value[chosen[1]], chosen[1]
        for i in range(2, count):
            m2, t2 = mass[np.uint64(i)], chosen[np.uint64(i)]
            v2 = value[np.uint64(t2)]
            below = (v0 - v1) * (m2 - m1) - (v1 - v2) * (m1 - m0) > slack * (m2 - m0)
            chosen[np.uint64(kept)], mass[np.uint64(kept)] = t1, m1
            kept += not below
            m0, v0, m1, v1, t1 = m1, v1, m2, v2, t2
        chosen[kept], mass[kept] = t1, m1
        kept += 1
    return kept


@part
def stack(value: Vector, mass: Vector, chosen: Indices, count: int, lines: Indices, starts: Vector) -> int:
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
def envelope(policy: Policy, r: int, work: Work, lines: Indices, starts: Vector) -> int:
    """Fills in the lines on the envelope of row r of those side by side; returns how many there are."""
    value, masses, mass, chosen = policy.value, work[0], work[5], work[6]
    count = value.size
    if count > FEW_LINES:
        count = _thin(value, mass, chosen, _unpassed(policy, r, work, lines))
    else:
        for t in range(count):
            chosen[t], mass[t] = t, masses[np.uint64(ROWS * policy.place[t] + r)]
    return stack(value, mass, chosen, count, lines, starts)


@inlined
def _height(v: float, m: float, beta: float) -> Any:
    return v + beta * m


@part
def line_at(policy: Policy, side: tuple[int, int], beta: float, work: Work, lines: Indices, starts: Vector) -> int:
    """The line on the envelope at a finite β, of one of the rows side by side: the last that has taken over by then.

    Only the lines about as high there as the highest known one matter.
    """
    masses, tops, heads, _, _, mass, chosen, _ = work
    (rows, r), value, place, count = side, policy.value, policy.place, NONE
    limit = -np.inf
    n_blocks = policy.last.shape[0]
    if value.size > FEW_LINES:
        for b in range(n_blocks):
            here = np.uint64(rows * b + r)
            limit = max(limit, _height(heads[here], tops[here], beta))
        limit -= SLACK * (value[0] - value[value.size - 1] + beta)
    for b in range(n_blocks):
        first = b * LINES
        if _height(value[first], tops[np.uint64(rows * b + r)], beta) < limit:
            continue
        for t in range(first, min(first + LINES, value.size)):
            m = masses[np.uint64(rows * place[np.uint64(t)] + r)]
            chosen[np.uint64(count)], mass[np.uint64(count)] = t, m
            count += not _height(value[np.uint64(t)], m, beta) < limit
    at = stack(value, mass, chosen, count, lines, starts) - 1
    while at > 0 and not starts[at] <= beta:
        at -= 1
    return int(lines[at])
