"""Registered scores work everywhere, on the command line too, and pass the checks of pippin.testing."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import pippin
import pippin.testing
from pippin._conformal.mondrian import single_category
from pippin._conformal.rules import marginal_rule
from pippin._engine import numpy_engine as plain
from pippin._engine.numba_engine import engine as compiled
from pippin._theory.formula import FAMILIES, OURS
from pippin.export.c_header import c_header
from pippin.export.onnx import head_model
from pippin.sklearn import ConformalClassifier
from pippin.torch import ConformalHead
from support.blobs import X, Y

DATA = pippin.load_example()
MODULE = """
import pippin
from pippin.scores import Family

pippin.scores.register(
    "steep", Family({"power": 2.0}, lambda ranks, power: {"constant": 1, "own": -1, "above": ranks**-power})
)
"""


@pytest.fixture(autouse=True)
def steep():
    """Register a score family for one test."""
    exec(MODULE, {})
    yield
    for name in set(FAMILIES) - OURS:
        FAMILIES.pop(name)


def test_registered_scores_follow_their_coefficients():
    """Registered scores follow their coefficients: with power 1, the score is PIP to the last bit."""
    ours, theirs = (pippin.scores.score(DATA.probs, None, score) for score in ("steep(power=1)", "pip"))
    assert np.array_equal(ours, theirs)
    assert str(pippin.scores.parse("steep( power = 3 )")) == "steep(power=3)"
    assert str(pippin.scores.parse("steep(power=2)")) == "steep"


def test_registered_scores_work_everywhere(tmp_path):
    probs, labels = DATA.probs[:2000], DATA.labels[:2000]
    ones, folds = np.ones(2000), np.arange(2000) % 3
    for per in (None, "class", "cluster", "rc3p", "interpolated"):
        predictor = pippin.calibrate(probs, labels, "steep(power=3)", 0.3, per=per, seed=0)
        predictor.save(tmp_path / "p.json")
        again = pippin.load(tmp_path / "p.json")
        assert np.array_equal(again.predict(probs).members, predictor.predict(probs).members)
    assert pippin.calibrate(probs, labels, "steep", weights=ones).predict(probs, weights=ones).sizes.mean() > 1
    assert pippin.calibrate(probs, labels, "steep", folds=folds).predict([probs] * 3).sizes.mean() > 1
    compared = pippin.compare(probs, labels, ["steep", "steep per class", "pip"], splits=5)
    assert [str(score) for score in compared.scores] == ["steep", "steep per class", "pip"]
    assert pippin.sweep(probs, labels, "steep", values=(1, 2), splits=3).parameter == "power"
    assert str(pippin.tune(probs, labels, ["steep"], splits=3).score) == "steep"
    assert len(ConformalClassifier(GaussianNB(), "steep", random_state=0).fit(X, Y).predict_set(X)) == len(X)
    one = pippin.calibrate(probs, labels, "steep")
    assert ConformalHead(one, from_probs=True) is not None
    assert head_model(one).graph.output[0].name == "sizes"
    assert "pippin_predict" in c_header(one)


def test_import_option_of_the_command_line(call, tmp_path, monkeypatch):
    """A module in the current folder, with `--import` before or after the command; otherwise one error sentence."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_scores.py").write_text(MODULE)
    FAMILIES.pop("steep")
    np.savez("data.npz", probs=DATA.probs[:300], labels=DATA.labels[:300])
    code, _, err = call("calibrate data.npz --score steep --out p.json")
    assert (code, err.count("\n")) == (2, 1)
    assert "Unknown score 'steep'" in err
    for line in (
        "--import my_scores calibrate data.npz --score steep",
        "calibrate data.npz --score steep --import=my_scores",
    ):
        sys.modules.pop("my_scores", None)
        code, out, err = call(f"{line} --out p.json")
        assert (code, err) == (0, "")
        assert "steep with threshold" in out
        FAMILIES.pop("steep")
    code, _, err = call("predict p.json data.npz --out sets.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "p.json holds a predictor that needs a score not known here (Unknown score 'steep'" in err
    assert "import the module that registers it, --import on the command line" in err
    sys.modules.pop("my_scores")
    assert call("predict p.json data.npz --out sets.csv --import my_scores")[0] == 0
    code, _, err = call("toy --import no_such_module")
    assert (code, err.count("\n")) == (2, 1)
    assert "Cannot import no_such_module" in err


def test_files_with_unregistered_scores_raise_errors(tmp_path):
    """A file with a custom score raises in a process that has not registered the score."""
    pippin.calibrate(DATA.probs, DATA.labels, "steep").save(tmp_path / "p.json")
    code = "import pippin, sys\ntry: pippin.load(sys.argv[1])\nexcept ValueError as error: print(error)"
    printed = subprocess.check_output([sys.executable, "-c", code, tmp_path / "p.json"], text=True)
    assert "Unknown score 'steep'" in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "family", "words"),
    [
        ("pip", pippin.scores.Family({}, lambda r: {"own": -1}), "Expected a new name"),
        ("my score", pippin.scores.Family({}, lambda r: {"own": -1}), "Expected a new name"),
        (3, pippin.scores.Family({}, lambda r: {"own": -1}), "Expected a new name"),
        ("mine", lambda r: {"own": -1}, "pass pippin.scores.Family"),
        ("mine", pippin.scores.Family({"a": "text"}, lambda r, a: {"own": -1}), "pass pippin.scores.Family"),
        ("mine", pippin.scores.Family({}, lambda r: {"won": -1}), "coefficients by the names own"),
        ("mine", pippin.scores.Family({}, lambda r: [1, 2]), "coefficients by the names own"),
        (
            "mine",
            pippin.scores.Family({}, lambda r: {"own": np.nan}),
            "needs own to be one finite number or one per rank",
        ),
        (
            "mine",
            pippin.scores.Family({}, lambda r: {"own": r[1:]}),
            "needs own to be one finite number or one per rank",
        ),
        ("mine", pippin.scores.Family({}, lambda r: {"constant": r}), "needs constant to be one finite number, got"),
        ("mine", pippin.scores.Family({}, lambda r: {"own": 1.0}), "can be smaller at rank 2 than at the rank before"),
        ("mine", pippin.scores.Family({}, lambda r: {"penalty": -r}), "can be smaller at rank 2"),
        ("mine", pippin.scores.Family({}, lambda r: {"own": -1.0, "second": 2.0}), "can be smaller at rank 2"),
    ],
)
def test_invalid_families_raise_errors(name, family, words):
    """Invalid families raise one sentence, and are not registered."""
    before = dict(FAMILIES)
    with pytest.raises(pippin.InputError, match=words):
        pippin.scores.register(name, family)
    assert before == FAMILIES


