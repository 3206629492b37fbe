"""Scorers of conformal classifiers for searches and cross-validation: functions of (classifier, X, y).

Larger values are better. Accuracy cannot compare nonconformity scores, since they do not change the most probable
class. After a search, calibrate the chosen classifier on rows that the search has not used.
"""

from typing import Any

import numpy as np

from pippin import metrics
from pippin._conformal.sets import PredictionSets


def singleton_rate(classifier: Any, X: Any, y: Any = None) -> float:
    """Compute the share of prediction sets with one class.

    Args:
        classifier: a fitted `ConformalClassifier` or `CrossConformalClassifier`, or a pipeline that ends in one.
        X: rows of features.
        y: not used.

    Returns:
        The share, from 0 to 1.

    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from pippin.sklearn import ConformalClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf, grid = ConformalClassifier(random_state=0), {"score": ["ip", "socop"]}
    >>> search = GridSearchCV(clf, grid, scoring=singleton_rate, cv=3)
    >>> search.fit(X[::2, :4], y[::2]).best_params_
    {'score': 'socop'}
    >>> search.best_estimator_.calibrate(X[1::2, :4], y[1::2])
    ConformalClassifier(random_state=0, score='socop')
    """
    return metrics.singleton_rate(_sets(classifier, X))


def neg_mean_size(classifier: Any, X: Any, y: Any = None) -> float:
    """Compute the negative mean size of the prediction sets.

    Args:
        classifier: a fitted `ConformalClassifier` or `CrossConformalClassifier`, or a pipeline that ends in one.
        X: rows of features.
        y: not used.

    Returns:
        The mean number of classes per set, times −1.

    >>> from sklearn.datasets import load_wine
    >>> from pippin.sklearn import ConformalClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ConformalClassifier(random_state=0).fit(X[::2, :4], y[::2])
    >>> round(neg_mean_size(clf, X[1::2, :4]), 2)
    -1.79
    """
    return -metrics.mean_size(_sets(classifier, X))


def coverage(classifier: Any, X: Any, y: Any) -> float:
    """Compute the share of prediction sets that contain the true class.

    Args:
        classifier: a fitted `ConformalClassifier` or `CrossConformalClassifier`, or a pipeline that ends in one.
        X: rows of features.
        y: their classes.

    Returns:
        The share, from 0 to 1.

    >>> from sklearn.datasets import load_wine
    >>> from pippin.sklearn import ConformalClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ConformalClassifier(random_state=0).fit(X[::2, :4], y[::2])
    >>> round(coverage(clf, X[1::2, :4], y[1::2]), 2)
    0.98
    """
    sets = _sets(classifier, X)
    names = dict(zip(np.asarray(classifier.classes_).tolist(), map(str, sets.classes), strict=True))
    return metrics.coverage(sets, [names[label] for label in np.asarray(y).tolist()])


def _sets(classifier: Any, X: Any) -> PredictionSets:
    if hasattr(classifier, "steps"):
        return _sets(classifier.steps[-1][1], classifier[:-1].transform(X))
    sets: PredictionSets = classifier.predict_set(X)
    return sets
