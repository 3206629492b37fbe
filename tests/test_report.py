"""The report in a real browser: its numbers, its manners, and that it talks to nobody."""

import json
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import pippin
from browser import open_browser
from pippin import verdict
from pippin.evidence import CoverageCheck
from pippin.methods import parse_methods
from pippin.ranking import as_rows
from pippin.report import write_report
from pippin.study import study
from pippin.trials import draw_split, make_trial, split_generator

NASTY = ("<b>bold</b>", "\"quoted\" 'twice'", "</script><script>alert(1)</script>", "a & b", "ßüß 小麦 $x_1$")
TITLE = "Seedlings <i>&amp;</i> “sets”"
SCORES = (*pippin.PAPER_SCORES, pippin.socop())


def evaluated(data, trial, score, alpha):
    """The sets of the first split, by the public functions."""
    calibration, _ = draw_split(trial, 0)
    generator = split_generator(trial.seed, 0)
    generator.choice(trial.rows.n, trial.n_calibration, replace=False, shuffle=False)
    probs, labels = data.probs, data.labels
    predictor = pippin.calibrate(probs[calibration], labels[calibration], score, alpha, data.classes, generator)
    sets = predictor.predict(probs[~calibration], seed=generator)
    return predictor.threshold, pippin.evaluate(sets, labels[~calibration])


def written(out, data, scores, splits, alpha=0.1):
    """A report of the data."""
    groups = getattr(data, "groups", None)
    comparison = pippin.compare(data.probs, data.labels, scores, alpha, splits, classes=data.classes, groups=groups)
    trial = make_trial(as_rows(data.probs), data.labels, 0.45, alpha, 0)
    judged = verdict.judge(trial, comparison)
    doubt = CoverageCheck(False, "A doubt about <these> rows.")
    judged = verdict.Verdict(judged.sentences, judged.compared, judged.tuned, judged.fronts, (*judged.checks, doubt))
    path = write_report(
        out,
        title=TITLE,
        comparison=comparison,
        verdict=judged,
        curves=[verdict.alpha_curve(trial, score) for score in comparison.scores],
        evaluations={str(s): evaluated(data, trial, s, alpha)[1] for s in comparison.scores},
        run={"command": "pippin compare 'a <file>.npz'", "data": "<a file>", "checksum": "sha256 " + 8 * "0123abcd"},
    )
    return SimpleNamespace(path=path, data=data, trial=trial, comparison=comparison, verdict=judged)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The embedded example, some of its classes renamed to be nasty."""
    data = pippin.load_example()
    renamed = SimpleNamespace(probs=data.probs, labels=data.labels, classes=(*NASTY, *data.classes[len(NASTY) :]))
    return written(tmp_path_factory.mktemp("report"), renamed, SCORES, splits=30)


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests."""
    with open_browser() as found:
        yield found


@pytest.fixture
def visit(browser):
    """Opens a page; at the end nothing may have been asked of the network nor complained about."""
    contexts, complaints = [], []

    def asked(route):
        if not route.request.url.startswith(("file:", "data:")):
            complaints.append(route.request.url)
        route.continue_() if route.request.url.startswith("file:") else route.abort()

    def opened(path, width=1200, height=900, **settings):
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)
        context.route("**/*", asked)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("#scatter svg")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def rows_of(page, table):
    """The texts of a table's body."""
    return page.eval_on_selector_all(f"{table} tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.innerText))")


def test_everything_is_written(report):
    """One page and four figures, each as PNG and SVG; the page asks for nothing outside itself."""
    names = {path.name for path in report.path.parent.iterdir()}
    kinds = {f"{name}.{kind}" for name in ("violins", "front", "sizes", "classes") for kind in ("png", "svg")}
    assert names == kinds | {"report.html"}
    text = report.path.read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert "@import" not in text
    assert "url(http" not in text


def test_the_same_results_give_the_same_page(report, tmp_path):
    """Byte for byte."""
    again = written(tmp_path, report.data, SCORES, splits=30)
    assert again.path.read_bytes() == report.path.read_bytes()


