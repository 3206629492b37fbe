"""State shared by streams and monitors: scores by Mondrian category, scores of single rows, random numbers, history."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np

from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.rules import MondrianRule
from pippin._conformal.serialization import Content, Saved, decoded, load, need, read_content, vector_of
from pippin._engine import dispatch
from pippin._engine.draws import check_seed
from pippin._runtime.arguments import checked_methods
from pippin._runtime.arrays import Classes
from pippin._runtime.errors import InputError
from pippin._runtime.provenance import Provenance
from pippin._theory.scores import Score
from pippin._validation.labels import as_labels

DISJOINT = ("class", "kind", "group", "class and group")  # taxonomies with exactly one category per row
MAX_BLOCKS = 400  # maximum number of blocks of a `History`; even, since blocks are joined in pairs


@checked_methods
class Resumable(Saved):
    """Base class of streams and monitors: a file holds their whole state, so that they continue after loading."""

    _kind: ClassVar[str]

    @property
    def provenance(self) -> Provenance | None:  # type: ignore[override]  # an attribute in the base class
        """Provenance of the predictor; None without a predictor."""
        predictor: ConformalPredictor | None = getattr(self, "predictor", None)
        return None if predictor is None else predictor.provenance

    def _recorded(self, provenance: Provenance) -> Self:
        state: Any = self
        state.predictor = replace(state.predictor, provenance=provenance)
        return self

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> Self:
        """Read a file written by `save`.

        Args:
            path: the file.

        Returns:
            A stream or monitor in the state in which it was saved.

        Raises:
            InputError: the file is damaged, was edited, or holds an object of another class.
        """
        state = load(path)
        if not isinstance(state, cls):
            raise InputError(f"{path} does not hold a {cls._kind}", "read it with pippin.load")
        return state


def saved_predictor(content: Content) -> Any:
    """Rebuild the predictor that the file of a stream or monitor contains."""
    return read_content(decoded(content.take("predictor", lambda value: isinstance(value, dict))))


def counts_of(part: str, values: Any, n: int | None, most: int) -> list[int]:
    """Return an entry of a file after checking that it is a list of n integers from 0 to `most`.

    `part` is the name of the entry, for errors. If n is None, the list may have any length.
    """
    need(part, isinstance(values, list) and (n is None or len(values) == n))
    need(part, all(type(value) is int and 0 <= value <= most for value in values))
    counts: list[int] = values
    return counts


class ScorePools:
    """Calibration scores by Mondrian category, among which new scores are ranked.

    Attributes:
        score: the score of the predictor.
        categories: `categories[g][k]` is the category of class k in group g.
        scores: calibration scores of each category.
        levels: significance level of each category.
        names: name of each category: "all", a class, a kind (superclass), a group of rows, or a pair (group, class).
        groups: {name of a group: its index g}; empty without groups.
        unseen: index g for all groups without calibration rows; None if such a group raises an InputError.

    Raises:
        InputError: the predictor stores no calibration scores, or its taxonomy is not in `DISJOINT`.
    """

    def __init__(self, predictor: ConformalPredictor) -> None:
        rule = getattr(predictor, "_rule", None)
        if (
            not isinstance(rule, MondrianRule)
            or predictor.sharpeners
            or rule.per not in (None, *DISJOINT)
            or rule.categories.scores is None
        ):
            what = "Expected a predictor with its calibration scores and thresholds for all, per class or per group"
            raise InputError(f"{what}, got {predictor!r}", 'calibrate with or without per="class" or per="group"')
        lookup, offsets = rule.categories.lookup, rule.categories.offsets
        group_names = rule.groups or (None,)
        columns = predictor.classes if rule.kinds is None else rule.kinds.per_class()
        self.score: Any = predictor.score
        self.categories: list[list[int]] = lookup.tolist()
        self.scores = np.split(rule.categories.scores, offsets[1:-1])
        self.levels = list(rule.levels or [predictor.alpha] * len(self.scores))
        self.groups = {str(name): index for index, name in enumerate(group_names) if name is not None}
        self.unseen = len(self.groups) if self.groups and group_names[-1] is None else None
        self.names: list[Any] = []
        # `first` is the index in the flattened `lookup` (groups × classes) at which a category first occurs.
        for first in np.unique(lookup, return_index=True)[1].tolist():
            group, column = group_names[first // len(columns)], columns[first % len(columns)]
            names: dict[str | None, Any] = {None: "all", "group": group, "class and group": (group, column)}
            self.names.append(names.get(rule.per, column))

    def group_index(self, name: Any) -> int:
        """Return the index of a group from its name; 0 if the predictor has no groups."""
        if not self.groups:
            if name is not None:
                raise InputError(f"Expected no group with this object, got {name!r}", "leave it out")
            return 0
        if name is None:
            raise InputError("Expected a group with this object, got None", "pass group=")
        index = self.groups.get(str(name), self.unseen)
        if index is None:
            what = f"Expected one of the groups {', '.join(self.groups)}, got {name!r}"
            raise InputError(what, 'calibrate with unseen="marginal" for others too')
        return index


class RowScorer:
    """Fast functions for the scores and prediction sets of single rows, compiled at their first use."""

    def __init__(self, score: Score, classes: Classes) -> None:
        self.score, self._classes = score, classes
        self._indices: dict[Any, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the compiled functions, which cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name not in ("score_of", "members")}

    @cached_property
    def score_of(self) -> dispatch.OneScore:
        """Function (probabilities, random number u, class index) → score of the class."""
        return dispatch.one_score(self.score, len(self._classes))

    @cached_property
    def members(self) -> dispatch.OneSet:
        """Function (probabilities, random number u, threshold) → class indices of the set, most probable first."""
        return dispatch.one_set(self.score, len(self._classes))

    def class_index(self, label: Any) -> int:
        """Return the index of a class, given by index or by name."""
        try:
            return self._indices[type(label), label]  # the key includes the type, since 1 == True == 1.0
        except (KeyError, TypeError):  # the label is not in the cache, or not hashable
            index = int(as_labels([label], 1, self._classes)[0])
            self._indices[type(label), label] = index
            return index


def seeded(seed: int | None) -> np.random.Generator:
    """Return a random number generator for a seed; raise an InputError unless it is a whole number or None."""
    if seed is not None:
        check_seed(seed)
    return np.random.default_rng(seed)


def position_of(generator: np.random.Generator) -> list[str]:
    """Return the state of a random number generator for a file: two integers of 128 bits as text."""
    words: Any = generator.bit_generator.state["state"]
    return [str(words["state"]), str(words["inc"])]


def generator_from_content(content: Content) -> np.random.Generator:
    """Restore a random number generator from the state that `position_of` wrote to a file."""
    words = content.take("coin", lambda value: isinstance(value, list) and len(value) == 2)
    need("coin", all(isinstance(word, str) and word.isdecimal() and len(word) < 40 for word in words))
    state, inc = map(int, words)
    need("coin", max(state, inc) < 2**128)
    bits = np.random.PCG64(0)
    bits.state = {**bits.state, "state": {"state": state, "inc": inc}}
    return np.random.Generator(bits)


class History:
    """Sums or maxima of a value over blocks of consecutive rows, in constant memory, for plots.

    When there are `MAX_BLOCKS` blocks, neighboring blocks are joined in pairs, which doubles the rows per block.

    >>> from operator import add
    >>> history = History(add)
    >>> for row in range(1000):
    ...     history.add(row % 2)
    >>> history.block, history.values[:2], len(history.values)
    (4, [2.0, 2.0], 250)
    """

    def __init__(self, join: Callable[[float, float], float]) -> None:
        self._join = join
        self.block = 1  # rows per block
        self.values: list[float] = []
        self._open, self._n_open = 0.0, 0  # value of the last, incomplete block, and its number of rows

    def add(self, value: float) -> None:
        """Add the value of one row."""
        self._open = self._join(self._open, value) if self._n_open else float(value)
        self._n_open += 1
        if self._n_open < self.block:
            return
        self.values.append(self._open)
        self._n_open = 0
        if len(self.values) == MAX_BLOCKS:
            self.values = list(map(self._join, self.values[::2], self.values[1::2]))
            self.block *= 2

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.block * len(self.values) + self._n_open

    @property
    def total(self) -> float:
        """Sum over all rows; only for a history of sums."""
        return sum(self.values) + (self._open if self._n_open else 0.0)

    def content(self) -> list[Any]:
        """Return the data of the history for the file of a stream or monitor."""
        return [self.block, self._n_open, self._open if self._n_open else 0.0, self.values]

    def resume(self, content: Content, key: str) -> None:
        """Restore the history from a file."""
        parts = content.take(key, lambda value: isinstance(value, list) and len(value) == 4)
        self.block, self._n_open = counts_of(key, parts[:2], 2, 2**62)
        self.values = vector_of(key, parts[3]).tolist()
        need(key, isinstance(parts[2], int | float) and max(map(abs, (parts[2], *self.values))) < 1e300)
        self._open = float(parts[2])  # in files of version 0.1, True or False for 1 or 0
        need(key, self._n_open < self.block and len(self.values) < MAX_BLOCKS)
