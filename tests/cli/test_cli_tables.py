"""Commands on folders of tables: files and output equal those on one table, also after kill -9."""

import copy
import hashlib
import json
import os
import random
import shutil
from importlib import import_module

import numpy as np
import polars
import pytest

import pippin
from pippin.tables import scanning
from support.cli_data import GROUPS, LABELS, NAMES, PROBS
from support.file_fuzzing import DEEP, change
from support.killed_processes import killed_in_turn

MODULES = ["pippin.cli", "polars", "numba", "support.small_parts"]


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Write a table of 60 rows, and the same rows in a folder of three tables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scanning, "BATCH", 8)
    monkeypatch.setattr(import_module("pippin.cli.predict"), "PART", 16)
    frame = polars.DataFrame(PROBS, schema=list(NAMES)).with_columns(
        label=polars.Series(NAMES[LABELS]),
        group=polars.Series(GROUPS),
        photo=polars.Series([f"{i}.png" for i in range(60)]),
    )
    frame.write_parquet("whole.parquet")
    (tmp_path / "parts").mkdir()
    frame[:25].write_parquet("parts/a.parquet")
    frame[25:26].select(reversed(frame.columns)).write_csv("parts/b.csv")
    frame[26:].write_parquet("parts/c.parquet")
    return tmp_path


@pytest.mark.parametrize(
    "options", ["", "--per class", "--per group --unseen marginal", "--score aps --seed 3", "--no-scores"]
)
def test_the_same_predictor(tables, call, options):
    """Calibration on a folder of tables gives the predictor of one table; only the name of the data differs."""
    reported = []
    for data in ("whole.parquet", "parts"):
        code, out, err = call(f"calibrate {data} --id photo {options} --out {data}.json")
        assert (code, err) == (0, "")
        reported.append(out.replace(data, "data"))
    assert pippin.load("whole.parquet.json").checksum == pippin.load("parts.json").checksum
    assert reported[0] == reported[1]


def test_the_same_comparison_with_the_rows_on_disk(tables, call, monkeypatch, no_figures):
    """A comparison with memory-mapped rows equals that with rows in memory."""
    made = []
    for data in ("whole.parquet", "parts", "parts/a.parquet parts/b.csv parts/c.parquet"):
        monkeypatch.setattr(scanning, "IN_MEMORY", 1 << 28 if data == "whole.parquet" else 500)
        out = tables / f"out{len(made)}"
        assert call(f"compare {data} --id photo --scores 'all,pip per class' --splits 20 --out {out}")[0] == 0
        made.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert made[0] == made[1] == made[2]
    assert "results.parquet" in made[0]


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("score", ["ip", "aps", "pip --per group"])
def test_the_same_sets(tables, call, ending, score):
    """Sets and ids are equal row by row if the output is written in parts; temporary files are removed."""
    call(f"calibrate whole.parquet --id photo --score {score} --seed 1 --out p.json")
    reported = []
    for data in ("whole.parquet", "parts"):
        code, out, err = call(f"predict p.json {data} --id photo --seed 5 --out sets.{ending}")
        assert (code, err) == (0, "")
        found = tables / f"sets.{ending}"
        reported.append((out, polars.read_parquet(found) if ending == "parquet" else found.read_text()))
        found.unlink()
    if ending == "parquet":
        assert reported[0][1].equals(reported[1][1])
        assert reported[0][1].columns == ["photo", "row", "size", "labels"]
    else:
        assert reported[0][1] == reported[1][1]
    assert reported[0][0] == reported[1][0]
    assert not list(tables.glob(".*"))


def test_the_same_on_standard_output_and_p_values(tables, call):
    call("calibrate whole.parquet --id photo --score aps --seed 1 --out p.json")
    reported = [call(f"predict p.json {data} --id photo --seed 5 --out -") for data in ("whole.parquet", "parts")]
    assert reported[0][0] == 0
    assert reported[0] == reported[1]
    assert call("predict p.json whole.parquet --id photo --seed 5 --out - --p-values p.csv")[0] == 0
    first = (tables / "p.csv").read_text()
    assert call("predict p.json parts --id photo --seed 5 --out sets.csv --p-values p.csv")[0] == 0
    assert (tables / "p.csv").read_text() == first


