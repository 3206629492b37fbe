"""Pictures of a stream: the evidence along it, and coverage in windows, with the change marked."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pippin._plotting.drawing import INK, LINE, TARGET, drawn, new_axes, new_column, powers_of_ten
from pippin._runtime.arrays import Vector
from pippin._theory.risk_bets import log_capital

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._online.monitor import Monitor
    from pippin._online.risk_monitor import RiskMonitor
    from pippin._online.trail import Trail

WINDOWS = 40  # in which coverage is shown, at most


@drawn
def plot_evidence(monitor: "Monitor", ax: "Axes | None" = None) -> "Axes":
    """The largest evidence in every block of rows, on a logarithmic axis, and the limit of an alarm."""
    ax, trail = new_axes(ax), monitor._trail
    ends = trail.block * np.arange(1, len(trail.values) + 1)
    _draw_evidence(ax, ends, np.array(trail.values), math.log(monitor.limit))
    mark_change(ax, monitor)
    ax.set_xlabel("row")
    ax.set_title("Evidence that rows have changed", loc="left")
    ax.legend(loc="upper left")
    return ax


@drawn
def plot_risk(monitor: "RiskMonitor", ax: "Axes | None" = None) -> "Axes":
    """The evidence after every block of labels, which follows from how many were missed until then."""
    ax, trail = new_axes(ax), monitor._trail
    missed_before, rows_before = monitor.n_missed - trail.total, monitor.n_rows - trail.n  # of a file without a trail
    ends = rows_before + trail.block * np.arange(1, len(trail.values) + 1)
    missed = missed_before + np.cumsum(trail.values)
    counted = zip(missed.tolist(), ends.tolist(), strict=True)
    logs = [log_capital(round(m), n - round(m), monitor.alpha + monitor.tolerance) for m, n in counted]
    _draw_evidence(ax, ends, np.array(logs), -math.log(monitor.delta))
    ax.set_xlabel("label")
    share = f": {monitor.n_missed:,} of {monitor.n_rows:,} missed" if monitor.n_rows else ""
    ax.set_title(
        f"Evidence that more than {100 * (monitor.alpha + monitor.tolerance):g} % are missed{share}", loc="left"
    )
    ax.legend(loc="upper left")
    return ax


def _draw_evidence(ax: "Axes", ends: Any, logs: Vector, limit: float) -> None:
    """Evidence by its logarithm, and the limit of an alarm."""
    ax.plot(ends, logs / math.log(10), color=LINE, linewidth=1.6, label="evidence")
    ax.axhline(limit / math.log(10), color=TARGET, linestyle="--", linewidth=1.3, label="alarm")
    powers_of_ten(ax)
    ax.set_ylabel("evidence")


@drawn
def plot_stream(trail: "Trail", alpha: float, ax: "Axes | None" = None) -> "Axes":
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
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom - 0.18 * (top - bottom), top)
    ax.legend(loc="lower left", ncols=3, fontsize=9.5)
    return ax


def mark_change(ax: "Axes", monitor: "Monitor") -> None:
    """Where the alarm was, and since when rows have changed."""
    if monitor.alarm is None:
        return
    ax.axvline(monitor.alarm.row + 1, color=TARGET, linewidth=1.3)
    if monitor.changepoint is not None:
        told = f"change, about row {monitor.changepoint:,}"
        ax.axvline(monitor.changepoint, color=INK, linewidth=1.3, linestyle=":", label=told)


@drawn
def draw_monitor(monitor: "Monitor") -> Any:
    """A figure of a monitor: its evidence, and with labels the coverage of its predictor's sets under it."""
    labelled = monitor._missed is not None
    figure, axes = new_column(2 if labelled else 1, 8, 5.6 if labelled else 3.2)
    plot_evidence(monitor, axes[0])
    if monitor._missed is not None:
        plot_stream(monitor._missed, monitor.predictor.alpha, axes[1])
        mark_change(axes[1], monitor)
        axes[0].set_xlabel("")
    return figure
