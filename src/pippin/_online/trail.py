"""What a stream looked like, in a few hundred numbers, however long it was."""

from typing import Any

from pippin._conformal.content import Content, need

MOST = 400  # points; an even number


class Trail:
    """A number per block of rows, the largest or the sum of what each row gave; when full, blocks join in pairs.

    >>> trail = Trail("sum")
    >>> for row in range(1000):
    ...     trail.add(row % 2)
    >>> trail.block, trail.values[:2], len(trail.values)
    (4, [2.0, 2.0], 250)
    """

    def __init__(self, kind: str) -> None:
        self._largest = kind == "largest"
        self.block = 1
        self.values: list[float] = []
        self._now, self._n = 0.0, 0

    def add(self, value: float) -> None:
        """One more row."""
        if not self._n:
            self._now = value
        elif not self._largest:
            self._now += value
        elif value > self._now:
            self._now = value
        self._n += 1
        if self._n == self.block:
            self._end()

    @property
    def n(self) -> int:
        """How many rows it has seen."""
        return self.block * len(self.values) + self._n

    @property
    def total(self) -> float:
        """The sum over all of them, where it holds sums."""
        return sum(self.values) + (self._now if self._n else 0.0)

    def _end(self) -> None:
        """A block is full."""
        self.values.append(float(self._now))
        self._n = 0
        if len(self.values) == MOST:
            pairs = zip(self.values[::2], self.values[1::2], strict=True)
            self.values = [max(pair) if self._largest else sum(pair) for pair in pairs]
            self.block *= 2

    def content(self) -> list[Any]:
        """What a file holds of it."""
        return [self.block, self._n, self._now if self._n else 0.0, self.values]

    def resume(self, content: Content, key: str) -> None:
        """The same trail."""
        self.block, self._n, self._now, self.values = content.take(key, _is_trail)
        need(key, self._n < self.block and len(self.values) < MOST)


def _is_trail(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 4 or not isinstance(value[3], list):
        return False
    whole = type(value[0]) is int and type(value[1]) is int and value[0] > 0 <= value[1]
    return whole and all(isinstance(one, int | float) and one == one for one in (value[2], *value[3]))
