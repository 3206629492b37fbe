"""Mean size against the share of singletons: the compared scores, and a line for each family."""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pippin._compare.methods import Method
from pippin._plotting.drawing import HIGHLIGHT, INK, SYMBOLS, drawn, new_axes, percent_axis, short, size_axis
from pippin._plotting.splits import look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

    from pippin._compare.comparison import Comparison

DASHES = ("-", "--", ":", "-.")
HOLLOW = "sharpened, several thresholds, or never empty"
HOLLOW_MARK: dict[str, Any] = {"markersize": 9, "mfc": "white", "mec": INK, "mew": 2}
BEST: dict[str, Any] = {"color": HIGHLIGHT, "linewidth": 9, "alpha": 0.75, "solid_capstyle": "round"}
SIDES, HEIGHTS = ("center", "left", "right"), ("center", "bottom", "top")  # of a text by the sign of its offset
AROUND = ((6, 5), (6, -5), (-6, 5), (-6, -5), (0, 9), (0, -9), (10, 0), (-10, 0))  # offsets in points


class Dot(NamedTuple):
    """A method and its means."""

    method: Method
    size: float
    singletons: float


class Trace(NamedTuple):
    """Members of a family that differ in one parameter."""

    title: str
    parameter: str
    dash: int
    dots: tuple[Dot, ...]


class Front(NamedTuple):
    """Content of the figure: compared scores, lines of families, and the dots that no other beats in both means."""

    compared: tuple[Dot, ...]
    traces: tuple[Trace, ...]
    best: tuple[Dot, ...]


def read_front(comparison: "Comparison", fronts: "Mapping[str, Comparison]") -> Front:
    """Arrange the means for drawing; `fronts` are the comparisons of whole families, by name."""
    compared = _dots(comparison)
    traces = [trace for found in fronts.values() for trace in _traces(_dots(found))]
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
    """A line for each setting of the parameters after the first."""
    found = []
    for dash, (_, group) in enumerate(groupby(dots, key=lambda dot: dot.method.score.parameters[1:])):
        members = tuple(group)
        score = members[0].method.score
        parameter = score.parameters[0][0]
        fixed = [f"{name} = {value:g}" for name, value in score.parameters[1:] if name == "k_reg"]
        title = f"{score.name}, varying {SYMBOLS.get(parameter, parameter)}" + "".join(f", {text}" for text in fixed)
        found.append(Trace(title, parameter, dash % len(DASHES), members))
    return found


@drawn
def plot_front(comparison: "Comparison", fronts: "Mapping[str, Comparison]", ax: "Axes | None") -> "Axes":
    """Draw mean size against the share of singletons, with a legend."""
    known, ax = read_front(comparison, fronts), new_axes(ax, 8, 5.4)
    draw_front(ax, known)
    ax.legend(loc="best", fontsize=9.5)
    ax.get_figure(root=True).draw_without_rendering()  # type: ignore[union-attr]  # axes have a figure
    label_front(ax, known)
    return ax


@drawn
def plot_choice(comparison: "Comparison", chosen: Method, ax: "Axes | None") -> "Axes":
    """Draw the mean size and the share of singletons of many candidates; only the chosen one is named."""
    known, ax = read_front(comparison, {}), new_axes(ax, 8, 5.4)
    _prepare(ax, known, known.compared)
    for dot in known.compared:
        own = dot.method == chosen
        colour, marker, _ = look(dot.method)
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 15 if own else 6, "zorder": 3 + own}
        ax.plot(dot.size, dot.singletons, markeredgecolor=INK if own else colour, **style)
        if own:
            place: dict[str, Any] = {"textcoords": "offset points", "fontweight": "bold", "parse_math": False}
            ax.annotate(short(chosen), (dot.size, dot.singletons), (12, -14), **place)
    _finish(ax)
    ax.legend(loc="best", fontsize=9.5)
    ax.set_title(f"{short(chosen)}, chosen among {len(known.compared):,} candidates", loc="left", parse_math=False)
    return ax


def _prepare(ax: "Axes", known: Front, every: Sequence[Dot]) -> None:
    size_axis(ax, "x", min(dot.size for dot in every), max(dot.size for dot in every))
    percent_axis(ax, "y")
    ax.plot(*_xy(known.best), label="not beaten in both", **BEST)


