"""ConformalClassifier is a scikit-learn classifier, and its sets keep their level."""

import io
import os
import pickle
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit, cross_val_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import pippin
from pippin.sklearn import ConformalClassifier
from pippin.sklearn.fingerprints import fingerprints, seen_before

# Every check of scikit-learn, none excused. With SCIPY_ARRAY_API set, none is skipped either; it has to be set
# before scipy is imported, hence the process of its own.
CHECKED = {
    "default": "ConformalClassifier()",
    "randomised score": "ConformalClassifier(score='aps')",
    "splitter": "ConformalClassifier(cv=ShuffleSplit(1, test_size=0.3, random_state=0))",
    "bayes": "ConformalClassifier(GaussianNB(), 'socop', 0.2, 0.5)",
    "pipeline": "ConformalClassifier(make_pipeline(MaxAbsScaler(), LogisticRegression()))",
    "cross": "CrossConformalClassifier()",
    "cross, randomised": "CrossConformalClassifier(GaussianNB(), 'aps', 0.2, 3)",
    "cross, splitter": "CrossConformalClassifier(cv=KFold(4, shuffle=True, random_state=0))",
}
CHECKS = """
import warnings; warnings.simplefilter("ignore")
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import check_estimator
from pippin.sklearn import ConformalClassifier, CrossConformalClassifier
done = check_estimator({}, on_fail=None)
bad = [(check["check_name"], check["status"], str(check["exception"])) for check in done if check["status"] != "passed"]
print(len(done), bad)
"""


@pytest.mark.parametrize("made", CHECKED.values(), ids=CHECKED)
def test_every_check_of_scikit_learn_passes(made):
    """`check_estimator`: all passed, none failed, excused or skipped."""
    env = {**os.environ, "SCIPY_ARRAY_API": "1"}
    printed = subprocess.check_output([sys.executable, "-c", CHECKS.format(made)], env=env, text=True)
    count, bad = printed.strip().split(" ", 1)
    assert bad == "[]"
    assert int(count) > 50


def blobs(n, seed=0, n_classes=4, names=None):
    """Overlapping clouds in three dimensions, one per class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    rows = np.stack([np.cos(y * 1.5), np.sin(y * 1.5), y == 0], axis=1) + rng.normal(0, 0.8, (n, 3))
    return rows, y if names is None else np.array(names)[y]


NAMES = ["crop", "rye", "soil", "weed"]
X, Y = blobs(600, names=NAMES)
NEW, TRUTH = blobs(400, seed=1, names=NAMES)


def fitted(**params):
    return ConformalClassifier(GaussianNB(), **{"random_state": 0, **params}).fit(X, Y)


@pytest.mark.parametrize("score", ["ip", "repip", "aps", "socop"])
def test_coverage_follows_its_law(score):
    """Over many data sets and splits, the covered among m new rows are beta-binomial(m, k, n + 1 − k)."""
    n, m, alpha, repeats = 80, 60, 0.2, 300
    covered = []
    for seed in range(repeats):
        rows, labels = blobs(n, seed=2 * seed + 10)
        new, truth = blobs(m, seed=2 * seed + 11)
        clf = ConformalClassifier(GaussianNB(), score, alpha, cv=0.5, random_state=seed).fit(rows, labels)
        covered.append(clf.predict_set(new).contains(truth).sum())
    held = n // 2
    k = int(np.ceil((held + 1) * (1 - alpha)))
    law = stats.betabinom(m, k, held + 1 - k)
    assert abs(np.mean(covered) - law.mean()) < 4.5 * law.std() / np.sqrt(repeats)
    edges = law.ppf([0.2, 0.4, 0.6, 0.8])
    chances = np.diff([0, *law.cdf(edges), 1])
    found = np.bincount(np.searchsorted(edges, covered), minlength=5)
    assert stats.chisquare(found, chances * repeats).pvalue > 1e-4


def rarest_stay(y, rng):
    """A stratified split: of every class a share is held out, but never its only row."""
    parts = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
    held = np.concatenate([rows[: min(len(rows) - 1, int(0.4 * len(rows) + rng.random()))] for rows in parts])
    return [(np.setdiff1d(np.arange(len(y)), held), held)]


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%")
def test_rare_classes_do_not_cost_the_level():
    """A long tail: the split must not look at y; a stratified one covers far too little."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, 201)
    covered = {"fraction": [], "stratified": []}
    for seed in range(60):
        y = rng.choice(200, 700, p=shares / shares.sum())
        rows = np.stack([y, y % 7], axis=1) + rng.normal(0, 0.5, (700, 2))
        for kind, cv in (("fraction", 0.4), ("stratified", rarest_stay(y[:300], rng))):
            clf = ConformalClassifier(KNeighborsClassifier(9), "ip", 0.2, cv, seed).fit(rows[:300], y[:300])
            known = np.isin(y[300:], clf.classes_)  # a class that fit never saw is never covered
            covered[kind].append(clf.predict_set(rows[300:][known]).contains(y[300:][known]).sum() / 400)
    error = 4 * np.std(covered["fraction"]) / np.sqrt(60)
    assert np.mean(covered["fraction"]) > 0.8 - error
    assert np.mean(covered["stratified"]) < 0.8 - error


