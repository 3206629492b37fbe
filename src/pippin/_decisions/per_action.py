"""Decisions whose certificates (guaranteed utilities) hold within each action: P(U(a, Y) ≥ certificate | a) ≥ 1 − α.

One part of the rows determines the policy, a function of the probabilities: the multiplier β, and for every action a
floor. An object for which the policy would select an action a with certificate v gets the safe action (the one with the
best worst case) instead, unless the predicted probability that a reaches the utility v is at least the floor of a.

The other rows calibrate certificates. The nonconformity score of a row with action a and class y is the predicted
probability of a larger utility than the realized one,

    s = Σ_{k: U(a, k) > U(a, y)} p_k,

and q_a is the k-th smallest score of the n_a rows with action a, k = ⌈(n_a + 1)(1 − α)⌉. The certificate of an object
with action a is the largest utility that a reaches with a predicted probability above q_a. It holds if and only if s ≤
q_a.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.card import EXCHANGEABLE
from pippin._conformal.mondrian import Categories, as_levels, kth_smallest, sort_into_categories
from pippin._conformal.rules import MondrianRule
from pippin._conformal.serialization import Content, check_limits, need, rising, whole_numbers
from pippin._decisions.utility import Utility
from pippin._engine import dispatch
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Classes, Codes, Flags, Indices, Seed, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._runtime.showing import visible
from pippin._theory.level import as_alpha
from pippin._theory.spelling import read_call
from pippin._validation.labels import Labelled
from pippin._validation.rows import Rows

ACTION = "action"
LEARNING = 0.3  # default share of the rows that determine the policy
BLOCK = 1 << 20  # number of probabilities that are processed at a time, to limit memory


@dataclass(frozen=True, eq=False)
class ActionRule(MondrianRule):
    """Mondrian rule of a policy: the category of a row is the action that the policy selects for it.

    Attributes:
        categories: the nonconformity scores by action.
        limits: the threshold q_a of each action.
        beta: multiplier β of the policy, which maximizes v + β·m: m is the predicted probability that the action
            reaches the utility v.
        floors: for each action, the smallest predicted probability of reaching its certificate with which it is
            selected; below, the safe action (the one with the best worst case) replaces it.
    """

    beta: float = np.inf
    floors: Vector = field(default_factory=lambda: np.empty(0))

    def at(self, alpha: Any) -> "tuple[ActionRule, float]":
        """Return the rule with the certificates of another alpha; the policy is unchanged."""
        level, _ = as_levels(alpha, None)
        limits = Bounds(read_only(self.categories.thresholds(level)[None]))
        return replace(self, limits=limits), level

    def policy_actions(self, rows: Rows, utility: Utility, classes: Classes) -> Indices:
        """Compute the action of every row."""
        policy, utilities = utility.policy(classes), utility.of(classes)
        codes, certificates = dispatch.decide(rows, policy, np.array([[self.beta]]), None)
        unsure = _masses(rows, codes, certificates, utilities) < self.floors[codes]
        return np.where(unsure, np.int32(policy.safe), codes)

    def decide(self, rows: Rows, utility: Utility, classes: Classes) -> tuple[Indices, Vector]:
        """Compute the action of every row and its certificate (guaranteed utility)."""
        codes = self.policy_actions(rows, utility, classes)
        certificates = np.empty(rows.n)
        for part in _by_action(rows, codes, utility.of(classes)):
            above = part.masses > self.limits.scores[0, part.action]
            above[:, -1] = True  # every action has at least its worst-case utility
            certificates[part.rows] = part.utilities[above.argmax(axis=1)]
        return codes, certificates

    def warn_of_infinite(self, predictor: Any) -> None:
        counts, needed = self.categories.counts, self.categories.needed(predictor.alpha)
        actions, utilities = predictor.utility.actions, predictor.utility.values
        few = (counts < needed) & (utilities.max(axis=1) > utilities.min(axis=1))
        if few.any():
            listed = ", ".join(f"{visible(actions[a])} for {counts[a]:,}" for a in np.flatnonzero(few)[:5])
            more = f" and {few.sum() - 5:,} more" if few.sum() > 5 else ""
            warn(
                f"Too few calibration rows for some actions: alpha={predictor.alpha:g} needs {needed[0]:,} rows of "
                f"each action, and the policy selects {listed}{more}. Their certificates are the worst case over all "
                "classes: collect more rows."
            )

    def condition(self) -> str:
        return f"{EXCHANGEABLE} The policy was determined on other rows."

    def limits_of_guarantee(self, what: str = "Coverage", of: str = "") -> str:
        return f"{what} within a single class or group; the utility of a single object."

    def _reported(self, owner: Any) -> dict[int, str]:
        """Return all actions, each with its number of rows, for a card."""
        pairs = zip(owner.utility.actions, self.categories.counts.tolist(), strict=True)
        return {a: f"{visible(name)} ({n:,} rows)" for a, (name, n) in enumerate(pairs)}

    def entries(self, scores: bool) -> dict[str, Any]:
        """Return the rule's entries in a saved file; `scores` is True to include the calibration scores."""
        held = self.categories.scores if scores else None
        return {
            "beta": [self.beta],
            "floors": self.floors.tolist(),
            "thresholds": self.limits.scores[0].tolist(),
            "cell_counts": self.categories.counts.tolist(),
            "calibration_scores": None if held is None else held.tolist(),
        }


