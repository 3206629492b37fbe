"""The exact k-th smallest score of every cell, from counts of parts that are summed and never gathered.

A float64 becomes a 64-bit key of the same order. A round fixes the next bits of the key that is
looked for: every part counts its keys by those bits, among the keys that begin like it. The
sums of the counts say which bits these are, and how many keys are smaller. Once few
keys begin like it, they are gathered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._distributed.part import Part
from pippin._runtime.arrays import Codes, Vector

Keys = NDArray[np.uint64]
View = Callable[[Part], tuple[Vector, Codes]]  # numbers of a part, and the cell of each
Ask = Callable[[Callable[[Part], Any]], Any]  # puts a question to every part, and adds the answers up

WIDTH = 16  # bits of a round, where cells are few
MOST_COUNTS = 1 << 20  # of one round
FEW = 1 << 16  # keys that may be gathered
SIGN = np.uint64(1 << 63)
LOWEST = np.int64(-(1 << 63))  # the same bit


def keys_of(values: Vector) -> Keys:
    """Whole numbers in the order of the values; 0 and −0 are one.

    >>> keys_of(np.array([-np.inf, -1.0, -0.0, 0.0, 2.5, np.inf])).argsort(kind="stable")
    array([0, 1, 2, 3, 4, 5])
    """
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.int64)
    turned = bits >> 63  # all bits of a negative number, and none but the sign of others
    turned |= LOWEST
    bits ^= turned
    return bits.view(np.uint64)


def values_of(keys: Keys) -> Vector:
    """The values that have these keys.

    >>> values_of(keys_of(np.array([-2.5, 0.1, np.inf])))
    array([-2.5,  0.1,  inf])
    """
    return np.where(keys & SIGN, keys & ~SIGN, ~keys).view(np.float64)


class Found(NamedTuple):
    """The numbers that were looked for, of every cell, and how many of its cell are smaller, and equal."""

    values: Vector
    smaller: Codes
    equal: Codes


@dataclass(frozen=True, eq=False)
class Counts:
    """How often a place occurs, for the few of many places where it does."""

    places: Codes
    times: Codes

    def __add__(self, other: "Counts") -> "Counts":
        total = self.dense(1 + max(self.places.max(initial=-1), other.places.max(initial=-1)))
        total[other.places] += other.times
        places = np.flatnonzero(total)
        return Counts(places, total[places])

    def dense(self, n: int) -> Codes:
        """All places, most of them with 0."""
        times = np.zeros(n, dtype=np.int64)
        times[self.places] = self.times
        return times


@dataclass(frozen=True, eq=False)
class Rest:
    """Keys that are left, and whose they may be."""

    whose: Codes
    keys: Keys

    def __add__(self, other: "Rest") -> "Rest":
        return Rest(np.concatenate([self.whose, other.whose]), np.concatenate([self.keys, other.keys]))


@dataclass(frozen=True, eq=False)
class Search:
    """What is known of the keys looked for, (sought per cell, cells): their first bits, and which are done without.

    It is a question: a part answers with the keys that begin so.
    """

    view: View
    begins: Keys
    known: int
    wanted: NDArray[np.bool_]

    def __call__(self, part: Part) -> Rest:
        values, cell = self.view(part)
        n_cells = self.begins.shape[1]
        found = Rest(cell[:0], keys_of(values[:0]))
        for number, (begin, wanted) in enumerate(zip(self.begins, self.wanted, strict=True)):
            some = self._near(values, cell, begin)
            keys, whose = keys_of(values[some]), cell[some]
            if self.known:
                like = keys >> np.uint64(64 - self.known) == (begin if n_cells == 1 else begin[whose])
                keys, whose = keys[like], whose[like]
            if not wanted.all():
                sought = wanted[whose]
                keys, whose = keys[sought], whose[sought]
            own = Rest(whose + number * n_cells, keys)
            found = own if number == 0 else found + own
        return found

    def _near(self, values: Vector, cell: Codes, begin: Keys) -> Any:
        """Where the numbers are whose keys may begin so: they tell by their size, before they become keys."""
        if not self.known:
            return slice(None)
        rest = np.uint64(64 - self.known)
        first = begin << rest
        ends = np.stack([first, first | ((np.uint64(1) << rest) - np.uint64(1))])
        low, high = values_of(np.clip(ends, *keys_of(np.array([-np.inf, np.inf]))))  # what is beyond are no numbers
        if len(begin) == 1:
            return (values >= low[0]) & (values <= high[0])
        return (values >= low[cell]) & (values <= high[cell])


@dataclass(frozen=True, eq=False)
class Round:
    """A question: how often each of the next `width` bits follows the bits that are known."""

    search: Search
    width: int

    def __call__(self, part: Part) -> Counts:
        rest = self.search(part)
        bits = (rest.keys >> np.uint64(64 - self.search.known - self.width)) & np.uint64((1 << self.width) - 1)
        place = (rest.whose << self.width) + bits.astype(np.int64)
        total = self.search.begins.size << self.width
        times = np.bincount(place, minlength=0 if len(place) < total else total)
        places = np.flatnonzero(times)
        return Counts(places, times[places])


def smallest_of_cells(ask: Ask, view: View, k: Codes, few: int = FEW) -> Found:
    """The k-th smallest number of every cell, (sought per cell, cells); none is looked for where k is 0.

    Args:
        ask: puts a question to every part, and adds the answers up.
        view: the numbers of a part, with their cells.
        k: counted from 1, at most as many as the cell has.
        few: so many keys may be gathered.

    >>> parts = [Part(np.array([0.3, 0.1])), Part(np.array([0.2])), Part(np.array([0.2, np.inf]))]
    >>> ask = lambda question: sum(map(question, parts[1:]), question(parts[0]))
    >>> smallest_of_cells(ask, in_one_cell, np.array([[3]]), few=0)
    Found(values=array([[0.2]]), smaller=array([[1]]), equal=array([[2]]))
    """
    wanted, left = k > 0, k.copy()
    search = Search(view, np.zeros(k.shape, dtype=np.uint64), 0, wanted)
    smaller = np.zeros(k.shape, dtype=np.int64)
    width = max(1, min(WIDTH, (MOST_COUNTS // max(1, k.size)).bit_length() - 1))
    while search.known < 64 and wanted.any():
        step = min(width, 64 - search.known)
        counts = ask(Round(search, step)).dense(k.size << step).reshape(*k.shape, 1 << step)
        before = np.cumsum(counts, axis=-1)
        bits = np.where(wanted, (before < left[..., None]).sum(axis=-1), 0)
        equal = np.take_along_axis(counts, bits[..., None], axis=-1)[..., 0]
        passed = np.where(wanted, np.take_along_axis(before, bits[..., None], axis=-1)[..., 0] - equal, 0)
        left, smaller = left - passed, smaller + passed
        begins = (search.begins << np.uint64(step)) | bits.astype(np.uint64)
        search = Search(view, begins, search.known + step, wanted)
        if equal[wanted].sum() <= few:
            return _among_few(ask(search), left, smaller, wanted)
    equal = equal if wanted.any() else np.zeros_like(k)
    return Found(np.where(wanted, values_of(search.begins), np.inf), smaller, np.where(wanted, equal, 0))


def _among_few(rest: Rest, left: Codes, smaller: Codes, wanted: NDArray[np.bool_]) -> Found:
    """The same from all keys that are left."""
    order = np.lexsort((rest.keys, rest.whose))
    whose, keys = rest.whose[order], rest.keys[order]
    found = np.zeros(left.size, dtype=np.uint64)
    less, equal = np.zeros(left.size, dtype=np.int64), np.zeros(left.size, dtype=np.int64)
    first = np.searchsorted(whose, np.arange(left.size + 1))
    for one in np.flatnonzero(wanted).tolist():
        own = keys[first[one] : first[one + 1]]
        found[one] = own[left.flat[one] - 1]
        less[one] = np.searchsorted(own, found[one], side="left")
        equal[one] = np.searchsorted(own, found[one], side="right") - less[one]
    values = np.where(wanted, values_of(found).reshape(left.shape), np.inf)
    return Found(values, smaller + less.reshape(left.shape), equal.reshape(left.shape))


def in_one_cell(part: Part) -> tuple[Vector, Codes]:
    """All scores of a part, in one cell."""
    return part.scores, np.zeros(len(part.scores), dtype=np.int64)
