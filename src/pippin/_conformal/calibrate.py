"""Calibration: from nonconformity scores of labeled rows to a conformal predictor."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.clusters import cluster_categories
from pippin._conformal.cross import as_folds, cross_rule
from pippin._conformal.interpolated import interpolated_rule
from pippin._conformal.ip_ms import ip_ms_rule
from pippin._conformal.mondrian import (
    OVERLAPPING,
    Level,
    Per,
    ScoredLabels,
    Taxonomy,
    as_levels,
    as_taxonomy,
    warn_of_levels,
)
from pippin._conformal.overlapping import OverlappingRule, overlapping_rule, scale_of
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.rules import MondrianRule, Rule, WeightedRule, as_weights, units_rule, warned
from pippin._engine import dispatch
from pippin._engine.draws import draws, generator_of
from pippin._runtime.arguments import checked
from pippin._runtime.arrays import Classes, Codes, Indices, Seed, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._sharpening.sharpener import Sharpener
from pippin._sharpening.step import SharpeningStep
from pippin._shift.label_shift import LabelRatios
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score
from pippin._theory.spelling import IpMs, parse_interpolated, parse_ip_ms, parse_score
from pippin._validation.batched import Batched, check_table_keywords
from pippin._validation.index import same_index
from pippin._validation.labels import Labelled, as_labelled, as_labels, as_rows_and_classes, as_rows_of_stack
from pippin._validation.memberships import MATRIX, as_memberships
from pippin._validation.plausibility import warn_if_implausible
from pippin._validation.rows import Rows, as_rows, shortened

Unseen = Literal["error", "marginal"]
# Type of functions that calibrate on labeled rows; the last argument holds the sharpeners (recalibration maps) that
# were applied to the rows.
CalibrateLabelled = Callable[[Labelled, "Settings", SharpeningStep | None], Any]


@checked
def score(
    probs: Any, labels: ArrayLike | None, score: Score | str, *, seed: Seed = None, from_logits: bool = False
) -> Vector:
    """Return the nonconformity scores of the given labels, (n,), or with `labels=None` of all classes, (n, K).

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: one class per row, as indices or as names; None for all classes.
        score: a score, or its name with parameters, such as "raps(lam=0.1)".
        seed: for a randomized score; a seed or a Generator.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        The scores in float64; a larger score means a less plausible class.

    Raises:
        InputError: `probs` are not probabilities, or a label is not a class.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], [2], "pip")
    array([1.375])
    """
    rows, names = as_rows_and_classes(probs, None, from_logits)
    same_index("probs", rows.index, labels=labels)
    chosen = parse_score(score)
    u = draws(chosen, rows.n, seed)
    if labels is None:
        return dispatch.class_scores(rows, chosen, u)
    return dispatch.label_scores(rows, as_labels(labels, rows.n, names), chosen, u)


@checked
def calibrate(
    probs: "Any | Batched",
    labels: ArrayLike | None = None,
    score: "Score | IpMs | str" = "repip",
    alpha: Level = 0.1,
    *,
    classes: Classes | None = None,
    per: Per | str | Mapping[Any, str] | None = None,
    groups: ArrayLike | None = None,
    unseen: Unseen = "error",
    units: ArrayLike | None = None,
    weights: "ArrayLike | LabelRatios | None" = None,
    folds: ArrayLike | None = None,
    sharpen: Sharpener | bool | str | None = None,
    features: ArrayLike | None = None,
    confidence: float | None = None,
    seed: Seed = None,
    from_logits: bool = False,
) -> ConformalPredictor:
    """Calibrate a predictor whose sets contain the true class with probability at least 1 − alpha.

    The threshold is the k-th smallest score of the true labels, k = ⌈(n + 1)(1 − alpha)⌉. The guarantee holds on
    average over exchangeable calibration and test rows, so use rows that the classifier was not trained on
    (Vovk, Gammerman and Shafer, `Algorithmic learning in a random world <https://doi.org/10.1007/b106715>`__). A
    warning is issued if they are probably training rows, or if labels probably do not match the columns.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`. Or tables larger than memory from `pippin.scan`,
            with their classes, labels and groups; of more than a million rows, no calibration scores are stored. Or,
            with `sharpen`, the probabilities of several models: a list of matrices, or an (M, n, K) array.
        labels: the true classes, as indices or as names.
        score: a score, or its name with parameters; "ip/ms" is the combination of inverse probability and margin
            (`Aleksandrova and Chertov 2021 <https://arxiv.org/abs/2108.05677>`__).
        alpha: significance level (miscoverage). If `per` joins classes to superclasses ("kinds"), {kind: alpha} sets a
            level for each kind.
        classes: names of the K columns; by default the column names of a data frame.
        per: Mondrian taxonomy, for a guarantee in each category; by default there is one category. "class", "group" and
            "class and group" make a category of each class, each group, or each pair of both
            (`Vovk 2012 <https://arxiv.org/abs/1209.2673>`__). "cluster" pools classes with similar scores
            (`Ding et al. 2023 <https://arxiv.org/abs/2306.09335>`__). "rc3p" has a category for each class, and
            excludes a class from a set if its rank among the probabilities is too low
            (`Shi et al. 2024 <https://arxiv.org/abs/2406.06818>`__). "interpolated" keeps the guarantee for all rows
            together, and moves the threshold of each class towards that of "class", on part of the rows (`Ding et al.
            2025 <https://arxiv.org/abs/2507.06867>`__); "interpolated(share=0.5, learning_fraction=0.5)" sets how far
            (by default a share of 0.75), and the share of rows for this. {class: kind} joins classes to superclasses
            ("kinds"), such as crop and weed. "groups" gives coverage of at least 1 − alpha in every one of several
            groups that may overlap, and in all rows together (`Gibbs, Cherian and Candès 2023
            <https://arxiv.org/abs/2305.12616>`__); "groups randomized" draws a threshold for each object, so that
            coverage is exactly 1 − alpha; "largest group" uses the largest threshold of the groups of an object, which
            gives p-values, but larger sets. See docs/guarantees.md.
        groups: the group of each row, for a guarantee per group. For groups that may overlap, a matrix or a data frame
            of 0 and 1 with a column per group (or numeric features), or a text such as "wet & sandy" per row.
        unseen: policy of `predict` for groups without calibration rows: "error" raises an InputError, "marginal" uses
            the threshold that is calibrated on all groups together.
        units: the cluster of each row, such as the photograph of each window; the guarantee is then for a random row
            of a new cluster (`Lee, Barber and Willett 2023 <https://arxiv.org/abs/2306.06342>`__;
            `Dunn, Wasserman and Ramdas 2022 <https://arxiv.org/abs/1809.07441>`__).
        weights: likelihood ratios dP_test/dP_calibration of the rows (covariate shift). They may contain an unknown
            factor, if the ratios passed to `predict` contain the same one. Or `LabelRatios` (label shift).
            `Tibshirani et al. (2019) <https://arxiv.org/abs/1904.06019>`__;
            `Podkopaev and Ramdas (2021) <https://arxiv.org/abs/2103.03323>`__.
        folds: the fold of each row, 0 to F − 1, assigned without the labels; row i of `probs` comes from the model
            that was trained without fold `folds[i]` (`cross-conformal prediction <https://arxiv.org/abs/1208.0806>`__,
            `CV+ <https://arxiv.org/abs/2006.02544>`__). Coverage is usually about 1 − alpha; the proven bound is
            lower, see `ConformalPredictor.guarantee`.
        sharpen: a `Sharpener` (map that recalibrates the probabilities before the score is computed), fitted by
            `pippin.sharpen` on other rows. Or one of the following texts, to fit sharpeners on `probs` and `labels`.
            "split" (or True) fits one on half of the rows, and uses the others for calibration;
            "split(learning_fraction=0.3)" sets the share of rows for fitting. "mixture" and "cross" divide the rows
            into five folds, and fit a sharpener for each fold on the other folds. "mixture" computes a threshold for
            each sharpener, and draws one of the sharpeners at random for each new object. "cross" is cross-conformal
            prediction with all five sharpeners, without a random draw; "cross(folds=10)" has ten folds. With several
            models, the sharpeners are stacks (`pippin.models.stack`), which first combine their probabilities.
        features: further features of each row for the sharpener, such as the network's embedding.
        confidence: probability over calibration sets that coverage is at least 1 − alpha (PAC, `Vovk 2012
            <https://arxiv.org/abs/1209.2673>`__); by default the guarantee is on average over calibration sets.
        seed: for randomized scores (APS, RAPS, SAPS), for per="cluster", and for dividing rows; a seed or a Generator.
        from_logits: treat `probs` as logits and apply softmax.

    Returns:
        The predictor; its method `predict` returns prediction sets.

    Raises:
        InputError: `probs` are not probabilities, a label is not a class, or keywords contradict each other.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", 0.1, classes=data.classes)
    >>> round(predictor.threshold, 4)
    1.7291
    """
    taxonomy = as_taxonomy(per, groups, unseen)
    every = (("units", units), ("weights", weights), ("folds", folds))
    options: dict[str, Any] = {name: value for name, value in every if value is not None}
    if hasattr(probs, "batches"):
        own: dict[str, Any] = {"labels": labels, "classes": classes, "groups": groups, "sharpen": sharpen}
        own |= {**options, "features": features, "confidence": confidence, "from_logits": from_logits or None}
        return _calibrate_tables(probs, score, alpha, per, unseen, seed, own)
    if labels is None:
        raise InputError("Expected the true classes of the rows, got no labels", "pass labels=, one per row")
    score = parse_ip_ms(score) or (score if sharpen and isinstance(sharpen, bool | str) else parse_score(score))
    settings = Settings(score, alpha, seed, taxonomy, options, confidence)
    settings.check()
    data = labelled_for_sharpener(sharpen, probs, labels, classes, from_logits)
    if taxonomy.name in OVERLAPPING and groups is not None:
        same_index("probs", data.rows.index, groups=groups)
        members: Any = as_memberships(groups, data.rows.n)
        settings = settings._replace(taxonomy=taxonomy._replace(groups=members))
    predictor: ConformalPredictor = sharpen_and_calibrate(data, features, sharpen, settings, calibrate_labelled)
    warn_if_implausible(data, units)
    return predictor


class Settings(NamedTuple):
    """Arguments of `calibrate` other than the rows and the sharpener (recalibration map).

    Attributes:
        score: the score, for decisions the utility; or the text "socop(max_size=…)", from which a score is made after a
            sharpener is fitted.
        alpha: the significance level (miscoverage), or {kind: alpha} for superclasses ("kinds").
        seed: a seed or a Generator.
        taxonomy: the Mondrian taxonomy; by default one category.
        options: the values of units (clusters of rows), weights and folds by keyword, without those that are None.
        confidence: probability over calibration sets that coverage is at least 1 − alpha; None if only the mean of
            coverage over calibration sets is at least 1 − alpha.
    """

    score: Any
    alpha: Any
    seed: Seed = None
    taxonomy: Taxonomy = Taxonomy()
    options: Mapping[str, Any] = MappingProxyType({})
    confidence: float | None = None

    def check(self) -> None:
        """Raise an InputError if keywords exclude each other or are invalid; warn if alpha looks like a confidence."""
        taxonomy, confidence = self.taxonomy, self.confidence
        chosen = [f"{name}=" for name in self.options]
        if taxonomy.per is not None:
            chosen.append("per= or groups=")
        if isinstance(self.score, IpMs):
            chosen.append("score='ip/ms'")
        if len(chosen) > 1:
            raise InputError(f"Expected one of {', '.join(chosen)}, got them together", "choose one of them")
        if (taxonomy.per is None or taxonomy.name in OVERLAPPING) and not isinstance(self.alpha, float):
            as_levels(self.alpha, None)
        known = confidence is None or (isinstance(confidence, int | float) and 0 < confidence < 1)
        if not known:
            raise InputError(f"Expected a confidence strictly between 0 and 1, got {confidence!r}", "0.95 for instance")
        unknown = taxonomy.name in ("rc3p", *OVERLAPPING) or (chosen and taxonomy.per is None)
        if confidence is not None and unknown:
            what = chosen[0] if taxonomy.per is None else f"per={taxonomy.per!r}"
            what = f"Expected confidence= without {what}, whose coverage has no known distribution"
            raise InputError(what, "leave one of them out")
        warn_of_levels(self.alpha)


def labelled_for_sharpener(
    sharpen: Any, probs: Any, labels: ArrayLike, classes: Classes | None, from_logits: bool
) -> Labelled:
    """Check labeled rows like `as_labelled`; a fitted sharpener determines the order of named columns."""
    rows = as_rows_of_stack(probs, from_logits) if sharpen else as_rows(probs, from_logits)
    if isinstance(sharpen, Sharpener) and rows.names is not None and not isinstance(sharpen.classes, range):
        classes = sharpen.classes if classes is None else classes
    return as_labelled(rows, labels, classes)


def sharpen_and_calibrate(
    data: Labelled, features: Any, sharpen: Any, settings: Settings, calibrate_on: CalibrateLabelled
) -> Any:
    """Calibrate on checked rows; with the keyword `sharpen` of `calibrate`, recalibrate their probabilities first."""
    if sharpen is None or sharpen is False:
        if features is not None:
            raise InputError("Expected features= only with sharpen=", "leave it out, or pass a sharpener")
        return calibrate_on(data, settings, None)
    if isinstance(sharpen, Sharpener):
        if data.classes != sharpen.classes:
            known, got = shortened(sharpen.classes), shortened(data.classes)
            remedy = "sharpen and calibrate with the same classes="
            raise InputError(f"Expected the classes of the sharpener ({known}), got {got}", remedy)
        sharpen.check_unseen(data.rows, features)
        if "folds" in settings.options:
            raise InputError("Expected one of folds= and a fitted sharpener, got both", "use sharpen='cross'")
        sharper = data._replace(rows=sharpen.rows(data.rows, features=features))
        return calibrate_on(sharper, settings, SharpeningStep((sharpen,)))
    from pippin._conformal.sharpened import calibrate_sharpened

    return calibrate_sharpened(sharpen, data, features, settings, calibrate_on)


def calibrate_labelled(data: Labelled, settings: Settings, step: SharpeningStep | None = None) -> ConformalPredictor:
    """Calibrate on validated rows, and warn of infinite thresholds.

    `step` holds the sharpeners (recalibration maps) that were applied to these rows; None if there are none.
    """
    rows, labels, classes = data
    score, alpha, seed, taxonomy, options, _ = settings
    if isinstance(score, IpMs):
        rule: Rule = ip_ms_rule(rows, labels, alpha, score, seed)
        return ConformalPredictor(score, as_alpha(alpha), rows.n, classes, rule, step)
    if not options and taxonomy.name in OVERLAPPING:
        rule = _overlapping(data, settings)
        return warned(ConformalPredictor(score, rule.alpha, rows.n, classes, rule, step))
    if not options:
        predictor, note = mondrian_predictor(data, settings)
        if note:
            warn(note)
        return warned(predictor if step is None else replace(predictor, _sharpening=step))
    scores = dispatch.label_scores(rows, labels, score, draws(score, rows.n, seed))
    same_index("probs", rows.index, **options)
    [(name, value)] = options.items()
    level = as_alpha(alpha)
    if name == "folds":
        rule = cross_rule(scores, as_folds(value, rows.n), level)
    elif name == "units":
        rule = units_rule(scores, value, level)
    else:
        order = np.argsort(scores, kind="stable")
        rule = WeightedRule(read_only(scores[order]), read_only(_weights(value, labels, classes)[order]), level)
    return warned(ConformalPredictor(score, level, rows.n, classes, rule, step))


def _overlapping(data: Labelled, settings: Settings) -> OverlappingRule:
    """Calibrate the rule for groups that may overlap; `settings.taxonomy` holds the memberships of the rows."""
    (rows, labels, _), (score, alpha, seed, taxonomy, _, _) = data, settings
    if taxonomy.groups is None:
        raise InputError(f"Expected groups with per={taxonomy.name!r}, got none", MATRIX)
    if taxonomy.unseen != "error":
        what = f"Expected no unseen= with per={taxonomy.name!r}, which has thresholds for all combinations of groups"
        raise InputError(what, "leave it out")
    scores = dispatch.label_scores(rows, labels, score, draws(score, rows.n, seed))
    scale = scale_of(score, rows.n_classes)
    return overlapping_rule(scores, taxonomy.groups, str(taxonomy.name), as_alpha(alpha), scale)


def mondrian_predictor(data: Labelled, settings: Settings) -> tuple[ConformalPredictor, str | None]:
    """Calibrate one threshold, or one per Mondrian category; return the predictor, and a warning text or None."""
    rows, labels, classes = data
    score, taxonomy = settings.score, settings.taxonomy
    groups = taxonomy.numbered_groups(rows)
    if taxonomy.per is not None:  # one generator: it first draws u of randomized scores, then clusters
        settings = settings._replace(seed=generator_of(settings.seed))
    scores = dispatch.label_scores(rows, labels, score, draws(score, rows.n, settings.seed))
    ranks = ranks_from_1(rows, labels) if taxonomy.per == "rc3p" else None
    return predictor_of_scores(ScoredLabels(scores, labels, groups, ranks), classes, settings)


def predictor_of_scores(
    scored: ScoredLabels, classes: Classes, settings: Settings
) -> tuple[ConformalPredictor, str | None]:
    """Calibrate on nonconformity scores that are already computed; return the predictor, and a warning or None.

    `settings.seed` is the generator that drew the random numbers u of a randomized score; random numbers for clustering
    are drawn from it next.
    """
    (score, alpha, generator, taxonomy, _, confidence), n, note = settings, len(scored.scores), None
    if spec := parse_interpolated(taxonomy.per):
        rng = generator_of(generator)
        base: MondrianRule = interpolated_rule(scored.scores, scored.labels, len(classes), spec, rng, confidence)
        n = int(base.categories.counts[0])
    elif taxonomy.per == "cluster":
        drawing = generator_of(generator)
        categories, n, note = cluster_categories(scored.scores, scored.labels, len(classes), alpha, drawing)
        base = MondrianRule(categories, "cluster", confidence=confidence)
    else:
        categories, names, kinds = taxonomy.categorize(scored, classes)
        base = MondrianRule(categories, taxonomy.name, names, kinds, confidence)
    rule, level = base.at(alpha)
    return ConformalPredictor(score, level, n, classes, rule), note


def ranks_from_1(rows: Rows, labels: Codes) -> Indices:
    """Return the rank of each row's label by probability; the most probable class has rank 1."""
    return dispatch.label_ranks(rows, labels).astype(np.int32) + np.int32(1)


def _weights(weights: Any, labels: Codes, classes: Classes) -> Vector:
    """Check the likelihood ratios, and return the weight of each calibration row; at least one must be positive."""
    ratios = weights.agreeing(classes).of(labels) if isinstance(weights, LabelRatios) else weights
    checked = as_weights(ratios, len(labels))
    if not checked.any():
        raise InputError("Expected some positive weight among the calibration rows, got zeros only", "check the ratios")
    return checked


def _calibrate_tables(
    tables: Any, score: Any, alpha: Any, per: Any, unseen: str, seed: Seed, own: Mapping[str, Any]
) -> ConformalPredictor:
    """Calibrate on tables from `pippin.scan`; `own` holds keywords that tables do not support, which must be None."""
    from pippin._distributed.calibration import Calibration, calibrate_batched

    check_table_keywords(own, "leave it out, or read the rows into arrays first")
    calibration = Calibration(score, alpha, classes=tables.classes, per=per, unseen=unseen, seed=seed)
    return calibrate_batched(tables, calibration)
