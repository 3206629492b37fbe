"""ConformalClassifier as a scikit-learn estimator: parameters, pipelines, frames, labels, weights and errors."""

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit, cross_val_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import pippin
from pippin.sklearn import ConformalClassifier
from support.blobs import NAMES, NEW, TRUTH, X, Y, fitted


def test_predictions():
    """`predict` returns the most probable class, the first member of its set; `score` is its accuracy."""
    clf = fitted()
    sets = clf.predict_set(NEW)
    assert sets.classes == tuple(NAMES) == tuple(clf.classes_)
    assert clf.predict(NEW).tolist() == clf.classes_[clf.predict_proba(NEW).argmax(axis=1)].tolist()
    assert all(names[0] == best for names, best in zip(sets, clf.predict(NEW), strict=True) if names)
    assert clf.score(NEW, TRUTH) == np.mean(clf.predict(NEW) == TRUTH)
    assert clf.score(NEW, TRUTH, sample_weight=clf.predict(NEW) == TRUTH) == 1
    assert pippin.metrics.coverage(sets, TRUTH) > 0.85


def test_parameters_and_clones():
    """`score` is both a parameter and a method."""
    clf = fitted(score="repip(gamma=0.05)")
    assert clf.get_params(deep=False)["score"] == "repip(gamma=0.05)"
    assert "score='repip(gamma=0.05)'" in repr(clf)
    assert callable(clf.score)
    other = clone(clf.set_params(score=pippin.scores.socop(mu=2.0), alpha=0.3, estimator__var_smoothing=1e-3))
    assert not hasattr(other, "predictor_")
    other.fit(X, Y)
    assert other.predictor_.score == pippin.scores.socop(mu=2.0)
    assert other.predictor_.alpha == 0.3
    assert other.estimator_.var_smoothing == 1e-3
    assert clf.predictor_.alpha == 0.1  # parameters count when fitting


def through_pickle(clf):
    return pickle.loads(pickle.dumps(clf))  # noqa: S301 - our own


def through_joblib(clf):
    stream = io.BytesIO()
    joblib.dump(clf, stream)
    stream.seek(0)
    return joblib.load(stream)


@pytest.mark.parametrize("copy", [through_pickle, through_joblib])
def test_copies_and_pickles_are_equal(copy):
    """Copies and unpickled classifiers have equal prediction sets, errors and parameters."""
    clf = fitted(score="aps")
    again = copy(clf)
    assert again.predict_set(NEW).labels() == clf.predict_set(NEW).labels()
    assert again.get_params()["score"] == "aps"
    assert again.score(NEW, TRUTH) == clf.score(NEW, TRUTH)
    with pytest.raises(ValueError, match="not fitted on"):
        again.calibrate(X, Y)


def test_predictor_is_saved_without_scikit_learn(tmp_path):
    """`predictor_` is a ConformalPredictor, whose file needs no scikit-learn."""
    clf = fitted()
    clf.predictor_.save(tmp_path / "predictor.json")
    sets = pippin.load(tmp_path / "predictor.json").predict(clf.predict_proba(NEW))
    assert sets.labels() == clf.predict_set(NEW).labels()


def test_grid_search():
    """GridSearchCV varies alpha and gamma, and scores by prediction sets."""

    def singletons(clf, rows, labels):
        return pippin.metrics.singleton_rate(clf.predict_set(rows))

    grid = {"alpha": [0.05, 0.4], "score": ["repip(gamma=0)", pippin.scores.repip(gamma=0.1)]}
    search = GridSearchCV(ConformalClassifier(GaussianNB(), random_state=0), grid, scoring=singletons, cv=3).fit(X, Y)
    assert search.best_params_["alpha"] == 0.4
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.calibrate(NEW, TRUTH).predict_set(NEW).sizes.mean() < 2
    assert GridSearchCV(ConformalClassifier(GaussianNB()), {"alpha": [0.1]}, cv=3).fit(X, Y).score(NEW, TRUTH) > 0.5
    assert cross_val_score(ConformalClassifier(GaussianNB()), X, Y).mean() > 0.5


def test_pipelines():
    """The classifier works as the last step of a pipeline, and around a pipeline, which may start with text."""
    outside = make_pipeline(StandardScaler(), ConformalClassifier(random_state=0)).fit(X, Y)
    assert outside.score(NEW, TRUTH) > 0.5
    sets = outside[-1].predict_set(outside[:-1].transform(NEW))
    inside = ConformalClassifier(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0).fit(X, Y)
    assert abs(inside.predict_set(NEW).sizes.mean() - sets.sizes.mean()) < 0.3
    assert inside.n_features_in_ == 3
    texts = np.array(["rain and wind", "sun and heat"] * 30)
    weather = ConformalClassifier(make_pipeline(CountVectorizer(), MultinomialNB()), random_state=0)
    weather.fit(texts, ["wet", "dry"] * 30)
    assert weather.predict_set(["wind and rain", "sun and heat"]).labels() == [["wet"], ["dry"]]
    assert weather.fit(texts.tolist(), ["wet", "dry"] * 30).predict(["wind"]) == ["wet"]


