"""The figures: each takes results of this package and returns a matplotlib figure of them."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pippin._compare.comparison import Comparison
from pippin._compare.methods import Method, parse_methods
from pippin._compare.sweeping import Sweep
from pippin._predictors.metrics import Evaluation
from pippin.cli.report.style import (
    GRID,
    INK,
    LOOKS,
    SYMBOLS,
    TARGET,
    WARNING,
    drawn,
    look,
    new_figure,
    percent_axis,
    short,
    size_axis,
)
from pippin.cli.report.toy_cases import CASES, Case

PANELS = {
    "coverage": ("Coverage", "sets that hold the true class"),
    "efficiency": ("Size", "classes per set; less is better"),
    "informativeness": ("Singletons", "sets with one class; more is better"),
}
MOST_DOTS = 2000  # splits drawn as points; of more, evenly chosen ones
GROUPS = (*range(10), 10, 20, 50, 100, 200, 500, 1000)  # where groups of set sizes begin
CROWDED = 12  # values from which the ticks of a sweep stand upright
EVERY_SIZE = 14  # the largest size up to which each has its own bar


@drawn
def violins(comparison: Comparison) -> Figure:
    """Coverage, size and singletons of every score: a violin, and one point per split."""
    scores = comparison.scores
    longest = max(len(short(score)) for score in scores)
    figure = new_figure(10.4 + 0.09 * longest, 1.5 + 0.62 * len(scores))
    axes = figure.subplots(1, 3, sharey=True, squeeze=False)[0]
    places = range(len(scores))
    means = comparison.summary()
    for ax, (metric, (title, label)) in zip(axes, PANELS.items(), strict=True):
        values = comparison.metric(metric)
        if metric == "efficiency":
            size_axis(ax, "x", float(values.min()), float(values.max()))
        else:
            percent_axis(ax, "x")
        bodies = ax.violinplot(list(values), places, orientation="horizontal", widths=0.86, showextrema=False)
        for body, score in zip(bodies["bodies"], scores, strict=True):
            hollow = look(score).hollow
            body.set(facecolor=look(score).colour, edgecolor=INK, alpha=0.18 if hollow else 0.45, linewidth=0.7)
            body.set(linestyle=(0, (4, 2)) if hollow else "-")
        for place, score, found in zip(places, scores, values, strict=True):
            _dots(ax, found, place, look(score).colour, sideways=True)
        ax.plot(
            means[metric], places, linestyle="", marker="|", markersize=15, markeredgewidth=2.2, color=INK, zorder=4
        )
        ax.set_title(title, loc="left")
        ax.set_xlabel(label)
        ax.grid(axis="x")
        if ax.get_xscale() == "linear":
            ax.locator_params(axis="x", nbins=5)
    target(axes[0], comparison.alpha)
    axes[0].set_yticks(places, [short(score) for score in scores], parse_math=False)
    axes[0].set_ylim(len(scores) - 0.4, -0.6)
    return figure


@drawn
def sweep(swept: Sweep) -> Figure:
    """Size and singletons against a parameter's value: one point per split, a line through the means."""
    figure = new_figure(11, 4.4)
    axes = figure.subplots(1, 2, squeeze=False, gridspec_kw={"wspace": 0.06})[0]
    places = range(len(swept.values))
    means = swept.summary()
    name = SYMBOLS.get(swept.parameter, swept.parameter)
    colour, marker, _ = look(Method(swept.score))
    for ax, metric in zip(axes, ("efficiency", "informativeness"), strict=True):
        title, label = PANELS[metric]
        values = swept.comparison.metric(metric)
        if metric == "efficiency":
            size_axis(ax, "y", float(values.min()), float(values.max()))
        else:
            percent_axis(ax, "y")
        for place, found in zip(places, values, strict=True):
            _dots(ax, found, place, colour, sideways=False)
        ax.plot(places, means[metric], color=INK, linewidth=1.2, marker=marker, markersize=7, markerfacecolor="white")
        ax.set_title(title, loc="left")
        ax.set_ylabel(label)
        ax.set_xlabel(f"{name} of {short(swept.score)}", parse_math=False)
        ax.set_xticks(places, [f"{value:g}" for value in swept.values], fontsize=9.5 if len(places) > 8 else 11)
        ax.tick_params(axis="x", rotation=90 if len(places) > CROWDED else 0)
        ax.grid(axis="y")
    return figure


