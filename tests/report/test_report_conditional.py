"""The report of methods with several thresholds: its classes, its groups, and how they are drawn."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import pippin
from pippin._compare.methods import parse_methods
from pippin._compare.splits import draw_split
from pippin.cli.report import write_report
from support.synthetic_report import TITLE, rows_of
from support.trials import study_of

METHODS = ("ip", "pip", "repip", "pip per class", "repip per class", "raps(lam=0.1, k_reg=2) per group nonempty")


def write_study(out, made):
    """Write the report of a study as `pippin compare` does."""
    return write_report(out, made, title=TITLE, run={})


@pytest.fixture(scope="module")
def conditional(tmp_path_factory):
    """Return a study with several taxonomies and groups."""
    data = pippin.load_example()
    groups = np.where(np.arange(len(data.labels)) % 3 == 0, "<north>", "south")
    methods = parse_methods(METHODS)
    made = study_of(data.probs, data.labels, methods, 30, classes=data.classes, groups=groups)
    path = write_study(tmp_path_factory.mktemp("conditional"), made)
    return SimpleNamespace(path=path, data=data, comparison=made.comparison)


def test_coverage_by_class_and_group(conditional, visit):
    """The page shows `Comparison.conditional`, and coverage by class with one threshold and with several."""
    page = visit(conditional.path)
    rows = conditional.comparison.conditional().to_dicts()
    assert len(rows) == len(METHODS)
    for shown, row in zip(rows_of(page, "#conditional"), rows, strict=True):
        assert shown == [
            row["score"],
            row["worst_class"],
            f"{row['worst_class_coverage']:.1%}",
            f"{row['covgap']:.3f}",
            f"{row['sscv']:.3f}",
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
    """At each alpha, the slider shows the results of `calibrate` and `predict` on the first split."""
    page, data = visit(conditional.path), conditional.data
    page.fill("#alpha", str(step))
    calibration = draw_split(conditional.comparison.trial, 0).calibration
    shown = {cells[0]: cells[1:] for cells in rows_of(page, "#alpha-table")}
    assert list(shown) == list(METHODS)
    for method in ("pip per class", "repip per class"):
        score, _, per = method.split()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predictor = pippin.calibrate(data.probs[calibration], data.labels[calibration], score, step / 1000, per=per)
        e = pippin.evaluate(predictor.predict(data.probs[~calibration]), data.labels[~calibration])
        numbers = [f"{e.coverage:.1%}", f"{e.mean_size:.2f}", f"{e.singleton_rate:.1%}", f"{e.empty_rate:.1%}"]
        assert shown[method] == ["several", *numbers]


@pytest.mark.parametrize("width", [320, 768])
def test_long_names_leave_the_page_as_wide_as_the_screen(conditional, visit, width):
    """The page does not scroll sideways, and names do not overlap bars."""
    page = visit(conditional.path, width, 740)
    page.eval_on_selector_all("details", "all => all.forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.eval_on_selector_all(
        "#alpha-bars .bar",
        """all => all.every(({ children: [name, bar] }) => name.scrollWidth <= name.clientWidth
            && name.getBoundingClientRect().right <= bar.getBoundingClientRect().left)""",
    )


def test_marks_are_hollow_on_any_paper(conditional):
    """Hollow marks are white in the files, and have the page's background color in the page."""
    assert "#ffffff" not in re.sub(r"<style>.*?</style>", "", conditional.path.read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.filterwarnings("ignore:.*needs 9 calibration examples:UserWarning")
def test_absent_classes_and_single_thresholds(tmp_path, visit, blank_figures):
    """A class without rows is in all class-conditional sets; a nonempty method has the threshold of its score."""
    data = pippin.load_example()
    kept = data.labels != 3
    methods = parse_methods(("pip", "pip per class", "pip nonempty"))
    made = study_of(data.probs[kept], data.labels[kept], methods, 5, classes=data.classes)
    page = visit(write_study(tmp_path, made))
    reported = page.inner_text("section:has(#conditional) .note")
    assert "1 of the 12 classes has no rows" in reported
    assert "every set of pip per class." in reported
    plain, several, nonempty = (cells[1] for cells in rows_of(page, "#alpha-table"))
    assert plain == nonempty != several == "several"


def test_methods_are_hollow_in_the_chart(conditional, visit):
    page = visit(conditional.path)
    fills = page.eval_on_selector_all("#scatter .mark", "all => all.map(m => m.style.fill)")
    assert [fill == "var(--halo)" for fill in fills] == [" per " in method for method in METHODS]
    assert "hollow" in page.inner_text("#scatter-legend")
