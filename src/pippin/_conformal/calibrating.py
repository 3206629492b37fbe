"""The two functions to begin with: scores, and a predictor from calibration rows."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, Unpack, overload

from numpy.typing import ArrayLike

from pippin._conformal.by_cell import calibrate_conditional
from pippin._conformal.conditional import ConditionalPredictor
from pippin._conformal.grouping import Grouping, Per
from pippin._conformal.kinds import Level, as_levels, warn_of_levels
from pippin._conformal.marginal import Predictor, calibrate_marginal
from pippin._conformal.sharpened import SharpenedPredictor
from pippin._conformal.units import UnitPredictor, calibrate_units
from pippin._distributed.batches import calibrate_batched
from pippin._distributed.calibration import Calibration
from pippin._engine import dispatch
from pippin._engine.draws import draws
from pippin._runtime.arrays import Classes, Seed, Vector
from pippin._runtime.errors import InputError
from pippin._sharpening.sharpener import Sharpener
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_score
from pippin._validation.batched import Batched, is_batched
from pippin._validation.index import same_index
from pippin._validation.labels import as_classes, as_labelled, as_labels
from pippin._validation.rows import as_rows

Unseen = Literal["error", "marginal"]


def score(
    probs: Any, labels: ArrayLike | None, score: Score | str, *, seed: Seed = None, from_logits: bool = False
) -> Vector:
    """Scores of the given labels, (n,); with labels=None of every class, (n, K).

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: one class per row, as indices or as names; None asks for all classes.
        score: a score or its spelling.
        seed: for a randomised score; a seed or a Generator.
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


class OfRows(TypedDict, total=False):
    """What may be told of any rows that calibrate."""

    classes: Classes | None
    seed: Seed
    from_logits: bool


