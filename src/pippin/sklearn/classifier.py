"""ConformalClassifier: a part of the rows fits, another calibrates, and predictions are sets."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from pippin._conformal.calibrate import calibrate
from pippin._conformal.mondrian import Per
from pippin._conformal.sets import PredictionSets
from pippin._runtime.arrays import Seed
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score
from pippin._validation.fingerprints import fingerprints, seen_before
from pippin.sklearn.rows import as_names, as_seed, as_targets, cut, fitted, probabilities, several, split
from pippin.sklearn.set_classifier import SetClassifier
from pippin.sklearn.trained_on import check_unseen

__all__ = ["ConformalClassifier"]


class ConformalClassifier(SetClassifier):
    """A classifier whose `predict_set` holds the true class with probability at least 1 − alpha.

    `fit` holds some rows out at random, fits a clone of the estimator on the rest, and
    calibrates on what it held out. The split does not look at y: a stratified one would
    keep the rarest classes out of the calibration and miss the level.

    Args:
        estimator: a classifier with `predict_proba`, a pipeline for instance; None is
            `LogisticRegression(max_iter=1000)`.
        score: a score or its spelling, `"repip(gamma=0.05)"`. `clf.score` is scikit-learn's
            method (accuracy); the parameter is in `get_params()` and in `predictor_.score`.
        alpha: the share of errors allowed.
        cv: the fraction of rows that `fit` holds out; or a scikit-learn splitter or a list
            of (train, calibration) indices, whose first pair is used (for
            `GroupShuffleSplit`, pass `groups` to `fit`); or "prefit": the estimator is
            fitted already, and `fit`, like `calibrate`, only calibrates. A `FrozenEstimator`
            always counts as fitted, and unlike a plain estimator it stays so when cloned.
        random_state: a seed or generator for the split, for randomised scores, and for an
            estimator that has none; None draws fresh entropy, never from NumPy's global
            generator.
        per: None, or what the guarantee holds for beyond all objects together: every "class",
            "group", "class and group", "cluster" of classes, or every class by "rc3p"; as in
            `pippin.calibrate`. Groups are given to `fit` and `predict_set`.

    Attributes:
        estimator_: the fitted classifier.
        classes_: all classes, sorted; one that the training part lacks has probability 0.
        predictor_: the calibrated `pippin.ConformalPredictor`, which can
            be saved.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ConformalClassifier(alpha=0.1, random_state=0).fit(X[::2, :4], y[::2])
    >>> clf.predict_set(X[1::2, :4])
    PredictionSets(89 objects, 3 classes, mean size 1.79, 48 % singletons)
    """

    __metadata_request__fit: ClassVar = {
        "sample_weight": UNUSED,
        "groups": True,
    }  # it is the estimator that asks for weights

    def __init__(
        self,
        estimator: Any = None,
        score: Score | str = "repip",
        alpha: float = 0.1,
        cv: Any = 0.25,
        random_state: "int | np.random.RandomState | np.random.Generator | None" = None,
        per: "Per | None" = None,
    ) -> None:
        self.estimator = estimator
        self.score = score
        self.alpha = alpha
        self.cv = cv
        self.random_state = random_state
        self.per = per

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **fit_params: Any
    ) -> "ConformalClassifier":
        """Fits on some of the rows and calibrates on the others; a fitted estimator is only calibrated.

        Args:
            X: rows of features, as the estimator takes them.
            y: their classes.
            sample_weight: goes to the estimator, cut to its rows; of a pipeline, to its last step.
                Weights do not enter the calibration, whose promise is about rows as they come.
            groups: the group of each row, for a guarantee per group, and for a splitter.
            fit_params: more for the estimator's fit, cut likewise.
        """
        if groups is not None and not self._by_group:
            fit_params = {**fit_params, "groups": groups}
        if self._is_prefit:
            if sample_weight is not None or fit_params:
                raise InputError(
                    "Expected X and y alone, got more", "a fitted estimator is only calibrated, so leave it out"
                )
            return self.calibrate(X, y, groups=groups)
        X, y = indexable(X, as_targets(X, y))  # noqa: N806 - scikit-learn's name
        classes = several(y)
        seed = as_seed(self.random_state)
        more = {"groups": groups} if self._by_group and hasattr(self.cv, "split") else {}
        to_fit, to_split = self._routed(X, sample_weight, {**fit_params, **more})
        train, held_out = split(self.cv, X, y, seed, to_split)
        estimator = fitted(self._estimator, X, y, train, to_fit, None if self.random_state is None else seed)
        own = None if groups is None else cut(groups, held_out, len(y))
        self._accept(estimator, classes, seed, _safe_indexing(X, held_out), y[held_out], own)
        self._rows, self._trained = fingerprints(X), train
        return self

    def calibrate(self, X: Any, y: Any, *, groups: Any = None) -> "ConformalClassifier":
        """Finds the threshold (again) on rows that the estimator was not fitted on.

        Args:
            X: rows of features, as the estimator takes them.
            y: their classes.
            groups: the group of each row, for a guarantee per group.

        Raises:
            InputError: `fit` used these rows, or a fitted estimator keeps them from its training,
                as neighbours, Gaussian processes and support vectors do. Of others it cannot be
                known what they saw; a warning is given where they are right on every row, or
                more often than on what they held out themselves.
        """
        if self._is_prefit:
            estimator = self._estimator
            if not hasattr(estimator, "classes_"):
                raise NotFittedError(
                    f"Expected a fitted estimator for cv='prefit', got a {type(estimator).__name__} that is not: "
                    "fit it, and wrap it in sklearn.frozen.FrozenEstimator where it is going to be cloned."
                )
            labels = as_targets(X, y)
            self._accept(estimator, np.asarray(estimator.classes_), as_seed(self.random_state), X, labels, groups)
            return self
        check_is_fitted(self, "estimator_")
        labels = as_targets(X, y)
        rows = fingerprints(X)
        seen = len(rows) if np.array_equal(rows, self._rows) else seen_before(self._rows[self._trained], rows)
        if seen:
            raise InputError(
                f"Expected rows that the estimator was not fitted on, got {seen} of {len(rows)} that went through fit",
                "calibrate on fresh rows, or keep the calibration that fit has made",
            )
        self._accept(self.estimator_, self.classes_, self._seed, X, labels, groups)
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The estimator's probabilities, a column for each of `classes_`.

        Args:
            X: rows of features, as the estimator takes them.
        """
        check_is_fitted(self)
        return probabilities(self.estimator_, self.classes_, X)

    def predict_set(
        self,
        X: Any,
        alpha: float | None = None,
        *,
        groups: Any = None,
        nonempty: bool = False,
        seed: Seed = None,
    ) -> PredictionSets:
        """The prediction set of each row, at the fitted level or at another.

        Args:
            X: rows of features, as the estimator takes them.
            alpha: the share of errors allowed; by default the classifier's own.
            groups: the group of each row, where the guarantee is per group.
            nonempty: whether a set that would be empty gets the most probable class.
            seed: for a randomised score; without it, u comes from `random_state` and the rows
                themselves, so that the same rows get the same sets again.
        """
        options = {"groups": groups} if self._by_group else {}
        return self._sets(X, self.predict_proba, alpha, seed=seed, nonempty=nonempty, **options)

    @property
    def _fitted(self) -> Any:
        return self.estimator_

    @property
    def _is_prefit(self) -> bool:
        return (isinstance(self.cv, str) and self.cv == "prefit") or isinstance(self.estimator, FrozenEstimator)

    @property
    def _by_group(self) -> bool:
        return self.per is not None and "group" in self.per

    def _accept(
        self, estimator: Any, classes: NDArray[Any], seed: int, X: Any, y: NDArray[Any], groups: Any = None
    ) -> None:
        """Calibrates, and only then keeps what was made."""
        names = dict(zip(classes.tolist(), as_names(classes), strict=True))
        given = y.tolist()
        strange = next((i for i, label in enumerate(given) if label not in names), None)
        if strange is not None:
            raise InputError(
                f"Row {strange} has the label {given[strange]!r}, expected one of the {len(names)} classes that the "
                "estimator knows",
                "leave the row out, or fit again with that class",
            )
        probs = probabilities(estimator, classes, X)
        if self._is_prefit:
            check_unseen(estimator, X, classes[probs.argmax(axis=1)] == y)
        labels = [str(names[label]) for label in given]
        draws = np.random.default_rng([seed, 2])
        chosen = vars(self)["score"]
        options: Any = {"per": self.per, "groups": groups if self._by_group else None}
        predictor = calibrate(probs, labels, chosen, self.alpha, classes=tuple(names.values()), seed=draws, **options)
        self.estimator_, self.classes_, self.predictor_, self._seed = estimator, classes, predictor, seed
