"""Reference engine in NumPy, which ranks every class of every row. The compiled loops are tested against it.

For decisions, each action and each utility level v define a line v + β·m: β is the multiplier, and m the probability
that the action has a utility of at least v (see `pippin._theory.policy`). The highest line at β gives the action of the
row.

The upper envelope, which consists of the highest line at every β, is computed for all rows at once, with a stack of
lines per row. Lines are visited in descending order of v. If a line has a larger m than the last line on the stack, it
is the higher of the two from β = (v_last − v)/(m − m_last) on. Then all lines on the stack that become the highest only
at this β or later are removed, and the new line is added. At a given β, the highest line is the last one on the stack
that became the highest at β or before.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.protocol import BorderlineArrays, BorderlineClasses, Bounds, Decided, Draws, FillP, SortedScores
from pippin._runtime.arrays import Codes, Flags, Floats, Indices, T, Vector
from pippin._theory.formula import ABOVE, Coefficients, score_at
from pippin._theory.policy import Policy

INSPECTS = False
BLOCK = 1 << 20  # largest number of cumulative probabilities (rows × outcomes × actions) in memory for decisions

Among = Callable[[Vector, Indices, Vector | None], Vector]


class Envelopes(NamedTuple):
    """Upper envelope of each row's lines v + β·m: the lines, the β from which each is the highest, and their number."""

    lines: Codes
    starts: Vector
    sizes: Codes


def ranked_order(block: Floats) -> NDArray[np.intp]:
    """Return the classes of each row in descending order of probability, ties in the order of the classes."""
    return np.argsort(-block, axis=1, kind="stable")


def class_scores(block: Floats, c: Coefficients, u: Vector) -> Vector:
    """Return the scores of all classes of each row, in the order of the columns."""
    order, p, mass = _ranked(block, c)
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, _by_rank(c, p, mass, u), axis=1)
    return scores


def label_scores(block: Floats, labels: Codes, c: Coefficients, u: Vector, scores: Vector) -> int:
    """Write for each row the score of its class in `labels`; return 0.

    Other engines return the number of rows that callers must validate. For this engine, rows are validated beforehand.
    """
    scores[:] = class_scores(block, c, u)[np.arange(len(block)), labels]
    return 0


