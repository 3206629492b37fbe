"""A predictor as an ONNX graph: alone, or behind a classifier's own graph.

Inputs: `probs` or `logits` (n, K), and `u` (n,) in double for a randomised score.
Outputs: `sizes` (n,) int64; `classes` (n, K) int64, the members, most probable first, then
−1; `mask` (n, K) bool. Of a decider, those of `onnx_decisions.py`. Scores are computed in double, in the order of
the formula, `score_at`; equal probabilities are ranked by class index.
"""
# ruff: noqa: E402 - the extra is asked for before it is imported

import json
import math
from typing import Any

import numpy as np

from pippin._runtime.extras import need

need("pippin.export.onnx", "onnx", "onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper

from pippin._predictors.decisions.decider import Decider
from pippin._predictors.marginal import Predictor
from pippin._runtime.errors import InputError
from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients
from pippin._theory.scores import coefficients
from pippin.export.kinds import exportable
from pippin.export.onnx_decisions import add_decisions

OPSET = 17
OLDEST = 13  # of a classifier's graph that the head is added to
IR_VERSION = 8
PASSES_ON = ("Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout")
ENDS = {"Softmax": "probs"} | dict.fromkeys(("LogSoftmax", "Gemm", "MatMul", "Conv"), "logits")
FLOATS = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}


class Graph:
    """Nodes and constants with unused names, in the order in which they are added."""

    def __init__(self, taken: set[str]) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.taken = taken

    def name(self, wanted: str) -> str:
        """The name itself, or one made from it that is not taken."""
        while wanted in self.taken:
            wanted = f"pippin_{wanted}"
        self.taken.add(wanted)
        return wanted

    def add(self, op: str, *inputs: str, outputs: int = 1, name: str | None = None, **attributes: Any) -> Any:
        """Adds a node; returns the names of its outputs."""
        names = [name or self.name(f"pippin/{op}_{len(self.nodes)}_{i}") for i in range(outputs)]
        label = self.name(f"pippin/{op}_{len(self.nodes)}")
        self.nodes.append(helper.make_node(op, list(inputs), names, name=label, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: Any, kind: Any = np.float64) -> str:
        """Adds a constant; returns its name."""
        name = self.name(f"pippin/constant_{len(self.constants)}")
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name


def head_model(predictor: Predictor | Decider, source: str = "probs", dtype: str = "float32") -> onnx.ModelProto:
    """The head alone.

    Args:
        predictor: one with a single threshold, or a decider with a single β.
        source: what it takes, "probs" or "logits".
        dtype: what these numbers are, "float32" or "float64".

    >>> import pippin
    >>> data = pippin.load_example()
    >>> model = head_model(pippin.calibrate(data.probs, data.labels, "pip", classes=data.classes))
    >>> [output.name for output in model.graph.output]
    ['sizes', 'classes', 'mask']
    """
    predictor = exportable(predictor)
    kind = next((number for number, name in FLOATS.items() if name == dtype), None)
    if kind is None:
        raise InputError(f"Expected the type float32 or float64, got {dtype!r}")
    graph = Graph({source})
    inputs = [helper.make_tensor_value_info(source, kind, ["n", len(predictor.classes)])]
    outputs = _add_head(graph, predictor, source, source, inputs)
    made = helper.make_graph(graph.nodes, "pippin", inputs, outputs, graph.constants)
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="pippin"
    )
    _describe(model, predictor)
    onnx.checker.check_model(model, full_check=True)
    return model


def appended_model(
    model: onnx.ModelProto, predictor: Predictor | Decider, source: str | None = None, output: str | None = None
) -> onnx.ModelProto:
    """The classifier's graph with the head behind its output of probabilities (or logits).

    The classifier's outputs stay, and the opset too, if it is at least 13.

    Args:
        model: the classifier's graph.
        predictor: one with a single threshold, or a decider with a single β.
        source: what the classifier gives, "probs" or "logits"; if not given, what the end of its graph tells.
        output: the output that holds them; if not given, the only one of floats with K columns.
    """
    predictor = exportable(predictor)
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    version = max((o.version for o in whole.opset_import if o.domain in ("", "ai.onnx")), default=0)
    if version < OLDEST:
        whole = onnx.version_converter.convert_version(whole, OPSET)
    chosen = _chosen_output(whole.graph, len(predictor.classes), output)
    graph = Graph(_names(whole.graph))
    inputs: list[Any] = []
    outputs = _add_head(graph, predictor, chosen, source or _told_source(whole.graph, chosen), inputs)
    whole.graph.node.extend(graph.nodes)
    whole.graph.initializer.extend(graph.constants)
    whole.graph.input.extend(inputs)
    whole.graph.output.extend(outputs)
    _describe(whole, predictor)
    onnx.checker.check_model(whole)
    return whole


