"""Data of predictors and deciders (decision policies) for export as torch layers, ONNX graphs and C headers."""

from typing import Any, NamedTuple

import numpy as np

from pippin._conformal.interpolated import InterpolatedRule
from pippin._conformal.mondrian import GroupNames, group_codes
from pippin._conformal.overlapping import OverlappingRule
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.rules import MondrianRule, UnitsRule
from pippin._decisions.cost import CostPolicy
from pippin._decisions.decider import Decider
from pippin._decisions.per_action import ActionRule
from pippin._engine.protocol import SortedScores
from pippin._runtime.arrays import Codes, Indices, Vector
from pippin._runtime.errors import InputError
from pippin._sharpening.features import FeatureMap, Singles
from pippin._sharpening.sharpener import LARGEST, Sharpener
from pippin._theory.formula import Coefficients
from pippin._theory.policy import Policy
from pippin._theory.scores import coefficients
from pippin._validation.memberships import as_memberships


class ExportableGroups(NamedTuple):
    """Groups of an exported predictor or decider (decision policy): group `names[g]` uses row g of its thresholds.

    `per` is the Mondrian taxonomy. `other` is the row for groups without calibration rows; None if these are an error.
    If groups may overlap, `names` are combinations of the groups `members`.
    """

    per: str
    names: tuple[str | int, ...]
    other: int | None
    members: tuple[str, ...] | None = None

    def codes(self, groups: Any, n: int) -> Codes:
        """Return, for each of n objects, the number of the row of thresholds that its group uses."""
        if self.members is not None:
            groups = as_memberships(groups, n, self.members).combinations()
        codes = group_codes(self.names if self.other is None else (*self.names, None), self.per, groups, n)
        assert codes is not None
        return codes


class ExportableSharpener(NamedTuple):
    """Sharpened probabilities as a chain of affine maps (rows · matrix + offset), logarithms, cosines and softmaxes.

    The features z and l are centered log-probabilities, as in `pippin._sharpening.features`. In float32:

        x = z · axes + shift, followed by features · feature_axes + feature_shift
        ψ = [x, cos(x · waves + phases)]
        φ = ψ · rotation + centre, or ψ if `rotation` is None
        u_m = a_m1·z + a_m2·l, and for the members with φ also (φ · w + b)_m
        q = Σ_m weights_m · softmax(u_m)

    For a stack of M models, the input is a row of M·K probabilities, model after model, and these are first pooled to
    p = softmax(Σ_m pool_m · log max(p_m, 1e-6)).

    Attributes:
        classes: the number K of classes.
        n_features: the number of features of the user.
        weights: the weight of each member, those without φ first.
        a: a_m1 and a_m2 of each member.
        feature_map: the arrays from axes to phases; None if no member uses φ. The factor √(2/D) of the cosines is part
            of `rotation` or `w`.
        rotation: the matrix from ψ to φ and its offset `centre`, or None.
        members: W and b of each member with φ.
        pool: the weight of each model of a stack; None for a single model.
    """

    classes: int
    n_features: int
    weights: Singles
    a: Singles
    feature_map: FeatureMap | None
    rotation: tuple[Singles, Singles] | None
    members: tuple[tuple[Singles, Singles], ...]
    pool: Singles | None = None

    @property
    def n_plain(self) -> int:
        """Number of members that do not use the feature map φ."""
        return len(self.a) - len(self.members)


def models_of(given: "Exportable") -> int:
    """Return the number of models whose probabilities are the input; 1 unless there is a stack."""
    pool = None if given.sharpener is None else given.sharpener.pool
    return 1 if pool is None else len(pool)


LARGEST_FEATURE = LARGEST  # bound on the absolute value of features; larger ones are an error


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
    sharpener: ExportableSharpener | None


class ExportablePValues(NamedTuple):
    """Coefficients `c` of the score, and sorted calibration scores `held`, to export a predictor's p-values."""

    source: ConformalPredictor
    c: Coefficients
    held: SortedScores
    groups: ExportableGroups | None
    sharpener: ExportableSharpener | None


class ExportableCertificates(NamedTuple):
    """Floors and certificates (guaranteed utilities) of a decider with per="action"; see `per_action`.

    The action of the policy is replaced by the safe one (that with the best worst case) if the predicted probability of
    reaching the policy's certificate is below `floors[action]`. The certificate is then the largest utility that the
    action reaches with a predicted probability above `limits[action]`, or else its smallest utility. Probabilities are
    added in the order of the classes `order[action]`, whose utilities `falling[action]` decrease.
    """

    order: Indices
    falling: Vector
    floors: Vector
    limits: Vector


class ExportableDecisions(NamedTuple):
    """Decision policy and calibrated multipliers β of a decider, to export its decisions.

    The policy selects the action with the largest v + β·m, where m is the probability that its utility is at least v.
    `betas` has shape (groups, 1), or (groups, outcomes), where an outcome consists of classes with equal utilities.
    `by_action` holds the certificates of a decider with per="action", else None.
    """

    source: Decider
    policy: Policy
    betas: Vector
    groups: ExportableGroups | None
    sharpener: ExportableSharpener | None
    by_action: ExportableCertificates | None = None

    @property
    def lowest(self) -> float:
        """Worst-case utility of the safe action (the action with the best worst case)."""
        return float(self.policy.table[self.policy.safe].min())


ScoredExportable = ExportableSets | ExportablePValues
Exportable = ScoredExportable | ExportableDecisions


