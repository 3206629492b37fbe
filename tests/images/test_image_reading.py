"""Preprocessing of images: equal in training, field models and transformers, for all types of files."""

import os

import numpy as np
import pytest
import torch
from PIL import Image

import pippin
from pippin.cli.report.page import thumbnail
from pippin.images.reading import crop_square, open_image, read_image
from pippin.images.training import train
from support.small_training import quiet, small_options

pytestmark = pytest.mark.usefixtures("one_thread")
GREY = np.linspace(0, 255, 20 * 30).reshape(20, 30).astype(np.uint8)


@pytest.fixture(scope="module")
def odd_images(images, tmp_path_factory):
    """Write images of unusual sizes and formats: wide, high, small, and a JPEG over eight times the network's size."""
    folder = tmp_path_factory.mktemp("odd")
    sizes = [(31, 20), (20, 47), (24, 24), (13, 17), (333, 250)]
    for number, path in enumerate(sorted(images.rglob("*.png"))):
        place = folder / path.parent.name / path.with_suffix(".jpg" if number % 2 else ".png").name
        place.parent.mkdir(exist_ok=True)
        Image.open(path).resize(sizes[number % len(sizes)]).save(place)
    return folder


def test_transformers_gives_the_logits_that_train_wrote(odd_images, tiny, tmp_path):
    """transformers computes the logits that training wrote, from the folder of weights, for images of any shape."""
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    found = train(odd_images, tmp_path / "p.npz", small_options(tiny), on_epoch=quiet)
    processor = AutoImageProcessor.from_pretrained(tmp_path / "weights")
    model = AutoModelForImageClassification.from_pretrained(tmp_path / "weights").eval()
    given = processor([Image.open(odd_images / file) for file in found.files], return_tensors="pt")
    with torch.no_grad():
        logits = model(**given).logits.numpy()
    np.testing.assert_allclose(logits, found.logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(31, 20), (20, 31), (7, 7), (16, 400), (301, 299)])
def test_the_pixels_are_those_of_transformers_to_the_last_bit(shape, images, tiny, tmp_path):
    """Pixels, before normalization of colors, equal those of transformers."""
    from transformers import BitImageProcessorPil

    from pippin.images.reading import processor_config

    pixels = np.random.default_rng(3).integers(0, 256, (*shape, 3), dtype=np.uint8)
    reported = processor_config(16, (0.5,) * 3, (0.5,) * 3) | {"do_rescale": False, "do_normalize": False}
    theirs = BitImageProcessorPil(**reported)(Image.fromarray(pixels), return_tensors="np").pixel_values[0]
    np.testing.assert_array_equal(crop_square(Image.fromarray(pixels), 16), theirs)


@pytest.mark.parametrize("kind", ["sixteen", "palette", "alpha", "grey and alpha"])
def test_kinds_of_grey_are_the_same_picture(kind, tmp_path):
    made = {
        "sixteen": lambda grey: Image.fromarray(np.asarray(grey).astype(np.uint16) * 257),
        "palette": lambda grey: grey.convert("P"),
        "alpha": lambda grey: grey.convert("RGBA"),
        "grey and alpha": lambda grey: grey.convert("LA"),
    }
    made[kind](Image.fromarray(GREY)).save(tmp_path / "image.png")
    expected = crop_square(Image.fromarray(GREY).convert("RGB"), 16)
    np.testing.assert_array_equal(read_image(tmp_path / "image.png", 16), expected)


def test_print_colours_are_read(tmp_path):
    Image.new("RGB", (9, 9), (200, 30, 90)).convert("CMYK").save(tmp_path / "print.jpg", quality=95)
    assert np.abs(read_image(tmp_path / "print.jpg", 8)[:, 4, 4].astype(int) - (200, 30, 90)).max() < 8


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_as_the_camera_was_held(orientation, tmp_path):
    """For the eight EXIF orientations, the opened image is the upright one."""
    turns = {
        1: [],
        2: [Image.Transpose.FLIP_LEFT_RIGHT],
        3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM],
        5: [Image.Transpose.TRANSPOSE],
        6: [Image.Transpose.ROTATE_90],
        7: [Image.Transpose.TRANSVERSE],
        8: [Image.Transpose.ROTATE_270],
    }
    upright = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))
    stored, exif = upright, Image.Exif()
    for turn in turns[orientation]:
        stored = stored.transpose(turn)
    exif[0x0112] = orientation
    stored.save(tmp_path / "image.png", exif=exif)
    np.testing.assert_array_equal(np.asarray(open_image(tmp_path / "image.png")), np.asarray(upright))


