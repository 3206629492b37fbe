"""Wrong use of `pippin train` is one error message: folder, options, weights."""

import json
import re
import shutil
import subprocess

import pytest
import torch
from safetensors.torch import load_file

from pippin.images.training import network, train
from support.command import PIPPIN
from support.small_training import quiet, small_options
from support.synthetic_images import CLASSES, make_images

pytestmark = pytest.mark.usefixtures("one_thread")


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
        (lone_image, "The class 'columns' of .* has one image, expected at least two: add images, .* or .*"),
        (bare_class, "The class 'moss' of .* has no image, expected at least two: add images, .* or .*"),
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
        (
            "--weights {tiny} --learning-rate 1e30",
            "Epoch 1 had no finite loss or logits: pass a --learning-rate below .*",
        ),
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
        train(images, tmp_path / "p.npz", small_options("none", device="cuda"), on_epoch=quiet)


def test_names_without_photographs_cannot_be_grouped(tmp_path, call):
    make_images(tmp_path / "images", 16)
    code, _, err = call(f"train {tmp_path}/images --out {tmp_path}/p.npz --weights none --group photo")
    assert code == 2
    assert re.search(r"Expected names such as img_00012_3_4\.png .*, got blob/picture-0000\.png: rename .*", err)
    for file in list((tmp_path / "images").glob("*/*.png")):
        file.rename(file.with_name(f"img_{file.stem[-2:]}_1.png"))
    code, _, err = call(f"train {tmp_path}/images --out {tmp_path}/p.npz --weights none --group photo")
    assert "All images are of one photograph, img, expected at least two: pass --group none." in err


def test_the_error_without_network_and_weights_has_a_remedy(images, tmp_path, monkeypatch, call):
    """The error comes without delay, although transformers alone would retry for half a minute."""

    def unreachable(*args, **more):
        raise OSError("no network")

    monkeypatch.setattr(network.socket, "create_connection", unreachable)
    monkeypatch.setattr(network, "getproxies", dict)
    code, out, err = call(f"train {images} --out {tmp_path}/p.npz --weights nobody/no-such-network")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for words in (
        "nobody/no-such-network are not on this machine",
        "cannot be reached",
        "--weights FOLDER",
        "--weights none",
    ):
        assert words in err


def test_damaged_weights_are_one_sentence(images, tiny, tmp_path, call):
    folder = tmp_path / "weights-cut"
    folder.mkdir()
    for file in tiny.iterdir():
        content = file.read_bytes()
        (folder / file.name).write_bytes(content[:500] if file.suffix == ".safetensors" else content)
    code, _, err = call(f"train {images} --out {tmp_path}/p.npz --weights {folder}")
    assert code == 2
    assert re.fullmatch(r"pippin: .* cannot be used as an image classifier \(.*\): name another, or pass .*\n", err)


def test_pickled_weights_are_refused(images, tiny, tmp_path, call):
    """Weights are read as safetensors, and as nothing else."""
    folder = shutil.copytree(tiny, tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    code, _, err = call(f"train {images} --out {tmp_path}/p.npz --weights {folder}")
    assert code == 2
    assert "pickled cannot be used as an image classifier" in err


@pytest.mark.parametrize("mean", ["0.5", "555", [0.5], [0.5, 0.5, "x"], None])
def test_colour_statistics_that_are_no_numbers_are_named(images, tiny, tmp_path, call, mean):
    folder = shutil.copytree(tiny, tmp_path / "odd")
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_mean": mean, "image_std": [0.5, 0.5, 0.5]}))
    code, _, err = call(f"train {images} --out {tmp_path}/p.npz --weights {folder}")
    assert code == 2
    assert "odd has no three numbers as image_mean and image_std" in err


def test_code_in_a_folder_of_weights_is_not_run(tmp_path, images):
    """Weights that need their own code are refused without a prompt."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    code = f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\nclass Own: pass\n"
    (folder / "own.py").write_text(code)
    reported = {
        "model_type": "own",
        "auto_map": {"AutoConfig": "own.Own", "AutoModelForImageClassification": "own.Own"},
    }
    (folder / "config.json").write_text(json.dumps(reported))
    command = [*PIPPIN, "train", str(images), "--out", str(tmp_path / "p.npz"), "--weights", str(folder)]
    done = subprocess.run(command, input="y\ny\ny\n", capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot be used as an image classifier" in done.stderr
    assert not (tmp_path / "ran").exists()
