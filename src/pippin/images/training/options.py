"""How a classifier is trained: what one can choose, checked."""

import math
from dataclasses import dataclass

from pippin._runtime.errors import InputError
from pippin.images.training.network import RESNET18

CHOICES = {
    "group": ("none", "photo"),
    "device": ("auto", "cpu", "cuda"),
    "flips": ("horizontal", "both", "none"),
}


@dataclass(frozen=True)
class Options:
    """The choices of a training run; those not made are ordinary.

    Attributes:
        weights: a name on the Hugging Face hub, a folder, or `none` to start from scratch.
        batch: images at once.
        size: pixels of a side.
        learning_rate: of AdamW at its highest; None takes 0.001 from scratch and 0.0003 otherwise.
        train_fraction: the share of the images that trains.
        group: `photo` keeps all windows of a photograph on one side.
        flips: `horizontal` mirrors left and right, `both` also up and down, or `none`.
        features: whether the input of the network's last layer is kept for the images held out.
    """

    weights: str = RESNET18
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

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch", 2), ("size", 8), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise InputError(f"Expected --{name} to be a whole number of at least {least}, got {value}", "raise it")
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise InputError(f"Expected --{name} to be {' or '.join(known)}, got {value!r}", "choose one of them")
        if not 0 < self.train_fraction < 1:
            raise InputError(
                f"Expected --train-fraction between 0 and 1, got {self.train_fraction:g}", "write for example 0.7"
            )
        rate = self.learning_rate
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise InputError(f"Expected --learning-rate above 0, got {rate:g}", "write for example 0.001")
