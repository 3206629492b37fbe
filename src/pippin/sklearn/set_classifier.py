"""What our classifiers share as scikit-learn estimators: `score`, the default estimator, tags, sets, and routing."""

from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_array, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from pippin._conformal.sets import PredictionSets
from pippin._runtime.arrays import Seed
from pippin._validation.fingerprints import fingerprints
from pippin._validation.rows import row_index
from pippin.sklearn.rows import weight_name


class ScoreParameter:
    """`score` is scikit-learn's method and our parameter: it reads as the method, and keeps what is set."""

    def __get__(self, owner: Any, kind: type) -> Callable[..., float]:
        method: Callable[..., float] = ClassifierMixin.score
        return method if owner is None else MethodType(method, owner)

    def __set__(self, owner: Any, value: Any) -> None:
        vars(owner)["score"] = value


class SetClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """A classifier with `estimator`, `cv` and `random_state`; once it is fitted, with `predictor_` and `classes_`."""

    score = ScoreParameter()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name.

        Args:
            deep: whether those of the estimator come too.
        """
        return {**super().get_params(deep), "score": vars(self)["score"]}

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row; the first of equal ones.

        Args:
            X: rows of features, as the estimator takes them.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @property
    def n_features_in_(self) -> int:
        """The number of features, where the estimator tells."""
        return int(self._fitted.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the features, where X had some."""
        return np.asarray(self._fitted.feature_names_in_)

    def get_metadata_routing(self) -> MetadataRouter:
        """What goes to the estimator and to the splitter."""
        made = MetadataRouter(owner=self).add_self_request(self)
        made.add(estimator=self._estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        if hasattr(self.cv, "split"):
            made.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        return made

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._estimator).input_tags  # rows such as the estimator takes
        tags.input_tags.pairwise = False
        return tags

    @property
    def _estimator(self) -> Any:
        """The estimator; for None a logistic regression that asks for weights."""
        if self.estimator is not None:
            return self.estimator
        default = LogisticRegression(max_iter=1000)
        return default.set_fit_request(sample_weight=True) if _is_routing() else default

    @property
    def _fitted(self) -> Any:
        """A fitted estimator, of several the first."""
        raise NotImplementedError

    def _sets(
        self, X: Any, probs: Callable[[Any], Any], alpha: float | None, *, seed: Seed, **told: Any
    ) -> PredictionSets:
        """The sets of rows at a level; without a seed, u comes from `random_state` and the rows themselves."""
        check_is_fitted(self)
        predictor = self.predictor_ if alpha is None else self.predictor_.at(alpha)
        if seed is None and predictor.score.randomized and self.random_state is not None:
            seed = np.random.default_rng([self._seed, 1, int(fingerprints(X).sum())])
        sets: PredictionSets = predictor.predict(probs(X), seed=seed, **told)
        return replace(sets, index=row_index(X))

    def _routed(self, X: Any, weight: Any, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the estimator's `fit` gets, and what the splitter's `split`."""
        if weight is not None:
            weight = check_array(weight, ensure_2d=False, input_name="sample_weight")
            check_consistent_length(X, weight)
            params = {**params, "sample_weight" if _is_routing() else weight_name(self._estimator): weight}
        if _is_routing():
            found = process_routing(self, "fit", **params)
            return dict(found.estimator.fit), dict(found.splitter.split) if hasattr(self.cv, "split") else {}
        to_split = {"groups": params.pop("groups")} if hasattr(self.cv, "split") and "groups" in params else {}
        return params, to_split


def _is_routing() -> bool:
    return bool(get_config()["enable_metadata_routing"])
