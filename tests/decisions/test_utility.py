"""Utilities from all sources, their errors and warnings, and decisions from prediction sets."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pippin
from support.decisions import WORTH, field

TABLE = [[1.0, -2.0], [-1.0, 1.0], [0.3, 0.3]]
ACTIONS = ("spray", "leave", "ask")


@pytest.fixture
def files(tmp_path):
    """Write a utility by superclasses ("kinds") to .csv and .toml files."""
    (tmp_path / "u.csv").write_text("action,weed,crop\nspray,1,-2\nleave,-1,1\nask,0.3,0.3\n")
    lines = [f"[{action}]\nweed = {own['weed']}\ncrop = {own['crop']}" for action, own in WORTH.items()]
    (tmp_path / "u.toml").write_text("\n".join([*lines, "[kinds]", 'rye = "weed"', 'maize = "crop"', 'beet = "crop"']))
    return tmp_path


def test_all_sources_give_equal_utilities(files):
    """Arrays, dicts, pandas and polars frames, and files give equal utilities."""
    frame = pd.DataFrame(TABLE, index=list(ACTIONS), columns=["weed", "crop"])
    sources = [
        pippin.decisions.Utility(TABLE, actions=ACTIONS, classes=["weed", "crop"]),
        pippin.decisions.Utility(np.array(TABLE), actions=ACTIONS, classes=("weed", "crop")),
        pippin.decisions.Utility(WORTH),
        pippin.decisions.Utility(frame),
        pippin.decisions.Utility(frame.reset_index(names="action")),
        pippin.decisions.Utility(pl.DataFrame({"action": ACTIONS, "weed": [1.0, -1.0, 0.3], "crop": [-2.0, 1.0, 0.3]})),
        pippin.decisions.Utility(files / "u.csv"),
        pippin.decisions.Utility.read(str(files / "u.csv")),
    ]
    for utility in sources:
        assert utility.actions == ACTIONS
        np.testing.assert_array_equal(utility.of(["crop", "weed"]), np.array(TABLE)[:, ::-1])
    kinds = pippin.decisions.Utility(files / "u.toml")
    np.testing.assert_array_equal(kinds.of(["maize", "rye", "beet"]), np.array(TABLE)[:, [1, 0, 1]])
    assert kinds.kind_of(["maize", "rye", "beet"]) == ("crop", "weed", "crop")


def test_whole_numbers_name_classes_and_columns():
    by_number = pippin.decisions.Utility({"a": {7: 1, 9: 0}, "b": {7: 0, 9: 1}})
    np.testing.assert_array_equal(by_number.of([9, 7]), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(pippin.decisions.Utility(TABLE, actions=ACTIONS).of(["weed", "crop"]), TABLE)


BAD = {
    "a NaN": (lambda: pippin.decisions.Utility([[1, np.nan], [0, 1]], actions="ab"), None),
    "nan": (
        lambda: pippin.decisions.Utility([[1, np.nan], [0, 1]], actions=["a", "b"]),
        r"'a' for 1 is nan, expected a finite",
    ),
    "infinite": (
        lambda: pippin.decisions.Utility({"a": {"x": 1}, "b": {"x": -np.inf}}),
        "is -inf, expected a finite number",
    ),
    "one action": (
        lambda: pippin.decisions.Utility([[1, 0]], actions=["a"]),
        "at least two actions to choose from, got 1",
    ),
    "no action": (lambda: pippin.decisions.Utility({}), "at least two actions to choose from, got 0"),
    "shape": (lambda: pippin.decisions.Utility([1, 2], actions=["a", "b"]), "utilities"),
    "cube": (
        lambda: pippin.decisions.Utility(np.zeros((2, 2, 2)), actions=["a", "b"]),
        r"shape \(actions, classes\), got",
    ),
    "names": (lambda: pippin.decisions.Utility(TABLE, actions=["a"]), "Expected 3 actions, one per row"),
    "no names": (
        lambda: pippin.decisions.Utility(TABLE),
        "names for the 3 actions of an array, got none: pass actions=",
    ),
    "columns": (
        lambda: pippin.decisions.Utility(TABLE, actions=ACTIONS, classes=["x"]),
        "Expected 2 classes, one per column",
    ),
    "twice": (
        lambda: pippin.decisions.Utility(TABLE, actions=ACTIONS, classes=["x", "x"]),
        "The class 'x' occurs twice",
    ),
    "action twice": (lambda: pippin.decisions.Utility(TABLE, actions=["a", "a", "b"]), "The action 'a' occurs twice"),
    "hole": (lambda: pippin.decisions.Utility({"a": {"x": 1, "y": 0}, "b": {"x": 0}}), "'b' has no utility for 'y'"),
    "text": (
        lambda: pippin.decisions.Utility({"a": {"x": "much"}, "b": {"x": 0}}),
        "Expected utilities that are numbers",
    ),
    "no dict": (
        lambda: pippin.decisions.Utility({"a": 1, "b": 2}),
        r"Expected {class: utility} for the action 'a', got 1",
    ),
    "kind": (
        lambda: pippin.decisions.Utility(WORTH, kinds={"rye": "grass"}),
        "'rye' is of the kind 'grass', which has no utility",
    ),
    "no kind": (lambda: pippin.decisions.Utility(WORTH, kinds={"rye": "weed"}), "of a kind 'crop', which no class has"),
    "file": (lambda: pippin.decisions.Utility("u.xlsx"), r"in a \.csv or \.toml file, got u\.xlsx"),
    "missing": (
        lambda: pippin.decisions.Utility(WORTH).of(["weed", "crop", "soil"]),
        "a utility for each of the 3 classes .*, got none for 'soil'",
    ),
    "unknown": (
        lambda: pippin.decisions.Utility(WORTH).of(["weed"]),
        "Got a utility for 'crop', which is none of the 1 classes",
    ),
    "number": (
        lambda: pippin.decisions.Utility(TABLE, actions=ACTIONS).of(range(5)),
        "Expected utilities of 5 classes .*, got 2",
    ),
    "both": (
        lambda: pippin.decisions.Utility(WORTH, actions=ACTIONS),
        "Expected actions= and classes= only with an array",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_of_arguments(name):
    made, message = BAD[name]
    with pytest.raises(pippin.InputError, match=message) as caught:
        made()
    assert str(caught.value).count(". ") == 0
    assert str(caught.value).endswith(".")


def test_errors_name_the_file(tmp_path):
    for name, text, message in (
        ("a.csv", "action,x,y\nspray,1\n", "the action 'spray' has 1 utilities, expected 2"),
        ("b.csv", "action,x\nspray,1\nleave,much\n", "Expected utilities that are numbers"),
        ("c.toml", "[spray\n", "is no TOML"),
        ("d.toml", "[spray]\nx = 1\n[leave]\ny = 1\n", "has no utility for"),
        ("e.csv", "", "expected a line of classes and one line per action"),
        ("f.csv", "action,x,y\nspray,1,\nleave,0,1\n", "for 'y' is nan, expected a finite number"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(pippin.InputError, match=message):
            pippin.decisions.Utility(tmp_path / name)


def test_warnings_of_redundant_actions_and_classes():
    """Dominated actions, the second of two equal actions, and classes without influence."""
    with pytest.warns(UserWarning, match="'leave' is redundant: .* higher than that of 'spray'"):
        pippin.decisions.Utility([[1, 0], [0, 0], [-1, 2]], actions=ACTIONS)
    with pytest.warns(UserWarning, match="'leave' is redundant: .* higher than that of 'spray'") as caught:
        pippin.decisions.Utility([[1, 0], [1, 0], [-1, 2]], actions=ACTIONS)
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="All actions have equal utility for 'soil'"):
        pippin.decisions.Utility([[1, -1, 0], [-1, 1, 0]], actions=["a", "b"], classes=["weed", "crop", "soil"])
    with pytest.warns(UserWarning, match="All actions have equal utility for every class"):
        pippin.decisions.Utility([[1, 0], [1, 0]], actions=["a", "b"])
    assert pippin.decisions.Utility(WORTH).notes == ()


def test_decide_maximizes_the_worst_case():
    """All sets of three classes, compared with results by hand; empty sets need a fallback and cause a warning."""
    data, utility = field()
    members = [["maize"], ["charlock"], ["maize", "charlock"], ["maize", "sugar_beet"], []]
    codes = [[data.classes.index(name) for name in names] for names in members]
    sets = pippin.PredictionSets(np.array(list(map(len, codes))), np.concatenate([*codes]).astype(int), data.classes)
    with pytest.raises(pippin.InputError, match="1 of 5 sets are empty, so they have no worst case: pass fallback="):
        pippin.decisions.decide(sets, utility)
    with pytest.warns(UserWarning, match="1 of 5 sets are empty: their action is 'leave', without a certificate"):
        found = pippin.decisions.decide(sets, utility, fallback="leave")
    assert found.actions.tolist() == ["leave", "spray", "ask", "leave", "leave"]
    assert found.certificates.tolist() == [1, 1, 0.3, 1, -np.inf]
    assert found.n_fallbacks == 1
    assert found.counts() == {"spray": 1, "leave": 3, "ask": 1}
    assert found.to_frame().columns == ["action", "certificate"]
    with pytest.raises(pippin.InputError, match=r"one of \('spray', 'leave', 'ask'\), got 'wait'"):
        pippin.decisions.decide(sets, utility, fallback="wait")


def test_certificates_hold_if_sets_contain_the_true_class():
    """Certificates hold if sets contain the true class, for several predictors; a pandas index is kept."""
    data, utility = field()
    frame = pd.DataFrame(data.probs, columns=data.classes, index=[f"{i}.png" for i in range(len(data.probs))])
    predictor = pippin.calibrate(frame[:2000], data.labels[:2000], "pip", 0.1)
    sets = predictor.predict(frame[2000:], nonempty=True)
    found = pippin.decisions.decide(sets, utility)
    worth = utility.of(data.classes)[found.codes, data.labels[2000:]]
    assert (worth >= found.certificates)[sets.contains(data.labels[2000:])].all()
    assert found.to_frame().index.equals(frame.index[2000:])
    slow = [
        max(min(WORTH[a]["crop" if y in ("maize", "common_wheat", "sugar_beet") else "weed"] for y in s) for a in WORTH)
        for s in sets
    ]
    np.testing.assert_array_equal(found.certificates, slow)


def test_loading_in_threads_keeps_the_warning_filters(tmp_path):
    """A decider is loaded without warnings, and without a change of the filters, which all threads share."""
    probs, labels = np.random.default_rng(0).dirichlet(np.ones(2), 30), np.arange(30) % 2
    with pytest.warns(UserWarning, match="redundant"):
        utility = pippin.decisions.Utility([[1, 0], [0, 1], [0, 0]], actions=ACTIONS)
    pippin.decisions.calibrate(probs, labels, utility, 0.2).save(tmp_path / "d.json")
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        inside = list(warnings.filters)
        with ThreadPoolExecutor(8) as pool:
            loaded = list(pool.map(lambda _: pippin.load(tmp_path / "d.json"), range(800)))
        assert warnings.filters == inside
    assert warnings.filters == before
    assert not told
    assert loaded[0].utility.notes == utility.notes


def test_a_utility_of_very_many_classes():
    """Time is linear in the number of classes: with a quadratic number of comparisons this would take hours."""
    gains = np.arange(200_000.0)
    with pytest.warns(UserWarning, match="redundant|equal utility"):
        utility = pippin.decisions.Utility([gains, -gains], actions=["a", "b"])
    assert utility.of(range(200_000))[1, -1] == -199_999


def test_masked_and_huge_utilities_are_refused():
    """A masked number is missing, and an integer beyond the floats is no utility."""
    masked = np.ma.masked_array([[999.0, 2], [3, 4]], mask=[[1, 0], [0, 0]])
    with pytest.raises(pippin.InputError, match="Expected utilities without a mask"):
        pippin.decisions.Utility(masked, actions=["a", "b"])
    with pytest.warns(UserWarning, match="redundant"):
        unmasked = pippin.decisions.Utility(np.ma.masked_array([[1.0, 2], [3, 4]]), actions=["a", "b"])
    assert unmasked.values[1, 1] == 4
    for huge in ([[10**400, 1], [0, 0]], {"a": {"x": 10**400, "y": 1}, "b": {"x": 0, "y": 0}}):
        options = {} if isinstance(huge, dict) else {"actions": ["a", "b"]}
        with pytest.raises(pippin.InputError, match="Expected utilities that are numbers"):
            pippin.decisions.Utility(huge, **options)
