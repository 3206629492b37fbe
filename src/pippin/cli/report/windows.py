"""Photographs cut into windows: how one is cut, and how many windows each class has before and after the choice."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pippin._plotting.drawing import INK, QUIET, drawn, short
from pippin.cli.report.style import new_figure, save_figure
from pippin.images.prepare import CutPhotograph, Record
from pippin.images.we3ds import mask_classes

CUTTING, COUNTS = "cutting", "counts"
SHARPNESS = 1600  # pixels of the photograph's longer side in the figure
MOST_NAMED = 10  # windows beside each other that have room for their names


class GroupLook(NamedTuple):
    """What tells a group of classes from the others, in colour and in greyscale."""

    colour: str
    hatch: str


GROUPS = {
    "soil": GroupLook("#e69f00", ""),
    "crop": GroupLook("#56b4e9", ""),
    "weed": GroupLook("#cc79a7", "///"),
}


def write_windows(out: Path, example: CutPhotograph, record: Record) -> None:
    """Writes both figures as PNG and SVG."""
    save_figure(cutting(example), out, CUTTING)
    save_figure(class_counts(record.classes), out, COUNTS)


@drawn
def cutting(example: CutPhotograph) -> Figure:
    """One photograph with its windows: the label of each, those that stay framed, what is left over greyed."""
    height, width = example.pixels.shape[:2]
    figure = new_figure(11, 11 * height / width + 0.9)
    ax = figure.subplots()
    step = -(-max(height, width) // SHARPNESS)
    ax.imshow(example.pixels[::step, ::step], extent=(0, width, height, 0), interpolation="antialiased")
    rows, columns = example.labels.shape
    side = example.window
    for row in range(rows):
        for column in range(columns):
            label, stays = int(example.labels[row, column]), bool(example.stays[row, column])
            _window(ax, column * side, row * side, side, label, stays, named=columns <= MOST_NAMED)
    for x, y, w, h in (
        (columns * side, 0, width - columns * side, height),
        (0, rows * side, columns * side, height - rows * side),
    ):
        ax.add_patch(Rectangle((x, y), w, h, facecolor="white", alpha=0.65, edgecolor=QUIET, hatch="xx", linewidth=0))
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.set_xticks([*range(0, columns * side + 1, side)])
    ax.set_yticks([*range(0, rows * side + 1, side)])
    ax.set_xlabel("pixels; what is left over at the right and at the bottom is not used")
    ax.set_title(
        f"{short(example.photo)}: {rows} × {columns} windows of {side} × {side}, {int(example.stays.sum())} stay",
        loc="left",
        parse_math=False,
    )
    shown = {mask_classes()[value].group for value in np.unique(example.labels[example.stays]).tolist()}
    handles = [
        Patch(facecolor="none", edgecolor=look.colour, linewidth=3, label=group)
        for group, look in GROUPS.items()
        if group in shown
    ]
    if not example.stays.all():
        handles.append(Patch(facecolor="none", edgecolor=QUIET, linestyle=":", linewidth=1.5, label="not kept"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


@drawn
def class_counts(classes: list[dict[str, Any]]) -> Figure:
    """Windows per class as labelled, and as written; soil, crops and weeds, the largest first."""
    rank = list(GROUPS)
    order = sorted(classes, key=lambda c: (rank.index(c["group"]), -c["before"], c["value"]))
    figure = new_figure(11, 1.6 + 0.3 * len(order))
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, key, title in zip(axes, ("before", "after"), ("As labelled", "As written"), strict=True):
        values = [known[key] for known in order]
        looks = [GROUPS[known["group"]] for known in order]
        bars = ax.barh(range(len(order)), values, height=0.76, color=[look.colour for look in looks])
        for bar, look in zip(bars, looks, strict=True):
            bar.set(hatch=look.hatch, edgecolor=INK, linewidth=0.5)
        for place, value in enumerate(values):
            ax.annotate(
                f"{value:,}" if value else "none",
                (max(value, 0.5), place),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=9.5,
                color=INK if value else QUIET,
            )
        ax.set_title(f"{title}: {sum(values):,} windows of {sum(v > 0 for v in values)} classes", loc="left")
        _count_axis(ax, max(known["before"] for known in order))
    axes[0].set_yticks(range(len(order)), [known["name"] for known in order], parse_math=False)
    axes[0].set_ylim(len(order) - 0.4, -0.6)
    shown = {known["group"] for known in order}
    handles = [
        Patch(facecolor=look.colour, hatch=look.hatch, edgecolor=INK, linewidth=0.5, label=group)
        for group, look in GROUPS.items()
        if group in shown
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _window(ax: Axes, x: int, y: int, side: int, label: int, stays: bool, named: bool) -> None:
    known = mask_classes()[label]
    inset = side * 0.015
    ax.add_patch(
        Rectangle(
            (x + inset, y + inset),
            side - 2 * inset,
            side - 2 * inset,
            fill=False,
            edgecolor=GROUPS[known.group].colour if stays else "white",
            linewidth=3 if stays else 1.2,
            linestyle="-" if stays else ":",
        )
    )
    if not named:
        return
    ax.text(
        x + side / 2,
        y + side - 3 * inset,
        known.name.replace(" ", "\n", 1),
        ha="center",
        va="bottom",
        fontsize=8.5,
        parse_math=False,
        color=INK,
        bbox={"facecolor": "white", "alpha": 0.85 if stays else 0.6, "edgecolor": "none", "pad": 1.2},
    )


def _count_axis(ax: Axes, largest: int) -> None:
    """Counts from one up on a logarithmic axis, with room for the numbers beside the bars."""
    ax.set_xscale("log")
    ax.set_xlim(0.5, 8 * max(largest, 1))
    ax.xaxis.set_major_locator(LogLocator(numticks=8))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}" if x >= 1 else ""))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("windows (logarithmic)")
    ax.grid(axis="x")
