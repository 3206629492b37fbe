"""Views (eight flips and turns of each image): their mean logits in training, in field models, and in ONNX graphs."""

import json

import numpy as np
import onnx
import pytest

import pippin
from pippin.images import FieldModel
from pippin.images.reading import read_image
from support.exported_code import run_onnx
from support.small_field import make_parts, photograph

pytestmark = pytest.mark.usefixtures("one_thread")

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def plain(images, tiny, tmp_path_factory):
    return make_parts(images, tiny, tmp_path_factory.mktemp("plain"), features=True)


@pytest.fixture(scope="module")
def viewed(images, tiny, tmp_path_factory):
    """Train the same network as in `plain`, and write mean logits and features of views."""
    return make_parts(images, tiny, tmp_path_factory.mktemp("viewed"), features=True, views=True)


def make(parts, **more):
    return FieldModel.make(parts / "weights", parts / "predictor.json", decider=parts / "decider.json", **more)


def mean_of_views(compute, pixels):
    """Average `compute` over the images as they are and mirrored, each turned by 0, 90, 180 and 270 degrees."""
    both = pixels, pixels[..., ::-1]
    turned = [np.rot90(each, k, axes=(-2, -1)) for each in both for k in range(4)]
    assert len({view.tobytes() for view in turned}) == 8
    return np.mean([compute(np.ascontiguousarray(view)) for view in turned], axis=0)


def test_logits_are_means_over_flips_and_turns(plain, viewed, images):
    """Training and the field model compute the means of the network without views, which has the same weights."""
    assert (plain / "weights/model.safetensors").read_bytes() == (viewed / "weights/model.safetensors").read_bytes()
    one, eight = make(plain, window=24), make(viewed, window=24)
    with np.load(viewed / "probs.npz") as arrays:
        files, logits, features = (arrays[name] for name in ("files", "logits", "features"))
    pixels = np.stack([read_image(images / str(file), 24) for file in files])
    np.testing.assert_allclose(logits, mean_of_views(one.logits, pixels), **CLOSE)
    np.testing.assert_allclose(features, mean_of_views(lambda p: one.network.outputs(p, True)[1], pixels), **CLOSE)
    np.testing.assert_array_equal(eight.logits(pixels), logits)
    assert np.abs(one.logits(pixels) - logits).max() > 0.01
    look = eight.look(photograph(1))
    np.testing.assert_allclose(look.logits, mean_of_views(one.logits, eight.cut(look.image)[1]), **CLOSE)
    assert "eight flips and turns" in eight.describe()
    assert "eight" not in one.describe()
    assert json.loads((viewed / "train.json").read_bytes())["options"]["views"] is True


def test_graphs_have_the_views(viewed, tmp_path):
    """The saved model gives the same results in torch and in ONNX, and the graph alone has its sets."""
    model = make(viewed, window=24).with_onnx()
    model.save(tmp_path / "MODEL")
    in_torch, in_onnx = (FieldModel.load(tmp_path / "MODEL", runtime=name) for name in ("auto", "onnxruntime"))
    looks = [each.look(photograph(2)) for each in (in_torch, in_onnx)]
    np.testing.assert_allclose(looks[0].logits, looks[1].logits, **CLOSE)
    assert looks[0].sets.labels() == looks[1].sets.labels()
    assert looks[0].actions.tolist() == looks[1].actions.tolist()
    pixels, graph = in_torch.cut(looks[0].image)[1], onnx.load_from_string(model.graph)
    for batch in (pixels, pixels[:1]):
        found = run_onnx(graph, pixels=batch)
        for name, expected in zip(("logits", "features"), in_torch.network.outputs(batch, True), strict=True):
            np.testing.assert_allclose(found[name], expected, **CLOSE)
        assert found["sizes"].ravel().tolist() == looks[0].sets.sizes[: len(batch)].tolist()


def test_parts_with_and_without_views_do_not_fit(plain, viewed):
    """A predictor that was calibrated without views does not fit weights with views, nor the other way round."""
    with pytest.raises(ValueError, match="without the views"):
        FieldModel.make(viewed / "weights", plain / "predictor.json")
    with pytest.raises(ValueError, match="logits of another network"):
        FieldModel.make(plain / "weights", viewed / "predictor.json")


def test_models_without_views_have_no_entry_of_them(plain, tmp_path):
    """The record of a training without views is that of earlier versions, which is read as one without views."""
    with np.load(plain / "weights/training.npz") as arrays:
        assert "views" not in arrays.files
    make(plain, window=24).save(tmp_path / "MODEL")
    loaded = FieldModel.load(tmp_path / "MODEL")
    assert not loaded.training.views
    assert not loaded.network.views


def test_views_from_the_command_line(images, tiny, tmp_path, call):
    line = f"train {images} --weights {tiny} --epochs 1 --size 24 --out {tmp_path}/probs.npz --views"
    assert call(line)[0] == 0
    with np.load(tmp_path / "weights/training.npz") as arrays:
        assert arrays["views"]
    assert call(f"calibrate {tmp_path}/probs.npz --score pip --alpha 0.3 --out {tmp_path}/p.json")[0] == 0
    made = call(f"field make --weights {tmp_path}/weights --predictor {tmp_path}/p.json --out {tmp_path}/MODEL")
    assert made[0] == 0
    assert "by the mean logits of eight flips and turns" in made[1]
    with np.load(tmp_path / "probs.npz") as arrays:
        logits, files = arrays["logits"], arrays["files"]
    expected = pippin.load(tmp_path / "p.json").predict(logits, from_logits=True)
    model = FieldModel.load(tmp_path / "MODEL")
    assert [model.look(images / str(file)).sets.labels()[0] for file in files] == expected.labels()
