"""Export of predictors and deciders as ONNX graphs, alone or appended to the graph of a classifier.

Inputs of a graph:

- `probs` or `logits` (n, K); with a stack of M models (n, M·K), the columns of model after model;
- `features` (n, M) float32, for a sharpener with features;
- `u` (n,) float64, random numbers between 0 and 1, for a randomized score;
- `group` (n,) int64, the number of each row's group, for thresholds per group.

Outputs of a predictor:

- `sizes` (n,) int64, the size of each set;
- `classes` (n, K) int64, the classes in each set, most probable first, then −1;
- `mask` (n, K) bool, True for the classes in the set.

Outputs of a decider:

- `actions` (n,) int64, the index of each row's action;
- `certificates` (n,) float64, the utility that each action has with a guaranteed probability of 1 − alpha.

Equal probabilities are ranked by class index. With precision "float32", all float64 are float32, and all int64 int32.
"""
# ruff: noqa: E402 - `need` checks that onnx is installed before its import

import json

from pippin._runtime.arguments import checked
from pippin._runtime.errors import InputError, need

need("pippin.export.onnx", "onnx", "onnx")

import onnx
from onnx import TensorProto, helper

from pippin._conformal.exportable import ExportableDecisions, ExportableSets, exportable, models_of
from pippin._conformal.predictor import ConformalPredictor
from pippin._decisions.decider import Decider
from pippin._runtime.version import __version__
from pippin.export.onnx_heads import (
    PRECISIONS,
    SHARPENER_ERROR,
    SOFTMAX_ERROR,
    Graph,
    add_decisions,
    add_sets,
    add_sharpener,
)

__all__ = ["appended_model", "head_model"]

OPSET = 17
OLDEST, NEWEST = 13, 21  # opsets that can be written; an older graph of a classifier is converted to OPSET
IR_VERSION = 8  # version of the file format, unless the opset needs a newer one
PASSES_ON = ("Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout")
ENDS = {"Softmax": "probs"} | dict.fromkeys(("LogSoftmax", "Gemm", "MatMul", "Conv"), "logits")
FLOATS = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}

Exported = ConformalPredictor | Decider


@checked
def head_model(
    predictor: Exported,
    source: str = "probs",
    dtype: str = "float32",
    *,
    precision: str = "float64",
    opset: int = OPSET,
) -> onnx.ModelProto:
    """Export a predictor or decider as an ONNX graph.

    Args:
        predictor: a predictor with finitely many thresholds, or a decider; at most one sharpener (recalibration map).
        source: the input of the graph, "probs" or "logits".
        dtype: the type of the input, "float32" or "float64".
        precision: "float64" for the sets of Python; "float32" for accelerators, with thresholds rounded up so that
            coverage is not below the guarantee, and with 32-bit types only.
        opset: version of the operators, from 13 to 21.

    Returns:
        The ONNX model.

    Raises:
        InputError: the predictor cannot be exported, or an argument is invalid.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> model = head_model(pippin.calibrate(data.probs, data.labels, "pip", classes=data.classes))
    >>> [output.name for output in model.graph.output]
    ['sizes', 'classes', 'mask']
    """
    given = exportable(predictor)
    types = {name: number for number, name in FLOATS.items()}
    if dtype not in types:
        raise InputError(f"Expected the type float32 or float64, got {dtype!r}")
    _check_precision(precision, opset)
    if precision == "float32" and dtype != "float32":
        raise InputError(f"Expected input of type float32 for precision='float32', got {dtype!r}", "leave dtype= out")
    graph = Graph({source}, opset, precision, _input_error(given, source))
    _add_head(graph, given, source, source)
    columns = len(predictor.classes) * models_of(given)
    inputs = [helper.make_tensor_value_info(source, types[dtype], ["n", columns]), *graph.inputs]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "pippin", inputs, graph.outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=max(IR_VERSION, helper.find_min_ir_version_for([helper.make_opsetid("", opset)])),
        producer_name="pippin",
        producer_version=__version__,
    )
    _describe(model, given, precision)
    onnx.checker.check_model(model, full_check=True)
    return model


def _check_precision(precision: str, opset: int | None) -> None:
    """Raise an InputError unless graphs of this precision and opset can be written."""
    if precision not in PRECISIONS:
        raise InputError(f"Expected the precision float64 or float32, got {precision!r}")
    if opset is not None and (not isinstance(opset, int) or not OLDEST <= opset <= NEWEST):
        raise InputError(f"Expected an opset from {OLDEST} to {NEWEST}, got {opset!r}", f"use {OPSET}")


def _input_error(given: ExportableSets | ExportableDecisions, source: str) -> float:
    """Return the assumed relative error of the probabilities, if the graph computes in float32."""
    steps = 0 if given.sharpener is None else 1 if given.sharpener.pool is None else 2  # a pool is a step of its own
    return (SOFTMAX_ERROR if source == "logits" else 0.0) + steps * SHARPENER_ERROR


