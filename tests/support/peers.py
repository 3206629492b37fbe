"""Conformal predictors of MAPIE, TorchCP and crepes: calibrate on P and y, then return a mask of sets for each T.

Each function returns `predict(T) -> (n, K) bool`. P, y and T are writable NumPy arrays and
y holds class indices. An absent peer shows as an ImportError.
"""

import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Predict = Callable[[NDArray[Any]], Mask]


def mapie(score: str, P, y, alpha: float = 0.1, seed: int = 7) -> Predict:
    """Calibrate MAPIE's "lac", "aps" or "raps", with u from RandomState(seed) at calibration and again at prediction.

    Its "raps" keeps a fifth of the rows to choose λ and k itself.
    """
    from mapie.classification import SplitConformalClassifier

    model = SplitConformalClassifier(
        _given(P.shape[1]), confidence_level=1 - alpha, conformity_score=score, prefit=True, random_state=seed
    ).conformalize(P, y)
    options = {} if score == "lac" else {"conformity_score_params": {"include_last_label": "randomized"}}
    return lambda T: model.predict_set(T, **options)[1][:, :, 0]


def mapie_cross(P, y, folds, alpha: float = 0.1) -> Predict:
    """Calibrate MAPIE's LAC with agg_scores="crossval"; `predict` takes probabilities by fold, (F, n, K).

    MAPIE fits its models itself. Here row i is the number i, and a model knows which rows it was
    not fitted on, and so whose it is; numbers from n on are the new objects.
    """
    from mapie.classification import CrossConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.model_selection import PredefinedSplit

    n, n_classes = P.shape
    said: dict[str, Any] = {}

    class GivenProbabilities(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            left_out = np.setdiff1d(np.arange(n), X[:, 0].astype(int))
            self.fold_ = folds[left_out[0]] if len(left_out) else 0
            self.classes_ = np.arange(n_classes)
            return self

        def predict_proba(self, X):
            rows = X[:, 0].astype(int)
            return P[rows] if rows.max() < n else said["new"][self.fold_][rows - n]

        def predict(self, X):
            return self.predict_proba(X).argmax(axis=1)

    model = CrossConformalClassifier(GivenProbabilities(), 1 - alpha, "lac", PredefinedSplit(folds))
    model.fit_conformalize(np.arange(n)[:, None], y)

    def predict(T):
        said["new"] = T
        return model.predict_set(n + np.arange(T.shape[1])[:, None], agg_scores="crossval")[1][:, :, 0]

    return predict


def mapie_uniforms(n: int, seed: int = 7) -> NDArray[np.float64]:
    """Return u as the paper defines it for MAPIE's n objects; MAPIE subtracts u' = 1 − u from the full sum."""
    return 1.0 - np.random.RandomState(seed).uniform(size=n)


def torchcp(score: str, P, y, alpha: float = 0.1, **options: Any) -> Predict:
    """Calibrate TorchCP's LAC, Margin, APS, RAPS or SAPS on probabilities."""
    torch, scores, SplitPredictor = _torchcp()  # noqa: N806 - a class
    predictor = SplitPredictor(getattr(scores, score)(score_type="identity", **options), alpha=alpha)
    table = torch.from_numpy(P)
    # TorchCP's Margin modifies its input, so it gets a copy.
    predictor.calculate_threshold(table.clone() if score == "Margin" else table, torch.from_numpy(y).long())
    return lambda T: predictor.predict_with_logits(torch.from_numpy(T)).numpy().astype(bool)


def torchcp_predictor(kind: str, alpha: float = 0.1) -> Any:
    """Return TorchCP's ClassConditionalPredictor, ClusteredPredictor or RC3PPredictor with LAC, which equals IP."""
    _, scores, _ = _torchcp()
    from torchcp.classification import predictor

    return getattr(predictor, kind)(scores.LAC(score_type="identity"), alpha=alpha)


def crepes(score: str, P, y, alpha: float = 0.1) -> Predict:
    """Calibrate crepes with its hinge or margin score."""
    from crepes import ConformalClassifier, extras

    measure = getattr(extras, score)
    model = ConformalClassifier().fit(measure(P, np.arange(P.shape[1]), y))
    return lambda T: model.predict_set(measure(T), confidence=1 - alpha, smoothing=False).astype(bool)


def crepes_from_scores(calibration, test, alpha: float = 0.1) -> Mask:
    """Return crepes' sets for given scores of the true labels and of every class."""
    from crepes import ConformalClassifier

    model = ConformalClassifier().fit(calibration)
    return model.predict_set(test, confidence=1 - alpha, smoothing=False).astype(bool)


def crepes_scores(score: str, P, y, T) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return crepes' hinge or margin scores of the true labels and of every class."""
    from crepes import extras

    measure = getattr(extras, score)
    return measure(P, np.arange(P.shape[1]), y), measure(T)


def crepes_p_values(calibration, test, y=None, smoothing: bool = False, seed: int | None = None):
    """Return crepes' p-values for given scores; with y per class, like `class_cond` of its classifier."""
    from crepes import ConformalClassifier

    if y is None:
        return ConformalClassifier().fit(calibration).predict_p(test, smoothing=smoothing, seed=seed)
    model = ConformalClassifier().fit(calibration, bins=y)
    columns = range(test.shape[1])
    return np.column_stack([model.predict_p(test, np.full(len(test), k), smoothing=False)[:, k] for k in columns])


def _given(n_classes: int):
    """Return a classifier that returns its inputs as probabilities."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Given(ClassifierMixin, BaseEstimator):
        classes_ = np.arange(n_classes)

        def fit(self, X, y):
            return self

        def predict_proba(self, X):
            return np.asarray(X, dtype=float)

        def predict(self, X):
            return np.asarray(X).argmax(axis=1)

    return Given()


def _torchcp():
    """Import TorchCP with an empty module for torchsort, which needs a compiler and is not used by any score."""
    if "torchsort" not in sys.modules:
        empty = types.ModuleType("torchsort")
        empty.soft_rank = empty.soft_sort = None
        sys.modules["torchsort"] = empty
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of imports only
        import torch
        from torchcp.classification import score
        from torchcp.classification.predictor import SplitPredictor
    return torch, score, SplitPredictor
