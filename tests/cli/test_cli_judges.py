"""Judgments printed by commands: coverage against its level, causes of empty sets, and recommended scores."""

import shlex

import numpy as np
import polars
import pytest

import pippin
from pippin._theory.level import warn_of_level
from support.confused_rows import confused_rows

EXAMPLE = pippin.load_example()


@pytest.fixture
def halves(tmp_path, monkeypatch):
    """Write shuffled rows of the example: a calibration half, a test half, and a test half with wrong labels."""
    monkeypatch.chdir(tmp_path)
    order = np.random.default_rng(0).permutation(len(EXAMPLE.labels))
    old, new = np.array_split(order, 2)
    for name, rows in (("old", old), ("new", new)):
        labels = np.array(EXAMPLE.classes)[EXAMPLE.labels[rows]]
        np.savez(f"{name}.npz", probs=EXAMPLE.probs[rows], labels=labels, classes=EXAMPLE.classes)
    shifted = np.where(np.random.default_rng(1).random(len(new)) < 0.06, 0, EXAMPLE.labels[new])
    labels = np.array(EXAMPLE.classes)[shifted]
    np.savez("shifted.npz", probs=EXAMPLE.probs[new], labels=labels, classes=EXAMPLE.classes)
    return tmp_path


def test_evaluate_judges_coverage(halves, call):
    """`evaluate` states if coverage is as guaranteed, prints the accuracy, and warns of calibration rows."""
    assert call("calibrate old.npz --out p.json")[0] == 0
    _, out, err = call("evaluate p.json new.npz")
    assert out.count("where 90% were requested, as promised: within") == 1
    assert f"accuracy     {np.mean(_best('new') == _labels('new')):.4f}" in out
    assert err == ""
    _, out, _ = call("evaluate p.json shifted.npz")
    assert "standard errors below; causes, the most likely first: training rows used for calibration, drift" in out
    _, _, err = call("evaluate p.json old.npz")
    assert "About 2,493 of these 2,493 rows seem to be calibration rows of the predictor" in err


def _labels(name):
    with np.load(f"{name}.npz") as kept:
        return kept["labels"]


def _best(name):
    with np.load(f"{name}.npz") as kept:
        return np.array(EXAMPLE.classes)[kept["probs"].argmax(axis=1)]


def test_empty_sets_are_explained(halves, call, no_figures):
    """calibrate, predict, evaluate and compare explain empty sets by the accuracy, with a remedy."""
    _, out, _ = call("calibrate old.npz --alpha 0.3 --out p.json")
    right = f"{100 * np.mean(_best('old') == _labels('old')):.3g}"
    assert f"is right {right}% of the time, more often than the 70% that alpha=0.3 asks for, so some sets will" in out
    assert out.endswith("be empty: pass --alpha 0.21 or less, or predict with --non-empty.\n")
    _, out, _ = call("predict p.json new.npz --out s.csv")
    assert "% of the sets are empty: the classifier is right more often than the 70% requested" in out
    _, out, _ = call("evaluate p.json new.npz")
    assert "% of the sets are empty: ask for alpha=0.19 or less" in " ".join(out.split())
    _, out, _ = call("compare old.npz --alpha 0.3 --splits 20 --scores ip --out out")
    text = " ".join(out.split())
    assert "of the sets are empty: ask for alpha=0.21 or less, or use sets that are never empty" in text
    assert "--alpha 0.3 --out predictor.json Then, so that no set is empty: pippin predict predictor.json new" in text
    _, out, _ = call("calibrate old.npz --alpha 0.05 --out p.json")
    assert "empty" not in out


def test_training_rows_are_suspected(halves, call, no_figures):
    """Each command warns once of probable training rows, and gives advice that can be followed."""
    np.savez("trained.npz", probs=EXAMPLE.probs, labels=EXAMPLE.probs.argmax(axis=1))
    suspicion = "pippin: warning: All 4,986 rows are classified correctly, although their probabilities predict 525"
    for line in ("calibrate trained.npz --out p.json", "evaluate p.json trained.npz", "compare trained.npz --splits 9"):
        code, out, err = call(line)
        assert (code, err.count(suspicion)) == (0, 1), err
        text = " ".join(out.split())
        assert "right 100% of the time" in text
        assert "empty: use other rows if it was trained on these, otherwise" in text
        assert "or less" not in text
    assert "predictor.json new.csv --non-empty" in text


