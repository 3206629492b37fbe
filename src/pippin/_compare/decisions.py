"""Comparison of decision rules on random splits: certificates, bounded expected cost, and best response."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pippin._compare.methods import Method, parse_methods
from pippin._compare.split_evaluation import calibrate_on_split, predict_rows
from pippin._compare.splits import Split, Trial, check_splits, draw_split, make_trial
from pippin._conformal.mondrian import kth_smallest
from pippin._decisions.cost import chosen_bound, policy_costs
from pippin._decisions.decisions import action_outcomes
from pippin._decisions.utility import Utility
from pippin._engine import dispatch
from pippin._runtime.arguments import checked
from pippin._runtime.arrays import Classes, Codes, Indices, Vector
from pippin._runtime.errors import InputError
from pippin._runtime.progress import progress_bar
from pippin._runtime.showing import format_share, html_columns
from pippin._theory.scores import PAPER_SCORES, Score
from pippin._validation.labels import as_labelled

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

CALIBRATED = "calibrated decisions"
EXPECTED = "best response"
BOUNDED = "bounded cost"
CONFIDENCE = 0.95  # of the bound on the expected cost
CLOSE = 0.05  # relative difference of mean utilities below which a rule with a guarantee is recommended
MEASURES = ("kept", "certificate", "utility")
LEVELS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)

Actions = tuple[Codes | Indices, Vector]  # action and certificate (guaranteed utility) of every test row
DecisionRule = Callable[[Split, float], Actions]  # arguments: split and alpha


@checked
def compare_decisions(
    probs: Any,
    labels: ArrayLike,
    utility: Utility,
    scores: Sequence[Score | Method | str] | Score | Method | str = PAPER_SCORES,
    alpha: float = 0.1,
    *,
    splits: int = 200,
    calibration_fraction: float = 0.45,
    seed: int = 0,
    classes: Classes | None = None,
    from_logits: bool = False,
) -> "DecisionComparison":
    """Compare four types of decision rules on the same random splits.

    A certificate is the utility that a rule guarantees for its action with probability 1 − alpha. It is broken if the
    utility under the true class is lower, and kept otherwise.

    - Calibrated decisions: the rule of `pippin.decisions.calibrate`.
    - Worst case over the prediction sets of a score: the action whose smallest utility over the classes of the set is
      largest. For an empty set, the smallest utility over all classes is used, and there is no certificate.
    - Bounded cost: the rule of `pippin.decisions.bound_cost`, with a bound on the expected cost (minus the utility)
      that holds with a confidence of 95%.
    - Best response: the action with the largest expected utility. It has no certificates.

    Args:
        probs: (n, K) probabilities of rows that the classifier was not trained on.
        labels: true class of each row, as index or name.
        utility: utility of each action under each true class.
        scores: scores, as objects or by name; methods with several thresholds are not supported. By default IP, margin,
            APS, RAPS, PIP and RePIP.
        alpha: significance level (miscoverage): the share of certificates that may be broken.
        splits: the number of random splits.
        calibration_fraction: share of the rows used for calibration; the others are test rows.
        seed: the seed of the splits; split i is the same as in `pippin.compare`.
        classes: names of the K columns; by default the column names of a data frame, else 0 … K − 1.
        from_logits: whether `probs` are logits, to which a softmax is applied.

    Returns:
        A DecisionComparison with the measures of every rule on every split.

    >>> import numpy as np, pippin
    >>> data = pippin.load_example()
    >>> values = [*np.eye(12), np.full(12, 0.3)]  # utility 1 for the right name, 0.3 for asking
    >>> utility = pippin.decisions.Utility(values, actions=[*data.classes, "ask"], classes=data.classes)
    >>> options = {"splits": 20, "classes": data.classes}
    >>> comparison = pippin.decisions.compare(data.probs, data.labels, utility, "ip", 0.02, **options)
    >>> for row in comparison.summary().iter_rows(named=True):
    ...     print(f"{row['decisions']:20}  kept {row['kept']:.3f}  utility {row['utility']:.2f}  ask {row['ask']:.2f}")
    calibrated decisions  kept 0.981  utility 0.60  ask 0.55
    worst case over ip    kept 0.997  utility 0.42  ask 0.82
    bounded cost          kept nan  utility 0.80  ask 0.00
    best response         kept nan  utility 0.80  ask 0.00
    >>> comparison.verdict.partition(":")[0]
    'Take bounded cost (mean utility 0.796, best response 0.796)'
    """
    trial = make_trial(as_labelled(probs, labels, classes, from_logits), alpha, calibration_fraction, seed)
    return evaluate_decisions(trial, parse_methods(scores), utility, splits)


class DecisionCurve(NamedTuple):
    """Mean certificate and mean utility of a decision rule on the first split, at many values of alpha.

    A certificate is the utility that the rule guarantees for its action with probability 1 − alpha.

    Attributes:
        name: the name of the rule.
        method: the method whose prediction sets the rule uses; None for other rules.
        levels: the values of alpha.
        certificate: the mean certificate at each level; None for a rule without certificates.
        utility: the mean utility at each level.
    """

    name: str
    method: Method | None
    levels: tuple[float, ...]
    certificate: Vector | None
    utility: Vector


@dataclass(frozen=True, eq=False, repr=False)
class DecisionComparison:
    """Measures of every decision rule on every split.

    A certificate is the utility that a rule guarantees for its action with probability 1 − alpha. It is broken if the
    utility under the true class is lower, and kept otherwise.

    Attributes:
        names: the names of the rules.
        actions: the names of the actions.
        alpha: significance level (miscoverage): the share of certificates that may be broken.
        n: the number of rows.
        n_calibration: the number of calibration rows in each split.
        values: `values[rule, split, measure]`. The measures are the share of certificates kept, the mean certificate,
            the mean utility, the share of each action, and the error rate of each action. Let U(a, y) be the utility
            of action a under class y. A decision is an error if its utility is lower than max_a min_y U(a, y), the
            largest utility that an action has whatever the true class is.
        cost_bounds: the bound on the expected cost of "bounded cost" in each split, with a confidence of 95%.
        curves: for each rule, its mean certificate and mean utility on the first split at 12 levels of alpha.
    """

    names: tuple[str, ...]
    actions: tuple[str, ...]
    alpha: float
    n: int
    n_calibration: int
    values: Vector
    cost_bounds: Vector
    curves: tuple[DecisionCurve, ...]

    @property
    def verdict(self) -> str:
        """Sentence that recommends a rule for this utility, from the mean utility of each rule.

        It is the first of three rules whose mean utility is within 5% of the largest one: calibrated decisions, bounded
        cost, and the best of the rules with the worst case over prediction sets. If none is, it is the best response.
        """
        by_rule = self.values[:, :, MEASURES.index("utility")]
        utility = dict(zip(self.names, by_rule.mean(axis=1).tolist(), strict=True))
        best = max(utility.values())
        over_sets = [name for name in self.names if name not in (CALIBRATED, BOUNDED, EXPECTED)]
        ranked = (CALIBRATED, BOUNDED, *sorted(over_sets, key=lambda name: -utility[name]), EXPECTED)
        take = next(name for name in ranked if utility[name] >= best - CLOSE * abs(best))
        if take == EXPECTED:
            return f"Take the best response (mean utility {best:.3f}): every rule with a guarantee has less utility."
        means = f"mean utility {utility[take]:.3f}, best response {utility[EXPECTED]:.3f}"
        if take != BOUNDED:
            share = f"{100 * (1 - self.alpha):g}%"
            return f"Take {take} ({means}): {share} of the actions are worth at least their certificate."
        within = float((-by_rule[self.names.index(BOUNDED)] <= self.cost_bounds).mean())
        return (
            f"Take bounded cost ({means}): with {100 * CONFIDENCE:g}% confidence its expected utility is at least "
            f"{-self.cost_bounds.mean():.3f}, on average over splits (it was in {format_share(within)} of them); "
            f"calibrated decisions (mean utility {utility[CALIBRATED]:.3f}) do not limit how bad the "
            f"{100 * self.alpha:g}% of actions with a broken certificate are."
        )

    @property
    def splits(self) -> int:
        """Number of splits."""
        return int(self.values.shape[1])

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures, in the order of `values`."""
        return (*MEASURES, *self.actions, *(f"errors of {action}" for action in self.actions))

    def summary(self) -> "polars.DataFrame":
        """Compute the mean of every measure over the splits.

        `kept` is the share of certificates (guaranteed utilities) that the utility under the true class reaches;
        `kept_sd` is its standard deviation over the splits.

        Returns:
            A polars data frame with one row per rule.
        """
        import polars

        columns: dict[str, Any] = {"decisions": list(self.names)}
        for i, name in enumerate(self.measures):
            values = np.ma.masked_where(np.isnan(self.values[:, :, i]), self.values[:, :, i])
            columns[name] = values.mean(axis=1).filled(np.nan)
        columns["kept_sd"] = self.values[:, :, 0].std(axis=1, ddof=min(1, self.splits - 1))
        return polars.DataFrame(columns)

    def plot(self) -> "tuple[Axes, ...]":
        """Plot the mean certificate (guaranteed utility) and the mean utility of every rule against alpha.

        Returns:
            Two Matplotlib axes, the first for certificates, the second for utilities.
        """
        from pippin._plotting.decisions import plot_decision_curves

        return plot_decision_curves(self)

    def _repr_html_(self) -> str:
        means = self.summary().drop("kept_sd").to_dict(as_series=False)
        shares = {"kept", *self.actions, *(f"errors of {action}" for action in self.actions)}
        columns = {name: [_format_measure(value, name in shares) for value in values] for name, values in means.items()}
        note = "Kept: certificates that held. An error: an action with less utility than the best worst case."
        return html_columns(f"{self!r}, {100 * (1 - self.alpha):g}% requested: means", columns, note=note)

    def __repr__(self) -> str:
        return f"DecisionComparison({', '.join(self.names)}; {self.splits:,} splits of {self.n:,} rows)"


