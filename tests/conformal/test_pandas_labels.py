"""Sets by pandas labels, p-values with index and names, and predictions of one object."""

import numpy as np
import pandas as pd
import polars
import pytest

import pippin
from pippin.sklearn import ConformalClassifier, CrossConformalClassifier

DATA = pippin.load_example()
PROBS, LABELS, NEW = DATA.probs[:300].astype(float), DATA.labels[:300], DATA.probs[300:306].astype(float)
NAMED = tuple(DATA.classes)
PHOTOS = [f"{i}.png" for i in range(6)]
FARMS = np.arange(300) % 2
KINDS = {
    "marginal": (lambda **given: pippin.calibrate(PROBS, LABELS, "aps", seed=0, **given), {}, {}),
    "class": (lambda **given: pippin.calibrate(PROBS, LABELS, "pip", per="class", **given), {}, {}),
    "cluster": (lambda **given: pippin.calibrate(PROBS, LABELS, "pip", seed=0, per="cluster", **given), {}, {}),
    "group": (
        lambda **given: pippin.calibrate(PROBS, LABELS, "pip", groups=FARMS, **given),
        {"groups": [0, 1, 0, 1, 0, 1]},
        {"group": 0},
    ),
    "weighted": (
        lambda **given: pippin.calibrate(PROBS, LABELS, "pip", weights=np.ones(300), **given),
        {"weights": np.ones(6)},
        {"weight": 1.0},
    ),
    "cross": (lambda **given: pippin.calibrate(PROBS, LABELS, "pip", folds=FARMS, **given), {}, {}),
    "rc3p": (lambda **given: pippin.calibrate(PROBS, LABELS, "pip", per="rc3p", **given), {}, {}),
    "combination": (lambda **given: pippin.calibrate(PROBS, LABELS, "ip/ms(variant=sum)", **given), {}, {}),
}
quiet = pytest.mark.filterwarnings("ignore:.*(thresholds are infinite|to cluster)")
of_every_kind = pytest.mark.parametrize("kind", KINDS)


def frame(index=PHOTOS):
    return pd.DataFrame(NEW, index, NAMED)


def asked(kind, rows):
    """Return the rows in the form that the rule expects."""
    return [rows, rows] if kind == "cross" else rows


def seeded(predictor):
    return {"seed": 3} if "seed" in predictor.takes else {}


# Sets by label


@quiet
@of_every_kind
def test_sets_by_label(kind):
    """Sets are found by pandas label and by position, for every rule."""
    make, beside, _ = KINDS[kind]
    predictor = make(classes=NAMED)
    sets = predictor.predict(asked(kind, frame()), **beside, **seeded(predictor))
    plain = predictor.predict(asked(kind, NEW), **beside, **seeded(predictor))
    assert [sets.loc[photo] for photo in PHOTOS] == plain.labels() == [sets[i] for i in range(6)]
    assert sets[-1] == sets.loc["5.png"] == plain[-1]
    assert sets[1:3].loc["2.png"] == plain[2]


