"""Figures of a comparison, a sweep and the toy cases, as PNG and SVG files and as inline SVG for HTML pages."""

import re
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from pippin._compare.comparison import Comparison
from pippin._compare.decisions import DecisionComparison
from pippin._compare.methods import parse_methods
from pippin._compare.tuning import Sweep
from pippin._compare.verdict import Verdict
from pippin._conformal.evaluation import Evaluation
from pippin._plotting import comparison as plots
from pippin._plotting import drawing
from pippin._plotting.decisions import draw_decision_curves
from pippin._plotting.drawing import GRID, HIGHLIGHT, INK, QUIET, STYLE, STYLES, TARGET, WARNING, short, styled
from pippin._plotting.sets import draw_shares, draw_sizes
from pippin._runtime.disk import to_bytes, write_atomically
from pippin.cli.toy import CASES, Case

if TYPE_CHECKING:
    from pippin.cli.report.page import ClassCoverage

NARROW = 18  # maximum number of characters of a class name in a narrow figure
THEMED = {  # CSS variable that replaces each color of a figure in an HTML page
    INK: "ink",
    "#111111": "ink",
    QUIET: "quiet",
    GRID: "grid",
    WARNING: "warning",
    HIGHLIGHT: "highlight",
    "#ffffff": "halo",
    "#0072b2": "blue",
}


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure of this width and height in inches."""
    return Figure(figsize=(width, height), layout="constrained")


@styled
def violins(comparison: Comparison) -> Figure:
    """Draw coverage, mean set size and share of singletons of each score as violins, with a point per split."""
    longest = max(len(short(score)) for score in comparison.scores)
    figure = new_figure(10.4 + 0.09 * longest, 1.5 + 0.62 * len(comparison.scores))
    axes = figure.subplots(1, 3, sharey=True, squeeze=False)[0]
    for ax, metric in zip(axes, plots.PANELS, strict=True):
        plots.draw_metric(ax, comparison, metric)
    drawing.name_rows(axes[0], range(len(comparison.scores)), comparison.scores)
    return figure


@styled
def front(comparison: Comparison, verdict: Verdict) -> Figure:
    """Draw the mean set size against the share of singletons of all scores, with the Pareto front.

    Scores that differ in one parameter only are joined by a line.
    """
    known = plots.read_front(comparison, verdict.fronts)
    figure = new_figure(9, 6.6)
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    plots.draw_front(ax, known)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9.5)
    figure.draw_without_rendering()
    plots.label_front(ax, known)
    return figure


@styled
def promises(comparison: DecisionComparison) -> Figure:
    """Draw the mean certificate (guaranteed utility) and the mean utility of decisions at each significance level."""
    figure = new_figure(10.4, 4.8)
    draw_decision_curves(figure.subplots(1, 2, sharey=True), comparison)
    return figure


@styled
def sweep(swept: Sweep) -> Figure:
    """Draw mean set size and share of singletons against a parameter: a point per split, a line through the means."""
    figure = new_figure(11, 4.4)
    axes = figure.subplots(1, 2, squeeze=False, gridspec_kw={"wspace": 0.06})[0]
    for ax, metric in zip(axes, plots.SWEPT, strict=True):
        plots.draw_sweep(ax, swept, metric)
    return figure


@styled
def toy() -> Figure:
    """Draw the toy cases of Melki et al. (2024): probabilities as bars, hatched for the class y, and scores of y."""
    figure = new_figure(10, 5.6)
    axes = figure.subplots(2, 3, sharey=True)
    for number, (ax, case) in enumerate(zip(axes.flat, CASES, strict=True), 1):
        _toy_case(ax, case)
        ax.set_title(f"Case {number}", loc="left")
    for ax in axes[:, 0]:
        ax.set_ylabel("probability")
    return figure


def _toy_case(ax: Axes, case: Case) -> None:
    row, rank = case.row(), len(case.above)
    colors = [STYLES["ip"].color] * rank + [TARGET] + [GRID] * (len(row) - rank - 1)
    bars = ax.bar(range(len(row)), row, color=colors, width=0.8)
    bars[rank].set(hatch="///", edgecolor=INK)
    ax.set_xticks(range(rank + 1), [*"abcdefgh"[:rank], "y"])
    ax.set_xlim(-0.7, 11.3)
    names = {"ip": "IP", "margin": "MS", "pip": "PIP"}
    ax.set_xlabel("     ".join(f"{names[name]} {value:.2f}" for name, value in case.computed().items()))


@styled
def sizes(evaluations: dict[str, Evaluation]) -> Figure:
    """Draw a histogram of the set sizes on the first split for each score."""
    columns = 2 if len(evaluations) == 4 else min(3, len(evaluations))
    rows = -(-len(evaluations) // columns)
    figure = new_figure(11 if columns == 3 else 4.5 * columns, 0.5 + 2.3 * rows)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    largest = max(max(evaluation.size_counts) for evaluation in evaluations.values())
    for ax, (spelling, evaluation) in zip(axes.flat, evaluations.items(), strict=False):
        draw_sizes(ax, evaluation.size_counts, largest, plots.family_style(parse_methods(spelling)[0]).color)
        ax.set_title(short(spelling), loc="left", parse_math=False, fontsize=12 if len(spelling) < 24 else 9)
    for column, ax in enumerate(axes.flat[len(evaluations) :], columns - (rows * columns - len(evaluations))):
        ax.set_visible(False)
        axes[-2, column].tick_params(labelbottom=True)  # show ticks on the lowest visible axes of the column
    figure.supxlabel("size", fontsize=11)
    figure.supylabel("share of sets", fontsize=11)
    return figure


@styled
def class_coverage(comparison: Comparison, by_class: "dict[str, ClassCoverage]", narrow: bool = False) -> Figure:
    """Draw the coverage of each class as a bar, the lowest on top.

    `by_class` holds the coverage under one method, or under two; the second is drawn as hollow marks. If there are
    many classes, those with the lowest and highest coverage are drawn. A narrow figure fits the screen of a phone.
    """
    longest = NARROW if narrow else drawing.LONGEST
    (title, coverage), *others = by_class.items()
    mean_sizes = dict(zip(map(str, comparison.scores), comparison.metric("mean_size").mean(axis=1), strict=True))
    shown, places, hidden = drawing.shown_rows(sorted(coverage, key=lambda name: coverage[name][1]))
    figure = new_figure(4.8 if narrow else 9, 1.4 + 0.27 * (len(shown) + 2 * bool(hidden) + 1.5 * bool(others)))
    ax = figure.subplots()
    draw_shares(ax, places, [coverage[name][1] for name in shown], comparison.alpha)
    for place, name in zip(places, shown, strict=True):
        drawing.write_note(ax, place, f"{coverage[name][1]:.1%} of {coverage[name][0]:,}")
    drawing.write_notes_heading(ax, "coverage of rows")
    if hidden:
        drawing.write_hidden(ax, hidden, "classes")
    for name, other in others:
        label = f"{short(name, longest)}, size {mean_sizes[name]:.2f}"
        (marks,) = ax.plot([other[k][1] for k in shown], places, "o", clip_on=False, zorder=4, label=label)
        marks.set(markerfacecolor="white", markeredgecolor=INK, markeredgewidth=1.6, markersize=7.5)
        figure.legend(loc="outside lower center", fontsize=10)
    drawing.name_rows(ax, places, shown, longest)
    if narrow:
        ax.set_xticks([0, 0.5, 1])
    ax.set_xlabel("coverage")
    size = f", size {mean_sizes[title]:.2f}" if others else ""
    ax.set_title(short(title, longest) + size, loc="left", pad=18, parse_math=False)
    return figure


def rendered(figure: Figure, kind: str) -> bytes:
    """Render a figure as PNG, or as SVG without background; equal figures give equal bytes."""
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type") if kind == "svg" else ("Software",))
    with matplotlib.style.context(STYLE, after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # matplotlib draws a box for a missing glyph
        if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
            figure.draw_without_rendering()
            figure.set_layout_engine(None)  # keep this layout when the other file format is written
        return to_bytes(partial(figure.savefig, format=kind, dpi=150, metadata=metadata, transparent=kind == "svg"))


def inline(svg: bytes, name: str) -> str:
    """Prepare an SVG for an HTML page with a light and a dark mode: replace its colors by CSS variables.

    Element ids are prefixed with `name`, so that they are unique in the page.
    """
    text = svg.decode()
    text = re.sub(r"<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', text, count=1)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    for color, variable in THEMED.items():
        text = text.replace(color, f"var(--{variable})")
    return text


def save_figure(figure: Figure, folder: Path, name: str, svg: bytes | None = None) -> Path:
    """Write `name`.png and `name`.svg with a white background, and return the path of the PNG.

    `svg` is the figure as SVG without background; by default it is rendered.
    """
    svg = rendered(figure, "svg") if svg is None else svg
    start = svg.index(b">", svg.index(b"<svg")) + 1
    paper = b'\n <rect width="100%" height="100%" fill="#ffffff"/>'
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.png", rendered(figure, "png"))
    write_atomically(folder / f"{name}.svg", svg[:start] + paper + svg[start:])
    return folder / f"{name}.png"
