"""The report on paper: all of it, and every heading with what it is the heading of."""

import re
import unicodedata

import pytest

from support.pdf_text import page_texts

A4 = {"format": "A4", "margin": dict.fromkeys(("top", "bottom", "left", "right"), "15mm")}
FIGURES = {
    "Split by split": "A point per split, a violin",
    "Sizes of the sets and coverage of the classes": "Distribution of set sizes",
}


def test_paper_holds_all_of_it(report, visit):
    """Printed on A4, no table is cut at the side, folded parts are open, and it is dark on white."""
    page = visit(report.path, 680, 960, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    wide = (
        "[...document.querySelectorAll('.scroll')].filter(b => b.scrollWidth > b.clientWidth + 1).map(b => b.ariaLabel)"
    )
    assert page.evaluate(wide) == []
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.fixture(scope="module")
def pages(report, tabs):
    """The letters on every page of A4."""
    return on_paper(tabs, report.path, A4)


def on_paper(tabs, path, paper, **settings):
    """The letters on every page of the report, printed on this paper."""
    page = tabs.take(1280, 720, **settings)
    page.goto(path.as_uri())
    found = [letters(text) for text in page_texts(page.pdf(**paper))]
    tabs.leave(page)
    return found


def letters(text):
    """Without spaces, and without ligatures."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def test_a_heading_stands_above_what_it_tells_of(pages, report):
    """Its figure is on the same page, and every heading is there, once."""
    for heading, caption in FIGURES.items():
        (page,) = (page for page in pages if letters(heading) in page)
        assert letters(caption) in page
    told = re.findall(r"<h[123][^>]*>(.*?)</h[123]>", report.path.read_text("utf-8"))
    assert len(told) > 8
    for heading in told[1:]:
        assert sum(page.count(letters(heading)) for page in pages) == 1


def test_the_next_page_repeats_the_headings_of_a_table(report, tabs):
    """On low paper the table of pairs is longer than a page: each page of it has all its headings."""
    pages = on_paper(tabs, report.path, {"width": "210mm", "height": "120mm"})
    parts = [page for page in pages if re.search("(margin|aps|repip)−(aps|raps|socop)[+−]", page)]
    assert len(parts) > 1
    assert all("pairsizeintervalsingletonspercentagepointsinterval" in page for page in parts)


def test_what_was_folded_is_printed_and_folded_again(report, visit, pages):
    """Every pair and every class; the screen is afterwards what it was."""
    assert sum(page.count("ip−margin") for page in pages) == 1
    page = visit(report.path)
    opened = "[...document.querySelectorAll('details')].map(d => d.open)"
    before = page.evaluate(opened)
    assert not all(before)
    page.pdf(**A4)
    assert page.evaluate(opened) == before


def test_paper_needs_no_script(report, tabs):
    """Folded tables are printed where nothing unfolds them."""
    pages = on_paper(tabs, report.path, A4, java_script_enabled=False)
    assert sum(page.count("ip−margin") for page in pages) == 1
