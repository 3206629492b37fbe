"""Plots of comparisons: mean size against singleton rate, metrics of every split, and sweeps."""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pippin._plotting import drawing
from pippin._plotting.drawing import HIGHLIGHT, INK, SYMBOLS, FamilyStyle, short, size_axis, styled, write_labels
from pippin._runtime.arrays import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

    from pippin._compare.comparison import Comparison
    from pippin._compare.methods import Method
    from pippin._compare.tuning import Sweep

PANELS = {
    "coverage": ("Coverage", "sets that contain the true class"),
    "mean_size": ("Size", "classes per set; less is better"),
    "singleton_rate": ("Singletons", "sets with one class; more is better"),
}
SWEPT = ("mean_size", "singleton_rate")
MOST_DOTS = 2000  # largest number of splits drawn as points; they are evenly spaced among all splits
DOTS: dict[str, Any] = {"s": 7, "alpha": 0.45, "linewidths": 0, "rasterized": True}
CROWDED = 12  # largest number of values of a sweep with horizontal tick labels

DASHES = ("-", "--", ":", "-.")
HOLLOW = "sharpened, several thresholds, or never empty"
HOLLOW_MARK: dict[str, Any] = {"markersize": 9, "mfc": "white", "mec": INK, "mew": 2}
BEST: dict[str, Any] = {"color": HIGHLIGHT, "linewidth": 9, "alpha": 0.75, "solid_capstyle": "round"}
# Horizontal (SIDES) and vertical (HEIGHTS) alignment of a text whose offset from its dot is zero, positive or negative;
# and the offsets that are tried, in points.
SIDES, HEIGHTS = ("center", "left", "right"), ("center", "bottom", "top")
OFFSETS = ((6, 5), (6, -5), (-6, 5), (-6, -5), (0, 9), (0, -9), (10, 0), (-10, 0))


def family_style(method: "Method") -> FamilyStyle:
    """Return the style of a method's family of scores; the marker is hollow if the method has options."""
    return drawing.STYLES.get(method.score.name, drawing.OTHER)._replace(hollow=not method.plain)


class Dot(NamedTuple):
    """Point in the plot of size against singletons: a method with its mean set size and singleton rate."""

    method: "Method"
    size: float
    singletons: float


class Trace(NamedTuple):
    """Line through the scores of one family that differ in one parameter only."""

    title: str
    parameter: str
    dash: int
    dots: tuple[Dot, ...]


class Front(NamedTuple):
    """Dots of the plot of size against singletons: compared methods, lines of families, and the Pareto front of all."""

    compared: tuple[Dot, ...]
    traces: tuple[Trace, ...]
    best: tuple[Dot, ...]


def read_front(comparison: "Comparison", fronts: "Mapping[str, Comparison]") -> Front:
    """Collect mean size and singleton rate of methods and of families of scores, and their Pareto front."""
    compared = _dots(comparison)
    traces = [trace for family in fronts.values() for trace in _traces(_dots(family))]
    every = {dot.method: dot for trace in traces for dot in trace.dots} | {dot.method: dot for dot in compared}
    best: list[Dot] = []
    for dot in sorted(every.values(), key=lambda dot: (dot.size, -dot.singletons)):
        if not best or dot.singletons > best[-1].singletons:
            best.append(dot)
    return Front(compared, tuple(traces), tuple(best))


def _dots(comparison: "Comparison") -> tuple[Dot, ...]:
    table = comparison.summary()
    return tuple(map(Dot, comparison.scores, table["mean_size"], table["singleton_rate"]))


def _traces(dots: Sequence[Dot]) -> list[Trace]:
    """Group the scores of a family into lines; along a line, only the first parameter varies."""
    traces = []
    for dash, (_, group) in enumerate(groupby(dots, key=lambda dot: dot.method.score.parameters[1:])):
        members = tuple(group)
        score = members[0].method.score
        parameter = score.parameters[0][0]
        fixed = [f"{name} = {value:g}" for name, value in score.parameters[1:] if name == "k_reg"]
        title = f"{score.name}, varying {SYMBOLS.get(parameter, parameter)}" + "".join(f", {text}" for text in fixed)
        traces.append(Trace(title, parameter, dash % len(DASHES), members))
    return traces


@styled
def plot_front(comparison: "Comparison", fronts: "Mapping[str, Comparison]", ax: "Axes | None") -> "Axes":
    """Plot mean size against the singleton rate of compared methods and of families of scores, with a legend."""
    front, ax = read_front(comparison, fronts), drawing.new_axes(ax, 8, 5.4)
    draw_front(ax, front)
    ax.legend(loc="best", fontsize=9.5)
    ax.get_figure(root=True).draw_without_rendering()  # type: ignore[union-attr]  # axes have a figure
    label_front(ax, front)
    return ax


