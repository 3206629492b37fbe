"""Which calibration examples speak for which class of which object.

A marginal guarantee compares every class with all calibration scores. A guarantee per
class, per group or per cluster compares it with those of its own cell only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pippin._engine.protocol import Held
from pippin._inputs.labels import Groups
from pippin._runtime.arrays import Codes, Indices, Vector, read_only
from pippin._theory.level import quantile_rank


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


def group_cells(scores: Vector, groups: Groups, labels: Codes | None, n_classes: int, unseen: str) -> Cells:
    """A cell per group, or per group and class; for unseen groups one more, which holds everybody."""
    each, n_groups = 1 if labels is None else n_classes, len(groups.names)
    within = np.zeros(len(scores), dtype=np.int64) if labels is None else labels
    cell = groups.codes * each + within
    if unseen == "marginal":
        cell = np.concatenate([cell, n_groups * each + within])
        scores, n_groups = np.tile(scores, 2), n_groups + 1
    of = np.arange(n_groups * each).reshape(n_groups, each)
    return make_cells(scores, cell, np.broadcast_to(of, (n_groups, n_classes)))


def one_cell(scores: Vector | None, n: int, n_classes: int) -> Cells:
    """The marginal case: all n scores, which come sorted, speak for every class."""
    of = read_only(np.zeros((1, n_classes), dtype=np.int32))
    return Cells(of, read_only(np.array([0, n])), scores)
