"""Every window of the photographs that are sound, and which of them stay."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin.images.preparing.we3ds import VOID, mask_classes
from pippin.images.preparing.windows import Counted, Options, choose, label_windows, window_name

if TYPE_CHECKING:
    import polars


class Piece(NamedTuple):
    """A window to write: its place in the grid, and its file below the output folder."""

    row: int
    column: int
    file: str


@dataclass(frozen=True)
class Table:
    """One entry per window, in the order of photograph, row and column."""

    photo: NDArray[np.str_]
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    label: NDArray[np.uint8]
    counts: NDArray[np.int32]
    stays: NDArray[np.bool_]

    def file(self, i: int) -> str:
        """Where a window goes below the output folder."""
        name = window_name(str(self.photo[i]), int(self.row[i]), int(self.column[i]))
        return f"{mask_classes()[self.label[i]].name}/{name}.png"

    def pieces(self) -> Iterator[tuple[str, tuple[Piece, ...]]]:
        """Every photograph that has windows to write, with them."""
        rows = np.flatnonzero(self.stays)
        starts = np.flatnonzero(self.photo[rows][1:] != self.photo[rows][:-1]) + 1
        for part in np.split(rows, starts) if rows.size else []:
            pieces = (Piece(int(self.row[i]), int(self.column[i]), self.file(i)) for i in part.tolist())
            yield str(self.photo[part[0]]), tuple(pieces)

    def tally(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Windows per mask value, before and after the choice."""
        n = len(mask_classes())
        return np.bincount(self.label, minlength=n), np.bincount(self.label[self.stays], minlength=n)

    def example(self) -> str:
        """The photograph that shows most: of those with windows that stay, the one with the most classes."""
        seen = [(photo, self.label[self.photo == photo]) for photo in np.unique(self.photo[self.stays])[:200]]
        return str(max(seen, key=lambda pair: (len(np.unique(pair[1])), int((pair[1] > 1).sum())))[0])

    def frame(self) -> "polars.DataFrame":
        """The windows that stay: file, photo, row, column, label, and a column of pixel counts for each class."""
        import polars

        rows = np.flatnonzero(self.stays)
        names = [known.name for known in mask_classes()]
        columns: dict[str, object] = {
            "file": [self.file(i) for i in rows.tolist()],
            "photo": self.photo[rows].tolist(),
            "row": self.row[rows],
            "column": self.column[rows],
            "label": [names[value] for value in self.label[rows]],
        }
        return polars.DataFrame(columns | {name: self.counts[rows, value] for value, name in enumerate(names)})


def make_table(counted: Sequence[Counted], options: Options) -> Table:
    """Labels every window and chooses."""
    each = [one.counts.shape[0] * one.counts.shape[1] for one in counted]
    photo = np.repeat(np.array([one.photo for one in counted], dtype=np.str_), each)
    places = [np.indices(one.counts.shape[:2]).reshape(2, -1) for one in counted]
    row, column = np.concatenate([np.empty((2, 0), np.int64), *places], axis=1)
    n = len(mask_classes())
    counts = np.concatenate([np.empty((0, n), np.int32), *(one.counts.reshape(-1, n) for one in counted)])
    label = label_windows(counts, options.label)
    names = [window_name(*place) for place in zip(photo.tolist(), row.tolist(), column.tolist(), strict=True)]
    stays = choose(names, label, options)
    assert not stays[label == VOID].any()
    return Table(photo, row, column, label, counts, stays)
