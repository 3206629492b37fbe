"""Class and group names with control characters or markup are shown literally."""

import csv
import re
import unicodedata
from xml.etree import ElementTree

import numpy as np
import pytest

import pippin
from pippin._runtime.showing import visible
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
    """The characters that are more than letters, but for line breaks."""
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
    """On the terminal and as text in Python."""
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


def test_complaints_show_them(odd, call):
    """Names in messages are on one line, also names of files."""
    code, out, err = call("calibrate 'no\x1b[2J such\u202efile.npz' --out p.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert r"no\x1b[2J such\u202efile.npz" in err
    assert not unseen(err)


def test_the_report_and_its_figures_show_them(odd, call, visit):
    """In the terminal and in the page; SVG files are valid XML."""
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
