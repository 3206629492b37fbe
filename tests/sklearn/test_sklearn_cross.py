"""CrossConformalClassifier against `pippin.calibrate` on out-of-fold probabilities, and estimated likelihood ratios."""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneOut, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pippin
from pippin.sklearn import CrossConformalClassifier, estimate_ratios
from support.blobs import NAMES, blobs
from support.named_columns import data_array

X, Y = blobs(120, names=NAMES)
HOLED = np.where(np.arange(120)[:, None] == 7, np.nan, X)
NEW, TRUTH = blobs(200, seed=1, names=NAMES)


def fitted(**params):
    return CrossConformalClassifier(GaussianNB(), **{"random_state": 0, **params}).fit(X, Y)


def by_hand(clf, score="repip", alpha=0.1):
    """Calibrate out-of-fold probabilities with the core function; return it with the probabilities of all models."""
    models = [GaussianNB().fit(X[clf.folds_ != f], Y[clf.folds_ != f]) for f in range(clf.folds_.max() + 1)]
    probs = np.array([models[f].predict_proba(X[i : i + 1])[0] for i, f in enumerate(clf.folds_)])
    predictor = pippin.calibrate(probs, Y, score, alpha, folds=clf.folds_, classes=NAMES)
    return predictor, np.stack([model.predict_proba(NEW) for model in models])


@pytest.mark.parametrize("cv", [5, 7, KFold(4), LeaveOneOut()], ids=str)
def test_equals_calibrate_on_out_of_fold_probabilities(cv):
    """Fold scores, and sets at two levels, equal those of `pippin.calibrate` on out-of-fold probabilities."""
    clf = fitted(cv=cv, score="pip", alpha=0.15)
    predictor, said = by_hand(clf, "pip", 0.15)
    assert all(map(np.array_equal, clf.predictor_._rule.fold_scores, predictor._rule.fold_scores))
    assert clf.predict_set(NEW).labels() == predictor.predict(said).labels()
    assert clf.predict_set(NEW, alpha=0.4).labels() == predictor.at(0.4).predict(said).labels()
    assert np.array_equal(clf.predict_proba(NEW), said.mean(axis=0))
    assert clf.score(NEW, TRUTH) == np.mean(clf.predict(NEW) == TRUTH)
    assert clf.predict_set(NEW).classes == tuple(NAMES)


def test_folds_are_balanced_and_independent_of_y():
    """Sizes differ by at most one, and depend on the seed only."""
    folds = fitted(cv=7).folds_
    assert sorted(np.bincount(folds)) == [17] * 6 + [18]
    assert not np.array_equal(folds, fitted(cv=7, random_state=1).folds_)
    other = CrossConformalClassifier(GaussianNB(), cv=7, random_state=0).fit(X, Y[::-1])
    assert np.array_equal(folds, other.folds_)


def test_coverage_is_above_its_bound_and_near_the_level():
    """With thirty rows, coverage is above its proven bound and near 1 − alpha."""
    covered = []
    for seed in range(150):
        rows, labels = blobs(30, seed=2 * seed + 10)
        new, truth = blobs(40, seed=2 * seed + 11)
        clf = CrossConformalClassifier(GaussianNB(var_smoothing=0.1), "pip", 0.2, random_state=seed).fit(rows, labels)
        known = np.isin(truth, clf.classes_)
        covered.append((clf.predict_set(new).contains(np.where(known, truth, clf.classes_[0])) & known).mean())
    error = 4 * np.std(covered) / math.sqrt(150)
    assert np.mean(covered) > clf.predictor_.guarantee - error
    assert abs(np.mean(covered) - 0.8) < 0.05 + error


@pytest.mark.parametrize("lonely", ["aloe", "moss", "zinnia"])
def test_models_without_a_class_give_it_probability_zero(lonely):
    """The only row of a class is in one fold, so one model is fitted without it."""
    y = Y.astype(object)
    y[5] = lonely
    clf = CrossConformalClassifier(GaussianNB(var_smoothing=0.1), "ip", random_state=0).fit(X, y)
    column = clf.classes_.tolist().index(lonely)
    blind = clf.folds_[5]
    for f, probs in enumerate(clf._fold_probs(NEW)):
        assert np.allclose(probs.sum(axis=1), 1)
        assert (probs[:, column] == 0).all() == (f == blind)
    seen = clf.folds_ != blind
    alone = GaussianNB(var_smoothing=0.1).fit(X[seen], Y[seen]).predict_proba(NEW)
    assert np.array_equal(np.delete(clf._fold_probs(NEW)[blind], column, axis=1), alone)
    assert clf.predictor_._rule.fold_scores[blind][-1] == 1
    assert clf.predict_set(NEW).classes == tuple(sorted([*NAMES, lonely]))