def test_it_says_what_was_found(report, visit):
    """The verdict's sentences, picks and checks, the summary and how to repeat it."""
    page = visit(report.path)
    assert page.title() == page.inner_text("h1") == TITLE
    told = page.inner_text("#verdict").replace("\N{NO-BREAK SPACE}", " ")
    for sentence in report.verdict.sentences:
        assert sentence.replace("`", "") in told
    for pick in (*report.verdict.compared, *report.verdict.tuned):
        assert str(pick.score) in told
    assert page.eval_on_selector_all(".checks li", "all => all.map(li => li.className)") == ["good", "good", "doubt"]
    summary = report.comparison.summary().to_dicts()
    for shown, row in zip(rows_of(page, "#summary"), summary, strict=True):
        assert shown[0] == row["score"]
        assert shown[2] == f"{row['efficiency']:.3f} ± {row['efficiency_sd']:.3f}"
        assert shown[3] == f"{row['informativeness']:.1%} ± {100 * row['informativeness_sd']:.1f}"
    repeat = page.inner_text("section:last-of-type")
    for text in ("pippin compare 'a <file>.npz'", "<a file>", pippin.__version__, np.__version__, "sha256 0123abcd"):
        assert text in repeat


def test_differences_are_those_of_the_package(report, visit):
    """Every pair, with its interval."""
    page = visit(report.path)
    page.click("summary:has-text('pairs')")
    shown = rows_of(page, "#pairs")
    sizes = pippin.differences(report.comparison, "efficiency")
    singletons = pippin.differences(report.comparison, "informativeness")
    assert len(shown) == len(sizes) == 21
    for cells, a, b in zip(shown, sizes, singletons, strict=True):
        expected = [
            f"{a.first} − {a.second}",
            f"{a.mean:+.3f}",
            f"{a.low:+.3f} … {a.high:+.3f}",
            f"{100 * b.mean:+.1f}",
            f"{100 * b.low:+.1f} … {100 * b.high:+.1f}",
        ]
        assert cells == [text.replace("-", "−") for text in expected]


@pytest.mark.parametrize("step", [5, 50, 100, 123, 500])
def test_the_slider_shows_what_calibrating_anew_gives(report, visit, step):
    """For every score: threshold, coverage, size, singletons, empty, to the digits shown."""
    page = visit(report.path)
    page.fill("#alpha", str(step))
    assert page.inner_text("#alpha-value") == f"{step / 1000:.3f}"
    shown = rows_of(page, "#alpha-table")
    for cells, score in zip(shown, report.comparison.scores, strict=True):
        threshold, e = evaluated(report.data, report.trial, score, step / 1000)
        numbers = [f"{e.coverage:.1%}", f"{e.efficiency:.3f}", f"{e.informativeness:.1%}", f"{e.empty_rate:.1%}"]
        assert cells == [str(score), f"{threshold:.4f}", *numbers]


def test_the_slider_moves_by_keyboard(report, visit):
    """An arrow key is one step of 0.001."""
    page = visit(report.path)
    page.focus("#alpha")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#alpha-value") == "0.101"


def test_too_few_rows_mean_all_classes(tmp_path, visit):
    """18 calibration rows do for α = 0.1, not for 0.05: the slider says so; one score and one split suffice."""
    data = pippin.load_example()
    few = SimpleNamespace(probs=data.probs[:40], labels=data.labels[:40], classes=data.classes)
    page = visit(written(tmp_path, few, ("ip",), splits=1).path)
    page.fill("#alpha", "50")
    assert rows_of(page, "#alpha-table") == [["ip", "∞", "100.0%", "all", "0.0%", "0.0%"]]
    assert "too few" in page.inner_text("#alpha-told")
    page.fill("#alpha", "53")  # 18 is the first number of rows that is enough: 19 · 0.947 = 17.993
    assert "∞" not in rows_of(page, "#alpha-table")[0]


METHODS = ("ip", "pip", "repip", "pip per class", "repip per class", "raps(lam=0.1, k_reg=2) per group nonempty")