@styled
def plot_choice(comparison: "Comparison", chosen: "Method", ax: "Axes | None") -> "Axes":
    """Plot mean size against the singleton rate of the scores that `pippin.tune` tried, and name the chosen one."""
    front, ax = read_front(comparison, {}), drawing.new_axes(ax, 8, 5.4)
    prepare_front(ax, front, f"{short(chosen)}, chosen among {len(front.compared):,} candidates")
    for dot in front.compared:
        best = dot.method == chosen
        color, marker, _ = family_style(dot.method)
        style: dict[str, Any] = {"color": color, "marker": marker, "markersize": 15 if best else 6, "zorder": 3 + best}
        ax.plot(dot.size, dot.singletons, markeredgecolor=INK if best else color, **style)
        if best:
            place: dict[str, Any] = {"textcoords": "offset points", "fontweight": "bold", "parse_math": False}
            ax.annotate(short(chosen), (dot.size, dot.singletons), (12, -14), **place)
    ax.legend(loc="best", fontsize=9.5)
    return ax


def prepare_front(ax: "Axes", front: Front, title: str = "") -> None:
    """Format axes of mean size and singleton rate, and draw the Pareto front."""
    sizes = [dot.size for dots in (front.compared, *(trace.dots for trace in front.traces)) for dot in dots]
    size_axis(ax, "x", min(sizes), max(sizes))
    drawing.percent_axis(ax, "y")
    ax.plot(*_xy(front.best), label="Pareto front", **BEST)
    ax.margins(0.09)
    ax.grid()
    write_labels(ax, title, "← better      size", "singletons      better →")


def draw_front(ax: "Axes", front: Front) -> None:
    """Draw mean size against the singleton rate; up and to the left is better."""
    prepare_front(ax, front)
    for trace in front.traces:
        color, marker, _ = family_style(trace.dots[0].method)
        style: dict[str, Any] = {"color": color, "marker": marker, "markersize": 4.5, "linewidth": 1.3}
        ax.plot(*_xy(trace.dots), linestyle=DASHES[trace.dash], label=trace.title, **style)
    for dot in front.compared:
        color, marker, hollow = family_style(dot.method)
        size = 17 if marker == "*" else 11
        face, edge, width = ("white", color, 2.4) if hollow else (color, INK, 1)
        ax.plot(dot.size, dot.singletons, marker=marker, markersize=size, zorder=5, mfc=face, mec=edge, mew=width)
    if any(family_style(dot.method).hollow for dot in front.compared):
        ax.plot([], [], linestyle="", marker="o", label=f"hollow: {HOLLOW}", **HOLLOW_MARK)


def _xy(dots: Sequence[Dot]) -> tuple[list[float], list[float]]:
    return [dot.size for dot in dots], [dot.singletons for dot in dots]


