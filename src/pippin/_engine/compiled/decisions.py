"""Which action each row's probabilities call for: compiled. The same steps as in `plain/decisions.py`, row by row."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.compiled.build import NONE, compiled, inlined, making, part
from pippin._engine.compiled.envelope import (
    SLACK,
    Work,
    add_up,
    aim,
    find_highest,
    find_open,
    gather,
    mark_open,
    outcome_masses,
    room,
    set_limit,
    stack,
    take_all,
    taken_over,
)
from pippin._engine.compiled.side_by_side import ROWS, highest, latest
from pippin._engine.compiled.sorting import largest
from pippin._engine.compiled.walk import Row, is_broken, is_doubtful, look
from pippin._engine.protocol import Decided
from pippin._runtime.arrays import Codes, Flags, Floats, Indices, Vector, read_only
from pippin._theory.policy import Policy

Single = NDArray[np.float32]

ROUNDS = 3  # of a bound that comes down to a score
WINDOWS = 10  # in which a whole envelope is looked for: up to an eighth of the range of utilities, a quarter, …
SHARE = 0.85  # of the bound, from which on a score is looked for first

Sizes = tuple[int, int, int, int]  # of classes, outcomes, lines and actions


class Rows(NamedTuple):
    """Rows one behind another, in one of two precisions: the other array is empty.

    So all that follows from masses is compiled once, and not for either precision.
    """

    single: Single
    double: Vector


SINGLE = np.float32().itemsize
NO_SINGLE, NO_DOUBLE = read_only(np.empty(0, np.float32)), read_only(np.empty(0))


def rows_of(flat: Any) -> tuple[Single, Vector]:
    """The parts of `Rows`, of an array of either precision."""
    return (flat, NO_DOUBLE) if flat.itemsize == SINGLE else (NO_SINGLE, flat)


@inlined
def _look_at(rows: Rows, begin: int, policy: Policy, work: Work) -> None:
    """Fills in the masses that ROWS rows side by side need."""
    if rows.single.size > 0:
        outcome_masses(rows.single, begin, policy, work)
    else:
        outcome_masses(rows.double, begin, policy, work)
    add_up(policy, work)


@inlined
def _judged(flat: Floats, i: int, n_classes: int) -> tuple[bool, bool]:
    seen = look(Row(flat, i * n_classes, n_classes))
    return is_broken(seen), is_doubtful(seen.total)


@part
def _judge(rows: Rows, i: int, n_classes: int) -> tuple[bool, bool]:
    """Whether row i is broken, and whether it is doubtful."""
    if rows.single.size > 0:
        return _judged(rows.single, i, n_classes)
    return _judged(rows.double, i, n_classes)


@inlined
def _stack(policy: Policy, r: int, work: Work) -> int:
    """Fills in the envelope of row r of those side by side, and where each line takes over; returns how many there are.

    Where blocks have several lines, of the marked ones.
    """
    few = policy.tail.size == policy.value.size
    count = take_all(work, r) if few else gather(work, r)
    return stack(policy.value, count, work)


@inlined
def _kept_from(policy: Policy, work: Work, size: int, outcome: int) -> int:
    """The first of so many lines on the envelope from which on an outcome keeps every certificate."""
    while size > 0:
        line = work.lines[size - 1]
        if policy.table[policy.action[line], outcome] < policy.value[line]:
            break
        size -= 1
    return size


class Search(NamedTuple):
    """Room for what looks for the scores of ROWS rows: their outcomes, what actions are worth then, and masses; between
    which β, above which known lines, in which rows, and what is found."""

    outcome: Indices
    worth: Vector
    own: Vector
    low: Vector
    high: Vector
    value: Vector
    mass: Vector
    going: Flags
    found: Vector


@making
def _search(n_actions: int) -> Search:
    outcome, worth, going = np.zeros(ROWS, np.int32), np.zeros(ROWS * n_actions), np.zeros(ROWS, np.bool_)
    own, low, high = np.zeros(ROWS), np.zeros(ROWS), np.zeros(ROWS)
    return Search(outcome, worth, own, low, high, np.zeros(ROWS), np.zeros(ROWS), going, np.zeros(ROWS))


@part
def _bound(policy: Policy, work: Work, search: Search) -> None:
    """Fills in a β for each of ROWS rows beyond which the row's outcome keeps every certificate.

    Lines of more value than the action has for the outcome break it. A line that keeps it, and is higher than these
    from some β on, gives a bound; the highest known at the bound gives the next. All outcomes are one that keeps it.
    """
    n_actions, safest, bound = policy.table.shape[0], policy.value.size, search.high
    for a in range(n_actions):
        safest = min(safest, policy.line[policy.line.size - n_actions + a])
    for r in range(ROWS):
        c = search.outcome[r]
        search.own[r], bound[r] = work.outcomes[ROWS * c + r], np.inf
        for a in range(n_actions):
            search.worth[ROWS * a + r] = policy.table[a, c]
        work.point[r], work.point[ROWS + r] = policy.value[safest], work.whole[r]
    for step in range(ROUNDS):
        if step > 0:
            for r in range(ROWS):
                aim(work, 0, r, max(bound[r], 0.0))
            highest(work.low, work.masses, work.action, search.worth, work.tests, 0, work.point)
        latest(work.high, work.low, work.masses, work.action, search.worth, search.own, work.point)
        for r in range(ROWS):
            bound[r] = min(bound[r], work.point[3 * ROWS + r])


@part
def _look_between(policy: Policy, work: Work, search: Search) -> None:
    """Marks the lines of ROWS rows that may be on the envelope between two β."""
    low, high = search.low, search.high
    for r in range(ROWS):
        aim(work, 0, r, low[r])
        aim(work, 1, r, high[r])
    find_highest(policy, work, 0)
    for r in range(ROWS):
        search.value[r], search.mass[r] = work.point[r], work.point[ROWS + r]
    find_highest(policy, work, 1)
    for r in range(ROWS):
        gap, crossing = work.point[ROWS + r] - search.mass[r], low[r]
        if gap > 0.0:
            crossing = max(low[r], min(high[r], (search.value[r] - work.point[r]) / gap))
        aim(work, 2, r, crossing)
        set_limit(policy, work, 2, r, search.value[r], search.mass[r])
    find_open(work)
    for r in range(ROWS):
        if search.going[r]:
            mark_open(policy, work, r)


@part
def _look_at_beta(policy: Policy, work: Work, search: Search) -> None:
    """Marks the lines of ROWS rows that may be the highest at one β."""
    for r in range(ROWS):
        for test in range(3):
            aim(work, test, r, search.low[r])
    find_highest(policy, work, 0)
    for r in range(ROWS):
        for test in range(1, 3):
            set_limit(policy, work, test, r, work.point[r], work.point[ROWS + r])
    find_open(work)
    for r in range(ROWS):
        if search.low[r] < np.inf:  # else nobody would gather them
            mark_open(policy, work, r)


@part
def _look_everywhere(policy: Policy, work: Work, search: Search) -> None:
    """Marks the lines of ROWS rows that may be on the envelope."""
    high = (policy.value[0] - policy.value[policy.value.size - 1]) / 8
    for r in range(ROWS):
        search.high[r], search.going[r] = 0.0, True
    for step in range(WINDOWS):
        for r in range(ROWS):
            search.low[r], search.high[r] = search.high[r], high if step < WINDOWS - 1 else np.inf
        _look_between(policy, work, search)
        high *= 2.0


@part
def _scores(policy: Policy, work: Work, search: Search) -> None:
    """Fills in the β from which on the outcome of each of ROWS rows keeps every certificate: with many lines.

    Below a bound, the envelope is looked at from a share of it on, then from a smaller one of what is left, and so on.
    """
    low, high, going, found, share, left = search.low, search.high, search.going, search.found, SHARE, NONE
    _bound(policy, work, search)
    for r in range(ROWS):
        high[r] += SLACK * (abs(high[r]) + policy.value[0] - policy.value[policy.value.size - 1])
        found[r], going[r] = 0.0, high[r] > 0.0
        left += going[r]
    while left > 0:
        for r in range(ROWS):
            low[r] = share * high[r] if share > 0.1 and high[r] < np.inf else 0.0
        _look_between(policy, work, search)
        for r in range(ROWS):
            if not going[r]:
                continue
            size = _stack(policy, r, work)
            last = taken_over(work.starts, size, high[r])
            first = _kept_from(policy, work, last, search.outcome[r])
            if first == last:
                found[r], going[r] = np.inf, high[r] < np.inf
                high[r] = np.inf
            else:
                found[r] = work.starts[first]
                going[r] = not ((low[r] <= 0.0) | ((first > 0) & (found[r] >= low[r])))
                high[r] = low[r]
            left -= not going[r]
        share *= share


@making
def _worst(policy: Policy, work: Work, size: int, limits: Vector) -> tuple[int, float]:
    """The best action in the worst case over the outcomes within their limits, and that case; −1 if there is none.

    There is a limit for every outcome, or one for all.
    """
    (n_actions, n_outcomes), several = policy.table.shape, limits.size > 1
    best, highest_case = -1, -np.inf
    inside = np.zeros(n_outcomes, np.bool_)
    some = False
    for c in range(n_outcomes):
        first = _kept_from(policy, work, size, c)
        inside[c] = (work.starts[first] if first < size else np.inf) <= limits[c if several else 0]
        some |= inside[c]
    for a in range(n_actions if some else 0):
        lowest = np.inf
        for c in range(n_outcomes):
            if inside[c]:
                lowest = min(lowest, policy.table[a, c])
        if lowest > highest_case:
            best, highest_case = a, lowest
    return best, highest_case


@part
def _line_at(policy: Policy, r: int, beta: float, work: Work) -> int:
    """The line on the envelope at a finite β, of row r of those side by side."""
    size = _stack(policy, r, work)
    return int(work.lines[taken_over(work.starts, size, beta) - 1])


@making
def _decide(policy: Policy, r: int, limits: Vector, work: Work) -> tuple[int, float]:
    """The action and certificate of row r of those side by side, under one β per outcome, or an infinite one."""
    if limits.size == 1:
        return _worst(policy, work, NONE, limits)
    size = _stack(policy, r, work)
    best, lowest = _worst(policy, work, size, limits)
    if best >= 0:
        return best, lowest
    line = work.lines[taken_over(work.starts, size, largest(limits)) - 1]
    return policy.action[line], policy.value[line]


@compiled
def decision_scores(pair: Any, labels: Codes, parts: Any, scores: Vector) -> int:
    """As in `protocol.py`."""
    rows, policy, suspects = Rows(*pair), Policy(*parts), NONE
    work, search, few = room(policy), _search(policy.table.shape[0]), policy.tail.size == policy.value.size
    for i in range(labels.size):
        if i % ROWS == 0:
            _look_at(rows, i, policy, work)
            for r in range(ROWS):
                search.outcome[r] = policy.outcome[labels[min(i + r, labels.size - 1)]]
            if not few:
                _scores(policy, work, search)
        broken, doubtful = _judge(rows, i, policy.grouped.size)
        suspects += doubtful | broken
        scores[i] = np.inf
        if broken:
            continue
        if few:
            size = _stack(policy, i % ROWS, work)
            first = _kept_from(policy, work, size, search.outcome[i % ROWS])
            if first < size:
                scores[i] = work.starts[first]
        else:
            scores[i] = search.found[i % ROWS]
    return suspects


@compiled
def decisions(pair: Any, parts: Any, limits: Vector, group: Codes, found: Decided) -> int:
    """As in `protocol.py`."""
    rows, policy, (actions, certificates), suspects = Rows(*pair), Policy(*parts), found, NONE
    work, search = room(policy), _search(policy.order.shape[1])
    few, one = policy.tail.size == policy.value.size, limits.shape[1] == 1
    for i in range(group.size):
        if i % ROWS == 0:
            _look_at(rows, i, policy, work)
            if one and not few:
                for r in range(ROWS):
                    search.low[r] = limits[group[min(i + r, group.size - 1)], 0]
                _look_at_beta(policy, work, search)
            elif not few:
                _look_everywhere(policy, work, search)
        broken, doubtful = _judge(rows, i, policy.grouped.size)
        suspects += doubtful | broken
        if broken:
            continue
        beta = limits[group[i], 0]
        if one and beta < np.inf:
            line = _line_at(policy, i % ROWS, beta, work)
            actions[i], certificates[i] = policy.action[line], policy.value[line]
        else:
            actions[i], certificates[i] = _decide(policy, i % ROWS, limits[group[i]], work)
    return suspects


def packed(policy: Policy) -> tuple[Indices, Vector, Sizes]:
    """What one row needs of a policy in two arrays, which a compiled loop is given sooner than twelve."""
    blocks = (policy.head, policy.tail, policy.before, policy.met)
    whole = (policy.grouped, policy.ends, policy.order, policy.action, policy.place, policy.line, *blocks)
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
    f = e + n_actions * n_outcomes
    n_blocks = (whole.size - f) // 4
    g, h, i = f + n_blocks, f + 2 * n_blocks, f + 3 * n_blocks
    order = whole[b:c].reshape(n_outcomes, n_actions)
    grouped, ends, nothing, no_table = whole[:a], whole[a:b], whole[:0], value[:0].reshape(0, 0)
    lines = order, value, whole[c:d], nothing, whole[d:e], whole[e:f]
    return Policy(grouped, ends, nothing, no_table, *lines, whole[f:g], whole[g:h], whole[h:i], whole[i:])


@compiled
def one_decision(pair: Any, whole: Indices, value: Vector, sizes: Sizes, beta: float) -> tuple[int, float, bool]:
    """The action and certificate of one row under a finite β, and whether the row is suspect."""
    rows = Rows(*pair)
    broken, doubtful = _judge(rows, NONE, sizes[0])
    if broken:
        return 0, 0.0, True
    policy = _unpacked(whole, value, sizes)
    work = room(policy)
    _look_at(rows, NONE, policy, work)
    if policy.tail.size < value.size:
        search = _search(sizes[3])
        for r in range(ROWS):
            search.low[r] = beta
        _look_at_beta(policy, work, search)
    line = _line_at(policy, NONE, beta, work)
    return policy.action[line], value[line], doubtful
