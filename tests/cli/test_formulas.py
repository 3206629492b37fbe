"""Names that a spreadsheet takes for formulas are text in every .csv file."""

import csv
import io

import numpy as np
import polars
import pytest

import pippin
from pippin.tables.writing import encode_table
from support.rows import drawn_labels

NAMES = ("=cmd|' /C calc'!A0", "@sum", "-none", "-1", "+1.5", "＝1+1", "－none", "＋1", "＠sum")
SAFE = tuple(name if name in ("-1", "+1.5") else f"'{name}" for name in NAMES)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """100 rows of five classes, a predictor and a utility with such names for its actions; also the current folder."""
    monkeypatch.chdir(tmp_path)
    probs = np.random.default_rng(0).dirichlet(np.ones(9), 100)
    labels = drawn_labels(probs, np.random.default_rng(2))
    frame = polars.DataFrame(probs, schema=list(NAMES)).with_columns(
        label=polars.Series([NAMES[k] for k in labels]), id=polars.Series([f"={i}.png" for i in range(100)])
    )
    frame.write_parquet("data.parquet")
    pippin.calibrate(probs, labels, "ip", 0.2, classes=NAMES).save("p.json")
    values = np.random.default_rng(1).normal(size=(9, 9))
    with open("u.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["", *NAMES], *([a, *row] for a, row in zip(NAMES, values, strict=True))])
    return tmp_path


def column(path, name):
    with open(path, newline="", encoding="utf-8") as stream:
        return [row[name] for row in csv.DictReader(stream)]


def test_labels_and_actions_are_text_unless_asked(here, call):
    """Without --formulas, only names in .csv files are escaped; ids and other formats are unchanged."""

    def unpiped(text):
        return text.replace("\\|", "|")

    for line in ("predict p.json", "decide p.json --utility u.csv --fallback @sum"):
        name = "labels" if line.startswith("predict") else "action"
        for out in ("plain.csv", "raw.csv --formulas", "sets.parquet"):
            assert call(f"{line} data.parquet --id id --out {out}")[0] == 0
        raw, plain = (list(map(unpiped, column(path, name))) for path in ("raw.csv", "plain.csv"))
        assert {cell for cell in plain if cell.startswith(tuple("=@-+＝＠－＋"))} == {"-1", "+1.5"} & set(raw)
        assert [cell.removeprefix("'") for cell in plain] == raw
        assert any(cell.startswith("'") for cell in plain)
        assert column("plain.csv", "id")[3] == "=3.png"
        values = polars.read_parquet("sets.parquet")[name].explode() if name == "labels" else raw
        assert set(values) <= {*NAMES, None}
    code, out, _ = call("decide p.json data.parquet --id id --utility u.csv --fallback @sum --out -")
    assert code == 0
    assert not {line.split(",")[2][:1] for line in out.splitlines()[1:] if line.count(",") == 3} & set("=@")


@pytest.mark.parametrize("first", ["\t", "\r", "\n", "\r\n", "＝", "＋", "－", "＠", *"=+-@"])
def test_whatever_begins_a_formula(first):
    """Names are escaped that begin with =, +, - or @, also as full-width characters, or with white space."""
    names = [f"{first}cmd|' /C calc'!A0", f"{first}1", "1=", "a@b"]
    written = encode_table(polars.DataFrame({"action": names, "id": names}), ".csv").decode()
    found = list(csv.DictReader(io.StringIO(written, newline="")))
    numbers = [first in "+-" and name.endswith("1") for name in names[:2]]
    shown = [name if is_number else f"'{name}" for name, is_number in zip(names[:2], numbers, strict=True)]
    assert [row["action"] for row in found] == [*shown, "1=", "a@b"]
    assert [row["id"] for row in found] == names


def test_the_tables_of_a_comparison(here, call, no_figures):
    """The .csv tables of `compare` escape names in cells and headers."""
    assert call("compare data.parquet --id id --scores ip --utility u.csv --splits 3 --out out")[0] == 0
    assert set(column("out/classes.csv", "class")) == set(SAFE)
    with open("out/decisions.csv", newline="", encoding="utf-8") as stream:
        header = next(csv.reader(stream))
    assert set(SAFE) <= set(header)
    for path in (here / "out").glob("*.csv"):
        with open(path, newline="", encoding="utf-8") as stream:
            cells = {cell for row in csv.reader(stream) for cell in row}
        assert not {cell for cell in cells if cell.startswith(("=", "@", "-none"))}
