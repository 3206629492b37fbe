"""The law of coverage that a plan rests on, as a picture."""

import math
from typing import TYPE_CHECKING

import numpy as np

from pippin._plotting.drawing import INK, LINE, MET, drawn, new_axes, percent_axis, target
from pippin._runtime.arrays import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._theory.planning import Plan

POINTS = 400
REACH = 4.5  # standard deviations on either side of the mean


@drawn
def plot_plan(plan: "Plan", ax: "Axes | None") -> "Axes":
    """The density of coverage over calibrations, shaded from `low` to `high`, and the level."""
    ax = new_axes(ax, 7, 3.4)
    a, b = plan.k, plan.n + 1 - plan.k
    if plan.finite:
        reach = REACH * plan.standard_deviation
        x = np.linspace(max(1e-9, plan.mean - reach), min(1 - 1e-9, plan.mean + reach), POINTS)
        density = _density(x, a, b)
        ax.plot(x, density, color=LINE, linewidth=1.8)
        inside = (x >= plan.low) & (x <= plan.high)
        share = f"{100 * (1 - plan.delta):g} % of calibrations: {plan.low:.3f} to {plan.high:.3f}"
        ax.fill_between(x[inside], density[inside], color=MET, alpha=0.5, linewidth=0, label=share)
        if plan.test is not None and plan.test_low is not None and plan.test_high is not None:
            told = f"the same, measured on {plan.test:,} rows: {plan.test_low:.3f} to {plan.test_high:.3f}"
            ends, height = [plan.test_low, plan.test_high], 0.06 * float(density.max())
            ax.plot(ends, [height, height], color=INK, marker="|", markersize=10, linewidth=1.4, label=told)
        ax.legend(loc="upper left", fontsize=9.5)
        ax.set_ylim(0, 1.45 * float(density.max()))
    else:
        ax.axvline(1, color=LINE, linewidth=3)
        ax.set_xlim(1 - 2 * plan.alpha, 1.01)
    target(ax, plan.alpha)
    percent_axis(ax, "x")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    few = "calibration examples" if plan.finite else "examples: every set holds all classes"
    ax.set_title(f"Coverage from {plan.n:,} {few}", loc="left", pad=18)
    ax.set_xlabel("coverage on new objects, over repeated calibrations")
    return ax


def _density(x: Vector, a: int, b: int) -> Vector:
    """The density of Beta(a, b)."""
    constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    found: Vector = np.exp(constant + (a - 1) * np.log(x) + (b - 1) * np.log1p(-x))
    return found
