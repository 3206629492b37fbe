"""Plots of streams: test martingales on a logarithmic axis, coverage in windows, and the change point."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pippin._plotting.drawing import INK, LINE, TARGET, new_axes, new_column, powers_of_ten, styled
from pippin._theory.martingale import log_risk_capital

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pippin._online.monitor import Monitor
    from pippin._online.risk_monitor import RiskMonitor
    from pippin._online.state import History

WINDOWS = 40  # largest number of windows in which coverage is computed


@styled
def plot_evidence(monitor: "Monitor", ax: "Axes | None" = None) -> "Axes":
    """Plot the evidence of change (test martingale or detector statistic): its maximum in each block of rows.

    A line marks the alarm limit. After an alarm, vertical lines mark the alarm and the change point.
    """
    ax, history = new_axes(ax), monitor._history
    ends = history.block * np.arange(1, len(history.values) + 1)
    _plot_logs(ax, ends, history.values, math.log(monitor.limit))
    mark_change(ax, monitor)
    return _labeled(ax, "row", "Evidence that rows have changed")


@styled
def plot_risk(monitor: "RiskMonitor", ax: "Axes | None" = None) -> "Axes":
    """Plot the evidence (a test martingale) that sets miss too many labels, after each block of labels."""
    ax, history, limit = new_axes(ax), monitor._history, monitor.alpha + monitor.tolerance
    # Numbers of rows and misses before the history begins; above 0 if a monitor was loaded from a file without history.
    n_before, missed_before = monitor.n_rows - history.n, monitor.n_missed - history.total
    ends = n_before + history.block * np.arange(1, len(history.values) + 1)
    counts = zip((missed_before + np.cumsum(history.values)).tolist(), ends.tolist(), strict=True)
    logs = [log_risk_capital(round(missed), n - round(missed), limit) for missed, n in counts]
    _plot_logs(ax, ends, logs, -math.log(monitor.delta))
    share = f": {monitor.n_missed:,} of {monitor.n_rows:,} missed" if monitor.n_rows else ""
    return _labeled(ax, "label", f"Evidence that more than {100 * limit:g}% are missed{share}")


def _plot_logs(ax: "Axes", ends: Any, logs: list[float], limit: float) -> None:
    ax.plot(ends, np.array(logs) / math.log(10), color=LINE, linewidth=1.6, label="evidence")
    ax.axhline(limit / math.log(10), color=TARGET, linestyle="--", linewidth=1.3, label="alarm")
    powers_of_ten(ax)
    ax.set_ylabel("evidence")


def _labeled(ax: "Axes", label: str, title: str, **legend: Any) -> "Axes":
    ax.set_xlabel(label)
    ax.set_title(title, loc="left")
    ax.legend(**{"loc": "upper left", **legend})
    return ax


@styled
def plot_stream(misses: "History", alpha: float, ax: "Axes | None" = None) -> "Axes":
    """Plot the coverage in windows of labels, with a band of two standard errors around the target."""
    ax, n_blocks = new_axes(ax), len(misses.values)
    starts = np.arange(0, n_blocks, max(1, math.ceil(n_blocks / WINDOWS)))
    missed = np.add.reduceat(np.array(misses.values), starts) if n_blocks else np.zeros(0)
    sizes = misses.block * np.diff([*starts, n_blocks])
    middle, target, error = misses.block * starts + sizes / 2, 1 - alpha, 2 * np.sqrt(alpha * (1 - alpha) / sizes)
    band = target - error, np.minimum(1, target + error)
    ax.fill_between(middle, *band, color=LINE, alpha=0.18, linewidth=0, label="two standard errors")
    ax.axhline(target, color=TARGET, linestyle="--", linewidth=1.3, label=f"{100 * target:g}% requested")
    ax.plot(middle, 1 - missed / sizes, color=LINE, marker="o", markersize=3.5, linewidth=1.2, label="coverage")
    ax.set_ylabel("coverage")
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom - 0.18 * (top - bottom), top)
    label = f"label, in windows of {int(sizes[0]):,}" if n_blocks else "label"
    return _labeled(ax, label, "Coverage along the stream", loc="lower left", ncols=3, fontsize=9.5)


def mark_change(ax: "Axes", monitor: "Monitor") -> None:
    """Draw vertical lines at the alarm and the change point, if there was an alarm."""
    if monitor.alarm is not None:
        ax.axvline(monitor.alarm.row + 1, color=TARGET, linewidth=1.3)
        label = f"change, about row {monitor.changepoint:,}"
        ax.axvline(monitor.changepoint or 0, color=INK, linewidth=1.3, linestyle=":", label=label)


@styled
def draw_monitor(monitor: "Monitor") -> Any:
    """Return a figure of a monitor's evidence and, if it has labels, of the coverage of its sets below."""
    misses = monitor._misses
    figure, axes = new_column(1, 8, 3.2) if misses is None else new_column(2, 8, 5.6)
    plot_evidence(monitor, axes[0])
    if misses is not None:
        plot_stream(misses, monitor.predictor.alpha, axes[1])
        mark_change(axes[1], monitor)
        axes[0].set_xlabel("")
    return figure