def test_another_order_of_columns_is_suspected(halves, call, no_figures):
    np.savez("reversed.npz", probs=EXAMPLE.probs[:, ::-1], labels=EXAMPLE.labels)
    with open("actions.csv", "w", encoding="utf-8") as stream:
        stream.write("," + ",".join(map(str, range(12))) + "\n")
        stream.writelines(f"act{k}," + ",".join(str(int(k == j)) for j in range(12)) + "\n" for k in range(12))
    for line in (
        "calibrate reversed.npz --out p.json",
        "evaluate p.json reversed.npz",
        "compare reversed.npz --splits 9",
        "tune reversed.npz --out q.json",
        "calibrate reversed.npz --utility actions.csv --out d.json",
    ):
        code, _, err = call(line)
        assert (code, err.count("if the columns were in another order")) == (0, 1), err


def test_the_report_shows_the_suspicion(halves, call, blank_figures):
    for name, labels in (("wrong", EXAMPLE.labels), ("right", 11 - EXAMPLE.labels)):
        np.savez(f"{name}.npz", probs=EXAMPLE.probs[:, ::-1], labels=labels)
        assert call(f"compare {name}.npz --splits 3 --scores ip --out {name}")[0] == 0
        page = (halves / name / "report.html").read_text(encoding="utf-8")
        assert page.count("if the columns were in another order") == (name == "wrong")


def test_an_alpha_that_is_a_coverage():
    with pytest.warns(UserWarning, match=r"0.95 asks for 5% coverage. Did you mean 0.05\?"):
        pippin.calibrate(EXAMPLE.probs, EXAMPLE.labels, alpha=0.95)
    with pytest.warns(UserWarning, match="alpha is the share of errors"):
        pippin.compare(EXAMPLE.probs, EXAMPLE.labels, "ip", 0.9, splits=2)
    warn_of_level(0.5)


def test_the_command_to_copy_works(halves, call, no_figures):
    """The command printed by `compare` calibrates the recommended score."""
    polars.DataFrame(EXAMPLE.probs[:800], schema=list(EXAMPLE.classes)).with_columns(
        truth=polars.Series([EXAMPLE.classes[i] for i in EXAMPLE.labels[:800]]), photo=polars.Series(range(800))
    ).write_csv("d.csv")
    _, out, _ = call("compare d.csv --label truth --id photo --splits 20 --alpha 0.2 --out out")
    line = next(line for line in out.splitlines() if line.startswith("To use it at this alpha: pippin "))
    assert call(line.removeprefix("To use it at this alpha: pippin "))[0] == 0
    taken = pippin.load("predictor.json")
    assert (taken.alpha, f"Take {taken.score}: " in " ".join(out.split())) == (0.2, True)
    assert shlex.split(line)[8:12] == ["d.csv", "--label", "truth", "--id"]


def test_tune(halves, call):
    """The command chooses the score of `pippin.tune`, and calibrates it on the remaining rows."""
    code, out, err = call("tune old.npz --prefer singletons --max-size 1.5 --splits 20 --out p.json")
    assert (code, err) == (0, "")
    with np.load("old.npz") as kept:
        tuned = pippin.tune(kept["probs"], kept["labels"], max_size=1.5, splits=20, classes=EXAMPLE.classes)
    found = pippin.load("p.json")
    assert (found.score, found.threshold) == (tuned.score, tuned.calibrate().threshold)
    assert f"{tuned.score} has the most singletons at a size of at most 1.5: 65% singletons at size 1.49.\n" in out
    assert str(tuned) in out
    limited = call("tune old.npz --splits 20 --out p.json")[1]
    assert "socop has the most singletons at a size of at most 1.1 times the smallest: 69% singletons at" in limited
    assert "has the most singletons at a size" not in call("tune old.npz --max-size inf --splits 20 --out p.json")[1]
    assert call("tune old.npz --prefer luck --out q.json")[0] == 2


