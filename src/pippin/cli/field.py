"""Command `pippin field`: combine network and predictor into a field model, and apply it to photographs."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TextIO

import typer

from pippin._runtime.errors import InputError, need, warn
from pippin.cli.options import By, UtilityOptions, an_argument, an_option, command
from pippin.cli.outputs import echo, echo_json, locked, output_folder
from pippin.cli.train import Device

if TYPE_CHECKING:
    from pippin.images import FieldModel, Look
    from pippin.images.arrivals import Arrivals
    from pippin.images.field_run import FieldRun

MONITOR = "monitor.json"  # default file of the monitor's state, in the folder of the results
PAUSE = 0.05  # minimum time in seconds between two scans of the watched folder
SCANNING = 4  # smallest ratio of the pause after a scan to the duration of the scan
WARM_UP = 10  # number of frames that are processed before latency is measured
SHOWN = 10  # maximum number of skipped photographs that the summary names

_WINDOWS = "The side of the windows in pixels; if not given, that of the model."
_CALIBRATION = "The calibration data, .npz, to check that the network was not trained on them."
_WATCH = "A folder to watch for photographs, until Ctrl-C or SIGTERM."
_MONITOR = "With --watch: the state of the monitor, .json; if not given, monitor.json in the folder for the results."
_NO_MONITOR = "With --watch: no monitor, so that actions do not depend on earlier photographs."
_DELTA = "With --watch: the probability of any false alarm."
_MEAN_TIME = "Instead of --delta: the mean number of photographs between false alarms; there can be several alarms."
_AFTER_ALARM = "Actions after an alarm of the monitor: only the careful one, or as before."
_NOVELTY = "The level of the novelty test: the share of known windows that count as novel; 0 for no test."
_NO_DRAW = "Write no pictures; the page then has none."
_RUNTIME = "auto: torch if it is installed; onnxruntime: the ONNX graph on the CPU."
RuntimeOption = Annotated[Literal["auto", "onnxruntime"], typer.Option(help=_RUNTIME)]
NoveltyLevel = Annotated[float | None, an_option(_NOVELTY, min=0, metavar="LEVEL")]
_SETTLE = "With --watch: the time after which an unchanged file counts as complete, although it cannot be read."
field = typer.Typer(help="Apply a network, a predictor and decisions to new photographs.")


class WatchOptions(NamedTuple):
    """Options of a run on the photographs that arrive in a folder."""

    watch: Annotated[Path | None, an_option(_WATCH, metavar="DIR")] = None
    settle: Annotated[float, typer.Option(min=0, help=_SETTLE, metavar="SECONDS")] = 5.0
    monitor: Annotated[Path | None, an_option(_MONITOR, metavar="FILE")] = None
    no_monitor: Annotated[bool, typer.Option("--no-monitor", help=_NO_MONITOR)] = False
    delta: Annotated[float | None, typer.Option(help=_DELTA, show_default="0.01")] = None
    mean_time: Annotated[float | None, an_option(_MEAN_TIME, metavar="PHOTOS")] = None
    after_alarm: Annotated[Literal["careful", "act"], typer.Option(help=_AFTER_ALARM)] = "careful"


@command(field, "field make --weights weights --predictor predictor.json --windows 224 --out MODEL")
def make(
    weights: Annotated[Path, an_option("The folder weights, written by train.", metavar="DIR")],
    predictor: Annotated[Path, an_option("The predictor, calibrated on the logits of this network.", metavar="FILE")],
    out: Annotated[Path, an_option("The folder of the field model to write.", metavar="DIR")],
    *,
    decider: Annotated[Path | None, an_option("A decider, from calibrate --utility.", metavar="FILE")] = None,
    utilities: UtilityOptions,
    windows: Annotated[int | None, an_option("Cut photographs into windows of this side in pixels.", min=1)] = None,
    calibration: Annotated[Path | None, an_option(_CALIBRATION, metavar="FILE")] = None,
    novelty: NoveltyLevel = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="Add an ONNX graph, to run without torch.")] = False,
    by: By = "",
) -> None:
    """Combine a network, its image preprocessing, a predictor and decisions into one folder.

    The parts must fit each other: the same classes in the same order, and a predictor calibrated on logits of this
    network, of images that it was not trained on.
    """
    need("A field model", "vision", "torch", "transformers", "safetensors", "PIL")
    from pippin.cli.outputs import running_command
    from pippin.images import FieldModel

    if not out.absolute().parent.is_dir():
        raise InputError(f"Expected --out in a folder that exists, got {out}", f"make the folder {out.parent} first")
    actions: dict[str, Any] = {"decider": decider, **utilities._asdict()}
    model = FieldModel.make(weights, predictor, **actions, window=windows, calibration=calibration, novelty=novelty)
    if onnx:
        model = model.with_onnx()
    model.save(out, by=by, command=running_command())
    tests = ""
    if model.novelty == 0 and novelty is None:
        tests = "\nNo novelty test: it needs a training by this version with more held-out images."
    echo(f"{out}: {model.describe()}{tests}\nNext: pippin field run {out} PHOTOS --out results")


@command(field, "field run MODEL photographs --out results")
def run(
    model: Annotated[Path, an_argument("MODEL", "The folder that field make wrote.")],
    out: Annotated[Path, an_option("The folder for the results.", metavar="DIR")],
    photos: Annotated[list[Path] | None, an_argument("PHOTOS...", "Photographs or folders of photographs.")] = None,
    *,
    windows: Annotated[int | None, an_option(_WINDOWS, min=1)] = None,
    novelty: NoveltyLevel = None,
    no_draw: Annotated[bool, typer.Option("--no-draw", help=_NO_DRAW)] = False,
    watching: WatchOptions,
    device: Device = "auto",
    runtime: RuntimeOption = "auto",
) -> None:
    """Compute prediction sets and decisions for photographs, and draw them; an interrupted run resumes.

    Writes field.html, results.jsonl, results.parquet, run.json and the folder drawn. Photographs that cannot be read
    are listed and skipped. With --watch, prints a JSON line per photograph, only once even after a restart, and writes
    the results when it is ended by Ctrl-C or SIGTERM. A monitor then observes one window of each photograph, without
    labels, and prints each alarm as a JSON line; from then on, all actions are the careful one (with the best worst
    case) until the state of the monitor is deleted.
    """
    need("A field model", "field", "PIL", "jinja2")
    from pippin._runtime.disk import file_checksum
    from pippin._runtime.progress import progress_bar
    from pippin.images.arrivals import Arrivals
    from pippin.images.field_model import MANIFEST, FieldModel
    from pippin.images.field_run import check_outside, list_photographs, open_run

    watch = watching.watch
    monitor = None if watch is None or watching.no_monitor else watching.monitor or out / MONITOR
    if (photos is None) == (watch is None):
        raise InputError("Expected either photographs or --watch with a folder", "name photographs, or the folder")
    given = (watching.monitor, watching.delta, watching.mean_time) != (None, None, None)
    if watch is None and (given or watching.no_monitor):
        raise InputError("Expected --watch with a monitor, got none", "name the folder that photographs arrive in")
    if watching.no_monitor and given:
        raise InputError("Expected --no-monitor without --monitor, --delta and --mean-time, got both", "leave one out")
    paths = [] if photos is None else list_photographs(photos, out)
    if watch is not None:
        if not watch.is_dir():
            raise InputError(f"Expected --watch to be a folder, but there is no folder {watch}", "make it first")
        check_outside(watch, out)
    loaded = FieldModel.load(model, device=_device(device, runtime), runtime=runtime)
    if windows is not None:
        loaded = replace(loaded, window=windows)
    if not loaded.is_calibrated:
        warn(loaded.describe())
    if novelty is not None:
        loaded = loaded.with_novelty(novelty)
    checksum = loaded.checksum or file_checksum(model / MANIFEST)
    only_run = nullcontext() if watching.monitor is None else locked(watching.monitor, "name another --monitor")
    with output_folder(out), only_run, open_run(loaded, checksum, out) as field_run:
        field_run.draws = not no_draw
        if watch is None:
            with progress_bar("photographs", len(paths)) as advance:
                for photo in paths:
                    field_run.process(photo)
                    advance(1)
            _finish(field_run, [photo.as_posix() for photo in paths], sys.stdout)
            return
        if monitor is not None:
            field_run.watcher = _monitor(loaded, monitor, watching)
        is_read = _watch(field_run, Arrivals(watch, watching.settle))
        _finish(field_run, list(field_run.entries), sys.stderr)
        if not is_read:
            raise typer.Exit(1)


@command(field, "field bench MODEL photographs")
def bench(
    model: Annotated[Path, an_argument("MODEL", "The folder that field make wrote.")],
    photos: Annotated[list[Path], an_argument("PHOTOS...", "Photographs or folders of photographs.")],
    *,
    frames: Annotated[int, typer.Option(min=1, help="The number of frames; photographs are repeated.")] = 1000,
    device: Device = "auto",
    runtime: RuntimeOption = "auto",
) -> None:
    """Measure the latency of a field model per photograph, in parts: median, 99th percentile and largest value.

    Reading is decoding, cutting and resizing; judging is the novelty test, prediction sets, p-values and actions. The
    files are in memory, and ten frames before the measurement are not counted.
    """
    need("A field model", "field", "PIL")
    import numpy as np

    from pippin import warm_up
    from pippin.images.field_model import FieldModel
    from pippin.images.field_run import list_photographs
    from pippin.images.reading import open_image

    loaded = FieldModel.load(model, device=_device(device, runtime), runtime=runtime)
    files = [(path, path.read_bytes()) for path in list_photographs(photos)]
    warm_up()
    parts: dict[str, list[float]] = {name: [] for name in ("reading", "network", "judging", "drawing")}
    windows: list[int] = []
    for frame in range(-WARM_UP, frames):
        path, data = files[frame % len(files)]
        times = [time.perf_counter()]
        image = open_image(data, path)
        shape, pixels = loaded.cut(image)
        times.append(time.perf_counter())
        outputs = loaded.outputs(pixels)
        times.append(time.perf_counter())
        look = loaded.judge_windows(image, shape, pixels, *outputs)
        times.append(time.perf_counter())
        look.draw()
        times.append(time.perf_counter())
        if frame >= 0:
            windows.append(len(look))
            for values, spent in zip(parts.values(), np.diff(times).tolist(), strict=True):
                values.append(1000 * spent)
    until = np.sum([parts[name] for name in ("reading", "network", "judging")], axis=0)
    rows = {**parts, "photograph to actions": until, "with drawing": until + parts["drawing"]}
    counts = f"{min(windows):,}" if min(windows) == max(windows) else f"{min(windows):,} to {max(windows):,}"
    echo(f"{frames:,} frames of {counts} windows, {type(loaded.network).__name__}; milliseconds")
    echo(f"{'part':22}{'p50':>9}{'p99':>9}{'largest':>9}")
    for name, spent in rows.items():
        quantiles = (f"{value:9.2f}" for value in (*np.quantile(spent, [0.5, 0.99]), np.max(spent)))
        echo(f"{name:22}{''.join(quantiles)}")


def _device(device: str, runtime: str) -> str:
    """Return the device of the network; onnxruntime uses the CPU, and then torch is not imported."""
    from pippin.images.training import choose_device

    return choose_device("cpu" if runtime == "onnxruntime" and device == "auto" else device)


def _watch(field_run: "FieldRun", arrivals: "Arrivals") -> bool:
    """Process photographs as they arrive and print a JSON line for each, until SIGINT or SIGTERM.

    Return False if the run ended because nothing reads standard output any longer.
    """
    with _stop_signals() as stopped:
        while not stopped:
            began = time.monotonic()
            files = arrivals.due(began)
            pause = max(PAUSE, SCANNING * (time.monotonic() - began))
            for photo, final in files:
                if stopped:
                    break
                result = field_run.process(photo, arrived=True, final=final)
                if result is None:
                    continue
                arrivals.done(photo)
                entry, new = result
                try:
                    if new:
                        echo_json({key: value for key, value in entry.items() if key not in ("sha256", "date")})
                except BrokenPipeError:
                    words = "nothing reads standard output any longer, so the run ends; the results are saved"
                    echo(f"pippin: {words}.", sys.stderr)
                    return False
            if not files:
                time.sleep(pause)
    return True


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in the `with` block: yield a list to which each signal is appended.

    A photograph is then processed to its end. SIGINT is also received by a process started with & in a script, where
    it is ignored by default.
    """
    received: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, lambda number, _: received.append(number)) for each in signals]
    try:
        yield received
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)


