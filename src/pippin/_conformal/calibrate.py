"""Calibration: scores of labelled rows, and the predictor that they make."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.clusters import cluster_categories
from pippin._conformal.cross import as_folds, cross_rule
from pippin._conformal.ip_ms import ip_ms_rule
from pippin._conformal.mondrian import (
    Categories,
    ClassKinds,
    GroupNames,
    Level,
    Per,
    Taxonomy,
    as_levels,
    kth_smallest,
    single_category,
    warn_of_levels,
)
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.rules import Rule, UnitsRule, WeightedRule, as_weights, marginal_rule, mondrian_rule, warned
from pippin._engine import dispatch
from pippin._engine.draws import draws, generator_of
from pippin._runtime.arrays import Classes, Codes, Indices, Seed, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._sharpening.sharpener import Sharpener
from pippin._sharpening.step import SharpeningStep
from pippin._shift.label_shift import LabelRatios
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score
from pippin._theory.spelling import IpMs, parse_ip_ms, parse_score
from pippin._validation.batched import Batched
from pippin._validation.index import same_index
from pippin._validation.labels import Groups, Labelled, as_classes, as_labelled, as_labels, as_numbered_groups
from pippin._validation.rows import Rows, as_rows, shortened

Unseen = Literal["error", "marginal"]


def score(
    probs: Any, labels: ArrayLike | None, score: Score | str, *, seed: Seed = None, from_logits: bool = False
) -> Vector:
    """Return the nonconformity scores of the given labels, (n,); with labels=None of every class, (n, K).

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: one class per row, as indices or as names; None asks for all classes.
        score: a score or its spelling.
        seed: for a randomized score; a seed or a Generator.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> pippin.scores.score([[0.5, 0.25, 0.25]], [2], "pip")
    array([1.375])
    """
    rows = as_rows(probs, from_logits)
    same_index("probs", rows.index, labels=labels)
    chosen = parse_score(score)
    u = draws(chosen, rows.n, seed)
    if labels is None:
        return dispatch.class_scores(rows, chosen, u)
    return dispatch.label_scores(rows, as_labels(labels, rows.n, as_classes(None, rows)), chosen, u)


def calibrate(
    probs: "Any | Batched",
    labels: ArrayLike | None = None,
    score: "Score | IpMs | str" = "repip",
    alpha: Level = 0.1,
    *,
    classes: Classes | None = None,
    per: Per | Mapping[Any, str] | None = None,
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
    average over calibration and test rows that are exchangeable: use rows the classifier was not trained on.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`. Or tables larger than memory, as `pippin.scan`
            returns them, which bring their classes, labels and groups; of more than a million rows, the scores are not
            kept.
        labels: the true classes, as indices or as names.
        score: a score or its spelling; "ip/ms" is the combination of margin and IP.
        alpha: significance level (miscoverage); where the guarantee is per kind, one for all or {kind: alpha}.
        classes: names of the K columns; a data frame brings its own.
        per: Mondrian taxonomy, for a guarantee in each category beyond that for all objects together: every "class",
            "group", or "class and group"; "cluster" joins rare classes with similar ones, "rc3p" bounds the rank of a
            class as well; {class: kind} is for every kind of classes. See docs/guarantees.md.
        groups: the group of each row, for a guarantee per group.
        unseen: what `predict` does with a group that is not among them: an "error", or the "marginal" threshold of
            all groups together.
        units: the unit of each row where rows are clustered, such as the photograph of each window: the guarantee is
            then for a row drawn at random from a new unit.
        weights: likelihood ratios dP_test/dP_calibration of the rows (covariate shift), up to a factor that they share
            with those given to `predict`; or `LabelRatios` (label shift). Tibshirani, Barber, Candès, Ramdas (2019);
            Podkopaev, Ramdas (2021).
        folds: the fold of each row, 0 to F − 1, drawn without looking at labels, where row i of `probs` comes from the
            model that did not see fold `folds[i]` (cross-conformal prediction, CV+). Coverage is usually about
            1 − alpha; less is proven, see `ConformalPredictor.guarantee`.
        sharpen: a Sharpener that improves probabilities first, fitted by `pippin.sharpen` on other rows; or "split"
            (or True) to fit one on half of these rows and calibrate on the rest, "mixture" to fit five, each
            calibrated on the fifth it did not learn on, of which every object draws one, "cross" for the same folds
            without a draw (cross-conformal). "split(learning_fraction=0.3)" divides the rows otherwise.
        features: what the sharpener is shown beside the probabilities, one row per object, such as an embedding.
        confidence: probability over calibration sets with which coverage is at least 1 − alpha (PAC); by default
            coverage is at least 1 − alpha on average over them.
        seed: for the randomized scores (APS, RAPS, SAPS), for clusters, and for dividing rows; a seed or a Generator.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    Returns:
        A predictor; its sets come from `predict`.

    Raises:
        InputError: the data are no probabilities and labels, or keywords contradict each other.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", 0.1, classes=data.classes)
    >>> round(predictor.threshold, 4)
    1.7291
    """
    taxonomy = (
        None if per is None and groups is None and unseen == "error" else Taxonomy(per or "group", groups, unseen)
    )
    every = (("units", units), ("weights", weights), ("folds", folds))
    options: dict[str, Any] = {name: value for name, value in every if value is not None}
    if hasattr(probs, "batches"):
        own: dict[str, Any] = {"labels": labels, "classes": classes, "groups": groups, "sharpen": sharpen}
        own |= {**options, "features": features, "confidence": confidence, "from_logits": from_logits or None}
        return _calibrate_tables(probs, score, alpha, per, unseen, seed, own)
    if labels is None:
        raise InputError("Expected the true classes of the rows, got no labels", "pass labels=, one per row")
    score = parse_ip_ms(score) or (score if sharpen and isinstance(sharpen, bool | str) else parse_score(score))
    if options or taxonomy is not None or confidence is not None or not isinstance(alpha, float):
        check_options(options, taxonomy, alpha, score, confidence)
    warn_of_levels(alpha)
    data = as_labelled(probs, labels, classes, from_logits)
    if sharpen is None or sharpen is False:
        if features is not None:
            raise InputError("Expected features= only with sharpen=", "leave it out, or pass a sharpener")
        return calibrate_labelled(data, score, alpha, seed, taxonomy, options, confidence)
    if isinstance(sharpen, Sharpener):
        if data.classes != sharpen.classes:
            raise InputError(
                f"Expected the classes of the sharpener ({shortened(sharpen.classes)}), got {shortened(data.classes)}",
                "sharpen and calibrate with the same classes=",
            )
        sharpen.check_unseen(data.rows)
        same_index("probs", data.rows.index, features=features)
        if folds is not None:
            raise InputError("Expected one of folds= and a fitted sharpener, got both", "use sharpen='cross'")
        sharper = data._replace(rows=sharpen.rows(data.rows, features=features))
        return calibrate_labelled(
            sharper, score, alpha, seed, taxonomy, options, confidence, SharpeningStep((sharpen,))
        )
    from pippin._conformal.sharpened import calibrate_sharpened

    return calibrate_sharpened(sharpen, data, features, score, alpha, seed, taxonomy, options, confidence)


