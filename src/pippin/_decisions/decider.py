"""Risk-averse conformal decisions: actions with a certificate (utility guaranteed with probability 1 − alpha)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal import mondrian, rules
from pippin._conformal.calibrate import Settings, labelled_for_sharpener, sharpen_and_calibrate
from pippin._conformal.card import Card, listed_names, promise_card, share
from pippin._conformal.cross import as_folds, cross_from_content, cross_rule
from pippin._conformal.mondrian import Level
from pippin._conformal.predictor import sharpening_from_content
from pippin._conformal.serialization import Content, need, shared_content
from pippin._conformal.sets import PredictionSets
from pippin._decisions import cross
from pippin._decisions.decisions import Decision, Decisions
from pippin._decisions.per_action import (
    ACTION,
    ActionRule,
    action_rule,
    action_rule_from_content,
    action_scores,
    learning_fraction,
)
from pippin._decisions.utility import Utility, utility_from_content
from pippin._engine import dispatch
from pippin._engine.draws import generator_of
from pippin._runtime.arguments import checked, checked_methods
from pippin._runtime.arrays import Classes, Codes, Indices, Seed, Vector
from pippin._runtime.errors import InputError, warn
from pippin._runtime.provenance import Provenance
from pippin._runtime.showing import visible
from pippin._sharpening.sharpener import Sharpener, one_row_of_features
from pippin._sharpening.step import SharpeningStep
from pippin._theory.level import as_alpha, too_few
from pippin._theory.policy import Policy
from pippin._validation.fingerprints import estimate_repeated
from pippin._validation.index import same_index
from pippin._validation.labels import Labelled, as_rows_of_stack, rows_of_classes
from pippin._validation.plausibility import warn_if_implausible
from pippin._validation.rows import Rows, as_one_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PER_CLASS_OR_GROUP = ("class", mondrian.KIND, "group", "class and group")
PER_DECISION = (*PER_CLASS_OR_GROUP, ACTION)
AnyRule = rules.MondrianRule | rules.UnitsRule | cross.CrossDecisionRule
SET_BLOCK = 1 << 20  # number of probabilities that `Decider.predict` processes at a time, to limit memory


@checked
def calibrate(
    probs: Any,
    labels: ArrayLike,
    utility: Utility,
    alpha: Level = 0.1,
    *,
    classes: Classes | None = None,
    per: Literal["class", "kind", "group", "class and group", "action"] | Mapping[Any, str] | str | None = None,
    groups: ArrayLike | None = None,
    unseen: Literal["error", "marginal"] = "error",
    units: ArrayLike | None = None,
    sharpen: Sharpener | bool | str | None = None,
    features: ArrayLike | None = None,
    seed: Seed = None,
    from_logits: bool = False,
) -> "Decider":
    """Calibrate decisions with certificates: utilities that the actions reach with probability at least 1 − alpha.

    Let U(a, y) be the utility of action a under class y, and m(a, v) = Σ_{y: U(a, y) ≥ v} p_y the predicted probability
    that a reaches at least the utility v. For a multiplier β ≥ 0, the decision is the pair of a and v that maximizes
    v + β·m(a, v). This v is the certificate. A larger β is more cautious: it prefers smaller certificates that are more
    probable.

    Calibration finds β. The nonconformity score of a row is the smallest number above which every β leads to a decision
    whose certificate holds, that is, the action has at least this utility under the true class. The calibrated β is the
    k-th smallest score of n rows, k = ⌈(n + 1)(1 − alpha)⌉. For exchangeable rows, a certificate then holds with
    probability at least 1 − alpha, even if the predicted probabilities are wrong.

    Reference: `Kiyani, Pappas, Roth and Hassani (2025) <https://arxiv.org/abs/2502.02561>`__.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        utility: utility of each action under each class.
        alpha: significance level, the allowed probability of a utility below its certificate. If `per` defines kinds
            (superclasses), {kind: alpha} sets a level for each kind.
        classes: names of the K columns; by default those of a data frame, or 0 to K − 1.
        per: Mondrian taxonomy, for a guarantee within each true "class", "group", "class and group", or "kind". A kind
            is a superclass, such as crop or weed, that `utility` defines; {class: kind} defines other kinds. Or
            "action", for certificates that hold with probability 1 − alpha among all objects with the same action: 30%
            of the rows, or another share as in "action(learning_fraction=0.5)", determine β and the predicted
            probability that each action must reach, and the others calibrate a certificate for each action (`Zhu et al.
            2026 <https://arxiv.org/abs/2606.05551>`__ have another method for this guarantee).
        groups: the group of each row, for a guarantee per group.
        unseen: policy of `decide` for groups without calibration rows: "error" raises an InputError, "marginal" uses
            the β that is calibrated on all groups together.
        units: the cluster of each row, such as the photograph of each window; the guarantee is then for a random row
            of a new cluster.
        sharpen: a `Sharpener` that recalibrates the probabilities first, fitted by `pippin.sharpen` on other rows. Or
            "split" (or True): fit a sharpener on half of these rows (with `units`, of the clusters), and calibrate on
            the others; "split(learning_fraction=0.3)" sets the share of rows for fitting. "mixture": fit five
            sharpeners, each on four fifths of the rows, with a β from the remaining fifth; one of them is drawn for
            each new object. "cross": cross-conformal prediction with these five sharpeners, without a draw, or with
            another number as in "cross(folds=10)". The action is the one with the best worst case over the classes
            with p-values above alpha. Certificates then usually hold with probability 1 − alpha, but less is proven
            (`Decider.guarantee`).
        features: further features of each row for the sharpener, such as the network's embedding.
        seed: for dividing rows (0 by default), and for fitting sharpeners.
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
    if not isinstance(utility, Utility):
        raise InputError(f"Expected a Utility, got {type(utility).__name__}", "make one with pippin.decisions.Utility")
    if isinstance(per, str) and per not in PER_DECISION and learning_fraction(per, groups) is None:
        raise InputError(f"Expected per to be one of {PER_DECISION} or {{class: kind}}, got {per!r}")
    data = labelled_for_sharpener(sharpen, probs, labels, classes, from_logits)
    if per == mondrian.KIND:
        per = dict(zip(data.classes, utility.kind_of(data.classes), strict=True))
    options = {} if units is None else {"units": units}
    if seed is not None:
        generator_of(seed)
    settings = Settings(utility, alpha, seed, mondrian.as_taxonomy(per, groups, unseen), options)
    settings.check()
    decider: Decider = sharpen_and_calibrate(data, features, sharpen, settings, _calibrate_labelled)
    warn_if_implausible(data, units)
    return decider


