"""The report in a browser: mouse, keyboard, touch, small screens, dark mode and accessibility."""

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from support.synthetic_report import rows_of


def test_hovering_shows_the_numbers(report, visit):
    """Pointing at a score shows its tip, pointing elsewhere shows none."""
    page = visit(report.path)
    summary = {row["score"]: row for row in report.comparison.summary().to_dicts()}
    page.locator("#scatter").scroll_into_view_if_needed()
    marks = page.locator("#scatter .mark").all()
    for mark, score in zip(marks, report.comparison.scores, strict=True):
        x, y = mark.evaluate("""node => {
            const m = node.transform.baseVal.consolidate().matrix, box = node.ownerSVGElement.getBoundingClientRect();
            return [box.left + m.e, box.top + m.f];
        }""")
        page.mouse.move(x, y)
        row = summary[str(score)]
        shown = page.inner_text("#scatter .tip").split("\n")
        assert shown == [
            str(score),
            f"size {row['mean_size']:.2f}",
            f"{row['singleton_rate']:.1%} singletons",
        ]
    page.mouse.move(2, 2)
    assert not page.is_visible("#scatter .tip")


def test_the_chart_can_be_read_by_keyboard(report, visit):
    """The arrow keys reach all compared scores and all points of the lines."""
    page = visit(report.path)
    page.focus("#scatter svg")
    dots = json.loads(page.inner_text("#data") or page.text_content("#data"))["front"]
    every = [dot["label"] for dot in dots["compared"]] + [d["label"] for t in dots["traces"] for d in t["dots"]]
    seen = []
    for _ in every:
        page.keyboard.press("ArrowRight")
        seen.append(page.inner_text("#scatter .tip b"))
    assert sorted(seen) == sorted(every)


def test_tapping_shows_the_numbers(report, visit):
    """On a phone, tapping a score shows its numbers."""
    page = visit(report.path, 360, 740, has_touch=True)
    mark = page.locator("#scatter .mark").nth(1)
    mark.tap()
    assert page.inner_text("#scatter .tip b") == "margin"


def test_tables_sort(report, visit):
    """Sorting by numbers, up and down, and by names, with mouse and keyboard."""
    page = visit(report.path)
    means = {row["score"]: row["mean_size"] for row in report.comparison.summary().to_dicts()}
    rising = sorted(means, key=means.get)
    page.click("#summary button:has-text('size')")
    assert [row[0] for row in rows_of(page, "#summary")] == rising
    page.keyboard.press("Enter")
    assert [row[0] for row in rows_of(page, "#summary")] == rising[::-1]
    assert page.get_attribute("#summary th:nth-child(3)", "aria-sort") == "descending"
    page.click("#summary button:has-text('score')")
    assert [row[0] for row in rows_of(page, "#summary")] == sorted(means)


@pytest.mark.parametrize("width", [320, 360, 768])
def test_no_sideways_scroll_on_small_screens(report, visit, width):
    """The page fits the screen; wide tables and figures scroll in their boxes."""
    page = visit(report.path, width, 740)
    page.eval_on_selector_all("details", "all => all.forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


CONTRASTS = """() => {
    const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (node) => {
        for (; node; node = node.parentElement) {
            const rgb = numbers(getComputedStyle(node).backgroundColor);
            if (rgb.length < 4 || rgb[3] === 1) return rgb;
        }
    };
    const reported = "h1, h2, h3, p, li, th, td, td span, small, code, dt, dd, figcaption, summary, output";
    const nodes = document.querySelectorAll(reported);
    return [...nodes].filter((node) => node.checkVisibility()).map((node) => {
        const [a, b] = [light(numbers(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => x - y);
        return [(b + 0.05) / (a + 0.05), node.outerHTML.slice(0, 80)];
    }).sort((a, b) => a[0] - b[0])[0];
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out(report, visit, theme):
    """In light and dark mode, the contrast of text is at least 4.5 to 1."""
    page = visit(report.path, color_scheme=theme)
    red, green, blue = map(
        int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
    )
    assert max(red, green, blue) < 60 if theme == "dark" else min(red, green, blue) > 230
    least, where = page.evaluate(CONTRASTS)
    assert least >= 4.5, where


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(report, visit, theme):
    """axe finds no violations."""
    page = visit(report.path, color_scheme=theme)
    violations = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in violations] == []


def test_names_are_text_not_markup(report, visit):
    """Class names and titles with HTML tags, quotes and other alphabets are shown unchanged, as text."""
    page = visit(report.path)
    page.eval_on_selector_all("details", "all => all.forEach(d => { d.open = true; })")
    assert [row[0] for row in rows_of(page, "#classes")] == [str(name) for name in report.data.classes]
    assert (
        page.locator("main b, main i").all_inner_texts()
        == ["!", "!", "✓", "✓", "!"] + [""] * page.locator("main i").count()
    )
    assert page.locator("script").count() == 2


def test_the_slider_has_a_text_value(report, visit):
    """The slider's text describes the recommended score at the chosen level."""
    page = visit(report.path)
    assert page.get_attribute("#alpha", "aria-label") == "α, the significance level"
    for step in (100, 250, 37):
        page.fill("#alpha", str(step))
        shown = {cells[0]: cells[1:] for cells in rows_of(page, "#alpha-table")}
        _, coverage, size, singletons, empty = shown[str(report.verdict.take)]
        assert page.get_attribute("#alpha", "aria-valuetext") == (
            f"{step / 1000:.3f}: {report.verdict.take}, coverage {coverage}, size {size}, {singletons} singletons, "
            f"{empty} empty"
        )
