"""Class and group names with control characters or markup are shown literally."""

import contextlib
import csv
import json
import os
import pty
import re
import subprocess
import unicodedata
from xml.etree import ElementTree

import numpy as np
import polars
import pytest

import pippin
from pippin._runtime.showing import visible
from support.command import PIPPIN
from support.rows import made_rows

ODD = (
    "\x1b[31mred",
    "nul\x00l",
    "two\nlines",
    "\u202egnp.exe",
    "[red]markup[/red]",
    "bell\x07\x9b2J",
    "-->\ufffe",
    ":smile:",
)
SHOWN = (
    r"\x1b[31mred",
    r"nul\x00l",
    r"two\nlines",
    r"\u202egnp.exe",
    "[red]markup[/red]",
    r"bell\x07\x9b2J",
    r"-->\ufffe",
    ":smile:",
)


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """A file of 400 rows of eight classes with odd names, in two groups with odd names; also the current folder."""
    monkeypatch.chdir(tmp_path)
    probs = made_rows("spread", 400, 8, 0)
    labels = np.where(np.arange(400) % 3 > 0, probs.argmax(axis=1), np.arange(400) % 8)
    groups = np.where(np.arange(400) % 2, "\x1b]0;north\x07", "south\r")
    np.savez("odd.npz", probs=probs, labels=labels, classes=np.array(ODD), groups=groups)
    return tmp_path


