"""What the README and the docs show is what comes out."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch):
    """Every >>> of a page, in order, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
    assert found.attempted or page.name != "README.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """Relative links name files of the project."""
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_a_score_of_ones_own_takes_six_lines():
    """The README's example of a new score, counted."""
    block = next(
        b for b in (ROOT / "README.md").read_text().split("```") if "pippin.scores.register" in b and ">>>" in b
    )
    assert 0 < block.count(">>>") + block.count("...") <= 6
