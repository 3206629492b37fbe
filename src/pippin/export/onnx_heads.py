"""Prediction sets and decisions as parts of an ONNX graph.

Sets: the classes are ranked and scored, and each score is compared with its threshold. Scores are computed in the order
of operations of `pippin._theory.formula.score_at`.

Decisions (see `pippin._theory.policy`): an action and each of its utilities v define a line v + β·m over the multiplier
β. Its mass m is the probability of the outcomes (classes with equal utilities) for which the action has a utility of at
least v. The action of the line that is highest at the calibrated β is chosen, and v is its certificate: the
utility that is guaranteed with probability 1 − alpha. Of several highest lines, the one with the largest mass counts.

If β differs by group or outcome, the upper envelope (the highest line at each β) is computed. Line t is on it from β =
max (v_s − v_t)/(m_t − m_s) over the lines s with less mass, to β = min (v_t − v_s)/(m_s − m_t) over the lines s with
more mass. If β differs by outcome, the action with the best worst case over a set of outcomes is chosen, unless the set
is empty. An outcome is in the set unless, at some β above the calibrated β of this outcome, the selected action has a
lower utility for the outcome than its certificate v.

With certificates per action, the action of the policy is replaced by the safe one if the predicted probability of
reaching v is below the floor of the action. The certificate is then the largest utility that the action reaches with a
predicted probability above its threshold.

With at most 64 outcomes, sums are in the order of `pippin._engine.numpy_engine`. A row with NaN gets the safe
action (that with the best worst case) and certificate −∞.

Graphs compute in float64, or in float32 for accelerators without float64 and int64. Then the thresholds and β are
enlarged by a bound on the rounding errors of scores, so that a set from the same probabilities contains that of Python.
Errors are counted in units of ε = 2⁻²⁴, the rounding error of float32. Let A be a bound on the sum of the absolute
values of the terms of a score; since probabilities sum to 1, A = |c| + max(|a|, |b|, |w|) + |g| in the notation of
`pippin._theory.formula`. The sum of up to K products and the rounding of coefficients change the score by at most (K +
10)·ε·A. SOCOP, whose terms are quotients of sums, changes by at most a share of (2K + 10)·ε. If the probabilities p
themselves have a relative error δ, the score changes by a share of δ more: δ = 64ε is assumed for a softmax and 256ε
for a sharpener, which is several times what is measured. For decisions, the height of a line v + β·m has an error of at
most h = ((K + outcomes + 16)·ε + δ)·(β + max |v|), and a line is chosen wrongly only at a β within a share of 2h/Δv of
the right one, where Δv is the smallest difference of utilities. With certificates per action, β and the floors are only
rounded, since certificates hold given the action, and thresholds are enlarged by (K + 2)·ε + δ.
"""

import math
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from pippin._conformal.exportable import (
    ExportableCertificates,
    ExportableDecisions,
    ExportableGroups,
    ExportableSets,
    ExportableSharpener,
)
from pippin._sharpening.features import FLOOR, SHIFT
from pippin._theory.formula import ABOVE, OWN, OWN_U, PENALTY, PENALTY_U, Coefficients
from pippin._theory.policy import Policy

AXES_ARE_INPUTS = 18  # first opset in which ReduceMax and ReduceMin have the axes as an input
EPSILON = 2.0**-24  # largest relative error of one rounding in float32
SOFTMAX_ERROR, SHARPENER_ERROR = 64 * EPSILON, 256 * EPSILON  # assumed relative errors of probabilities in float32
PRECISIONS: dict[str, Any] = {"float64": np.float64, "float32": np.float32}
SEVERAL = 64  # with more outcomes (classes with equal utilities), their probabilities come from a matrix product


