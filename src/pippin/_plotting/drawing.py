"""Style and elements that all plots share.

Only this module imports Matplotlib at its top. Without Matplotlib, importing it raises an InputError that names the
extra to install.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from pippin._runtime.errors import need
from pippin._runtime.showing import visible

need("A plot", "report", "matplotlib")  # before Matplotlib's imports, whose error does not name the extra

import matplotlib.style  # noqa: E402 - after the check
from matplotlib.axes import Axes  # noqa: E402 - after the check
from matplotlib.figure import Figure  # noqa: E402 - after the check
from matplotlib.ticker import LogLocator, MaxNLocator  # noqa: E402 - after the check
from matplotlib.transforms import Bbox  # noqa: E402 - after the check

P = ParamSpec("P")
Drawing = TypeVar("Drawing")
Row = TypeVar("Row")

INK, QUIET, GRID, HIGHLIGHT, TARGET, WARNING = "#222222", "#666666", "#e6e6e6", "#f5ec7a", "#d55e00", "#a84800"
# Colors of lines (LINE), of bars that reach a target (MET) or miss it (MISSED), and of other marks (SPARE).
LINE, MET, MISSED, SPARE = "#0072b2", "#56b4e9", "#e69f00", "#b0b7bf"
GREEN = "#009e73"
LONGEST = 34  # largest number of characters of a name in a plot; longer names are shortened
FIRST, LAST = 30, 10  # in a plot of more than 40 rows, only the first 30 and the last 10 are drawn
RATIO = 5  # an axis of sizes is logarithmic if the largest value exceeds this many times the smallest

STYLE: dict[str, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.labelsize": 11,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "pippin",
    "svg.fonttype": "path",
}


class FamilyStyle(NamedTuple):
    """Color and marker of a family of scores, distinct also in grayscale; `hollow` is True for methods with options."""

    color: str
    marker: str
    hollow: bool = False


# Colors of Okabe and Ito, which are distinct with color vision deficiency.
STYLES = {
    "ip": FamilyStyle(MET, "o"),
    "margin": FamilyStyle("#cc79a7", "s"),
    "aps": FamilyStyle(MISSED, "^"),
    "raps": FamilyStyle("#d55e00", "v"),
    "pip": FamilyStyle(LINE, "D"),
    "repip": FamilyStyle(GREEN, "P"),
    "socop": FamilyStyle("#111111", "*"),
    "saps": FamilyStyle("#f0e442", "X"),
}
OTHER = FamilyStyle("#7f7f7f", "h")

SYMBOLS = {"gamma": "γ", "lam": "λ", "beta": "β", "mu": "μ"}


def styled(function: Callable[P, Drawing]) -> Callable[P, Drawing]:
    """Decorate a plot function so that it uses the style of this package and leaves the user's settings unchanged."""

    @wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Drawing:
        with matplotlib.style.context(STYLE, after_reset=True):
            return function(*args, **kwargs)

    return draw


def new_axes(ax: Axes | None, width: float = 8, height: float = 3.4) -> Axes:
    """Return the given axes, or else new ones of a figure that notebooks show; sizes are in inches."""
    return new_row(1, width, height)[0] if ax is None else ax


def new_row(count: int, width: float, height: float, sharey: bool = False) -> tuple[Axes, ...]:
    """Make a figure that notebooks show, and return its axes, which are in one row."""
    import matplotlib.pyplot as plt

    axes = plt.subplots(1, count, figsize=(width, height), layout="constrained", sharey=sharey, squeeze=False)[1]
    return tuple(axes[0])


