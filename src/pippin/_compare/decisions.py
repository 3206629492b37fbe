"""Decisions on the same random splits: calibrated decisions, the worst case over prediction sets, the best response."""

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
from pippin._decisions.decisions import action_outcomes
from pippin._decisions.utility import Utility
from pippin._engine import dispatch
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
MEASURES = ("kept", "certificate", "utility")
LEVELS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)

Actions = tuple[Codes | Indices, Vector]  # actions and certificates of the test rows
DecisionRule = Callable[[Split, float], Actions]  # split and alpha -> actions


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
    """Compare decisions of every kind on the same random splits.

    They are those of `pippin.decisions.calibrate`, the worst case over the sets of each score (empty
    sets take the safe action and certify nothing), and the best response, which has no certificates.

    Args:
        probs: (n, K) probabilities of rows that the classifier was not trained on.
        labels: the true classes; a pandas Series with the index of probs.
        utility: what each action is worth if each class is the true one.
        scores: scores, or their spellings, with one threshold for all.
        alpha: the share of broken certificates allowed.
        splits: the number of random splits.
        calibration_fraction: the share of rows that calibrates; the rest tests.
        seed: the seed of the splits; split i is that of `compare`.
        classes: names of the K columns; a data frame brings its own.
        from_logits: `probs` are logits, of which a softmax is taken.

    >>> import numpy as np, pippin
    >>> data = pippin.load_example()
    >>> worth = [*np.eye(12), np.full(12, 0.3)]  # to name the plant rightly, and to ask
    >>> utility = pippin.decisions.Utility(worth, actions=[*data.classes, "ask"], classes=data.classes)
    >>> options = {"splits": 20, "classes": data.classes}
    >>> comparison = pippin.decisions.compare(data.probs, data.labels, utility, "ip", 0.02, **options)
    >>> for row in comparison.summary().iter_rows(named=True):
    ...     print(f"{row['decisions']:20}  kept {row['kept']:.3f}  utility {row['utility']:.2f}  ask {row['ask']:.2f}")
    calibrated decisions  kept 0.981  utility 0.60  ask 0.55
    worst case over ip    kept 0.997  utility 0.42  ask 0.82
    best response         kept nan  utility 0.80  ask 0.00
    """
    data = as_labelled(probs, labels, classes, from_logits)
    trial = make_trial(data, alpha, calibration_fraction, seed)
    return decisions_in(trial, parse_methods(scores), utility, splits)


def decisions_in(trial: Trial, methods: tuple[Method, ...], utility: Utility, splits: int) -> "DecisionComparison":
    """Compare decisions on rows that are already ranked."""
    if odd := [method for method in methods if not method.plain]:
        what = f"Expected scores with one threshold for all rows, got {odd[0]}"
        raise InputError(what, "leave it out: other methods cannot be compared here")
    check_splits(splits)
    utilities = utility.of(trial.classes)
    rules = _rules(trial, methods, utility)
    values = np.empty((len(rules), splits, len(MEASURES) + 2 * len(utility.actions)))
    with progress_bar("splits of decisions", splits) as advance:
        for index in range(splits):
            split = draw_split(trial, index)
            for number, rule in enumerate(rules.values()):
                values[number, index] = _measures(rule(split, trial.alpha), utilities, trial.labels[split.test_rows])
            advance(1)
    curves = _curves(trial, methods, rules, utilities)
    return DecisionComparison(tuple(rules), utility.actions, trial.alpha, trial.n, trial.n_calibration, values, curves)


class DecisionCurve(NamedTuple):
    """Mean certificate and mean utility on the first split, at many levels.

    Attributes:
        name: the kind of decisions.
        method: the method whose sets they rest on; None for others.
        levels: the values of alpha.
        promised: the mean certificate; None for decisions without certificates.
        came: the mean utility.
    """

    name: str
    method: Method | None
    levels: tuple[float, ...]
    promised: Vector | None
    came: Vector