def unseen(text):
    """Return the control and format characters in a text, except line breaks."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"}


def test_names_are_spelled_out():
    assert tuple(map(visible, ODD)) == SHOWN
    assert visible("ÅÄ 小麦 \N{NO-BREAK SPACE}é 👩\u200d🌾") == "ÅÄ 小麦 \N{NO-BREAK SPACE}é 👩\u200d🌾"
    assert visible(7) == "7"
    assert visible("\ud800\u2028\u2066") == r"\ud800\u2028\u2066"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("calibrate odd.npz --per class --out p.json", SHOWN),
        ("calibrate odd.npz --per group --out p.json", (r"\x1b]0;north\x07", r"south\r")),
        ("plan odd.npz", SHOWN),
        ("evaluate p.json odd.npz", SHOWN),
        ("predict p.json odd.npz --out sets.parquet", ()),
        ("tune odd.npz --splits 3 --out t.json", ()),
    ],
)
def test_a_terminal_shows_them(odd, call, line, names):
    """Names are printed literally, without characters that control the terminal."""
    assert call("calibrate odd.npz --out p.json")[0] == 0
    code, out, err = call(line)
    assert code == 0
    assert not unseen(out + err)
    assert [name for name in names if name not in out] == []


@pytest.mark.parametrize(
    "line",
    [
        "calibrate odd.npz --utility u.csv --out d.json",
        "calibrate odd.npz --sharpen split --seed 1 --out q.json",
        "decide d.json odd.npz --out actions.parquet",
        "decide p.json odd.npz --utility u.csv --fallback bell --out actions.parquet",
        "evaluate d.json odd.npz",
        "compare odd.npz --scores ip --utility u.csv --splits 4 --out out",
    ],
)
def test_actions_are_spelled_out(odd, call, line, no_figures):
    """Actions with control characters are escaped on the terminal, and in text that Python returns."""
    actions = ("\x1b[2Jspray", "bell\x9b", "leave\u202e")
    values = np.random.default_rng(3).normal(size=(3, 8))
    utility = pippin.decisions.Utility(values, actions=actions, classes=ODD)
    with open("u.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["action", *ODD], *([a, *row] for a, row in zip(actions, values, strict=True))])
    assert call("calibrate odd.npz --out p.json")[0] == 0
    assert call("calibrate odd.npz --utility u.csv --out d.json")[0] == 0
    code, out, err = call(line.replace("bell", "'bell\x9b'"))
    assert code == 0, err
    assert not unseen(out + err)
    decider = pippin.load("d.json")
    decisions = decider.decide(np.eye(8))
    found = pippin.decisions.evaluate(decisions, np.arange(8), utility)
    for text in (utility, decider, decider.describe(), decisions, found):
        assert not unseen(f"{text}{text!r}")


ODD_FILE = "da\x1b[2Jta\u202e"
EVERYWHERE = [
    "calibrate '{f}.npz' --out '{f}.json'",
    "calibrate '{f}.csv' --per class --out '{f}.json'",
    "calibrate '{f}/' --per group --out '{f}.json'",
    "calibrate '{f}/' '{f}.csv' --out '{f}.json'",
    "calibrate '{f}/*.csv' --sharpen split --seed 1 --out '{f}.json'",
    "calibrate '{f}.npz' --utility u.csv --out '{f}.json'",
    "predict p.json '{f}/' --out '{f}.csv' --p-values '{f}p.csv'",
    "predict p.json '{f}.csv' --out -",
    "predict p.json no'{f}' --out s.csv",
    "predict p.json '{f}.csv' --classes 'a\x1b[2J' --out s.csv",
    "predict p.json '{f}.csv' --out 'no\x1b[2J/s.csv'",
    "decide d.json '{f}.csv' --out '{f}.parquet'",
    "decide p.json '{f}.csv' --utility '{f}' --fallback 'a\x1b[2J' --out a.csv",
    "decide p.json '{f}.csv' --utility u.csv --fallback 'a\x1b[2J' --out a.csv",
    "evaluate p.json '{f}.csv'",
    "evaluate p.json '{f}/'",
    "evaluate g.json '{f}/'",
    "evaluate d.json '{f}.csv'",
    "evaluate '{f}.csv' '{f}.csv'",
    "compare '{f}.csv' --scores ip --splits 4 --out '{f}out'",
    "compare '{f}.csv' --scores 'ip\x1b[2J' --splits 4 --out '{f}out'",
    "sweep '{f}.csv' --splits 2 --values 0,0.1 --out '{f}sweep'",
    "tune '{f}.csv' --splits 2 --out '{f}.json'",
    "plan '{f}.csv'",
    "toy --out '{f}toy'",
    "export p.json --c '{f}.h'",
    "export '{f}.csv' --c '{f}.h'",
    "monitor p.json '{f}.csv' --state '{f}.state'",
    "monitor g.json '{f}.csv'",
    "monitor p.json u.csv",
    "nothing'{f}'",
    "plan --n '{f}'",
    "--import '{f}' plan",
    "prepare we3ds '{f}' --out '{f}w'",
    "field run '{f}' '{f}' --out '{f}w'",
    "train '{f}' --out '{f}.npz'",
]


@pytest.mark.parametrize("line", EVERYWHERE)
def test_no_command_sends_them_to_a_terminal(odd, call, line, no_figures):
    """No command prints control characters in names of files, classes, groups, actions, labels or options."""
    with np.load("odd.npz") as data:
        arrays = dict(data)
    names = [name.replace("\n", "") for name in ODD]
    frame = polars.DataFrame(arrays["probs"], schema=names).with_columns(
        label=polars.Series(np.array(names)[arrays["labels"]]), group=polars.Series(arrays["groups"])
    )
    (odd / ODD_FILE).mkdir()
    (odd / "odd.npz").rename(odd / f"{ODD_FILE}.npz")
    for path in (f"{ODD_FILE}.csv", f"{ODD_FILE}/1\x07.csv"):
        frame.write_csv(path)
    values = np.random.default_rng(3).normal(size=(2, 8))
    utility = pippin.decisions.Utility(values, actions=("a\x1b[2J", "b"), classes=names)
    with open("u.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["action", *names], *(["a\x1b[2J", *values[0]], ["b", *values[1]])])
    known = {"classes": names}
    pippin.calibrate(arrays["probs"], arrays["labels"], "ip", **known).save("p.json")
    pippin.calibrate(arrays["probs"], arrays["labels"], "ip", groups=arrays["groups"], **known).save("g.json")
    pippin.decisions.calibrate(arrays["probs"], arrays["labels"], utility, **known).save("d.json")
    code, out, err = call(line.format(f=ODD_FILE))
    assert code in (0, 2)
    shown = "\n".join(text for text in out.splitlines() if not line.endswith("--out -"))
    assert not unseen(shown + err), (shown, err)
    assert code == 0 or sum(": warning: " not in text for text in err.splitlines()) == 1
    for text in out.splitlines():
        assert not text.startswith("{") or json.loads(text)["rows"] == 400


PATTERNS = ("*", "^a$", "^.*$")
COMMANDS = [
    "calibrate {d} --score ip --out q.json",
    "calibrate {d} --per group --out q.json",
    "calibrate {d} --sharpen split --seed 0 --out q.json",
    "calibrate {d} --utility u.csv --out q.json",
    "predict p.json {d} --out s.csv --p-values v.parquet",
    "predict p.json {d} --out s.parquet",
    "predict p.json {d} --out s.jsonl",
    "evaluate p.json {d}",
    "decide d.json {d} --out a.parquet",
    "decide p.json {d} --utility u.csv --fallback ^b$ --out a.csv",
    "evaluate d.json {d}",
    "compare {d} --scores 'ip,pip per class,pip per group' --splits 3 --utility u.csv --out out",
    "sweep {d} --values 0,1 --splits 2 --out swept",
    "tune {d} --splits 2 --out q.json",
    "plan {d}",
]


@pytest.mark.parametrize("names", [PATTERNS, ("label", "group", "row")], ids=str)
def test_names_that_polars_takes_for_patterns_or_roles(tmp_path, monkeypatch, call, names, no_figures):
    """Names that polars would read as patterns, or as column roles, are plain names in every command and format."""
    monkeypatch.chdir(tmp_path)
    probs = made_rows("spread", 300, 3, 0)
    labels = np.where(np.arange(300) % 3 > 0, probs.argmax(axis=1), np.arange(300) % 3)
    frame = polars.DataFrame(probs, schema=list(names)).with_columns(
        polars.Series("^.*l$", [names[k] for k in labels]), polars.Series("*id", [f"^{i}$" for i in range(300)])
    )
    if "group" not in names:
        frame = frame.with_columns(group=polars.Series(["*", "^g$"] * 150))
    (tmp_path / "both").mkdir()
    frame[:100].write_csv("both/1.csv")
    frame[100:].write_parquet("both/2.parquet")
    frame.write_csv("data.csv")
    frame.write_parquet("data.parquet")
    (tmp_path / "u.csv").write_text(f"action,{','.join(names)}\n*,1,0,0\n^b$,0,1,0.5\n")
    wanted = pippin.calibrate(probs, labels, "ip", classes=names)
    wanted.save("p.json")
    pippin.decisions.calibrate(probs, labels, pippin.decisions.Utility("u.csv"), classes=names).save("d.json")
    roles = "--label '^.*l$' --id '*id' --classes " + ",".join(names)
    for data in ("data.csv", "data.parquet", "both"):
        for line in COMMANDS:
            if "group" in names and "group" in line:
                continue
            code, _, err = call(f"{line.format(d=data)} {roles}")
            assert code == 0, (line, err)
            if line.startswith("calibrate {d} --score ip"):
                assert pippin.load("q.json").threshold == wanted.threshold
        assert polars.read_parquet("s.parquet")["*id"].to_list() == frame["*id"].to_list()
    if "group" not in names:
        assert call("monitor p.json data.csv --label '^.*l$' --id '*id'")[0] == 0


def test_a_table_on_a_terminal_has_none(odd):
    """--out - writes the bytes of the table to a file or pipe, and visible text to a terminal."""
    pippin.calibrate(*[np.load("odd.npz")[name] for name in ("probs", "labels")], "ip", classes=ODD).save("p.json")
    words = [*PIPPIN, "predict", "p.json", "odd.npz", "--out", "-"]
    piped = subprocess.run(words, capture_output=True, check=True).stdout
    assert b"\x1b[31mred" in piped
    leader, follower = pty.openpty()
    with subprocess.Popen(words, stdout=follower, stderr=subprocess.DEVNULL) as process:
        os.close(follower)
        shown = b""
        with contextlib.suppress(OSError):  # at the end, on Linux
            while part := os.read(leader, 1 << 16):
                shown += part
    os.close(leader)
    assert process.returncode == 0
    assert rb"\x1b[31mred" in shown
    assert not unseen(shown.decode().replace("\r\n", "\n"))
    assert len(shown.splitlines()) >= 401


def test_complaints_show_them(odd, call):
    """Error messages escape control characters in names, so that they stay on one line."""
    code, out, err = call("calibrate 'no\x1b[2J such\u202efile.npz' --out p.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert r"no\x1b[2J such\u202efile.npz" in err
    assert not unseen(err)


def test_the_report_and_its_figures_show_them(odd, call, visit):
    """The terminal and the page show escaped names, and SVG files are valid XML."""
    code, out, err = call("compare odd.npz --scores 'ip,ip per class' --splits 4 --out out")
    assert code == 0
    assert not unseen(out + err)
    assert [path.name for path in sorted(odd.glob("out/*.svg"))] == [
        "classes.svg",
        "front.svg",
        "sizes.svg",
        "violins.svg",
    ]
    for path in odd.glob("out/*.svg"):
        assert ElementTree.fromstring(path.read_bytes()).tag.endswith("svg")
    text = (odd / "out" / "report.html").read_text("utf-8")
    assert not unseen(text)
    assert "\ufffe" not in text
    page = visit(odd / "out" / "report.html")
    assert sorted(page.locator("#classes tbody th").all_text_contents()) == sorted(SHOWN)
    worst = re.search(r"under ip, (.*?) is covered only", out)
    assert worst is None or worst[1] in SHOWN
