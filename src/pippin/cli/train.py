"""Command `pippin train`: train a classifier on a folder of images, and write its logits of held-out images."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pippin.cli.options import an_argument, an_option
from pippin.cli.outputs import check_target, echo

if TYPE_CHECKING:
    from pippin.images.training.folder import TrainingRecord

TrainFraction = Annotated[float, typer.Option(help="The share of images for training; the rest is held out.")]
HeldOut = Annotated[str, typer.Option(help="Hold out images (none) or photographs with all their windows (photo).")]
Flips = Annotated[str, typer.Option(help="Random mirroring: horizontal, both (for images from above) or none.")]
Device = Annotated[str, typer.Option(help="The device: auto, cpu or cuda.")]
Weights = Annotated[str, typer.Option(help="Initial weights: a classifier on the Hugging Face hub, a folder, or none.")]
_FEATURES = "Also write features, for calibrate --features and the novelty test."
Features = Annotated[bool, typer.Option("--features", help=_FEATURES)]
_VIEWS = "Average logits over eight flips and turns of each image, here and in the field model: eight times the work."


class Network(NamedTuple):
    """Options of the network: its initial weights, the size of its images, and its training."""

    weights: Weights = "microsoft/resnet-18"
    epochs: Annotated[int, typer.Option(help="The number of passes over the training images.")] = 30
    batch: Annotated[int, typer.Option(help="The number of images per training step.")] = 64
    size: Annotated[int, typer.Option(help="The side of the network's input images, in pixels.")] = 224
    learning_rate: Annotated[float | None, an_option("If not given, 0.001 from scratch, else 0.0003.")] = None


def train(
    windows: Annotated[Path, an_argument("WINDOWS", "A folder with one sub-folder of images per class.")],
    out: Annotated[Path, an_option("The logits, .npz.", metavar="FILE")],
    *,
    network: Network,
    train_fraction: TrainFraction = 0.7,
    group: HeldOut = "none",
    flips: Flips = "horizontal",
    seed: Annotated[int, typer.Option(min=0, help="The seed of division, new weights and augmentation.")] = 0,
    device: Device = "auto",
    features: Features = False,
    views: Annotated[bool, typer.Option("--views", help=_VIEWS)] = False,
) -> None:
    """Train a classifier on a folder of images; an interrupted run resumes.

    Writes the logits of the held-out images, and to the same folder weights/ and train.json.
    """
    division = {"train_fraction": train_fraction, "group": group, "seed": seed}
    options = {**network._asdict(), **division, "flips": flips, "device": device, "features": features, "views": views}
    trained = run_training(windows, out, options)
    held_out = f"{len(trained.files):,} held-out images (accuracy {trained.accuracy:.3f})"
    echo(f"The logits of {held_out} are in {out}; next: pippin compare {out}")


def run_training(windows: Path, out: Path, options: dict[str, Any]) -> "TrainingRecord":
    """Train a classifier, with a progress bar and a line per epoch on standard error."""
    from pippin._runtime.progress import progress_bar
    from pippin.images.training import Options, train

    check_target(out, ".npz")
    on_epoch = partial(echo, file=sys.stderr)
    return train(windows, out, Options(**options), on_epoch=on_epoch, bar=progress_bar)
