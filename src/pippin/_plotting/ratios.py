"""Plot of class ratios under label shift."""

from typing import TYPE_CHECKING

from pippin._plotting.drawing import LINE, QUIET, arranged, beside, drawn, name_rows, new_axes, tell_hidden

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._shift.label_shift import LabelRatios


@drawn
def plot_ratios(result: "LabelRatios", ax: "Axes | None") -> "Axes":
    """Plot each class ratio with two standard errors, the largest on top, and a line at 1."""
    shown, places, hidden = arranged(sorted(range(len(result.classes)), key=lambda k: -result.ratios[k]))
    ax = new_axes(ax, 8, 1.3 + 0.27 * (len(shown) + 2 * bool(hidden)))
    ratios, errors = result.ratios[shown], result.errors[shown]
    ax.errorbar(ratios, places, xerr=2 * errors, fmt="o", color=LINE, linewidth=1.4)
    ax.axvline(1, color=QUIET, linewidth=1, linestyle=":")
    for place, ratio, error in zip(places, ratios, errors, strict=True):
        beside(ax, place, f"{ratio:.2f} ± {error:.2f}")
    name_rows(ax, places, [result.classes[k] for k in shown])
    if hidden:
        tell_hidden(ax, hidden, "classes")
    ax.set_xlim(left=0)
    ax.grid(axis="x")
    ax.set_xlabel("times as common as before; bars: two standard errors")
    ax.set_title("Classes that have become more or less common", loc="left")
    return ax
