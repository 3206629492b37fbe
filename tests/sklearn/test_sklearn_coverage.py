"""Coverage of ConformalClassifier: its law, edge cases and sources of randomness."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import pippin
from pippin.sklearn import ConformalClassifier
from support.blobs import NAMES, NEW, TRUTH, X, Y, blobs, fitted


@pytest.mark.parametrize("score", ["ip", "repip", "aps", "socop"])
def test_coverage_follows_its_law(score):
    """Over many data sets and splits, the number covered of m rows is beta-binomial(m, k, n + 1 − k)."""
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


def stratified_split(y, rng):
    """Hold out a share of every class, but never its only row."""
    parts = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
    held = np.concatenate([rows[: min(len(rows) - 1, int(0.4 * len(rows) + rng.random()))] for rows in parts])
    return [(np.setdiff1d(np.arange(len(y)), held), held)]


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%")
def test_coverage_with_rare_classes():
    """A random split keeps the level; a stratified split covers far too few rows."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, 201)
    covered = {"fraction": [], "stratified": []}
    for seed in range(60):
        y = rng.choice(200, 700, p=shares / shares.sum())
        rows = np.stack([y, y % 7], axis=1) + rng.normal(0, 0.5, (700, 2))
        for kind, cv in (("fraction", 0.4), ("stratified", stratified_split(y[:300], rng))):
            clf = ConformalClassifier(KNeighborsClassifier(9), "ip", 0.2, cv, seed).fit(rows[:300], y[:300])
            known = np.isin(y[300:], clf.classes_)  # a class that fit never saw is never covered
            covered[kind].append(clf.predict_set(rows[300:][known]).contains(y[300:][known]).sum() / 400)
    error = 4 * np.std(covered["fraction"]) / np.sqrt(60)
    assert np.mean(covered["fraction"]) > 0.8 - error
    assert np.mean(covered["stratified"]) < 0.8 - error


def test_equals_calibrate_on_held_out_rows():
    """Threshold and sets equal those of `pippin.calibrate` on the held-out rows."""
    clf = fitted(score="pip", alpha=0.15)
    rest = np.setdiff1d(np.arange(len(X)), clf._trained)
    assert len(rest) == 150
    by_hand = GaussianNB().fit(X[clf._trained], Y[clf._trained])
    predictor = pippin.calibrate(by_hand.predict_proba(X[rest]), Y[rest], "pip", 0.15, classes=NAMES)
    assert clf.predictor_.threshold == predictor.threshold
    assert clf.predict_set(NEW).labels() == predictor.predict(by_hand.predict_proba(NEW)).labels()
    assert clf.predict_set(NEW, alpha=0.4).labels() == predictor.at(0.4).predict(by_hand.predict_proba(NEW)).labels()


def test_classes_missing_in_one_part_of_the_split():
    """A class only among calibration rows has probability 0; a class only among training rows is like any other."""
    y = Y.astype(object)
    y[:2] = ["only fitted", "only held out"]
    cv = [(np.r_[0, 2:400], np.r_[1, 400:600])]
    clf = ConformalClassifier(GaussianNB(), cv=cv).fit(X, y)
    assert clf.classes_.tolist() == [*NAMES[:1], "only fitted", "only held out", *NAMES[1:]]
    probs = clf.predict_proba(NEW)
    assert (probs[:, 2] == 0).all()
    assert np.allclose(probs.sum(axis=1), 1)
    assert clf.predictor_.n_calibration == 201


def test_random_state_determines_all_results():
    """It seeds the estimator as well; NumPy's global generator is not used."""
    _, words, place, *_ = np.random.get_state()  # noqa: NPY002 - it is what is watched
    for score in ("repip", "aps"):
        forest = RandomForestClassifier(10)
        one, two = (ConformalClassifier(forest, score, random_state=5).fit(X, Y) for _ in range(2))
        assert one.predict_set(NEW).labels() == two.predict_set(NEW).labels() == one.predict_set(NEW).labels()
        assert forest.random_state is None
    ConformalClassifier(score="aps").fit(X, Y).predict_set(NEW)
    assert np.array_equal(np.random.get_state()[1], words)  # noqa: NPY002
    assert np.random.get_state()[2] == place  # noqa: NPY002
    rng = np.random.default_rng(1)
    first, second = (fitted(random_state=rng) for _ in range(2))
    assert not np.array_equal(first._trained, second._trained)
    assert fitted(random_state=np.random.RandomState(1)).predictor_.n_calibration == 150


def test_u_differs_between_single_rows():
    """With a fixed seed, coverage of rows predicted one by one keeps the level."""
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


def test_tied_probabilities_of_a_forest():
    """Equal probabilities are ordered by class, and coverage keeps the level."""
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
        covered.append(pippin.metrics.coverage(sets, truth))
    assert np.mean(covered) > 0.88


def test_too_few_rows_to_calibrate():
    """They cause a warning, and sets of all classes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sets = fitted(alpha=0.001).predict_set(NEW)
    assert "too few" in str(caught[0].message)
    assert (sets.sizes == 4).all()


@pytest.mark.parametrize("per", ["class", "rc3p"])
def test_per_class(per):
    """`per` is a parameter of the estimator (`set_params`, `clone`), and gives one threshold per class."""
    rows, y = load_digits(return_X_y=True)
    unfitted = ConformalClassifier(GaussianNB(), alpha=0.1, random_state=0, score="pip").set_params(per=per)
    clf = clone(unfitted).fit(rows, y)
    assert isinstance(clf.predictor_, pippin.ConformalPredictor)
    assert clf.predictor_.per == per
    assert clf.predictor_.thresholds.shape == (1, 10)
    assert len(clf.predict_set(rows[:7])) == 7
    assert clf.predict_set(rows[:7], alpha=0.2).classes == clf.predictor_.classes
    with pytest.raises(ValueError, match="Expected per to be one of"):
        ConformalClassifier(GaussianNB(), random_state=0, per="colour").fit(rows, y)