def _calibrate_labelled(data: Labelled, settings: Settings, step: SharpeningStep | None) -> "Decider":
    """Calibrate decisions on checked rows, and warn if β in v + β·m is infinite: the safest action is then taken."""
    (rows, labels, classes), utility, taxonomy = data, settings.score, settings.taxonomy
    if (fraction := learning_fraction(taxonomy.per, taxonomy.groups)) is not None:
        seed = 0 if settings.seed is None else settings.seed
        per_action, n = action_rule(data, utility, settings.alpha, fraction, seed)
        return rules.warned(Decider(utility, as_alpha(settings.alpha), n, classes, per_action, step))
    scores = dispatch.decision_scores(rows, labels, utility.policy(classes))
    if "folds" in settings.options:
        level = as_alpha(settings.alpha)
        folds = cross_rule(scores, as_folds(settings.options["folds"], rows.n), level).fold_scores
        rule: AnyRule = cross.CrossDecisionRule(folds, level)
        return rules.warned(Decider(utility, level, rows.n, classes, rule, step))
    if "units" in settings.options:
        same_index("probs", rows.index, **settings.options)
        level = as_alpha(settings.alpha)
        rule = rules.units_rule(scores, settings.options["units"], level)
        return rules.warned(Decider(utility, level, rows.n, classes, rule, step))
    scored = mondrian.ScoredLabels(scores, labels, taxonomy.numbered_groups(rows))
    categories, names, kinds = taxonomy.categorize(scored, classes)
    rule = rules.MondrianRule(categories, taxonomy.name, names, kinds)
    return Decider(utility, 0.5, rows.n, classes, rule, step).at(settings.alpha)


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class Decider(rules.Calibrated):
    """Calibrated decision policy: it selects an action for each row, with a certificate (guaranteed utility).

    With probability at least 1 − alpha, the utility of the action under the true class is at least its certificate.

    The action and its certificate v maximize v + β·m, where m is the predicted probability that the action reaches at
    least the utility v. The multiplier β is calibrated; a larger β is more cautious. It is infinite if there are too
    few calibration rows. Then the action is the one with the best worst case over all classes, and its certificate, the
    utility in this worst case, always holds.

    If β differs by class, `decide` first finds a set of classes: those that would have, as the true class, a
    nonconformity score of at most their β. The action has the best worst case over this set. The certificate holds if
    the set contains the true class, which has a guaranteed probability for each class.

    With sharpen="cross", this set consists of the classes with cross-conformal p-values above alpha.

    With per="action", an action must also reach v with a predicted probability above a floor, or it is replaced by the
    action with the best worst case. Its certificate is then not v, but calibrated on rows with this action.

    Attributes:
        utility: the utility of each action under each class.
        alpha: significance level, the allowed probability of a utility below its certificate; the largest level if
            each kind (superclass) has its own.
        n_calibration: number of calibration rows.
        classes: names of the columns, in their order.
        provenance: data files with checksums, date, author, command and versions; None if not recorded.
    """

    utility: Utility
    alpha: float
    n_calibration: int
    classes: Classes
    _rule: AnyRule
    _sharpening: SharpeningStep | None = None
    provenance: Provenance | None = None

    @property
    def guarantee(self) -> float:
        """Proven probability that the utility of an action is at least its certificate: 1 − alpha.

        With sharpen="cross", certificates usually hold with probability 1 − alpha, but only about 1 − 2·alpha is
        proven, as for `ConformalPredictor.guarantee`.
        """
        return self._rule.guarantee(self)

    @property
    def takes(self) -> frozenset[str]:
        """Names of keyword arguments that `decide` and `predict` use: "groups", "features", and "seed" if random."""
        step = self._sharpening
        features = {"features"} if step is not None and step.n_features else set()
        return self._rule.takes | features | ({"seed"} if self._mixture else set())

    @property
    def betas(self) -> Vector:
        """Calibrated multipliers: `betas[g, k]` is β for group g and true class k; without groups, g is 0.

        In a mixture of sharpeners, g is the number of the sharpener. Actions are selected to maximize v + β·m, where v
        is a certificate (guaranteed utility) and m its predicted probability. A larger β is more cautious.
        """
        if isinstance(self._rule, cross.CrossDecisionRule):
            what = f"Expected a decider with multipliers β, got {self!r}, which compares scores of folds"
            raise InputError(what, "calibrate with sharpen='split'")
        betas = np.array([[self._rule.beta]]) if isinstance(self._rule, ActionRule) else self._rule.limits.scores
        return np.broadcast_to(betas, (len(betas), len(self.classes)))

    @property
    def beta(self) -> float:
        """Calibrated multiplier β; raises an InputError if it differs between groups or classes.

        The action is selected to maximize v + β·m, where v is its certificate (guaranteed utility) and m the predicted
        probability of reaching it. A larger β is more cautious.
        """
        if not (self.betas == self.betas[0, 0]).all():
            raise InputError(f"Expected a decider with one β for all, got {self!r}", "look at its betas")
        return float(self.betas[0, 0])

    @property
    def calibration_scores(self) -> Vector | None:
        """Calibration scores, sorted within each Mondrian category; None if loaded from a file without scores."""
        rule = self._rule
        return rule.categories.scores if isinstance(rule, rules.MondrianRule) else rule.scores

    def decide(
        self,
        probs: Any,
        *,
        groups: ArrayLike | None = None,
        features: ArrayLike | None = None,
        seed: Seed = None,
        from_logits: bool = False,
    ) -> Decisions:
        """Select the action of every row, with its certificate: the utility guaranteed with probability 1 − alpha.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            groups: the group of each row, for a decider per group.
            features: further features per object, if the sharpener (recalibration map) was fitted with features.
            seed: to draw sharpeners, if the decider was calibrated with sharpen="mixture"; a seed or a Generator.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            One action and certificate per row.

        Raises:
            InputError: `probs` are not probabilities of these classes, groups are missing for a decider per group, or
                are passed to another decider.

        >>> import pippin
        >>> utility = pippin.decisions.Utility([[1, -2], [-1, 1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9]]
        >>> decider = pippin.decisions.calibrate(probs, [0, 0, 1, 1, 1], utility, alpha=0.3)
        >>> decider.decide([[0.95, 0.05], [0.55, 0.45]]).actions
        array(['spray', 'ask'], dtype='<U5')
        """
        rows, codes, certificates = self._decide(probs, groups, features, seed, from_logits)
        return Decisions(codes, certificates, self.utility.actions, self.classes, index=rows.index)

    def decide_one(
        self, row: Any, *, group: str | int | None = None, features: ArrayLike | None = None, seed: Seed = None
    ) -> Decision:
        """Select the action of one object; this is faster than `decide` for a single row.

        Args:
            row: its K probabilities, not logits.
            group: the group of the object, for a decider per group.
            features: further features of the object, if its sharpener (recalibration map) was fitted with features.
            seed: to draw a sharpener, if the decider was calibrated with sharpen="mixture"; a seed or a Generator.

        Returns:
            The action and its certificate, the utility guaranteed with probability 1 − alpha.

        Raises:
            InputError: `row` is not a row of probabilities of these classes, the group is missing for a decider per
                group, or is passed to another decider.
        """
        if self._one is not None and group is None and seed is None and (features is None or self.sharpeners):
            for sharpener in self.sharpeners:
                row = sharpener.one(row, features=features)
            action, certificate = self._one(as_one_row(row, self.classes))
            return Decision(self.utility.actions[action], certificate)
        if self.groups is not None and group is None:
            raise InputError(f"Expected a group for a decider with a β per {self.per}, got none", "pass group=")
        step, one_features = self._sharpening, cast("ArrayLike", one_row_of_features(features))
        probs = as_one_row(row, self.classes)[None] if step is None else step.one_object(row)
        return self.decide(probs, groups=group if group is None else [group], features=one_features, seed=seed)[0]

    def predict(
        self,
        probs: Any,
        *,
        groups: ArrayLike | None = None,
        features: ArrayLike | None = None,
        seed: Seed = None,
        nonempty: bool = False,
        from_logits: bool = False,
    ) -> PredictionSets:
        """Predict the set of classes under which the utility of the selected action is at least its certificate.

        The certificate is a utility that is guaranteed with probability 1 − alpha. It holds exactly if the set contains
        the true class, so the coverage of the sets is at least `guarantee`, which is mostly 1 − alpha.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            groups: the group of each row, for a decider per group.
            features: further features per object, if the sharpener (recalibration map) was fitted with features.
            seed: to draw sharpeners, if the decider was calibrated with sharpen="mixture"; a seed or a Generator.
            nonempty: without effect, since no set is empty.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            One set per row, with its members most probable first.

        Raises:
            InputError: `probs` are not probabilities of these classes, groups are missing for a decider per group, or
                are passed to another decider.
        """
        rows, actions, certificates = self._decide(probs, groups, features, seed, from_logits)
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
        """Plot the share of calibration rows whose certificate (guaranteed utility) holds, as a function of β.

        The decision maximizes v + β·m, where v is the certificate and m the predicted probability of reaching it; a
        larger β is more cautious. A dot marks the calibrated β; each Mondrian category has its own line.

        Args:
            ax: Matplotlib axes; new ones by default.

        Returns:
            The axes.

        Raises:
            InputError: the decider was saved without its calibration scores.
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
        units = f" of {self._rule.n_units:,} units" if isinstance(self._rule, rules.UnitsRule) else ""
        behind = "" if self._sharpening is None else f", {self._sharpening.describe()}"
        behind += ", of which every object draws one" if self._mixture else ""
        head = f"Decisions between {names}, from {self.n_calibration:,} rows{units}{behind}:"
        rule = self._rule
        crossed = isinstance(rule, cross.CrossDecisionRule)
        if rule.rank > rule.n if isinstance(rule, cross.CrossDecisionRule) else np.isinf(self.betas).all():
            safe = visible(self.utility.actions[self._policy.safe])
            return f"{head} too few to guarantee more than the worst case, so the action is always {safe}."
        whom = {
            None: "",
            mondrian.KIND: "for every kind of classes, ",
            ACTION: "among all objects with the same action, ",
        }.get(self.per, f"for every {self.per}, ")
        share = f"{100 * (1 - self.alpha):g}%"
        if self.levels is not None:
            levels = [(visible(kind), 100 * (1 - level)) for kind, level in self.levels.items()]
            whom, share = "", ", ".join(f"{percent:g}% (if the class is a {kind})" for kind, percent in levels)
        scope = ", for a row drawn at random from a new unit" if units else ""
        if crossed:
            whom, scope = "usually, ", f"; at least {100 * self.guarantee:.3g}% is proven"
        return f"{head} {whom}each action is worth at least its certificate {share} of the time{scope}."

    def _promise(self) -> Card:
        rule, held = self._rule, "The share of certificates that hold"
        behind = "" if self._sharpening is None else "recalibrated "
        level = self._level("certificates that hold with a probability")
        if isinstance(rule, cross.CrossDecisionRule):
            usual, proven = share(1 - self.alpha), f"{100 * self.guarantee:.3g}%"
            level = (
                f"alpha = {self.alpha:g}: that certificates hold in {usual} of cases is usual, in {proven} is proven"
            )
        return promise_card(
            what=f"A decider: actions {listed_names(self.utility.actions)}, each with a certificate, a lower bound of "
            f"its utility, from the {behind}probabilities of {len(self.classes):,} classes: "
            f"{listed_names(self.classes)}.",
            guarantee=self.describe(),
            level=f"{level}.",
            condition=self._condition(),
            variation=self._variation(held, at_least=True),
            limits=rule.limits_of_guarantee(held, "of one action; the utility of a single object"),
            rows=f"{rule.rows(self)}.",
        )

    def content(self, scores: bool = True) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `pippin.load` rebuilds the decider.

        Args:
            scores: include the calibration scores.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.
        """
        if self._mixture:
            return self._mixture_content(scores)
        rule, shared = self._rule, {"utility": self.utility.content(), **shared_content(self)}
        if not (scores or isinstance(rule, rules.MondrianRule)):
            what = "The calibration scores of this decider are needed for its decisions, so the file has them"
            raise InputError(what, "save with scores=True")
        if isinstance(rule, cross.CrossDecisionRule):
            return shared | rule.content(scores) | {"sharpeners": [one.content() for one in self.sharpeners]}
        if isinstance(rule, rules.UnitsRule):
            content = shared | rule.content(scores) | {"kind": "decisions for units"}
        elif isinstance(rule, ActionRule):
            content = shared | rule.entries(scores) | {"kind": "decisions per action"}
        else:
            content = {
                "kind": "decisions",
                **shared,
                "per": self.per,
                "betas": self.betas.tolist(),
                "kinds": None if rule.kinds is None else rule.kinds.per_class(),
                "levels": None if self.levels is None else list(self.levels.values()),
                **rules.categories_content(self.groups, rule.categories, scores),
            }
        return content if self._sharpening is None else self._sharpened_content(content, self.sharpeners)

    def __repr__(self) -> str:
        per = "" if self.per is None else f" per {self.per}"
        per = f"{' sharpened' if self.sharpeners else ''}{' in a mixture' if self._mixture else ''}{per}"
        rule = self._rule
        facts = rule.facts(self)[1:] if isinstance(rule, rules.UnitsRule) else (self._examples,)
        facts = rule.facts(self) if isinstance(rule, cross.CrossDecisionRule) else facts
        return self._repr(f"{visible(', '.join(self.utility.actions))}{per}", *facts)

    def _repeated_rows(self, probs: Any, labels: Codes, features: Any, from_logits: bool) -> int:
        """Estimate the number of calibration rows among these rows, from calibration scores that occur once."""
        if self.calibration_scores is None:
            return 0
        known, step = self.calibration_scores[-self.n_calibration :], self._sharpening
        rows = self._input(probs, from_logits)
        every = (rows,) if step is None else step.rows(rows, features, from_logits)
        scores = (self._scores(of_model, labels) for of_model in every)
        return sum(estimate_repeated(known, of_model) for of_model in scores)

    def _scores(self, rows: Rows, labels: Codes) -> Vector:
        """Compute the nonconformity score of each row."""
        if isinstance(self._rule, ActionRule):
            codes = self._rule.policy_actions(rows, self.utility, self.classes)
            return action_scores(rows, labels, codes, self.utility.of(self.classes))
        return dispatch.decision_scores(rows, labels, self._policy)

    def _input(self, probs: Any, from_logits: bool, **others: Any) -> Rows:
        """Convert probabilities to rows like `rows_of_classes`; with a sharpener, also those of several models."""
        given = probs if self._sharpening is None else as_rows_of_stack(probs, from_logits)
        return rows_of_classes(self.classes, given, from_logits, **others)

    def _decide(
        self, probs: Any, groups: ArrayLike | None, features: Any, seed: Seed, from_logits: bool
    ) -> tuple[Rows, Indices, Vector]:
        rows = self._input(probs, from_logits, groups=groups)
        group = mondrian.group_codes(self.groups, self.per or "decision", groups, rows.n)
        if self._sharpening is None and features is not None:
            raise InputError("Expected features= only for a sharpened decider, got some", "leave them out")
        if self._sharpening is not None and self._mixture:
            rows, group = self._sharpening.mixed(rows, features, from_logits, generator_of(seed))
        elif self._sharpening is not None and isinstance(self._rule, cross.CrossDecisionRule):
            return self._rule.decide(self._sharpening.rows(rows, features, from_logits), self._policy)
        elif self._sharpening is not None:
            [rows] = self._sharpening.rows(rows, features, from_logits)
        if seed is not None:
            generator_of(seed)
        if isinstance(self._rule, ActionRule):
            return rows, *self._rule.decide(rows, self.utility, self.classes)
        return rows, *dispatch.decide(rows, self._policy, self._limits, group)

    def _warn_of_infinite(self) -> None:
        """Warn of Mondrian categories with too few calibration rows for a finite β in v + β·m; name their action."""
        if isinstance(self._rule, ActionRule):
            self._rule.warn_of_infinite(self)
            return
        if isinstance(self._rule, rules.UnitsRule) or self.per is None:
            n, examples = self.n_calibration, "calibration examples"
            if isinstance(self._rule, rules.UnitsRule):
                n, examples = self._rule.n_units, "calibration units"
            note = too_few(n, self.alpha, examples)
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
        """Multipliers β in v + β·m for the engines, shape (groups, 1), or (groups, outcomes) if β differs by class.

        An outcome consists of classes with equal utilities under every action; its β is the largest β of these classes.
        """
        if (self.betas == self.betas[:, :1]).all():
            return self.betas[:, :1]
        limits = np.full((len(self.betas), self._policy.n_outcomes), -np.inf)
        np.maximum.at(limits.T, self._policy.outcome, self.betas.T)
        return limits

    @cached_property
    def _one(self) -> dispatch.OneDecision | None:
        """Fast function that selects the action of a single row; None for per="action", for several β and without β."""
        if isinstance(self._rule, ActionRule | cross.CrossDecisionRule):
            return None
        return dispatch.one_decision(self._policy, float(self._limits[0, 0])) if self._limits.size == 1 else None


