"""How large sets are: a bar for every size."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pippin._plotting.drawing import INK, MET, drawn, new_axes, percent_axis
from pippin._runtime.arrays import Codes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._conformal.sets import PredictionSets

STARTS = (*range(10), 10, 20, 50, 100, 200, 500, 1000)  # where groups of set sizes begin
EVERY_SIZE = 14  # the largest size up to which each has its own bar


class SizeGroups(NamedTuple):
    """The names of the bars, and the bar of every size: large sizes share one."""

    names: list[str]
    of: Codes


def size_groups(largest: int) -> SizeGroups:
    """The bars of sets of up to so many classes.

    >>> size_groups(2).names, size_groups(70).names[-3:]
    (['0', '1', '2'], ['10–19', '20–49', '50–70'])
    """
    if largest <= EVERY_SIZE:
        return SizeGroups([str(size) for size in range(largest + 1)], np.arange(largest + 1))
    starts = [start for start in STARTS if start <= largest]
    ends = [*(start - 1 for start in starts[1:]), largest]
    names = [str(a) if a == b else f"{a}–{b}" for a, b in zip(starts, ends, strict=True)]
    return SizeGroups(names, np.searchsorted(starts, np.arange(largest + 1), side="right") - 1)


@drawn
def plot_sets(sets: "PredictionSets", ax: "Axes | None") -> "Axes":
    """The share of sets of every size, singletons hatched."""
    sizes, counts = np.unique(sets.sizes, return_counts=True)
    ax = new_axes(ax, 6.4, 3.4)
    groups = size_groups(int(sizes[-1]) if len(sizes) else 0)
    draw_sizes(ax, dict(zip(sizes.tolist(), counts.tolist(), strict=True)), groups, MET)
    told = (
        f": mean size {sets.sizes.mean():.2f}, {100 * np.mean(sets.sizes == 1):.0f} % singletons" if len(sets) else ""
    )
    ax.set_title(f"{len(sets):,} sets{told}", loc="left")
    ax.set_xlabel("size: classes in the set (singletons hatched)")
    ax.set_ylabel("share of sets")
    return ax


def draw_sizes(ax: "Axes", counts: Mapping[int, int], groups: SizeGroups, colour: str) -> None:
    """A bar for the share of every size, that of singletons hatched."""
    shares, places = np.zeros(len(groups.names)), range(len(groups.names))
    for size, count in counts.items():
        shares[groups.of[size]] += count / sum(counts.values())
    bars = ax.bar(places, shares, color=colour, edgecolor=INK, linewidth=0.6)
    for bar, name in zip(bars, groups.names, strict=True):
        bar.set_hatch("///" if name == "1" else "")
    ax.set_xticks(places, groups.names)
    ax.tick_params(axis="x", rotation=90 if len(groups.names) > EVERY_SIZE + 1 or len(groups.names[-1]) > 2 else 0)
    percent_axis(ax, "y")
    ax.grid(axis="y")
