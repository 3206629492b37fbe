"""Folders of labelled images: listing, reading, and division into training and held-out images; training records."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Vector
from pippin._runtime.disk import file_checksum, to_bytes, write_atomically
from pippin._runtime.errors import InputError, warn
from pippin._runtime.threads import n_threads
from pippin.images.reading import crop_square, open_image, picture_statistics, read_image
from pippin.images.training import Epoch
from pippin.tables.limits import check_archive

ENDINGS: Set[str] = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"}
CACHE = 4 * 2**30  # maximum number of bytes of pixels that are kept in memory
NAMED = 5  # maximum number of invalid files that an error message names
TRAINING, WEIGHTS = "training.npz", "model.safetensors"

_WINDOW = re.compile(r"(.+)_\d+_\d+")


def photo_of(file: str) -> str | None:
    """Return the photograph of a window by its file name, `<photo>_<row>_<column>`; None for other file names.

    >>> photo_of("maize/img_7_0_3.png"), photo_of("maize/7.png")
    ('img_7', None)
    """
    match = _WINDOW.fullmatch(Path(file).stem)
    return match[1] if match else None


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Labelled images of a folder: paths relative to the folder `root`, class indices, and class names."""

    root: Path
    files: tuple[str, ...]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.files)

    def checksum(self) -> str:
        """Compute the SHA-256 of the names and contents of all images."""

        def digest(file: str) -> bytes:
            return os.fsencode(file) + b"\0" + bytes.fromhex(file_checksum(self.root / file))

        with ThreadPoolExecutor(n_threads()) as pool:
            return hashlib.sha256(b"".join(pool.map(digest, self.files))).hexdigest()


def list_images(folder: Path) -> Images:
    """List the images of all sub-folders, whose names are the classes.

    Raises:
        InputError: the folder does not exist, or has fewer than two classes, or a class fewer than two images.
    """
    if not folder.is_dir():
        raise InputError(f"Expected a folder of images, but there is no folder {folder}", "check the path")
    names = sorted(part.name for part in folder.iterdir() if part.is_dir() and not part.name.startswith("."))
    files = {name: sorted(p.relative_to(folder).as_posix() for p in images_below(folder / name)) for name in names}
    if not any(files.values()):
        remedy = f"put them in one sub-folder per class ({', '.join(sorted(ENDINGS))})"
        raise InputError(f"{folder} holds no images in sub-folders", remedy)
    if len(names) < 2:
        raise InputError(f"{folder} holds one class, {names[0]!r}, expected at least two", "add a sub-folder per class")
    for name, each in files.items():
        if len(each) < 2:
            sentence = f"The class {name!r} of {folder} has {'one' if each else 'no'} image, expected at least two"
            raise InputError(sentence, "add images, for training and for holding out, or remove the sub-folder")
    labels = np.repeat(np.arange(len(names)), [len(each) for each in files.values()])
    return Images(folder, tuple(file for each in files.values() for file in each), labels, tuple(names))


def images_below(folder: Path, endings: Set[str] = ENDINGS) -> list[Path]:
    """List the files with these endings in a folder and its sub-folders, sorted by path, without hidden files."""
    images = (path for path in folder.rglob("*") if path.suffix.lower() in endings and not path.name.startswith("."))
    return sorted(path for path in images if path.is_file())


