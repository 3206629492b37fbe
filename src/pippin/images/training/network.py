"""Image classifiers of Hugging Face transformers, with weights from the hub, from a folder, or random."""

import json
import math
import re
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import getproxies

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pippin._runtime.disk import atomic_folder, naming_target, write_json
from pippin._runtime.errors import InputError
from pippin._runtime.threads import n_threads
from pippin.export.preprocessing import CONFIG
from pippin.images.reading import processor_config
from pippin.images.training.folder import TrainingRecord

SCRATCH = "none"
TIMEOUT = 5.0  # maximum time in seconds to connect to the hub
MEAN, SD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # mean and standard deviation of each color in ImageNet
SMALLEST = 0.5  # smallest area of a random crop, as a share of the image
STRETCH = 4 / 3  # largest aspect ratio of a random crop
LIGHT = 0.2  # largest relative change of brightness and contrast

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")

Outputs = tuple[NDArray[np.float32], NDArray[np.float32] | None]


@dataclass(frozen=True, eq=False, repr=False)
class TorchNetwork:
    """Classifier in torch, with the mean and standard deviation of each color by which its input is normalized.

    With `views`, outputs are means over the eight flips and turns of each image (test-time augmentation).
    """

    model: Any
    mean: tuple[float, ...]
    sd: tuple[float, ...]
    views: bool = False

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Compute logits of pixels (n, 3, height, width) between 0 and 1."""
        mean, sd = (torch.tensor(value, device=pixels.device).view(1, 3, 1, 1) for value in (self.mean, self.sd))
        return cast(torch.Tensor, self.model(pixel_values=(pixels - mean) / sd).logits)

    @property
    def device(self) -> torch.device:
        """Device on which the network computes."""
        return cast(torch.device, next(self.model.parameters()).device)

    def to_input(self, pixels: NDArray[np.uint8]) -> torch.Tensor:
        """Convert pixels from 0 to 255 to a tensor of numbers between 0 and 1 on the device of the network."""
        return torch.from_numpy(pixels).to(self.device).to(torch.float32, memory_format=torch.channels_last) / 255

    def inference_batch(self, batch: int = 64) -> int:
        """Return the batch size for the logits that are saved, which is 1 on the CPU.

        On the CPU the rounding of logits depends on the batch size, and batches are not faster than single images.
        """
        return 1 if self.device.type == "cpu" else max(batch // 8, 1) if self.views else batch

    @property
    def has_features(self) -> bool:
        """True if the last layer is linear, so that its inputs are the features."""
        return bool(self._last_layers())

    def _last_layers(self) -> list[nn.Linear]:
        n = self.model.config.num_labels
        return [part for part in self.model.modules() if isinstance(part, nn.Linear) and part.out_features == n]

    def last_layer(self) -> nn.Module:
        """Return the linear layer that computes the logits.

        Raises:
            InputError: the last layer of the network is not linear.
        """
        ends = self._last_layers()
        if not ends:
            name = type(self.model).__name__
            raise InputError(f"Expected a network whose last layer is linear, got {name}", "leave --features out")
        return ends[-1]

    def outputs(self, pixels: NDArray[np.uint8], features: bool) -> Outputs:
        """Compute logits of pixels (n, 3, height, width) from 0 to 255, and features like `outputs_of`."""
        step = self.inference_batch()
        with all_threads():
            return self.outputs_of((pixels[start : start + step] for start in range(0, len(pixels), step)), features)

    def outputs_of(self, batches: Iterable[NDArray[np.uint8]], features: bool) -> Outputs:
        """Compute logits of batches of pixels from 0 to 255, and if requested features.

        Features are the inputs (n, M) of the last layer; they are None if `features` is False.
        """
        logits, inputs = [], []
        last: dict[str, torch.Tensor] = {}
        with ExitStack() as stack:
            if features:
                hook = self.last_layer().register_forward_pre_hook(lambda _, given: last.update(input=given[0]))
                stack.callback(hook.remove)
            stack.enter_context(torch.inference_mode())
            for batch in batches:
                logits.append(self.merge_views(self(self.make_views(self.to_input(batch)))).float().cpu().numpy())
                if features:
                    inputs.append(self.merge_views(last["input"].flatten(1)).float().cpu().numpy())
        return np.concatenate(logits), np.concatenate(inputs) if features else None

    def make_views(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the eight flips and turns of square images (n, 3, s, s), shape (8n, 3, s, s), if there are views."""
        if not self.views:
            return pixels
        turns = [torch.rot90(pixels, quarter, (2, 3)) for quarter in range(4)]
        return torch.cat([*turns, *(turn.flip(3) for turn in turns)])

    def merge_views(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the mean (n, K) of outputs (8n, K) over the views that `make_views` makes."""
        return outputs.reshape(8, -1, outputs.shape[1]).mean(0) if self.views else outputs

    def save(self, folder: Path, size: int, training: TrainingRecord) -> None:
        """Write configuration, weights (safetensors), preprocessing and training record to a folder atomically."""
        from safetensors import SafetensorError

        for draft in folder.parent.glob(f".{folder.name}.*.tmp"):  # temporary folders of a killed run
            shutil.rmtree(draft, ignore_errors=True)
        with atomic_folder(folder) as draft:
            with _quiet(), naming_target(folder):
                try:
                    self.model.save_pretrained(draft)
                except SafetensorError as error:  # raised for a full disk, among others
                    raise OSError(str(error)) from error
            write_json(draft / CONFIG, processor_config(size, self.mean, self.sd))
            training.save(draft)


@contextmanager
def all_threads() -> Iterator[None]:
    """Use all threads in the `with` block, since the rounding of sums depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_network(weights: str, classes: tuple[str, ...], size: int, seed: int) -> TorchNetwork:
    """Make a classifier with one output per class.

    Args:
        weights: a name on the Hugging Face hub, a folder that `save_pretrained` wrote, or `none` for random weights.
        classes: names of the classes.
        size: side of the input images in pixels.
        seed: seed of the random parameters for layers that the weights lack.

    Raises:
        InputError: the weights do not exist, need an Internet connection, or do not support images of this size.
    """
    names = {"id2label": dict(enumerate(classes)), "label2id": {name: k for k, name in enumerate(classes)}}
    with torch.random.fork_rng(devices=[]), _quiet():
        torch.manual_seed(seed)
        network = _scratch(names) if weights == SCRATCH else _pretrained(weights, names)
        network.model.eval()
        try:
            with torch.no_grad():
                network(torch.zeros(1, 3, size, size))
        except Exception as error:  # the exception type depends on the architecture
            sentence = f"{weights} cannot take images of {size} × {size} ({shorten(error)})"
            raise InputError(sentence, "pass another --size") from error
    for part in network.model.parameters():  # copy to aligned memory: alignment affects the rounding of sums
        part.data = part.data.clone()
    return network


def shorten(error: Exception) -> str:
    """Return the message of an error on one line, cut to 200 characters."""
    return " ".join(str(error).split())[:200]


def _scratch(names: dict[str, Any]) -> TorchNetwork:
    from transformers import AutoModelForImageClassification, ResNetConfig

    shape: dict[str, Any] = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "embedding_size": 64}
    config = ResNetConfig(layer_type="basic", **shape, **names)
    build: Any = AutoModelForImageClassification.from_config
    return TorchNetwork(build(config), MEAN, SD)


