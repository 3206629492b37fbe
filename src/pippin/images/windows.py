"""Windows of a photograph: cut on a grid from the top left, labelled by the pixels of the mask, and selected.

Under the rule `plant`, the label of a window is its most frequent plant class, and soil only if the window has no
plant. Under the rule `all`, the label is the most frequent class, including soil. Of equally frequent classes, the one
with the lower mask value is the label. Void pixels are not counted; a window with only void pixels has no label.
"""

import hashlib
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.disk import read_regular_file, to_bytes, write_atomically
from pippin._runtime.errors import InputError
from pippin.images.we3ds import RARE, SOIL, VOID, Problem, ReadMember, image_file, mask_classes, mask_file

if TYPE_CHECKING:
    import polars  # imported in functions, since worker processes need no polars
    from PIL import Image

LabelRule = Literal["plant", "all"]
SMALLEST = 32  # smallest side allowed for a window, in pixels

MOST_PIXELS = 89_478_485  # maximum number of pixels of a PNG file; from this number on, Pillow warns
HEADER = 16  # offset in bytes of width, height, bit depth and color type in a PNG file
GREY, RGB, PALETTE = 0, 2, 3  # codes of color types in the PNG format
COLOR_TYPES = {GREY: "grey", RGB: "RGB", PALETTE: "palette", 4: "grey with transparency", 6: "RGB with transparency"}


class BadImageError(ValueError):
    """Error for an invalid image file; the message is a predicate, such as "is cut short"."""


class PngHeader(NamedTuple):
    """Header of a PNG file: width and height in pixels, bits per channel (`depth`), and code of the color type."""

    width: int
    height: int
    depth: int
    color: int

    def __str__(self) -> str:
        return f"{self.width} × {self.height}"

    @property
    def kind(self) -> str:
        """Bit depth and color type in words, such as "8-bit RGB"."""
        return f"{self.depth}-bit {COLOR_TYPES.get(self.color, f'colour type {self.color}')}"


