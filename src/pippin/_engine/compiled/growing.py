"""Room for sets whose sizes nobody knows before: compiled loops fill it, and are given more where it ends."""

from collections.abc import Callable

import numpy as np

from pippin._runtime.arrays import Indices

Onwards = tuple[int, Indices]  # first row, room
Fill = Callable[[Onwards], tuple[int, int, int]]  # -> the row it came to, members, suspects

FIRST_GUESS = 4  # members per row


def grown(fill: Fill, n: int, widest: int) -> tuple[Indices, int]:
    """The members of n rows, and how many rows are suspect; one call of `fill` has room for `widest` members at least.

    The compiled loops own no memory themselves: counting who holds an array would cost more than most rows do.
    """
    pieces: list[Indices] = []
    done, suspects, guess = 0, 0, float(FIRST_GUESS)
    while done < n:
        found = np.zeros(int(guess * (n - done)) + widest, np.int32)
        done, used, more = fill((done, found))
        suspects += more
        pieces.append(found[:used].copy() if used < found.size // 2 else found[:used])  # or all the room is held
        guess = max(guess, 1.2 * sum(map(len, pieces)) / max(done, 1))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces), suspects
