"""Results on a Dask cluster of processes equal those of one process to the last bit."""

import hashlib
import json
import re
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
import pandas
import polars
import pytest
from distributed import Client, LocalCluster

import pippin
import pippin.dask
from pippin._runtime import progress
from pippin._theory.formula import FAMILIES
from support.dask_rows import CUTS, GROUPS, LABELS, PROBS, N, divided, predict_command_in_small_parts, write_tables
from support.partitions import PER

PREDICT = import_module("pippin.cli.predict")
pytestmark = pytest.mark.filterwarnings("ignore")  # of infinite thresholds, and what Dask says of lost workers


@pytest.fixture(scope="module")
def cluster():
    """Start a cluster of two worker processes; return its client."""
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as made,
        Client(made) as client,
    ):
        yield client


def by_group(per):
    return isinstance(per, str) and "group" in per


def same(merged, whole, scores=True):
    assert merged.content(scores=scores) == whole.content(scores=scores)


@pytest.mark.parametrize("score", ["repip", "aps"])
@pytest.mark.parametrize("per", PER, ids=str)
def test_calibrate_equals_one_process(cluster, score, per):
    """Predictors from arrays, frames and delayed partitions equal that of one process, also without stored scores."""
    groups = GROUPS if by_group(per) else None
    whole = pippin.calibrate(PROBS, LABELS, score, per=per, groups=groups, seed=3)
    options = {"per": per, "seed": 3}
    delayed = divided(GROUPS) if by_group(per) else None
    same(pippin.dask.calibrate(divided(PROBS), divided(LABELS), score, groups=delayed, **options), whole)


def test_arrays_and_frames(cluster):
    """Sets and evaluations of Dask arrays and frames are lazy, and equal those of one process."""
    import dask.dataframe

    names = [f"class {k}" for k in range(12)]
    whole = pippin.calibrate(PROBS, LABELS, "aps", seed=3)
    probs, labels = dask.array.from_array(PROBS, (700, 5)), dask.array.from_array(LABELS, 900)
    same(pippin.dask.calibrate(probs, labels, "aps", seed=3), whole)
    lazy = pippin.dask.score(probs, labels, "aps", seed=3)
    np.testing.assert_array_equal(lazy.compute(), pippin.scores.score(PROBS, LABELS, "aps", seed=3))
    table = pandas.DataFrame(PROBS, columns=names).assign(label=np.array(names)[LABELS], group=GROUPS)
    frame = dask.dataframe.from_pandas(table, npartitions=3)
    found = pippin.dask.calibrate(frame, "label", "aps", seed=3, groups="group")
    same(found, pippin.calibrate(PROBS, LABELS, "aps", classes=names, groups=GROUPS, seed=3))
    sets = found.predict(PROBS, seed=8, groups=GROUPS)
    given = frame.drop(columns=["label", "group"])
    predicted = pippin.dask.predict(found, given, seed=8, groups=frame["group"]).compute()
    assert predicted["size"].tolist() == sets.sizes.tolist()
    assert predicted["labels"].tolist() == sets.labels()
    assert predicted.index.tolist() == table.index.tolist()
    measured = pippin.dask.evaluate(found, frame, "label", groups="group", seed=8)
    expected = pippin.evaluate(sets, LABELS, groups=GROUPS, alpha=0.1, n_calibration=N)
    assert measured.accuracy == (PROBS.argmax(axis=1) == LABELS).mean()
    assert (measured.coverage, measured.group_coverage, measured.size_counts, measured.covgap) == (
        expected.coverage,
        expected.group_coverage,
        expected.size_counts,
        expected.covgap,
    )
    parts = dask.compute(*pippin.dask.predict(whole, divided(PROBS), seed=8))
    np.testing.assert_array_equal(np.concatenate([part.sizes for part in parts]), whole.predict(PROBS, seed=8).sizes)


