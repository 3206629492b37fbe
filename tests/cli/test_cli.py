"""The command line: all formats of data, help texts and warnings."""

import re
from pathlib import Path

import numpy as np
import polars
import pytest

import pippin
from pippin._theory.formula import OURS
from pippin.cli.inputs import read_scores
from pippin.metrics import coverage
from support.cli_data import DATA, LABELS, PROBS, write_data


@pytest.mark.parametrize("data", DATA)
def test_compare_is_the_same_on_every_format(data, call, folder, no_figures):
    code, out, err = call(f"compare {data} --scores 'raps(lam=0.1, k_reg=2),pip' --splits 20 --seed 3 --out results")
    assert (code, err) == (0, "")
    expected = pippin.compare(PROBS, LABELS, ("raps(lam=0.1, k_reg=2)", "pip"), splits=20, seed=3)
    assert polars.read_parquet("results/results.parquet").equals(expected.table)
    assert polars.read_csv("results/summary.csv").equals(expected.summary())
    for words in ("raps(lam=0.1, k_reg=2)", "coverage", "size", "singletons", "empty", "±"):
        assert words in out
    assert not list(folder.glob("results/*checkpoint*"))


@pytest.mark.parametrize("data", DATA)
def test_calibrate_predict_and_evaluate_are_the_same_on_every_format(data, call, folder):
    assert call(f"calibrate {data} --score aps --alpha 0.2 --seed 1 --out p.json")[0] == 0
    expected = pippin.calibrate(PROBS, LABELS, "aps", 0.2, seed=1)
    made = pippin.load("p.json")
    assert (made.threshold, made.n_calibration) == (expected.threshold, 60)
    file, *_ = data.split()
    sets = expected.predict(PROBS, seed=2)
    for ending in ("csv", "parquet", "jsonl"):
        code, out, err = call(f"predict p.json {file} --seed 2 --out sets.{ending}")
        assert (code, err) == (0, "")
        assert out.startswith("60 sets")
    assert polars.read_parquet("sets.parquet")["size"].to_list() == sets.sizes.tolist()
    assert polars.read_ndjson("sets.jsonl").equals(polars.read_parquet("sets.parquet"))
    code, out, err = call(f"evaluate p.json {data} --seed 2")
    assert (code, err) == (0, "")
    assert f"coverage     {pippin.metrics.coverage(sets, LABELS):.4f}" in out
    assert ("weed" in out) == ("npy" not in file)


def test_sweep(call, folder):
    code, out, err = call("sweep data.csv --score 'raps(k_reg=1)' --values 0,0.5 --splits 10 --out results")
    assert (code, err) == (0, "")
    expected = pippin.sweep(PROBS, LABELS, "raps(k_reg=1)", parameter="lam", values=(0, 0.5), splits=10)
    assert polars.read_parquet("results/sweep.parquet").equals(expected.table)
    assert polars.read_csv("results/sweep.csv").equals(expected.summary())
    assert "lam of raps" in out
    code, out, _ = call("sweep data.csv --score raps --parameter k_reg --values 0,2 --splits 2 --out results")
    assert code == 0
    assert "k_reg of raps" in out


def test_the_example_is_used_without_data(call, folder, no_figures):
    for command, file in (("compare --scores ip", "results.parquet"), ("sweep --values 0,1", "sweep.parquet")):
        code, out, err = call(f"{command} --splits 2")
        assert (code, err) == (0, "")
        assert "the embedded example: 4,986 rows, 12 classes" in out
        assert (folder / "out" / file).exists()


def test_logits(call, folder):
    np.savez("logits.npz", logits=np.log(PROBS), labels=LABELS)
    assert call("calibrate logits.npz --score ip --out p.json")[0] == 0
    assert pippin.load("p.json").threshold == pippin.calibrate(np.log(PROBS), LABELS, "ip", from_logits=True).threshold


def test_toy(call):
    code, out, _ = call("toy")
    assert code == 0
    assert "1.43" in out


def test_the_toy_cases_are_drawn_in_a_folder(call, folder):
    code, out, _ = call("toy --out drawn")
    assert code == 0
    assert "PIP distinguishes all six" in out
    assert sorted(path.name for path in (folder / "drawn").iterdir()) == ["toy.png", "toy.svg"]