def test_feature_names():
    """Feature names are those of the estimator, which validates them."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    clf = fitted().fit(frame, pd.Series(Y, index=range(600, 0, -1)))
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        clf.predict_set(frame[["b", "a", "c"]])
    with pytest.raises(ValueError, match="feature names"):
        clf.calibrate(pd.DataFrame(NEW, columns=["a", "c", "b"]), TRUTH)
    assert not hasattr(clf.fit(X, Y), "feature_names_in_")


def test_pandas_and_polars_frames():
    """A pandas index is kept, polars rows stay polars, and sets equal those of arrays."""
    wanted = fitted().predict_set(NEW)
    index = [f"row {i}" for i in range(len(NEW))]
    clf = fitted().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    frame = clf.predict_set(pd.DataFrame(NEW, columns=["a", "b", "c"], index=index)).to_frame()
    assert (frame.index.tolist(), frame["labels"].tolist()) == (index, wanted.labels())
    clf = fitted().fit(pl.DataFrame(X, schema=["a", "b", "c"]), pl.Series(Y))
    frame = clf.predict_set(pl.DataFrame(NEW, schema=["a", "b", "c"])).to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame["labels"].to_list() == wanted.labels()


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix])
def test_sparse_rows(kind):
    """Thresholds and errors equal those of dense rows."""
    dense = np.where(np.abs(X) < 0.5, 0, X)
    plain = ConformalClassifier(random_state=0).fit(dense, Y)
    clf = ConformalClassifier(random_state=0).fit(kind(dense), Y)
    assert clf.predictor_.threshold == pytest.approx(plain.predictor_.threshold, abs=1e-3)
    assert len(clf.predict_set(kind(NEW))) == len(NEW)
    with pytest.raises(ValueError, match="not fitted on"):
        clf.calibrate(dense[:300], Y[:300])


LABELS = {
    "text": (["a", "b"], ("a", "b")),
    "numbers": ([7, 3], (3, 7)),
    "signs": ([-1, 1], (-1, 1)),
    "truth": ([False, True], (0, 1)),
    "whole floats": ([1.0, 0.0], (0, 1)),
    "objects": (np.array(["x", "y"], dtype=object), ("x", "y")),
}


@pytest.mark.parametrize(("labels", "names"), LABELS.values(), ids=LABELS)
def test_label_types(labels, names):
    """`predict` returns labels of the original type; sets name them by text or whole numbers."""
    y = np.asarray(labels)[(X[:, 0] > 0).astype(int)]
    clf = ConformalClassifier(random_state=0).fit(X, y)
    assert clf.predict(X).dtype == y.dtype
    assert clf.score(X, y) > 0.9
    assert clf.predict_set(X).classes == names


def test_boosting_with_missing_values():
    """Missing values are passed to estimators that accept them."""
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    clf = ConformalClassifier(HistGradientBoostingClassifier(max_iter=5), random_state=0).fit(rows, Y)
    assert clf.score(NEW, TRUTH) > 0.5


def test_sample_weights_are_passed_to_the_estimator():
    """Sample weights act like repeated training rows in `fit`, and calibration does not use them."""
    weights = np.random.default_rng(3).integers(0, 4, len(X))
    train, held = np.arange(400), np.arange(400, 600)
    repeated = np.repeat(train, weights[:400])
    clf = ConformalClassifier(GaussianNB(), cv=[(train, held)]).fit(X, Y, sample_weight=weights)
    assert np.allclose(clf.predict_proba(NEW), GaussianNB().fit(X[repeated], Y[repeated]).predict_proba(NEW))
    assert not np.allclose(clf.predict_proba(NEW), fitted(cv=[(train, held)]).predict_proba(NEW))
    assert clf.predictor_.n_calibration == 200
    pipe = ConformalClassifier(make_pipeline(StandardScaler(), GaussianNB()), cv=[(train, held)])
    assert np.allclose(pipe.fit(X, Y, sample_weight=weights).predict_proba(NEW), clf.predict_proba(NEW), atol=1e-6)
    pipe.fit(X, Y, gaussiannb__sample_weight=pd.Series(weights))
    assert np.allclose(pipe.predict_proba(NEW), clf.predict_proba(NEW), atol=1e-6)
    only_held = np.isin(np.arange(len(X)), held).astype(float)
    with pytest.raises(ValueError, match=r"a class with weight among the .* rows to fit on, got weights of 0 only"):
        ConformalClassifier(GaussianNB(), cv=[(train, held)]).fit(X, Y, sample_weight=only_held)
    with pytest.raises(ValueError, match="takes sample_weight, got KNeighborsClassifier"):
        ConformalClassifier(KNeighborsClassifier()).fit(X, Y, sample_weight=weights)


class Remembers(ClassifierMixin, BaseEstimator):
    """Estimator that stores the arguments of its fit."""

    def fit(self, X, y, sample_weight=None, field=None):
        self.given, self.field = sample_weight, field
        self.inner = GaussianNB().fit(X, y)
        self.classes_ = self.inner.classes_
        return self

    def predict_proba(self, X):
        return self.inner.predict_proba(X)


def test_metadata_routing():
    """Requested metadata reach estimator and splitter, also through a grid search."""
    weights, groups = np.arange(600.0), np.repeat(np.arange(60), 10)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = ConformalClassifier(Remembers().set_fit_request(sample_weight=True, field="farm"), random_state=0)
        clf.fit(X, Y, sample_weight=weights, farm=groups)
        assert np.array_equal(clf.estimator_.given, weights[clf._trained])
        assert np.array_equal(clf.estimator_.field, groups[clf._trained])
        search = GridSearchCV(clf.set_score_request(sample_weight=True), {"alpha": [0.1, 0.2]}, cv=3)
        search.fit(X, Y, sample_weight=weights, farm=groups)
        assert len(search.best_estimator_.estimator_.given) == 450
        apart = ConformalClassifier(GaussianNB(), cv=GroupShuffleSplit(1, random_state=0)).fit(X, Y, groups=groups)
        assert not set(groups[apart._trained]) & set(np.delete(groups, apart._trained))
        with pytest.raises(TypeError, match="farm"):
            ConformalClassifier(GaussianNB()).fit(X, Y, farm=groups)
        ConformalClassifier(random_state=0).fit(X, Y, sample_weight=weights)
    apart = ConformalClassifier(GaussianNB(), cv=GroupShuffleSplit(1, random_state=0)).fit(X, Y, groups=groups)
    assert not set(groups[apart._trained]) & set(np.delete(groups, apart._trained))


REFUSED = {
    "one class": (lambda: fitted().fit(X, ["crop"] * 600), ValueError, "Expected at least two classes, got 1 class"),
    "no y": (lambda: fitted().fit(X, None), ValueError, "requires y to be passed"),
    "no probabilities": (
        lambda: ConformalClassifier(LinearSVC()).fit(X, Y),
        TypeError,
        "Expected a classifier with predict_proba, got LinearSVC: wrap it",
    ),
    "folds": (
        lambda: fitted(cv=5),
        ValueError,
        "Expected cv as 'prefit', a fraction between 0 and 1, or a splitter, got 5",
    ),
    "all": (lambda: fitted(cv=1.0), ValueError, "Expected cv as .* got 1.0"),
    "word": (lambda: fitted(cv="half"), ValueError, "Expected cv as .* got 'half'"),
    "None": (lambda: fitted(cv=None), ValueError, "Expected cv as .* got None"),
    "overlap": (
        lambda: fitted(cv=[(np.arange(400), np.arange(399, 600))]),
        ValueError,
        "Expected rows to fit on or to calibrate on, got row 399 for both",
    ),
    "level": (lambda: fitted(alpha=1.5), ValueError, "Expected alpha"),
    "score": (lambda: fitted(score="best"), ValueError, "Unknown score 'best'"),
    "seed": (lambda: fitted(random_state="x"), ValueError, "Expected random_state as .* got 'x'"),
    "early": (lambda: ConformalClassifier().predict_set(X), NotFittedError, "not fitted yet"),
    "early calibration": (lambda: ConformalClassifier().calibrate(X, Y), NotFittedError, "not fitted yet"),
}


@pytest.mark.parametrize(("call", "kind", "sentence"), REFUSED.values(), ids=REFUSED)
def test_errors_of_arguments(call, kind, sentence):
    """Invalid arguments raise one sentence."""
    with pytest.raises(kind, match=sentence):
        call()


def test_a_failed_fit_keeps_the_fitted_state():
    """After a failed fit, all attributes are those of the fit before."""
    clf = fitted()
    wanted = clf.predict_set(NEW).labels()
    with pytest.raises(ValueError, match="Unknown score"):
        clf.set_params(score="best", random_state=9).fit(X, Y)
    assert clf.predict_set(NEW).labels() == wanted
