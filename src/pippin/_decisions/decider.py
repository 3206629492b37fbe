"""Risk-averse conformal decisions: actions with a certificate (utility guaranteed with probability 1 − alpha)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal import mondrian, rules
from pippin._conformal.mondrian import Level
from pippin._conformal.serialization import Content, need, shared_content
from pippin._conformal.sets import PredictionSets
from pippin._decisions.decisions import Decision, Decisions
from pippin._decisions.utility import Utility, utility_from_content
from pippin._engine import dispatch
from pippin._runtime.arrays import Classes, Codes, Indices, Vector
from pippin._runtime.errors import InputError, warn
from pippin._runtime.showing import visible
from pippin._theory.level import too_few
from pippin._theory.policy import Policy
from pippin._validation.fingerprints import estimate_repeated
from pippin._validation.labels import as_labelled, rows_of_classes
from pippin._validation.rows import Rows, as_one_row, as_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PER_DECISION = ("class", mondrian.KIND, "group", "class and group")
SET_BLOCK = 1 << 20  # number of probabilities that `Decider.predict` processes at a time, which limits its memory


def calibrate(
    probs: Any,
    labels: ArrayLike,
    utility: Utility,
    alpha: Level = 0.1,
    *,
    classes: Classes | None = None,
    per: Literal["class", "kind", "group", "class and group"] | Mapping[Any, str] | None = None,
    groups: ArrayLike | None = None,
    unseen: Literal["error", "marginal"] = "error",
    from_logits: bool = False,
) -> "Decider":
    """Calibrate decisions with certificates: utilities that the actions reach with probability at least 1 − alpha.

    An action a reaches a utility v with the predicted probability m(a, v) = Σ_{y: U(a, y) ≥ v} p_y. A multiplier β ≥ 0
    selects the action a and the utility v that maximize v + β·m(a, v); this v is the certificate ν. The nonconformity
    score of a row with the true class y is the smallest multiplier such that U(action, y) ≥ ν at all larger ones. The
    calibrated β is the k-th smallest score of n rows, k = ⌈(n + 1)(1 − alpha)⌉. For exchangeable rows,
    P(U(action, Y) ≥ ν) ≥ 1 − alpha, even if the predicted probabilities are wrong.

    Reference: `Kiyani, Pappas, Roth and Hassani (2025) <https://arxiv.org/abs/2502.02561>`__.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        utility: utility of each action under each class.
        alpha: significance level, the allowed probability of a utility below its certificate; with kinds of classes
            (see `per`), a number or {kind: alpha}.
        classes: names of the K columns; by default those of a data frame, or 0 to K − 1.
        per: Mondrian taxonomy, for a guarantee within each true "class", "group", "class and group", or "kind". A kind
            is a superclass, such as the weeds, as defined by the utility; {class: kind} defines other kinds.
        groups: the group of each row, for a guarantee per group.
        unseen: policy of `decide` for groups without calibration rows: "error" for an InputError, or "marginal" for the
            β of all groups together.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        The decider, which selects actions.

    Raises:
        InputError: probabilities or labels are invalid, a class has no utility, or options contradict each other.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> crops = ("maize", "common_wheat", "sugar_beet")
    >>> utility = pippin.decisions.Utility({"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1},
    ...                           "ask": {"weed": 0.3, "crop": 0.3}},
    ...                          kinds={name: "crop" if name in crops else "weed" for name in data.classes})
    >>> decider = pippin.decisions.calibrate(data.probs[:2000], data.labels[:2000], utility, 0.02, classes=data.classes)
    >>> decider.decide(data.probs[2000:])
    Decisions(2,986 objects: spray 79%, leave 15%, ask 6%)
    """
    mondrian.warn_of_levels(alpha)
    data = as_labelled(probs, labels, classes, from_logits)
    if not isinstance(utility, Utility):
        raise InputError(f"Expected a Utility, got {type(utility).__name__}", "make one with pippin.decisions.Utility")
    if isinstance(per, str) and per not in PER_DECISION:
        raise InputError(f"Expected per to be one of {PER_DECISION} or {{class: kind}}, got {per!r}")
    scores, n = dispatch.decision_scores(data.rows, data.labels, utility.policy(data.classes)), data.rows.n
    if per == mondrian.KIND:
        per = dict(zip(data.classes, utility.kind_of(data.classes), strict=True))
    taxonomy = mondrian.as_taxonomy(per, groups, unseen)
    scored = mondrian.ScoredLabels(scores, data.labels, taxonomy.numbered_groups(data.rows))
    categories, names, kinds = taxonomy.categorize(scored, data.classes)
    rule = rules.MondrianRule(categories, taxonomy.name, names, kinds)
    return Decider(utility, 0.5, n, data.classes, rule).at(alpha)


@dataclass(frozen=True, eq=False, repr=False)
class Decider(rules.Calibrated):
    """Calibrated decision policy: it selects an action for each row, with a certificate (guaranteed utility).

    With probability at least 1 − alpha, the utility of the action under the true class is at least its certificate.

    If the calibrated multiplier β is equal for all classes, the action is selected as described in `calibrate`. If β
    differs by class, the action maximizes the worst-case utility over the classes k whose nonconformity score is at
    most their β_k. The certificate holds if the true class is one of these, so each class has its own guarantee.

    β is infinite if there are too few calibration rows. Then the action is the one with the best worst case over all
    classes, whose certificate always holds.

    Attributes:
        utility: the utility of each action under each class.
        alpha: significance level, the allowed probability of a utility below its certificate; the largest level if
            each kind (superclass) has its own.
        n_calibration: number of calibration rows.
        classes: names of the columns, in their order.
    """

    utility: Utility
    alpha: float
    n_calibration: int
    classes: Classes
    _rule: rules.MondrianRule

    @property
    def guarantee(self) -> float:
        """Guaranteed probability that the utility of an action is at least its certificate: 1 − alpha."""
        return 1 - self.alpha

    @property
    def takes(self) -> frozenset[str]:
        """Names of keyword arguments that `decide` and `predict` need: "groups", or none without groups."""
        return self._rule.takes

    @property
    def betas(self) -> Vector:
        """Calibrated multipliers: `betas[g, k]` is β for group g and true class k; without groups, g is 0."""
        return np.broadcast_to(self._rule.limits.scores, self._rule.categories.lookup.shape)

    @property
    def beta(self) -> float:
        """Calibrated multiplier β; raises an InputError if it differs between groups or classes."""
        if not (self.betas == self.betas[0, 0]).all():
            raise InputError(f"Expected a decider with one β for all, got {self!r}", "look at its betas")
        return float(self.betas[0, 0])

    @property
    def calibration_scores(self) -> Vector | None:
        """Calibration scores, sorted within each Mondrian category; None if loaded from a file without scores."""
        return self._rule.categories.scores

    def decide(self, probs: Any, *, groups: ArrayLike | None = None, from_logits: bool = False) -> Decisions:
        """Select the action of every row, with its certificate: the utility guaranteed with probability 1 − alpha.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            groups: the group of each row, for a decider per group.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            One action and certificate per row.

        >>> import pippin
        >>> utility = pippin.decisions.Utility([[1, -2], [-1, 1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9]]
        >>> decider = pippin.decisions.calibrate(probs, [0, 0, 1, 1, 1], utility, alpha=0.3)
        >>> decider.decide([[0.95, 0.05], [0.55, 0.45]]).actions
        array(['spray', 'ask'], dtype='<U5')
        """
        rows, codes, certificates = self._decide(probs, groups, from_logits)
        return Decisions(codes, certificates, self.utility.actions, self.classes, index=rows.index)

    def decide_one(self, row: Any, *, group: str | int | None = None) -> Decision:
        """Select the action of one object with low latency.

        Args:
            row: its K probabilities, not logits.
            group: the group of the object, for a decider per group.

        Returns:
            The action and its certificate, the utility guaranteed with probability 1 − alpha.
        """
        if self._one is not None and group is None:
            action, certificate = self._one(as_one_row(row, self.classes))
            return Decision(self.utility.actions[action], certificate)
        if self.groups is not None and group is None:
            raise InputError(f"Expected a group for a decider with a β per {self.per}, got none", "pass group=")
        row = as_one_row(row, self.classes)
        return self.decide(row[None], groups=None if group is None else [group])[0]

    def predict(
        self, probs: Any, *, groups: ArrayLike | None = None, nonempty: bool = False, from_logits: bool = False
    ) -> PredictionSets:
        """Predict the set of classes y with U(action, y) ≥ certificate, most probable first.

        The certificate is the utility that the selected action has with a guaranteed probability of 1 − alpha. The set
        contains the true class exactly if the certificate holds, so its coverage is at least 1 − alpha.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            groups: the group of each row, for a decider per group.
            nonempty: without effect, since no set is empty.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            One set per row.
        """
        rows, actions, certificates = self._decide(probs, groups, from_logits)
        sizes, members = np.empty(rows.n, dtype=np.int64), []
        utilities, step = self.utility.of(self.classes), max(1, SET_BLOCK // rows.n_classes)
        for start in range(0, rows.n, step):
            part = slice(start, min(start + step, rows.n))
            order = dispatch.row_orders(Rows(rows.block(part.start, part.stop), checked=True))
            inside = utilities[actions[part, None], order] >= certificates[part, None]
            sizes[part] = np.count_nonzero(inside, axis=1)
            members.append(order[inside])
        return PredictionSets(sizes, np.concatenate(members), self.classes, rows.index)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot, against the multiplier β, the share of calibration rows whose certificate (guaranteed utility) holds.

        Args:
            ax: Matplotlib axes; new ones by default.

        Returns:
            The axes.
        """
        from pippin._plotting.decisions import plot_decider

        self._need_scores("has no picture")
        return plot_decider(self, ax)

    def describe(self) -> str:
        """Describe the decider and its guarantee in one sentence.

        Returns:
            The sentence.
        """
        names = visible(", ".join(self.utility.actions))
        head = f"Decisions between {names}, from {self.n_calibration:,} rows:"
        if np.isinf(self.betas).all():
            safe = visible(self.utility.actions[self._policy.safe])
            return f"{head} too few to guarantee more than the worst case, so the action is always {safe}."
        whom = {None: "", mondrian.KIND: "for every kind of classes, "}.get(self.per, f"for every {self.per}, ")
        share = f"{100 * self.guarantee:g}%"
        if self.levels is not None:
            levels = [(visible(kind), 100 * (1 - level)) for kind, level in self.levels.items()]
            whom, share = "", ", ".join(f"{percent:g}% (if the class is a {kind})" for kind, percent in levels)
        return f"{head} {whom}each action is worth at least its certificate {share} of the time."

    def content(self, scores: bool = True) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `pippin.load` rebuilds the decider.

        Args:
            scores: include the calibration scores.

        Returns:
            Numbers, text and lists by name.
        """
        return {
            "kind": "decisions",
            "utility": self.utility.content(),
            "per": self.per,
            **shared_content(self),
            "betas": self.betas.tolist(),
            "kinds": None if self._rule.kinds is None else self._rule.kinds.per_class(),
            "levels": None if self.levels is None else list(self.levels.values()),
            **rules.categories_content(self.groups, self._rule.categories, scores),
        }

    def __repr__(self) -> str:
        per = "" if self.per is None else f" per {self.per}"
        return self._repr(f"{visible(', '.join(self.utility.actions))}{per}", self._examples)

    def _repeated_rows(self, probs: Any, labels: Codes, features: None, from_logits: bool) -> int:
        """Estimate the number of calibration rows among these rows, from calibration scores that occur once."""
        known, rows = self.calibration_scores, as_rows(probs, from_logits)
        if known is None:
            return 0
        scores = dispatch.decision_scores(rows, labels, self._policy)
        return estimate_repeated(known[-self.n_calibration :], scores)

    def _decide(self, probs: Any, groups: ArrayLike | None, from_logits: bool) -> tuple[Rows, Indices, Vector]:
        rows = rows_of_classes(self.classes, probs, from_logits, groups=groups)
        group = mondrian.group_codes(self.groups, self.per or "decision", groups, rows.n)
        return rows, *dispatch.decide(rows, self._policy, self._limits, group)

    def _warn_of_infinite(self) -> None:
        """Warn if a Mondrian category has too few calibration rows for a finite multiplier; name the action it gets."""
        if self.per is None:
            note = too_few(self.n_calibration, self.alpha)
            end = "Until then the action is always that of the best worst case."
            note = note and f"{note.partition(' The threshold')[0]} {end}"
        else:
            result = f"the action is {self.utility.actions[self._policy.safe]!r} unless its worst case can be left out"
            ends = f"Such classes are never ruled out, so {result}", f"There {result}: collect more"
            note = mondrian.describe_infinite_thresholds(self._rule, self, "multipliers", *ends)
        if note:
            warn(note)

    @cached_property
    def _policy(self) -> Policy:
        return self.utility.policy(self.classes)

    @cached_property
    def _limits(self) -> Vector:
        """Multipliers β as an array of shape (groups, 1), or (groups, outcomes) if β differs by class.

        An outcome is a group of classes with equal utilities; its β is the largest one of these classes.
        """
        if (self.betas == self.betas[:, :1]).all():
            return self.betas[:, :1]
        limits = np.full((len(self.betas), self._policy.n_outcomes), -np.inf)
        np.maximum.at(limits.T, self._policy.outcome, self.betas.T)
        return limits

    @cached_property
    def _one(self) -> dispatch.OneDecision | None:
        """Fast function that selects the action of a single row; None if the multipliers differ by group or class."""
        return dispatch.one_decision(self._policy, float(self._limits[0, 0])) if self._limits.size == 1 else None


def decider_from_content(content: Content) -> Decider:
    """Rebuild a decider from the data of a file; raise an InputError if its entries contradict each other."""
    utility = content.take("utility")
    alpha, n, classes = content.shared()
    rule = rules.mondrian_from_content(content, alpha, n, classes, "betas", (None, *PER_DECISION))
    if rule.kinds is None:
        for key in ("kinds", "levels"):
            content.take(key, lambda value: value is None)
    content.finish()
    need("betas", bool((rule.limits.scores >= 0).all()))
    return Decider(utility_from_content(utility, classes), alpha, n, classes, rule)
