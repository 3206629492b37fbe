"""An image classifier of Hugging Face transformers: from the hub, from a folder, or from scratch."""

import json
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pippin._runtime.disk import naming_target, whole_folder, write_whole
from pippin._runtime.errors import InputError
from pippin._runtime.threads import n_threads
from pippin.images.reading import CONFIG, told_to_transformers
from pippin.images.said import Said, together
from pippin.images.training.record import TRAINING, WEIGHTS, file_checksum

RESNET18 = "microsoft/resnet-18"
SCRATCH = "none"
BATCH = 64  # images at once, but on the CPU
PATIENCE = 5.0  # seconds to find out whether there is a network
MEAN, SD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's images

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A module from normalised pixels to logits, and the colours that it takes for 0 and 1."""

    model: Any
    mean: tuple[float, ...]
    sd: tuple[float, ...]

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Logits of pixels (n, 3, height, width) between 0 and 1."""
        mean, sd = (torch.tensor(value, device=pixels.device).view(1, 3, 1, 1) for value in (self.mean, self.sd))
        logits: torch.Tensor = self.model(pixel_values=(pixels - mean) / sd).logits
        return logits

    def says(self, pixels: NDArray[np.uint8], features: bool) -> Said:
        """What it says of pixels (n, 3, height, width) of 0 to 255, so many at once that nothing sways it."""
        device = next(self.model.parameters()).device
        step = at_once(device, BATCH)
        pieces = (pixels[start : start + step] for start in range(0, len(pixels), step))
        with torch.inference_mode(), all_threads():
            return together([self.said(as_input(piece, device), features) for piece in pieces])

    def said(self, pixels: torch.Tensor, features: bool) -> Said:
        """What it says of pixels between 0 and 1, with the features or without."""
        logits, beside = self.embedded(pixels) if features else (self(pixels), None)
        return Said(logits.float().cpu().numpy(), None if beside is None else beside.float().cpu().numpy())

    def embedded(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits, and the features that the last layer makes them of, (n, M)."""
        given: list[torch.Tensor] = []
        hook = last_layer(self.model).register_forward_pre_hook(lambda _, inputs: given.append(inputs[0].flatten(1)))
        try:
            logits = self(pixels)
            return logits, given[-1]
        finally:
            hook.remove()

    def save(self, folder: Path, size: int, record: Callable[[str], bytes]) -> None:
        """Writes config, weights (safetensors), how images are read, and `record` of the weights' checksum.

        Only then it takes the place of what was there.
        """
        for left in folder.parent.glob(f".{folder.name}.*.tmp"):  # of a run that was killed
            shutil.rmtree(left, ignore_errors=True)
        prepared = told_to_transformers(size, self.mean, self.sd)
        with whole_folder(folder) as draft:
            with _quiet(), naming_target(folder):
                _save_weights(self.model, draft)
            write_whole(draft / CONFIG, json.dumps(prepared, indent=2).encode())
            write_whole(draft / TRAINING, record(file_checksum(draft / WEIGHTS)))


def last_layer(model: Any) -> nn.Module:
    """The linear layer that gives the logits.

    Raises:
        InputError: the network ends otherwise.
    """
    ends = [
        part for part in model.modules() if isinstance(part, nn.Linear) and part.out_features == model.config.num_labels
    ]
    if not ends:
        raise InputError(
            f"Expected a network whose last layer is linear, got {type(model).__name__}", "leave --features out"
        )
    return ends[-1]


def as_input(pixels: NDArray[np.uint8], device: torch.device) -> torch.Tensor:
    """Pixels of 0 to 255 as numbers between 0 and 1 on the device."""
    return torch.from_numpy(pixels).to(device).to(torch.float32, memory_format=torch.channels_last) / 255


@contextmanager
def all_threads() -> Iterator[None]:
    """As many threads as may be used, and then as many as before; with another number sums are rounded otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def at_once(device: torch.device, batch: int) -> int:
    """How many images the network is shown at once where its words count: one on the CPU.

    There the sums of a batch are rounded in other places than those of one image, so that what is said of an image
    would depend on how many stand beside it; and one by one takes no longer.
    """
    return 1 if device.type == "cpu" else batch


def _save_weights(model: Any, folder: Path) -> None:
    """What `save_pretrained` writes; an error of the disk is an OSError, whoever met it."""
    from safetensors import SafetensorError

    try:
        model.save_pretrained(folder)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def make_network(weights: str, classes: tuple[str, ...], size: int, seed: int) -> Network:
    """The classifier with one output per class; what the weights do not tell is drawn from the seed.

    Args:
        weights: a name on the Hugging Face hub, a folder that `save_pretrained` wrote, or `none`.

    Raises:
        InputError: there are no such weights, they cannot be had without a network, or the size does not suit them.
    """
    names = {"id2label": dict(enumerate(classes)), "label2id": {name: k for k, name in enumerate(classes)}}
    with torch.random.fork_rng(devices=[]), _quiet():
        torch.manual_seed(seed)
        network = _scratch(names) if weights == SCRATCH else _pretrained(weights, names)
        _check_size(network, weights, size)
    for part in network.model.parameters():  # where a file's numbers lie in memory sways how their sums are rounded
        part.data = part.data.clone()
    return network


def _scratch(names: dict[str, Any]) -> Network:
    from transformers import AutoModelForImageClassification, ResNetConfig

    config = ResNetConfig(
        depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic", embedding_size=64, **names
    )
    build: Any = AutoModelForImageClassification.from_config
    return Network(build(config), MEAN, SD)


def _pretrained(weights: str, names: dict[str, Any]) -> Network:
    """From the folder, from what was downloaded before, or from the network, in this order."""
    if Path(weights).is_dir():
        if not (Path(weights) / "config.json").is_file():
            raise InputError(
                f"Expected weights in {weights}, but it has no config.json",
                "name a folder that train or save_pretrained wrote, or pass --weights none",
            )
        return _loaded(weights, names, local=True)
    if not _HUB_NAME.fullmatch(weights):
        raise InputError(
            f"Expected --weights to be a folder or a name on the Hugging Face hub, but there is no folder {weights}",
            "check the path, or pass --weights none to start from scratch",
        )
    try:
        return _loaded(weights, names, local=True)
    except OSError:
        if not _has_network():
            raise InputError(
                f"The weights {weights} are not on this machine and there is no network",
                f"on a machine with one run "
                f"transformers.AutoModelForImageClassification.from_pretrained({weights!r}).save_pretrained('weights')"
                ", copy that folder here and pass --weights FOLDER, or pass --weights none to start from scratch",
            ) from None
    return _loaded(weights, names, local=False)


def _loaded(weights: str, names: dict[str, Any], local: bool) -> Network:
    from transformers import AutoModelForImageClassification

    try:
        model = AutoModelForImageClassification.from_pretrained(
            weights, ignore_mismatched_sizes=True, local_files_only=local, trust_remote_code=False, **names
        ).float()
    except Exception as error:  # a missing, damaged or foreign file makes transformers raise many kinds
        if isinstance(error, OSError) and local and not Path(weights).is_dir():
            raise
        told = " ".join(str(error).split())[:200]
        raise InputError(
            f"{weights} cannot be used as an image classifier ({told})", "name another, or pass --weights none"
        ) from error
    return Network(model, *_colours(weights, local))


def _colours(weights: str, local: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of the colours that the weights were made with; ImageNet's where nobody says."""
    from huggingface_hub import hf_hub_download

    try:
        folder = Path(weights)
        path = folder / CONFIG if folder.is_dir() else hf_hub_download(weights, CONFIG, local_files_only=local)
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        return tuple(map(float, told["image_mean"])), tuple(map(float, told["image_std"]))
    except (OSError, ValueError, KeyError, TypeError):
        return MEAN, SD


def _has_network() -> bool:
    """Whether the hub answers soon; transformers alone would try for half a minute."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if getproxies():
        return True
    host = urlsplit(constants.ENDPOINT)
    try:
        socket.create_connection((host.hostname or "", host.port or 443), timeout=PATIENCE).close()
    except OSError:
        return False
    return True


def _check_size(network: Network, weights: str, size: int) -> None:
    network.model.eval()
    try:
        with torch.no_grad():
            network(torch.zeros(1, 3, size, size))
    except Exception as error:  # each architecture has its own way to say it
        told = " ".join(str(error).split())[:200]
        raise InputError(f"{weights} cannot take images of {size} × {size} ({told})", "pass another --size") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' bars and load reports: that a new head is drawn anew is what is wanted."""
    from transformers.utils import logging as told

    logging: Any = told
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def parameters(network: Network) -> list[nn.Parameter]:
    """What training changes."""
    return [p for p in network.model.parameters() if p.requires_grad]