@checked
def appended_model(
    model: onnx.ModelProto,
    predictor: Exported,
    source: str | None = None,
    output: str | None = None,
    *,
    features: str | None = None,
    precision: str = "float64",
    opset: int | None = None,
) -> onnx.ModelProto:
    """Append a predictor or decider to the ONNX graph of a classifier.

    The graph keeps the outputs of the classifier. Its opset is kept too, unless it is below 13 or `opset` is given.

    Args:
        model: the graph of the classifier.
        predictor: a predictor with finitely many thresholds, or a decider; at most one sharpener (recalibration map).
        source: "probs" or "logits", which the classifier's output holds; by default derived from the last operation.
        output: the name of the output with probabilities or logits; by default the only one of floats with K columns.
        features: the name of the output with the features of a sharpener that takes some; by default they are a new
            input of the graph.
        precision: "float64" for the sets of Python; "float32" for accelerators, see `head_model`.
        opset: version of the operators to which the graph is converted, from 13 to 21.

    Returns:
        A new model, whose outputs are those of the classifier and of the predictor.

    Raises:
        InputError: the predictor cannot be exported, or the output is not found or ambiguous.

    >>> import onnx, pippin
    >>> from onnx import TensorProto, helper
    >>> data = pippin.load_example()
    >>> shape = ["n", len(data.classes)]
    >>> ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("scores", "probs")]
    >>> node = helper.make_node("Softmax", ["scores"], ["probs"], axis=1)
    >>> classifier = helper.make_model(helper.make_graph([node], "classifier", ends[:1], ends[1:]))
    >>> model = appended_model(classifier, pippin.calibrate(data.probs, data.labels, "pip", classes=data.classes))
    >>> [output.name for output in model.graph.output]
    ['probs', 'sizes', 'classes', 'mask']
    """
    given = exportable(predictor)
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    version = max((o.version for o in whole.opset_import if o.domain in ("", "ai.onnx")), default=0)
    _check_precision(precision, opset)
    wanted = opset or (OPSET if version < OLDEST else version)
    if version != wanted:
        whole, version = onnx.version_converter.convert_version(whole, wanted), wanted
    chosen = _chosen_output(whole.graph, len(predictor.classes) * models_of(given), output)
    kind = source or _source_of(whole.graph, chosen)
    graph = Graph(_names(whole.graph), version, precision, _input_error(given, kind))
    _add_head(graph, given, chosen, kind, features)
    whole.graph.node.extend(graph.nodes)
    whole.graph.initializer.extend(graph.constants)
    whole.graph.input.extend(graph.inputs)
    whole.graph.output.extend(graph.outputs)
    _describe(whole, given, precision)
    onnx.checker.check_model(whole)
    return whole


def _add_head(
    graph: Graph,
    given: ExportableSets | ExportableDecisions,
    values: str,
    source: str,
    features: str | None = None,
) -> None:
    """Add a predictor or decider to a graph, from `values`, which are probabilities or logits as `source` says."""
    if source not in ("probs", "logits"):
        raise InputError(f"Expected the input to be probs or logits, got {source!r}")
    if given.sharpener is not None and given.sharpener.pool is not None:  # one row per object and model
        values = graph.add("Reshape", values, graph.integers([-1, given.sharpener.classes]))
    if source == "logits":
        values = graph.add("Softmax", graph.add("Cast", values, to=graph.real), axis=1)
    elif graph.single:
        values = graph.add("Cast", values, to=TensorProto.FLOAT)
    if given.sharpener is not None:
        values = add_sharpener(graph, given.sharpener, values, features)
    if isinstance(given, ExportableDecisions):
        add_decisions(graph, given, values)
    else:
        add_sets(graph, given, values)


def _describe(model: onnx.ModelProto, given: ExportableSets | ExportableDecisions, precision: str) -> None:
    """Add metadata: score or actions, alpha, a single threshold or β of decisions, names, guarantee, and card."""
    source = given.source
    if isinstance(given, ExportableDecisions):
        entries = {"pippin.actions": json.dumps(list(given.source.utility.actions))}
        limits, name, kind = given.betas, "pippin.beta", "decisions"
    else:
        entries = {"pippin.score": str(given.source.score)}
        limits, name, kind = given.thresholds, "pippin.threshold", "sets"
    if limits.size == 1:
        entries[name] = repr(float(limits[0, 0]))
    if given.groups is not None:
        entries["pippin.groups"] = json.dumps(list(given.groups.names))
    kept = {entry.key: entry.value for entry in model.metadata_props}
    part = f"pippin.{kind}." if "pippin.alpha" in kept else "pippin."  # a second predictor in a graph gets its own keys
    entries |= {
        f"{part}alpha": repr(source.alpha),
        f"{part}n_calibration": str(source.n_calibration),
        "pippin.classes": json.dumps(list(source.classes)),
        "pippin.precision": precision,
        f"{part}promises": source.describe(),
        f"{part}card": json.dumps(source.card()),
    }
    helper.set_model_props(model, {**kept, **entries})


def _names(graph: onnx.GraphProto) -> set[str]:
    """Return all names of nodes and values in a graph, which new nodes and values must not have."""
    used = {value.name for part in (graph.input, graph.output, graph.initializer, graph.value_info) for value in part}
    return used.union(*({node.name, *node.input, *node.output} for node in graph.node))


def _source_of(graph: onnx.GraphProto, output: str) -> str:
    """Return "probs" or "logits", depending on the operation that computes an output.

    Raises:
        InputError: the operation can compute probabilities as well as logits.
    """
    producers = {name: node for node in graph.node for name in node.output}
    node = producers.get(output)
    while node is not None and node.op_type in PASSES_ON:
        node = producers.get(node.input[0])
    op = "nothing" if node is None else node.op_type
    if node is not None and op == "Add" and {value.name for value in graph.initializer} & set(node.input):
        return "logits"  # adding a constant, the bias, is the end of a linear layer
    if op in ENDS:
        return ENDS[op]
    what = f"Expected an output of probabilities or logits, got {output!r}, computed by {op}, which can be either"
    raise InputError(what, "pass source='probs' or source='logits'", "pass --input probs or --input logits")


def _chosen_output(graph: onnx.GraphProto, n_classes: int, wanted: str | None) -> str:
    """Return the name of the output with one float per class: `wanted`, or by default the only such output."""
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
    expected = "one output" if wanted is None else f"the output {wanted!r} to be"
    what = f"Expected {expected} of floats with {n_classes} columns, got the outputs {names} ({len(fits)} fit)"
    raise InputError(what, "name the one with the probabilities or logits with --output")