def _monitor(model: "FieldModel", state: Path, options: WatchOptions) -> Callable[["Look"], "Look"]:
    """Return a function that updates a monitor with the results for a photograph, and prints an alarm.

    The function returns the results to use: after an alarm, all actions are the careful one (the action with the best
    worst case), unless the options say otherwise.
    """
    from pippin.online import Monitor

    monitor = model.monitor(options.delta, mean_time=options.mean_time)
    if state.exists():
        new, monitor = monitor, Monitor.load(state)
        if monitor.predictor.content() != model.predictor.content() or monitor.takes_scores != new.takes_scores:
            raise InputError(
                f"{state} is of another predictor or novelty test than the model's", "name another --monitor"
            )
        if (monitor.delta, monitor.mean_time) != (new.delta, new.mean_time):
            what = f"Expected the --delta and --mean-time of {state}, got others"
            raise InputError(what, "name another --monitor, or delete it to start again")

    def watch(look: "Look") -> "Look":
        before = monitor.n_alarms
        model.observe(monitor, look)
        monitor.save(state)
        if monitor.n_alarms > before:
            echo_json({"alarm": True, "message": monitor.describe()})
        stops = monitor.n_alarms > 0 and options.after_alarm == "careful"
        return model.stop_acting(look) if stops else look

    return watch