@pytest.mark.parametrize("options", ["--score ip", "--score aps --seed 2 --per group"])
def test_the_same_judgement(tables, call, options):
    """`evaluate` prints equal numbers, and the same warning about calibration rows, for a folder and for one table."""
    call(f"calibrate whole.parquet --id photo {options} --out p.json")
    reported = [call(f"evaluate p.json {data} --id photo --seed 3") for data in ("whole.parquet", "parts")]
    assert reported[0][0] == 0
    assert reported[0][1].replace("whole.parquet", "parts") == reported[1][1]
    assert reported[0][2] == reported[1][2]


@pytest.mark.parametrize("kinds", [("csv", "csv"), ("csv", "parquet"), ("parquet", "csv")], ids="-".join)
@pytest.mark.parametrize("names", [("2", "10"), ("2", "b"), ("02", "10")], ids="-".join)
def test_groups_are_numbers_if_all_tables_have_numbers(tables, call, kinds, names):
    """Groups are numbers if all rows of all tables hold whole numbers, else text."""
    groups = [names[0]] * 30 + [names[1]] * 30  # so that the batches of a table differ
    frame = polars.read_parquet("whole.parquet").drop("photo").with_columns(group=polars.Series(groups))
    (tables / "halves").mkdir()
    frame.write_csv("one.csv")
    for part, kind, name in ((frame[:30], kinds[0], "a"), (frame[30:], kinds[1], "b")):
        path = f"halves/{name}.{kind}"
        part.write_csv(path) if kind == "csv" else part.write_parquet(path)
    made, reported = [], []
    for data in ("one.csv", "halves"):
        code, out, _ = call(f"calibrate {data} --per group --alpha 0.3 --out p.json")
        assert (code, call("predict p.json one.csv --out far.csv")[0]) == (0, 0)
        made.append((pippin.load("p.json").checksum, (tables / "far.csv").read_text()))
        reported.append([out, call(f"evaluate p.json {data}")[1], call(f"calibrate {data} --units --out u.json")[1]])
    assert made[0] == made[1]
    assert reported[0] == [line.replace("halves", "one.csv") for line in reported[1]]
    assert pippin.load("p.json").groups == ((2, 10) if names == ("2", "10") else tuple(sorted(names)))


def test_ids_are_no_groups_in_batches_either(tables, call):
    """A group column that holds ids is an error for thresholds per group; otherwise coverage by group is left out."""
    frame = polars.read_parquet("whole.parquet").drop("group").rename({"photo": "group"})
    (tables / "ids").mkdir()
    frame.write_csv("one.csv")
    frame[:25].write_csv("ids/a.csv")
    frame[25:].write_parquet("ids/b.parquet")
    call("calibrate one.csv --out p.json")
    said = "60 groups of 60 rows, such as '0.png', are ids rather than groups: a group is what several rows share"
    for data in ("one.csv", "ids"):
        code, _, err = call(f"calibrate {data} --per group --out q.json")
        assert (code, said in err) == (2, True)
        code, out, err = call(f"evaluate p.json {data}")
        assert (code, said in err, "0.png" in out) == (0, True, False)
    assert not (tables / "q.json").exists()


def test_what_cannot_be_divided_is_read_at_once(tables, call):
    for options in ("--score ip/ms --seed 1", "--score ip --weights w.npy"):
        np.save("w.npy", np.linspace(1, 2, 60))
        for data in ("whole.parquet", "parts"):
            assert call(f"calibrate {data} --id photo {options} --out {data}.json")[0] == 0
        assert pippin.load("whole.parquet.json").checksum == pippin.load("parts.json").checksum
    more = "--weights w.npy"
    for data in ("whole.parquet", "parts"):
        assert call(f"predict parts.json {data} --id photo {more} --out {data}.csv")[0] == 0
    assert (tables / "whole.parquet.csv").read_text() == (tables / "parts.csv").read_text()


