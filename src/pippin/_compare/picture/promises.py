"""What decisions promise, and what comes of them, as more broken certificates are allowed."""

from typing import TYPE_CHECKING

from pippin._compare.deciding import CALIBRATED, EXPECTED, LEVELS, DecisionCurve
from pippin._compare.methods import parse_methods
from pippin._compare.picture.splits import look
from pippin._runtime.arrays import Vector
from pippin._runtime.drawing import INK, QUIET, TARGET, drawn, new_row, plain_log_axis, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from pippin._compare.deciding import DecisionComparison

TICKS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@drawn
def plot_promises(comparison: "DecisionComparison") -> "tuple[Axes, ...]":
    """What was promised, and beside it what came of it."""
    axes = new_row(2, 10.4, 4.8, sharey=True)
    draw_promises(axes, comparison)
    return axes


def draw_promises(axes: "Sequence[Axes]", comparison: "DecisionComparison") -> None:
    """The mean certificate and the mean utility at every level, a line for each kind of decisions; a legend below."""
    left, right = axes
    for curve in comparison.curves:
        if curve.name == EXPECTED:
            right.axhline(curve.came[0], color=QUIET, linestyle=":", linewidth=1.8, label=EXPECTED)
        else:
            _line(left, curve, curve.promised)
            _line(right, curve, curve.came)
    for ax, title in ((left, "Promised: mean certificate"), (right, "Had: mean utility")):
        ax.set_title(title, loc="left")
        plain_log_axis(ax, TICKS)
        ax.set_xlabel("α, the share of broken certificates allowed")
        ax.axvline(comparison.alpha, color=TARGET, linestyle=(0, (5, 2)), linewidth=1.4)
        ax.grid()
    left.set_ylabel("utility")
    handles, names = right.get_legend_handles_labels()
    left.get_figure().legend(handles, names, loc="outside lower center", ncols=4, fontsize=9.5)  # type: ignore[union-attr]  # axes have a figure


def _line(ax: "Axes", curve: DecisionCurve, values: Vector) -> None:
    own = curve.name == CALIBRATED
    colour, marker = (INK, "o") if own else look(parse_methods(curve.name.removeprefix("worst case over "))[0])[:2]
    size, width = (7, 2.4) if own else (5, 1.3)
    ax.plot(
        LEVELS,
        values,
        color=colour,
        marker=marker,
        markersize=size,
        linewidth=width,
        zorder=4 if own else 3,
        label=short(curve.name),
    )
