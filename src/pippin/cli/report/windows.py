"""Figures of `pippin prepare`: a photograph cut into windows, and the number of windows of each class."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pippin._plotting.drawing import INK, QUIET, short, styled
from pippin.cli.report.figures import new_figure, save_figure
from pippin.images.prepare import CutPhotograph, Record
from pippin.images.we3ds import mask_classes

SHARPNESS = 1600  # largest length of the photograph's longer side in the figure, in pixels
MOST_NAMED = 10  # class names are written on the windows if at most so many are side by side
# Color and hatching of each group of classes.
GROUPS = {"soil": ("#e69f00", ""), "crop": ("#56b4e9", ""), "weed": ("#cc79a7", "///")}


def write_windows(out: Path, example: CutPhotograph, record: Record) -> None:
    """Write the figures of `pippin prepare`, cutting and counts, as PNG and SVG to the folder `out`."""
    save_figure(cutting(example), out, "cutting")
    save_figure(class_counts(record.classes), out, "counts")


@styled
def cutting(example: CutPhotograph) -> Figure:
    """Draw a photograph with the frames and labels of its windows; the margin that is not cut is hatched.

    Selected windows have solid frames, other windows dotted frames.
    """
    height, width = example.pixels.shape[:2]
    figure = new_figure(11, 11 * height / width + 0.9)
    ax = figure.subplots()
    step = -(-max(height, width) // SHARPNESS)
    ax.imshow(example.pixels[::step, ::step], extent=(0, width, height, 0), interpolation="antialiased")
    (rows, columns), side = example.labels.shape, example.window
    for row, column in np.ndindex(rows, columns):
        label, kept = int(example.labels[row, column]), bool(example.stays[row, column])
        _window(ax, column * side, row * side, side, label, kept, named=columns <= MOST_NAMED)
    right, bottom = columns * side, rows * side
    for x, y, w, h in ((right, 0, width - right, height), (0, bottom, right, height - bottom)):
        ax.add_patch(Rectangle((x, y), w, h, facecolor="white", alpha=0.65, edgecolor=QUIET, hatch="xx", linewidth=0))
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.set_xticks([*range(0, right + 1, side)])
    ax.set_yticks([*range(0, bottom + 1, side)])
    ax.set_xlabel("pixels; the margin at the right and bottom is not used")
    title = f"{short(example.photo)}: {rows} × {columns} windows of {side} × {side}, {int(example.stays.sum())} kept"
    ax.set_title(title, loc="left", parse_math=False)
    groups = {mask_classes()[value].group for value in np.unique(example.labels[example.stays]).tolist()}
    frames = {group: {"facecolor": "none", "edgecolor": color, "linewidth": 3} for group, (color, _) in GROUPS.items()}
    frames["not kept"] = {"facecolor": "none", "edgecolor": QUIET, "linestyle": ":", "linewidth": 1.5}
    _legend(figure, frames, groups if example.stays.all() else groups | {"not kept"})
    return figure


@styled
def class_counts(classes: list[dict[str, Any]]) -> Figure:
    """Draw the number of windows of each class before and after selection.

    Soil comes first, then crops, then weeds, each group in decreasing order of the number before selection.
    """
    order = sorted(classes, key=lambda c: ([*GROUPS].index(c["group"]), -c["before"], c["value"]))
    figure = new_figure(11, 1.6 + 0.3 * len(order))
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, key, title in zip(axes, ("before", "after"), ("Labelled", "Written"), strict=True):
        values = [row[key] for row in order]
        bars = ax.barh(range(len(order)), values, height=0.76, color=[GROUPS[row["group"]][0] for row in order])
        for bar, row in zip(bars, order, strict=True):
            bar.set(hatch=GROUPS[row["group"]][1], edgecolor=INK, linewidth=0.5)
        for place, value in enumerate(values):
            text: dict[str, Any] = {"va": "center", "fontsize": 9.5, "color": INK if value else QUIET}
            at = max(value, 0.5), place
            ax.annotate(f"{value:,}" if value else "none", at, (4, 0), textcoords="offset points", **text)
        ax.set_title(f"{title}: {sum(values):,} windows of {sum(v > 0 for v in values)} classes", loc="left")
        _count_axis(ax, max(row["before"] for row in order))
    axes[0].set_yticks(range(len(order)), [row["name"] for row in order], parse_math=False)
    axes[0].set_ylim(len(order) - 0.4, -0.6)
    edge: dict[str, Any] = {"edgecolor": INK, "linewidth": 0.5}
    styles = {group: edge | {"facecolor": color, "hatch": hatch} for group, (color, hatch) in GROUPS.items()}
    _legend(figure, styles, {row["group"] for row in order})
    return figure


def _legend(figure: Figure, styles: dict[str, dict[str, Any]], shown: set[str]) -> None:
    handles = [Patch(label=name, **style) for name, style in styles.items() if name in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _window(ax: Axes, x: int, y: int, side: int, label: int, kept: bool, named: bool) -> None:
    known, inset = mask_classes()[label], side * 0.015
    frame = Rectangle((x + inset, y + inset), side - 2 * inset, side - 2 * inset, fill=False)
    frame.set(edgecolor=GROUPS[known.group][0] if kept else "white", linewidth=3 if kept else 1.2)
    frame.set_linestyle("-" if kept else ":")
    ax.add_patch(frame)
    if named:
        box = {"facecolor": "white", "alpha": 0.85 if kept else 0.6, "edgecolor": "none", "pad": 1.2}
        style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": INK, "bbox": box}
        name = known.name.replace(" ", "\n", 1)
        ax.text(x + side / 2, y + side - 3 * inset, name, parse_math=False, **style)


def _count_axis(ax: Axes, largest: int) -> None:
    """Set a logarithmic axis for counts, with space for the numbers next to the bars."""
    ax.set_xscale("log")
    ax.set_xlim(0.5, 8 * max(largest, 1))
    ax.xaxis.set_major_locator(LogLocator(numticks=8))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}" if x >= 1 else ""))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("windows (logarithmic)")
    ax.grid(axis="x")