def test_label_types():
    """`predict` returns labels of the original type; sets name them by text or whole numbers."""
    for labels, names in (([7, 3], (3, 7)), ([False, True], (0, 1)), ([1.0, 0.0], (0, 1)), (["b", "a"], ("a", "b"))):
        y = np.asarray(labels)[(X[:, 0] > 0).astype(int)]
        clf = CrossConformalClassifier(random_state=0).fit(X, y)
        assert clf.predict(X).dtype == y.dtype
        assert clf.score(X, y) > 0.9
        assert clf.predict_set(X).classes == names
        assert clf.predict_set(X).contains(y.astype(int) if y.dtype.kind in "bf" else y).mean() > 0.8


def test_frames_and_sparse_rows():
    """Sets are equal for all containers, and a pandas index is kept."""
    frame = pd.DataFrame(X, columns=list("abc"))
    wanted = fitted().predict_set(NEW).labels()
    clf = CrossConformalClassifier(GaussianNB(), random_state=0).fit(frame, Y)
    new = pd.DataFrame(NEW, columns=list("abc"), index=np.arange(200) + 5)
    assert clf.predict_set(new).labels() == wanted
    assert list(clf.predict_set(new).index)[:2] == [5, 6]
    assert clf.feature_names_in_.tolist() == list("abc")
    by_polars = CrossConformalClassifier(GaussianNB(), random_state=0).fit(pl.DataFrame(X, list("abc")), Y)
    assert by_polars.predict_set(pl.DataFrame(NEW, list("abc"))).labels() == wanted
    clf = CrossConformalClassifier(random_state=0).fit(sparse.csr_array(X), Y)
    assert len(clf.predict_set(sparse.csr_array(NEW))) == 200


def test_weights_and_groups_are_routed():
    """Weights go to each model's rows, groups to the splitter, also with metadata routing."""
    weights, groups = np.random.default_rng(3).integers(0, 4, 120), np.repeat(np.arange(12), 10)
    clf = CrossConformalClassifier(GaussianNB(), cv=GroupKFold(4), random_state=0)
    clf.fit(X, Y, sample_weight=weights, groups=groups)
    assert all(len(set(groups[clf.folds_ == f]) & set(groups[clf.folds_ != f])) == 0 for f in range(4))
    rest = clf.folds_ != 2
    model = GaussianNB().fit(X[rest], Y[rest], sample_weight=weights[rest])
    assert np.array_equal(clf.estimators_[2].theta_, model.theta_)
    pipe = CrossConformalClassifier(make_pipeline(StandardScaler(), GaussianNB()), random_state=0)
    assert not np.allclose(pipe.fit(X, Y, sample_weight=weights).predict_proba(NEW), pipe.fit(X, Y).predict_proba(NEW))
    with sklearn.config_context(enable_metadata_routing=True):
        asking = GaussianNB().set_fit_request(sample_weight=True)
        routed = CrossConformalClassifier(asking, cv=GroupKFold(4), random_state=0)
        routed.fit(X, Y, sample_weight=weights, groups=groups)
        assert np.array_equal(routed.predict_proba(NEW), clf.predict_proba(NEW))


def test_clone_search_pickle_and_seed():
    """`score` is both a parameter and a method."""
    clf = fitted(score="repip(gamma=0.05)")
    assert clone(clf).get_params()["score"] == "repip(gamma=0.05)"
    search = GridSearchCV(clone(clf), {"estimator__var_smoothing": [1e-9, 0.1], "cv": [3, 5]}, cv=3).fit(X, Y)
    with pytest.warns(UserWarning, match="GridSearchCV chose this classifier"):
        assert search.best_estimator_.predict_set(NEW).sizes.mean() >= 1
    again = pickle.loads(pickle.dumps(clf))  # noqa: S301 - our own
    assert again.predict_set(NEW).labels() == clf.predict_set(NEW).labels()
    one, two = (
        CrossConformalClassifier(RandomForestClassifier(5), "aps", 0.4, cv=3, random_state=4).fit(X, Y) for _ in "ab"
    )
    assert one.predict_set(NEW).labels() == two.predict_set(NEW).labels() == one.predict_set(NEW).labels()
    assert one.predict_set(NEW, seed=1).labels() != one.predict_set(NEW, seed=2).labels()


