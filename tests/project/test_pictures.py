"""The pictures of README.md and of the start page show what docs/pictures.py computes."""

import importlib.util
import json

import pytest
from PIL import Image

from support.site import ROOT

DOCS = ROOT / "docs"
SPEC = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
pictures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pictures)
BENCH = {
    "rows": 50_000,
    "classes": 1_000,
    "rivals": [
        {"peer": "MAPIE lac", "score": "ip", "theirs_s": 2.0, "ours_s": 0.02},
        {"peer": "TorchCP LAC", "score": "ip", "theirs_s": 0.015, "ours_s": 0.025},
        {"peer": "TorchCP LAC, rows checked", "score": "ip", "theirs_s": 0.15, "ours_s": 0.025},
        {"peer": "MAPIE raps", "score": "raps", "theirs_s": 19.0, "ours_s": 0.09},
    ],
}


@pytest.fixture(scope="module")
def digits():
    return pictures.digit_sets()


def test_digits_show_sets_of_every_kind(digits):
    """Six classes; singletons, larger sets and one set that misses the true class."""
    assert len(set(digits.labels)) == 6
    contains = [label in members for members, label in zip(digits.sets, digits.labels, strict=True)]
    assert [(len(members), found) for members, found in zip(digits.sets, contains, strict=True)] == [*pictures.SHOWN]
    assert digits.caption == "90.7% of 1,037 new sets contain the true class (90% requested)"


@pytest.mark.parametrize("name", [name for name in pictures.PICTURES if (DOCS / f"_static/{name}-light.png").exists()])
def test_checked_in_pictures_are_current(name):
    """The caption that each file holds is the one that its figures give."""
    caption, _ = pictures.PICTURES[name]()
    for theme in pictures.THEMES:
        with Image.open(DOCS / "_static" / f"{name}-{theme.name}.png") as image:
            assert image.text["Description"] == caption
            assert image.mode == "RGBA"


def test_digits_are_described_where_they_are_shown(digits):
    for page in (ROOT / "README.md", DOCS / "index.md"):
        assert digits.caption in " ".join(page.read_text().split())


def test_speed_is_described_where_it_is_shown():
    """The README has the picture with its caption if the figures are there."""
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert ("speed-light.png" in readme) == (DOCS / "_static" / "speed-light.png").exists()
    assert "speed-light.png" not in readme or pictures.PICTURES["speed"]()[0] in readme


def test_speed_is_drawn_from_the_largest_case(tmp_path, monkeypatch):
    """Bars for each library and score; the slower variant of pippin counts."""
    (tmp_path / "bench.json").write_text(json.dumps({"peers": [{**BENCH, "rows": 10}, BENCH]}))
    monkeypatch.setattr(pictures, "DOCS", tmp_path)
    caption, draw = pictures.PICTURES["speed"]()
    assert caption == "0.6 to 210 times the speed of other libraries for 50,000 rows × 1,000 classes"
    assert pictures.speed_groups(BENCH["rivals"])["IP / LAC"] == {"pippin": 0.025, "MAPIE": 2.0, "TorchCP": 0.015}
    texts = [text.get_text() for text in draw(pictures.THEMES[0]).axes[0].texts]
    assert {"25 ms", "15 ms   0.6 ×", "2 s   80 ×", "19 s   210 ×"} <= set(texts)
