"""What decisions promise, and what comes of them, as more broken certificates are allowed."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from pippin._compare.deciding import CALIBRATED, EXPECTED, LEVELS, DecisionComparison, DecisionCurve
from pippin._compare.methods import parse_methods
from pippin.cli.report.style import INK, QUIET, TARGET, drawn, look, new_figure, short

TICKS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@drawn
def promises(comparison: DecisionComparison) -> Figure:
    """The mean certificate and the mean utility at every level, a line for each kind of decisions."""
    figure = new_figure(10.4, 4.8)
    left, right = figure.subplots(1, 2, sharey=True)
    for curve in comparison.curves:
        if curve.name == EXPECTED:
            right.axhline(curve.came[0], color=QUIET, linestyle=":", linewidth=1.8, label=EXPECTED)
        else:
            _line(left, curve, curve.promised)
            _line(right, curve, curve.came)
    for ax, title in ((left, "Promised: mean certificate"), (right, "Had: mean utility")):
        ax.set_title(title, loc="left")
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(FixedLocator(TICKS))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("α, the share of broken certificates allowed")
        ax.axvline(comparison.alpha, color=TARGET, linestyle=(0, (5, 2)), linewidth=1.4)
        ax.grid()
    left.set_ylabel("utility")
    handles, names = right.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=9.5)
    return figure


def _line(ax: Axes, curve: DecisionCurve, values: Any) -> None:
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