REFUSED = {
    "one class": (lambda: fitted().fit(X, ["crop"] * 120), ValueError, "Expected at least two classes, got 1 class"),
    "no y": (lambda: fitted().fit(X, None), ValueError, "requires y to be passed"),
    "one fold": (lambda: fitted(cv=1), ValueError, "Expected cv as a number of folds of at least 2 .* got 1"),
    "a fraction": (lambda: fitted(cv=0.25), ValueError, "Expected cv as a number of folds .* got 0.25"),
    "prefit": (lambda: fitted(cv="prefit"), ValueError, "Expected cv as a number of folds .* got 'prefit'"),
    "too many": (lambda: fitted(cv=121), ValueError, "n_samples=120 for cv=121: lower cv"),
    "overlap": (
        lambda: fitted(cv=ShuffleSplit(3, random_state=0)),
        ValueError,
        "Expected folds that share no row .* split number [12]",
    ),
    "a rest": (lambda: fitted(cv=[(np.arange(60), np.arange(60, 120))]), ValueError, "got row 0 in none: change cv"),
    "level": (lambda: fitted(alpha=1.5), ValueError, "Expected alpha"),
    "early": (lambda: CrossConformalClassifier().predict_set(X), NotFittedError, "not fitted yet"),
    "no rows": (lambda: estimate_ratios(X, X[:3]), ValueError, "Expected at least 5 rows of each sample.* 120 and 3"),
    "apart": (
        lambda: estimate_ratios(X, X + 1e6, RandomForestClassifier(3, random_state=0)),
        ValueError,
        "comes from the target with probability 1",
    ),
    "one ratio fold": (lambda: estimate_ratios(X, X, cv=1), ValueError, "Expected cv as a number of folds .* got 1:"),
    "half a fold": (lambda: estimate_ratios(X, X, cv=2.5), ValueError, "Expected cv as a number of folds .* got 2.5"),
    "no source": (
        lambda: estimate_ratios(None, X),
        ValueError,
        r"Expected X_source as rows .* got shape \(\): reshape",
    ),
    "empty": (lambda: estimate_ratios(X, X[:0]), ValueError, "Expected at least 5 rows of each sample.* 120 and 0"),
    "no axis": (lambda: estimate_ratios(X, []), ValueError, r"Expected X_target as rows .* got shape \(0,\): reshape"),
    "one feature": (lambda: estimate_ratios(X[:, 0], X[:, 0]), ValueError, r"X_source .* shape \(120,\): reshape"),
    "fewer columns": (
        lambda: estimate_ratios(X, X[:, :2]),
        ValueError,
        r"Expected the same features in both samples, got shapes \(120, \d\) and \(120, 2\): pass the same",
    ),
    "ragged": (lambda: estimate_ratios(X, [[1], [1, 2]]), ValueError, "Expected X_target as rows .* got list: pass as"),
    "two containers": (
        lambda: estimate_ratios(pd.DataFrame(X), X),
        ValueError,
        "Expected both samples in one kind of container, got DataFrame and ndarray: convert one",
    ),
    "other names": (
        lambda: estimate_ratios(pd.DataFrame(X[:, :2], columns=["a", "b"]), pd.DataFrame(X[:, :2], columns=["b", "a"])),
        ValueError,
        "Column 0 is 'a' in X_source and 'b' in X_target: select the same columns",
    ),
    "polars names": (
        lambda: estimate_ratios(pl.DataFrame(X[:, :2], ["a", "b"]), pl.DataFrame(X[:, :2], ["a", "c"])),
        ValueError,
        "Column 1 is 'b' in X_source and 'c' in X_target",
    ),
    "pyarrow names": (
        lambda: estimate_ratios(pa.table({"a": X[:, 0], "b": X[:, 1]}), pa.table({"b": X[:, 1], "a": X[:, 0]})),
        ValueError,
        "Column 0 is 'a' in X_source and 'b' in X_target",
    ),
    "xarray names": (
        lambda: estimate_ratios(data_array(X[:, :2], "ab"), data_array(X[:, :2], "ac")),
        ValueError,
        "Column 1 is 'b' in X_source and 'c' in X_target",
    ),
    **{
        f"nan {kind.__name__}": (
            lambda kind=kind: estimate_ratios(kind(X), kind(HOLED)),
            ValueError,
            "Row 7 of X_target has a feature that is NaN or infinite, which LogisticRegression does not take: fill",
        )
        for kind in (np.asarray, np.ndarray.tolist, pd.DataFrame, sparse.csr_array)
    },
}


