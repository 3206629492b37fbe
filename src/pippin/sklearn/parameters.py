"""What our classifiers share as scikit-learn estimators: `score`, the default estimator, and metadata routing."""

from collections.abc import Callable
from types import MethodType
from typing import Any

from sklearn import get_config
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_array
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_consistent_length

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
