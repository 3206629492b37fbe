"""What sees in a field model: its network in torch, or where there is no torch its graph in onnxruntime."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.disk import write_whole
from pippin._runtime.errors import InputError
from pippin._runtime.extras import need
from pippin._runtime.threads import n_threads
from pippin.images.field.belonging import check_graph
from pippin.images.reading import CONFIG
from pippin.images.said import Said
from pippin.images.training.record import TRAINING, WEIGHTS, Training, file_checksum

GRAPH = "network.onnx"


class Seer(Protocol):
    """Pixels in, logits out, and the features that they are made of."""

    @property
    def mean(self) -> tuple[float, ...]: ...
    @property
    def sd(self) -> tuple[float, ...]: ...

    def says(self, pixels: NDArray[np.uint8], features: bool) -> Said:
        """Of pixels (n, 3, size, size) of 0 to 255; with the features, if they are asked for."""

    def save(self, folder: Path, size: int, record: Callable[[str], bytes]) -> None:
        """Writes the folder of weights, with `record` of their checksum."""


@dataclass(frozen=True, eq=False, repr=False)
class OnnxNetwork:
    """A graph from pixels to logits under onnxruntime; `weights` is the folder that it was made of."""

    graph: bytes
    weights: Path
    mean: tuple[float, ...]
    sd: tuple[float, ...]

    def says(self, pixels: NDArray[np.uint8], features: bool) -> Said:
        """One image at a time, so that what is said of it does not depend on those beside it."""
        if features:
            raise InputError(
                "The predictor looks at the network's last layer, which its graph does not give", "install torch"
            )
        names = {value.name for value in self.session.get_inputs()}
        found = []
        for one in pixels:
            feed = {"pixels": one[None], "u": np.zeros(1)}  # u is the head's, and no logit depends on it
            found.append(self.session.run(["logits"], {name: feed[name] for name in names})[0])
        return Said(np.concatenate(found), None)

    def save(self, folder: Path, size: int, record: Callable[[str], bytes]) -> None:
        shutil.copytree(self.weights, folder)
        write_whole(folder / TRAINING, record(file_checksum(folder / WEIGHTS)))

    @cached_property
    def session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = n_threads(), 3
        return onnxruntime.InferenceSession(self.graph, options, providers=["CPUExecutionProvider"])


def has_torch() -> bool:
    """Whether all is installed that a network in torch takes."""
    return all(find_spec(name) is not None for name in ("torch", "transformers", "safetensors"))


def seeing(folder: Path, training: Training) -> tuple[Seer, int]:
    """What sees, and the size of its images: of a folder of weights, and without torch of the graph beside it.

    Raises:
        InputError: the folder is damaged, or the graph is that of another network.
        ImportError: neither torch nor onnxruntime and a graph are there.
    """
    size, mean, sd = _read_config(folder, training)
    if has_torch():
        import torch

        from pippin.images.training.network import make_network

        network = make_network(str(folder), training.classes, size, seed=0)
        network.model.eval().to(memory_format=torch.channels_last)
        return network, size
    path = folder.parent / GRAPH
    if not path.is_file():
        need(f"A network without the part {GRAPH}", "vision", "torch", "transformers", "safetensors")
    need("A field model without torch", "field", "onnxruntime")
    found = OnnxNetwork(path.read_bytes(), folder, mean, sd)
    try:
        told, inputs = found.session.get_modelmeta().custom_metadata_map, found.session.get_inputs()
    except Exception as error:  # onnxruntime has its own kinds of errors
        raise InputError(f"The part {GRAPH} cannot be run", "make the model again with --onnx") from error
    check_graph(GRAPH, told, [list(value.shape[1:]) for value in inputs if value.name == "pixels"], size, training)
    return found, size


def _read_config(folder: Path, training: Training) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
    try:
        config = json.loads((folder / "config.json").read_bytes())
        told = json.loads((folder / CONFIG).read_bytes())
        size, mean, sd = int(told["crop_size"]["height"]), told["image_mean"], told["image_std"]
        names = tuple(config["id2label"][str(k)] for k in range(len(config["id2label"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"The configuration of {folder} is missing or damaged", "train again") from error
    if tuple(map(str, names)) != training.classes:
        raise InputError(f"The config.json of {folder} has other classes than its training.npz", "train again")
    return size, tuple(mean), tuple(sd)
