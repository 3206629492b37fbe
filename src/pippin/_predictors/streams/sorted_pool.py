"""Scores in order, one more or one less at a time, in pieces small enough to move."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable

PIECE = 4096  # scores in a piece at most


class SortedPool:
    """A sorted list of scores in pieces: to add or remove one moves a piece at most, to find the k-th counts pieces.

    >>> pool = SortedPool([0.3, 0.1, 0.2])
    >>> pool.add(0.15)
    >>> pool.remove(0.1)
    >>> len(pool), pool.kth(1), pool.kth(3)
    (3, 0.15, 0.3)
    """

    def __init__(self, scores: Iterable[float]) -> None:
        every = sorted(scores)
        step = PIECE // 2
        self._pieces = [array("d", every[i : i + step]) for i in range(0, max(1, len(every)), step)]
        self._tops = [piece[-1] for piece in self._pieces if piece]
        self._n = len(every)

    def __len__(self) -> int:
        return self._n

    def add(self, score: float) -> None:
        """One more."""
        i = min(bisect_left(self._tops, score), len(self._pieces) - 1)
        piece = self._pieces[i]
        insort(piece, score)
        self._tops[i : i + 1] = [piece[-1]]
        self._n += 1
        if len(piece) > PIECE:
            half = PIECE // 2
            self._pieces[i : i + 1] = [piece[:half], piece[half:]]
            self._tops.insert(i, piece[half - 1])

    def remove(self, score: float) -> None:
        """One less, of those equal to a score that is there."""
        i = bisect_left(self._tops, score)
        piece = self._pieces[i]
        del piece[bisect_left(piece, score)]
        self._n -= 1
        if piece:
            self._tops[i] = piece[-1]
        else:
            del self._tops[i]
            if len(self._pieces) > 1:
                del self._pieces[i]

    def kth(self, k: int) -> float:
        """The k-th smallest, counted from 1."""
        for piece in self._pieces:
            if k <= len(piece):
                return piece[k - 1]
            k -= len(piece)
        raise IndexError(k)