def _pretrained(weights: str, names: dict[str, Any]) -> TorchNetwork:
    """Load weights from a folder, the download cache, or the hub, in this order."""
    if Path(weights).is_dir():
        if not (Path(weights) / "config.json").is_file():
            remedy = "name a folder that train or save_pretrained wrote, or pass --weights none"
            raise InputError(f"Expected weights in {weights}, but it has no config.json", remedy)
        return _load(weights, names, local=True)
    if not _HUB_NAME.fullmatch(weights):
        sentence = f"Expected --weights to be a folder or a name on the Hugging Face hub, got {weights}"
        raise InputError(sentence, "check the path, or pass --weights none to start from scratch")
    try:
        return _load(weights, names, local=True)
    except OSError:
        if not _is_online():
            download = f"AutoModelForImageClassification.from_pretrained({weights!r}).save_pretrained('weights')"
            raise InputError(
                f"The weights {weights} are not on this machine, and the Hugging Face hub cannot be reached",
                f"elsewhere run transformers.{download}, copy the folder here and pass --weights FOLDER, "
                "or pass --weights none to start from scratch",
            ) from None
    return _load(weights, names, local=False)


def _load(weights: str, names: dict[str, Any], local: bool) -> TorchNetwork:
    from transformers import AutoModelForImageClassification

    try:
        model = AutoModelForImageClassification.from_pretrained(
            weights,
            ignore_mismatched_sizes=True,
            local_files_only=local,
            trust_remote_code=False,
            use_safetensors=True,
            **names,
        )
    except Exception as error:  # transformers raises many types of exceptions
        if isinstance(error, OSError) and local and not Path(weights).is_dir():
            raise
        sentence = f"{weights} cannot be used as an image classifier ({shorten(error)})"
        raise InputError(sentence, "name another, or pass --weights none") from error
    return TorchNetwork(model, *_color_statistics(weights, local))