@drawn
def toy() -> Figure:
    """The paper's six toy cases: y has probability 0.1 in all, the scores differ by what stands above it."""
    figure = new_figure(10, 5.6)
    axes = figure.subplots(2, 3, sharey=True)
    for number, (ax, case) in enumerate(zip(axes.flat, CASES, strict=True), 1):
        _toy_case(ax, case)
        ax.set_title(f"Case {number}", loc="left")
    for ax in axes[:, 0]:
        ax.set_ylabel("probability")
    return figure


def _toy_case(ax: Axes, case: Case) -> None:
    row, own = case.row(), len(case.above)
    colours = [LOOKS["ip"].colour] * own + [TARGET] + [GRID] * (len(row) - own - 1)
    bars = ax.bar(range(len(row)), row, color=colours, width=0.8)
    bars[own].set_hatch("///")
    bars[own].set_edgecolor(INK)
    ax.set_xticks(range(own + 1), [*"abcdefgh"[:own], "y"])
    ax.set_xlim(-0.7, 11.3)
    names = {"ip": "IP", "margin": "MS", "pip": "PIP"}
    ax.set_xlabel("     ".join(f"{names[name]} {value:.2f}" for name, value in case.computed().items()))


@drawn
def sizes(evaluations: dict[str, Evaluation]) -> Figure:
    """How large the sets are: for every score, the share of sets of each size, on one split."""
    columns = 2 if len(evaluations) == 4 else min(3, len(evaluations))
    rows = -(-len(evaluations) // columns)
    figure = new_figure(11 if columns == 3 else 4.5 * columns, 0.5 + 2.3 * rows)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    names, groups = _size_groups(max(max(e.size_counts) for e in evaluations.values()))
    for ax, (spelling, evaluation) in zip(axes.flat, evaluations.items(), strict=False):
        shares = np.zeros(len(names))
        for size, count in evaluation.size_counts.items():
            shares[groups[size]] += count / evaluation.n
        bars = ax.bar(
            range(len(names)), shares, color=look(parse_methods(spelling)[0]).colour, edgecolor=INK, linewidth=0.6
        )
        for bar, name in zip(bars, names, strict=True):
            bar.set_hatch("///" if name == "1" else "")
        ax.set_title(short(spelling), loc="left", parse_math=False, fontsize=12 if len(spelling) < 24 else 9)
        ax.set_xticks(range(len(names)), names)
        ax.tick_params(axis="x", rotation=90 if len(names) > EVERY_SIZE + 1 or len(names[-1]) > 2 else 0)
        percent_axis(ax, "y")
        ax.grid(axis="y")
    for column, ax in enumerate(axes.flat[len(evaluations) :], columns - (rows * columns - len(evaluations))):
        ax.set_visible(False)
        axes[-2, column].tick_params(labelbottom=True)  # the lowest that is seen
    figure.supxlabel("size", fontsize=11)
    figure.supylabel("share of sets", fontsize=11)
    return figure


def _size_groups(largest: int) -> tuple[list[str], NDArray[np.int64]]:
    """The names of the bars, and the bar of every size: large sizes share one."""
    if largest <= EVERY_SIZE:
        return [str(size) for size in range(largest + 1)], np.arange(largest + 1)
    starts = [start for start in GROUPS if start <= largest]
    ends = [*(start - 1 for start in starts[1:]), largest]
    names = [str(a) if a == b else f"{a}–{b}" for a, b in zip(starts, ends, strict=True)]
    return names, np.searchsorted(starts, np.arange(largest + 1), side="right") - 1


def _dots(ax: Axes, values: NDArray[np.float64], place: float, colour: str, sideways: bool) -> None:
    """One point per split, spread a little so that they can be seen; the same every time."""
    chosen = values[:: -(-len(values) // MOST_DOTS)]
    spread = place + np.random.default_rng(0).uniform(-0.2, 0.2, len(chosen))
    x, y = (chosen, spread) if sideways else (spread, chosen)
    ax.scatter(x, y, s=7, color=colour, alpha=0.45, linewidths=0, rasterized=True)


def target(ax: Axes, alpha: float) -> None:
    """The line that coverage is promised to reach."""
    ax.axvline(1 - alpha, color=TARGET, linestyle=(0, (5, 2)), linewidth=1.6, gid="level")
    ax.annotate(
        f"1 − α = {1 - alpha:g}",
        (1 - alpha, 1),
        (4, 2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        color=WARNING,
        fontsize=9.5,
    ).set_in_layout(False)
