"""`pippin train`: a classifier from a folder of images, and its logits for those held out."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pippin.cli.options import an_argument, an_option

if TYPE_CHECKING:
    from pippin.images.training.folder import TrainingRecord

TrainFraction = Annotated[float, typer.Option(help="The share of images that trains; the rest is held out.")]
HeldOut = Annotated[str, typer.Option(help="none holds out images, photo whole photographs (PHOTO_ROW_COLUMN.png).")]
Flips = Annotated[str, typer.Option(help="Mirrored views: horizontal, both (for pictures from above) or none.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Weights = Annotated[str, typer.Option(help="A classifier on the Hugging Face hub, a folder, or none for scratch.")]
Features = Annotated[bool, typer.Option("--features", help="Keep features, for calibrate --sharpen split --features.")]


class Network(NamedTuple):
    """Options of the network: initial weights, and length and scale of the training."""

    weights: Weights = "microsoft/resnet-18"
    epochs: Annotated[int, typer.Option(help="How many times every image is seen.")] = 30
    batch: Annotated[int, typer.Option(help="Images at once.")] = 64
    size: Annotated[int, typer.Option(help="Pixels of a side.")] = 224
    learning_rate: Annotated[float | None, an_option("Else 0.001 from scratch, 0.0003 from other weights.")] = None


def train(
    windows: Annotated[Path, an_argument("WINDOWS", "A folder with one sub-folder of images per class.")],
    out: Annotated[Path, an_option("The logits, .npz.", metavar="FILE")],
    *,
    network: Network,
    train_fraction: TrainFraction = 0.7,
    group: HeldOut = "none",
    flips: Flips = "horizontal",
    seed: Annotated[int, typer.Option(min=0, help="Makes the division, the first weights and the views.")] = 0,
    device: Device = "auto",
    features: Features = False,
) -> None:
    """Train a classifier on a folder of images; a stopped run goes on where it was.

    Writes the logits of the images held out, and beside them the folder weights and train.json.
    """
    division = {"train_fraction": train_fraction, "group": group, "seed": seed}
    options = {**network._asdict(), **division, "flips": flips, "device": device, "features": features}
    trained = run_training(windows, out, options)
    held_out = f"{len(trained.files):,} images held out, accuracy {trained.accuracy:.3f}"
    print(f"The logits of {held_out}, are in {out}; next: pippin compare {out}")


def run_training(windows: Path, out: Path, options: dict[str, Any]) -> "TrainingRecord":
    """Train with a progress bar on a terminal and a line per epoch."""
    from pippin._runtime.progress import progress_bar
    from pippin.cli.outputs import check_target
    from pippin.images.training import Options, train

    check_target(out, ".npz")
    tell = partial(print, file=sys.stderr, flush=True)
    return train(windows, out, Options(**options), tell=tell, bar=progress_bar)