def saved(path, image, **options):
    image.save(path, **options)
    return path


REFUSED = {
    "partly transparent": lambda folder: saved(folder / "a.png", Image.new("RGBA", (8, 8), (9, 9, 9, 254))),
    "partly transparent, with": lambda folder: saved(folder / "a.gif", Image.new("P", (8, 8), 3), transparency=3),
    "of mode F": lambda folder: saved(folder / "a.tif", Image.fromarray(np.ones((8, 8), np.float32))),
    "beyond 16 bits": lambda folder: saved(folder / "a.tif", Image.fromarray(np.full((8, 8), 70_000, np.int32))),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_could_be_read_in_several_ways_is_refused_by_name(reason, tmp_path):
    path = REFUSED[reason](tmp_path)
    with pytest.raises(ValueError, match=reason) as caught:
        open_image(path)
    assert str(caught.value).startswith(f"{path} is ")


def test_arrays_and_tensors_are_the_same_image():
    pixels = np.random.default_rng(1).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    many = (pixels, pixels.astype(np.uint16) * 257, pixels / 255, tensor, tensor.float() / 255, Image.fromarray(pixels))
    for source in many:
        np.testing.assert_array_equal(np.asarray(open_image(source)), pixels)
    assert open_image(pixels[..., 0]).size == open_image(tensor[:1]).size == (30, 20)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (np.zeros((3, 20, 30), np.uint8), r"of shape \(3, 20, 30\), not \(height, width\) or"),
        (torch.zeros(20, 30, 3), r"of shape \(20, 30, 3\), not \(1 or 3, height, width\)"),
        (np.full((4, 4, 3), 9.5), "of float64 from 9.5 to 9.5, not uint8"),
        (np.full((4, 4), -3), "of int64 from -3 to -3"),
        (np.full((4, 4, 3), np.nan), "of float64 from nan"),
        (np.zeros((0, 4, 3), np.uint8), "of shape"),
    ],
)
def test_arrays_that_are_no_images_are_refused(source, reason):
    with pytest.raises(ValueError, match=reason):
        open_image(source)


def test_no_program_is_started_for_a_photograph(tmp_path, monkeypatch):
    """A file that is no photograph, such as PostScript named .png, is refused without starting a program."""
    gs = tmp_path / "gs"
    gs.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    gs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    text = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "x.png").write_bytes(text)
    with pytest.raises(pippin.InputError, match=r"x\.png is damaged or no image"):
        read_image(tmp_path / "x.png", 32)
    assert thumbnail(tmp_path / "x.png") is None
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("ending", ["png", "jpg", "jpeg", "bmp", "webp", "tif", "tiff"])
def test_the_formats_of_photographs_are_read(ending, tmp_path):
    Image.new("RGB", (40, 30), (10, 200, 30)).save(tmp_path / f"x.{ending}")
    assert np.abs(read_image(tmp_path / f"x.{ending}", 8).mean(axis=(1, 2)) - [10, 200, 30]).max() < 6


def test_a_thin_image_takes_no_memory(tmp_path):
    """A thin image of 254 bytes is refused, since it would take 9 GB after resizing."""
    Image.new("RGB", (60_000, 1)).save(tmp_path / "thin.png")
    with pytest.raises(
        pippin.InputError, match="The image is 60000 × 1, which is 13440000 × 224 at a shorter side of 224"
    ):
        read_image(tmp_path / "thin.png", 224)
    assert read_image(tmp_path / "thin.png", 4).shape == (3, 4, 4)
