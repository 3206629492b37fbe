"""Interface of an engine, and the types of its arguments and results.

`numpy_engine.py` is the reference implementation. `numba_engine/` computes the same bits in compiled loops, and
`dispatch.py` chooses between them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pippin._runtime.arrays import Codes, Flags, Floats, Indices, Vector
from pippin._theory.formula import Coefficients
from pippin._theory.policy import Policy

Decided = tuple[Indices, Vector]  # actions and certificates, to be written


class Bounds(NamedTuple):
    """Upper bounds on the score of a member of a set, and for RC3P on its rank (from 1).

    Row i uses `scores[group[i]]`, or `scores[0]` without groups: one bound per class, or one for all classes. `ranks`,
    if not None, has the same layout.
    """

    scores: Vector
    group: Codes | None = None
    ranks: Indices | None = None


@dataclass(frozen=True, eq=False)
class SortedScores:
    """Calibration scores by Mondrian category, sorted within each category.

    Class k of a row in group g is compared with category `lookup[g, k]`. The scores of category c are
    `scores[offsets[c]:offsets[c + 1]]`. `fills` caches the functions that engines make from these scores.
    """

    lookup: Indices
    offsets: Codes
    scores: Vector
    fills: "dict[Any, FillP]" = field(default_factory=dict)


class Draws(NamedTuple):
    """Uniform random numbers, one per row: u of randomized scores, and v of smoothed p-values or None."""

    u: Vector
    v: Vector | None


class NearPlaces(NamedTuple):
    """Sets of sorted rows at every threshold between a low and a high one, for any u.

    At the low threshold, the set of row i has its first `sizes[i]` classes; they include the label if `sure[i]`. The
    label has rank 0 if `top[i]`. "Places" are the pairs (row, rank) of classes that may enter a set up to the high
    threshold: `row`, `rank`, `is_label`, and p and M (`mass`) of the score formula. `labels` are the indices of places
    that are labels. For a score without u, `scores` are the scores of the places, in increasing order. For a randomized
    score, `scores` is empty and places are ordered by row.
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
FillP = Callable[[Floats, Codes, Draws, Vector], None]  # arguments: block, group, draws, p-values to be written


class Engine(Protocol):
    """Functions of blocks of rows; some return the number of suspect rows, which may be no distributions.

    If INSPECTS is True, the engine detects suspect rows itself; otherwise the caller checks blocks first.
    """

    INSPECTS: bool

    def label_scores(self, block: Floats, labels: Codes, c: Coefficients, u: Vector, scores: Vector) -> int:
        """Write the score of one class per row; return the number of suspect rows."""

    def class_scores(self, block: Floats, c: Coefficients, u: Vector) -> Vector:
        """Return the score of every class of checked rows, in the columns' own order."""

    def members(self, block: Floats, c: Coefficients, bounds: Bounds, u: Vector, sizes: Codes) -> tuple[Indices, int]:
        """Write the sizes of all sets; return their members, most probable first, and the number of suspect rows."""

    def p_values(self, c: Coefficients, held: SortedScores) -> FillP:
        """Return a function that writes the p-value of every class of a checked block."""

    def add_product(self, out: Floats, left: Floats, right: Floats) -> None:
        """Add left · right to `out`, term by term in the order of the inner index."""

    def near_places(self, block: Floats, ranks: Codes, c: Coefficients, low: float, high: float) -> Places:
        """Return sizes, row, rank, is_label, p and mass of `NearPlaces` for rows sorted in descending order.

        `ranks` are the ranks of the labels, from 0.
        """

    def count_splits(self, near: NearPlaces, c: Coefficients, k: int, chosen: Flags, u: Vector, counts: Vector) -> None:
        """Write a row of `counts` per split: threshold, and of the test rows the covered ones, the sum of set sizes,
        singletons, empty sets, and singletons that contain the label.

        `chosen` and `u` are (splits, n): the mask of the calibration rows, and u of all rows. The threshold is the k-th
        smallest calibration score. If it is not among the places, it is NaN and the other counts are invalid.
        """

    def decision_scores(self, block: Floats, labels: Codes, policy: Policy, scores: Vector) -> int:
        """Write the smallest β that keeps the certificate of each label; return the number of suspect rows."""

    def decisions(self, block: Floats, policy: Policy, limits: Vector, group: Codes, found: Decided) -> int:
        """Write each row's action and certificate; return the number of suspect rows.

        Row i has the thresholds `limits[group[i]]`: one β, or one for each outcome.
        """
