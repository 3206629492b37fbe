"""Decisions with a bound on their expected cost that holds with a given confidence."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.card import Card, listed_names, promise_card, share
from pippin._conformal.serialization import Content, SavedDataclass, attributes, classes_content, need
from pippin._decisions.decisions import Decision, Decisions
from pippin._decisions.utility import Utility, utility_from_content
from pippin._engine import dispatch
from pippin._runtime.arguments import checked, checked_methods
from pippin._runtime.arrays import Classes, Codes, Indices, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.provenance import Provenance
from pippin._runtime.showing import visible
from pippin._theory.certifying import mean_bound
from pippin._theory.level import as_alpha
from pippin._validation.labels import as_labelled, rows_of_classes
from pippin._validation.plausibility import warn_if_implausible
from pippin._validation.rows import Rows, as_one_row

# Weights w of the worst-case utility in the policies: w = 0 is the best response, and w = 1 always selects the action
# with the best worst case.
WEIGHTS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)


@checked
def bound_cost(
    probs: Any,
    labels: ArrayLike,
    utility: Utility,
    *,
    classes: Classes | None = None,
    bound: float | None = None,
    confidence: float = 0.95,
    from_logits: bool = False,
) -> "CostPolicy":
    """Calibrate decisions with a small expected cost, and a bound on it that holds with probability `confidence`.

    The cost of an action is minus its utility. The policy is one of ten, with a weight w of the worst case:

        argmax_a (1 − w) Σ_y p_y·U(a, y) + w·min_y U(a, y)

    With w = 0, this is the best response, which minimizes the predicted expected cost. With w = 1, it is always the
    careful action, which has the best worst case. For each policy, the calibration rows give an upper confidence bound
    on its expected cost, and with probability `confidence` over the calibration rows, all bounds hold together. So one
    can choose among the policies after looking at costs and bounds. The rows must be independent and identically
    distributed with later rows.

    Reference for the confidence bounds: `Waudby-Smith and Ramdas (2024) <https://arxiv.org/abs/2010.09686>`__.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        utility: utility of each action under each class, for example from `Utility.from_costs`.
        classes: names of the K columns; by default those of a data frame, or 0 to K − 1.
        bound: the expected cost allowed: only policies whose confidence bound is at most this number are considered. By
            default, all are. Of these policies, the one with the smallest mean cost on the rows is chosen.
        confidence: probability, over calibration sets, that the expected cost is at most its bound.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        The policy; its `cost_bound` is the bound on its expected cost.

    Raises:
        InputError: no policy has a confidence bound of at most `bound`, or probabilities, labels or options are
            invalid.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> names = ("maize", "common_wheat", "sugar_beet")
    >>> costs = {"spray": {"weed": 0, "crop": 9}, "leave": {"weed": 2, "crop": 0}, "ask": {"weed": 1, "crop": 1}}
    >>> kinds = {name: "crop" if name in names else "weed" for name in data.classes}
    >>> utility = pippin.decisions.Utility.from_costs(costs, kinds=kinds)
    >>> pippin.decisions.bound_cost(data.probs[:2000], data.labels[:2000], utility, classes=data.classes)
    CostPolicy(spray, leave, ask; expected cost at most 0.253 with confidence 0.95, 2,000 calibration examples)
    """
    if not isinstance(utility, Utility):
        raise InputError(f"Expected a Utility, got {type(utility).__name__}", "make one with pippin.decisions.Utility")
    confidence = as_alpha(confidence, "confidence", "pass for example 0.95")
    data = as_labelled(probs, labels, classes, from_logits)
    _, costs = policy_costs(data.rows, data.labels, utility.of(data.classes))
    bounds = [_cost_bound(costs[i], i, utility.of(data.classes), confidence) for i in range(len(WEIGHTS))]
    warn_if_implausible(data)
    means = read_only(costs.mean(axis=1))
    policy = CostPolicy(utility, None, confidence, means, read_only(np.array(bounds)), data.rows.n, data.classes)
    return policy if bound is None else policy.at(bound)


def policy_costs(rows: Rows, labels: Codes, utilities: Vector) -> tuple[Indices, Vector]:
    """Compute the actions of all policies, a row for each weight of the worst case, and the costs of these actions."""
    actions = np.stack([_actions(rows, weight, utilities) for weight in WEIGHTS])
    return actions, 0.0 - utilities[actions, labels]


def chosen_bound(costs: Vector, utilities: Vector, confidence: float) -> tuple[int, float]:
    """Choose the policy with the smallest mean of `costs` (policies, n); return its index and its confidence bound."""
    i = int(costs.mean(axis=1).argmin())
    return i, _cost_bound(costs[i], i, utilities, confidence)


def _actions(rows: Rows, weight: float, utilities: Vector) -> Indices:
    worst = utilities.min(axis=1, keepdims=True)
    if weight == 1:
        return np.full(rows.n, worst.argmax(), dtype=np.int32)
    return dispatch.best_response(rows, (1 - weight) * utilities + weight * worst)


def _cost_bound(costs: Vector, i: int, utilities: Vector, confidence: float) -> float:
    """Compute the upper confidence bound on the expected cost of policy i; all bounds hold together at `confidence`.

    The probability 1 − `confidence` of a wrong bound is divided: one half is for the best response, and the other half
    is shared equally by the other policies. The policy that always selects the action with the best worst case needs no
    share, since its largest cost is known.
    """
    if WEIGHTS[i] == 1:
        return float(0.0 - utilities.min(axis=1).max())
    delta = (1 - confidence) / 2 / (1 if i == 0 else len(WEIGHTS) - 2)
    values, counts = np.unique(costs, return_counts=True)
    return mean_bound(values, counts, float(-utilities.min()), delta)


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class CostPolicy(SavedDataclass):
    """Decision policy whose expected cost has an upper bound that holds with a given confidence.

    There is one policy for each weight w of the worst case, from the best response (w = 0) to the policy that always
    selects the careful action, the one with the best worst case (w = 1); see `bound_cost`. This policy has the smallest
    mean cost on the calibration rows, among those whose confidence bound is at most `bound`.

    Attributes:
        utility: the utility of each action under each class; costs are minus utilities.
        bound: the expected cost allowed, or None.
        confidence: probability, over calibration sets, that the expected costs of all policies are within their bounds.
        mean_costs: the mean cost of each policy on the calibration rows, in the order of `weights`.
        cost_bounds: the confidence bound on the expected cost of each policy.
        n_calibration: number of calibration rows.
        classes: names of the columns, in their order.
        provenance: data files with checksums, date, author, command and versions; None if not recorded.
    """

    utility: Utility
    bound: float | None
    confidence: float
    mean_costs: Vector
    cost_bounds: Vector
    n_calibration: int
    classes: Classes
    provenance: Provenance | None = None

    @property
    def takes(self) -> frozenset[str]:
        """Names of the optional keywords of `decide`: none."""
        return frozenset()

    @property
    def weights(self) -> tuple[float, ...]:
        """Weights of the worst case, from 0 (best response) to 1 (always the action with the best worst case)."""
        return WEIGHTS

    @property
    def weight(self) -> float:
        """Weight of the worst case in this policy, from 0 (best response) to 1."""
        return WEIGHTS[self._chosen]

    @property
    def mean_cost(self) -> float:
        """Mean cost on the calibration rows."""
        return float(self.mean_costs[self._chosen])

    @property
    def cost_bound(self) -> float:
        """Bound on the expected cost, which holds with probability `confidence` over calibration sets."""
        return float(self.cost_bounds[self._chosen])

    @property
    def _chosen(self) -> int:
        allowed = np.inf if self.bound is None else self.bound
        return int(np.where(self.cost_bounds <= allowed, self.mean_costs, np.inf).argmin())

    def at(self, bound: float | None) -> "CostPolicy":
        """Return the policy chosen under another bound, from the same calibration; its confidence is the same.

        Args:
            bound: the expected cost allowed, or None for the policy with the smallest mean cost.

        Returns:
            The policy.

        Raises:
            InputError: no policy has a confidence bound of at most `bound`.
        """
        least = float(self.cost_bounds.min())
        if bound is not None and not (isinstance(bound, int | float) and least <= bound < np.inf):
            what = f"Expected a bound of at least {least:.4g}, the smallest that holds for a policy, got {bound!r}"
            raise InputError(what, "pass a larger bound, or calibrate on more rows")
        return replace(self, bound=None if bound is None else float(bound))

    def decide(self, probs: Any, *, from_logits: bool = False) -> Decisions:
        """Select the action of every row; there is no guarantee for a single row, so certificates are −∞.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            from_logits: treat `probs` as logits and apply softmax.

        Returns:
            One action per row.
        """
        rows = rows_of_classes(self.classes, probs, from_logits)
        codes = _actions(rows, self.weight, self.utility.of(self.classes))
        return Decisions(codes, np.full(rows.n, -np.inf), self.utility.actions, self.classes, index=rows.index)

    def decide_one(self, row: Any) -> Decision:
        """Select the action of one object.

        Args:
            row: its K probabilities, not logits.

        Returns:
            The action, with a certificate of −∞.
        """
        return self.decide(as_one_row(row, self.classes)[None])[0]

    def describe(self) -> str:
        """Describe the policy and its guarantee in one sentence.

        Returns:
            The sentence.
        """
        names = visible(", ".join(self.utility.actions))
        return (
            f"Decisions between {names}, from {self.n_calibration:,} rows: with {100 * self.confidence:g}% confidence, "
            f"their expected cost is at most {self.cost_bound:.4g} (it is {self.mean_cost:.4g} on these rows)."
        )

    def _promise(self) -> Card:
        requested = "" if self.bound is None else f" At most {self.bound:g} was requested."
        return promise_card(
            what=f"A decision policy: actions {listed_names(self.utility.actions)}, with a bound on their expected "
            f"cost, from the probabilities of {len(self.classes):,} classes: {listed_names(self.classes)}.",
            guarantee=self.describe(),
            level=f"An expected cost of at most {self.cost_bound:.4g}, with a confidence of {share(self.confidence)}."
            f"{requested}",
            condition="The calibration rows and the new rows are independent draws from one distribution. The "
            "classifier was not trained on the calibration rows.",
            variation=f"The bound holds in at least {share(self.confidence)} of calibrations.",
            limits="The expected cost within a single class, group or action; the cost of a single object.",
            rows=f"{self.n_calibration:,} rows.",
        )

    def content(self) -> dict[str, Any]:
        """Return the data that `save` writes to a file, from which `pippin.load` rebuilds the policy.

        Returns:
            A dictionary of numbers, strings, lists and nested dictionaries.
        """
        return {
            "kind": "bounded cost",
            "utility": self.utility.content(),
            **attributes(self, "bound", "confidence", "n_calibration"),
            **classes_content(self.classes),
            "weights": list(self.weights),
            "mean_costs": self.mean_costs.tolist(),
            "cost_bounds": self.cost_bounds.tolist(),
        }

    def __repr__(self) -> str:
        return (
            f"CostPolicy({visible(', '.join(self.utility.actions))}; expected cost at most {self.cost_bound:.3g} with "
            f"confidence {self.confidence:g}, {self._examples})"
        )


def cost_policy_from_content(content: Content) -> CostPolicy:
    """Rebuild a policy from the data of a file; raise an InputError if its entries contradict each other."""
    given, bound, confidence = content.take("utility"), content.take("bound"), content.number("confidence")
    n, classes, weights = content.whole("n_calibration", 1), content.classes(), content.numbers("weights")
    means, bounds = content.numbers("mean_costs", len(WEIGHTS)), content.numbers("cost_bounds", len(WEIGHTS))
    content.finish()
    need("confidence", 0 < confidence < 1)
    need("weights", tuple(weights.tolist()) == WEIGHTS)
    utility = utility_from_content(given, classes)
    utilities = utility.of(classes)
    need("mean_costs", bool(((means >= -utilities.max()) & (means <= -utilities.min())).all()))
    need("cost_bounds", bool((bounds[:-1] >= means[:-1]).all()) and bounds[-1] == -utilities.min(axis=1).max())
    need("cost_bounds", bool((bounds <= -utilities.min()).all()))
    need("bound", bound is None or (isinstance(bound, float) and float(bounds.min()) <= bound < np.inf))
    return CostPolicy(utility, bound, confidence, means, bounds, n, classes)
