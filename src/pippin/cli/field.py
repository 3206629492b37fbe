"""`pippin field`: a model for the field from the parts that other commands wrote, and photographs under it."""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from pippin._runtime.errors import InputError
from pippin._runtime.extras import need
from pippin.cli.options import Worth, an_argument, an_option, command
from pippin.cli.train import Device

if TYPE_CHECKING:
    from pippin.images import FieldModel, Look
    from pippin.images.field.running import FieldRun

PAUSE = 0.05  # seconds between two looks at a folder
SHOWN = 10  # photographs that were skipped, by name

field = typer.Typer(help="From new photographs to sets, decisions and a picture of them.")

WeightsFolder = Annotated[Path, an_option("The folder weights that train wrote.", metavar="DIR")]
Calibrated = Annotated[Path, an_option("What calibrate wrote from its logits.", "--predictor", metavar="FILE")]
DeciderFile = Annotated[Path | None, an_option("What calibrate --utility wrote from its logits.", metavar="FILE")]
Calibration = Annotated[
    Path | None, an_option("The .npz that calibrated, to be told what is wrong with it.", metavar="FILE")
]
Windows = Annotated[
    int | None, an_option("Cut photographs into windows of so many pixels; whole images, if not given.", min=1)
]
Onnx = Annotated[
    bool, typer.Option("--onnx", help="Add the network with its sets and decisions in ONNX, to run without torch.")
]
RunWindows = Annotated[
    int | None, an_option("Cut into windows of so many pixels; as the model says, if not given.", min=1)
]
Model = Annotated[Path, an_argument("MODEL", "What field make wrote.")]
Watched = Annotated[
    Path | None, an_option("Take photographs as they arrive in this folder, until Ctrl-C.", metavar="DIR")
]
MonitorFile = Annotated[
    Path | None,
    an_option(
        "With --watch: the state of a monitor without labels, begun or taken up; an alarm is a line of its own.",
        "--monitor",
        metavar="FILE",
    ),
]
Photos = Annotated[list[Path] | None, an_argument("PHOTOS...", "Photographs, or folders of them.")]


@command(field, "field make --weights weights --predictor predictor.json --windows 224 --out MODEL")
def make(
    weights: WeightsFolder,
    predictor: Calibrated,
    out: Annotated[Path, an_option("The folder of the model.", metavar="DIR")],
    *,
    decider: DeciderFile = None,
    worth: Worth,
    windows: Windows = None,
    calibration: Calibration = None,
    onnx: Onnx = False,
) -> None:
    """Put a network, how its images are read, its predictor and its decisions into one folder.

    Parts that do not belong together are refused: classes in another order, calibrated on images that trained, or on
    the logits of another network.
    """
    need("A field model", "vision", "torch", "transformers", "safetensors", "PIL")
    from pippin.images import FieldModel

    if not out.absolute().parent.is_dir():
        raise InputError(f"Expected --out in a folder that exists, got {out}", f"make the folder {out.parent} first")
    made = FieldModel.make(
        weights,
        predictor,
        decider=decider,
        utility=worth.utility,
        fallback=worth.fallback,
        window=windows,
        calibration=calibration,
    )
    if onnx:
        made = made.with_onnx()
    made.save(out)
    print(f"{out}: {made.describe()}\nNext: pippin field run {out} PHOTOS --out results")


@command(field, "field run MODEL photographs --out results")
def run(
    model: Model,
    out: Annotated[Path, an_option("The folder for the results.", metavar="DIR")],
    photos: Photos = None,
    windows: RunWindows = None,
    watch: Watched = None,
    monitor: MonitorFile = None,
    device: Device = "auto",
) -> None:
    """Look at photographs: a line per window, and every photograph drawn; a stopped run goes on where it was.

    Writes field.html, results.jsonl, results.parquet, run.json and the folder drawn. A photograph that cannot be read
    is named and skipped. With --watch it prints one JSON line per photograph, each once, also after a restart; the
    results are written when it ends.
    """
    need("A field model", "field", "PIL")
    from pippin._runtime.progress import progress_bar
    from pippin.cli.outputs import output_folder
    from pippin.images.field.folder import manifest_checksum
    from pippin.images.field.running import list_photographs, open_run

    if (photos is None) == (watch is None):
        raise InputError(
            "Expected photographs or --watch with a folder, one of the two", "name photographs, or the folder"
        )
    if monitor is not None and watch is None:
        raise InputError("Expected --watch beside --monitor, got none", "name the folder that photographs arrive in")
    every = [] if photos is None else list_photographs(photos, out)
    if watch is not None:
        _check_watched(watch, out)
    loaded = _loaded(model, windows, device)
    with output_folder(out), open_run(loaded, manifest_checksum(model), out) as journal:
        if watch is not None:
            if monitor is not None:
                journal.watcher = _monitored(loaded, monitor)
            _watch(journal, watch)
            _end(journal, list(journal.kept), sys.stderr)
            return
        with progress_bar("looking at photographs", len(every)) as advance:
            for photo in every:
                journal.see(photo)
                advance(1)
        _end(journal, [photo.as_posix() for photo in every], sys.stdout)


