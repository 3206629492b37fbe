"""The page of a field run in a browser: filters, keyboard, phone, dark mode, and unusual file names."""

import os

import numpy as np
import pytest
from PIL import Image

from pippin.cli.report.field import PAGE, FieldResults, field_page

CLASSES = ("maize", "wheat", "charlock", "</script><script>document.title=2</script><i>", "dock")
ACTIONS = ("spray", "leave", "ask")
NAMES = (
    'a "b" <img src=x onerror=document.title=1>.png',
    "50% #1 ?x=1 & more.png",
    "two\nlines.png",
    "it's back\\slash.png",
    "weeds ünd 小麦.png",
    os.fsdecode(b"latin\xff.png"),
)
N, ROWS, COLUMNS, SIDE = 200, 5, 7, 20
READY = "#windows li"


def made_windows(rng, decides=True, shape=(ROWS, COLUMNS)):
    """Return random records of windows."""
    found = []
    for i in range(shape[0] * shape[1]):
        members = [CLASSES[k] for k in rng.permutation(5)[: rng.choice([0, 1, 1, 1, 2, 5])]]
        action = ACTIONS[rng.integers(3)] if decides else None
        found.append(
            {
                "row": i // shape[1],
                "column": i % shape[1],
                "set": members,
                "action": action,
                "certificate": float(rng.random()) if members and decides else None,
                "credibility": float(rng.random()),
            }
        )
    return found


