"""Scikit-learn classifiers that predict sets, calibrated on held-out rows or by cross-conformal prediction."""

from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import _safe_indexing, check_array, get_tags, indexable
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from pippin._conformal.calibrate import Settings, calibrate_labelled
from pippin._conformal.mondrian import Per, as_taxonomy
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.sets import PredictionSets
from pippin._runtime.arrays import Seed
from pippin._runtime.errors import InputError, warn
from pippin._theory.scores import Score
from pippin._theory.spelling import parse_ip_ms, parse_score
from pippin._validation.fingerprints import fingerprints, seen_before
from pippin._validation.frames import row_index
from pippin._validation.labels import Labelled, as_labelled
from pippin.sklearn import rows as rows_of


class ScoreParameter:
    """Descriptor of `score`: reading gives the method of scikit-learn, setting sets the parameter of this name."""

    def __get__(self, owner: Any, kind: type) -> Callable[..., float]:
        method: Callable[..., float] = ClassifierMixin.score
        return method if owner is None else MethodType(method, owner)

    def __set__(self, owner: Any, value: Any) -> None:
        vars(owner)["score"] = value


class SetClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Base class of the classifiers: parameters, default estimator, tags, prediction sets and metadata routing."""

    score = ScoreParameter()
    _chosen_by: str | None = None  # class name of the search that used the calibration rows to choose this classifier

    def __init__(
        self,
        estimator: Any = None,
        score: Score | str = "repip",
        alpha: float = 0.1,
        cv: Any = 5,
        random_state: "int | np.random.RandomState | np.random.Generator | None" = None,
    ) -> None:
        self.estimator, self.score, self.alpha = estimator, score, alpha
        self.cv, self.random_state = cv, random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Args:
            deep: if True, include the parameters of the estimator.

        Returns:
            The parameters.
        """
        return {**super().get_params(deep), "score": vars(self)["score"]}

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class of each row; of equally probable classes, the first.

        Args:
            X: rows of features, as the estimator takes them.

        Returns:
            One class per row.
        """
        best = self.predict_proba(X).argmax(axis=1)  # raises NotFittedError if not fitted
        return np.asarray(self.classes_[best])

    @property
    def n_features_in_(self) -> int:
        """Number of features, from the attribute of the fitted estimator."""
        return int(self._fitted.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features, if X had names."""
        return np.asarray(self._fitted.feature_names_in_)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of metadata to the estimator and the splitter.

        Returns:
            The router.
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self._estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        if hasattr(self.cv, "split"):
            router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        return router

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._estimator).input_tags
        tags.input_tags.pairwise = False
        return tags

    @property
    def _estimator(self) -> Any:
        """Unfitted estimator; if none was passed, a logistic regression that requests sample weights."""
        if self.estimator is not None:
            return self.estimator
        default = LogisticRegression(max_iter=1000)
        return default.set_fit_request(sample_weight=True) if get_config()["enable_metadata_routing"] else default

    @property
    def _after_a_search(self) -> str:
        """Remedy in the warning that a search has used the calibration rows; {search} stands for the search's name."""
        return f"put the search inside, {type(self).__name__}({{search}}(…))"

    @property
    def _fitted(self) -> Any:
        """Fitted estimator; with one estimator per fold, the first."""
        return self.estimators_[0] if hasattr(self, "estimators_") else self.estimator_

    def _sets(
        self, X: Any, probs: Callable[[Any], Any], alpha: float | None, seed: Seed, **options: Any
    ) -> PredictionSets:
        """Predict sets; without a seed, random numbers of a randomized score depend only on `random_state` and X."""
        check_is_fitted(self)
        if self._chosen_by is not None:
            warn(
                f"{self._chosen_by} chose this classifier on the rows that calibrate it, so coverage may be below 1 − "
                f"alpha: {self._after_a_search.format(search=self._chosen_by)}."
            )
        predictor = self.predictor_ if alpha is None else self.predictor_.at(alpha)
        if seed is None and predictor.score.randomized and self.random_state is not None:
            seed = np.random.default_rng([self._seed, 1, int(fingerprints(X).sum())])
        sets: PredictionSets = predictor.predict(probs(X), seed=seed, **options)
        return replace(sets, index=row_index(X))

    def _routed(self, X: Any, weight: Any, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parameters of the estimator's `fit` and of the splitter's `split`."""
        is_routing, splits = get_config()["enable_metadata_routing"], hasattr(self.cv, "split")
        if weight is not None:
            weight = check_array(weight, ensure_2d=False, input_name="sample_weight")
            check_consistent_length(X, weight)
            params = {**params, "sample_weight" if is_routing else rows_of.weight_name(self._estimator): weight}
        if is_routing:
            routed = process_routing(self, "fit", **params)
            return dict(routed.estimator.fit), dict(routed.splitter.split) if splits else {}
        to_split = {"groups": params.pop("groups")} if splits and "groups" in params else {}
        return params, to_split

    def _fit_one(self, X: Any, y: NDArray[Any], train: NDArray[Any], params: dict[str, Any], seed: int) -> Any:
        """Fit a clone of the estimator on the training rows."""
        return rows_of.fitted(self._estimator, X, y, train, params, None if self.random_state is None else seed)

    def _calibrated(self, data: Labelled, seed: int, **options: Any) -> ConformalPredictor:
        """Calibrate on rows that are known to be held out, so that an accuracy of 100% causes no warning."""
        score = vars(self)["score"]
        settings = Settings(parse_ip_ms(score) or parse_score(score), self.alpha, np.random.default_rng([seed, 2]))
        settings = settings._replace(**options)
        settings.check()
        return calibrate_labelled(data, settings)


class ConformalClassifier(SetClassifier):
    """Classifier whose prediction sets contain the true class with probability at least 1 − alpha.

    `fit` holds out some rows at random, fits a clone of the estimator on the others, and calibrates on the held-out
    rows. The split is not stratified, since a split that depends on y could reduce coverage below 1 − alpha.

    A parameter search belongs inside, `ConformalClassifier(GridSearchCV(…))`, where it uses only the rows to fit on. A
    search outside chooses on the rows that calibrate in the end, and coverage can fall below 1 − alpha: `predict_set`
    then warns. To search over `score` too, call `calibrate` on the chosen classifier with rows that the search has not
    used.

    Args:
        estimator: a classifier with `predict_proba`, or a pipeline; None stands for
            `LogisticRegression(max_iter=1000)`.
        score: a score, or its name with parameters, such as `"repip(gamma=0.05)"`. The attribute `clf.score` is not
            this parameter but scikit-learn's method, which computes accuracy; read `clf.get_params()["score"]`.
        alpha: significance level (miscoverage).
        cv: the rows to hold out. A number is the share of rows. A scikit-learn splitter, or a list of pairs of training
            and calibration row numbers, determines the rows by its first pair; for `GroupShuffleSplit`, pass `groups`
            to `fit`. "prefit" is for an estimator that is already fitted: `fit` then uses all rows for calibration. A
            `FrozenEstimator` is always treated as fitted; unlike other estimators, it stays fitted when it is cloned.
        random_state: seed or generator for the split, for randomized scores, and for an estimator whose own
            `random_state` is None. With None, results differ between calls; NumPy's global generator is never used.
        per: Mondrian taxonomy, as in `pippin.calibrate`: None, "class", "group", "class and group", "cluster", "rc3p"
            or "interpolated". Pass groups to `fit` and `predict_set`.

    Attributes:
        estimator_: the fitted classifier.
        classes_: all classes, sorted; a class without training rows has probability 0.
        predictor_: the calibrated `pippin.ConformalPredictor`, which can be saved.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ConformalClassifier(alpha=0.1, random_state=0).fit(X[::2, :4], y[::2])
    >>> clf.predict_set(X[1::2, :4])
    PredictionSets(89 objects, 3 classes, mean size 1.79, 48% singletons)
    """

    # `sample_weight` is unused here: in metadata routing, the estimator requests it itself.
    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED, "groups": True}

    def __init__(
        self,
        estimator: Any = None,
        score: Score | str = "repip",
        alpha: float = 0.1,
        cv: Any = 0.25,
        random_state: "int | np.random.RandomState | np.random.Generator | None" = None,
        per: "Per | None" = None,
    ) -> None:
        super().__init__(estimator, score, alpha, cv, random_state)
        self.per = per

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **fit_params: Any
    ) -> "ConformalClassifier":
        """Fit on some of the rows and calibrate on the others; with a fitted estimator, calibrate only.

        Args:
            X: rows of features, as the estimator takes them.
            y: their classes.
            sample_weight: weights for the `fit` of the estimator (of the last step of a pipeline); calibration does
                not use them.
            groups: the group of each row, for a guarantee per group, and for a splitter.
            fit_params: further parameters of the estimator's `fit`; a parameter with one value per row is reduced to
                the training rows.

        Returns:
            The classifier itself.

        Raises:
            InputError: there are fewer than two classes, or a parameter is invalid.
        """
        if groups is not None and not self._by_group:
            fit_params = {**fit_params, "groups": groups}
        if self._is_prefit:
            if sample_weight is not None or fit_params:
                raise InputError("Expected only X, y and groups with a fitted estimator, got more", "leave it out")
            self.calibrate(X, y, groups=groups)
            self._chosen_by = rows_of.refitting_search()
            return self
        X, y = indexable(X, rows_of.as_targets(X, y))  # noqa: N806 - scikit-learn's name
        classes, seed = rows_of.classes_in(y), rows_of.as_seed(self.random_state)
        more = {"groups": groups} if self._by_group and hasattr(self.cv, "split") else {}
        to_fit, to_split = self._routed(X, sample_weight, {**fit_params, **more})
        train, held_out = rows_of.split(self.cv, X, y, seed, to_split)
        estimator = self._fit_one(X, y, train, to_fit, seed)
        held_out_groups = None if groups is None else rows_of.cut(groups, held_out, len(y))
        self._accept(estimator, classes, seed, _safe_indexing(X, held_out), y[held_out], held_out_groups)
        self._rows, self._trained, self._chosen_by = fingerprints(X), train, rows_of.refitting_search()
        return self

    def calibrate(self, X: Any, y: Any, *, groups: Any = None) -> "ConformalClassifier":
        """Calibrate, or recalibrate, on rows that the estimator was not fitted on, and that no search has used.

        With an estimator that was fitted before (`cv="prefit"`), a warning is issued if these rows seem to be its
        training rows: it classifies a clearly larger share of them correctly than of its own held-out rows (from
        cross-validation, early stopping or out-of-bag estimates), or makes far fewer errors than its probabilities
        predict.

        Args:
            X: rows of features, as the estimator takes them.
            y: their classes.
            groups: the group of each row, for a guarantee per group.

        Returns:
            The classifier itself.

        Raises:
            InputError: the rows were used by `fit`; or, with `cv="prefit"`, the estimator stores training rows (such as
                nearest neighbors) and these rows are among them.
        """
        if self._is_prefit:
            estimator = self._estimator
            if not hasattr(estimator, "classes_"):
                raise NotFittedError(
                    f"Expected a fitted estimator for cv='prefit', got a {type(estimator).__name__} that is not: "
                    "fit it, and wrap it in sklearn.frozen.FrozenEstimator if it is to be cloned."
                )
            classes, seed = np.asarray(estimator.classes_), rows_of.as_seed(self.random_state)
            self._accept(estimator, classes, seed, X, rows_of.as_targets(X, y), groups)
            self._chosen_by = None
            return self
        check_is_fitted(self, "estimator_")
        labels = rows_of.as_targets(X, y)
        rows = fingerprints(X)
        seen = len(rows) if np.array_equal(rows, self._rows) else seen_before(self._rows[self._trained], rows)
        if seen:
            what = f"got {seen} of {len(rows)} that went through fit"
            raise InputError(f"Expected rows that the estimator was not fitted on, {what}", "calibrate on fresh rows")
        self._accept(self.estimator_, self.classes_, self._seed, X, labels, groups)
        self._chosen_by = None
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Predict the probability of each class.

        Args:
            X: rows of features, as the estimator takes them.

        Returns:
            The estimator's probabilities, with one column for each of `classes_`.
        """
        check_is_fitted(self)
        return rows_of.probabilities(self.estimator_, self.classes_, X)

    def predict_set(
        self, X: Any, alpha: float | None = None, *, groups: Any = None, nonempty: bool = False, seed: Seed = None
    ) -> PredictionSets:
        """Predict the set of each row, at the level of the classifier or at another level.

        Args:
            X: rows of features, as the estimator takes them.
            alpha: significance level (miscoverage); by default that of the classifier.
            groups: the group of each row, for a guarantee per group.
            nonempty: add the most probable class to empty sets.
            seed: seed for a randomized score. By default it is derived from `random_state` and X, so that repeated
                calls return equal sets; with `random_state=None` they differ.

        Returns:
            One prediction set per row.
        """
        options = {"groups": groups} if self._by_group else {}
        return self._sets(X, self.predict_proba, alpha, seed, nonempty=nonempty, **options)

    @property
    def _is_prefit(self) -> bool:
        return (isinstance(self.cv, str) and self.cv == "prefit") or isinstance(self.estimator, FrozenEstimator)

    @property
    def _after_a_search(self) -> str:
        return f"{super()._after_a_search}, or call calibrate with rows that the search has not used"

    @property
    def _by_group(self) -> bool:
        return self.per is not None and "group" in self.per

    def _accept(
        self, estimator: Any, classes: NDArray[Any], seed: int, X: Any, y: NDArray[Any], groups: Any = None
    ) -> None:
        """Calibrate the fitted estimator on these rows, then set the attributes of the fitted classifier."""
        names = dict(zip(classes.tolist(), rows_of.as_names(classes), strict=True))
        given = y.tolist()
        unknown = next((i for i, label in enumerate(given) if label not in names), None)
        if unknown is not None:
            what = f"Row {unknown} has the label {given[unknown]!r}, expected one of the {len(names)} classes"
            raise InputError(what, "leave the row out, or fit again with that class")
        labels = [str(names[label]) for label in given]
        data = as_labelled(rows_of.probabilities(estimator, classes, X), labels, tuple(names.values()))
        if self._is_prefit:
            rows_of.check_unseen(estimator, X, data)
        taxonomy = as_taxonomy(self.per, groups if self._by_group else None, "error")
        predictor = self._calibrated(data, seed, taxonomy=taxonomy)
        self.estimator_, self.classes_, self.predictor_, self._seed = estimator, classes, predictor, seed


class CrossConformalClassifier(SetClassifier):
    """Classifier calibrated by cross-conformal prediction, for few rows; its sets are those of CV+ for classification.

    For each fold, `fit` fits a clone of the estimator on all other folds, and computes the scores of the fold's rows
    with it. Coverage is usually about 1 − alpha; the proven coverage is `predictor_.guarantee`. Folds do not depend on
    y. A parameter search belongs inside, `CrossConformalClassifier(GridSearchCV(…))`.

    Args:
        estimator: a classifier with `predict_proba`, or a pipeline; None stands for
            `LogisticRegression(max_iter=1000)`.
        score: a score, or its name with parameters, such as `"repip(gamma=0.05)"`; see `ConformalClassifier`.
        alpha: significance level (miscoverage).
        cv: number of random folds; or a scikit-learn splitter or a list of (train, test) indices whose test parts
            contain every row once (for `GroupKFold`, pass `groups` to `fit`).
        random_state: seed or generator for the folds, for randomized scores, and for an estimator whose own
            `random_state` is None. With None, results differ between calls; NumPy's global generator is never used.

    Attributes:
        estimators_: the fitted classifiers, one per fold.
        folds_: the fold of each row.
        classes_: all classes, sorted; a class without training rows has probability 0.
        predictor_: the calibrated `pippin.ConformalPredictor`.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = CrossConformalClassifier(alpha=0.1, random_state=0).fit(X[::2, :4], y[::2])
    >>> clf.predict_set(X[1::2, :4])
    PredictionSets(89 objects, 3 classes, mean size 1.40, 64% singletons)
    """

    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED}  # requested by the estimator itself

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> "CrossConformalClassifier":
        """Fit one estimator per fold, and calibrate on the scores of all folds.

        Args:
            X: rows of features, as the estimator takes them.
            y: their classes.
            sample_weight: weights for the `fit` of the estimators (of the last step of a pipeline); calibration does
                not use them.
            fit_params: further parameters of the estimators' `fit`; a parameter with one value per row is reduced to
                the training rows. `groups` is passed to the splitter.

        Returns:
            The classifier itself.

        Raises:
            InputError: there are fewer than two classes, or a parameter is invalid.
        """
        X, y = indexable(X, rows_of.as_targets(X, y))  # noqa: N806 - scikit-learn's name
        classes, seed = rows_of.classes_in(y), rows_of.as_seed(self.random_state)
        to_fit, to_split = self._routed(X, sample_weight, fit_params)
        folds = rows_of.fold_of_rows(self.cv, X, y, seed, to_split)
        probs, estimators = np.zeros((len(y), len(classes))), []
        for f in range(int(folds.max()) + 1):
            train, held_out = np.flatnonzero(folds != f), np.flatnonzero(folds == f)
            estimators.append(self._fit_one(X, y, train, to_fit, seed))
            probs[held_out] = rows_of.probabilities(estimators[f], classes, _safe_indexing(X, held_out))
        data = as_labelled(probs, np.searchsorted(classes, y), range(len(classes)))
        predictor = self._calibrated(data, seed, options={"folds": folds})
        self.predictor_ = replace(predictor, classes=tuple(rows_of.as_names(classes)))
        self.estimators_, self.classes_, self.folds_, self._seed = estimators, classes, folds, seed
        self._chosen_by = rows_of.refitting_search()
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Predict the probability of each class.

        Args:
            X: rows of features, as the estimator takes them.

        Returns:
            The mean of the probabilities by the estimators of all folds, with one column for each of `classes_`.
        """
        return np.asarray(self._fold_probs(X).mean(axis=0))

    def predict_set(
        self, X: Any, alpha: float | None = None, *, nonempty: bool = False, seed: Seed = None
    ) -> PredictionSets:
        """Predict the set of each row, at the level of the classifier or at another level.

        Args:
            X: rows of features, as the estimator takes them.
            alpha: significance level (miscoverage); by default that of the classifier.
            nonempty: add the most probable class to empty sets.
            seed: seed for a randomized score. By default it is derived from `random_state` and X, so that repeated
                calls return equal sets; with `random_state=None` they differ.

        Returns:
            One prediction set per row.
        """
        return self._sets(X, self._fold_probs, alpha, seed, nonempty=nonempty)

    def _fold_probs(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        return np.stack([rows_of.probabilities(model, self.classes_, X) for model in self.estimators_])
