"""Deciders (calibrated decision policies): levels, groups, superclasses ("kinds"), files, prediction sets, warnings."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import pippin
from support.decisions import field, utility_of
from support.predictor_files import write

DATA, UTILITY = field()
FIT, TEST = slice(0, 2000), slice(2000, None)


def made(alpha=0.02, **options):
    return pippin.decisions.calibrate(
        DATA.probs[FIT], DATA.labels[FIT], UTILITY, alpha, classes=DATA.classes, **options
    )


def same(a, b):
    assert repr(a) == repr(b)
    np.testing.assert_array_equal(a.codes, b.codes)
    np.testing.assert_array_equal(a.certificates, b.certificates)


GROUPS = np.arange(len(DATA.labels)) % 3
WAYS = {
    "marginal": {},
    "class": {"per": "class", "alpha": 0.1},
    "kind": {"per": "kind"},
    "levels": {"per": "kind", "alpha": {"weed": 0.1, "crop": 0.01}},
    "mapping": {"per": {name: name[0] for name in DATA.classes}, "alpha": 0.1},
    "group": {"groups": GROUPS[FIT]},
    "class and group": {"per": "class and group", "groups": GROUPS[FIT], "alpha": 0.1},
    "unseen": {"groups": GROUPS[FIT], "unseen": "marginal"},
}


@pytest.mark.parametrize("way", WAYS)
def test_saved_deciders_load_to_the_same_bits(way, tmp_path):
    """Deciders are restored from JSON files and pickles to the last bit; without scores, another level raises."""
    decider = made(**WAYS[way])
    groups = GROUPS[TEST] if "groups" in WAYS[way] else None
    wanted = decider.decide(DATA.probs[TEST], groups=groups)
    decider.save(tmp_path / "d.json")
    again = pippin.load(tmp_path / "d.json")
    for other in (again, pickle.loads(pickle.dumps(decider))):  # noqa: S301 - our own
        assert other.describe() == decider.describe()
        np.testing.assert_array_equal(other.betas, decider.betas)
        same(other.decide(DATA.probs[TEST], groups=groups), wanted)
    same(again.at(0.2).decide(DATA.probs[TEST], groups=groups), decider.at(0.2).decide(DATA.probs[TEST], groups=groups))
    decider.save(tmp_path / "short.json", scores=False)
    short = pippin.load(tmp_path / "short.json")
    same(short.decide(DATA.probs[TEST], groups=groups), wanted)
    with pytest.raises(pippin.InputError, match="saved without its calibration scores"):
        short.at(0.2)
    assert isinstance(again, pippin.decisions.Decider)
    one = decider.decide_one(DATA.probs[2000], group=None if groups is None else int(groups[0]))
    assert one == wanted[0]


@pytest.mark.parametrize("way", ["marginal", "levels", "group"])
def test_sets_contain_the_true_class_exactly_if_the_certificate_holds(way):
    """A set contains the true class exactly if the certificate (guaranteed utility) of the action holds."""
    decider = made(**WAYS[way])
    groups = {"groups": GROUPS[TEST]} if way == "group" else {}
    found, sets = decider.decide(DATA.probs[TEST], **groups), decider.predict(DATA.probs[TEST], **groups)
    kept = UTILITY.of(DATA.classes)[found.codes, DATA.labels[TEST]] >= found.certificates
    np.testing.assert_array_equal(sets.contains(DATA.labels[TEST]), kept)
    again = pippin.decisions.decide(sets, UTILITY)
    assert (again.certificates >= found.certificates).all()
    rows = np.repeat(np.arange(len(sets)), sets.sizes)
    falls = np.diff(DATA.probs[TEST][rows, sets.members])
    assert (falls[rows[1:] == rows[:-1]] <= 0).all()


def test_inconsistent_files_raise_errors(tmp_path):
    """Files with inconsistent entries raise, even if their checksum is valid."""
    made().save(tmp_path / "d.json")
    whole = json.loads((tmp_path / "d.json").read_text())["predictor"]
    utility = whole["utility"]
    for key, value, message in (
        ("betas", [[0.5] * 12], "thresholds are not those of its calibration scores"),
        ("per", "cluster", "per makes no sense"),
        ("utility", {**utility, "actions": ["spray"]}, "utility makes no sense"),
        ("utility", {**utility, "values": [[1, 2], [3, 4], ["x", 1]]}, "utility makes no sense"),
        ("utility", {**utility, "kinds": utility["kinds"][1:]}, "Expected a kind for each of the 12 classes"),
        ("levels", [0.1], "levels makes no sense"),
        ("cell_counts", [1999], "makes no sense"),
    ):
        write(tmp_path / "bad.json", {**whole, key: value}, version=2)
        with pytest.raises(pippin.InputError, match=f"holds no sound predictor .*{message}"):
            pippin.load(tmp_path / "bad.json")


def test_too_few_rows_give_infinite_beta():
    """With too few rows, the action is the one with the best worst case, and its certificate always holds."""
    with pytest.warns(UserWarning, match="at least 49 are needed. Until then the action is always that of the best"):
        decider = pippin.decisions.calibrate(DATA.probs[:40], DATA.labels[:40], UTILITY, 0.02, classes=DATA.classes)
    found = decider.decide(DATA.probs)
    assert set(found.actions) == {"ask"}
    assert set(found.certificates) == {0.3}
    assert "always ask" in decider.describe()
    with pytest.warns(UserWarning, match=r"crop has \d+ and needs 199"):
        pippin.decisions.calibrate(
            DATA.probs[:300], DATA.labels[:300], UTILITY, {"weed": 0.1, "crop": 0.005}, per="kind", classes=DATA.classes
        )


def test_a_utility_without_mass_selects_an_action_that_has_it():
    """With β = 0, the action with the largest utility is selected, even if that utility has probability 0."""
    utility = pippin.decisions.Utility([[0, -1], [-1, 3]], actions=("wait", "spray"))
    decider = pippin.decisions.calibrate(np.full((30, 2), 0.5), np.ones(30, int), utility, 0.1)
    assert decider.betas.tolist() == [[0.0, 0.0]]
    decisions = decider.decide([[1.0, 0.0], [0.5, 0.5]])
    assert decisions.actions.tolist() == ["spray", "spray"]  # and not "wait", the first of two with m_1 = 0
    assert decisions.certificates.tolist() == [3.0, 3.0]
    assert tuple(decider.decide_one([1.0, 0.0])) == ("spray", 3.0)


def test_levels_and_errors_of_arguments():
    decider = made()
    assert decider.at(0.1).beta < decider.beta
    assert decider.at(0.02).beta == decider.beta
    for options, message in (
        ({"per": "cluster"}, r"Expected per to be one of \('class', 'kind'"),
        ({"per": "group"}, "got none: pass groups="),
        ({"alpha": {"weed": 0.1}}, "one per kind without kinds"),
        ({"alpha": {"weed": 0.1}, "per": "kind"}, "an alpha for every kind, got none for 'crop'"),
        ({"alpha": {"weed": 0.1, "crop": 0.1, "soil": 0.1}, "per": "kind"}, "kinds weed, crop, got one for 'soil'"),
        ({"alpha": 0}, "strictly between 0 and 1"),
        ({"per": {"maize": "crop"}}, "a kind for each of the 12 classes"),
    ):
        with pytest.raises(pippin.InputError, match=message):
            made(**options)
    with pytest.raises(pippin.InputError, match="Expected a Utility, got ndarray"):
        pippin.decisions.calibrate(DATA.probs, DATA.labels, np.zeros((2, 12)))
    with pytest.raises(pippin.InputError, match="a utility with kinds of classes, got one without"):
        pippin.decisions.calibrate([[0.5, 0.5]] * 20, [0, 1] * 10, utility_of(np.eye(2)), per="kind")
    with pytest.raises(pippin.InputError, match="Expected one row of 12 probabilities"):
        decider.decide_one(np.full(3, 1 / 3))
    with pytest.raises(pippin.InputError, match="one β for all"):
        _ = made(per="class", alpha=0.1).beta


def test_pandas_index_and_figures_of_the_example():
    frame = pd.DataFrame(DATA.probs[TEST], columns=DATA.classes).set_index(np.arange(len(DATA.probs[TEST])) + 7)
    found = made().decide(frame)
    assert found.to_frame().index.equals(frame.index)
    measures = pippin.decisions.evaluate(found, DATA.labels[TEST], UTILITY, alpha=0.02, n_calibration=2000)
    assert measures.kept == pytest.approx(0.981, abs=0.003)
    assert measures.shares["ask"] < 0.1
    assert measures.mean_utility > 0.89
    assert "as promised" in measures.verdict
    best = pippin.decisions.evaluate(
        pippin.decisions.best_response(DATA.probs[TEST], UTILITY, classes=DATA.classes), DATA.labels[TEST], UTILITY
    )
    assert best.uncertified == 1
    assert np.isnan(best.mean_certificate)


def test_compare_equals_single_calls_on_the_same_split():
    """A comparison gives the numbers that calibrate, predict, decide and evaluate give on split 0."""
    from pippin._compare.splits import draw_split
    from support.trials import trial_of

    comparison = pippin.decisions.compare(
        DATA.probs, DATA.labels, UTILITY, ["ip", "aps"], 0.02, splits=2, classes=DATA.classes
    )
    split = draw_split(trial_of(DATA.probs, DATA.labels, 0.02), 0)
    inner, test = split.calibration, ~split.calibration
    wanted = {}
    decider = pippin.decisions.calibrate(DATA.probs[inner], DATA.labels[inner], UTILITY, 0.02, classes=DATA.classes)
    wanted["calibrated decisions"] = decider.decide(DATA.probs[test])
    for score in ("ip", "aps"):
        generator = split.generator()
        predictor = pippin.calibrate(
            DATA.probs[inner], DATA.labels[inner], score, 0.02, classes=DATA.classes, seed=generator
        )
        sets = predictor.predict(DATA.probs[test], seed=generator)
        wanted[f"worst case over {score}"] = pippin.decisions.decide(sets, UTILITY, fallback="ask")
    for name, found in wanted.items():
        measures = pippin.decisions.evaluate(found, DATA.labels[test], UTILITY)
        own = comparison.values[comparison.names.index(name), 0]
        assert own[:3] == pytest.approx([measures.kept, measures.mean_certificate, measures.mean_utility])
        assert own[3:6] == pytest.approx(list(measures.shares.values()))
    assert comparison.summary()["decisions"].to_list() == [*wanted, "bounded cost", "best response"]
    with pytest.raises(pippin.InputError, match="one threshold for all rows, got pip per class"):
        pippin.decisions.compare(DATA.probs, DATA.labels, UTILITY, "pip per class", classes=DATA.classes)