@overload
def calibrate(
    probs: Batched,
    labels: None = None,
    score: Score | str = "repip",
    alpha: Level = 0.1,
    *,
    seed: Seed = None,
    per: Per | Mapping[Any, str] | None = None,
    unseen: Unseen = "error",
) -> Predictor | ConditionalPredictor: ...
@overload
def calibrate(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    alpha: float = 0.1,
    *,
    sharpen: Sharpener,
    features: ArrayLike | None = None,
    per: Per | None = None,
    groups: ArrayLike | None = None,
    units: ArrayLike | None = None,
    unseen: Unseen = "error",
    **more: Unpack[OfRows],
) -> SharpenedPredictor: ...
@overload
def calibrate(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    alpha: float = 0.1,
    *,
    units: ArrayLike,
    **more: Unpack[OfRows],
) -> UnitPredictor: ...
@overload
def calibrate(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    alpha: float = 0.1,
    *,
    per: None = None,
    groups: None = None,
    **more: Unpack[OfRows],
) -> Predictor: ...
@overload
def calibrate(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    alpha: Level = 0.1,
    *,
    per: Per | Mapping[Any, str],
    groups: ArrayLike | None = None,
    unseen: Unseen = "error",
    **more: Unpack[OfRows],
) -> ConditionalPredictor: ...
@overload
def calibrate(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    alpha: Level = 0.1,
    *,
    per: Per | Mapping[Any, str] | None = None,
    groups: ArrayLike,
    unseen: Unseen = "error",
    **more: Unpack[OfRows],
) -> ConditionalPredictor: ...
@overload
def calibrate(
    probs: Any,
    labels: ArrayLike,
    score: Score | str = "repip",
    alpha: Level = 0.1,
    *,
    per: Per | Mapping[Any, str] | None = None,
    groups: ArrayLike | None = None,
    unseen: Unseen = "error",
    **more: Unpack[OfRows],
) -> Predictor | ConditionalPredictor: ...
def calibrate(
    probs: Any,
    labels: ArrayLike | None = None,
    score: Score | str = "repip",
    alpha: Level = 0.1,
    *,
    classes: Classes | None = None,
    seed: Seed = None,
    per: Per | Mapping[Any, str] | None = None,
    groups: ArrayLike | None = None,
    unseen: Unseen = "error",
    units: ArrayLike | None = None,
    sharpen: Sharpener | None = None,
    features: ArrayLike | None = None,
    from_logits: bool = False,
) -> Predictor | ConditionalPredictor | UnitPredictor | SharpenedPredictor:
    """A predictor whose sets contain the true class with probability at least 1 − alpha.

    The threshold is the k-th smallest score of the true labels, k = ⌈(n + 1)(1 − alpha)⌉.
    The guarantee holds on average over calibration and test rows that are exchangeable:
    use rows the classifier was not trained on.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`. Or tables past memory, as `pippin.scan` returns
            them: they bring their classes, labels and groups. Of more than a million rows, the scores are not kept.
        labels: the true classes, as indices or as names.
        score: a score or its spelling.
        alpha: the share of errors allowed; where the guarantee is per kind, one for all or {kind: alpha}.
        classes: names of the K columns; a data frame brings its own.
        seed: for the randomised scores (APS, RAPS, SAPS) and for clusters; a seed or a Generator.
        per: what the guarantee holds for, beyond all objects together: every "class", every
            "group", every "class and group", with rare classes sharing by "cluster", or
            every class by "rc3p", which bounds its rank as well; or {class: kind}, every kind
            of classes. See docs/guarantees.md.
        groups: the group of each row, for a guarantee per group.
        unseen: what `predict` does with a group that is not among them: an "error", or the
            "marginal" threshold of all groups together.
        units: what rows belong to, such as the photograph of each window, where rows of one unit are alike: the
            guarantee is then for a row drawn at random from a new unit.
        sharpen: makes probabilities better first; learnt by `pippin.sharpen` on other rows.
        features: what the sharpener was shown beside the probabilities.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", 0.1, classes=data.classes)
    >>> round(predictor.threshold, 4)
    1.7291
    """
    if is_batched(probs):
        beside = {"labels": labels, "classes": classes, "groups": groups, "sharpen": sharpen, "features": features}
        beside |= {"units": units, "from_logits": from_logits or None}
        if given := next((name for name, value in beside.items() if value is not None), None):
            raise InputError(f"Expected tables without {given}=", "leave it out, the tables bring what they have")
        calibration = Calibration(score, alpha, classes=probs.classes, per=per, unseen=unseen, seed=seed)
        return calibrate_batched(probs, calibration)
    if labels is None:
        raise InputError("Expected the true classes of the rows, got no labels", "pass labels=, one per row")
    chosen = parse_score(score)
    warn_of_levels(alpha)
    data = as_labelled(probs, labels, classes, from_logits)
    if sharpen is not None:
        if not isinstance(sharpen, Sharpener):
            raise InputError(f"Expected a Sharpener, got {type(sharpen).__name__}", "make one with pippin.sharpen")
        sharpen.check_unseen(data.rows)
        same_index("probs", data.rows.index, features=features)
        data = data._replace(rows=sharpen.rows(data.rows, features=features))
    elif features is not None:
        raise InputError("Expected features= only beside sharpen=", "leave it out, or pass a sharpener")
    base: Predictor | ConditionalPredictor | UnitPredictor
    if units is not None:
        if per is not None or groups is not None or isinstance(alpha, Mapping):
            raise InputError(
                "Expected units= for one guarantee over all classes, got per=, groups= or several levels beside it",
                "choose one of them",
            )
        base = calibrate_units(data, chosen, alpha, seed, units)
    elif per is None and groups is None and unseen == "error":
        if isinstance(alpha, Mapping):
            as_levels(alpha, None)
        base = calibrate_marginal(data, chosen, alpha, seed)
    else:
        base = calibrate_conditional(data, chosen, alpha, seed, Grouping(per or "group", groups, unseen))
    return base if sharpen is None else sharpen.before(base)