def read_progress(folder):
    return json.loads((folder / "progress.json").read_text().rpartition("\n")[0])


def write_progress(folder, text):
    """Write the record of the parts with its checksum."""
    (folder / "progress.json").write_text(f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_killed_anywhere_it_goes_on(tables, call, ending):
    """A run without --seed, killed at each step and resumed, writes one consistent file."""
    call("calibrate whole.parquet --id photo --score aps --seed 1 --out p.json")
    words = ("predict", "p.json", "parts", "--id", "photo", "--out", f"sets.{ending}")
    events = [
        ("pippin.cli.outputs:PartFiles.add", 1, "before"),
        ("pippin.cli.outputs:PartFiles.add", 2, "after"),
        ("write", 1, "before"),
        ("pippin.cli.outputs:PartFiles.join", 1, "before"),
        ("os:replace", 1, "before"),
    ]
    assert killed_in_turn(events, *words, modules=MODULES) == [9] * 5
    folder = tables / f".sets.{ending}.pieces"
    assert len(list((folder / "0").glob("[0-9]*"))) == 4
    assert not (tables / f"sets.{ending}").exists()
    progress = read_progress(folder)
    drawn = progress["seed"]
    if ending == "csv":  # a mark, which stays if the finished pieces are not made again
        first = min((folder / "0").glob("[0-9]*"))
        first.write_bytes(first.read_bytes().replace(b"photo", b"PHOTO"))
        progress["parts"][0][1][0] = hashlib.sha256(first.read_bytes()).hexdigest()
        write_progress(folder, json.dumps(progress))
    assert call(" ".join(words))[0] == 0
    found = tables / f"sets.{ending}"
    assert ending != "csv" or found.read_bytes().startswith(b"PHOTO")
    stopped = found.read_bytes().replace(b"PHOTO", b"photo")
    found.unlink()
    assert not list(tables.glob(".sets*"))
    assert call(" ".join([*words, "--seed", str(drawn)]))[0] == 0
    assert found.read_bytes() == stopped


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:100], lambda data: bytes(len(data)), None])
def test_a_part_that_a_power_failure_damaged_is_made_again(tables, call, ending, damage):
    """A part file that is damaged or missing is written again, and the output is that of an uninterrupted run."""
    call("calibrate whole.parquet --id photo --score aps --seed 1 --out p.json")
    words = ("predict", "p.json", "parts", "--id", "photo", "--seed", "3", "--out", f"sets.{ending}")
    assert call(" ".join(words))[0] == 0
    whole = (tables / f"sets.{ending}").read_bytes()
    (tables / f"sets.{ending}").unlink()
    assert killed_in_turn([("pippin.cli.outputs:PartFiles.join", 1, "before")], *words, modules=MODULES) == [9]
    part = sorted((tables / f".sets.{ending}.pieces" / "0").glob("[0-9]*"))[1]
    part.unlink() if damage is None else part.write_bytes(damage(part.read_bytes()))
    assert call(" ".join(words))[0] == 0
    assert (tables / f"sets.{ending}").read_bytes() == whole


def test_sets_and_p_values_go_on_together(tables, call):
    """A run killed between the files of a part writes both again."""
    call("calibrate whole.parquet --id photo --score aps --seed 1 --out p.json")
    words = ["predict", "p.json", "parts", "--id", "photo", "--seed", "2", "--out", "sets.csv", "--p-values", "p.csv"]
    events = [("write", 2, "before"), ("write", 6, "before"), ("os:replace", 3, "before")]
    assert killed_in_turn(events, *words, modules=MODULES) == [9] * 3
    assert not (tables / "sets.csv").exists()
    reported = call(" ".join(words))
    stopped = [(tables / name).read_bytes() for name in ("sets.csv", "p.csv")]
    assert reported[0] == 0
    assert call(" ".join(words)) == reported
    assert [(tables / name).read_bytes() for name in ("sets.csv", "p.csv")] == stopped


