"""Prediction sets: for each object a size and its members, most probable first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.frames import sets_frame
from pippin._runtime.arrays import Classes, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.showing import AMBER, BLUE, Chips, html_columns, html_table
from pippin._validation.index import place_of, same_index
from pippin._validation.labels import as_classes, as_labels
from pippin._validation.rows import Rows, column_names, row_index

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 10  # sets in a notebook
MEMBERS_SHOWN = 12  # of a set there
SINGLETONS = "Size: classes in the set; singletons: sets with one class"


def _chips(members: list[str | int], novel: bool) -> Chips:
    note = ("" if members else "(empty)") + (" – novel" if novel else "")
    if len(members) > MEMBERS_SHOWN:
        note = f"and {len(members) - MEMBERS_SHOWN:,} more{note}"
    return Chips([str(name) for name in members[:MEMBERS_SHOWN]], BLUE if len(members) == 1 else AMBER, note)


@dataclass(frozen=True, eq=False, repr=False)
class PredictionSets:
    """One set of classes per object, held as compressed rows.

    The set of object i is `members[offsets[i]:offsets[i + 1]]`. Indexing gives names; a slice gives sets again. Where
    objects came in a pandas frame, `sets["a.png"]` is the set of that label, or the sets of all that share it. As in
    pandas, a whole number is a label where labels are whole numbers; elsewhere, and under the index 0 … n − 1, it is a
    position. A slice always counts positions.

    Attributes:
        sizes: how many classes each set has.
        members: the class indices of all sets, row after row, most probable first.
        classes: the names of the columns, in their order.
        index: the pandas index of the objects, where they came in a pandas frame.
        novel: which objects are like none of the calibration objects, where somebody has looked: see `flagged`.

    >>> import pippin
    >>> import numpy as np
    >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([2, 0, 1]), ("crop", "soil", "weed"))
    >>> sets.labels()
    [['weed'], ['crop', 'soil']]
    >>> sets[1]
    ['crop', 'soil']
    >>> sets.contains(["weed", "weed"])
    array([ True, False])
    >>> sets
    PredictionSets(2 objects, 3 classes, mean size 1.50, 50% singletons)
    """

    sizes: NDArray[np.int64]
    members: NDArray[Any]
    classes: Classes
    index: Any = None
    novel: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", read_only(self.sizes))
        object.__setattr__(self, "members", read_only(self.members))

    @classmethod
    def from_mask(cls, mask: ArrayLike, classes: Classes | None = None) -> "PredictionSets":
        """Return the sets of a membership array, such as another library's, in the order of the columns.

        Args:
            mask: (n, K), true where a class is in the set; a data frame brings its names and index.
            classes: names of the K columns.

        >>> import pippin
        >>> pippin.PredictionSets.from_mask([[True, False], [True, True]], ["crop", "weed"]).labels()
        [['crop'], ['crop', 'weed']]
        """
        array = np.asarray(mask)
        if array.ndim != 2 or array.dtype.kind not in "bui" or not np.isin(array, (0, 1)).all():
            raise InputError(
                f"Expected a mask of shape (n, K), true where a class is in the set, got {array.dtype} of shape "
                f"{array.shape}",
                "pass probabilities to a predictor, and here what it returned",
            )
        inside, names, index = array.astype(bool), column_names(mask), row_index(mask)
        own = as_classes(classes, Rows(inside, names=names))
        members = np.nonzero(inside)[1].astype(np.int32)
        return cls(inside.sum(axis=1), members, own, index)

    @classmethod
    def from_labels(cls, sets: Sequence[Sequence[str | int]], classes: Classes) -> "PredictionSets":
        """Return sets given as lists of classes, the most probable first if that order is known.

        Args:
            sets: for each object the classes in its set, as names or as indices, none twice.
            classes: names of all classes, in the order of the columns; or a range.

        >>> import pippin
        >>> pippin.PredictionSets.from_labels([["weed"], [], ["crop", "weed"]], ["crop", "soil", "weed"]).sizes
        array([1, 0, 2])
        """
        lists = [list(own) for own in sets]
        flat = [name for own in lists for name in own]
        names = classes if isinstance(classes, range) else tuple(classes)
        members = as_labels(flat, len(flat), names).astype(np.int32) if flat else np.empty(0, dtype=np.int32)
        sizes = np.array([len(own) for own in lists], dtype=np.int64)
        found = cls(sizes, members, names)
        if int(found.mask.sum()) != len(flat):
            row = int((found.mask.sum(axis=1) != sizes).argmax())
            raise InputError("holds a class twice, expected each at most once", "leave the second out", row=row)
        return found

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, key: Any) -> "list[str | int] | PredictionSets":
        place = place_of(key, self.index, len(self))
        if isinstance(place, int):
            return [self.classes[k] for k in self.members[self.offsets[place] : self.offsets[place + 1]]]
        rows = np.arange(len(self))[place]
        found = [self.members[self.offsets[i] : self.offsets[i + 1]] for i in rows]
        index, novel = (None if part is None else part[rows] for part in (self.index, self.novel))
        return PredictionSets(self.sizes[rows], np.concatenate([self.members[:0], *found]), self.classes, index, novel)

    def __iter__(self) -> Iterator[list[str | int]]:
        return iter(self.labels())

    def __repr__(self) -> str:
        singletons = f"{np.mean(self.sizes == 1):.0%}" if len(self) else "no"
        mean = f"{self.sizes.mean():.2f}" if len(self) else "0"
        novel = "" if self.novel is None else f", {int(self.novel.sum()):,} novel"
        return (
            f"PredictionSets({len(self):,} objects, {len(self.classes):,} classes, "
            f"mean size {mean}, {singletons} singletons{novel})"
        )

    def _repr_html_(self) -> str:
        first = self[:SHOWN]
        assert isinstance(first, PredictionSets)
        names = range(len(first)) if first.index is None else first.index
        novel = np.zeros(len(first), dtype=bool) if first.novel is None else first.novel
        rows = [
            (str(name), str(len(one)), _chips(one, bool(new)))
            for name, one, new in zip(names, first, novel, strict=True)
        ]
        told = repr(self).removeprefix("PredictionSets(").removesuffix(")")
        note = f"Most probable class first. {SINGLETONS}; blue: a singleton, amber: several classes."
        return html_table(told, ("object", "size", "set"), rows, left_out=len(self) - len(first), note=note)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each set begins in `members`; one more entry than there are sets."""
        return read_only(np.concatenate([[0], np.cumsum(self.sizes)]))

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """Membership as an n × K array, made when it is first asked for."""
        mask = np.zeros((len(self), len(self.classes)), dtype=bool)
        mask[np.repeat(np.arange(len(self)), self.sizes), self.members] = True
        return read_only(mask)

    def contains(self, labels: ArrayLike) -> NDArray[np.bool_]:
        """Whether each object's set holds the given label.

        Args:
            labels: one class per object, as indices or as names.
        """
        same_index("sets", self.index, labels=labels)
        return self.hold(as_labels(labels, len(self), self.classes))

    def hold(self, wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each object's set holds the class of that index.

        Args:
            wanted: one class index per object, known to be one.
        """
        inside = np.zeros(len(self), dtype=bool)
        hit = self.members == np.repeat(wanted, self.sizes)
        inside[np.repeat(np.arange(len(self)), self.sizes)[hit]] = True
        return inside

    def flagged(self, novel: ArrayLike) -> "PredictionSets":
        """The same sets, of which some say that their object is like none of the calibration objects.

        No set is promised to hold the true class of such an object: it may have none.

        Args:
            novel: which objects, one boolean each; such as what `discoveries` found among `novelty`.

        >>> import pippin
        >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([2, 0, 1]), ("crop", "soil", "weed"))
        >>> sets.flagged([False, True])
        PredictionSets(2 objects, 3 classes, mean size 1.50, 50% singletons, 1 novel)
        """
        same_index("sets", self.index, novel=novel)
        marks = np.array(novel)
        if marks.shape != (len(self),) or marks.dtype != bool:
            raise InputError(
                f"Expected one True or False for each of {len(self):,} sets, got {marks.dtype} of shape {marks.shape}"
            )
        return replace(self, novel=read_only(marks))

    def labels(self) -> list[list[str | int]]:
        """The names (or indices) in each set, most probable first."""
        names = [self.classes[k] for k in self.members.tolist()]
        ends = self.offsets.tolist()
        return [names[a:b] for a, b in pairwise(ends)]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The share of sets of every size, singletons hatched; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.

        >>> import pippin
        >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([2, 0, 1]), ("crop", "soil", "weed"))
        >>> [float(bar.get_height()) for bar in sets.plot().patches]
        [0.0, 0.5, 0.5]
        """
        from pippin._plotting.sets import plot_sets

        return plot_sets(self, ax)

    def to_frame(self, classes: bool = False) -> Any:
        """A data frame with the columns size and labels, novel where known, and with `classes=True` one per class.

        pandas with its index kept, where the objects came in a pandas frame; polars otherwise.

        Args:
            classes: whether there is a column of its own for every class.

        >>> import pippin
        >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([2, 0, 1]), ("crop", "soil", "weed"))
        >>> sets.to_frame(classes=True).row(1)
        (2, ['crop', 'soil'], True, True, False)
        """
        mask = self.mask if classes else None
        return sets_frame(self.sizes, self.labels(), mask, self.classes, self.index, self.novel)


