"""The command line: every command on every format, and every wrong use as one sentence."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pytest

import pippin
from pippin.cli.options import read_scores
from pippin.reading import read_data

PIPPIN = [sys.executable, "-m", "pippin.cli"]
RNG = np.random.default_rng(11)
PROBS = RNG.dirichlet([0.4, 0.4, 0.4], 60)
LABELS = np.array([RNG.choice(3, p=p) for p in PROBS])
NAMES = np.array(["crop", "soil", "weed"])


def run(*args, folder, **options):
    """A real process."""
    return subprocess.run([*PIPPIN, *args], cwd=folder, capture_output=True, text=True, timeout=120, **options)


GROUPS = np.where(RNG.random(60) < 0.5, "north", "south")


def write_data(folder, probs=PROBS, labels=LABELS, stem="data"):
    """The same data in every format."""
    np.savez(folder / f"{stem}.npz", probs=probs, labels=labels, classes=NAMES)
    np.save(folder / f"{stem}.npy", probs)
    np.save(folder / f"{stem}-labels.npy", labels)
    frame = polars.DataFrame(probs, schema=list(NAMES)).with_columns(label=polars.Series(NAMES[labels]))
    frame.write_csv(folder / f"{stem}.csv")
    frame.write_parquet(folder / f"{stem}.parquet")


DATA = ["data.npz", "data.csv", "data.parquet", "data.npy --labels data-labels.npy"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    return tmp_path


# What works


@pytest.mark.parametrize("data", DATA)
def test_compare_is_the_same_on_every_format(data, call, folder):
    code, out, err = call(f"compare {data} --scores 'raps(lam=0.1, k_reg=2),pip' --splits 20 --seed 3 --out results")
    assert (code, err) == (0, "")
    expected = pippin.compare(PROBS, LABELS, ("raps(lam=0.1, k_reg=2)", "pip"), splits=20, seed=3)
    assert polars.read_parquet("results/results.parquet").equals(expected.table)
    assert polars.read_csv("results/summary.csv").equals(expected.summary())
    for words in ("raps(lam=0.1, k_reg=2)", "coverage", "classes per set", "sets with one class", "empty sets", "±"):
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
    assert f"coverage         {pippin.coverage(sets, LABELS):.4f}" in out
    assert ("weed" in out) == ("npy" not in file)


def test_sweep(call, folder):
    code, out, err = call("sweep data.csv --score 'raps(k_reg=1)' --values 0,0.5 --splits 10 --out results")
    assert (code, err) == (0, "")
    expected = pippin.sweep(PROBS, LABELS, "raps(k_reg=1)", "lam", (0, 0.5), splits=10)
    assert polars.read_parquet("results/sweep.parquet").equals(expected.table)
    assert polars.read_csv("results/sweep.csv").equals(expected.summary())
    assert "lam of raps" in out
    code, out, _ = call("sweep data.csv --score raps --parameter k_reg --values 0,2 --splits 2 --out results")
    assert code == 0
    assert "k_reg of raps" in out


def test_the_example_is_used_without_data(call, folder):
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
    """Its classes meet the text headings of a table."""
    pippin.calibrate(PROBS, [(30, 10, 20)[i] for i in LABELS], "ip", classes=(30, 10, 20)).save("p.json")
    frame = polars.DataFrame(PROBS, schema=["30", "10", "20"])
    frame.with_columns(label=polars.Series(np.array([30, 10, 20])[LABELS])).write_csv("numbered.csv")
    code, out, err = call("evaluate p.json numbered.csv")
    assert (code, err) == (0, "")
    assert (
        f"coverage         {pippin.coverage(pippin.load('p.json').predict(PROBS), np.array([30, 10, 20])[LABELS]):.4f}"
        in out
    )


def test_lists_of_scores():
    """Commas in parentheses do not split; paper and all stand for several."""
    assert read_scores("paper") == pippin.PAPER_SCORES
    assert [score.name for score in read_scores("all")][6:] == ["saps", "topk", "socop"]
    assert read_scores("linear(weights=(1, 0.5), penalties=(0, 1)), ip , raps(lam=0.1, k_reg=2)") == (
        pippin.linear((1, 0.5), (0, 1)),
        pippin.ip(),
        pippin.raps(0.1, 2),
    )


def write_grouped(folder, groups=GROUPS, stem="grouped"):
    """Data with groups in every format that holds them."""
    np.savez(folder / f"{stem}.npz", probs=PROBS, labels=LABELS, classes=NAMES, groups=groups)
    frame = polars.DataFrame(PROBS, schema=list(NAMES)).with_columns(
        label=polars.Series(NAMES[LABELS]), group=polars.Series(groups)
    )
    frame.write_csv(folder / f"{stem}.csv")
    frame.write_parquet(folder / f"{stem}.parquet")


@pytest.mark.parametrize("groups", [GROUPS, np.where(GROUPS == "north", 1, 2)], ids=["text", "numbers"])
@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_groups_are_the_same_in_every_format(ending, groups, call, folder):
    """Calibrated per group, predicted and evaluated with the groups of the file."""
    write_grouped(folder, groups)
    code, out, err = call(f"calibrate grouped.{ending} --score ip --alpha 0.2 --per group --out p.json")
    assert (code, err) == (0, "")
    assert out.startswith("ip per group, from 60 rows")
    assert "for every group, its sets hold the true class 80 % of the time" in out
    expected = pippin.calibrate(PROBS, LABELS, "ip", 0.2, per="group", groups=groups)
    assert np.array_equal(pippin.load("p.json").thresholds, expected.thresholds)
    sets = expected.predict(PROBS, groups=groups)
    assert call(f"predict p.json grouped.{ending} --out sets.parquet")[0] == 0
    assert polars.read_parquet("sets.parquet")["size"].to_list() == sets.sizes.tolist()
    code, out, err = call(f"evaluate p.json grouped.{ending}")
    assert (code, err) == (0, "")
    found = pippin.evaluate(sets, LABELS, groups=groups, alpha=0.2)
    assert f"worst group      {min(found.group_coverage.values()):.4f}   coverage of {found.worst_group}" in out
    assert f"CovGap           {found.covgap:.4f}" in out
    assert f"SSCV             {found.sscv:.4f}" in out


@pytest.mark.parametrize("data", DATA)
def test_a_guarantee_per_class_on_every_format(data, call, folder):
    code, out, err = call(f"calibrate {data} --score pip --alpha 0.2 --per class --out p.json")
    assert (code, err) == (0, "")
    made = pippin.load("p.json")
    assert np.array_equal(made.thresholds, pippin.calibrate(PROBS, LABELS, "pip", 0.2, per="class").thresholds)
    assert "expected coverage" in out
    for row in made.table().iter_rows(named=True):
        assert re.search(rf"{row['class']} +│ +{row['n']} │ +{row['threshold']:.6g} ", out)
    file, *_ = data.split()
    assert call(f"predict p.json {file} --non-empty --out sets.csv")[0] == 0
    sizes = polars.read_csv("sets.csv")["size"].to_list()
    assert sizes == made.predict(PROBS, nonempty=True).sizes.tolist()
    assert min(sizes) > 0


@pytest.mark.parametrize("per", ["", "--per class", "--per group"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_p_values_agree_with_the_sets(per, ending, call, folder):
    """Whatever u a randomised score draws: the classes with p above alpha are the set."""
    write_grouped(folder)
    assert call(f"calibrate grouped.npz --score aps --alpha 0.2 --seed 1 --out p.json {per}")[0] == 0
    code, out, err = call(f"predict p.json grouped.{ending} --out sets.parquet --p-values p.{ending}")
    assert (code, err) == (0, "")
    assert f"all p-values are in p.{ending}" in out
    table = getattr(polars, f"read_{ending}")(f"p.{ending}")
    assert table.columns == ["row", "label", "confidence", "credibility", "p(crop)", "p(soil)", "p(weed)"]
    p = table.select("p(crop)", "p(soil)", "p(weed)").to_numpy()
    assert (p > 0.2).sum(axis=1).tolist() == polars.read_parquet("sets.parquet")["size"].to_list()
    assert table["credibility"].to_list() == p.max(axis=1).tolist()
    assert table["confidence"].to_numpy() == pytest.approx(1 - np.sort(p, axis=1)[:, -2])
    best = [np.flatnonzero(row == row.max()) for row in p]
    assert all(name in NAMES[which] for name, which in zip(table["label"], best, strict=True))


def test_compare_tells_of_classes_and_groups(call, folder):
    write_grouped(folder)
    line = "compare grouped.csv --scores 'ip,ip per class,raps(lam=0.1, k_reg=2) per group' --alpha 0.2 --splits 9"
    code, out, err = call(line)
    assert (code, err) == (0, "")
    methods = ("ip", "ip per class", "raps(lam=0.1, k_reg=2) per group")
    expected = pippin.compare(PROBS, LABELS, methods, 0.2, 9, classes=tuple(NAMES), groups=GROUPS)
    assert polars.read_csv("out/conditional.csv").equals(expected.conditional())
    assert polars.read_csv("out/classes.csv").equals(expected.class_coverage())
    for row in expected.conditional().iter_rows(named=True):
        assert re.search(
            rf"{re.escape(row['score'])} +│ {row['worst_class']} +│ +{row['worst_class_coverage']:.3f}", out
        )
        assert re.search(rf"{row['covgap']:.3f} │ +{row['sscv']:.3f} │ {row['worst_group']} ", out)
    assert "Is it 80 % for every class and group too?" in out


@pytest.mark.parametrize("score", ["ip/ms", "ip/ms sum", "ip/ms none"])
def test_the_combination(score, call, folder):
    guarantee = pippin.parse_method(score).margin
    expected = pippin.calibrate_combination(PROBS, LABELS, 0.4, guarantee, NAMES, seed=3)
    code, out, err = call(f"calibrate data.csv --score '{score}' --alpha 0.4 --seed 3 --out p.json")
    assert (code, err) == (0, "")
    assert f"ip/ms {guarantee} with the thresholds" in out
    assert ("not guaranteed" in out) == (guarantee == "none")
    assert call("predict p.json data.csv --out sets.csv")[0] == 0
    assert polars.read_csv("sets.csv")["size"].to_list() == expected.predict(PROBS).sizes.tolist()
    code, out, err = call("evaluate p.json data.csv")
    assert (code, err) == (0, "")
    assert f"ip/ms {guarantee}, calibrated on 60 rows" in out
    assert f"{pippin.coverage(expected.predict(PROBS), LABELS):.4f}" in out


def test_weights(call, folder):
    weights = 1 + PROBS[:, 0]
    np.save("w.npy", weights)
    expected = pippin.calibrate_weighted(PROBS, LABELS, weights, "pip", 0.2, NAMES).predict(PROBS, weights)
    code, out, err = call("calibrate data.csv --score pip --alpha 0.2 --weights w.npy --out p.json")
    assert (code, err) == (0, "")
    assert "pip with weights worth 5" in out
    assert call("predict p.json data.csv --weights w.npy --out sets.csv")[0] == 0
    assert polars.read_csv("sets.csv")["size"].to_list() == expected.sizes.tolist()
    code, out, err = call("evaluate p.json data.csv --weights w.npy")
    assert (code, err) == (0, "")
    assert "pip, weighted, calibrated on 60 rows" in out
    assert f"{pippin.coverage(expected, LABELS):.4f}" in out


@pytest.mark.parametrize("calibrating", [["1", "2"], ["1", "b"]])
@pytest.mark.parametrize("predicting", [["1", "1"], ["1", "b"]])
def test_a_group_is_the_same_whatever_other_groups_its_file_has(calibrating, predicting, call, folder):
    """Text that is all numbers is read as numbers, and 1 is the group "1" nevertheless."""
    north = GROUPS == "north"
    write_grouped(folder, np.where(north, *calibrating), "first")
    write_grouped(folder, np.where(north, *predicting), "second")
    assert call("calibrate first.csv --score ip --alpha 0.2 --per group --unseen marginal --out p.json")[0] == 0
    assert call("predict p.json second.csv --out sets.parquet")[0] == 0
    expected = pippin.calibrate(PROBS[north], LABELS[north], "ip", 0.2).predict(PROBS[north])
    found = polars.read_parquet(folder / "sets.parquet")["size"].to_numpy()
    assert np.array_equal(found[north], expected.sizes)


def test_groups_with_leading_zeros_are_names(folder):
    """01 and 1 are two of them."""
    write_grouped(folder, np.where(GROUPS == "north", "01", "1"))
    assert set(read_data(folder / "grouped.csv").groups.tolist()) == {"01", "1"}


def test_a_group_not_seen_can_have_the_marginal_threshold(call, folder):
    write_grouped(folder)
    write_grouped(folder, np.where(GROUPS == "north", "north", "east"), "other")
    assert call("calibrate grouped.npz --score ip --per group --unseen marginal --out p.json")[0] == 0
    assert call("predict p.json other.csv --out sets.csv")[0] == 0


def test_many_classes_are_shortened(call, folder):
    probs = np.random.default_rng(0).dirichlet(np.ones(50), 3000)
    np.savez("many.npz", probs=probs, labels=np.arange(3000) % 50)
    code, out, _ = call("calibrate many.npz --score ip --per class --out p.json")
    assert code == 0
    assert "the rarest 30 of 50" in out
    assert out.count("\n") < 40


def test_too_few_examples_are_one_line_of_warning(call, folder):
    write_data(folder, PROBS[:5], LABELS[:5], "few")
    for command in ("calibrate few.npz --out p.json", "compare few.npz --splits 2"):
        code, _, err = call(command)
        assert code == 0
        assert err.count("\n") == 1
        assert err.startswith("pippin: warning: ")
        assert "too few for alpha=0.1: at least 9 are needed" in err


def test_names_that_look_like_markup_are_printed_as_they_are(call, folder):
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


# What does not


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """Files with one fault each, and some without."""
    folder = tmp_path_factory.mktemp("wrong")
    write_data(folder)
    classes = {"labels": LABELS, "classes": NAMES}
    broken, negative, late = PROBS.copy(), PROBS.copy(), NAMES[LABELS].copy()
    broken[7, 1], negative[5, :2], late[9] = np.nan, (-0.1, 1.1 - PROBS[5, 2]), "moss"
    np.savez(folder / "nan.npz", probs=broken, **classes)
    np.savez(folder / "negative.npz", probs=negative, **classes)
    np.savez(folder / "logits.npz", probs=np.log(PROBS), **classes)
    np.savez(folder / "unlabelled.npz", probs=PROBS, classes=NAMES)
    np.savez(folder / "moss.npz", probs=PROBS, labels=late, classes=NAMES)
    np.savez(folder / "outside.npz", probs=PROBS, labels=LABELS + 1)
    np.savez(folder / "fewer.npz", probs=PROBS, labels=LABELS[:-1])
    np.savez(folder / "one.npz", probs=PROBS[:1], labels=LABELS[:1])
    np.savez(folder / "other.npz", a=PROBS)
    np.savez(folder / "pickled.npz", probs=PROBS.astype(object), labels=LABELS)
    np.savez(folder / "two.npz", probs=PROBS[:, :2] / PROBS[:, :2].sum(axis=1, keepdims=True), labels=LABELS % 2)
    np.savez(folder / "reversed.npz", probs=PROBS[:, ::-1], labels=LABELS, classes=NAMES[::-1])
    (folder / "cut.npz").write_bytes((folder / "data.npz").read_bytes()[:500])
    (folder / "cut.parquet").write_bytes((folder / "data.parquet").read_bytes()[:-9])
    (folder / "empty.csv").touch()
    (folder / "text.csv").write_text("a,b,label\n0.5,half,a\n")
    (folder / "ragged.csv").write_text("a,b,label\n0.5,0.5,a,b\n")
    (folder / "heading.csv").write_text("a,b,label\n")
    (folder / "file").write_text("a file")
    (folder / "folder").mkdir()
    predictor = pippin.calibrate(PROBS, LABELS, "ip", 0.1, NAMES)
    predictor.save(folder / "p.json")
    predictor.save(folder / "bare.json", scores=False)
    pippin.calibrate_combination(PROBS, LABELS, 0.2, "sum", NAMES).save(folder / "combination.json")
    pippin.calibrate_weighted(PROBS, LABELS, np.ones(60), "ip", 0.2, NAMES).save(folder / "weighted.json")
    pippin.calibrate_cross(PROBS, LABELS, np.arange(60) % 2, "ip", 0.2, NAMES).save(folder / "cross.json")
    np.save(folder / "ones.npy", np.ones(60))
    np.save(folder / "two.npy", np.ones(2))
    write_grouped(folder)
    write_grouped(folder, np.where(GROUPS == "north", "north", "east"), "other-groups")
    np.savez(folder / "few-groups.npz", **classes, probs=PROBS, groups=GROUPS[:5])
    np.savez(folder / "odd-groups.npz", **classes, probs=PROBS, groups=np.linspace(0, 1, 60))
    (folder / "no-group.csv").write_text("a,b,label,group\n0.5,0.5,a,north\n0.5,0.5,b,\n")
    pippin.calibrate(PROBS, LABELS, "ip", 0.2, NAMES, per="class").save(folder / "per-class.json")
    pippin.calibrate(PROBS, LABELS, "ip", 0.2, NAMES, per="group", groups=GROUPS).save(folder / "per-group.json")
    (folder / "cut.json").write_text((folder / "p.json").read_text()[:100])
    (folder / "edited.json").write_text((folder / "p.json").read_text().replace('"alpha": 0.1', '"alpha": 0.2'))
    return folder


def tree(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


WRONG = {
    # the data
    "compare none.npz": "There is no file none.npz",
    "compare folder": "end in .npz, .csv, .parquet or .npy, got folder",
    "compare file": "end in .npz, .csv, .parquet or .npy, got file",
    "compare empty.csv": "empty.csv is empty",
    "compare heading.csv": "heading.csv: Expected at least one row",
    "compare text.csv": "text.csv: Row 0 has 'half' in column 'b', expected a number",
    "compare ragged.csv": "ragged.csv cannot be read as comma-separated values",
    "compare other.npz": "other.npz holds a, expected an array probs",
    "compare cut.npz": "cut.npz is damaged",
    "compare cut.parquet": "cut.parquet is damaged",
    "compare pickled.npz": "The array probs of pickled.npz holds Python objects",
    "compare nan.npz": "nan.npz: Row 7 has nan in column 1 ('soil')",
    "compare negative.npz": "negative.npz: Row 5 has -0.1 in column 0 ('crop')",
    "compare logits.npz": "look like logits: save them as the array logits of an .npz file",
    "compare moss.npz": "moss.npz: Row 9 has the label 'moss', which is not one of the 3 classes",
    "compare outside.npz": "expected 0 to 2",
    "compare fewer.npz": "fewer.npz: Expected 60 labels",
    "compare one.npz": "Expected enough rows for both calibration and test",
    "compare unlabelled.npz": "unlabelled.npz has no labels",
    "compare data.npy": "data.npy has no labels",
    "compare data.npy --labels none.npy": "There is no file none.npy",
    "compare data.npy --labels data.csv": "ends in .npy, got data.csv",
    "compare data.npz --labels data-labels.npy": "has labels of its own",
    "compare --labels data-labels.npy": "Expected data for the labels",
    "sweep nan.npz": "Row 7 has nan",
    "sweep unlabelled.npz": "has no labels",
    "calibrate unlabelled.npz --out new.json": "has no labels",
    "calibrate nan.npz --out new.json": "Row 7 has nan",
    "evaluate p.json unlabelled.npz": "has no labels",
    "evaluate p.json moss.npz": "moss.npz: Row 9 has the label 'moss'",
    "predict p.json none.csv --out new.csv": "There is no file none.csv",
    "predict p.json nan.npz --out new.csv": "Row 7 has nan",
    # the options
    "compare data.npz --scores best": "Unknown score 'best'",
    "compare data.npz --scores ''": "Cannot read the score ''",
    "compare data.npz --scores ip,,pip": "Cannot read the score ''",
    "compare data.npz --scores 'raps(lamb=1)'": "The score raps has no parameter 'lamb'",
    "compare data.npz --scores 'raps(lam=-1)'": "The score raps needs lam to be",
    "compare data.npz --scores 'raps(lam=1'": "Cannot read the score",
    "compare data.npz --alpha 0": "strictly between 0 and 1, got 0.0",
    "compare data.npz --alpha 1": "strictly between 0 and 1, got 1.0",
    "compare data.npz --alpha nan": "strictly between 0 and 1, got nan",
    "compare data.npz --alpha tenth": "'--alpha'",
    "compare data.npz --splits 0": "Expected at least one split, got 0",
    "compare data.npz --splits 1.5": "'--splits'",
    "compare data.npz --calibration-fraction 0": "strictly between 0 and 1, got 0.0",
    "compare data.npz --calibration-fraction 1": "strictly between 0 and 1, got 1.0",
    "compare data.npz --calibration-fraction 2": "strictly between 0 and 1, got 2.0",
    "compare data.npz --seed -1": "'--seed'",
    "compare data.npz --colour red": "No such option",
    "compare data.npz data.csv": "unexpected extra argument",
    "sweep data.npz --score ip": "no parameter to sweep",
    "sweep data.npz --score raps --parameter gamma": "Expected a parameter of raps (lam, k_reg), got 'gamma'",
    "sweep data.npz --score best": "Unknown score 'best'",
    "sweep data.npz --values 0,much": "numbers between commas, got '0,much'",
    "sweep data.npz --values ''": "numbers between commas",
    "sweep data.npz --values -1": "needs gamma to be",
    "sweep data.npz --values nan": "needs gamma to be",
    "sweep data.npz --parameter k_reg --values 0.5": "needs k_reg to be",
    "sweep data.npz --alpha 7": "strictly between 0 and 1",
    "calibrate data.npz --score best --out new.json": "Unknown score 'best'",
    "calibrate data.npz --alpha 1.5 --out new.json": "strictly between 0 and 1",
    "calibrate data.npz --seed -1 --out new.json": "'--seed'",
    "calibrate data.npz": "'--out'",
    "calibrate --out new.json": "'DATA'",
    "predict p.json data.npz --out new.csv --seed x": "'--seed'",
    "guess": "No such command 'guess'",
    # groups and methods
    "compare few-groups.npz": "few-groups.npz: Expected 60 groups, one per row, got shape (5,)",
    "compare odd-groups.npz": "odd-groups.npz: Expected groups that are all whole numbers or all text",
    "compare no-group.csv": "no-group.csv: Row 1 has no group",
    "compare data.npz --scores 'ip per group'": "Expected groups for ip per group, but data.npz has none: add",
    "compare data.npz --scores 'ip per species'": "Cannot read 'per species' in 'ip per species'",
    "compare data.npz --scores 'best per class'": "Unknown score 'best'",
    "compare data.npz --scores 'per class'": "Unknown score 'per'",
    "calibrate data.npz --per species --out new.json": "Expected --per to be one of 'class', 'group'",
    "calibrate data.npz --per group --out new.json": "Expected groups for --per 'group', but data.npz has none",
    "calibrate grouped.npz --per group --unseen all --out new.json": "Expected --unseen to be error or marginal",
    "calibrate data.npz --score 'ip per class' --out new.json": "Expected --score to be a score, got 'ip per cl",
    "predict per-group.json data.csv --out new.csv": "add an array groups (.npz) or a column group (.csv, .parquet)",
    "predict per-group.json other-groups.csv --out new.csv": "is in the group 'east', which the calibration has not",
    "evaluate per-group.json data.csv": "add an array groups (.npz) or a column group (.csv, .parquet)",
    "evaluate per-group.json other-groups.csv": "or with --unseen marginal",
    "export per-class.json --c new.h": "Expected a predictor with one threshold for all, got ConditionalPredictor",
    "export per-class.json --onnx new.onnx": "calibrate one without thresholds per class or group",
    "predict p.json data.npz --out new.csv --p-values new.jsonl": "Expected --p-values to end in .csv or .parquet",
    "predict p.json data.npz --out new.csv --p-values none/p.csv": "Expected --p-values in a folder that exists",
    "predict p.json data.npz --out new.csv --p-values new.csv": "Expected --p-values to be a file of its own",
    "predict p.json data.csv --out new.csv --p-values data.csv": "Expected --p-values to be a file of its own",
    "predict bare.json data.csv --out new.csv --p-values p.csv": "saved without its calibration scores",
    # the predictor
    "predict cross.json data.csv --out new.csv": "that needs one matrix of probabilities, got a CrossPredictor: use it",
    "evaluate cross.json data.csv": "Expected a predictor that needs one matrix of probabilities, got a CrossPredictor",
    "predict weighted.json data.csv --out new.csv": "Expected the weights of the rows, got none: pass --weights",
    "predict weighted.json data.csv --out new.csv --weights data.csv": "Expected weights in a file that ends in .npy",
    "predict weighted.json data.csv --out new.csv --weights two.npy": "data.csv: Expected 60 weights, one per row, got",
    "evaluate p.json data.csv --weights data-labels.npy": "A Predictor takes no weights: leave --weights out",
    "evaluate combination.json data.csv --weights data-labels.npy": "A Combination takes no weights",
    "predict weighted.json data.csv --weights ones.npy --out new.csv --p-values p.csv": "has no table of p-values",
    "export weighted.json --c new.h": "Expected a predictor with one threshold for all, got WeightedPredictor",
    "calibrate data.npz --score 'ip/ms most' --out new.json": "Cannot read 'most' in 'ip/ms most': write ip/ms",
    "calibrate data.npz --score ip/ms --per class --out new.json": "Expected --per without ip/ms, got both",
    "calibrate data.npz --weights ones.npy --per class --out new.json": "Expected --per without --weights, got both",
    "calibrate data.npz --weights ones.npy --score ip/ms --out new.json": "Expected --weights with a score, got ip/ms",
    "calibrate data.npz --weights ones.npy --no-scores --out new.json": "a weighted predictor needs its scores",
    "calibrate data.npz --weights none.npy --out new.json": "none.npy",
    "predict none.json data.npz --out new.csv": "none.json",
    "predict cut.json data.npz --out new.csv": "cut.json is no predictor file, or is damaged",
    "predict edited.json data.npz --out new.csv": "edited.json was edited or damaged",
    "predict data.npz p.json --out new.csv": "data.npz is no predictor file",
    "predict folder data.npz --out new.csv": "folder",
    "predict p.json two.npz --out new.csv": "two.npz: Expected 3 columns",
    "predict p.json reversed.npz --out new.csv": "reversed.npz: Column 0 is 'weed', expected 'crop'",
    "evaluate p.json reversed.npz": "put the columns in the order in which the predictor was calibrated",
    "evaluate p.json two.npz": "two.npz: Expected 3 columns",
    "evaluate edited.json data.npz": "edited.json was edited or damaged",
    # the output
    "compare data.npz --splits 2 --out file": "but file is a file",
    "compare data.npz --splits 2 --out file/below": "but file is a file",
    "sweep data.npz --splits 2 --out file": "but file is a file",
    "calibrate data.npz --out folder": "end in .json, got folder",
    "calibrate data.npz --out data.npz": "end in .json, got data.npz",
    "calibrate data.npz --out none/new.json": "make the folder none first",
    "calibrate data.npz --out /proc/new.json": "/proc",
    "predict p.json data.npz --out new.txt": "end in .csv or .parquet or .jsonl, got new.txt",
    "predict p.json data.npz --out none/new.csv": "make the folder none first",
    "predict p.json data.npz --out /proc/new.csv": "/proc",
    "predict p.json data.csv --out data.csv": "another file than the data",
    "compare data.npz --splits 2 --out /proc/new": "/proc",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_use_is_one_sentence_and_leaves_nothing(line, call, wrong, monkeypatch):
    """Exit code 2, one line on standard error, no traceback, and no file made or changed."""
    monkeypatch.chdir(wrong)
    before = tree(wrong)
    code, out, err = call(line)
    assert code == 2
    assert out == ""
    assert err.startswith("pippin: ")
    assert err.count("\n") == 1
    assert err.endswith(".\n")
    assert WRONG[line] in err
    assert not any(python in err for python in ("Traceback", "from_logits", "classes=", "Errno", "frame["))
    assert tree(wrong) == before


@pytest.mark.parametrize(
    "line", ["compare none.npz", "compare data.npz --alpha tenth", "predict cut.json data.npz --out new.csv", "guess"]
)
def test_wrong_use_in_a_real_process(line, wrong):
    before = tree(wrong)
    done = run(*shlex.split(line), folder=wrong)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("pippin: ")
    assert done.stderr.count("\n") == 1
    assert tree(wrong) == before


def test_an_error_of_ours_is_not_dressed_up(call, folder, monkeypatch):
    monkeypatch.setattr("pippin.study.study", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call("compare data.npz")
    assert not (folder / "out").exists()


def test_a_full_memory_is_one_sentence(call, folder, monkeypatch):
    def fill(*_, **__):
        raise MemoryError

    monkeypatch.setattr("pippin.study.study", fill)
    code, _, err = call("compare data.npz")
    assert code == 2
    assert err.startswith("pippin: Not enough memory")


def test_the_toy_cases_are_drawn_where_asked(call, folder):
    code, out, _ = call("toy --out drawn")
    assert code == 0
    assert "PIP orders all six" in out
    assert sorted(path.name for path in (folder / "drawn").iterdir()) == ["toy.png", "toy.svg"]


# Processes


def test_the_installed_script(folder):
    script = Path(sys.executable).with_name("pippin")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"pippin {pippin.__version__}\n"


def test_completion(folder):
    """The shell's request for the commands that begin with c."""
    asked = {"_PIPPIN_COMPLETE": "complete_bash", "COMP_WORDS": "pippin c", "COMP_CWORD": "1"}
    script = Path(sys.executable).with_name("pippin")
    done = subprocess.run([script], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["compare", "calibrate"]


def test_names_that_the_terminal_cannot_show(folder):
    np.savez("ü.npz", probs=PROBS, labels=LABELS)
    done = run("compare", "ü.npz", "--splits", "2", folder=folder, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0


def test_a_reader_that_leaves(folder):
    with subprocess.Popen([*PIPPIN, "toy"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 1


def test_starting_is_light(folder):
    """A command that fails at once has loaded neither polars, rich nor numba."""
    code = (
        "import sys; sys.argv = ['pippin', 'compare', 'none.npz']\n"
        "from pippin.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'polars', 'numba', 'rich', 'pandas', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout == "[]\n"


LONG = ["compare", "--scores", "aps,repip", "--splits", "30000", "--seed", "5", "--out"]


def started(out, folder):
    """A long comparison that has kept something by now."""
    process = subprocess.Popen([*PIPPIN, *LONG, out], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not (folder / out / "compare.checkpoint.npz").exists() and time.monotonic() < until:
        assert process.poll() is None
        time.sleep(0.005)
    return process


def test_a_killed_comparison_goes_on_to_the_same_end(folder):
    """The table is that of an uninterrupted run; other options on the same folder are refused."""
    with started("killed", folder) as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL
    left = {path.name for path in (folder / "killed").iterdir()}
    assert "compare.checkpoint.npz" in left
    assert not {"results.parquet", "summary.csv"} & left
    before = tree(folder / "killed")
    refused = run(
        "compare", "--scores", "aps,repip", "--splits", "30000", "--seed", "6", "--out", "killed", folder=folder
    )
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "belongs to another run" in refused.stderr
    assert tree(folder / "killed") == before
    with np.load(folder / "killed" / "compare.checkpoint.npz") as kept:
        finished = kept["values"].shape[1]
    assert 0 < finished < 29_000
    short = [*LONG[:4], str(finished + 300), *LONG[5:]]
    assert run(*short, "killed", folder=folder).returncode == 0
    assert run(*short, "whole", folder=folder).returncode == 0
    for name in ("results.parquet", "summary.csv"):
        assert (folder / "killed" / name).read_bytes() == (folder / "whole" / name).read_bytes()
    assert {path.name for path in (folder / "killed").iterdir()} == {path.name for path in (folder / "whole").iterdir()}


def test_an_interrupted_comparison_ends_quietly(folder):
    with started("stopped", folder) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert [path.name for path in (folder / "stopped").iterdir()] == ["compare.checkpoint.npz"]
