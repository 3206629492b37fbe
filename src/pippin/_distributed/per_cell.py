"""Thresholds per class, kind, group or cluster from parts, when there are too many scores to hold."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.cells import Cells, Placement
from pippin._conformal.clusters import SHARES, alike, described_by, on_null, plan, sharing
from pippin._conformal.conditional import ConditionalPredictor
from pippin._conformal.grouping import Places, places
from pippin._conformal.kinds import as_levels
from pippin._conformal.rank_limits import score_place
from pippin._distributed.part import Part, numbered, positioned, united
from pippin._distributed.selecting import Ask, View, smallest_of_cells
from pippin._runtime.arrays import Codes, Vector, read_only
from pippin._theory.level import as_alpha, examples_needed

if TYPE_CHECKING:
    from pippin._distributed.calibration import Calibration


@dataclass(frozen=True, eq=False)
class Census:
    """How many rows there are, of each class too where cells ask for it, and in which groups."""

    n: int
    classes: Codes
    groups: frozenset[str | int] = field(default_factory=frozenset)

    def __add__(self, other: "Census") -> "Census":
        return Census(self.n + other.n, self.classes + other.classes, self.groups | other.groups)


@dataclass(frozen=True, eq=False)
class Counting:
    """A question: the census of a part."""

    n_classes: int

    def __call__(self, part: Part) -> Census:
        labels = np.empty(0, dtype=np.int64) if part.labels is None else part.labels
        names = () if part.groups is None else part.groups.names
        return Census(len(part.scores), np.bincount(labels, minlength=self.n_classes), frozenset(names))


@dataclass(frozen=True, eq=False)
class InCells:
    """The scores of a part, or the ranks of its labels, each with its cell."""

    placement: Placement
    groups: tuple[str | int, ...] | None = None
    by_rank: bool = False

    def __call__(self, part: Part) -> tuple[Vector, Codes]:
        assert part.labels is not None
        values = part.ranks.astype(np.float64) if self.by_rank and part.ranks is not None else part.scores
        codes = None if self.groups is None else numbered(part.groups, self.groups)
        return self.placement(values, part.labels.astype(np.int64), codes)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Those rows of a part that calibrate (`rest`), or those that tell which classes are alike; drawn by position."""

    view: View
    generator: np.random.Generator
    share: float
    rest: bool

    def __call__(self, part: Part) -> tuple[Vector, Codes]:
        u = positioned(self.generator, part.first).random(len(part.scores))
        assert part.labels is not None
        chosen = (u >= self.share) == self.rest
        return self.view(Part(part.scores[chosen], part.labels[chosen]))


@dataclass(frozen=True, eq=False)
class Sizes:
    """A question: how many numbers of a part are in each cell."""

    view: View
    n_cells: int

    def __call__(self, part: Part) -> Codes:
        return np.bincount(self.view(part)[1], minlength=self.n_cells)


def merged_cells(ask: Ask, calibration: "Calibration", census: Census) -> tuple[ConditionalPredictor, str | None]:
    """The predictor without its calibration scores, and what to warn of beyond infinite thresholds."""
    grouping, classes, alpha = calibration.grouping, calibration.classes, calibration.alpha
    assert grouping is not None
    n, note, names = census.n, None, None
    view: View
    if grouping.per == "cluster":
        view, placement, n, note = _clustered(ask, calibration, census)
        found = Places(placement, None, None)
    else:
        names = united([tuple(census.groups)]) if calibration.by_group else None
        found = places(grouping, classes, names)
        view = InCells(found.placement, names)
    of = found.placement.of
    sizes: Codes = ask(Sizes(view, int(of.max()) + 1))
    cells = Cells(read_only(of.astype(np.int32)), read_only(np.concatenate([[0], np.cumsum(sizes)])), None)
    levels = as_levels(alpha, found.kinds)
    k = cells.quantile_ranks(levels or as_alpha(alpha))
    if grouping.per == "rc3p":
        limits, ranks = _by_rank(ask, view, k, sizes)
        rank_limits = read_only(ranks[of])
    else:
        limits = smallest_of_cells(ask, view, np.where(k <= sizes, k, 0)[None]).values[0]
        rank_limits = None
    level = max(levels) if levels else as_alpha(alpha)
    thresholds = read_only(limits[of])
    return (
        ConditionalPredictor(
            calibration.score,
            grouping.name,
            level,
            thresholds,
            rank_limits,
            n,
            classes,
            found.groups,
            cells,
            found.kinds,
            levels,
        ),
        note,
    )


def _by_rank(ask: Ask, view: Any, k: Codes, sizes: Codes) -> tuple[Vector, NDArray[np.int32]]:
    """RC3P's limits of every class: on the score, and on the rank."""
    enough = k <= sizes
    found = smallest_of_cells(ask, replace(view, by_rank=True), np.where(enough, k, 0)[None])
    before, reached = found.smaller[0], (found.smaller + found.equal)[0]
    every = zip(k.tolist(), sizes.tolist(), before.tolist(), reached.tolist(), strict=True)
    place = np.where(enough, [score_place(*one) for one in every], 0)
    ranks = np.where(enough, np.where(enough, found.values[0], 0), len(k)).astype(np.int32)
    return smallest_of_cells(ask, view, place[None]).values[0], ranks


def _clustered(ask: Ask, calibration: "Calibration", census: Census) -> tuple[View, Placement, int, str | None]:
    """Which rows calibrate, in which cells; how many they are, and what to warn of."""
    n_classes, alpha, generator = len(calibration.classes), as_alpha(calibration.alpha), calibration.after(census.n)
    share, n_clusters = plan(census.classes, alpha)
    own = InCells(Placement(np.zeros((1, n_classes), dtype=np.int32), np.arange(n_classes)))
    counts, cluster = census.classes, np.full(n_classes, -1)
    if n_clusters:
        aside = Drawn(own, generator, share, False)
        told: Codes = ask(Sizes(aside, n_classes))
        common, k = described_by(told, alpha)
        sought = np.zeros((len(SHARES) + 1, n_classes), dtype=np.int64)
        sought[:, common] = k.T
        points = smallest_of_cells(ask, aside, sought).values[:, common].T
        cluster = alike(points, common, told, n_clusters, positioned(generator, census.n))
        counts = census.classes - told
    placement = sharing(cluster, counts, census.classes > 0, examples_needed(alpha))
    view: View = InCells(placement)
    if n_clusters:
        view = Drawn(view, generator, share, True)
    return view, placement, int(counts.sum()), on_null(cluster)
