"""Pages of the gallery: their parts, links, and execution of the fastest ones."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
PAGES = sorted(GALLERY.glob("*/plot_*.py"), key=lambda page: page.name)
QUICK = ("basics/plot_03_what_coverage_means", "basics/plot_04_empty_and_large_sets", "acting/plot_07_actions")
GUARANTEE = re.compile(r"\n\.\. admonition:: The guarantee\n   :class: guarantee\n\n((?:   .+\n)+)")


def names(page):
    return page.stem


def test_questions_are_numbered_in_order():
    """Questions are numbered in order, without a gap."""
    assert len(PAGES) >= 19
    assert [page.name[5:7] for page in PAGES] == [f"{number:02}" for number in range(1, len(PAGES) + 1)]


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_page_has_its_parts(page):
    """A page has a question as title, the guarantee in one sentence, a picture, failures and links."""
    text = page.read_text()
    docstring = ast.get_docstring(ast.parse(text)) + "\n"
    title, line = docstring.splitlines()[:2]
    assert title.endswith("?")
    assert line == "=" * len(title)
    sentence = " ".join(GUARANTEE.search(docstring)[1].split())
    assert sentence.endswith(".")
    assert not re.search(r"[.?!] [A-Z]", sentence), sentence
    assert "plt.show()" in text
    assert re.search(r"^# What can go wrong\n# -+$", text, re.MULTILINE)
    assert re.search(r"^# Read on\n# -+$", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_failures_are_shown_by_code(page):
    """The section on what goes wrong contains code."""
    wrong = page.read_text().split("# What can go wrong\n")[1].split("# Read on\n")[0]
    assert any(line and not line.startswith("#") for line in wrong.splitlines())


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_exist(page):
    """Links lead to pages of docs/ or of the gallery."""
    for target in re.findall(r":doc:`(?:[^`<]*<)?([^`>]+)>?`", page.read_text()):
        if target.startswith("/"):
            assert (GALLERY.parent / f"{target[1:]}.md").is_file(), target
        else:
            assert (page.parent / f"{target}.py").is_file(), target


def test_quick_pages_run(tmp_path):
    """Quick pages run as scripts in an empty folder without warnings; each draws a figure and leaves no file."""
    code = (
        "import runpy, sys, matplotlib; matplotlib.use('agg'); sys.path.insert(0, sys.argv[1])\n"
        "import gallery_style, matplotlib.pyplot as plt\n"
        "for page in sys.argv[2:]:\n"
        "    gallery_style.fresh({}, page); runpy.run_path(page)\n"
        "    assert plt.get_fignums(), page; plt.close('all')"
    )
    pages = [GALLERY / f"{name}.py" for name in QUICK]
    command = [sys.executable, "-W", "error::UserWarning", "-c", code, GALLERY.parent / "_site", *pages]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert not list(tmp_path.iterdir())


def test_code_on_the_site_is_at_most_80_characters_wide():
    """A wider line would be cut off; printed output and options of directives are left out."""
    wide = [f"{page.name}:{number}" for page in PAGES for number, line in numbered(page) if len(line) > 80]
    for page in GALLERY.parent.glob("*.md"):
        blocks = re.finditer(r"^```[^\n]*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        lines = [line for block in blocks for line in code_lines(block[1].splitlines())]
        wide += [f"{page.name}: {line}" for line in lines if len(line) > 80]
    assert wide == []


def numbered(page):
    return enumerate(page.read_text().splitlines(), 1)


def code_lines(lines):
    """Return the lines of a block that are code: with prompts if it has any, and no options."""
    if any(line.startswith(">>> ") for line in lines):
        return [line for line in lines if line.startswith((">>> ", "... "))]
    return [line for line in lines if not line.startswith(":")]