def learning_fraction(per: Any, groups: Any) -> float | None:
    """Return the share of rows for the policy if `per` is "action" or "action(learning_fraction=…)", else None."""
    name, parameters = read_call(per) if isinstance(per, str) else (None, {})
    if name != ACTION:
        return None
    if groups is not None:
        raise InputError(f"Expected no groups with per={per!r}, got some", "leave groups= out")
    if not set(parameters) <= {"learning_fraction"}:
        raise InputError(f"Expected per='action' with learning_fraction only, got {per!r}", "correct its name")
    fraction = parameters.get("learning_fraction", LEARNING)
    return as_alpha(fraction, "a learning fraction", f"{LEARNING:g} is the default")


def action_rule(data: Labelled, utility: Utility, alpha: Any, fraction: float, seed: Seed) -> tuple[ActionRule, int]:
    """Determine the policy on a share of the rows, and calibrate certificates on the others.

    Return the rule, and the number of rows that calibrated certificates.
    """
    n, (level, _) = data.rows.n, as_levels(alpha, None)
    n_learning = round(fraction * n)
    if not 0 < n_learning < n:
        what = f"Expected rows for the policy and rows for the certificates, got {n} rows"
        raise InputError(what, "pass more rows")
    learning, calibrating = map(np.sort, np.split(np.random.default_rng(seed).permutation(n), [n_learning]))
    beta, floors = _policy(data.take(learning), utility, level)
    rows, labels, classes = data.take(calibrating)
    n_actions = len(utility.actions)
    empty = sort_into_categories(np.empty(0), np.empty(0, dtype=np.int64), np.arange(n_actions)[None])
    rule = ActionRule(empty, ACTION, beta=beta, floors=read_only(floors))
    codes = rule.policy_actions(rows, utility, classes)
    scores = action_scores(rows, labels, codes, utility.of(classes))
    categories = sort_into_categories(scores, codes, np.arange(n_actions)[None])
    return replace(rule, categories=categories).at(level)[0], rows.n


def action_scores(rows: Rows, labels: Codes, codes: Codes | Indices, utilities: Vector) -> Vector:
    """Compute each row's nonconformity score: the predicted probability of a utility above the realized utility."""
    scores = np.zeros(rows.n)
    for part in _by_action(rows, codes, utilities):
        level = np.searchsorted(-part.utilities, -utilities[part.action, labels[part.rows]])
        before = np.take_along_axis(part.masses, np.maximum(level - 1, 0)[:, None], axis=1)[:, 0]
        scores[part.rows] = np.where(level == 0, 0.0, before)
    return scores


class _Part(NamedTuple):
    """Rows with the same action: their indices, the action, its distinct utilities in decreasing order, and masses.

    `masses[i, j]` is the predicted probability that the action reaches at least `utilities[j]` in row `rows[i]`.
    """

    rows: NDArray[np.intp]
    action: int
    utilities: Vector
    masses: Vector


