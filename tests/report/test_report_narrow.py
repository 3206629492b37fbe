"""The report on a phone: narrow figures, and fading edges where content can be scrolled."""

import pytest

PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
FADES = """box => ["::before", "::after"].map((side) => Number(getComputedStyle(box, side).opacity))"""


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_the_level_is_seen_in_the_chart_of_classes(report, visit, width):
    """One chart is visible, completely, with the dashed line of the requested level at 90%."""
    page = visit(report.path, width, 844)
    (chart,) = [svg for svg in page.locator("figure.tall svg").all() if svg.is_visible()]
    box = page.locator("figure.tall .scroll").bounding_box()
    level = chart.locator("[id$=-level] path")
    assert level.count() == 1
    line = level.bounding_box()
    area = chart.bounding_box()
    assert box["x"] <= area["x"] < line["x"] < area["x"] + area["width"] <= box["x"] + box["width"]
    assert box["x"] + box["width"] <= width
    assert line["height"] > 100


def test_no_drawing_takes_what_belongs_to_another(report, visit):
    """Ids are unique, and references stay within their drawing."""
    page = visit(report.path)
    assert page.evaluate("new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size") == page.evaluate(
        "document.querySelectorAll('[id]').length"
    )
    strangers = page.evaluate("""[...document.querySelectorAll('figure svg')].flatMap((svg) =>
        [...svg.innerHTML.matchAll(/(?:href="#|url\\(#)([^")]+)/g)].map((m) => m[1])
        .filter((id) => !svg.querySelector('#' + CSS.escape(id))))""")
    assert strangers == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_wide_tables_fade_where_there_is_more(report, visit, theme):
    """Fading at the right before scrolling, at both sides halfway, at the left at the end."""
    page = visit(report.path, 390, 844, color_scheme=theme)
    table = page.locator(".scroll:has(#summary)")
    for place, expected in (("0", [0, 1]), ("this.scrollWidth / 4", [1, 1]), ("this.scrollWidth", [1, 0])):
        table.evaluate(f"function (box) {{ box.scrollLeft = {place.replace('this', 'box')}; }}")
        page.evaluate(PAINTED)
        assert table.evaluate(FADES) == expected
    wide = visit(report.path, 1200, 844)
    wide.evaluate(PAINTED)
    assert wide.locator(".scroll:has(#summary)").evaluate(FADES) == [0, 0]


def test_the_fade_is_drawn_over_the_table(report, visit):
    """The fade is visible in the heading row, too."""
    page = visit(report.path, 390, 844)
    page.evaluate(PAINTED)
    head = page.locator(".scroll:has(#summary)").bounding_box()
    edge = {"x": head["x"] + head["width"] - 8, "y": head["y"] + 4, "width": 6, "height": 10}
    faded = page.screenshot(clip=edge, full_page=True)
    page.add_style_tag(content=".scroll::after { opacity: 0 !important; }")  # its class would be put back
    assert page.screenshot(clip=edge, full_page=True) != faded


def test_whatever_scrolls_is_reached_by_keyboard(report, visit):
    """Tables and figures are in named regions that can be focused with the Tab key."""
    page = visit(report.path, 390, 844)
    page.eval_on_selector_all("details", "all => all.forEach(d => { d.open = true; })")
    boxes = page.locator("table").evaluate_all(
        "all => all.map(({ parentElement: b }) => [b.tabIndex, b.getAttribute('role'), !!b.ariaLabel])"
    )
    assert boxes == [[0, "region", True]] * 6
    page.focus("#summary th:last-child button")
    page.keyboard.press("Shift+Tab")
    wanted, reached = set(page.locator(".scroll").evaluate_all("all => all.map(b => b.ariaLabel)")), set()
    for _ in range(200):
        if wanted <= reached:
            break
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.ariaLabel"))
    assert wanted <= reached
