"""A decider's part of an ONNX graph: masses of lines, and the line that β picks.

Outputs: `actions` (n,) int64 and `certificates` (n,) in double. Sums run in double, in the order of
`_engine/numpy_engine.py`, where there are at most SEVERAL outcomes. The line is the one of the largest
v + β·m, of equal ones that with the larger m: the same as the envelope's, but for lines that tie
within rounding. Where a probability is NaN, it is the action whose worst case is best, and −∞ is certified.

Where there are several β, the envelope itself is found: line t is on it from β = max (v_s − v_t)/(m_t − m_s) over the
lines s with less mass to min (v_t − v_s)/(m_s − m_t) over those with more. Where β differs by outcome, an outcome is
within its limit unless a line that breaks its certificate is on the envelope beyond that limit.
"""

import math
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from pippin._conformal.exportable import PortableDecisions
from pippin._theory.policy import Policy
from pippin.export.onnx_graph import Graph

SEVERAL = 64  # outcomes that are summed one by one


def add_decisions(graph: Graph, given: PortableDecisions, probs: str, group: str | None) -> list[Any]:
    """Adds the decisions behind probabilities, `group` the row of β of each object; returns the outputs."""
    policy = given.policy
    actions, certificates = graph.name("actions"), graph.name("certificates")
    p = graph.add("Cast", probs, to=TensorProto.DOUBLE)
    if given.betas.size == 1 and math.isinf(given.betas[0, 0]) and group is None:
        count = graph.add("Slice", graph.add("Shape", p), *(graph.constant([i], np.int64) for i in (0, 1)))
        for name, value, kind in (
            (actions, policy.safe, TensorProto.INT64),
            (certificates, given.lowest, TensorProto.DOUBLE),
        ):
            graph.add("ConstantOfShape", count, name=name, value=helper.make_tensor("value", kind, [1], [value]))
    else:
        masses = _line_masses(graph, policy, _outcome_masses(graph, policy, p))
        if given.betas.size == 1 and group is None:
            line = _picked(graph, policy, graph.constant(given.betas[0, 0]), masses)
            found = graph.add("Gather", graph.constant(policy.action, np.int64), line)
            worth = graph.add("Gather", graph.constant(policy.value), line)
        else:
            found, worth = _several(graph, given, masses, group)
        broken = graph.add("Cast", graph.add("IsNaN", masses), to=TensorProto.INT32)
        broken = graph.add("Cast", graph.reduced("ReduceMax", broken, 1), to=TensorProto.BOOL)
        graph.add("Where", broken, graph.constant(policy.safe, np.int64), found, name=actions)
        graph.add("Where", broken, graph.constant(-np.inf), worth, name=certificates)
    return [
        helper.make_tensor_value_info(actions, TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info(certificates, TensorProto.DOUBLE, ["n"]),
    ]


def _several(graph: Graph, given: PortableDecisions, masses: str, group: str | None) -> tuple[str, str]:
    """Actions and certificates where β differs by group, by outcome, or by both."""
    policy, finite = given.policy, np.where(np.isinf(given.betas), -1.0, given.betas)
    highest = given.betas.max(axis=1, keepdims=True)
    starts, ends = _envelope(graph, policy, masses)
    reached = graph.add("LessOrEqual", starts, _own(graph, np.where(np.isinf(highest), 0.0, highest), group))
    heavy = graph.add("Where", reached, masses, graph.constant(-1.0))
    line = graph.add("ArgMax", heavy, axis=1, keepdims=1)
    sure = _own(graph, np.isinf(highest), group)
    safe, lowest = graph.constant(policy.safe, np.int64), graph.constant(given.lowest)
    found = graph.add("Where", sure, safe, graph.add("Gather", graph.constant(policy.action, np.int64), line))
    worth = graph.add("Where", sure, lowest, graph.add("Gather", graph.constant(policy.value), line))
    if given.betas.shape[1] > 1:
        inside = _within(graph, policy, _own(graph, finite, group), ends)
        inside = graph.add("Or", inside, _own(graph, np.isinf(given.betas), group))
        worst = graph.add("Where", _spread(graph, inside, 1), graph.constant(policy.table), graph.constant(np.inf))
        worst = graph.reduced("ReduceMin", worst, 2)
        best = graph.add("ArgMax", worst, axis=1, keepdims=1)
        some = graph.reduced("ReduceMax", graph.add("Cast", inside, to=TensorProto.INT32), 1, keepdims=1)
        some = graph.add("Cast", some, to=TensorProto.BOOL)
        found = graph.add("Where", some, best, found)
        worth = graph.add("Where", some, graph.add("GatherElements", worst, best, axis=1), worth)
    first, second = (graph.add("Squeeze", value, graph.constant([1], np.int64)) for value in (found, worth))
    return str(first), str(second)


def _envelope(graph: Graph, policy: Policy, masses: str) -> tuple[str, str]:
    """(n, lines): the β from which on each line is on the envelope, and up to which; ∞ and −1 if it never is."""
    own, others = (_spread(graph, masses, axis) for axis in (2, 1))  # line t, and lines s beside it
    ahead = graph.add("Sub", others, own)
    zero, never, infinite = (graph.constant(value) for value in (0.0, -1.0, np.inf))
    more, less = graph.add("Greater", ahead, zero), graph.add("Less", ahead, zero)
    differ = graph.add("Or", more, less)
    falls = graph.constant(policy.value[:, None] - policy.value)
    cross = graph.add("Div", falls, graph.add("Where", differ, ahead, graph.constant(1.0)))
    ends = graph.reduced("ReduceMin", graph.add("Where", more, cross, infinite), 2)
    starts = graph.reduced("ReduceMax", graph.add("Where", less, cross, zero), 2)
    earlier = graph.constant(
        np.tri(len(policy.value), k=-1, dtype=bool), np.bool_
    )  # of the same mass, the first is on it
    same = graph.add("Cast", graph.add("And", graph.add("Not", differ), earlier), to=TensorProto.INT32)
    hidden = graph.add("Cast", graph.reduced("ReduceMax", same, 2), to=TensorProto.BOOL)
    hidden = graph.add("Or", hidden, graph.add("LessOrEqual", ends, starts))
    return str(graph.add("Where", hidden, infinite, starts)), str(graph.add("Where", hidden, never, ends))


def _within(graph: Graph, policy: Policy, limits: str, ends: str) -> str:
    """(n, outcomes): whether no line that breaks an outcome's certificate is on the envelope beyond its limit."""
    broken = policy.table[policy.action] < policy.value[:, None]  # (lines, outcomes)
    beyond = graph.add("Greater", _spread(graph, ends, 2), _spread(graph, limits, 1))
    breaking = graph.add("Cast", graph.add("And", beyond, graph.constant(broken, np.bool_)), to=TensorProto.INT32)
    return str(graph.add("Equal", graph.reduced("ReduceMax", breaking, 1), graph.constant(0, np.int32)))


def _own(graph: Graph, values: Any, group: str | None) -> str:
    """The row of each object's group, (n, width); (1, width) where all share it."""
    every = graph.constant(values, values.dtype)
    return every if group is None else str(graph.add("Gather", every, group, axis=0))


def _spread(graph: Graph, values: str, axis: int) -> str:
    """With one more axis of length 1 there."""
    return str(graph.add("Unsqueeze", values, graph.constant([axis], np.int64)))


def _outcome_masses(graph: Graph, policy: Policy, p: str) -> str:
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


def _line_masses(graph: Graph, policy: Policy, outcomes: str) -> str:
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


def _picked(graph: Graph, policy: Policy, beta: str, masses: str) -> str:
    """The number of each row's line."""
    height = graph.add("Add", graph.constant(policy.value), graph.add("Mul", beta, masses))
    top = graph.reduced("ReduceMax", height, 1, keepdims=1)
    best = graph.add("GreaterOrEqual", height, top)
    heavy = graph.add("Where", best, masses, graph.constant(-1.0))
    return str(graph.add("ArgMax", heavy, axis=1, keepdims=0))


def _one(graph: Graph) -> str:
    return str(graph.constant(1, np.int64))
