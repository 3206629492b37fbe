"""Utilities on the command line: calibrate, decide, evaluate, compare and export."""

import json

import numpy as np
import polars
import pytest

import pippin
from support.decisions import WORTH, field

DATA, UTILITY = field()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Write calibration and test rows, and the utility in both file formats."""
    monkeypatch.chdir(tmp_path)
    for name, part in (("cal", slice(0, 1500)), ("test", slice(1500, 2500))):
        groups = np.arange(len(DATA.labels[part])) % 2
        np.savez(f"{name}.npz", probs=DATA.probs[part], labels=DATA.labels[part], classes=DATA.classes, groups=groups)
    tables = "\n".join(f"[{a}]\n" + "\n".join(f"{k} = {v}" for k, v in own.items()) for a, own in WORTH.items())
    kinds = "\n".join(f'{name} = "{kind}"' for name, kind in UTILITY.kinds.items())
    (tmp_path / "u.toml").write_text(f"{tables}\n[kinds]\n{kinds}\n")
    rows = [",".join([a, *map(str, own)]) for a, own in zip(UTILITY.actions, UTILITY.of(DATA.classes), strict=True)]
    (tmp_path / "u.csv").write_text("\n".join([",".join(["action", *DATA.classes]), *rows]))
    return tmp_path


@pytest.mark.parametrize("name", ["u.csv", "u.toml"])
def test_from_data_to_actions(here, call, name):
    """The commands write their files and messages, and the actions equal those of Python."""
    code, out, _ = call(f"calibrate cal.npz --utility {name} --alpha 0.02 --out d.json")
    assert code == 0
    assert "each action is worth at least its certificate 98% of the time" in out
    assert call("decide d.json test.npz --out a.csv")[0] == 0
    decider = pippin.decisions.calibrate(DATA.probs[:1500], DATA.labels[:1500], UTILITY, 0.02, classes=DATA.classes)
    wanted = decider.decide(DATA.probs[1500:2500])
    found = polars.read_csv("a.csv")
    assert found.columns == ["row", "action", "certificate"]
    assert found["action"].to_list() == wanted.actions.tolist()
    assert found["certificate"].to_list() == wanted.certificates.tolist()
    call("decide d.json test.npz --out a.jsonl")
    assert json.loads((here / "a.jsonl").read_text().splitlines()[0])["action"] == wanted.actions[0]
    code, out, err = call("decide d.json test.npz --out -")
    assert out.splitlines()[1].startswith("0,")
    assert "Decisions between" in err
    code, out, _ = call("evaluate d.json test.npz")
    reported = pippin.decisions.evaluate(wanted, DATA.labels[1500:2500], UTILITY)
    assert f"certificate kept   {reported.kept:.4f}" in out
    assert "The best response, which maximizes expected utility without a guarantee, had a mean utility of" in out
    assert "as promised" in out


@pytest.mark.parametrize("per", ["class", "kind", "group", "class and group"])
def test_guarantees_beyond_all_objects(here, call, per):
    assert call(f"calibrate cal.npz --utility u.toml --alpha 0.1 --per '{per}' --out d.json")[0] == 0
    code, out, _ = call("evaluate d.json test.npz")
    assert code == 0
    assert f"for every {per}" in out


@pytest.mark.parametrize(
    "options",
    ["--sharpen split", "--units", "--sharpen split --units", "--sharpen split --per kind", "--sharpen cross"],
)
def test_sharpened_decisions_and_clustered_rows(here, call, options):
    """The command gives the actions of Python."""
    known = slice(0, 1500)
    units = np.arange(1500) // 10
    np.savez("photos.npz", probs=DATA.probs[known], labels=DATA.labels[known], classes=DATA.classes, groups=units)
    assert call(f"calibrate photos.npz --utility u.toml --alpha 0.1 {options} --seed 3 --out d.json")[0] == 0
    wanted = pippin.decisions.calibrate(
        DATA.probs[known],
        DATA.labels[known],
        UTILITY,
        0.1,
        classes=DATA.classes,
        per="kind" if "--per" in options else None,
        units=units if "--units" in options else None,
        sharpen=options.split()[1] if "--sharpen" in options else None,
        seed=3,
    )
    code, out, _ = call("decide d.json test.npz --out a.csv")
    assert code == 0
    assert wanted.describe() in out
    assert polars.read_csv("a.csv")["action"].to_list() == wanted.decide(DATA.probs[1500:2500]).actions.tolist()
    assert call("evaluate d.json test.npz")[0] == 0


def test_any_predictor_with_a_utility(here, call):
    """With a predictor instead of a decider, actions maximize the worst-case utility over prediction sets."""
    call("calibrate cal.npz --score ip --alpha 0.02 --out p.json")
    assert call("decide p.json test.npz --utility u.toml --fallback ask --out a.csv")[0] == 0
    assert "worth at least their certificate" in call("evaluate p.json test.npz --utility u.csv --fallback ask")[1]
    code, _, err = call("decide p.json test.npz --out a.csv")
    assert code == 2
    assert "got a predictor of sets: calibrate one with --utility, or pass --utility" in err


def test_export(here, call):
    call("calibrate cal.npz --utility u.toml --alpha 0.02 --out d.json")
    code, out, _ = call("export d.json --onnx d.onnx --c d.h")
    assert code == 0
    assert "A decider with 12 classes is in d.onnx." in out
    assert "int pippin_decide(const double *probs, double *certificate)" in (here / "d.h").read_text()


def test_deciders_per_action_come_from_the_command_line(here, call):
    """Deciders per action are calibrated on the command line, and the evaluation prints the share of each action."""
    code, out, _ = call("calibrate cal.npz --utility u.toml --per action --seed 3 --out a.json")
    assert code == 0
    assert "among all objects with the same action" in out
    assert pippin.load(here / "a.json").per == "action"
    code, out, _ = call("evaluate a.json test.npz")
    assert code == 0
    assert "action   share  errors    kept" in out


def test_policies_with_a_bound_on_the_cost_come_from_the_command_line(here, call):
    """Actions are those in Python; the evaluation has no certificates."""
    code, out, _ = call("calibrate cal.npz --utility u.toml --max-cost 0.5 --out c.json")
    assert code == 0
    assert "with 95% confidence, their expected cost is at most -0." in out
    policy = pippin.load(here / "c.json")
    assert policy.bound == 0.5
    code, out, _ = call("decide c.json test.npz --out actions.csv")
    assert code == 0
    wanted = policy.decide(np.load(here / "test.npz")["probs"]).actions.tolist()
    assert polars.read_csv(here / "actions.csv")["action"].to_list() == wanted
    code, out, _ = call("evaluate c.json test.npz")
    assert code == 0
    assert "mean utility" in out
    assert "no certificate     1.0000" in out


def test_compare_writes_the_table_the_picture_and_the_page(here, call):
    code, out, _ = call("compare test.npz --scores ip,pip --splits 5 --alpha 0.1 --utility u.toml --out out")
    assert code == 0
    assert "Decisions with certificates that hold 90% of the time" in out
    table = polars.read_csv("out/decisions.csv")
    assert table["decisions"].to_list() == [
        "calibrated decisions",
        "worst case over ip",
        "worst case over pip",
        "bounded cost",
        "best response",
    ]
    assert "Decisions: Take calibrated decisions (mean utility 0.9" in " ".join(out.split())
    assert (here / "out" / "decisions.png").stat().st_size > 10_000
    page = (here / "out" / "report.html").read_text()
    assert 'id="decisions"' in page
    assert "worst case over pip" in page
    assert "Take calibrated decisions (mean utility 0.9" in " ".join(page.split())
    assert f"{table['utility'][0]:.3f}" in page


def test_wrong_use_is_one_sentence(here, call):
    (here / "bad.csv").write_text("action,weed,crop\nspray,1,-2\nleave,-1,1\n")
    call("calibrate cal.npz --utility u.toml --alpha 0.02 --out d.json")
    for line, reported in (
        (
            "calibrate cal.npz --utility bad.csv --out x.json",
            "bad.csv: Expected a utility for each of the 12 classes (black_grass",
        ),
        ("calibrate cal.npz --utility none.csv --out x.json", "Cannot use none.csv"),
        (
            "calibrate cal.npz --utility u.csv --per kind --out x.json",
            "a utility with kinds of classes, got one without",
        ),
        ("calibrate cal.npz --per action --out x.json", "Expected --utility with --per action, got none"),
        ("calibrate cal.npz --max-cost 1 --out x.json", "Expected --max-cost with --utility alone"),
        ("calibrate cal.npz --utility u.toml --max-cost -2 --out x.json", "Expected a bound of at least -0."),
        ("calibrate cal.npz --utility u.csv --per cluster --out x.json", "Expected per to be one of"),
        ("decide d.json test.npz --utility u.csv --out a.csv", "since it has its own utility: leave it out"),
        ("decide d.json test.npz --fallback ask --out a.csv", "Expected a decider without --fallback"),
        ("decide d.json test.npz --out a.txt", "Expected --out to end in"),
        ("compare test.npz --utility bad.csv --out out", "bad.csv: Expected a utility for each of the 12 classes"),
    ):
        code, _, err = call(line)
        assert code == 2, line
        assert reported in err
        assert err.count("\n") == 1