@dataclass(frozen=True, eq=False, repr=False)
class DecisionComparison:
    """Measures of every kind of decisions on every split.

    Attributes:
        names: the kinds of decisions.
        actions: the names of the actions.
        alpha: the share of certificates that may be broken.
        n: the number of rows.
        n_calibration: the number of calibration rows in each split.
        values: values[kind, split, measure]; the measures are certificates kept, the mean certificate, the mean
            utility, then the share of each action, and of each action the share of errors: objects on which it
            was worth less than the best worst case.
        curves: mean certificate and mean utility at many levels, for each kind.
    """

    names: tuple[str, ...]
    actions: tuple[str, ...]
    alpha: float
    n: int
    n_calibration: int
    values: Vector
    curves: tuple[DecisionCurve, ...]

    @property
    def splits(self) -> int:
        """Number of splits."""
        return int(self.values.shape[1])

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures in their order."""
        return (*MEASURES, *self.actions, *(f"errors of {action}" for action in self.actions))

    def summary(self) -> "polars.DataFrame":
        """Compute the mean of every measure over the splits and the standard error of `kept`, one row per kind.

        The standard error is that of one split's share; splits of the same rows overlap.
        """
        import polars

        columns: dict[str, Any] = {"decisions": list(self.names)}
        for i, name in enumerate(self.measures):
            values = np.ma.masked_where(np.isnan(self.values[:, :, i]), self.values[:, :, i])
            columns[name] = values.mean(axis=1).filled(np.nan)
        columns["kept_sd"] = self.values[:, :, 0].std(axis=1, ddof=min(1, self.splits - 1))
        return polars.DataFrame(columns)

    def plot(self) -> "tuple[Axes, ...]":
        """Plot the mean certificate and the mean utility at every level: two Matplotlib axes."""
        from pippin._plotting.decisions import plot_promises

        return plot_promises(self)

    def _repr_html_(self) -> str:
        means = self.summary().drop("kept_sd").to_dict(as_series=False)
        shares = {"kept", *self.actions, *(f"errors of {action}" for action in self.actions)}
        columns = {name: [_told(value, name in shares) for value in values] for name, values in means.items()}
        note = "Kept: certificates that came true. An error: an action that was worth less than playing safe."
        return html_columns(f"{self!r}, {100 * (1 - self.alpha):g}% asked for: means", columns, note=note)

    def __repr__(self) -> str:
        return f"DecisionComparison({', '.join(self.names)}; {self.splits:,} splits of {self.n:,} rows)"


def _told(value: Any, share: bool) -> str:
    if isinstance(value, str):
        return value
    return "–" if np.isnan(value) else format_share(value) if share else f"{value:.3f}"


def _rules(trial: Trial, methods: tuple[Method, ...], utility: Utility) -> dict[str, DecisionRule]:
    """Return every kind of decisions by name."""
    policy, utilities = utility.policy(trial.classes), utility.of(trial.classes)
    betas = dispatch.decision_scores(trial.rows, trial.labels, policy)
    answers = dispatch.best_response(trial.rows, utilities)
    actions, certificates = _worst_cases(dispatch.row_orders(trial.rows), utilities)

    def calibrated(split: Split, alpha: float) -> Actions:
        limit = np.array([[kth_smallest(betas[split.calibration_rows], alpha)]])
        return dispatch.decide(trial.rows.take(split.test_rows), policy, limit, None)

    def worst_case(method: Method, split: Split, alpha: float) -> Actions:
        calibrated = calibrate_on_split(trial, method, split)
        here = split.test_rows, predict_rows(trial, method, calibrated.at(alpha), split.test_rows, calibrated.u).sizes
        return actions[here], certificates[here]

    def expected(split: Split, alpha: float) -> Actions:
        return answers[split.test_rows], np.full(trial.n_test, np.nan)

    over_sets = {f"worst case over {method}": partial(worst_case, method) for method in methods}
    return {CALIBRATED: calibrated, **over_sets, EXPECTED: expected}


def _worst_cases(order: Indices, utilities: Vector) -> tuple[Indices, Vector]:
    """Return the action with the best worst case over the first r classes of each row, and its value, (n, K + 1).

    For an empty set it is the best worst case over all classes, without a certificate.
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


def _measures(acted: Actions, utilities: Vector, labels: Codes) -> Vector:
    codes, certificates = acted
    worth, kept, error = action_outcomes(codes, certificates, utilities, labels)
    promised, nothing = np.isfinite(certificates), np.isnan(certificates).all()
    by_action = [codes == a for a in range(len(utilities))]
    return np.array(
        [
            np.nan if nothing else kept.mean(),
            certificates[promised].mean() if promised.any() else np.nan,
            worth.mean(),
            *(chosen.mean() for chosen in by_action),
            *(error[chosen].mean() if chosen.any() else np.nan for chosen in by_action),
        ]
    )


def _curves(
    trial: Trial, methods: tuple[Method, ...], rules: dict[str, DecisionRule], utilities: Vector
) -> tuple[DecisionCurve, ...]:
    split = draw_split(trial, 0)
    labels = trial.labels[split.test_rows]
    curves = []
    for (name, rule), method in zip(rules.items(), (None, *methods, None), strict=True):
        kept, promised, came, *_ = np.array([_measures(rule(split, level), utilities, labels) for level in LEVELS]).T
        curves.append(DecisionCurve(name, method, LEVELS, None if np.isnan(kept).all() else promised, came))
    return tuple(curves)
