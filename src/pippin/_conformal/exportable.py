"""Parts of predictors and deciders from which torch layers, ONNX graphs and C headers are generated."""

from typing import Any, NamedTuple

from pippin._conformal.mondrian import GroupNames, group_codes
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.rules import MondrianRule, UnitsRule
from pippin._decisions.decider import Decider
from pippin._engine.protocol import SortedScores
from pippin._runtime.arrays import Codes, Indices, Vector
from pippin._runtime.errors import InputError
from pippin._theory.formula import Coefficients
from pippin._theory.policy import Policy
from pippin._theory.scores import coefficients


class ExportableGroups(NamedTuple):
    """Groups with limits of their own; the number of a group is its row of limits.

    `other` is the row of groups unseen at calibration; None if they are refused.
    """

    per: str
    names: tuple[str | int, ...]
    other: int | None

    def codes(self, groups: Any, n: int) -> Codes:
        """Return the row of limits of each group name."""
        codes = group_codes(self.names if self.other is None else (*self.names, None), self.per, groups, n)
        assert codes is not None
        return codes


class ExportableSets(NamedTuple):
    """Score and limits of a predictor's sets.

    A class at rank r is in the set of a row in group g if its score is at most `thresholds[g, k]` and its rank at most
    `ranks[g, k]`. Thresholds have one column, (G, 1), where all classes share them.
    """

    source: ConformalPredictor
    c: Coefficients
    thresholds: Vector
    ranks: Indices | None
    groups: ExportableGroups | None


class ExportablePValues(NamedTuple):
    """Score and calibration scores of a predictor's p-values."""

    source: ConformalPredictor
    c: Coefficients
    held: SortedScores
    groups: ExportableGroups | None


class ExportableDecisions(NamedTuple):
    """Policy of a utility and the multipliers β of a decider: one per group, (G, 1), or per outcome, (G, outcomes)."""

    source: Decider
    policy: Policy
    betas: Vector
    groups: ExportableGroups | None

    @property
    def lowest(self) -> float:
        """Worst utility of the safe action."""
        return float(self.policy.table[self.policy.safe].min())


ScoredExportable = ExportableSets | ExportablePValues
Exportable = ScoredExportable | ExportableDecisions


def exportable(source: Any) -> ExportableSets | ExportableDecisions:
    """Return the exportable parts of a predictor or a decider.

    Raises:
        InputError: it has other than finitely many thresholds, or a sharpener.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> exportable(pippin.calibrate(data.probs, data.labels, "pip", per="class")).thresholds.shape
    (1, 12)
    """
    return exportable_decisions(source) if isinstance(source, Decider) else exportable_sets(source)


def exportable_sets(predictor: Any) -> ExportableSets:
    """Return the exportable sets of a marginal or Mondrian predictor, or one for clustered rows."""
    rule = _rule(predictor)
    if not isinstance(rule, MondrianRule | UnitsRule):
        raise InputError(
            f"Expected a predictor with finitely many thresholds, got {predictor!r}",
            "only those can be exported, so calibrate one for all, per class, kind, cluster or group",
        )
    thresholds = _one_column(rule.limits.scores)
    return ExportableSets(predictor, _coefficients(predictor), thresholds, rule.limits.ranks, _groups(predictor))


def exportable_p_values(predictor: Any) -> ExportablePValues:
    """Return the exportable p-values of a marginal or Mondrian predictor."""
    rule = _rule(predictor)
    if not isinstance(rule, MondrianRule):
        raise InputError(
            f"Expected a predictor whose calibration rows have equal weights, got {predictor!r}",
            "calibrate one for all, per class, kind, cluster or group, or call its p_values in Python",
        )
    predictor.check_p_values()
    return ExportablePValues(predictor, _coefficients(predictor), rule.categories.held, _groups(predictor))


def exportable_decisions(decider: Any) -> ExportableDecisions:
    """Return the exportable decisions of a decider."""
    if not isinstance(decider, Decider):
        what = f"Expected a decider, got {decider!r}"
        raise InputError(what, "calibrate one with pippin.decisions.calibrate")
    return ExportableDecisions(decider, decider._policy, _one_column(decider._limits), _groups(decider))


def _rule(predictor: Any) -> Any:
    """Return the rule of a predictor without sharpener; None for anything else."""
    if not isinstance(predictor, ConformalPredictor):
        return None
    if predictor.sharpeners:
        what = f"Expected a predictor without a sharpener, got {predictor!r}"
        raise InputError(what, "sharpeners cannot be exported, so calibrate one on the probabilities as they are")
    return predictor._rule


def _coefficients(predictor: Any) -> Coefficients:
    return coefficients(predictor.score, len(predictor.classes))


def _groups(source: ConformalPredictor | Decider) -> ExportableGroups | None:
    names: GroupNames | None = source.groups
    if names is None:
        return None
    calibrated = tuple(name for name in names if name is not None)
    return ExportableGroups(source.per or "", calibrated, len(calibrated) if None in names else None)


def _one_column(limits: Vector) -> Vector:
    """Return the first column if all columns are equal."""
    return limits[:, :1] if bool((limits == limits[:, :1]).all()) else limits
