"""pandas indices of labels, groups and weights must agree with that of the rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import pippin
from pippin._validation.index import same_index
from pippin.sklearn import ConformalClassifier, CrossConformalClassifier

DATA = pippin.load_example()
NAMES = list(DATA.classes)
PHOTOS = pd.Index([f"{i:04}.png" for i in range(400)])
FRAME = pd.DataFrame(DATA.probs[:400], columns=NAMES, index=PHOTOS)
TRUTH = pd.Series(np.array(NAMES)[DATA.labels[:400]], index=PHOTOS)
GROUPS = pd.Series(np.arange(400) % 2, index=PHOTOS)
WEIGHTS = pd.Series(1.0 + np.arange(400) % 3, index=PHOTOS)
FOLDS = pd.Series(np.arange(400) % 2, index=PHOTOS)


def shuffled(values):
    return values.sample(frac=1, random_state=0)


PLAIN = pippin.calibrate(FRAME, TRUTH, "ip", 0.2)
GROUPED = pippin.calibrate(FRAME, TRUTH.to_numpy(), "ip", 0.2, groups=GROUPS)
WEIGHTED = pippin.calibrate(FRAME, TRUTH, "ip", 0.2, weights=WEIGHTS)
CROSSED = pippin.calibrate(FRAME, TRUTH, "ip", 0.2, folds=FOLDS)
SETS = GROUPED.predict(FRAME, groups=GROUPS)

# Calls with two arguments, as a function of the one that must match FRAME, with its name.
CALLS = {
    "score": (lambda y: pippin.scores.score(FRAME, y, "ip"), "labels", TRUTH),
    "calibrate": (lambda y: pippin.calibrate(FRAME, y, "ip", 0.2), "labels", TRUTH),
    "calibrate labels": (lambda y: pippin.calibrate(FRAME, y, "ip", 0.2, groups=GROUPS), "labels", TRUTH),
    "plain p labels": (lambda y: PLAIN.p_values(FRAME, y), "labels", TRUTH),
    "calibrate groups": (lambda g: pippin.calibrate(FRAME, TRUTH.to_numpy(), "ip", 0.2, groups=g), "groups", GROUPS),
    "calibrate units": (lambda u: pippin.calibrate(FRAME, TRUTH, "ip", 0.4, units=u), "units", GROUPS),
    "predict groups": (lambda g: GROUPED.predict(FRAME, groups=g), "groups", GROUPS),
    "p groups": (lambda g: GROUPED.p_values(FRAME, groups=g), "groups", GROUPS),
    "forced groups": (lambda g: GROUPED.point_predictions(FRAME, groups=g), "groups", GROUPS),
    "p labels": (lambda y: GROUPED.p_values(FRAME, y, groups=GROUPS), "labels", TRUTH),
    "weighted labels": (lambda y: pippin.calibrate(FRAME, y, "ip", 0.2, weights=WEIGHTS), "labels", TRUTH),
    "weighted weights": (lambda w: pippin.calibrate(FRAME, TRUTH, "ip", 0.2, weights=w), "weights", WEIGHTS),
    "weighted predict": (lambda w: WEIGHTED.predict(FRAME, weights=w), "weights", WEIGHTS),
    "weighted p": (lambda w: WEIGHTED.p_values(FRAME, weights=w), "weights", WEIGHTS),
    "weighted p labels": (lambda y: WEIGHTED.p_values(FRAME, y, weights=WEIGHTS), "labels", TRUTH),
    "cross labels": (lambda y: pippin.calibrate(FRAME, y, "ip", 0.2, folds=FOLDS), "labels", TRUTH),
    "cross folds": (lambda f: pippin.calibrate(FRAME, TRUTH, "ip", 0.2, folds=f), "folds", FOLDS),
    "cross p labels": (lambda y: CROSSED.p_values([FRAME, FRAME], y), "labels", TRUTH),
    "cross models": (lambda other: CROSSED.predict([FRAME, other]), r"probs\[1\]", FRAME),
    "combination": (lambda y: pippin.calibrate(FRAME, y, "ip/ms(variant=none)", 0.2), "labels", TRUTH),
    "compare": (lambda y: pippin.compare(FRAME, y, ["ip"], 0.2, splits=2), "labels", TRUTH),
    "compare groups": (
        lambda g: pippin.compare(FRAME, TRUTH, ["ip per group"], 0.2, splits=2, groups=g),
        "groups",
        GROUPS,
    ),
    "sweep": (lambda y: pippin.sweep(FRAME, y, "pip", values=(0.5, 1), splits=2), "labels", TRUTH),
    "tune": (lambda y: pippin.tune(FRAME, y, ["ip", "pip"], splits=2), "labels", TRUTH),
    "contains": (lambda y: SETS.contains(y), "labels", TRUTH),
    "coverage": (lambda y: pippin.metrics.coverage(SETS, y), "labels", TRUTH),
    "evaluate": (lambda y: pippin.evaluate(SETS, y), "labels", TRUTH),
    "evaluate groups": (lambda g: pippin.evaluate(SETS, TRUTH, groups=g), "groups", GROUPS),
}


@pytest.mark.parametrize(("call", "name", "given"), CALLS.values(), ids=CALLS)
def test_a_different_index_order_raises(call, name, given):
    """Another order or other rows raise; equal, default and missing indices are accepted."""
    call(given)
    call(given.copy())
    call(given.reset_index(drop=True))
    call(given.to_numpy())
    for other in (shuffled(given), given.iloc[::-1], given.rename(lambda photo: f"other/{photo}")):
        message = rf"Expected {name} with the index of [\w\[\]]+, got row \d+ as .*png.: align them, {name}"
        with pytest.raises(ValueError, match=message):
            call(other)
    call(shuffled(given).loc[FRAME.index])


FITTED = {
    "fit": lambda X, y: ConformalClassifier(LogisticRegression(), "ip", 0.2, random_state=0).fit(X, y),
    "cross": lambda X, y: CrossConformalClassifier(LogisticRegression(), "ip", 0.2, cv=2, random_state=0).fit(X, y),
    "prefit": lambda X, y: ConformalClassifier(PREFIT, "ip", 0.2, cv="prefit").fit(X, y),
    "calibrate": lambda X, y: ConformalClassifier(PREFIT, "ip", 0.2, cv="prefit").calibrate(X, y),
}
PREFIT = LogisticRegression().fit(FRAME, TRUTH)


@pytest.mark.parametrize("make", FITTED.values(), ids=FITTED)
def test_scikit_learn_targets(make):
    """X and y from `train_test_split` and y without an index are accepted; y in another order raises."""
    X, _, y, _ = train_test_split(FRAME, TRUTH, random_state=0)  # noqa: N806 - scikit-learn's name
    assert list(X.index) != sorted(X.index)
    make(X, y)
    make(X, y.to_numpy())
    make(X, y.reset_index(drop=True))
    make(X.reset_index(drop=True), y)
    with pytest.raises(ValueError, match=r"Expected y with the index of X, got row 0 as .*, y.loc\[X.index\]"):
        make(X, y.sort_index())


def test_sets_of_a_classifier_keep_the_index():
    clf = FITTED["fit"](FRAME, TRUTH)
    sets = clf.predict_set(shuffled(FRAME))
    assert pippin.metrics.coverage(sets, shuffled(TRUTH)) == pippin.metrics.coverage(clf.predict_set(FRAME), TRUTH)
    with pytest.raises(ValueError, match="Expected labels with the index of sets"):
        pippin.metrics.coverage(sets, TRUTH)


# Two indices, and True if their rows may be matched by position.
PAIRS = {
    "split": (pd.Index([5, 2, 9]), pd.Index([5, 2, 9]), True),
    "probabilities of an array": (pd.RangeIndex(3), pd.Index([5, 2, 9]), True),
    "labels reset": (pd.Index([5, 2, 9]), pd.RangeIndex(3), True),
    "counted": (pd.Index([0, 1, 2]), pd.RangeIndex(3), True),
    "default, shuffled": (pd.RangeIndex(3), pd.Index([2, 0, 1]), False),
    "shuffled, default": (pd.Index([2, 0, 1]), pd.RangeIndex(3), False),
    "partly default": (pd.RangeIndex(3), pd.Index([2, 1, 9]), True),
    "from one": (pd.RangeIndex(3), pd.RangeIndex(1, 4), True),
    "no default": (pd.RangeIndex(1, 4), pd.RangeIndex(2, 5), False),
    "other rows": (pd.Index(["a", "b", "c"]), pd.Index(["a", "b", "d"]), False),
    "text of numbers": (pd.Index(["0", "1", "2"]), pd.RangeIndex(3), True),
    "days": (pd.date_range("2024-03-01", periods=3), pd.date_range("2024-03-01", periods=3), True),
    "other days": (pd.date_range("2024-03-01", periods=3), pd.date_range("2024-03-02", periods=3), False),
    "days and numbers": (pd.date_range("2024-03-01", periods=3), pd.RangeIndex(3), True),
    "repeated": (pd.Index([7, 7, 3]), pd.Index([7, 7, 3]), True),
    "repeated, moved": (pd.Index([7, 7, 3]), pd.Index([7, 3, 7]), False),
    "levels": (
        pd.MultiIndex.from_tuples([("f", 1), ("f", 2), ("g", 1)]),
        pd.MultiIndex.from_tuples([("f", 2), ("f", 1), ("g", 1)]),
        False,
    ),
    "levels and numbers": (pd.MultiIndex.from_tuples([("f", 1), ("f", 2), ("g", 1)]), pd.RangeIndex(3), True),
    "missing": (pd.Index(["a", None, "c"]), pd.Index(["a", None, "c"]), True),
    "missing, moved": (pd.Index(["a", None, "c"]), pd.Index([None, "a", "c"]), False),
    "missing numbers": (pd.Index([1, pd.NA, 3], dtype="Int64"), pd.Index([1, 3, pd.NA], dtype="Int64"), False),
    "missing and default": (pd.Index([1, pd.NA, 3], dtype="Int64"), pd.RangeIndex(3), True),
    "names of the index": (pd.Index([5, 2, 9], name="id"), pd.Index([5, 2, 9]), True),
}


@pytest.mark.parametrize(("rows", "other", "fine"), PAIRS.values(), ids=PAIRS)
def test_matching_and_different_indices(rows, other, fine):
    values = pd.Series([0, 1, 0], index=other)
    if fine:
        same_index("probs", rows, labels=values)
    else:
        with pytest.raises(ValueError, match=r"Expected labels with the index of probs, got row \d as"):
            same_index("probs", rows, labels=values)


def test_a_wrong_number_of_labels_is_reported_before_the_index():
    with pytest.raises(ValueError, match=r"Expected 400 labels, one per row, got shape \(399,\)"):
        pippin.compare(FRAME, TRUTH.iloc[1:], ["ip"], splits=2)


class Photo:
    """Label that equals only itself, like times with a time zone of another library."""

    def __repr__(self):
        return "photo"


def test_indices_with_equal_representation_match():
    """Labels whose text is equal are accepted, since an error could not name a difference."""
    a, b = (pd.Index([Photo() for _ in range(3)]) for _ in range(2))
    assert not a.equals(b)
    same_index("probs", a, labels=pd.Series([0, 1, 0], index=b))
