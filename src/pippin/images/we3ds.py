"""The WE3DS data set (DOI 10.5281/zenodo.7457983): classes in the masks, layout of the download, reading of files.

Photographs are `images/NAME.png`, their masks `annotations/segmentation/SegmentationLabel/NAME.png`, both possibly in
a folder `WE3DS/`. The download is a folder or a zip file, which is read without unpacking it.
"""

import csv
import errno
import hashlib
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from pippin._runtime.disk import read_regular_file
from pippin._runtime.errors import InputError

IMAGES, MASKS = "images", "annotations/segmentation/SegmentationLabel"
TOPS = ("", "WE3DS/")
MOST_BYTES = 1 << 28  # maximum size in bytes of an unpacked file of the zip file
VOID, SOIL = 0, 1  # mask values; all larger values are plants
RARE = ("corn spurry", "red-root amaranth", "red fingergrass", "common wild oat", "narrow-leaved plantain")

ReadMember = Callable[[str], bytes]  # returns the content of a file in the download by its name


class MaskClass(NamedTuple):
    """Class of a mask value: its name, and its group, which is void, soil, crop or weed."""

    value: int
    name: str
    group: str


class Problem(NamedTuple):
    """Photograph that cannot be used: its name, the invalid file, and the reason as a predicate, such as "is empty"."""

    photo: str
    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file} {self.reason}"


@dataclass(frozen=True)
class DownloadListing:
    """List of the files of the download, a folder or zip file.

    `photographs` have a mask; `unpaired` are photographs without mask, and masks without photograph. `fingerprint`, of
    the names and sizes of all files, is equal for the zip file and the unpacked folder.
    """

    path: Path
    top: str
    photographs: tuple[str, ...]
    unpaired: tuple[Problem, ...]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.photographs) + len(self.unpaired)

    @contextmanager
    def open(self) -> Iterator[ReadMember]:
        """Yield a function that reads a file of the download by name."""
        if self.path.is_dir():
            yield lambda name: read_regular_file(self.path / self.top / name)
            return
        with zipfile.ZipFile(self.path) as archive:

            def read(name: str) -> bytes:
                member = archive.getinfo(self.top + name)
                if member.file_size > MOST_BYTES:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
                return archive.read(member)

            yield read


@cache
def mask_classes() -> tuple[MaskClass, ...]:
    """Return the classes of the data set in the order of mask values, read from we3ds.csv.

    >>> mask_classes()[2]
    MaskClass(value=2, name='broad bean', group='crop')
    """
    text = files("pippin.images").joinpath("we3ds.csv").read_text(encoding="utf-8")
    return tuple(MaskClass(int(row["value"]), row["name"], row["group"]) for row in csv.DictReader(text.splitlines()))


def image_file(photo: str) -> str:
    """Return the path of a photograph in the download by its name."""
    return f"{IMAGES}/{photo}.png"


def mask_file(photo: str) -> str:
    """Return the path of a photograph's mask in the download by the name of the photograph."""
    return f"{MASKS}/{photo}.png"


def find_download(path: Path) -> DownloadListing:
    """List the photographs and masks of the download, a folder or zip file.

    Raises:
        InputError: the path does not exist, or has another layout.
    """
    if not path.is_dir() and not path.is_file():
        raise InputError(f"Expected the WE3DS folder or zip file, but {path} is neither", "check the path")
    list_sizes = _sizes_in_folder if path.is_dir() else _sizes_in_zip
    for top in TOPS:
        images, masks = (list_sizes(path, f"{top}{folder}/") for folder in (IMAGES, MASKS))
        if images and masks:
            unpaired = [Problem(p, image_file(p), f"has no mask {mask_file(p)}") for p in images if p not in masks]
            unpaired += [Problem(p, mask_file(p), f"has no photograph {image_file(p)}") for p in masks.keys() - images]
            sizes = [f"{image_file(p)} {size}\n" for p, size in images.items()]
            sizes += [f"{mask_file(p)} {size}\n" for p, size in masks.items()]
            digest = hashlib.sha256("".join(sorted(sizes)).encode()).hexdigest()
            paired = tuple(sorted(images.keys() & masks.keys()))
            return DownloadListing(path, top, paired, tuple(sorted(unpaired)), digest)
    sentence = f"Expected PNG files in {IMAGES}/ and in {MASKS}/ (or both under WE3DS/), found none in {path}"
    raise InputError(sentence, "name the unpacked WE3DS folder or WE3DS.zip itself")


def _sizes_in_folder(path: Path, folder: str) -> dict[str, int]:
    """Return the size in bytes of each PNG file of a folder, by name without ending."""
    if not (path / folder).is_dir():
        return {}
    entries = (entry for entry in (path / folder).iterdir() if _is_image(entry.name))
    return {entry.name.removesuffix(".png"): entry.stat().st_size if entry.is_file() else 0 for entry in entries}


def _sizes_in_zip(path: Path, folder: str) -> dict[str, int]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if m.filename.startswith(folder)]
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"{path} is no zip file, or is damaged or cut short", "download it again") from error
    images = {m.filename.removeprefix(folder): m for m in members if _is_image(m.filename.removeprefix(folder))}
    for member in images.values():
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            sentence = f"Expected a plain zip file, but {member.filename} in {path} is encrypted or packed otherwise"
            raise InputError(sentence, "unpack it with another program and name the folder")
    return {name.removesuffix(".png"): member.file_size for name, member in images.items()}


def _is_image(name: str) -> bool:
    return name.endswith(".png") and not name.startswith(".") and "/" not in name