def decider_from_content(content: Content) -> Decider:
    """Rebuild a decider from the data of a file; raise an InputError if its entries contradict each other."""
    utility = content.take("utility")
    alpha, n, classes = content.shared()
    if content.kind == "decisions for units":
        units = rules.units_from_content(content, alpha, n, classes)
        content.finish()
        need("calibration_scores", bool((units.scores >= 0).all()))
        return Decider(utility_from_content(utility, classes), alpha, n, classes, units)
    if content.kind == cross.KIND:
        folds = cross_from_content(content, alpha, n, classes).fold_scores
        need("fold_scores", all(bool((part >= 0).all()) for part in folds))
        step = sharpening_from_content(content, classes, len(folds))
        known = utility_from_content(utility, classes)
        return Decider(known, alpha, n, classes, cross.CrossDecisionRule(folds, alpha), step)
    if content.kind == "decisions per action":
        known = utility_from_content(utility, classes)
        per_action = action_rule_from_content(content, alpha, n, len(known.actions))
        content.finish()
        return Decider(known, alpha, n, classes, per_action)
    rule = rules.mondrian_from_content(content, alpha, n, classes, "betas", (None, *PER_CLASS_OR_GROUP))
    if rule.kinds is None:
        for key in ("kinds", "levels"):
            content.take(key, lambda value: value is None)
    content.finish()
    need("betas", bool((rule.limits.scores >= 0).all()))
    return Decider(utility_from_content(utility, classes), alpha, n, classes, rule)