def _color_statistics(weights: str, local: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each color from the configuration of the weights, or those of ImageNet."""
    from huggingface_hub import hf_hub_download

    try:
        folder = Path(weights)
        path = folder / CONFIG if folder.is_dir() else hf_hub_download(weights, CONFIG, local_files_only=local)
        config = json.loads(Path(path).read_text(encoding="utf-8"))
        if "image_mean" not in config:
            return MEAN, SD
        mean, sd = ([float(value) for value in config[key]] for key in ("image_mean", "image_std"))
        if {type(config["image_mean"]), type(config["image_std"])} != {list} or not len(mean) == len(sd) == 3:
            raise ValueError(config)
    except OSError:
        return MEAN, SD
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        what = f"The {CONFIG} of {weights} has no three numbers as image_mean and image_std"
        raise InputError(what, "correct it, or delete it for those of ImageNet") from error
    return tuple(mean), tuple(sd)


def _is_online() -> bool:
    """Return True if the hub accepts a connection within TIMEOUT; transformers alone would try for half a minute.

    With a proxy, which is not tested, return True.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if getproxies():
        return True
    host = urlsplit(constants.ENDPOINT)
    try:
        socket.create_connection((host.hostname or "", host.port or 443), timeout=TIMEOUT).close()
    except OSError:
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Switch off progress bars and warnings of transformers, such as the warning that the last layer is new."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def augment(pixels: torch.Tensor, flips: str, generator: torch.Generator) -> torch.Tensor:
    """Augment images by random crops, mirroring, and changes of brightness and contrast.

    Args:
        pixels: images (n, 3, height, width) between 0 and 1.
        flips: `horizontal`, `both` (also vertical) or `none`.
        generator: random generator on the CPU, so that the augmentation does not depend on the device.
    """
    n = len(pixels)
    uniform = torch.rand(8, n, generator=generator)
    area = SMALLEST + (1 - SMALLEST) * uniform[0]
    ratio = torch.exp((2 * uniform[1] - 1) * math.log(STRETCH) / 2)
    width, height = ((area.sqrt() * r).clamp(max=1) for r in (ratio, 1 / ratio))
    signs = torch.where(uniform[2:4] < 0.5, -1.0, 1.0)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0] = width * (signs[0] if flips in ("horizontal", "both") else 1)
    theta[:, 1, 1] = height * (signs[1] if flips == "both" else 1)
    theta[:, 0, 2] = (1 - width) * (2 * uniform[4] - 1)
    theta[:, 1, 2] = (1 - height) * (2 * uniform[5] - 1)
    grid = functional.affine_grid(theta.to(pixels.device), list(pixels.shape), align_corners=False)
    views = functional.grid_sample(pixels, grid, padding_mode="border", align_corners=False)
    brightness, contrast = ((1 + LIGHT * (2 * u - 1)).view(n, 1, 1, 1).to(pixels.device) for u in uniform[6:])
    mean = views.mean(dim=(1, 2, 3), keepdim=True)
    lit: torch.Tensor = (views - mean) * contrast + mean * brightness
    return lit.clamp(0, 1)
