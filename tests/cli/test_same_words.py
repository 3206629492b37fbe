"""Terminal output and report agree in numbers, units and terms."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pippin.tables.reading import example_data
from support.rows import made_rows

ROOT = Path(__file__).parents[2]


def write_rows(path, absent=0):
    """Write 400 rows of 8 classes, without the last `absent` ones."""
    probs = made_rows("spread", 400, 8, 0)
    labels = np.where(np.arange(400) % 3 > 0, probs[:, : 8 - absent].argmax(axis=1), np.arange(400) % (8 - absent))
    np.savez(path, probs=probs, labels=labels)


@pytest.fixture
def compared(call, tmp_path, monkeypatch, blank_figures):
    """Return a function that runs `pippin compare`, and returns its output and the text of the report."""
    monkeypatch.chdir(tmp_path)

    def compare(scores, absent=0):
        write_rows("data.npz", absent)
        code, out, _ = call(f"compare data.npz --scores '{scores}' --alpha 0.2 --splits 4 --out out")
        assert code == 0
        page = (tmp_path / "out" / "report.html").read_text("utf-8")
        body = re.sub(r"<(style|script|svg).*?</\1>", " ", page, flags=re.DOTALL)
        return " ".join(out.split()), " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())

    return compare


def test_distances_are_in_one_unit(compared):
    """CovGap and SSCV are printed as shares in terminal and report."""
    out, page = compared("pip,pip per class")
    found = pl.read_csv("out/conditional.csv").to_dicts()
    assert len(found) == 2
    for row in found:
        numbers = [f"{row['covgap']:.3f}", f"{row['sscv']:.3f}"]
        assert " │ ".join(numbers) in out
        assert f"{row['worst_class']} {row['worst_class_coverage']:.1%} {' '.join(numbers)}" in page
    assert "0.01 for a percentage point" in out
    assert "0.01 for a percentage point" in page
    assert "left out here" not in out + page


def test_one_word_for_one_thing(compared):
    """Headings are coverage, size, singletons and empty; the paper's terms occur once."""
    out, page = compared("ip,pip")
    assert "score ┃ coverage ┃ size ┃ singletons ┃ empty ┃" in out
    for text in (out, page):
        for word in ("efficiency", "informativeness", "classes per set", "with one class"):
            assert text.count(word) == 1, word
        assert not re.search("mean set size|fewest classes|sets with no class.*sets with no class", text)
    assert "score threshold coverage size singletons empty" in page
    assert "pair size interval singletons percentage points interval" in page
    assert "smallest size" in page


def test_documents_have_the_same_heads():
    """Tables in documentation and benchmarks use the column headings of the report."""
    for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.py")):
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("|") or "| score |" in line:
                assert not re.search("classes per set|one class|mean_size|singleton_rate|set size", line), path


def test_evaluate_has_the_same_words(call, tmp_path):
    write_rows(tmp_path / "data.npz")
    assert call(f"calibrate {tmp_path}/data.npz --out {tmp_path}/p.json")[0] == 0
    lines = call(f"evaluate {tmp_path}/p.json {tmp_path}/data.npz")[1].splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["coverage", "size", "singletons", "empty"]


def test_a_title_is_a_name_not_a_path(call, tmp_path, blank_figures):
    """The title has the file name without folder and ending; the facts for reproduction have the path."""
    place = tmp_path / "some folder"
    place.mkdir()
    write_rows(place / "Field 3.npz")
    assert call(f"compare '{place}/Field 3.npz' --scores ip --splits 2 --out {tmp_path}/out")[0] == 0
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert re.findall(r"<(?:title|h1)>(.*?)</", page) == ["Which score for Field 3?"] * 2
    assert f"<dd>{place}/Field 3.npz</dd>" in page


@pytest.mark.parametrize(
    ("path", "title"),
    [
        (None, "the embedded example"),
        ("-", "standard input"),
        ("a/b/data.npz", "data"),
        ("../wheat.v2.csv.gz", "wheat.v2"),
        ("a/.hidden", ".hidden"),
    ],
)
def test_what_data_are_called(path, title):
    assert replace(example_data(), path=path and Path(path)).title == title


def test_one_absent_class_is_reported_once(compared):
    """Terminal and report name a class without rows in equal words, with the consequence for thresholds per class."""
    reported = (
        "1 of the 8 classes has no rows and is left out here. Without a finite threshold, it is in every set of "
        "pip per class, pip rc3p."
    )
    for text in compared("pip,pip per class,pip rc3p", absent=1):
        assert text.count(reported) == 1


def test_absent_classes_are_reported_once(compared):
    for text in compared("pip", absent=3):
        assert text.count("3 of the 8 classes have no rows and are left out here.") == 1
        assert "Without a finite threshold" not in text