def label_front(ax: "Axes", front: Front) -> None:
    """Write names of compared methods, then parameter values along lines if space permits; the layout must be final."""
    taken = [drawing.square(x, y, 9) for x, y in ax.transData.transform(np.transpose(_xy(front.compared)))]
    for trace in front.traces:
        points = ax.transData.transform(np.transpose(_xy(trace.dots)))
        for (x, y), (x2, y2) in pairwise(points):  # cover the line by small boxes, so that no text is written on it
            steps = np.linspace(0, 1, int(max(abs(x2 - x), abs(y2 - y)) // 5) + 2)
            taken += [drawing.square(x + (x2 - x) * t, y + (y2 - y) * t, 1.5) for t in steps]
    for dot in front.compared:
        _write(ax, dot, short(dot.method), taken, needed=True, fontsize=11, fontweight="bold", color=INK)
    for trace in front.traces:
        symbol, last = SYMBOLS.get(trace.parameter, trace.parameter), len(trace.dots) - 1
        for i in sorted({0, last // 3, 2 * last // 3, last}, key=lambda i: i not in (0, last)):
            dot = trace.dots[i]
            text = f"{symbol}={dict(dot.method.score.parameters)[trace.parameter]:g}"
            _write(ax, dot, text, taken, needed=False, fontsize=8.5, color=family_style(dot.method).color)


def _write(ax: "Axes", dot: Dot, text: str, taken: "list[Bbox]", needed: bool, **font: Any) -> None:
    """Write a text near a dot, where it overlaps least with others; leave it out if it overlaps and is not `needed`."""
    note = ax.annotate(text, (dot.size, dot.singletons), (0, 0), textcoords="offset points", parse_math=False, **font)
    note.set_in_layout(False)

    def move_to(offset: tuple[float, float]) -> "Bbox":
        note.set(position=offset, ha=SIDES[int(np.sign(offset[0]))], va=HEIGHTS[int(np.sign(offset[1]))])
        return note.get_window_extent().padded(1)

    def overlaps(offset: tuple[float, float]) -> int:
        box = move_to(offset)
        inside = ax.bbox.x0 < box.x0 and box.x1 < ax.bbox.x1 and ax.bbox.y0 < box.y0 and box.y1 < ax.bbox.y1
        return int(box.count_overlaps(taken)) + 1000 * (not inside)

    factors = (1.3, 2.2, 3.4) if needed else (1,)
    best = min(((far * dx, far * dy) for far in factors for dx, dy in OFFSETS), key=overlaps)
    if needed or not overlaps(best):
        taken.append(move_to(best))
    else:
        note.remove()


@styled
def plot_metric(comparison: "Comparison", metric: str, ax: "Axes | None") -> "Axes":
    """Plot one metric of every method as a violin."""
    longest = max(len(short(score)) for score in comparison.scores)
    ax = drawing.new_axes(ax, 6.4 + 0.09 * longest, 1.4 + 0.62 * len(comparison.scores))
    draw_metric(ax, comparison, metric)
    drawing.name_rows(ax, range(len(comparison.scores)), comparison.scores)
    return ax


def draw_metric(ax: "Axes", comparison: "Comparison", metric: str) -> None:
    """Draw a violin for each method, one point per split, and a mark at the mean."""
    values, places = comparison.metric(metric), range(len(comparison.scores))
    _metric_axis(ax, "x", metric, values)
    bodies: Any = ax.violinplot(list(values), places, orientation="horizontal", widths=0.86, showextrema=False)
    for place, body in enumerate(bodies["bodies"]):
        color, _, hollow = family_style(comparison.scores[place])
        body.set(facecolor=color, edgecolor=INK, alpha=0.18 if hollow else 0.45, linewidth=0.7)
        body.set(linestyle=(0, (4, 2)) if hollow else "-")
        ax.scatter(*_spread(values[place], place), **DOTS, color=color)
    ax.plot(values.mean(axis=1), places, linestyle="", marker="|", markersize=15, mew=2.2, color=INK, zorder=4)
    if ax.get_xscale() == "linear":
        ax.locator_params(axis="x", nbins=5)
    if metric == "coverage":
        drawing.target(ax, comparison.alpha)


@styled
def plot_sweep(swept: "Sweep") -> "tuple[Axes, ...]":
    """Plot mean size and singleton rate against the parameter, on two axes."""
    axes = drawing.new_row(len(SWEPT), 11, 4.4)
    for ax, metric in zip(axes, SWEPT, strict=True):
        draw_sweep(ax, swept, metric)
    return axes


def draw_sweep(ax: "Axes", swept: "Sweep", metric: str) -> None:
    """Draw one metric against the parameter: one point per split, a line through the means."""
    places, values = range(len(swept.values)), swept.comparison.metric(metric)
    color, marker, _ = family_style(swept.comparison.scores[0])
    _metric_axis(ax, "y", metric, values)
    for place, of_value in zip(places, values, strict=True):
        ax.scatter(*_spread(of_value, place)[::-1], **DOTS, color=color)
    ax.plot(places, values.mean(axis=1), color=INK, linewidth=1.2, marker=marker, markersize=7, mfc="white")
    ax.set_xlabel(f"{SYMBOLS.get(swept.parameter, swept.parameter)} of {short(swept.score)}", parse_math=False)
    ax.set_xticks(places, [f"{value:g}" for value in swept.values], fontsize=9.5 if len(places) > 8 else 11)
    ax.tick_params(axis="x", rotation=90 if len(places) > CROWDED else 0)


def _metric_axis(ax: "Axes", axis: str, metric: str, values: Vector) -> None:
    """Format the x or y axis of a metric, and write the metric's title and axis label."""
    title, label = PANELS[metric]
    ax.set_title(title, loc="left")
    ax.set(**{f"{axis}label": label})
    ax.grid(axis=axis)  # type: ignore[arg-type]  # "x" or "y"
    if metric == "mean_size":
        size_axis(ax, axis, float(values.min()), float(values.max()))
    else:
        drawing.percent_axis(ax, axis)


def _spread(values: Vector, place: int) -> tuple[Vector, Vector]:
    """Return the values of at most 2000 splits, and their positions: `place` plus reproducible jitter."""
    chosen = values[:: -(-len(values) // MOST_DOTS)]
    return chosen, place + np.random.default_rng(0).uniform(-0.2, 0.2, len(chosen))