def calibrate_labelled(
    data: Labelled,
    score: Any,
    alpha: Any,
    seed: Seed,
    taxonomy: Taxonomy | None = None,
    options: Mapping[str, Any] | None = None,
    confidence: float | None = None,
    step: SharpeningStep | None = None,
) -> ConformalPredictor:
    """Calibrate on checked rows, with the warnings of `calibrate`; `options` are units, weights and folds."""
    rows, labels, classes = data
    if isinstance(score, IpMs):
        rule: Rule = ip_ms_rule(rows, labels, alpha, score, seed)
        return ConformalPredictor(score, as_alpha(alpha), rows.n, classes, rule, step)
    chosen: Score = score
    if taxonomy is not None:
        predictor, note = mondrian_predictor(data, chosen, alpha, seed, taxonomy, confidence)
        if note:
            warn(note)
        return warned(
            ConformalPredictor(chosen, predictor.alpha, predictor.n_calibration, classes, predictor._rule, step)
        )
    scores = dispatch.label_scores(rows, labels, chosen, draws(chosen, rows.n, seed))
    if not options:
        return warned(marginal_predictor(scores, chosen, alpha, classes, confidence, step))
    if rows.index is not None:
        same_index("probs", rows.index, **options)
    [(name, value)] = options.items()
    if name == "folds":
        rule = cross_rule(scores, as_folds(value, rows.n), as_alpha(alpha))
    else:
        order = np.argsort(scores, kind="stable")
        ordered = read_only(scores[order])
        if name == "units":
            codes = as_numbered_groups(value, rows.n, "units").codes
            rule = UnitsRule(ordered, read_only(codes[order].astype(np.int64)), as_alpha(alpha))
        else:
            rule = WeightedRule(ordered, read_only(_weights(value, labels, classes)[order]), as_alpha(alpha))
    return warned(ConformalPredictor(chosen, as_alpha(alpha), rows.n, classes, rule, step))


def marginal_predictor(
    scores: Vector,
    score: Score,
    alpha: Any,
    classes: Classes,
    confidence: float | None = None,
    step: SharpeningStep | None = None,
) -> ConformalPredictor:
    """Return the predictor with one threshold from the scores of the true labels."""
    level = as_alpha(alpha)
    threshold = kth_smallest(scores, level, confidence)
    rule = marginal_rule(single_category(scores, len(scores), len(classes)), threshold, confidence)
    return ConformalPredictor(score, level, len(scores), classes, rule, step)


