"""What a predictor needs where there is no Python: a table, a few limits, and the number of the row's group.

The torch layer, the ONNX graph and the C header are made of this and of nothing else. Sets: a class at rank r is in
the set of a row in group g if its score is at most `thresholds[g, k]` and its rank at most `ranks[g, k]`. Decisions:
β, or one per outcome, is `betas[g]`. p-values, in torch alone, also need all calibration scores.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pippin._conformal.mondrian import GroupNames, group_codes
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.rules import MondrianRule, UnitsRule
from pippin._decisions.decider import Decider
from pippin._engine.protocol import Held
from pippin._runtime.arrays import Classes, Codes, Indices, Vector
from pippin._runtime.errors import InputError
from pippin._theory.formula import Coefficients
from pippin._theory.policy import Policy
from pippin._theory.scores import Score, coefficients


class KnownGroups(NamedTuple):
    """The groups whose limits are known, by number: that of their row of limits.

    `names` are theirs. `other` is the row of groups that calibration did not see; None where these are refused.
    """

    per: str
    names: tuple[str | int, ...]
    other: int | None

    @property
    def all(self) -> GroupNames:
        return self.names if self.other is None else (*self.names, None)

    def codes(self, groups: Any, n: int) -> Codes:
        """The number of each row's group, from names as `predict` takes them."""
        found = group_codes(self.all, self.per, groups, n)
        assert found is not None
        return found


class PortableSets(NamedTuple):
    """Sets by the formula of a score and by limits: one for all classes of a group, (G, 1), or one each, (G, K)."""

    describe: Callable[[], str]
    score: Score
    c: Coefficients
    alpha: float
    n_calibration: int
    classes: Classes
    thresholds: Vector
    ranks: Indices | None
    groups: KnownGroups | None

    @property
    def one(self) -> float | None:
        """The threshold, where there is but one and nothing else to ask for."""
        single = self.groups is None and self.ranks is None and self.thresholds.size == 1
        return float(self.thresholds[0, 0]) if single else None


class PortableP(NamedTuple):
    """p-values by the formula of a score and by the calibration scores that it counts among."""

    score: Score
    c: Coefficients
    n_calibration: int
    classes: Classes
    held: Held
    groups: KnownGroups | None


class PortableDecisions(NamedTuple):
    """Decisions by a utility's policy and by β: one for each group, (G, 1), or one per outcome, (G, outcomes)."""

    describe: Callable[[], str]
    policy: Policy
    actions: tuple[str, ...]
    alpha: float
    n_calibration: int
    classes: Classes
    betas: Vector
    groups: KnownGroups | None

    @property
    def lowest(self) -> float:
        """What the safe action is worth at least."""
        return float(self.policy.table[self.policy.safe].min())


def portable(predictor: Any) -> PortableSets | PortableDecisions:
    """Its part of this page; raises an InputError if its sets need more than finitely many thresholds.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> portable(pippin.calibrate(data.probs, data.labels, "pip", per="class")).thresholds.shape
    (1, 12)
    """
    return portable_decisions(predictor) if isinstance(predictor, Decider) else portable_sets(predictor)


def portable_sets(predictor: Any) -> PortableSets:
    """Return what sets need, for one threshold, or one per class, kind, cluster, group, or class and group."""
    rule = _rule(predictor)
    if not isinstance(rule, MondrianRule | UnitsRule):
        raise InputError(
            f"Expected a predictor with finitely many thresholds, got {predictor!r}",
            "only those can leave Python, so calibrate one for all, per class, kind, cluster or group",
        )
    limits = rule.limits
    return PortableSets(
        predictor.describe,
        predictor.score,
        coefficients(predictor.score, len(predictor.classes)),
        predictor.alpha,
        predictor.n_calibration,
        predictor.classes,
        _narrowed(limits.scores),
        limits.ranks,
        _groups(predictor.per or "", predictor.groups),
    )


def portable_p(predictor: Any) -> PortableP:
    """Return what p-values need, for one threshold, or one per class, kind, cluster, group, or class and group."""
    rule = _rule(predictor)
    if not isinstance(rule, MondrianRule):
        raise InputError(
            f"Expected a predictor whose calibration rows count alike, got {predictor!r}",
            "calibrate one for all, per class, kind, cluster or group, or stay in Python, if it has p_values",
        )
    predictor.check_p_values()
    groups = _groups(predictor.per or "", predictor.groups)
    c = coefficients(predictor.score, len(predictor.classes))
    return PortableP(predictor.score, c, predictor.n_calibration, predictor.classes, rule.cells.held, groups)


def portable_decisions(decider: Any) -> PortableDecisions:
    """What decisions need; of any decider."""
    if not isinstance(decider, Decider):
        raise InputError(
            f"Expected a decider, got {decider!r}",
            "calibrate one with pippin.decisions.calibrate, or pass it to the other",
        )
    return PortableDecisions(
        decider.describe,
        decider._policy,
        decider.utility.actions,
        decider.alpha,
        decider.n_calibration,
        decider.classes,
        _narrowed(decider._limits),
        _groups(decider.per or "", decider.groups),
    )


def _rule(predictor: Any) -> Any:
    """Return the rule of a predictor that is not sharpened; None for anything else."""
    if not isinstance(predictor, ConformalPredictor):
        return None
    if predictor.sharpeners:
        raise InputError(
            f"Expected a predictor without a sharpener, got {predictor!r}",
            "only Python sharpens yet, so calibrate one on the probabilities as they are",
        )
    return predictor._rule


def _groups(per: str, names: GroupNames | None) -> KnownGroups | None:
    if names is None:
        return None
    known = tuple(name for name in names if name is not None)
    return KnownGroups(per, known, len(known) if None in names else None)


def _narrowed(limits: Vector) -> Vector:
    """One column where all of a row's limits are the same."""
    return limits[:, :1] if bool((limits == limits[:, :1]).all()) else limits