def test_it_is_the_core_on_the_held_out_rows():
    """The same threshold and sets as `pippin.calibrate` on the estimator's probabilities."""
    clf = fitted(score="pip", alpha=0.15)
    rest = np.setdiff1d(np.arange(len(X)), clf._trained)
    assert len(rest) == 150
    by_hand = GaussianNB().fit(X[clf._trained], Y[clf._trained])
    predictor = pippin.calibrate(by_hand.predict_proba(X[rest]), Y[rest], "pip", 0.15, NAMES)
    assert clf.predictor_.threshold == predictor.threshold
    assert clf.predict_set(NEW).labels() == predictor.predict(by_hand.predict_proba(NEW)).labels()
    assert clf.predict_set(NEW, alpha=0.4).labels() == predictor.at(0.4).predict(by_hand.predict_proba(NEW)).labels()


def test_predictions():
    """predict is the most probable class and heads every set; score is its accuracy."""
    clf = fitted()
    sets = clf.predict_set(NEW)
    assert sets.classes == tuple(NAMES) == tuple(clf.classes_)
    assert clf.predict(NEW).tolist() == clf.classes_[clf.predict_proba(NEW).argmax(axis=1)].tolist()
    assert all(names[0] == best for names, best in zip(sets, clf.predict(NEW), strict=True) if names)
    assert clf.score(NEW, TRUTH) == np.mean(clf.predict(NEW) == TRUTH)
    assert clf.score(NEW, TRUTH, sample_weight=clf.predict(NEW) == TRUTH) == 1
    assert pippin.coverage(sets, TRUTH) > 0.85


def test_parameters_and_clones():
    """`score` is a parameter and a method at once."""
    clf = fitted(score="repip(gamma=0.05)")
    assert clf.get_params(deep=False)["score"] == "repip(gamma=0.05)"
    assert "score='repip(gamma=0.05)'" in repr(clf)
    assert callable(clf.score)
    other = clone(clf.set_params(score=pippin.socop(mu=2.0), alpha=0.3, estimator__var_smoothing=1e-3))
    assert not hasattr(other, "predictor_")
    other.fit(X, Y)
    assert other.predictor_.score == pippin.socop(mu=2.0)
    assert other.predictor_.alpha == 0.3
    assert other.estimator_.var_smoothing == 1e-3
    assert clf.predictor_.alpha == 0.1  # parameters count when fitting


def through_pickle(clf):
    return pickle.loads(pickle.dumps(clf))  # noqa: S301


def through_joblib(clf):
    stream = io.BytesIO()
    joblib.dump(clf, stream)
    stream.seek(0)
    return joblib.load(stream)


@pytest.mark.parametrize("copy", [through_pickle, through_joblib])
def test_saved_and_loaded(copy):
    """The same sets, the same refusals, the same parameters."""
    clf = fitted(score="aps")
    again = copy(clf)
    assert again.predict_set(NEW).labels() == clf.predict_set(NEW).labels()
    assert again.get_params()["score"] == "aps"
    assert again.score(NEW, TRUTH) == clf.score(NEW, TRUTH)
    with pytest.raises(ValueError, match="not fitted on"):
        again.calibrate(X, Y)