@dataclass(frozen=True)
class WindowOptions:
    """Options for cutting photographs into windows and selecting windows.

    Attributes:
        window: side of a window in pixels.
        label: rule for the label of a window, "plant" or "all".
        soil: number of windows of soil to select at random.
        drop: names of classes whose windows are not selected.
        seed: seed of the random selection of soil windows.
    """

    window: int = 224
    label: LabelRule = "plant"
    soil: int = 1500
    drop: tuple[str, ...] = RARE
    seed: int = 0

    def __post_init__(self) -> None:
        names = [known.name for known in mask_classes() if known.value != VOID]
        unknown = [name for name in self.drop if name not in names]
        if unknown:
            sentence = f"Expected classes to drop among {', '.join(names)}; got {unknown[0]!r}"
            raise InputError(sentence, "correct the name")
        if self.label not in get_args(LabelRule):
            raise InputError(f"Expected the label rule plant or all, got {self.label!r}", "choose one of them")
        for name, least in (("window", SMALLEST), ("soil", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"Expected {name} to be at least {least}, got {getattr(self, name)}", "raise it")
        object.__setattr__(self, "drop", tuple(name for name in names if name in self.drop))


def make_table(counts: Mapping[str, NDArray[np.int32]], options: WindowOptions) -> "polars.DataFrame":
    """Label and select the windows of all photographs.

    Args:
        counts: for each photograph the numbers of pixels, shape (rows of windows, columns of windows, mask values).
        options: options with the rule for labels and those of the selection.

    Returns:
        A row per window, in the order of photograph, row and column. Its columns are file, photo, row, column, label,
        the number of pixels of each class, `value` (the mask value of the label), and `stays` (True if the window is
        selected).
    """
    import polars

    classes = [known.name for known in mask_classes()]
    photo = [photo for photo, each in counts.items() for _ in range(each[..., 0].size)]
    places = [np.indices(each.shape[:2]).reshape(2, -1) for each in counts.values()]
    row, column = np.concatenate([np.empty((2, 0), np.int64), *places], axis=1)
    each_pixels = [each.reshape(-1, len(classes)) for each in counts.values()]
    pixels = np.concatenate([np.empty((0, len(classes)), np.int32), *each_pixels])
    value = label_windows(pixels, options.label)
    label = [classes[k] for k in value]
    names = [f"{each}_{i}_{j}" for each, i, j in zip(photo, row, column, strict=True)]
    files = [f"{folder}/{name}.png" for folder, name in zip(label, names, strict=True)]
    columns: dict[str, Any] = {"file": files, "photo": photo, "row": row, "column": column, "label": label}
    columns |= {name: pixels[:, k] for k, name in enumerate(classes)}
    return polars.DataFrame(columns | {"value": value, "stays": select_windows(names, value, options)})


def count_photograph(read: ReadMember, photo: str, window: int) -> NDArray[np.int32] | Problem:
    """Read the mask of a photograph, verify the photograph, and count the pixels of each mask value in each window.

    Return the counts, or the problem of an invalid mask or photograph.
    """
    file = mask_file(photo)
    try:
        data = _content(read, file)
        header = read_header(data)
        if header.color not in (GREY, PALETTE) or header.depth != 8:
            raise BadImageError(f"is {header.kind}, but a mask has one channel of 8 bits")
        mask = read_pixels(data)
        values = np.flatnonzero(np.bincount(mask.ravel())).tolist()
        unknown = [value for value in values if value >= len(mask_classes())]
        if unknown:
            listed = ", ".join(map(str, unknown[:5])) + (", …" if len(unknown) > 5 else "")
            raise BadImageError(f"holds unknown values ({listed})")
        file = image_file(photo)
        _check_photograph(read_header(_content(read, file)), header, window)
    except BadImageError as error:
        return Problem(photo, file, str(error))
    return count_windows(mask, window)


def read_photograph(read: ReadMember, photo: str) -> NDArray[np.uint8]:
    """Read the pixels of a photograph, shape (height, width, 3).

    Raises:
        BadImageError: the file cannot be decoded.
    """
    return read_pixels(_content(read, image_file(photo)))


def count_windows(mask: NDArray[np.uint8], window: int) -> NDArray[np.int32]:
    """Count the pixels of each mask value in each window; return shape (rows, columns, mask values).

    The margin at the right and bottom that is narrower than a window is not counted.
    """
    rows, columns, n = mask.shape[0] // window, mask.shape[1] // window, len(mask_classes())
    grid = mask[: rows * window, : columns * window].reshape(rows, window, columns, window)
    parts = grid.swapaxes(1, 2).reshape(rows * columns, window * window)
    return np.array([np.bincount(part, minlength=n) for part in parts], np.int32).reshape(rows, columns, n)


def label_windows(counts: NDArray[np.int32], rule: LabelRule) -> NDArray[np.uint8]:
    """Return the label of each window as a mask value; VOID for a window with only void pixels.

    Args:
        counts: numbers of pixels by mask value along the last axis.
        rule: "plant" for the most frequent plant class if there is a plant, "all" for the most frequent class.

    >>> label_windows(np.array([[9, 90, 1, 0], [9, 90, 0, 0], [9, 0, 0, 0]]), "plant")
    array([2, 1, 0], dtype=uint8)
    """
    first = SOIL + 1 if rule == "plant" else SOIL
    most = np.argmax(counts[..., first:], axis=-1) + first
    otherwise = np.where(counts[..., SOIL] > 0, SOIL, VOID)
    return np.where(counts[..., first:].any(axis=-1), most, otherwise).astype(np.uint8)


def select_windows(names: Sequence[str], labels: NDArray[np.uint8], options: WindowOptions) -> NDArray[np.bool_]:
    """Return True for each selected window: all windows of plants, but only `options.soil` windows of soil.

    Windows of dropped classes and void windows are not selected. The windows of soil are those with the smallest
    SHA-256 of seed and name, so that the selection does not depend on the order of the photographs.
    """
    dropped = [known.value for known in mask_classes() if known.name in options.drop]
    stays: NDArray[np.bool_] = ~np.isin(labels, [VOID, SOIL, *dropped])
    if SOIL not in dropped:
        soil = np.flatnonzero(labels == SOIL).tolist()
        lot = {i: hashlib.sha256(f"{options.seed} {names[i]}".encode()).digest() for i in soil}
        stays[sorted(soil, key=lot.__getitem__)[: options.soil]] = True
    return stays


def read_header(data: bytes) -> PngHeader:
    """Verify the checksums in the content of a PNG file, and return its header.

    Raises:
        BadImageError: the file is no PNG file, or is damaged or cut short.
    """
    with _open_png(data) as image:
        try:
            image.verify()
        except OSError as error:
            raise BadImageError("is cut short") from error
        except (SyntaxError, ValueError) as error:
            raise BadImageError("is damaged (a checksum in it differs)") from error
        except IndexError as error:
            raise BadImageError("is damaged (it has no pixels)") from error
    return PngHeader(*struct.unpack_from(">IIBB", data, HEADER))


def read_pixels(data: bytes) -> NDArray[np.uint8]:
    """Decode the pixels in the content of a PNG file; palette indices are not converted to colors."""
    with _open_png(data) as image:
        try:
            return np.asarray(image, dtype=np.uint8)
        except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
            raise BadImageError("cannot be decoded") from error


@contextmanager
def _open_png(data: bytes) -> Iterator["Image.Image"]:
    from PIL import Image, UnidentifiedImageError

    too_large = BadImageError("has more pixels than any photograph")
    if (
        data[12:HEADER] == b"IHDR"
        and len(data) > HEADER + 8
        and math.prod(struct.unpack_from(">II", data, HEADER)) > MOST_PIXELS
    ):
        raise too_large
    try:
        image = Image.open(io.BytesIO(data), formats=["PNG"])
    except Image.DecompressionBombError as error:
        raise too_large from error
    except UnidentifiedImageError as error:
        raise BadImageError("is no PNG file" if data else "is empty") from error
    except (OSError, ValueError) as error:
        raise BadImageError("is damaged or cut short") from error
    with image:
        yield image


def cut_photograph(
    read: ReadMember, job: tuple[str, list[tuple[int, int, str]]], out: Path, window: int
) -> int | Problem:
    """Cut a photograph, and write the windows whose files are missing or damaged.

    `job` is the name of the photograph, and row, column and file of each selected window. Return the number of written
    windows, or the problem if the photograph cannot be decoded.
    """
    from PIL import Image

    photo, windows = job
    missing = [each for each in windows if not _is_complete(out / each[2])]
    if not missing:
        return 0
    try:
        pixels = read_photograph(read, photo)
    except BadImageError as error:
        return Problem(photo, image_file(photo), str(error))
    for row, column, file in missing:
        part = pixels[row * window : (row + 1) * window, column * window : (column + 1) * window]
        save = partial(Image.fromarray(np.ascontiguousarray(part)).save, format="PNG", compress_level=6)
        (out / file).parent.mkdir(exist_ok=True)
        write_atomically(out / file, to_bytes(save), lasting=False)  # `_is_complete` finds partial files
    return len(missing)


def _is_complete(file: Path) -> bool:
    try:
        read_header(read_regular_file(file))
    except (OSError, BadImageError):
        return False
    return True


def _check_photograph(header: PngHeader, mask: PngHeader, window: int) -> None:
    if header.color != RGB or header.depth != 8:
        raise BadImageError(f"is {header.kind}, but a photograph is 8-bit RGB")
    if header[:2] != mask[:2]:
        raise BadImageError(f"is {header}, but its mask is {mask}")
    if min(header.width, header.height) < window:
        raise BadImageError(f"is {header}, smaller than a window of {window} × {window}")


def _content(read: ReadMember, file: str) -> bytes:
    try:
        return read(file)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        why = getattr(error, "strerror", None)
        raise BadImageError(f"cannot be read ({why})" if why else "cannot be read") from error