def evaluate_decisions(trial: Trial, methods: tuple[Method, ...], utility: Utility, splits: int) -> DecisionComparison:
    """Compare decision rules on random splits of the trial's rows."""
    if unsupported := [method for method in methods if not method.plain]:
        what = f"Expected scores with one threshold for all rows, got {unsupported[0]}"
        raise InputError(what, "leave it out: other methods cannot be compared here")
    check_splits(splits)
    utilities = utility.of(trial.classes)
    policies = policy_costs(trial.rows, trial.labels, utilities)
    rules, cost_bounds = _rules(trial, methods, utility, policies), np.empty(splits)
    values = np.empty((len(rules), splits, len(MEASURES) + 2 * len(utility.actions)))
    with progress_bar("splits of decisions", splits) as advance:
        for index in range(splits):
            split = draw_split(trial, index)
            for number, rule in enumerate(rules.values()):
                values[number, index] = _measures(rule(split, trial.alpha), utilities, trial.labels[split.test_rows])
            cost_bounds[index] = chosen_bound(policies[1][:, split.calibration_rows], utilities, CONFIDENCE)[1]
            advance(1)
    curves = _curves(trial, methods, rules, utilities)
    sizes = trial.alpha, trial.n, trial.n_calibration
    return DecisionComparison(tuple(rules), utility.actions, *sizes, values, cost_bounds, curves)


