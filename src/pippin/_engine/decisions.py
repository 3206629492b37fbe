"""Dispatch of risk-averse decisions: blocks of rows to the NumPy engine or the compiled one."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine.dispatch import checked_block, engine_for, fill, in_engine, refuse
from pippin._runtime.arrays import Codes, Floats, Indices, Vector
from pippin._theory.policy import Policy
from pippin._validation.rows import Rows

OneDecision = Callable[[NDArray[Any]], tuple[int, float]]


def decision_scores(rows: Rows, labels: Codes, policy: Policy) -> Vector:
    """Compute the nonconformity score of one class per row: the smallest β from which on it keeps its certificate."""
    engine, scores = engine_for(rows.array.size), np.empty(rows.n)

    in_engine(engine, rows, lambda block, part: engine.decision_scores(block, labels[part], policy, scores[part]))
    return scores


def decide(rows: Rows, policy: Policy, limits: Vector, group: Codes | None) -> tuple[Indices, Vector]:
    """Compute the action and certificate of every row.

    Row i has the thresholds `limits[group[i]]`, `limits[0]` without groups: one β, or one per outcome.
    """
    engine, limits = engine_for(rows.array.size), np.ascontiguousarray(limits)
    group = np.zeros(rows.n, dtype=np.int64) if group is None else group
    actions, certificates = np.zeros(rows.n, dtype=np.int32), np.zeros(rows.n)

    def work(block: Floats, part: slice) -> int:
        return engine.decisions(block, policy, limits, group[part], (actions[part], certificates[part]))

    in_engine(engine, rows, work)
    return actions, certificates


def best_response(rows: Rows, utilities: Vector) -> Indices:
    """Compute the action of largest expected utility of every row, the first of equal ones."""
    actions, by_class = np.empty(rows.n, dtype=np.int32), np.ascontiguousarray(utilities.T)
    fill(actions, rows, lambda start, stop: (checked_block(rows, start, stop) @ by_class).argmax(axis=1))
    return actions


def one_decision(policy: Policy, beta: float) -> OneDecision:
    """Return a function that computes the action and certificate of one row; always compiled."""
    from pippin._engine.numba_engine.decisions import line_of_row, row_arrays

    if np.isinf(beta):
        safe = policy.safe, float(policy.table[policy.safe].min())

        def decide_safely(row: NDArray[Any]) -> tuple[int, float]:
            refuse(row)
            return safe

        return decide_safely

    arrays, actions, values = row_arrays(policy), policy.action.tolist(), policy.value.tolist()

    def find(row: NDArray[Any]) -> tuple[int, float]:
        double = row if row.dtype == np.float64 and row.flags.writeable else row.astype(np.float64)
        line, suspect = line_of_row(double, *arrays, beta)
        if suspect:
            refuse(row)
        return actions[line], values[line]

    return find
