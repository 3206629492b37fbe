"""Preprocessing of images: EXIF orientation, conversion to RGB, resizing, and a center crop.

All images are preprocessed in the same way: resize the shorter side to `size` pixels and the longer to
⌊size · long / short⌋ (bicubic, first the width, then the height), crop the center square, scale colors to 0–1, subtract
their mean, and divide by their standard deviation. Training and `pippin.images.FieldModel` do so, and transformers by
the file `preprocessor_config.json` that is saved with the weights.
"""

import io
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from pippin._runtime.arrays import Vector
from pippin._runtime.errors import InputError

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "TIFF", "GIF")  # no PostScript, for which Pillow starts Ghostscript
LARGEST = 1 << 27  # maximum number of pixels of a resized image
BICUBIC = 3  # code of the resampling filter in Pillow and transformers
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")  # of 8 bits or less


def read_image(path: Path, size: int) -> NDArray[np.uint8]:
    """Read an image file, resize and crop it; return an array (3, size, size) with values from 0 to 255.

    Raises:
        InputError: the file is damaged, cut short, no image, or has a color mode without a unique meaning.
    """
    return crop_square(open_image(path), size)


def open_image(source: Any, name: str | PathLike[str] | None = None) -> "Image.Image":
    """Convert an image or image file to an 8-bit RGB image of Pillow, rotated by its EXIF orientation.

    Args:
        source: a path; the content of an image file; a Pillow image; a NumPy array (height, width[, 1, 3 or 4]) with
            the colors red, green, blue; a torch tensor (1 or 3, height, width). Arrays have the type uint8 or uint16,
            or floats between 0 and 1.
        name: name of the image in error messages; by default the path.

    Raises:
        InputError: the image cannot be read, or its color mode or array type has no unique meaning.
    """
    is_path = isinstance(source, str | PathLike)
    name = name or (source if is_path else "The image")
    try:
        if not is_path and not isinstance(source, bytes):
            return _to_rgb(source if isinstance(source, Image.Image) else _from_array(source))
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS) as image:
            image.load()
            return _to_rgb(image)
    except InputError as error:
        raise InputError(f"{name} is {error.what}", error.remedy) from error
    except Image.DecompressionBombError as error:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0) / 1e6
        raise InputError(f"{name} has more than {most:.0f} megapixels", "cut it into parts") from error
    except Exception as error:  # Pillow's decoders raise many exception types
        raise InputError(f"{name} is damaged or no image", "replace or delete it") from error


def crop_square(image: "Image.Image", size: int) -> NDArray[np.uint8]:
    """Resize an RGB image and return its center square as an array (3, size, size).

    Raises:
        InputError: the image is so thin that it would be too large after resizing.

    >>> crop_square(Image.new("RGB", (60, 30), (255, 0, 7)), 8)[:, 0, 0]
    array([255,   0,   7], dtype=uint8)
    """
    width, height = (size * side // min(image.size) for side in image.size)
    if width * height > LARGEST:
        what = (
            f"The image is {' × '.join(map(str, image.size))}, which is {width} × {height} at a shorter side of {size}"
        )
        raise InputError(what, "cut it into parts that are less thin")
    # One side after the other: for high images, versions of Pillow resize the sides in different orders.
    resized = image.resize((width, image.height), Image.Resampling.BICUBIC)
    resized = resized.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - size) // 2, (height - size) // 2
    return np.ascontiguousarray(np.asarray(resized)[top : top + size, left : left + size].transpose(2, 0, 1))


def picture_statistics(pixels: NDArray[np.uint8]) -> Vector:
    """Compute statistics of the picture of each of n images (n, 3, height, width).

    Returns:
        Array (n, 6): logarithms of brightness, contrast, saturation and mean gradient, and mean and standard deviation
        of the excess green index 2g − r − b.

    >>> black, gray = np.zeros((3, 8, 8), np.uint8), np.full((3, 8, 8), 128, np.uint8)
    >>> picture_statistics(np.stack([black, gray])).round(1).tolist()
    [[-4.6, -4.6, -4.6, -5.8, 0.0, 0.0], [-0.7, -4.6, -4.6, -5.8, 0.0, 0.0]]
    """
    return np.array([_statistics_of(image) for image in pixels]).reshape(-1, 6)


def _statistics_of(image: NDArray[np.uint8]) -> list[float]:
    colors = image.astype(np.float32) / 255
    gray, high, low = colors.mean(axis=0), colors.max(axis=0), colors.min(axis=0)
    saturation = ((high - low) / (high + 1e-3)).mean(dtype=np.float64)
    gradient = sum(np.abs(np.diff(gray, axis=axis)).mean(dtype=np.float64) for axis in (0, 1))
    green = 2 * colors[1] - colors[0] - colors[2]
    parts = gray.mean(dtype=np.float64) + 0.01, gray.std(dtype=np.float64) + 0.01, saturation + 0.01, gradient + 0.003
    return [*np.log(parts).tolist(), float(green.mean(dtype=np.float64)), float(green.std(dtype=np.float64))]


def processor_config(size: int, mean: tuple[float, ...], sd: tuple[float, ...]) -> dict[str, Any]:
    """Return the content of `preprocessor_config.json`, by which transformers preprocesses images like this module."""
    resize = {"do_resize": True, "size": {"shortest_edge": size}, "resample": BICUBIC}
    crop = {"do_center_crop": True, "crop_size": {"height": size, "width": size}}
    rescale = {"do_rescale": True, "rescale_factor": 1 / 255}
    normalize = {"do_normalize": True, "image_mean": list(mean), "image_std": list(sd)}
    processor = {"image_processor_type": "BitImageProcessor", "do_convert_rgb": True}
    return {**processor, **resize, **crop, **rescale, **normalize}


def _to_rgb(image: "Image.Image") -> "Image.Image":
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise InputError("greyscale with values beyond 16 bits, whose scale is unknown", "save it with 8 bits")
        image = Image.fromarray((values // 256).astype(np.uint8))
    if image.mode not in MODES:
        raise InputError(f"of mode {image.mode}, whose scale is unknown", "save it with 8 bits")
    if image.has_transparency_data and np.asarray(image.convert("RGBA"))[..., 3].min() < 255:
        raise InputError("partly transparent, with an unknown background", "save it without alpha")
    return image.convert("RGB")


def _from_array(source: Any) -> "Image.Image":
    is_tensor = hasattr(source, "detach")
    values = np.asarray(source.detach().cpu() if is_tensor else source)
    shape = values.shape
    if is_tensor and values.ndim == 3:
        values = values.transpose(1, 2, 0)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[..., 0]
    if not (values.ndim == 2 or (values.ndim == 3 and values.shape[2] in (3, 4))) or values.size == 0:
        expected = "(1 or 3, height, width)" if is_tensor else "(height, width) or (height, width, 3)"
        raise InputError(f"of shape {shape}, not {expected}", "change its axes")
    if values.dtype == np.uint16:
        values = values // 256
    elif values.dtype.kind == "f" and values.min() >= 0 and values.max() <= 1:
        values = np.rint(values * 255)
    elif values.dtype != np.uint8:
        extent = f"{values.dtype} from {values.min()} to {values.max()}"
        raise InputError(f"of {extent}, not uint8, uint16, or numbers between 0 and 1", "convert it first")
    return Image.fromarray(np.ascontiguousarray(values, dtype=np.uint8))
