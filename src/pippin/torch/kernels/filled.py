"""What kernels are told of a score and of limits, and what they fill in: sets, or the places and scores of labels."""

import math
from contextlib import suppress
from typing import NamedTuple

import torch

from pippin.torch.kernels.language import stream_of

# Numbers that are 0 at first: faults; how often a score has each byte in each of its 8 places, and how many programs
# have counted that (`select.py`); how many rows are left (`whole.py`); and one that keeps addresses multiples of 16.
NUMBERS = 1 + 8 * 256 + 1 + 1 + 1
LEFT = 2050

# Kinds of scores: all but SOCOP are linear. Some look at a class alone, as IP, or beside the best one, as the margin:
# these are flat, sets have all classes that are probable enough, and nobody has to rank them.
SOCOP, LINEAR, BESIDE, ALONE = range(4)


def kind_of(price: float, reach: int) -> int:
    """What kind of score has these coefficients."""
    return {0: ALONE, 1: BESIDE}.get(reach, LINEAR) if math.isnan(price) else SOCOP


class Formula(NamedTuple):
    """A score: the coefficients of every rank (K, 5), c, b and μ first among its numbers, and what is drawn.

    `u` has a number for each row; none, if nothing was drawn. `kind` is one of SOCOP, LINEAR, BESIDE and ALONE.
    """

    table: torch.Tensor
    numbers: torch.Tensor
    u: torch.Tensor
    kind: int

    @property
    def linear(self) -> bool:
        return self.kind != SOCOP

    @property
    def flat(self) -> bool:
        return self.kind >= BESIDE

    @property
    def drawn(self) -> bool:
        return self.u.shape[0] > 0

    def of(self, rows: torch.Tensor) -> "Formula":
        """The same for some rows."""
        return self._replace(u=self.u[rows]) if self.drawn else self


class Limits(NamedTuple):
    """Limits of each group of rows: one for all classes, or one per class (`by_class`), and on ranks too (`by_rank`).

    `highest` (G,) is the largest of each group's `scores`, (G, K) or (G, 1). Row i is in group `group[i]`; where
    all rows are in the first one, `group` is anything. So are `ranks`, where there are no limits on them.
    """

    highest: torch.Tensor
    scores: torch.Tensor
    ranks: torch.Tensor
    group: torch.Tensor
    grouped: bool
    by_class: bool
    by_rank: bool


def one_limit(threshold: torch.Tensor) -> Limits:
    """A threshold, (1,), that all share."""
    return Limits(threshold, threshold, threshold, threshold, False, False, False)


def several_limits(scores: torch.Tensor, ranks: torch.Tensor | None, group: torch.Tensor | None) -> Limits:
    """Limits (G, K) or (G, 1); `ranks`, if any, (G, K) from 1; `group` the row of limits of every object."""
    by_class, scores = scores.shape[1] > 1 or ranks is not None, scores.contiguous()
    if ranks is not None:
        scores = scores.expand_as(ranks).contiguous()
    return Limits(
        scores.amax(dim=1),
        scores,
        scores if ranks is None else ranks.contiguous(),
        scores if group is None else group.contiguous(),
        group is not None,
        by_class,
        ranks is not None,
    )


class Found:
    """Sets to fill in, and membership, if it is wanted.

    A size of −1 marks a row that is not settled yet.
    """

    def __init__(self, x: torch.Tensor, width: int, want_mask: bool) -> None:
        n, n_classes = x.shape
        self.sizes = x.new_empty(n, dtype=torch.int64)
        self.classes = x.new_empty((n, width), dtype=torch.int64)
        self.inside = x.new_empty((n, n_classes), dtype=torch.int8) if want_mask else None

    @property
    def bytes(self) -> torch.Tensor:
        """Where a kernel writes membership; if it is not wanted, anything."""
        return self.sizes if self.inside is None else self.inside

    @property
    def mask(self) -> torch.Tensor | None:
        return None if self.inside is None else self.inside.view(torch.bool)

    def marked(self) -> torch.Tensor:
        """The rows that are not settled yet."""
        return (self.sizes < 0).nonzero().squeeze(1)


class Placed:
    """Labels (int64), and to fill in: their scores, and their ranks from 0; −1 of what is no class.

    −2 − r marks a label of rank r whose score is not settled yet; of few classes, these rows are listed in `left`.
    The first of `faults` counts these; all others are 0 at first.
    """

    def __init__(self, labels: torch.Tensor) -> None:
        self.labels = labels
        self.ranks = torch.empty_like(labels, dtype=torch.int32)
        self.scores = torch.empty_like(labels, dtype=torch.float64)
        self.left = torch.empty_like(self.ranks)
        self.faults = zeros(labels)

    def marked(self) -> torch.Tensor:
        """The rows that are not settled yet."""
        return (self.ranks < -1).nonzero().squeeze(1)


class Left:
    """Room to list rows that are left to others: two counts, of which one is 0, and the rows behind ROWS_FROM.

    Whoever takes the rows sets the other count to 0, for the next one who has this room: so nothing has to be cleared.
    """

    def __init__(self, x: torch.Tensor) -> None:
        self.numbers = torch.zeros(ROWS_FROM + x.shape[0], dtype=torch.int32, device=x.device)
        self.turn = 0  # which count it is


ROWS_FROM = 4
SPARE: dict[tuple[int, int], list[Left]] = {}  # by device and stream, where one kernel follows the other


def room_for_left(x: torch.Tensor) -> Left:
    """Room for the rows of x, which nobody else has meanwhile. A CUDA graph has its own: it clears that."""
    if not capturing(x):
        with suppress(KeyError, IndexError):  # no other thread comes between asking and taking
            found = SPARE[stream_of(x)].pop()
            if found.numbers.shape[0] >= ROWS_FROM + x.shape[0]:
                return found
    return Left(x)


def give_back(left: Left, x: torch.Tensor) -> None:
    """Keeps the room for others, as soon as those who take its rows have been told to."""
    if not capturing(x):
        left.turn = 1 - left.turn
        SPARE.setdefault(stream_of(x), []).append(left)


def capturing(x: torch.Tensor) -> bool:
    """Whether what is launched becomes a part of a CUDA graph."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


ZEROS: dict[tuple[int, int], list[torch.Tensor]] = {}  # by device and stream


def zeros(x: torch.Tensor) -> torch.Tensor:
    """NUMBERS that nobody has written to: many are cleared at once, as that takes a kernel of its own.

    A CUDA graph writes to the same ones whenever it is replayed: there their clearing is a part of it.
    """
    if capturing(x):
        return torch.zeros(NUMBERS, dtype=torch.int32, device=x.device)
    there = stream_of(x)
    try:
        return ZEROS[there].pop()
    except (KeyError, IndexError):
        ready = list(torch.zeros((64, NUMBERS), dtype=torch.int32, device=x.device).unbind())
        ZEROS[there] = ready
        return ready.pop()
