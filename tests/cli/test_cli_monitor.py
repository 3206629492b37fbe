"""`pippin monitor`: streaming, JSON lines, and a state file that resumes to the same bits."""

import json
import subprocess

import numpy as np
import polars
import pytest

import pippin
from support.command import PIPPIN
from support.killed_processes import run_until

DATA = pippin.load_example()


def write(path, probs, labels=None):
    frame = polars.DataFrame(np.asarray(probs, dtype=np.float64), schema=list(DATA.classes))
    if labels is not None:
        frame = frame.with_columns(label=polars.Series([DATA.classes[k] for k in labels]))
    frame.write_csv(path)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pippin.calibrate(DATA.probs[:1000], DATA.labels[:1000], classes=DATA.classes).save("p.json")
    write("good.csv", DATA.probs[1000:1250], DATA.labels[1000:1250])
    write("dim.csv", 0.5 * DATA.probs[1250:1450] + 0.5 / 12, DATA.labels[1250:1450])
    write("silent.csv", 0.5 * DATA.probs[1250:1450] + 0.5 / 12)
    write("before.csv", DATA.probs[:1000])
    return tmp_path


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_an_alarm_and_the_state(here, call):
    """Two commands that share a state file give the results of one monitor in Python on all rows."""
    code, out, _ = call("monitor p.json good.csv --state s.json --seed 1 --every 100")
    assert code == 0
    assert [(line["rows"], line["alarm"]) for line in lines(out)] == [(100, False), (200, False), (250, False)]
    code, out, _ = call("monitor p.json dim.csv --state s.json --every 1000")
    first, last = lines(out)
    watched = pippin.online.Monitor(pippin.load("p.json"), seed=1)
    for part, scale in ((slice(1000, 1250), 1.0), (slice(1250, 1450), 0.5)):
        probs = scale * DATA.probs[part] + (1 - scale) / 12
        for row, label in zip(np.asarray(probs, dtype=np.float64), DATA.labels[part], strict=True):
            watched.update(row, int(label))
    assert first["alarm"]
    assert first["rows"] == watched.alarm.row + 1
    assert first["changepoint"] == watched.changepoint
    assert last["rows"] == 450
    assert last["evidence"] == watched.evidence
    assert pippin.online.Monitor.load("s.json").evidence == watched.evidence


def test_ids_and_other_columns_are_no_probabilities(here, call):
    """A table with a column of ids and one of remarks gives the results of the table without them."""
    _, expected, _ = call("monitor p.json good.csv --seed 1")
    frame = polars.read_csv("good.csv")
    frame.insert_column(0, polars.Series("id", [f"img {i}" for i in range(250)])).with_columns(
        remark=polars.lit("wet")
    ).write_csv("ids.csv")
    code, out, err = call("monitor p.json ids.csv --id id --seed 1")
    assert (code, lines(out)) == (0, lines(expected))
    assert "ignored the column 'remark'" in err
    assert "'id'" not in err


@pytest.mark.parametrize(("cell", "reported"), [("3.0", "Row 7: The row sums to"), ("x", "Row 7 has 'x'")])
def test_errors_name_rows_of_the_stream(here, call, cell, reported):
    """In a second stream, JSON lines also state the number of earlier rows; errors number the rows of this stream."""
    assert {line["before"] for line in lines(call("monitor p.json good.csv --state s.json --every 100")[1])} == {0}
    table = (here / "dim.csv").read_text().splitlines()
    table[8] = ",".join([cell, *table[8].split(",")[1:]])
    (here / "bad.csv").write_text("\n".join(table))
    code, out, err = call("monitor p.json bad.csv --state s.json --every 251")
    assert (code, [(line["rows"], line["before"]) for line in lines(out)]) == (2, [(251, 250)])
    assert err.startswith(f"pippin: bad.csv: {reported}")