def _by_action(rows: Rows, codes: Codes | Indices, utilities: Vector) -> Iterator[_Part]:
    """Iterate over the rows of each action, in blocks of limited memory."""
    for start in range(0, rows.n, step := max(1, BLOCK // rows.n_classes)):
        block = rows.block(start, min(start + step, rows.n)).astype(np.float64)
        for a in np.unique(codes[start : start + step]).tolist():
            inside = np.flatnonzero(codes[start : start + step] == a)
            order = np.argsort(-utilities[a], kind="stable")
            falling = utilities[a, order]
            last = np.append(falling[1:] != falling[:-1], True)
            masses = block[inside][:, order].cumsum(axis=1)[:, last]
            yield _Part(start + inside, a, falling[last], masses)


def _masses(rows: Rows, codes: Indices, certificates: Vector, utilities: Vector) -> Vector:
    """Compute the predicted probability that the action of each row has at least the utility in `certificates`."""
    masses = np.empty(rows.n)
    for part in _by_action(rows, codes, utilities):
        level = np.searchsorted(-part.utilities, -certificates[part.rows])
        masses[part.rows] = np.take_along_axis(part.masses, level[:, None], axis=1)[:, 0]
    return masses


def _policy(data: Labelled, utility: Utility, alpha: float) -> tuple[float, Vector]:
    """Determine the multiplier β of the policy, and the floor of each action: the smallest probability that it needs.

    It is the predicted probability that the action reaches its certificate. Among the learning rows with this action
    and a probability of at least the floor, certificates hold for a share of 1 − alpha.
    """
    rows, labels, classes = data
    policy, utilities = utility.policy(classes), utility.of(classes)
    beta = kth_smallest(dispatch.decision_scores(rows, labels, policy), alpha)
    codes, certificates = dispatch.decide(rows, policy, np.array([[beta]]), None)
    masses = _masses(rows, codes, certificates, utilities)
    kept, floors = utilities[codes, labels] >= certificates, np.zeros(len(utilities))
    for a in set(range(len(utilities))) - {policy.safe}:
        floors[a] = _floor(masses[codes == a], kept[codes == a], alpha)
    return beta, floors


def _floor(masses: Vector, kept: Flags, alpha: float) -> float:
    """Return the smallest predicted probability from which on certificates hold for a share 1 − alpha of the rows.

    `masses` holds the predicted probability of each row, and `kept` flags the rows whose certificate holds.
    """
    order = np.argsort(-masses, kind="stable")
    falling, broken = masses[order], np.cumsum(~kept[order])
    good = broken <= alpha * np.arange(1, len(masses) + 1)
    good &= np.append(falling[1:] != falling[:-1], True)[: len(masses)]  # include all rows of equal mass
    return float(falling[good][-1]) if good.any() else np.inf


def action_rule_from_content(content: Content, alpha: float, n: int, n_actions: int) -> ActionRule:
    """Restore a rule per action from a file, and check that its entries are consistent."""
    [beta], floors = content.numbers("beta", 1).tolist(), content.numbers("floors", n_actions)
    thresholds, scores = content.numbers("thresholds", n_actions), content.optional_numbers("calibration_scores")
    counts = whole_numbers("cell_counts", content.take("cell_counts"), np.int64)
    need("beta", beta >= 0)
    need("floors", bool((floors >= 0).all()))
    need("thresholds", bool((thresholds >= 0).all()))
    need("cell_counts", counts.shape == (n_actions,) and bool((counts >= 0).all()))
    need("n_calibration", int(counts.sum()) == n)
    offsets = read_only(np.concatenate([[0], np.cumsum(counts)]))
    categories = Categories(np.arange(n_actions, dtype=np.int32)[None], offsets, scores)
    rule = ActionRule(categories, ACTION, limits=Bounds(thresholds[None]), beta=beta, floors=floors)
    if scores is None:
        need("thresholds", bool(np.isinf(thresholds[counts < categories.needed(alpha)]).all()))
    else:
        need("calibration_scores", len(scores) == n and all(map(rising, np.split(scores, offsets[1:-1]))))
        need("calibration_scores", bool((scores >= 0).all()))
        check_limits(thresholds, rule.at(alpha)[0].limits.scores[0])
    return rule
