"""All that `protocol.Engine` asks for, in compiled loops, and which of them serves a block of rows.

`narrow.py` and `tiled.py` have two loops, `label_places` and `members`, for short rows; `unranked.py`, `ranked.py` and
`priced.py` do the same for any rows, one after another, in the loops of `rowwise.py`. Each loop is serial and
releases the GIL; `dispatch.py` gives blocks of rows to threads. Importing this module imports numba; a loop is
compiled, or loaded from disk, when it is first called. Loops are made for arrays that cannot be written where they
only read, so that one serves all callers; those of `single.py` for rows that can.
"""

import math
from types import ModuleType

import numpy as np

from pippin._engine import selecting
from pippin._engine.compiled import decisions as deciding
from pippin._engine.compiled import narrow, per_class, priced, ranked, rowwise, sorting, splits, tiled, unranked
from pippin._engine.compiled.band import band
from pippin._engine.compiled.decisions import one_decision, packed, rows_of
from pippin._engine.compiled.p_values import p_values
from pippin._engine.compiled.products import add_logits, add_mixed, add_product, centre
from pippin._engine.compiled.single import one_score, one_set
from pippin._engine.compiled.splits import count_splits, deal
from pippin._engine.compiled.whole_rows import class_scores
from pippin._engine.protocol import Bounds, Decided, Places, Scored
from pippin._runtime.arrays import Codes, Floats, Indices, Vector, read_only
from pippin._theory.formula import Coefficients
from pippin._theory.policy import Policy

__all__ = [
    "INSPECTS",
    "add_logits",
    "add_mixed",
    "add_product",
    "band",
    "centre",
    "class_scores",
    "count_splits",
    "deal",
    "decision_scores",
    "decisions",
    "label_places",
    "label_scores",
    "members",
    "one_decision",
    "one_score",
    "one_set",
    "p_values",
    "packed",
    "place_scores",
    "rows_of",
    "smallest",
]

INSPECTS = True
SELECTED = 1 << 16  # scores that a loop takes
RANKING = (ranked, priced)
ROWWISE = (unranked, *RANKING)
NO_RANKS = read_only(np.zeros((1, 1), dtype=np.int32))


def _loops(block: Floats, c: Coefficients, tiled_up_to: int) -> ModuleType:
    if c.reach <= 1:
        return narrow if narrow.fits(block.shape) else unranked
    if not math.isnan(c.price):
        return priced
    return tiled if block.shape[1] <= tiled_up_to else ranked


def _fill(block: Floats, labels: Codes, c: Coefficients, u: Vector, out: Scored) -> int:
    loops, labels = _loops(block, c, tiled.FEW), read_only(labels)
    if loops in ROWWISE:
        return rowwise.label_places(loops, block, labels, c[:], u, out)
    suspects: int = loops.label_places(block, labels, c[:], u, out)
    return suspects


def label_places(block: Floats, labels: Codes, c: Coefficients, u: Vector) -> tuple[Places, Vector, int]:
    """The place of one class per row, its score, and how many rows may be no distribution.

    A rank is exact only as far as the score depends on it: SOCOP's and the margin's may be 0 or 1, IP's 0.
    """
    n = len(block)
    places = Places(np.arange(n, dtype=np.int32), np.empty(n, dtype=np.int32), np.empty(n), np.empty(n))
    scores = np.empty(n)
    return places, scores, _fill(block, labels, c, u, (*places[1:], scores))


def label_scores(block: Floats, labels: Codes, c: Coefficients, u: Vector, scores: Vector) -> int:
    """Fills in the score of one class per row; returns how many rows may be no distribution."""
    n = len(block)
    return _fill(block, labels, c, u, (np.empty(n, dtype=np.int32), np.empty(n), np.empty(n), scores))


def members(block: Floats, c: Coefficients, bounds: Bounds, u: Vector, sizes: Codes) -> tuple[Indices, int]:
    """Fills in sizes; returns the members of all rows, best first, and how many rows may be no distribution."""
    found: tuple[Indices, int]
    if bounds.scores.size == 1 and bounds.ranks is None:
        loops, threshold = _loops(block, c, tiled.MOST[block.itemsize]), bounds.scores.item()
        if loops in RANKING:
            return rowwise.members(loops, block, c[:], threshold, u, sizes)
        found = loops.members(block, c[:], threshold, u, sizes)
    else:
        ranks = NO_RANKS if bounds.ranks is None else read_only(bounds.ranks)
        group = np.zeros(len(block), dtype=np.int64) if bounds.group is None else bounds.group
        found = per_class.members_within(block, c, read_only(bounds.scores), ranks, group, u, sizes)
    return found


def smallest(scores: Vector, k: int) -> float:
    """The k-th smallest score, k from 1 on; of very many, a sample is the shorter way."""
    if len(scores) > SELECTED:
        return selecting.smallest(scores, k)
    return float(sorting.smallest(scores.copy(), k - 1))


def place_scores(places: Places, c: Coefficients, u: Vector) -> Vector:
    """The score of every place; u has one number per row."""
    return splits.place_scores(*places, c, u)


def decision_scores(block: Floats, labels: Codes, policy: Policy, scores: Vector) -> int:
    """Fills in the smallest β from which on each label keeps its certificate; returns the suspects."""
    return deciding.decision_scores(rows_of(read_only(block).reshape(-1)), read_only(labels), policy[:], scores)


def decisions(block: Floats, policy: Policy, limits: Vector, group: Codes, found: Decided) -> int:
    """Fills in each row's action and certificate; returns the suspects."""
    return deciding.decisions(
        rows_of(read_only(block).reshape(-1)), policy[:], read_only(limits), read_only(group), found
    )
