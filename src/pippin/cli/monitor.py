"""`pippin monitor`: an alarm when the rows of a stream change."""

import json
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import pippin
from pippin._online.monitor import false_alarm_options
from pippin._runtime.disk import to_bytes, write_atomically
from pippin._runtime.errors import InputError, need
from pippin.cli.options import PredictorFile, an_argument, an_option
from pippin.cli.outputs import check_target
from pippin.online import Alarm, Monitor
from pippin.tables.columns import Layout
from pippin.tables.formats import STDIN
from pippin.tables.reading import follow_rows, read_data

_STREAM = an_argument("STREAM", "A .csv table, a row per object, as it comes; - is stdin.")
_STATE = "The state of the monitor: it is continued if it exists, and written before each line printed."
_DELTA = typer.Option(help="The probability of a false alarm, ever.", show_default="0.01")
_MEAN_TIME = "Instead, rows between two false alarms on average; then alarms can come again."
_PLOT = "A picture of evidence and coverage at the end, .png or .svg; or a page with it, .html."


class MonitorOptions(NamedTuple):
    """The bound on false alarms, and the rows before a stream without labels."""

    delta: Annotated[float | None, _DELTA] = None
    mean_time: Annotated[float | None, an_option(_MEAN_TIME, metavar="ROWS")] = None
    reference: Annotated[Path | None, an_option("Rows from before, where no labels come.", metavar="DATA")] = None
    seed: Annotated[int | None, an_option("Makes the evidence repeatable.", min=0)] = None


def monitor(
    predictor: PredictorFile,
    stream: Annotated[Path, _STREAM],
    state: Annotated[Path | None, an_option(_STATE, "--state", metavar="FILE")] = None,
    *,
    options: MonitorOptions,
    label: Annotated[str | None, an_option("The column of true classes, if it is not called label.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Rows between two lines of output.")] = 1000,
    plot: Annotated[Path | None, an_option(_PLOT, metavar="FILE")] = None,
) -> None:
    """Watch rows as they come, and print JSON lines: at the first alarm, every so many rows, and at the end.

    A line is printed after the state was written: rows up to the last line are never lost. Rows are counted from the
    one with which the state began; "before" is how many of them came before this stream. An error names the
    row of this stream.
    """
    if plot is not None:
        need("A plot", "report", "matplotlib", *(["jinja2"] if plot.suffix == ".html" else []))
        check_target(plot, ".png", ".svg", ".html", option="--plot")
    watching = _open_monitor(predictor, state, options)
    printed, before = -1, watching.n_rows
    grouped, layout = "groups" in watching.predictor.takes, Layout(label=label)
    with nullcontext(sys.stdin) if stream == STDIN else open(stream, encoding="utf-8-sig", newline="") as lines:
        for row, truth, group in follow_rows(lines, stream, layout, watching.predictor.classes):
            try:
                alarm = watching.update(row, truth, group=group if grouped and truth is not None else None)
            except InputError as error:
                raise error.at(f"{stream}: Row {watching.n_rows - before}") from error
            new = alarm and watching.alarm is not None and watching.alarm.row == alarm.row
            if new or watching.n_rows % every == 0:
                printed = _report(watching, before, state, alarm)
    if printed != watching.n_rows and watching.n_rows:
        _report(watching, before, state, None)
    if plot is not None:
        _draw(watching, plot)


def _draw(monitor: Monitor, path: Path) -> None:
    kind = path.suffix[1:].lower()
    if kind == "html":
        from pippin.cli.report.page import stream_page

        write_atomically(path, stream_page(monitor).encode())
    else:
        from pippin._plotting.streams import draw_monitor

        write_atomically(path, to_bytes(partial(draw_monitor(monitor).savefig, format=kind, dpi=130)))


def _open_monitor(predictor: Path, state: Path | None, options: MonitorOptions) -> Monitor:
    """Load the monitor from its state, or make a new one."""
    calibrated, (delta, mean_time, reference, seed) = pippin.load(predictor), options
    if state is None or not state.exists():
        rows = None if reference is None else read_data(reference).rows
        return Monitor(calibrated, delta, mean_time=mean_time, reference=rows, seed=seed)
    found = Monitor.load(state)
    kept = (found.delta, found.mean_time, found.detector)
    if found.predictor.content() != calibrated.content() or kept != false_alarm_options(delta, mean_time, None):
        what = f"{state} belongs to another predictor, delta or mean time than {predictor} and those asked for"
        raise InputError(what, "name another --state, or delete it to begin anew")
    return found


def _report(monitor: Monitor, before: int, state: Path | None, alarm: Alarm | None) -> int:
    """Write the state, then print a line; return the number of rows."""
    if state is not None:
        monitor.save(state)
    evidence = monitor.evidence if alarm is None else alarm.evidence
    line: Any = {"rows": monitor.n_rows, "before": before, "alarm": monitor.drift_detected, "evidence": evidence}
    line |= {"changepoint": monitor.changepoint, "told": monitor.describe()}
    print(json.dumps(line, ensure_ascii=False), flush=True)
    return monitor.n_rows
