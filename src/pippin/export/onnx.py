"""A predictor as an ONNX graph: alone, or behind a classifier's own graph.

Inputs: `probs` or `logits` (n, K), `u` (n,) in double for a randomised score, and `group` (n,) int64 where limits are
per group. Outputs: `sizes` (n,) int64; `classes` (n, K) int64, the members, most probable first, then
−1; `mask` (n, K) bool. Of a decider, those of `onnx_decisions.py`. Scores are computed in double, in the order of
the formula, `score_at`; equal probabilities are ranked by class index.
"""
# ruff: noqa: E402 - the extra is asked for before it is imported

import json
from typing import Any

from pippin._runtime.errors import need

need("pippin.export.onnx", "onnx", "onnx")

import onnx
from onnx import TensorProto, helper

from pippin._conformal.exportable import PortableDecisions, PortableSets, portable
from pippin._conformal.predictor import ConformalPredictor
from pippin._decisions.decider import Decider
from pippin._runtime.errors import InputError
from pippin.export.onnx_decisions import add_decisions
from pippin.export.onnx_graph import Graph, group_input
from pippin.export.onnx_sets import add_sets

__all__ = ["appended_model", "head_model"]

OPSET = 17
OLDEST = 13  # of a classifier's graph that the head is added to
IR_VERSION = 8
PASSES_ON = ("Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout")
ENDS = {"Softmax": "probs"} | dict.fromkeys(("LogSoftmax", "Gemm", "MatMul", "Conv"), "logits")
FLOATS = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}


Exported = ConformalPredictor | Decider


def head_model(predictor: Exported, source: str = "probs", dtype: str = "float32") -> onnx.ModelProto:
    """The head alone.

    Args:
        predictor: one with finitely many thresholds, or a decider.
        source: what it takes, "probs" or "logits".
        dtype: what these numbers are, "float32" or "float64".

    >>> import pippin
    >>> data = pippin.load_example()
    >>> model = head_model(pippin.calibrate(data.probs, data.labels, "pip", classes=data.classes))
    >>> [output.name for output in model.graph.output]
    ['sizes', 'classes', 'mask']
    """
    given = portable(predictor)
    kind = next((number for number, name in FLOATS.items() if name == dtype), None)
    if kind is None:
        raise InputError(f"Expected the type float32 or float64, got {dtype!r}")
    graph = Graph({source}, OPSET)
    inputs = [helper.make_tensor_value_info(source, kind, ["n", len(given.classes)])]
    outputs = _add_head(graph, given, source, source, inputs)
    made = helper.make_graph(graph.nodes, "pippin", inputs, outputs, graph.constants)
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="pippin"
    )
    _describe(model, given)
    onnx.checker.check_model(model, full_check=True)
    return model


def appended_model(
    model: onnx.ModelProto, predictor: Exported, source: str | None = None, output: str | None = None
) -> onnx.ModelProto:
    """The classifier's graph with the head behind its output of probabilities (or logits).

    The classifier's outputs stay, and the opset too, if it is at least 13.

    Args:
        model: the classifier's graph.
        predictor: one with finitely many thresholds, or a decider.
        source: what the classifier gives, "probs" or "logits"; if not given, what the end of its graph tells.
        output: the output that holds them; if not given, the only one of floats with K columns.
    """
    given = portable(predictor)
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    version = max((o.version for o in whole.opset_import if o.domain in ("", "ai.onnx")), default=0)
    if version < OLDEST:
        whole, version = onnx.version_converter.convert_version(whole, OPSET), OPSET
    chosen = _chosen_output(whole.graph, len(given.classes), output)
    graph = Graph(_names(whole.graph), version)
    inputs: list[Any] = []
    outputs = _add_head(graph, given, chosen, source or _told_source(whole.graph, chosen), inputs)
    whole.graph.node.extend(graph.nodes)
    whole.graph.initializer.extend(graph.constants)
    whole.graph.input.extend(inputs)
    whole.graph.output.extend(outputs)
    _describe(whole, given)
    onnx.checker.check_model(whole)
    return whole