def _format_measure(value: Any, share: bool) -> str:
    if isinstance(value, str):
        return value
    return "–" if np.isnan(value) else format_share(value) if share else f"{value:.3f}"


def _rules(
    trial: Trial, methods: tuple[Method, ...], utility: Utility, policies: tuple[Indices, Vector]
) -> dict[str, DecisionRule]:
    """Return the decision rules by name; `policies` holds the actions and costs of the policies of "bounded cost".

    A rule is a function of a split and of alpha. It returns the action of each test row, and the certificate of each
    action: the utility that it has with probability 1 − alpha.
    """
    policy, utilities = utility.policy(trial.classes), utility.of(trial.classes)
    betas = dispatch.decision_scores(trial.rows, trial.labels, policy)
    best_responses = dispatch.best_response(trial.rows, utilities)
    actions, certificates = _worst_cases(dispatch.row_orders(trial.rows), utilities)

    def calibrated(split: Split, alpha: float) -> Actions:
        limit = np.array([[kth_smallest(betas[split.calibration_rows], alpha)]])
        return dispatch.decide(trial.rows.take(split.test_rows), policy, limit, None)

    def worst_case(method: Method, split: Split, alpha: float) -> Actions:
        calibrated = calibrate_on_split(trial, method, split)
        sizes = predict_rows(trial, method, calibrated.at(alpha), split.test_rows, calibrated.u).sizes
        return actions[split.test_rows, sizes], certificates[split.test_rows, sizes]

    def expected(split: Split, alpha: float) -> Actions:
        return best_responses[split.test_rows], np.full(trial.n_test, np.nan)

    def bounded(split: Split, alpha: float) -> Actions:
        chosen = policies[1][:, split.calibration_rows].mean(axis=1).argmin()
        return policies[0][chosen, split.test_rows], np.full(trial.n_test, np.nan)

    over_sets = {f"worst case over {method}": partial(worst_case, method) for method in methods}
    return {CALIBRATED: calibrated, **over_sets, BOUNDED: bounded, EXPECTED: expected}