def test_the_calibrated_part_can_be_deployed(tmp_path):
    """`predictor_` is an ordinary predictor, with a file that needs no scikit-learn."""
    clf = fitted()
    clf.predictor_.save(tmp_path / "predictor.json")
    sets = pippin.load(tmp_path / "predictor.json").predict(clf.predict_proba(NEW))
    assert sets.labels() == clf.predict_set(NEW).labels()


def test_grid_search():
    """Over alpha and over gamma, judged by the sets."""

    def singletons(clf, rows, labels):
        return pippin.informativeness(clf.predict_set(rows))

    grid = {"alpha": [0.05, 0.4], "score": ["repip(gamma=0)", pippin.repip(gamma=0.1)]}
    search = GridSearchCV(ConformalClassifier(GaussianNB(), random_state=0), grid, scoring=singletons, cv=3).fit(X, Y)
    assert search.best_params_["alpha"] == 0.4
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.predict_set(NEW).sizes.mean() < 2
    assert GridSearchCV(ConformalClassifier(GaussianNB()), {"alpha": [0.1]}, cv=3).fit(X, Y).score(NEW, TRUTH) > 0.5
    assert cross_val_score(ConformalClassifier(GaussianNB()), X, Y).mean() > 0.5


def test_pipelines():
    """As the last step, and around a whole pipeline, which may begin with text."""
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
    """Those of the estimator, which also checks them."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    clf = fitted().fit(frame, pd.Series(Y, index=range(600, 0, -1)))
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        clf.predict_set(frame[["b", "a", "c"]])
    with pytest.raises(ValueError, match="feature names"):
        clf.calibrate(pd.DataFrame(NEW, columns=["a", "c", "b"]), TRUTH)
    assert not hasattr(clf.fit(X, Y), "feature_names_in_")


def test_frames():
    """pandas keeps its index, polars stays polars; the sets are those of the array."""
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
    """The same threshold as for dense rows, and the same refusal."""
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
def test_two_classes_of_any_kind(labels, names):
    """predict gives the labels back as they came; the sets name them by text or whole numbers."""
    y = np.asarray(labels)[(X[:, 0] > 0).astype(int)]
    clf = ConformalClassifier(random_state=0).fit(X, y)
    assert clf.predict(X).dtype == y.dtype
    assert clf.score(X, y) > 0.9
    assert clf.predict_set(X).classes == names


def test_classes_on_one_side_of_the_split():
    """One that only calibrates has probability 0, one that only trains is a class like others."""
    y = Y.astype(object)
    y[:2] = ["only fitted", "only held out"]
    cv = [(np.r_[0, 2:400], np.r_[1, 400:600])]
    clf = ConformalClassifier(GaussianNB(), cv=cv).fit(X, y)
    assert clf.classes_.tolist() == [*NAMES[:1], "only fitted", "only held out", *NAMES[1:]]
    probs = clf.predict_proba(NEW)
    assert (probs[:, 2] == 0).all()
    assert np.allclose(probs.sum(axis=1), 1)
    assert clf.predictor_.n_calibration == 201


def test_weights_reach_the_estimator():
    """Cut to its rows: like repeated rows there, and without a part in the calibration."""
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
    with pytest.raises(ValueError, match="takes sample_weight, got KNeighborsClassifier"):
        ConformalClassifier(KNeighborsClassifier()).fit(X, Y, sample_weight=weights)


class Remembers(ClassifierMixin, BaseEstimator):
    """Keeps what its fit was given."""

    def fit(self, X, y, sample_weight=None, field=None):
        self.given, self.field = sample_weight, field
        self.inner = GaussianNB().fit(X, y)
        self.classes_ = self.inner.classes_
        return self

    def predict_proba(self, X):
        return self.inner.predict_proba(X)


def test_metadata_routing():
    """What the estimator and the splitter ask for reaches them, through a grid search too."""
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


def test_a_fitted_classifier_in_three_lines():
    """cv="prefit" fits nothing: the estimator is used as it is."""
    model = GaussianNB().fit(X[:300], Y[:300])
    before = model.predict_proba(NEW)
    clf = ConformalClassifier(model, cv="prefit").fit(X[300:], Y[300:])
    assert clf.estimator_ is model
    assert np.array_equal(clf.predict_proba(NEW), before)
    assert clf.predictor_.n_calibration == 300
    same = ConformalClassifier(model, cv="prefit").calibrate(X[300:], Y[300:])
    assert same.predict_set(NEW).labels() == clf.predict_set(NEW).labels()
    frozen = clone(ConformalClassifier(FrozenEstimator(model)))
    assert frozen.fit(X[300:], Y[300:]).predict_set(NEW).labels() == clf.predict_set(NEW).labels()
    with pytest.raises(NotFittedError, match="Expected a fitted estimator for cv='prefit', got a GaussianNB"):
        clone(clf).fit(X[300:], Y[300:])
    with pytest.raises(ValueError, match="leave it out"):
        clf.fit(X, Y, sample_weight=np.ones(600))


def test_calibrating_again():
    """On fresh rows, as often as one likes."""
    clf = fitted()
    first = clf.predictor_.threshold
    clf.calibrate(NEW, TRUTH)
    assert clf.predictor_.n_calibration == 400
    assert clf.predictor_.threshold != first
    assert clf.calibrate(NEW, TRUTH) is clf
    with pytest.raises(ValueError, match=r"Row 1 has the label 'moss', expected one of the 4 classes"):
        clf.calibrate(NEW[:2], ["crop", "moss"])


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, sparse.csr_array, lambda rows: rows.tolist()])
def test_rows_that_fitted_are_refused(kind, share):
    """All of them, half of them, or some of them among fresh ones, in any order and any container."""
    clf = fitted()
    old = np.random.default_rng(0).permutation(clf._trained)[: int(share * 400)]
    rows = np.concatenate([X[old], NEW[: 400 - len(old)]])
    with pytest.raises(
        ValueError, match=rf"fitted on, got {len(old)} of 400 that went through fit: calibrate on fresh"
    ):
        clf.calibrate(kind(rows), ["crop"] * 400)
    with pytest.raises(ValueError, match="got 600 of 600 that went through fit"):
        clf.calibrate(kind(X), Y)


def test_rows_that_merely_repeat_are_not_refused():
    """Few values, many twins: fresh rows look like old ones, and are welcome; the fitted rows themselves are not."""
    for levels, seed in ((2, 0), (3, 1), (6, 2), (30, 3)):
        rng = np.random.default_rng(seed)
        rows, y = rng.integers(0, levels, (900, 3)), rng.integers(0, 3, 900)
        clf = ConformalClassifier(random_state=0).fit(rows[:500], y[:500])
        clf.calibrate(rows[500:], y[500:])
        with pytest.raises(ValueError, match="500 of 500"):
            clf.calibrate(rows[:500], y[:500])
    iris, kinds = load_iris(return_X_y=True)  # two of its flowers are equal
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(150)
        clf = ConformalClassifier(GaussianNB(), random_state=seed).fit(iris[order[:100]], kinds[order[:100]])
        clf.calibrate(iris[order[100:]], kinds[order[100:]])


def test_fingerprints_tell_rows_apart():
    """Small whole numbers in any order of columns; mixed frames; -0.0 is 0."""
    grid = np.stack(np.meshgrid(*[np.arange(17)] * 4), axis=-1).reshape(-1, 4)
    assert len(np.unique(fingerprints(grid))) == 17**4
    frame = pd.DataFrame({"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [None, None, 0.5]})
    assert len(set(fingerprints(frame))) == 3
    assert np.array_equal(fingerprints(frame), fingerprints(pl.DataFrame(frame.to_dict("list"))))
    assert fingerprints([[-0.0, 1]]) == fingerprints(np.array([[0, 1]], dtype=np.float32))
    rows = fingerprints(np.random.default_rng(0).random((2000, 5)))
    assert seen_before(rows[:1000], rows[1000:]) == 0
    assert seen_before(rows[:1000], rows[980:]) == 20


def test_randomness_is_an_argument():
    """A seed repeats everything, the forest included; NumPy's global generator stays where it was."""
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    for score in ("repip", "aps"):
        forest = RandomForestClassifier(10)
        one, two = (ConformalClassifier(forest, score, random_state=5).fit(X, Y) for _ in range(2))
        assert one.predict_set(NEW).labels() == two.predict_set(NEW).labels() == one.predict_set(NEW).labels()
        assert forest.random_state is None
    ConformalClassifier(score="aps").fit(X, Y).predict_set(NEW)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    rng = np.random.default_rng(1)
    first, second = (fitted(random_state=rng) for _ in range(2))
    assert not np.array_equal(first._trained, second._trained)
    assert fitted(random_state=np.random.RandomState(1)).predictor_.n_calibration == 150


