"""A folder of class sub-folders: its files, their pixels, and how they are divided."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.errors import InputError
from pippin._runtime.threads import n_threads
from pippin._runtime.warn import warn
from pippin.images.reading import read_image

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"}
CACHE = 4 * 2**30  # bytes of pixels that are kept in memory
NAMED = 5  # bad files that an error names

_WINDOW = re.compile(r"(.+)_\d+_\d+")


def photo_of(file: str) -> str | None:
    """The photograph that a window `<photo>_<row>_<column>` was cut from; None for another name.

    >>> photo_of("maize/img_7_0_3.png"), photo_of("maize/7.png")
    ('img_7', None)
    """
    found = _WINDOW.fullmatch(Path(file).stem)
    return found[1] if found else None


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """The files of a folder, as paths inside it, with their classes as numbers."""

    root: Path
    files: tuple[str, ...]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.files)

    def __repr__(self) -> str:
        return f"Images({self.root}: {len(self):,} images, {len(self.classes)} classes)"

    def photo(self, index: int) -> str | None:
        """The photograph that a window `<photo>_<row>_<column>` was cut from; None for another name."""
        return photo_of(self.files[index])

    def groups(self) -> NDArray[np.str_]:
        """What each image belongs to: its photograph, else itself."""
        return np.array([self.photo(i) or file for i, file in enumerate(self.files)])

    def checksum(self) -> str:
        """SHA-256 of all names and contents."""

        def digest(file: str) -> bytes:
            return os.fsencode(file) + b"\0" + hashlib.sha256((self.root / file).read_bytes()).digest()

        with ThreadPoolExecutor(n_threads()) as pool:
            return hashlib.sha256(b"".join(pool.map(digest, self.files))).hexdigest()


def list_images(folder: Path) -> Images:
    """The images of every sub-folder; the sub-folder's name is the class.

    Raises:
        InputError: no such folder, fewer than two classes, or a class with fewer than two images.
    """
    if not folder.is_dir():
        raise InputError(f"Expected a folder of images, but there is no folder {folder}", "check the path")
    names = sorted(part.name for part in folder.iterdir() if part.is_dir() and not part.name.startswith("."))
    found = {name: _files(folder, name) for name in names}
    if not any(found.values()):
        raise InputError(
            f"{folder} holds no images in sub-folders",
            f"put them in one sub-folder per class ({', '.join(sorted(ENDINGS))})",
        )
    if len(names) < 2:
        raise InputError(f"{folder} holds one class, {names[0]!r}, expected at least two", "add a sub-folder per class")
    for name, files in found.items():
        if len(files) < 2:
            count = "one image" if files else "no image"
            raise InputError(
                f"The class {name!r} of {folder} has {count}, expected at least two (one trains, one is held out)",
                "add images or remove the sub-folder",
            )
    labels = np.repeat(np.arange(len(names)), [len(files) for files in found.values()])
    return Images(folder, tuple(file for files in found.values() for file in files), labels, tuple(names))


def _files(folder: Path, name: str) -> list[str]:
    files = (path for path in (folder / name).rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files if not path.name.startswith("."))


def divide(images: Images, fraction: float, by_photo: bool, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The images that train and those held out, at random: the share of every class, or whole photographs.

    Raises:
        InputError: photographs are asked for, but the names tell none, or only one.
    """
    rng = np.random.default_rng(seed)
    if by_photo:
        return _divide_photos(images, fraction, rng)
    trains = np.zeros(len(images), dtype=bool)
    for label in range(len(images.classes)):
        mine = rng.permutation(np.flatnonzero(images.labels == label))
        trains[mine[: min(max(round(fraction * len(mine)), 1), len(mine) - 1)]] = True
    return np.flatnonzero(trains), np.flatnonzero(~trains)


def _divide_photos(
    images: Images, fraction: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    photos = [images.photo(i) for i in range(len(images))]
    if None in photos:
        raise InputError(
            "To divide by photograph, expected names such as img_00012_3_4.png (photograph, row, column), got "
            f"{images.files[photos.index(None)]}",
            "rename the images, or pass --group none",
        )
    counts = Counter(str(photo) for photo in photos)
    if len(counts) < 2:
        raise InputError(f"All images are of one photograph, {photos[0]}, expected at least two", "pass --group none")
    order = rng.permutation(sorted(counts))
    ends = np.cumsum([counts[str(photo)] for photo in order])
    chosen = set(order[: min(max(int(np.abs(ends - fraction * len(images)).argmin()) + 1, 1), len(order) - 1)])
    trains = np.array([photo in chosen for photo in photos])
    unseen = sorted(set(range(len(images.classes))) - set(images.labels[trains].tolist()))
    if unseen:
        warn(
            f"No photograph that trains shows {', '.join(images.classes[k] for k in unseen)}: "
            "the classifier cannot know it; choose another seed or a larger --train-fraction."
        )
    return np.flatnonzero(trains), np.flatnonzero(~trains)


class Pixels:
    """Pixels of the images as squares of one size: in memory if they fit, else read when asked for."""

    def __init__(self, images: Images, size: int, cache: int, advance: Callable[[int], None]) -> None:
        self._images, self._size = images, size
        shape = (len(images), 3, size, size)
        self._kept = np.empty(shape, np.uint8) if int(np.prod(shape)) <= cache else None
        bad: list[str] = []

        def read(index: int) -> None:
            try:
                pixels = read_image(images.root / images.files[index], size)
            except InputError as error:
                bad.append(_told(images.files[index], error))
            else:
                if self._kept is not None:
                    self._kept[index] = pixels
            advance(1)

        with ThreadPoolExecutor(n_threads()) as pool:
            list(pool.map(read, range(len(images))))
        if bad:
            named = ", ".join(sorted(bad)[:NAMED]) + (f" and {len(bad) - NAMED} more" if len(bad) > NAMED else "")
            raise InputError(
                f"Expected images that can be read, but {len(bad)} in {images.root} cannot ({named})",
                "replace or delete them",
            )

    def batch(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The pixels of some images, (n, 3, size, size)."""
        if self._kept is not None:
            return self._kept[rows]
        paths = [self._images.root / self._images.files[i] for i in rows]
        with ThreadPoolExecutor(n_threads()) as pool:
            return np.stack(list(pool.map(lambda path: read_image(path, self._size), paths)))


def _told(file: str, error: InputError) -> str:
    """The file, and what it is where it is not just damaged."""
    kind = error.__cause__
    return f"{file} is {kind.what}" if isinstance(kind, InputError) else file


def batches(rows: NDArray[np.int64], size: int) -> Sequence[NDArray[np.int64]]:
    """Rows in pieces of one size; a last one of a single row, which has no spread, joins the one before."""
    starts = list(range(0, len(rows), size))
    if len(starts) > 1 and len(rows) - starts[-1] == 1:
        starts.pop()
    return [rows[a:b] for a, b in zip(starts, [*starts[1:], len(rows)], strict=True)]
