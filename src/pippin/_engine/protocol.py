"""Interface of an engine (code that computes scores, sets, p-values and decisions of rows), with its argument types.

`numpy_engine.py` is the reference implementation. `numba_engine/` computes the same bits in compiled loops, and
`dispatch.py` chooses between them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pippin._runtime.arrays import Codes, Flags, Floats, Indices, Vector
from pippin._theory.formula import Coefficients
from pippin._theory.policy import Policy

Decided = tuple[Indices, Vector]  # output arrays: the action of each row, and its certificate (guaranteed utility)


class Bounds(NamedTuple):
    """Limits that a class must not exceed to be in a set: a largest score, and for RC3P also a largest rank (from 1).

    `scores` has one row per group, and one column per class or a single column for all classes. Object i is in group
    `group[i]`; if `group` is None, all objects use `scores[0]`. `ranks` has the same layout; if None, ranks are not
    limited.
    """

    scores: Vector
    group: Codes | None = None
    ranks: Indices | None = None


@dataclass(frozen=True, eq=False)
class SortedScores:
    """Calibration scores by Mondrian category, sorted within each category.

    The p-value of class k for an object in group g is computed among the scores of category `lookup[g, k]`. The scores
    of category c are `scores[offsets[c]:offsets[c + 1]]`. `fills` caches the functions that `Engine.p_values` makes
    from these scores.
    """

    lookup: Indices
    offsets: Codes
    scores: Vector
    fills: "dict[Any, FillP]" = field(default_factory=dict)


class Draws(NamedTuple):
    """Uniform random numbers, one per row: u for randomized scores, and v for smoothed p-values (else None)."""

    u: Vector
    v: Vector | None


class BorderlineClasses(NamedTuple):
    """Borderline classes, which are in a set at a high threshold but not at a low one, and the sets at the low one.

    Rows are sorted by descending probability. At the low threshold, the set of row i contains at least its first
    `sizes[i]` classes, for any random number u of a randomized score. `sure[i]` is True if they include the label, and
    `top[i]` if the label has rank 0.

    The arrays `row` to `mass` have one entry per borderline class: its row, its rank (from 0), True if it is the label,
    its probability, and M of the score formula (the term that depends on other classes). `labels` are the indices of
    the entries with `is_label`. For a score without u, entries are sorted by their scores, which `scores` holds. For a
    randomized score, `scores` is empty and entries are sorted by row.
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


# Values of the fields sizes, row, rank, is_label, p and mass of `BorderlineClasses`.
BorderlineArrays = tuple[Indices, Indices, Indices, Flags, Vector, Vector]
FillP = Callable[[Floats, Codes, Draws, Vector], None]  # arguments: rows, their groups, draws, output array


class Engine(Protocol):
    """Functions that compute scores, sets, p-values and decisions of a block of probabilities, shape (rows, K).

    Some functions return the number of suspect rows (negative or NaN entries, or a sum other than 1). If it is not
    0, the caller validates the block, which raises an error for an invalid row. If INSPECTS is False, the number is
    always 0 and the caller validates every block first.
    """

    INSPECTS: bool

    def label_scores(self, block: Floats, labels: Codes, c: Coefficients, u: Vector, scores: Vector) -> int:
        """Write for each row the nonconformity score of its class in `labels`; return the number of suspect rows.

        Suspect rows have negative or NaN entries, or a sum other than 1.
        """

    def class_scores(self, block: Floats, c: Coefficients, u: Vector) -> Vector:
        """Return the scores of all classes of validated rows, in the order of the columns."""

    def members(self, block: Floats, c: Coefficients, bounds: Bounds, u: Vector, sizes: Codes) -> tuple[Indices, int]:
        """Write the size of each row's prediction set; return the classes in all sets, and the number of suspect rows.

        The classes are concatenated row by row, most probable first. Suspect rows have negative or NaN entries, or a
        sum other than 1.
        """

    def p_values(self, c: Coefficients, held: SortedScores) -> FillP:
        """Return a function that writes the conformal p-values of all classes for a block of validated rows."""

    def add_product(self, out: Floats, left: Floats, right: Floats) -> None:
        """Add the matrix product left · right to `out`.

        Terms are added in the order of the inner index, so that both engines round alike.
        """

    def borderline_classes(
        self, block: Floats, ranks: Codes, c: Coefficients, low: float, high: float
    ) -> BorderlineArrays:
        """Find the classes of sorted rows that are in a set at the threshold `high`, but not at `low`.

        Return the fields sizes, row, rank, is_label, p and mass of `BorderlineClasses`. `ranks` are the ranks of the
        labels, from 0.
        """

    def count_splits(
        self, border: BorderlineClasses, c: Coefficients, k: int, chosen: Flags, u: Vector, counts: Vector
    ) -> None:
        """Write one row of `counts` per random split: its threshold, and five counts over its test rows.

        The counts are the numbers of covered rows, of classes in all sets, of singletons, of empty sets, and of
        singletons that contain the label. For each split, `chosen` has the mask of the calibration rows, and `u` has
        the random number u of every row; both have the shape (splits, n). The threshold is the k-th smallest
        calibration score. If it is not the score of a label in `border`, the threshold is NaN and the counts are
        invalid.
        """

    def decision_scores(self, block: Floats, labels: Codes, policy: Policy, scores: Vector) -> int:
        """Write the nonconformity score of each row's label, to calibrate decisions; return the number of suspect rows.

        Under a multiplier β, a decision is the action a and the utility level v with the largest v + β·m, where m is
        the probability that a has a utility of at least v. The score is the smallest β above which the utility of the
        selected action under the label is at least v. Suspect rows have negative or NaN entries, or a sum other than 1.
        """

    def decisions(self, block: Floats, policy: Policy, limits: Vector, group: Codes, found: Decided) -> int:
        """Write each row's action and certificate (guaranteed utility); return the number of suspect rows.

        They are the action a and the utility level v with the largest v + β·m, where m is the probability that a has a
        utility of at least v. Row i uses the calibrated multiplier β in `limits[group[i]]`: one number, or one for each
        outcome (classes with equal utilities). Suspect rows have negative or NaN entries, or a sum other than 1.
        """