def _worst_cases(order: Indices, utilities: Vector) -> tuple[Indices, Vector]:
    """Find for each row, and each r = 0 … K, the action with the best worst case over the r most probable classes.

    Return these actions, and their utilities in the worst case, each of shape (n, K + 1). For r = 0, an empty set, the
    action is the one with the best worst case over all classes, and the utility is −∞.
    """
    n, n_classes = order.shape
    actions = np.zeros((n, n_classes + 1), dtype=np.int32)
    certificates = np.full((n, n_classes + 1), -np.inf)
    for a, of_action in enumerate(utilities):
        lowest = np.minimum.accumulate(of_action[order], axis=1)
        better = lowest > certificates[:, 1:]
        actions[:, 1:][better] = a
        np.maximum(certificates[:, 1:], lowest, out=certificates[:, 1:])
    actions[:, 0] = utilities.min(axis=1).argmax()
    return actions, certificates


def _measures(decided: Actions, utilities: Vector, labels: Codes) -> Vector:
    """Compute the measures of one split's decisions on the test rows, in the order of `DecisionComparison.measures`."""
    codes, certificates = decided
    utility, kept, error = action_outcomes(codes, certificates, utilities, labels)
    certified, nothing = np.isfinite(certificates), np.isnan(certificates).all()
    by_action = [codes == a for a in range(len(utilities))]
    return np.array(
        [
            np.nan if nothing else kept.mean(),
            certificates[certified].mean() if certified.any() else np.nan,
            utility.mean(),
            *(chosen.mean() for chosen in by_action),
            *(error[chosen].mean() if chosen.any() else np.nan for chosen in by_action),
        ]
    )


def _curves(
    trial: Trial, methods: tuple[Method, ...], rules: dict[str, DecisionRule], utilities: Vector
) -> tuple[DecisionCurve, ...]:
    """Compute each rule's mean certificate (guaranteed utility) and mean utility on the first split, for each alpha."""
    split = draw_split(trial, 0)
    labels = trial.labels[split.test_rows]
    curves = []
    for (name, rule), method in zip(rules.items(), (None, *methods, None, None), strict=True):
        by_level = np.array([_measures(rule(split, level), utilities, labels) for level in LEVELS])
        kept, certificate, utility, *_ = by_level.T
        curves.append(DecisionCurve(name, method, LEVELS, None if np.isnan(kept).all() else certificate, utility))
    return tuple(curves)