@pytest.mark.parametrize(("call", "kind", "sentence"), REFUSED.values(), ids=REFUSED)
def test_errors_of_arguments(call, kind, sentence):
    """Invalid arguments raise one sentence."""
    with pytest.raises(kind, match=sentence):
        call()


def test_estimated_ratios_are_near_the_true_ratios():
    """Estimated ratios are near the true ones, for two normal distributions, whose ratio is logistic."""
    rng = np.random.default_rng(0)
    source, target = rng.normal(0, 1, (3000, 2)), rng.normal((0.7, 0), 1, (1000, 2))
    truth = stats.norm(0.7, 1).pdf(source[:, 0]) / stats.norm(0, 1).pdf(source[:, 0])
    w_source, w_target = estimate_ratios(source, target, random_state=0)
    assert np.abs(np.log(w_source / truth)).mean() < 0.1
    assert w_source.shape == (3000,)
    assert w_target.shape == (1000,)
    assert w_source.mean() == pytest.approx(1, abs=0.1)
    frames = [kind(rows) for rows in (source, target) for kind in (pd.DataFrame,)]
    for pair in (
        frames,
        [pl.DataFrame(f.to_numpy(), ["a", "b"]) for f in frames],
        list(map(sparse.csr_array, (source, target))),
    ):
        assert np.allclose(estimate_ratios(*pair, random_state=0)[0], w_source)
    assert not np.array_equal(estimate_ratios(source, target, random_state=1)[0], w_source)


def test_ratios_with_missing_values_and_texts():
    """Features are validated by the classifier."""
    trees = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5)
    assert np.isfinite(np.concatenate(estimate_ratios(X, HOLED, trees, random_state=0))).all()
    words = make_pipeline(HashingVectorizer(n_features=16), LogisticRegression())
    w_source, w_target = estimate_ratios(["a b", "b"] * 20, ["b c", "c"] * 30, words, random_state=0)
    assert (len(w_source), len(w_target)) == (40, 60)
    with pytest.raises(ValueError, match="could not convert string to float"):
        estimate_ratios([["a"]] * 20, [["b"]] * 20)


def test_ratios_are_out_of_fold():
    """For equal distributions ratios are near 1, even with a forest, which would separate its training rows."""
    rng = np.random.default_rng(0)
    forest = RandomForestClassifier(50, min_samples_leaf=10)
    w_source, w_target = estimate_ratios(rng.random((400, 2)), rng.random((400, 2)), forest, random_state=0)
    assert abs(np.log(w_target).mean() - np.log(w_source).mean()) < 0.2


def test_estimated_ratios_restore_coverage_under_shift():
    """Estimated ratios restore coverage under covariate shift; unweighted sets lose it."""
    rng = np.random.default_rng(0)

    def drawn(n, centre):
        x = rng.normal(centre, 1, (n, 1))
        return x, (rng.random(n) < 1 / (1 + np.exp(3 * x[:, 0]))).astype(int)  # unsure about x = 0

    def said(x):
        p = 1 / (1 + np.exp(np.clip(x[:, 0] + 2, -30, 30)))  # right about the source, wrong further right
        return np.stack([1 - p, p], axis=1)

    (x, y), (new, truth) = drawn(4000, -2), drawn(4000, -1.2)
    w, w_new = estimate_ratios(x, new, random_state=0)
    weighted = pippin.calibrate(said(x), y, "ip", 0.1, weights=w).predict(said(new), weights=w_new)
    plain = pippin.calibrate(said(x), y, "ip", 0.1).predict(said(new))
    assert abs(pippin.metrics.coverage(weighted, truth) - 0.9) < 0.04
    assert pippin.metrics.coverage(plain, truth) < 0.8
