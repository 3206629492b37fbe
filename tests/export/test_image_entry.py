"""C headers with image functions resize, crop and normalize as Pillow and the training do, to the last bit."""

import ctypes
import json
import subprocess

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image

import pippin
from pippin.export.c_header import c_header
from pippin.images import FieldModel
from pippin.images.reading import crop_square
from support.small_field import UTILITY, make_parts, photograph

C99 = ["gcc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
CPP = ["g++", "-std=c++17", "-x", "c++", *C99[2:]]
pytestmark = pytest.mark.usefixtures("one_thread")
SANITIZED = [*C99, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MEAN, SD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# Enlarged, reduced, equal, odd, very thin, and one pixel.
SHAPES = [
    (1, 1),
    (3, 2),
    (24, 24),
    (23, 25),
    (25, 24),
    (24, 301),
    (640, 24),
    (97, 131),
    (331, 200),
    (720, 1283),
    (2, 90),
]

PROGRAM = """
#include "head.h"
#include <stdio.h>
#include <stdlib.h>
/* Reads width, height and stride, then the bytes of the picture; writes pixels and tensor. */
int main(void)
{
    int shape[3];
    while (fread(shape, sizeof(int), 3, stdin) == 3) {
        const size_t bytes = (size_t)shape[2] * (size_t)(shape[1] - 1) + 3 * (size_t)shape[0];
        unsigned char *rgb = (unsigned char *)malloc(bytes);
        int *work = (int *)malloc(sizeof(int) * (size_t)PIPPIN_IMAGE_WORK(shape[0], shape[1]));
        unsigned char *pixels = (unsigned char *)malloc(3 * PIPPIN_IMAGE_SIZE * PIPPIN_IMAGE_SIZE);
        float *tensor = (float *)malloc(sizeof(float) * 3 * PIPPIN_IMAGE_SIZE * PIPPIN_IMAGE_SIZE);
        if (fread(rgb, 1, bytes, stdin) != bytes || pippin_pixels(rgb, shape[0], shape[1], shape[2], work, pixels))
            return 1;
        pippin_tensor(pixels, tensor);
        fwrite(pixels, 1, 3 * PIPPIN_IMAGE_SIZE * PIPPIN_IMAGE_SIZE, stdout);
        fwrite(tensor, sizeof(float), 3 * PIPPIN_IMAGE_SIZE * PIPPIN_IMAGE_SIZE, stdout);
        free(rgb);
        free(work);
        free(pixels);
        free(tensor);
    }
    return 0;
}
"""


def weights_folder(folder, size, classes=range(2)):
    """Write the configuration of a network without its weights, which the header does not need."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"id2label": {str(i): str(c) for i, c in enumerate(classes)}}))
    reading = {"crop_size": {"height": size, "width": size}, "image_mean": MEAN, "image_std": SD}
    (folder / "preprocessor_config.json").write_text(json.dumps(reading))
    return folder


def predictor():
    rng = np.random.default_rng(0)
    return pippin.calibrate(rng.dirichlet([1, 1], 99), rng.integers(0, 2, 99))


def by_pillow(picture, size):
    """Resize the shorter side to `size`, the longer one proportionally, width before height, and crop the center."""
    height, width = picture.shape[:2]
    shorter = min(height, width)
    wide, high = size * width // shorter, size * height // shorter
    narrowed = Image.fromarray(picture).resize((wide, height), Image.Resampling.BICUBIC)
    resized = np.asarray(narrowed.resize((wide, high), Image.Resampling.BICUBIC))
    left, top = (wide - size) // 2, (high - size) // 2
    return resized[top : top + size, left : left + size].transpose(2, 0, 1)


def pictures(rng):
    """Return noise, whose sums are often beyond 0 and 255, and smooth pictures of every shape."""
    for height, width in SHAPES:
        yield rng.choice(np.array([0, 255], np.uint8), (height, width, 3))
        yield rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        waves = np.sin(np.arange(height)[:, None, None] / 7 + np.arange(width)[:, None] / 9 + rng.random(3))
        yield (127.5 + 127.5 * waves).astype(np.uint8)


@pytest.mark.parametrize("compiler", [C99, CPP, SANITIZED], ids=["C99", "C++17", "sanitizers"])
@pytest.mark.parametrize("size", [1, 24, 65])
def test_pixels_and_tensor_equal_those_of_pillow_and_torch(compiler, size, tmp_path):
    """All bytes and floats are equal, for pictures with and without padding between their rows."""
    (tmp_path / "head.h").write_text(c_header(predictor(), weights=weights_folder(tmp_path / "weights", size)))
    (tmp_path / "x.c").write_text(PROGRAM)
    subprocess.run([*compiler, "x.c", "-o", "x"], check=True, cwd=tmp_path)
    rng, given, wanted = np.random.default_rng(size), b"", []
    for number, picture in enumerate(pictures(rng)):
        height, width = picture.shape[:2]
        padded = np.full((height, 3 * width + number % 3), 77, np.uint8)
        padded[:, : 3 * width] = picture.reshape(height, -1)
        shape = np.array([width, height, padded.shape[1]], np.int32)
        given += shape.tobytes() + padded.tobytes()[: padded.shape[1] * (height - 1) + 3 * width]
        pixels = by_pillow(picture, size)
        colors = torch.from_numpy(pixels.copy()).to(torch.float32) / 255
        mean, sd = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, SD))
        wanted.append((pixels.tobytes(), ((colors - mean) / sd).numpy().tobytes()))
    done = subprocess.run([tmp_path / "x"], input=given, capture_output=True, check=True)
    assert done.stdout == b"".join(pixels + tensor for pixels, tensor in wanted)


def compiled(folder):
    """Compile head.h in a folder into a library."""
    subprocess.run(
        [*C99, "-DPIPPIN_API=", "-shared", "-fPIC", "-x", "c", "head.h", "-o", "x.so"], check=True, cwd=folder
    )
    library = ctypes.CDLL(str(folder / "x.so"))
    library.pippin_pixels.argtypes = [ctypes.c_void_p, *[ctypes.c_int] * 2, ctypes.c_longlong, *[ctypes.c_void_p] * 2]
    return library


def pixels_in_c(library, view, size):
    """Resize a view of a picture by a compiled header; return the return value and the pixels."""
    height, width = view.shape[:2]
    work, pixels = np.empty(max(width, height) + 3 * size * height, np.int32), np.empty((3, size, size), np.uint8)
    code = library.pippin_pixels(view.ctypes.data, width, height, view.strides[0], work.ctypes.data, pixels.ctypes.data)
    return code, pixels


def test_pictures_beyond_the_limits_are_refused(tmp_path):
    """Sides below 1 or above 65535 pixels, and more than 2^27 pixels after resizing, give −1 and read nothing."""
    (tmp_path / "head.h").write_text(c_header(predictor(), weights=weights_folder(tmp_path / "weights", 65)))
    library = compiled(tmp_path)
    for width, height in ((0, 5), (5, -1), (65536, 9), (9, 65536), (31769, 1), (1, 31769)):
        assert library.pippin_pixels(None, width, height, 0, None, None) == -1
    # 65 × (65 · 31767) is the largest picture of at most 2^27 pixels.
    assert pixels_in_c(library, np.zeros((1, 31767, 3), np.uint8), 65)[0] == 0
    with pytest.raises(pippin.InputError, match="cut it into parts"):
        crop_square(Image.new("RGB", (31769, 1)), 65)


def test_actions_of_windows_equal_those_of_the_field_model(images, tiny, tmp_path):
    """C reads windows of photographs, the graph computes logits, and C decides: no pixel and no action differs."""
    parts = make_parts(images, tiny, tmp_path / "parts", size=16)
    weights, decider = parts / "weights", parts / "decider.json"
    model = FieldModel.make(weights, parts / "predictor.json", decider=decider, window=24, novelty=0)
    model.with_onnx().save(tmp_path / "MODEL")
    model = FieldModel.load(tmp_path / "MODEL", runtime="onnxruntime")
    session = onnxruntime.InferenceSession(tmp_path / "MODEL" / "network.onnx")
    (tmp_path / "head.h").write_text(c_header(pippin.load(decider), weights=weights))
    library = compiled(tmp_path)
    library.pippin_decide_logits_float.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    for seed in range(10):
        photo = photograph(seed)
        look = model.look(photo)
        for number, (left, top, right, bottom) in enumerate(look.boxes()):
            view = photo[top:bottom, left:right]
            code, pixels = pixels_in_c(library, view, 16)
            logits = session.run(["logits"], {"pixels": pixels[None]})[0]
            assert code == 0
            np.testing.assert_array_equal(logits[0], look.logits[number])
            certificate = ctypes.c_double()
            action = library.pippin_decide_logits_float(logits.ctypes.data, ctypes.byref(certificate))
            assert UTILITY.actions[action] == look.actions[number]
            assert certificate.value == look.certificates[number]


def test_the_command_takes_the_weights_of_the_same_classes(tmp_path, call):
    """`pippin export --weights` writes the header; weights of other classes, or without --c, are refused."""
    predictor().save(tmp_path / "p.json")
    weights = weights_folder(tmp_path / "weights", 24)
    assert call(f"export {tmp_path}/p.json --c {tmp_path}/x.h --weights {weights}")[0] == 0
    assert (tmp_path / "x.h").read_text() == c_header(pippin.load(tmp_path / "p.json"), weights=weights)
    assert "Expected --c with --weights" in call(f"export {tmp_path}/p.json --onnx {tmp_path}/x.onnx --weights .")[2]
    other = weights_folder(tmp_path / "other", 24, ["weed", "crop"])
    with pytest.raises(pippin.InputError, match="these 2 classes in this order, got others"):
        c_header(predictor(), weights=other)
    with pytest.raises(pippin.InputError, match="is missing or damaged"):
        c_header(predictor(), weights=tmp_path)
