"""Size against singletons: the compared scores, and the line that each family traces."""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pippin._compare.methods import Method
from pippin._compare.picture.splits import look
from pippin._runtime.arrays import Floats
from pippin._runtime.drawing import HIGHLIGHT, INK, SYMBOLS, drawn, new_axes, percent_axis, short, size_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

    from pippin._compare.comparison import Comparison

DASHES = ("-", "--", ":", "-.")
HOLLOW = "sharpened, several thresholds, or never empty"
HOLLOW_MARK: dict[str, Any] = {
    "markersize": 9,
    "markerfacecolor": "white",
    "markeredgecolor": INK,
    "markeredgewidth": 2,
}
BEST: dict[str, Any] = {
    "color": HIGHLIGHT,
    "linewidth": 9,
    "alpha": 0.75,
    "solid_capstyle": "round",
    "label": "not beaten in both",
}
LABELLED = 4  # values written along a line, at most
SIDES = {1: "left", 0: "center", -1: "right"}
HEIGHTS = {1: "bottom", 0: "center", -1: "top"}
Box = tuple[float, float, float, float]  # left, lower, right and upper end, in pixels
AROUND = ((6, 5), (6, -5), (-6, 5), (-6, -5), (0, 9), (0, -9), (10, 0), (-10, 0))


class Place(NamedTuple):
    """Where a text stands relative to its dot."""

    offset: tuple[float, float]
    side: str
    height: str

    def put(self, note: "Annotation") -> None:
        note.set(position=self.offset, ha=self.side, va=self.height)


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
    """What is drawn: the compared scores, the families' lines, and the dots that no other beats in both."""

    compared: tuple[Dot, ...]
    traces: tuple[Trace, ...]
    best: tuple[Dot, ...]


def read_front(comparison: "Comparison", fronts: "Mapping[str, Comparison]") -> Front:
    """Arranges the means for drawing; `fronts` are members of whole families, by the family's name."""
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
    return tuple(map(Dot, comparison.scores, table["efficiency"], table["informativeness"]))


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
    """Mean size against the share of singletons, with a legend beside."""
    known, ax = read_front(comparison, fronts), new_axes(ax, 8, 5.4)
    draw_front(ax, known)
    ax.legend(loc="best", fontsize=9.5)
    ax.get_figure(root=True).draw_without_rendering()  # type: ignore[union-attr]  # axes have a figure
    label_front(ax, known)
    return ax


@drawn
def plot_choice(comparison: "Comparison", chosen: Method, ax: "Axes | None") -> "Axes":
    """Mean size against the share of singletons of many candidates; only the chosen one has a name."""
    known, ax = read_front(comparison, {}), new_axes(ax, 8, 5.4)
    every = known.compared
    size_axis(ax, "x", min(dot.size for dot in every), max(dot.size for dot in every))
    percent_axis(ax, "y")
    ax.plot(*_xy(known.best), **BEST)
    for dot in every:
        own = dot.method == chosen
        colour, marker, _ = look(dot.method)
        size, edge = (15, INK) if own else (6, colour)
        ax.plot(
            dot.size, dot.singletons, marker=marker, markersize=size, color=colour, markeredgecolor=edge, zorder=3 + own
        )
        if own:
            ax.annotate(
                short(chosen),
                (dot.size, dot.singletons),
                (12, -14),
                textcoords="offset points",
                fontweight="bold",
                parse_math=False,
            )
    _finish(ax)
    ax.legend(loc="best", fontsize=9.5)
    ax.set_title(f"{short(chosen)}, chosen among {len(every):,} candidates", loc="left", parse_math=False)
    return ax


def _finish(ax: "Axes") -> None:
    ax.margins(0.09)
    ax.grid()
    ax.set_xlabel("← better      size")
    ax.set_ylabel("singletons      better →")


