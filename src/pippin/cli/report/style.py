"""How the report's figures are made into files, and into parts of a page."""

import io
import re
import warnings
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from pippin._plotting.drawing import GRID, HIGHLIGHT, INK, QUIET, STYLE, WARNING
from pippin._runtime.disk import write_whole

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


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def rendered(figure: Figure, kind: str) -> bytes:
    """The figure as the bytes of a PNG or of an SVG file without a background; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type") if kind == "svg" else ("Software",))
    with matplotlib.style.context(STYLE, after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a box stands for it
        if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
            figure.draw_without_rendering()
            figure.set_layout_engine(None)  # once is enough; with any, even an empty one, each file is laid out anew
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
