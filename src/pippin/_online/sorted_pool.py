"""Scores in order, one more or one less at a time, in pieces small enough to move."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable

PIECE = 1024  # scores in a piece at most


class SortedPool:
    """A sorted list of scores in pieces: to add or remove one finds its piece in log₂ steps and moves that alone.

    The k-th smallest is looked for from where the last one was, so it costs nothing while k hardly changes.
    `n` is how many there are.

    >>> pool = SortedPool([0.3, 0.1, 0.2])
    >>> pool.add(0.15)
    >>> pool.remove(0.1)
    >>> pool.n, pool.kth(1), pool.kth(3)
    (3, 0.15, 0.3)
    """

    def __init__(self, scores: Iterable[float]) -> None:
        every = sorted(scores)
        step = PIECE // 2
        self._pieces = [array("d", every[i : i + step]) for i in range(0, max(1, len(every)), step)]
        self._tops = [piece[-1] for piece in self._pieces if piece]
        self.n = len(every)
        self._here, self._before = 0, 0  # the piece of the last k-th, and how many scores lie in pieces before it

    def add(self, score: float) -> None:
        """One more."""
        i = bisect_left(self._tops, score)
        if i == len(self._tops):  # above all
            i = max(0, i - 1)
            self._tops[i : i + 1] = [score]
        piece = self._pieces[i]
        insort(piece, score)
        self.n += 1
        self._before += i < self._here
        if len(piece) > PIECE:
            half = PIECE // 2
            self._pieces[i : i + 1] = [piece[:half], piece[half:]]
            self._tops.insert(i, piece[half - 1])
            self._here += i < self._here

    def remove(self, score: float) -> None:
        """One less, of those equal to a score that is there."""
        i = bisect_left(self._tops, score)
        piece = self._pieces[i]
        del piece[bisect_left(piece, score)]
        self.n -= 1
        self._before -= i < self._here
        if piece:
            self._tops[i] = piece[-1]
            return
        del self._tops[i]
        if len(self._pieces) > 1:
            del self._pieces[i]
            self._here, self._before = 0, 0

    def kth(self, k: int) -> float:
        """The k-th smallest, counted from 1."""
        while k <= self._before:
            self._here -= 1
            self._before -= len(self._pieces[self._here])
        while k > self._before + len(self._pieces[self._here]):
            self._before += len(self._pieces[self._here])
            self._here += 1
        return self._pieces[self._here][k - self._before - 1]
