"""What an engine does with a block of rows, and what it is given and gives back.

`plain/engine.py` does it in NumPy, `compiled/engine.py` in compiled loops, with the same
bits; `dispatch.py` is the one place that chooses between them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pippin._runtime.arrays import Codes, Flags, Floats, Indices, Vector
from pippin._theory.formula import Coefficients
from pippin._theory.policy import Policy


class Places(NamedTuple):
    """Classes and what the formula needs of each: its row, its rank (from 0), p and M."""

    row: Indices
    rank: Indices
    p: Vector
    mass: Vector


Decided = tuple[Indices, Vector]  # actions and certificates, to fill in
Scored = tuple[Indices, Vector, Vector, Vector]  # ranks, p, M and scores, to fill in


class Bounds(NamedTuple):
    """What the classes of rows must not exceed: a score, and where RC3P asks for it a rank (from 1).

    Row i uses `scores[group[i]]`, or `scores[0]` where there are no groups: a bound for every
    class, or a single one for all of them; and so for `ranks`, if there are any.
    """

    scores: Vector
    group: Codes | None = None
    ranks: Indices | None = None

    def of_rows(self, start: int, stop: int) -> "Bounds":
        return self if self.group is None else self._replace(group=self.group[start:stop])


@dataclass(frozen=True, eq=False)
class Held:
    """The calibration scores that classes are held against, cell after cell, each cell sorted.

    Class k of a row in group g is held against cell `of[g, k]`, and cell c is
    `scores[offsets[c]:offsets[c + 1]]`. `fills` are what engines have made of them before, by engine and score:
    the calibration scores may be many, and the rows one.
    """

    of: Indices
    offsets: Codes
    scores: Vector
    fills: "dict[Any, FillP]" = field(default_factory=dict)


class Draws(NamedTuple):
    """Uniform numbers, one per row: u of a randomised score, and v of smoothed p-values, if they are."""

    u: Vector
    v: Vector | None

    def of_rows(self, start: int, stop: int) -> "Draws":
        return Draws(self.u[start:stop], None if self.v is None else self.v[start:stop])


class ScoredPlaces(NamedTuple):
    """Some classes with what the formula needs of each, and their scores, if these take no u.

    `adaptive` says that the score is u·p + M + g and nothing else, as in APS and RAPS.
    """

    c: Coefficients
    p: Vector
    mass: Vector
    scores: Vector
    adaptive: bool


class Shared(NamedTuple):
    """What all splits of one score share.

    The label of every row (`label`, its rows in `label_row`); if the score takes a u, only those that some threshold
    that is prepared for leaves out and some lets in, and `sure` marks the rows whose label every one lets in,
    whatever u is. The lowest threshold that is prepared for (`low`); the size that every set has at all
    thresholds (`sizes[0]`), and the places above it (`place`, in `place_row`), with what each makes of its set
    (`kind`): 0 a singleton, 1 a pair, 2 a larger set. If the score takes no u, labels
    and places are sorted by score, and `sizes[j]` are the sizes after the first
    `j * step` places; else the places are sorted by kind.
    """

    label: ScoredPlaces
    label_row: Indices
    sure: Flags
    low: float
    sizes: Indices
    step: int
    place: ScoredPlaces
    place_row: Indices
    kind: Any  # int8


FillP = Callable[[Floats, Codes, Draws, Vector], int]  # block, group, draws, p-values to fill in -> suspects


class Engine(Protocol):
    """Functions of blocks; those that return `suspects` count the rows that may be no distribution.

    An engine that `inspects` finds such rows on its way; for another one, blocks are checked before.
    """

    INSPECTS: bool

    def label_places(self, block: Floats, labels: Codes, c: Coefficients, u: Vector) -> tuple[Places, Vector, int]:
        """The place of one class per row, its score, and the suspects."""

    def label_scores(self, block: Floats, labels: Codes, c: Coefficients, u: Vector, scores: Vector) -> int:
        """Fills in the score of one class per row; returns the suspects."""

    def class_scores(self, block: Floats, c: Coefficients, u: Vector) -> Vector:
        """The score of every class, in the columns' own order."""

    def members(self, block: Floats, c: Coefficients, bounds: Bounds, u: Vector, sizes: Codes) -> tuple[Indices, int]:
        """Fills in sizes; returns the members of all rows, best first, and the suspects."""

    def smallest(self, scores: Vector, k: int) -> float:
        """The k-th smallest score, k from 1 on."""

    def band(self, block: Floats, c: Coefficients, low: float, high: float) -> tuple[Codes, Places]:
        """Sizes that every threshold from `low` to `high` reaches, and the places that some reach, whatever u is."""

    def p_values(self, c: Coefficients, held: Held) -> FillP:
        """A function that fills in the p-value of every class of a block, and returns the suspects."""

    def add_product(self, out: Floats, left: Floats, right: Floats) -> None:
        """Adds left · right to `out`, term after term in the order of the inner index."""

    def add_logits(self, u: Floats, z: Floats, both: Floats, a: Floats) -> None:
        """Adds a₁·z + a₂·l of each member to `u`, (n, members, K), and takes away each row's largest logit."""

    def add_mixed(self, out: Floats, powers: Floats, weights: Floats) -> None:
        """Adds Σ_m w_m·powers_m/Σ_k powers_mk to `out`, (n, K); sums run in four lanes."""

    def centre(self, values: Floats) -> None:
        """Takes its mean from every row of `values`, (parts, n, K)."""

    def place_scores(self, places: Places, c: Coefficients, u: Vector) -> Vector:
        """The score of every place; u has one number per row."""

    def deal(self, calibration: Flags, drawn: Vector, u: Vector) -> None:
        """Fills in u from the numbers drawn: the first go to who calibrates, in row order, the rest to the others."""

    def count_splits(
        self, shared: Shared, k: int, randomized: bool, calibrations: Flags, u: Vector, counts: Vector
    ) -> None:
        """Fills in `counts`, one row per split, from (splits, n) arrays of who calibrates and of u.

        They are the threshold, test rows covered, the sum of sizes, singletons and empty sets. Where the threshold
        is not one that is prepared for, it may be NaN, and the rest of no use.
        """

    def decision_scores(self, block: Floats, labels: Codes, policy: Policy, scores: Vector) -> int:
        """Fills in the smallest β from which on each label keeps its certificate; returns the suspects."""

    def decisions(self, block: Floats, policy: Policy, limits: Vector, group: Codes, found: Decided) -> int:
        """Fills in each row's action and certificate; returns the suspects.

        Row i keeps to `limits[group[i]]`: one β, or one per outcome.
        """
