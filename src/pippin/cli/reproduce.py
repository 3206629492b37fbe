"""`pippin reproduce`: the paper's experiment from images to the report, step by step."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pippin._runtime.errors import need
from pippin.cli.options import Alpha, CalibrationFraction, Columns, OutFolder, Splits, an_argument, command
from pippin.cli.train import Device, Flips, HeldOut, Network, TrainFraction, run_training

SWEPT = {"repip": "gamma", "raps": "lam"}
SCORE = "repip"  # of the field model
MODEL = "model"
WINDOW = 224  # pixels of a side, of WE3DS
VALUES = "0,0.001,0.005,0.01,0.02,0.05,0.1,0.2,0.5,1"

reproduce = typer.Typer(help="Run the whole experiment; steps whose results still hold are skipped.")

Seed = Annotated[int, typer.Option(min=0, help="Of windows, training and splits.")]
SweepSplits = Annotated[int, typer.Option(help="Random splits for each value of a sweep.")]
Folder = Annotated[Path, an_argument("DIR", "A folder with one sub-folder of images per class.")]
Download = Annotated[Path, an_argument("DIR", "The WE3DS download: a folder or WE3DS.zip.")]


@command(reproduce, "reproduce images photographs --out out")
def images(
    folder: Folder,
    out: OutFolder = Path("out"),
    *,
    network: Network,
    train_fraction: TrainFraction = 0.7,
    group: HeldOut = "none",
    flips: Flips = "horizontal",
    device: Device = "auto",
    splits: Splits = 1000,
    sweep_splits: SweepSplits = 100,
    alpha: Alpha = 0.1,
    calibration_fraction: CalibrationFraction = 0.45,
    seed: Seed = 0,
) -> None:
    """Train on a folder of labelled images, sweep, compare, report, and make a field model."""
    held_out = {"train_fraction": train_fraction, "group": group}
    chosen = {**network._asdict(), **held_out, "flips": flips, "seed": seed, "device": device}
    _experiment(folder.absolute().name, folder, out, chosen, (splits, sweep_splits), alpha, calibration_fraction, None)


@command(reproduce, "reproduce we3ds WE3DS.zip --out out")
def we3ds(
    download: Download,
    out: OutFolder = Path("out"),
    *,
    network: Network,
    group: HeldOut = "none",
    device: Device = "auto",
    splits: Splits = 1000,
    sweep_splits: SweepSplits = 100,
    seed: Seed = 0,
) -> None:
    """Cut the WE3DS photographs into windows, then all that images does, as in the paper."""
    from pippin.cli.outputs import output_folder
    from pippin.cli.prepare import we3ds as prepare_we3ds

    need("The report", "report", "matplotlib", "jinja2")
    windows = out / "windows"
    with output_folder(out):
        prepare_we3ds(download, windows, window=WINDOW, seed=seed)  # it looks for itself whether those there still hold
        held_out = {"train_fraction": 0.7, "group": group}
        chosen = {**network._asdict(), **held_out, "flips": "both", "seed": seed, "device": device}
        _experiment("WE3DS", windows, out, chosen, (splits, sweep_splits), 0.1, 0.45, WINDOW)


def _experiment(
    name: str,
    folder: Path,
    out: Path,
    chosen: dict[str, Any],
    splits: tuple[int, int],
    alpha: float,
    fraction: float,
    window: int | None,
) -> None:
    """Training, sweeps, the comparison and its report, which calls the images by `name`, and a field model."""
    from pippin.cli.outputs import output_folder

    need("The report", "report", "matplotlib", "jinja2")
    for_comparison, for_sweeps = splits
    seed = chosen["seed"]
    with output_folder(out):
        probs = _train(folder, out / "train", chosen)
        for score in SWEPT:
            _sweep(probs, out / f"sweep-{score}", score, for_sweeps, alpha, fraction, seed)
        _compare(name, folder, probs, out, for_comparison, alpha, fraction, seed)
        _field(probs, out / MODEL, alpha, window, chosen["group"] == "photo")
    print(f"The report, with photographs: {out / 'report.html'}")
    print(f"The field model: {out / MODEL}; next: pippin field run {out / MODEL} PHOTOS --out results")


def _train(folder: Path, place: Path, chosen: dict[str, Any]) -> Path:
    """The logits of the images held out."""
    from pippin.cli.steps import folder_checksum, run_step
    from pippin.images.training import Options
    from pippin.images.training.folder import list_images

    Options(**chosen)
    made_from = {key: value for key, value in chosen.items() if key != "device"}
    made_from["images"] = list_images(folder).checksum()
    if Path(chosen["weights"]).is_dir():
        made_from["start"] = folder_checksum(Path(chosen["weights"]))
    place.mkdir(parents=True, exist_ok=True)
    probs = place / "probs.npz"
    outputs = [probs, place / "train.json", place / "weights" / "model.safetensors"]

    def work() -> None:
        run_training(folder, probs, chosen)

    run_step("train", place / "step.json", made_from, outputs, work)
    return probs


def _sweep(probs: Path, place: Path, score: str, splits: int, alpha: float, fraction: float, seed: int) -> None:
    """One score over the values of its parameter."""
    from pippin.cli.steps import file_checksum, run_step
    from pippin.cli.sweep import sweep

    place.mkdir(parents=True, exist_ok=True)
    made_from = _asked(file_checksum(probs), splits, alpha, fraction, seed) | {"score": score, "values": VALUES}
    outputs = [place / name for name in ("sweep.parquet", "sweep.csv")]

    def work() -> None:
        sweep(
            probs,
            score=score,
            parameter=SWEPT[score],
            values=VALUES,
            splits=splits,
            alpha=alpha,
            calibration_fraction=fraction,
            seed=seed,
            out=place,
            columns=Columns(),
        )

    run_step(f"sweep of {score}", place / "step.json", made_from, outputs, work)


def _compare(
    name: str, folder: Path, probs: Path, out: Path, splits: int, alpha: float, fraction: float, seed: int
) -> None:
    """The six scores of the paper, and the report with photographs."""
    from pippin.cli.compare import compare_data
    from pippin.cli.inputs import read_scores
    from pippin.cli.photographs import show_photographs
    from pippin.cli.steps import file_checksum, run_step
    from pippin.tables.reading import read_data

    made_from = _asked(file_checksum(probs), splits, alpha, fraction, seed)
    outputs = [out / name for name in ("results.parquet", "summary.csv", "report.html")]

    def work() -> None:
        compare_data(read_data(probs), read_scores("paper"), splits, alpha, fraction, seed, out, name)
        show_photographs(out / "report.html", folder, probs, alpha, fraction, seed)

    run_step("compare", out / "compare.json", made_from, outputs, work)


def _field(probs: Path, place: Path, alpha: float, window: int | None, by_photo: bool) -> None:
    """A model for new photographs, calibrated on all images held out; on photographs, where those were held out."""
    import pippin
    from pippin._runtime.version import __version__
    from pippin.cli.steps import file_checksum, folder_checksum, run_step
    from pippin.images import FieldModel
    from pippin.tables.reading import read_data

    weights = probs.parent / "weights"
    made_from = {
        "data": file_checksum(probs),
        "weights": folder_checksum(weights),
        "score": SCORE,
        "alpha": alpha,
        "window": window,
        "by_photo": by_photo,
        "pippin": __version__,
    }
    outputs = [place / name for name in ("field.json", "predictor.json", "weights/model.safetensors")]

    def work() -> None:
        data = read_data(probs)
        units: Any = {"units": data.groups} if by_photo and data.groups is not None else {}
        predictor = pippin.calibrate(data.rows, data.truth(), SCORE, alpha, classes=data.classes, **units)
        FieldModel.make(weights, predictor, window=window).save(place)

    run_step("field model", place.with_name(f"{place.name}.json"), made_from, outputs, work)


def _asked(data: str, splits: int, alpha: float, fraction: float, seed: int) -> dict[str, Any]:
    from pippin._runtime.version import __version__

    return {
        "data": data,
        "splits": splits,
        "alpha": alpha,
        "calibration_fraction": fraction,
        "seed": seed,
        "pippin": __version__,
    }
