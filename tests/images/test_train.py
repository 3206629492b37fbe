"""Training on a folder of images: files, accuracy, reproducibility and requirements."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pippin.images.reading import read_image
from pippin.images.training import train
from pippin.images.training.network import make_network
from pippin.tables.reading import read_data
from support.small_training import quiet, small_options
from support.synthetic_images import CLASSES, make_images

pytestmark = pytest.mark.usefixtures("one_thread")


def test_train_writes_logits_that_compare_reads_with_weights_and_a_record(images, tiny, tmp_path, call, no_figures):
    code, out, err = call(f"train {images} --out {tmp_path}/p.npz --weights {tiny} --epochs 2 --size 24 --batch 16")
    assert code == 0
    assert [line[:13] for line in err.splitlines()] == ["epoch 1 of 2:", "epoch 2 of 2:"]
    assert re.fullmatch(
        r"The logits of 24 held-out images \(accuracy \d\.\d+\) are in .*; next: pippin compare .*\n", out
    )
    with np.load(tmp_path / "p.npz") as kept:
        assert kept["logits"].shape == (24, 4)
        assert kept["logits"].dtype == np.float32
        assert [Path(file).parts[0] for file in kept["files"]] == kept["labels"].tolist()
        assert [Path(file).stem[:9] for file in kept["files"]] == kept["groups"].tolist()
        assert (images / kept["files"][0]).is_file()
    data = read_data(tmp_path / "p.npz")
    assert data.classes == CLASSES
    record = json.loads((tmp_path / "train.json").read_text())
    assert record["images"]["classes"] == dict.fromkeys(CLASSES, 20)
    assert (record["images"]["train"], record["images"]["held_out"]) == (56, 24)
    assert [epoch["number"] for epoch in record["epochs"]] == [1, 2]
    assert record["epochs"][-1]["accuracy"] == record["accuracy"]
    assert record["accuracy"] == np.mean(data.probs.argmax(axis=1) == data.truth())
    assert {"python", "pippin", "torch", "transformers"} <= set(record["versions"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.npz", "train.json", "weights"]
    assert call(f"compare {tmp_path}/p.npz --splits 20 --out {tmp_path}/out")[0] == 0


def test_images_under_a_path_that_is_no_utf8(tiny, tmp_path, call):
    """Bytes that are not UTF-8 are escaped in train.json."""
    folder = make_images(tmp_path / os.fsdecode(b"fields\xff"), 80, size=24, photos=10)
    code, _, err = call(f"train {folder} --out {tmp_path}/p.npz --weights {tiny} --epochs 1 --size 24 --batch 16")
    assert code == 0, err
    record = json.loads((tmp_path / "train.json").read_text(encoding="utf-8"))
    assert record["images"]["folder"] == str(folder)


def test_it_learns(tmp_path):
    """A new ResNet18 learns synthetic classes in a few epochs."""
    make_images(tmp_path / "images", 120, size=24, noise=5)
    (tmp_path / "out").mkdir()
    found = train(tmp_path / "images", tmp_path / "out/p.npz", small_options("none", epochs=5), on_epoch=quiet)
    assert found.accuracy > 0.8
    assert found.epochs[-1].loss < found.epochs[0].loss


def test_the_seed_fixes_everything(images, tiny, tmp_path):
    """The caller's random state and threads have no effect, and are restored."""
    threads = torch.get_num_threads()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first = train(images, tmp_path / "p.npz", small_options(tiny), on_epoch=quiet)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads
    again = train(images, tmp_path / "p.npz", small_options(tiny), on_epoch=quiet)
    np.testing.assert_allclose(again.logits, first.logits, rtol=1e-4, atol=1e-4)
    other = train(images, tmp_path / "p.npz", small_options(tiny, seed=1), on_epoch=quiet)
    assert set(other.files) != set(first.files)


def test_pixels_that_do_not_fit_are_read_again(images, tiny, tmp_path):
    kept = train(images, tmp_path / "p.npz", small_options(tiny), on_epoch=quiet)
    streamed = train(images, tmp_path / "p.npz", small_options(tiny), on_epoch=quiet, cache=0)
    np.testing.assert_allclose(streamed.logits, kept.logits, rtol=1e-4, atol=1e-4)


def test_weights_make_a_round_trip(images, tiny, tmp_path):
    """The saved weights compute the same logits, and can be trained further, also for other classes."""
    found = train(images, tmp_path / "p.npz", small_options(tiny), on_epoch=quiet)
    loaded = make_network(str(tmp_path / "weights"), found.classes, 24, seed=0)
    pixels = np.stack([read_image(images / file, 24) for file in found.files])
    loaded.model.eval()
    with torch.no_grad():
        logits = loaded(torch.from_numpy(pixels).float() / 255).numpy()
    np.testing.assert_allclose(logits, found.logits, rtol=1e-4, atol=1e-4)
    assert loaded.model.config.id2label == dict(enumerate(CLASSES))
    wider = make_network(str(tmp_path / "weights"), ("a", "b", "c", "d", "e"), 24, seed=0)
    assert wider.model.config.num_labels == 5
    (tmp_path / "more").mkdir()
    further = train(images, tmp_path / "more/p.npz", small_options(str(tmp_path / "weights")), on_epoch=quiet)
    assert further.epochs[0].loss < found.epochs[0].loss


def test_class_names_may_be_numbers(images, tiny, tmp_path):
    for number, name in enumerate(CLASSES):
        (tmp_path / "images" / str(9 - number)).parent.mkdir(exist_ok=True)
        (tmp_path / "images" / str(9 - number)).symlink_to(images / name)
    found = train(tmp_path / "images", tmp_path / "p.npz", small_options(tiny, epochs=1), on_epoch=quiet)
    assert read_data(tmp_path / "p.npz").truth().tolist() == found.labels.tolist()


WITHOUT = """
import sys
for name in {names}: sys.modules[name] = None
from pippin.images.training import Options, train
train({images!r}, {out!r}, Options(weights={weights!r}, epochs=1, size=24))
"""


def test_training_needs_neither_the_command_line_nor_the_compiler(images, tiny, tmp_path):
    names = ("typer", "rich", "polars", "numba", "matplotlib", "torchvision")
    code = WITHOUT.format(names=names, images=str(images), out=str(tmp_path / "p.npz"), weights=str(tiny))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("epoch 1 of 1: loss ")


def test_a_missing_extra_is_one_sentence(images, tmp_path):
    code = "import sys; sys.modules['torch'] = None; from pippin.cli import main; main()"
    command = [sys.executable, "-c", code, "train", str(images), "--out", str(tmp_path / "p.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == ('pippin: Training on images needs torch: pip install "pippin-conformal[vision]".\n')