def test_groups_that_are_ids(halves, call, no_figures):
    """If nearly every row is its own group, a warning replaces coverage by group."""
    with np.load("old.npz") as kept:
        ids = [f"{i}.png" for i in range(len(kept["labels"]))]
        np.savez("ids.npz", **kept, groups=ids)
    code, out, err = call("compare ids.npz --splits 5 --scores ip --out out")
    assert (code, "worst group" in out) == (0, False)
    assert "such as '0.png', are ids rather than groups: a group is what several rows share" in err
    assert call("calibrate ids.npz --per group --out p.json")[0] == 2
    with pytest.warns(UserWarning, match="thresholds are infinite"):
        made = pippin.calibrate(EXAMPLE.probs[:30], EXAMPLE.labels[:30], groups=ids[:30])
    assert "all its thresholds are infinite, so every set contains all classes" in made.describe()


@pytest.mark.parametrize("how", ["split", "mixture", "cross"])
def test_a_sharpened_predictor(call, tmp_path, how):
    """A predictor calibrated with --sharpen equals that of Python, and works in predict and evaluate."""
    probs, labels = confused_rows(600)
    np.savez(tmp_path / "d.npz", probs=probs, labels=labels)
    line = f"calibrate {tmp_path}/d.npz --score socop --alpha 0.1"
    code, out, _ = call(f"{line} --sharpen {how} --out {tmp_path}/p.json")
    assert code == 0
    assert (
        pippin.load(tmp_path / "p.json").content()
        == pippin.calibrate(probs, labels, "socop", 0.1, sharpen=how).content()
    )
    if how == "split":
        assert "behind a sharpener fitted on 300 rows" in out
    assert " predicted as " in out
    code, out, _ = call(f"evaluate {tmp_path}/p.json {tmp_path}/d.npz")
    assert code == (2 if how == "cross" and "folds" in pippin.load(tmp_path / "p.json").takes else 0)
    assert call(f"predict {tmp_path}/p.json {tmp_path}/d.npz --out {tmp_path}/sets.csv")[0] == 0
    code, _, err = call(f"export {tmp_path}/p.json --c {tmp_path}/head.h")
    assert code == (0 if how == "split" else 2)
    assert how == "split" or "calibrate with sharpen='split', or with a fitted sharpener" in err


def test_options_of_sharpening(call, tmp_path):
    """The options select SOCOP's parameter mu as in Python; a missing option is one error message."""
    probs, labels = confused_rows(600)
    np.savez(tmp_path / "d.npz", probs=probs, labels=labels)
    line = f"calibrate {tmp_path}/d.npz --score socop --out {tmp_path}/p.json"
    assert call(f"{line} --sharpen split --learning-fraction 0.4 --max-size 1.5 --seed 3")[0] == 0
    split = "split(learning_fraction=0.4)"
    expected = pippin.calibrate(probs, labels, "socop(max_size=1.5)", 0.1, sharpen=split, seed=3)
    assert pippin.load(tmp_path / "p.json").content() == expected.content()
    for options, words in (
        ("--sharpen sideways", "'sideways' is not one of 'split', 'mixture', 'cross'"),
        ("--learning-fraction 0.4", "Expected --sharpen split with --learning-fraction, got none"),
        ("--max-size 2 --sharpen cross", "Expected --sharpen split with --max-size, got cross"),
        ("--min-singletons 0.5", "Expected --sharpen split with --min-singletons, got none"),
        ("--features", "Expected --sharpen with --features, got none"),
        ("--sharpen split --features", "Expected an .npz file with an array features"),
        ("--score ip --sharpen split --max-size 2", "Expected socop with --max-size or --min-singletons, got ip"),
        ("--sharpen mixture --per class", "Expected sharpen='mixture' for one guarantee over all rows"),
    ):
        code, out, err = call(f"{line} {options}")
        assert (code, out, err.count("\n"), words in err) == (2, "", 1, True), err