def write_page(out, seen):
    """Write the page next to the drawn photographs, and return its path."""
    (out / PAGE).write_text(field_page(seen), encoding="utf-8")
    return out / PAGE


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Make results of 200 photographs of 35 windows; six have unusual names, the others share a picture."""
    out, rng = tmp_path_factory.mktemp("field"), np.random.default_rng(0)
    (out / "drawn").mkdir()
    picture = Image.new("RGB", (COLUMNS * SIDE + 9, ROWS * SIDE + 30), "#447744")
    entries = []
    for i in range(N):
        name = NAMES[i] if i < len(NAMES) else f"photo{i}.png"
        drawn = f"drawn/{name.removesuffix('.png')}.jpg" if i < len(NAMES) else "drawn/other.jpg"
        if not (out / drawn).exists():
            picture.save(out / drawn)
        size = [COLUMNS * SIDE + 9, ROWS * SIDE + 9]
        entries.append({"photo": f"/p/{name}", "drawn": drawn, "size": size, "windows": made_windows(rng)})
    entries.append({"photo": "/p/<b>cut.png", "reason": "/p/<b>cut.png is damaged or no image"})
    seen = FieldResults(entries, CLASSES, ACTIONS, SIDE, "5 classes & what <they> promise")
    return write_page(out, seen), [
        {"photo": entry["photo"], **one} for entry in entries[:-1] for one in entry["windows"]
    ]


def cards(page):
    return [card.split("\n") for card in page.locator("#windows li").all_inner_texts()]


def test_the_uncertain_stand_first_and_few_at_once(run, visit):
    path, rows = run
    page = visit(path, ready=READY)
    assert page.inner_text("#status") == f"All {len(rows):,} windows"
    assert page.evaluate("document.querySelectorAll('*').length") < 1000
    empty = sorted((row for row in rows if not row["set"]), key=lambda row: row["credibility"])
    assert [(card[0].strip(), card[1]) for card in cards(page)] == [(row["action"], "no class") for row in empty[:24]]
    page.click("#more-windows")
    assert len(cards(page)) == 48
    assert page.evaluate("document.activeElement === document.querySelectorAll('#windows .crop')[24]")
    page.select_option("#by-photo", "7")
    sizes = [
        5 if card[1].count(",") == 4 else card[1].count(",") + 1 if card[1] != "no class" else 9 for card in cards(page)
    ]
    assert sizes == sorted(sizes, reverse=True)


def test_filters_select_matching_windows(run, visit):
    """One filter or several select windows of photographs; an empty result is explained, and a button resets all."""
    path, rows = run
    page = visit(path, ready=READY)
    photos = [f"/p/{name}" for name in NAMES]
    tests = {
        "action": ("1", lambda row: row["action"] == "leave"),
        "class": ("3", lambda row: CLASSES[3] in row["set"]),
        "size": ("2", lambda row: len(row["set"]) == 2),
        "photo": ("0", lambda row: row["photo"] == photos[0]),
    }
    left = rows
    for name, (value, holds) in tests.items():
        page.select_option(f"#by-{name}", value)
        assert page.inner_text("#status").startswith(f"{sum(map(holds, rows)):,} of 7,000")
        page.click("#filters button")
        page.evaluate("() => new Promise((done) => setTimeout(done))")  # the form is empty after its event
        assert page.inner_text("#status") == "All 7,000 windows"
    for name, (value, holds) in tests.items():
        page.select_option(f"#by-{name}", value)
        left = [row for row in left if holds(row)]
        assert page.inner_text("#status").startswith(f"{len(left):,} of 7,000" if left else "No window matches")
        assert len(cards(page)) == min(24, len(left))
        assert page.locator("#photographs li").count() == min(6, len({row["photo"] for row in left}))


def test_hostile_names_are_shown_and_their_pictures_found(run, visit):
    page = visit(run[0], ready=READY)
    for i, shown in enumerate((*NAMES[:2], r"two\nlines.png", *NAMES[3:5], r"latin\udcff.png")):
        page.select_option("#by-photo", str(i))
        assert page.locator("#photographs b").inner_text() == shown
        box, image = (page.locator(f"#photographs {name}").bounding_box() for name in (".crop", "img"))
        assert (box["x"], box["y"], box["width"]) == (image["x"], image["y"], image["width"])
        page.locator("#photographs .crop").click()
        page.evaluate("() => document.getElementById('whole').decode()")
        assert page.evaluate("document.getElementById('whole').naturalWidth") == COLUMNS * SIDE + 9
        assert page.inner_text("#viewer-name") == shown
        page.keyboard.press("Escape")
    assert page.title() == "Field run: 200 photographs"
    assert page.locator("#counts i:not(.swatch, .track i), #counts b b, .lead they").count() == 0
    page.click("#counts summary")
    assert page.inner_text(".skipped") == "/p/<b>cut.png is damaged or no image"


def test_the_keyboard_opens_a_window_in_its_place_and_goes_to_the_next(run, visit):
    path, rows = run
    page = visit(path, ready=READY)
    page.select_option("#by-photo", "9")
    mine = sorted(rows[9 * 35 : 10 * 35], key=lambda row: (bool(row["set"]), -len(row["set"]), row["credibility"]))
    page.locator("#windows .crop").first.focus()
    page.keyboard.press("Enter")
    page.evaluate("() => document.getElementById('whole').decode()")
    for row in mine[:3]:
        outline, whole = (page.locator(name).bounding_box() for name in ("#outline", "#whole"))
        side = whole["width"] / (COLUMNS * SIDE + 9) * SIDE
        place = [outline["x"] - whole["x"], outline["y"] - whole["y"], outline["width"]]
        assert place == pytest.approx([row["column"] * side, row["row"] * side, side], abs=1)
        assert f"row {row['row']}, column {row['column']}" in page.inner_text("#viewer-status")
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    assert not page.is_visible("#viewer")
    assert page.evaluate("document.activeElement === document.querySelector('#windows .crop')")


@pytest.mark.parametrize(("width", "theme"), [(320, "dark"), (390, "light"), (1200, "dark")])
def test_nothing_scrolls_sideways_and_the_dark_is_dark(run, visit, width, theme):
    page = visit(run[0], width, 800, ready=READY, color_scheme=theme)
    sideways = "document.documentElement.scrollWidth - innerWidth"
    assert page.evaluate(sideways) == 0
    page.locator("#windows .crop").first.click()
    assert page.evaluate(sideways) == 0
    assert page.evaluate("document.getElementById('viewer').scrollWidth <= innerWidth")
    light = page.evaluate(
        "getComputedStyle(document.getElementById('viewer')).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert (min(light) > 200) == (theme == "light")


def test_whole_images_without_actions(tmp_path, visit):
    """Without windows and actions, each image is one window, colored by class, and there is no filter of actions."""
    (tmp_path / "drawn").mkdir()
    Image.new("RGB", (60, 70), "#447744").save(tmp_path / "drawn/a.jpg")
    windows = made_windows(np.random.default_rng(3), decides=False, shape=(1, 1))
    entries = [{"photo": "a.png", "drawn": "drawn/a.jpg", "size": [60, 40], "windows": windows}]
    page = visit(write_page(tmp_path, FieldResults(entries, CLASSES, None, None, "5 classes")), ready=READY)
    assert page.locator("#by-action").count() == 0
    assert page.inner_text(".first").startswith("1 photograph, 1 window, ")
    box = page.locator("#windows .crop").bounding_box()
    assert box["width"] / box["height"] == pytest.approx(1.5, rel=0.02)
    page.locator("#windows .crop").click()
    assert page.is_visible("#whole")
    assert not page.is_visible("#outline")


def test_a_run_without_a_photograph_has_a_page_too():
    page = field_page(FieldResults([{"photo": "a.png", "reason": "no"}], CLASSES, ACTIONS, SIDE, "5 classes"))
    assert "0 photographs, 0 windows" in page
    assert "1 photograph was skipped" in page


def test_a_run_without_pictures_has_a_page_with_words(tmp_path, visit):
    """Tests and reasons of careful actions are shown, and the enlarged view has no picture."""
    one = made_windows(np.random.default_rng(1), shape=(1, 1))[0]
    windows = [one | {"novelty": 0.004, "careful": "novel", "action": "ask", "certificate": None}]
    entries = [{"photo": "a.png", "size": [60, 40], "windows": windows}]
    page = visit(write_page(tmp_path, FieldResults(entries, CLASSES, ACTIONS, 40, "a model")), ready=READY)
    assert "novelty p = 0.0040 · careful since novel" in page.locator("#windows li").inner_text()
    assert "novel window" in page.inner_text("#counts")
    assert page.locator("img").count() == 1
    page.locator("#windows .crop").click()
    assert not page.locator("#whole").is_visible()
