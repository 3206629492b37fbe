"""Small data set in the layout of WE3DS, valid or with broken files, as a folder or a zip file."""

import io
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from pippin.images.we3ds import mask_classes
from pippin.images.windows import WindowOptions

NAMES = [known.name for known in mask_classes()]
SIZE = (1144, 1600)
SMALL, OPTIONS = (200, 330), WindowOptions(window=32, soil=40)  # fast to process
IMAGES, MASKS = "images", "annotations/segmentation/SegmentationLabel"
VOID, SOIL, LAST = 0, 1, 18


def png(pixels: np.ndarray, mode: str | None = None) -> bytes:
    """Encode a PNG file; with mode "P" as a palette image."""
    image = Image.fromarray(pixels)
    if mode == "P":
        image = Image.frombytes("P", image.size, pixels.tobytes())
        image.putpalette(np.random.default_rng(0).integers(0, 256, 768).astype(np.uint8).tobytes())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def made_mask(seed: int, size: tuple[int, int] = SIZE, cell: int = 16) -> np.ndarray:
    """Draw a mask of soil with a void edge, patches of plants of every class, a void area, and small tied plants."""
    rng = np.random.default_rng(seed)
    mask = np.full(size, SOIL, np.uint8)
    height, width = size
    for _ in range(12):
        y, x = rng.integers(0, height), rng.integers(0, width)
        h, w = rng.integers(4, max(5, height // 6), 2)
        mask[y : y + h, x : x + w] = rng.integers(SOIL + 1, LAST + 1)
    y, x = cell * (rng.integers(0, height, 2) // cell)
    for value in rng.permutation(np.arange(SOIL + 1, LAST + 1))[:2]:  # equal numbers of pixels
        mask[y : y + 4, x : x + 4] = value
        y += 4
    mask[: height // 3, : width // 3] = VOID
    mask[-9:] = rng.integers(VOID, LAST + 1, (9, width))  # in the margin outside all windows
    return mask


def made_photograph(mask: np.ndarray) -> np.ndarray:
    """Draw smooth colors that depend on mask and position, so that all windows differ."""
    y, x = np.indices(mask.shape)
    return np.stack([mask * 13, x // 8 % 256, y // 8 % 256], axis=-1).astype(np.uint8)


def photo_name(i: int) -> str:
    return f"img_{i:05d}"


def made_files(
    seeds: Iterable[int], size: tuple[int, int] = SIZE, mode: str | None = None
) -> tuple[dict[str, bytes], dict[str, np.ndarray]]:
    """Return the files of a valid data set by name, and the masks by photograph."""
    files, masks = {}, {}
    for i, seed in enumerate(seeds):
        mask = made_mask(seed, size)
        files[f"{IMAGES}/{photo_name(i)}.png"] = png(made_photograph(mask))
        files[f"{MASKS}/{photo_name(i)}.png"] = png(mask, mode)
        masks[photo_name(i)] = mask
    return files, masks


def broken_files(size: tuple[int, int]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return one photograph for each kind of invalid data, and the expected message for its file."""
    mask = made_mask(99, size)
    photo = made_photograph(mask)
    good = {"image": png(photo), "mask": png(mask)}
    unknown, wide = mask.copy(), np.repeat(mask[..., None], 3, axis=2)
    unknown[5, 5] = 200
    flipped = bytearray(good["mask"])
    flipped[len(flipped) // 2] ^= 4
    grey4 = _chunked(good["mask"], IHDR=lambda data: data[:8] + b"\x04" + data[9:])
    kinds: dict[str, tuple[dict[str, bytes | None], str, str]] = {
        "lonely photograph": ({"mask": None}, "image", "has no mask"),
        "lonely mask": ({"image": None}, "mask", "has no photograph"),
        "sizes differ": ({"image": png(photo[:-3])}, "image", f"is {size[1]} × {size[0] - 3}, but its mask is"),
        "photograph cut short": ({"image": good["image"][: len(good["image"]) * 2 // 3]}, "image", "is cut short"),
        "mask cut short": ({"mask": good["mask"][:-20]}, "mask", "is cut short"),
        "end cut off": ({"image": good["image"][:-12]}, "image", "is cut short"),
        "bit flipped": ({"mask": bytes(flipped)}, "mask", "is damaged"),
        "empty photograph": ({"image": b""}, "image", "is empty"),
        "header cut short": ({"image": good["image"][:20]}, "image", "is damaged or cut short"),
        "no pixels": ({"mask": good["mask"][:33] + good["mask"][-12:]}, "mask", "is damaged (it has no pixels)"),
        "another long format": ({"image": b"\xff" * 99}, "image", "is no PNG file"),
        "another format": ({"image": b"GIF89a and more"}, "image", "is no PNG file"),
        "unknown value": ({"mask": png(unknown)}, "mask", "holds unknown values (200)"),
        "three channels": ({"mask": png(wide)}, "mask", "is 8-bit RGB, but a mask has one channel of 8 bits"),
        "transparent mask": ({"mask": png(wide[..., :2], "LA")}, "mask", "is 8-bit grey with transparency"),
        "deep mask": ({"mask": png(mask.astype(np.uint16))}, "mask", "is 16-bit grey"),
        "shallow mask": ({"mask": grey4}, "mask", "is 4-bit grey"),
        "grey photograph": ({"image": png(mask)}, "image", "is 8-bit grey, but a photograph is 8-bit RGB"),
        "small": ({"image": png(photo[:31, :31]), "mask": png(mask[:31, :31])}, "image", "is 31 × 31, smaller than"),
        # Valid checksums; the error is found only at decoding.
        "undecodable": ({"image": _chunked(good["image"], IDAT=lambda data: data[:40])}, "image", "cannot be decoded"),
    }
    files, reasons = {}, {}
    for name, (changed, about, reason) in kinds.items():
        for part, folder in (("image", IMAGES), ("mask", MASKS)):
            content = changed.get(part, good[part])
            if content is not None:
                files[f"{folder}/{name}.png"] = content
        reasons[f"{IMAGES if about == 'image' else MASKS}/{name}.png"] = reason
    return files, reasons


def _chunked(data: bytes, **changes) -> bytes:
    """Change chunks of a PNG file, with valid checksums."""
    out, place = bytearray(data[:8]), 8
    while place < len(data):
        length, kind = int.from_bytes(data[place : place + 4]), data[place + 4 : place + 8]
        body = changes.get(kind.decode(), bytes)(data[place + 8 : place + 8 + length])
        out += len(body).to_bytes(4) + kind + body + zlib.crc32(kind + body).to_bytes(4)
        place += 12 + length
    return bytes(out)


def write_folder(folder: Path, files: dict[str, bytes], top: str = "") -> Path:
    """Write the data set to a folder, together with files to be ignored."""
    for name, content in (files | _ignored_files()).items():
        (folder / top / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / top / name).write_bytes(content)
    return folder


def write_zip(path: Path, files: dict[str, bytes], top: str = "", method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write the data set to a zip file, together with files to be ignored."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.mkdir(f"{top}{IMAGES}")
        for name, content in (files | _ignored_files()).items():
            archive.writestr(top + name, content)
    return path


def _ignored_files() -> dict[str, bytes]:
    return {
        "README.md": b"WE3DS",
        "depth/img_00000.png": b"not used",
        "depth_refined/img_00000.png": b"not used",
        f"{IMAGES}/.DS_Store": b"",
        f"{IMAGES}/._img_00000.png": b"left by another system",
        f"{IMAGES}/thumbs.db": b"",
    }