def mondrian_predictor(
    data: Labelled, score: Score, alpha: Any, seed: Seed, taxonomy: Taxonomy, confidence: float | None = None
) -> tuple[ConformalPredictor, str | None]:
    """Return the predictor with a threshold per category, and a note to warn of beyond infinite thresholds."""
    taxonomy.check()
    rows, labels, classes = data
    same_index("probs", rows.index, groups=taxonomy.groups)
    generator = generator_of(seed)
    scores = dispatch.label_scores(rows, labels, score, draws(score, rows.n, generator))
    groups = None if taxonomy.groups is None else as_numbered_groups(taxonomy.groups, rows.n)
    ranks = ranks_from_1(rows, labels) if taxonomy.per == "rc3p" else None
    scored = scores, labels, groups, ranks
    return predictor_of_scores(scored, score, alpha, classes, taxonomy, generator, confidence)


def predictor_of_scores(
    scored: tuple[Vector, Codes, Groups | None, Indices | None],
    score: Score,
    alpha: Any,
    classes: Classes,
    taxonomy: Taxonomy,
    generator: np.random.Generator,
    confidence: float | None = None,
) -> tuple[ConformalPredictor, str | None]:
    """Return the predictor with a threshold per category, and a note to warn of, from the scores of the true labels.

    Args:
        scored: scores, labels by number, groups, and ranks from 1 for RC3P.
        score: the score.
        alpha: one level, or one for each kind.
        classes: the names of the classes.
        taxonomy: what thresholds are per.
        generator: one that has drawn u of all rows; it draws the rows that make clusters.
        confidence: the probability over calibration sets, if one is asked for.
    """
    scores, labels, groups, ranks = scored
    n, note = len(scores), None
    known: GroupNames | None = None
    kinds: ClassKinds | None = None
    categories: Categories
    if taxonomy.per == "cluster":
        categories, n, note = cluster_categories(scores, labels, len(classes), alpha, generator)
    else:
        codes, names = (None, None) if groups is None else groups
        assignment, known, kinds = taxonomy.assign(classes, names)
        categories = assignment.categories(scores, labels, codes, ranks)
    rule, level = mondrian_rule(categories, taxonomy.name, known, kinds, confidence).at(alpha)
    return ConformalPredictor(score, level, n, classes, rule), note


def ranks_from_1(rows: Rows, labels: Codes) -> Indices:
    """Return the rank of every label, from 1."""
    return dispatch.label_ranks(rows, labels).astype(np.int32) + np.int32(1)


def _weights(weights: Any, labels: Codes, classes: Classes) -> Vector:
    """Return the weights of calibration rows, some of them positive."""
    own = weights.agreeing(classes).of(labels) if isinstance(weights, LabelRatios) else weights
    given = as_weights(own, len(labels))
    if not given.any():
        raise InputError("Expected some positive weight among the calibration rows, got zeros only", "check the ratios")
    return given


def check_options(
    options: Mapping[str, Any], taxonomy: Taxonomy | None, alpha: Any, score: Any, confidence: float | None
) -> None:
    """Raise an InputError if keywords ask for two rules at once, or for what a rule cannot give."""
    chosen = [f"{name}=" for name in options]
    if taxonomy is not None:
        chosen.append("per= or groups=")
    if isinstance(score, IpMs):
        chosen.append("score='ip/ms'")
    if len(chosen) > 1:
        raise InputError(f"Expected one of {', '.join(chosen)}, got them together", "choose one of them")
    if taxonomy is None and isinstance(alpha, Mapping):
        as_levels(alpha, None)
    if confidence is None:
        return
    if not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise InputError(f"Expected a confidence strictly between 0 and 1, got {confidence!r}", "0.95 for instance")
    if (chosen and taxonomy is None) or (taxonomy is not None and taxonomy.per == "rc3p"):
        what = "per='rc3p'" if taxonomy is not None else chosen[0]
        raise InputError(
            f"Expected confidence= without {what}, for which no such law is known", "leave one of them out"
        )


def _calibrate_tables(
    tables: Any, score: Any, alpha: Any, per: Any, unseen: str, seed: Seed, own: Mapping[str, Any]
) -> ConformalPredictor:
    """Calibrate on what `pippin.scan` returns; `own` are keywords that tables bring themselves or cannot have."""
    from pippin._distributed.calibration import Calibration, calibrate_batched

    if given := next((name for name, value in own.items() if value is not None), None):
        raise InputError(f"Expected tables without {given}=", "leave it out, or read the rows into arrays first")
    calibration = Calibration(score, alpha, classes=tables.classes, per=per, unseen=unseen, seed=seed)
    return calibrate_batched(tables, calibration)