def _add_head(
    graph: Graph, given: PortableSets | PortableDecisions, values: str, source: str, inputs: list[Any]
) -> list[Any]:
    """Adds the head behind `values`; appends the inputs u and group where they are needed, returns the outputs."""
    if source not in ("probs", "logits"):
        raise InputError(f"Expected the input to be probs or logits, got {source!r}")
    if source == "logits":
        values = graph.add("Softmax", graph.add("Cast", values, to=TensorProto.DOUBLE), axis=1)
    if isinstance(given, PortableDecisions):
        return add_decisions(graph, given, values, group_input(graph, given.groups, inputs))
    return add_sets(graph, given, values, inputs)


def _describe(model: onnx.ModelProto, given: PortableSets | PortableDecisions) -> None:
    """Score or actions, level, names of classes and groups, and what is promised, as metadata."""
    if isinstance(given, PortableDecisions):
        own = {"pippin.actions": json.dumps(list(given.actions))}
        limits, name = given.betas, "pippin.beta"
    else:
        own = {"pippin.scores.score": str(given.score)}
        limits, name = given.thresholds, "pippin.threshold"
    if limits.size == 1:
        own[name] = repr(float(limits[0, 0]))
    if given.groups is not None:
        own["pippin.groups"] = json.dumps(list(given.groups.names))
    kept = {entry.key: entry.value for entry in model.metadata_props}
    other = "pippin.alpha" in kept  # a head stands there already: this one's words are told apart
    part = "pippin." + (("decisions." if isinstance(given, PortableDecisions) else "sets.") if other else "")
    told = {
        **own,
        f"{part}alpha": repr(given.alpha),
        f"{part}n_calibration": str(given.n_calibration),
        "pippin.classes": json.dumps(list(given.classes)),
        f"{part}promises": given.describe(),
    }
    helper.set_model_props(model, {**kept, **told})


def _names(graph: Any) -> set[str]:
    """Every name that the graph uses."""
    used = {value.name for part in (graph.input, graph.output, graph.initializer, graph.value_info) for value in part}
    return used.union(*({node.name, *node.input, *node.output} for node in graph.node))


def _told_source(graph: Any, output: str) -> str:
    """Whether an output holds probabilities or logits, by the operation that makes it.

    Raises:
        InputError: the operation could make either.
    """
    made_by = {name: node for node in graph.node for name in node.output}
    node = made_by.get(output)
    while node is not None and node.op_type in PASSES_ON:
        node = made_by.get(node.input[0])
    op = "nothing" if node is None else node.op_type
    if node is not None and op == "Add" and {value.name for value in graph.initializer} & set(node.input):
        return "logits"  # a bias
    if op in ENDS:
        return ENDS[op]
    raise InputError(
        f"Cannot tell whether the output {output!r} holds probabilities or logits, since it comes from {op}",
        "say which, source='probs' or source='logits'",
        "say which, --input probs or --input logits",
    )


def _chosen_output(graph: Any, n_classes: int, wanted: str | None) -> str:
    """The output that holds one number per class."""
    fits = []
    for value in graph.output:
        tensor = value.type.tensor_type
        shape = tensor.shape.dim
        known = shape[-1].dim_value if len(shape) else 0
        if tensor.elem_type in FLOATS and len(shape) in (0, 2) and known in (0, n_classes):
            fits.append(value.name)
    if wanted in fits or (wanted is None and len(fits) == 1):
        return wanted or fits[0]
    names = ", ".join(value.name for value in graph.output) or "none"
    looked = "one output" if wanted is None else f"the output {wanted!r} to be"
    raise InputError(
        f"Expected {looked} of floats with {n_classes} columns, got the outputs {names} ({len(fits)} fit)",
        "name the one with the probabilities or logits with --output",
    )
