"""Inference by the network of a field model, in torch or by its ONNX graph in onnxruntime, and the export of the graph.

The graph includes the normalization of colors. Rotation and resizing remain in `reading.py`, since the operation Resize
of ONNX gives other pixels than Pillow, which rounds to whole numbers between the horizontal and the vertical pass.
"""

import contextlib
import logging
import shutil
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.errors import InputError, need
from pippin._runtime.threads import n_threads
from pippin.export.preprocessing import read_preprocessing
from pippin.images.provenance import graph_metadata
from pippin.images.training import has_torch
from pippin.images.training.folder import TrainingRecord

if TYPE_CHECKING:
    from pippin.images.training.network import TorchNetwork

GRAPH = "network.onnx"
FEATURES = "features"  # output of the graph: inputs of the last layer of the network
EXPORTED = 18  # opset for which torch exports every operator
TOLERANCE = 1e-4  # for differences between logits of torch and onnxruntime, relative to 1 + |logit|


@dataclass(frozen=True, eq=False, repr=False)
class OnnxNetwork:
    """Network as an ONNX graph from pixels to logits, run by onnxruntime; the graph includes the mean over views.

    `weights` is the folder with the weights of the network from which the graph was exported.
    """

    graph: bytes
    weights: Path
    mean: tuple[float, ...]
    sd: tuple[float, ...]

    @property
    def has_features(self) -> bool:
        """True if the graph has the output `features`."""
        return FEATURES in {value.name for value in self.session.get_outputs()}

    def outputs(
        self, pixels: NDArray[np.uint8], features: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Compute logits of pixels (n, 3, height, width) from 0 to 255, one image at a time, and features or None."""
        names = {value.name for value in self.session.get_inputs()}
        more = {"u": np.zeros(1)} if "u" in names else {}  # for randomized sets; logits do not depend on it
        wanted = ["logits", FEATURES] if features else ["logits"]
        outputs = zip(*(self.session.run(wanted, {"pixels": image[None]} | more) for image in pixels), strict=True)
        logits, *rest = map(np.concatenate, outputs)
        return logits, rest[0] if features else None

    def save(self, folder: Path, size: int, training: TrainingRecord) -> None:
        """Copy the weights to a new folder, with the training record."""
        shutil.copytree(self.weights, folder)
        training.save(folder)

    @cached_property
    def session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = n_threads(), 3
        return onnxruntime.InferenceSession(self.graph, options, providers=["CPUExecutionProvider"])


Runtime = Literal["auto", "onnxruntime"]
Backend: TypeAlias = "TorchNetwork | OnnxNetwork"


def load_backend(folder: Path, training: TrainingRecord, runtime: Runtime = "auto") -> tuple[Backend, int]:
    """Load a network from its weights if torch is installed, else from the ONNX graph next to the weights.

    With the runtime "onnxruntime", the graph is loaded in any case, and torch is not imported. Return the network, and
    the side in pixels of the images that it takes.

    Raises:
        InputError: the folder is damaged, or the graph was exported from another network.
        ImportError: torch is not installed, and the graph or onnxruntime is missing.
    """
    size, mean, sd = read_preprocessing(folder, training.classes)
    if has_torch() and runtime == "auto":
        import torch

        from pippin.images.training.network import make_network

        network = make_network(str(folder), training.classes, size, seed=0)
        network.model.eval().to(memory_format=torch.channels_last)
        return replace(network, views=training.views), size
    path = folder.parent / GRAPH
    if not path.is_file():
        if runtime == "onnxruntime":
            raise InputError(f"Expected the part {GRAPH} to run in onnxruntime, got none", "make the model with --onnx")
        need(f"A network without the part {GRAPH}", "vision", "torch", "transformers", "safetensors")
    need("A field model without torch", "field", "onnxruntime")
    graph = OnnxNetwork(path.read_bytes(), folder, mean, sd)
    try:
        metadata, inputs = graph.session.get_modelmeta().custom_metadata_map, graph.session.get_inputs()
    except Exception as error:  # onnxruntime has its own exception types
        raise InputError(f"The part {GRAPH} cannot be run", "make the model again with --onnx") from error
    shapes = [list(value.shape[1:]) for value in inputs if value.name == "pixels"]
    if not graph_metadata(training).items() <= metadata.items() or shapes != [[3, size, size]]:
        raise InputError(f"The part {GRAPH} is of another network than the weights", "make the model again with --onnx")
    return graph, size


# Export to ONNX, which needs the extra `vision`


def make_graph(network: "TorchNetwork", size: int, training: TrainingRecord, heads: list[Any]) -> bytes:
    """Export a network with predictors and deciders as one ONNX graph.

    The input is `pixels` (n, 3, size, size) uint8; the outputs are `logits`, `features` (the inputs of the last layer,
    if it is linear) and those of `pippin.export.onnx`.

    Args:
        network: the network to export.
        size: the side in pixels of the images that the network takes.
        training: record of the network's training, by which the graph identifies the network.
        heads: predictors and deciders, appended to the logits; those that cannot be exported are left out.

    Raises:
        InputError: torch cannot export this network, or the graph computes other logits than torch.
    """
    from onnx import helper

    graph = with_heads(_export(network, size), heads)
    metadata = {entry.key: entry.value for entry in graph.metadata_props}
    helper.set_model_props(graph, metadata | graph_metadata(training))
    content = bytes(graph.SerializeToString())
    check_logits(content, network, size)
    return content


def with_heads(graph: Any, heads: list[Any]) -> Any:
    """Append predictors and deciders (heads) to the output `logits` of a graph; skip those that cannot be exported."""
    from pippin.export.onnx import appended_model

    features = FEATURES if any(value.name == FEATURES for value in graph.graph.output) else None
    for head in heads:
        with contextlib.suppress(InputError):
            graph = appended_model(graph, head, "logits", "logits", features=features)
    return graph


def _export(network: "TorchNetwork", size: int) -> Any:
    import torch

    from pippin.images.training.network import shorten

    class FromPixels(torch.nn.Module):
        """Network with pixels from 0 to 255 as input, as for `TorchNetwork.outputs`, not from 0 to 1."""

        def __init__(self) -> None:
            super().__init__()
            self.model = network.model

        def forward(self, pixels: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
            views = network.make_views(pixels.float() / 255)
            if last is None:
                return network.merge_views(network(views))
            inputs: list[torch.Tensor] = []
            hook = last.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
            logits = network(views)
            hook.remove()
            return network.merge_views(logits), network.merge_views(inputs[0].flatten(1))

    pixels = torch.zeros((2, 3, size, size), dtype=torch.uint8, device=network.device)
    last = network.last_layer() if network.has_features else None
    outputs = ["logits", FEATURES] if network.has_features else ["logits"]
    names: dict[str, Any] = {"input_names": ["pixels"], "output_names": outputs}
    shapes, module = {"pixels": {0: torch.export.Dim("n")}}, FromPixels().eval()
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            program = torch.onnx.export(
                module, (pixels,), dynamo=True, dynamic_shapes=shapes, opset_version=EXPORTED, verbose=False, **names
            )
        assert program is not None
        model = program.model_proto
    except Exception as error:  # the exception type depends on the architecture
        sentence = f"torch cannot export this network to ONNX ({shorten(error)})"
        raise InputError(sentence, "leave --onnx out") from error
    finally:
        logger.setLevel(level)
    for node in model.graph.node:
        del node.metadata_props[:]  # remove the paths of local source files
    return _for_older_runtimes(model)


def _for_older_runtimes(model: Any) -> Any:
    """Convert a graph of opset 18 to the opset and file format of other exports; return it unchanged if impossible."""
    import onnx

    from pippin.export.onnx import IR_VERSION, OPSET

    older = onnx.ModelProto()
    older.CopyFrom(model)
    for node in older.graph.node:
        for attribute in [each for each in node.attribute if each.name == "noop_with_empty_axes" and not each.i]:
            node.attribute.remove(attribute)  # the default value, which the converter would leave in place
    try:
        older = onnx.version_converter.convert_version(older, OPSET)
        older.ir_version = IR_VERSION
        onnx.checker.check_model(older, full_check=True)
    except (RuntimeError, ValueError, onnx.checker.ValidationError):  # an operator without counterpart in this opset
        return model
    return older


def check_logits(content: bytes, network: "TorchNetwork", size: int) -> None:
    """Raise an InputError if onnxruntime and torch compute different logits or features for three random images."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, size, size), dtype=np.uint8)
    graph = OnnxNetwork(content, Path(), network.mean, network.sd)
    expected, actual = (each.outputs(pixels, graph.has_features) for each in (network, graph))
    for name, ours, theirs in zip(("logits", FEATURES), expected, actual, strict=True):
        if ours is not None and theirs is not None:
            apart = float(np.max(np.abs(theirs - ours) / (1 + np.abs(ours))))
            if not apart <= TOLERANCE:
                raise InputError(f"The ONNX graph gives other {name} than torch, by {apart:.2g}", "leave --onnx out")
