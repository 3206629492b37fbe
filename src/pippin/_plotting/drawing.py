"""How every picture looks, in the report and from `.plot()`: one style, one colour and marker per family of scores.

Nothing else imports Matplotlib below the command line; where it is missing, importing this module says how to get it.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from pippin._runtime.extras import need
from pippin._runtime.visible import visible

need("A plot", "report", "matplotlib")  # before the imports, which would fail with less to say

import matplotlib.style  # noqa: E402 - behind `need`
from matplotlib.axes import Axes  # noqa: E402 - behind `need`
from matplotlib.figure import Figure  # noqa: E402 - behind `need`
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter  # noqa: E402 - behind `need`

P = ParamSpec("P")
Drawing = TypeVar("Drawing")
Row = TypeVar("Row")

INK, QUIET, GRID, HIGHLIGHT, TARGET, WARNING = "#222222", "#666666", "#e6e6e6", "#f5ec7a", "#d55e00", "#a84800"
LINE, MET, MISSED, SPARE = "#0072b2", "#56b4e9", "#e69f00", "#b0b7bf"  # a line; as asked, or short of it; the rest
LONGEST = 34  # characters of a name in a figure
FIRST, LAST = 30, 10  # rows of a picture that are drawn when there are too many
RATIO = 5  # largest over smallest from which an axis is logarithmic

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


class Look(NamedTuple):
    """What tells a family of scores from the others, in colour and in greyscale; hollow with several thresholds."""

    colour: str
    marker: str
    hollow: bool = False


# The colours of Okabe and Ito, which the colour-blind can tell apart.
LOOKS = {
    "ip": Look(MET, "o"),
    "margin": Look("#cc79a7", "s"),
    "aps": Look(MISSED, "^"),
    "raps": Look("#d55e00", "v"),
    "pip": Look(LINE, "D"),
    "repip": Look("#009e73", "P"),
    "socop": Look("#111111", "*"),
    "saps": Look("#f0e442", "X"),
}
OTHER = Look("#7f7f7f", "h")

SYMBOLS = {"gamma": "γ", "lam": "λ", "beta": "β", "mu": "μ"}


def drawn(function: Callable[P, Drawing]) -> Callable[P, Drawing]:
    """Draws in this package's style, whatever the user's settings are, and leaves those alone."""

    @wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Drawing:
        with matplotlib.style.context(STYLE, after_reset=True):
            return function(*args, **kwargs)

    return draw


def new_axes(ax: Axes | None, width: float = 8, height: float = 3.4) -> Axes:
    """Those that were given, or new ones of a figure that notebooks show, in inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def new_row(count: int, width: float, height: float, sharey: bool = False) -> tuple[Axes, ...]:
    """New axes beside each other, in a figure that notebooks show."""
    import matplotlib.pyplot as plt

    axes = plt.subplots(1, count, figsize=(width, height), layout="constrained", sharey=sharey, squeeze=False)[1]
    return tuple(axes[0])


def new_column(count: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure for a page, with axes under each other that share what runs along."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])


def short(name: object, longest: int = LONGEST) -> str:
    """A name that can be seen and leaves room for the drawing."""
    text = " ".join(visible(name).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def percent_axis(ax: Axes, axis: str) -> None:
    """Shares as percentages."""
    getattr(ax, f"{axis}axis").set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:.4g}%"))


def size_axis(ax: Axes, axis: str, low: float, high: float) -> None:
    """Mean sizes: logarithmic with plain numbers when they differ by much."""
    if not 0 < RATIO * low < high:
        return
    getattr(ax, f"set_{axis}scale")("log")
    here = getattr(ax, f"{axis}axis")
    here.set_major_locator(LogLocator(subs=(1, 2, 5)))
    here.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    here.set_minor_formatter(NullFormatter())
    here.set_minor_locator(FixedLocator([]))


def plain_log_axis(ax: Axes, ticks: Sequence[float]) -> None:
    """A logarithmic x axis with these numbers on it, written plainly."""
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def powers_of_ten(ax: Axes) -> None:
    """A y axis of logarithms, written as the numbers themselves."""
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda log, _: f"{10**log:g}" if abs(log) < 4 else f"1e{log:g}"))


def upright_line(ax: Axes, x: float, told: str, before: bool = False) -> None:
    """A dashed line at x, in the colour of what was asked for; its meaning stands above it, or above and before it."""
    ax.axvline(x, color=TARGET, linestyle=(0, (5, 2)), linewidth=1.6, gid="level")
    ax.annotate(
        told,
        (x, 1),
        (-4 if before else 4, 2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right" if before else "left",
        color=WARNING,
        fontsize=9.5,
    ).set_in_layout(False)


def target(ax: Axes, alpha: float) -> None:
    """The line that coverage is promised to reach."""
    upright_line(ax, 1 - alpha, f"1 − α = {1 - alpha:g}")


def arranged(rows: Sequence[Row]) -> tuple[list[Row], list[float], int]:
    """The rows that are drawn, where they stand, and how many are left out between the first and the last."""
    hidden = max(0, len(rows) - FIRST - LAST)
    shown = [*rows[:FIRST], *rows[FIRST + hidden :]] if hidden else list(rows)
    return shown, [i + (1.6 if hidden and i >= FIRST else 0.0) for i in range(len(shown))], hidden


def tell_hidden(ax: Axes, hidden: int, what: str) -> None:
    """A note where rows are left out."""
    note = f"{hidden:,} {what} in between are not drawn"
    ax.text(0.01, FIRST + 0.3, note, va="center", style="italic", color=QUIET)


def name_rows(ax: Axes, places: Sequence[float], names: Sequence[object], longest: int = LONGEST) -> None:
    """Names beside the rows of a picture, the first on top."""
    ax.set_yticks(places, [short(name, longest) for name in names], parse_math=False)
    ax.set_ylim(max([*places, 0]) + 0.6, -0.6)


def beside(ax: Axes, place: float, told: str) -> None:
    """A note to the right of a row."""
    at = ("axes fraction", "data")
    ax.annotate(told, (1, place), (10, 0), at, "offset points", va="center", fontsize=9.5, color=INK, parse_math=False)