@pytest.mark.parametrize("parts", ["frame", "pyarrow", "tables"])
def test_columns_are_selected_by_name(parts, tmp_path):
    """Partitions and tables whose columns are in another order than the classes of the predictor."""
    import dask.dataframe
    import pyarrow

    names = [f"class {k}" for k in range(12)]
    predictor = pippin.calibrate(PROBS, LABELS, "aps", classes=names, seed=3)
    table = pandas.DataFrame(PROBS, columns=names)[names[::-1]]
    labels: Any = np.array(names)[LABELS]
    if parts == "frame":
        rows = dask.dataframe.from_pandas(table.assign(label=labels), npartitions=3)
        given, labels = rows.drop(columns="label"), "label"
    elif parts == "pyarrow":
        given = [dask.delayed(pyarrow.Table.from_pandas(table[a:b])) for a, b in pairwise(CUTS)]
        labels = divided(labels)
        rows = given
    else:
        polars.DataFrame(table).with_columns(label=polars.Series(11 - LABELS)).write_parquet(tmp_path / "t.parquet")
        rows = given = pippin.scan(tmp_path)
    with dask.config.set(scheduler="synchronous"):
        found = pippin.dask.evaluate(predictor, rows, labels, seed=8)
        sets = dask.compute(pippin.dask.predict(predictor, given, seed=8))[0]
    wanted = predictor.predict(PROBS, seed=8)
    sizes = sets["size"] if parts == "frame" else np.concatenate([part.sizes for part in sets])
    assert np.array_equal(sizes, wanted.sizes)
    assert (found.coverage, found.accuracy) == (
        pippin.metrics.coverage(wanted, LABELS),
        (PROBS.argmax(axis=1) == LABELS).mean(),
    )


def test_workers_read_tables(cluster, tmp_path):
    """Invalid rows and missing tables raise one-sentence errors."""
    names = [f"class {k}" for k in range(12)]
    frame = polars.DataFrame(PROBS, schema=names).with_columns(label=polars.Series(np.array(names)[LABELS]))
    for i, (a, b) in enumerate([(0, 1500), (1500, 1501), (1501, N)]):
        frame[a:b].write_csv(tmp_path / f"{i}.csv") if i == 1 else frame[a:b].write_parquet(tmp_path / f"{i}.parquet")
    scan = pippin.scan(tmp_path)
    whole = pippin.calibrate(PROBS, LABELS, "aps", classes=names, seed=3)
    same(pippin.dask.calibrate(scan, score="aps", seed=3), whole)
    found = pippin.dask.evaluate(whole, scan, seed=1)
    assert found.coverage == pippin.metrics.coverage(whole.predict(PROBS, seed=1), LABELS)
    (tmp_path / "1.csv").unlink()
    with pytest.raises(pippin.InputError, match=r"There is no file .*1\.csv"):
        pippin.dask.calibrate(scan, score="ip")
    bad = frame[1501:]
    bad[1234, "class 3"] = 2.5
    bad.write_parquet(tmp_path / "2.parquet")
    with pytest.raises(pippin.InputError, match=r"2\.parquet: Row 1234 sums to .*, expected 1"):
        pippin.dask.calibrate(pippin.scan(tmp_path), score="ip")


