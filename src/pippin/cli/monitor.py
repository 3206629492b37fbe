"""`pippin monitor`: an alarm when the rows of a stream change."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from pippin._runtime.errors import InputError, need
from pippin.cli.options import PredictorFile, an_argument, an_option
from pippin.cli.outputs import check_target

if TYPE_CHECKING:
    from pippin.online import Alarm, Monitor

StateFile = Annotated[
    Path | None,
    an_option(
        "Where the monitor is kept: it goes on from there if it exists, and is written before each line printed.",
        "--state",
        metavar="FILE",
    ),
]


def monitor(
    predictor: PredictorFile,
    stream: Annotated[Path, an_argument("STREAM", "A .csv table, a row per object, as it comes; - is stdin.")],
    state: StateFile = None,
    delta: Annotated[
        float | None, typer.Option(help="The probability of a false alarm, ever.", show_default="0.01")
    ] = None,
    mean_time: Annotated[
        float | None,
        an_option("Instead, rows between two false alarms on average; then alarms can come again.", metavar="ROWS"),
    ] = None,
    reference: Annotated[Path | None, an_option("Rows from before, where no labels come.", metavar="DATA")] = None,
    label: Annotated[str | None, an_option("The column of true classes, if it is not called label.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Rows between two lines of output.")] = 1000,
    seed: Annotated[int | None, an_option("Makes the evidence repeatable.", min=0)] = None,
    plot: Annotated[
        Path | None,
        an_option(
            "A picture of evidence and coverage at the end, .png or .svg; or a page with it, .html.", metavar="FILE"
        ),
    ] = None,
) -> None:
    """Watch rows as they come, and print JSON lines: at the first alarm, every so many rows, and at the end.

    A line is printed after the state was written: rows up to the last line are never lost. Rows are counted from the
    one with which the state began; "before" is how many of them came before this stream. An error names the
    row of this stream.
    """
    from pippin.tables.columns import Layout
    from pippin.tables.reading import follow_rows

    if plot is not None:
        need("A plot", "report", "matplotlib", *(["jinja2"] if plot.suffix == ".html" else []))
        check_target(plot, ".png", ".svg", ".html", option="--plot")
    watching = _begun(predictor, state, (delta, mean_time), reference, seed)
    told, before = -1, watching.n_rows
    with _opened(stream) as lines:
        grouped = "groups" in watching.predictor.takes
        for row, truth, group in follow_rows(lines, stream, Layout(label=label), watching.predictor.classes):
            try:
                alarm = watching.update(row, truth, group=group if grouped and truth is not None else None)
            except InputError as error:
                raise error.at(f"{stream}: Row {watching.n_rows - before}") from error
            new = alarm and watching.alarm is not None and watching.alarm.row == alarm.row
            if new or watching.n_rows % every == 0:
                told = _tell(watching, before, state, alarm)
    if told != watching.n_rows and watching.n_rows:
        _tell(watching, before, state, None)
    if plot is not None:
        _draw(watching, plot)


def _draw(monitor: "Monitor", path: Path) -> None:
    import io

    from pippin._plotting.streams import draw_monitor
    from pippin._runtime.disk import write_whole

    kind = path.suffix[1:].lower()
    if kind == "html":
        from pippin.cli.report.page import stream_page

        write_whole(path, stream_page(monitor).encode())
        return
    drawn = io.BytesIO()
    draw_monitor(monitor).savefig(drawn, format=kind, dpi=130)
    write_whole(path, drawn.getvalue())


def _begun(
    predictor: Path,
    state: Path | None,
    asked: tuple[float | None, float | None],
    reference: Path | None,
    seed: int | None,
) -> "Monitor":
    import pippin
    from pippin._online.monitor import false_alarm_options
    from pippin.tables.reading import read_data

    calibrated = pippin.load(predictor)
    if state is None or not state.exists():
        rows = None if reference is None else read_data(reference).rows
        return pippin.online.Monitor(calibrated, asked[0], mean_time=asked[1], reference=rows, seed=seed)
    found = pippin.online.Monitor.load(state)
    kept = (found.delta, found.mean_time, found.detector)
    if found.predictor.content() != calibrated.content() or kept != false_alarm_options(*asked, None):
        raise InputError(
            f"{state} belongs to another predictor, delta or mean time than {predictor} and those asked for",
            "name another --state, or delete it to begin anew",
        )
    return found


def _tell(monitor: "Monitor", before: int, state: Path | None, alarm: "Alarm | None") -> int:
    """Writes the state, then the line; how many rows it speaks of, of which so many came before this stream."""
    if state is not None:
        monitor.save(state)
    line = {
        "rows": monitor.n_rows,
        "before": before,
        "alarm": monitor.drift_detected,
        "evidence": monitor.evidence if alarm is None else alarm.evidence,
        "changepoint": monitor.changepoint,
        "told": monitor.describe(),
    }
    print(json.dumps(line, ensure_ascii=False), flush=True)
    return monitor.n_rows


@contextmanager
def _opened(stream: Path) -> Iterator[TextIO]:
    if str(stream) == "-":
        yield sys.stdin
    else:
        with open(stream, encoding="utf-8-sig", newline="") as lines:
            yield lines