def test_a_name_can_be_registered_again():
    """A name can be registered again, as when a notebook cell runs twice; the new definition is used."""
    first = pippin.scores.score([[0.5, 0.3, 0.2]], [2], "steep")
    pippin.scores.register("steep", pippin.scores.Family({"power": 1.0}, lambda r, power: {"own": -1, "above": power}))
    assert pippin.scores.score([[0.5, 0.3, 0.2]], [2], "steep") != first
    with pytest.raises(pippin.InputError, match="can be smaller"):
        pippin.scores.register("steep", pippin.scores.Family({}, lambda r: {"own": 1}))
    assert pippin.scores.score([[0.5, 0.3, 0.2]], [2], "steep") != first


def test_randomized_scores_are_recognized_by_coefficients():
    """u is drawn if a coefficient of u is not zero."""
    pippin.scores.register("drawn", pippin.scores.Family({}, lambda r: {"own_u": 1.0, "above": 1.0}))
    assert pippin.scores.parse("drawn").randomized
    ours, theirs = (pippin.scores.score(DATA.probs, DATA.labels, score, seed=3) for score in ("drawn", "aps"))
    assert np.array_equal(ours, theirs)


def test_scores_that_decrease_in_u_are_compared_exactly():
    """Scores that decrease in u are compared exactly, on few rows, where the sign of u's coefficient matters."""
    family = pippin.scores.Family({}, lambda r: {"own": 1.0, "own_u": -1.0, "above": 1.0})
    pippin.scores.register("falling", family)
    probs, labels, n_calibration, sizes, coverage = DATA.probs[:300], DATA.labels[:300], 135, [], []
    for index in range(20):
        generator = np.random.default_rng([0, index])
        inner = np.sort(generator.choice(300, n_calibration, replace=False, shuffle=False))
        outer = np.setdiff1d(np.arange(300), inner)
        predictor = pippin.calibrate(probs[inner], labels[inner], "falling", seed=generator)
        sets = predictor.predict(probs[outer], seed=generator)
        sizes.append(pippin.metrics.mean_size(sets))
        coverage.append(pippin.metrics.coverage(sets, labels[outer]))
    compared = pippin.compare(probs, labels, "falling", splits=20)
    assert np.array_equal(compared.metric("mean_size")[0], sizes)
    assert np.array_equal(compared.metric("coverage")[0], coverage)


