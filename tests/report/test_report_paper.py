"""The printed report: complete, and headings on the page of their content."""

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
    """On A4 no table is cut, details are open, and the text is dark on white."""
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
    """Return the letters on each page of A4 of the printed report."""
    return on_paper(tabs, report.path, A4)


def on_paper(tabs, path, paper, **settings):
    """Print the report, and return the letters on each page."""
    page = tabs.take(1280, 720, **settings)
    page.goto(path.as_uri())
    found = [letters(text) for text in page_texts(page.pdf(**paper))]
    tabs.leave(page)
    return found


def letters(text):
    """Remove spaces, and expand ligatures."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def test_headings_are_on_the_page_of_their_content(pages, report):
    """A heading is on the page of its figure, and all headings are printed once."""
    for heading, caption in FIGURES.items():
        (page,) = (page for page in pages if letters(heading) in page)
        assert letters(caption) in page
    reported = re.findall(r"<h[123][^>]*>(.*?)</h[123]>", report.path.read_text("utf-8"))
    assert len(reported) > 8
    for heading in reported[1:]:
        assert sum(page.count(letters(heading)) for page in pages) == 1


def test_the_next_page_repeats_the_headings_of_a_table(report, tabs):
    """On small paper, each page of the table of pairs repeats its headings."""
    pages = on_paper(tabs, report.path, {"width": "210mm", "height": "120mm"})
    parts = [page for page in pages if re.search("(margin|aps|repip)−(aps|raps|socop)[+−]", page)]
    assert len(parts) > 1
    assert all("pairsizeintervalsingletonspercentagepointsinterval" in page for page in parts)


def test_what_was_folded_is_printed_and_folded_again(report, visit, pages):
    """All pairs and classes are printed; afterwards details are closed again."""
    assert sum(page.count("ip−margin") for page in pages) == 1
    page = visit(report.path)
    opened = "[...document.querySelectorAll('details')].map(d => d.open)"
    before = page.evaluate(opened)
    assert not all(before)
    page.pdf(**A4)
    assert page.evaluate(opened) == before


def test_paper_needs_no_script(report, tabs):
    """Closed details are printed without JavaScript."""
    pages = on_paper(tabs, report.path, A4, java_script_enabled=False)
    assert sum(page.count("ip−margin") for page in pages) == 1
