"""Written sets and tables: they are read back unchanged, and files are written whole."""

import csv
import json
import re
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import polars
import pytest

import pippin
from pippin.tables.writing import sets_table, write_table

AWKWARD = ("plain", "pipe|", "back\\slash", 'quote"', "comma,", "line\nend", "", " space ", "\\|", "🌽")


def sets_of(classes):
    """Return prediction sets of all sizes over these classes."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(0, len(classes) + 1, 50)
    members = np.concatenate([rng.permutation(len(classes))[:size] for size in sizes])
    return pippin.PredictionSets(sizes, members, classes)


def split_labels(text, size):
    """Split the labels of a .csv cell at unescaped `|`."""
    if size == 0:
        return []
    found = re.findall(r"((?:[^\\|]|\\.)*)(?:\||$)", text, re.DOTALL)[:size]
    return [re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in found]


@pytest.mark.parametrize("classes", [AWKWARD, range(7), (30, 10, 20)], ids=["names", "columns", "numbers"])
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_sets_are_read_back_unchanged(ending, classes, tmp_path):
    path, sets = tmp_path / f"sets.{ending}", sets_of(classes)
    write_table(path, sets_table(sets, {}, joined=ending == "csv"))
    if ending == "csv":
        with open(path, newline="", encoding="utf-8") as stream:
            header, *lines = csv.reader(stream)
        assert header == ["row", "size", "labels"]
        back = [(int(row), int(size), split_labels(text, int(size))) for row, size, text in lines]
    elif ending == "parquet":
        back = polars.read_parquet(path).select("row", "size", "labels").rows()
    else:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        back = [(r["row"], r["size"], r["labels"]) for r in records]
    wanted = [(i, len(names), names) for i, names in enumerate(sets.labels())]
    if ending == "csv":
        wanted = [(i, size, [str(name) for name in names]) for i, size, names in wanted]
    assert back == wanted


@pytest.mark.parametrize("name", [date(2026, 5, 1), datetime(2026, 5, 1, 12, 30), Decimal("1.50"), time(12, 30)])
def test_ids_that_json_has_no_type_for_are_text_in_jsonl(name, tmp_path):
    ids = {"when": np.array([name], dtype=object)}
    write_table(tmp_path / "sets.jsonl", sets_table(pippin.PredictionSets.from_labels([[1]], range(2)), ids, False))
    assert json.loads((tmp_path / "sets.jsonl").read_text())["when"] == str(name)


def test_tables_are_written_whole(tmp_path):
    table = polars.DataFrame({"x": [0.1, float("inf")], "y": ["a", 'b"']})
    for ending, read in (("csv", polars.read_csv), ("parquet", polars.read_parquet)):
        write_table(tmp_path / f"t.{ending}", table)
        assert read(tmp_path / f"t.{ending}").equals(table)
    with pytest.raises(OSError, match=r"Cannot write .*t.csv \(No such file or directory\): choose another place"):
        write_table(tmp_path / "none" / "t.csv", table)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.parquet"]