INDICES = {
    "default": None,
    "shuffled": [5, 4, 3, 2, 1, 0],
    "whole numbers": [10, 20, 30, 40, 50, 60],
    "negative": [-1, -2, -3, -4, -5, -6],
    "nullable": pd.Index([3, 1, 2, 5, 4, 0], dtype="Int64"),
    "floats": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
    "text": PHOTOS,
    "times": pd.date_range("2024-05-01", periods=6),
    "categories": pd.CategoricalIndex(PHOTOS),
    "repeated": ["a", "b", "a", "c", "a", "b"],
    "repeated numbers": [1, 0, 1, 0, 1, 0],
    "levels": pd.MultiIndex.from_product([["x", "y"], [1, 2, 3]]),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_a_whole_number_is_a_position_whatever_the_index(index):
    """`sets[i]` is the set of row i, also if the index has whole numbers."""
    predictor = pippin.calibrate(PROBS, LABELS, classes=NAMED)
    plain, sets = predictor.predict(NEW).labels(), predictor.predict(frame(index))
    assert [sets[i] for i in range(-6, 6)] == plain + plain
    assert sets[np.int64(2)] == plain[2]
    assert sets[1:4].labels() == plain[1:4]
    assert sets[1:4].index.equals(sets.index[1:4])
    assert sets[[4, 0]].labels() == [plain[4], plain[0]]
    assert sets[sets.sizes > 1].labels() == [names for names in plain if len(names) > 1]
    for beyond in (6, -7):
        with pytest.raises(IndexError):
            sets[beyond]


@pytest.mark.parametrize(("name", "index"), [*list(INDICES.items())[1:]], ids=list(INDICES)[1:])
def test_labels_of_the_index_select_as_in_pandas(name, index):
    """`sets.loc` selects what `frame.loc` selects, for each label, for lists, masks and slices of labels."""
    predictor = pippin.calibrate(PROBS, LABELS, classes=NAMED)
    sets = predictor.predict(frame(index))
    rows = pd.Series(predictor.predict(NEW).labels(), index=index)
    labels = list(dict.fromkeys(rows.index))
    keys = [*labels, labels[1:3], rows.index[:2], np.arange(6) % 2 == 0]
    if rows.index.is_unique:
        keys += [slice(labels[1], labels[3]), slice(None, labels[2])]
    for key in keys:
        found, wanted = sets.loc[key], rows.loc[key]
        assert (found.labels() if isinstance(found, pippin.PredictionSets) else found) == (
            wanted.tolist() if isinstance(wanted, pd.Series) else wanted
        )


def test_labels_that_pandas_interprets():
    """Dates may be text, and one level of several selects all of its rows."""
    predictor = pippin.calibrate(PROBS, LABELS, classes=NAMED)
    plain = predictor.predict(NEW).labels()
    times = predictor.predict(frame(INDICES["times"]))
    assert times.loc["2024-05-02"] == times.loc[pd.Timestamp("2024-05-02")] == plain[1]
    assert predictor.predict(frame(INDICES["levels"])).loc["y"].labels() == plain[3:]
    shared = predictor.predict(frame(INDICES["repeated"])).loc["a"]
    assert shared.labels() == [plain[i] for i in (0, 2, 4)]
    assert shared.index.tolist() == ["a"] * 3


def test_sets_of_a_shuffled_split():
    """After `train_test_split`, whose index is shuffled, `sets[i]` goes by position and `sets.loc` by label."""
    from sklearn.model_selection import train_test_split

    rows = pd.DataFrame(PROBS, columns=NAMED)
    train, test, truth, _ = train_test_split(rows, np.array(NAMED)[LABELS], random_state=0)
    predictor = pippin.calibrate(train, truth)
    sets = predictor.predict(test)
    assert sets.index[0] != 0
    assert sets[0] == sets.loc[test.index[0]] == predictor.predict(test.to_numpy())[0]


@pytest.mark.parametrize("key", ["9.png", ["0.png", "9.png"], None, 0.5, ("0.png", 1), 0])
def test_an_unknown_label_raises(key):
    predictor = pippin.calibrate(PROBS, LABELS, classes=NAMED)
    with pytest.raises(pippin.InputError, match=r"Expected a label of the index \('0\.png', .*, got .*: pass a label"):
        predictor.predict(frame()).loc[key]
    with pytest.raises(pippin.InputError, match=r"Expected sets with an index, got sets without one for the label"):
        predictor.predict(NEW).loc[key]


@pytest.mark.parametrize("key", ["0.png", ["0.png"], None, 0.5, ("0.png", 1), (0, 1), True, [[0]]])
def test_a_label_is_not_a_position(key):
    """A key that is no position, such as a label, raises a TypeError that names `loc`."""
    predictor = pippin.calibrate(PROBS, LABELS, classes=NAMED)
    for rows in (frame(), NEW):
        with pytest.raises(TypeError, match=r"Expected the position of an object, or a slice, got .*sets\.loc"):
            predictor.predict(rows)[key]


def test_sets_of_a_scikit_learn_estimator_by_label():
    from sklearn.linear_model import LogisticRegression

    X = pd.DataFrame(PROBS, [f"r{i}" for i in range(300)])  # noqa: N806 - scikit-learn's name
    X.columns = list(NAMED)
    y = np.array(NAMED)[LABELS]
    for estimator in (
        ConformalClassifier(LogisticRegression(), random_state=0),
        CrossConformalClassifier(LogisticRegression(), random_state=0),
    ):
        sets = estimator.fit(X, y).predict_set(X.iloc[:5] + 1e-6)
        assert [sets.loc[f"r{i}"] for i in range(5)] == sets.labels()


# p-values


@quiet
@of_every_kind
def test_p_values_keep_index_and_names(kind):
    """pandas, polars and NumPy input give output of the same library with equal numbers."""
    make, beside, _ = KINDS[kind]
    predictor = make(classes=NAMED)
    if kind in ("rc3p", "combination"):
        return
    given = beside | seeded(predictor)
    plain = predictor.p_values(asked(kind, NEW), **given)
    assert type(plain) is np.ndarray
    found = predictor.p_values(asked(kind, frame()), **given)
    pd.testing.assert_frame_equal(found, pd.DataFrame(plain, PHOTOS, NAMED))
    theirs = predictor.p_values(asked(kind, polars.DataFrame(NEW, NAMED)), **given)
    assert isinstance(theirs, polars.DataFrame)
    assert theirs.columns == list(NAMED)
    assert np.array_equal(theirs.to_numpy(), plain)
    truth = LABELS[:6]
    chosen = plain[np.arange(6), truth]
    one = predictor.p_values(asked(kind, frame()), labels=truth, **given)
    pd.testing.assert_series_equal(one, pd.Series(chosen, PHOTOS))
    few = predictor.p_values(asked(kind, polars.DataFrame(NEW, NAMED)), labels=truth, **given)
    assert isinstance(few, polars.Series)
    assert few.to_list() == chosen.tolist()


def test_p_values_without_names():
    """Columns are named by class numbers."""
    predictor = pippin.calibrate(PROBS, LABELS)
    assert predictor.p_values(pd.DataFrame(NEW)).columns.tolist() == list(range(12))
    assert predictor.p_values(polars.DataFrame(NEW, [str(k) for k in range(12)])).columns == [str(k) for k in range(12)]


# One object


@quiet
@of_every_kind
@pytest.mark.parametrize("names", [None, NAMED, tuple(range(100, 112))], ids=["unnamed", "named", "numbered"])
def test_predict_one_equals_predict_for_every_rule(kind, names):
    """`predict_one(row)` returns the class indices of `predict`, with all kinds of class names."""
    make, beside, alone = KINDS[kind]
    if names is None or isinstance(names[0], str):
        predictor = make() if names is None else make(classes=names)
    else:
        from dataclasses import replace

        predictor = replace(make(), classes=names)
    for i in range(6):
        row = [NEW[i], NEW[i]] if kind == "cross" else NEW[i]
        first = {key: [value[0]] for key, value in beside.items()}
        among = predictor.predict(asked(kind, NEW[i : i + 1]), **first, **seeded(predictor))
        one = predictor.predict_one(row, **alone, **seeded(predictor))
        assert one.tolist() == among.members.tolist()
        assert [predictor.classes[k] for k in one] == among[0]


# Columns of text


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    ("odd", "words"), [(list("abcdef"), "text such as 'a'"), ([None, *"bcdef"], "text such as 'b'")]
)
def test_a_text_column_is_named_in_the_error(library, odd, words):
    columns = {**{name: NEW[:, k] for k, name in enumerate(NAMED)}, "species": odd}
    made = pd.DataFrame(columns) if library == "pandas" else polars.DataFrame(columns)
    predictor = pippin.calibrate(PROBS, LABELS, classes=NAMED)
    message = rf"^Column 'species' holds {words}, expected the probabilities of a class: drop it, or select .*\]\.$"
    for call in (predictor.predict, predictor.p_values, lambda rows: pippin.scores.score(rows, None, "pip")):
        with pytest.raises(pippin.InputError, match=message):
            call(made)
    assert len(predictor.predict(made[list(NAMED)])) == 6


def test_a_time_column_is_named_in_the_error():
    made = frame().assign(taken=pd.Timestamp("2024-05-01"))
    with pytest.raises(pippin.InputError, match=r"^Column 'taken' holds \w+ such as .*: drop it"):
        pippin.calibrate(PROBS, LABELS, classes=NAMED).predict(made)
