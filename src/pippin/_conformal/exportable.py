"""Data of predictors and deciders (decision policies) for export as torch layers, ONNX graphs and C headers."""

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
    """Groups of an exported predictor or decider (decision policy): group `names[g]` uses row g of its thresholds.

    `per` is the Mondrian taxonomy. `other` is the row for groups without calibration rows; None if these are an error.
    """

    per: str
    names: tuple[str | int, ...]
    other: int | None

    def codes(self, groups: Any, n: int) -> Codes:
        """Return, for each of n objects, the number of the row of thresholds that its group uses."""
        codes = group_codes(self.names if self.other is None else (*self.names, None), self.per, groups, n)
        assert codes is not None
        return codes


class ExportableSets(NamedTuple):
    """Score and thresholds of a predictor, to export its sets.

    Class k is in the set of an object of group g if its score is at most `thresholds[g, k]` and, unless `ranks` is
    None, its rank at most `ranks[g, k]` (RC3P). If all classes have the same threshold, `thresholds` has shape
    (groups, 1). `c` holds the coefficients of the score.
    """

    source: ConformalPredictor
    c: Coefficients
    thresholds: Vector
    ranks: Indices | None
    groups: ExportableGroups | None


class ExportablePValues(NamedTuple):
    """Coefficients `c` of the score, and sorted calibration scores `held`, to export a predictor's p-values."""

    source: ConformalPredictor
    c: Coefficients
    held: SortedScores
    groups: ExportableGroups | None


class ExportableDecisions(NamedTuple):
    """Decision policy and calibrated multipliers β of a decider, to export its decisions.

    The policy selects the action with the largest v + β·m, where m is the probability that its utility is at least v.
    `betas` has shape (groups, 1), or (groups, outcomes), where an outcome is a group of classes with equal utilities.
    """

    source: Decider
    policy: Policy
    betas: Vector
    groups: ExportableGroups | None

    @property
    def lowest(self) -> float:
        """Worst-case utility of the safe action (the action with the best worst case)."""
        return float(self.policy.table[self.policy.safe].min())


ScoredExportable = ExportableSets | ExportablePValues
Exportable = ScoredExportable | ExportableDecisions


def exportable(source: Any) -> ExportableSets | ExportableDecisions:
    """Collect the data for exporting the sets of a predictor, or the decisions of a decider (decision policy).

    Raises:
        InputError: the predictor has thresholds that depend on the object, such as a weighted one, or has a sharpener,
            which recalibrates probabilities.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> exportable(pippin.calibrate(data.probs, data.labels, "pip", per="class")).thresholds.shape
    (1, 12)
    """
    return exportable_decisions(source) if isinstance(source, Decider) else exportable_sets(source)


def exportable_sets(predictor: Any) -> ExportableSets:
    """Return the score and thresholds of a predictor; it must be marginal, Mondrian, or for clustered rows."""
    rule = _rule(predictor)
    if not isinstance(rule, MondrianRule | UnitsRule):
        remedy = "only those can be exported, so calibrate one for all, per class, kind, cluster or group"
        raise InputError(f"Expected a predictor with finitely many thresholds, got {predictor!r}", remedy)
    thresholds = _one_column(rule.limits.scores)
    return ExportableSets(predictor, _coefficients(predictor), thresholds, rule.limits.ranks, _groups(predictor))


def exportable_p_values(predictor: Any) -> ExportablePValues:
    """Return the score and the calibration scores of a predictor, which must be marginal or Mondrian."""
    rule = _rule(predictor)
    if not isinstance(rule, MondrianRule):
        remedy = "calibrate one for all, per class, kind, cluster or group, or call its p_values in Python"
        raise InputError(f"Expected a predictor whose calibration rows have equal weights, got {predictor!r}", remedy)
    predictor.check_p_values()
    return ExportablePValues(predictor, _coefficients(predictor), rule.categories.held, _groups(predictor))


def exportable_decisions(decider: Any) -> ExportableDecisions:
    """Return the decision policy and the calibrated multipliers β of a decider."""
    if not isinstance(decider, Decider):
        raise InputError(f"Expected a decider, got {decider!r}", "calibrate one with pippin.decisions.calibrate")
    return ExportableDecisions(decider, decider._policy, _one_column(decider._limits), _groups(decider))


def _rule(predictor: Any) -> Any:
    """Return the rule of a predictor, which computes its sets and p-values; None for other objects.

    Raise an InputError if the predictor has a sharpener (recalibration map), which cannot be exported.
    """
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
    """Return the first column if all columns are equal, else all columns."""
    return limits[:, :1] if bool((limits == limits[:, :1]).all()) else limits