def test_row_by_row_is_random_row_by_row():
    """With a fixed seed, single rows do not share one u: the level holds for a stream of objects too."""
    clf = fitted(score="aps", alpha=0.2)
    alone = np.concatenate(
        [clf.predict_set(row[None]).contains([label]) for row, label in zip(NEW, TRUTH, strict=True)]
    )
    assert abs(alone.mean() - clf.predict_set(NEW).contains(TRUTH).mean()) < 0.06
    certain = ConformalClassifier(
        FrozenEstimator(GaussianNB().fit([[0.0], [9.0]] * 5, ["a", "b"] * 5)), "aps", 0.5, random_state=0
    )
    certain.fit(np.linspace(0, 9, 99)[:, None], ["a"] * 50 + ["b"] * 49)
    assert {len(certain.predict_set([[x]])[0]) for x in np.linspace(0, 1, 40)} == {0, 1}
    assert clf.predict_set(NEW, seed=1).labels() != clf.predict_set(NEW, seed=2).labels()


def test_ties_of_a_forest():
    """Few trees vote in steps: equal probabilities go by class order, and the level holds."""
    digits, kinds = load_digits(return_X_y=True)
    covered = []
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(kinds))
        clf = ConformalClassifier(RandomForestClassifier(7), "pip", 0.1, 0.4, seed)
        clf.fit(digits[order[:1000]], kinds[order[:1000]])
        rows, truth = digits[order[1000:]], kinds[order[1000:]]
        sets = clf.predict_set(rows)
        probs = clf.predict_proba(rows)
        ranked = np.argsort(-probs, axis=1, kind="stable")
        assert any(np.ptp(np.sort(row)[-2:]) == 0 for row in probs)
        assert all(names == ranked[i, : len(names)].tolist() for i, names in enumerate(sets))
        covered.append(pippin.coverage(sets, truth))
    assert np.mean(covered) > 0.88