def new_column(count: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Make a figure for a report, with axes in one column that share the x axis."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])


def short(name: object, longest: int = LONGEST) -> str:
    """Return a name as printable text of limited length."""
    text = " ".join(visible(name).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def percent_axis(ax: Axes, axis: str) -> None:
    """Format an axis of shares as percentages."""
    getattr(ax, f"{axis}axis").set_major_formatter(lambda x, _: f"{100 * x:.4g}%")


def size_axis(ax: Axes, axis: str, low: float, high: float) -> None:
    """Make an axis of mean sizes logarithmic if the largest is much larger than the smallest."""
    if 0 < RATIO * low < high:
        log_axis(ax, axis, LogLocator(subs=(1, 2, 5)))


def log_axis(ax: Axes, axis: str, ticks: Any) -> None:
    """Make an axis logarithmic, with plain numbers at `ticks`, a locator or a sequence."""
    getattr(ax, f"set_{axis}scale")("log")
    of_ax = getattr(ax, f"{axis}axis")
    (of_ax.set_major_locator if isinstance(ticks, LogLocator) else of_ax.set_ticks)(ticks)
    of_ax.set_major_formatter("{x:g}")
    of_ax.minorticks_off()


def powers_of_ten(ax: Axes) -> None:
    """Label a y axis of decimal logarithms with the original numbers, such as 100 for 2."""
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(lambda log, _: f"{10**log:g}" if abs(log) < 4 else f"1e{log:g}")


def write_labels(ax: Axes, title: str, x: str, y: str = "", pad: float | None = None) -> None:
    """Write the title and the labels of the axes."""
    ax.set_title(title, loc="left", pad=pad, parse_math=False)
    ax.set_xlabel(x, parse_math=False)
    ax.set_ylabel(y)


def upright_line(ax: Axes, x: float, text: str, before: bool = False) -> None:
    """Draw a dashed vertical line at x, with a text at its top, on the right or (`before`) on the left."""
    ax.axvline(x, color=TARGET, linestyle=(0, (5, 2)), linewidth=1.6, gid="level")
    place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    side, shift = ("right", -4) if before else ("left", 4)
    ax.annotate(text, (x, 1), (shift, 2), **place, ha=side, color=WARNING, fontsize=9.5).set_in_layout(False)


def square(x: float, y: float, reach: float) -> Bbox:
    """Return the square with center (x, y) and half side `reach`."""
    return Bbox.from_extents(x - reach, y - reach, x + reach, y + reach)


def target(ax: Axes, alpha: float) -> None:
    """Draw a vertical line at the guaranteed coverage."""
    upright_line(ax, 1 - alpha, f"1 − α = {1 - alpha:g}")


def bar_style(met: Sequence[bool]) -> dict[str, Any]:
    """Return the style of bars: color and hatching show whether each reaches its target (`met`)."""
    hatch = ["" if good else "///" for good in met]
    return {"color": [MET if good else MISSED for good in met], "hatch": hatch, "edgecolor": INK, "linewidth": 0.5}


def shown_rows(rows: Sequence[Row]) -> tuple[list[Row], list[float], int]:
    """Return the rows of a plot to draw, their positions, and the number of rows left out in the middle."""
    hidden = max(0, len(rows) - FIRST - LAST)
    shown = [*rows[:FIRST], *rows[FIRST + hidden :]] if hidden else list(rows)
    return shown, [i + (1.6 if hidden and i >= FIRST else 0.0) for i in range(len(shown))], hidden


def named_rows(
    ax: Axes | None, order: Sequence[int], names: Sequence[object], notes: Sequence[str], kind: str
) -> tuple[Axes, list[int], list[float]]:
    """Prepare axes with a name on the left and a note on the right of each row, from top to bottom.

    Args:
        ax: the axes; None for new ones.
        order: indices of the rows, in the order of drawing.
        names: the name of every row.
        notes: the note of every row.
        kind: plural noun for the rows, such as "classes".

    Returns:
        The axes, the indices of the rows that are drawn, and their positions.
    """
    shown, places, hidden = shown_rows(order)
    ax = new_axes(ax, 8, 1.3 + 0.27 * (len(shown) + 2 * bool(hidden)))
    name_rows(ax, places, [names[i] for i in shown])
    for place, i in zip(places, shown, strict=True):
        write_note(ax, place, notes[i])
    if hidden:
        write_hidden(ax, hidden, kind)
    return ax, shown, places


def write_hidden(ax: Axes, hidden: int, kind: str) -> None:
    """Write the number of rows that are not drawn, in the gap between the first and the last rows."""
    note = f"{hidden:,} {kind} in between are not drawn"
    ax.text(0.01, FIRST + 0.3, note, va="center", style="italic", color=QUIET)


def name_rows(ax: Axes, places: Sequence[float], names: Sequence[object], longest: int = LONGEST) -> None:
    """Write the names of the rows, the first on top."""
    ax.set_yticks(places, [short(name, longest) for name in names], parse_math=False)
    ax.set_ylim(max([*places, 0]) + 0.6, -0.6)


def write_notes_heading(ax: Axes, text: str) -> None:
    """Write a heading above the notes at the right of the rows."""
    ax.annotate(text, (1, 1), (10, 18), "axes fraction", "offset points", va="bottom", fontsize=9.5, color=QUIET)


def write_note(ax: Axes, place: float, text: str) -> None:
    """Write a note to the right of a row."""
    at = ("axes fraction", "data")
    ax.annotate(text, (1, place), (10, 0), at, "offset points", va="center", fontsize=9.5, color=INK, parse_math=False)
