"""The terminal and the page tell the same: the same numbers in the same units, and what both must say, once."""

import re
from html import unescape

import numpy as np
import polars as pl
import pytest

from support.rows import made_rows


@pytest.fixture
def compared(call, tmp_path, monkeypatch):
    """What `pippin compare` prints, and the text of its page; the last classes may be absent."""
    monkeypatch.chdir(tmp_path)

    def compare(scores, absent=0):
        probs = made_rows("spread", 400, 8, 0)
        labels = np.where(np.arange(400) % 3 > 0, probs[:, : 8 - absent].argmax(axis=1), np.arange(400) % (8 - absent))
        np.savez("data.npz", probs=probs, labels=labels)
        code, out, _ = call(f"compare data.npz --scores '{scores}' --alpha 0.2 --splits 4 --out out")
        assert code == 0
        page = (tmp_path / "out" / "report.html").read_text("utf-8")
        body = re.sub(r"<(style|script|svg).*?</\1>", " ", page, flags=re.DOTALL)
        return " ".join(out.split()), " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())

    return compare


def test_distances_are_in_one_unit(compared):
    """CovGap and SSCV as shares, as Python, the tables on disk and `pippin evaluate` have them."""
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


def test_one_absent_class_is_told_once(compared):
    """In the same words, with what becomes of it where thresholds are per class."""
    told = (
        "1 of the 8 classes has no rows and is left out here. Without a finite threshold, it is in every set of "
        "pip per class, pip rc3p."
    )
    for text in compared("pip,pip per class,pip rc3p", absent=1):
        assert text.count(told) == 1


def test_absent_classes_are_told_once(compared):
    for text in compared("pip", absent=3):
        assert text.count("3 of the 8 classes have no rows and are left out here.") == 1
        assert "Without a finite threshold" not in text
