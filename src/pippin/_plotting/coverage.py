"""Who is covered: a bar for every class, group or size, beside what was asked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pippin._plotting.drawing import (
    INK,
    MET,
    MISSED,
    arranged,
    beside,
    drawn,
    name_rows,
    new_axes,
    percent_axis,
    target,
    tell_hidden,
)
from pippin._runtime.errors import InputError
from pippin._theory.laws import share_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._conformal.evaluation import Evaluation

WORDS = {"class": "classes", "group": "groups", "size": "sizes"}


@drawn
def plot_coverage(evaluation: "Evaluation", what: str, ax: "Axes | None") -> "Axes":
    """Coverage by class or group, the least covered on top, or by size; each with its 95 % interval."""
    counts, shares = _counted(evaluation, what)
    order = list(shares) if what == "size" else sorted(shares, key=lambda name: shares[name])
    shown, places, hidden = arranged(order)
    ax = new_axes(ax, 8, 1.3 + 0.27 * (len(shown) + 2 * bool(hidden)))
    values = [shares[name] for name in shown]
    draw_shares(ax, places, values, evaluation.alpha)
    for place, name, value in zip(places, shown, values, strict=True):
        low, high = share_interval(round(value * counts[name]), counts[name])
        ax.plot([low, high], [place, place], color=INK, linewidth=1.4, clip_on=False)
        beside(ax, place, f"{value:.1%} of {counts[name]:,}")
    name_rows(ax, places, shown)
    if hidden:
        tell_hidden(ax, hidden, WORDS[what])
    ax.set_xlabel("coverage, with its 95 % interval")
    if what == "size":
        ax.set_ylabel("size")
    ax.set_title(f"Coverage by {what}: {evaluation.coverage:.1%} over all", loc="left", pad=18)
    return ax


def draw_shares(ax: "Axes", places: Sequence[float], values: Sequence[float], alpha: float | None) -> None:
    """A bar for every share, hatched where it is short of what was asked."""
    short_of = [alpha is not None and value < 1 - alpha for value in values]
    bars = ax.barh(places, values, height=0.74, color=[MISSED if s else MET for s in short_of])
    for bar, s in zip(bars, short_of, strict=True):
        bar.set(hatch="///" if s else "", edgecolor=INK, linewidth=0.5)
    if alpha is not None:
        target(ax, alpha)
    ax.set_xlim(0, 1)
    percent_axis(ax, "x")


def _counted(evaluation: "Evaluation", what: str) -> tuple[dict[Any, int], dict[Any, float]]:
    if what not in WORDS:
        raise InputError(f"Expected what to be one of {', '.join(map(repr, WORDS))}, got {what!r}")
    if what == "group" and not evaluation.group_coverage:
        raise InputError("These sets were evaluated without groups", "pass groups= to evaluate, one per object")
    counts: dict[Any, int] = getattr(evaluation, f"{what}_counts")
    shares: dict[Any, float] = getattr(evaluation, f"{what}_coverage")
    return counts, shares