def test_another_run_does_not_go_on_with_these(tables, call):
    """With other data, another predictor or other options, a run starts again."""
    call("calibrate whole.parquet --id photo --score ip --out p.json")
    words = ("predict", "p.json", "parts", "--id", "photo", "--out", "sets.csv")
    assert killed_in_turn([("pippin.cli.outputs:PartFiles.add", 2, "after")], *words, modules=MODULES) == [9]
    call("calibrate whole.parquet --id photo --score pip --alpha 0.3 --out p.json")
    assert call(" ".join(words))[0] == 0
    expected = pippin.load("p.json").predict(PROBS).sizes
    assert polars.read_csv("sets.csv")["size"].to_list() == expected.tolist()


def test_an_edited_record_of_parts_does_no_harm(tables, call):
    """After any edit of the record of parts, the output is that of an uninterrupted run."""
    call("calibrate whole.parquet --id photo --score ip --out p.json")
    words = ("predict", "p.json", "parts", "--id", "photo", "--out", "sets.csv")
    assert call(" ".join(words))[0] == 0
    whole = (tables / "sets.csv").read_bytes()
    assert killed_in_turn([("pippin.cli.outputs:PartFiles.join", 1, "before")], *words, modules=MODULES) == [9]
    kept, folder, rng = tables / "kept", tables / ".sets.csv.pieces", random.Random(0)
    folder.rename(kept)
    content = read_progress(kept)
    for number in range(40):
        shutil.copytree(kept, folder)
        edited = copy.deepcopy(content)
        if number:
            change({"seed": edited, "parts": edited["parts"]}, rng.choice(["value", "key", "length"]), rng)
        text = json.dumps(edited)
        for mark, lists in DEEP.items():
            text = text.replace(f'"{mark}"', lists)
        write_progress(folder, text)
        if number % 2:  # without the checksum of the new text
            (folder / "progress.json").write_text(f"{text}\n{'0' * 64}")
        code, _, err = call(" ".join(words))
        assert (code, err) == (0, ""), text
        assert (tables / "sets.csv").read_bytes() == whole, text