COLUMNS = ("labels", "confidence", "credibility")


@dataclass(frozen=True, eq=False, repr=False)
class PointPredictions:
    """One class per object, the one with the largest p-value, and how far to trust it.

    Attributes:
        labels: the class of each object.
        confidence: 1 − the second largest p-value: the greatest 1 − α at which the prediction set has at most
            this one class.
        credibility: the largest p-value: small where no class looks like the calibration examples.

    >>> import numpy as np
    >>> PointPredictions(np.array(["weed", "crop"]), np.array([0.99, 0.5]), np.array([0.7, 0.6]))
    PointPredictions(2 objects, mean confidence 0.745, mean credibility 0.650)
    """

    labels: NDArray[Any]
    confidence: Vector
    credibility: Vector

    def __post_init__(self) -> None:
        for name in COLUMNS:
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.labels)

    def _repr_html_(self) -> str:
        told = repr(self).removeprefix("PointPredictions(").removesuffix(")")
        note = "Confidence: 1 − the second largest p-value; credibility: the largest."
        return html_columns(told, {name: getattr(self, name).tolist() for name in COLUMNS}, most=10, note=note)

    def __repr__(self) -> str:
        means = f"mean confidence {self.confidence.mean():.3f}, mean credibility {self.credibility.mean():.3f}"
        return f"PointPredictions({len(self):,} objects, {means})"
