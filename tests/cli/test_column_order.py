"""Every command selects the columns of the classes by name, so that their order in a table does not matter."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pippin
from support.cli_data import LABELS, NAMES, PROBS

TURN = [2, 0, 1]
TURNED = list(NAMES[TURN])


@pytest.fixture
def turned(folder, call):
    """Predictors of data.npz, and its rows with the columns in another order, in every format."""
    frame = pl.read_csv("data.csv").select("label", *TURNED)
    frame.write_csv("turned.csv")
    frame.write_parquet("turned.parquet")
    by_number = np.argsort(TURN)[LABELS]
    np.savez("turned.npz", probs=PROBS[:, TURN], labels=by_number, classes=TURNED)
    frame.with_columns(label=pl.Series(by_number)).write_csv("numbered.csv")
    frame.with_columns(label=pl.Series(by_number.astype(float))).write_csv("floats.csv")
    (folder / "tables").mkdir()
    pl.read_csv("data.csv")[:25].write_csv("tables/a.csv")
    frame[25:].write_csv("tables/b.csv")
    (folder / "others").mkdir()
    frame[:25].write_parquet("others/a.parquet")
    pl.read_csv("data.csv")[25:].write_parquet("others/b.parquet")
    (folder / "utility.csv").write_text("action,crop,soil,weed\nspray,-2,0,1\nwait,1,0.5,-1\n")
    pippin.calibrate(PROBS, LABELS, "repip", 0.3, classes=NAMES).save("p.json")
    assert call("calibrate data.npz --utility utility.csv --alpha 0.3 --out d.json")[0] == 0
    return call


EVERY = ["turned.csv", "turned.parquet", "turned.npz", "numbered.csv", "floats.csv", "tables", "others"]


@pytest.mark.parametrize("name", EVERY)
def test_predict(turned, name):
    for given, ending in (("data.npz", "0"), (name, "1")):
        code, _, err = turned(f"predict p.json {given} --out sets{ending}.csv --p-values p{ending}.csv")
        assert (code, err) == (0, "")
    for file in ("sets", "p"):
        assert Path(f"{file}1.csv").read_text() == Path(f"{file}0.csv").read_text()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("predictor", ["p.json", "d.json", "p.json --utility utility.csv --fallback wait"])
def test_evaluate(turned, name, predictor):
    """`evaluate` gives equal results for columns in another order, with labels as names or as column numbers."""
    files, options = predictor.partition(" ")[::2]
    outputs = []
    for given in ("data.npz", name):
        code, out, err = turned(f"evaluate {files} {given} {options}")
        assert code == 0
        outputs.append((out.replace(f"On {given}:", ""), err))
    assert outputs[1] == outputs[0]


@pytest.mark.parametrize("name", EVERY)
def test_decide(turned, name):
    for given, ending in (("data.npz", "0"), (name, "1")):
        assert turned(f"decide d.json {given} --out a{ending}.csv")[0] == 0
    assert Path("a1.csv").read_text() == Path("a0.csv").read_text()


@pytest.mark.parametrize("reference", ["", "--reference turned.npz"])
def test_monitor(turned, reference):
    """`monitor` gives equal results for columns in another order, with labels, or without labels."""
    if reference:
        for file in ("data.csv", "turned.csv"):
            pl.read_csv(file).drop("label").write_csv(file)
    first, second = (
        turned(f"monitor p.json {given} {reference} --seed 1 --every 7") for given in ("data.csv", "turned.csv")
    )
    assert first == second
    assert first[0] == 0


def test_monitor_needs_names_as_labels(turned):
    """`monitor` refuses whole numbers as labels of reordered columns: they could mean a class or a column."""
    code, _, err = turned("monitor p.json numbered.csv")
    assert code == 2
    assert "numbered.csv: Row 0 has the label" in err
    assert "which is not one of the 3 classes (crop, soil, weed): write the name of the class" in err


def test_other_columns_are_named(turned):
    """A missing class or an additional column is an error of one sentence with a remedy."""
    frame = pl.read_csv("turned.csv")
    frame.rename({"soil": "sand"}).write_csv("sand.csv")
    code, _, err = turned("predict p.json sand.csv --out new.csv")
    assert code == 2
    assert "got none called 'soil' but 'sand': rename the columns" in err
    frame.with_columns(weight=pl.lit(0.0)).write_csv("more.csv")
    for command in ("predict p.json more.csv --out new.csv", "evaluate p.json more.csv", "monitor p.json more.csv"):
        code, _, err = turned(command)
        assert code == 0
        assert "more.csv: ignored the column 'weight', which holds no class probabilities" in err


def test_tables_in_python(turned):
    """Sets of `pippin.scan` are in the order of the predictor's classes, and its labels are those of the tables."""
    predictor = pippin.calibrate(PROBS, LABELS, "aps", 0.3, classes=NAMES, seed=0)  # its rows are not recognized
    wanted = predictor.predict(PROBS, seed=1)
    for tables in ("turned.parquet", "numbered.csv", "tables", "others"):
        scan = pippin.scan(tables)
        sets = predictor.predict(scan, seed=1)
        assert np.array_equal(sets.mask, wanted.mask)
        assert str(pippin.evaluate(sets, scan)) == str(pippin.evaluate(wanted, LABELS))
        assert str(pippin.evaluate(predictor, scan, probs=PROBS, seed=1)) == str(
            pippin.evaluate(predictor, LABELS, probs=PROBS, seed=1)
        )
