"""Plot of the confusions that a sharpener changes."""

from typing import TYPE_CHECKING

from pippin._plotting.drawing import SPARE, drawn, name_rows, new_axes, write_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._sharpening.sharpener import OutOfFoldMetrics

SHOWN = 10
BEFORE, AFTER = SPARE, "#009e73"


@drawn
def draw_confusions(metrics: "OutOfFoldMetrics", ax: "Axes | None" = None) -> "Axes":
    """Plot a line for each confusion that changed, from its share before to its share after."""
    shown = metrics.confusions[:SHOWN]
    places = list(range(len(shown)))
    ax = new_axes(ax, 7, 1 + 0.35 * max(len(shown), 1))
    before, after = [100 * one.before for one in shown], [100 * one.after for one in shown]
    ax.hlines(places, before, after, color=BEFORE, linewidth=2)
    ax.plot(before, places, "o", color=BEFORE, label="before")
    ax.plot(after, places, "o", color=AFTER, label="after")
    name_rows(ax, places, [f"{one.true} taken for {one.predicted}" for one in shown], longest=60)
    ax.set_xlim(left=0)
    write_labels(ax, "What sharpening mends", "% of the true class, out of fold")
    ax.legend()
    return ax