def _check_watched(folder: Path, out: Path) -> None:
    from pippin.images.field.running import check_outside

    if not folder.is_dir():
        raise InputError(f"Expected --watch to be a folder, but there is no folder {folder}", "make it first")
    check_outside(folder, out)


def _watch(journal: "FieldRun", folder: Path) -> None:
    """A line per photograph that is new, after the journal has it; until it is interrupted."""
    from pippin.images.field.running import arriving

    try:
        for photo in arriving(folder, lambda: time.sleep(PAUSE)):
            entry, new = journal.see(photo)
            if new:
                print(json.dumps({key: value for key, value in entry.items() if key != "sha256"}), flush=True)
    except KeyboardInterrupt:
        return


def _monitored(model: "FieldModel", state: Path) -> Callable[["Look"], None]:
    """Feeds a monitor one window of each photograph, drawn from what it shows: those of one are too much alike."""
    from pippin._validation.rows import softmax
    from pippin.online import Monitor

    held = Monitor.load(state) if state.exists() else Monitor(model.predictor)
    if held.predictor.content() != model.predictor.content():
        raise InputError(f"{state} belongs to another predictor than the model's", "name another --monitor")

    def watch(look: "Look") -> None:
        before = held.n_alarms
        drawn = int.from_bytes(hashlib.sha256(look.logits.tobytes()).digest()[:8]) % len(look.logits)
        held.update(softmax(look.logits[drawn][None])[0])
        held.save(state)
        if held.n_alarms > before:
            print(json.dumps({"alarm": True, "told": held.describe()}, ensure_ascii=False), flush=True)

    return watch


def _loaded(model: Path, windows: int | None, device: str) -> "FieldModel":
    from pippin.images import FieldModel
    from pippin.images.field.seeing import has_torch

    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"Expected --device to be auto or cpu or cuda, got {device!r}", "choose one of them")
    cuda = False
    if has_torch():
        import torch

        cuda = torch.cuda.is_available()
    if device == "cuda" and not cuda:
        raise InputError("Expected a CUDA device for --device cuda, but torch finds none", "pass --device auto or cpu")
    loaded = FieldModel.load(model, device="cuda" if device != "cpu" and cuda else "cpu")
    return loaded if windows is None else replace(loaded, window=windows)


def _end(journal: "FieldRun", photos: list[str], stream: TextIO) -> None:
    """Writes the results and their page, and tells of them."""
    from pippin.cli.report.field import Seen, write_field_page

    summary, model = journal.finish(photos), journal.model
    entries = [journal.kept[photo] for photo in photos]
    write_field_page(journal.out, Seen(entries, model.classes, model.actions, model.window, model.describe()))
    _tell(summary, journal.out, stream)


def _tell(summary: dict[str, Any], out: Path, stream: TextIO) -> None:
    from pippin._runtime.visible import visible
    from pippin.cli.report.field import PAGE, many, reason

    say = partial(print, file=stream)
    n, skipped = summary["photographs"]["looked at"], summary["skipped"]
    counts = ", ".join(f"{name} {count:,}" for name, count in summary["counts"].items())
    say(visible(f"{many(n, 'photograph')}, {many(summary['windows'], 'window')}: {counts or 'nothing'}."))
    if skipped:
        say(f"{many(len(skipped), 'photograph')} {'was' if len(skipped) == 1 else 'were'} skipped:")
        for one in skipped[:SHOWN]:
            say(visible(f"  {reason(one)}"))
        if len(skipped) > SHOWN:
            say(f"  and {len(skipped) - SHOWN:,} more, named in {out / 'run.json'}")
    say(f"The results: {out / 'results.jsonl'}; the photographs with their windows: {out / PAGE}")
