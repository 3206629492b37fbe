"""What our classifiers share as scikit-learn estimators: `score`, the default estimator, tags, sets, and routing."""

from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_array, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from pippin._inputs.fingerprints import fingerprints
from pippin._inputs.rows import row_index
from pippin._predictors.sets import PredictionSets
from pippin._runtime.arrays import Seed
from pippin.sklearn.rows import weight_name


class ScoreParameter:
    """`score` is scikit-learn's method and our parameter: it reads as the method, and keeps what is set."""

    def __get__(self, owner: Any, kind: type) -> Callable[..., float]:
        method: Callable[..., float] = ClassifierMixin.score
        return method if owner is None else MethodType(method, owner)

    def __set__(self, owner: Any, value: Any) -> None:
        vars(owner)["score"] = value


def or_default(estimator: Any) -> Any:
    """The estimator; for None a logistic regression that asks for weights."""
    if estimator is not None:
        return estimator
    default = LogisticRegression(max_iter=1000)
    return default.set_fit_request(sample_weight=True) if _is_routing() else default


def like_inputs(tags: Any, estimator: Any) -> Any:
    """The tags, of rows such as the estimator takes."""
    tags.input_tags = get_tags(estimator).input_tags
    tags.input_tags.pairwise = False
    return tags


def sets_of(
    owner: Any, X: Any, probs: Callable[[Any], Any], alpha: float | None, *, seed: Seed, **told: Any
) -> PredictionSets:
    """The sets of rows at a level; without a seed, u comes from `random_state` and the rows themselves."""
    check_is_fitted(owner)
    predictor = owner.predictor_ if alpha is None else owner.predictor_.at(alpha)
    if seed is None and predictor.score.randomized and owner.random_state is not None:
        seed = np.random.default_rng([owner._seed, 1, int(fingerprints(X).sum())])
    sets: PredictionSets = predictor.predict(probs(X), seed=seed, **told)
    return replace(sets, index=row_index(X))


def router(owner: Any, estimator: Any) -> MetadataRouter:
    """What of the metadata of `fit` goes to the estimator and to the splitter `owner.cv`."""
    made = MetadataRouter(owner=owner).add_self_request(owner)
    made.add(estimator=estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
    if hasattr(owner.cv, "split"):
        made.add(splitter=owner.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
    return made


def routed(
    owner: Any, estimator: Any, X: Any, weight: Any, params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the estimator's `fit` gets, and what the splitter's `split`."""
    if weight is not None:
        weight = check_array(weight, ensure_2d=False, input_name="sample_weight")
        check_consistent_length(X, weight)
        params = {**params, "sample_weight" if _is_routing() else weight_name(estimator): weight}
    if _is_routing():
        found = process_routing(owner, "fit", **params)
        return dict(found.estimator.fit), dict(found.splitter.split) if hasattr(owner.cv, "split") else {}
    to_split = {"groups": params.pop("groups")} if hasattr(owner.cv, "split") and "groups" in params else {}
    return params, to_split


def _is_routing() -> bool:
    return bool(get_config()["enable_metadata_routing"])
