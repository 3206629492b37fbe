"""Pictures of a stream: the evidence along it, and coverage in windows, with the change marked."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pippin._predictors.streams.trail import Trail
from pippin._runtime.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._predictors.streams.monitor import Monitor

WINDOWS = 40  # in which coverage is shown, at most
LINE, TARGET, CHANGE = "#0072b2", "#d55e00", "#222222"


def new_axes(ax: "Axes | None") -> "Axes":
    """Those that were given, or new ones."""
    need("A plot", "report", "matplotlib")
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(8, 3.2), layout="constrained")[1] if ax is None else ax


def draw_evidence(monitor: "Monitor", ax: "Axes | None" = None) -> "Axes":
    """The largest evidence in every block of rows, on a logarithmic axis, and the limit of an alarm."""
    ax, trail = new_axes(ax), monitor._trail
    from matplotlib.ticker import MaxNLocator

    ends = trail.block * np.arange(1, len(trail.values) + 1)
    ax.plot(ends, np.array(trail.values) / math.log(10), color=LINE, linewidth=1.6, label="evidence")
    ax.axhline(math.log10(monitor.limit), color=TARGET, linestyle="--", linewidth=1.3, label="alarm")
    mark_change(ax, monitor)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))  # whole powers of ten
    ax.yaxis.set_major_formatter(_power)
    ax.set_ylabel("evidence")
    ax.set_xlabel("row")
    ax.set_title("Evidence that rows have changed", loc="left")
    ax.legend(frameon=False, loc="upper left")
    return ax


def draw_coverage(trail: Trail, alpha: float, ax: "Axes | None" = None) -> "Axes":
    """The share of labels in their sets, window by window, beside two standard errors around what was asked."""
    ax = new_axes(ax)
    joined = max(1, math.ceil(len(trail.values) / WINDOWS))
    starts = np.arange(0, len(trail.values), joined)
    missed = np.add.reduceat(np.array(trail.values), starts) if len(starts) else np.zeros(0)
    sizes = trail.block * np.diff([*starts, len(trail.values)])
    share, middle = 1 - missed / sizes, trail.block * starts + sizes / 2
    error = 2 * np.sqrt(alpha * (1 - alpha) / sizes)
    low, high = 1 - alpha - error, np.minimum(1, 1 - alpha + error)
    ax.fill_between(middle, low, high, color=LINE, alpha=0.18, linewidth=0, label="two standard errors")
    ax.axhline(1 - alpha, color=TARGET, linestyle="--", linewidth=1.3, label=f"{100 * (1 - alpha):g} % asked for")
    ax.plot(middle, share, color=LINE, marker="o", markersize=3.5, linewidth=1.2, label="coverage")
    ax.set_ylabel("coverage")
    ax.set_xlabel("label" if not len(sizes) else f"label, in windows of {int(sizes[0]):,}")
    ax.set_title("Coverage along the stream", loc="left")
    ax.legend(frameon=False, loc="lower left")
    return ax


def mark_change(ax: "Axes", monitor: "Monitor") -> None:
    """Where the alarm was, and since when rows have changed."""
    if monitor.alarm is None:
        return
    ax.axvline(monitor.alarm.row + 1, color=TARGET, linewidth=1.3)
    if monitor.changepoint is not None:
        told = f"change, about row {monitor.changepoint:,}"
        ax.axvline(monitor.changepoint, color=CHANGE, linewidth=1.3, linestyle=":", label=told)


def _power(log: float, _: Any) -> str:
    return f"{10**log:g}" if abs(log) < 4 else f"1e{log:g}"


def draw_monitor(monitor: "Monitor") -> Any:
    """A figure of a monitor: its evidence, and with labels the coverage of its predictor's sets under it."""
    need("A plot", "report", "matplotlib")
    from matplotlib.figure import Figure

    labelled = monitor._missed is not None
    figure = Figure(figsize=(8, 5.6 if labelled else 3.2), layout="constrained")
    axes = figure.subplots(2 if labelled else 1, 1, sharex=True, squeeze=False)[:, 0]
    draw_evidence(monitor, axes[0])
    if monitor._missed is not None:
        draw_coverage(monitor._missed, monitor.predictor.alpha, axes[1])
        mark_change(axes[1], monitor)
        axes[0].set_xlabel("")
    return figure
