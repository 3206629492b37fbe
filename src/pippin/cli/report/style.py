"""How every figure looks and how it is saved: one colour, marker and dash for each family of scores."""

import io
import re
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from pippin._compare.methods import Method
from pippin._runtime.disk import write_whole
from pippin._runtime.visible import visible

P = ParamSpec("P")

INK, QUIET, GRID, HIGHLIGHT, TARGET, WARNING = "#222222", "#666666", "#e6e6e6", "#f5ec7a", "#d55e00", "#a84800"
LONGEST = 34  # characters of a name in a figure
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
    "ip": Look("#56b4e9", "o"),
    "margin": Look("#cc79a7", "s"),
    "aps": Look("#e69f00", "^"),
    "raps": Look("#d55e00", "v"),
    "pip": Look("#0072b2", "D"),
    "repip": Look("#009e73", "P"),
    "socop": Look("#111111", "*"),
    "saps": Look("#f0e442", "X"),
}
OTHER = Look("#7f7f7f", "h")

# Colours that a page replaces by its own.
THEMED = {
    INK: "ink",
    "#111111": "ink",
    QUIET: "quiet",
    GRID: "grid",
    WARNING: "warning",
    HIGHLIGHT: "highlight",
    "#ffffff": "halo",
    "#0072b2": "blue",
}

SYMBOLS = {"gamma": "γ", "lam": "λ", "beta": "β", "mu": "μ"}


def look(method: Method) -> Look:
    """The look of the score's family; hollow for a method that is not the plain score."""
    return LOOKS.get(method.score.name, OTHER)._replace(hollow=not method.plain)


def drawn(function: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draws in this package's style, whatever the user's settings are, and leaves those alone."""

    @wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with matplotlib.style.context(STYLE, after_reset=True):
            return function(*args, **kwargs)

    return draw


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    return Figure(figsize=(width, height), layout="constrained")


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


def rendered(figure: Figure, kind: str) -> bytes:
    """The figure as the bytes of a PNG or of an SVG file without a background; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type") if kind == "svg" else ("Software",))
    with matplotlib.style.context(STYLE, after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a box stands for it
        if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # once is enough, however often it is drawn
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata, transparent=kind == "svg")
    return buffer.getvalue()


def inline(svg: bytes, name: str) -> str:
    """A drawing to stand inside a page, whose theme gives the ink, the grid and the background.

    What the drawing refers to begins with its name, so that no drawing takes another's, which may not be shown.
    """
    text = svg.decode()
    text = re.sub(r"<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', text, count=1)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    for colour, ours in THEMED.items():
        text = text.replace(colour, f"var(--{ours})")
    return text


def save_figure(figure: Figure, folder: Path, name: str, svg: bytes | None = None) -> None:
    """Writes `name`.png and `name`.svg, on white; `svg` is the drawing, if it was rendered before."""
    drawing = rendered(figure, "svg") if svg is None else svg
    start = drawing.index(b">", drawing.index(b"<svg")) + 1
    paper = b'\n <rect width="100%" height="100%" fill="#ffffff"/>'
    write_whole(folder / f"{name}.png", rendered(figure, "png"))
    write_whole(folder / f"{name}.svg", drawing[:start] + paper + drawing[start:])
