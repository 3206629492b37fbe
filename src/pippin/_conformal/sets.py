"""Prediction sets in compressed rows: the size of each set, and its members, most probable first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.frames import positions_of, sets_frame
from pippin._runtime.arguments import checked_methods
from pippin._runtime.arrays import Classes, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.showing import AMBER, BLUE, Chips, html_columns, html_table
from pippin._validation.frames import as_frame, column_names, row_index
from pippin._validation.index import same_index
from pippin._validation.labels import as_class_names, as_labels, as_rows_and_classes
from pippin._validation.rows import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 10  # maximum number of sets that a notebook displays
MEMBERS_SHOWN = 12  # maximum number of classes of a set that a notebook displays
SINGLETONS = "Size: classes in the set; singletons: sets with one class"


def _chips(members: list[str | int], novel: bool) -> Chips:
    note = ("" if members else "(empty)") + (" – novel" if novel else "")
    if len(members) > MEMBERS_SHOWN:
        note = f"and {len(members) - MEMBERS_SHOWN:,} more{note}"
    return Chips([str(name) for name in members[:MEMBERS_SHOWN]], BLUE if len(members) == 1 else AMBER, note)


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class PredictionSets:
    """Prediction sets, one set of classes per object.

    The column numbers of the classes in the set of object i are `members[offsets[i]:offsets[i + 1]]`. `sets[i]` returns
    the names of these classes; a slice, an array of positions or an array of truth values returns a `PredictionSets`.
    `i` is always a position. If the probabilities were a pandas frame, `sets.loc["a.png"]` returns the set of the
    object with this label.

    Attributes:
        sizes: the number of classes in each set.
        members: the column numbers of the classes of all sets, object after object, most probable first.
        classes: the names of the columns, in their order.
        index: the pandas index of the objects, of a pandas frame or an xarray DataArray; None otherwise.
        novel: True for each object that is unlike all calibration objects, set by `flagged`; None if unknown.

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
        """Create prediction sets from a membership array, such as the output of another library.

        Args:
            mask: (n, K) array, True where a class is in the set; the column names and the index of a pandas frame are
                kept.
            classes: names of the K columns.

        Returns:
            The sets; their members are in the order of the columns, since the array does not rank them.

        Raises:
            InputError: `mask` is not a matrix of truth values.

        >>> import pippin
        >>> pippin.PredictionSets.from_mask([[True, False], [True, True]], ["crop", "weed"]).labels()
        [['crop'], ['crop', 'weed']]
        """
        frame = as_frame(mask)
        array = np.asarray(frame)
        if array.ndim != 2 or array.dtype.kind not in "bui" or not np.isin(array, (0, 1)).all():
            got = f"{array.dtype} of shape {array.shape}"
            remedy = "pass a membership array; probabilities go to the predict method of a predictor"
            raise InputError(f"Expected a mask of shape (n, K), True where a class is in the set, got {got}", remedy)
        given = Rows(array.astype(bool), names=column_names(frame), index=row_index(frame))
        rows, checked_classes = as_rows_and_classes(given, classes)
        members = np.nonzero(rows.array)[1].astype(np.int32)
        return cls(rows.array.sum(axis=1), members, checked_classes, rows.index)

    @classmethod
    def from_labels(cls, sets: Sequence[Sequence[str | int]], classes: Classes) -> "PredictionSets":
        """Create prediction sets from lists of classes.

        Args:
            sets: for each object the classes in its set, as names or as indices, the most probable first if known.
            classes: names of all classes, in the order of the columns; or a range.

        Returns:
            The sets, with the members in the given order.

        Raises:
            InputError: a list holds an unknown class, or a class twice.

        >>> import pippin
        >>> pippin.PredictionSets.from_labels([["weed"], [], ["crop", "weed"]], ["crop", "soil", "weed"]).sizes
        array([1, 0, 2])
        """
        lists = [list(members) for members in sets]
        flat = [name for members in lists for name in members]
        names = as_class_names(classes)
        members = as_labels(flat, len(flat), names).astype(np.int32) if flat else np.empty(0, dtype=np.int32)
        sizes = np.array(list(map(len, lists)), dtype=np.int64)
        created = cls(sizes, members, names)
        repeated = created.mask.sum(axis=1) != sizes
        if repeated.any():
            row = int(repeated.argmax())
            raise InputError("holds a class twice, expected each at most once", "leave the second out", row=row)
        return created

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, key: Any) -> "list[str | int] | PredictionSets":
        if not isinstance(key, bool) and isinstance(key, Integral):
            i = range(len(self))[int(key)]
            return [self.classes[k] for k in self.members[self.offsets[i] : self.offsets[i + 1]]]
        if not isinstance(key, slice):
            given, key = key, np.asarray(key)
            if isinstance(given, tuple) or key.ndim != 1 or key.dtype.kind not in "iub":
                what = f"Expected the position of an object, or a slice, got {given!r}"
                raise TypeError(f"{what}: pass labels of a pandas index to sets.loc.")
        rows = np.arange(len(self))[key]
        members = [self.members[self.offsets[i] : self.offsets[i + 1]] for i in rows]
        index, novel = (None if part is None else part[rows] for part in (self.index, self.novel))
        members_of_rows = np.concatenate([self.members[:0], *members])
        return PredictionSets(self.sizes[rows], members_of_rows, self.classes, index, novel)

    @property
    def loc(self) -> "SetsByLabel":
        """Access by labels of the pandas index: `sets.loc["a.png"]`, with lists and slices of labels as in pandas.

        A label of one object returns the class names in its set; anything else returns a `PredictionSets`.

        Raises:
            InputError: the sets have no index, or a label is not in it.

        >>> import pandas, pippin
        >>> mask = pandas.DataFrame({"crop": [True, True], "weed": [False, True]}, index=["a.png", "b.png"])
        >>> sets = pippin.PredictionSets.from_mask(mask)
        >>> sets.loc["b.png"], sets.loc[["b.png", "a.png"]].labels()
        (['crop', 'weed'], [['crop', 'weed'], ['crop']])
        """
        return SetsByLabel(self)

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
        objects = zip(names, first, novel.tolist(), strict=True)
        rows = [(str(name), str(len(members)), _chips(members, is_novel)) for name, members, is_novel in objects]
        caption = repr(self).removeprefix("PredictionSets(").removesuffix(")")
        note = f"Most probable class first. {SINGLETONS}; blue: a singleton, amber: several classes."
        return html_table(caption, ("object", "size", "set"), rows, left_out=len(self) - len(first), note=note)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Start of each set in `members`, followed by the number of all members."""
        return read_only(np.concatenate([[0], np.cumsum(self.sizes)]))

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """Membership as an (n, K) array of truth values, computed at the first access."""
        mask = np.zeros((len(self), len(self.classes)), dtype=bool)
        mask[np.repeat(np.arange(len(self)), self.sizes), self.members] = True
        return read_only(mask)

    def contains(self, labels: ArrayLike) -> NDArray[np.bool_]:
        """Return True for each object whose set contains the class in `labels`, such as the true class.

        Args:
            labels: one class per object, as column number or as name.

        Returns:
            (n,) truth values.

        Raises:
            InputError: a label is not one of the classes, or the pandas indexes of labels and sets differ.

        >>> import pippin
        >>> pippin.PredictionSets.from_labels([["weed"], ["crop"]], ["crop", "weed"]).contains(["weed", "weed"])
        array([ True, False])
        """
        same_index("sets", self.index, labels=labels)
        return self.contain_codes(as_labels(labels, len(self), self.classes))

    def contain_codes(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return True for each object whose set contains a given class: like `contains`, for valid column numbers only.

        Args:
            codes: the column number of one class per object; it is not checked.

        Returns:
            (n,) truth values.

        >>> import pippin
        >>> pippin.PredictionSets.from_labels([["weed"], ["crop"]], ["crop", "weed"]).contain_codes([1, 1])
        array([ True, False])
        """
        inside = np.zeros(len(self), dtype=bool)
        hit = self.members == np.repeat(codes, self.sizes)
        inside[np.repeat(np.arange(len(self)), self.sizes)[hit]] = True
        return inside

    def flagged(self, novel: ArrayLike) -> "PredictionSets":
        """Return the sets with flags for novel objects, which are unlike all calibration objects.

        The guarantee does not extend to novel objects: their true class may be none of the classes.

        Args:
            novel: one truth value per object, such as the result of `pippin.shift.discoveries`.

        Returns:
            Equal sets whose attribute `novel` holds these flags.

        Raises:
            InputError: `novel` does not have one truth value per set.

        >>> import pippin
        >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([2, 0, 1]), ("crop", "soil", "weed"))
        >>> sets.flagged([False, True])
        PredictionSets(2 objects, 3 classes, mean size 1.50, 50% singletons, 1 novel)
        """
        same_index("sets", self.index, novel=novel)
        marks = np.array(novel)
        if marks.shape != (len(self),) or marks.dtype != bool:
            got = f"{marks.dtype} of shape {marks.shape}"
            raise InputError(f"Expected one True or False for each of {len(self):,} sets, got {got}")
        return replace(self, novel=read_only(marks))

    def labels(self) -> list[list[str | int]]:
        """Return the class names (or indices) in each set, most probable first.

        Returns:
            One list per object.

        >>> import pippin
        >>> pippin.PredictionSets.from_mask([[True, False], [True, True]], ["crop", "weed"]).labels()
        [['crop'], ['crop', 'weed']]
        """
        names = [self.classes[k] for k in self.members.tolist()]
        return [names[a:b] for a, b in pairwise(self.offsets.tolist())]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the share of sets of each size, with singletons hatched.

        Args:
            ax: Matplotlib axes to draw on; new axes by default.

        Returns:
            The Matplotlib axes.

        >>> import pippin
        >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([2, 0, 1]), ("crop", "soil", "weed"))
        >>> [float(bar.get_height()) for bar in sets.plot().patches]
        [0.0, 0.5, 0.5]
        """
        from pippin._plotting.sets import plot_sets

        return plot_sets(self, ax)

    def to_frame(self, classes: bool = False) -> Any:
        """Convert the sets to a data frame with the columns size, labels and, if known, novel.

        Args:
            classes: if True, add a column of truth values per class.

        Returns:
            A pandas frame with the index of the objects if they have one, else a polars frame.

        Raises:
            InputError: with `classes=True`, a class has the name of another column.

        >>> import pippin
        >>> sets = pippin.PredictionSets(np.array([1, 2]), np.array([2, 0, 1]), ("crop", "soil", "weed"))
        >>> sets.to_frame(classes=True).row(1)
        (2, ['crop', 'soil'], True, True, False)
        """
        mask = self.mask if classes else None
        return sets_frame(self.sizes, self.labels(), mask, self.classes, self.index, self.novel)


@dataclass(frozen=True)
class SetsByLabel:
    """Access to prediction sets by the labels of their pandas index; `PredictionSets.loc` returns it."""

    sets: PredictionSets

    def __getitem__(self, key: Any) -> "list[str | int] | PredictionSets":
        return self.sets[positions_of(key, self.sets.index)]


COLUMNS = ("labels", "confidence", "credibility")


@dataclass(frozen=True, eq=False, repr=False)
class PointPredictions:
    """The class with the largest p-value for each object, with its confidence and credibility.

    Attributes:
        labels: the class of each object.
        confidence: 1 − the second largest p-value; the largest confidence level 1 − alpha at which the prediction set
            has at most one class.
        credibility: the largest p-value; it is small if the object is unlike the calibration rows of every class.

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
        caption = repr(self).removeprefix("PointPredictions(").removesuffix(")")
        note = "Confidence: 1 − the second largest p-value; credibility: the largest."
        return html_columns(caption, {name: getattr(self, name).tolist() for name in COLUMNS}, most=10, note=note)

    def __repr__(self) -> str:
        means = f"mean confidence {self.confidence.mean():.3f}, mean credibility {self.credibility.mean():.3f}"
        return f"PointPredictions({len(self):,} objects, {means})"