@pytest.mark.parametrize("cell", ["nan", "x"])
def test_rows_before_an_invalid_row_are_kept(here, call, cell):
    """The rows before an invalid row are in the state, and a second stream continues after them."""
    whole = (here / "good.csv").read_text().splitlines()
    broken = [*whole[:8], ",".join([cell, *whole[8].split(",")[1:]]), *whole[9:]]
    (here / "broken.csv").write_text("\n".join(broken))
    code, out, err = call("monitor p.json broken.csv --state s.json --seed 1")
    assert (code, out) == (2, "")
    assert "broken.csv: Row 7" in err
    assert pippin.online.Monitor.load("s.json").n_rows == 7
    (here / "rest.csv").write_text("\n".join([whole[0], *whole[8:]]))
    assert call("monitor p.json rest.csv --state s.json")[0] == 0
    assert call("monitor p.json good.csv --state t.json --seed 1")[0] == 0
    assert pippin.online.Monitor.load("s.json").evidence == pippin.online.Monitor.load("t.json").evidence


def test_without_labels(here, call):
    code, out, _ = call("monitor p.json silent.csv --reference before.csv --seed 1")
    assert code == 0
    assert lines(out)[0]["alarm"]
    assert "without labels" in lines(out)[0]["message"]


def test_rows_are_watched_as_they_come(here):
    """A line is printed while the stream is still open."""
    table = (here / "good.csv").read_text().splitlines(keepends=True)
    command = [*PIPPIN, "monitor", "p.json", "-", "--every", "5"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.writelines(table[:6])
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["rows"] == 5
        process.stdin.writelines(table[6:11])
        process.stdin.close()
        assert json.loads(process.stdout.readline())["rows"] == 10
        assert process.wait() == 0


def test_two_monitors_cannot_share_a_state(here, call):
    """A second command with the same state is refused while the first runs, and continues its state afterwards."""
    table = (here / "good.csv").read_text().splitlines(keepends=True)
    arguments = ["monitor", "p.json", "-", "--state", "s.json", "--every", "5"]
    with subprocess.Popen([*PIPPIN, *arguments], cwd=here, stdin=-1, stdout=-1, text=True) as process:
        process.stdin.writelines(table[:6])
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["rows"] == 5
        code, out, err = call("monitor p.json dim.csv --state s.json")
        assert (code, out) == (2, "")
        assert err == (
            "pippin: Another run is writing into s.json now: wait until it has ended, or name another --state.\n"
        )
        assert call("monitor p.json dim.csv --state other.json")[0] == 0
        process.stdin.close()
        assert process.wait() == 0
    code, out, _ = call("monitor p.json dim.csv --state s.json")
    assert (code, lines(out)[-1]["rows"]) == (0, 205)
    assert not list(here.glob(".*"))


def test_a_byte_order_mark_is_no_name(here):
    """A byte order mark does not become part of a column name, on standard input or in a file."""
    done = subprocess.run(
        [*PIPPIN, "monitor", "p.json", "-"],
        cwd=here,
        input=b"\xef\xbb\xbf" + (here / "good.csv").read_bytes(),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["rows"] == 250


def test_killed_it_has_kept_what_it_printed(here):
    arguments = ("monitor", "p.json", "good.csv", "--state", "s.json", "--every", "50", "--seed", "1")
    done = run_until("os:replace", 3, *arguments, folder=here)
    assert done.returncode == -9
    assert pippin.online.Monitor.load("s.json").n_rows == lines(done.stdout)[-1]["rows"] == 100


@pytest.mark.parametrize(
    ("table", "reported"),
    [
        ("", "is empty"),
        ("a,b\n0.5,0.5\n", "Expected a column for each class"),
        ("{header}\n{row},x\n", "cells, expected"),
        ("{header}\nx{row}\n", "expected a number"),
        ("{header}\n{row}\n{twice}\n", "Row 1"),
        ("\n \n\n", "is empty"),
        ("{header},label,label\n{row},a,a\n", "has two columns 'label'"),
        (
            '{header}\n"{row}\n' + "{row}\n" * 9000,
            "in line 5,463 (field larger than field limit (131072)): write UTF-8",
        ),
        ("{header}\n1_0{row}\n", "expected a number"),
        ("{header}\n\u0661{row}\n", "expected a number"),
        ("{header},label\n{row},x\n", "odd.csv: Row 0 has the label 'x', which is not one of the 12 classes"),
        ("{header}\n{row}\n" + "0" * 70_000_000, "has a line of more than 67 MB, number 2: write one line per row"),
    ],
    ids=lambda text: text[:40],
)
def test_invalid_streams_are_reported(here, call, table, reported):
    row = ["1", *["0"] * 11]
    text = table.format(header=",".join(DATA.classes), row=",".join(row), twice=",".join(["1"] * 12))
    (here / "odd.csv").write_text(text)
    code, _, err = call("monitor p.json odd.csv")
    assert code == 2
    assert reported in err
    assert "odd.csv" in err


def test_blank_lines_above_the_header_are_skipped(here, call):
    (here / "blank.csv").write_text("\n \n" + (here / "good.csv").read_text())
    code, out, _ = call("monitor p.json blank.csv")
    assert (code, lines(out)[-1]["rows"]) == (0, 250)


def test_a_state_of_another_predictor_is_refused(here, call):
    pippin.calibrate(DATA.probs[:900], DATA.labels[:900], classes=DATA.classes).save("q.json")
    assert call("monitor p.json good.csv --state s.json")[0] == 0
    for line in ("q.json good.csv --state s.json", "p.json good.csv --state s.json --delta 0.1"):
        code, _, err = call(f"monitor {line}")
        assert code == 2
        assert "Expected the predictor, delta and mean time of" in err


def test_a_picture_at_the_end(here, call):
    code, _, _ = call("monitor p.json good.csv --seed 1 --plot seen.svg")
    assert code == 0
    assert (here / "seen.svg").read_text().rstrip().endswith("</svg>")
    code, _, err = call("monitor p.json good.csv --plot seen.pdf")
    assert code == 2
    assert "--plot to end in .png or .svg or .html" in err


def test_a_page_at_the_end(here, call):
    """The page has the state and the plot, and loads no other files."""
    assert call("monitor p.json dim.csv --seed 1 --plot seen.html")[0] == 0
    page = (here / "seen.html").read_text()
    assert "the rows have changed, most likely since row" in page
    assert page.count("<svg") == 2  # the brand's and the picture
    assert "an alarm is ever raised is at most 0.01" in page
    assert "src=" not in page


def test_rows_of_groups(here, call):
    """The monitor of a predictor per group uses the group of each row."""
    groups = np.where(np.arange(1000) % 2, "north", "south")
    pippin.calibrate(DATA.probs[:1000], DATA.labels[:1000], classes=DATA.classes, per="group", groups=groups).save(
        "g.json"
    )
    table = polars.read_csv("dim.csv").with_columns(group=polars.Series(groups[:200]))
    table.write_csv("grouped.csv")
    code, out, _ = call("monitor g.json grouped.csv --seed 1")
    assert code == 0
    assert lines(out)[-1]["alarm"] is True
    table.drop("label").write_csv("silent_groups.csv")
    assert call("monitor g.json silent_groups.csv --seed 1")[0] == 0  # without labels all rows are one stream
    code, _, err = call("monitor g.json dim.csv --seed 1")
    assert code == 2
    assert "group" in err


def test_a_mean_time_instead_of_a_probability(here, call):
    """With `--mean-time`, alarms are repeated while the change lasts."""
    code, out, _ = call("monitor p.json dim.csv --mean-time 10000 --seed 1")
    assert code == 0
    reported = [line for line in lines(out) if line["alarm"]]
    assert len(reported) > 1
    code, _, err = call("monitor p.json dim.csv --mean-time 10000 --delta 0.1")
    assert code == 2
    assert "delta or mean_time" in err
