"""How good decisions are: what was promised, what came of it, and what expected utility would have done."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.verdicts import Measured, verdict
from pippin._decisions.results import Decisions
from pippin._decisions.utility import Utility
from pippin._engine import decisions as engine_decisions
from pippin._runtime.arrays import Classes, Codes, Flags, Indices, Vector
from pippin._runtime.errors import InputError
from pippin._runtime.showing import Share, html_table, shown_share
from pippin._theory.level import as_alpha
from pippin._validation.index import same_index
from pippin._validation.labels import as_classes, as_labels
from pippin._validation.rows import as_rows


class Came(NamedTuple):
    """What came of some decisions: what each was worth, whether its certificate was kept, and whether it was an error.

    An error is an action that was worth less than the best worst case, which somebody who plays safe has for sure.
    """

    worth: Vector
    kept: Flags
    error: Flags


def came_of(codes: Codes | Indices, certificates: Vector, utilities: Vector, labels: Codes) -> Came:
    """What these actions were worth, the labels being the true classes."""
    worth = utilities[codes, labels]
    return Came(worth, worth >= certificates, worth < utilities.min(axis=1).max())


@dataclass(frozen=True)
class DecisionEvaluation:
    """Every measure of some decisions.

    Means of certificates leave out objects without one; they are NaN if none has one.

    Attributes:
        n: how many objects.
        kept: the share of actions that were worth at least their certificate.
        mean_certificate: the mean of what was promised.
        mean_utility: the mean of what came of it.
        uncertified: the share of objects without a certificate.
        shares: the share of objects that each action was taken on.
        errors: of each action that was taken, the share of its objects on which it was worth less than the best
            worst case, which somebody who plays safe has for sure.
        alpha: the level that was asked for, if it was told.
        n_calibration: how many rows calibrated, if it was told.
    """

    n: int
    kept: float
    mean_certificate: float
    mean_utility: float
    uncertified: float
    shares: dict[str, float]
    errors: dict[str, float]
    alpha: float | None = None
    n_calibration: int | None = None

    @property
    def verdict(self) -> str:
        """Whether certificates are kept as often as was asked for, in a sentence."""
        measured = Measured(self.kept, self.n, self.alpha, self.n_calibration)
        above = "the worst case over sets, tied scores or easier rows do that"
        return verdict(measured, f"keeps {100 * self.kept:.1f} % of its certificates", above)

    def _repr_html_(self) -> str:
        rows = [
            (name, Share(share), shown_share(self.errors[name]) if name in self.errors else "–")
            for name, share in self.shares.items()
        ]
        told = f"{self.n:,} objects: {self.verdict}. Mean certificate {self.mean_certificate:.3f}, "
        note = "Errors: of the objects with this action, those on which playing safe would have been worth more."
        heads = ("action", "share of objects", "errors")
        return html_table(f"{told}mean utility {self.mean_utility:.3f}.", heads, rows, note=note)

    def __str__(self) -> str:
        width = max(6, *(len(name) for name in self.shares))
        none = f"no certificate     {self.uncertified:.4f}   share of objects without one" if self.uncertified else None
        lines = [
            f"{self.n:,} objects",
            f"certificate kept   {self.kept:.4f}   share of actions that were worth at least their certificate",
            f"mean certificate   {self.mean_certificate:.4f}   what was promised",
            f"mean utility       {self.mean_utility:.4f}   what came of it",
            *([none] if none else []),
            "",
            f"{'action':<{width}}   share  errors",
            *(f"{name:<{width}}  {share:.4f}  {self._error(name)}" for name, share in self.shares.items()),
        ]
        return "\n".join(lines)

    def _error(self, action: str) -> str:
        return f"{self.errors[action]:.4f}" if action in self.errors else f"{'–':>6}"


def evaluate_decisions(
    decisions: Decisions,
    labels: ArrayLike,
    utility: Utility,
    *,
    alpha: float | None = None,
    n_calibration: int | None = None,
) -> DecisionEvaluation:
    """What came of decisions: certificates kept, utilities promised and had, and each action's share and errors.

    Args:
        decisions: what `decide` returned.
        labels: the true classes, as indices or as names.
        utility: what each action is worth if each class is the true one.
        alpha: the level, for the verdict.
        n_calibration: the rows that calibrated, which the verdict then allows for.

    >>> import numpy as np, pippin
    >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([1, 0, 1]), ("crop", "weed"))
    >>> utility = pippin.decisions.Utility([[-2, 1], [1, -1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
    >>> print(pippin.decisions.evaluate(pippin.decisions.decide(sets, utility), ["crop", "weed"], utility))
    2 objects
    certificate kept   0.5000   share of actions that were worth at least their certificate
    mean certificate   0.6500   what was promised
    mean utility       -0.8500   what came of it
    <BLANKLINE>
    action   share  errors
    spray   0.5000  1.0000
    leave   0.0000       –
    ask     0.5000  0.0000
    """
    same_index("decisions", decisions.index, labels=labels)
    if decisions.names != utility.actions:
        raise InputError(
            f"Expected the utility that the decisions were made with ({', '.join(decisions.names)}), got one of "
            f"{', '.join(utility.actions)}",
            "pass the same one",
        )
    if n_calibration is not None and (isinstance(n_calibration, bool) or not n_calibration >= 1):
        raise InputError(f"Expected n_calibration to be a number of rows, got {n_calibration!r}", "leave it out")
    truth = as_labels(labels, len(decisions), decisions.classes)
    came = came_of(decisions.codes, decisions.certificates, utility.of(decisions.classes), truth)
    promised = np.isfinite(decisions.certificates)
    taken = {name: decisions.codes == a for a, name in enumerate(decisions.names)}
    return DecisionEvaluation(
        n=len(decisions),
        kept=float(came.kept.mean()),
        mean_certificate=float(decisions.certificates[promised].mean()) if promised.any() else float("nan"),
        mean_utility=float(came.worth.mean()),
        uncertified=float(1 - promised.mean()),
        shares={name: float(own.mean()) for name, own in taken.items()},
        errors={name: float(came.error[own].mean()) for name, own in taken.items() if own.any()},
        alpha=None if alpha is None else as_alpha(alpha),
        n_calibration=n_calibration,
    )


def best_response(
    probs: Any, utility: Utility, *, classes: Classes | None = None, from_logits: bool = False
) -> Decisions:
    """For each row the action argmax_a Σ_y p_y·U(a, y) of the largest expected utility, which certifies nothing.

    It is the best that there is if the probabilities are right, and the price of safety is seen beside it.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        utility: what each action is worth if each class is the true one.
        classes: names of the K columns; a data frame brings its own.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> utility = pippin.decisions.Utility([[-2, 1], [1, -1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
    >>> pippin.decisions.best_response([[0.1, 0.9], [0.3, 0.7], [0.8, 0.2]], utility).actions
    array(['spray', 'ask', 'leave'], dtype='<U5')
    """
    rows = as_rows(probs, from_logits)
    names = as_classes(classes, rows)
    codes = engine_decisions.best_response(rows, utility.of(names))
    return Decisions(codes, np.full(rows.n, -np.inf), utility.actions, names, index=rows.index)
