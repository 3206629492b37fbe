"""One ONNX file from pixels to logits, sets and actions, made of a network in torch. Needs the extra `vision`.

Colours are normalised in the graph. How an image is turned and resized stays with `reading.py`: Pillow rounds to whole
numbers between its two passes, which ONNX's Resize does not.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pippin._runtime.errors import InputError
from pippin.images.field.belonging import graph_record
from pippin.images.field.seeing import OnnxNetwork
from pippin.images.training.network import Network
from pippin.images.training.record import Training

CLOSE = 1e-4  # between logits of torch and of onnxruntime, beside a logit's own size


class _FromPixels(torch.nn.Module):
    """Logits of pixels of 0 to 255, as `Network.says` gives them."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network, self.model = network, network.model

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.network(pixels.float() / 255)


def make_graph(network: Network, size: int, training: Training, heads: list[Any]) -> bytes:
    """The bytes of the graph: input `pixels` (n, 3, size, size) uint8, output `logits`, and those of the heads.

    Args:
        heads: predictors and deciders; what cannot leave Python is left out.

    Raises:
        InputError: torch cannot put this network into a graph, or the graph gives other logits.
    """
    from onnx import helper

    made = with_heads(_exported(network, size), heads)
    kept = {entry.key: entry.value for entry in made.metadata_props}
    helper.set_model_props(made, kept | graph_record(training))
    content = bytes(made.SerializeToString())
    check_logits(content, network, size)
    return content


def with_heads(graph: Any, heads: list[Any]) -> Any:
    """The graph with every head behind its logits that can leave Python."""
    from pippin.export.onnx import appended_model

    for head in heads:
        with contextlib.suppress(InputError):
            graph = appended_model(graph, head, "logits", "logits")
    return graph


def _exported(network: Network, size: int) -> Any:
    device = next(network.model.parameters()).device
    pixels = torch.zeros((2, 3, size, size), dtype=torch.uint8, device=device)
    try:
        with _quiet():
            program = torch.onnx.export(
                _FromPixels(network).eval(),
                (pixels,),
                dynamo=True,
                input_names=["pixels"],
                output_names=["logits"],
                dynamic_shapes={"pixels": {0: torch.export.Dim("n")}},
                verbose=False,
            )
        assert program is not None
        model = program.model_proto
    except Exception as error:  # each architecture has its own way to fail
        told = " ".join(str(error).split())[:200]
        raise InputError(f"torch cannot put this network into an ONNX graph ({told})", "leave --onnx out") from error
    for node in model.graph.node:
        del node.metadata_props[:]  # where in which file of this machine it was made
    return model


def check_logits(content: bytes, network: Network, size: int) -> None:
    """Raises an InputError where onnxruntime gives other logits than torch."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, size, size), dtype=np.uint8)
    wanted = network.says(pixels, False).logits
    found = OnnxNetwork(content, Path(), network.mean, network.sd).says(pixels, False).logits
    apart = float(np.max(np.abs(found - wanted) / (1 + np.abs(wanted))))
    if not apart <= CLOSE:
        raise InputError(
            f"The ONNX graph of this network gives other logits than torch, by {apart:.2g}", "leave --onnx out"
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter tells of itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
