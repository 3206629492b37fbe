"""Images for training: division, preprocessing, batches, augmentation and invalid files."""

import numpy as np
import pytest
import torch
from PIL import Image

from pippin.images.training.folder import Pixels, batches, divide, list_images, photo_of
from pippin.images.training.network import augment
from support.synthetic_images import CLASSES, make_images

pytestmark = pytest.mark.usefixtures("one_thread")


# Division


def test_images_are_divided_class_by_class(images):
    found = list_images(images)
    trains, held = divide(found, 0.7, False, seed=3)
    assert sorted([*trains, *held]) == list(range(80))
    assert np.bincount(found.labels[trains]).tolist() == [14] * 4
    assert np.bincount(found.labels[divide(found, 0.001, False, 0)[0]]).tolist() == [1] * 4
    assert np.bincount(found.labels[divide(found, 0.999, False, 0)[1]]).tolist() == [1] * 4


@pytest.mark.parametrize("fraction", [0.001, 0.3, 0.7, 0.999])
def test_a_photograph_stays_on_one_side(images, fraction):
    found = list_images(images)
    groups = np.array([photo_of(file) for file in found.files])
    for seed in range(5):
        trains, held = divide(found, fraction, True, seed)
        assert not set(groups[trains]) & set(groups[held])
        assert len(trains) + len(held) == 80
        assert len(trains) == min(max(round(10 * fraction), 1), 9) * 8


def test_a_class_without_training_photograph_warns(tmp_path):
    for name, photo in (("oat", "a"), ("rye", "b")):
        for row in range(2):
            path = tmp_path / name / f"{photo}_{row}_0.png"
            path.parent.mkdir(exist_ok=True)
            Image.new("RGB", (8, 8)).save(path)
    with pytest.warns(UserWarning, match=r"No training photograph shows (oat|rye), "):
        divide(list_images(tmp_path), 0.5, True, 0)


def test_no_batch_has_a_single_row():
    assert [len(piece) for piece in batches(np.arange(33), 16)] == [16, 17]
    assert [len(piece) for piece in batches(np.arange(34), 16)] == [16, 16, 2]
    assert [len(piece) for piece in batches(np.arange(1), 16)] == [1]


# Pixels


def test_views_keep_range_and_input_and_follow_the_generator():
    pixels = torch.rand(6, 3, 20, 20)
    before = pixels.clone()
    one, two = (augment(pixels, "both", torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(pixels, before)
    assert one.shape == pixels.shape
    assert one.min() >= 0
    assert one.max() <= 1
    ramp = torch.linspace(0, 1, 20).expand(200, 3, 20, 20)  # brighter to the right
    for flips, sides, ups in (("none", 0, 0), ("horizontal", 100, 0), ("both", 100, 100)):
        seen = augment(ramp, flips, torch.Generator().manual_seed(0))
        assert abs(int((seen[:, 0, 0, 0] > seen[:, 0, 0, -1]).sum()) - sides) < 30
        seen = augment(ramp.mT, flips, torch.Generator().manual_seed(0))
        assert abs(int((seen[:, 0, 0, 0] > seen[:, 0, -1, 0]).sum()) - ups) < 30


def test_bad_images_are_named(tiny, tmp_path, call):
    """All invalid files are named in one message, and nothing is written."""
    make_images(tmp_path / "images", 16)
    good = (tmp_path / "images/blob/picture-0000.png").read_bytes()
    bad = ["blob/picture-0000.png", "ring/picture-0002.png", "rows/none.jpg"]
    for name, content in zip(bad, (good[: len(good) // 2], b"<html>", b""), strict=True):
        (tmp_path / "images" / name).write_bytes(content)
    (tmp_path / "out").mkdir()
    code, _, err = call(f"train {tmp_path}/images --out {tmp_path}/out/p.npz --weights {tiny} --size 24")
    assert code == 2
    assert err == (
        f"pippin: Expected images that can be read, but 3 in {tmp_path}/images cannot ({', '.join(bad)}): "
        "replace or delete them.\n"
    )
    assert not list((tmp_path / "out").iterdir())
    for i in range(4, 12):
        for name in CLASSES:
            (tmp_path / "images" / name / f"bad-{i}.png").touch()
    with pytest.raises(ValueError, match="and 30 more"):
        Pixels(list_images(tmp_path / "images"), 8, 0, lambda more: None)


def test_an_ambiguous_image_is_named_with_its_color_mode(tmp_path):
    make_images(tmp_path, 16)
    Image.new("RGBA", (8, 8), (1, 2, 3, 90)).save(tmp_path / "blob/glass.png")
    with pytest.raises(ValueError, match=r"cannot \(blob/glass.png is partly transparent, with an unknown"):
        Pixels(list_images(tmp_path), 8, 0, lambda more: None)
