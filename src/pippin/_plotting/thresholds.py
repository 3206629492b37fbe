"""What calibration gave: the scores of the true classes and the threshold among them, or a threshold for each cell."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pippin._plotting.drawing import (
    INK,
    LINE,
    MET,
    MISSED,
    QUIET,
    SPARE,
    arranged,
    beside,
    drawn,
    name_rows,
    new_axes,
    short,
    tell_hidden,
    upright_line,
)
from pippin._runtime.arrays import Flags, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._conformal.explanation import Explanation

BINS = 50
STEEP = 20  # the highest bar over the middle one, from which on heights are logarithmic
FAR = 6  # how many times as far as the threshold scores may reach and still be drawn
EXPLAINED = 20  # classes of an explanation that are drawn


class Scored(NamedTuple):
    """Calibration scores, what each of them counts, and the threshold, where there is one."""

    scores: Vector
    weights: Vector | None
    threshold: float | None
    name: str


@drawn
def plot_scores(scored: Scored, ax: "Axes | None") -> "Axes":
    """How the scores of the true classes lie, and where the threshold cuts."""
    scores, weights, threshold, name = scored
    ax, cut = new_axes(ax, 7, 3.4), np.inf if threshold is None else threshold
    low, high = _range(scores, cut)
    drawn_heights = []
    for inside, colour, hatch in ((True, MET, ""), (False, MISSED, "///")):
        own = (scores <= cut) == inside
        if not own.any():
            continue
        edges = _edges(low, high, cut, inside)
        heights = np.histogram(scores[own], edges, weights=None if weights is None else weights[own])[0]
        told = "in their sets: " if inside else "left out: "
        label = f"{'' if threshold is None else told}{int(own.sum()):,} rows"
        paint: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": INK if hatch else colour, "linewidth": 0}
        ax.bar(edges[:-1], heights, np.diff(edges), align="edge", label=label, **paint)
        drawn_heights += heights[heights > 0].tolist()
    if drawn_heights and max(drawn_heights) > STEEP * float(np.median(drawn_heights)):
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.7 * min(drawn_heights))
    if np.isfinite(cut):
        upright_line(ax, cut, f"threshold {cut:.4g}", before=cut > (low + high) / 2)
    ax.set_title(f"Calibration scores of {short(name)}", loc="left", pad=18, parse_math=False)
    beyond = int((scores > high).sum())
    ax.set_xlabel("score of the true class" + (f"; {beyond:,} more beyond" if beyond else ""))
    ax.set_ylabel("calibration rows" if weights is None else "their weights")
    ax.legend()
    return ax


def _range(scores: Vector, cut: float) -> tuple[float, float]:
    """From the smallest to the largest score, or not so far, where few scores are far beyond the threshold."""
    finite = scores[np.isfinite(scores)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if low < cut < high and high - low > FAR * (cut - low):
        high = low + 3 * (cut - low)
    return low, high


def _edges(low: float, high: float, cut: float, inside: bool) -> Vector:
    """Where bars begin and end, on one side of the threshold, which is an end itself."""
    bar = ((high - low) or 1.0) / BINS
    start, stop = (low, min(cut, high)) if inside else (cut, high)
    return np.linspace(start, stop if stop > start else start + bar, max(1, round((stop - start) / bar)) + 1)


@drawn
def plot_thresholds(
    names: Sequence[object], thresholds: Vector, notes: Sequence[str], told: tuple[str, str], ax: "Axes | None"
) -> "Axes":
    """A dot for every threshold, the largest on top; infinite ones are arrows. `told` are the title and the axis."""
    order = np.argsort(-np.asarray(thresholds), kind="stable").tolist()
    shown, places, hidden = arranged(order)
    ax = new_axes(ax, 8, 1.3 + 0.27 * (len(shown) + 2 * bool(hidden)))
    at, infinite = _at_edge(np.asarray(thresholds)[shown])
    low = min(0.0, float(at.min()))
    ax.hlines(places, low, at, color=SPARE, linewidth=1.6)
    for which, marker in ((~infinite, "o"), (infinite, ">")):
        ax.plot(at[which], np.array(places)[which], linestyle="", marker=marker, color=LINE, clip_on=False, zorder=4)
    for place, i in zip(places, shown, strict=True):
        beside(ax, place, notes[i])
    name_rows(ax, places, [names[i] for i in shown])
    if hidden:
        tell_hidden(ax, hidden, "thresholds")
    ax.set_xlim(left=low)
    title, label = told
    ax.set_xlabel(label + ("; arrows: infinite" if infinite.any() else ""))
    ax.set_title(title, loc="left", parse_math=False)
    ax.grid(axis="x")
    return ax


@drawn
def plot_explanation(explanation: "Explanation", ax: "Axes | None") -> "Axes":
    """The score of every class, from the threshold that it must not pass; those inside blue, the others hatched."""
    shown = explanation.classes[:EXPLAINED]
    places = list(range(len(shown)))
    ax = new_axes(ax, 8, 1.5 + 0.3 * len(shown))
    both = np.array([[one.score, one.threshold] for one in shown])
    at, infinite = _at_edge(both.ravel())
    scores, limits = at.reshape(both.shape).T
    bars = ax.barh(
        places, scores - limits, left=limits, height=0.62, color=[MET if one.inside else MISSED for one in shown]
    )
    for bar, one in zip(bars, shown, strict=True):
        bar.set(hatch="" if one.inside else "///", edgecolor=INK, linewidth=0.5)
    marks: dict[str, Any] = {"linestyle": "", "clip_on": False}
    ax.plot(scores, places, color=INK, marker="o", markersize=5, label="score", **marks)
    ax.plot(limits, places, color="#d55e00", marker="|", markersize=15, markeredgewidth=2.4, label="threshold", **marks)
    for place, one in zip(places, shown, strict=True):
        p = "" if one.p_value is None else f", p = {one.p_value:.3g}"
        beside(ax, place, f"{'in' if one.inside else 'out'}: {one.probability:.1%}{p}")
    name_rows(ax, places, [one.name for one in shown])
    if left_out := len(explanation.classes) - len(shown):
        ax.text(0, -0.02, f"{left_out:,} less probable classes are not drawn", transform=ax.transAxes, color=QUIET)
    inside = sum(one.inside for one in explanation.classes)
    ax.set_title(f"{inside:,} of {len(explanation.classes):,} classes are in the set", loc="left")
    ax.set_xlabel("score, in the set up to the threshold" + ("; at the edge: infinite" if infinite.any() else ""))
    ax.legend(loc="best", fontsize=9.5)
    return ax


def _at_edge(values: Vector) -> tuple[Vector, Flags]:
    """Values that can be drawn: infinite ones a little beyond the others."""
    infinite = np.isinf(values)
    known = values[~infinite]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    beyond = high + 0.06 * ((high - min(low, 0.0)) or 1.0)
    return np.where(infinite, beyond, values), infinite


def cell_names(table: dict[str, list[Any]], per: str) -> list[str]:
    """What each row of a table of thresholds is called: its class, group or kind, or class and group."""
    kinds = [per] if per in ("group", "kind") else [name for name in ("class", "group") if name in table]
    names = [", ".join(map(str, row)) for row in zip(*(table[kind] for kind in kinds), strict=True)]
    if "cluster" not in table:
        return names
    return [name if own is None else f"{name} ({own})" for name, own in zip(names, table["cluster"], strict=True)]