class Graph:
    """Builder of a part of an ONNX graph: collects nodes, constants, inputs and outputs, with names that are unused.

    Methods return the name of the new value, by which later nodes refer to it. n is the number of rows. `real` and
    `whole` are the types of real numbers and of integers: float32 and int32, or float64 and int64; shapes and axes are
    always int64. `error` is the assumed relative error of the probabilities in float32.
    """

    def __init__(self, taken: set[str], opset: int, precision: str = "float64", error: float = 0.0) -> None:
        self.opset, self.taken, self.error = opset, taken, error
        self.single = precision == "float32"
        self.real = TensorProto.FLOAT if self.single else TensorProto.DOUBLE
        self.whole = TensorProto.INT32 if self.single else TensorProto.INT64
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def name(self, wanted: str) -> str:
        """Reserve an unused name: the wanted name, prefixed if necessary."""
        while wanted in self.taken:
            wanted = f"pippin_{wanted}"
        self.taken.add(wanted)
        return wanted

    def add(self, op: str, *inputs: str, outputs: int = 1, name: str | None = None, **attributes: Any) -> Any:
        """Add a node with operation `op`; return the name of its output, or a list of names of several outputs."""
        names = [name or self.name(f"pippin/{op}_{len(self.nodes)}_{i}") for i in range(outputs)]
        label = self.name(f"pippin/{op}_{len(self.nodes)}")
        self.nodes.append(helper.make_node(op, list(inputs), names, name=label, **attributes))
        return names[0] if outputs == 1 else names

    def reduce(self, op: str, value: str, axis: int, keepdims: int = 0) -> Any:
        """Add a node ReduceMax, ReduceMin or ReduceMean over one axis, in the form of the opset."""
        if self.opset < AXES_ARE_INPUTS:
            return self.add(op, value, axes=[axis], keepdims=keepdims)
        return self.add(op, value, self.integers([axis]), keepdims=keepdims)

    def any(self, condition: str, axis: int, keepdims: int = 0) -> Any:
        """Add nodes that compute the logical OR over one axis."""
        as_numbers = self.add("Cast", condition, to=TensorProto.FLOAT)
        return self.add("Cast", self.reduce("ReduceMax", as_numbers, axis, keepdims), to=TensorProto.BOOL)

    def unsqueeze(self, values: str, axis: int) -> Any:
        """Add a node that inserts an axis of length 1."""
        return self.add("Unsqueeze", values, self.integers([axis]))

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Add a constant array or number, of type `real` by default."""
        name = self.name(f"pippin/constant_{len(self.constants)}")
        kind = (np.float32 if self.single else np.float64) if dtype is None else dtype
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def raised(self, limits: Any, bound: Any) -> Any:
        """Return thresholds of scores, or β in v + β·m of decisions; in float32 enlarged by `bound` and rounded up."""
        return np.negative(self.lowered(-(limits + bound))) if self.single else limits

    def lowered(self, values: Any) -> Any:
        """Return values; in float32 rounded down."""
        if not self.single:
            return values
        with np.errstate(over="ignore"):
            rounded = np.asarray(values, dtype=np.float64).astype(np.float32)
        return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded).astype(np.float32)

    def integers(self, value: Any) -> str:
        """Add a constant of type int64, for shapes and axes."""
        return self.constant(value, np.int64)

    def numbers(self, value: Any) -> str:
        """Add an integer constant of type `whole`."""
        return self.constant(value, np.int32 if self.single else np.int64)

    def indices(self, values: str) -> Any:
        """Convert the indices that TopK or ArgMax return to the type `whole`."""
        return self.add("Cast", values, to=self.whole) if self.single else values

    def input(self, name: str, dtype: int, *columns: int) -> str:
        """Add an input of the graph with shape (n, *columns)."""
        name = self.name(name)
        self.inputs.append(helper.make_tensor_value_info(name, dtype, ["n", *columns]))
        return name

    def output(self, name: str, dtype: int, *columns: int) -> str:
        """Add an output of the graph with shape (n, *columns)."""
        name = self.name(name)
        self.outputs.append(helper.make_tensor_value_info(name, dtype, ["n", *columns]))
        return name

    def group_rows(self, groups: ExportableGroups | None) -> str | None:
        """Add the input `group` (n,); return each object's row in a table of thresholds (or of β) by group.

        All groups unseen at calibration share the last row; if the table has no such row, running the graph fails for
        them. Without groups, add nothing and return None.
        """
        if groups is None:
            return None
        group = self.input("group", self.whole)
        last = self.numbers(len(groups.names) - 1)
        below, above = self.add("Less", group, self.numbers(0)), self.add("Greater", group, last)
        beyond = self.numbers(len(groups.names))  # the row of unseen groups, or an invalid row number
        return str(self.add("Where", self.add("Or", below, above), beyond, group))

    def limits(self, values: Any, group: str | None) -> Any:
        """Add a table with a row of thresholds of scores, or of β in v + β·m of decisions, per group.

        Return the row of each object, shape (n, width); without groups, the only row, shape (1, width).
        """
        table = self.constant(values, values.dtype)
        return table if group is None else self.add("Gather", table, group, axis=0)


def add_sharpener(graph: Graph, sharpener: ExportableSharpener, probs: str, features: str | None = None) -> Any:
    """Add nodes that sharpen probabilities, (n, K), or with a stack of M models (n·M, K); return float32 probabilities.

    If the sharpener uses features, they are the value that has the name `features` in the graph, or else a new input of
    the graph.
    """
    if not sharpener.n_features:
        features = None
    elif features is None:
        features = graph.input("features", TensorProto.FLOAT, sharpener.n_features)

    def affine(rows: str, matrix: Any, offset: Any) -> Any:
        return graph.add("Add", graph.add("MatMul", rows, graph.constant(matrix)), graph.constant(offset))

    def centered_log(values: str) -> Any:
        logarithm = graph.add("Log", graph.add("Cast", values, to=graph.real))
        return graph.add("Sub", logarithm, graph.reduce("ReduceMean", logarithm, 1, keepdims=1))

    p = graph.add("Cast", probs, to=TensorProto.FLOAT)
    if sharpener.pool is not None:
        floored = graph.add("Cast", graph.add("Max", p, graph.constant(FLOOR, np.float32)), to=graph.real)
        shape = graph.integers([-1, len(sharpener.pool), sharpener.classes])
        by_model = graph.add("Reshape", graph.add("Log", floored), shape)
        terms = graph.add("Mul", by_model, graph.constant(sharpener.pool[:, None]))
        u = graph.add("ReduceSum", terms, graph.integers([1]), keepdims=0)
        p = graph.add("Cast", graph.add("Softmax", u, axis=1), to=TensorProto.FLOAT)
    z = centered_log(graph.add("Max", p, graph.constant(FLOOR, np.float32)))
    log_shifted = centered_log(graph.add("Add", p, graph.constant(SHIFT, np.float32)))
    feature_map, phi = sharpener.feature_map, ""
    total: Any = None
    if feature_map is not None:
        phi = affine(z, feature_map.axes, feature_map.shift)
        if features is not None and feature_map.feature_axes is not None:
            own = graph.add("Cast", features, to=graph.real)
            phi = graph.add("Concat", phi, affine(own, feature_map.feature_axes, feature_map.feature_shift), axis=1)
        quarter = feature_map.phases.astype(np.float64) + math.pi / 2
        waves = graph.add("Sin", affine(phi, feature_map.waves, quarter))  # older runtimes lack Cos of float64
        phi = graph.add("Concat", phi, waves, axis=1)
        phi = phi if sharpener.rotation is None else affine(phi, *sharpener.rotation)
    for m, (a, weight) in enumerate(zip(sharpener.a, sharpener.weights, strict=True)):
        u = graph.add("Mul", z, graph.constant(a[0]))
        if a[1]:
            u = graph.add("Add", u, graph.add("Mul", log_shifted, graph.constant(a[1])))
        if m >= sharpener.n_plain:
            u = graph.add("Add", affine(phi, *sharpener.members[m - sharpener.n_plain]), u)
        weighted = graph.add("Mul", graph.add("Softmax", u, axis=1), graph.constant(weight))
        total = weighted if total is None else graph.add("Add", total, weighted)
    return graph.add("Cast", total, to=TensorProto.FLOAT)


def add_sets(graph: Graph, given: ExportableSets, probs: str) -> None:
    """Add nodes that compute prediction sets from probabilities, and the inputs `u` and `group` if needed."""
    n_classes = len(given.source.classes)
    ranked, top = graph.add("TopK", probs, graph.integers([n_classes]), outputs=2, axis=1, largest=1, sorted=1)
    order = graph.indices(top)
    p = graph.add("Cast", ranked, to=graph.real)
    u = graph.unsqueeze(graph.input("u", graph.real), 1) if given.source.score.randomized else None
    scores = _linear(graph, given.c, p, u) if math.isnan(given.c.price) else _socop(graph, given.c, p)
    group = graph.group_rows(given.groups)
    limits = graph.raised(given.thresholds, _score_error(given.c, given.thresholds, graph.error))
    inside = graph.add("LessOrEqual", scores, _limits_by_rank(graph, limits, group, order))
    if given.ranks is not None:
        ranks = graph.numbers(np.arange(1, n_classes + 1))
        largest = _limits_by_rank(graph, given.ranks.astype(np.int32 if graph.single else np.int64), group, order)
        inside = graph.add("And", inside, graph.add("LessOrEqual", ranks, largest))
    sizes, classes = graph.output("sizes", graph.whole), graph.output("classes", graph.whole, n_classes)
    counts = graph.add("Cast", inside, to=TensorProto.FLOAT)
    total = graph.add("ReduceSum", counts, graph.integers([1]), keepdims=0)
    graph.add("Cast", total, name=sizes, to=graph.whole)
    members, listed = order, inside
    if given.ranks is not None or given.thresholds.shape[1] > 1:
        members, listed = _members_first(graph, inside, order, n_classes)
    graph.add("Where", listed, members, graph.numbers(-1), name=classes)
    # The mask is computed in int32, since TensorRT cannot scatter booleans.
    zeros = graph.add("Cast", graph.add("Mul", order, graph.numbers(0)), to=TensorProto.INT32)
    scattered = graph.add("ScatterElements", zeros, order, graph.add("Cast", inside, to=TensorProto.INT32), axis=1)
    graph.add("Cast", scattered, name=graph.output("mask", TensorProto.BOOL, n_classes), to=TensorProto.BOOL)


def _score_error(c: Coefficients, thresholds: Any, error: float) -> Any:
    """Bound the rounding error of scores in float32 near their thresholds; `error` is the error of probabilities."""
    n_classes = len(c.table)
    if not math.isnan(c.price):
        return np.where(np.isinf(thresholds), 0.0, thresholds) * ((2 * n_classes + 10) * EPSILON + error)
    table = np.abs(c.table)
    own, penalty = (table[:, OWN] + table[:, OWN_U]).max(), (table[:, PENALTY] + table[:, PENALTY_U]).max()
    terms = abs(c.constant) + max(own, table[:, ABOVE].max(), abs(c.second)) + penalty
    return terms * ((n_classes + 10) * EPSILON + error)


def _limits_by_rank(graph: Graph, limits: Any, group: str | None, order: str) -> Any:
    """Return the thresholds (or largest ranks) of each row's classes, sorted by rank; one column if all are equal.

    `limits` has a row per group and a column per class; `order` has the classes of each row by decreasing probability.
    """
    if limits.shape[1] == 1:
        return graph.limits(limits, group)
    if group is None:
        return graph.add("Gather", graph.constant(limits[0], limits.dtype), order, axis=0)
    return graph.add("GatherElements", graph.limits(limits, group), order, axis=1)


def _members_first(graph: Graph, inside: str, order: str, n_classes: int) -> tuple[Any, Any]:
    """Sort the classes of each row: first those in the set, then the others, both by decreasing probability.

    Return the sorted classes, and True for each class in the set.
    """
    ranks, kind = np.arange(n_classes), np.float32  # integers up to 2^24 are exact
    keys = [graph.constant(start - ranks, kind) for start in (2 * n_classes, n_classes)]
    mixed = graph.add("Where", inside, *keys)
    sorted_keys, place = graph.add("TopK", mixed, graph.integers([n_classes]), outputs=2, axis=1, largest=1, sorted=1)
    listed = graph.add("Greater", sorted_keys, graph.constant(n_classes, kind))
    return graph.add("GatherElements", order, graph.indices(place), axis=1), listed


def _linear(graph: Graph, c: Coefficients, p: str, u: str | None) -> Any:
    """Return the scores at all ranks from sorted probabilities, for a score that is linear in them (not SOCOP).

    `pippin._theory.formula` has the formula. If the score is not randomized (u is None), the terms u·0 are omitted,
    which does not change the result.
    """

    def with_u(fixed: int, factor: int) -> Any:
        column = graph.constant(c.table[:, fixed])
        if u is None:
            return column
        return graph.add("Add", column, graph.add("Mul", u, graph.constant(c.table[:, factor])))

    weighted = graph.add("Mul", graph.constant(c.table[:, ABOVE]), p)
    mass = graph.add("CumSum", weighted, graph.integers(1), exclusive=1)
    if c.second:
        one, two, end = (graph.integers([i]) for i in (1, 2, len(c.table)))
        first = graph.add("Mul", graph.constant(c.second), graph.add("Slice", p, one, two, one))
        mass = graph.add("Concat", first, graph.add("Slice", mass, one, end, one), axis=1)
    own = graph.add("Mul", with_u(OWN, OWN_U), p)
    score = graph.add("Add", graph.add("Add", graph.constant(c.constant), own), mass)
    return graph.add("Add", score, with_u(PENALTY, PENALTY_U))


def _socop(graph: Graph, c: Coefficients, p: str) -> Any:
    """Return the SOCOP scores of sorted probabilities: 1/p at rank 1, then max(1/p, τ).

    τ is the first minimum of (m − 1 + μ)/(p[2] + … + p[m]) over m = 2, 3, …; see `pippin._theory.formula`.
    """
    k = len(c.table)
    one = graph.integers([1])
    below = graph.add("Slice", p, one, graph.integers([k]), one)
    counts = graph.constant(np.arange(1, k) + c.price)
    ratio = graph.add("Div", counts, graph.add("CumSum", below, graph.integers(1)))
    tau = ratio
    if k > 2:
        zero, last, end = (graph.integers([i]) for i in (0, k - 2, k - 1))
        following = graph.add("Slice", ratio, one, end, one)
        before = graph.add("Slice", ratio, zero, last, one)
        stays = graph.add("Cast", graph.add("Not", graph.add("Less", following, before)), to=TensorProto.FLOAT)
        ends = graph.add("Pad", stays, graph.integers([0, 0, 0, 1]), graph.constant(1, np.float32))
        place = graph.indices(graph.add("ArgMax", ends, axis=1, keepdims=1, select_last_index=0))
        tau = graph.add("GatherElements", ratio, place, axis=1)
    is_first = graph.constant(np.arange(k) == 0, np.bool_)
    mass = graph.add("Where", is_first, graph.constant(0.0), tau)
    own = graph.add("Div", graph.constant(1.0), graph.add("Abs", p))  # Abs turns −0.0 into 0
    return graph.add("Max", own, mass)


def add_decisions(graph: Graph, given: ExportableDecisions, probs: str) -> None:
    """Add nodes that compute actions and certificates from probabilities, and the input `group` if needed.

    A certificate is the utility that the action has with a guaranteed probability of 1 − alpha.
    """
    policy, group = given.policy, graph.group_rows(given.groups)
    own = given.by_action
    if own is None:  # with certificates per action, β only selects, and the thresholds of certificates are raised
        given = given._replace(betas=graph.raised(given.betas, _beta_error(given, graph.error)))
    actions = graph.output("actions", graph.whole)
    certificates = graph.output("certificates", graph.real)
    p = graph.add("Cast", probs, to=graph.real)
    one_beta = given.betas.size == 1 and group is None and bool(np.isfinite(given.betas[0, 0]))
    masses = _line_masses(graph, policy, _outcome_masses(graph, policy, p))
    chosen, worth = _by_one_beta(graph, given, masses) if one_beta else _by_envelope(graph, given, masses, group)
    if own is not None:
        chosen, worth = _within_actions(graph, own, policy.safe, p, chosen, worth)
    broken = graph.any(graph.add("IsNaN", masses), 1)
    graph.add("Where", broken, graph.numbers(policy.safe), chosen, name=actions)
    graph.add("Where", broken, graph.constant(-np.inf), worth, name=certificates)


def _within_actions(
    graph: Graph, own: ExportableCertificates, safe: int, p: str, chosen: str, worth: str
) -> tuple[Any, Any]:
    """Apply the floor of each action, and return the certificates that hold given the action (per="action").

    An action whose predicted probability of reaching the certificate `worth` is below its floor is replaced by the safe
    action. In float32, the thresholds of certificates are raised by a bound on the error of sums of probabilities.
    """
    n_classes = own.order.shape[1]
    order, utilities = graph.numbers(own.order), graph.constant(graph.lowered(own.falling))

    def masses_and_utilities(actions: str) -> tuple[Any, Any]:
        classes = graph.add("Gather", order, actions, axis=0)
        masses = graph.add("CumSum", graph.add("GatherElements", p, classes, axis=1), graph.integers(1))
        return masses, graph.add("Gather", utilities, actions, axis=0)

    def largest(condition: str, values: str) -> Any:
        return graph.reduce("ReduceMax", graph.add("Where", condition, values, graph.constant(-np.inf)), 1)

    masses, falling = masses_and_utilities(chosen)
    mass = largest(graph.add("GreaterOrEqual", falling, graph.unsqueeze(worth, 1)), masses)
    below = graph.add("Less", mass, graph.add("Gather", graph.constant(own.floors), chosen))
    chosen = graph.add("Where", below, graph.numbers(safe), chosen)
    masses, falling = masses_and_utilities(chosen)
    limits = graph.constant(graph.raised(own.limits, (n_classes + 2) * EPSILON + graph.error))
    above = graph.add("Greater", masses, graph.unsqueeze(graph.add("Gather", limits, chosen), 1))
    worst = graph.constant(np.arange(n_classes) == n_classes - 1, np.bool_)  # at least the worst-case utility
    return chosen, largest(graph.add("Or", above, worst), falling)


def _beta_error(given: ExportableDecisions, error: float) -> Any:
    """Bound the change of β in v + β·m by rounding errors in float32; `error` is the error of the probabilities."""
    policy, betas = given.policy, np.where(np.isinf(given.betas), 0.0, given.betas)
    steps = np.diff(np.unique(policy.value))
    per_mass = (len(policy.outcome) + policy.n_outcomes + 16) * EPSILON + error
    return 2 * betas * per_mass * (betas + np.abs(policy.value).max()) / (steps.min() if len(steps) else np.inf)


def _by_one_beta(graph: Graph, given: ExportableDecisions, masses: str) -> tuple[Any, Any]:
    """Return actions and certificates (guaranteed utilities) under a single β, the calibrated multiplier of decisions.

    They are the action a and the utility level v with the largest v + β·m, where m is the probability that a has a
    utility of at least v.
    """
    value = graph.constant(given.policy.value)
    height = graph.add("Add", value, graph.add("Mul", graph.constant(given.betas[0, 0]), masses))
    top = graph.reduce("ReduceMax", height, 1, keepdims=1)
    return _of_heaviest(graph, given.policy, graph.add("GreaterOrEqual", height, top), masses, keepdims=0)


def _of_heaviest(graph: Graph, policy: Policy, lines: str, masses: str, keepdims: int) -> tuple[Any, Any]:
    """Return action and utility v of the line v + β·m with the largest mass m, among those marked in `lines`.

    A line is an action with one of its utilities v; m is the probability that the action has at least this utility.
    v is the certificate, the utility guaranteed with probability 1 − alpha.
    """
    line = graph.add("ArgMax", graph.add("Where", lines, masses, graph.constant(-1.0)), axis=1, keepdims=keepdims)
    line = graph.indices(line)
    action = graph.add("Gather", graph.numbers(policy.action), line)
    return action, graph.add("Gather", graph.constant(graph.lowered(policy.value)), line)


def _by_envelope(graph: Graph, given: ExportableDecisions, masses: str, group: str | None) -> tuple[Any, Any]:
    """Return actions and certificates (guaranteed utilities) under one β per group or outcome.

    They follow from the upper envelope of the lines v + β·m, which consists of the highest line at each β.
    """
    policy, endless = given.policy, np.isinf(given.betas)
    highest = given.betas.max(axis=1, keepdims=True)
    starts, ends = _envelope(graph, policy, masses)
    reached = graph.add("LessOrEqual", starts, graph.limits(np.where(np.isinf(highest), 0.0, highest), group))
    action, value = _of_heaviest(graph, policy, reached, masses, keepdims=1)
    is_safe = graph.limits(np.isinf(highest), group)
    chosen = graph.add("Where", is_safe, graph.numbers(policy.safe), action)
    worth = graph.add("Where", is_safe, graph.constant(graph.lowered(given.lowest)), value)
    if given.betas.shape[1] > 1:
        inside = _within(graph, policy, graph.limits(np.where(endless, -1.0, given.betas), group), ends)
        inside = graph.add("Or", inside, graph.limits(endless, group))
        utility = graph.constant(graph.lowered(policy.table))
        worst = graph.add("Where", graph.unsqueeze(inside, 1), utility, graph.constant(np.inf))
        worst = graph.reduce("ReduceMin", worst, 2)
        best = graph.indices(graph.add("ArgMax", worst, axis=1, keepdims=1))
        some = graph.any(inside, 1, keepdims=1)
        chosen = graph.add("Where", some, best, chosen)
        worth = graph.add("Where", some, graph.add("GatherElements", worst, best, axis=1), worth)
    return graph.add("Squeeze", chosen, graph.integers([1])), graph.add("Squeeze", worth, graph.integers([1]))


def _envelope(graph: Graph, policy: Policy, masses: str) -> tuple[Any, Any]:
    """Return the first and last β at which each line v + β·m is the highest, each of shape (n, lines).

    A line that is never the highest gets ∞ and −1.
    """
    ahead = graph.add("Sub", graph.unsqueeze(masses, 1), graph.unsqueeze(masses, 2))  # [t, s]: mass of line s minus t's
    zero, infinite = graph.constant(0.0), graph.constant(np.inf)
    more, less = graph.add("Greater", ahead, zero), graph.add("Less", ahead, zero)
    differ = graph.add("Or", more, less)
    falls = graph.constant(policy.value[:, None] - policy.value)
    cross = graph.add("Div", falls, graph.add("Where", differ, ahead, graph.constant(1.0)))
    ends = graph.reduce("ReduceMin", graph.add("Where", more, cross, infinite), 2)
    starts = graph.reduce("ReduceMax", graph.add("Where", less, cross, zero), 2)
    earlier = graph.constant(np.tri(len(policy.value), k=-1, dtype=bool), np.bool_)  # of equal masses, use the first
    hidden = graph.any(graph.add("And", graph.add("Not", differ), earlier), 2)
    hidden = graph.add("Or", hidden, graph.add("LessOrEqual", ends, starts))
    return graph.add("Where", hidden, infinite, starts), graph.add("Where", hidden, graph.constant(-1.0), ends)


def _within(graph: Graph, policy: Policy, limits: str, ends: str) -> Any:
    """Return True for each outcome that is in its row's set, shape (n, outcomes).

    An outcome consists of classes with equal utilities. It is in the set unless, at some β above its calibrated β in
    `limits`, the selected action has a lower utility for this outcome than its certificate v.
    """
    broken = policy.table[policy.action] < policy.value[:, None]  # (lines, outcomes): utility below v
    beyond = graph.add("Greater", graph.unsqueeze(ends, 2), graph.unsqueeze(limits, 1))
    return graph.add("Not", graph.any(graph.add("And", beyond, graph.constant(broken, np.bool_)), 1))


def _outcome_masses(graph: Graph, policy: Policy, p: str) -> Any:
    """Return the probability of each outcome (classes with equal utilities), shape (n, outcomes)."""
    n_outcomes = policy.n_outcomes
    if n_outcomes == len(policy.outcome):
        return p
    if n_outcomes > SEVERAL:
        return graph.add("MatMul", p, graph.constant(policy.outcome[:, None] == np.arange(n_outcomes)))
    parts = []
    for c in range(n_outcomes):
        members = policy.grouped[policy.ends[c] : policy.ends[c + 1]]
        parts.append(_prefix_sums(graph, p, members, [len(members) - 1]))
    return graph.add("Concat", *parts, axis=1)


def _line_masses(graph: Graph, policy: Policy, outcomes: str) -> Any:
    """Return for each line the probability m that its action has at least its utility v, shape (n, lines).

    A line is an action with one of its utilities v; a decision maximizes v + β·m, with the calibrated multiplier β.
    """
    parts, order = [], []
    for a in range(policy.order.shape[1]):
        lines = np.flatnonzero(policy.action == a)
        parts.append(_prefix_sums(graph, outcomes, policy.order[:, a], policy.reach[lines] - 1))
        order.append(lines)
    by_action = graph.add("Concat", *parts, axis=1)
    masses = graph.add("Gather", by_action, graph.numbers(np.argsort(np.concatenate(order))), axis=1)
    whole = _prefix_sums(graph, outcomes, None, [policy.n_outcomes - 1])
    return graph.add("Where", graph.constant(policy.reach == policy.n_outcomes, np.bool_), whole, masses)


def _prefix_sums(graph: Graph, values: str, columns: Any, last: Any) -> Any:
    """Add columns of `values` in the order `columns`; return the cumulative sums at the positions `last`."""
    if columns is not None:
        values = graph.add("Gather", values, graph.numbers(columns), axis=1)
    return graph.add("Gather", graph.add("CumSum", values, graph.integers(1)), graph.numbers(last), axis=1)
