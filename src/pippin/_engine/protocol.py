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

Decided = tuple[Indices, Vector]  # output: each row's action and certificate, the utility it guarantees


class Bounds(NamedTuple):
    """Largest score, and for RC3P also the largest rank (from 1), that a member of a prediction set may have.

    `scores` has one row per group, and one column per class or a single column for all classes. Row i uses
    `scores[group[i]]`, or `scores[0]` if `group` is None. `ranks` has the same layout; if None, ranks are not limited.
    """

    scores: Vector
    group: Codes | None = None
    ranks: Indices | None = None


@dataclass(frozen=True, eq=False)
class SortedScores:
    """Calibration scores by Mondrian category, sorted within each category.

    Class k of a row in group g is compared with the scores of category `lookup[g, k]`. The scores of category c are
    `scores[offsets[c]:offsets[c + 1]]`. `fills` caches the functions that `Engine.p_values` makes from these scores.
    """

    lookup: Indices
    offsets: Codes
    scores: Vector
    fills: "dict[Any, FillP]" = field(default_factory=dict)


class Draws(NamedTuple):
    """Uniform random numbers, one per row: u for randomized scores, and v for smoothed p-values, else None."""

    u: Vector
    v: Vector | None


class NearPlaces(NamedTuple):
    """Data that determine the sets of sorted rows at any threshold between a low and a high one.

    Whatever the random number u of a randomized score, the set of row i at the low threshold contains its first
    `sizes[i]` classes. `sure[i]` is True if they include the label, and `top[i]` if the label has rank 0.

    A place is a further class that may be in the set of its row at the high threshold. The arrays `row` to `mass` have
    one entry per place: the row, the rank (from 0), True if the class is the label, and p and M of the score formula.
    `labels` are the indices of the places with `is_label`. For a score without u, places are sorted by their scores,
    `scores`. For a randomized score, `scores` is empty and places are sorted by row.
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


Places = tuple[Indices, Indices, Indices, Flags, Vector, Vector]  # sizes, row, rank, is_label, p, mass of NearPlaces
FillP = Callable[[Floats, Codes, Draws, Vector], None]  # arguments: rows, their groups, draws, output array


class Engine(Protocol):
    """Computations on a block of rows of probabilities, shape (rows, K).

    Some functions return the number of suspect rows. These may be no probability distributions, so the caller then
    validates the block. If INSPECTS is False, the number is always 0 and the caller validates every block first.
    """

    INSPECTS: bool

    def label_scores(self, block: Floats, labels: Codes, c: Coefficients, u: Vector, scores: Vector) -> int:
        """Write the nonconformity score of one class per row, `labels`; return the number of suspect rows."""

    def class_scores(self, block: Floats, c: Coefficients, u: Vector) -> Vector:
        """Return the score of every class of validated rows, in the order of the columns."""

    def members(self, block: Floats, c: Coefficients, bounds: Bounds, u: Vector, sizes: Codes) -> tuple[Indices, int]:
        """Write the size of each row's prediction set; return the members of all sets and the number of suspect rows.

        Members are concatenated row by row, most probable first.
        """

    def p_values(self, c: Coefficients, held: SortedScores) -> FillP:
        """Return a function that writes the conformal p-value of every class for a block of validated rows."""

    def add_product(self, out: Floats, left: Floats, right: Floats) -> None:
        """Add the matrix product left · right to `out`, with terms added in the order of the inner index."""

    def near_places(self, block: Floats, ranks: Codes, c: Coefficients, low: float, high: float) -> Places:
        """Return the fields sizes, row, rank, is_label, p and mass of `NearPlaces` for rows in descending order.

        `ranks` are the ranks of the labels, from 0.
        """

    def count_splits(self, near: NearPlaces, c: Coefficients, k: int, chosen: Flags, u: Vector, counts: Vector) -> None:
        """Write one row of `counts` per split: its threshold, and counts over its test rows.

        These are the numbers of covered rows, of members of all sets, of singletons, of empty sets, and of singletons
        that contain the label. `chosen` and `u` have shape (splits, n): the mask of the calibration rows, and u of all
        rows. The threshold is the k-th smallest calibration score. If no place of `near` has this score, the threshold
        is NaN and the counts are invalid.
        """

    def decision_scores(self, block: Floats, labels: Codes, policy: Policy, scores: Vector) -> int:
        """Write the nonconformity score for decisions of each label; return the number of suspect rows.

        This is the smallest multiplier β from which on the row's action has at least the certified utility under the
        label; see `pippin._theory.policy`.
        """

    def decisions(self, block: Floats, policy: Policy, limits: Vector, group: Codes, found: Decided) -> int:
        """Write each row's action and certificate; return the number of suspect rows, which may be invalid.

        A certificate is the utility that the action has with a guaranteed probability of 1 − alpha. Row i
        uses the calibrated multipliers `limits[group[i]]`: one β, or one for each outcome (a group of classes with
        equal utilities).
        """