def test_boosting_with_missing_values():
    """What the estimator can take is not refused before it."""
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    clf = ConformalClassifier(HistGradientBoostingClassifier(max_iter=5), random_state=0).fit(rows, Y)
    assert clf.score(NEW, TRUTH) > 0.5


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
def test_refusals(call, kind, sentence):
    """One sentence each."""
    with pytest.raises(kind, match=sentence):
        call()


def test_a_failed_fit_leaves_the_last_one():
    """Nothing is half replaced."""
    clf = fitted()
    wanted = clf.predict_set(NEW).labels()
    with pytest.raises(ValueError, match="Unknown score"):
        clf.set_params(score="best", random_state=9).fit(X, Y)
    assert clf.predict_set(NEW).labels() == wanted


def test_too_few_rows_to_calibrate():
    """A warning, and sets with all classes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sets = fitted(alpha=0.001).predict_set(NEW)
    assert "too few" in str(caught[0].message)
    assert (sets.sizes == 4).all()


def test_absence_is_explained():
    """One sentence with the command that installs it; pippin itself does without."""
    code = (
        "import sys; sys.modules['sklearn'] = None; import pippin\n"
        "try: import pippin.sklearn\nexcept ImportError as error: print(error)"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed == 'pippin.sklearn needs scikit-learn 1.6 or newer: run pip install "pippin-conformal[sklearn]".\n'


@pytest.mark.parametrize("per", ["class", "rc3p"])
def test_a_guarantee_per_class(per):
    """The thresholds that `calibrate` finds on the rows held out; `per` is a parameter like the others."""
    rows, y = load_digits(return_X_y=True)
    clf = clone(ConformalClassifier(alpha=0.1, random_state=0, score="pip").set_params(per=per)).fit(rows, y)
    assert isinstance(clf.predictor_, pippin.ConditionalPredictor)
    assert clf.predictor_.per == per
    assert clf.predictor_.thresholds.shape == (1, 10)
    assert len(clf.predict_set(rows[:7])) == 7
    assert clf.predict_set(rows[:7], alpha=0.2).classes == clf.predictor_.classes
    with pytest.raises(ValueError, match="Expected per to be one of"):
        ConformalClassifier(random_state=0, per="colour").fit(rows, y)