def divide(images: Images, fraction: float, by_photo: bool, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide the images at random into training and held-out images, and return the indices of both.

    The training images are a share `fraction` of each class or, with `by_photo`, all windows of some photographs that
    have about this share of all images.

    Raises:
        InputError: `by_photo` is True, but a file name contains no photograph, or all contain the same photograph.
    """
    rng = np.random.default_rng(seed)
    if by_photo:
        trains = _draw_photos(images, fraction, rng)
    else:
        trains = np.zeros(len(images), dtype=bool)
        for label in range(len(images.classes)):
            rows = rng.permutation(np.flatnonzero(images.labels == label))
            trains[rows[: min(max(round(fraction * len(rows)), 1), len(rows) - 1)]] = True
    return np.flatnonzero(trains), np.flatnonzero(~trains)


def _draw_photos(images: Images, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    photos = [photo_of(file) for file in images.files]
    if None in photos:
        other = images.files[photos.index(None)]
        sentence = f"Expected names such as img_00012_3_4.png (photograph, row, column) to divide by, got {other}"
        raise InputError(sentence, "rename the images, or pass --group none")
    names = np.array(photos, dtype=np.str_)
    counts = Counter(names.tolist())
    if len(counts) < 2:
        raise InputError(f"All images are of one photograph, {photos[0]}, expected at least two", "pass --group none")
    order = rng.permutation(sorted(counts))
    ends = np.cumsum([counts[str(photo)] for photo in order])
    chosen = order[: min(max(int(np.abs(ends - fraction * len(images)).argmin()) + 1, 1), len(order) - 1)]
    trains: NDArray[np.bool_] = np.isin(names, chosen)
    unseen = sorted(set(range(len(images.classes))) - set(images.labels[trains].tolist()))
    if unseen:
        warn(
            f"No training photograph shows {', '.join(images.classes[k] for k in unseen)}, so the classifier cannot "
            "learn it: choose another seed or a larger --train-fraction."
        )
    return trains


class Pixels:
    """Pixels of preprocessed images: kept in memory if they fit into `cache` bytes, else read on each access.

    All images are read once at the start, so that invalid files are reported. `statistics` holds the picture statistics
    of each image (see `picture_statistics`), and `sides` its shorter side before resizing.
    """

    def __init__(self, images: Images, size: int, cache: int, advance: Callable[[int], None]) -> None:
        self._images, self._size = images, size
        shape = (len(images), 3, size, size)
        self._cache = np.empty(shape, np.uint8) if int(np.prod(shape)) <= cache else None
        self.statistics, self.sides = np.empty((len(images), 6)), np.empty(len(images), np.int64)
        bad: list[str] = []

        def read(index: int) -> None:
            try:
                opened = open_image(images.root / images.files[index])
                pixels = crop_square(opened, size)
            except InputError as error:
                kind = error.__cause__  # an InputError if the image is undamaged, but its color mode is ambiguous
                bad.append(images.files[index] + (f" is {kind.what}" if isinstance(kind, InputError) else ""))
            else:
                self.statistics[index], self.sides[index] = picture_statistics(pixels[None])[0], min(opened.size)
                if self._cache is not None:
                    self._cache[index] = pixels
            advance(1)

        with ThreadPoolExecutor(n_threads()) as pool:
            list(pool.map(read, range(len(images))))
        if bad:
            named = ", ".join(sorted(bad)[:NAMED]) + (f" and {len(bad) - NAMED} more" if len(bad) > NAMED else "")
            sentence = f"Expected images that can be read, but {len(bad)} in {images.root} cannot ({named})"
            raise InputError(sentence, "replace or delete them")

    def batch(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the pixels of the images with these indices, shape (n, 3, size, size)."""
        if self._cache is not None:
            return self._cache[rows]
        paths = [self._images.root / self._images.files[i] for i in rows]
        with ThreadPoolExecutor(n_threads()) as pool:
            return np.stack(list(pool.map(lambda path: read_image(path, self._size), paths)))


def batches(rows: NDArray[np.int64], size: int) -> Sequence[NDArray[np.int64]]:
    """Split indices of images into batches.

    A single last image is added to the batch before it, since batch normalization needs two images.
    """
    starts = list(range(0, len(rows), size))
    if len(starts) > 1 and len(rows) - starts[-1] == 1:
        starts.pop()
    return np.split(rows, starts[1:])


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRecord:
    """Record of a training: the division of the images, and the results of the trained network.

    Attributes:
        classes: names of the classes.
        trained: files of the training images.
        files: files of the held-out images.
        logits: logits of the held-out images.
        labels: class indices of the held-out images.
        weights: SHA-256 of the weights.
        features: inputs of the network's last layer for the held-out images, or None.
        statistics: statistics of the pictures of the held-out images, or None in a record of pippin 0.1.
        sides: shorter side in pixels of each held-out image before resizing, or None in a record of pippin 0.1.
        epochs: results of the epochs; empty in a record that was read from `weights/training.npz`.
        views: True if logits and features are means over the eight flips and turns of each image.
    """

    classes: tuple[str, ...]
    trained: tuple[str, ...]
    files: NDArray[np.str_]
    logits: NDArray[np.float32]
    labels: NDArray[np.int64]
    weights: str = ""
    features: NDArray[np.float32] | None = None
    statistics: Vector | None = None
    sides: NDArray[np.int64] | None = None
    epochs: tuple[Epoch, ...] = ()
    views: bool = False

    @property
    def accuracy(self) -> float:
        """Share of held-out images whose most probable class is the true one."""
        return float(np.mean(self.logits.argmax(axis=1) == self.labels))

    @property
    def groups(self) -> NDArray[np.str_]:
        """Name of the photograph of each held-out image; the file name for an image that is no window."""
        return np.array([photo_of(file) or file for file in self.files.tolist()])

    def save(self, folder: Path) -> None:
        """Write the record without the epochs to training.npz in a folder of weights, with the weights' checksum."""
        content = vars(self) | {"weights": file_checksum(folder / WEIGHTS), "epochs": None, "views": self.views or None}
        arrays: dict[str, Any] = {key: np.asarray(value) for key, value in content.items() if value is not None}
        arrays["trained"] = np.array(self.trained, dtype=np.str_)
        write_atomically(folder / TRAINING, to_bytes(partial(np.savez_compressed, **arrays)))


def _check_record(record: TrainingRecord) -> None:
    """Raise a ValueError if the arrays of a training record do not fit each other."""
    n, n_classes = record.logits.shape
    names = all(isinstance(name, str) for name in (*record.classes, *record.trained)) and record.files.dtype.kind == "U"
    good = names and record.logits.dtype == np.float32 and len(record.classes) == n_classes > 1
    good = good and record.files.shape == record.labels.shape == (n,) and record.labels.dtype.kind in "iu"
    good = good and bool(((record.labels >= 0) & (record.labels < n_classes)).all())
    features, statistics, sides = record.features, record.statistics, record.sides
    good = good and (features is None or (features.ndim == 2 and len(features) == n and features.dtype.kind == "f"))
    good = good and (statistics is None or (statistics.shape == (n, 6) and bool(np.isfinite(statistics).all())))
    if not (good and (sides is None or (sides.shape == (n,) and sides.dtype.kind in "iu"))):
        raise ValueError(n)


def read_training(folder: Path) -> TrainingRecord:
    """Read the training record training.npz from a folder of weights.

    Raises:
        InputError: the record is missing, damaged, or was written with other weights.
    """
    path = folder / TRAINING
    if not path.is_file():
        sentence = f"Expected weights that pippin train wrote, but {folder} has no {TRAINING}"
        raise InputError(sentence, "train again, or name the folder weights next to the logits")
    try:
        with np.load(path, allow_pickle=False) as archive:
            check_archive(archive.zip, path, path.stat().st_size)
            content: dict[str, Any] = {key: archive[key] for key in archive.files}
        for key in ("classes", "trained"):
            content[key] = tuple(content[key].tolist())
        views = bool(content.get("views", False))  # missing without views, and in earlier versions
        record = TrainingRecord(**content | {"weights": str(content["weights"]), "views": views})
        _check_record(record)
    except InputError:
        raise
    except Exception as error:  # NumPy raises many exception types for damaged files
        raise InputError(f"{path} is damaged", "train again") from error
    if not (folder / WEIGHTS).is_file() or record.weights != file_checksum(folder / WEIGHTS):
        raise InputError(f"{folder / WEIGHTS} are other weights than those of {path}", "train again")
    return record