def exportable(source: Any) -> ExportableSets | ExportableDecisions:
    """Collect the data for exporting the sets of a predictor, or the decisions of a decider (decision policy).

    Raises:
        InputError: the predictor has thresholds that depend on the object, such as a weighted one, or several
            sharpeners (recalibration maps).

    >>> import pippin
    >>> data = pippin.load_example()
    >>> exportable(pippin.calibrate(data.probs, data.labels, "pip", per="class")).thresholds.shape
    (1, 12)
    """
    return exportable_decisions(source) if isinstance(source, Decider | CostPolicy) else exportable_sets(source)


def exportable_sets(predictor: Any) -> ExportableSets:
    """Return the score and thresholds of a predictor; it must be marginal, Mondrian, or for clustered rows."""
    rule, sharpener = _rule(predictor), _sharpener(predictor)
    if isinstance(rule, OverlappingRule) and not rule.groups:
        what = f"Expected a threshold for each combination of groups, got {predictor!r}"
        raise InputError(what, "calibrate with per='groups' and groups of 0 and 1")
    if not isinstance(rule, MondrianRule | UnitsRule | OverlappingRule):
        remedy = "only those can be exported, so calibrate one for all, per class, kind, cluster or group"
        raise InputError(f"Expected a predictor with finitely many thresholds, got {predictor!r}", remedy)
    thresholds = _one_column(rule.limits.scores)
    ranks, groups = rule.limits.ranks, _groups(predictor)
    return ExportableSets(predictor, _coefficients(predictor), thresholds, ranks, groups, sharpener)


def exportable_p_values(predictor: Any) -> ExportablePValues:
    """Return the score and the calibration scores of a predictor, which must be marginal or Mondrian."""
    rule, sharpener = _rule(predictor), _sharpener(predictor)
    if not isinstance(rule, MondrianRule) or isinstance(rule, InterpolatedRule):
        remedy = "calibrate one for all, per class, kind, cluster or group, or call its p_values in Python"
        raise InputError(
            f"Expected a predictor whose p-values follow from scores of a category, got {predictor!r}", remedy
        )
    predictor.check_p_values()
    return ExportablePValues(predictor, _coefficients(predictor), rule.categories.held, _groups(predictor), sharpener)


def exportable_decisions(decider: Any) -> ExportableDecisions:
    """Return the decision policy (largest v + β·m) and the calibrated multipliers β of a decider."""
    if isinstance(decider, CostPolicy):
        what = f"Expected a decider with certificates, got {decider!r}"
        raise InputError(what, "decide with it in Python, or export a decider of pippin.decisions.calibrate")
    if not isinstance(decider, Decider):
        raise InputError(f"Expected a decider, got {decider!r}", "calibrate one with pippin.decisions.calibrate")
    policy, betas, groups = decider._policy, _one_column(decider._limits), _groups(decider)
    return ExportableDecisions(decider, policy, betas, groups, _sharpener(decider), _certificates(decider))


def _certificates(decider: Decider) -> ExportableCertificates | None:
    """Return floors and certificates of a decider with per="action"; None for other deciders."""
    rule = decider._rule
    if not isinstance(rule, ActionRule):
        return None
    utilities = decider.utility.of(decider.classes)
    order = np.argsort(-utilities, axis=1, kind="stable")
    falling = np.take_along_axis(utilities, order, axis=1)
    return ExportableCertificates(order.astype(np.int32), falling, rule.floors, rule.limits.scores[0])


def _rule(predictor: Any) -> Any:
    """Return the rule that computes the sets and p-values of a predictor; None for other objects."""
    return predictor._rule if isinstance(predictor, ConformalPredictor) else None


def _sharpener(source: Any) -> ExportableSharpener | None:
    """Return the sharpener (recalibration map) of a predictor or decider as a chain of maps; None without one.

    Raise an InputError if there are several.
    """
    sharpeners: tuple[Sharpener, ...] = getattr(source, "sharpeners", ())
    if not sharpeners:
        return None
    if len(sharpeners) > 1:
        what = f"Expected a predictor or decider with at most one sharpener, got {len(sharpeners)} in {source!r}"
        raise InputError(what, "calibrate with sharpen='split', or with a fitted sharpener")
    [sharpener] = sharpeners
    stack, feature_map = sharpener.model.stacked, sharpener.model.feature_map
    rotation, n_phi = None, len(stack.a_phi)
    members: tuple[tuple[Singles, Singles], ...] = ()
    if feature_map is not None and n_phi:
        rotation = None if stack.rotation is None else (stack.rotation, feature_map.centre)
        pairs = zip(np.split(stack.w, n_phi, axis=1), np.split(stack.b, n_phi), strict=True)
        members = tuple((np.ascontiguousarray(w), b) for w, b in pairs)
    a, weights = np.concatenate([stack.a_plain, stack.a_phi]), sharpener.weight_array
    used = feature_map if n_phi else None
    pool = None if sharpener.pool is None else np.array(sharpener.pool.weights, dtype=np.float32)
    return ExportableSharpener(len(sharpener.classes), sharpener.n_features, weights, a, used, rotation, members, pool)


def _coefficients(predictor: Any) -> Coefficients:
    return coefficients(predictor.score, len(predictor.classes))


def _groups(source: ConformalPredictor | Decider) -> ExportableGroups | None:
    names: GroupNames | None = source.groups
    if names is None:
        return None
    calibrated = tuple(name for name in names if name is not None)
    members = source._rule.combinations.names if isinstance(source._rule, OverlappingRule) else None
    return ExportableGroups(source.per or "", calibrated, len(calibrated) if None in names else None, members)


def _one_column(limits: Vector) -> Vector:
    """Return the first column of thresholds if all columns are equal, else all columns."""
    return limits[:, :1] if bool((limits == limits[:, :1]).all()) else limits
