"""A decider's part of an ONNX graph: masses of lines, and the line that β picks.

Outputs: `actions` (n,) int64 and `certificates` (n,) in double. Sums run in double, in the order of
`_engine/plain/decisions.py`, where there are at most SEVERAL outcomes. The line is the one of the largest
v + β·m, of equal ones that with the larger m: the same as the envelope's, but for lines that tie
within rounding.
"""

import math
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from pippin._predictors.decisions.decider import Decider
from pippin._theory.policy import Policy

SEVERAL = 64  # outcomes that are summed one by one


def add_decisions(graph: Any, decider: Decider, probs: str) -> list[Any]:
    """Adds the decisions behind probabilities; returns the outputs."""
    policy, beta = decider.utility.policy(decider.classes), decider.beta
    actions, certificates = graph.name("actions"), graph.name("certificates")
    p = graph.add("Cast", probs, to=TensorProto.DOUBLE)
    if math.isinf(beta):
        count = graph.add("Slice", graph.add("Shape", p), *(graph.constant([i], np.int64) for i in (0, 1)))
        lowest = float(policy.table[policy.safe].min())
        for name, value, kind in (
            (actions, policy.safe, TensorProto.INT64),
            (certificates, lowest, TensorProto.DOUBLE),
        ):
            graph.add("ConstantOfShape", count, name=name, value=helper.make_tensor("value", kind, [1], [value]))
    else:
        masses = _line_masses(graph, policy, _outcome_masses(graph, policy, p))
        line = _picked(graph, policy, beta, masses)
        graph.add("Gather", graph.constant(policy.action, np.int64), line, name=actions)
        graph.add("Gather", graph.constant(policy.value), line, name=certificates)
    return [
        helper.make_tensor_value_info(actions, TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info(certificates, TensorProto.DOUBLE, ["n"]),
    ]


def _outcome_masses(graph: Any, policy: Policy, p: str) -> str:
    """(n, outcomes)."""
    n_outcomes, n_classes = policy.n_outcomes, len(policy.outcome)
    if n_outcomes == n_classes:
        return p
    if n_outcomes > SEVERAL:
        inside = policy.outcome[:, None] == np.arange(n_outcomes)
        return str(graph.add("MatMul", p, graph.constant(inside)))
    parts = []
    for c in range(n_outcomes):
        own = policy.grouped[policy.ends[c] : policy.ends[c + 1]]
        sums = graph.add("CumSum", graph.add("Gather", p, graph.constant(own, np.int64), axis=1), _one(graph))
        parts.append(graph.add("Gather", sums, graph.constant([len(own) - 1], np.int64), axis=1))
    return str(graph.add("Concat", *parts, axis=1))


def _line_masses(graph: Any, policy: Policy, outcomes: str) -> str:
    """(n, lines): the masses of each action's lines, then brought into their order."""
    parts, order = [], []
    for a in range(policy.order.shape[1]):
        own = np.flatnonzero(policy.action == a)
        ranked = graph.add("Gather", outcomes, graph.constant(policy.order[:, a], np.int64), axis=1)
        sums = graph.add("CumSum", ranked, _one(graph))
        parts.append(graph.add("Gather", sums, graph.constant(policy.reach[own] - 1, np.int64), axis=1))
        order.append(own)
    together = graph.add("Concat", *parts, axis=1)
    masses = graph.add("Gather", together, graph.constant(np.argsort(np.concatenate(order)), np.int64), axis=1)
    last = graph.constant([policy.n_outcomes - 1], np.int64)
    whole = graph.add("Gather", graph.add("CumSum", outcomes, _one(graph)), last, axis=1)
    return str(graph.add("Where", graph.constant(policy.reach == policy.n_outcomes, np.bool_), whole, masses))


def _picked(graph: Any, policy: Policy, beta: float, masses: str) -> str:
    """The number of each row's line."""
    height = graph.add("Add", graph.constant(policy.value), graph.add("Mul", graph.constant(beta), masses))
    top = graph.add("ReduceMax", height, axes=[1], keepdims=1)
    best = graph.add("GreaterOrEqual", height, top)
    heavy = graph.add("Where", best, masses, graph.constant(-1.0))
    return str(graph.add("ArgMax", heavy, axis=1, keepdims=0))


def _one(graph: Any) -> str:
    return str(graph.constant(1, np.int64))
