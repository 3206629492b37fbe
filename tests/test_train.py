"""Training on a folder of images: what it writes, that it survives kill -9, and every wrong use as one sentence."""

import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageClassification, ResNetConfig

from made_images import CLASSES, make_images
from pippin.reading import read_data
from pippin.vision import Options, network, train, training
from pippin.vision.augmentation import augmented
from pippin.vision.images import Pixels, batches, divide, list_images, read_image
from pippin.vision.network import make_network

PIPPIN = [sys.executable, "-m", "pippin.cli"]
EPOCHS = 16  # of a run that is killed


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "1")  # tests that run beside each other would wait for each other


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Eighty windows of ten photographs."""
    return make_images(tmp_path_factory.mktemp("images"), 80, size=24, photos=10)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder of weights of a very small network."""
    folder = tmp_path_factory.mktemp("weights")
    config = ResNetConfig(depths=[1, 1], hidden_sizes=[8, 16], layer_type="basic", embedding_size=8, num_labels=7)
    torch.manual_seed(5)
    AutoModelForImageClassification.from_config(config).save_pretrained(folder)
    return str(folder)


def small(weights, **more):
    return Options(**{"weights": weights, "epochs": 3, "batch": 16, "size": 24, "learning_rate": 0.01} | more)


def quiet(epoch):
    """Tells nothing."""


# What it writes


