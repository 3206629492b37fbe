"""Plots of decisions: actions, certificates (guaranteed utilities), calibration of β in v + β·m, and comparisons."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pippin._plotting import drawing
from pippin._plotting.comparison import family_style
from pippin._plotting.drawing import INK, LINE, QUIET, SPARE, TARGET, short, styled, write_labels
from pippin._runtime.arrays import Vector
from pippin._runtime.showing import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._compare.decisions import DecisionComparison, DecisionCurve
    from pippin._decisions.decider import Decider
    from pippin._decisions.decisions import Decisions

COLORS = (LINE, "#56b4e9", "#009e73", "#e69f00", "#cc79a7", "#f0e442")
NAMED = len(drawing.STYLES)  # largest number of entries in a legend
TICKS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # tick positions on an axis of alpha


@styled
def plot_actions(decisions: "Decisions", ax: "Axes | None") -> "Axes":
    """Plot the share of each action as a bar, subdivided by certificate (guaranteed utility), the largest first."""
    places, n = list(range(len(decisions.names))), max(1, len(decisions))
    ax = drawing.new_axes(ax, 8, 1.5 + 0.5 * len(places))
    levels = np.unique(decisions.certificates)[::-1]
    start = np.zeros(len(places))
    for number, level in enumerate(levels.tolist()):
        shares = np.bincount(decisions.codes[decisions.certificates == level], minlength=len(places)) / n
        no_certificate = level == -np.inf
        color = SPARE if no_certificate else COLORS[number % len(COLORS)]
        style: dict[str, Any] = {"color": color, "edgecolor": INK, "linewidth": 0.5}
        label = "nothing" if no_certificate else format_number(level)
        ax.barh(places, shares, left=start, height=0.7, label=label, **style)
        start += shares
    for place, count in enumerate(decisions.counts().values()):
        certified = decisions.certificates[(decisions.codes == place) & np.isfinite(decisions.certificates)]
        mean = f", certified {certified.mean():.3g} on average" if len(certified) else ""
        drawing.write_note(ax, place, f"{count / n:.1%} of {len(decisions):,}{mean}")
    drawing.name_rows(ax, places, decisions.names)
    drawing.percent_axis(ax, "x")
    ax.set_xlim(0, max(start.max(initial=0.0), 1e-9))
    write_labels(ax, "Actions, by the utility that is certified", "share of objects")
    if len(levels) <= NAMED:
        ax.legend(title="certified", loc="lower right", fontsize=9.5)
    return ax


@styled
def plot_decider(decider: "Decider", ax: "Axes | None") -> "Axes":
    """Plot, against β, the share of calibration rows whose certificate (guaranteed utility) would hold at this β.

    A decision is the action with the largest v + β·m, where v is its certificate and m the predicted probability of
    reaching it. Calibration determines β; a larger β gives safer actions. Each Mondrian category has its own line.
    """
    ax, curves = drawing.new_axes(ax, 7, 3.8), _category_curves(decider)
    few, lowest = len(curves) <= NAMED, 1.0
    for number, (name, beta, values, weights) in enumerate(curves):
        if not len(values):
            continue
        color = COLORS[number % len(COLORS)] if few else QUIET
        total = weights.sum()
        y = np.concatenate([[weights[values <= 0].sum()], np.cumsum(weights)]) / total
        lowest = min(lowest, float(y[0]))
        label = short(name) if few else None
        ax.step(np.concatenate([[0.0], values]), y, where="post", color=color, linewidth=1.6, label=label)
        if np.isfinite(beta):
            kept = float(weights[values <= beta].sum() / total)
            ax.plot(beta, kept, marker="o", color=color, markeredgecolor=INK, zorder=4)
    for number, level in enumerate((decider.levels or {"": decider.alpha}).values()):
        color = TARGET if decider.levels is None else COLORS[number % len(COLORS)]
        ax.axhline(1 - level, color=color, linestyle=(0, (5, 2)), linewidth=1.4)
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(left=-0.1)
    ax.set_ylim(min(lowest, 1 - decider.alpha) - 0.01, 1.002)
    drawing.percent_axis(ax, "y")
    one = len(curves) == 1 and not np.isnan(curves[0][1])
    title = f": β = {format_number(curves[0][1])}" if one else f", per {decider.per or 'sharpener'}"
    per_action = "predicted probability of more utility than realized: the certificates' threshold"
    across = per_action if decider.per == "action" else "β: larger is more careful"
    write_labels(ax, f"Certificates kept{title}", across, "certificates kept")
    if 1 < len(curves) <= NAMED:
        ax.legend(fontsize=9.5)
    ax.grid(axis="y")
    return ax


def _category_curves(decider: "Decider") -> list[tuple[str, float, Vector, Vector]]:
    """Return for each Mondrian category its name, calibrated β, sorted calibration scores, and the scores' weights."""
    rule: Any = decider._rule
    scores, (weights, _) = decider.calibration_scores, rule.picture()
    assert scores is not None
    if hasattr(rule, "fold_scores"):  # cross-conformal, without a calibrated β to mark
        folds = enumerate(rule.fold_scores)
        return [(f"sharpener {f + 1}", float("nan"), part, np.ones(len(part))) for f, part in folds]
    weights = np.ones(len(scores)) if weights is None else weights
    if len(decider.betas) == 1 and decider.per is None:
        return [("all rows", decider.beta, scores, weights)]
    thresholds = rule.limits.scores if decider.per == "action" else decider.betas
    betas = dict(zip(rule.categories.lookup.ravel().tolist(), thresholds.ravel().tolist(), strict=True))
    slices = [slice(*ends) for ends in pairwise(rule.categories.offsets.tolist())]
    named = enumerate(zip(_category_names(decider), slices, strict=True))
    return [(name, betas[number], scores[part], weights[part]) for number, (name, part) in named]


