"""Examples of README and docs print the shown output, and links lead somewhere."""

import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONTRIBUTORS = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch):
    """Every >>> example of a page runs, in order, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
    assert found.attempted or page.name != "README.md"


@pytest.mark.parametrize("page", [*PAGES, *CONTRIBUTORS], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """Relative links name files of the project."""
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_a_custom_score_takes_six_lines():
    """The example of a new score in docs/scores.md has six lines."""
    page = (ROOT / "docs" / "scores.md").read_text()
    block = next(b for b in page.split("```") if "pippin.scores.register" in b and ">>>" in b)
    assert 0 < block.count(">>>") + block.count("...") <= 6


README = (ROOT / "README.md").read_text()
BLOB = "https://github.com/pippin-conformal/pippin/blob/main/"
RAW = "https://raw.githubusercontent.com/pippin-conformal/pippin/main/"
SITE = "https://pippin-conformal.github.io/pippin/"


def heading_anchors(page):
    """Return the anchors of the headings of a Markdown page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def page_source(address):
    """Return the file that a page of the site is made from."""
    name = address.removeprefix(SITE).partition("#")[0].removesuffix(".html")
    if name.startswith("answers/"):
        name = name.replace("answers", "gallery").replace("/index", "/GALLERY_HEADER")
    candidates = [ROOT / "docs" / f"{name}{suffix}" for suffix in (".md", ".rst", ".py")]
    return next((path for path in candidates if path.exists()), None)


@pytest.mark.parametrize(("name", "fewest"), [("README.md", 40), ("llms.txt", 10)])
def test_links_work_outside_of_the_repository(name, fewest):
    """Links are absolute, and name files, pages and headings of the project."""
    text = (ROOT / name).read_text()
    targets = re.findall(r"\]\(([^)]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert len(targets) > fewest
    for target in targets:
        assert target.startswith("https://"), target
        for start in (BLOB, RAW):
            assert not target.startswith(start) or (ROOT / target.removeprefix(start)).is_file(), target
        if target.startswith(SITE):
            source = page_source(target)
            assert source, target
            anchor = target.partition("#")[2]
            assert not anchor or anchor in heading_anchors(source), target


def test_readme_is_short():
    """The README has at most 900 words after the first part, and code of at most 80 characters."""
    _, _, rest = README.partition("\n## ")
    prose = re.sub(r"\]\([^)]*\)", "]", rest)
    assert len(prose.split()) <= 900
    assert max(len(line) for block in README.split("```")[1::2] for line in block.splitlines()) <= 80


def test_readme_commands_run_on_the_sample(tmp_path):
    """The three commands, in order, on copies of the files in examples/."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    block = next(b for b in README.split("```") if b.startswith("\npippin compare"))
    for line in block.strip().splitlines():
        done = run(*line.split()[1:], folder=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.html").exists()
    assert len((tmp_path / "sets.csv").read_text().splitlines()) == 101


def test_sample_tables_are_those_of_the_script(tmp_path):
    subprocess.run([sys.executable, ROOT / "examples" / "make_sample.py", tmp_path], check=True, capture_output=True)
    for name in ("sample.csv", "new.csv"):
        assert (tmp_path / name).read_text() == (ROOT / "examples" / name).read_text()
