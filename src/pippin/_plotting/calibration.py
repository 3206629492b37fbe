"""Plots of calibration: scores, thresholds, explanations, planned coverage, class ratios, and sharpening."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pippin._plotting import drawing
from pippin._plotting.drawing import GREEN, INK, LINE, MET, MISSED, QUIET, SPARE, TARGET, styled, write_labels
from pippin._runtime.arrays import Flags, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._conformal.explanation import Explanation
    from pippin._sharpening.sharpener import OutOfFoldMetrics
    from pippin._shift.label_shift import LabelRatios
    from pippin._theory.planning import Plan

BINS = 50
STEEP = 20  # the axis of heights is logarithmic if the highest bar exceeds this many times the median bar
FAR = 6  # the axis is shortened if the range of all scores exceeds this many times the range up to the threshold
EXPLAINED = 20  # largest number of classes in the plot of an explanation
POINTS, REACH = 400, 4.5  # curve of the density of coverage: number of points, and standard deviations on each side
CONFUSIONS = 10  # largest number of pairs of confused classes in a plot


@styled
def plot_scores(
    scores: Vector, weights: Vector | None, threshold: float | None, name: str, ax: "Axes | None"
) -> "Axes":
    """Plot a histogram of the (weighted) calibration scores, in one color up to the threshold and in another above."""
    ax, cut = drawing.new_axes(ax, 7, 3.4), np.inf if threshold is None else threshold
    low, high = _range(scores, cut)
    positive: list[float] = []
    for inside, text in ((True, "in their sets: "), (False, "left out: ")):
        here = (scores <= cut) == inside
        if not here.any():
            continue
        edges = _edges(low, high, cut, inside)
        heights = np.histogram(scores[here], edges, weights=None if weights is None else weights[here])[0]
        label = f"{'' if threshold is None else text}{int(here.sum()):,} rows"
        color, hatch, edge = (MET, "", MET) if inside else (MISSED, "///", INK)
        paint: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": edge, "linewidth": 0}
        ax.bar(edges[:-1], heights, np.diff(edges), align="edge", label=label, **paint)
        positive += heights[heights > 0].tolist()
    if positive and max(positive) > STEEP * float(np.median(positive)):
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.7 * min(positive))
    if np.isfinite(cut):
        drawing.upright_line(ax, cut, f"threshold {cut:.4g}", before=cut > (low + high) / 2)
    beyond = int((scores > high).sum())
    label = "score of the true class" + (f"; {beyond:,} more beyond" if beyond else "")
    rows = "calibration rows" if weights is None else "their weights"
    write_labels(ax, f"Calibration scores of {drawing.short(name)}", label, rows, pad=18)
    ax.legend()
    return ax


def _range(scores: Vector, threshold: float) -> tuple[float, float]:
    """Return the range of scores to draw; it ends before the largest scores if they are far above the threshold."""
    low, high = _finite_range(scores)
    return low, low + 3 * (threshold - low) if low < threshold < high and high - low > FAR * (threshold - low) else high


def _edges(low: float, high: float, threshold: float, inside: bool) -> Vector:
    """Return the edges of the histogram bins on one side of the threshold, which is itself an edge.

    `inside` selects the side of the scores up to the threshold.
    """
    bar = ((high - low) or 1.0) / BINS
    start, stop = (low, min(threshold, high)) if inside else (threshold, high)
    return np.linspace(start, stop if stop > start else start + bar, max(1, round((stop - start) / bar)) + 1)


@styled
def plot_thresholds(
    names: Sequence[object], thresholds: Vector, notes: Sequence[str], labels: tuple[str, str], ax: "Axes | None"
) -> "Axes":
    """Plot a dot for every threshold, the largest on top, infinite ones as arrows.

    `notes` are the texts to the right of the dots, `labels` the title and the label of the x axis.
    """
    order = np.argsort(-np.asarray(thresholds), kind="stable").tolist()
    ax, shown, places = drawing.named_rows(ax, order, names, notes, "thresholds")
    at, infinite = _at_edge(np.asarray(thresholds)[shown])
    low = min(0.0, float(at.min()))
    ax.hlines(places, low, at, color=SPARE, linewidth=1.6)
    for which, marker in ((~infinite, "o"), (infinite, ">")):
        ax.plot(at[which], np.array(places)[which], linestyle="", marker=marker, color=LINE, clip_on=False, zorder=4)
    ax.set_xlim(left=low)
    title, label = labels
    write_labels(ax, title, label + ("; arrows: infinite" if infinite.any() else ""))
    ax.grid(axis="x")
    return ax


@styled
def plot_explanation(explanation: "Explanation", ax: "Axes | None") -> "Axes":
    """Plot each class's score as a bar that begins at its threshold, hatched for classes outside the set."""
    shown = explanation.classes[:EXPLAINED]
    places = list(range(len(shown)))
    ax = drawing.new_axes(ax, 8, 1.5 + 0.3 * len(shown))
    both = np.array([[one.score, one.threshold] for one in shown])
    at, infinite = _at_edge(both.ravel())
    scores, limits = at.reshape(both.shape).T
    ax.barh(places, scores - limits, left=limits, height=0.62, **drawing.bar_style([one.inside for one in shown]))
    marks: dict[str, Any] = {"linestyle": "", "clip_on": False}
    ax.plot(scores, places, color=INK, marker="o", markersize=5, label="score", **marks)
    ax.plot(limits, places, color=TARGET, marker="|", markersize=15, markeredgewidth=2.4, label="threshold", **marks)
    for place, one in zip(places, shown, strict=True):
        p = "" if one.p_value is None else f", p = {one.p_value:.3g}"
        drawing.write_note(ax, place, f"{'in' if one.inside else 'out'}: {one.probability:.1%}{p}")
    drawing.name_rows(ax, places, [one.name for one in shown])
    if left_out := len(explanation.classes) - len(shown):
        ax.text(0, -0.02, f"{left_out:,} less probable classes are not drawn", transform=ax.transAxes, color=QUIET)
    inside = sum(one.inside for one in explanation.classes)
    label = "score, in the set up to the threshold" + ("; at the edge: infinite" if infinite.any() else "")
    write_labels(ax, f"{inside:,} of {len(explanation.classes):,} classes are in the set", label)
    ax.legend(loc="best", fontsize=9.5)
    return ax


