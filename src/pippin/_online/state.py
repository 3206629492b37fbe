"""Parts that streams and monitors share: calibration scores by cell, scores of single rows, history and files."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np

from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.rules import MondrianRule
from pippin._conformal.serialization import Content, decoded, load_kind, need, read_content, vector_of, write_file
from pippin._engine import dispatch
from pippin._engine.draws import check_seed
from pippin._runtime.arrays import Classes, Vector
from pippin._runtime.errors import InputError
from pippin._theory.scores import Score
from pippin._validation.labels import as_labels

DISJOINT = ("class", "kind", "group", "class and group")  # taxonomies in which a row is in one cell only
MAX_BLOCKS = 400  # of a history; an even number


class Resumable:
    """Base of streams and monitors: a file holds the whole state, from which each continues to the same bits."""

    _kind: ClassVar[str]

    def content(self) -> dict[str, Any]:
        """Return the state as a file holds it."""
        raise NotImplementedError

    @classmethod
    def _from_content(cls, content: Content) -> Self:
        """Restore the state, each part checked."""
        raise NotImplementedError

    def save(self, path: "str | PathLike[str]") -> None:
        """Write the whole state, including the predictor if there is one, to one file, which is never half-written.

        The object that `load` returns continues to the same bits.

        Args:
            path: the file.
        """
        write_file(path, self.content())

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> Self:
        """Read a file that `save` wrote.

        Args:
            path: the file.

        Raises:
            InputError: the file is damaged, was edited, or holds something else.
        """
        state: Self = load_kind(path, cls._kind, f"a {cls._kind}", "read it with pippin.load")
        return state


def saved_predictor(content: Content) -> ConformalPredictor:
    """Read the predictor in the file of a stream or monitor."""
    predictor: ConformalPredictor = read_content(
        decoded(content.take("predictor", lambda value: isinstance(value, dict)))
    )
    return predictor


def counts_of(part: str, values: Any, n: int | None, most: int) -> list[int]:
    """Check that a part of a file is a list of n whole numbers, or of any number of them, from 0 to `most`."""
    need(part, isinstance(values, list) and (n is None or len(values) == n))
    need(part, all(type(value) is int and 0 <= value <= most for value in values))
    counts: list[int] = values
    return counts


@dataclass(frozen=True, eq=False)
class ScorePools:
    """Calibration scores among which new scores are ranked: those of all rows, or of one class, kind or group.

    Attributes:
        score: the score of the predictor.
        cells: cells[g][k] is the cell of class k in group g.
        scores: calibration scores of each cell.
        levels: significance level of each cell.
        names: name of each cell.
        groups: index of each group by name; None without groups.
        unseen: index of the groups unseen at calibration; None where these are an error.
    """

    score: Score
    cells: list[list[int]]
    scores: list[Vector]
    levels: list[float]
    names: list[Any]
    groups: dict[str, int] | None = None
    unseen: int | None = None

    def group_index(self, name: Any) -> int:
        """Return the index of a group; 0 without groups."""
        if self.groups is None:
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


def score_pools(predictor: Any) -> ScorePools:
    """Return the calibration scores of a predictor, by cell.

    Raises:
        InputError: the predictor has no calibration scores, or cells that share rows.
    """
    rule = getattr(predictor, "_rule", None)
    if (
        not isinstance(rule, MondrianRule)
        or predictor.sharpeners
        or predictor.per not in (None, *DISJOINT)
        or rule.categories.scores is None
    ):
        raise InputError(
            f"Expected a predictor with its calibration scores and thresholds for all, per class or per group, got "
            f"{predictor!r}",
            'calibrate with or without per="class" or per="group"',
        )
    cells = rule.categories
    scores = [rule.categories.scores[start:stop] for start, stop in pairwise(cells.offsets.tolist())]
    levels = list(rule.levels or [predictor.alpha] * len(scores))
    groups = {str(name): index for index, name in enumerate(rule.groups or ()) if name is not None}
    unseen = len(groups) if rule.groups and rule.groups[-1] is None else None
    names = ["all"] if rule.per is None else _cell_names(rule, predictor.classes)
    return ScorePools(predictor.score, cells.lookup.tolist(), scores, levels, names, groups or None, unseen)


def _cell_names(rule: MondrianRule, classes: Classes) -> list[Any]:
    """Return the name of each cell: a class, a kind, a group, or a group and a class."""
    names: dict[int, Any] = {}
    columns = classes if rule.kinds is None else rule.kinds.per_class()
    for group, cells in zip(rule.groups or [None], rule.categories.lookup.tolist(), strict=True):
        for column, cell in zip(columns, cells, strict=True):
            names.setdefault(cell, {"group": group, "class and group": (group, column)}.get(rule.per or "", column))
    return [names[cell] for cell in sorted(names)]


class RowScorer:
    """Scores and prediction sets of single rows, in microseconds; compiled at the first use."""

    def __init__(self, score: Score, classes: Classes) -> None:
        self.score, self._classes = score, classes
        self._indices: dict[Any, int] = {}

    @cached_property
    def score_of(self) -> dispatch.OneScore:
        """Function of a row, u and a class index: the score of the class."""
        return dispatch.one_score(self.score, len(self._classes))

    @cached_property
    def members(self) -> dispatch.OneSet:
        """Function of a row, u and a threshold: the prediction set, most probable class first."""
        return dispatch.one_set(self.score, len(self._classes))

    def class_index(self, label: Any) -> int:
        """Return the index of a class, given by index or by name."""
        try:
            return self._indices[label]
        except (KeyError, TypeError):  # a label not met before, or one that is not hashable
            index = int(as_labels([label], 1, self._classes)[0])
            self._indices[label] = index
            return index


def seeded(seed: int | None) -> np.random.Generator:
    """Return a generator of uniform numbers, the seed checked."""
    if seed is not None:
        check_seed(seed)
    return np.random.default_rng(seed)


def position_of(generator: np.random.Generator) -> list[str]:
    """Return the position of a generator in its sequence: two whole numbers of 128 bits, as text."""
    words: Any = generator.bit_generator.state["state"]
    return [str(words["state"]), str(words["inc"])]


def generator_from_content(content: Content) -> np.random.Generator:
    """Restore a generator at the position in a file."""
    words = content.take("coin", lambda value: isinstance(value, list) and len(value) == 2)
    need("coin", all(isinstance(word, str) and word.isdecimal() and len(word) < 40 for word in words))
    state, inc = map(int, words)
    need("coin", max(state, inc) < 2**128)
    bits = np.random.PCG64(0)
    bits.state = {**bits.state, "state": {"state": state, "inc": inc}}
    return np.random.Generator(bits)


class History:
    """One number per block of rows, their sum or maximum; when full, neighboring blocks are joined in pairs.

    >>> from operator import add
    >>> history = History(add)
    >>> for row in range(1000):
    ...     history.add(row % 2)
    >>> history.block, history.values[:2], len(history.values)
    (4, [2.0, 2.0], 250)
    """

    def __init__(self, join: Callable[[float, float], float]) -> None:
        self._join = join
        self.block = 1
        self.values: list[float] = []
        self._open, self._n_open = 0.0, 0  # the last block, and its rows so far

    def add(self, value: float) -> None:
        """Add the value of one row."""
        self._open = self._join(self._open, value) if self._n_open else value
        self._n_open += 1
        if self._n_open < self.block:
            return
        self.values.append(float(self._open))
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
        """Sum over all rows, if blocks hold sums."""
        return sum(self.values) + (self._open if self._n_open else 0.0)

    def content(self) -> list[Any]:
        """Return the state as a file holds it."""
        return [self.block, self._n_open, self._open if self._n_open else 0.0, self.values]

    def resume(self, content: Content, key: str) -> None:
        """Restore the state from a file."""
        parts = content.take(key, lambda value: isinstance(value, list) and len(value) == 4)
        self.block, self._n_open = counts_of(key, parts[:2], 2, 2**62)
        self._open, self.values = parts[2], vector_of(key, parts[3]).tolist()
        need(key, isinstance(self._open, int | float) and self._n_open < self.block and len(self.values) < MAX_BLOCKS)
