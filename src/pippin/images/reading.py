"""How an image becomes what a network sees: turned, in three colours, its shorter side resized, its middle cut out.

Training, `pippin.images.FieldModel` and the `preprocessor_config.json` beside the weights, which transformers reads,
all follow this page: bicubic to a shorter side of `size` pixels, the longer one ⌊size · long / short⌋, then the middle
square, colours between 0 and 1, minus their mean, over their standard deviation.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from pippin._runtime.errors import InputError

CONFIG = "preprocessor_config.json"
BICUBIC = 3  # as Pillow and transformers number it
COLOURS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")  # of 8 bits or fewer


def read_image(path: Path, size: int) -> NDArray[np.uint8]:
    """A file as (3, size, size) of 0 to 255.

    Raises:
        InputError: the file is damaged, cut short, no image, or of a kind that can be read in several ways.
    """
    return squared(open_image(path), size)


def open_image(source: Any) -> "Image.Image":
    """An image in red, green and blue of 8 bits, turned as the camera was held.

    Args:
        source: a path; a Pillow image; a NumPy array (height, width[, 1, 3 or 4]); a torch tensor (1 or 3, height,
            width). Arrays hold whole numbers of 8 or 16 bits, or numbers between 0 and 1.

    Raises:
        InputError: it cannot be read, or could be read in several ways; the kind is named.
    """
    try:
        if not isinstance(source, str | PathLike):
            return _three_colours(source if isinstance(source, Image.Image) else _from_array(source))
        with Image.open(source) as image:
            image.load()
            return _three_colours(image)
    except InputError as error:
        raise InputError(f"{_named(source)} is {error.what}", error.remedy) from error
    except Exception as error:  # Pillow's decoders raise many kinds
        raise InputError(f"{_named(source)} is damaged or no image", "replace or delete it") from error


def _named(source: Any) -> str:
    return str(source) if isinstance(source, str | PathLike) else "The image"


def squared(image: "Image.Image", size: int) -> NDArray[np.uint8]:
    """The middle of an RGB image as (3, size, size).

    >>> squared(Image.new("RGB", (60, 30), (255, 0, 7)), 8)[:, 0, 0]
    array([255,   0,   7], dtype=uint8)
    """
    width, height = image.size
    short = min(width, height)
    wide, high = (size * side // short for side in (width, height))
    resized = image.resize((wide, high), Image.Resampling.BICUBIC)
    left, top = (wide - size) // 2, (high - size) // 2
    pixels = np.asarray(resized)[top : top + size, left : left + size]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def told_to_transformers(size: int, mean: tuple[float, ...], sd: tuple[float, ...]) -> dict[str, Any]:
    """The same as a configuration, with which `AutoImageProcessor.from_pretrained` gives the same pixels."""
    return {
        "image_processor_type": "BitImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"shortest_edge": size},
        "resample": BICUBIC,
        "do_center_crop": True,
        "crop_size": {"height": size, "width": size},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(mean),
        "image_std": list(sd),
    }


@contextmanager
def without_doubts() -> Iterator[None]:
    """Silences Pillow's warnings: either it decodes or it raises."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\b")
        yield


def _three_colours(image: "Image.Image") -> "Image.Image":
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        image = _high_bytes(image)
    if image.mode not in COLOURS:
        raise InputError(f"of the kind {image.mode}, whose numbers have no one scale", "save it with 8 bits")
    if image.has_transparency_data and np.asarray(image.convert("RGBA"))[..., 3].min() < 255:
        raise InputError("partly transparent, and nobody says what lies behind", "save it without alpha")
    return image.convert("RGB")


def _high_bytes(image: "Image.Image") -> "Image.Image":
    """Grey of 16 bits as grey of 8."""
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise InputError("grey with values beyond 16 bits, which have no one scale", "save it with 8 bits")
    return Image.fromarray((values // 256).astype(np.uint8))


def _from_array(source: Any) -> "Image.Image":
    tensor = hasattr(source, "detach")
    values = np.asarray(source.detach().cpu() if tensor else source)
    shape = values.shape
    if tensor and values.ndim == 3:
        values = values.transpose(1, 2, 0)
    grey = values.ndim == 2 or (values.ndim == 3 and values.shape[2] == 1)
    if not (grey or (values.ndim == 3 and values.shape[2] in (3, 4))) or values.size == 0:
        expected = "(1 or 3, height, width)" if tensor else "(height, width) or (height, width, 3)"
        raise InputError(f"of shape {shape}, not {expected}", "change its axes")
    eight = _eight_bits(values)
    return Image.fromarray(np.ascontiguousarray(eight.reshape(values.shape[:2]) if grey else eight))


def _eight_bits(values: NDArray[Any]) -> NDArray[np.uint8]:
    if values.dtype == np.uint8:
        return np.asarray(values, dtype=np.uint8)
    if values.dtype == np.uint16:
        return np.asarray(values // 256, dtype=np.uint8)
    if values.dtype.kind == "f" and values.min() >= 0 and values.max() <= 1:
        return np.asarray(np.rint(values * 255), dtype=np.uint8)
    raise InputError(
        f"of {values.dtype} from {values.min()} to {values.max()}, not uint8, uint16, or numbers between 0 and 1",
        "convert it first",
    )
