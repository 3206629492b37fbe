"""Tables in batches: calibration, sets and evaluation equal those of all rows in memory."""

import gzip
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars
import pytest

import pippin
from pippin._distributed.calibration import calibrate_batched
from pippin._engine.dispatch import ranked_rows
from pippin.tables import scanning
from pippin.tables.columns import Layout
from pippin.tables.reading import read_data

RNG = np.random.default_rng(8)
N, NAMES = 700, ["crop", "maïs 🌽", "a,b", 'quo"ted']
PROBS = RNG.dirichlet([0.5] * 4, N)
LABELS = (PROBS.cumsum(axis=1) < RNG.random((N, 1))).sum(axis=1).clip(0, 3)
FRAME = polars.DataFrame(PROBS, schema=NAMES).with_columns(
    label=polars.Series(np.array(NAMES)[LABELS]),
    group=polars.Series(RNG.choice(["north", "south\nwest"], N)),
    photo=polars.Series([f"photo {i}.png" for i in range(N)]),
)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Use small batches, so that small tables have several."""
    monkeypatch.setattr(scanning, "BATCH", 64)


@pytest.fixture
def mixed(tmp_path):
    """Return a folder of Parquet and CSV tables, compressed or not, with columns in different orders."""
    parts = [FRAME[0:200], FRAME[200:201], FRAME[201:450], FRAME[450:600], FRAME[600:]]
    parts[0].write_parquet(tmp_path / "1.parquet", row_group_size=77)
    parts[1].write_csv(tmp_path / "2.csv")
    parts[2].select(reversed(FRAME.columns)).write_csv(tmp_path / "3.CSV")
    (tmp_path / "4.csv.gz").write_bytes(gzip.compress(parts[3].write_csv().encode()))
    parts[4].select("photo", "label", *reversed(NAMES), "group").write_parquet(tmp_path / "5.parquet")
    (tmp_path / ".hidden.csv").write_text("not a table")
    (tmp_path / "notes.txt").write_text("neither")
    return tmp_path


@pytest.mark.parametrize("score", ["repip", "aps"])
@pytest.mark.parametrize("per", [None, "class", "group", "class and group", "rc3p"])
def test_a_folder_of_mixed_tables(mixed, score, per):
    """Results equal those of arrays to the last bit."""
    scan = pippin.scan(mixed, id="photo")
    by_group = per is not None and "group" in per
    groups = FRAME["group"].to_numpy() if by_group else None
    whole = pippin.calibrate(PROBS, LABELS, score, classes=NAMES, per=per, groups=groups, seed=4)
    found = pippin.calibrate(scan, score=score, per=per, seed=4)
    assert found.content() == whole.content()
    sets = found.predict(scan, seed=2)
    expected = whole.predict(PROBS, seed=2, **({"groups": groups} if by_group else {}))
    np.testing.assert_array_equal(sets.sizes, expected.sizes)
    np.testing.assert_array_equal(sets.members, expected.members)
    assert pippin.evaluate(sets, scan, alpha=0.1) == pippin.evaluate(expected, LABELS, alpha=0.1)


def test_every_predictor_with_one_threshold_takes_tables(mixed):
    """Sets of tables equal those of arrays, for units and for risk control."""
    scan = pippin.scan(mixed, id="photo")
    of_units = pippin.calibrate(PROBS, LABELS, "aps", classes=NAMES, units=np.arange(N) // 7, seed=4)
    of_losses = pippin.decisions.control_risk(PROBS, LABELS, [1, 2, 3, 4], 0.4, score="aps", classes=NAMES, seed=4)
    for predictor in (of_units, of_losses):
        sets, expected = predictor.predict(scan, seed=2), predictor.predict(PROBS, seed=2)
        np.testing.assert_array_equal(sets.sizes, expected.sizes)
        np.testing.assert_array_equal(sets.members, expected.members)


def test_properties_of_a_scan(mixed):
    scan = pippin.scan([mixed / "1.parquet", mixed / "5.parquet"], id="photo")
    assert (scan.rows, scan.classes, scan.has_groups) == (300, tuple(NAMES), True)
    assert repr(scan) == f"Scan({mixed / '1.parquet'} and 1 more: 2 tables, 4 classes)"
    assert pippin.scan(str(mixed / "*.parquet"), id="photo").rows == 300
    assert pippin.scan(mixed, id="photo").rows is None
    batches = list(pippin.scan(mixed, id="photo").batches("labels", "groups", "ids"))
    assert [batch.first for batch in batches] == np.cumsum([0, *(batch.rows.n for batch in batches)])[:-1].tolist()
    assert np.concatenate([batch.ids["photo"] for batch in batches]).tolist() == FRAME["photo"].to_list()
    assert np.concatenate([batch.groups for batch in batches]).tolist() == FRAME["group"].to_list()
    np.testing.assert_array_equal(np.concatenate([batch.labels for batch in batches]), LABELS)


@pytest.mark.parametrize("start", [0, 1, 63, 200, 201, 449, 455, 601, 699, 700])
def test_a_start_in_the_middle(mixed, start):
    """Batches can begin at any row, so that a stopped run can continue."""
    batches = list(pippin.scan(mixed, id="photo").batches("labels", start=start))
    np.testing.assert_array_equal(np.concatenate([LABELS[:0], *(batch.labels for batch in batches)]), LABELS[start:])
    assert not batches or batches[0].first == start


@pytest.mark.parametrize("held", [100, 1 << 28])
def test_all_rows_can_be_read_at_once(mixed, monkeypatch, held):
    """The result equals one table of all rows; large probabilities are memory-mapped, ranked ones too."""
    monkeypatch.setattr(scanning, "IN_MEMORY", held)
    FRAME.write_parquet(mixed / "whole.parquet")
    whole = read_data(mixed / "whole.parquet", None, Layout(ids=("photo",)))
    (mixed / "whole.parquet").unlink()
    data = pippin.scan(mixed, id="photo").read_all()
    np.testing.assert_array_equal(data.probs, whole.probs)
    ranked, _ = ranked_rows(data.rows, data.truth())
    assert isinstance(data.probs, np.memmap) == isinstance(ranked.array, np.memmap) == (held == 100)
    np.testing.assert_array_equal(data.truth(), whole.truth())
    assert (data.classes, data.groups.tolist()) == (whole.classes, whole.groups.tolist())
    assert data.ids["photo"].tolist() == whole.ids["photo"].tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("cell", "value", "told"),
    [
        (("crop", 150), 0.9, r"b\.\w+: Row 150 sums to 1\.\d+, expected 1 .* add --normalize"),
        (("crop", 99), -0.5, r"b\.\w+: Row 99 "),
        (("label", 77), "weed", r"b\.\w+: Row 77 has the label 'weed', which is not one of the 4 classes"),
        (("label", 80), None, r"b\.\w+: Row 80 has no label"),
        (("group", 130), None, r"b\.\w+: Row 130 has no group"),
    ],
)
def test_a_bad_row_is_named_with_its_file(tmp_path, ending, cell, value, told):
    """The message has the number of the row in that file."""
    frame, (column, row) = FRAME[:200], cell
    place = polars.int_range(polars.len()) == row
    FRAME[200:].write_parquet(tmp_path / "a.parquet")
    frame = frame.with_columns(polars.when(place).then(polars.lit(value)).otherwise(column).alias(column))
    frame.write_csv(tmp_path / "b.csv") if ending == "csv" else frame.write_parquet(tmp_path / "b.parquet")
    scan = pippin.scan(tmp_path, id="photo")
    with pytest.raises(pippin.InputError, match=told):
        pippin.calibrate(scan, per="group")


def test_a_cell_that_is_no_number(tmp_path):
    FRAME[:100].write_csv(tmp_path / "a.csv")
    rows = FRAME[100:300].with_columns(polars.col("crop").cast(polars.String))
    rows[142, "crop"] = "many"
    rows.write_csv(tmp_path / "b.csv")
    with pytest.raises(pippin.InputError, match=r"b\.csv: Row 142 has 'many' in column 'crop', expected a number"):
        pippin.calibrate(pippin.scan(tmp_path, id="photo"))


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (FRAME.drop("crop"), r"b\.csv has no column for the class 'crop', as .*a\.csv has"),
        (FRAME.with_columns(more=0.0), r"b\.csv has a column 'more', which .*a\.csv has not: leave it out"),
        (FRAME.drop("label"), r"b\.csv has no column label, as .*a\.csv has"),
        (FRAME.drop("photo"), r"b\.csv has no column 'photo' for --id"),
    ],
)
def test_different_columns_are_an_error(tmp_path, other, told):
    """The message names the file."""
    FRAME.write_csv(tmp_path / "a.csv")
    other.write_csv(tmp_path / "b.csv")
    with pytest.raises(pippin.InputError, match=told):
        pippin.scan(tmp_path, id="photo")


def test_a_column_of_row_numbers_is_ignored(tmp_path):
    FRAME.with_row_index("number").drop("photo", "group").write_csv(tmp_path / "a.csv")
    with pytest.warns(UserWarning, match=r"a\.csv: ignored the column 'number', which holds no class probabilities"):
        assert pippin.scan(tmp_path).classes == tuple(NAMES)


def test_wrong_files(tmp_path):
    with pytest.raises(pippin.InputError, match=r"holds no \.parquet, \.csv or \.csv\.gz file"):
        pippin.scan(tmp_path)
    with pytest.raises(pippin.InputError, match=r"No file matches .*\*\.csv: check the pattern"):
        pippin.scan(tmp_path / "*.csv")
    with pytest.raises(pippin.InputError, match="There is no file"):
        pippin.scan(tmp_path / "a.csv")
    FRAME.write_csv(tmp_path / "a.csv")
    with pytest.raises(pippin.InputError, match="is named twice"):
        pippin.scan([tmp_path, tmp_path / "a.csv"])
    (tmp_path / "b.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    with pytest.raises(pippin.InputError, match=r"b\.parquet is damaged or no Parquet file"):
        pippin.scan([tmp_path / "b.parquet"])
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(FRAME.write_csv().encode())[:5000])
    with pytest.raises(pippin.InputError, match=r"c\.csv\.gz is damaged or not compressed"):
        pippin.calibrate(pippin.scan(tmp_path / "c.csv.gz", id="photo"))
    with pytest.raises(pippin.InputError, match="Expected tables without labels="):
        pippin.calibrate(pippin.scan(tmp_path / "a.csv", id="photo"), LABELS)
    with pytest.raises(pippin.InputError, match="got no labels"):
        pippin.calibrate(PROBS)


@pytest.mark.parametrize(
    ("names", "first", "second", "told"),
    [
        (("1", "2", "3"), "1", "3", "names"),
        (("1", "2", "3"), "1", "0", "indices"),
        (("1", "2", "3"), "1", "2", "which is column 1 .* by number and column 0 .* by name: say which"),
        (
            ("a", "b", "c"),
            "b",
            "1",
            "Row 0 has a label that is one of the column numbers, where",
        ),
    ],
)
def test_labels_mean_the_same_in_all_tables(tmp_path, names, first, second, told):
    """All tables together determine the meaning of whole numbers as labels."""
    for name, label in (("x.csv", first), ("y.csv", second)):
        (tmp_path / name).write_text("\n".join([f"{','.join(names)},label", *[f"0.2,0.3,0.5,{label}"] * 3]))
    scan = pippin.scan(tmp_path)
    if told in ("names", "indices"):
        found = np.concatenate([batch.labels for batch in scan.batches("labels")])
        assert found.tolist() == [
            names.index(one) if told == "names" else int(one) for one in (first, second) for _ in "xyz"
        ]
    else:
        with pytest.raises(pippin.InputError, match=told):
            pippin.calibrate(scan)


@pytest.mark.parametrize("per", [None, "class and group", "rc3p"])
def test_thresholds_without_scores(mixed, per):
    """Beyond `most_scores` rows the calibration scores are left out; the thresholds are the same."""
    calibration = pippin.distributed.Calibration("aps", classes=NAMES, per=per, seed=1, most_scores=0)
    found = calibrate_batched(pippin.scan(mixed, id="photo"), calibration)
    groups = FRAME["group"].to_numpy() if per == "class and group" else None
    whole = pippin.calibrate(PROBS, LABELS, "aps", classes=NAMES, per=per, groups=groups, seed=1)
    assert found.content(scores=False) == whole.content(scores=False)


@pytest.mark.parametrize("cut", [(0, 700), (0, 1), (199, 202), (210, 450), (333, 601), (455, 470), (699, 700)])
def test_row_ranges_of_counted_tables(mixed, cut):
    """A range contains only the tables of its rows, for another process."""
    scan = pippin.scan(mixed, id="photo")
    known = replace(scan, tables=tuple(map(scanning.count_rows, scan.tables)))
    assert known.rows == N
    some, start = known.row_range(*cut)
    assert len(some.tables) < 6
    found = list(some.batches("labels", "ids", start=start))
    ids = np.concatenate([batch.ids["photo"] for batch in found])[: cut[1] - cut[0]]
    assert ids.tolist() == FRAME["photo"][cut[0] : cut[1]].to_list()
    assert len(next(iter(found)).labels) <= 64


def test_rows_on_disk_are_not_in_memory_too(mixed, monkeypatch):
    """Batches are freed once they are written."""
    monkeypatch.setattr(scanning, "IN_MEMORY", 100)
    read, alive = [], []
    batches = scanning.Scan.batches

    def followed(self, *needs, start=0):
        for batch in batches(self, *needs, start=start):
            alive.append(sum(one() is not None for one in read))
            read.append(weakref.ref(batch.rows.array))
            yield batch

    monkeypatch.setattr(scanning.Scan, "batches", followed)
    assert len(pippin.scan(mixed, id="photo").read_all().probs) == N
    assert len(read) > 10
    assert max(alive) <= 1


def test_reading_in_threads_keeps_standard_error(tmp_path):
    """Reading tables in threads does not change the file descriptor of standard error, which all threads share."""
    for i in range(8):
        FRAME.write_csv(tmp_path / f"{i}.csv")

    def read(i):
        return pippin.calibrate(pippin.scan(tmp_path / f"{i % 8}.csv", id="photo"), score="ip"), os.fstat(2).st_ino

    before = os.fstat(2).st_ino
    with ThreadPoolExecutor(8) as pool:
        assert {seen for _, seen in pool.map(read, range(64))} == {before}
    assert os.fstat(2).st_ino == before


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("names", [("*", "b", "c"), ("^a$", "b", "a"), ("^b.*$", "b1", "b2"), ("**", "^*$", "$")])
def test_class_names_are_no_patterns(tmp_path, names, ending):
    """Names that polars takes for patterns are classes, ids and labels like others, at once and in batches."""
    path, p = tmp_path / f"data.{ending}", tmp_path / "p.json"
    frame = polars.DataFrame(PROBS[:, :3] / PROBS[:, :3].sum(axis=1, keepdims=True), schema=list(names))
    labels = polars.Series("^.*$", [names[k % 3] for k in LABELS])
    frame = frame.with_columns(labels, polars.Series("^id$", [f"{i}.png" for i in range(N)]))
    frame.write_parquet(path) if ending == "parquet" else path.write_bytes(
        gzip.compress(frame.write_csv().encode()) if ending.endswith("gz") else frame.write_csv().encode()
    )
    wanted = pippin.calibrate(frame[list(names)], LABELS % 3, "ip", 0.2, classes=names)
    layout = {"label": "^.*$", "id": "^id$"}
    for source in (pippin.scan(path, **layout), read_data(path, layout=Layout("^.*$", ("^id$",)))):
        found = (
            pippin.calibrate(source.rows, source.truth(), "ip", 0.2, classes=source.classes)
            if hasattr(source, "probs")
            else pippin.calibrate(source, score="ip", alpha=0.2)
        )
        assert found.threshold == wanted.threshold
        assert tuple(found.classes) == names
    wanted.save(p)
    (ids,) = {name for batch in pippin.scan(path, **layout).batches("ids") for name in batch.ids}
    assert ids == "^id$"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_with_other_columns_than_when_scanned_is_named(tmp_path, ending):
    """The error names the table whose columns changed after the scan."""

    def write(path, frame):
        frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)

    first, second = (tmp_path / f"{i}.{ending}" for i in range(2))
    for path in (first, second):
        write(path, FRAME)
    found = pippin.scan([first, second], id="photo")
    write(second, FRAME.rename({"crop": "wheat"}))
    with pytest.raises(pippin.InputError, match=f"1.{ending} no longer has the columns .*: scan it again"):
        pippin.calibrate(found, score="ip")


def test_an_empty_part_without_types_is_skipped(tmp_path):
    """An empty table whose columns all have the type Null is skipped, as some writers leave it."""
    FRAME[:400].with_columns(polars.col(polars.Float64).cast(polars.Float32)).write_parquet(tmp_path / "a.parquet")
    nothing = polars.DataFrame({name: polars.Series([], dtype=polars.Null) for name in FRAME.columns})
    nothing.write_parquet(tmp_path / "b.parquet")
    found = pippin.scan(tmp_path, id="photo")
    alone = pippin.scan(tmp_path / "a.parquet", id="photo")
    assert pippin.calibrate(found, score="ip").threshold == pippin.calibrate(alone, score="ip").threshold
    gathered, expected = found.read_all(), alone.read_all()
    assert gathered.probs.dtype == expected.probs.dtype == np.float32
    assert {k: v.tolist() for k, v in gathered.ids.items()} == {k: v.tolist() for k, v in expected.ids.items()}
    nothing.with_columns(crop=polars.Series([], dtype=polars.String)).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(pippin.InputError, match="the column 'crop' of String"):
        pippin.scan(tmp_path, id="photo")


@pytest.mark.parametrize("line", ['0.5,0.5,"b', '"0.5,0.5,b', '0.5,"0.5,b'])
@pytest.mark.parametrize("rows", [0, 3, 30_000])
def test_a_quote_that_is_never_closed_hides_no_rows(line, rows, tmp_path):
    """A quote that is never closed raises an error or ends a row, also in the first row."""
    path = tmp_path / "table.csv"
    path.write_text(f"a,b,label\n{line}\n" + "0.5,0.5,a\n" * rows)
    with pytest.raises(pippin.InputError, match="cannot be read as comma-separated values"):
        list(pippin.scan(path).batches("labels"))
