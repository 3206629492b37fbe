"""Unsorted classes, detection of training rows, guarantees per group, and scorers."""

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pippin
from pippin.sklearn import ConformalClassifier, CrossConformalClassifier, coverage, neg_mean_size, singleton_rate
from support.blobs import NAMES, NEW, TRUTH, X, Y


class Unsorted(ClassifierMixin, BaseEstimator):
    """Classifier with unsorted classes_."""

    def fit(self, X, y):
        self.model_ = GaussianNB().fit(X, y)
        self.order_ = np.arange(len(self.model_.classes_))[::-1]
        self.classes_ = self.model_.classes_[self.order_]
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)[:, self.order_]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@pytest.mark.parametrize("kind", [ConformalClassifier, CrossConformalClassifier])
def test_unsorted_classes(kind):
    """Results equal those of an estimator with sorted classes."""
    ours, theirs = (kind(model, random_state=0).fit(X, Y) for model in (Unsorted(), GaussianNB()))
    assert ours.classes_.tolist() == NAMES
    np.testing.assert_array_equal(ours.predict_proba(NEW), theirs.predict_proba(NEW))
    assert ours.predict_set(NEW).labels() == theirs.predict_set(NEW).labels()
    assert ours.score(NEW, TRUTH) == theirs.score(NEW, TRUTH) > 0.6
    model = Unsorted().fit(X[:300], Y[:300])
    prefit = ConformalClassifier(model, cv="prefit").fit(X[300:], Y[300:])
    assert prefit.score(NEW, TRUTH) == model.score(NEW, TRUTH)
    assert pippin.metrics.coverage(prefit.predict_set(NEW), TRUTH) > 0.85


def test_stored_training_rows_raise_errors():
    """Nearest neighbors and Gaussian processes store their rows, also within pipelines."""
    for model in (
        KNeighborsClassifier(),
        GaussianProcessClassifier(),
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
        GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [3, 5]}, cv=3),
    ):
        fitted = model.fit(X[:150], Y[:150])
        for wrapped in (ConformalClassifier(fitted, cv="prefit"), ConformalClassifier(FrozenEstimator(fitted))):
            with pytest.raises(ValueError, match=r"got \d+ of 150 that its .* keeps from its training"):
                wrapped.fit(X[:150], Y[:150])
            assert wrapped.fit(X[300:], Y[300:]).predictor_.n_calibration == 300


def test_suspicious_accuracy_causes_warnings():
    """Calibration warns if all rows are classified correctly, or clearly more of them than out of bag."""
    forest = RandomForestClassifier(20, random_state=0).fit(X, Y)
    with pytest.warns(UserWarning, match=r"All \d+ rows are classified correctly, although"):
        ConformalClassifier(RandomForestClassifier(60, random_state=0).fit(X, Y), cv="prefit").fit(X[:100], Y[:100])
    assert ConformalClassifier(forest, cv="prefit").fit(NEW, TRUTH).predictor_.n_calibration == 400
    bag = RandomForestClassifier(40, min_samples_leaf=3, oob_score=True, random_state=0).fit(X, Y)
    with pytest.warns(UserWarning, match="but only on .*% of rows .* so it was probably fitted"):
        ConformalClassifier(bag, cv="prefit").fit(X, Y)
    assert ConformalClassifier(bag, cv="prefit").fit(NEW, TRUTH).predictor_.n_calibration == 400


class Cautious(ClassifierMixin, BaseEstimator):
    """Classifier that is always right, with the probability in the second feature."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.where(X[:, :1] == self.classes_, X[:, 1:], 1 - X[:, 1:])


def test_rows_that_fit_holds_out_are_no_training_rows():
    """Only rows passed to a fitted estimator can be training rows."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.arange(400) % 2, rng.uniform(0.6, 1, 400)])
    ConformalClassifier(Cautious(), random_state=0).fit(rows, rows[:, 0]).calibrate(rows[:50] * [1, 0.99], rows[:50, 0])
    CrossConformalClassifier(Cautious(), random_state=0).fit(rows, rows[:, 0])
    with pytest.warns(UserWarning, match=r"All 400 rows .* their probabilities predict 6\d errors") as caught:
        ConformalClassifier(Cautious().fit(rows, rows[:, 0]), cv="prefit").fit(rows, rows[:, 0])
    assert [one.filename for one in caught] == [__file__]


def test_per_group():
    """Groups are passed directly or by metadata routing, and are required by predict_set."""
    groups = np.where(np.arange(600) % 3, "north", "south")
    new = np.where(np.arange(400) % 2, "north", "south")
    clf = ConformalClassifier(GaussianNB(), per="group", random_state=0).fit(X, Y, groups=groups)
    sets = clf.predict_set(NEW, groups=new, nonempty=True)
    assert sets.sizes.min() == 1
    held = np.delete(np.arange(600), clf._trained)
    probs = clf.predict_proba(X[held])
    same = pippin.calibrate(probs, Y[held], "repip", per="group", groups=groups[held], classes=NAMES)
    wanted = same.predict(clf.predict_proba(NEW), groups=new, nonempty=True)
    assert sets.labels() == wanted.labels()
    with pytest.raises(ValueError, match="group"):
        clf.predict_set(NEW)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = ConformalClassifier(GaussianNB(), per="group", random_state=0)
        search = GridSearchCV(routed, {"alpha": [0.1, 0.2]}, cv=KFold(3)).fit(X, Y, groups=groups)
        assert search.best_estimator_.predictor_.per == "group"


def test_scorers():
    """Singletons, sizes and coverage, also for pipelines that end in a conformal classifier."""
    scoring = {"singletons": singleton_rate, "size": neg_mean_size, "coverage": coverage}
    scores = ["ip", "margin", "socop"]
    for search in (
        GridSearchCV(
            ConformalClassifier(GaussianNB(), random_state=0),
            {"score": scores},
            scoring=scoring,
            refit="singletons",
            cv=KFold(3),
        ),
        GridSearchCV(
            make_pipeline(StandardScaler(), ConformalClassifier(GaussianNB(), random_state=0)),
            {"conformalclassifier__score": scores},
            scoring=scoring,
            refit="size",
            cv=KFold(3),
        ),
    ):
        found = search.fit(X, Y).cv_results_
        assert len(set(found["mean_test_singletons"])) == 3
        assert (np.abs(found["mean_test_coverage"] - 0.9) < 0.06).all()
        assert found["mean_test_size"].max() < -0.5
    numbered = ConformalClassifier(GaussianNB(), random_state=0).fit(X, np.searchsorted(NAMES, Y) * 10.0)
    assert 0.8 < coverage(numbered, NEW, np.searchsorted(NAMES, TRUTH) * 10.0) < 1


def test_numbers_as_class_names():
    for name, ours in {"LAC": "ip", "hinge": "ip", "THR": "ip", "RePIP(gamma=0.1)": "repip(gamma=0.1)"}.items():
        assert str(pippin.scores.parse(name)) == ours
    assert str(pippin.scores.parse_method("APS per class")) == "aps per class"