def test_train_writes_logits_that_compare_reads_with_weights_and_a_record(images, tiny, tmp_path, call):
    code, out, err = call(f"train {images} --out {tmp_path}/p.npz --weights {tiny} --epochs 2 --size 24 --batch 16")
    assert code == 0
    assert [line[:13] for line in err.splitlines()] == ["epoch 1 of 2:", "epoch 2 of 2:"]
    assert re.fullmatch(
        r"The logits of 24 images held out, accuracy \d\.\d+, are in .*; next: pippin compare .*\n", out
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


def test_it_learns(tmp_path):
    """A ResNet18 from scratch tells made classes apart after a few epochs."""
    make_images(tmp_path / "images", 160, noise=10)
    (tmp_path / "out").mkdir()
    found = train(tmp_path / "images", tmp_path / "out/p.npz", small("none", epochs=5, size=32), tell=quiet)
    assert found.accuracy > 0.8
    assert found.epochs[-1].loss < found.epochs[0].loss


def test_the_seed_fixes_everything(images, tiny, tmp_path):
    """The caller's own random numbers and threads neither matter nor change."""
    threads = torch.get_num_threads()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first = train(images, tmp_path / "p.npz", small(tiny), tell=quiet)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads
    again = train(images, tmp_path / "p.npz", small(tiny), tell=quiet)
    np.testing.assert_allclose(again.logits, first.logits, rtol=1e-4, atol=1e-4)
    other = train(images, tmp_path / "p.npz", small(tiny, seed=1), tell=quiet)
    assert set(other.files) != set(first.files)


def test_pixels_that_do_not_fit_are_read_again(images, tiny, tmp_path):
    kept = train(images, tmp_path / "p.npz", small(tiny), tell=quiet)
    streamed = train(images, tmp_path / "p.npz", small(tiny), tell=quiet, cache=0)
    np.testing.assert_allclose(streamed.logits, kept.logits, rtol=1e-4, atol=1e-4)


def test_weights_make_a_round_trip(images, tiny, tmp_path):
    """The folder that train writes gives the same logits, and starts another training, of other classes too."""
    found = train(images, tmp_path / "p.npz", small(tiny), tell=quiet)
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
    further = train(images, tmp_path / "more/p.npz", small(str(tmp_path / "weights")), tell=quiet)
    assert further.epochs[0].loss < found.epochs[0].loss


def test_class_names_may_be_numbers(images, tiny, tmp_path):
    for number, name in enumerate(CLASSES):
        (tmp_path / "images" / str(9 - number)).parent.mkdir(exist_ok=True)
        (tmp_path / "images" / str(9 - number)).symlink_to(images / name)
    found = train(tmp_path / "images", tmp_path / "p.npz", small(tiny, epochs=1), tell=quiet)
    assert read_data(tmp_path / "p.npz").truth().tolist() == found.labels.tolist()


# Stopped and resumed


def test_a_killed_run_ends_like_one_that_was_not(images, tiny, tmp_path):
    """kill -9 at random points, thrice: the same logits, every epoch done once."""
    seed = int(time.time())
    print(f"seed {seed}")
    rng = random.Random(seed)
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    many = small(tiny, epochs=EPOCHS, batch=4, size=48)
    whole = train(images, tmp_path / "whole/p.npz", many, tell=quiet)
    options = f"--weights {tiny} --epochs {EPOCHS} --size 48 --batch 4 --learning-rate 0.01"
    command = [*PIPPIN, "train", str(images), "--out", str(tmp_path / "killed/p.npz"), *shlex.split(options)]
    told = []
    for lines in (rng.randint(0, 1), rng.randint(1, 2), rng.randint(1, 2)):
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            told += [process.stderr.readline() for _ in range(lines)]
            time.sleep(rng.uniform(0, 0.5 if lines else 4))
            process.kill()
            told += process.stderr.readlines()
        if process.returncode == 0:  # faster than the kill
            break
    else:
        told += subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    numbers = [int(line.split()[1]) for line in told]
    assert numbers == sorted(set(numbers))
    record, expected = (json.loads((tmp_path / name / "train.json").read_text()) for name in ("killed", "whole"))
    assert [epoch["number"] for epoch in record["epochs"]] == list(range(1, EPOCHS + 1))
    for ours, theirs in zip(record["epochs"], expected["epochs"], strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
    with np.load(tmp_path / "killed/p.npz") as kept:
        np.testing.assert_allclose(kept["logits"], whole.logits, rtol=1e-3, atol=1e-3)
        assert kept["files"].tolist() == whole.files.tolist()
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == ["p.npz", "train.json", "weights"]


def test_a_run_stopped_while_writing_trains_nothing_anew(images, tiny, tmp_path, monkeypatch):
    told = []
    with monkeypatch.context() as patch:
        patch.setattr(training, "write_trained", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(images, tmp_path / "p.npz", small(tiny), tell=told.append)
    (tmp_path / ".train.checkpoint.pt.1-aa.tmp").touch()
    (tmp_path / ".weights.1-new.tmp").mkdir()
    found = train(images, tmp_path / "p.npz", small(tiny), tell=told.append)
    assert [epoch.number for epoch in told] == [1, 2, 3]
    assert found.epochs == tuple(told)
    assert found.accuracy == told[-1].accuracy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.npz", "train.json", "weights"]


def test_a_checkpoint_of_another_run_is_refused(images, tiny, tmp_path):
    def stop(epoch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(images, tmp_path / "p.npz", small(tiny), tell=stop)
    with pytest.raises(ValueError, match=r"belongs to another run .*: delete it"):
        train(images, tmp_path / "p.npz", small(tiny, seed=1), tell=quiet)
    kept = tmp_path / "train.checkpoint.pt"
    kept.write_bytes(kept.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"is no checkpoint, or is damaged: delete it to start anew\."):
        train(images, tmp_path / "p.npz", small(tiny), tell=quiet)


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
    groups = found.groups()
    for seed in range(5):
        trains, held = divide(found, fraction, True, seed)
        assert not set(groups[trains]) & set(groups[held])
        assert len(trains) + len(held) == 80
        assert len(trains) == min(max(round(10 * fraction), 1), 9) * 8


def test_a_class_that_no_photograph_trains_is_told(tmp_path):
    for name, photo in (("oat", "a"), ("rye", "b")):
        for row in range(2):
            path = tmp_path / name / f"{photo}_{row}_0.png"
            path.parent.mkdir(exist_ok=True)
            Image.new("RGB", (8, 8)).save(path)
    with pytest.warns(UserWarning, match=r"No photograph that trains shows (oat|rye): "):
        divide(list_images(tmp_path), 0.5, True, 0)


def test_no_batch_has_a_single_row():
    assert [len(piece) for piece in batches(np.arange(33), 16)] == [16, 17]
    assert [len(piece) for piece in batches(np.arange(34), 16)] == [16, 16, 2]
    assert [len(piece) for piece in batches(np.arange(1), 16)] == [1]


# Pixels


def test_every_kind_of_picture_becomes_a_square_of_three_colours(tmp_path):
    grey = np.linspace(0, 255, 20 * 30).reshape(20, 30).astype(np.uint8)
    Image.fromarray(grey).save(tmp_path / "grey.png")
    Image.fromarray(grey.astype(np.uint16) * 256).save(tmp_path / "sixteen.png")
    Image.fromarray(grey).convert("P").save(tmp_path / "palette.png")
    Image.fromarray(grey).convert("RGBA").save(tmp_path / "alpha.png")
    expected = read_image(tmp_path / "grey.png", 16)
    assert expected.shape == (3, 16, 16)
    for name in ("sixteen", "palette", "alpha"):
        assert np.abs(read_image(tmp_path / f"{name}.png", 16).astype(int) - expected).max() <= 2
    turned = Image.new("RGB", (10, 10))
    turned.paste((255, 255, 255), (0, 0, 10, 5))
    exif = Image.Exif()
    exif[0x0112] = 3  # held upside down
    turned.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    assert read_image(tmp_path / "turned.jpg", 10)[:, :4].max() < 30


def test_views_keep_range_and_input_and_follow_the_generator():
    pixels = torch.rand(6, 3, 20, 20)
    before = pixels.clone()
    one, two = (augmented(pixels, "both", torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(pixels, before)
    assert one.shape == pixels.shape
    assert one.min() >= 0
    assert one.max() <= 1
    ramp = torch.linspace(0, 1, 20).expand(200, 3, 20, 20)  # brighter to the right
    for flips, sides, ups in (("none", 0, 0), ("horizontal", 100, 0), ("both", 100, 100)):
        seen = augmented(ramp, flips, torch.Generator().manual_seed(0))
        assert abs(int((seen[:, 0, 0, 0] > seen[:, 0, 0, -1]).sum()) - sides) < 30
        seen = augmented(ramp.mT, flips, torch.Generator().manual_seed(0))
        assert abs(int((seen[:, 0, 0, 0] > seen[:, 0, -1, 0]).sum()) - ups) < 30


def test_bad_images_are_named(images, tiny, tmp_path, call):
    """Cut short, no image, empty: all named at once, and nothing is written."""
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


# Wrong use


def empty_folder(folder):
    folder.mkdir()


def one_class(folder):
    make_images(folder, 8)
    for name in CLASSES[1:]:
        for file in (folder / name).iterdir():
            file.unlink()
        (folder / name).rmdir()


def lone_image(folder):
    make_images(folder, 5)


def bare_class(folder):
    make_images(folder, 8)
    (folder / "moss").mkdir()
    (folder / "moss/notes.txt").touch()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda folder: None, "Expected a folder of images, but there is no folder .*: check the path."),
        (empty_folder, ".* holds no images in sub-folders: put them in one sub-folder per class .*"),
        (one_class, ".* holds one class, 'blob', expected at least two: add a sub-folder per class."),
        (lone_image, "The class 'columns' of .* has one image, expected at least two .*: add images or .*"),
        (bare_class, "The class 'moss' of .* has no image, expected at least two .*: add images or .*"),
    ],
)
def test_a_folder_that_cannot_train_is_one_sentence(make, sentence, tmp_path, call):
    make(tmp_path / "images")
    code, out, err = call(f"train {tmp_path}/images --out {tmp_path}/p.npz --weights none")
    assert (code, out) == (2, "")
    assert re.fullmatch(f"pippin: {sentence}\n", err)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--epochs 0", "Expected --epochs to be a whole number of at least 1, got 0: raise it."),
        ("--batch 1", "Expected --batch to be a whole number of at least 2, got 1: raise it."),
        ("--size 4", "Expected --size to be a whole number of at least 8, got 4: raise it."),
        ("--train-fraction 1", "Expected --train-fraction between 0 and 1, got 1: write for example 0.7."),
        ("--learning-rate 0", "Expected --learning-rate above 0, got 0: write for example 0.001."),
        ("--group field", "Expected --group to be none or photo, got 'field': choose one of them."),
        ("--device tpu", "Expected --device to be auto or cpu or cuda, got 'tpu': choose one of them."),
        ("--weights ./none-here", "Expected --weights to be a folder or a name .*: check the path, or pass .*"),
        ("--weights {images}", "Expected weights in .*, but it has no config.json: name a folder .*"),
        ("--out {images}/p.npz", "Expected --out outside the folder of images, got .*: choose another place."),
        ("--out p.csv", "Expected --out to end in .npz, got p.csv: rename it."),
        ("--weights {tiny} --learning-rate 1e30", "Epoch 1 gave no finite numbers: pass a --learning-rate below .*"),
    ],
)
def test_wrong_options_are_one_sentence(line, sentence, images, tiny, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    rest = line.format(images=images, tiny=tiny)
    code, out, err = call(f"train {images} --out p.npz --size 24 --weights none {rest}")
    assert (code, out) == (2, "")
    assert re.fullmatch(f"pippin: {sentence}\n", err)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a graphics card")
def test_a_device_that_is_not_there(images, tmp_path):
    with pytest.raises(ValueError, match="but torch finds none: pass --device auto or cpu"):
        train(images, tmp_path / "p.npz", small("none", device="cuda"), tell=quiet)


def test_names_without_photographs_cannot_be_grouped(tmp_path, call):
    make_images(tmp_path / "images", 16)
    code, _, err = call(f"train {tmp_path}/images --out {tmp_path}/p.npz --weights none --group photo")
    assert code == 2
    assert re.search(r"expected names such as img_00012_3_4\.png .*, got blob/picture-0000\.png: rename .*", err)
    for file in list((tmp_path / "images").glob("*/*.png")):
        file.rename(file.with_name(f"img_{file.stem[-2:]}_1.png"))
    code, _, err = call(f"train {tmp_path}/images --out {tmp_path}/p.npz --weights none --group photo")
    assert "All images are of one photograph, img, expected at least two: pass --group none." in err


def test_without_network_and_weights_the_remedy_is_told(images, tmp_path, monkeypatch, call):
    """At once: the library alone would try again and again."""

    def unreachable(*args, **more):
        raise OSError("no network")

    monkeypatch.setattr(network.socket, "create_connection", unreachable)
    monkeypatch.setattr(network, "getproxies", dict)
    code, out, err = call(f"train {images} --out {tmp_path}/p.npz --weights nobody/no-such-network")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for words in ("nobody/no-such-network are not on this machine", "no network", "--weights FOLDER", "--weights none"):
        assert words in err


def test_damaged_weights_are_one_sentence(images, tiny, tmp_path, call):
    folder = tmp_path / "weights-cut"
    folder.mkdir()
    for file in Path(tiny).iterdir():
        content = file.read_bytes()
        (folder / file.name).write_bytes(content[:500] if file.suffix == ".safetensors" else content)
    code, _, err = call(f"train {images} --out {tmp_path}/p.npz --weights {folder}")
    assert code == 2
    assert re.fullmatch(r"pippin: .* cannot be used as an image classifier \(.*\): name another, or pass .*\n", err)


# What it needs

WITHOUT = """
import sys
for name in {names}: sys.modules[name] = None
from pippin.vision import Options, train
train({images!r}, {out!r}, Options(weights={weights!r}, epochs=1, size=24))
"""


def test_training_needs_neither_the_command_line_nor_the_compiler(images, tiny, tmp_path):
    names = ("typer", "rich", "polars", "numba", "matplotlib", "torchvision")
    code = WITHOUT.format(names=names, images=str(images), out=str(tmp_path / "p.npz"), weights=tiny)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("epoch 1 of 1: loss ")


def test_a_missing_extra_is_one_sentence(images, tmp_path):
    code = "import sys; sys.modules['torch'] = None; from pippin.cli import main; main()"
    command = [sys.executable, "-c", code, "train", str(images), "--out", str(tmp_path / "p.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        'pippin: Training on images needs torch, which is not installed: pip install "pippin-conformal[vision]"\n'
    )
