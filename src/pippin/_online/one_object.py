"""One object at a time: its row checked, its label known by number, the score of a class, and a coin."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.content import Content
from pippin._engine import dispatch
from pippin._engine.draws import check_seed
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Classes, Indices, Vector
from pippin._theory.scores import Score
from pippin._validation.labels import as_labels, as_one_row
from pippin._validation.rows import as_rows

DRAWN = 64  # numbers at once


class OneObject:
    """What a score gives for single rows of these classes, in microseconds."""

    def __init__(self, score: Score, classes: Classes) -> None:
        self.score, self.classes, self.randomized = score, classes, score.randomized
        self._codes: dict[Any, int] = {}

    def row(self, row: Any) -> NDArray[Any]:
        """Its K probabilities as an array."""
        return as_one_row(row, self.classes)

    def code(self, label: Any) -> int:
        """A label, by number or by name, as the number of its class."""
        try:
            return self._codes[label]
        except (KeyError, TypeError):  # new, or nothing that a dict can hold
            code = int(as_labels([label], 1, self.classes)[0])
            self._codes[label] = code
            return code

    def members_within(self, row: NDArray[Any], u: float, thresholds: Vector) -> Indices:
        """The classes whose score is at most their own threshold, most probable first."""
        return dispatch.members(as_rows(row[None]), self.score, Bounds(thresholds[None]), np.array([u]))[1]

    @cached_property
    def score_of(self) -> dispatch.OneScore:
        """A function of a row, u and a class: the score of that class."""
        return dispatch.one_score(self.score, len(self.classes))

    @cached_property
    def members(self) -> dispatch.OneSet:
        """A function of a row, u and a threshold: the classes whose score is at most that, most probable first."""
        return dispatch.one_set(self.score, len(self.classes))


class Coin:
    """Uniform numbers from a seed, drawn some at a time, whose place in the sequence a file can hold."""

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None:
            check_seed(seed)
        self._bits = np.random.PCG64(seed)
        self._left: list[float] = []  # drawn and not used, the next one last

    def toss(self) -> float:
        """The next number."""
        if not self._left:
            self._left = np.random.Generator(self._bits).random(DRAWN)[::-1].tolist()
        return self._left.pop()

    def shuffled(self, scores: Vector) -> Vector:
        """The scores in random order; before the first toss."""
        return np.random.Generator(self._bits).permutation(scores)

    def content(self) -> list[str]:
        """Where the sequence stands: two whole numbers of 128 bits, as text."""
        now = np.random.PCG64()
        now.state = self._bits.state
        now.advance(-len(self._left))
        held: Any = now.state["state"]
        return [str(held["state"]), str(held["inc"])]

    @classmethod
    def from_content(cls, content: Content) -> "Coin":
        """The coin whose next number is the one that would have come."""
        state, inc = content.take("coin", _are_words)
        coin = cls(0)
        coin._bits.state = {**coin._bits.state, "state": {"state": int(state), "inc": int(inc)}}
        return coin


def _are_words(value: Any) -> bool:
    numbers = isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value)
    return numbers and all(one.isdecimal() and len(one) < 40 and int(one) < 2**128 for one in value)
