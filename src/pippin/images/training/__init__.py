"""Training of an image classifier on a folder of labelled images, which needs the extra `vision`.

`train` is imported on first access, so that a field model can read the records of trainings without torch.
"""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pippin._runtime.errors import InputError

if TYPE_CHECKING:
    from pippin.images.training.fit import train

__all__ = ["Epoch", "Options", "train"]

CHOICES = {"group": ("none", "photo"), "device": ("auto", "cpu", "cuda"), "flips": ("horizontal", "both", "none")}


@dataclass(frozen=True)
class Options:
    """Options of a training run.

    Attributes:
        weights: initial weights: a name on the Hugging Face hub, a folder, or `none` to train from scratch.
        epochs: number of passes over the training images.
        batch: number of images per training step.
        size: side of the network's input images in pixels.
        learning_rate: largest learning rate of AdamW; None means 0.001 from scratch and 0.0003 otherwise.
        train_fraction: share of the images for training; the others are held out.
        group: `photo` holds out photographs with all their windows; `none` holds out single images.
        seed: seed of the division into training and held-out images, of new weights, and of the augmentation.
        device: `auto`, `cpu` or `cuda`.
        flips: random mirroring: `horizontal`, `both` (also vertical) or `none`.
        features: True saves the inputs of the network's last layer for the held-out images.
        views: True averages the logits (and features) of each held-out image over its eight flips and turns.
    """

    weights: str = "microsoft/resnet-18"
    epochs: int = 30
    batch: int = 64
    size: int = 224
    learning_rate: float | None = None
    train_fraction: float = 0.7
    group: str = "none"
    seed: int = 0
    device: str = "auto"
    flips: str = "horizontal"
    features: bool = False
    views: bool = False

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch", 2), ("size", 8), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise InputError(f"Expected --{name} to be a whole number of at least {least}, got {value}", "raise it")
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise InputError(f"Expected --{name} to be {' or '.join(known)}, got {value!r}", "choose one of them")
        share, rate = self.train_fraction, self.learning_rate
        if not 0 < share < 1:
            raise InputError(f"Expected --train-fraction between 0 and 1, got {share:g}", "write for example 0.7")
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise InputError(f"Expected --learning-rate above 0, got {rate:g}", "write for example 0.001")


@dataclass(frozen=True)
class Epoch:
    """Results of one pass over the training images: mean training loss, accuracy on the held-out images, and time.

    `number` is the number of the pass, from 1, and `of` the number of all passes.
    """

    number: int
    of: int
    loss: float
    accuracy: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"epoch {self.number:>{len(str(self.of))}} of {self.of}: loss {self.loss:.4f}, "
            f"held-out accuracy {self.accuracy:.4f}, {self.seconds:.1f} s"
        )


def has_torch() -> bool:
    """Return True if torch and the libraries for its networks are installed."""
    return all(find_spec(name) is not None for name in ("torch", "transformers", "safetensors"))


def choose_device(name: str) -> str:
    """Return the device, "cpu" or "cuda", for the value auto, cpu or cuda of the option --device."""
    if name not in CHOICES["device"]:
        raise InputError(f"Expected --device to be auto or cpu or cuda, got {name!r}", "choose one of them")
    cuda = False
    if name != "cpu" and has_torch():
        import torch

        cuda = torch.cuda.is_available()
    if name == "cuda" and not cuda:
        raise InputError("Expected a CUDA device for --device cuda, but torch finds none", "pass --device auto or cpu")
    return "cuda" if name != "cpu" and cuda else "cpu"


def __getattr__(name: str) -> object:
    if name != "train":
        raise AttributeError(f"module 'pippin.images.training' has no attribute {name!r}")
    from pippin._runtime.errors import need

    need("Training on images", "vision", "torch", "transformers", "safetensors", "PIL")
    from pippin.images.training.fit import train

    return train
