"""Plots of set sizes, and of coverage by class, group or size."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pippin._plotting import drawing
from pippin._plotting.drawing import INK, MET, styled, write_labels
from pippin._runtime.arrays import Codes
from pippin._runtime.errors import InputError
from pippin._theory.planning import share_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._conformal.evaluation import Evaluation
    from pippin._conformal.sets import PredictionSets

STARTS = (*range(10), 10, 20, 50, 100, 200, 500, 1000)  # smallest set size of each bar if there are many classes
EVERY_SIZE = 14  # largest number of classes for which every set size has its own bar
PLURALS = {"class": "classes", "group": "groups", "size": "sizes"}


def size_groups(largest: int) -> tuple[list[str], Codes]:
    """Group set sizes from 0 to `largest` into bars; return the names of the bars, and the bar of each size.

    >>> size_groups(2)[0], size_groups(70)[0][-3:]
    (['0', '1', '2'], ['10–19', '20–49', '50–70'])
    """
    if largest <= EVERY_SIZE:
        return [str(size) for size in range(largest + 1)], np.arange(largest + 1)
    starts = [start for start in STARTS if start <= largest]
    ends = [*(start - 1 for start in starts[1:]), largest]
    names = [str(a) if a == b else f"{a}–{b}" for a, b in zip(starts, ends, strict=True)]
    return names, np.searchsorted(starts, np.arange(largest + 1), side="right") - 1


@styled
def plot_sets(sets: "PredictionSets", ax: "Axes | None") -> "Axes":
    """Plot the share of sets of each size, with singletons hatched."""
    sizes, counts = np.unique(sets.sizes, return_counts=True)
    ax = drawing.new_axes(ax, 6.4, 3.4)
    draw_sizes(ax, dict(zip(sizes.tolist(), counts.tolist(), strict=True)), int(sizes.max(initial=0)), MET)
    title = f"{len(sets):,} sets"
    if len(sets):
        title += f": mean size {sets.sizes.mean():.2f}, {100 * np.mean(sets.sizes == 1):.0f}% singletons"
    write_labels(ax, title, "size: classes in the set (singletons hatched)", "share of sets")
    return ax


def draw_sizes(ax: "Axes", counts: Mapping[int, int], largest: int, color: str) -> None:
    """Draw a bar for the share of each size up to `largest`, with singletons hatched."""
    names, bars = size_groups(largest)
    shares, places = np.zeros(len(names)), range(len(names))
    for size, count in counts.items():
        shares[bars[size]] += count / sum(counts.values())
    hatch = ["///" if name == "1" else "" for name in names]
    ax.bar(places, shares, color=color, edgecolor=INK, linewidth=0.6, hatch=hatch)
    ax.set_xticks(places, names)
    ax.tick_params(axis="x", rotation=90 if len(names) > EVERY_SIZE + 1 or len(names[-1]) > 2 else 0)
    drawing.percent_axis(ax, "y")
    ax.grid(axis="y")


@styled
def plot_coverage(evaluation: "Evaluation", what: str, ax: "Axes | None") -> "Axes":
    """Plot the coverage of each class or group, the lowest on top, or of each set size, with 95% intervals."""
    if what not in PLURALS:
        raise InputError(f"Expected what to be one of {', '.join(map(repr, PLURALS))}, got {what!r}")
    if what == "group" and not evaluation.group_coverage:
        raise InputError("These sets were evaluated without groups", "pass groups= to evaluate, one per object")
    coverage: dict[Any, float] = getattr(evaluation, f"{what}_coverage")
    by_name: dict[Any, int] = getattr(evaluation, f"{what}_counts")
    names, values, counts = list(coverage), list(coverage.values()), [by_name[name] for name in coverage]
    order = sorted(range(len(names)), key=lambda i: 0 if what == "size" else values[i])
    notes = [f"{value:.1%} of {count:,}" for value, count in zip(values, counts, strict=True)]
    ax, shown, places = drawing.named_rows(ax, order, names, notes, PLURALS[what])
    draw_shares(ax, places, [values[i] for i in shown], evaluation.alpha)
    drawing.write_notes_heading(ax, "coverage of objects")
    for place, i in zip(places, shown, strict=True):
        low, high = share_interval(round(values[i] * counts[i]), counts[i])
        ax.plot([low, high], [place, place], color=INK, linewidth=1.4, clip_on=False)
    title = f"Coverage by {what}: {evaluation.coverage:.1%} over all"
    write_labels(ax, title, "coverage, with its 95% interval", "size" if what == "size" else "", pad=18)
    return ax


def draw_shares(ax: "Axes", places: Sequence[float], values: Sequence[float], alpha: float | None) -> None:
    """Draw a bar for each coverage, hatched if it is below 1 − alpha."""
    ax.barh(places, values, height=0.74, **drawing.bar_style([alpha is None or value >= 1 - alpha for value in values]))
    if alpha is not None:
        drawing.target(ax, alpha)
    ax.set_xlim(0, 1)
    drawing.percent_axis(ax, "x")
