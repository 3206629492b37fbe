"""Rows in, actions and certificates out: block by block, on all cores, by the engine that pays."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._engine.dispatch import engine_for, examined, in_blocks, refuse
from pippin._inputs.rows import Rows
from pippin._runtime.arrays import Codes, Indices, Vector, read_only
from pippin._theory.policy import Policy

OneDecision = Callable[[NDArray[Any]], tuple[int, float]]


def decision_scores(rows: Rows, labels: Codes, policy: Policy) -> Vector:
    """Of one class per row the smallest β from which on it keeps its certificate."""
    engine, scores = engine_for(rows.array.size), np.empty(rows.n)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        if engine.decision_scores(examined(engine, rows, start, stop), labels[part], policy, scores[part]):
            rows.check(start, stop)

    in_blocks(work, rows)
    return scores


def decisions(rows: Rows, policy: Policy, limits: Vector, group: Codes | None) -> tuple[Indices, Vector]:
    """The action and certificate of every row under the limits of its group: one β, or one per outcome."""
    engine, limits = engine_for(rows.array.size), np.ascontiguousarray(limits)
    group = np.zeros(rows.n, dtype=np.int64) if group is None else group
    actions, certificates = np.zeros(rows.n, dtype=np.int32), np.zeros(rows.n)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        block, found = examined(engine, rows, start, stop), (actions[part], certificates[part])
        if engine.decisions(block, policy, limits, group[part], found):
            rows.check(start, stop)

    in_blocks(work, rows)
    return actions, certificates


def best_response(rows: Rows, utilities: Vector) -> Indices:
    """The action of the largest expected utility of every row; the first of equal ones."""
    actions, by_class = np.empty(rows.n, dtype=np.int32), np.ascontiguousarray(utilities.T)

    def work(start: int, stop: int) -> None:
        rows.check(start, stop)
        actions[start:stop] = (rows.block(start, stop) @ by_class).argmax(axis=1)

    in_blocks(work, rows)
    return actions


def one_decision(policy: Policy, beta: float) -> OneDecision:
    """A function of one object's row that gives its action and certificate; always compiled."""
    from pippin._engine.compiled import engine

    parts, compiled_one_decision, rows_of = engine.packed(policy), engine.one_decision, engine.rows_of
    if np.isinf(beta):
        safe = policy.safe, float(policy.table[policy.safe].min())

        def play_safe(row: NDArray[Any]) -> tuple[int, float]:
            refuse(row)
            return safe

        return play_safe

    def find(row: NDArray[Any]) -> tuple[int, float]:
        action, certificate, suspect = compiled_one_decision(rows_of(read_only(row)), *parts, beta)
        if suspect:
            refuse(row)
        return action, certificate

    return find
