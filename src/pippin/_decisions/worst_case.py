"""From any prediction sets to actions: the best worst case over each set."""

from itertools import pairwise

import numpy as np

from pippin._conformal.sets import PredictionSets
from pippin._decisions.results import Decisions
from pippin._decisions.utility import Utility
from pippin._runtime.arrays import Codes, Vector
from pippin._runtime.errors import InputError
from pippin._runtime.warn import warn

MEMBERS = 1 << 20  # of sets that are looked at together


def decide(sets: PredictionSets, utility: Utility, *, fallback: str | None = None) -> Decisions:
    """For each set C the action argmax_a min_{y in C} U(a, y), and that minimum as its certificate ν.

    Whenever C holds the true class, U(action, Y) ≥ ν: so P(U(action, Y) ≥ ν) ≥ 1 − α for
    sets that cover 1 − α. Of several best actions the first is taken. An empty set has no worst case:
    its action is the fallback, with which nothing is certified (ν = −∞).

    Args:
        sets: what any predictor's `predict` returned.
        utility: what each action is worth if each class is the true one.
        fallback: the action for empty sets.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> crops = ("maize", "common_wheat", "sugar_beet")
    >>> kinds = {name: "crop" if name in crops else "weed" for name in data.classes}
    >>> utility = pippin.decisions.Utility({"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1},
    ...                           "ask": {"weed": 0.3, "crop": 0.3}}, kinds=kinds)
    >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "ip", 0.02, classes=data.classes)
    >>> pippin.decisions.decide(predictor.predict(data.probs[2000:]), utility, fallback="ask")
    Decisions(2,986 objects: spray 52 %, leave 7 %, ask 42 %)
    """
    utilities = np.ascontiguousarray(utility.of(sets.classes).T)
    empty = sets.sizes == 0
    chosen = 0 if fallback is None else utility.action_index(fallback)
    if fallback is None and empty.any():
        raise InputError(
            f"{int(empty.sum()):,} of {len(sets):,} sets are empty, so they have no worst case",
            f"name the action for them, such as fallback={utility.actions[-1]!r}",
        )
    codes, certificates = np.empty(len(sets), dtype=np.int32), np.full(len(sets), -np.inf)
    for start, stop in pairwise(_steps(sets, max(1, MEMBERS // len(utility.actions)))):
        part, worst = slice(start, stop), _worst(sets, utilities, start, stop)
        codes[part] = worst.argmax(axis=1)
        certificates[part] = worst.max(axis=1)
    codes[empty], certificates[empty] = chosen, -np.inf
    if empty.any():
        warn(
            f"{int(empty.sum()):,} of {len(sets):,} sets are empty: {fallback!r} is taken there, and nothing certified."
        )
    return Decisions(codes, certificates, utility.actions, sets.classes, empty, sets.index)


def _steps(sets: PredictionSets, most: int) -> list[int]:
    """Where to begin with sets that have about so many members together; and the end."""
    inner = np.searchsorted(sets.offsets, np.arange(most, len(sets.members), most))
    return sorted({0, *inner.clip(max=len(sets)).tolist(), len(sets)})


def _worst(sets: PredictionSets, utilities: Vector, start: int, stop: int) -> Vector:
    """(sets, actions): the lowest utility of each action over the members of each set; +∞ over none."""
    offsets: Codes = sets.offsets[start : stop + 1]
    worst = np.full((stop - start, utilities.shape[1]), np.inf)
    some = np.flatnonzero(np.diff(offsets))
    if len(some):
        members = sets.members[offsets[0] : offsets[-1]]
        worst[some] = np.minimum.reduceat(utilities[members], offsets[:-1][some] - offsets[0], axis=0)
    return worst
