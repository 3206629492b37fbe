"""The command line with taxonomies, p-values, ip/ms and weights."""

import re

import numpy as np
import polars
import pytest

import pippin
from pippin.tables.reading import read_data
from support.cli_data import DATA, GROUPS, LABELS, NAMES, PROBS, write_grouped


@pytest.mark.parametrize("groups", [GROUPS, np.where(GROUPS == "north", 1, 2)], ids=["text", "numbers"])
@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_groups_are_the_same_in_every_format(ending, groups, call, folder):
    """Calibration, prediction and evaluation use the groups of the file, in every file format."""
    write_grouped(folder, groups)
    code, out, err = call(f"calibrate grouped.{ending} --score ip --alpha 0.2 --per group --out p.json")
    assert (code, err) == (0, "")
    assert "ip per group, from 60 rows: for every group, its sets contain" in out
    assert "for every group, its sets contain the true class with probability at least 80%" in out
    expected = pippin.calibrate(PROBS, LABELS, "ip", 0.2, per="group", groups=groups)
    assert np.array_equal(pippin.load("p.json").thresholds, expected.thresholds)
    sets = expected.predict(PROBS, groups=groups)
    assert call(f"predict p.json grouped.{ending} --out sets.parquet")[0] == 0
    assert polars.read_parquet("sets.parquet")["size"].to_list() == sets.sizes.tolist()
    code, out, err = call(f"evaluate p.json grouped.{ending}")
    assert (code, "About 60 of these 60 rows seem to be calibration rows" in err) == (0, True)
    found = pippin.evaluate(sets, LABELS, groups=groups, alpha=0.2)
    assert f"worst group  {min(found.group_coverage.values()):.4f}   coverage of {found.worst_group}" in out
    assert f"CovGap       {found.covgap:.4f}" in out
    assert f"SSCV         {found.sscv:.4f}" in out


def test_groups_as_units(call, folder):
    """With `--units`, where groups are clusters of rows, description and evaluation are by cluster."""
    groups = np.arange(60) // 6
    write_grouped(folder, np.array([f"photo{g}" for g in groups]), "units")
    code, out, err = call("calibrate units.csv --score ip --alpha 0.2 --units --out p.json")
    assert (code, err) == (0, "")
    assert "from 60 rows of 10 units: its sets contain the true class with probability at least 80%, for a row " in out
    expected = pippin.calibrate(PROBS, LABELS, "ip", 0.2, units=groups)
    assert pippin.load("p.json").threshold == expected.threshold
    code, out, err = call("evaluate p.json units.csv")
    shares = expected.predict(PROBS).contains(LABELS).reshape(10, 6).mean(axis=1)
    error = shares.std(ddof=1) / np.sqrt(10)
    assert (
        f"mean group   {shares.mean():.4f}   mean coverage of the 10 groups, each counting once, ± {error:.4f}" in out
    )


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
    """Sets contain exactly the classes with a p-value above alpha, also for a randomized score."""
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


def test_compare_prints_coverage_by_class_and_group(call, folder, blank_figures):
    write_grouped(folder)
    line = "compare grouped.csv --scores 'ip,ip per class,raps(lam=0.1, k_reg=2) per group' --alpha 0.2 --splits 9"
    code, out, err = call(line)
    assert (code, err) == (0, "")
    methods = ("ip", "ip per class", "raps(lam=0.1, k_reg=2) per group")
    expected = pippin.compare(PROBS, LABELS, methods, 0.2, splits=9, classes=tuple(NAMES), groups=GROUPS)
    assert polars.read_csv("out/conditional.csv").equals(expected.conditional())
    assert polars.read_csv("out/classes.csv").equals(expected.class_coverage())
    for row in expected.conditional().iter_rows(named=True):
        assert re.search(
            rf"{re.escape(row['score'])} +│ {row['worst_class']} +│ +{row['worst_class_coverage']:.3f}", out
        )
        assert re.search(rf"{row['covgap']:.3f} │ +{row['sscv']:.3f} │ {row['worst_group']} ", out)
    assert "Coverage by class and group" in out


