"""Command `pippin reproduce`: the experiment of the paper (Melki et al. 2024), from images to the report."""

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import pippin
from pippin._compare.splits import make_trial
from pippin._runtime.disk import file_checksum, write_json
from pippin._runtime.errors import need
from pippin._runtime.version import __version__
from pippin.cli import options
from pippin.cli.compare import compare_data
from pippin.cli.inputs import read_scores
from pippin.cli.outputs import echo, output_folder, running_command, with_provenance
from pippin.cli.sweep import sweep
from pippin.cli.train import Device, Features, Flips, HeldOut, Network, TrainFraction, run_training
from pippin.tables.reading import read_data

SWEPT = {"repip": "gamma", "raps": "lam"}
SCORE = "repip"  # nonconformity score of the field model (network and predictor)
MODEL = "model"
WINDOW = 224  # side in pixels of the windows that WE3DS photographs are cut into
VALUES = "0,0.001,0.005,0.01,0.02,0.05,0.1,0.2,0.5,1"

reproduce = typer.Typer(help="Run the experiment of the paper; steps whose results are up to date are skipped.")


class Repetitions(NamedTuple):
    """Options of the random splits on which scores are compared and parameters are swept."""

    splits: options.Splits = 1000
    sweep_splits: Annotated[int, typer.Option(help="The number of random splits for each value of a sweep.")] = 100
    alpha: options.Alpha = 0.1
    calibration_fraction: options.CalibrationFraction = 0.45
    seed: Annotated[int, typer.Option(min=0, help="The seed of windows, training and splits.")] = 0

    @property
    def split_options(self) -> options.SplitOptions:
        return options.SplitOptions(*self[2:])


@options.command(reproduce, "reproduce images photographs --out out")
def images(
    folder: Annotated[Path, options.an_argument("DIR", "A folder with one sub-folder of images per class.")],
    out: options.OutFolder = Path("out"),
    *,
    network: Network,
    train_fraction: TrainFraction = 0.7,
    group: HeldOut = "none",
    flips: Flips = "horizontal",
    device: Device = "auto",
    features: Features = False,
    repetitions: Repetitions,
    by: options.By = "",
) -> None:
    """Train on a folder of labelled images, sweep and compare scores, write the report, and make a field model."""
    need("The report", "report", "matplotlib", "jinja2")
    training = {
        "train_fraction": train_fraction,
        "group": group,
        "flips": flips,
        "device": device,
        "features": features,
    }
    with output_folder(out):
        _run(folder.absolute().name, folder, out, network._asdict() | training, repetitions, None, by)


@options.command(reproduce, "reproduce we3ds WE3DS.zip --out out")
def we3ds(
    download: Annotated[Path, options.an_argument("DIR", "The folder of the WE3DS data set, or WE3DS.zip.")],
    out: options.OutFolder = Path("out"),
    *,
    network: Network,
    group: HeldOut = "none",
    device: Device = "auto",
    features: Features = False,
    repetitions: Repetitions,
    by: options.By = "",
) -> None:
    """Cut the WE3DS photographs into windows, and continue as `reproduce images`: the experiment of the paper."""
    from pippin.cli.prepare import we3ds as prepare_we3ds

    need("The report", "report", "matplotlib", "jinja2")
    training = {"train_fraction": 0.7, "group": group, "flips": "both", "device": device, "features": features}
    with output_folder(out):
        prepare_we3ds(download, out / "windows", window=WINDOW, seed=repetitions.seed)  # skipped if up to date
        _run("WE3DS", out / "windows", out, network._asdict() | training, repetitions, WINDOW, by)


def _run(
    name: str, folder: Path, out: Path, training: Any, repetitions: Repetitions, window: int | None, by: str
) -> None:
    """Train a network, sweep parameters, compare scores, and make a field model; the report calls the data `name`."""
    probs = _train(folder, out / "train", training | {"seed": repetitions.seed})
    for score in SWEPT:
        _sweep(probs, out / f"sweep-{score}", score, repetitions)
    _compare(name, folder, probs, out, repetitions)
    _make_field_model(probs, out / MODEL, repetitions.alpha, window, training["group"] == "photo", by)
    echo(f"The report, with photographs: {out / 'report.html'}")
    echo(f"The field model, which uses {SCORE} whichever score is recommended: {out / MODEL}")
    echo(f"Next: pippin field run {out / MODEL} PHOTOS --out results")