def _at_edge(values: Vector) -> tuple[Vector, Flags]:
    """Replace infinite values by a number just above the finite ones; return the values, and flags of infinite ones."""
    infinite = np.isinf(values)
    low, high = _finite_range(values)
    return np.where(infinite, high + 0.06 * ((high - min(low, 0.0)) or 1.0), values), infinite


def _finite_range(values: Vector) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)


def category_names(table: dict[str, list[Any]], per: str) -> list[str]:
    """Name each Mondrian category of a table of thresholds by its class, group or kind (superclass)."""
    kinds = [per] if per in ("group", "kind") else [name for name in ("class", "group") if name in table]
    names = [", ".join(map(str, row)) for row in zip(*(table[kind] for kind in kinds), strict=True)]
    if "cluster" not in table:
        return names
    clusters = zip(names, table["cluster"], strict=True)
    return [name if cluster is None else f"{name} ({cluster})" for name, cluster in clusters]


@styled
def plot_plan(plan: "Plan", ax: "Axes | None") -> "Axes":
    """Plot the density of coverage over calibration sets, shaded from `low` to `high` of the plan, and the target."""
    ax = drawing.new_axes(ax, 7, 3.4)
    if plan.finite:
        _draw_density(ax, plan)
    else:
        ax.axvline(1, color=LINE, linewidth=3)
        ax.set_xlim(1 - 2 * plan.alpha, 1.01)
    drawing.target(ax, plan.alpha)
    drawing.percent_axis(ax, "x")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    few = "calibration examples" if plan.finite else "examples: every set contains all classes"
    write_labels(ax, f"Coverage from {plan.n:,} {few}", "coverage on new objects, over repeated calibrations", pad=18)
    return ax


def _draw_density(ax: "Axes", plan: "Plan") -> None:
    """Draw the beta density of coverage, and the interval of coverage on test rows if the plan has test rows."""
    from scipy.stats import beta

    reach = REACH * plan.standard_deviation
    x = np.linspace(max(1e-9, plan.mean - reach), min(1 - 1e-9, plan.mean + reach), POINTS)
    density = beta.pdf(x, plan.k, plan.n + 1 - plan.k)
    ax.plot(x, density, color=LINE, linewidth=1.8)
    inside = (x >= plan.low) & (x <= plan.high)
    share = f"{100 * (1 - plan.delta):g}% of calibrations: {plan.low:.3f} to {plan.high:.3f}"
    ax.fill_between(x[inside], density[inside], color=MET, alpha=0.5, linewidth=0, label=share)
    if plan.test_low is not None and plan.test_high is not None:
        label = f"as measured on {plan.test:,} rows: {plan.test_low:.3f} to {plan.test_high:.3f}"
        ends, height = [plan.test_low, plan.test_high], 0.06 * float(density.max())
        ax.plot(ends, [height, height], color=INK, marker="|", markersize=10, linewidth=1.4, label=label)
    ax.legend(loc="upper left", fontsize=9.5)
    ax.set_ylim(0, 1.45 * float(density.max()))


@styled
def plot_ratios(result: "LabelRatios", ax: "Axes | None") -> "Axes":
    """Plot the ratio of new to old frequency of each class with two standard errors, the largest on top."""
    order = sorted(range(len(result.classes)), key=lambda k: -result.ratios[k])
    notes = [f"{ratio:.2f} ± {error:.2f}" for ratio, error in zip(result.ratios, result.errors, strict=True)]
    ax, shown, places = drawing.named_rows(ax, order, result.classes, notes, "classes")
    ax.errorbar(result.ratios[shown], places, xerr=2 * result.errors[shown], fmt="o", color=LINE, linewidth=1.4)
    ax.axvline(1, color=QUIET, linewidth=1, linestyle=":")
    ax.set_xlim(left=0)
    ax.grid(axis="x")
    label = "times as common as before; bars: two standard errors"
    write_labels(ax, "Classes that have become more or less common", label)
    return ax


@styled
def plot_confusions(metrics: "OutOfFoldMetrics", ax: "Axes | None") -> "Axes":
    """Plot a line for each pair of confused classes, from the share confused before sharpening to the share after it.

    Sharpening recalibrates the probabilities.
    """
    shown = metrics.confusions[:CONFUSIONS]
    places = list(range(len(shown)))
    ax = drawing.new_axes(ax, 7, 1 + 0.35 * max(len(shown), 1))
    before, after = [100 * one.before for one in shown], [100 * one.after for one in shown]
    ax.hlines(places, before, after, color=SPARE, linewidth=2)
    ax.plot(before, places, "o", color=SPARE, label="before")
    ax.plot(after, places, "o", color=GREEN, label="after")
    drawing.name_rows(ax, places, [f"{one.true} taken for {one.predicted}" for one in shown], longest=60)
    ax.set_xlim(left=0)
    write_labels(ax, "Confusions before and after sharpening", "% of the true class, out of fold")
    ax.legend()
    return ax
