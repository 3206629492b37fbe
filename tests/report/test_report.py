"""The report in a browser: its numbers equal those of the Python functions."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import pippin
from pippin.cli.report import write_report
from support.synthetic_report import SCORES, TITLE, evaluated, rows_of, written
from support.trials import study_of


def test_everything_is_written(report):
    """One page and four figures as PNG and SVG; the page loads no other files."""
    names = {path.name for path in report.path.parent.iterdir()}
    kinds = {f"{name}.{kind}" for name in ("violins", "front", "sizes", "classes") for kind in ("png", "svg")}
    assert names == kinds | {"report.html"}
    text = report.path.read_text(encoding="utf-8")
    links = re.findall(r"""(?:src|href)=["'](?!#|data:)([^"']*)""", text)
    assert links == ["https://pippin-conformal.github.io/pippin/glossary.html#evaluation"]  # a link loads nothing
    assert "@import" not in text
    assert "url(http" not in text


def test_the_same_results_give_the_same_page(report, tmp_path):
    """The files are equal byte for byte."""
    again = written(tmp_path, report.data, SCORES, splits=30)
    assert again.path.read_bytes() == report.path.read_bytes()


def test_the_report_has_the_results(report, visit):
    """Recommendation, checks, table of scores, and facts for reproducing the report."""
    page = visit(report.path)
    assert page.title() == page.inner_text("h1") == TITLE
    reported = page.inner_text("#verdict").replace("\N{NO-BREAK SPACE}", " ")
    for sentence in (*report.verdict.sentences, *report.verdict.cautions):
        assert sentence.replace("`", "") in reported
    for pick in (*report.verdict.compared, *report.verdict.tuned):
        assert str(pick.score) in reported
    kinds = page.eval_on_selector_all(".checks li", "all => all.map(li => li.className)")
    assert kinds == ["doubt", "doubt", "good", "good", "doubt"]
    assert "is covered only 69% of the time" in page.inner_text(".checks li:first-child")
    assert "<b>bold</b> (60%), \"quoted\" 'twice' (40%)" in page.inner_text(".lead")
    assert page.inner_text("#verdict pre") == "pippin calibrate 'a <file>.npz' --score repip"
    summary = report.comparison.summary().to_dicts()
    for shown, row in zip(rows_of(page, "#summary"), summary, strict=True):
        assert shown[0] == row["score"]
        assert shown[2] == f"{row['mean_size']:.2f} ± {row['mean_size_sd']:.2f}"
        assert shown[3] == f"{row['singleton_rate']:.1%} ± {100 * row['singleton_rate_sd']:.1f}"
        assert shown[4] == f"{row['singleton_accuracy']:.1%} ± {100 * row['singleton_accuracy_sd']:.1f}"
    repeat = page.inner_text("section:last-of-type")
    for text in ("pippin compare 'a <file>.npz'", "<a file>", pippin.__version__, np.__version__, "sha256 0123abcd"):
        assert text in repeat


def test_differences_are_those_of_the_package(report, visit):
    """The report shows all pairs of scores with their intervals."""
    page = visit(report.path)
    page.click("summary:has-text('pairs')")
    shown = rows_of(page, "#pairs")
    sizes = pippin.differences(report.comparison, "mean_size")
    singletons = pippin.differences(report.comparison, "singleton_rate")
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
    """At each alpha, the slider shows the results of calibrating at this level, to the digits shown."""
    page = visit(report.path)
    page.fill("#alpha", str(step))
    assert page.inner_text("#alpha-value") == f"{step / 1000:.3f}"
    shown = rows_of(page, "#alpha-table")
    for cells, score in zip(shown, report.comparison.scores, strict=True):
        threshold, e = evaluated(report.data, report.trial, score, step / 1000)
        numbers = [f"{e.coverage:.1%}", f"{e.mean_size:.2f}", f"{e.singleton_rate:.1%}", f"{e.empty_rate:.1%}"]
        assert cells == [str(score), f"{threshold:.4f}", *numbers]


def test_the_slider_moves_by_keyboard(report, visit):
    """An arrow key moves the slider by 0.001."""
    page = visit(report.path)
    page.focus("#alpha")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#alpha-value") == "0.101"


def test_too_few_rows_mean_all_classes(tmp_path, visit, blank_figures):
    """With 18 calibration rows, the slider states at α = 0.05 that every set holds all classes."""
    data = pippin.load_example()
    few = SimpleNamespace(probs=data.probs[:40], labels=data.labels[:40], classes=data.classes)
    page = visit(written(tmp_path, few, ("ip",), splits=1).path)
    page.fill("#alpha", "50")
    assert rows_of(page, "#alpha-table") == [["ip", "∞", "100.0%", "all", "0.0%", "0.0%"]]
    assert "too few" in page.inner_text("#alpha-status")
    page.fill("#alpha", "53")  # 18 is the first number of rows that is enough: 19 · 0.947 = 17.993
    assert "∞" not in rows_of(page, "#alpha-table")[0]


def test_scores_that_coincide_are_one_line(tmp_path, visit, blank_figures):
    """With two classes, scores with equal sets share one line and one bar, and a sentence explains it."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 2, 600)
    probs, labels = np.stack([1 - p, p], axis=1), (rng.random(600) < p).astype(int)
    study = study_of(probs, labels, pippin.scores.PAPER, 10)
    page = visit(write_report(tmp_path, study, title="Two", run={}))
    lines = ["ip = margin = pip = repip", "aps = raps"]
    for table in ("#summary", "#conditional"):
        assert [cells[0] for cells in rows_of(page, table)] == lines
    assert [cells[0] for cells in rows_of(page, "#alpha-table")] == ["ip", "aps"]
    assert len(rows_of(page, "#pairs")) == 1
    assert "With two classes these scores order the labels alike, so ip, margin, pip and repip" in page.inner_text(
        "main"
    )
    assert "SSCV groups the sets by size: 0–1 and 2." in page.inner_text("section:has(#conditional) .note")
    assert "6 scores were calibrated" in page.inner_text("header")
    members = page.inner_text(".lead b")
    assert all(f"{k} (" in members for k in (0, 1))


def test_equal_best_values_are_all_marked(tmp_path, visit, blank_figures):
    """Scores whose shares of singletons look equal are all marked as best."""
    page = visit(written(tmp_path, pippin.load_example(), ("ip", "pip(beta=16)", "margin"), splits=5).path)
    best = page.eval_on_selector_all("#summary td.best", "all => all.map(td => td.parentElement.cells[0].innerText)")
    _, almost, most = (cells[3].split(" ")[0] for cells in rows_of(page, "#summary"))
    assert (best, almost) == (["ip", "pip(beta=16)", "margin"], most)
