"""Which calibration examples speak for which class of which object.

A marginal guarantee compares every class with all calibration scores. A guarantee per
class, per group or per cluster compares it with those of its own cell only.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._engine.protocol import Held
from pippin._runtime.arrays import Codes, Indices, Vector, read_only
from pippin._theory.level import examples_needed, quantile_rank


@dataclass(frozen=True, eq=False)
class Cells:
    """Calibration scores by cell.

    `of[g, k]` is the cell that speaks for class k of an object in group g. The scores of
    cell c are `scores[offsets[c]:offsets[c + 1]]`, sorted; None, if a file left them
    out. `ranks` are the ranks (from 1) of the same labels, where RC3P needs them.

    >>> cells = make_cells(np.array([0.3, 0.1, 0.2]), np.array([1, 0, 1]), np.array([[0, 1]]))
    >>> cells.scores, cells.counts
    (array([0.1, 0.2, 0.3]), array([1, 2]))
    >>> cells.thresholds(0.4)
    array([inf, 0.3])
    """

    of: Indices
    offsets: Codes
    scores: Vector | None
    ranks: Indices | None = None

    @property
    def counts(self) -> Codes:
        """How many calibration examples each cell has."""
        return np.diff(self.offsets)

    @property
    def n_groups(self) -> int:
        return int(self.of.shape[0])

    def held(self) -> Held:
        """The cells as an engine wants them."""
        assert self.scores is not None
        return Held(self.of, self.offsets, self.scores)

    def quantile_ranks(self, alpha: "float | tuple[float, ...]") -> Codes:
        """k = ⌈(n + 1)(1 − α)⌉ of every cell; at one level for all, or at the cell's own."""
        if isinstance(alpha, tuple):
            levels = zip(self.counts.tolist(), alpha, strict=True)
            return np.array([quantile_rank(n, level) for n, level in levels], dtype=np.int64)
        sizes, where = np.unique(self.counts, return_inverse=True)
        return np.array([quantile_rank(n, alpha) for n in sizes.tolist()], dtype=np.int64)[where]

    def needed(self, alpha: "float | tuple[float, ...]") -> Codes:
        """The fewest examples that give each cell a finite threshold; at one level for all, or at the cell's own."""
        levels = alpha if isinstance(alpha, tuple) else (alpha,)
        least = np.array([examples_needed(level) for level in levels], dtype=np.int64)
        return np.broadcast_to(least, len(self.counts))

    def thresholds(self, alpha: "float | tuple[float, ...]") -> Vector:
        """Each cell's k-th smallest score; infinite where it has fewer than k."""
        assert self.scores is not None
        k, counts = self.quantile_ranks(alpha), self.counts
        found = np.full(len(counts), np.inf)
        enough = k <= counts
        found[enough] = self.scores[(self.offsets[:-1] + k - 1)[enough]]
        return found


def make_cells(
    scores: Vector,
    cell: NDArray[np.integer],
    of: NDArray[np.integer],
    ranks: NDArray[np.integer] | None = None,
) -> Cells:
    """Sorts the scores into their cells."""
    n_cells = int(of.max()) + 1
    order = np.lexsort((scores, cell))
    offsets = np.zeros(n_cells + 1, dtype=np.int64)
    np.cumsum(np.bincount(cell, minlength=n_cells), out=offsets[1:])
    return Cells(
        read_only(of.astype(np.int32)),
        read_only(offsets),
        read_only(scores[order]),
        None if ranks is None else read_only(ranks[order].astype(np.int32)),
    )


class Placement(NamedTuple):
    """Which cells a calibration row belongs to, by its class and its group, and which one speaks for whom (`of`).

    A row of group g (0 where there are none) and class y is in cell g·each + own[y]. In the
    cells from `extra` on there is everybody once more; a row whose own cell is one of them is there once.
    """

    of: Indices
    own: Codes
    each: int = 0
    extra: int | None = None
    by_class: bool = True

    def __call__(self, scores: Vector, labels: Codes, group: Codes | None) -> tuple[Vector, Codes]:
        """Scores and their cells; where there are extra cells, the same scores once more."""
        within = self.own[labels] if self.by_class else np.zeros(len(scores), dtype=np.int64)
        cell = within if group is None else group * self.each + within
        if self.extra is None:
            return scores, cell
        first = cell < self.extra
        again = self.extra + (within if self.each > 1 else 0)
        return (
            np.concatenate([scores[first], scores]),
            np.concatenate([cell[first], np.broadcast_to(again, len(scores))]),
        )

    def cells(self, scores: Vector, labels: Codes, group: Codes | None, ranks: Indices | None = None) -> Cells:
        """All calibration scores in their cells."""
        return make_cells(*self(scores, labels, group), self.of, ranks)


def by_class(n_classes: int) -> Placement:
    """A cell per class."""
    return Placement(np.arange(n_classes, dtype=np.int32)[None], np.arange(n_classes))


def by_group(n_groups: int, n_classes: int, and_class: bool, unseen: str) -> Placement:
    """A cell per group, or per group and class; for unseen groups one more (per class), which holds everybody."""
    each, more = n_classes if and_class else 1, unseen == "marginal"
    of = np.arange((n_groups + more) * each, dtype=np.int32).reshape(n_groups + more, each)
    every = np.broadcast_to(of, (n_groups + more, n_classes))
    return Placement(every, np.arange(n_classes), each, n_groups * each if more else None, and_class)


def one_cell(scores: Vector | None, n: int, n_classes: int) -> Cells:
    """The marginal case: all n scores, which come sorted, speak for every class."""
    of = read_only(np.zeros((1, n_classes), dtype=np.int32))
    return Cells(of, read_only(np.array([0, n])), scores)
