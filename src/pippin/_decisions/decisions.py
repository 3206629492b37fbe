"""Decisions: the action with the best worst-case utility over an object's prediction set, or best expected utility."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.frames import frame
from pippin._conformal.judgment import (
    KindShare,
    Requested,
    as_count,
    judge_share,
    row_deviation,
    shares_of_kinds,
    unit_deviation,
    verdict_lines,
    verdict_of_kinds,
)
from pippin._conformal.rules import calibration_size, kind_levels, warn_without_units
from pippin._conformal.sets import PredictionSets
from pippin._decisions.utility import Utility
from pippin._engine import dispatch
from pippin._runtime.arguments import checked
from pippin._runtime.arrays import Classes, Codes, Flags, Indices, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._runtime.showing import AMBER, BLUE, GREY, Chips, Share, format_number, format_share, html_table, visible
from pippin._theory.level import as_alpha
from pippin._validation.index import same_index
from pippin._validation.labels import as_labels, as_numbered_groups, as_rows_and_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 10  # maximum number of decisions that a notebook displays
TINTS = (BLUE, "rgba(0,158,115,0.30)", AMBER, "rgba(204,121,167,0.34)", GREY)  # background colors of actions


class Decision(NamedTuple):
    """Action for one object, and its certified utility.

    Attributes:
        action: the name of the action.
        certificate: the utility of the action that is guaranteed with probability 1 − alpha; −∞ without a guarantee.
    """

    action: str
    certificate: float


@dataclass(frozen=True, eq=False, repr=False)
class Decisions:
    """Action of each object with its certificate, the utility that is guaranteed with probability 1 − alpha.

    Attributes:
        codes: index of each object's action in `names`.
        certificates: guaranteed utility of each object; −∞ without a guarantee.
        names: names of the actions.
        classes: names of the classes.
        fallbacks: True for objects with an empty set, for which `decide` uses its fallback action; None for decisions
            that are not computed from sets.
        index: the index of the objects if they are rows of a pandas frame, otherwise None.

    >>> import numpy as np, pippin
    >>> sets = pippin.PredictionSets(np.array([1, 2, 1]), np.array([1, 0, 1, 0]), ("crop", "weed"))
    >>> utility = pippin.decisions.Utility([[-2, 1], [1, -1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
    >>> decisions = pippin.decisions.decide(sets, utility, fallback="ask")
    >>> decisions.actions, decisions.certificates
    (array(['spray', 'ask', 'leave'], dtype='<U5'), array([1. , 0.3, 1. ]))
    >>> decisions.counts()
    {'spray': 1, 'leave': 1, 'ask': 1}
    """

    codes: Indices
    certificates: Vector
    names: tuple[str, ...]
    classes: Classes
    fallbacks: Flags | None = None
    index: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", read_only(self.codes))
        object.__setattr__(self, "certificates", read_only(self.certificates))

    @cached_property
    def actions(self) -> NDArray[Any]:
        """Name of each object's action."""
        return read_only(np.array(self.names)[self.codes])

    @property
    def n_fallbacks(self) -> int:
        """Number of objects with an empty prediction set, for which `decide` uses its fallback action."""
        return 0 if self.fallbacks is None else int(self.fallbacks.sum())

    def counts(self) -> dict[str, int]:
        """Count the objects for which each action is selected.

        Returns:
            The number of objects by action, including actions with 0 objects.
        """
        return dict(zip(self.names, np.bincount(self.codes, minlength=len(self.names)).tolist(), strict=True))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the share of objects with each action as a bar, with a segment for each value of the certificate.

        Args:
            ax: Matplotlib axes; new ones by default.

        Returns:
            The axes.
        """
        from pippin._plotting.decisions import plot_actions

        return plot_actions(self, ax)

    def to_frame(self) -> Any:
        """Convert to a data frame with the columns action and certificate (guaranteed utility).

        Returns:
            A pandas frame with the index of the objects if they come from a pandas frame, otherwise a polars frame.
        """
        return frame({"action": self.actions.tolist(), "certificate": self.certificates}, self.index)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, i: int) -> Decision:
        row = range(len(self))[i]
        return Decision(self.names[self.codes[row]], float(self.certificates[row]))

    def __iter__(self) -> Iterator[Decision]:
        return (self[i] for i in range(len(self)))

    def _repr_html_(self) -> str:
        rows = []
        for i in range(min(SHOWN, len(self))):
            action, certificate = self[i]
            name = str(i if self.index is None else self.index[i])
            certified = "nothing" if certificate == -np.inf else format_number(certificate)
            rows.append((name, Chips([action], TINTS[self.codes[i] % len(TINTS)]), certified))
        caption = repr(self).removeprefix("Decisions(").removesuffix(")")
        note = "Certified utility: a lower bound that holds at the level of calibration."
        heads = ("object", "action", "certified utility")
        return html_table(caption, heads, rows, left_out=len(self) - len(rows), note=note)

    def __repr__(self) -> str:
        shares = ", ".join(f"{visible(name)} {100 * n / max(1, len(self)):.0f}%" for name, n in self.counts().items())
        return f"Decisions({len(self):,} objects: {shares})"


@checked
def decide(sets: PredictionSets, utility: Utility, *, fallback: str | None = None) -> Decisions:
    """Select the action with the largest worst-case utility over each set C, argmax_a min_{y in C} U(a, y).

    This utility is the certificate ν of the action: if C contains the true class Y, then U(action, Y) ≥ ν. So
    P(U(action, Y) ≥ ν) ≥ 1 − α for sets with coverage 1 − α. Of equally good actions, the first is selected.
    An empty set has no worst case: its action is `fallback`, without a certificate (ν = −∞).

    Args:
        sets: prediction sets of any predictor.
        utility: utility of each action under each class.
        fallback: action for empty sets.

    Returns:
        One action and certificate per set.

    Raises:
        InputError: there are empty sets but no fallback, or a class has no utility.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> crops = ("maize", "common_wheat", "sugar_beet")
    >>> kinds = {name: "crop" if name in crops else "weed" for name in data.classes}
    >>> utility = pippin.decisions.Utility({"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1},
    ...                           "ask": {"weed": 0.3, "crop": 0.3}}, kinds=kinds)
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "ip", 0.02, classes=data.classes)
    >>> pippin.decisions.decide(predictor.predict(data.probs[2000:]), utility, fallback="ask")
    Decisions(2,986 objects: spray 52%, leave 7%, ask 42%)
    """
    empty = sets.sizes == 0
    if fallback not in (None, *utility.actions):
        raise InputError(f"Expected fallback to be one of {utility.actions}, got {fallback!r}", "name one of them")
    few = f"{int(empty.sum()):,} of {len(sets):,} sets are empty"
    if fallback is None and empty.any():
        raise InputError(f"{few}, so they have no worst case", f"pass fallback={utility.actions[-1]!r}")
    default = 0 if fallback is None else utility.actions.index(fallback)
    codes, certificates = np.full(len(sets), default, dtype=np.int32), np.full(len(sets), -np.inf)
    starts = sets.offsets[:-1][~empty]
    # Loop over actions to limit memory: the utilities of one action at a time are computed for the members of all sets.
    worst = np.stack([np.minimum.reduceat(row[sets.members], starts) for row in utility.of(sets.classes)])
    codes[~empty], certificates[~empty] = worst.argmax(axis=0), worst.max(axis=0)
    if empty.any():
        warn(f"{few}: their action is {fallback!r}, without a certificate.")
    return Decisions(codes, certificates, utility.actions, sets.classes, empty, sets.index)


@checked
def best_response(
    probs: Any, utility: Utility, *, classes: Classes | None = None, from_logits: bool = False
) -> Decisions:
    """Maximize the expected utility of each row, argmax_a Σ_y p_y·U(a, y), without certificates.

    These actions are optimal if the probabilities are correct. They have no certificate, which would be a utility
    guaranteed with probability 1 − alpha.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        utility: utility of each action under each class.
        classes: names of the K columns; by default those of a data frame, or 0 to K − 1.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        One action per row, with certificates of −∞.

    >>> import pippin
    >>> utility = pippin.decisions.Utility([[-2, 1], [1, -1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
    >>> pippin.decisions.best_response([[0.1, 0.9], [0.3, 0.7], [0.8, 0.2]], utility).actions
    array(['spray', 'ask', 'leave'], dtype='<U5')
    """
    rows, names = as_rows_and_classes(probs, classes, from_logits)
    codes = dispatch.best_response(rows, utility.of(names))
    return Decisions(codes, np.full(rows.n, -np.inf), utility.actions, names, index=rows.index)


def action_outcomes(
    codes: Codes | Indices, certificates: Vector, utilities: Vector, labels: Codes
) -> tuple[Vector, Flags, Flags]:
    """Compute the utility of each action under the true class; flag the certificates that hold, and the errors.

    A certificate (guaranteed utility) holds if the utility is at least as large. An action is an error if its utility
    is below max_a min_y U(a, y), which the action with the best worst case always reaches.
    """
    realized = utilities[codes, labels]
    return realized, realized >= certificates, realized < utilities.min(axis=1).max()


ABOVE = "the worst case over sets, tied scores or easier rows"  # reasons for more certificates that hold than requested


@dataclass(frozen=True)
class DecisionEvaluation:
    """Measures of decisions on labeled objects.

    A certificate is the utility that an action has with probability at least 1 − alpha.

    Attributes:
        n: number of objects.
        kept: share of objects whose certificate holds: the realized utility is at least the certificate.
        mean_certificate: mean certificate of the objects that have one; NaN if no object has one.
        mean_utility: mean realized utility.
        uncertified: share of objects without a certificate.
        shares: share of objects of each action.
        errors: for each action that occurs, the share of its objects whose realized utility is below
            max_a min_y U(a, y), which the action with the best worst case always reaches.
        kept_by_action: for each action that occurs, the share of its objects whose certificate holds; empty without
            certificates.
        alpha: the significance level, or None if it is unknown or differs by superclass ("kind").
        n_calibration: the number of calibration rows, or None if it is unknown.
        kinds: share of certificates that hold, level and verdict of each kind (superclass) with a guarantee of its own;
            empty without kinds.
        unit_kept: share of certificates that hold in each unit (cluster of rows), which counts once in the verdict;
            empty without units.
    """

    n: int
    kept: float
    mean_certificate: float
    mean_utility: float
    uncertified: float
    shares: dict[str, float]
    errors: dict[str, float]
    kept_by_action: dict[str, float] = field(default_factory=dict)
    alpha: float | None = None
    n_calibration: int | None = None
    kinds: dict[str, KindShare] = field(default_factory=dict)
    unit_kept: tuple[float, ...] = ()

    @property
    def verdict(self) -> str:
        """Sentence that compares 1 − alpha with the share of certificates (guaranteed utilities) that hold."""
        if self.kinds:
            return verdict_of_kinds(self.kinds)
        if self.alpha is None:
            return f"keeps {format_share(self.kept)} of its certificates; pass alpha to judge that"
        requested, units = Requested(self.alpha, self.n_calibration), self.unit_kept
        if not units:
            return _judge_kept(self.kept, self.n, requested)
        kept = sum(units) / len(units)
        text = f"keeps {format_share(kept)} of the certificates of a unit, on average over {len(units):,} units,"
        return judge_share(text, ABOVE, requested, kept, unit_deviation(units, requested))

    def _repr_html_(self) -> str:
        errors = {name: format_share(error) for name, error in self.errors.items()}
        held = {name: format_share(kept) for name, kept in self.kept_by_action.items()}
        rows = [(name, Share(x), errors.get(name, "–"), held.get(name, "–")) for name, x in self.shares.items()]
        means = f"Mean certificate {self.mean_certificate:.3f}, mean utility {self.mean_utility:.3f}."
        note = "Errors: share of the objects with this action for which playing safe would have had a higher utility."
        heads = ("action", "share of objects", "errors", "certificates kept")
        return html_table(f"{self.n:,} objects: {self.verdict}. {means}", heads, rows, note=note)

    def __str__(self) -> str:
        width = max(6, *(len(visible(name)) for name in self.shares))
        lines = [
            f"{self.n:,} objects",
            f"certificate kept   {self.kept:.4f}   share of actions that were worth at least their certificate",
            f"mean certificate   {self.mean_certificate:.4f}   certified utility",
            f"mean utility       {self.mean_utility:.4f}   realized utility",
        ]
        if self.uncertified:
            lines.append(f"no certificate     {self.uncertified:.4f}   share of objects without one")
        measures = {"share": self.shares, "errors": self.errors, "kept": self.kept_by_action}
        columns = {title: of_actions for title, of_actions in measures.items() if of_actions}
        lines += ["", f"{'action':<{width}}" + "".join(f"{title:>8}" for title in columns)]
        for name in self.shares:
            cells = (f"{of[name]:>8.4f}" if name in of else f"{'–':>8}" for of in columns.values())
            lines.append(f"{visible(name):<{width}}" + "".join(cells))
        return "\n".join([*lines, *verdict_lines(self.kinds, self.alpha, self.verdict)])


def _judge_kept(kept: float, n: int, requested: Requested) -> str:
    """Return a sentence about the share of certificates (guaranteed utilities) that held, and the requested one."""
    text = f"keeps {format_share(kept)} of its certificates"
    return judge_share(text, ABOVE, requested, kept, row_deviation(kept, n, requested))


@checked
def evaluate(
    decisions: Decisions,
    labels: ArrayLike,
    utility: Utility,
    *,
    units: ArrayLike | None = None,
    predictor: Any = None,
    alpha: float | None = None,
    n_calibration: int | None = None,
) -> DecisionEvaluation:
    """Evaluate decisions on labeled objects: share of certificates that hold, utilities, and errors by action.

    A certificate is the utility guaranteed with probability 1 − alpha. It holds if the utility of the action under the
    true class is at least as large.

    Args:
        decisions: decisions from `decide`, `Decider.decide` or `best_response`.
        labels: the true classes, as indices or as names.
        utility: utility of each action under each class.
        units: the cluster of each object, such as the photograph of each window; the verdict then treats units instead
            of objects as independent.
        predictor: the decider that made the decisions, or the predictor of the sets. The verdict uses its level (or its
            levels per superclass) and its number of calibration rows.
        alpha: significance level of the calibration, for the verdict, which compares 1 − alpha with the share of
            certificates that hold; without `predictor`.
        n_calibration: number of calibration rows, for the standard error in the verdict, without `predictor`.

    Returns:
        All measures; `print` shows them as a table.

    Raises:
        InputError: the actions of the decisions and of the utility differ, or labels do not match the objects.

    >>> import numpy as np, pippin
    >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([1, 0, 1]), ("crop", "weed"))
    >>> utility = pippin.decisions.Utility([[-2, 1], [1, -1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
    >>> print(pippin.decisions.evaluate(pippin.decisions.decide(sets, utility), ["crop", "weed"], utility))
    2 objects
    certificate kept   0.5000   share of actions that were worth at least their certificate
    mean certificate   0.6500   certified utility
    mean utility       -0.8500   realized utility
    <BLANKLINE>
    action   share  errors    kept
    spray   0.5000  1.0000  0.0000
    leave   0.0000       –       –
    ask     0.5000  0.0000  1.0000
    """
    same_index("decisions", decisions.index, labels=labels, units=units)
    if decisions.names != utility.actions:
        raise InputError(f"Expected a utility of the actions {decisions.names}, got {utility.actions}", "pass that one")
    if predictor is not None and (alpha is not None or n_calibration is not None):
        raise InputError("Expected predictor= or alpha= and n_calibration=, got both", "leave the numbers out")
    kinds, n_units = kind_levels(predictor), None
    unit_codes = np.zeros(len(decisions), dtype=np.int64)
    if units is not None:
        unit_codes, names = as_numbered_groups(units, len(decisions), "units")
        n_units = len(names)
    elif predictor is not None:
        warn_without_units(predictor)
    if predictor is not None:
        n_calibration = calibration_size(predictor, len(decisions), n_units)
        alpha = getattr(predictor, "alpha", None) if len({kind.requested.alpha for kind in kinds}) <= 1 else None
    truth = as_labels(labels, len(decisions), decisions.classes)
    certificates = decisions.certificates
    realized, kept, error = action_outcomes(decisions.codes, certificates, utility.of(decisions.classes), truth)
    certified, n_classes = np.isfinite(certificates), len(decisions.classes)
    by_class = np.stack([np.bincount(codes, minlength=n_classes) for codes in (truth, truth[kept])])
    rows = {name: decisions.codes == a for a, name in enumerate(decisions.names)}
    return DecisionEvaluation(
        n=len(decisions),
        kept=float(kept.mean()),
        mean_certificate=float(certificates[certified].mean()) if certified.any() else float("nan"),
        mean_utility=float(realized.mean()),
        uncertified=float(1 - certified.mean()),
        shares={name: float(chosen.mean()) for name, chosen in rows.items()},
        errors={name: float(error[chosen].mean()) for name, chosen in rows.items() if chosen.any()},
        kept_by_action={
            name: float(kept[chosen].mean()) for name, chosen in rows.items() if (chosen & certified).any()
        },
        alpha=None if alpha is None else as_alpha(alpha),
        n_calibration=as_count(n_calibration),
        kinds=shares_of_kinds(by_class, kinds, _judge_kept),
        unit_kept=() if units is None else tuple((np.bincount(unit_codes, kept) / np.bincount(unit_codes)).tolist()),
    )