@pytest.fixture(scope="module")
def conditional(tmp_path_factory):
    """A study with methods and groups, written as `pippin compare` does."""
    data = pippin.load_example()
    groups = np.where(np.arange(len(data.labels)) % 3 == 0, "<north>", "south")
    methods = parse_methods(METHODS)
    made = study(as_rows(data.probs), data.labels, data.classes, methods, 0.1, 30, 0.45, 0, groups=groups)
    path = write_report(
        tmp_path_factory.mktemp("conditional"),
        title=TITLE,
        comparison=made.comparison,
        verdict=made.verdict,
        curves=made.curves,
        evaluations=made.evaluations,
        run={},
    )
    return SimpleNamespace(path=path, data=data, groups=groups, comparison=made.comparison, verdict=made.verdict)


def test_classes_and_groups_are_told(conditional, visit):
    """Every number of `Comparison.conditional`; the classes under the recommended score and its version per class."""
    page = visit(conditional.path)
    rows = conditional.comparison.conditional().to_dicts()
    assert len(rows) == len(METHODS)
    for shown, row in zip(rows_of(page, "#conditional"), rows, strict=True):
        assert shown == [
            row["score"],
            row["worst_class"],
            f"{row['worst_class_coverage']:.1%}",
            f"{100 * row['covgap']:.1f}",
            f"{100 * row['sscv']:.1f}",
            row["worst_group"],
            f"{row['worst_group_coverage']:.1%}",
        ]
    assert "repip per class brings the worst class to" in page.inner_text("#verdict")
    page.click("summary:has-text('classes as a table')")
    assert page.locator("#classes thead th").all_inner_texts() == [
        "class",
        "rows",
        "repip\ncoverage",
        "repip per class\ncoverage",
    ]
    coverage = {
        (row["score"], row["class"]): row["coverage"] for row in conditional.comparison.class_coverage().to_dicts()
    }
    for name, _, plain, own in rows_of(page, "#classes"):
        assert plain == f"{coverage['repip', name]:.1%}"
        assert own == f"{coverage['repip per class', name]:.1%}"
    page.click("#conditional button:has-text('CovGap')")
    assert [row[0] for row in rows_of(page, "#conditional")] == [
        row["score"] for row in sorted(rows, key=lambda row: row["covgap"])
    ]


@pytest.mark.parametrize("step", [20, 100, 300])
def test_the_slider_works_for_methods(conditional, visit, step):
    """At any level, what `calibrate` and `predict` give on the first split."""
    page, data = visit(conditional.path), conditional.data
    page.fill("#alpha", str(step))
    calibration, _ = draw_split(conditional.comparison.trial, 0)
    shown = {cells[0]: cells[1:] for cells in rows_of(page, "#alpha-table")}
    assert list(shown) == list(METHODS)
    for method in ("pip per class", "repip per class"):
        score, _, per = method.split()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predictor = pippin.calibrate(data.probs[calibration], data.labels[calibration], score, step / 1000, per=per)
        e = pippin.evaluate(predictor.predict(data.probs[~calibration]), data.labels[~calibration])
        numbers = [f"{e.coverage:.1%}", f"{e.efficiency:.3f}", f"{e.informativeness:.1%}", f"{e.empty_rate:.1%}"]
        assert shown[method] == ["several", *numbers]


@pytest.mark.parametrize("width", [320, 768])
def test_long_names_leave_the_page_as_wide_as_the_screen(conditional, visit, width):
    """No sideways scroll, and no bar's name over its bar."""
    page = visit(conditional.path, width, 740)
    page.eval_on_selector_all("details", "all => all.forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.eval_on_selector_all(
        "#alpha-bars .bar",
        """all => all.every(({ children: [name, bar] }) => name.scrollWidth <= name.clientWidth
            && name.getBoundingClientRect().right <= bar.getBoundingClientRect().left)""",
    )