def test_a_predictor_without_scores_is_smaller(call, folder):
    call("calibrate data.npz --out a.json")
    call("calibrate data.npz --out b.json --no-scores")
    assert pippin.load("b.json").calibration_scores is None
    assert pippin.load("b.json").threshold == pippin.load("a.json").threshold


def test_prediction_needs_no_labels(call, folder):
    call("calibrate data.npz --out p.json")
    polars.read_csv("data.csv").drop("label").write_csv("new.csv")
    assert call("predict p.json new.csv --out a.csv")[0] == 0
    assert call("predict p.json data.csv --out b.csv")[0] == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_a_predictor_from_python_with_numbers_for_names(call, folder):
    """Integer class names match the text headings of a table."""
    pippin.calibrate(PROBS, [(30, 10, 20)[i] for i in LABELS], "ip", classes=(30, 10, 20)).save("p.json")
    frame = polars.DataFrame(PROBS, schema=["30", "10", "20"])
    frame.with_columns(label=polars.Series(np.array([30, 10, 20])[LABELS])).write_csv("numbered.csv")
    code, out, err = call("evaluate p.json numbered.csv")
    assert (code, err.count("seem to be calibration rows"), err.count("\n")) == (0, 1, 1)
    assert f"coverage     {coverage(pippin.load('p.json').predict(PROBS), np.array([30, 10, 20])[LABELS]):.4f}" in out


def test_lists_of_scores():
    """A list of scores is split at commas outside parentheses; `paper` and `all` stand for several scores."""
    assert read_scores("paper") == pippin.scores.PAPER
    every = [method.score.name for method in read_scores("all")]
    assert [name for name in every if name in OURS][6:] == ["saps", "topk", "socop"]
    assert read_scores("linear(weights=(1, 0.5), penalties=(0, 1)), ip , raps(lam=0.1, k_reg=2)") == (
        pippin.scores.linear((1, 0.5), (0, 1)),
        pippin.scores.ip(),
        pippin.scores.raps(0.1, 2),
    )


def test_too_few_examples_are_one_line_of_warning(call, folder, no_figures):
    write_data(folder, PROBS[:5], LABELS[:5], "few")
    for command in ("calibrate few.npz --out p.json", "compare few.npz --splits 2"):
        code, _, err = call(command)
        assert code == 0
        assert err.count("\n") == 1
        assert err.startswith("pippin: warning: ")
        assert "too few for alpha=0.1: at least 9 are needed" in err


def test_names_that_look_like_markup_are_printed_as_they_are(call, folder, no_figures):
    np.savez("[bold]x[red].npz", probs=PROBS, labels=LABELS, classes=["[red]", "[/b]", ":smile:"])
    code, out, _ = call("compare '[bold]x[red].npz' --splits 2")
    assert code == 0
    assert "[bold]x[red].npz" in out


@pytest.mark.parametrize("command", ["compare", "sweep", "toy", "plan", "calibrate", "predict", "evaluate"])
def test_help_has_an_example(command, call):
    code, out, _ = call(f"{command} --help")
    assert code == 0
    assert f"Example: pippin {command}" in out


def test_help_and_version(call):
    assert "evaluate" in call("")[1]
    assert "evaluate" in call("--help")[1]
    assert call("--version") == (0, f"pippin {pippin.__version__}\n", "")


def test_measures_have_one_unit_on_either_side_of_the_sign(call, folder, no_figures):
    """Tables print coverage as a share, size as a number, and other metrics in percent, each ± standard deviation."""
    assert call("compare data.npz --scores ip --splits 20 --out results")[0] == 0
    row = polars.read_csv("results/summary.csv").row(0, named=True)
    specs = {"coverage": ".3f", "mean_size": ".2f", "singleton_rate": ".1%"}
    cells = [f"{row[name]:{spec}} ± {row[f'{name}_sd']:{spec}}" for name, spec in specs.items()]
    assert re.search(" *│ *".join(map(re.escape, cells)), call("compare data.npz --scores ip --splits 20")[1])