def _category_names(decider: "Decider") -> list[str]:
    """Name each Mondrian category by the kind (superclass), group or class that its rows share."""
    rule: Any = decider._rule
    if decider.per is None:  # a mixture of sharpeners (recalibration maps), each with its β
        return [f"sharpener {number + 1}" for number in range(len(decider.betas))]
    if decider.per == "action":
        return list(decider.utility.actions)
    of, kinds, names = rule.categories.lookup, rule.kinds, []
    for category in range(len(rule.categories.counts)):
        groups, classes = (np.unique(part) for part in np.nonzero(of == category))
        parts = [] if kinds is None else [kinds.names[int(kinds.codes[classes[0]])]]
        if decider.groups is not None:
            parts += [str(decider.groups[int(groups[0])]) if len(groups) == 1 else "every group"]
        if not parts or len(classes) == 1 < of.shape[1]:
            parts += [str(decider.classes[int(classes[0])])] if len(classes) == 1 else ["all rows"] * (not parts)
        names.append(", ".join(parts))
    return names


@styled
def plot_decision_curves(comparison: "DecisionComparison") -> "tuple[Axes, ...]":
    """Plot mean certificate (guaranteed utility) and mean utility of each decision rule against alpha, on two axes."""
    axes = drawing.new_row(2, 10.4, 4.8, sharey=True)
    draw_decision_curves(axes, comparison)
    return axes


def draw_decision_curves(axes: "Sequence[Axes]", comparison: "DecisionComparison") -> None:
    """Draw mean certificate (guaranteed utility) and mean utility against alpha, on two axes with a line per rule."""
    left, right = axes
    for curve in comparison.curves:
        if curve.certificate is None:
            right.axhline(curve.utility[0], color=QUIET, linestyle=":", linewidth=1.8, label=curve.name)
        else:
            _draw_curve(left, curve, curve.certificate)
            _draw_curve(right, curve, curve.utility)
    for ax, title in ((left, "Certified: mean certificate"), (right, "Obtained: mean utility")):
        write_labels(ax, title, "α, the share of broken certificates allowed", "utility" if ax is left else "")
        drawing.log_axis(ax, "x", TICKS)
        ax.axvline(comparison.alpha, color=TARGET, linestyle=(0, (5, 2)), linewidth=1.4)
        ax.grid()
    handles, names = right.get_legend_handles_labels()
    left.get_figure().legend(handles, names, loc="outside lower center", ncols=4, fontsize=9.5)  # type: ignore[union-attr]  # axes have a figure


def _draw_curve(ax: "Axes", curve: "DecisionCurve", values: Vector) -> None:
    (color, marker, _), size, width, zorder = drawing.FamilyStyle(INK, "o"), 7.0, 2.4, 4
    if curve.method is not None:
        (color, marker, _), size, width, zorder = family_style(curve.method), 5.0, 1.3, 3
    style: dict[str, Any] = {"color": color, "marker": marker, "markersize": size, "linewidth": width}
    ax.plot(curve.levels, values, label=short(curve.name), zorder=zorder, **style)