def draw_front(ax: "Axes", known: Front) -> None:
    """Mean size against the share of singletons; up and to the left is better."""
    every = [*known.compared, *(dot for trace in known.traces for dot in trace.dots)]
    size_axis(ax, "x", min(dot.size for dot in every), max(dot.size for dot in every))
    percent_axis(ax, "y")
    ax.plot(*_xy(known.best), **BEST)
    for trace in known.traces:
        colour, marker, _ = look(trace.dots[0].method)
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5, "linewidth": 1.3}
        ax.plot(*_xy(trace.dots), linestyle=DASHES[trace.dash], label=trace.title, **style)
    for dot in known.compared:
        colour, marker, hollow = look(dot.method)
        size = 17 if marker == "*" else 11
        face, edge, width = ("white", colour, 2.4) if hollow else (colour, INK, 1)
        paint: dict[str, Any] = {"markerfacecolor": face, "markeredgecolor": edge, "markeredgewidth": width}
        ax.plot(dot.size, dot.singletons, marker=marker, markersize=size, zorder=5, **paint)
    if any(look(dot.method).hollow for dot in known.compared):
        ax.plot([], [], linestyle="", marker="o", label=f"hollow: {HOLLOW}", **HOLLOW_MARK)
    _finish(ax)


def _xy(dots: Sequence[Dot]) -> tuple[list[float], list[float]]:
    return [dot.size for dot in dots], [dot.singletons for dot in dots]


def label_front(ax: "Axes", known: Front) -> None:
    """Names of the compared scores, then values along the lines where they cover nothing; the axes are laid out."""
    taken = [_box(_at(ax, dot), 9) for dot in known.compared]
    taken += [_box(point, 1.5) for trace in known.traces for point in _along([_at(ax, dot) for dot in trace.dots])]
    for dot in known.compared:
        _write(ax, dot, short(dot.method), taken, needed=True, fontsize=11, fontweight="bold", color=INK)
    told = [_box(_at(ax, dot), 4) for dot in known.compared]
    for trace in known.traces:
        last, written = len(trace.dots) - 1, 0
        symbol = SYMBOLS.get(trace.parameter, trace.parameter)
        for i in sorted(range(last + 1), key=lambda i: (i not in (0, last), abs(i - last // 2))):
            dot = trace.dots[i]
            text = f"{symbol}={dict(dot.method.score.parameters)[trace.parameter]:g}"
            here = _box(_at(ax, dot), 4)
            if written < LABELLED and not _crowding(here, np.array(told)):
                written += _write(ax, dot, text, taken, needed=False, fontsize=8.5, color=look(dot.method).colour)
                told.append(here)


def _at(ax: "Axes", dot: Dot) -> tuple[float, float]:
    x, y = ax.transData.transform((dot.size, dot.singletons))
    return float(x), float(y)


def _along(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points a few pixels apart along a line, so that text can keep clear of it."""
    found = list(points)
    for (x, y), (x2, y2) in pairwise(points):
        steps = int(max(abs(x2 - x), abs(y2 - y)) // 5) + 1
        found += [(x + (x2 - x) * i / steps, y + (y2 - y) * i / steps) for i in range(steps)]
    return found


def _box(middle: tuple[float, float], reach: float) -> Box:
    x, y = middle
    return x - reach, y - reach, x + reach, y + reach


def _crowding(box: Box, taken: Floats) -> int:
    """How many of the boxes, (n, 4), overlap with this one."""
    x, y, x2, y2 = taken.T
    return int(np.count_nonzero((x <= box[2]) & (box[0] <= x2) & (y <= box[3]) & (box[1] <= y2)))


def _write(ax: "Axes", dot: Dot, text: str, taken: list[Box], needed: bool, **font: Any) -> bool:
    """Writes the text at the first free place around the dot; a needed one at the least crowded."""
    note = ax.annotate(text, (dot.size, dot.singletons), (0, 0), textcoords="offset points", parse_math=False, **font)
    note.set_in_layout(False)
    choices: list[tuple[int, int, Place, Box]] = []
    there = np.array(taken)
    for away, (dx, dy) in product((1.3, 2.2, 3.4) if needed else (1.0,), AROUND):
        place = Place((away * dx, away * dy), SIDES[(dx > 0) - (dx < 0)], HEIGHTS[(dy > 0) - (dy < 0)])
        place.put(note)
        box: Box = note.get_window_extent().padded(1).extents
        x, y, x2, y2 = box
        outside = not (ax.bbox.x0 < x and x2 < ax.bbox.x1 and ax.bbox.y0 < y and y2 < ax.bbox.y1)
        choices.append((_crowding(box, there) + 1000 * outside, len(choices), place, box))
        if not choices[-1][0]:
            break
    crowding, _, place, box = min(choices)
    if crowding and not needed:
        note.remove()
        return False
    place.put(note)
    taken.append(box)
    return True
