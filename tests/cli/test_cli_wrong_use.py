"""Wrong use of the command line is one error message, and writes no file."""

import shlex

import numpy as np
import pytest

import pippin
from support.cli_data import GROUPS, LABELS, NAMES, PROBS, write_data, write_grouped
from support.command import run
from support.folders import tree


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """Write files with one error each, and valid ones."""
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
    np.savez(folder / "renamed.npz", probs=PROBS, labels=LABELS, classes=["crop", "sand", "weed"])
    (folder / "cut.npz").write_bytes((folder / "data.npz").read_bytes()[:500])
    (folder / "cut.parquet").write_bytes((folder / "data.parquet").read_bytes()[:-9])
    (folder / "empty.csv").touch()
    (folder / "text.csv").write_text("a,b,label\n0.5,half,a\n")
    (folder / "ragged.csv").write_text("a,b,label\n0.5,0.5,a,b\n")
    (folder / "heading.csv").write_text("a,b,label\n")
    (folder / "file").write_text("a file")
    (folder / "folder").mkdir()
    predictor = pippin.calibrate(PROBS, LABELS, "ip", 0.1, classes=NAMES)
    predictor.save(folder / "p.json")
    predictor.save(folder / "bare.json", scores=False)
    pippin.calibrate(PROBS, LABELS, "ip/ms(variant=sum)", 0.2, classes=NAMES).save(folder / "combination.json")
    pippin.calibrate(PROBS, LABELS, "ip", 0.2, weights=np.ones(60), classes=NAMES).save(folder / "weighted.json")
    pippin.calibrate(PROBS, LABELS, "ip", 0.2, folds=np.arange(60) % 2, classes=NAMES).save(folder / "cross.json")
    np.save(folder / "ones.npy", np.ones(60))
    np.save(folder / "two.npy", np.ones(2))
    write_grouped(folder)
    write_grouped(folder, np.where(GROUPS == "north", "north", "east"), "other-groups")
    np.savez(folder / "few-groups.npz", **classes, probs=PROBS, groups=GROUPS[:5])
    np.savez(folder / "odd-groups.npz", **classes, probs=PROBS, groups=np.linspace(0, 1, 60))
    (folder / "no-group.csv").write_text("a,b,label,group\n0.5,0.5,a,north\n0.5,0.5,b,\n")
    pippin.calibrate(PROBS, LABELS, "ip", 0.2, classes=NAMES, per="class").save(folder / "per-class.json")
    pippin.calibrate(PROBS, LABELS, "ip", 0.2, classes=NAMES, per="group", groups=GROUPS).save(
        folder / "per-group.json"
    )
    (folder / "cut.json").write_text((folder / "p.json").read_text()[:100])
    (folder / "edited.json").write_text((folder / "p.json").read_text().replace('"alpha": 0.1', '"alpha": 0.2'))
    return folder


