"""The picture of what a sharpener mends."""

from typing import TYPE_CHECKING

from pippin._predictors.sharpening.sharpener import Learnt
from pippin._runtime.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 10
BEFORE, AFTER = "#b0b7bf", "#0b6e4f"


def draw_confusions(learnt: Learnt, ax: "Axes | None" = None) -> "Axes":
    """A line for each confusion that changed, from its share before to its share after."""
    need("A plot", "report", "matplotlib")
    import matplotlib.pyplot as plt

    shown = learnt.confusions[:SHOWN][::-1]
    ax = plt.subplots(figsize=(7, 1 + 0.35 * max(len(shown), 1)), layout="constrained")[1] if ax is None else ax
    places = range(len(shown))
    before, after = [100 * one.before for one in shown], [100 * one.after for one in shown]
    ax.hlines(places, before, after, color=BEFORE, linewidth=2)
    ax.plot(before, places, "o", color=BEFORE, label="before")
    ax.plot(after, places, "o", color=AFTER, label="after")
    ax.set_yticks(places, [f"{one.true} taken for {one.predicted}" for one in shown])
    ax.set_xlim(left=0)
    ax.set_xlabel("% of the rows of the true class, out of fold")
    ax.set_title("What sharpening mends", loc="left")
    ax.legend(frameon=False)
    return ax