def _add_head(graph: Graph, predictor: Predictor | Decider, given: str, source: str, inputs: list[Any]) -> list[Any]:
    """Adds the head behind `given`; appends the input u where it is needed, returns the outputs."""
    if source not in ("probs", "logits"):
        raise InputError(f"Expected the input to be probs or logits, got {source!r}")
    if source == "logits":
        given = graph.add("Softmax", graph.add("Cast", given, to=TensorProto.DOUBLE), axis=1)
    if isinstance(predictor, Decider):
        return add_decisions(graph, predictor, given)
    n_classes = len(predictor.classes)
    c = coefficients(predictor.score, n_classes)
    count = graph.constant([n_classes], np.int64)
    ranked, order = graph.add("TopK", given, count, outputs=2, axis=1, largest=1, sorted=1)
    p = graph.add("Cast", ranked, to=TensorProto.DOUBLE)
    u = None
    if predictor.score.randomized:
        draws = graph.name("u")
        inputs.append(helper.make_tensor_value_info(draws, TensorProto.DOUBLE, ["n"]))
        u = graph.add("Unsqueeze", draws, graph.constant([1], np.int64))
    scores = _linear(graph, c, p, u) if math.isnan(c.price) else _socop(graph, c, p)
    inside = graph.add("LessOrEqual", scores, graph.constant(predictor.threshold))
    counts = graph.add("Cast", inside, to=TensorProto.INT64)
    sizes, classes, mask = (graph.name(name) for name in ("sizes", "classes", "mask"))
    graph.add("ReduceSum", counts, graph.constant([1], np.int64), name=sizes, keepdims=0)
    graph.add("Where", inside, order, graph.constant(-1, np.int64), name=classes)
    none = helper.make_tensor("none", TensorProto.BOOL, [1], [False])
    nothing = graph.add("ConstantOfShape", graph.add("Shape", order), value=none)
    graph.add("ScatterElements", nothing, order, inside, name=mask, axis=1)
    return [
        helper.make_tensor_value_info(sizes, TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info(classes, TensorProto.INT64, ["n", n_classes]),
        helper.make_tensor_value_info(mask, TensorProto.BOOL, ["n", n_classes]),
    ]


def _linear(graph: Graph, c: Coefficients, p: str, u: str | None) -> str:
    """`score_at` of a linear score, rank by rank; without u, u·0 is left out, which changes no bit."""

    def with_u(fixed: int, drawn: int) -> str:
        column = graph.constant(c.table[:, fixed])
        if u is None:
            return column
        return str(graph.add("Add", column, graph.add("Mul", u, graph.constant(c.table[:, drawn]))))

    weighted = graph.add("Mul", graph.constant(c.table[:, ABOVE]), p)
    mass = graph.add("CumSum", weighted, graph.constant(1, np.int64), exclusive=1)
    if c.second:
        one, two, end = (graph.constant([i], np.int64) for i in (1, 2, len(c.table)))
        first = graph.add("Mul", graph.constant(c.second), graph.add("Slice", p, one, two, one))
        mass = graph.add("Concat", first, graph.add("Slice", mass, one, end, one), axis=1)
    own = graph.add("Mul", with_u(OWN, OWN_U), p)
    score = graph.add("Add", graph.add("Add", graph.constant(c.constant), own), mass)
    return str(graph.add("Add", score, with_u(PENALTY, PENALTY_U)))


def _socop(graph: Graph, c: Coefficients, p: str) -> str:
    """max(1/p, τ) with τ reached by walking m = 2, 3, … as long as the ratio falls; 1/p at rank 1."""
    k = len(c.table)
    one = graph.constant([1], np.int64)
    below = graph.add("Slice", p, one, graph.constant([k], np.int64), one)
    counts = graph.constant(np.arange(1, k) + c.price)
    ratio = graph.add("Div", counts, graph.add("CumSum", below, graph.constant(1, np.int64)))
    tau = ratio
    if k > 2:
        zero, last, end = (graph.constant([i], np.int64) for i in (0, k - 2, k - 1))
        following = graph.add("Slice", ratio, one, end, one)
        before = graph.add("Slice", ratio, zero, last, one)
        stays = graph.add("Cast", graph.add("Not", graph.add("Less", following, before)), to=TensorProto.INT32)
        ends = graph.add("Pad", stays, graph.constant([0, 0, 0, 1], np.int64), graph.constant(1, np.int32))
        place = graph.add("ArgMax", ends, axis=1, keepdims=1, select_last_index=0)
        tau = graph.add("GatherElements", ratio, place, axis=1)
    is_first = graph.constant(np.arange(k) == 0, np.bool_)
    mass = graph.add("Where", is_first, graph.constant(0.0), tau)
    own = graph.add("Div", graph.constant(1.0), graph.add("Abs", p))  # −0.0 is 0, and no optimiser drops it
    return str(graph.add("Max", own, mass))


def _describe(model: onnx.ModelProto, predictor: Predictor | Decider) -> None:
    """Score or actions, level and class names, as metadata."""
    if isinstance(predictor, Decider):
        own = {"pippin.actions": json.dumps(list(predictor.utility.actions)), "pippin.beta": repr(predictor.beta)}
    else:
        own = {"pippin.score": str(predictor.score), "pippin.threshold": repr(predictor.threshold)}
    told = {
        **own,
        "pippin.alpha": repr(predictor.alpha),
        "pippin.n_calibration": str(predictor.n_calibration),
        "pippin.classes": json.dumps(list(predictor.classes)),
    }
    kept = {entry.key: entry.value for entry in model.metadata_props}
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
