"""CrossConformalClassifier: every row fits and calibrates, in folds, and predictions are sets."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from pippin._conformal.calibrate import calibrate
from pippin._conformal.sets import PredictionSets
from pippin._runtime.arrays import Seed
from pippin._theory.scores import Score
from pippin.sklearn.rows import as_names, as_seed, as_targets, fitted, fold_of_rows, probabilities, several
from pippin.sklearn.set_classifier import SetClassifier

__all__ = ["CrossConformalClassifier"]


class CrossConformalClassifier(SetClassifier):
    """A classifier for few rows: cross-conformal prediction, which for classes is the same as CV+.

    `fit` fits one clone of the estimator per fold, on the rows of all other folds, and lets it
    score its own fold. Sets hold the true class with a probability of usually about
    1 − alpha; what is proven is `predictor_.guarantee`. The folds do not look at y.

    Args:
        estimator: a classifier with `predict_proba`, a pipeline for instance; None is
            `LogisticRegression(max_iter=1000)`.
        score: a score or its spelling, `"repip(gamma=0.05)"`; see `ConformalClassifier`.
        alpha: the share of errors aimed at.
        cv: the number of folds, which are drawn at random; or a scikit-learn splitter or a list of
            (train, test) indices whose test parts hold every row once (for `GroupKFold`, pass
            `groups` to `fit`).
        random_state: a seed or generator for the folds, for randomised scores, and for an
            estimator that has none; None draws fresh entropy, never from NumPy's global
            generator.

    Attributes:
        estimators_: the fitted classifiers, one per fold.
        folds_: the fold of each row.
        classes_: all classes, sorted; one that a model never saw has probability 0 there.
        predictor_: the calibrated `pippin.ConformalPredictor`.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = CrossConformalClassifier(alpha=0.1, random_state=0).fit(X[::2, :4], y[::2])
    >>> clf.predict_set(X[1::2, :4])
    PredictionSets(89 objects, 3 classes, mean size 1.40, 64 % singletons)
    """

    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED}  # it is the estimator that asks for weights

    def __init__(
        self,
        estimator: Any = None,
        score: Score | str = "repip",
        alpha: float = 0.1,
        cv: Any = 5,
        random_state: "int | np.random.RandomState | np.random.Generator | None" = None,
    ) -> None:
        self.estimator = estimator
        self.score = score
        self.alpha = alpha
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> "CrossConformalClassifier":
        """Fits a model per fold, and calibrates on what each says of its own fold.

        Args:
            X: rows of features, as the estimator takes them.
            y: their classes.
            sample_weight: goes to the estimators, cut to their rows; of a pipeline, to its last
                step. Weights do not enter the calibration.
            fit_params: more for the estimators' fit, cut likewise; `groups` for a splitter.
        """
        X, y = indexable(X, as_targets(X, y))  # noqa: N806 - scikit-learn's name
        classes = several(y)
        seed = as_seed(self.random_state)
        to_fit, to_split = self._routed(X, sample_weight, fit_params)
        folds = fold_of_rows(self.cv, X, y, seed, to_split)
        probs = np.zeros((len(y), len(classes)))
        estimators = []
        for f in range(int(folds.max()) + 1):
            train, own = np.flatnonzero(folds != f), np.flatnonzero(folds == f)
            own_seed = None if self.random_state is None else seed
            estimators.append(fitted(self._estimator, X, y, train, to_fit, own_seed))
            probs[own] = probabilities(estimators[f], classes, _safe_indexing(X, own))
        predictor = calibrate(
            probs,
            np.searchsorted(classes, y),
            vars(self)["score"],
            self.alpha,
            folds=folds,
            classes=range(len(classes)),
            seed=np.random.default_rng([seed, 2]),
        )
        self.predictor_ = replace(predictor, classes=tuple(as_names(classes)))
        self.estimators_, self.classes_, self.folds_, self._seed = estimators, classes, folds, seed
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The mean of the models' probabilities, a column for each of `classes_`.

        Args:
            X: rows of features, as the estimator takes them.
        """
        mean: NDArray[Any] = self._fold_probs(X).mean(axis=0)
        return mean

    def predict_set(
        self, X: Any, alpha: float | None = None, *, nonempty: bool = False, seed: Seed = None
    ) -> PredictionSets:
        """The prediction set of each row, at the fitted level or at another.

        Args:
            X: rows of features, as the estimator takes them.
            alpha: the share of errors aimed at; by default the classifier's own.
            nonempty: whether a set that would be empty gets the most probable class.
            seed: for a randomised score; without it, u comes from `random_state` and the rows
                themselves, so that the same rows get the same sets again.
        """
        return self._sets(X, self._fold_probs, alpha, seed=seed, nonempty=nonempty)

    @property
    def _fitted(self) -> Any:
        return self.estimators_[0]

    def _fold_probs(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        return np.stack([probabilities(model, self.classes_, X) for model in self.estimators_])
