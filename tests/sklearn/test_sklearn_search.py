"""Searches inside and outside of ConformalClassifier: coverage, and the warning where it can be lost."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pippin
from pippin.sklearn import ConformalClassifier, CrossConformalClassifier, singleton_rate
from support.blobs import NEW, TRUTH, X, Y

CHOSEN = "SearchCV chose this classifier on the rows that calibrate it"


class OneColumn(ClassifierMixin, BaseEstimator):
    """Classifier of two classes by one column of X."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, rows, labels):
        """Fit the direction and the scale."""
        self.classes_ = np.array([0, 1])
        values = rows[:, self.column]
        gap = values[labels == 1].mean() - values[labels == 0].mean()
        self.slope_, self.middle_ = 4 * gap, values.mean()
        return self

    def predict_proba(self, rows):
        """Return a logistic function of the column."""
        p = 1 / (1 + np.exp(-self.slope_ * (rows[:, self.column] - self.middle_)))
        return np.stack([1 - p, p], axis=1)

    def predict(self, rows):
        """Return the most probable class."""
        return self.predict_proba(rows).argmax(axis=1)


def noise(seed):
    """Draw 40 rows to fit on, 40 other rows, and 1,000 new rows of 30 columns without any relation to the label."""
    rng = np.random.default_rng(seed)
    rows, labels = rng.normal(size=(1080, 30)), rng.integers(0, 2, 1080)
    return [(rows[part], labels[part]) for part in (slice(40), slice(40, 80), slice(80, None))]


COLUMNS, RUNS = list(range(30)), 16


def test_a_search_inside_keeps_the_guarantee_and_one_outside_does_not():
    """After a choice among 30 columns of noise, coverage is 1 − alpha only if the search is inside, or rows are new."""
    covered = {"inside": [], "outside": [], "calibrated again": []}
    for seed in range(RUNS):
        (rows, labels), others, (new, truth) = noise(seed)
        inside = ConformalClassifier(
            GridSearchCV(OneColumn(), {"column": COLUMNS}, cv=2), "ip", 0.2, cv=0.4, random_state=seed
        ).fit(rows, labels)
        clf = ConformalClassifier(OneColumn(), "ip", 0.2, cv=0.4, random_state=seed)
        search = GridSearchCV(clf, {"estimator__column": COLUMNS}, cv=2).fit(rows, labels)
        outside = search.best_estimator_
        with pytest.warns(UserWarning, match=CHOSEN):
            outside_sets = outside.predict_set(new)
        covered["inside"].append(pippin.metrics.coverage(inside.predict_set(new), truth))
        covered["outside"].append(pippin.metrics.coverage(outside_sets, truth))
        again = outside.calibrate(*others).predict_set(new)
        covered["calibrated again"].append(pippin.metrics.coverage(again, truth))
    error = {name: np.std(shares) / np.sqrt(RUNS) for name, shares in covered.items()}
    level = {name: np.mean(shares) for name, shares in covered.items()}
    assert level["inside"] == pytest.approx(0.8, abs=3.5 * error["inside"])
    assert level["calibrated again"] == pytest.approx(0.8, abs=3.5 * error["calibrated again"])
    assert level["outside"] < 0.8 - 2.5 * error["outside"]


OUTSIDE = {
    "grid": GridSearchCV(ConformalClassifier(GaussianNB(), random_state=0), {"score": ["ip", "socop"]}, cv=3),
    "processes": GridSearchCV(ConformalClassifier(GaussianNB()), {"score": ["ip", "socop"]}, cv=3, n_jobs=2),
    "random": RandomizedSearchCV(ConformalClassifier(GaussianNB()), {"alpha": [0.1, 0.2]}, n_iter=2, cv=3),
    "cross": GridSearchCV(CrossConformalClassifier(GaussianNB()), {"cv": [3, 5]}, cv=3),
    "fitted before": GridSearchCV(
        ConformalClassifier(FrozenEstimator(GaussianNB().fit(NEW, TRUTH))), {"score": ["ip", "socop"]}, cv=3
    ),
}


@pytest.mark.parametrize("search", OUTSIDE.values(), ids=OUTSIDE)
def test_a_search_outside_is_warned_of(search):
    """After a search outside, predicting sets warns, also after pickling, but not within the search."""
    search = clone(search).set_params(scoring=singleton_rate).fit(X, Y)
    with pytest.warns(UserWarning, match=CHOSEN):
        search.best_estimator_.predict_set(NEW)
    with pytest.warns(UserWarning, match=CHOSEN):
        pickle.loads(pickle.dumps(search.best_estimator_)).predict_set(NEW)  # noqa: S301 - our own


def test_a_pipeline_in_a_search_is_warned_of():
    pipeline = make_pipeline(StandardScaler(), ConformalClassifier(GaussianNB()))
    search = GridSearchCV(pipeline, {"conformalclassifier__score": ["ip", "socop"]}, scoring=singleton_rate).fit(X, Y)
    with pytest.warns(UserWarning, match=CHOSEN):
        search.best_estimator_[-1].predict_set(NEW)


def test_without_a_search_outside_there_is_no_warning():
    """A search inside, cross-validation, calibration on other rows, and a new fit cause no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inside = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 0.1]}, cv=3)
        ConformalClassifier(inside, random_state=0).fit(X, Y).predict_set(NEW)
        CrossConformalClassifier(inside, random_state=0).fit(X, Y).predict_set(NEW)
        assert cross_val_score(ConformalClassifier(GaussianNB()), X, Y, scoring=singleton_rate).mean() > 0
        best = clone(OUTSIDE["grid"]).fit(X, Y).best_estimator_
        best.calibrate(NEW, TRUTH).predict_set(NEW)
        best.fit(X, Y).predict_set(NEW)