@pytest.mark.parametrize("score", ["steep", "steep(power=0.3)", "aps", "topk", "socop(mu=2)"])
def test_valid_scores_pass_all_checks(score):
    pippin.testing.check_score(score)


class Broken:
    """Engine with one function replaced."""

    def __init__(self, engine, **changed):
        self.__dict__.update(
            {name: getattr(engine, name) for name in dir(engine) if not name.startswith("__")} | changed
        )


def test_check_score_names_the_failed_law(monkeypatch):
    """`check_score` names the law that a broken engine violates."""

    def generous(block, c, bounds, u, sizes):
        return plain.members(block, c, bounds._replace(scores=bounds.scores + 1e-9), u, sizes)

    def off(block, labels, c, u, scores):
        suspects = compiled.label_scores(block, labels, c, u, scores)
        scores += 1e-12
        return suspects

    def falling(probs, labels, score, **options):
        found = pippin.scores.score(probs, labels, score, **options)
        return -found if labels is None else found

    testing = pippin.testing
    rule = marginal_rule(single_category(None, 9, 2), -9.0)
    empty = pippin.ConformalPredictor(pippin.scores.ip(), 0.3, 9, range(2), rule)
    cases = {
        "in the set if and only if its score": ("numba_engine", Broken(compiled, members=generous)),
        "both engines give the same bits": ("numba_engine", Broken(compiled, label_scores=off)),
        "do not decrease with the rank": ("score", falling),
        "scores equal the formula": (
            "numpy_engine",
            Broken(plain, class_scores=lambda block, c, u: plain.class_scores(block, c, u) + 1e-9),
        ),
        "coverage follows its exact distribution": (
            "calibrate",
            lambda *rows, seed: pippin.calibrate(*rows[:-1], 0.4, seed=seed),
        ),
        "does not depend on how it is predicted": (
            "load",
            lambda path: empty,
        ),
    }
    for law, (name, broken) in cases.items():
        with monkeypatch.context() as patch:
            patch.setattr(testing, name, broken)
            with pytest.raises(testing.LawError, match=law):
                testing.check_score("repip")


def test_testing_module_needs_no_test_library():
    """`pippin.testing` imports neither hypothesis nor pytest."""
    code = "import sys; sys.modules['hypothesis'] = sys.modules['pytest'] = None; import pippin.testing"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)


def test_files_contain_all_parameters(tmp_path):
    """Files contain all parameters of a score, so that a later change of defaults has no effect."""
    pippin.calibrate(DATA.probs, DATA.labels, "steep").save(tmp_path / "p.json")
    content = json.loads((tmp_path / "p.json").read_text())["predictor"]
    assert content["score"] == {"name": "steep", "parameters": {"power": 2.0}}