def test_marks_are_hollow_on_any_paper(conditional):
    """What is white in a file is the page's own ground in the page."""
    assert "#ffffff" not in re.sub(r"<style>.*?</style>", "", conditional.path.read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.filterwarnings("ignore:.*needs 9 calibration examples:UserWarning")
def test_absent_classes_and_single_thresholds_are_told(tmp_path, visit):
    """A class without rows is in every set per class; a method that is only never empty has its score's threshold."""
    data = pippin.load_example()
    kept = data.labels != 3
    methods = parse_methods(("pip", "pip per class", "pip nonempty"))
    made = study(as_rows(data.probs[kept]), data.labels[kept], data.classes, methods, 0.1, 5, 0.45, 0)
    known = {"comparison": made.comparison, "verdict": made.verdict, "curves": made.curves}
    page = visit(write_report(tmp_path, title=TITLE, **known, evaluations=made.evaluations, run={}))
    told = page.inner_text("section:has(#conditional) .note")
    assert "1 of the 12 classes has no rows" in told
    assert "every set of pip per class." in told
    plain, several, nonempty = (cells[1] for cells in rows_of(page, "#alpha-table"))
    assert plain == nonempty != several == "several"


def test_methods_are_hollow_in_the_chart(conditional, visit):
    page = visit(conditional.path)
    fills = page.eval_on_selector_all("#scatter .mark", "all => all.map(m => m.style.fill)")
    assert [fill == "var(--halo)" for fill in fills] == [" per " in method for method in METHODS]
    assert "hollow" in page.inner_text("#scatter-legend")


def test_hovering_shows_the_numbers(report, visit):
    """At every compared score, its own; away from them, nothing."""
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
            f"{row['efficiency']:.3f} classes per set",
            f"{row['informativeness']:.1%} with one class",
        ]
    page.mouse.move(2, 2)
    assert not page.is_visible("#scatter .tip")


def test_the_chart_can_be_read_by_keyboard(report, visit):
    """The arrow keys reach every compared score and every member of the fronts."""
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
    """On a telephone."""
    page = visit(report.path, 360, 740, has_touch=True)
    mark = page.locator("#scatter .mark").nth(1)
    mark.tap()
    assert page.inner_text("#scatter .tip b") == "margin"


def test_tables_sort(report, visit):
    """By number, up and down; by name; by mouse and by keyboard."""
    page = visit(report.path)
    means = {row["score"]: row["efficiency"] for row in report.comparison.summary().to_dicts()}
    rising = sorted(means, key=means.get)
    page.click("#summary button:has-text('efficiency')")
    assert [row[0] for row in rows_of(page, "#summary")] == rising
    page.keyboard.press("Enter")
    assert [row[0] for row in rows_of(page, "#summary")] == rising[::-1]
    assert page.get_attribute("#summary th:nth-child(3)", "aria-sort") == "descending"
    page.click("#summary button:has-text('score')")
    assert [row[0] for row in rows_of(page, "#summary")] == sorted(means)


@pytest.mark.parametrize("width", [320, 360, 768])
def test_no_sideways_scroll_on_small_screens(report, visit, width):
    """The page fits; what is wider scrolls inside its own box."""
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
    const told = "h1, h2, h3, p, li, th, td, td span, small, code, dt, dd, figcaption, summary, output";
    const nodes = document.querySelectorAll(told);
    return [...nodes].filter((node) => node.checkVisibility()).map((node) => {
        const [a, b] = [light(numbers(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => x - y);
        return [(b + 0.05) / (a + 0.05), node.outerHTML.slice(0, 80)];
    }).sort((a, b) => a[0] - b[0])[0];
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out(report, visit, theme):
    """Both themes; the dark one is dark; no text is fainter than 4.5 to 1."""
    page = visit(report.path, color_scheme=theme)
    red, green, blue = map(
        int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
    )
    assert max(red, green, blue) < 60 if theme == "dark" else min(red, green, blue) > 230
    least, where = page.evaluate(CONTRASTS)
    assert least >= 4.5, where


def test_names_are_text_not_markup(report, visit):
    """Class names and titles with tags, quotes and other scripts come out as they went in."""
    page = visit(report.path)
    page.eval_on_selector_all("details", "all => all.forEach(d => { d.open = true; })")
    assert [row[0] for row in rows_of(page, "#classes")] == [str(name) for name in report.data.classes]
    assert page.locator("main b, main i").all_inner_texts() == ["✓", "✓", "!"] + [""] * page.locator("main i").count()
    assert page.locator("script").count() == 2


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
