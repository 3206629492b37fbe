"""PNG files read with suspicion: one that is cut short, damaged or of another kind is named, never guessed at."""

import io
import struct
import warnings
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB, PALETTE = 0, 2, 3  # colour types
KINDS = {GREY: "grey", RGB: "RGB", PALETTE: "palette", 4: "grey with transparency", 6: "RGB with transparency"}


class BadImageError(ValueError):
    """What is wrong with a file, to be read after its name."""


class Header(NamedTuple):
    """What a PNG file says of itself."""

    width: int
    height: int
    depth: int
    colour: int

    @property
    def size(self) -> str:
        return f"{self.width} × {self.height}"

    @property
    def kind(self) -> str:
        return f"{self.depth}-bit {KINDS.get(self.colour, f'colour type {self.colour}')}"


def read_header(data: bytes) -> Header:
    """The header, after the checksum of every chunk was verified, which Pillow does not do for the pixels."""
    if not data.startswith(SIGNATURE):
        raise BadImageError("is empty" if not data else "is no PNG file")
    header, place, kind = None, len(SIGNATURE), b""
    while kind != b"IEND":
        if place + 12 > len(data):
            raise BadImageError("is cut short")
        length, kind = struct.unpack_from(">I4s", data, place)
        end = place + 8 + length
        if end + 4 > len(data):
            raise BadImageError("is cut short")
        if zlib.crc32(memoryview(data)[place + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            raise BadImageError("is damaged (a checksum in it differs)")
        if header is None:
            if kind != b"IHDR" or length != 13:
                raise BadImageError("is no PNG file (it has no header)")
            header = Header(*struct.unpack_from(">IIBB", data, place + 8))
        place = end + 4
    assert header is not None
    return header


def read_pixels(data: bytes) -> NDArray[np.uint8]:
    """The values as stored: palette indices are not turned into colours."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
                return np.asarray(image, dtype=np.uint8)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise BadImageError("has more pixels than any photograph") from error
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        raise BadImageError("cannot be decoded") from error


def encode(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file; the same pixels give the same bytes."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()