def _train(folder: Path, place: Path, training: dict[str, Any]) -> Path:
    """Train a network on a folder of images; return the file with its logits of the held-out images."""
    from pippin.images.training import Options
    from pippin.images.training.folder import list_images

    Options(**training)
    made_from = {key: value for key, value in training.items() if key != "device"}
    made_from["images"] = list_images(folder).checksum()
    if Path(training["weights"]).is_dir():
        made_from["start"] = folder_checksum(Path(training["weights"]))
    probs = place / "probs.npz"
    outputs = [probs, place / "train.json", place / "weights" / "model.safetensors"]
    run_step("train", place / "step.json", made_from, outputs, partial(run_training, folder, probs, training))
    return probs


def _sweep(probs: Path, place: Path, score: str, repetitions: Repetitions) -> None:
    """Compare values of the main parameter of a score on the held-out images."""
    made_from = _made_from(probs, repetitions, repetitions.sweep_splits) | {"score": score, "values": VALUES}
    outputs = [place / name for name in ("sweep.parquet", "sweep.csv")]
    given: Any = {"split_options": repetitions.split_options, "out": place, "columns": options.ColumnOptions()}
    work = partial(sweep, [probs], score, SWEPT[score], VALUES, repetitions.sweep_splits, **given)
    run_step(f"sweep of {score}", place / "step.json", made_from, outputs, work)


def _compare(name: str, folder: Path, probs: Path, out: Path, repetitions: Repetitions) -> None:
    """Compare the six scores of the paper on the held-out images, and write the report with photographs."""
    from pippin.cli.report.page import photographs

    splits, split_options = repetitions.splits, repetitions.split_options

    def work() -> None:
        data = read_data(probs)
        trial = make_trial(data.labelled, *split_options, data.groups)
        photos = photographs(folder, probs, *split_options)
        compare_data(data, trial, read_scores("paper"), splits, out, name, photos=photos)

    outputs = [out / name for name in ("results.parquet", "summary.csv", "report.html")]
    run_step("compare", out / "compare.json", _made_from(probs, repetitions, splits), outputs, work)


def _make_field_model(probs: Path, place: Path, alpha: float, window: int | None, by_photo: bool, by: str) -> None:
    """Make a field model calibrated on all held-out images.

    With `by_photo`, images were held out by photograph, and the guarantee is for new photographs (units).
    """
    from pippin.images import FieldModel

    weights = probs.parent / "weights"
    made_from: Any = {"pippin": __version__, "data": file_checksum(probs), "weights": folder_checksum(weights)}
    made_from |= {"score": SCORE, "alpha": alpha, "window": window, "by_photo": by_photo}
    outputs = [place / name for name in ("field.json", "predictor.json", "weights/model.safetensors")]

    def work() -> None:
        data = read_data(probs)
        units: Any = {"units": data.groups} if by_photo and data.groups is not None else {}
        predictor = pippin.calibrate(data.rows, data.truth(), SCORE, alpha, classes=data.classes, **units)
        predictor = with_provenance(predictor, data, by)
        FieldModel.make(weights, predictor, window=window).save(place, by=by, command=running_command())

    run_step("field model", place.with_name(f"{place.name}.json"), made_from, outputs, work)


def _made_from(probs: Path, repetitions: Repetitions, splits: int) -> dict[str, Any]:
    made_from = {"data": file_checksum(probs), "splits": splits, "pippin": __version__}
    return made_from | repetitions.split_options._asdict()


def run_step(
    name: str, note: Path, made_from: dict[str, Any], outputs: Sequence[Path], work: Callable[[], object]
) -> bool:
    """Run a step of the experiment unless its output files are up to date; return True if the step was run.

    Args:
        name: name of the step in messages.
        note: JSON file that records `made_from` and the checksums of the outputs when the step is finished.
        made_from: options and checksums of inputs; if they differ from those in `note`, the step is run again.
        outputs: the files that the step writes.
        work: computes the step.
    """
    made_from = json.loads(json.dumps(made_from))
    if _is_current(note, made_from, outputs):
        echo(f"{name}: up to date", sys.stderr)
        return False
    echo(f"{name} …", sys.stderr)
    note.unlink(missing_ok=True)
    note.parent.mkdir(parents=True, exist_ok=True)
    work()
    write_json(note, {"made_from": made_from, "outputs": {path.name: file_checksum(path) for path in outputs}})
    return True


def folder_checksum(folder: Path) -> str:
    """Compute the SHA-256 of the names and contents of the files in a folder."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return hashlib.sha256("".join(f"{path.name}\n{file_checksum(path)}\n" for path in files).encode()).hexdigest()


def _is_current(note: Path, made_from: dict[str, Any], outputs: Sequence[Path]) -> bool:
    try:
        content = json.loads(note.read_bytes())
        known = content["made_from"] == made_from and content["outputs"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False
    checksums = known if isinstance(known, dict) else {}
    return all(path.is_file() and checksums.get(path.name) == file_checksum(path) for path in outputs)
