"""Windows of a photograph: cut on a grid from the top left, counted, labelled, chosen.

A window's label ignores void pixels. Under the rule `plant` it is the most frequent plant
class, and soil only where there is no plant; under `all` it is the most frequent class,
soil included. Of equally frequent classes the one with the lower mask value wins. A window
of void alone has no label.
"""

import hashlib
import zipfile
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.errors import InputError
from pippin.images.preparing.png import GREY, PALETTE, RGB, BadImageError, Header, read_header, read_pixels
from pippin.images.preparing.we3ds import RARE, SOIL, VOID, Problem, Reader, image_file, mask_classes, mask_file

Rule = Literal["plant", "all"]
SMALLEST = 32  # pixels of a window's side


@dataclass(frozen=True)
class Options:
    """What decides which windows there are; `soil` is how many windows of soil are drawn, with `seed`."""

    window: int = 224
    label: Rule = "plant"
    soil: int = 1500
    drop: tuple[str, ...] = RARE
    seed: int = 0

    def __post_init__(self) -> None:
        names = [known.name for known in mask_classes() if known.value != VOID]
        unknown = [name for name in self.drop if name not in names]
        if unknown:
            raise InputError(
                f"Expected classes to drop among {', '.join(names)}; got {unknown[0]!r}", "correct the name"
            )
        if self.label not in get_args(Rule):
            raise InputError(f"Expected the label rule plant or all, got {self.label!r}", "choose one of them")
        for name, least in (("window", SMALLEST), ("soil", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"Expected {name} to be at least {least}, got {getattr(self, name)}", "raise it")
        object.__setattr__(self, "drop", tuple(name for name in names if name in self.drop))


@dataclass(frozen=True)
class Counted:
    """A photograph's windows: counts[row, column, value] pixels have that mask value."""

    photo: str
    counts: NDArray[np.int32]


def count_photograph(read: Reader, photo: str, window: int) -> Counted | Problem:
    """Reads the mask, verifies the photograph beside it, and counts the pixels of every window."""
    file = mask_file(photo)
    try:
        data = _content(read, file)
        header = read_header(data)
        if header.colour not in (GREY, PALETTE) or header.depth != 8:
            raise BadImageError(f"is {header.kind}, but a mask has one channel of 8 bits")
        mask = read_pixels(data)
        unknown = np.flatnonzero(np.bincount(mask.ravel(), minlength=256)[len(mask_classes()) :]) + len(mask_classes())
        if unknown.size:
            raise BadImageError(f"holds unknown values ({_few(unknown.tolist())})")
        file = image_file(photo)
        _verify_photograph(read_header(_content(read, file)), header, window)
    except BadImageError as bad:
        return Problem(photo, file, str(bad))
    return Counted(photo, count_windows(mask, window))


def read_photograph(read: Reader, photo: str) -> NDArray[np.uint8]:
    """The photograph's pixels, (height, width, 3).

    Raises:
        BadImageError: they cannot be decoded.
    """
    return read_pixels(_content(read, image_file(photo)))


def count_windows(mask: NDArray[np.uint8], window: int) -> NDArray[np.int32]:
    """counts[row, column, value]; what is left over at the right and at the bottom is not counted."""
    rows, columns = mask.shape[0] // window, mask.shape[1] // window
    counts = np.empty((rows, columns, len(mask_classes())), np.int32)
    for row in range(rows):
        for column in range(columns):
            part = mask[row * window : (row + 1) * window, column * window : (column + 1) * window]
            counts[row, column] = np.bincount(part.ravel(), minlength=counts.shape[2])
    return counts


def label_windows(counts: NDArray[np.int32], rule: Rule) -> NDArray[np.uint8]:
    """The mask value that names each window, along the last axis of the counts; 0 where all is void.

    >>> label_windows(np.array([[9, 90, 1, 0], [9, 90, 0, 0], [9, 0, 0, 0]]), "plant")
    array([2, 1, 0], dtype=uint8)
    """
    first = SOIL + 1 if rule == "plant" else SOIL
    most = np.argmax(counts[..., first:], axis=-1) + first
    else_soil = np.where(counts[..., SOIL] > 0, SOIL, VOID)
    return np.where(counts[..., first:].any(axis=-1), most, else_soil).astype(np.uint8)


def choose(names: Sequence[str], labels: NDArray[np.uint8], options: Options) -> NDArray[np.bool_]:
    """Which windows stay: those of a label that is not dropped, and of soil as many as asked.

    The soil windows are those with the smallest SHA-256 of seed and name, so that what is
    drawn depends neither on the order of the photographs nor on what else there is to draw.
    """
    dropped = [known.value for known in mask_classes() if known.name in options.drop]
    stays: NDArray[np.bool_] = ~np.isin(labels, [VOID, SOIL, *dropped])
    if SOIL not in dropped:
        soil = np.flatnonzero(labels == SOIL).tolist()
        stays[sorted(soil, key=lambda i: _lot(options.seed, names[i]))[: options.soil]] = True
    return stays


def window_name(photo: str, row: int, column: int) -> str:
    """A window's name, of which its file's is made."""
    return f"{photo}_{row}_{column}"


def _lot(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {name}".encode()).digest()


def _verify_photograph(header: Header, mask: Header, window: int) -> None:
    if header.colour != RGB or header.depth != 8:
        raise BadImageError(f"is {header.kind}, but a photograph is 8-bit RGB")
    if (header.width, header.height) != (mask.width, mask.height):
        raise BadImageError(f"is {header.size}, but its mask is {mask.size}")
    if min(header.width, header.height) < window:
        raise BadImageError(f"is {header.size}, smaller than a window of {window} × {window}")


def _content(read: Reader, file: str) -> bytes:
    try:
        return read(file)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        why = getattr(error, "strerror", None)
        raise BadImageError(f"cannot be read ({why})" if why else "cannot be read") from error


def _few(values: Collection[int]) -> str:
    shown = ", ".join(map(str, list(values)[:5]))
    return shown if len(values) <= 5 else f"{shown}, …"
