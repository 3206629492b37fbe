"""What a predictor's file holds, every part of it checked when it is read."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Classes, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._theory.level import as_alpha
from pippin._theory.scores import Score, make_score

T = TypeVar("T", bound=np.signedinteger[Any])

MOST_CLASSES = 2**31 - 1  # members of sets are held in 32 bits


class Content:
    """What a file holds, each part taken once, and checked as it is taken.

    >>> content = Content({"alpha": 0.1, "n_ip": 7})
    >>> content.level(), content.whole("n_ip", 1, 5)
    Traceback (most recent call last):
    pippin._runtime.errors.InputError: its n_ip makes no sense.
    """

    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = dict(parts)

    def take(self, key: str, sound: Callable[[Any], bool] = lambda value: True) -> Any:
        """A part, if it makes sense."""
        if key not in self._parts:
            raise InputError(f"its {key} is missing")
        value = self._parts.pop(key)
        need(key, sound(value))
        return value

    def has(self, key: str) -> bool:
        """Whether there is such a part, not taken yet."""
        return key in self._parts

    def whole(self, key: str, least: int, most: int = 2**63 - 1) -> int:
        """A whole number, which 64 bits can hold."""
        found: int = self.take(key, lambda value: _is_whole(value) and least <= value <= most)
        return found

    def level(self) -> float:
        """The share of errors allowed."""
        found: float = self.take("alpha", lambda value: isinstance(value, float) and as_alpha(value) == value)
        return found

    def score(self) -> Score:
        """The score with its parameters."""
        found = self.take("score", lambda value: isinstance(value, dict) and set(value) == {"name", "parameters"})
        need("score", isinstance(found["name"], str) and isinstance(found["parameters"], dict))
        return make_score(found["name"], found["parameters"])

    def classes(self) -> Classes:
        """The names of the columns, all text or all whole numbers; a range where there are none."""
        n = self.whole("n_classes", 2, MOST_CLASSES)
        names = self.take("classes", lambda value: value is None or isinstance(value, list))
        if names is None:
            return range(n)
        alike = all(isinstance(name, str) for name in names) or all(_is_whole(name) for name in names)
        need("classes", alike and len(set(names)) == n == len(names))
        return tuple(names)

    def shared(self) -> tuple[float, int, Classes]:
        """What `shared_content` gave: the level, the number of examples and the classes."""
        return self.level(), self.whole("n_calibration", 1), self.classes()

    def number(self, key: str) -> float:
        """A number that may be infinite."""
        return float(self.take(key, _is_number))

    def scores(self, key: str, n: int) -> Vector:
        """n scores in increasing order, none NaN."""
        values = vector_of(key, self.take(key))
        need(key, len(values) == n and rising(values))
        return values

    def optional_numbers(self, key: str) -> Vector | None:
        """A list of numbers, none NaN; None where the file left them out."""
        values = self.take(key)
        return None if values is None else vector_of(key, values)

    def few(self, key: str, n: int) -> tuple[float, ...]:
        """n numbers."""
        values = vector_of(key, self.take(key))
        need(key, len(values) == n)
        return tuple(values.tolist())

    def matrix(self, key: str, shape: tuple[int, ...]) -> Vector:
        """Rows of numbers, none NaN."""
        rows = self.take(key, lambda value: isinstance(value, list))
        found = [vector_of(key, row) for row in rows]
        need(key, len(found) == shape[0] and all(len(row) == shape[1] for row in found))
        return read_only(np.array(found, dtype=np.float64))

    def finish(self) -> None:
        """Raises an InputError where a part was not taken."""
        for key in self._parts:
            raise InputError(f"its {key!r} is not known")


def need(part: str, good: bool) -> None:
    """Raises an InputError that names the part of a file that cannot be."""
    if not good:
        raise InputError(f"its {part} makes no sense")


def vector_of(part: str, values: Any) -> Vector:
    """Numbers from a list of a file, none NaN."""
    need(part, isinstance(values, list) and all(map(_is_number, values)))
    return read_only(np.array(values, dtype=np.float64))


def whole_numbers(part: str, values: Any, kind: type[T]) -> NDArray[T]:
    """Whole numbers from lists of a file; anything else is refused, not rounded."""
    flat = values if isinstance(values, list) else [None]
    for row in flat:
        need(part, all(map(_is_whole, row)) if isinstance(row, list) else _is_whole(row))
    need(part, len({len(row) if isinstance(row, list) else -1 for row in flat}) == 1)
    info = np.iinfo(kind)
    found = np.array(values, dtype=object)
    need(part, bool((found >= info.min).all() and (found <= info.max).all()))
    return read_only(found.astype(kind))


def rising(scores: Vector) -> bool:
    """Whether scores are one list in increasing order, none of them NaN.

    >>> rising(np.array([0.1, 0.1, np.inf])), rising(np.array([0.2, 0.1])), rising(np.array([np.nan]))
    (True, False, False)
    """
    return scores.ndim == 1 and not np.isnan(scores).any() and bool((scores[1:] >= scores[:-1]).all())


def check_limits(kept: Any, limits: Any) -> None:
    """Raises an InputError if the limits in a file are not those that its calibration scores give at its level.

    >>> check_limits(0.5, 0.7)
    Traceback (most recent call last):
    pippin._runtime.errors.InputError: its thresholds are not those of its calibration scores.
    """
    if not np.array_equal(kept, limits):
        raise InputError("its thresholds are not those of its calibration scores")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """A float that is not NaN; or a whole number that is one, as other languages may write it."""
    return value == value if isinstance(value, float) else _is_whole(value) and abs(value) <= 2**53
