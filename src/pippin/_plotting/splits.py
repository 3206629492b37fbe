"""Metrics of every split as violins or points, for each score or each value of a parameter; curves of decisions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pippin._compare.decisions import CALIBRATED, EXPECTED, LEVELS, DecisionComparison, DecisionCurve
from pippin._compare.methods import Method, parse_methods
from pippin._plotting import drawing
from pippin._plotting.drawing import INK, drawn, short
from pippin._runtime.arrays import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._compare.comparison import Comparison
    from pippin._compare.tuning import Sweep

PANELS = {
    "coverage": ("Coverage", "sets that hold the true class"),
    "mean_size": ("Size", "classes per set; less is better"),
    "singleton_rate": ("Singletons", "sets with one class; more is better"),
}
SWEPT = ("mean_size", "singleton_rate")
TICKS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of alpha
MOST_DOTS = 2000  # splits drawn as points; of more, evenly chosen ones
CROWDED = 12  # values from which the ticks of a sweep stand upright


def look(method: Method) -> drawing.Look:
    """The look of the score's family; hollow for a method that is not the plain score."""
    return drawing.LOOKS.get(method.score.name, drawing.OTHER)._replace(hollow=not method.plain)


@drawn
def plot_metric(comparison: "Comparison", metric: str, ax: "Axes | None") -> "Axes":
    """Draw one metric of every score."""
    longest = max(len(short(score)) for score in comparison.scores)
    ax = drawing.new_axes(ax, 6.4 + 0.09 * longest, 1.4 + 0.62 * len(comparison.scores))
    draw_metric(ax, comparison, metric)
    name_scores(ax, comparison)
    return ax


def draw_metric(ax: "Axes", comparison: "Comparison", metric: str) -> None:
    """Draw a violin for each score, one point per split, and a mark for the mean."""
    values, places = comparison.metric(metric), range(len(comparison.scores))
    _shown_axis(ax, "x", metric, values)
    bodies: Any = ax.violinplot(list(values), places, orientation="horizontal", widths=0.86, showextrema=False)
    for place, body in enumerate(bodies["bodies"]):
        colour, _, hollow = look(comparison.scores[place])
        body.set(facecolor=colour, edgecolor=INK, alpha=0.18 if hollow else 0.45, linewidth=0.7)
        body.set(linestyle=(0, (4, 2)) if hollow else "-")
        _dots(ax, values[place], place, colour, sideways=True)
    ax.plot(values.mean(axis=1), places, linestyle="", marker="|", markersize=15, mew=2.2, color=INK, zorder=4)
    title, label = PANELS[metric]
    ax.set_title(title, loc="left")
    ax.set_xlabel(label)
    ax.grid(axis="x")
    if ax.get_xscale() == "linear":
        ax.locator_params(axis="x", nbins=5)
    if metric == "coverage":
        drawing.target(ax, comparison.alpha)


def name_scores(ax: "Axes", comparison: "Comparison") -> None:
    """Name the violins."""
    drawing.name_rows(ax, range(len(comparison.scores)), comparison.scores)


@drawn
def plot_sweep(swept: "Sweep") -> "tuple[Axes, ...]":
    """Draw size and singletons against the parameter, on two axes."""
    axes = drawing.new_row(len(SWEPT), 11, 4.4)
    for ax, metric in zip(axes, SWEPT, strict=True):
        draw_sweep(ax, swept, metric)
    return axes


def draw_sweep(ax: "Axes", swept: "Sweep", metric: str) -> None:
    """One metric against a parameter's value: one point per split, a line through the means."""
    places, values = range(len(swept.values)), swept.comparison.metric(metric)
    colour, marker, _ = look(Method(swept.score))
    _shown_axis(ax, "y", metric, values)
    for place, found in zip(places, values, strict=True):
        _dots(ax, found, place, colour, sideways=False)
    means = values.mean(axis=1)
    ax.plot(places, means, color=INK, linewidth=1.2, marker=marker, markersize=7, markerfacecolor="white")
    title, label = PANELS[metric]
    ax.set_title(title, loc="left")
    ax.set_ylabel(label)
    ax.set_xlabel(f"{drawing.SYMBOLS.get(swept.parameter, swept.parameter)} of {short(swept.score)}", parse_math=False)
    ax.set_xticks(places, [f"{value:g}" for value in swept.values], fontsize=9.5 if len(places) > 8 else 11)
    ax.tick_params(axis="x", rotation=90 if len(places) > CROWDED else 0)
    ax.grid(axis="y")


def _shown_axis(ax: "Axes", axis: str, metric: str, values: Vector) -> None:
    if metric == "mean_size":
        drawing.size_axis(ax, axis, float(values.min()), float(values.max()))
    else:
        drawing.percent_axis(ax, axis)


def _dots(ax: "Axes", values: Vector, place: float, colour: str, sideways: bool) -> None:
    """One point per split, spread a little so that they can be seen; the same every time."""
    chosen = values[:: -(-len(values) // MOST_DOTS)]
    spread = place + np.random.default_rng(0).uniform(-0.2, 0.2, len(chosen))
    x, y = (chosen, spread) if sideways else (spread, chosen)
    ax.scatter(x, y, s=7, color=colour, alpha=0.45, linewidths=0, rasterized=True)


@drawn
def plot_promises(comparison: DecisionComparison) -> "tuple[Axes, ...]":
    """Draw the mean certificate and the mean utility, on two axes."""
    axes = drawing.new_row(2, 10.4, 4.8, sharey=True)
    draw_promises(axes, comparison)
    return axes


def draw_promises(axes: Sequence["Axes"], comparison: DecisionComparison) -> None:
    """Draw the mean certificate and the mean utility at every level, a line for each kind of decisions."""
    left, right = axes
    for curve in comparison.curves:
        if curve.name == EXPECTED:
            right.axhline(curve.came[0], color=drawing.QUIET, linestyle=":", linewidth=1.8, label=EXPECTED)
        else:
            _line(left, curve, curve.promised)
            _line(right, curve, curve.came)
    for ax, title in ((left, "Promised: mean certificate"), (right, "Had: mean utility")):
        ax.set_title(title, loc="left")
        drawing.plain_log_axis(ax, TICKS)
        ax.set_xlabel("α, the share of broken certificates allowed")
        ax.axvline(comparison.alpha, color=drawing.TARGET, linestyle=(0, (5, 2)), linewidth=1.4)
        ax.grid()
    left.set_ylabel("utility")
    handles, names = right.get_legend_handles_labels()
    left.get_figure().legend(handles, names, loc="outside lower center", ncols=4, fontsize=9.5)  # type: ignore[union-attr]  # axes have a figure


def _line(ax: "Axes", curve: DecisionCurve, values: Vector) -> None:
    if curve.name == CALIBRATED:
        colour, marker, size, width, zorder = INK, "o", 7.0, 2.4, 4
    else:
        colour, marker, _ = look(parse_methods(curve.name.removeprefix("worst case over "))[0])
        size, width, zorder = 5.0, 1.3, 3
    style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": size, "linewidth": width}
    ax.plot(LEVELS, values, label=short(curve.name), zorder=zorder, **style)