def _finish(field_run: "FieldRun", photos: list[str], stream: TextIO) -> None:
    """Write the results of a field run and the page field.html, and print a summary to `stream`."""
    from pippin._runtime.disk import write_atomically
    from pippin._runtime.showing import visible
    from pippin.cli.report import many
    from pippin.cli.report.field import PAGE, FieldResults, field_page, reason

    summary, model, out = field_run.finish(photos), field_run.model, field_run.out
    entries = [field_run.entries[photo] for photo in photos]
    page = field_page(FieldResults(entries, model.classes, model.actions, model.window, model.describe()))
    write_atomically(out / PAGE, page.encode())
    n, skipped = summary["photographs"]["looked at"], summary["skipped"]
    counts = ", ".join(f"{name} {count:,}" for name, count in summary["counts"].items())
    lines = [f"{many(n, 'photograph')}, {many(summary['windows'], 'window')}: {counts or 'nothing'}."]
    if skipped:
        lines.append(f"{many(len(skipped), 'photograph')} {'was' if len(skipped) == 1 else 'were'} skipped:")
        lines += [f"  {reason(entry)}" for entry in skipped[:SHOWN]]
        if len(skipped) > SHOWN:
            lines.append(f"  and {len(skipped) - SHOWN:,} more, named in {out / 'run.json'}")
    for line in lines:
        echo(visible(line), stream)
    echo(f"The results: {out / 'results.jsonl'}; the photographs with their windows: {out / PAGE}", stream)
    if skipped and not n:
        what = f"Expected a photograph that can be processed, got none in {many(len(skipped), 'photograph')}"
        raise InputError(what, f"see the reasons in {out / 'run.json'}")