def test_commands_on_a_cluster(cluster, tmp_path, monkeypatch, call):
    """Files and figures equal those of one process; a run with an invalid row leaves nothing behind."""
    monkeypatch.chdir(tmp_path)
    names = [f"class {k}" for k in range(12)]
    frame = polars.DataFrame(PROBS, schema=names).with_columns(label=polars.Series(np.array(names)[LABELS]))
    (tmp_path / "tables").mkdir()
    frame[:1000].write_parquet("tables/0.parquet")
    frame[1000:].write_parquet("tables/1.parquet")
    address = cluster.scheduler.address
    for where in ("", f"--scheduler {address}"):
        code, _, err = call(f"calibrate tables --score aps --seed 1 {where} --out p{len(where)}.json")
        assert (code, err) == (0, "")
    one, two = sorted(tmp_path.glob("*.json"))
    assert pippin.load(one).checksum == pippin.load(two).checksum  # the recorded commands differ
    printed = [call(f"evaluate {one.name} tables --seed 2 {where}")[1] for where in ("", f"--scheduler {address}")]
    here, there = (re.sub(r"Coverage depends on .*\n\n", "", text) for text in printed)  # a cluster has no diagnosis
    assert here == there
    frame.with_columns(polars.lit(0.5).alias("class 0")).write_parquet("tables/1.parquet")
    code, out, err = call(f"calibrate tables --scheduler {address} --out bad.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "tables/1.parquet: Row 0 sums to " in err
    assert not (tmp_path / "bad.json").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_written_sets_equal_those_of_one_process(cluster, tmp_path, monkeypatch, call, ending):
    """Written sets are equal, in order, with ids and p-values, from .parquet, .csv and .csv.gz."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PREDICT, "PART", 300)
    write_tables(tmp_path / "tables")
    call("calibrate tables --id photo --score aps --per group --seed 1 --out p.json")
    made = []
    for where in ("", f"--scheduler {cluster.scheduler.address}"):
        words = f"predict p.json tables --id photo --seed 2 {where} --out sets.{ending} --p-values p.parquet"
        code, out, err = call(words)
        assert (code, err) == (0, "")
        table = polars.read_parquet(f"sets.{ending}") if ending == "parquet" else Path(f"sets.{ending}").read_text()
        made.append((out, table, polars.read_parquet("p.parquet")))
    assert made[0][0] == made[1][0]
    assert made[0][1].equals(made[1][1]) if ending == "parquet" else made[0][1] == made[1][1]
    assert made[0][2].equals(made[1][2])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.json", "p.parquet", f"sets.{ending}", "tables"]


def test_a_cluster_resumes_the_run_of_one_process(cluster, tmp_path, monkeypatch, call):
    """A cluster resumes a run that one process began, and keeps its finished parts."""
    words = predict_command_in_small_parts(tmp_path, monkeypatch, call)
    assert call(f"{words} whole.csv")[0] == 0

    def stopped(*given):
        for number, made in enumerate(here(*given)):
            if number == 2:
                raise KeyboardInterrupt
            yield made

    here = PREDICT._parts
    monkeypatch.setattr(PREDICT, "_parts", stopped)
    assert call(f"{words} sets.csv")[0] == 130
    first = min((tmp_path / ".sets.csv.pieces" / "0").glob("[0-9]*"))
    first.write_bytes(first.read_bytes().replace(b"photo", b"PHOTO"))  # a mark, which stays if it is not made again
    progress_file = tmp_path / ".sets.csv.pieces" / "progress.json"
    recorded = json.loads(progress_file.read_text().rpartition("\n")[0])
    recorded["parts"][0][1][0] = hashlib.sha256(first.read_bytes()).hexdigest()
    text = json.dumps(recorded)
    progress_file.write_text(f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}")
    assert call(f"{words} sets.csv --scheduler {cluster.scheduler.address}")[0] == 0
    found = Path("sets.csv").read_bytes()
    assert found.startswith(b"PHOTO")
    assert found.replace(b"PHOTO", b"photo") == Path("whole.csv").read_bytes()
    assert call(f"{words} - --scheduler {cluster.scheduler.address}")[1] == Path("whole.csv").read_text()
    rows = polars.read_parquet("tables/3.parquet")
    rows[1000, "class 3"] = 2.5
    rows.write_parquet("tables/3.parquet")
    code, out, err = call(f"{words} sets.csv --scheduler {cluster.scheduler.address}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "tables/3.parquet: Row 1000 sums to " in err
    assert not list(tmp_path.glob(".sets*"))
    assert Path("sets.csv").read_bytes() == found


def test_progress_bar(cluster, tmp_path, monkeypatch, capsys):
    """After a second, a terminal shows rows per second if the number of rows is known, else partitions."""
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path / "tables")
    monkeypatch.setattr(progress, "DELAY", -1)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    predictor = pippin.dask.calibrate(pippin.scan("tables/*.parquet", id="photo"))
    printed = capsys.readouterr().err
    assert "rows" in printed
    assert "2100/2100" in printed
    assert " per second " in printed
    pippin.dask.evaluate(predictor, pippin.scan("tables", id="photo"))
    assert "partitions" in (printed := capsys.readouterr().err)
    assert "4/4" in printed
    task = PREDICT.SetsTask((".csv",), 0, False, {})
    assert len(list(PREDICT._parts_from_cluster(predictor, pippin.scan("tables", id="photo"), task))) == 1
    assert "4000/4000" in capsys.readouterr().err


def test_groups_that_are_ids_raise_errors(cluster, tmp_path):
    """Groups that are probably ids raise the error of one process."""
    write_tables(tmp_path / "tables")
    for path in tmp_path.glob("tables/*.parquet"):
        polars.read_parquet(path).drop("group").rename({"photo": "group"}).write_parquet(path)
    scan = pippin.scan(str(tmp_path / "tables" / "*.parquet"))
    with pytest.raises(pippin.InputError, match=r"2,100 groups of 2,100 rows, such as '0\.png', are ids"):
        pippin.dask.calibrate(scan, per="group")
    with pytest.warns(UserWarning, match="They are left out"):
        assert pippin.dask.evaluate(pippin.calibrate(scan), scan).group_coverage == {}


def test_errors_of_arguments(cluster):
    probs = PROBS.copy()
    probs[950] = 1
    with pytest.raises(pippin.InputError, match=r"Partition 3: Row 50 sums to 12, expected 1"):
        pippin.dask.calibrate(divided(probs), divided(LABELS), "ip")
    with pytest.raises(pippin.InputError, match=r"got ndarray: use pippin\.calibrate for data in memory"):
        pippin.dask.calibrate(PROBS, LABELS)
    with pytest.raises(pippin.InputError, match="Expected labels in 6 partitions as the rows, got 5"):
        pippin.dask.calibrate(divided(PROBS), divided(LABELS)[1:])


SHALLOW = """\
import pippin


def coefficients(ranks, power):
    return {{"constant": 1, "own": -1, "above": weight(ranks) ** -power}}


def weight(ranks):
    return {weight}


pippin.scores.register("shallow", pippin.scores.Family({{"power": 1.0}}, coefficients))
"""


def test_registered_scores_are_sent_to_workers(cluster, tmp_path, monkeypatch, call):
    """Registered scores work on workers that cannot import their module, and after they are registered again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write_tables(tmp_path / "tables")
    there, made = f"--scheduler {cluster.scheduler.address}", []
    for weight in ("ranks", "ranks + 1"):
        (tmp_path / "shallow_scores.py").write_text(SHALLOW.format(weight=weight))
        for number, where in enumerate(("", there)):
            sys.modules.pop("shallow_scores", None)
            options, names = f"tables --id photo {where} --import shallow_scores", (f"p{number}.json", f"s{number}.csv")
            for words in ("calibrate --score shallow --out {}", "predict {} --out {}"):
                code, _, err = call(f"{words.format(*names)} {options}")
                assert (code, err) == (0, "")
            made.append((pippin.load(tmp_path / names[0]).checksum, (tmp_path / names[1]).read_bytes()))
        known = pippin.load(tmp_path / "p1.json")
        scan = pippin.scan(tmp_path / "tables", id="photo")
        assert pippin.dask.evaluate(known, scan).coverage == pippin.evaluate(known.predict(PROBS), LABELS).coverage
    assert made[0] == made[1]
    assert made[2] == made[3]
    assert made[0] != made[2]
    FAMILIES.pop("shallow")


def test_another_number_of_labels_than_rows_is_named():
    probs, labels = dask.array.from_array(PROBS, (50, 4)), dask.array.from_array(LABELS[:-1], 50)
    with pytest.raises(pippin.InputError, match=f"Expected {N:,} labels, one per row, got {N - 1:,}"):
        pippin.dask.calibrate(probs, labels, "ip")
