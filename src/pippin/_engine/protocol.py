"""The interface of an engine, and the types of its arguments and results.

`numpy_engine.py` is the reference, `numba_engine/` computes the same bits in compiled loops; `dispatch.py` chooses.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pippin._runtime.arrays import Codes, Flags, Floats, Indices, Vector
from pippin._theory.formula import Coefficients
from pippin._theory.policy import Policy

Decided = tuple[Indices, Vector]  # actions and certificates, to fill in


class Bounds(NamedTuple):
    """Largest score that a member of a set may have, and largest rank (from 1) for RC3P.

    Row i uses `scores[group[i]]`, or `scores[0]` without groups: one bound per class, or one for all. The same holds
    for `ranks`, if there are any.
    """

    scores: Vector
    group: Codes | None = None
    ranks: Indices | None = None


@dataclass(frozen=True, eq=False)
class Held:
    """Calibration scores by Mondrian cell, each cell sorted.

    Class k of a row in group g is compared with cell `of[g, k]`, and cell c is `scores[offsets[c]:offsets[c + 1]]`.
    `fills` caches what engines prepare from the scores, by engine and score.
    """

    of: Indices
    offsets: Codes
    scores: Vector
    fills: "dict[Any, FillP]" = field(default_factory=dict)


class Draws(NamedTuple):
    """Uniform numbers, one per row: u of a randomized score, and v of smoothed p-values or None."""

    u: Vector
    v: Vector | None


class NearPlaces(NamedTuple):
    """Sets of sorted rows at every threshold from a low one to a high one, without u.

    A row holds its first `sizes[i]` classes at the low threshold, its label among them if `sure[i]`; its label has rank
    0 if `top[i]`. The places are the classes that may enter up to the high threshold, depending on u: of each its row,
    its rank, if it is the label, and p and M of the formula. `labels` numbers the places of labels. A score without u
    has its places sorted by `scores`; for a randomized score these are empty, and the places are in row order.
    """

    sizes: Indices
    sure: Flags
    top: Flags
    row: Indices
    rank: Indices
    is_label: Flags
    p: Vector
    mass: Vector
    labels: Indices
    scores: Vector


Places = tuple[Indices, Indices, Indices, Flags, Vector, Vector]  # sizes, row, rank, is_label, p and mass
FillP = Callable[[Floats, Codes, Draws, Vector], None]  # block, group, draws, p-values to write


class Engine(Protocol):
    """Functions of blocks of rows; several return the number of suspect rows, which may be no distribution.

    An engine whose INSPECTS is True finds such rows on the way; for any other, blocks are checked before.
    """

    INSPECTS: bool

    def label_scores(self, block: Floats, labels: Codes, c: Coefficients, u: Vector, scores: Vector) -> int:
        """Write the score of one class per row; return the number of suspect rows."""

    def class_scores(self, block: Floats, c: Coefficients, u: Vector) -> Vector:
        """Return the score of every class of checked rows, in the columns' own order."""

    def members(self, block: Floats, c: Coefficients, bounds: Bounds, u: Vector, sizes: Codes) -> tuple[Indices, int]:
        """Write the sizes of all sets; return their members, best first, and the number of suspect rows."""

    def p_values(self, c: Coefficients, held: Held) -> FillP:
        """Return a function that writes the p-value of every class of a checked block."""

    def add_product(self, out: Floats, left: Floats, right: Floats) -> None:
        """Add left · right to `out`, term by term in the order of the inner index."""

    def near_places(self, block: Floats, ranks: Codes, c: Coefficients, low: float, high: float) -> Places:
        """Set sizes at `low`, and row, rank, is_label, p and mass of `NearPlaces`, of rows sorted in descending order.

        `ranks` are the labels as ranks, from 0.
        """

    def count_splits(self, near: NearPlaces, c: Coefficients, k: int, chosen: Flags, u: Vector, counts: Vector) -> None:
        """Fill `counts`, one row per split: threshold, test rows covered, sum of sizes, singletons, empty
        sets, singletons that hold the label.

        `chosen` and `u` are (splits, n): a mask of the calibration rows, and u of all rows. The threshold is the
        k-th smallest calibration score; where that is not among the places, it is NaN, and the row is of no use.
        """

    def decision_scores(self, block: Floats, labels: Codes, policy: Policy, scores: Vector) -> int:
        """Compute the smallest β from which on each label keeps its certificate; return the number of suspect rows."""

    def decisions(self, block: Floats, policy: Policy, limits: Vector, group: Codes, found: Decided) -> int:
        """Compute each row's action and certificate; return the number of suspect rows.

        Row i has the thresholds `limits[group[i]]`: one β, or one per outcome.
        """