def test_a_table_of_equal_size_and_time_is_another_table(tables, call):
    """A run does not resume on a table that was written again, even if its modification time was set back."""
    call("calibrate whole.parquet --id photo --score ip --out p.json")
    rows = polars.read_parquet("whole.parquet").drop("group", "photo")
    (tables / "texts").mkdir()
    words = ("predict", "p.json", "texts", "--out", "sets.csv")
    path = tables / "texts" / "a.csv"
    rows.write_csv(path)
    before = path.stat()
    assert killed_in_turn([("pippin.cli.outputs:PartFiles.add", 2, "after")], *words, modules=MODULES) == [9]
    rows[::-1].write_csv(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert call(" ".join(words))[0] == 0
    expected = pippin.load("p.json").predict(PROBS[::-1]).sizes
    assert polars.read_csv("sets.csv")["size"].to_list() == expected.tolist()


def test_a_bad_row_leaves_nothing(tables, call):
    """After an invalid row no output is left, even if earlier parts were valid."""
    call("calibrate whole.parquet --id photo --score ip --out p.json")
    rows = polars.read_parquet("parts/c.parquet")
    rows[20, "soil"] = 3.0
    rows.write_parquet("parts/c.parquet")
    before = sorted(path.name for path in tables.rglob("*"))
    for command in ("predict p.json parts --out sets.parquet", "evaluate p.json parts", "calibrate parts --out q.json"):
        code, out, err = call(f"{command} --id photo")
        assert (code, out) == (2, "")
        assert err.startswith("pippin: parts/c.parquet: Row 20 sums to ")
        assert err.count("\n") == 1
    assert sorted(path.name for path in tables.rglob("*")) == before


def test_wrong_use_of_several(tables, call):
    polars.read_parquet("parts/a.parquet").drop("group").write_parquet("x.parquet")
    polars.read_parquet("parts/c.parquet").drop("group").write_parquet("y.parquet")
    code, _, err = call("calibrate x.parquet y.parquet --id photo --per group --out p.json")
    assert (code, "Expected groups for --per 'group', but x.parquet and 1 more has none" in err) == (2, True)
    call("calibrate whole.parquet --id photo --out p.json")
    code, _, err = call("predict p.json parts --id photo --out parts/c.parquet")
    assert (code, "Expected --out to be a file of its own" in err) == (2, True)


def test_ids_of_several_types_become_text(tables, call):
    frame = polars.read_parquet("whole.parquet").with_columns(photo=polars.int_range(60))
    frame[:30].write_parquet("x.parquet")
    frame[30:].write_csv("y.csv")
    call("calibrate x.parquet y.csv --id photo --out p.json")
    assert call("predict p.json x.parquet y.csv --id photo --out sets.parquet")[0] == 0
    assert polars.read_parquet("sets.parquet")["photo"].to_list() == [str(i) for i in range(60)]


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("calibrate none --out z.json", "none has no rows, expected at least one"),
        ("predict p.json none --out z.csv", "none has no rows, expected at least one"),
        ("evaluate p.json none", "none has no rows, expected at least one"),
        ("compare none --out z", "none has no rows, expected at least one"),
        ("calibrate parts --id photo --score 'pip sharpened' --out z.json", "sharpen it with --sharpen split"),
        ("predict p.json parts --id photo --out - --p-values z.csv", "Expected a file for --out with --p-values"),
        ("predict p.json parts --id photo --out z.csv --p-values parts/b.csv", "to be a file of its own"),
        ("calibrate parts {here}/parts/b.csv --id photo --out z.json", "is named twice"),
    ],
)
def test_invalid_tables_are_one_error_message(tables, call, line, reported):
    """An empty table, a missing file, a table named twice, and a stray column are one error message each."""
    call("calibrate whole.parquet --id photo --out p.json")
    for folder in ("none", "lone"):
        (tables / folder).mkdir()
    (tables / "none/a.csv").write_text(",".join([*NAMES, "label"]) + "\n")
    logits = polars.DataFrame({"a": [0.1, 2.5], "b": [1.5, -0.2], "photo": [1, 2], "label": ["a", "b"]})
    for half in range(2):
        logits.write_parquet(tables / f"lone/{half}.parquet")
    before = sorted(tables.rglob("*"))
    code, _, err = call(line.format(here=tables))
    assert code == 2
    assert reported in err
    assert sorted(tables.rglob("*")) == before


def test_odd_names_and_an_empty_table_among_others(tables, call):
    """File names with brackets are no patterns, empty tables add no rows, and ids keep their type."""
    whole = polars.read_parquet("whole.parquet").with_columns(photo=polars.int_range(60, dtype=polars.Int32))
    (tables / "odd").mkdir()
    whole[:20].write_parquet("odd/x[1].parquet")
    whole[20:40].with_columns(photo=polars.lit(None, dtype=polars.Int32)).write_parquet("odd/x1.parquet")
    whole[40:].write_parquet("odd/y.parquet")
    assert call("calibrate odd --id photo --out odd.json")[0] == 0
    assert pippin.load("odd.json").n_calibration == 60
    assert call("predict odd.json odd --id photo --out sets.parquet")[0] == 0
    found = polars.read_parquet("sets.parquet")
    assert found["photo"].dtype == polars.Int32
    assert found["photo"].null_count() == 20
    (tables / "odd/z.csv").write_text(",".join(whole.columns) + "\n")
    assert call("calibrate odd --id photo --out again.json")[0] == 0
    assert pippin.load("again.json").checksum == pippin.load("odd.json").checksum


def test_properties_of_tables_are_not_repeated(tables):
    scan = pippin.scan(tables / "parts", id="photo")
    predictor = pippin.calibrate(scan, score="ip")
    for call_it, name in (
        (lambda: pippin.calibrate(scan, units=range(60)), "units"),
        (lambda: pippin.calibrate(scan, from_logits=True), "from_logits"),
        (lambda: predictor.predict(scan, from_logits=True), "from_logits"),
    ):
        with pytest.raises(pippin.InputError, match=f"Expected tables without {name}="):
            call_it()