WRONG = {
    # Wrong data files
    "compare none.npz": "There is no file none.npz",
    "compare folder": "The folder folder holds no .parquet, .csv or .csv.gz file",
    "compare file": "end in .npz, .csv, .csv.gz, .parquet or .npy, got file",
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
    "compare logits.npz": "look like logits: add --logits, or save them as the array logits of an .npz file",
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
    # Wrong options
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
    "compare data.csv --id a --group b": "has no columns 'b' for --group or 'a' for --id, but",
    "compare data.npz data.csv": "Expected several tables that end in .parquet, .csv or .csv.gz, got data.npz",
    "sweep data.npz --score ip": "no parameter to sweep",
    "sweep data.npz --score raps --parameter gamma": "Expected a parameter of raps (lam, k_reg), got 'gamma'",
    "sweep data.npz --score best": "Unknown score 'best'",
    "sweep data.npz --values 0,much": "numbers separated by commas, got '0,much'",
    "sweep data.npz --values ''": "numbers separated by commas",
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
    # Wrong groups and methods
    "compare few-groups.npz": "few-groups.npz: Expected 60 groups, one per row, got shape (5,)",
    "compare odd-groups.npz": "odd-groups.npz: Expected groups that are all whole numbers or all text",
    "compare no-group.csv": "no-group.csv: Row 1 has no group",
    "compare data.npz --scores 'ip per group'": "Expected groups for ip per group, but data.npz has none: add",
    "compare data.npz --scores 'ip per species'": "Cannot read 'per species' in 'ip per species'",
    "compare data.npz --scores 'best per class'": "Unknown score 'best'",
    "compare data.npz --scores 'per class'": "Unknown score 'per'",
    "calibrate data.npz --per species --out new.json": "'species' is not one of 'class', 'group'",
    "calibrate data.npz --per group --out new.json": "Expected groups for --per 'group', but data.npz has none",
    "calibrate grouped.npz --per group --unseen all --out new.json": "'all' is not one of 'error', 'marginal'",
    "calibrate data.npz --score 'ip per class' --out new.json": "Expected --score to be a score, got 'ip per cl",
    "predict per-group.json data.csv --out new.csv": "add an array groups (.npz) or a column group (.csv, .parquet)",
    "predict per-group.json other-groups.csv --out new.csv": "is in the group 'east', which has no calibration rows",
    "evaluate per-group.json data.csv": "add an array groups (.npz) or a column group (.csv, .parquet)",
    "evaluate per-group.json other-groups.csv": "or with --unseen marginal",
    "predict p.json data.npz --out new.csv --p-values new.jsonl": "Expected --p-values to end in .csv or .parquet",
    "predict p.json data.npz --out new.csv --p-values none/p.csv": "Expected --p-values in a folder that exists",
    "predict p.json data.npz --out new.csv --p-values new.csv": "Expected --p-values to be a file of its own",
    "predict p.json data.csv --out new.csv --p-values data.csv": "Expected --p-values to be a file of its own",
    "predict bare.json data.csv --out new.csv --p-values p.csv": "saved without its calibration scores",
    # Wrong predictor files
    "predict cross.json data.csv --out new.csv": "takes one matrix of probabilities, got one of several models: use it",
    "evaluate cross.json data.csv": "that takes one matrix of probabilities, got one of several models",
    "predict weighted.json data.csv --out new.csv": "Expected the weights of the rows, got none: pass --weights",
    "predict weighted.json data.csv --out new.csv --weights data.csv": "Expected weights in a file that ends in .npy",
    "predict weighted.json data.csv --out new.csv --weights two.npy": "data.csv: Expected 60 weights, one per row, got",
    "evaluate p.json data.csv --weights data-labels.npy": "a predictor that takes weights, got one without: leave",
    "evaluate combination.json data.csv --weights data-labels.npy": "that takes weights, got one without: leave",
    "predict combination.json data.csv --out new.csv --p-values p.csv": "so no p-value belongs to a class",
    "export weighted.json --c new.h": "Expected a predictor with finitely many thresholds, got ConformalPredictor(ip",
    "export weighted.json --onnx new.onnx": "so calibrate one for all, per class, kind, cluster or group",
    "calibrate data.npz --score 'ip/ms most' --out new.json": "Cannot read 'most' in 'ip/ms most': write ip/ms",
    "calibrate data.npz --score ip/ms --per class --out new.json": "Expected --per without ip/ms, got both",
    "calibrate data.npz --weights ones.npy --per class --out new.json": "Expected --weights without --per, got both",
    "calibrate data.npz --weights ones.npy --score ip/ms --out new.json": "Expected --weights without ip/ms, got both",
    "calibrate data.npz --weights ones.npy --no-scores --out new.json": "got another kind of predictor: leave it out",
    "calibrate data.npz --weights none.npy --out new.json": "none.npy",
    "calibrate data.npz --units --out new.json": "Expected groups for --units, but data.npz has none: add an array",
    "calibrate data.npz --units --per class --out new.json": "Expected --units without --per, got both",
    "predict none.json data.npz --out new.csv": "none.json",
    "predict cut.json data.npz --out new.csv": "cut.json is no predictor file, or is damaged",
    "predict edited.json data.npz --out new.csv": "edited.json was edited or damaged",
    "predict data.npz p.json --out new.csv": "data.npz is no predictor file",
    "predict folder data.npz --out new.csv": "folder",
    "predict p.json two.npz --out new.csv": "two.npz: Expected 3 columns",
    "predict p.json renamed.npz --out new.csv": "renamed.npz: Expected a column for each class (crop, soil, weed), got",
    "evaluate p.json renamed.npz": "got none called 'soil' but 'sand': rename the columns",
    "evaluate p.json two.npz": "two.npz: Expected 3 columns",
    "evaluate edited.json data.npz": "edited.json was edited or damaged",
    # Wrong output files
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
    "predict p.json data.csv --out data.csv": "Expected --out to be a file of its own",
    "compare data.npz --splits 2 --out /proc/new": "/proc",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_use_is_one_sentence_and_leaves_nothing(line, call, wrong, monkeypatch):
    """Wrong use gives exit code 2 and one line on standard error, and neither creates nor changes a file."""
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
    monkeypatch.setattr("pippin._compare.report_data.study", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call("compare data.npz")
    assert not (folder / "out").exists()


def test_a_full_memory_is_one_sentence(call, folder, monkeypatch):
    def fill(*_, **__):
        raise MemoryError

    monkeypatch.setattr("pippin._compare.report_data.study", fill)
    code, _, err = call("compare data.npz")
    assert code == 2
    assert err.startswith("pippin: Not enough memory")
