"""Command `pippin monitor`: raise an alarm when the distribution of a stream of rows changes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import pippin
from pippin._online.monitor import false_alarm_options
from pippin._runtime.disk import to_bytes, write_atomically
from pippin._runtime.errors import InputError, need
from pippin._runtime.showing import visible
from pippin.cli.options import PredictorFile, an_argument, an_option
from pippin.cli.outputs import check_target, check_writable, echo_json, locked
from pippin.online import Alarm, Monitor
from pippin.tables.columns import Layout
from pippin.tables.formats import STDIN
from pippin.tables.limits import LONGEST_LINE
from pippin.tables.reading import follow_rows, read_data

_STREAM = an_argument("STREAM", "A .csv table with a row per object, read as it grows; - for standard input.")
_STATE = "The state file of the monitor: resumed if it exists, and written before each line of output."
_DELTA = typer.Option(help="The probability of any false alarm.", show_default="0.01")
_MEAN_TIME = "Instead of --delta: the mean number of rows between false alarms; then there can be several alarms."
_REFERENCE = "Rows from before the stream, for a stream without labels."
_PLOT = "Plot evidence and coverage at the end: .png, .svg, or a page, .html."


class MonitorOptions(NamedTuple):
    """Options of a new monitor: bound on false alarms, reference rows for a stream without labels, and seed."""

    delta: Annotated[float | None, _DELTA] = None
    mean_time: Annotated[float | None, an_option(_MEAN_TIME, metavar="ROWS")] = None
    reference: Annotated[Path | None, an_option(_REFERENCE, metavar="DATA")] = None
    seed: Annotated[int | None, an_option("The seed of the randomized p-values.", min=0)] = None


def monitor(
    predictor: PredictorFile,
    stream: Annotated[Path, _STREAM],
    state: Annotated[Path | None, an_option(_STATE, "--state", metavar="FILE")] = None,
    *,
    options: MonitorOptions,
    label: Annotated[str | None, an_option("The column of true classes; if not given, label.")] = None,
    id_: Annotated[str | None, an_option("A column of row ids, which is left out.", "--id")] = None,
    every: Annotated[int, typer.Option(min=1, help="The number of rows between lines of output.")] = 1000,
    plot: Annotated[Path | None, an_option(_PLOT, metavar="FILE")] = None,
) -> None:
    """Test a stream of rows for a change of distribution, and print JSON lines: at alarms, regularly, and at the end.

    The state is written before each line, so that rows up to the last line are never lost. In the output, "rows" is the
    number of all rows in the state, and "before" the number of those from earlier streams. Errors number the rows of
    this stream only; the rows before the error are kept.
    """
    if plot is not None:
        need("A plot", "report", "matplotlib", *(["jinja2"] if plot.suffix == ".html" else []))
        check_target(plot, ".png", ".svg", ".html", option="--plot")
    if state is not None:
        check_writable(state.parent, "--state")
    with nullcontext() if state is None else locked(state, "name another --state"):
        watching = _open_monitor(predictor, state, options)
        printed, before = -1, watching.n_rows
        grouped, layout = "groups" in watching.predictor.takes, Layout(label=label, ids=() if id_ is None else (id_,))
        where = "standard input" if stream == STDIN else visible(stream)
        with (
            nullcontext(sys.stdin) if stream == STDIN else open(stream, encoding="utf-8-sig", newline="") as file,
            _saved_on_error(watching, state),
        ):
            lines = iter(partial(file.readline, LONGEST_LINE), "")
            for row, truth, group in follow_rows(lines, where, layout, watching.predictor.classes):
                try:
                    alarm = watching.update(row, truth, group=group if grouped and truth is not None else None)
                except InputError as error:
                    number = watching.n_rows - before
                    named = error.at(f"Row {number}") if error.row is None else error.later(number)
                    raise named.in_file(where) from error
                new = alarm and watching.alarm is not None and watching.alarm.row == alarm.row
                if new or watching.n_rows % every == 0:
                    printed = _report(watching, before, state, alarm)
        if printed != watching.n_rows and watching.n_rows:
            _report(watching, before, state, None)
        if plot is not None:
            _draw(watching, plot)


@contextmanager
def _saved_on_error(monitor: Monitor, state: Path | None) -> Iterator[None]:
    """Save the state of the monitor after an InputError in the `with` block, so that rows before it are kept."""
    try:
        yield
    except InputError:
        if state is not None and monitor.n_rows:
            monitor.save(state)
        raise


def _draw(monitor: Monitor, path: Path) -> None:
    kind = path.suffix[1:].lower()
    if kind == "html":
        from pippin.cli.report.page import stream_page

        write_atomically(path, stream_page(monitor).encode())
    else:
        from pippin._plotting.streams import draw_monitor

        write_atomically(path, to_bytes(partial(draw_monitor(monitor).savefig, format=kind, dpi=130)))


def _open_monitor(predictor: Path, state: Path | None, options: MonitorOptions) -> Monitor:
    """Load the monitor from its state file if that exists, else make a new monitor of the predictor."""
    calibrated, (delta, mean_time, reference, seed) = pippin.load(predictor), options
    if state is None or not state.exists():
        rows = None if reference is None else read_data(reference).rows
        return Monitor(calibrated, delta, mean_time=mean_time, reference=rows, seed=seed)
    loaded = Monitor.load(state)
    false_alarms = (loaded.delta, loaded.mean_time, loaded.detector)
    requested = false_alarm_options(delta, mean_time, None)
    if (loaded.predictor.content(), false_alarms) != (calibrated.content(), requested):
        what = f"Expected the predictor, delta and mean time of {state}, got {predictor} or options that differ"
        raise InputError(what, "name another --state, or delete it to start again")
    return loaded


def _report(monitor: Monitor, before: int, state: Path | None, alarm: Alarm | None) -> int:
    """Save the state of the monitor, then print a JSON line about it; return the number of rows in the state."""
    if state is not None:
        monitor.save(state)
    evidence = monitor.evidence if alarm is None else alarm.evidence
    line: Any = {"rows": monitor.n_rows, "before": before, "alarm": monitor.drift_detected, "evidence": evidence}
    line |= {"changepoint": monitor.changepoint, "message": monitor.describe()}
    echo_json(line)
    return monitor.n_rows
