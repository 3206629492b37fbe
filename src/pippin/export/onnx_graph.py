"""A piece of an ONNX graph in the making, and the input that says which group an object is in."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from pippin._conformal.exportable import KnownGroups

AXES_ARE_INPUTS = 18  # of ReduceMax and ReduceMin, from this opset on


class Graph:
    """Nodes and constants with unused names, in the order in which they are added."""

    def __init__(self, taken: set[str], opset: int) -> None:
        self.opset = opset
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

    def reduced(self, op: str, value: str, axis: int, keepdims: int = 0) -> str:
        """Adds ReduceMax or ReduceMin over one axis, an attribute before opset 18 and an input since."""
        if self.opset < AXES_ARE_INPUTS:
            return str(self.add(op, value, axes=[axis], keepdims=keepdims))
        return str(self.add(op, value, self.constant([axis], np.int64), keepdims=keepdims))

    def constant(self, value: Any, kind: Any = np.float64) -> str:
        """Adds a constant; returns its name."""
        name = self.name(f"pippin/constant_{len(self.constants)}")
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name


def group_input(graph: Graph, groups: KnownGroups | None, inputs: list[Any]) -> str | None:
    """Adds the input `group` (n,) int64; returns the row of limits of each object, None where all share one.

    A number that is none of the known groups' is that of the others where there is one, and else an error when it runs.
    """
    if groups is None:
        return None
    given = graph.name("group")
    inputs.append(helper.make_tensor_value_info(given, TensorProto.INT64, ["n"]))
    last = graph.constant(len(groups.names) - 1, np.int64)
    below, above = graph.add("Less", given, graph.constant(0, np.int64)), graph.add("Greater", given, last)
    beyond = graph.constant(len(groups.names), np.int64)  # the row of the others, or behind the last
    return str(graph.add("Where", graph.add("Or", below, above), beyond, given))
