"""Pictures of decisions: how often each action is taken and what it is certified, and what a multiplier buys."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pippin._plotting.drawing import (
    INK,
    LINE,
    LOOKS,
    QUIET,
    SPARE,
    TARGET,
    beside,
    drawn,
    name_rows,
    new_axes,
    percent_axis,
    short,
)
from pippin._runtime.showing import shown_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._decisions.decider import Decider
    from pippin._decisions.decisions import Decisions

COLOURS = (LINE, "#56b4e9", "#009e73", "#e69f00", "#cc79a7", "#f0e442")
NAMED = len(LOOKS)  # lines that have a name in the legend, at most


@drawn
def plot_actions(decisions: "Decisions", ax: "Axes | None") -> "Axes":
    """A bar for the share of each action, divided by what is certified, the best first."""
    places, n = list(range(len(decisions.names))), max(1, len(decisions))
    ax = new_axes(ax, 8, 1.5 + 0.5 * len(places))
    levels = np.unique(decisions.certificates)[::-1]
    start = np.zeros(len(places))
    for number, level in enumerate(levels.tolist()):
        own = np.bincount(decisions.codes[decisions.certificates == level], minlength=len(places)) / n
        colour = SPARE if level == -np.inf else COLOURS[number % len(COLOURS)]
        label = "nothing" if level == -np.inf else shown_number(level)
        ax.barh(places, own, left=start, height=0.7, color=colour, edgecolor=INK, linewidth=0.5, label=label)
        start += own
    for place, (name, count) in zip(places, decisions.counts().items(), strict=True):
        certified = decisions.certificates[(decisions.codes == decisions.names.index(name))]
        known = certified[np.isfinite(certified)]
        mean = f", certified {known.mean():.3g} on average" if len(known) else ""
        beside(ax, place, f"{count / n:.1%} of {len(decisions):,}{mean}")
    name_rows(ax, places, decisions.names)
    percent_axis(ax, "x")
    ax.set_xlim(0, max(start.max(initial=0.0), 1e-9))
    ax.set_xlabel("share of objects")
    ax.set_title("Actions, by the utility that is certified", loc="left")
    if len(levels) <= NAMED:
        ax.legend(title="certified", loc="lower right", fontsize=9.5)
    return ax


@drawn
def plot_decider(decider: "Decider", ax: "Axes | None") -> "Axes":
    """The share of calibration rows whose certificate would be kept, against β; a line for each cell, its β marked."""
    decider.need_scores("has no picture")
    assert decider.cells.scores is not None
    ax, offsets = new_axes(ax, 7, 3.8), decider.cells.offsets.tolist()
    cells = [np.asarray(decider.cells.scores[a:b]) for a, b in pairwise(offsets)]
    names, lowest = _cell_names(decider), 1.0
    betas = {int(cell): float(beta) for cell, beta in zip(decider.cells.of.ravel(), decider.betas.ravel(), strict=True)}
    for number, (scores, name) in enumerate(zip(cells, names, strict=True)):
        if not len(scores):
            continue
        colour = COLOURS[number % len(COLOURS)] if len(cells) <= NAMED else QUIET
        shares = np.arange(1, len(scores) + 1) / len(scores)
        x, y = np.concatenate([[0.0], scores]), np.concatenate([[float((scores <= 0).mean())], shares])
        lowest = min(lowest, float(y[0]))
        ax.step(x, y, where="post", color=colour, linewidth=1.6, label=short(name) if len(cells) <= NAMED else None)
        if np.isfinite(betas[number]):
            kept = float((scores <= betas[number]).mean())
            ax.plot(betas[number], kept, marker="o", color=colour, markeredgecolor=INK, zorder=4)
    for number, level in enumerate(decider.levels or (decider.alpha,)):
        colour = TARGET if decider.levels is None else COLOURS[number % len(COLOURS)]
        ax.axhline(1 - level, color=colour, linestyle=(0, (5, 2)), linewidth=1.4)
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(left=-0.1)
    ax.set_ylim(min(lowest, 1 - decider.alpha) - 0.01, 1.002)
    percent_axis(ax, "y")
    ax.set_xlabel("β: larger is more careful")
    ax.set_ylabel("certificates kept")
    one = f": β = {shown_number(decider.beta)}" if len(cells) == 1 else f", per {decider.per}"
    ax.set_title(f"What β buys{one}", loc="left")
    if 1 < len(cells) <= NAMED:
        ax.legend(fontsize=9.5)
    ax.grid(axis="y")
    return ax


def _cell_names(decider: "Decider") -> list[str]:
    """What the rows of each cell have in common."""
    of = decider.cells.of
    found = []
    for cell in range(len(decider.cells.counts)):
        groups, classes = (np.unique(part) for part in np.nonzero(of == cell))
        parts = [] if decider.kinds is None else [decider.kinds.names[int(decider.kinds.of[classes[0]])]]
        if decider.groups is not None:
            parts += [str(decider.groups[int(groups[0])]) if len(groups) == 1 else "every group"]
        if not parts or len(classes) == 1 < of.shape[1]:
            parts += [str(decider.classes[int(classes[0])])] if len(classes) == 1 else ["all rows"] * (not parts)
        found.append(", ".join(parts))
    return found