def members(block: Floats, c: Coefficients, bounds: Bounds, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """Write the size of each row's set; return the classes in all sets, row by row, most probable first, and 0.

    Other engines return, instead of 0, the number of rows that callers must validate. For this engine, rows are
    validated beforehand.
    """
    order, p, mass = _ranked(block, c)
    inside = _by_rank(c, p, mass, u) <= _by_order(bounds.scores, bounds.group, order)
    if bounds.ranks is not None:
        inside &= np.arange(p.shape[1]) < _by_order(bounds.ranks, bounds.group, order)
    sizes[:] = inside.sum(axis=1)
    return order[inside].astype(np.int32), 0


def _by_order(limits: NDArray[T], group: Codes | None, order: NDArray[np.intp]) -> NDArray[T]:
    """Return for each row the limits of its classes, sorted by rank (`order`); a single limit if all are equal."""
    own = limits[np.zeros(len(order), dtype=np.intp) if group is None else group]
    return np.take_along_axis(own, order, axis=1) if own.shape[1] > 1 else own


def _by_rank(c: Coefficients, p: Vector, mass: Vector, u: Vector) -> Vector:
    """Compute the score at every rank of each row.

    `mass` is the term of the score that depends on other classes, such as the sum of larger probabilities.
    """
    with np.errstate(divide="ignore", over="ignore"):
        scores: Vector = score_at(c, np.arange(p.shape[1]), p, mass, u[:, None])
    return scores


def _ranked(block: Floats, c: Coefficients) -> tuple[NDArray[np.intp], Vector, Vector]:
    """Rank the classes of each row; return their order, the sorted probabilities, and M of the score formula by rank.

    M is the term of the formula that depends on other classes.
    """
    order = ranked_order(block)
    p = np.take_along_axis(block, order, axis=1).astype(np.float64)
    mass = np.empty_like(p)
    if np.isnan(c.price):
        mass[:, 0] = c.second * p[:, 1]
        np.cumsum(c.table[:-1, ABOVE] * p[:, :-1], axis=1, out=mass[:, 1:])
    else:
        mass[:, 0] = 0.0
        mass[:, 1:] = _lowest_price(p[:, 1:], c.price)[:, None]
    return order, p, mass


def _lowest_price(below: Vector, price: float) -> Vector:
    """Return SOCOP's τ: the first local minimum of (m − 1 + μ)/(p[2] + … + p[m]) over m = 2, 3, …

    `below` holds the sorted probabilities from p[2] on, and `price` is μ.
    """
    with np.errstate(divide="ignore", over="ignore"):
        ratio = (np.arange(1, below.shape[1] + 1) + price) / np.cumsum(below, axis=1)
    falls = np.zeros(ratio.shape, dtype=bool)
    falls[:, :-1] = ratio[:, 1:] < ratio[:, :-1]
    tau: Vector = ratio[np.arange(len(ratio)), (~falls).argmax(axis=1)]
    return tau


def p_values(c: Coefficients, held: SortedScores) -> FillP:
    """Return a function that writes the conformal p-value of every class for a block of rows."""
    search = among(held)

    def fill(block: Floats, group: Codes, draws: Draws, p: Vector) -> None:
        scores = class_scores(block, c, draws.u)
        p[:] = search(scores, held.lookup[group], None if draws.v is None else draws.v[:, None])

    return fill


def among(held: SortedScores) -> Among:
    """Return a function of scores, their categories and random numbers v that computes p-values.

    Without v (None), p-values are not smoothed. Each pair (category, score) is mapped to an integer that increases with
    the category, then with the score. It is odd if the score occurs among the calibration scores, and even if it lies
    between two of them. A single binary search among these integers then serves all categories.
    """
    values = np.unique(held.scores)
    width = 2 * len(values) + 1
    counts = np.diff(held.offsets)

    def keys(scores: Vector, category: NDArray[Any]) -> Codes:
        place = np.searchsorted(values, scores, "left") + np.searchsorted(values, scores, "right")
        return place + category.astype(np.int64) * width

    calibration = keys(held.scores, np.repeat(np.arange(len(counts)), counts))

    def search(scores: Vector, category: Indices, v: Vector | None) -> Vector:
        n, stop, wanted = counts[category], held.offsets[1:][category], keys(scores, category)
        low = np.searchsorted(calibration, wanted, "left")
        high = low if v is None else np.searchsorted(calibration, wanted, "right")
        p: Vector = (1 + (stop - low) if v is None else (stop - high) + v * (1 + (high - low))) / (n + 1)
        return p

    return search


def add_product(out: Floats, left: Floats, right: Floats) -> None:
    """Add the matrix product left · right to `out`; terms are added in the order of the inner index."""
    for j in range(len(right)):
        out += left[:, j : j + 1] * right[j]


def borderline_classes(block: Floats, ranks: Codes, c: Coefficients, low: float, high: float) -> BorderlineArrays:
    """Return set sizes at the threshold `low`, and the classes that enter sets at thresholds between `low` and `high`.

    The result has the fields sizes, row, rank, is_label, p and mass of `BorderlineClasses`.
    """
    (_, p, mass), u = _ranked(block, c), np.zeros(len(block))
    ends = _by_rank(c, p, mass, u), _by_rank(c, p, mass, u + 1)  # extremes: a score is linear in u
    at_low, at_high = np.maximum(*ends) <= low, np.minimum(*ends) <= high
    row, rank = (of.astype(np.int32) for of in np.nonzero(at_high & ~at_low))
    return at_low.sum(axis=1).astype(np.int32), row, rank, rank == ranks[row], p[row, rank], mass[row, rank]


def count_splits(border: BorderlineClasses, c: Coefficients, k: int, chosen: Flags, u: Vector, counts: Vector) -> None:
    """Write the threshold of every split, and its counts of coverage, set sizes and singletons on the test rows.

    The columns of `counts` are the threshold, and the numbers of covered rows, of classes in all sets, of singletons,
    of empty sets, and of singletons that contain the label.
    """
    of_classes = c._replace(table=c.table[border.rank])
    for calibration, own_u, count in zip(chosen, u, counts, strict=True):
        with np.errstate(divide="ignore", over="ignore"):
            scores = score_at(of_classes, slice(None), border.p, border.mass, own_u[border.row])
        test = ~calibration
        unsure = scores[border.labels][calibration[border.row[border.labels]]]
        index = k - 1 - np.count_nonzero(border.sure & calibration)
        count[0] = np.partition(unsure, index)[index] if 0 <= index < len(unsure) else np.nan
        enters = (scores <= count[0]) & test[border.row]
        covered = np.count_nonzero(border.sure & test) + np.count_nonzero(enters & border.is_label)
        sizes = (border.sizes + np.bincount(border.row[enters], minlength=len(test)))[test]
        singletons, empty = sizes == 1, sizes == 0
        count[1:3] = covered, sizes.sum()
        count[3:] = [np.count_nonzero(some) for some in (singletons, empty, singletons & border.top[test])]


def decision_scores(block: Floats, labels: Codes, policy: Policy, scores: Vector) -> int:
    """Write the nonconformity score of each row's label, to calibrate decisions; return 0, since callers validate rows.

    Under a multiplier β, a decision is the action a and the utility level v with the largest v + β·m, where m is the
    probability that a has a utility of at least v. The score is the smallest β above which the utility of the selected
    action under the label is at least v; inf if there is none.
    """
    step = max(1, BLOCK // policy.order.size)
    for start in range(0, len(block), step):
        part = slice(start, start + step)
        envelopes = _envelopes(_line_masses(block[part], policy), policy.value)
        scores[part] = _smallest_beta(envelopes, policy, policy.outcome[labels[part]])
    return 0


def decisions(block: Floats, policy: Policy, limits: Vector, group: Codes, found: Decided) -> int:
    """Write each row's action and certificate (guaranteed utility); return 0, since callers validate rows beforehand.

    They are the action a and the utility level v with the largest v + β·m, where m is the probability that a has a
    utility of at least v. Row i uses the calibrated multiplier β in `limits[group[i]]`: one number, or one for each
    outcome (classes with equal utilities).
    """
    (actions, certificates), step = found, max(1, BLOCK // policy.order.size)
    for start in range(0, len(block), step):
        part = slice(start, start + step)
        envelopes, betas = _envelopes(_line_masses(block[part], policy), policy.value), limits[group[part]]
        actions[part], certificates[part] = _at(envelopes, policy, betas.max(axis=1))
        if betas.shape[1] > 1:
            _act_on_sets(envelopes, policy, betas, actions[part], certificates[part])
    return 0


def _line_masses(block: Floats, policy: Policy) -> Vector:
    """Compute for every line v + β·m the probability m that its action has a utility of at least v, shape (n, lines).

    m is the sum of the probabilities of the outcomes with such a utility, added in descending order of utility. If
    these are all outcomes, the sum is computed in the order of the outcomes, so that it is equal for all actions.
    """
    outcomes = _outcome_masses(block, policy)
    every = outcomes[:, policy.order].cumsum(axis=1).reshape(len(block), -1)  # (n, outcomes · actions)
    whole = outcomes.cumsum(axis=1)[:, -1:]
    return np.where(policy.reach == policy.n_outcomes, whole, every[:, policy.place])


def _outcome_masses(block: Floats, policy: Policy) -> Vector:
    """Compute the probability of every outcome (classes with equal utilities), shape (n, outcomes).

    Probabilities are added in the order of the classes.
    """
    masses = np.empty((len(block), policy.n_outcomes))
    for c in range(policy.n_outcomes):
        classes = policy.grouped[policy.ends[c] : policy.ends[c + 1]]
        masses[:, c] = np.cumsum(block[:, classes], axis=1, dtype=np.float64)[:, -1]
    return masses


def _envelopes(masses: Vector, value: Vector) -> Envelopes:
    """Compute the upper envelope of each row's lines v + β·m (one per action and utility v), with a stack per row.

    `masses` holds m for every row and line, and `value` holds v for every line. Each step of the inner loop pops one
    line from the stack of each row in `left`.
    """
    n, n_lines = masses.shape
    lines = np.zeros((n, n_lines), dtype=np.int64)
    # Every stack begins with line 0, which has the largest v and so is the highest at β = 0.
    starts, sizes, row = np.zeros((n, n_lines)), np.ones(n, dtype=np.int64), np.arange(n)
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


def _smallest_beta(envelopes: Envelopes, policy: Policy, outcomes: Indices) -> Vector:
    """Compute for each row the nonconformity score of one outcome: a multiplier β, above which certificates hold.

    `outcomes` has one outcome (classes with equal utilities) per row. At a multiplier β, the highest of the row's lines
    v + β·m gives the selected action, and its v is the certificate. The score is the smallest β above which the utility
    of the selected action under the outcome is at least v; inf if there is none.
    """
    lines, starts, sizes = envelopes
    kept = policy.table[policy.action[lines], outcomes[:, None]] >= policy.value[lines]
    broken = ~kept & (np.arange(lines.shape[1]) < sizes[:, None])
    # Index of the line after the last one whose certificate does not hold.
    first = np.where(broken.any(axis=1), lines.shape[1] - broken[:, ::-1].argmax(axis=1), 0)
    inside = np.minimum(first, lines.shape[1] - 1)
    return np.where(first < sizes, starts[np.arange(len(lines)), inside], np.inf)


def _at(envelopes: Envelopes, policy: Policy, beta: Vector) -> tuple[Indices, Vector]:
    """Return each row's action and certificate (guaranteed utility) at its calibrated multiplier β.

    They belong to the row's line v + β·m that is highest at this β. At an infinite β, the action is the one with the
    largest worst-case utility over all classes.
    """
    lines, starts, sizes = envelopes
    reached = (starts <= beta[:, None]) & (np.arange(lines.shape[1]) < sizes[:, None])
    line = lines[np.arange(len(lines)), np.count_nonzero(reached, axis=1) - 1]
    infinite = np.isinf(beta)
    actions = np.where(infinite, policy.safe, policy.action[line]).astype(np.int32)
    return actions, np.where(infinite, policy.table[policy.safe].min(), policy.value[line])


def _act_on_sets(envelopes: Envelopes, policy: Policy, limits: Vector, actions: Indices, certificates: Vector) -> None:
    """Overwrite each row's action by the one with the largest worst-case utility over a set of outcomes.

    An outcome consists of classes with equal utilities. The certificate becomes this worst-case utility. The set
    contains the outcomes of the row whose nonconformity score, computed by `_smallest_beta`, does not exceed their
    entry in the row of `limits`. Rows with an empty set are not changed.
    """
    n, n_outcomes = limits.shape
    worst = np.full((n, len(policy.table)), np.inf)
    for c in range(n_outcomes):
        inside = _smallest_beta(envelopes, policy, np.full(n, c, dtype=np.int32)) <= limits[:, c]
        worst[inside] = np.minimum(worst[inside], policy.table[:, c])
    some = np.isfinite(worst[:, 0])
    best = worst.argmax(axis=1)
    actions[some] = best[some]
    certificates[some] = worst[np.arange(n), best][some]