@pytest.mark.parametrize("score", ["ip/ms", "ip/ms(variant=sum)", "ip/ms(variant=none)"])
def test_the_combination(score, call, folder):
    expected = pippin.calibrate(PROBS, LABELS, score, 0.4, classes=NAMES, seed=3)
    code, out, err = call(f"calibrate data.csv --score '{score}' --alpha 0.4 --seed 3 --out p.json")
    assert (code, err) == (0, "")
    assert f"{score} with the thresholds" in out
    assert ("20% is proven" in out) == ("none" in score)
    assert call("predict p.json data.csv --out sets.csv")[0] == 0
    assert polars.read_csv("sets.csv")["size"].to_list() == expected.predict(PROBS).sizes.tolist()
    code, out, err = call("evaluate p.json data.csv")
    assert (code, err) == (0, "")
    assert f"{score} with the thresholds" in out
    assert f"{pippin.metrics.coverage(expected.predict(PROBS), LABELS):.4f}" in out


def test_weights(call, folder):
    weights = 1 + PROBS[:, 0]
    np.save("w.npy", weights)
    expected = pippin.calibrate(PROBS, LABELS, "pip", 0.2, weights=weights, classes=NAMES).predict(
        PROBS, weights=weights
    )
    code, out, err = call("calibrate data.csv --score pip --alpha 0.2 --weights w.npy --out p.json")
    assert (code, err) == (0, "")
    assert "pip with weights, from 60 rows worth 5" in out
    assert call("predict p.json data.csv --weights w.npy --out sets.csv")[0] == 0
    assert polars.read_csv("sets.csv")["size"].to_list() == expected.sizes.tolist()
    code, out, err = call("evaluate p.json data.csv --weights w.npy")
    assert (code, "About 60 of these 60 rows seem to be calibration rows" in err) == (0, True)
    assert "pip with weights, from 60 rows worth 5" in out
    assert f"{pippin.metrics.coverage(expected, LABELS):.4f}" in out


@pytest.mark.parametrize("calibrating", [["1", "2"], ["1", "b"]])
@pytest.mark.parametrize("predicting", [["1", "1"], ["1", "b"]])
def test_a_group_is_the_same_whatever_other_groups_its_file_has(calibrating, predicting, call, folder):
    """A group that is read as the number 1 from one file, and as the text "1" from another, is one group."""
    north = GROUPS == "north"
    write_grouped(folder, np.where(north, *calibrating), "first")
    write_grouped(folder, np.where(north, *predicting), "second")
    assert call("calibrate first.csv --score ip --alpha 0.2 --per group --unseen marginal --out p.json")[0] == 0
    assert call("predict p.json second.csv --out sets.parquet")[0] == 0
    expected = pippin.calibrate(PROBS[north], LABELS[north], "ip", 0.2).predict(PROBS[north])
    found = polars.read_parquet(folder / "sets.parquet")["size"].to_numpy()
    assert np.array_equal(found[north], expected.sizes)


def test_groups_with_leading_zeros_are_names(folder):
    """Groups 01 and 1 are different."""
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


@pytest.mark.parametrize("per", ["", " --per class", " --per interpolated"])
def test_confidence_and_interpolation_are_those_of_python(per, call, folder):
    """`--confidence` and `--per interpolated` give the predictor of the keywords; a description names both."""
    name = per.split()[-1] if per else None
    code, out, _ = call(f"calibrate data.npz --score ip --alpha 0.3 --confidence 0.8 --seed 1{per} --out p.json")
    assert code == 0
    assert "in 80% of calibrations its sets contain the true class with probability at least 70%" in out
    expected = pippin.calibrate(PROBS, LABELS, "ip", 0.3, per=name, confidence=0.8, seed=1)
    assert np.array_equal(pippin.load("p.json").thresholds, expected.thresholds)
    assert "with a confidence of 80% over calibrations" in " ".join(call("describe p.json")[1].split())


def test_plan_with_confidence(call, folder):
    code, out, _ = call("plan --n 2000 --confidence 0.95")
    assert code == 0
    assert "coverage will be at least 90% in 95.51% of calibrations" in " ".join(out.split())
    assert "At least 29 are needed" in call("plan --n 28 --confidence 0.95")[1]
    assert "examples" in call("plan data.npz --confidence 0.5 --alpha 0.3")[1]
    assert "pass the number of examples" in call("plan --confidence 0.95")[2]
    assert (
        "Expected --confidence without --utility"
        in call("calibrate data.npz --confidence 0.9 --utility u.csv --out d.json")[2]
    )
