"""Sets as a part of an ONNX graph: every class ranked and scored, and held against its limit."""

import math
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from pippin._conformal.exportable import PortableSets
from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients
from pippin.export.onnx_graph import Graph, group_input


def add_sets(graph: Graph, given: PortableSets, probs: str, inputs: list[Any]) -> list[Any]:
    """Adds the sets behind probabilities; appends the inputs u and group where they are needed, returns the outputs."""
    n_classes = len(given.classes)
    count = graph.constant([n_classes], np.int64)
    ranked, order = graph.add("TopK", probs, count, outputs=2, axis=1, largest=1, sorted=1)
    p = graph.add("Cast", ranked, to=TensorProto.DOUBLE)
    u = None
    if given.score.randomized:
        draws = graph.name("u")
        inputs.append(helper.make_tensor_value_info(draws, TensorProto.DOUBLE, ["n"]))
        u = graph.add("Unsqueeze", draws, graph.constant([1], np.int64))
    scores = _linear(graph, given.c, p, u) if math.isnan(given.c.price) else _socop(graph, given.c, p)
    group = group_input(graph, given.groups, inputs)
    inside = graph.add("LessOrEqual", scores, _limits(graph, given.thresholds, group, order))
    if given.ranks is not None:
        ranks = graph.constant(np.arange(1, n_classes + 1), np.int64)
        reached = graph.add("LessOrEqual", ranks, _limits(graph, given.ranks.astype(np.int64), group, order))
        inside = graph.add("And", inside, reached)
    counts = graph.add("Cast", inside, to=TensorProto.INT64)
    sizes, classes, mask = (graph.name(name) for name in ("sizes", "classes", "mask"))
    graph.add("ReduceSum", counts, graph.constant([1], np.int64), name=sizes, keepdims=0)
    none = graph.constant(-1, np.int64)
    if given.ranks is None and given.thresholds.shape[1] == 1:
        graph.add("Where", inside, order, none, name=classes)
    else:
        members, listed = _members_first(graph, inside, order, n_classes)
        graph.add("Where", listed, members, none, name=classes)
    nobody = helper.make_tensor("none", TensorProto.BOOL, [1], [False])
    nothing = graph.add("ConstantOfShape", graph.add("Shape", order), value=nobody)
    graph.add("ScatterElements", nothing, order, inside, name=mask, axis=1)
    return [
        helper.make_tensor_value_info(sizes, TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info(classes, TensorProto.INT64, ["n", n_classes]),
        helper.make_tensor_value_info(mask, TensorProto.BOOL, ["n", n_classes]),
    ]


def _limits(graph: Graph, limits: Any, group: str | None, order: str) -> str:
    """The limits of each row's classes by rank; (1, 1) or (n, 1), where all classes share them."""
    if group is not None:
        own = graph.add("Gather", graph.constant(limits, limits.dtype), group, axis=0)
    elif limits.shape[1] == 1:
        return graph.constant(limits[0, 0], limits.dtype)
    else:
        return str(graph.add("Gather", graph.constant(limits[0], limits.dtype), order, axis=0))
    return str(own) if limits.shape[1] == 1 else str(graph.add("GatherElements", own, order, axis=1))


def _members_first(graph: Graph, inside: str, order: str, n_classes: int) -> tuple[str, str]:
    """The classes of each row with its members before all others, each in the order of their ranks; who is one."""
    ranks = np.arange(n_classes)
    before, behind = graph.constant(2 * n_classes - ranks, np.int64), graph.constant(n_classes - ranks, np.int64)
    keys = graph.add("Where", inside, before, behind)
    count = graph.constant([n_classes], np.int64)
    sorted_keys, place = graph.add("TopK", keys, count, outputs=2, axis=1, largest=1, sorted=1)
    listed = graph.add("Greater", sorted_keys, graph.constant(n_classes, np.int64))
    return str(graph.add("GatherElements", order, place, axis=1)), str(listed)


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