def _finish(ax: "Axes") -> None:
    ax.margins(0.09)
    ax.grid()
    ax.set_xlabel("← better      size")
    ax.set_ylabel("singletons      better →")


def draw_front(ax: "Axes", known: Front) -> None:
    """Draw mean size against the share of singletons; up and to the left is better."""
    _prepare(ax, known, [*known.compared, *(dot for trace in known.traces for dot in trace.dots)])
    for trace in known.traces:
        colour, marker, _ = look(trace.dots[0].method)
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5, "linewidth": 1.3}
        ax.plot(*_xy(trace.dots), linestyle=DASHES[trace.dash], label=trace.title, **style)
    for dot in known.compared:
        colour, marker, hollow = look(dot.method)
        size = 17 if marker == "*" else 11
        face, edge, width = ("white", colour, 2.4) if hollow else (colour, INK, 1)
        ax.plot(dot.size, dot.singletons, marker=marker, markersize=size, zorder=5, mfc=face, mec=edge, mew=width)
    if any(look(dot.method).hollow for dot in known.compared):
        ax.plot([], [], linestyle="", marker="o", label=f"hollow: {HOLLOW}", **HOLLOW_MARK)
    _finish(ax)


def _xy(dots: Sequence[Dot]) -> tuple[list[float], list[float]]:
    return [dot.size for dot in dots], [dot.singletons for dot in dots]


def label_front(ax: "Axes", known: Front) -> None:
    """Name the compared scores, then values along the lines where they cover nothing; the layout is final."""
    taken = [_box(x, y, 9) for x, y in ax.transData.transform(np.transpose(_xy(known.compared)))]
    for trace in known.traces:
        points = ax.transData.transform(np.transpose(_xy(trace.dots)))
        for (x, y), (x2, y2) in pairwise(points):  # a mark every few pixels, so that texts keep clear of the line
            steps = np.linspace(0, 1, int(max(abs(x2 - x), abs(y2 - y)) // 5) + 2)
            taken += [_box(x + (x2 - x) * t, y + (y2 - y) * t, 1.5) for t in steps]
    for dot in known.compared:
        _write(ax, dot, short(dot.method), taken, needed=True, fontsize=11, fontweight="bold", color=INK)
    for trace in known.traces:
        symbol, last = SYMBOLS.get(trace.parameter, trace.parameter), len(trace.dots) - 1
        for i in sorted({0, last // 3, 2 * last // 3, last}, key=lambda i: i not in (0, last)):
            dot = trace.dots[i]
            text = f"{symbol}={dict(dot.method.score.parameters)[trace.parameter]:g}"
            _write(ax, dot, text, taken, needed=False, fontsize=8.5, color=look(dot.method).colour)


def _box(x: float, y: float, reach: float) -> "Bbox":
    from matplotlib.transforms import Bbox  # late: `compare` of the command line loads matplotlib in another thread

    return Bbox.from_extents(x - reach, y - reach, x + reach, y + reach)


def _write(ax: "Axes", dot: Dot, text: str, taken: "list[Bbox]", needed: bool, **font: Any) -> None:
    """Write a text at the first free place around the dot; a needed one at the least crowded, any other not at all."""
    note = ax.annotate(text, (dot.size, dot.singletons), (0, 0), textcoords="offset points", parse_math=False, **font)
    note.set_in_layout(False)

    def put(offset: tuple[float, float]) -> "Bbox":
        note.set(position=offset, ha=SIDES[int(np.sign(offset[0]))], va=HEIGHTS[int(np.sign(offset[1]))])
        return note.get_window_extent().padded(1)

    def crowding(offset: tuple[float, float]) -> int:
        box = put(offset)
        inside = ax.bbox.x0 < box.x0 and box.x1 < ax.bbox.x1 and ax.bbox.y0 < box.y0 and box.y1 < ax.bbox.y1
        return int(box.count_overlaps(taken)) + 1000 * (not inside)

    best = min(
        ((far * dx, far * dy) for far in ((1.3, 2.2, 3.4) if needed else (1,)) for dx, dy in AROUND), key=crowding
    )
    if needed or not crowding(best):
        taken.append(put(best))
    else:
        note.remove()
